"""What every way to open an index of memtui's own has in common."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from memtui.errors import SettingsError
from memtui.memory.discover import Scope
from memtui.settings.files import data_dir

if TYPE_CHECKING:
    from memtui.model import Ranked, Ranking
    from memtui.settings import Settings

LEAST_DEPTH: Final = 50


def utc_now() -> datetime:
    """The present moment, timezone-aware."""
    return datetime.now(UTC)


def depth_of(ranking: Ranking) -> int:
    """How many hits to fetch of each leg: enough that k and the weights can change without I/O."""
    return max(ranking.candidates, LEAST_DEPTH)


def scope_of(root: Path, settings: Settings) -> Scope:
    """Where the notes of a memory are looked for."""
    memory = settings.memory
    return Scope(root, memory.extra_paths, memory.ignore, memory.max_file_bytes)


def timed(rank: Callable[[], Ranked]) -> Ranked:
    """Rank, and say in the answer how many milliseconds that took."""
    started = perf_counter()
    ranked = rank()
    return replace(ranked, elapsed_ms=(perf_counter() - started) * 1000)


def data_dir_of(settings: Settings) -> Path:
    """The folder that holds the indexes; raises `SettingsError` for one that is not absolute."""
    configured = settings.index.data_dir
    if not configured:
        return data_dir()
    with suppress(RuntimeError):
        folder = Path(configured).expanduser()
        if folder.is_absolute():
            return folder
    # Anything else would depend on the current folder, which may be the memory itself.
    raise SettingsError(
        f"index.data_dir is {configured!r}",
        hint="give an absolute folder, or one that begins with ~",
    )
