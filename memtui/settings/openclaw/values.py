"""Reading single values of OpenClaw's configuration: types, clamps, and rules between them.

The clamps and the rules are those of OpenClaw up to 2026.7.1 (`src/agents/memory-search.ts`).
Every reader raises `ValueError` whose message continues "KEY: ".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

MAX_CANDIDATES: Final = 200
DEFAULT_WEIGHTS: Final = (0.7, 0.3)
DEFAULT_HALF_LIFE: Final = 30
DEFAULT_LAMBDA: Final = 0.7
_LARGEST: Final = 2**53 - 1


def flag(value: Any) -> bool:
    """Read `true` or `false`."""
    if isinstance(value, bool):
        return value
    raise ValueError(_must("be true or false", value))


def text(value: Any) -> str:
    """Read a text, blanks around it dropped."""
    if isinstance(value, str):
        return value.strip()
    raise ValueError(_must("be a text", value))


def word(value: Any) -> str:
    """Read a text that is not empty."""
    found = text(value)
    if found:
        return found
    raise ValueError("must not be empty")


def one_of(*words: str) -> Callable[[Any], str]:
    """Make a reader of one of some words."""

    def read(value: Any) -> str:
        if isinstance(value, str) and value in words:
            return value
        raise ValueError(_must(f"be {' or '.join(words)}", value))

    return read


def is_set(value: Any) -> bool:
    """Tell only whether there is something: a secret is looked at and not kept."""
    return bool(value)


def names(value: Any) -> tuple[str, ...]:
    """Read the names of an object's keys, lower-case and sorted; its values are not kept."""
    if isinstance(value, dict):
        return tuple(sorted({str(key).strip().lower() for key in value}))
    raise ValueError(_must("be an object", value))


def number(value: Any) -> float:
    """Read a number; infinity is one, NaN is not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(_must("be a number", value))
    try:
        found = float(value)
    except OverflowError:
        found = math.inf if value > 0 else -math.inf
    if math.isnan(found):
        raise ValueError("must be a number, not NaN")
    return found


def whole(value: Any) -> int:
    """Read a whole number; `6.0` is one."""
    found = number(value)
    if not found.is_integer() or abs(found) > _LARGEST:
        raise ValueError(_must("be a whole number", value))
    return int(found)


def count(low: int) -> Callable[[Any], int]:
    """Make a reader of whole numbers from `low` on."""

    def read(value: Any) -> int:
        found = whole(value)
        if found < low:
            raise ValueError(f"must be at least {low}, not {found}")
        return found

    return read


def at_least_zero(value: Any) -> int:
    """Read a number, rounded down and clamped to 0 and above."""
    return _floored(number(value), 0, _LARGEST)


def positive(value: Any) -> float:
    """Read a finite number from 0 on."""
    found = number(value)
    if found < 0 or math.isinf(found):
        raise ValueError(_must("be 0 or more", value))
    return found


def share(value: Any) -> float:
    """Read a number, clamped to 0 to 1."""
    return min(1.0, max(0.0, number(value)))


def mmr_lambda(value: Any) -> float:
    """Read the lambda of MMR, clamped to 0 to 1; what is not finite becomes the default 0.7."""
    if isinstance(value, float) and not math.isfinite(value):
        return DEFAULT_LAMBDA
    return share(value)


def multiplier(value: Any) -> int:
    """Read how many times the results are candidates: rounded down, clamped to 1 to 20."""
    return _floored(number(value), 1, 20)


def half_life(value: Any) -> int:
    """Read a half-life in days: rounded down, at least 1; what is not finite becomes 30."""
    if isinstance(value, float) and not math.isfinite(value):
        return DEFAULT_HALF_LIFE
    return _floored(number(value), 1, _LARGEST)


def entries(value: Any) -> int | None:
    """Read a number of entries: rounded down, at least 1; what is not finite means no limit."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return _floored(number(value), 1, _LARGEST)


def _floored(value: float, low: int, high: int) -> int:
    return math.floor(min(float(high), max(float(low), value)))


def sources(value: Any) -> tuple[str, ...]:
    """Read the sources, each once, in their order; which hold is `enabled_sources`' to say."""
    return _words(value, ("memory", "sessions"))


def modalities(value: Any) -> tuple[str, ...]:
    """Read the kinds of media; `all` means image and audio."""
    found = _words(value, ("image", "audio", "all"))
    return ("image", "audio") if "all" in found else found


def _words(value: Any, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError(_must("be a list", value))
    for item in value:
        if item not in known:
            raise ValueError(_must(f"list only {', '.join(known)}", item))
    return tuple(dict.fromkeys(value))


def extra_paths(value: Any) -> tuple[tuple[str, str], ...]:
    """Read paths, each a text or `{path, pattern}`, as `(path, pattern)`; empty ones are left out.

    The first of two that are the same stays.
    """
    if not isinstance(value, list):
        raise ValueError(_must("be a list of paths", value))
    return tuple(dict.fromkeys(pair for item in value if (pair := _extra_path(item))[0]))


def _extra_path(item: Any) -> tuple[str, str]:
    if isinstance(item, str):
        return item.strip(), ""
    if isinstance(item, dict) and isinstance(item.get("path"), str):
        pattern = item.get("pattern")
        return item["path"].strip(), pattern.strip() if isinstance(pattern, str) else ""
    raise ValueError(_must("list texts or objects with a path", item))


def enabled_sources(written: Iterable[str], *, sessions: bool) -> tuple[str, ...]:
    """The sources that hold: transcripts only where they are allowed, notes where nothing is."""
    found = tuple(name for name in written if name != "sessions" or sessions)
    return found or ("memory",)


def normalised_weights(vector: float, keyword: float) -> tuple[float, float]:
    """Two weights, each clamped to 0 to 1, divided by their sum; 0.7 and 0.3 when that is 0."""
    vector, keyword = share(vector), share(keyword)
    total = vector + keyword
    return (vector / total, keyword / total) if total > 0 else DEFAULT_WEIGHTS


def candidate_count(max_results: int, times: float) -> int:
    """How many candidates each leg gives: 1 to 200."""
    return min(MAX_CANDIDATES, max(1, math.floor(max_results * times)))


def chunk_size(tokens: int, overlap: int) -> tuple[int, int]:
    """Tokens of a chunk (at least 1) and of its overlap (below them, at least 0)."""
    return max(1, tokens), min(max(0, tokens - 1), max(0, overlap))


def _must(what: str, value: Any) -> str:
    if isinstance(value, str):
        shown = repr(value) if len(value) <= 60 else "a long text"
    elif isinstance(value, bool):
        shown = "true" if value else "false"
    elif isinstance(value, int | float):
        shown = f"{value:.10g}" if abs(value) <= _LARGEST else "a number that large"
    else:
        shown = {dict: "an object", list: "a list", type(None): "null"}.get(type(value), "that")
    return f"must {what}, not {shown}"
