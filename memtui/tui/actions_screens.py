"""Going from screen to screen: search, browse, sessions, index, and places that lead across."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from textual.widgets import Input

from memtui.bus import Bus
from memtui.model import Chunk
from memtui.tui.actions_provider import ProviderActions
from memtui.tui.glyphs import glyphs
from memtui.tui.memories import OpenedMemory

if TYPE_CHECKING:
    from textual.screen import Screen

    from memtui.tui.screens.browse import BrowseScreen
    from memtui.tui.screens.sessions import SessionsScreen

_OPENING = "Still opening."


@runtime_checkable
class Stoppable(Protocol):
    """A screen that looks for something beside the loop."""

    def stop_running(self) -> bool:
        """Stop it; false when nothing runs."""


class ScreenActions(ProviderActions):
    """The screens of one memory; browse and sessions keep their state while it is open."""

    _browse: BrowseScreen | None = None
    _sessions: SessionsScreen | None = None

    # --- from screen to screen ------------------------------------------------------------------

    def action_show_search(self) -> None:
        """Go to the search screen, to its list where one pane is shown at a time."""
        if self.screen is self.search_screen:
            self.search_screen.show_pane("results")
            return
        while self.screen is not self.search_screen and len(self.screen_stack) > 1:
            self.pop_screen()

    def action_show_browse(self) -> None:
        """Go to the files of the memory; from a result to its chunk."""
        chunk = self._result()
        if chunk is not None:
            self.open_place(chunk.path, chunk.start_line, chunk.id)
        elif (screen := self._browse_screen()) is not None:
            self._bring(screen)

    def action_show_sessions(self) -> None:
        """Go to the conversations; from a result that is of one straight to its turn."""
        chunk = self._result()
        if chunk is not None and self.is_conversation(chunk.path):
            self.open_turn(chunk.path, chunk.start_line, chunk.end_line)
        elif (screen := self._sessions_screen()) is not None:
            self._bring(screen)

    def action_show_asked(self) -> None:
        """Show what the agent asked its memory, in every conversation."""
        screen = self._sessions_screen()
        if screen is not None:
            self._bring(screen)
            screen.open_asked()

    def action_show_index(self) -> None:
        """Go to the index screen; for another program's index to the one of its truth."""
        from memtui.tui.screens.index import IndexScreen
        from memtui.tui.screens.truth import TruthScreen

        if isinstance(self.screen, IndexScreen | TruthScreen):
            return
        is_foreign = self.engine is not None and self.engine.index.status().foreign is not None
        kind = TruthScreen if is_foreign else IndexScreen
        self.push_screen(kind(glyphs=glyphs(self.options.glyphs)))

    def action_interrupt(self) -> None:
        """Copy what is selected, else stop what runs, else quit."""
        focused = self.focused
        selected = focused.selected_text if isinstance(focused, Input) else ""
        selected = selected or self.screen.get_selected_text() or ""
        if selected:
            self.copy_to_clipboard(selected)
            self.notify("copied the selection", markup=False)
        elif not (self._stop_screen() or self.search_screen.stop_running()):
            self.exit(0)

    def _stop_screen(self) -> bool:
        """Stop what the screen in front looks for; false when it does not."""
        screen = self.screen
        return isinstance(screen, Stoppable) and screen.stop_running()

    # --- to a place -----------------------------------------------------------------------------

    def is_conversation(self, path: str) -> bool:
        """Whether a path of the index is that of a transcript, by its name."""
        return ".jsonl" in path.rpartition("/")[2]

    def open_place(self, path: str, line: int = 1, chunk_id: str | None = None) -> None:
        """Show a file of the memory at a line, on the browse screen."""
        screen = self._browse_screen()
        if screen is not None:
            screen.came_to_read |= screen not in self.screen_stack
            self._bring(screen)
            screen.open_place(path, line, chunk_id)

    def open_turn(self, path: str, line: int = 1, end_line: int | None = None) -> None:
        """Show a conversation at a line of its transcript, on the sessions screen.

        With `end_line` at the turn from `line` to there that holds the most of the query's words.
        """
        screen = self._sessions_screen()
        if screen is not None:
            self._bring(screen)
            screen.open_turn(path, line, end_line)

    def open_chunk(self, chunk_id: str) -> None:
        """Show everything that the index holds about one chunk."""
        from memtui.tui.screens.chunk import ChunkScreen

        if self._is_open():
            self.push_screen(ChunkScreen(self.options, chunk_id))

    def action_show_chunk(self) -> None:
        """Show everything that the index holds about the chosen result."""
        chunk = self._result()
        if chunk is not None:
            self.open_chunk(chunk.id)
        else:
            self.notify("No chunk: choose a result first.", markup=False)

    def action_show_care(self) -> None:
        """Show what of the memory needs care."""
        from memtui.tui.screens.care import CareScreen

        if self._is_open() and not isinstance(self.screen, CareScreen):
            self.push_screen(CareScreen(self.options))

    def run_query(self, query: str) -> None:
        """Ask a query on the search screen."""
        self.action_show_search()
        self.search_screen.set_query(query)

    def _result(self) -> Chunk | None:
        """The chosen result of the search screen, while that is in front with a list."""
        if self.screen is not self.search_screen or self.search_screen.ranked is None:
            return None
        return self.search_screen.selected_chunk()

    def _bring(self, screen: Screen[None]) -> None:
        """Put a screen in front: what lies over it is closed, else it comes over the others."""
        if screen in self.screen_stack:
            while self.screen is not screen:
                self.pop_screen()
        else:
            self.push_screen(screen)

    def _browse_screen(self) -> BrowseScreen | None:
        from memtui.tui.screens.browse import BrowseScreen

        if not self._is_open():
            return None
        if self._browse is None:
            self._browse = BrowseScreen(self.options)
            self.install_screen(self._browse, "browse")
        return self._browse

    def _sessions_screen(self) -> SessionsScreen | None:
        from memtui.tui.screens.sessions import SessionsScreen

        if not self._is_open():
            return None
        if self._sessions is None:
            self._sessions = SessionsScreen(self.options)
            self.install_screen(self._sessions, "sessions")
        return self._sessions

    def _is_open(self) -> bool:
        """Whether a memory is open."""
        if self.engine is None:
            self.notify(_OPENING, markup=False)
            return False
        return True

    def show_memory(self, memory: OpenedMemory, bus: Bus) -> None:
        """Show a memory in place of the one before, whose screens are left and forgotten."""
        if self.engine is not None and memory.engine is not self.engine:
            self._forget_screens()
        super().show_memory(memory, bus)

    def _forget_screens(self) -> None:
        kept = [screen for screen in (self._browse, self._sessions) if screen is not None]
        hidden = [screen for screen in kept if screen not in self.screen_stack]
        if len(hidden) < len(kept):
            self.action_show_search()
        for screen in kept:
            self.uninstall_screen(screen)
        for screen in hidden:
            # One on the stack is removed as it is left; what these look for goes on otherwise.
            screen.remove()
        self._browse = self._sessions = None
