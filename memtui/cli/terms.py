"""The keyword leg opened down to the term, and ranks among all chunks, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memtui.cli import words
from memtui.model import Leg, LegHit, Ranked, Reason
from memtui.model.terms import (
    FoundBy,
    KeywordExplanation,
    LegPlace,
    PhraseScore,
    TermScore,
)

_FOUND_BY: Mapping[FoundBy, str] = {
    FoundBy.SUBSTRINGS: "found by substrings: no BM25 value",
    FoundBy.KEYWORDS: "found by a keyword that was searched by itself",
    FoundBy.PATH: "found by the path of its file alone: no BM25 value",
    FoundBy.NOTHING: "the keyword leg does not find this chunk",
}


def term_lines(
    ranked: Ranked, chunk_id: str, explanation: KeywordExplanation | None
) -> Iterator[str]:
    """Every term with its numbers and its share of `bm25()`, then what the chunk lacks."""
    if explanation is None:
        yield f"  terms      {words.reason_words(Reason.NOT_INDEXED)}"
        return
    yield from _one(explanation, "terms")
    for keyword in explanation.keywords:
        yield from _one(keyword, "keyword")
    if explanation.found_by in _FOUND_BY:
        yield f"    {_FOUND_BY[explanation.found_by]}"
    if _is_of_another_moment(_keyword_hit(ranked, chunk_id), explanation):
        yield "    the index changed since the search: these numbers are of now"


def place_lines(ranked: Ranked, places: Mapping[Leg, LegPlace]) -> Iterator[str]:
    """The rank in each leg among all chunks, and how many of them the leg brings."""
    name = "of all"
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        place = places.get(leg)
        if place is not None:
            yield f"  {name:<11}{leg.value} {_place(ranked, place)}"
            name = ""


def _one(explanation: KeywordExplanation, name: str) -> Iterator[str]:
    if name == "keyword":
        yield f"  {name:<11}{explanation.asked}"
    else:
        unsent = "" if explanation.sent else " (not sent: its keywords are asked one by one)"
        match = explanation.match or "no MATCH"
        yield f"  {name:<11}{match}{unsent}"
        yield f"    tokenizer {explanation.tokenizer}"
    yield from _numbers(explanation)
    yield from _words_left_out(explanation)


def _numbers(explanation: KeywordExplanation) -> Iterator[str]:
    width = max((len(term.text) for term in explanation.terms), default=0)
    for term in explanation.terms:
        yield from _term(term, min(width, 32), explanation.rows)
    for substring in explanation.substrings:
        held = "in the chunk" if substring.held else "not in the chunk"
        yield f"    {substring.text}  as a substring: {held}, no share"
    if not explanation.indexed:
        yield f"    {words.reason_words(Reason.NOT_INDEXED)}"
    elif explanation.terms:
        average = words.number(explanation.average_length)
        yield f"    length {explanation.length} tokens, {average} on average"
    if explanation.score is not None:
        yield f"    bm25 {words.exact(explanation.score)}, minus the sum of the shares"


def _term(term: TermScore, width: int, rows: int) -> Iterator[str]:
    if len(term.phrases) == 1:
        yield f"    {term.text:<{width}}  {_phrase(term.phrases[0], term.text, rows)}"
        return
    yield f"    {term.text:<{width}}  share {words.exact(term.share)}"
    for phrase in term.phrases:
        yield f"      {phrase.match}  {_phrase(phrase, phrase.match, rows)}"


def _phrase(phrase: PhraseScore, text: str, rows: int) -> str:
    if not phrase.tokens:
        return "the tokenizer leaves nothing of it"
    stems = " ".join(phrase.tokens)
    made = f"  as {stems}" if stems != text else ""
    return (
        f"tf {phrase.tf}  df {phrase.df} of {rows}  idf {words.number(phrase.idf)}  "
        f"share {words.exact(phrase.share)}{made}"
    )


def _words_left_out(explanation: KeywordExplanation) -> Iterator[str]:
    if explanation.missing:
        yield f"    the chunk lacks what is required: {', '.join(explanation.missing)}"
    if explanation.nowhere:
        yield f"    in no chunk at all: {', '.join(explanation.nowhere)}"
    for word in explanation.pruned:
        held = "the chunk has it" if word.held else "the chunk does not have it"
        yield f"    {word.text}  not looked up: in {word.df} chunks ({held})"
    if explanation.stop_words:
        yield f"    stop words, not looked up: {', '.join(explanation.stop_words)}"


def _place(ranked: Ranked, place: LegPlace) -> str:
    if place.rank is None:
        return f"-: {words.reason_words(place.reason)}"
    keyword = place.asked and place.asked != ranked.pool.query.strip()
    by = f" (by the keyword {place.asked})" if keyword else ""
    raw = f", {words.exact(place.rank.raw)}" if place.rank.raw is not None else ""
    return f"#{place.rank.position + 1} of {place.rank.total}{raw}{by}"


def _keyword_hit(ranked: Ranked, chunk_id: str) -> LegHit | None:
    hits = ranked.pool.hits.get(Leg.KEYWORD, ())
    return next((hit for hit in hits if hit.chunk_id == chunk_id), None)


def _is_of_another_moment(hit: LegHit | None, explanation: KeywordExplanation) -> bool:
    """Whether none of what was asked gives the score that the search saw."""
    if hit is None or not hit.has_body or hit.score is not None:
        return False
    scores = [one.score for one in (explanation, *explanation.keywords)]
    return hit.raw not in scores
