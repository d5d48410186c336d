"""What the chunk screen draws: facts, terms, what is like the chunk, queries that it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from textual.content import Content

from memtui.model import Chunk, Reason
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
_SEARCHED = 8_000
"""Characters of a neighbour in which the part that is shown is looked for."""
_BAR = 10
_COUNT, _SCORE = 7, 7
_TERM = (8, 28)


# --- facts -------------------------------------------------------------------------------------

LABEL = 12
"""Cells of the labels."""
_SHORT = 32


def record_facts(record: ChunkRecord, now: datetime, *, short: bool = False) -> list[Fact]:
    """Everything that is one line: identity, size, vector, date, importance, last change.

    `short` writes only the beginning of the id and the hash.
    """
    chunk = record.chunk
    digits = _SHORT if short else None
    return [
        ("id", _hexadecimal(chunk.id, digits)),
        ("text hash", _hexadecimal(chunk.hash, digits)),
        ("holds", Content(_size(record))),
        ("model", _model(record)),
        ("vector", _vector(record)),
        ("date", _date(chunk, now)),
        ("importance", _importance(record)),
        ("changed", _changed(record.changed, now)),
        ("source", Content(_source(record))),
    ]


def _hexadecimal(value: str, digits: int | None) -> Content:
    shown = safe_line(value[:digits])
    return Content(shown if digits is None or len(value) <= digits else f"{shown}…")


def _size(record: ChunkRecord) -> str:
    chunk = record.chunk
    lines = chunk.end_line - chunk.start_line + 1
    return ", ".join(
        (
            fmt.counted(record.tokens, "token"),
            fmt.counted(len(record.terms), "term"),
            fmt.counted(record.characters, "character"),
            fmt.counted(lines, "line"),
        )
    )


def _model(record: ChunkRecord) -> Content:
    if not record.chunk.model and not record.provider:
        return Content.styled("none", fmt.MUTED)
    provider = safe_line(record.provider)
    return Content.assemble(
        safe_line(record.chunk.model), (f"  by {provider}" if provider else "", fmt.MUTED)
    )


def _vector(record: ChunkRecord) -> Content:
    if record.vector_state is not Reason.OK:
        return Content.styled(f"none: {fmt.reason_words(record.vector_state)}", "$state-warn")
    parts = []
    if record.dimensions is not None:
        parts.append(f"{fmt.count(record.dimensions)} dimensions")
    if record.norm is not None:
        parts.append(f"norm {fmt.number(record.norm, 4)}")
    return Content(", ".join(parts) or fmt.NOTHING)


def _date(chunk: Chunk, now: datetime) -> Content:
    origin = fmt.reason_words(chunk.day_from) if chunk.day_from is not None else ""
    if chunk.day is None:
        return Content.styled(origin or "none of its own", fmt.MUTED)
    days = (now.date() - chunk.day).days
    age = f"{fmt.days(days)} ago" if days > 0 else fmt.days(days)
    told = f"  {age}, from the {origin}" if origin else f"  {age}"
    return Content.assemble(chunk.day.isoformat(), (told, fmt.MUTED))


def _importance(record: ChunkRecord) -> Content:
    if record.importance is None:
        return Content.styled("not set", fmt.MUTED)
    return Content(fmt.short_number(record.importance, 3))


def _changed(when: datetime | None, now: datetime) -> Content:
    if when is None:
        return Content.styled("not known", fmt.MUTED)
    local = when.astimezone(now.tzinfo)
    return Content.assemble(f"{local:%Y-%m-%d %H:%M}", (f"  {fmt.ago(when, now)}", fmt.MUTED))


def _source(record: ChunkRecord) -> str:
    keys = ", ".join(record.chunk.project_keys)
    project = f"  project {keys}" if keys else ""
    return safe_line(f"{record.chunk.source}  row {record.rowid}{project}")


# --- terms --------------------------------------------------------------------------------------


def term_rows(terms: Sequence[ChunkTerm], sort: str, chunks: int, glyphs: Glyphs) -> list[Row]:
    """A row for each term, after a row that names the columns; `chunks` are those of the index."""
    if not terms:
        return []
    longest = max(len(term.term) for term in terms)
    column = min(max(longest, _TERM[0]), _TERM[1])
    total = max(chunks, max(term.document_frequency for term in terms))
    shares = len(f"{fmt.count(total)}/{fmt.count(total)}") + 2
    head = f"{'term':<{column}}{'count':>{_COUNT}}{'in chunks':>{max(shares, 11)}}"
    rows: list[Row] = [Row("", lambda width: Content.styled(head, fmt.MUTED), is_heading=True)]
    for term in sorted(terms, key=SORTS[sort]):
        draw = partial(_term_line, term, column, max(shares, 11), total, glyphs)
        rows.append(Row(term.term, draw))
    return rows


def _term_line(
    term: ChunkTerm, column: int, shares: int, total: int, glyphs: Glyphs, width: int
) -> Content:
    name = Content(safe_line(term.term)).truncate(column, ellipsis=True, pad=True)
    share = f"{fmt.count(term.document_frequency)}/{fmt.count(total)}"
    line = Content.assemble(
        name, f"{fmt.count(term.count):>{_COUNT}}", (f"{share:>{shares}}", fmt.MUTED)
    )
    room = min(width - line.cell_length - 2, 24)
    if room < 4:
        return line
    cells = min(room, round(room * term.document_frequency / max(1, total)))
    return Content.assemble(line, "  ", (glyphs.keyword * cells, "$leg-keyword"))


# --- what is like it ----------------------------------------------------------------------------


def neighbour_of(neighbours: Neighbours | None, row_id: str | None) -> Neighbour | None:
    """The neighbour of a row by the row's id."""
    if neighbours is None or not row_id:
        return None
    kind, _, chunk_id = row_id.partition(":")
    found = _lists(neighbours).get(kind, ())
    return next((one for one in found if one.chunk.id == chunk_id), None)


