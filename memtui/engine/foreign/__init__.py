"""Another program's index, and the proof that it ranks the same."""

from memtui.engine.foreign.agent import ForeignTarget, find_target

__all__ = ["ForeignTarget", "find_target"]
