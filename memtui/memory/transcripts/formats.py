"""A transcript read line by line: whose it is, its turns, and what lists show of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from memtui.memory.transcripts.claude_code import ClaudeCode
from memtui.memory.transcripts.codex import Codex
from memtui.memory.transcripts.generated import Dropped, spoken_line, without_channel
from memtui.memory.transcripts.memory_calls import is_memory_search
from memtui.memory.transcripts.openclaw import OpenClaw, OpenClawLines
from memtui.memory.transcripts.openclaw_files import ARCHIVES, TranscriptRules, file_kind
from memtui.memory.transcripts.records import (
    ReadState,
    Record,
    SpokenLines,
    TranscriptFacts,
    TranscriptFormat,
    parse_line,
)
from memtui.memory.transcripts.stream import RawLine
from memtui.model import Reason
from memtui.model.conversations import TranscriptKind, Turn, TurnKind
from memtui.text.redact import redact
from memtui.text.sanitize import safe_line

FORMATS: Final[tuple[TranscriptFormat, ...]] = (OpenClaw(), ClaudeCode(), Codex())
"""In the order in which they are tried."""
format_of: Final = {form.kind: form for form in FORMATS}.__getitem__
"""The format of a program's transcripts."""
SHOWN: Final = 2_000
"""Characters of a text that are kept in memory."""

_DIGEST_BYTES: Final = 6
"""Of what names a record; among a million of them two are alike once in some hundred files."""
_TITLE: Final = 120
_TITLE_SOURCE: Final = 16_000
_LEAST_WINDOW: Final = 4096
"""Characters that are looked at, at least: no credential is as long as what is left over."""
_PRIVATE_KEY: Final = "private key-----"


@lru_cache(maxsize=256)
def _masked(text: str) -> str:
    return safe_line(redact(text))


def recognise(records: Iterable[Record]) -> TranscriptFormat | None:
    """Tell whose transcript it is by some of its records: whose most of them are.

    The first record decides between equals; `None` when no program would have written any.
    """
    forms = (next((one for one in FORMATS if one.recognises(record)), None) for record in records)
    counts = Counter(form for form in forms if form is not None)
    return max(counts, key=counts.__getitem__, default=None)


def index_lines(
    form: TranscriptFormat, name: str, rules: TranscriptRules, state: ReadState
) -> SpokenLines:
    """Begin to make the lines that the index has of a file, or go on where `state` was taken.

    OpenClaw's are made exactly as the release makes them; the rules matter to no other program.
    """
    if form.kind is TranscriptKind.OPENCLAW:
        return OpenClawLines(state, name, rules)
    return SpokenLines(state)


def beginning(text: str, shown: int = SHOWN) -> tuple[str, int]:
    """Return the first characters of a masked text, and the length of the whole.

    What is looked at ends far behind what is shown, so that no credential is seen by half. A
    private key is masked up to its end, however far that is. Of a huge text the length is that
    before masking.
    """
    size = max(_LEAST_WINDOW, 4 * shown)
    if len(text) > size:
        window = redact(text[:size])
        if len(window) > size // 2 and _PRIVATE_KEY not in window.lower():
            return window[:shown], len(text)
    whole = redact(text)
    return whole[:shown], len(whole)


class TranscriptReader:
    """Reads a transcript line by line: its turns, and what they tell of the whole."""

    def __init__(
        self, form: TranscriptFormat | None, name: str, lines: SpokenLines | None = None
    ) -> None:
        """`name` is the file's, by which archives are known; `lines` makes those of the index.

        Without a `form` the file is no transcript, and its lines give nothing.
        """
        self.state = lines.state if lines is not None else ReadState()
        """Changes with every line."""
        self._form = form
        self._lines = lines
        self._archived = file_kind(name) in ARCHIVES

    def add(self, raw: RawLine) -> tuple[Record | None, list[Turn]]:
        """Count a line in; return its record and its turns: whole texts, not masked."""
        if self._form is None and raw.data is not None:
            return None, []
        record, problem = parse_line(raw)
        if problem:
            self.state.facts.malformed += 1
            self.state.too_long += raw.data is None
            return None, [Turn(raw.number, TurnKind.MALFORMED, "system", problem, raw.length)]
        return record, self.turns_of(record, raw.number) if record is not None else []

    def turns_of(self, record: Record, line: int) -> list[Turn]:
        """Count a record in; return its turns, those of one that came before marked as such."""
        form, state, facts = self._form or FORMATS[0], self.state, self.state.facts
        if state.run is None and (self._lines is None or self._lines.finds_runs):
            state.run = form.run_of(record, archived=self._archived, is_first=not state.begun)
        state.begun = True
        if facts.kind is None and form.recognises(record):
            facts.kind = form.kind
        stated = form.facts(record)
        facts.agent = facts.agent or _masked(stated.agent)
        facts.model = _masked(stated.model) or facts.model
        if stated.timestamp_ms > 0:
            facts.started_ms = min(facts.started_ms or stated.timestamp_ms, stated.timestamp_ms)
            facts.ended_ms = max(facts.ended_ms, stated.timestamp_ms)
        turns = form.turns(record, line)
        if identity := form.identity(record):
            digest = hashlib.sha256(identity.encode("utf-8", "replace")).digest()[:_DIGEST_BYTES]
            if digest in state.seen:
                # Programs repeat records when they resume.
                turns = [replace(one, left_out=one.left_out or Dropped.DUPLICATE) for one in turns]
            state.seen.add(digest)
        for turn in turns:
            if turn.is_spoken:
                facts.turns += 1
                if turn.role == "user" and not (facts.title or turn.left_out):
                    text = turn.text
                    if form.kind is TranscriptKind.OPENCLAW:
                        # Without what a channel puts around it.
                        text = without_channel(spoken_line(text[:_TITLE_SOURCE], "user")[0])
                    title = " ".join(safe_line(beginning(text, 8 * _TITLE)[0]).split())
                    is_short = len(title) <= _TITLE
                    facts.title = title if is_short else title[: _TITLE - 1].rstrip() + "…"
            elif turn.kind is TurnKind.TOOL_CALL and is_memory_search(turn.tool, turn.text):
                facts.calls += 1
        return turns

    def result(self, agent: str) -> TranscriptFacts:
        """Return what lists show of it; `agent` where no record names one.

        Where lines of the index are made that of what is indexed, else that of what is said.
        """
        state, facts, lines = self.state, self.state.facts, self._lines
        messages = facts.turns if lines is None else facts.messages
        reason, detail = Reason.OK, ""
        if state.run is not None:
            reason = Reason.GENERATED_RUN
            detail = f"an automatic run ({state.run})"
        elif facts.kind is None:
            reason = Reason.NOT_A_TRANSCRIPT
            detail = "no record of a known program is in it"
        elif lines is not None and not lines.is_read:
            reason = Reason.ARCHIVE_NOT_READ
            detail = "this release lists archives and does not read them"
        elif not messages:
            reason, detail = Reason.NO_MESSAGES, "nothing that the user or the assistant says"
        elif lost := state.too_long or facts.malformed:
            reason = Reason.LINE_TOO_LONG if state.too_long else Reason.MALFORMED_LINES
            detail = f"{lost:,} broken {'line' if lost == 1 else 'lines'} left out"
        return replace(
            facts,
            agent=facts.agent or agent,
            messages=0 if state.run is not None else messages,
            left_out=dict(sorted(facts.left_out.items())),
            reason=reason,
            detail=detail,
        )
