"""The keyword leg opened down to the term: a table, its sum, and what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content

from memtui.model.inquiry import FoundBy, KeywordExplanation, PhraseScore, TermScore
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.explaining.lines import hanging, joined
from memtui.tui.glyphs import Glyphs

_TERM_LIMITS = (8, 24)
_TF, _IDF, _SHARE = 4, 7, 9
_BAR_LIMIT = 30
_LABEL = 12
_FOUND_BY: Mapping[FoundBy, str] = {
    FoundBy.SUBSTRINGS: "found by substrings: no BM25 value",
    FoundBy.KEYWORDS: "found by a keyword that was searched by itself",
    FoundBy.PATH: "found by the path of its file alone: no BM25 value",
    FoundBy.NOTHING: "the keyword leg does not find this chunk",
}


@dataclass(frozen=True, slots=True)
class _Columns:
    """Cells of the columns that depend on the terms and the width."""

    term: int
    df: int
    bar: int


def keyword_lines(terms: KeywordExplanation, width: int, glyphs: Glyphs) -> list[Content]:
    """Every term with its numbers and its share, the sum, and the words that did not count."""
    lines = _table(terms, width, glyphs)
    lines += _labelled(_what_was_asked(terms, glyphs), width)
    for keyword in terms.keywords:
        name = Content.assemble(("keyword  ", fmt.MUTED), (safe_line(keyword.asked), "bold"))
        lines += [Content(""), name, *_table(keyword, width, glyphs)]
    if terms.found_by in _FOUND_BY:
        lines += Content.styled(_FOUND_BY[terms.found_by], "$state-warn").wrap(width)
    return lines


def _table(terms: KeywordExplanation, width: int, glyphs: Glyphs) -> list[Content]:
    lines: list[Content] = []
    if terms.terms:
        columns = _columns(terms, width)
        lines.append(fmt.fit(_head(columns), width))
        top = max((term.share for term in terms.terms), default=0.0)
        rows = [
            line for t in terms.terms for line in _term_lines(t, terms.rows, top, columns, glyphs)
        ]
        lines += [fmt.fit(line, width) for line in rows]
    for substring in terms.substrings:
        told = "as a substring: in the chunk" if substring.held else "as a substring: not there"
        lines += _left_out(substring.text, told, substring.held, width, glyphs)
    for pruned in terms.pruned:
        told = f"not looked up: in {fmt.counted(pruned.df, 'chunk')}"
        told += ", this one too" if pruned.held else ""
        lines += _left_out(pruned.text, told, pruned.held, width, glyphs)
    return lines + _sum(terms, width)


def _columns(terms: KeywordExplanation, width: int) -> _Columns:
    longest = max(len(_name(term)) for term in terms.terms)
    low, high = _TERM_LIMITS
    wanted = min(max(longest, low), high)
    df = len(fmt.count(terms.rows)) * 2 + 2
    fixed = 2 + _TF + df + _IDF + _SHARE + 2
    term = max(low, min(wanted, width - fixed - 6))
    return _Columns(term, df, max(0, min(_BAR_LIMIT, width - fixed - term)))


def _head(columns: _Columns) -> Content:
    text = (
        f"  {'term':<{columns.term}}{'tf':>{_TF}}{'df':>{columns.df}}{'idf':>{_IDF}}"
        f"{'share':>{_SHARE}}"
    )
    return Content.styled(text, fmt.MUTED)


def _term_lines(
    term: TermScore, rows: int, top: float, columns: _Columns, glyphs: Glyphs
) -> Iterator[Content]:
    if len(term.phrases) == 1:
        yield _line(_name(term), term.phrases[0], rows, term.held, top, columns, glyphs)
        return
    name = fmt.fit(Content(_name(term)), columns.term)
    yield Content.assemble(
        _mark(term.held, glyphs), " ", name, ("  any of these, together", fmt.MUTED)
    )
    for phrase in term.phrases:
        if phrase.tf or len(term.phrases) <= 4:
            yield _line(
                f" {safe_line(phrase.match)}", phrase, rows, phrase.tf > 0, top, columns, glyphs
            )


def _line(
    name: str,
    phrase: PhraseScore,
    rows: int,
    held: bool,
    top: float,
    columns: _Columns,
    glyphs: Glyphs,
) -> Content:
    shown = Content.styled(name, "bold" if held else fmt.MUTED).truncate(
        columns.term, ellipsis=True, pad=True
    )
    head = Content.assemble(_mark(held, glyphs), " ", shown)
    if not phrase.tokens:
        return Content.assemble(head, ("  the tokenizer leaves nothing of it", "$state-warn"))
    df = f"{fmt.count(phrase.df)}/{fmt.count(rows)}"
    numbers = f"{phrase.tf:>{_TF}}{df:>{columns.df}}{fmt.number(phrase.idf, 3):>{_IDF}}"
    bar = round(columns.bar * phrase.share / top) if top > 0 else 0
    bar = max(bar, 1) if phrase.share > 0 and columns.bar else bar
    return Content.assemble(
        head,
        (numbers, "" if held else fmt.MUTED),
        (f"{fmt.number(phrase.share, 4):>{_SHARE}}", "bold" if held else fmt.MUTED),
        "  ",
        (glyphs.keyword * bar, "$leg-keyword"),
    )


def _left_out(text: str, told: str, held: bool, width: int, glyphs: Glyphs) -> list[Content]:
    head = Content.assemble(_mark(held, glyphs), " ", safe_line(text), "  ")
    return hanging(head, Content.styled(told, fmt.MUTED), width, indent=4)


def _mark(held: bool, glyphs: Glyphs) -> Content:
    if held:
        return Content.styled(glyphs.passed, "$state-ok")
    return Content.styled(glyphs.error, "$state-warn")


def _name(term: TermScore) -> str:
    return safe_line(term.text)


def _sum(terms: KeywordExplanation, width: int) -> list[Content]:
    """SQLite's own value, which the shares sum to, and the length that every share depends on."""
    if not terms.indexed:
        return list(Content.styled("not in the full-text table", "$state-warn").wrap(width))
    parts: list[Content | str] = []
    if terms.score is not None:
        sign = fmt.MINUS if terms.terms else ""
        value = Content.assemble(
            ("bm25 ", fmt.MUTED),
            (fmt.number(terms.score, 6), "bold"),
            (f" = {sign}sum of the shares", fmt.MUTED),
        )
        parts.append(value)
    if terms.terms:
        average = fmt.short_number(terms.average_length, 1)
        parts.append(
            Content.styled(
                f"length {fmt.counted(terms.length, 'token')}, {average} on average", fmt.MUTED
            )
        )
    return hanging(Content("  "), joined(parts, "   "), width) if parts else []


