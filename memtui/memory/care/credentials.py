"""Text shaped like credentials, without placeholders and examples; masked where it is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memtui.memory.care.masking import is_secret, known_tokens, place_in
from memtui.memory.documents import split_lines
from memtui.model import Document
from memtui.model.browsing import CareFinding, CareRule
from memtui.text.redact import MASK, mask, redact

_BLOCK_START = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_BLOCK_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}")
_DIGIT = re.compile("[0-9]")
_BLOCK_LINES: Final = 4
_LONGEST_LINE: Final = 100_000


def credentials(document: Document) -> Iterator[CareFinding]:
    """The lines of a note that hold what is shaped like a credential, one finding a line.

    Code is looked at, too: that is where they are pasted. The text of a finding is masked.
    """
    lines = split_lines(document.text)
    for number, line in enumerate(lines, start=1):
        if _BLOCK_START.search(line):
            below = lines[number - 1 : number + _BLOCK_LINES]
            if any(_BLOCK_BODY.search(one) for one in below):
                yield _finding(document, number, line.strip(), "a private key")
            continue
        tokens = secrets_of(line[:_LONGEST_LINE])
        if tokens:
            shown = ", ".join(dict.fromkeys(map(mask, tokens)))
            for token in tokens:
                line = line.replace(token, mask(token))
            yield _finding(document, number, line, f"a credential ({shown})")


def secrets_of(line: str) -> list[str]:
    """What in a line is shaped like a secret and is neither a placeholder nor a word."""
    if _DIGIT.search(line) is None:
        return []
    found: list[str] = []

    def note(token: str) -> str:
        if is_secret(token):
            found.append(token)
        return MASK

    redact(line, masked=note)
    found += known_tokens(line)
    return [token for token in dict.fromkeys(found) if not _is_part(token, found)]


def _is_part(token: str, of: list[str]) -> bool:
    return any(token != other and token in other for other in of)


def _finding(document: Document, number: int, text: str, what: str) -> CareFinding:
    return CareFinding(
        CareRule.CREDENTIAL,
        place_in(document, number, number, text),
        f"looks like {what}: keep it in a password manager, and change it",
    )
