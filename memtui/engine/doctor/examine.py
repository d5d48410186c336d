"""The whole examination: whatever cannot be looked at is a problem, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from memtui.engine.doctor.checks import (
    EXIT_SETTINGS,
    Area,
    Check,
    Configured,
    Grade,
    agent_checks,
    configured,
    folder_checks,
    gravest,
    index_checks,
    listed_by,
    memory_checks,
    probes_of,
    problem,
    program_checks,
    provider_checks,
    provider_listings,
    settings_checks,
    usable_settings,
    watcher_check,
)
from memtui.engine.engine import Engine, data_dir_of
from memtui.engine.own_index import scope_of
from memtui.errors import MemtuiError
from memtui.index.generations import IndexFolder
from memtui.memory.workspace import Found, workspace_id
from memtui.model import ProbeResult, ProviderListing
from memtui.settings import Settings, state_dir
from memtui.settings.load import Gathered, gather

Listings: TypeAlias = tuple[ProviderListing, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an examination starts from."""

    env: Mapping[str, str]
    home: Path
    flags: Mapping[str, Any]
    """Settings given as options, by dotted key."""
    find: Callable[[], Found]
    """Finds the memory folder; raises `WorkspaceNotFound`."""
    data_dir: Path | None = None
    """Where the indexes are kept; `None`: where the settings say."""


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that was found."""

    root: Path | None
    """The memory folder, `None` without one."""
    configured: tuple[Configured, ...]
    checks: tuple[Check, ...]
    providers: tuple[ProviderListing, ...]
    probes: tuple[ProbeResult, ...]

    @property
    def problems(self) -> tuple[Check, ...]:
        """What is wrong."""
        return tuple(check for check in self.checks if check.grade is Grade.PROBLEM)

    @property
    def exit_code(self) -> int:
        """That of the problem to put right first; 0 without any."""
        return gravest(self.checks)


def examine(
    around: Surroundings, *, probe: bool, tell: Callable[[str], None] = lambda line: None
) -> Examination:
    """Look at everything; with `probe` ask the providers that may be asked for a vector.

    Writes nothing but a database in the temporary folder. `tell` hears what takes a while.
    """
    checks = list(program_checks())
    found, missing = _workspace(around)
    root = found.root if found is not None else None
    gathered, unread = _settings(around, root)
    settings = usable_settings(gathered)
    checks += unread or settings_checks(gathered, settings)
    checks += _guarded(Area.FOLDERS, lambda: _folders(around.data_dir, settings, root))
    listings: Listings | None = None
    if found is None:
        checks += missing
    else:
        place = found
        scope = scope_of(place.root, settings)
        checks += _guarded(Area.MEMORY, lambda: memory_checks(place, scope))
        of_index, listings = _index(place.root, settings, around.data_dir)
        checks += of_index
        checks += _guarded(Area.WATCHER, lambda: iter([watcher_check(scope, settings)]))
    checks += _guarded(Area.AGENTS, lambda: agent_checks(around.env, around.home))
    listings = listings or provider_listings(settings.embedding)
    probes = tuple(probes_of(listings, settings.embedding, tell)) if probe else ()
    checks += provider_checks(settings.embedding, listings, probes)
    return Examination(root, configured(gathered), tuple(checks), listings, probes)


def _workspace(around: Surroundings) -> tuple[Found | None, list[Check]]:
    try:
        return around.find(), []
    except MemtuiError as error:
        check = problem(Area.MEMORY, "folder", error.message, error.hint, EXIT_SETTINGS)
        return None, [check]


def _settings(around: Surroundings, root: Path | None) -> tuple[Gathered, list[Check]]:
    try:
        return gather(flags=around.flags, env=around.env, root=root, state=None), []
    except MemtuiError as error:
        # There is no place for settings on this machine: the defaults hold.
        nothing = Gathered((), (), Path(), None)
        check = problem(Area.SETTINGS, "settings", error.message, error.hint, error.exit_code)
        return nothing, [check]


def _folders(data_dir: Path | None, settings: Settings, root: Path | None) -> Iterator[Check]:
    data = data_dir or data_dir_of(settings)
    index = data / workspace_id(root) if root is not None else None
    yield from folder_checks(state_dir(), data, index)


def _index(
    root: Path, settings: Settings, data_dir: Path | None
) -> tuple[list[Check], Listings | None]:
    """The index, and the providers with the one that answers for it; `None` without an engine."""
    try:
        with closing(Engine.open(root, settings, data_dir=data_dir, write=False)) as engine:
            listings = listed_by(engine)
            status = engine.index.status()
    except MemtuiError as error:
        code = error.exit_code
        return [problem(Area.INDEX, "index", error.message, error.hint, code)], None
    folder = IndexFolder(Path(status.index_dir))
    cache_mb = settings.index.cache_mb
    return _guarded(Area.INDEX, lambda: index_checks(status, folder, cache_mb)), listings


def _guarded(area: Area, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """What a look comes to; one that fails is itself the problem."""
    checks: list[Check] = []
    try:
        # One after the other: what was found before a failure is kept.
        for check in look():
            checks.append(check)
    except MemtuiError as error:
        checks.append(problem(area, area.value, error.message, error.hint, error.exit_code))
    except OSError as error:
        why = error.strerror or type(error).__name__
        checks.append(problem(area, area.value, f"cannot be looked at: {why}"))
    return checks
