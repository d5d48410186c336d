"""The single rules of the OpenClaw releases' ranking, written out one by one for comparison.

Every formula is as it was observed in the released programs; nothing here is shared with
`memtui.ranking`, and nothing is done to make it fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
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
