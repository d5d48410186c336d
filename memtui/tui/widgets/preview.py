"""The preview: a note around one of its chunks, or with the borders of them all, or rendered."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding
from textual.content import Content, Span
from textual.message import Message
from textual.style import Style

from memtui.engine.ports import SourceText
from memtui.memory.care.rules import WrittenLink, written_links
from memtui.model import Chunk
from memtui.report.words import line_spans
from memtui.retrieval.marks import match_spans
from memtui.text.languages import language_of
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.bindings import bindings
from memtui.tui.highlight import MAX_CELLS, Highlighter, display_line
from memtui.tui.widgets.lists import LineView

CONTEXT_LINES = 2
PIECE = MAX_CELLS // 2
"""Characters of a longer line that are wrapped and coloured at a time, at least half as many."""
_INDEXED = "Indexed text, file changed · F8 difference"
_RENDERED_MARGIN = 2
_PARTS = "number chunk-number marker chunk passage match gone border link"
_BEGINNING = 100
"""So many blocks tell the language of a note."""
_LOOKBACK = 8
"""So many chunks before a line may still reach it: chunks overlap by less than a chunk."""


def chunks_on(chunks: Sequence[Chunk], line: int) -> list[int]:
    """Return the places of the chunks that hold a line, 1-based, of chunks in the file's order."""
    after = bisect_right(chunks, line, key=lambda chunk: chunk.start_line)
    near = range(max(0, after - _LOOKBACK), after)
    return [place for place in near if chunks[place].end_line >= line]


class RenderedLine(NamedTuple):
    """A line as it is drawn, and the 1-based line of the file that it came from."""

    content: Content
    source: int


class Mark(NamedTuple):
    """A match or a link, by its place in a block."""

    block: int
    start: int
    end: int
    link: WrittenLink | None = None


def link_style(link: WrittenLink | None) -> Style:
    """Return a style without colours by which the text that it is of can be followed."""
    return Style.from_meta({"link": tuple(link)}) if link is not None else Style()


def link_of(style: Style | str) -> WrittenLink | None:
    link = style.meta.get("link") if isinstance(style, Style) else None
    return WrittenLink(*link) if link else None


