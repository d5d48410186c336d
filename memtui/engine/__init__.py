"""The one door for every front end: open, search, rank, explain, sync, rebuild, status, close."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memtui.engine.source import RebuildCost, RecentFile, SourceText

if TYPE_CHECKING:
    from memtui.engine.engine import Engine as Engine

__all__ = ["Engine", "RebuildCost", "RecentFile", "SourceText"]


def __getattr__(name: str) -> Any:
    # Loading the engine loads the indexer, which another program's index does without.
    if name == "Engine":
        from memtui.engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
