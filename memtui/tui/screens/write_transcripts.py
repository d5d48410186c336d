"""Writing which conversations are indexed into the settings: the difference is shown first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from memtui.model.conversations import TranscriptSource
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.write_base import WriteScreen

if TYPE_CHECKING:
    from memtui.settings.saving import Plan
    from memtui.settings.settings_files import SettingsFiles

_KEYS = "enter write  j/k scroll  esc leave"


class WriteTranscripts(WriteScreen[bool]):
    """The difference of the user's settings file; Enter writes it. Returns whether it was."""

    CSS_PATH = "transcripts.tcss"
    PARTS = "write-transcripts"
    BINDING_GROUP_TITLE = "Write the sources"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "write", "write", id="write_transcripts.write"),
        Binding("j,down", "scroll(1)", "down", show=False, id="write_transcripts.down"),
        Binding("k,up", "scroll(-1)", "up", show=False, id="write_transcripts.up"),
        Binding("escape,q", "close", "leave", id="write_transcripts.close"),
    ]

    already = "The settings name these sources already."

    def __init__(
        self,
        files: SettingsFiles,
        found: Sequence[TranscriptSource],
        chosen: Collection[str],
        glyphs: Glyphs,
    ) -> None:
        """Of the sources found, the settings are to opt in those whose names are `chosen`."""
        super().__init__(files, glyphs)
        self._found = tuple(found)
        self._chosen = tuple(source.name for source in found if source.name in chosen)

    def compose(self) -> ComposeResult:
        """The file, the difference, what else there is to know."""
        with Vertical(id="write-transcripts-box", classes="transcripts-box"):
            yield Static(id="write-transcripts-path", markup=False)
            with VerticalScroll(id="write-transcripts-scroll"):
                yield Static(id="write-transcripts-difference", markup=False)
            yield Static(id="write-transcripts-notes", markup=False)

    def on_mount(self) -> None:
        """Find out what would change."""
        box = self.query_one("#write-transcripts-box")
        box.border_title = Content(self.BINDING_GROUP_TITLE or "")
        box.border_subtitle = Content(_KEYS)
        self.scroll.focus()
        self.draw()
        self.plan_anew()

    def plan_of(self, asked: object) -> Plan:
        """The plan of the settings with the chosen sources."""
        from memtui.index.transcripts.scope import is_source
        from memtui.settings.saving_transcripts import opted_in, plan_transcripts
        from memtui.settings.transcript_names import names_for

        named, _ = opted_in(self._files)
        places = [source.name for source in self._found if source.folder]
        sources = [name for name in self._chosen if is_source(name)]
        paths = [name for name in self._chosen if not is_source(name)]
        return plan_transcripts(self._files, names_for(named, places, sources), paths)

    def result_of(self, plan: Plan) -> bool:
        """That it is written."""
        return True

    def draw(self) -> None:
        """Draw the file, the difference, and what else there is to know."""
        self.query_one("#write-transcripts-path", Static).update(self.named_target)
        self.draw_difference()
        lines = [self.warning(self._told)] if self._told else []
        lines += self.warnings
        notes = self.query_one("#write-transcripts-notes", Static)
        notes.display = bool(lines)
        notes.update(Content("\n").join(lines))
        self.call_after_refresh(self.fit)
