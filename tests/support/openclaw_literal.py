"""The ranking of the OpenClaw releases, slow and literal: what memtui's own is compared with.

Every formula is as it was observed in the released programs, and the steps stand in the order in
which they take them (merge by id with the vector leg first, one candidate at a time). Nothing here
is shared with `memtui.ranking`, and nothing is done to make it fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

DAY_MS = 86_400_000.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SNIPPET_UNITS = 700
INVALID_PROJECT = "!invalid-project-annotation"
PUNCTUATION = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
MEDIA = (
    *(".jpg", ".jpeg", ".png", ".webp", ".gif", ".heic", ".heif"),
    *(".mp3", ".wav", ".ogg", ".opus", ".m4a", ".aac", ".flac"),
)
DATED = re.compile(r"(?:^|/)memory/([0-9]{4})-([0-9]{2})-([0-9]{2})\.md\Z")
DATED_D = re.compile(r"(?:^|/)memory/(?:[^/]+/)*([0-9]{4})-([0-9]{2})-([0-9]{2})(?:-[^/]+)?\.md\Z")
WORD = re.compile(r"[a-z0-9_]+")
CJK = re.compile(
    r"[\u3040-\u309f\u30a0-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u1100-\u11ff]"
)


class Release(StrEnum):
    """The four families of releases whose ranking differs; A stands for 2026.2.17."""

    A = "2026.2"
    B = "2026.4"
    C = "2026.7"
    D = "2026.9"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One hit of one leg.

    Attributes:
        text: The whole chunk; `snippet` is what the leg gives of it (None: the first 700 units).
        vector_score: 1 - cosine distance, for a hit of the vector leg.
        bm25: What SQLite's bm25() gave; None where no body was matched by it.
        text_score: A text score that the leg gives by itself; it goes before `bm25`.
        boost: Lexical boost, added where the release uses it and cut at 1.
        path_score: Score of the path leg, as `bm25_rank_to_score` maps it.
        exact_path_tier: 3 full path, 2 basename, 1 stem, 0 none.
        importance: 1 to 10, or None.
        mtime: Of the file, or the stored time of the session, in ms; None where unknown.
    """

    id: str
    path: str
    source: str = "memory"
    start_line: int = 1
    end_line: int = 1
    text: str = ""
    snippet: str | None = None
    vector_score: float | None = None
    bm25: float | None = None
    text_score: float | None = None
    boost: float = 0.0
    path_score: float | None = None
    exact_path_tier: int = 0
    importance: float | None = None
    project_keys: tuple[str, ...] = ()
    mtime: float | None = None


def bm25_rank_to_score(rank: float, *, signed: bool) -> float:
    """The text score of what bm25() gives: the clamp form, or the signed one of 2026.3.13 on."""
    if not math.isfinite(rank):
        return 1.0 / 1000.0
    if not signed:
        return 1.0 / (1.0 + max(0.0, rank))
    if rank < 0:
        relevance = -rank
        return relevance / (1.0 + relevance)
    return 1.0 / (1.0 + rank)


def snippet_of(text: str) -> str:
    """The first 700 UTF-16 units, and no half of a pair."""
    taken, units = [], 0
    for character in text:
        units += 2 if ord(character) > 0xFFFF else 1
        if units > SNIPPET_UNITS:
            break
        taken.append(character)
    return "".join(taken)


def normalise_path(path: str) -> str:
    """Slashes forward, one leading `./` dropped."""
    path = path.replace("\\", "/")
    return path[2:] if path.startswith("./") else path


def dated_match(path: str, release: Release) -> re.Match[str] | None:
    """The date in a path as the release finds it, valid or not."""
    pattern = DATED_D if release is Release.D else DATED
    return pattern.search(normalise_path(path))


def path_date(path: str, release: Release) -> date | None:
    """The day that a path names, None for no day and for a day that does not exist."""
    match = dated_match(path, release)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def is_evergreen(path: str, release: Release) -> bool:
    """Whether a path never ages: the root file, and undated files below `memory/`."""
    clean = normalise_path(path)
    roots = {Release.A: ("MEMORY.md", "memory.md"), Release.D: ("MEMORY.md", "USER.md")}
    if clean in roots.get(release, ("MEMORY.md",)):
        return True
    return clean.startswith("memory/") and dated_match(path, release) is None


