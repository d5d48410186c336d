"""The browse screen: the files of a memory, the one that is read, and its days."""

from memtui.tui.screens.browse.screen import BrowseScreen

__all__ = ["BrowseScreen"]
