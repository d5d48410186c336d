"""Which conversations are indexed: nothing is opted in before somebody says so here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from memtui.model.conversations import TranscriptSource
from memtui.report.conversations import source_words
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_thread
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, Glyphs, glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.sessions.pane import aside, error_line
from memtui.tui.screens.write import WriteDialog, write_transcripts
from memtui.tui.widgets.line_view import Fact, Facts, TextBlock
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine

TITLE = "Conversations in the index"
INTRO = (
    "What you and the assistant said is indexed of the sources that you choose, with credentials "
    "masked; tool results are not. The transcripts are only read."
)
SKIPPED_SHOWN = 12
_KEYS = "space choose  enter use until you quit  w write…  esc back"
_LABEL = 11
_NAME = 24
_FOUND = 18


class TranscriptsScreen(BaseScreen[bool], ModalScreen[bool]):
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
        self._is_loaded = self._is_busy = False
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

    @property
    def names(self) -> tuple[str, ...]:
        """The chosen names, in the order of the list."""
        return tuple(name for name in self.sources if name in self.wanted)

    def _look(self) -> None:
        in_thread(
            self,
            lambda cancelled: self._engine.conversations.sources(),
            self._take,
            lambda error: self._take((), error),
            description="look for transcripts",
            group="look",
        )

    def _take(self, sources: Sequence[TranscriptSource], error: str = "") -> None:
        """Show what was found, with what is indexed chosen."""
        self._is_loaded, self._error = True, error
        self.sources = {source.name: source for source in sources}
        self.wanted = {source.name for source in sources if source.is_indexed}
        self._show_rows()

    def _show_rows(self) -> None:
        rows = [
            source_row(source, name in self.wanted, self._glyphs)
            for name, source in self.sources.items()
        ]
        self._list.set_rows(rows, self._list.chosen_id)
        self._draw()

    @on(RowList.Chosen)
    def _draw(self) -> None:
        """Show what there is to know of the chosen place."""
        facts: list[Fact] = []
        for error in filter(None, (self._refusal, "" if self.chosen else self._error)):
            facts.append(("", error_line(error, self._glyphs)))
        if self.chosen is not None:
            facts += source_facts(self.chosen)
        elif not self._error:
            searching = f"looking for transcripts{self._glyphs.ellipsis}"
            nothing = "no transcripts on this machine"
            facts.append(("", Content(nothing if self._is_loaded else searching)))
        self.query_one("#transcripts-facts", Facts).show_facts(facts)
        self.query_one("#transcripts-scroll").scroll_home(animate=False)
        note = (f"{safe_line(self._note)}   ", "$state-warn bold") if self._note else ""
        box = self.query_one("#transcripts-box")
        box.border_subtitle = Content.assemble(note, _KEYS)
        self.call_after_refresh(self._fit)

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

    def action_toggle_source(self) -> None:
        """Choose the place, or choose it no more."""
        source = self.chosen
        if source is not None and not self._is_busy:
            self.wanted ^= {source.name}
            self._note = self._refusal = ""
            self._show_rows()

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
            self._use()

    def _use(self) -> None:
        names = self.names
        self._is_busy = True
        in_thread(
            self,
            lambda cancelled: self._engine.conversations.use_sources(names),
            lambda nothing: self.dismiss(True),
            self._refuse,
            description="choose the transcripts",
            group="use",
        )

    def _refuse(self, error: str) -> None:
        """Say why nothing changed."""
        self._is_busy, self._refusal = False, error
        self._draw()

    def action_scroll(self, lines: int) -> None:
        """Scroll what there is to know of the chosen place."""
        scroll = self.query_one("#transcripts-scroll", VerticalScroll)
        scroll.scroll_relative(y=lines, animate=False)

    def action_write(self) -> None:
        """Keep the choice in the settings, after showing the difference."""
        files = self._options.files
        if files is None:
            self._note = "there are no settings to write here"
            self._draw()
        elif self._is_loaded and not self._error and not self._is_busy:
            sources = tuple(self.sources.values())
            dialog = WriteDialog(write_transcripts(files, sources, self.names), self._glyphs)
            self.app.push_screen(dialog, lambda written: self._use() if written else None)

    def action_close(self) -> None:
        """Leave everything as it is."""
        self.dismiss(False)


# --- rows and facts -------------------------------------------------------------------------------


def source_row(source: TranscriptSource, is_chosen: bool, glyphs: Glyphs) -> Row:
    """Draw whether it is chosen, its name, and how much of what was found is indexed."""

    def draw(width: int) -> Content:
        cells = max(8, min(_NAME, width // 3))
        name = fmt.fit(Content(safe_line(source.name)), cells)
        if not source.folder:
            found = "no such place"
        else:
            number = f"{fmt.count(source.found)} found  {fmt.size(source.size)}"
            found = number if source.found else "empty"
        line = Content.assemble(
            (f"[{'x' if is_chosen else ' '}]", "bold $primary" if is_chosen else fmt.MUTED),
            " ",
            name,
            " " * max(1, min(_NAME, width // 3) - name.cell_length),
            (f"{found:<{_FOUND}}", "" if source.found else fmt.MUTED),
            _state_words(source, is_chosen, glyphs),
        )
        return fmt.fit(line, width)

    return Row(source.name, draw)


def _state_words(source: TranscriptSource, is_chosen: bool, glyphs: Glyphs) -> tuple[str, str]:
    if is_chosen != source.is_indexed:
        words = "will be indexed" if is_chosen else "will be taken out of the index"
        return f" {'>' if glyphs is ASCII else '→'} {words}", "$state-warn"
    if not source.is_indexed:
        return " not indexed", fmt.MUTED
    return f" {fmt.count(source.indexed)} indexed", "$state-ok"


def source_facts(source: TranscriptSource) -> list[Fact]:
    """Return what is, or would be, indexed; how much; what is left out and why, by name."""
    facts = [
        (label, Content.styled(safe_line(text), "$state-warn" if label == "malformed" else ""))
        for label, text in source_words(replace(source, folder=fmt.home_relative(source.folder)))
    ]
    if source.skipped:
        counts = Counter(fmt.reason_words(file.reason) for file in source.skipped)
        words = "; ".join(f"{why} {fmt.count(number)}" for why, number in counts.most_common())
        facts.append(("skipped", Content(words)))
    for file in source.skipped[:SKIPPED_SHOWN]:
        why = safe_line(file.detail) or fmt.reason_words(file.reason)
        facts.append(("", Content.assemble(safe_line(file.path), (f"  {why}", fmt.MUTED))))
    more = len(source.skipped) - SKIPPED_SHOWN
    if more > 0:
        facts.append(("", aside(f"and {fmt.count(more)} more")))
    return facts
