"""The one door for every front end: open, search, rank, explain, sync, rebuild, status, close."""

from memtui.engine.engine import Engine
from memtui.engine.source import RebuildCost, RecentFile, SourceText

__all__ = ["Engine", "RebuildCost", "RecentFile", "SourceText"]
