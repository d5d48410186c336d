"""The keyword leg opened down to the term: tf, df, idf and shares that sum to `bm25()`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memtui.model import Leg, LegHit, Ranked
from memtui.model.inquiry import FoundBy, KeywordExplanation, PhraseScore, TermScore
from memtui.report.model import Column, Row, Section, SectionId, Tone
from memtui.report.words import Spell

_FOUND_BY: Mapping[FoundBy, str] = {
    FoundBy.SUBSTRINGS: "found by substrings: no BM25 value",
    FoundBy.KEYWORDS: "found by a keyword that was searched by itself",
    FoundBy.PATH: "found by the path of its file alone: no BM25 value",
    FoundBy.NOTHING: "the keyword leg does not find this chunk",
}
_NO_ROW = "no row in the full-text table"
_COLUMNS = (
    Column("term"),
    Column("tf", right=True),
    Column("df", right=True),
    Column("idf", right=True),
    Column("share", right=True),
    Column("as"),
)


def term_sections(
    ranked: Ranked, chunk_id: str, explanation: KeywordExplanation | None, spell: Spell
) -> Iterator[Section]:
    """The terms of the MATCH expression, then those of each keyword searched by itself."""
    if explanation is None:
        notes = (_NO_ROW,)
        yield Section(SectionId.TERMS, "terms", notes=notes)
        return
    found = [_FOUND_BY[explanation.found_by]] if explanation.found_by in _FOUND_BY else []
    if _is_of_another_moment(_keyword_hit(ranked, chunk_id), explanation):
        found.append("the index changed since the search: these numbers are of now")
    yield _section(explanation, "terms", spell, found)
    for keyword in explanation.keywords:
        yield _section(keyword, f"keyword {keyword.asked}", spell, [])


def _section(explanation: KeywordExplanation, title: str, spell: Spell, last: list[str]) -> Section:
    rows = [row for term in explanation.terms for row in _rows(term, explanation.rows, spell)]
    for substring in explanation.substrings:
        held = "in the chunk" if substring.held else "not in the chunk"
        told = f"as a substring: {held}, no share"
        rows.append(Row((substring.text, "", "", "", "", told), None, Tone.KEYWORD))
    notes = (*_searched(explanation), *_numbers(explanation, spell), *_left_out(explanation))
    return Section(SectionId.TERMS, title, _COLUMNS, tuple(rows), (*notes, *last))


def _rows(term: TermScore, rows: int, spell: Spell) -> Iterator[Row]:
    if len(term.phrases) == 1:
        yield _row(term.text, term.phrases[0], rows, spell)
        return
    yield Row((term.text, "", "", "", spell(term.share), "together"), None, Tone.KEYWORD)
    for phrase in term.phrases:
        yield _row(f"  {phrase.match}", phrase, rows, spell)


def _row(text: str, phrase: PhraseScore, rows: int, spell: Spell) -> Row:
    if not phrase.tokens:
        dropped = "the tokenizer leaves nothing of it"
        return Row((text, "-", "-", "-", "-", dropped), None, Tone.MUTED)
    stems = " ".join(phrase.tokens)
    tone = Tone.KEYWORD if phrase.tf else Tone.MUTED
    return Row(
        (
            text,
            str(phrase.tf),
            f"{phrase.df} of {rows}",
            spell.number(phrase.idf),
            spell(phrase.share),
            stems if stems != text.strip() else "",
        ),
        None,
        tone,
    )


def _searched(explanation: KeywordExplanation) -> Iterator[str]:
    unsent = "" if explanation.sent else " (not sent: its keywords are asked one by one)"
    yield f"MATCH {explanation.match or 'nothing'}{unsent}"
    yield f"tokenizer {explanation.tokenizer}"


def _numbers(explanation: KeywordExplanation, spell: Spell) -> Iterator[str]:
    if not explanation.indexed:
        yield _NO_ROW
    elif explanation.terms:
        average = spell.number(explanation.average_length)
        yield f"length {explanation.length} tokens, {average} on average"
    if explanation.score is not None:
        yield f"bm25 {spell(explanation.score)}, minus the sum of the shares"


def _left_out(explanation: KeywordExplanation) -> Iterator[str]:
    if explanation.missing:
        yield f"the chunk lacks what is required: {', '.join(explanation.missing)}"
    if explanation.nowhere:
        yield f"in no chunk at all: {', '.join(explanation.nowhere)}"
    for word in explanation.pruned:
        held = "the chunk has it" if word.held else "the chunk does not have it"
        yield f"{word.text} was not looked up: in {word.df} chunks ({held})"
    if explanation.stop_words:
        yield f"stop words, not looked up: {', '.join(explanation.stop_words)}"
    if explanation.dropped:
        yield f"the tokenizer leaves nothing of: {', '.join(explanation.dropped)}"


def _keyword_hit(ranked: Ranked, chunk_id: str) -> LegHit | None:
    hits = ranked.pool.hits.get(Leg.KEYWORD, ())
    return next((hit for hit in hits if hit.chunk_id == chunk_id), None)


def _is_of_another_moment(hit: LegHit | None, explanation: KeywordExplanation) -> bool:
    """Whether none of what was asked gives the score that the search saw."""
    if hit is None or not hit.has_body or hit.score is not None:
        return False
    scores = [one.score for one in (explanation, *explanation.keywords)]
    return hit.raw not in scores
