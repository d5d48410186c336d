"""Which words, put into a query or taken out, bring a chunk into the list: tried, not guessed.

Every change is searched with the same ranking and as the query was, as one still being typed or
not, and stands only where that search shows the chunk with the legs that the query itself had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

from memtui.engine.words_to_try import MOST_WORDS, WordsToTry
from memtui.model import Chunk, LegStatus, Ranked, Ranking, Reason
from memtui.model.inquiry import KeywordExplanation, WordChange, WordChanges
from memtui.retrieval.query import word_pieces
from memtui.text.tokens import query_terms

MOST_SEARCHES = 40
_MOST_REMOVED = 12
_PAIRED = 5
"""Of so many of the rarest words pairs are tried, of one less three at once."""
_DEGRADED = frozenset({LegStatus.FAILED, LegStatus.PENDING})

Progress = Callable[[str], None]
Ask = Callable[..., Ranked]


@dataclass(frozen=True, slots=True)
class _Changed:
    query: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Trial:
    ask: Ask
    ranked: Ranked
    ranking: Ranking
    chunk_id: str
    progress: Progress | None
    tried: int = 0
    found: list[WordChange] = field(default_factory=list)
    degraded: Reason = Reason.OK

    def run(self, changes: Iterable[_Changed]) -> bool:
        """Search each changed query, as long as there are searches left; whether one does it."""
        before = len(self.found)
        for change in islice(changes, MOST_SEARCHES - self.tried):
            if self.progress is not None:
                self.progress(change.query)
            self.tried += 1
            typing = self.ranked.pool.typing
            answer = self.ask(change.query, ranking=self.ranking, typing=typing)
            reason = _degraded(self.ranked, answer)
            if reason is not Reason.OK:
                self.degraded = reason
                continue
            rank = next((h.rank for h in answer.hits if h.chunk.id == self.chunk_id), None)
            if rank is not None:
                self.found.append(WordChange(change.query, change.added, change.removed, rank))
        return len(self.found) > before

    def answer(self) -> WordChanges:
        """What was found: the fewest words first, then the best rank."""
        changes = sorted(
            self.found, key=lambda one: (len(one.added) + len(one.removed), one.rank_after)
        )
        return WordChanges(tuple(changes), self.tried, Reason.OK if changes else self.degraded)


def word_changes(
    ask: Ask,
    words_to_try: Callable[[Ranked, str], WordsToTry],
    ranked: Ranked,
    ranking: Ranking,
    chunk: Chunk,
    terms: KeywordExplanation | None,
    *,
    progress: Progress | None = None,
) -> WordChanges:
    """Try to take each word out of a query, and to add each of the chunk's most distinctive words.

    `ranking` is what `ranked` was asked with, `terms` what the keyword leg makes of the chunk.
    Required words that the chunk lacks are also taken out together; two and three words are added
    together where nothing else does it. At most 40 searches; `progress` is called before each of
    them with its query and may raise to stop. Nothing is tried for a chunk in the list, nor where
    `words_to_try` says that changed queries cannot be searched as the query was. Raises what a
    search raises.
    """
    if any(hit.chunk.id == chunk.id for hit in ranked.hits):
        return WordChanges((), 0)
    offer = words_to_try(ranked, chunk.id)
    if offer.reason is not Reason.OK:
        return WordChanges((), 0, offer.reason)
    query = ranked.pool.query
    missing = terms.missing if terms is not None and terms.sent else ()
    trial = _Trial(ask, ranked, ranking, chunk.id, progress)
    shorter = list(_shorter(query, missing, syntax=not ranked.pool.sized))
    singles = (_longer(query, (word,)) for word in offer.words[:MOST_WORDS])
    found = trial.run(shorter)
    found = trial.run(singles) or found
    for count in (2, 3):
        if not found:
            rarest = offer.words[: _PAIRED + 2 - count]
            found = trial.run(_longer(query, words) for words in combinations(rarest, count))
    return trial.answer()


def _longer(query: str, words: tuple[str, ...]) -> _Changed:
    return _Changed(" ".join([query.rstrip(), *words]).lstrip(), added=words)


def _shorter(query: str, missing: Sequence[str], *, syntax: bool) -> Iterator[_Changed]:
    """The query without each of its words, those first that the chunk lacks and should not."""
    spans = list(_words(query, syntax=syntax))
    lacked = {word.lower() for word in missing}
    spans.sort(key=lambda span: span.word.lower() not in lacked)
    for span in spans[:_MOST_REMOVED]:
        shorter = _without(query, [span])
        if shorter:
            yield _Changed(shorter, removed=(span.word,))
    together = [span for span in spans if span.word.lower() in lacked]
    if len(together) > 1:
        shorter = _without(query, together)
        if shorter:
            yield _Changed(shorter, removed=tuple(dict.fromkeys(s.word for s in together)))


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of a query, and where it stands: every time that it occurs."""

    word: str
    spans: tuple[tuple[int, int], ...]


def _words(query: str, *, syntax: bool) -> Iterator[_Word]:
    """The words and quoted phrases of a query; pairs of characters in a script without spaces."""
    found: dict[str, list[tuple[int, int]]] = {}
    for start, end in word_pieces(query, syntax=syntax):
        piece = query[start:end]
        grams = [term.text for term in query_terms(piece).terms if term.kind == "gram"]
        parts = [(gram, piece.find(gram)) for gram in grams if len(gram) < len(piece)]
        for gram, place in parts:
            if place >= 0:
                found.setdefault(gram, []).append((start + place, start + place + len(gram)))
        if not parts:
            found.setdefault(piece.strip('"'), []).append((start, end))
    for word, spans in found.items():
        yield _Word(word, tuple(spans))


def _without(query: str, words: Sequence[_Word]) -> str:
    gone = {place for word in words for start, end in word.spans for place in range(start, end)}
    kept = "".join(char for place, char in enumerate(query) if place not in gone)
    return " ".join(kept.split())


def _degraded(before: Ranked, after: Ranked) -> Reason:
    """Why a search is not one like that of the query: a leg that answered then does not now."""
    for leg, state in before.pool.states.items():
        now = after.pool.states.get(leg)
        if state.status is LegStatus.OK and now is not None and now.status in _DEGRADED:
            return now.reason if now.reason is not Reason.OK else Reason.INDEX_FAILED
    return Reason.OK
