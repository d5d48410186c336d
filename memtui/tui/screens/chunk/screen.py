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

from memtui.bus import Subscription
from memtui.model import Chunk, citation
from memtui.model.browsing import Neighbour
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.background import tell
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.place_actions import (
    app_of,
    browse_to,
    cite_lines,
    edit_at,
    follow_index,
    query_address,
)
from memtui.tui.screens.base import TALL, WIDE, BaseScreen
from memtui.tui.screens.chunk.lookup import AnsweredQueries, ChunkLookup
from memtui.tui.screens.chunk.rows import (
    LABEL,
    SORTS,
    WORDS,
    alike,
    neighbour_of,
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
    from memtui.engine import Engine
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

    place_line = query_one("#chunk-place", Static)
    note_line = query_one("#chunk-note", Static)
    sections = query_one("#chunk-sections", Static)
    facts = query_one(Facts)
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
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return self.memtui.engine

    @property
    def chunk(self) -> Chunk | None:
        """The chunk, once it is known."""
        return self.lookup.chunk

    def layout_classes(self) -> dict[str, bool]:
        """Those of every screen, and whether one part is shown at a time."""
        is_small = self.size.width < 60 or self.size.height < 16
        return {**super().layout_classes(), "-small": is_small}

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
        self._subscription = follow_index(self, self.content_changed)
        self.show_record()
        self.lookup.load()

    def on_unmount(self) -> None:
        """Stop following the index, and asking."""
        self.queries.stop()
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
            self.set_timer(FOLLOW_PAUSE, self._load_in_front)

    def _load_in_front(self) -> None:
        # One may lie over another, many deep; each is read when it is seen again.
        if self._is_behind and self.is_current:
            self._is_behind = False
            self.lookup.load()

    def on_screen_resume(self) -> None:
        """Read again what changed while another screen was in front."""
        self._load_in_front()

    def neighbours_loaded(self) -> None:
        """Show what is like it; then ask the queries, once."""
        self.show_neighbours()
        if not self.queries.was_asked and not query_address(self.engine):
            self.queries.ask(self.lookup.chunk_id)

    # --- what is shown --------------------------------------------------------------------------

    def show_record(self) -> None:
        """Draw what the index holds about the chunk."""
        self._show_note()
        record, engine = self.lookup.record, self.engine
        if record is None or engine is None:
            self.place_line.update(Content.styled(safe_line(self.lookup.chunk_id), "bold"))
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
        if self.lookup.record is not None and self.engine is not None:
            short = self.size.width < WIDE or self.size.height < TALL
            self.facts.show_facts(record_facts(self.lookup.record, self.engine.now(), short=short))

    def _show_note(self) -> None:
        note = self.lookup.note()
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
        if self.lookup.record is None or self.engine is None:
            return
        chunks = self.engine.index.status().chunks
        rows = term_rows(self.lookup.record.terms, self._sort, chunks, self.glyphs)
        self.terms.set_rows(rows, self.terms.chosen_id, empty="the keyword leg sees no words")
        count = fmt.count(len(self.lookup.record.terms))
        self.terms.border_title = Content.assemble("Terms  ", count)
        self.terms.border_subtitle = Content(f"{self._sort} first · o sorts")
        self._name_sections()

    def show_neighbours(self) -> None:
        """Draw what is like it."""
        if self.lookup.neighbours is None:
            waiting = f"{self.glyphs.ellipsis} looking for what is like it"
            empty = safe_line(self.lookup.neighbours_problem) or (
                "" if self.lookup.is_gone else waiting
            )
            self.like.set_rows((), empty=empty)
        else:
            terms = self.lookup.record.terms[:WORDS] if self.lookup.record is not None else ()
            words = tuple(term.term for term in terms)
            rows = neighbour_rows(self.lookup.neighbours, words, self.glyphs)
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
            address=query_address(self.engine),
            error_glyph=self.glyphs.error,
        )
        self.answers.set_rows(rows, self.answers.chosen_id, empty=empty)
        number = f"  {fmt.count(len(rows))}" if rows else ""
        self.answers.border_title = Content(f"Queries that it answers{number}")
        self.answers.border_subtitle = Content.styled(*self.queries.progress_note())
        self._name_sections()
        self.refresh_bindings()

    def _name_sections(self) -> None:
        """One line that names the parts where one is shown at a time."""
        record, neighbours = self.lookup.record, self.lookup.neighbours
        like = alike(neighbours) if neighbours is not None else ()
        counts = {
            "terms": len(record.terms) if record is not None else 0,
            "like": len(like),
            "queries": len(self.queries.answered or ()),
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
        return neighbour_of(self.lookup.neighbours, self.like.chosen_id)

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what there is nothing for."""
        if not self.is_mounted:
            return True
        if action == "follow":
            return self.lookup.successor is not None
        if action == "difference":
            return True if self.neighbour is not None and self.chunk is not None else None
        if action in ("edit", "browse", "pin", "cite", "copy_text"):
            return True if self.chunk is not None else None
        return True

    def worded(self, binding: Binding) -> Binding:
        """Say what a key does just now."""
        if binding.action == "ask" and self.queries.is_running:
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
        if self.chunk is not None and self.neighbour is not None:
            self.app.push_screen(SideScreen(self.chunk, self.neighbour.chunk, self.glyphs))

    def action_edit(self) -> None:
        """Open the file in the editor, at the first line of the chunk."""
        if self.chunk is not None:
            edit_at(self, self.chunk.path, self.chunk.start_line)

    def action_browse(self) -> None:
        """See the chunk in its file."""
        if self.chunk is not None:
            browse_to(self, self.chunk.path, self.chunk.start_line, self.chunk.id)

    def action_pin(self) -> None:
        """Follow the chunk on the search screen, or do not any more."""
        if self.chunk is not None:
            search = self.memtui.search_screen.inquiry
            search.pin_chunk(self.chunk)
            is_pinned = self.chunk.id in search.pins
            tell(self, "Pinned on the search screen." if is_pinned else "Not pinned any more.")

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
        if not self.queries.stop():
            return False
        self.show_queries()
        return True

    def action_cite(self) -> None:
        """Copy where the chunk is."""
        if self.chunk is not None:
            cite_lines(self, self.chunk.path, self.chunk.start_line, self.chunk.end_line)

    def action_copy_text(self) -> None:
        """Copy the text of the chunk; control characters are replaced."""
        if self.chunk is not None:
            self.app.copy_to_clipboard(safe(self.chunk.text))
            tell(self, f"copied {fmt.counted(self.chunk.text.count(chr(10)) + 1, 'line')}")
