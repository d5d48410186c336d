"""Credentials in text, masked as OpenClaw masks them before it indexes a conversation.

A token of 18 characters or more keeps its first six and last four, a shorter one nothing, unless
another mask is asked for; a PEM block keeps its first and last line. What is recognised are
assignments, JSON fields, flags and headers that name a secret, and tokens with the prefix of a
known service.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memtui.text.ecmascript import SPACE

SHORTEST_HINTED: Final = 18
"""A token with fewer characters is masked whole."""
MASK: Final = "***"

_FIRST, _LAST = 6, 4
_S = f"[{SPACE}]"
_FLAGS: Final = re.IGNORECASE | re.ASCII
_PEM_MARK: Final = "PRIVATE KEY-----"
_PEM_BEGIN = re.compile(rf"-----BEGIN [A-Z ]*{_PEM_MARK}", _FLAGS)
_PEM_END = re.compile(rf"-----END [A-Z ]*{_PEM_MARK}", _FLAGS)


@dataclass(frozen=True, slots=True)
class Rule:
    """One shape of a credential."""

    pattern: re.Pattern[str]
    """Its last group that is not empty is the secret; without groups the whole match is."""
    needs: tuple[str, ...]
    """Lower case; a text with none of these cannot match, and is not searched."""


def _rule(pattern: str, *needs: str, flags: re.RegexFlag = _FLAGS) -> Rule:
    return Rule(re.compile(pattern, flags), needs)


def _quoted(characters: str) -> str:
    """A value, in quotes or not; the value is the second group of the two."""
    return rf"([\"']?)([^{SPACE}\"'{characters}]+)\1"


def token_rule(prefix: str, characters: str, least: int) -> Rule:
    """A token of a service: its prefix and at least so many more characters."""
    return _rule(rf"\b({prefix}[{characters}]{{{least},}})\b", prefix.lower().partition("[")[0])


_NAMES: Final = (
    r"(?:access|auth|refresh)[-_]?token|api[-_]?key|client[-_]?secret|token|secret|passw(?:or)?d"
)
"""What is called a secret in a query string and in an assignment."""
_IN_NAMES: Final = ("token", "key", "secret", "passw")

OPENCLAW_2026_4: Final[tuple[Rule, ...]] = (
    # Capitals only: `key: value` in prose is no assignment of a secret.
    _rule(
        rf"\b[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\b{_S}*[=:]{_S}*" + _quoted(r"\\"),
        *_IN_NAMES,
        flags=re.ASCII,
    ),
    _rule(
        rf"[?&](?:{_NAMES}|hook[-_]?token|key|pass|auth|signature)=([^&{SPACE}\"'<>]+)", "?", "&"
    ),
    _rule(
        r'"(?:apiKey|token|secret|password|passwd|accessToken|refreshToken)"'
        rf'{_S}*:{_S}*"([^"]+)"',
        *(f'{part}"' for part in ("key", "token", "secret", "password", "passwd")),
    ),
    _rule(
        rf"--(?:api[-_]?key|hook[-_]?token|token|secret|password|passwd){_S}+" + _quoted(""),
        "--",
    ),
    _rule(rf"Authorization{_S}*[:=]{_S}*Bearer{_S}+([A-Z0-9._\-+=]+)", "authorization"),
    _rule(rf"\bBearer{_S}+([A-Z0-9._\-+=]{{{SHORTEST_HINTED},}})\b", "bearer"),
    _rule(rf"(?:^|[{SPACE},;])(?:{_NAMES}|app[-_]?secret)=([^{SPACE}&#]+)", *_IN_NAMES),
)
"""What names a secret, in the order of release 2026.4.26; PEM blocks and tokens come after."""

OPENCLAW_2026_4_TOKENS: Final[tuple[Rule, ...]] = (
    token_rule("sk-", "A-Z0-9_-", 8),
    token_rule("ghp_", "A-Z0-9", 20),
    token_rule("github_pat_", "A-Z0-9_", 20),
    token_rule("xox[baprs]-", "A-Z0-9-", 10),
    token_rule("xapp-", "A-Z0-9-", 10),
    token_rule("gsk_", "A-Z0-9_-", 10),
    token_rule("AIza", r"0-9A-Z\-_", 20),
    token_rule("pplx-", "A-Z0-9_-", 10),
    token_rule("npm_", "A-Z0-9", 10),
    _rule(r"\bbot(\d{6,}:[A-Z0-9_-]{20,})\b", "bot"),
    _rule(r"\b(\d{6,}:[A-Z0-9_-]{20,})\b", ":"),
)
"""Tokens that are told by their own shape."""


def redact(
    text: str,
    named: Sequence[Rule] = OPENCLAW_2026_4,
    tokens: Sequence[Rule] = OPENCLAW_2026_4_TOKENS,
    *,
    masked: Callable[[str], str] | None = None,
) -> str:
    """Mask the credentials in a text; `masked` is what a token becomes, `mask` unless given.

    `named` rules come first, then PEM blocks, then `tokens`; each sees what the one before left.
    """
    chosen = masked or mask
    return _masked(redact_pem(_masked(text, named, chosen)), tokens, chosen)


def mask(token: str) -> str:
    """A token's first six and last four characters; nothing of one shorter than 18."""
    if len(token) < SHORTEST_HINTED:
        return MASK
    return f"{token[:_FIRST]}…{token[-_LAST:]}"


def redact_pem(text: str) -> str:
    """Keep the first and last line of every private key; on one line nothing of it."""
    if _PEM_MARK.lower() not in text.lower():
        return text
    kept: list[str] = []
    at = 0
    for start, end in _pem_blocks(text):
        lines = [line for line in re.split(r"\r?\n", text[start:end]) if line]
        block = f"{lines[0]}\n…redacted…\n{lines[-1]}" if len(lines) > 1 else MASK
        kept += (text[at:start], block)
        at = end
    return "".join((*kept, text[at:]))


def _pem_blocks(text: str) -> Iterator[tuple[int, int]]:
    begin = _PEM_BEGIN.search(text)
    while begin is not None:
        # At least one character stands between the two marks.
        end = _PEM_END.search(text, begin.end() + 1)
        if end is None:
            return
        yield begin.start(), end.end()
        begin = _PEM_BEGIN.search(text, end.end())


def _masked(text: str, rules: Sequence[Rule], masked: Callable[[str], str]) -> str:
    def of_match(match: re.Match[str]) -> str:
        whole = match[0]
        group = next((n for n in range(match.re.groups, 0, -1) if match[n]), 0)
        start, end = match.span(group)
        first = match.start()
        return whole[: start - first] + masked(match[group]) + whole[end - first :]

    lowered = text.lower()
    for rule in rules:
        if any(part in lowered for part in rule.needs):
            replaced = rule.pattern.sub(of_match, text)
            if replaced != text:
                text, lowered = replaced, replaced.lower()
    return text
