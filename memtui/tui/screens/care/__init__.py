"""The care screen: what of the memory needs care."""

from memtui.tui.screens.care.screen import CareScreen

__all__ = ["CareScreen"]
