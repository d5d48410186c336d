"""Credentials by their shape, told from placeholders; and text without them."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

from memtui.memory.care.patterns import load_patterns
from memtui.model import Document
from memtui.model.browsing import CarePlace
from memtui.text.redact import mask, redact

SHOWN_CHARACTERS: Final = 400
"""Characters of a place that are shown."""
_PATTERNS: Final = load_patterns("secrets")
_SHORTEST: Final = 8
_LEAST_BITS: Final = 2.8
"""Bits a character of a random token, at least; words repeat their letters."""
_LEAST_TOKEN_BITS: Final = 3.2
_AHEAD: Final = 4


def is_secret(token: str) -> bool:
    """Whether a token that is named or shaped as a secret can be one."""
    if (
        len(token) < _SHORTEST
        or _PATTERNS["placeholder"].search(token)
        or _PATTERNS["call"].search(token)
    ):
        return False
    if (
        _PATTERNS["words"].fullmatch(token)
        or _PATTERNS["uuid"].fullmatch(token)
        or _PATTERNS["public"].match(token)
    ):
        return False
    if not (re.search("[A-Za-z]", token) and re.search("[0-9]", token)):
        return False
    known = _PATTERNS["known"].fullmatch(token) is not None
    return _bits(token) >= (_LEAST_TOKEN_BITS if known else _LEAST_BITS)


def known_tokens(text: str) -> list[str]:
    """The tokens of a text that begin as those of a known service, or are called a secret there.

    Placeholders are left out.
    """
    tokens = [found[0] for found in _PATTERNS["known"].finditer(text)]
    tokens += [found["value"] for found in _PATTERNS["named"].finditer(text)]
    return [token for token in tokens if is_secret(token)]


def masked(text: str) -> str:
    """A text with everything masked that is shaped like a credential."""
    known = _PATTERNS["known"].sub(lambda found: mask(found[0]), redact(text))
    return _PATTERNS["named"].sub(_with_value_masked, known)


def _with_value_masked(found: re.Match[str]) -> str:
    value = found["value"]
    start = found.start("value") - found.start()
    whole = found[0]
    return whole[:start] + mask(value) + whole[start + len(value) :] if is_secret(value) else whole


def shown(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """The beginning of a text, masked before it is cut: half a token has no shape."""
    return masked(text[: _AHEAD * limit])[:limit]


def place_in(document: Document, first: int, last: int, text: str) -> CarePlace:
    """Some lines of a document, 1-based and inclusive, with the text that is shown of them."""
    return CarePlace(document.file.path, first, last, shown(text))


def _bits(token: str) -> float:
    """Shannon entropy of a token's characters, in bits."""
    counts = Counter(token)
    return -sum(n / len(token) * math.log2(n / len(token)) for n in counts.values())
