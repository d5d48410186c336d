"""One transcript being read: from its lines to chunks and facts, at any line ready to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from memtui.index.files import within_limit
from memtui.index.transcripts.state import TranscriptFacts
from memtui.memory.chunking import Packer
from memtui.memory.transcripts.base import TranscriptFormat, parse_record
from memtui.memory.transcripts.calls import is_memory_search
from memtui.memory.transcripts.formats import FORMATS
from memtui.memory.transcripts.generated import Run, without_channel
from memtui.memory.transcripts.names import is_read
from memtui.memory.transcripts.rules import TranscriptRules
from memtui.memory.transcripts.stream import RawLine, text_of
from memtui.model import ChunkSpan, Reason
from memtui.model.conversations import TranscriptKind, TurnKind
from memtui.text.redact import redact
from memtui.text.redact_spoken import redact_spoken
from memtui.text.sanitize import safe_line

BAD_LINES_KEPT: Final = 50
_TITLE: Final = 120
_TITLE_SOURCE: Final = 4000
_MASKED: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Cutting:
    """How the text of a transcript is cut into chunks."""

    tokens: int
    overlap: int
    input_bytes: int | None


@dataclass(slots=True)
class _Seen:
    """What was told by the lines so far."""

    agent: str = ""
    title: str = ""
    model: str = ""
    session: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    turns: int = 0
    calls: int = 0
    too_long: int = 0
    is_recognised: bool = False
    bad_lines: list[list[Any]] = field(default_factory=list)


class TranscriptReading:
    """Takes in one line after the other; `state` is what it goes on from another day."""

    def __init__(
        self,
        form: TranscriptFormat | None,
        name: str,
        rules: TranscriptRules,
        cutting: Cutting,
        state: Mapping[str, Any] | None = None,
        run: Run | None = None,
    ) -> None:
        """`name` is the file's, by which a release tells archives; `state` that of a reading.

        `run`: what the program's list of sessions says that the whole transcript is.

        Without a `form` the file is no transcript: its lines are counted, and give nothing.
        """
        held = state or {}
        self._form = form or FORMATS[0]
        self._is_foreign = form is None
        self._cutting = cutting
        self._is_read = is_read(name, rules)
        reader = dict(held.get("reader") or {})
        if run is not None:
            reader["run"] = reader.get("run") or run.value
        self._reader = self._form.line_reader(name, rules, state=reader)
        self._began_with = self._reader.cutoff
        self._packer = Packer(cutting.tokens, cutting.overlap, held=held.get("held", ()))
        self._seen = _Seen(**held.get("seen", {}))
        self._model = ""
        self._shown = str if rules.masks_more else redact_spoken

    @property
    def is_void(self) -> bool:
        """Whether the program talked with itself: no chunk of it is to be kept."""
        return self._reader.run is not None

    @property
    def kind(self) -> str:
        """Whose transcript it is, once a record has shown it; empty before."""
        return self._form.kind.value if self._seen.is_recognised else ""

    @property
    def marks(self) -> tuple[bool, int]:
        """What the lines so far say about those before them: whether all is void, the cutoff."""
        return self.is_void, self._reader.cutoff

    @property
    def begins_again(self) -> dict[str, Any] | None:
        """The state to read it with from its first line, when its last lines ask for that."""
        cutoff = self._reader.cutoff
        return None if cutoff == self._began_with else {"reader": {"cutoff": cutoff}}

    @property
    def _gives_lines(self) -> bool:
        return self._is_read and not self.is_void

    def state(self) -> dict[str, Any]:
        """What a reading that goes on behind the last line is made from; can be written as JSON."""
        state = {
            "reader": self._reader.state(),
            "held": self._packer.held,
            "seen": asdict(self._seen),
        }
        # A copy: what is read next must not change it.
        copied: dict[str, Any] = json.loads(json.dumps(state))
        return copied

    def add(self, raw: RawLine) -> list[ChunkSpan]:
        """Take in the next line; give the chunks that it completes."""
        if raw.data is None:
            self._bad(raw.number, Reason.LINE_TOO_LONG)
            self._seen.too_long += 1
            return []
        if self._is_foreign:
            return []
        text = text_of(raw)
        before = self._reader.malformed
        lines = self._reader.add_line(text, raw.number)
        if self._reader.malformed > before:
            self._bad(raw.number, Reason.MALFORMED_LINES)
        else:
            self._look(text, raw.number)
        if self.is_void:
            return []
        spans: list[ChunkSpan] = []
        if lines and self._reader.cuts_before(raw.number):
            spans += self._packer.cut()
        for line in lines:
            if not self._seen.title and line.role == "user":
                self._seen.title = self._title(self._shown(line.text).partition(": ")[2])
            spans += self._packer.feed(line.line, line.text)
        return self._limited(spans)

    def tail(self) -> list[ChunkSpan]:
        """The chunk that what comes next may still change."""
        return [] if self.is_void else self._limited(self._packer.finish())

    def facts(self, agent: str) -> TranscriptFacts:
        """What is told of it in lists; `agent` where no record names one."""
        seen = self._seen
        reason, detail = self._reason()
        return TranscriptFacts(
            self._form.kind if seen.is_recognised else None,
            seen.agent or agent,
            seen.title,
            seen.model,
            seen.session,
            seen.started_ms,
            seen.ended_ms,
            seen.turns,
            0 if self.is_void else self._reader.messages,
            seen.calls,
            self._reader.malformed + seen.too_long,
            tuple((line, Reason(why)) for line, why in seen.bad_lines),
            {str(why): count for why, count in sorted(self._reader.dropped.items())},
            reason,
            detail,
        )

    def _look(self, text: str, number: int) -> None:
        """Note what the record says of the whole transcript."""
        if not text.strip():
            return
        try:
            record = parse_record(text)
        except ValueError:
            # The reader of lines has refused it as well, and counted it.
            return
        if not isinstance(record, dict):
            return
        seen = self._seen
        seen.is_recognised = seen.is_recognised or self._form.recognises(record)
        facts = self._form.facts(record)
        if facts.agent and not seen.agent:
            seen.agent = safe_line(redact(facts.agent))
        if facts.model and facts.model != self._model:
            self._model, seen.model = facts.model, safe_line(redact(facts.model))
        if facts.session and not seen.session:
            seen.session = safe_line(redact(facts.session))
        if facts.timestamp_ms > 0:
            first = seen.started_ms or facts.timestamp_ms
            seen.started_ms = min(first, facts.timestamp_ms)
            seen.ended_ms = max(seen.ended_ms, facts.timestamp_ms)
        for turn in self._form.turns(record, number, redacts=False):
            if turn.kind is TurnKind.MESSAGE and turn.role in ("user", "assistant"):
                seen.turns += 1
                if not (seen.title or self._gives_lines) and turn.role == "user":
                    seen.title = self._title(redact(turn.text[:_MASKED]))
            elif turn.kind is TurnKind.TOOL_CALL and is_memory_search(turn.tool, turn.text):
                seen.calls += 1

    def _title(self, text: str) -> str:
        line = " ".join(safe_line(text[:_TITLE_SOURCE]).split())
        if self._form.kind is TranscriptKind.OPENCLAW:
            line = without_channel(line)
        return line if len(line) <= _TITLE else line[: _TITLE - 1].rstrip() + "…"

    def _reason(self) -> tuple[Reason, str]:
        run = self._reader.run
        if run is not None:
            return Reason.GENERATED_RUN, f"a {run} run: the program talked with itself"
        if not self._seen.is_recognised:
            return Reason.NOT_A_TRANSCRIPT, "no record of a known program is in it"
        if not self._is_read:
            return Reason.ARCHIVE_NOT_READ, "this release lists archives and does not read them"
        if not self._reader.messages:
            return Reason.NO_MESSAGES, "nothing that the user or the assistant says"
        if self._seen.too_long:
            return Reason.LINE_TOO_LONG, f"{_counted(self._seen.too_long, 'line')} left out"
        if self._reader.malformed:
            return Reason.MALFORMED_LINES, f"{_counted(self._reader.malformed, 'line')} left out"
        return Reason.OK, ""

    def _bad(self, number: int, why: Reason) -> None:
        if len(self._seen.bad_lines) < BAD_LINES_KEPT:
            self._seen.bad_lines.append([number, why.value])

    def _limited(self, spans: list[ChunkSpan]) -> list[ChunkSpan]:
        said = [span for span in spans if span.text.strip()]
        return within_limit(said, self._cutting.input_bytes)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
