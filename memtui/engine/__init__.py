"""The one door for every front end: open, search, rank, explain, sync, rebuild, status, close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memtui.engine.engine import Engine as Engine
    from memtui.engine.source import RebuildCost as RebuildCost
    from memtui.engine.source import RecentFile as RecentFile
    from memtui.engine.source import SourceText as SourceText

__all__ = ["Engine", "RebuildCost", "RecentFile", "SourceText"]


def __getattr__(name: str) -> Any:
    # Loading the engine loads the indexer, which another program's index does without, and a
    # single search does without all of them.
    if name == "Engine":
        from memtui.engine.engine import Engine

        return Engine
    if name in __all__:
        from memtui.engine import source

        return getattr(source, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
