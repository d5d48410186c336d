"""The turn in front: opening it in an editor, naming its place, the chunk that it is of."""

from __future__ import annotations

from pathlib import Path

from memtui.model import citation
from memtui.report.words import left_out_words
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.editor import edit_place
from memtui.tui.sessions.actions_asked import AskedActions


class TurnActions(AskedActions):
    """What happens with the turn in front, or with the chosen conversation."""

    def action_edit(self) -> None:
        """Open the transcript in the editor, at the line of the turn in front."""
        place = self._place()
        if place is None or self.engine is None:
            self.tell("Nothing to edit: choose a conversation first.")
            return
        path, line = place
        listing = self.listings.get(path)
        if listing is None:
            self.tell("No file to edit: this conversation is gone.", warning=True)
            return
        if listing.session:
            self.tell("No file to edit: this conversation is rows of a database.", warning=True)
            return
        edited = edit_place(self.app, self.options.editor, Path(listing.place), line)
        if edited.told:
            self.tell(edited.told, warning=not edited.is_error, error=edited.is_error)
        if edited.ran:
            self.refresh()
            self.engine.index.sync()

    def action_copy_citation(self) -> None:
        """Copy `path#L12`."""
        place = self._place()
        if place is None:
            self.tell("Nothing to copy: choose a conversation first.")
            return
        cited = safe_line(citation(place[0], place[1], place[1]))
        self.app.copy_to_clipboard(cited)
        self.tell(f"copied {cited}")

    def action_copy_text(self) -> None:
        """Copy the text of the turn in front, as far as it is read; control characters replaced."""
        turn, view = self.reader.turn, self.reader
        if turn is None:
            self.tell("Nothing to copy: open a conversation first.")
            return
        text = view.folds.wholes.get(view.at, turn.text)
        self.app.copy_to_clipboard(safe(text))
        rest = turn.size - len(text)
        more = f", {fmt.count(rest)} more are not shown: enter shows them" if rest > 0 else ""
        self.tell(f"copied {fmt.counted(len(text), 'character')}{more}")

    def action_show_chunk(self) -> None:
        """Show everything that the index holds about the chunk of the turn in front."""
        turn = self.reader.turn
        found = self._borders.at(turn.line) if turn is not None else None
        if found is not None:
            self.main_app.open_chunk(found[1].id)
        elif turn is not None and turn.left_out:
            self.tell(f"No chunk: this turn is left out, {left_out_words(turn.left_out)}.")
        else:
            self.tell("No chunk: the index has none of this turn.")

    def _place(self) -> tuple[str, int] | None:
        """The path and the line that keys are about: of the pane in front."""
        turn = self.reader.turn
        call = self._calls.get(self._chosen_call)
        if self.pane == "asked":
            return (call.path, call.line) if call is not None else None
        if self.pane == "reader" and self.conversation is not None and turn is not None:
            return self.conversation.listing.path, turn.line
        return (self.chosen.path, 1) if self.chosen is not None else None
