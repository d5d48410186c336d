"""The engine: one open memory with its services, whoever made its index."""

from memtui.engine.engine import Engine

__all__ = ["Engine"]
