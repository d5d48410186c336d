"""Which conversations are indexed: nothing is opted in before somebody says so here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message

from memtui.model.conversations import TranscriptSource
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import Modal
from memtui.tui.sessions.source_rows import source_facts, source_row
from memtui.tui.widgets.facts import Fact, Facts
from memtui.tui.widgets.line_view import TextBlock
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.screens.write import WriteTranscripts

TITLE = "Conversations in the index"
INTRO = (
    "What you and the assistant said is indexed of the sources that you choose, with credentials "
    "masked; tool results are not. The transcripts are only read."
)
_KEYS = "space choose  enter use until you quit  w write…  esc back"
_LABEL = 11


@dataclass
class SourcesFound(Message):
    """The places of transcripts were looked at."""

    sources: Sequence[TranscriptSource]
    error: str = ""


@dataclass
class SourcesUsed(Message):
    """The engine goes by the chosen sources; `error` says why it does not."""

    error: str = ""


class TranscriptsScreen(Modal[bool]):
    """Every place of transcripts. Returns whether another choice of them is indexed now."""

    CSS_PATH = "transcripts.tcss"
    BINDING_GROUP_TITLE = TITLE
    BINDINGS: ClassVar[list[BindingType]] = bindings("transcripts")

    def __init__(self, engine: Engine, options: UiOptions) -> None:
        super().__init__()
        self._engine = engine
        self._options = options
        self._glyphs = glyphs(options.glyphs)
        self.sources: dict[str, TranscriptSource] = {}
        """What is shown, by name."""
        self.wanted: set[str] = set()
        """The names that are chosen."""
        self._found = self._is_busy = False
        self._error = self._note = self._refusal = ""

    def compose(self) -> ComposeResult:
        """What is asked, the list, and what there is to know of the chosen place."""
        with Vertical(id="transcripts-box", classes="transcripts-box"):
            yield TextBlock(id="transcripts-intro")
            yield RowList(id="transcripts-list", marker=self._glyphs.marker)
            with VerticalScroll(id="transcripts-scroll", can_focus=False):
                yield Facts(label_width=_LABEL, id="transcripts-facts")

    def on_mount(self) -> None:
        """Look for the places."""
        self.query_one("#transcripts-box").border_title = Content(TITLE)
        intro = Content.styled(INTRO, fmt.MUTED)
        self.query_one("#transcripts-intro", TextBlock).show(lambda width: intro.wrap(width))
        self._list.focus()
        self._draw()
        self._look()

    @property
    def _list(self) -> RowList:
        return self.query_one("#transcripts-list", RowList)

    @property
    def chosen(self) -> TranscriptSource | None:
        """The place of the chosen row."""
        return self.sources.get(self._list.chosen_id or "")

    @work(thread=True, exit_on_error=False, description="look for transcripts")
    def _look(self) -> None:
        try:
            self.post_message(SourcesFound(self._engine.conversations.sources()))
        except Exception as error:
            # Whatever a folder does to its reader, the dialog says so in one line.
            self.post_message(SourcesFound((), str(error) or type(error).__name__))

    @on(SourcesFound)
    def sources_found(self, message: SourcesFound) -> None:
        """Show what was found, with what is indexed chosen."""
        message.stop()
        self._found, self._error = True, message.error
        self.sources = {source.name: source for source in message.sources}
        self.wanted = {source.name for source in message.sources if source.is_indexed}
        self._show_rows()

    def _show_rows(self) -> None:
        rows = [
            source_row(source, name in self.wanted, self._glyphs)
            for name, source in self.sources.items()
        ]
        self._list.set_rows(rows, self._list.chosen_id)
        self._draw()

    # --- drawing --------------------------------------------------------------------------------

    def _draw(self) -> None:
        facts = self.query_one("#transcripts-facts", Facts)
        source = self.chosen
        if source is not None:
            facts.show([*self._refused(), *source_facts(source)])
        elif self._error:
            told = f"{self._glyphs.error} {safe_line(self._error)}"
            facts.show([("", Content.styled(told, "$state-error"))])
        else:
            told = "no transcripts on this machine" if self._found else "looking for transcripts"
            facts.show([("", Content.styled(told + self._glyphs.ellipsis * (not self._found), ""))])
        self.query_one("#transcripts-scroll").scroll_home(animate=False)
        note = (f"{safe_line(self._note)}   ", "$state-warn bold") if self._note else ""
        box = self.query_one("#transcripts-box")
        box.border_subtitle = Content.assemble(note, _KEYS)
        self.call_after_refresh(self._fit)

    def _refused(self) -> list[Fact]:
        """Why the engine does not go by the choice; as long as it likes."""
        told = f"{self._glyphs.error} {safe_line(self._refusal)}"
        return [("", Content.styled(told, "$state-error"))] if self._refusal else []

    def on_resize(self, event: events.Resize) -> None:
        """Give what there is to know of a place the room that there is."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        scroll = self.query_one("#transcripts-scroll", VerticalScroll)
        box = self.query_one("#transcripts-box")
        others = [child for child in box.children if child.display and child is not scroll]
        # Two lines for the border.
        room = self.size.height - 2 - sum(child.outer_size.height for child in others)
        scroll.styles.max_height = max(2, room)

    # --- choosing -------------------------------------------------------------------------------

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Tell what there is to know of another place."""
        message.stop()
        self._draw()

    def action_toggle_source(self) -> None:
        """Choose the place, or choose it no more."""
        source = self.chosen
        if source is not None and not self._is_busy:
            self.wanted ^= {source.name}
            self._note = self._refusal = ""
            self._show_rows()

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen names, in the order of the list."""
        return tuple(name for name in self.sources if name in self.wanted)

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Index what is chosen, until the program ends."""
        message.stop()
        before = {name for name, source in self.sources.items() if source.is_indexed}
        if self._is_busy:
            return
        if self.wanted == before:
            self._note = "nothing changed: space chooses"
            self._draw()
        else:
            self._start_using()

    def _start_using(self) -> None:
        self._is_busy = True
        self._use(self.names)

    @work(thread=True, exit_on_error=False, description="choose the transcripts")
    def _use(self, names: Sequence[str]) -> None:
        try:
            self._engine.conversations.use_sources(names)
        except Exception as error:
            # As for the look: it is one line of this dialog.
            self.post_message(SourcesUsed(str(error) or type(error).__name__))
            return
        self.post_message(SourcesUsed())

    @on(SourcesUsed)
    def sources_used(self, message: SourcesUsed) -> None:
        """Close, or say why nothing changed."""
        message.stop()
        self._is_busy = False
        if message.error:
            self._refusal = message.error
            self._draw()
        else:
            self.dismiss(True)

    def action_scroll(self, lines: int) -> None:
        """Scroll what there is to know of the chosen place."""
        scroll = self.query_one("#transcripts-scroll", VerticalScroll)
        scroll.scroll_relative(y=lines, animate=False)

    def action_write(self) -> None:
        """Keep the choice in the settings, after showing the difference."""
        if self._options.files is None:
            self._note = "there are no settings to write here"
            self._draw()
        elif self._found and not self._error and not self._is_busy:
            self.app.push_screen(self._writing(), self._written)

    def _writing(self) -> WriteTranscripts:
        # Imported late: most people never write a settings file here.
        from memtui.tui.screens.write import WriteTranscripts

        assert self._options.files is not None
        found = tuple(self.sources.values())
        return WriteTranscripts(self._options.files, found, self.names, self._glyphs)

    def _written(self, written: bool | None) -> None:
        if written:
            self._start_using()

    def action_close(self) -> None:
        """Leave everything as it is."""
        self.dismiss(False)