def _lists(neighbours: Neighbours) -> Mapping[str, tuple[Neighbour, ...]]:
    return {
        "duplicate": neighbours.duplicates,
        "vector": neighbours.by_vector,
        "words": neighbours.by_words,
    }


def alike(neighbours: Neighbours) -> frozenset[str]:
    """Ids of all chunks that are like it in any way."""
    return frozenset(one.chunk.id for found in _lists(neighbours).values() for one in found)


def neighbour_rows(neighbours: Neighbours, words: tuple[str, ...], glyphs: Glyphs) -> list[Row]:
    """Near-duplicates, then the nearest by vector and by shared words, each under its heading.

    `words` are the rarest of the chunk itself: what is shown of a neighbour holds them.
    """
    rows: list[Row] = []
    for kind, found in _lists(neighbours).items():
        why = ""
        if kind == "vector" and neighbours.vector_state is not Reason.OK:
            why = fmt.reason_words(neighbours.vector_state)
        draw = partial(_heading, kind, len(found), why, glyphs)
        rows.append(Row(f"{kind}:", draw, NEIGHBOUR_LINES, is_heading=True))
        rows += [
            Row(
                f"{kind}:{one.chunk.id}",
                partial(_neighbour, one, kind, words, glyphs),
                NEIGHBOUR_LINES,
            )
            for one in found
        ]
    return rows


def _heading(kind: str, count: int, why: str, glyphs: Glyphs, width: int) -> Content:
    """What the chunks below have in common, how many there are, and what the score is."""
    title, about = KINDS[kind]
    told = why or (fmt.count(count) if count else "none")
    note = Content.styled(told, "$state-warn" if why else fmt.MUTED)
    return Content("\n").join(
        [heading(title, width, glyphs, note), fmt.fit(Content.styled(about, fmt.MUTED), width)]
    )


def _neighbour(
    one: Neighbour, kind: str, words: tuple[str, ...], glyphs: Glyphs, width: int
) -> Content:
    """A score with its bar and the place; below, the words that both have, else some text."""
    glyph, style = {
        "vector": (glyphs.vector, "$leg-vector"),
        "words": (glyphs.keyword, "$leg-keyword"),
    }.get(kind, (glyphs.rerank, "$leg-mmr"))
    bar = _BAR if width >= 50 else 4
    full = min(bar, max(0, round(bar * one.score)))
    head = Content.assemble(
        (f"{fmt.score(one.score):>6} ", "bold"), (glyph * full, style), " " * (bar - full + 1)
    )
    room = max(8, width - head.cell_length)
    place = place_text(one.chunk.path, one.chunk.start_line, room)
    indent = " " * 7
    if one.shared:
        told = Content.assemble(("shared ", fmt.MUTED), safe_line(", ".join(one.shared[:WORDS])))
    else:
        part = snippet(one.chunk.text[:_SEARCHED], words, max(8, width - len(indent)))
        told = Content.styled(safe_line(part.text), fmt.MUTED)
    below = fmt.fit(Content.assemble(indent, told), width)
    return Content("\n").join([Content.assemble(head, place), below])


# --- queries ------------------------------------------------------------------------------------


def query_rows(answered: Iterable[AnsweredQuery]) -> list[Row]:
    """Rank, score and text of each query."""
    return [Row(one.query, partial(_query, one)) for one in answered]


def _query(one: AnsweredQuery, width: int) -> Content:
    return Content.assemble(
        (f"{fmt.rank(one.rank):>4}", "bold"),
        (f"{fmt.score(one.score):>{_SCORE}}  ", fmt.MUTED),
        safe_line(one.query),
    )