def _what_was_asked(terms: KeywordExplanation, glyphs: Glyphs) -> Iterator[tuple[str, str, str]]:
    """Label, value and style of what the leg was asked and what it left out."""
    unsent = "" if terms.sent else "  (not sent: its keywords are asked one by one)"
    yield "MATCH sent", f"{terms.match or 'none'}{unsent}", ""
    yield "tokenizer", terms.tokenizer, ""
    yield "stems", ", ".join(_stems(terms.terms, glyphs)), ""
    yield "missing", ", ".join(terms.missing), "$state-warn"
    yield "in no chunk", ", ".join(terms.nowhere), "$state-warn"
    yield "dropped", ", ".join(terms.dropped), "$state-warn"
    yield "stop words", ", ".join(terms.stop_words), ""


def _stems(terms: Sequence[TermScore], glyphs: Glyphs) -> Iterator[str]:
    """What the tokenizer makes of a term, where it is something else: `moving → move`."""
    for term in terms:
        for phrase in term.phrases[:1]:
            stem = " ".join(phrase.tokens)
            if stem and stem != term.text.casefold().rstrip("*") and len(term.phrases) == 1:
                yield f"{term.text} {glyphs.arrow} {stem}"


def _labelled(facts: Iterator[tuple[str, str, str]], width: int) -> list[Content]:
    lines: list[Content] = []
    for label, value, style in facts:
        if value:
            head = Content.styled(f"  {label:<{_LABEL}}", fmt.MUTED)
            lines += hanging(head, Content.styled(safe_line(value), style), width)
    return lines
