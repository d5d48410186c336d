"""Words that are still being typed, among words that are indexed by their stems."""

from __future__ import annotations

from memtui.retrieval.porter import stem

_SUFFIXES = (
    "ing", "ed", "es", "ies", "er", "ers", "ation", "ations", "ition", "ment", "ments", "ness",
    "able", "ful", "ive", "ity", "ities", "ally", "ize", "izing", "ion", "ions", "ence", "ences",
    "ance", "ances", "ible", "ational", "al",
)  # fmt: skip
_SHORTEST_BASE = 3


def completions(beginning: str) -> tuple[str, ...]:
    """Finish a suffix that is begun, where the finished word has a stem of its own.

    `runni` becomes `running`, since its stem `run` does not begin with what is typed and no
    prefix finds it. `beginning` is folded: lower case without diacritics.
    """
    words: dict[str, str] = {}
    for suffix in _SUFFIXES:
        for length in range(1, len(suffix)):
            base = beginning[:-length]
            if beginning.endswith(suffix[:length]) and len(base) >= _SHORTEST_BASE:
                word = base + suffix
                words.setdefault(stem(word), word)
    return tuple(word for own, word in words.items() if not own.startswith(beginning))


def word_with_stem(own: str) -> str | None:
    """Find a word that FTS5 reduces to the stem `own`, since a query can only name words.

    A stem is often its own stem; `deploy`, the stem of `deployment`, is not.
    """
    return next((own + end for end in ("", *_SUFFIXES) if stem(own + end) == own), None)
