"""The chunk screen: what the index holds about one chunk, what is like it, what it answers."""

from memtui.tui.screens.chunk.screen import ChunkScreen

__all__ = ["ChunkScreen"]