def in_pieces(lines: Sequence[str], first: int) -> tuple[Sequence[str], Sequence[int]]:
    """Cut lines of thousands of characters; return the pieces and the number of the line of each.

    The first line is number `first`.
    """
    if all(len(line) <= PIECE for line in lines):
        return lines, range(first, first + len(lines))
    texts, numbers = list[str](), list[int]()
    for number, line in enumerate(lines, first):
        at = 0
        while len(line) - at > PIECE:
            end = line.rfind(" ", at + PIECE // 2, at + PIECE) + 1 or at + PIECE
            texts.append(line[at:end])
            at = end
        texts.append(line[at:])
        numbers += [number] * (len(texts) - len(numbers))
    return texts, numbers


class NoteText:
    """The blocks of a note: its lines, pieces of very long ones, or its rendered lines."""

    def __init__(
        self,
        lines: Sequence[str] = (),
        first: int = 1,
        path: str = "",
        rendered: Sequence[RenderedLine] = (),
        *,
        has_links: bool = False,
    ) -> None:
        """`first` is the number of the first line; `has_links`: links of its text are told."""
        self.rendered = rendered
        self.terms: tuple[str, ...] = ()
        """The words of the query."""
        self.numbers: Sequence[int]
        """The line of the note, 1-based, that each block is of."""
        self._texts, self.numbers = in_pieces(lines, first)
        if rendered:
            self.numbers = [line.source for line in rendered]
        self._has_links = has_links
        self._highlighter = Highlighter(self._texts, path)

    def block_of(self, line: int) -> int:
        """Return the first block of a line; of one that has none, of the line before it."""
        at = max(0, bisect_right(self.numbers, line) - 1)
        return bisect_left(self.numbers, self.numbers[at]) if self.numbers else 0

    def blocks_of(self, first: int, last: int) -> range:
        return range(self.block_of(first), bisect_right(self.numbers, last))

    def heights(self, room: int) -> Iterator[int]:
        """Count the rows of each block in so many cells."""
        for text in self._texts if not self.rendered else ():
            is_short = len(text) <= room and text.isascii() and text.isprintable()
            yield 1 if is_short else sum(1 for _ in line_spans(display_line(text), room))
        for _ in self.rendered:
            yield 1

    def content(self, at: int) -> Content:
        if self.rendered:
            return self.rendered[at].content
        return Content.assemble(*self._highlighter.line(at))

    @cached_property
    def _language(self) -> str:
        beginning = range(len(self.numbers))[:_BEGINNING]
        return language_of("\n".join(map(self._plain, beginning)))

    def matches(self, at: int) -> list[Mark]:
        """Return where a block has words of the query."""
        if not self.terms:
            return []
        spans = match_spans(self._plain(at), self.terms, self._language)
        return [Mark(at, start, end) for start, end in spans]

    def links(self, at: int) -> list[Mark]:
        if self.rendered:
            spans = [(span, link_of(span.style)) for span in self.rendered[at].content.spans]
            return [Mark(at, span.start, span.end, link) for span, link in spans if link]
        if not self._has_links or not self._highlighter.is_text(at):
            return []
        links = sorted(written_links(self._plain(at)))
        return [Mark(at, one.start, one.end, one) for one in links]

    def _plain(self, at: int) -> str:
        return self.rendered[at].content.plain if self.rendered else display_line(self._texts[at])

    def next_link(self, step: int, start: tuple[int, int]) -> Mark | None:
        """Return the next link after a place of a block, or the last one before it."""
        last = len(self.numbers) - 1
        blocks = range(start[0], last + 1) if step > 0 else range(min(start[0], last), -1, -1)
        marks = (mark for block in blocks for mark in self.links(block)[::step])
        return next(
            (mark for mark in marks if (mark[:2] > start) is (step > 0) and mark[:2] != start), None
        )


class Preview(LineView):
    """A note, scrolled to a chunk: only the lines on screen are ever coloured and drawn.

    A block is a line of the note, or a piece of a very long one, wrapped; or a rendered line.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"preview--{part}" for part in _PARTS.split()}
    BINDINGS = bindings("preview")

    @dataclass
    class Opened(Message):
        """Enter was pressed, or a link clicked; `link` is the chosen one."""

        link: WrittenLink | None

    def __init__(self, *, is_file: bool = False, title: str = "Preview") -> None:
        """`is_file`: it is given whole files with all of their chunks."""
        super().__init__(id="file-view" if is_file else "preview")
        self._is_file = is_file
        advice = "Choose a file to read it" if is_file else "Select a result to read its note"
        self._hint = f"{advice} here."
        self.border_title = self._as_it_is = title
        self.chunks: Sequence[Chunk] = ()
        """All chunks of the file; empty where only the current one is marked."""
        self.chunk: Chunk | None = None
        self.chosen: Mark | None = None
        """The match or the link that was gone to."""
        self.passage = 0, 0
        """The first and the last line of the passage that the chunk is shown for."""
        self._source: SourceText | None = None
        self._note = NoteText()
        self._room = 0
        """The cells that the text was wrapped in."""
        self._drawn: dict[int, tuple[Content, Sequence[tuple[int, int]]]] = {}
        """The text of blocks that were drawn, and where each row of it begins and ends."""
        self._message = [Content(self._hint)]
        self._is_placed = True
        self._placed_at = -1.0
        """The row that the chunk was scrolled to: who is still there goes with it on a resize."""
        self._title = Content(title)
        self._matches: Sequence[Mark] | None = None

    @property
    def rendered(self) -> Sequence[RenderedLine]:
        """The lines that are shown in place of those of the file."""
        return self._note.rendered

    def show(
        self,
        source: SourceText | None,
        chunk: Chunk | None,
        terms: Sequence[str] = (),
        *,
        chunks: Sequence[Chunk] = (),
        rendered: Sequence[RenderedLine] = (),
        note: str = "",
        lines: tuple[int, int] = (0, 0),
    ) -> None:
        """Show a note scrolled to a chunk, with the words of the query and all `chunks` marked.

        Some `lines` of the chunk, first and last, are marked and scrolled to as its best passage.

        Without a source the chunk itself is shown, as the index holds it, until the note is
        read. A note that is gone is shown grey. Without either `note` is shown, or a hint.
        Reading the same note again does not scroll.
        """
        is_other_text = source is not self._source or source is None
        is_other_text |= rendered is not self.rendered
        is_same_query = tuple(terms) == self._note.terms
        before = self._place
        is_whole = chunk is None or lines == (chunk.start_line, chunk.end_line)
        self._source, self.chunk, self.chunks = source, chunk, chunks
        self.passage = (0, 0) if is_whole else lines
        is_gone = source is not None and source.state == "gone"
        is_indexed = source is not None and source.on_disk is not None
        place = path = source.path if source is not None else ""
        state = "loading" if chunk is not None else ""
        if source is not None:
            state = safe_line(source.detail)
        if chunk is not None:
            place = chunk.citation
            path = chunk.path
        if is_other_text:
            texts, first = list[str](), 1
            self._message = []
            if chunk is not None:
                texts, first = chunk.text.split("\n"), chunk.start_line
            if source is not None and (source.lines or chunk is None):
                texts, first = source.lines, 1
            self._note = NoteText(texts, first, path, rendered, has_links=self._is_file)
            if source is None and chunk is None:
                self._message = [Content(note or self._hint)]
            elif source is not None and not any(texts[:1]) and len(texts) <= 1:
                self._message = [Content(state if is_gone else "This note is empty.")]
        self._note.terms = tuple(terms)
        if is_other_text or not is_same_query:
            self._drawn, self.chosen, self._matches = {}, None, None
        if is_other_text or self._width != self.scrollable_content_region.width:
            self._wrap()
        title = note if source is not None else ""
        if chunk in chunks:
            title = f"chunk {fmt.count(chunks.index(chunk) + 1)} of {fmt.count(len(chunks))}"
        kind = "Rendered" if rendered else self._as_it_is
        self._title = Content(f"{kind}  {title}" if title else kind)
        if is_indexed:
            self._title, state = Content.styled(_INDEXED, "$state-warn"), ""
        self.border_title = self._title
        style = "$state-error" if is_gone else "$state-warn" if source is not None else ""
        parts = (Content.styled(state, style), Content(safe_line(place)))
        self.border_subtitle = Content(" · ").join(part for part in parts if part)
        self.update_classes({"-indexed": is_indexed, "-gone": is_gone})
        if before != self._place or not (is_same_query or chunk is None):
            self.action_chunk()
        self.refresh()

    @property
    def _place(self) -> tuple[str | None, str | None, tuple[int, int]]:
        path = self._source.path if self._source is not None else None
        return path, self.chunk.id if self.chunk is not None else None, self.passage

    @property
    def has_links(self) -> bool:
        return self._note.next_link(1, (0, -1)) is not None

    @property
    def render_width(self) -> int:
        """The cells that there are for rendered lines, with one left free behind them."""
        return self.scrollable_content_region.width - _RENDERED_MARGIN - 1

    def _wrap(self) -> None:
        self._width = self.scrollable_content_region.width
        self._room = max(0, self._width - self.margin_cells)
        self._drawn, self.chosen = {}, None
        self.set_heights(self._note.heights(self._room) if self._room else ())

    def _block(self, at: int) -> tuple[Content, Sequence[tuple[int, int]]]:
        """Return the text of a block with its colours, and where its rows begin and end."""
        if at not in self._drawn:
            note, content = self._note, self._note.content(at)
            if self._source is not None and self._source.state == "gone":
                content = Content(content.plain).stylize(self._mark_style("gone"))
            spans = [
                Span(mark.start, mark.end, style)
                for mark in (note.links(at) if not self.rendered else ())
                for style in (self._mark_style("link"), link_style(mark.link))
            ]
            style = self._mark_style("match")
            spans += [Span(mark.start, mark.end, style) for mark in note.matches(at)]
            rows = [(0, len(content))]
            if not self.rendered:
                rows = list(line_spans(content.plain, self._room))
            self._drawn[at] = content.add_spans(spans), rows
        return self._drawn[at]

    def _mark_style(self, kind: str) -> Style:
        return self.get_visual_style(f"preview--{kind}", partial=True)

    def notify_style_update(self) -> None:
        """Forget what was drawn in the old colours."""
        super().notify_style_update()
        self._drawn.clear()

    @property
    def top(self) -> tuple[int, int]:
        """The line of the note at the top of the view, 1-based, and its rows that are above it."""
        y = int(self.scroll_offset.y)
        if (place := self.block_at(y)) is None:
            return 1, 0
        line = self._note.numbers[place[0]]
        return line, y - self.tops[self._note.block_of(line)]

    def go_to_line(self, line: int, rows: int = 0) -> None:
        """Scroll a line of the file to the top, or one of its rows."""
        self._is_placed = True
        self.scroll_to_line(self.tops[min(self._note.block_of(line), len(self.tops) - 1)] + rows)

    def _row_of(self, mark: Mark) -> int:
        _, rows = self._block(mark.block)
        return self.tops[mark.block] + sum(1 for _, end in rows[:-1] if end <= mark.start)

    def action_chunk(self) -> None:
        """Scroll to the chunk, so far that its passage is in sight, or a word of the query."""
        self._is_placed = bool(self.is_mounted and self._room)
        if not self._is_placed:
            return
        top, chunk, note = 0, self.chunk, self._note
        height = self.scrollable_content_region.height
        if chunk is not None and note.numbers:
            blocks = note.blocks_of(chunk.start_line, chunk.end_line)
            marks = (mark for block in blocks for mark in note.matches(block))
            first = match = next(map(self._row_of, marks), self.tops[blocks.start])
            # A low preview has room for the passage alone, not for what stands before it.
            context = CONTEXT_LINES if height > 2 * CONTEXT_LINES else 0
            if any(self.passage):
                passage = note.blocks_of(*self.passage)
                first, match = self.tops[passage.start], self.tops[passage.stop] - 1
                blocks = blocks if context else passage
            top = self.tops[max(0, blocks.start - context)]
            if match >= top + height:
                fits = match < self.tops[blocks.start] + height
                top = match - height + 1 if fits else max(0, first - context)
        self.scroll_to_line(top)
        self._placed_at = self.scroll_target_y

    def action_match(self, step: int) -> None:
        """Go to the next or the previous word of the query, round at the ends."""
        note = self._note
        if self._matches is None:
            blocks = range(len(note.numbers))
            self._matches = [mark for block in blocks for mark in note.matches(block)]
        if not self._matches:
            self.notify("No match to go to: a match is a word of the query.", markup=False)
            return
        find = bisect_right if step > 0 else bisect_left
        at = find(self._matches, self._front(step), key=lambda mark: mark[:2]) - (step < 0)
        at %= len(self._matches)
        self._choose(self._matches[at], f"  match {at + 1} of {len(self._matches)}")

    def action_link(self, step: int) -> None:
        """Go to the next or the previous link; beyond the last one leave the key to the screen."""
        note, before = self._note, self.chosen
        mark = note.next_link(step, self._front(step))
        if mark is not None and before is not None and mark.link == before.link:
            # The rest of one that is wrapped.
            mark = note.next_link(step, (mark.block, mark.start))
        self._choose(mark)
        if mark is None:
            raise SkipAction

    def _front(self, step: int) -> tuple[int, int]:
        """Return the place of the chosen mark, where that is in sight; else of the first row."""
        y, mark = int(self.scroll_offset.y), self.chosen
        if mark is not None and 0 <= self._row_of(mark) - y < self.scrollable_content_region.height:
            return mark.block, mark.start
        if (place := self.block_at(y)) is None:
            return 0, 0
        start, _ = self._block(place[0])[1][place[1]]
        return place[0], start - (step > 0)

    def _choose(self, mark: Mark | None, number: str = "") -> None:
        self.chosen, self.border_title = mark, self._title + number
        if mark is not None:
            y, height = int(self.scroll_offset.y), self.scrollable_content_region.height
            if not y <= (row := self._row_of(mark)) < y + height:
                self.scroll_to_line(row - height // 3)
        self.refresh()
        self.refresh_bindings()

    def action_open(self) -> None:
        self.post_message(self.Opened(self.chosen.link if self.chosen is not None else None))

    def on_click(self, event: events.Click) -> None:
        if (link := event.style.meta.get("link")) and self.text_selection is None:
            self.post_message(self.Opened(WrittenLink(*link)))

    def on_resize(self, event: events.Resize) -> None:
        """Wrap for another width; place the chunk once there is a size to place it in."""
        event.prevent_default()
        is_at_chunk = self.scroll_target_y == self._placed_at
        if self._width != self.scrollable_content_region.width:
            top = self.top
            self._wrap()
            self.go_to_line(*top) if self._is_placed else None
        if is_at_chunk or not self._is_placed:
            self.action_chunk()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave keys of whole files, and those of a result, where there is none of these."""
        return action not in ("chunk", "link") or (action == "link") is self._is_file

    def worded(self, binding: Binding) -> Binding:
        is_link = not self._is_file or (self.chosen is not None and bool(self.chosen.link))
        is_useful = {"open": is_link, "match(1)": bool(self._note.terms)}
        return replace(binding, show=is_useful.get(binding.action, binding.show))

    @property
    def margin_cells(self) -> int:
        """Cells before the text: the line number, a space, the marker, and borders of chunks."""
        if self.rendered:
            return _RENDERED_MARGIN
        digits = max(4, len(str(self._note.numbers[-1]))) if self._note.numbers else 4
        return digits + (4 if self.chunks else 2)

    def border_at(self, line: int, *, is_first: bool = True, is_last: bool = True) -> str:
        """The character in the margin of a line, 1-based: where chunks begin, run and end.

        They begin in the first row of a line, and end in the last one; two are a double line.
        """
        inside = [self.chunks[place] for place in chunks_on(self.chunks, line)]
        begins = is_first and any(chunk.start_line == line for chunk in inside)
        # The index counts what follows a line feed at the end of a file as a line.
        ends = is_last and line in (self._note.numbers[-1], *(chunk.end_line for chunk in inside))
        match len(inside):
            case 0:
                return " "
            case 1 if begins:
                return "[" if ends else "╭"
            case 1:
                return "╰" if ends else "│"
        return "├" if begins or ends else "║"

    def frame_at(self, at: int) -> tuple[Style, Content]:
        block, _ = self.block_at(at) or (0, 0)
        line, chunk = self._note.numbers[block], self.chunk
        is_inside = chunk is not None and chunk.start_line <= line <= chunk.end_line
        is_passage = self.passage[0] <= line <= self.passage[1]
        marker = "▉" if is_passage else "▌" if is_inside else " "
        marker_style = self._mark_style("marker")
        if self.rendered:
            return self.visual_style, Content.styled(marker, marker_style) + " "
        style = self.visual_style
        if is_inside:
            style = self.get_visual_style(f"preview--{'passage' if is_passage else 'chunk'}")
        first = self.tops[bisect_left(self._note.numbers, line)]
        is_last = at + 1 == self.tops[bisect_right(self._note.numbers, line)]
        border = self.border_at(line, is_first=at == first, is_last=is_last)
        border = f"{border} " if self.chunks else ""
        number = f"{line if at == first else '':>{self.margin_cells - 2 - len(border)}} "
        number_style = self._mark_style("chunk-number" if is_inside else "number")
        return style, Content.assemble(
            (number, number_style), (marker, marker_style), (border, self._mark_style("border"))
        )

    def line_at(self, at: int) -> Content | None:
        if (place := self.block_at(at)) is None:
            return None
        content, rows = self._block(place[0])
        if (chosen := self.chosen) is not None and chosen.block == place[0]:
            content = content.stylize("reverse", chosen.start, chosen.end)
        start, end = rows[place[1]]
        return content[start:end]

    def joint_at(self, at: int) -> str:
        block, row = self.block_at(at) or (0, 0)
        rows = self._block(block)[1]
        return "\n" if row == 0 else " " if rows[row - 1][1] < rows[row][0] else ""