def decay_multiplier(age_days: float, half_life_days: float) -> float:
    """exp(-ln2 / half-life * age); a half-life that is no positive number changes nothing."""
    if not math.isfinite(half_life_days) or half_life_days <= 0:
        return 1.0
    return math.exp(-(math.log(2) / half_life_days) * max(0.0, age_days))


def importance_multiplier(importance: float | None) -> float:
    """0.75 + 0.05 n for n of 1 to 10, 1 for none."""
    if importance is None:
        return 1.0
    return 0.75 + 0.05 * min(10, max(1, math.floor(importance)))


def project_multiplier(keys: Sequence[str], active: Sequence[str]) -> float:
    """1.15 when all keys are active, 0.9 otherwise, 1 where there is nothing to compare."""
    if not keys or not active:
        return 1.0
    return 1.15 if all(key in active for key in keys) else 0.9


def exact_path_tie(content: float) -> float:
    """The score that orders the entries of one exact-path tier, 0.5 to 1."""
    return 0.5 + 0.5 * min(1.0, max(0.0, content))


def collation(text: str) -> tuple[list[int], list[bool]]:
    """The order of `localeCompare` for ASCII: marks, digits, letters; case only decides a tie."""
    order = PUNCTUATION + "0123456789abcdefghijklmnopqrstuvwxyz"
    weights = [order.index(character) for character in text.lower()]
    return weights, [character.isupper() for character in text]


def tokenize(text: str) -> set[str]:
    """The tokens that MMR compares: words, CJK characters, and pairs of neighbours of those."""
    lower = text.lower()
    tokens = set(WORD.findall(lower))
    for n, character in enumerate(lower):
        if CJK.match(character):
            tokens.add(character)
            if n + 1 < len(lower) and CJK.match(lower[n + 1]):
                tokens.add(character + lower[n + 1])
    return tokens


def jaccard(a: set[str], b: set[str]) -> float:
    """Shared tokens by all tokens; two empty sets are equal, one empty set is like nothing."""
    if not a and not b:
        return 1.0
    if not a or not b:
        return 0.0
    return len(a & b) / len(a | b)


def similarity(a: str, b: str, release: Release) -> float:
    """How alike two snippets are, 0 to 1."""
    left, right = tokenize(a), tokenize(b)
    if not left and not right and release is Release.D:
        return 1.0 if a.strip().lower() == b.strip().lower() else 0.0
    return jaccard(left, right)


def mmr_score(relevance: float, most_similar: float, lambda_: float) -> float:
    """The value whose maximum is taken next."""
    return lambda_ * relevance - (1.0 - lambda_) * most_similar


def mmr(
    items: Sequence[tuple[str, float, str]], lambda_: float, release: Release
) -> list[tuple[str, float, str]]:
    """Reorder (id, score, snippet) by maximal marginal relevance; none is dropped."""
    lambda_ = min(1.0, max(0.0, lambda_))
    if lambda_ == 1.0:
        return sorted(items, key=lambda item: -item[1])
    if len(items) < 2:
        return list(items)
    low, high = min(item[1] for item in items), max(item[1] for item in items)
    alike: dict[tuple[str, str], float] = {}
    taken: list[tuple[str, float, str]] = []
    left = list(items)
    while left:
        best, best_value = left[0], -math.inf
        for item in left:
            relevance = 1.0 if high == low else (item[1] - low) / (high - low)
            most = 0.0
            for other in taken:
                pair = (item[2], other[2])
                if pair not in alike:
                    alike[pair] = similarity(*pair, release)
                most = max(most, alike[pair])
            value = mmr_score(relevance, most, lambda_)
            if value > best_value or (value == best_value and item[1] > best[1]):
                best, best_value = item, value
        taken.append(best)
        left.remove(best)
    return taken


# --- a whole search --------------------------------------------------------------------------

D_WINDOW = 200


