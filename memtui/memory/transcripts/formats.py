"""Every program whose transcripts can be read, and how lines for the index are made of them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from memtui.memory.transcripts.claude_code import ClaudeCode
from memtui.memory.transcripts.codex import Codex
from memtui.memory.transcripts.generated import Dropped, Role, normalise, wrap
from memtui.memory.transcripts.openclaw import OpenClaw, OpenClawLines
from memtui.memory.transcripts.openclaw_files import TranscriptRules
from memtui.memory.transcripts.records import (
    LineReader,
    Record,
    TranscriptFormat,
    whole,
)
from memtui.model.conversations import TranscriptKind, TurnKind
from memtui.text.redact import redact

FORMATS: Final[tuple[TranscriptFormat, ...]] = (OpenClaw(), ClaudeCode(), Codex())
"""In the order in which they are tried."""

_BY_KIND: Final[Mapping[TranscriptKind, TranscriptFormat]] = {one.kind: one for one in FORMATS}
_DIGEST_BYTES: Final = 6
"""Of what names a record; among a million of them two are alike once in some hundred files."""


def format_of(kind: TranscriptKind) -> TranscriptFormat:
    """Return the format of a program's transcripts."""
    return _BY_KIND[kind]


def recognise(records: Iterable[Record]) -> TranscriptFormat | None:
    """Tell whose transcript it is by some of its records: whose most of them are.

    The first record decides between equals; `None` when no program would have written any.
    """
    counts: dict[TranscriptKind, int] = {}
    for record in records:
        kind = next((one.kind for one in FORMATS if one.recognises(record)), None)
        if kind is not None:
            counts[kind] = counts.get(kind, 0) + 1
    return format_of(max(counts, key=lambda kind: counts[kind])) if counts else None


def line_reader(
    form: TranscriptFormat,
    name: str,
    rules: TranscriptRules,
    state: Mapping[str, Any] | None = None,
) -> LineReader:
    """Begin to read the file of that name, or go on with it where `state` was taken.

    OpenClaw's are read exactly as the release reads them; the rules matter to no other program.
    """
    if form.kind is TranscriptKind.OPENCLAW:
        return OpenClawLines(name, rules, state)
    return SpokenLines(form, state)


class SpokenLines(LineReader):
    """Lines of a program without rules for them: folded, redacted and wrapped as OpenClaw's are.

    A record that was read before, as programs repeat them when they resume, is left out.
    """

    def __init__(self, form: TranscriptFormat, state: Mapping[str, Any] | None = None) -> None:
        super().__init__(state)
        held = state or {}
        self._form = form
        self._begun: bool = held.get("begun", False)
        seen = base64.b64decode(held.get("seen", ""))
        self._seen = {seen[at : at + _DIGEST_BYTES] for at in range(0, len(seen), _DIGEST_BYTES)}
        """A digest of the identity of every record so far."""

    def add(self, record: Record, number: int) -> list[str]:
        """Read the next record."""
        if not self._form.recognises(record):
            return []
        if not self._begun:
            self._begun = True
            self.run = self._form.run_of(record)
        spoken = [
            turn
            for turn in self._form.turns(record, number)
            if turn.kind is TurnKind.MESSAGE and turn.role in tuple(Role)
        ]
        if spoken and self._is_repeat(record):
            self.dropped[Dropped.DUPLICATE] += len(spoken)
            return []
        lines: list[str] = []
        for turn in spoken:
            why = turn.left_out or (Dropped.GENERATED_RUN if self.run else "")
            text = "" if why else normalise(whole(turn.text))
            if not text:
                self.dropped[why or Dropped.NO_TEXT] += 1
                continue
            self.messages += 1
            label = Role(turn.role).label
            lines += [f"{label}: {piece}" for piece in wrap(redact(text))]
        return lines

    def state(self) -> dict[str, Any]:
        """Return what is known so far."""
        seen = base64.b64encode(b"".join(sorted(self._seen))).decode()
        return super().state() | {"seen": seen, "begun": self._begun}

    def _is_repeat(self, record: Record) -> bool:
        """Return whether the record came before; it is remembered."""
        identity = self._form.identity(record)
        if not identity:
            return False
        digest = hashlib.sha256(identity.encode("utf-8", "replace")).digest()[:_DIGEST_BYTES]
        is_repeat = digest in self._seen
        self._seen.add(digest)
        return is_repeat
