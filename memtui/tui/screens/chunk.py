"""The chunk screen: what the index holds about one chunk, what is like it, what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from memtui.model import citation
from memtui.model.browsing import Neighbour
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.chunks.facts import LABEL, record_facts
from memtui.tui.chunks.rows import (
    SORTS,
    WORDS,
    alike,
    neighbour_of,
    neighbour_rows,
    query_rows,
    term_rows,
)
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import TALL, WIDE
from memtui.tui.screens.chunk_base import ChunkBase
from memtui.tui.screens.dialogs import SideScreen
from memtui.tui.side_by_side import SideText, one_text
from memtui.tui.widgets.facts import Facts
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import LineView
from memtui.tui.widgets.row_list import RowList

SECTIONS: Mapping[str, str] = {
    "facts": "Chunk",
    "text": "Text",
    "like": "Like it",
    "terms": "Terms",
    "queries": "Queries",
}
"""The parts of the screen by id, in the order of Tab."""
_BOXES = ("chunk-left", "chunk-right", "chunk-lists")


class ChunkScreen(ChunkBase):
    """Facts, text, terms, what is like the chunk, and the queries that it answers."""

    CSS_PATH = "chunk.tcss"
    BINDING_GROUP_TITLE = "Chunk"
    BINDINGS: ClassVar[list[BindingType]] = bindings("chunk")

    place_line = query_one("#chunk-place", Static)
    note_line = query_one("#chunk-note", Static)
    sections = query_one("#chunk-sections", Static)
    facts = query_one(Facts)
    text = query_one("#text", LineView)
    like = query_one("#like", RowList)
    terms = query_one("#terms", RowList)
    answers = query_one("#queries", RowList)

    def __init__(self, options: UiOptions, chunk_id: str) -> None:
        super().__init__(options, chunk_id)
        self._front = "text"
        self._sort = next(iter(SORTS))
        self._shown_text: SideText | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="chunk-place", markup=False)
        yield Static(id="chunk-note", markup=False)
        yield Static(id="chunk-sections", markup=False)
        with Horizontal(id="chunk-body"):
            with Vertical(id="chunk-left", classes="part"):
                with VerticalScroll(id="facts"):
                    yield Facts(label_width=LABEL)
                yield LineView(id="text")
            with Vertical(id="chunk-right", classes="part"):
                yield self._list("like")
                with Vertical(id="chunk-lists", classes="part"):
                    yield self._list("terms")
                    yield self._list("queries")
        with Horizontal(id="chunk-keys"):
            yield KeyBar()

    def _list(self, name: str) -> RowList:
        return RowList(
            id=name,
            marker=self.glyphs.marker,
            gap=0,
            secondary=True,
            classes="part",
        )

    def on_mount(self) -> None:
        """Look the chunk up, and follow the index from here on."""
        self.query_one("#facts").border_title = "Chunk"
        self._bring_to_front(self._front)
        self.text.focus()
        self.follow_index()
        self.show_record()
        self.load()

    def on_resize(self, event: events.Resize) -> None:
        """Write the facts for the width."""
        self._show_facts()

    # --- what is shown --------------------------------------------------------------------------

    def show_record(self) -> None:
        """Draw what the index holds about the chunk."""
        self._show_note()
        record, engine = self.record, self.engine
        if record is None or engine is None:
            self.place_line.update(Content.styled(safe_line(self.chunk_id), "bold"))
            self.show_neighbours()
            self.show_queries()
            return
        chunk = record.chunk
        place = safe_line(citation(chunk.path, chunk.start_line, chunk.end_line))
        self.place_line.update(Content.styled(place, "bold $primary"))
        self._show_facts()
        self._show_text(())
        self._show_terms()
        self.show_neighbours()
        self.show_queries()

    def _show_facts(self) -> None:
        if self.record is not None and self.engine is not None:
            short = self.size.width < WIDE or self.size.height < TALL
            self.facts.show(record_facts(self.record, self.engine.now(), short=short))

    def _show_note(self) -> None:
        note = self.note()
        self.set_class(bool(note), "-noted")
        self.note_line.update(Content.styled(f"{self.glyphs.error} {note}", "$state-error"))
        self.refresh_bindings()

    def _show_text(self, terms: tuple[str, ...]) -> None:
        if self.chunk is None:
            return
        side = SideText(self.chunk.path, self.chunk.start_line, self.chunk.text)
        again = side == self._shown_text
        self._shown_text = side
        self.text.border_title = Content("Text")
        self.text.lay_out(lambda width: one_text(side, width, terms), again=again)

    def _show_terms(self) -> None:
        if self.record is None or self.engine is None:
            return
        chunks = self.engine.index.status().chunks
        rows = term_rows(self.record.terms, self._sort, chunks, self.glyphs)
        self.terms.set_rows(rows, self.terms.chosen_id, empty="the keyword leg sees no words")
        count = fmt.count(len(self.record.terms))
        self.terms.border_title = Content.assemble("Terms  ", count)
        self.terms.border_subtitle = Content(f"{self._sort} first · o sorts")
        self._name_sections()

    def show_neighbours(self) -> None:
        """Draw what is like it."""
        if self.neighbours is None:
            waiting = f"{self.glyphs.ellipsis} looking for what is like it"
            empty = safe_line(self.neighbours_problem) or ("" if self.is_gone else waiting)
            self.like.set_rows((), empty=empty)
        else:
            terms = self.record.terms[:WORDS] if self.record is not None else ()
            words = tuple(term.term for term in terms)
            rows = neighbour_rows(self.neighbours, words, self.glyphs)
            self.like.set_rows(rows, self.like.chosen_id)
        self.like.border_title = Content("Like it")
        narrow = self.size.width < 60
        self.like.border_subtitle = Content("" if narrow else "⏎ its view · d difference")
        self._name_sections()

    def show_queries(self) -> None:
        """Draw the queries that it answers, and how far the asking is."""
        rows = query_rows(self.answered or ())
        self.answers.set_rows(rows, self.answers.chosen_id, empty=self.no_answers())
        number = f"  {fmt.count(len(rows))}" if rows else ""
        self.answers.border_title = Content(f"Queries that it answers{number}")
        self.answers.border_subtitle = self.asking_words()
        self._name_sections()
        self.refresh_bindings()

    def _name_sections(self) -> None:
        """One line that names the parts where one is shown at a time."""
        record, neighbours = self.record, self.neighbours
        like = alike(neighbours) if neighbours is not None else ()
        counts = {
            "terms": len(record.terms) if record is not None else 0,
            "like": len(like),
            "queries": len(self.answered or ()),
        }
        parts = []
        for name, title in SECTIONS.items():
            number = f" {fmt.count(counts[name])}" if counts.get(name) else ""
            style = "bold reverse" if name == self._front else ""
            parts.append(Content.styled(f" {title}{number} ", style))
        self.sections.update(Content(" ").join(parts))

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
        """The words that the chosen neighbour shares, or the chosen term."""
        chosen = self.neighbour
        if self.like.has_focus and chosen is not None:
            self._show_text(chosen.shared)
        elif self.terms.has_focus and self.terms.chosen_id:
            self._show_text((self.terms.chosen_id,))

    @property
    def neighbour(self) -> Neighbour | None:
        """The chosen neighbour."""
        return neighbour_of(self.neighbours, self.like.chosen_id)

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what there is nothing for."""
        if not self.is_mounted:
            return True
        if action == "follow":
            return self.successor is not None
        if action == "difference":
            return True if self.neighbour is not None and self.chunk is not None else None
        if action in ("edit", "browse", "pin", "cite", "copy_text"):
            return True if self.chunk is not None else None
        return True

    def worded(self, binding: Binding) -> Binding:
        """Say what a key does just now."""
        if binding.action == "ask" and self.asking is not None:
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
        if self.successor is not None:
            self.follow(self.successor)

    def action_difference(self) -> None:
        """Show the chosen neighbour beside this chunk."""
        if self.chunk is not None and self.neighbour is not None:
            self.app.push_screen(SideScreen(self.chunk, self.neighbour.chunk, self.glyphs))

    def action_edit(self) -> None:
        """Open the file in the editor, at the first line of the chunk."""
        if self.chunk is not None:
            self.edit_at(self.chunk.path, self.chunk.start_line)

    def action_browse(self) -> None:
        """See the chunk in its file."""
        if self.chunk is not None:
            self.browse_to(self.chunk.path, self.chunk.start_line, self.chunk.id)

    def action_pin(self) -> None:
        """Follow the chunk on the search screen, or do not any more."""
        if self.chunk is not None:
            search = self.memtui.search_screen.inquiry
            search.pin_chunk(self.chunk)
            is_pinned = self.chunk.id in search.pins
            self.tell("Pinned on the search screen." if is_pinned else "Not pinned any more.")

    def action_sort(self) -> None:
        """Sort the terms by the next order."""
        orders = list(SORTS)
        self._sort = orders[(orders.index(self._sort) + 1) % len(orders)]
        self._show_terms()
        self.terms.action_first()

    def action_ask(self) -> None:
        """Ask the queries of the history, or stop asking them."""
        if self.asking is not None:
            self.stop_asking()
            self.show_queries()
        else:
            self.ask()

    def action_cite(self) -> None:
        """Copy where the chunk is."""
        if self.chunk is not None:
            self.cite(self.chunk.path, self.chunk.start_line, self.chunk.end_line)

    def action_copy_text(self) -> None:
        """Copy the text of the chunk; control characters are replaced."""
        if self.chunk is not None:
            self.app.copy_to_clipboard(safe(self.chunk.text))
            self.tell(f"copied {fmt.counted(self.chunk.text.count(chr(10)) + 1, 'line')}")
