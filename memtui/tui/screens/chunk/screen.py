"""The chunk screen: facts, text, terms, what is like a chunk, and the queries that it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from memtui.model import citation
from memtui.model.browsing import Neighbour
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.place_actions import (
    app_of,
    follow_index,
    query_address,
)
from memtui.tui.screens.base import TALL, WIDE, BaseScreen
from memtui.tui.screens.chunk.lookup import AnsweredQueries, ChunkLookup
from memtui.tui.screens.chunk.rows import (
    LABEL,
    SORTS,
    WORDS,
    neighbour_lists,
    neighbour_rows,
    query_rows,
    record_facts,
    term_rows,
)
from memtui.tui.screens.dialogs import SideScreen
from memtui.tui.side_by_side import SideText, one_text
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Facts, LineView
from memtui.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from memtui.bus import Subscription
    from memtui.tui.app import MemtuiApp

SECTIONS: Mapping[str, str] = {
    "facts": "Chunk",
    "text": "Text",
    "like": "Like it",
    "terms": "Terms",
    "queries": "Queries",
}
"""The parts of the screen by id, in the order of Tab."""
FOLLOW_PAUSE = 0.5
"""Seconds after a change of the index before it is read again: a sync changes it many times."""
_BOXES = ("chunk-left", "chunk-right", "chunk-lists")


class ChunkScreen(BaseScreen[None]):
    """Facts, text, terms, what is like the chunk, and the queries that it answers."""

    CSS_PATH = "chunk.tcss"
    BINDING_GROUP_TITLE = "Chunk"
    BINDINGS: ClassVar[list[BindingType]] = bindings("chunk")

    text = query_one("#text", LineView)
    like = query_one("#like", RowList)
    terms = query_one("#terms", RowList)
    answers = query_one("#queries", RowList)

    def __init__(self, options: UiOptions, chunk_id: str) -> None:
        super().__init__()
        self.glyphs = glyphs(options.glyphs)
        self.lookup = ChunkLookup(self, chunk_id)
        self.queries = AnsweredQueries(self)
        self._is_behind = False
        """The index changed; it is read again soon, or when the screen is in front."""
        self._subscription: Subscription | None = None
        self._front = "text"
        self._sort = next(iter(SORTS))
        self._shown_text: SideText | None = None

    @property
    def memtui(self) -> MemtuiApp:
        """The application."""
        return app_of(self)

    @property
    def neighbour(self) -> Neighbour | None:
        """The chosen neighbour."""
        kind, _, chunk_id = (self.like.chosen_id or "").partition(":")
        neighbours = neighbour_lists(self.lookup.neighbours).get(kind, ())
        return next((one for one in neighbours if one.chunk.id == chunk_id), None)

    def layout_classes(self) -> dict[str, bool]:
        """Return those of every screen, and whether one part is shown at a time."""
        is_small = self.size.width < 60 or self.size.height < 16
        return {**super().layout_classes(), "-small": is_small}

    def compose(self) -> ComposeResult:
        for name in ("place", "note", "sections"):
            yield Static(id=f"chunk-{name}", markup=False)
        lists = [
            RowList(id=name, marker=self.glyphs.marker, gap=0, secondary=True, classes="part")
            for name in ("like", "terms", "queries")
        ]
        with Horizontal(id="chunk-body"):
            with Vertical(id="chunk-left", classes="part"):
                with VerticalScroll(id="facts"):
                    yield Facts(label_width=LABEL)
                yield LineView(id="text")
            with Vertical(id="chunk-right", classes="part"):
                yield lists[0]
                with Vertical(id="chunk-lists", classes="part"):
                    yield from lists[1:]
        with Horizontal(id="chunk-keys"):
            yield KeyBar()

    def on_mount(self) -> None:
        """Look the chunk up, and follow the index from here on."""
        self.query_one("#facts").border_title = "Chunk"
        self._bring_to_front(self._front)
        self.text.focus()
        self._subscription = follow_index(self, self.content_changed)
        self.show_record()
        self.lookup.load()

    def on_unmount(self) -> None:
        """Stop following the index, and asking."""
        self.queries.task.stop()
        if self._subscription is not None:
            self._subscription.close()

    def on_resize(self, event: events.Resize) -> None:
        """Write the facts for the width."""
        self._show_facts()

    # --- what changes outside -------------------------------------------------------------------

    def content_changed(self) -> None:
        """Read it again soon."""
        self.queries.is_current = False
        self.show_queries()
        if not self._is_behind:
            self._is_behind = True
            self.set_timer(FOLLOW_PAUSE, self.on_screen_resume)

    def on_screen_resume(self) -> None:
        """Read again what changed; of screens that lie over another, each when it is in front."""
        if self._is_behind and self.is_current:
            self._is_behind = False
            self.lookup.load()

    def neighbours_loaded(self) -> None:
        """Show what is like it; then ask the queries, once."""
        self._show_neighbours()
        if not self.queries.was_asked and not query_address(self.memtui.engine):
            self.queries.ask(self.lookup.chunk_id)

    # --- what is shown --------------------------------------------------------------------------

    def show_record(self) -> None:
        """Draw what the index holds about the chunk."""
        note, chunk = self.lookup.note(), self.lookup.chunk
        self.set_class(bool(note), "-noted")
        self._write("note", Content.styled(f"{self.glyphs.problem} {note}", "$state-error"))
        if chunk is None:
            self._write("place", Content.styled(safe_line(self.lookup.chunk_id), "bold"))
        else:
            place = citation(chunk.path, chunk.start_line, chunk.end_line)
            self._write("place", Content.styled(safe_line(place), "bold $primary"))
            self._show_facts()
            self._show_text(())
            self._show_terms()
        self._show_neighbours()
        self.show_queries()

    def _write(self, name: str, content: Content) -> None:
        self.query_one(f"#chunk-{name}", Static).update(content)

    def _show_facts(self) -> None:
        record, engine = self.lookup.record, self.memtui.engine
        if record is not None and engine is not None:
            short = self.size.width < WIDE or self.size.height < TALL
            facts = record_facts(record, engine.now(), short=short)
            self.query_one(Facts).show_facts(facts)

    def _show_text(self, terms: tuple[str, ...]) -> None:
        chunk = self.lookup.chunk
        if chunk is not None:
            side = SideText(chunk.path, chunk.start_line, chunk.text)
            again, self._shown_text = side == self._shown_text, side
            self.text.border_title = Content("Text")
            self.text.lay_out(lambda width: one_text(side, width, terms), again=again)

    def _show_terms(self) -> None:
        record, engine = self.lookup.record, self.memtui.engine
        if record is not None and engine is not None:
            chunks = engine.index.status().chunks
            rows = term_rows(record.terms, self._sort, chunks, self.glyphs)
            self.terms.set_rows(rows, self.terms.chosen_id, empty="the keyword leg sees no words")
            self.terms.border_title = Content(f"Terms  {fmt.count(len(record.terms))}")
            self.terms.border_subtitle = Content(f"{self._sort} first · o sorts")
            self._name_sections()

    def _show_neighbours(self) -> None:
        lookup = self.lookup
        if lookup.neighbours is None:
            waiting = f"{self.glyphs.ellipsis} looking for what is like it"
            problem = safe_line(lookup.neighbours_problem)
            self.like.set_rows((), empty=problem or ("" if lookup.is_gone else waiting))
        else:
            terms = lookup.record.terms[:WORDS] if lookup.record is not None else ()
            words = tuple(term.term for term in terms)
            rows = neighbour_rows(lookup.neighbours, words, self.glyphs)
            self.like.set_rows(rows, self.like.chosen_id)
        self.like.border_title = Content("Like it")
        narrow = self.size.width < 60
        self.like.border_subtitle = Content("" if narrow else "⏎ its view · d difference")
        self._name_sections()

    def show_queries(self) -> None:
        """Draw the queries that it answers, and how far the asking is."""
        rows = query_rows(self.queries.answered or ())
        empty = self.queries.empty_note(
            is_gone=self.lookup.is_gone,
            address=query_address(self.memtui.engine),
            error_glyph=self.glyphs.problem,
        )
        self.answers.set_rows(rows, self.answers.chosen_id, empty=empty)
        number = f"  {fmt.count(len(rows))}" if rows else ""
        self.answers.border_title = Content(f"Queries that it answers{number}")
        self.answers.border_subtitle = Content.styled(*self.queries.progress_note())
        self._name_sections()
        self.refresh_bindings()

    def _name_sections(self) -> None:
        """Name the parts in one line, where one is shown at a time."""
        record = self.lookup.record
        like = neighbour_lists(self.lookup.neighbours).values()
        counts = {
            "terms": len(record.terms) if record is not None else 0,
            "like": len({one.chunk.id for neighbours in like for one in neighbours}),
            "queries": len(self.queries.answered or ()),
        }
        parts = []
        for name, title in SECTIONS.items():
            number = f" {fmt.count(counts[name])}" if counts.get(name) else ""
            style = "bold reverse" if name == self._front else ""
            parts.append(Content.styled(f" {title}{number} ", style))
        self._write("sections", Content(" ").join(parts))

    # --- the parts ------------------------------------------------------------------------------

    def _bring_to_front(self, name: str) -> None:
        self._front = name
        for other in SECTIONS:
            self.query_one(f"#{other}").set_class(other == name, "-front")
        for box in _BOXES:
            widget = self.query_one(f"#{box}")
            widget.set_class(bool(widget.query(f"#{name}")), "-front")
        self._name_sections()

    @on(events.DescendantFocus)
    def part_entered(self, event: events.DescendantFocus) -> None:
        """Show the part that got the keys, where one is shown at a time."""
        name = event.widget.id or ""
        if name in SECTIONS:
            if name != self._front:
                self._bring_to_front(name)
            self._mark_words()
            self.refresh_bindings()

    def action_section(self, step: int) -> None:
        """Give the keys to the next part."""
        names = list(SECTIONS)
        name = names[(names.index(self._front) + step) % len(names)]
        self._bring_to_front(name)
        self.call_after_refresh(self.query_one(f"#{name}").focus)

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Mark in the text what the chosen row is about."""
        message.stop()
        if message.row_list.has_focus:
            self._mark_words()
        self.refresh_bindings()

    def _mark_words(self) -> None:
        """Mark the words that the chosen neighbour shares, or the chosen term."""
        chosen = self.neighbour
        if self.like.has_focus and chosen is not None:
            self._show_text(chosen.shared)
        elif self.terms.has_focus and self.terms.chosen_id:
            self._show_text((self.terms.chosen_id,))

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what there is nothing for."""
        if not self.is_mounted:
            return True
        if action == "follow":
            return self.lookup.successor is not None
        if action in ("difference", "part"):
            is_there = self.lookup.chunk is not None
            return (is_there and (action == "part" or self.neighbour is not None)) or None
        return True

    def worded(self, binding: Binding) -> Binding:
        """Say what a key does just now."""
        if binding.action == "ask" and self.queries.task.is_running:
            return replace(binding, description="stop asking")
        return binding

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Open the view of a neighbour, ask a query, or go to a term in the text."""
        message.stop()
        if message.row_list is self.like and self.neighbour is not None:
            self.memtui.open_chunk(self.neighbour.chunk.id)
        elif message.row_list is self.answers:
            self.memtui.run_query(message.row_id)
        elif message.row_list is self.terms:
            self._show_text((message.row_id,))
            self._bring_to_front("text")
            self.call_after_refresh(self.text.focus)

    def action_follow(self) -> None:
        """Show what stands at the lines of a chunk that is gone."""
        if self.lookup.successor is not None:
            self.queries.reset()
            self.lookup.follow(self.lookup.successor)
            self.show_record()
            self.lookup.load()

    def action_difference(self) -> None:
        """Show the chosen neighbour beside this chunk."""
        chunk, neighbour = self.lookup.chunk, self.neighbour
        if chunk is not None and neighbour is not None:
            self.app.push_screen(SideScreen(chunk, neighbour.chunk, self.glyphs))

    def action_sort(self) -> None:
        """Sort the terms by the next order."""
        orders = list(SORTS)
        self._sort = orders[(orders.index(self._sort) + 1) % len(orders)]
        self._show_terms()
        self.terms.action_end(-1)

    def action_ask(self) -> None:
        """Ask the queries of the history, or stop asking them."""
        if not self.stop_running() and not self.lookup.is_gone:
            self.queries.ask(self.lookup.chunk_id)

    def stop_running(self) -> bool:
        """Stop asking the queries; false when none is asked."""
        was_running = self.queries.task.stop()
        if was_running:
            self.show_queries()
        return was_running
