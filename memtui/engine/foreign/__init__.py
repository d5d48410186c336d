"""The engine over an index that another program made, and the proof that it ranks the same."""

from memtui.engine.foreign.engine import ForeignEngine
from memtui.engine.foreign.target import ForeignTarget, find_target

__all__ = ["ForeignEngine", "ForeignTarget", "find_target"]
