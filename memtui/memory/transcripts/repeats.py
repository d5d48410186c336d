"""Records that a program wrote twice, as when it resumes a session: told by what names them."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from memtui.memory.transcripts.base import Record, TranscriptFormat

_DIGEST_BYTES: Final = 6
"""Of what names a record; among a million of them two are alike once in some hundred files."""


class Repeats:
    """Remembers the records of a transcript by their identities, in a few bytes each."""

    def __init__(self, held: str = "") -> None:
        """`held`: what the property of that name was when the reading stopped."""
        data = base64.b64decode(held)
        self._seen = {data[at : at + _DIGEST_BYTES] for at in range(0, len(data), _DIGEST_BYTES)}

    @property
    def held(self) -> str:
        """What is remembered, as text."""
        return base64.b64encode(b"".join(sorted(self._seen))).decode()

    def is_repeat(self, form: TranscriptFormat, record: Record) -> bool:
        """Whether the record was asked about before; it is remembered."""
        identity = form.identity(record)
        if not identity:
            return False
        digest = hashlib.sha256(identity.encode("utf-8", "replace")).digest()[:_DIGEST_BYTES]
        if digest in self._seen:
            return True
        self._seen.add(digest)
        return False
