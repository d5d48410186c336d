"""The sessions screen and the dialogs that choose which conversations are indexed."""

from memtui.tui.screens.sessions.screen import SessionsScreen

__all__ = ["SessionsScreen"]
