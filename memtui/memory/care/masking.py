"""Credentials by their shape, told from placeholders; and text without them."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

from memtui.model import Document
from memtui.model.browsing import CarePlace
from memtui.text.redact import mask, redact

SHOWN_CHARACTERS: Final = 400
"""Characters of a place that are shown."""
_KNOWN = re.compile(
    r"(?:sk-|ghp_|gho_|ghs_|github_pat_|glpat-|xox[a-z]-|xapp-|gsk_|AIza|AKIA|pplx-|npm_|hf_|"
    r"(?<!\d)\d{6,}:)[A-Za-z0-9_-]{12,}"
)
_PLACEHOLDER = re.compile(
    r"x{4,}|X{4,}|\*{3,}|\.{3}|…|•{3,}|[<>{}$%]|\[|\(|your|example|placeholder|change[-_]?me|"
    r"redacted|dummy|sample|secret[-_]?(?:here|key|value)|insert|replace|todo|0{6,}|1234567|"
    r"abcdef|process\.env|environ|vault|keychain|op:/|test[-_]?(?:key|token)|fake|hidden",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?<![\w-])(?:passwor[dt]|passwd|passphrase|kennwort|mot de passe|contraseña|senha|密码|口令|"
    r"パスワード|(?:api|access|client|secret|private|auth)[-_ ]?(?:key|secret|token)|secret|token)"
    r"[*_`\"']{0,3}\s{0,4}[=:：]\s{0,4}[*_`\"']{0,3}(?P<value>[^\s\"'`/]{8,200})(?=[\s\"'`,;.)]|$)",
    re.IGNORECASE,
)
"""What is called a secret in a note, in some languages."""
_WORDS = re.compile(r"[A-Z]?[a-z]*[0-9]{0,2}(?:[-_./][A-Z]?[a-z]*[0-9]{0,2})+")
"""Words in a row, such as the name of a setting or of a file."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PUBLIC = re.compile(r"pk_(?:test|live)_")
_CALL = re.compile(r"[A-Za-z_.]\(")
_SHORTEST: Final = 8
_LEAST_BITS: Final = 2.8
"""Bits a character of a random token, at least; words repeat their letters."""
_LEAST_TOKEN_BITS: Final = 3.2
_AHEAD: Final = 4


def is_secret(token: str) -> bool:
    """Whether a token that is named or shaped as a secret can be one."""
    if len(token) < _SHORTEST or _PLACEHOLDER.search(token) or _CALL.search(token):
        return False
    if _WORDS.fullmatch(token) or _UUID.fullmatch(token) or _PUBLIC.match(token):
        return False
    if not (re.search("[A-Za-z]", token) and re.search("[0-9]", token)):
        return False
    known = _KNOWN.fullmatch(token) is not None
    return _bits(token) >= (_LEAST_TOKEN_BITS if known else _LEAST_BITS)


def known_tokens(text: str) -> list[str]:
    """The tokens of a text that begin as those of a known service, or are called a secret there.

    Placeholders are left out.
    """
    tokens = [found[0] for found in _KNOWN.finditer(text)]
    tokens += [found["value"] for found in _NAMED.finditer(text)]
    return [token for token in tokens if is_secret(token)]


def masked(text: str) -> str:
    """A text with everything masked that is shaped like a credential."""
    known = _KNOWN.sub(lambda found: mask(found[0]), redact(text))
    return _NAMED.sub(_with_value_masked, known)


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
