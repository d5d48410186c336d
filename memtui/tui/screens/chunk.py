"""The chunk screen: facts, text, terms, what is like a chunk, and the queries that it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from memtui.engine import Engine
from memtui.engine.browse import answered_queries
from memtui.engine.search import Tops
from memtui.model import Chunk, citation
from memtui.model.browsing import AnsweredQuery, ChunkRecord, ChunkTerm, Neighbour, Neighbours
from memtui.report import chunk_record
from memtui.report.words import ALIKE_WORDS, WORDS
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import LongTask, in_background, tell
from memtui.tui.bindings import bindings, next_of
from memtui.tui.place_actions import act_on_place, app_of, query_address
from memtui.tui.screens.common import PartLine, act_on_part
from memtui.tui.screens.dialogs import SideScreen
from memtui.tui.side_by_side import SideText, one_text
from memtui.tui.widgets.bars import KeyBar, ScreenBar, draw_key
from memtui.tui.widgets.lists import LineView, Row, RowList, TextBlock, fact_lines, rows_of

FOLLOW_PAUSE = 0.5
"""Seconds after a change of the index before it is read again: a sync changes it many times."""
SORTS: Mapping[str, Callable[[ChunkTerm], Any]] = {
    "rarest": lambda term: (term.document_frequency, -term.count, term.term),
    "most frequent": lambda term: (-term.document_frequency, -term.count, term.term),
    "by count": lambda term: (-term.count, term.document_frequency, term.term),
    "by name": lambda term: term.term,
}
"""The orders of the terms, in the order of their key."""
ABOUT = "One part of the file, searched and ranked by itself"
_WORDS = 24
"""So many of the rarest words are looked for in neighbours."""


class ChunkScreen(Screen[None]):
    """Facts, text, terms, what is like the chunk, and the queries that it answers."""

    CSS_PATH = "chunk.tcss"
    AUTO_FOCUS = ""
    """The text gets the keys; what Textual would choose could come to the front before it."""
    BINDINGS = bindings("chunk")
    action_part = act_on_part

    parts = query_one(PartLine)
    text = query_one("#text", LineView)
    like = query_one("#like", RowList)
    terms = query_one("#terms", RowList)
    answers = query_one("#queries", RowList)

    def __init__(self, engine: Engine, chunk_id: str) -> None:
        super().__init__()
        self.engine, self.chunk_id = engine, chunk_id
        self.record: ChunkRecord | None = None
        """The newest that was read, also of a chunk that is gone."""
        self.is_gone = False
        """True if the index does not hold the chunk any more, or never did."""
        self.parts_of_file: Sequence[Chunk] = ()
        """The chunks of its file, in order, as the index has them now."""
        self.neighbours: Neighbours | None = None
        self.answered: Sequence[AnsweredQuery] | None = None
        """The queries of the history that the chunk answers; `None` before they were asked."""
        self._problems: dict[str, str] = {}
        """The errors of reading: of the `chunk`, of what is `like` it, of the `queries`."""
        self._query_count = 0
        self._asking = LongTask(self)
        self._was_asked = self._answers_are_old = False
        self._is_behind = False
        """True if the index changed: it is read again soon, or when the screen is in front."""
        self._sort = next(iter(SORTS))

    @property
    def chunk(self) -> Chunk | None:
        """The chunk, once it is read."""
        return self.record.chunk if self.record is not None else None

    @property
    def successor(self) -> Chunk | None:
        """The chunk at the lines of one that is gone."""
        gone = self.chunk if self.is_gone else None
        return chunk_near(self.parts_of_file, gone) if gone is not None else None

    @property
    def neighbour(self) -> Neighbour | None:
        kind, _, chunk_id = (self.like.chosen_id or "").partition(":")
        alike: Sequence[Neighbour] = getattr(self.neighbours, kind, ())
        return next((one for one in alike if one.chunk.id == chunk_id), None)

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield Static(id="chunk-place", markup=False)
        yield Static(id="chunk-note", markup=False)
        yield PartLine(WORDS["chunk_part"], "text")
        like, *lists = (
            RowList(id=name, opens=opens, secondary=True, classes="part")
            for name, opens in (("like", "open"), ("terms", "search for it"), ("queries", "ask"))
        )
        with Horizontal(id="chunk-body"):
            with Vertical(id="chunk-left", classes="part"):
                with VerticalScroll(id="facts", can_focus=False):
                    yield TextBlock()
                yield LineView(id="text")
            with Vertical(id="chunk-right", classes="part"):
                yield like
                with Vertical(id="chunk-lists", classes="part"):
                    yield from lists
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one("#facts").border_title = ABOUT
        self.text.border_title = Content("Text")
        self.parts.show("text")
        self.text.focus()
        self.load()

    def load(self) -> None:
        """Read the chunk from the index as it is now, then what is like it."""
        engine, chunk_id, before = self.engine, self.chunk_id, self.chunk

        def read() -> tuple[ChunkRecord | None, Sequence[Chunk]]:
            record = engine.browse.chunk_record(chunk_id)
            chunk = record.chunk if record is not None else before
            return record, engine.browse.chunks_of(chunk.path) if chunk is not None else ()

        def take(reading: tuple[ChunkRecord | None, Sequence[Chunk]]) -> None:
            record, self.parts_of_file = reading
            self.is_gone = record is None
            self.record = chunk_record.masked_record(record) if record is not None else self.record
            self._problems = {} if self.is_gone else {**self._problems, "chunk": ""}
            self._show()
            if record is not None:
                self._show_text(())
                find = partial(engine.browse.neighbours, chunk_id)
                look(find, take_neighbours, partial(take_neighbours, None))

        def take_neighbours(neighbours: Neighbours | None, error: str = "") -> None:
            self.neighbours = neighbours or self.neighbours
            self._take_problem("like", error and f"cannot be read: {error}")
            # The queries are asked once, and not where that sends them away.
            if not self._was_asked and not query_address(engine):
                self._ask()

        look = partial(in_background, self, group="chunk")
        look(read, take, lambda error: self._take_problem("chunk", f"cannot be read: {error}"))

    def _take_problem(self, part: str, problem: str) -> None:
        self._problems[part] = safe_line(problem)
        self._show()

    def content_changed(self) -> None:
        self._answers_are_old = True
        self._show_queries()
        if not self._is_behind:
            self._is_behind = True
            self.set_timer(FOLLOW_PAUSE, self.on_screen_resume)

    def on_screen_resume(self) -> None:
        """Read again what changed; of screens that lie over another, each when it is in front."""
        if self._is_behind and self.is_current:
            self._is_behind = False
            self.load()

    def _ask(self) -> None:
        search = app_of(self).search_screen
        queries, ranking = search.notes.queries, search.state.ranking
        if not queries:
            return

        def take(tops: Tops) -> None:
            self.answered, self._query_count = answered_queries(self.chunk_id, tops), len(tops)
            self._show()

        self._problems.pop("queries", None)
        self._was_asked, self._answers_are_old = True, False
        self._asking.start(
            partial(self.engine.search.tops, queries, ranking=ranking),
            take,
            lambda error: self._take_problem("queries", f"the queries cannot be asked: {error}"),
            self._show_queries,
        )
        self._asking.progress = (0, len(queries))
        self._show_queries()

    def stop_running(self) -> bool:
        """Stop asking the queries; false when none is asked."""
        was_running = self._asking.stop()
        if was_running:
            self._show_queries()
        return was_running

    @on(events.Resize)
    def _show(self) -> None:
        record, engine = self.record, self.engine
        note = next(filter(None, self._problems.values()), "")
        place = Content.styled(safe_line(self.chunk_id), "bold")
        if not note and self.is_gone and record is None:
            note = "no such chunk in the index · esc back"
        elif not note and self.is_gone:
            note = "gone from the index, as its whole file is · esc back"
            if (now := self.successor) is not None:
                lines = citation("", now.start_line, now.end_line).removeprefix("#")
                note = f"gone from the index · r current version: {lines}"
        self.set_class(bool(note), "-noted")
        warning = Content.styled(f"{glyphs.DEGRADED} {note}", "$state-error")
        self.query_one("#chunk-note", Static).update(warning)
        if record is not None:
            section = chunk_record.record_section(record, engine.now())
            ids = [one.id for one in self.parts_of_file]
            is_there = self.chunk_id in ids
            part = f"{ids.index(self.chunk_id) + 1} of {len(ids)} " if is_there else ""
            cited = safe_line(record.chunk.citation)
            place = Content.styled(f"Chunk {part}of {cited}", "bold $primary")
            cells = [row.cells for row in section.rows]
            facts = [(name, Content(safe_line(value))) for name, value in cells]
            self.query_one(TextBlock).show(partial(fact_lines, facts, column=12))
            terms = sorted(record.terms, key=SORTS[self._sort])
            chunks = engine.index.status().chunks
            self.terms.set_rows(
                rows_of(chunk_record.terms_section("", terms, chunks), [one.term for one in terms]),
                self.terms.chosen_id,
                empty="keyword match sees no words here",
            )
            self.terms.border_title = Content(f"Terms as indexed  {fmt.count(len(terms))}")
            self.terms.border_subtitle = f"{self._sort} first · " + draw_key("o", "sort")
        self.query_one("#chunk-place", Static).update(place)
        rows: list[Row] = []
        if self.neighbours is not None and record is not None:
            rarest = [term.term for term in record.terms[:_WORDS]]
            for one in chunk_record.neighbour_sections(self.neighbours, rarest):
                alike: Sequence[Neighbour] = getattr(self.neighbours, one.id)
                rows += rows_of(one, [f"{one.id}:{each.chunk.id}" for each in alike])
        empty = "… looking for similar chunks"
        if self.is_gone or self._problems.get("chunk") or self._problems.get("like"):
            empty = ""
        self.like.set_rows(rows, self.like.chosen_id, empty=empty)
        self.like.border_title = Content("Similar chunks")
        self.like.border_subtitle = draw_key("D", "compare with the marked one")
        self._show_queries()

    def _show_text(self, terms: tuple[str, ...]) -> None:
        if (chunk := self.chunk) is not None:
            side = SideText(chunk.path, chunk.start_line, chunk.text)
            # Another text would be another chunk.
            self.text.lay_out(lambda width: one_text(side, width, terms), again=True)

    def _show_queries(self) -> None:
        answered, is_asking = self.answered or (), self._asking.is_running
        history = app_of(self).search_screen.notes.queries
        query_count = self._query_count if self.answered is not None else len(history)
        number = fmt.count(query_count, "query", "queries")
        empty = progress = style = ""
        if not query_count:
            empty = "no queries with words in the history yet"
        elif self.answered is not None:
            empty = f"none of {number} with words finds it"
            progress = f"of {number}"
        elif not is_asking and not self.is_gone:
            address = query_address(self.engine)
            where = f"(sends them to {address})" if address else "of the history"
            empty = f"r ask the {number} {where}"
        if is_asking:
            done, total = map(fmt.count, self._asking.progress)
            progress, style = f"asking {done} of {total} · r stop", "$state-warn"
        elif self.answered is not None and self._answers_are_old:
            progress, style = "before the last change · r ask again", "$state-warn"
        rows = rows_of(chunk_record.queries_section("", answered), [one.query for one in answered])
        self.answers.set_rows(rows, self.answers.chosen_id, empty=empty)
        count = f"  {fmt.count(len(answered))}" if answered else ""
        self.answers.border_title = Content(f"Past queries that find it{count}")
        self.answers.border_subtitle = Content.styled(progress, style)
        alike = (one for kind in ALIKE_WORDS for one in getattr(self.neighbours, kind, ()))
        counts = {
            "terms": len(self.record.terms) if self.record is not None else 0,
            "like": len({one.chunk.id for one in alike}),
            "queries": len(answered),
        }
        self.parts.entitle(
            {
                name: f"{title} {fmt.count(counts[name])}" if counts.get(name) else title
                for name, title in WORDS["chunk_part"].items()
            }
        )
        self.refresh_bindings()

    @on(events.DescendantFocus)
    @on(RowList.Chosen)
    def _mark_words(self) -> None:
        if self.like.has_focus and (neighbour := self.neighbour) is not None:
            self._show_text(neighbour.shared)
        elif self.terms.has_focus and self.terms.chosen_id:
            self._show_text((self.terms.chosen_id,))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        has_chunk = self.is_mounted and self.chunk is not None
        if action == "place":
            return has_chunk or None
        return action != "difference" or (has_chunk and self.neighbour is not None) or None

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        if message.row_list is self.like and self.neighbour is not None:
            app_of(self).open_chunk(self.neighbour.chunk.id)
        elif message.row_list is self.answers:
            app_of(self).run_query(message.row_id)
        elif message.row_list is self.terms:
            self._show_text((message.row_id,))
            self.parts.show("text")
            self.call_after_refresh(self.text.focus)

    def action_difference(self) -> None:
        if self.chunk is not None and self.neighbour is not None:
            other = chunk_record.masked_neighbour(self.neighbour).chunk
            self.app.push_screen(SideScreen(self.chunk, other))

    def action_sort(self) -> None:
        self._sort = next_of(SORTS, self._sort)
        self._show()
        self.terms.action_end(-1)

    def action_refresh(self) -> None:
        """Ask the queries again, or stop; of a chunk that is gone show what stands there now."""
        if self.successor is not None:
            self.app.switch_screen(ChunkScreen(self.engine, self.successor.id))
        elif not self.stop_running() and not self.is_gone:
            self._ask()

    def action_place(self, verb: str) -> None:
        """Edit, browse, cite, pin or copy the chunk."""
        if (chunk := self.chunk) is None:
            return
        search = app_of(self).search_screen
        match verb:
            case "pin":
                search.notes.toggle_pin(chunk)
                is_pinned = chunk.id in search.state.pins
                tell(self, "Pinned on the search screen." if is_pinned else "Not pinned any more.")
            case "copy_text":
                search.notes.copy_text(chunk)
            case _:
                act_on_place(self, verb, chunk.path, chunk.start_line, chunk.end_line, chunk.id)


def chunk_near(chunks: Sequence[Chunk], gone: Chunk) -> Chunk | None:
    """Return the chunk that has most of the lines of one that is gone, else the nearest one."""

    def fit(chunk: Chunk) -> tuple[int, int]:
        shared = min(chunk.end_line, gone.end_line) - max(chunk.start_line, gone.start_line) + 1
        return (max(shared, 0), -abs(chunk.start_line - gone.start_line))

    return max(chunks, key=fit, default=None)