@dataclass(frozen=True, slots=True)
class Settings:
    """The parameters of one search; weights as the merge gets them, so already divided.

    Attributes:
        provider: Whether there is an embedding provider; without, only the keyword leg is used.
        hybrid: False: only the vector leg is used.
    """

    release: Release
    vector_weight: float = 0.7
    text_weight: float = 0.3
    max_results: int = 6
    min_score: float = 0.35
    candidate_multiplier: float = 4.0
    hybrid: bool = True
    provider: bool = True
    mmr_enabled: bool = False
    mmr_lambda: float = 0.7
    decay_enabled: bool = False
    half_life_days: float = 30.0
    active_project_keys: tuple[str, ...] = ()
    now: datetime = datetime(2026, 11, 16, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Answer:
    """One result, as the program prints it."""

    id: str
    path: str
    source: str
    start_line: int
    end_line: int
    score: float
    vector_score: float | None
    text_score: float | None
    snippet: str


@dataclass(slots=True)
class Entry:
    """A candidate while it is being ranked."""

    first: Candidate
    snippet: str
    vector: float = 0.0
    text: float = 0.0
    lexical: float = 0.0
    in_vector: bool = False
    in_keyword: bool = False
    has_body: bool = False
    path_score: float | None = None
    tier: int = 0
    content: float = 0.0
    score: float = 0.0
    public: float = 0.0


def candidate_count(settings: Settings) -> int:
    """How many hits are asked of each leg."""
    wanted = settings.max_results
    if settings.release is Release.D:
        wanted = max(D_WINDOW, wanted)
    return min(200, max(1, math.floor(wanted * settings.candidate_multiplier)))


def asked(hits: Sequence[Candidate], settings: Settings) -> list[Candidate]:
    """The hits of a leg that the program would have asked for."""
    return list(hits[: candidate_count(settings)])


def decay_factor(candidate: Candidate, settings: Settings) -> float:
    """What temporal decay multiplies the score of a candidate with."""
    if not settings.decay_enabled:
        return 1.0
    now = float((settings.now - EPOCH) // timedelta(milliseconds=1))
    day = path_date(candidate.path, settings.release)
    if day is not None:
        then = (day - EPOCH.date()).days * DAY_MS
    elif is_evergreen(candidate.path, settings.release) or candidate.mtime is None:
        return 1.0
    else:
        then = candidate.mtime
    return decay_multiplier(max(0.0, now - then) / DAY_MS, settings.half_life_days)


def _text_score(hit: Candidate, settings: Settings) -> float:
    if hit.text_score is not None:
        return hit.text_score
    if hit.bm25 is not None:
        return bm25_rank_to_score(hit.bm25, signed=settings.release is not Release.A)
    return 0.0


def _ranking_score(hit: Candidate, settings: Settings) -> float:
    """The score of a keyword hit where the release boosts it, else its text score."""
    text = _text_score(hit, settings)
    boosts = settings.release is Release.D or (
        settings.release is not Release.A and not settings.provider
    )
    return min(1.0, text + hit.boost) if boosts else text


def _by_id(
    vector: Iterable[Candidate], keyword: Iterable[Candidate], settings: Settings
) -> dict[str, Entry]:
    """One entry for each id: the vector leg first, then what the keyword leg adds."""
    entries: dict[str, Entry] = {}
    for hit in vector:
        assert hit.vector_score is not None
        snippet = snippet_of(hit.text) if hit.snippet is None else hit.snippet
        entries[hit.id] = Entry(
            hit, snippet, vector=hit.vector_score, in_vector=True, tier=hit.exact_path_tier
        )
    for hit in keyword:
        snippet = snippet_of(hit.text) if hit.snippet is None else hit.snippet
        entry = entries.get(hit.id)
        if entry is None:
            entry = entries[hit.id] = Entry(hit, snippet)
        elif snippet:
            entry.snippet = snippet
        entry.in_keyword = True
        entry.has_body = hit.bm25 is not None or hit.text_score is not None
        entry.text = _text_score(hit, settings)
        entry.lexical = _ranking_score(hit, settings) if entry.has_body else 0.0
        entry.path_score = hit.path_score
        entry.tier = max(entry.tier, hit.exact_path_tier)
    return entries


def _merge_plain(entries: Iterable[Entry], settings: Settings) -> list[Entry]:
    """The merge of A to C: weighted sum, decay, stable sort, MMR."""
    ranked = []
    for entry in entries:
        score = settings.vector_weight * entry.vector + settings.text_weight * entry.lexical
        entry.score = entry.public = score * decay_factor(entry.first, settings)
        ranked.append(entry)
    ranked.sort(key=lambda entry: -entry.score)
    return _diversify(ranked, settings)


def _content(entry: Entry, settings: Settings) -> float:
    """What the legs say of a candidate of D: the weighted sum.

    A path's own score stands in where no text was matched, but not beside an exact name. What
    only the vector leg found of a picture or a recording keeps its cosine.
    """
    medium = normalise_path(entry.first.path).lower().endswith(MEDIA)
    if medium and not entry.in_keyword and settings.vector_weight > 0:
        return entry.vector
    if entry.text > 0:
        words = entry.lexical
    elif entry.tier > 0 or entry.path_score is None:
        words = 0.0
    else:
        words = entry.path_score
    return settings.vector_weight * entry.vector + settings.text_weight * words


def _recall(entry: Entry) -> float:
    """What a substring match, which has no text score, is ranked by where all else is 0."""
    return entry.lexical if entry.has_body and entry.text == 0 else 0.0


def _multiplied(value: float, entry: Entry, settings: Settings) -> float:
    """Decay, then importance, then project."""
    first = entry.first
    value = value * decay_factor(first, settings)
    value = value * importance_multiplier(first.importance)
    return value * project_multiplier(first.project_keys, settings.active_project_keys)


def _invalid(entry: Entry) -> bool:
    return INVALID_PROJECT in entry.first.project_keys


def _place(entry: Entry) -> tuple[object, ...]:
    first = entry.first
    return collation(first.path), first.start_line, first.end_line


def _merge_d(entries: Iterable[Entry], settings: Settings) -> list[Entry]:
    """The merge of D: exact names in front by tier, each group diversified by itself.

    `score` is what a candidate is ranked by, `public` what is shown: 1 times the project
    multiplier for an exact name, 0 for what nothing but a substring match speaks for.
    """
    ranked = [entry for entry in entries if not _invalid(entry)]
    for entry in ranked:
        entry.content = _content(entry, settings)
        if entry.tier and settings.decay_enabled:
            value = exact_path_tie(entry.content)
        elif entry.tier:
            value = entry.content if entry.content > 0 else 1.0
        else:
            value = entry.content if entry.content != 0 else _recall(entry)
        entry.score = _multiplied(value, entry, settings)
        if entry.tier:
            active = settings.active_project_keys
            entry.public = project_multiplier(entry.first.project_keys, active)
        else:
            entry.public = entry.score if entry.content != 0 else 0.0
    ranked.sort(key=lambda entry: (-entry.score, -_recall(entry), *_place(entry)))
    answers: list[Entry] = []
    for tier in (3, 2, 1):
        group = [entry for entry in ranked if entry.tier == tier]
        backed = [entry for entry in group if entry.content > 0 or _recall(entry) > 0]
        if settings.decay_enabled:
            answers += _diversify(group, settings)
        else:
            named = [entry for entry in group if entry not in backed]
            answers += _diversify(backed, settings) + _diversify(named, settings)
    rest = [entry for entry in ranked if not entry.tier]
    for entry in rest:
        entry.score = entry.public
    rest.sort(key=lambda entry: -entry.score)
    return answers + _diversify(rest, settings)


def _keyword_only_d(entries: Iterable[Entry], settings: Settings) -> list[Entry]:
    """D without a provider: boosted text scores, exact names in front, no MMR."""
    ranked = [entry for entry in entries if not _invalid(entry)]
    for entry in ranked:
        path = entry.path_score or 0.0
        value = entry.lexical if entry.has_body else (1.0 if entry.tier else path)
        if entry.tier and settings.decay_enabled:
            value = exact_path_tie(entry.lexical if entry.has_body else 0.0)
        entry.score = entry.public = _multiplied(value, entry, settings)
        if entry.tier:
            active = settings.active_project_keys
            entry.public = project_multiplier(entry.first.project_keys, active)

    def key(entry: Entry) -> tuple[object, ...]:
        named = entry.tier > 0 and not settings.decay_enabled and not entry.has_body
        path = 0.0 if entry.tier or entry.path_score is None else entry.path_score
        first = entry.first
        ids = (collation(first.path), first.start_line, collation(first.id))
        return (-entry.tier, named, -entry.score, -entry.text, -path, *ids)

    return sorted(ranked, key=key)


def _vector_only_d(entries: Iterable[Entry], settings: Settings) -> list[Entry]:
    """D without a keyword table: the cosines with all multipliers, by score and place."""
    ranked = [entry for entry in entries if not _invalid(entry)]
    for entry in ranked:
        entry.score = entry.public = _multiplied(entry.vector, entry, settings)
    return sorted(ranked, key=lambda entry: (-entry.score, *_place(entry)))


def _diversify(ranked: list[Entry], settings: Settings) -> list[Entry]:
    if not settings.mmr_enabled:
        return ranked
    items = [(entry.first.id, entry.score, entry.snippet) for entry in ranked]
    known = {entry.first.id: entry for entry in ranked}
    return [known[item[0]] for item in mmr(items, settings.mmr_lambda, settings.release)]


def _answer(entry: Entry, settings: Settings) -> Answer:
    first = entry.first
    return Answer(
        first.id,
        first.path,
        first.source,
        first.start_line,
        first.end_line,
        entry.public,
        entry.vector if settings.provider else None,
        entry.text if settings.hybrid or not settings.provider else None,
        entry.snippet,
    )


def merge(
    vector: Sequence[Candidate], keyword: Sequence[Candidate], settings: Settings
) -> list[Answer]:
    """All results of both legs, ranked, before the minimum score and the cut."""
    entries = _by_id(vector, keyword, settings).values()
    ranked = (_merge_d if settings.release is Release.D else _merge_plain)(entries, settings)
    return [_answer(entry, settings) for entry in ranked]


def _range(hit: Answer | Candidate) -> tuple[str, str, int, int]:
    return hit.source, hit.path, hit.start_line, hit.end_line


def select(
    merged: Sequence[Answer],
    keyword_ranges: Iterable[tuple[str, str, int, int]],
    settings: Settings,
) -> list[Answer]:
    """Apply the minimum-score rule of the release, then cut."""
    found = set(keyword_ranges)
    strict = [hit for hit in merged if hit.score >= settings.min_score]

    def at_least(bound: float) -> list[Answer]:
        return [hit for hit in merged if _range(hit) in found and hit.score >= bound]

    if settings.release is Release.A or not found:
        chosen = strict
    elif strict and settings.release is Release.D and settings.provider:
        chosen = strict
        seen = {_range(hit) for hit in strict}
        for hit in merged:
            weak = hit.score < settings.min_score and hit.vector_score == 0
            if weak and _range(hit) in found and _range(hit) not in seen:
                seen.add(_range(hit))
                chosen.append(hit)
    elif strict:
        chosen = strict
    elif settings.release is Release.B and settings.provider:
        chosen = at_least(min(settings.min_score, settings.text_weight))
    else:
        chosen = at_least(0.0)
    return chosen[: settings.max_results]


def _keyword_only(keyword: Sequence[Candidate], settings: Settings) -> list[Answer]:
    """Without a provider: the keyword scores as they are, decayed from B on, never diversified."""
    if settings.release is Release.D:
        entries = _by_id([], keyword, settings).values()
        return [_answer(entry, settings) for entry in _keyword_only_d(entries, settings)]
    alone = replace(settings, vector_weight=0.0, text_weight=1.0, mmr_enabled=False)
    if settings.release is Release.A:
        alone = replace(alone, decay_enabled=False)
    return merge([], keyword, alone)


def _vector_only(vector: Sequence[Candidate], settings: Settings) -> list[Answer]:
    """With hybrid search off: the cosines as they are, decayed only in D, never diversified."""
    if settings.release is Release.D:
        entries = _by_id(vector, [], settings).values()
        return [_answer(entry, settings) for entry in _vector_only_d(entries, settings)]
    alone = replace(settings, vector_weight=1.0, text_weight=0.0, mmr_enabled=False)
    return merge(vector, [], replace(alone, decay_enabled=False))


def rank(
    vector: Sequence[Candidate], keyword: Sequence[Candidate], settings: Settings
) -> list[Answer]:
    """The answer of the program to one search, from the hits of its legs in their order."""
    if not settings.provider:
        return select(_keyword_only(keyword, settings), map(_range, keyword), settings)
    if not settings.hybrid:
        return select(_vector_only(vector, settings), [], settings)
    return select(merge(vector, keyword, settings), map(_range, keyword), settings)
