"""Credentials by their shape, told from placeholders; and text without them."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

from memtui.memory.care.patterns import load_patterns
from memtui.model import SourceFile
from memtui.model.browsing import CareFinding, CarePlace, CareRule
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
    """Return whether a token that is named or shaped as a secret can be one."""
    if len(token) < _SHORTEST or _PATTERNS["public"].search(token):
        return False
    if not (re.search("[A-Za-z]", token) and re.search("[0-9]", token)):
        return False
    # Shannon entropy of the characters.
    shares = [count / len(token) for count in Counter(token).values()]
    least = _LEAST_TOKEN_BITS if _PATTERNS["known"].fullmatch(token) else _LEAST_BITS
    return -sum(share * math.log2(share) for share in shares) >= least


def known_tokens(text: str) -> list[str]:
    """Return the tokens that begin as those of a known service, or are called a secret.

    Placeholders are left out.
    """
    tokens = [match[0] for match in _PATTERNS["known"].finditer(text)]
    tokens += [match["value"] for match in _PATTERNS["named"].finditer(text)]
    return [token for token in tokens if is_secret(token)]


def masked(text: str) -> str:
    """Mask everything in a text that is shaped like a credential."""

    def mask_value(match: re.Match[str]) -> str:
        value = match["value"]
        return match[0].removesuffix(value) + (mask(value) if is_secret(value) else value)

    text = _PATTERNS["known"].sub(lambda match: mask(match[0]), redact(text))
    return _PATTERNS["named"].sub(mask_value, text)


def shown(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return the beginning of a text, masked before it is cut: half a token has no shape."""
    return masked(text[: _AHEAD * limit])[:limit]


def finding_in(
    rule: CareRule,
    file: SourceFile,
    span: tuple[int, int],
    text: str,
    message: str,
    **numbers: int | str,
) -> CareFinding:
    """Return a finding about some lines of a note, 1-based and inclusive, with their text."""
    place = CarePlace(file.path, *span, shown(text))
    return CareFinding(rule, place, message, numbers=numbers)
