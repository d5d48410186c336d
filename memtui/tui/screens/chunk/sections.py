"""What the chunk screen draws: facts, terms, what is like the chunk, queries that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from textual.content import Content

from memtui.model import Reason
from memtui.model.browsing import AnsweredQuery, ChunkRecord, ChunkTerm, Neighbour, Neighbours
from memtui.retrieval.marks import snippet
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.present.report import heading
from memtui.tui.widgets.line_view import Fact
from memtui.tui.widgets.result_rows import place_text
from memtui.tui.widgets.row_list import Row

SORTS: Mapping[str, Callable[[ChunkTerm], Any]] = {
    "rarest": lambda term: (term.document_frequency, -term.count, term.term),
    "most frequent": lambda term: (-term.document_frequency, -term.count, term.term),
    "by count": lambda term: (-term.count, term.document_frequency, term.term),
    "by name": lambda term: term.term,
}
"""The orders of the terms, in the order of their key."""
KINDS: Mapping[str, tuple[str, str]] = {
    "duplicate": ("Near-duplicates", "nearly the same words in nearly the same order"),
    "vector": ("By vector", "cosine of the stored vectors"),
    "words": ("By shared words", "share of the words that both have, rare ones weigh more"),
}
"""How a chunk may be like another one, and what the score is, in the order of the list."""
NEIGHBOUR_LINES = 2
WORDS = 24
"""So many of the words that chunks share are shown, or looked for."""
LABEL = 12
"""Cells of the labels of the facts."""
_SHORT = 32
"""Digits of an id or a hash where it is written short."""
_SEARCHED = 8_000
"""Characters of a neighbour in which the part that is shown is looked for."""
_BAR = 10
_SHORTEST_TERM, _LONGEST_TERM = 8, 28


def record_facts(record: ChunkRecord, now: datetime, *, short: bool = False) -> list[Fact]:
    """Return everything that is one line: identity, size, vector, date, importance, last change.

    `short` writes only the beginning of the id and the hash.
    """

    def digits(value: str) -> Content:
        is_cut = short and len(value) > _SHORT
        return Content(safe_line(value[:_SHORT] + "…" if is_cut else value))

    def muted(text: str) -> Content:
        return Content.styled(text, fmt.MUTED)

    chunk = record.chunk
    holds = (
        fmt.counted(record.tokens, "token"),
        fmt.counted(len(record.terms), "term"),
        fmt.counted(record.characters, "character"),
        fmt.counted(chunk.end_line - chunk.start_line + 1, "line"),
    )
    by = f"  by {safe_line(record.provider)}" if record.provider else ""
    model = safe_line(chunk.model) if chunk.model or by else ("none", fmt.MUTED)
    if record.vector_state is Reason.OK:
        size = f"{fmt.count(record.dimensions)} dimensions" if record.dimensions is not None else ""
        norm = f"norm {fmt.number(record.norm, 4)}" if record.norm is not None else ""
        vector = Content(", ".join(filter(None, (size, norm))) or fmt.NOTHING)
    else:
        vector = Content.styled(f"none: {fmt.reason_words(record.vector_state)}", "$state-warn")
    origin = fmt.reason_words(chunk.day_from) if chunk.day_from is not None else ""
    day = muted(origin or "none of its own")
    if chunk.day is not None:
        days = (now.date() - chunk.day).days
        age = f"{fmt.days(days)} ago" if days > 0 else fmt.days(days)
        words = f"  {age}, from the {origin}" if origin else f"  {age}"
        day = Content.assemble(chunk.day.isoformat(), (words, fmt.MUTED))
    changed = muted("not known")
    if record.changed is not None:
        local = f"{record.changed.astimezone(now.tzinfo):%Y-%m-%d %H:%M}"
        changed = Content.assemble(local, (f"  {fmt.ago(record.changed, now)}", fmt.MUTED))
    importance = muted("not set")
    if record.importance is not None:
        importance = Content(fmt.short_number(record.importance, 3))
    project = f"  project {', '.join(chunk.project_keys)}" if chunk.project_keys else ""
    return [
        ("id", digits(chunk.id)),
        ("text hash", digits(chunk.hash)),
        ("holds", Content(", ".join(holds))),
        ("model", Content.assemble(model, (by, fmt.MUTED))),
        ("vector", vector),
        ("date", day),
        ("importance", importance),
        ("changed", changed),
        ("source", Content(safe_line(f"{chunk.source}  row {record.rowid}{project}"))),
    ]


def term_rows(terms: Sequence[ChunkTerm], sort: str, chunks: int, glyphs: Glyphs) -> list[Row]:
    """Make a row for each term, after one that names the columns; `chunks` are in the index."""
    if not terms:
        return []
    longest = max(len(term.term) for term in terms)
    column = min(max(longest, _SHORTEST_TERM), _LONGEST_TERM)
    total = max(chunks, max(term.document_frequency for term in terms))
    shares = max(2 * len(fmt.count(total)) + 3, 11)

    def draw(term: ChunkTerm, width: int) -> Content:
        name = Content(safe_line(term.term)).truncate(column, ellipsis=True, pad=True)
        share = f"{fmt.count(term.document_frequency)}/{fmt.count(total)}"
        line = Content.assemble(
            name, f"{fmt.count(term.count):>7}", (f"{share:>{shares}}", fmt.MUTED)
        )
        room = min(width - line.cell_length - 2, 24)
        if room < 4:
            return line
        cells = min(room, round(room * term.document_frequency / max(1, total)))
        return Content.assemble(line, "  ", (glyphs.keyword * cells, "$leg-keyword"))

    head = Content.styled(f"{'term':<{column}}{'count':>7}{'in chunks':>{shares}}", fmt.MUTED)
    rows = [Row("", lambda width: head, is_heading=True)]
    return rows + [Row(one.term, partial(draw, one)) for one in sorted(terms, key=SORTS[sort])]


def neighbour_lists(neighbours: Neighbours | None) -> Mapping[str, tuple[Neighbour, ...]]:
    """Return what is like a chunk, by the names of `KINDS`."""
    if neighbours is None:
        return {}
    return {
        "duplicate": neighbours.duplicates,
        "vector": neighbours.by_vector,
        "words": neighbours.by_words,
    }


def neighbour_rows(neighbours: Neighbours, words: Sequence[str], glyphs: Glyphs) -> list[Row]:
    """Make rows of near-duplicates, then the nearest by vector and by words, under headings.

    `words` are the rarest of the chunk itself: what is shown of a neighbour holds them.
    """
    rows: list[Row] = []
    for kind, alike in neighbour_lists(neighbours).items():
        state = neighbours.vector_state if kind == "vector" else Reason.OK
        why = "" if state is Reason.OK else fmt.reason_words(state)
        draw = partial(_draw_heading, kind, len(alike), why, glyphs)
        rows.append(Row(f"{kind}:", draw, NEIGHBOUR_LINES, is_heading=True))
        for one in alike:
            draw = partial(_draw_neighbour, one, kind, words, glyphs)
            rows.append(Row(f"{kind}:{one.chunk.id}", draw, NEIGHBOUR_LINES))
    return rows


def _draw_heading(kind: str, count: int, why: str, glyphs: Glyphs, width: int) -> Content:
    """Say what the chunks below have in common, how many there are, and what the score is."""
    title, about = KINDS[kind]
    number = why or (fmt.count(count) if count else "none")
    note = Content.styled(number, "$state-warn" if why else fmt.MUTED)
    below = fmt.fit(Content.styled(about, fmt.MUTED), width)
    return Content("\n").join([heading(title, width, glyphs, note), below])


def _draw_neighbour(
    one: Neighbour, kind: str, words: Sequence[str], glyphs: Glyphs, width: int
) -> Content:
    """Draw a score with its bar and the place; below, the words that both have, else some text."""
    glyph, style = {
        "vector": (glyphs.vector, "$leg-vector"),
        "words": (glyphs.keyword, "$leg-keyword"),
    }.get(kind, (glyphs.rerank, "$leg-mmr"))
    bar = _BAR if width >= 50 else 4
    full = min(bar, max(0, round(bar * one.score)))
    head = Content.assemble(
        (f"{fmt.score(one.score):>6} ", "bold"), (glyph * full, style), " " * (bar - full + 1)
    )
    place = place_text(one.chunk.path, one.chunk.start_line, max(8, width - head.cell_length))
    indent = " " * 7
    if one.shared:
        text = Content.assemble(("shared ", fmt.MUTED), safe_line(", ".join(one.shared[:WORDS])))
    else:
        part = snippet(one.chunk.text[:_SEARCHED], words, max(8, width - len(indent)))
        text = Content.styled(safe_line(part.text), fmt.MUTED)
    return Content("\n").join([head + place, fmt.fit(indent + text, width)])


def query_rows(answered: Iterable[AnsweredQuery]) -> list[Row]:
    """Make a row of rank, score and text for each query."""

    def draw(one: AnsweredQuery, width: int) -> Content:
        return Content.assemble(
            (f"{fmt.rank(one.rank):>4}", "bold"),
            (f"{fmt.score(one.score):>7}  ", fmt.MUTED),
            safe_line(one.query),
        )

    return [Row(one.query, partial(draw, one)) for one in answered]
