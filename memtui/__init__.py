"""See what an AI agent remembers, and why it recalls it.

The public names are loaded when they are first used, so that `import memtui` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memtui.engine import Engine as Engine
    from memtui.errors import MemtuiError as MemtuiError
    from memtui.model import Hit as Hit
    from memtui.model import IndexStatus as IndexStatus
    from memtui.model import Ranked as Ranked
    from memtui.model import Ranking as Ranking
    from memtui.ranking.pipeline import rank as rank
    from memtui.settings.load import SettingsFiles as SettingsFiles
    from memtui.settings.schema import Settings as Settings

__version__ = "0.1.0"

_PUBLIC = {
    "Engine": "memtui.engine",
    "Hit": "memtui.model",
    "IndexStatus": "memtui.model",
    "MemtuiError": "memtui.errors",
    "Ranked": "memtui.model",
    "Ranking": "memtui.model",
    "Settings": "memtui.settings.schema",
    "SettingsFiles": "memtui.settings.load",
    "rank": "memtui.ranking.pipeline",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
