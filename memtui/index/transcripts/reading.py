"""One transcript being read, from its lines to chunks and facts, and what the index keeps of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from memtui.index.database import number
from memtui.index.rows import within_limit
from memtui.index.transcripts.streams import open_lines
from memtui.memory.chunking import Packer
from memtui.memory.paths import written
from memtui.memory.transcripts.formats import FORMATS, format_of, line_reader, recognise
from memtui.memory.transcripts.generated import Run, without_channel
from memtui.memory.transcripts.memory_calls import is_memory_search
from memtui.memory.transcripts.openclaw_files import TranscriptRules, is_read
from memtui.memory.transcripts.records import RecordFacts, TranscriptFormat, record_in
from memtui.memory.transcripts.stream import RawLine
from memtui.model import ChunkSpan, Reason, SourceFile
from memtui.model.conversations import TranscriptKind, TurnKind
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.index.database import Connection

BAD_LINES_KEPT: Final = 50
REGISTERED: Final = "registered"
"""In the state of a row: what the program's list of sessions said that it is."""

_LINES = 50
_BYTES = 1 << 20
_TITLE: Final = 120
_TITLE_SOURCE: Final = 4000
_MASKED: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TranscriptFacts:
    """What lists show of a transcript."""

    kind: TranscriptKind | None = None
    """`None` for a file that is no transcript."""
    agent: str = ""
    title: str = ""
    """The beginning of what the user said first, credentials masked."""
    model: str = ""
    session: str = ""
    started_ms: int = 0
    ended_ms: int = 0
    turns: int = 0
    """Messages of the user and the assistant, indexed or not."""
    messages: int = 0
    """Messages that are indexed."""
    calls: int = 0
    """Searches of the memory."""
    malformed: int = 0
    """Lines that are no record, lines that are too long included."""
    bad_lines: tuple[tuple[int, Reason], ...] = ()
    """The first 50 of them by number, each with `malformed_lines` or `line_too_long`."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many messages are not indexed, by why."""
    reason: Reason = Reason.OK
    """Why the transcript has no chunks, or not all that it could have."""
    detail: str = ""
    """One line about `reason`."""


_FACTS = tuple(one.name for one in fields(TranscriptFacts))
"""They are columns of the table `transcripts`, too."""


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """A transcript as an index holds it."""

    chunks: int
    facts: TranscriptFacts = TranscriptFacts()
    stat: tuple[int, int] | None = None
    """Size in bytes and mtime in ns of what was indexed; `None` where the index has only chunks."""

    def is_current(self, file: SourceFile) -> bool:
        """Return whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


@dataclass(frozen=True, slots=True)
class Resuming:
    """Where the reading of a transcript goes on."""

    next_byte: int = 0
    next_line: int = 1
    prefix: str = ""
    """sha256 hex of the bytes before `next_byte`; empty when it cannot go on."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """What the reader and the packer say of themselves, and the facts so far."""
    open_chunks: tuple[str, ...] = ()
    """The ids of chunks that what comes next may change."""


# --- whose it is --------------------------------------------------------------------------


def format_for(
    file: SourceFile, known: object = None, *, limit: int = _BYTES
) -> TranscriptFormat | None:
    """Return how the file is read; `known` is the kind that an earlier reading found.

    By its first records, else as its place suggests; `None` when neither tells. Raises `OSError`.
    """
    if isinstance(known, str) and known in set(TranscriptKind):
        return format_of(TranscriptKind(known))
    form = recognise(_first_records(file, limit))
    return format_of(TranscriptKind(file.kind)) if form is None and file.kind else form


def is_settled(next_line: int, next_byte: int) -> bool:
    """Return whether what is before a line decides whose transcript it is, whatever follows."""
    return next_line > _LINES or next_byte > _BYTES


def _first_records(file: SourceFile, limit: int) -> list[Mapping[str, Any]]:
    records: list[Mapping[str, Any]] = []
    with open_lines(file, limit=min(limit, _BYTES)) as lines:
        try:
            for raw in lines:
                with suppress(ValueError):
                    # Counted when the file is read; here the next line is asked.
                    record = record_in(raw)
                    records += [record] if record is not None else []
                if raw.number >= _LINES or raw.offset >= _BYTES:
                    break
        except OSError:
            # A packed file that is cut: who reads all of it says so.
            return records
    return records


def name_of(file: SourceFile) -> str:
    """Return the file's name, by which a release tells archives; of events, as it would be."""
    return f"{file.session}.jsonl" if file.session else file.absolute.name


def agent_of(file: SourceFile) -> str:
    """Return the agent or project that the place of a transcript names; empty for none."""
    parts = PurePosixPath(file.path).parts
    if file.kind == TranscriptKind.OPENCLAW:
        # agents/<agent>/sessions/<file>, agents/<agent>/agent/<database>
        return written(file.absolute.parent.parent.name)
    return parts[1] if file.kind == TranscriptKind.CLAUDE_CODE and len(parts) > 2 else ""


# --- lines to chunks ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cutting:
    """How the text of a transcript is cut into chunks."""

    tokens: int
    overlap: int
    input_bytes: int | None


@dataclass(slots=True)
class Seen:
    """What the records so far say of their whole transcript; texts are masked."""

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

    def note(self, facts: RecordFacts) -> None:
        """Take in what one record says."""
        self.agent = self.agent or _masked(facts.agent)
        self.model = _masked(facts.model) or self.model
        self.session = self.session or _masked(facts.session)
        if facts.timestamp_ms > 0:
            self.started_ms = min(self.started_ms or facts.timestamp_ms, facts.timestamp_ms)
            self.ended_ms = max(self.ended_ms, facts.timestamp_ms)


@lru_cache(maxsize=256)
def _masked(text: str) -> str:
    return safe_line(redact(text))


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
        self._reader = line_reader(self._form, name, rules, reader)
        self._began_with = self._reader.cutoff
        self._packer = Packer(cutting.tokens, cutting.overlap, held=held.get("held", ()))
        self._seen = Seen(**held.get("seen", {}))
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

    def state(self) -> dict[str, Any]:
        """Return what a reading that goes on is made from; can be written as JSON."""
        state = {
            "reader": self._reader.state(),
            "held": self._packer.held,
            "seen": asdict(self._seen),
        }
        # A copy: what is read next must not change it.
        return cast("dict[str, Any]", json.loads(json.dumps(state)))

    def add(self, raw: RawLine) -> list[ChunkSpan]:
        """Take in the next line; give the chunks that it completes."""
        if raw.data is None:
            self._bad(raw.number, Reason.LINE_TOO_LONG)
            self._seen.too_long += 1
            return []
        if self._is_foreign:
            return []
        try:
            record = record_in(raw)
        except ValueError:
            # Counted: a cut or damaged line must not end the reading of a transcript.
            if self._reader.is_read:
                self._reader.malformed += 1
                self._bad(raw.number, Reason.MALFORMED_LINES)
            return []
        if record is None:
            return []
        lines = self._reader.add(record, raw.number)
        self._note(record, raw.number)
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
        """Return the chunk that what comes next may still change."""
        return [] if self.is_void else self._limited(self._packer.finish())

    def facts(self, agent: str) -> TranscriptFacts:
        """Return what lists show of it; `agent` where no record names one."""
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

    def _note(self, record: Mapping[str, Any], number: int) -> None:
        """Note what the record says of the whole transcript."""
        seen = self._seen
        seen.is_recognised = seen.is_recognised or self._form.recognises(record)
        seen.note(self._form.facts(record))
        for turn in self._form.turns(record, number):
            if turn.kind is TurnKind.MESSAGE and turn.role in ("user", "assistant"):
                seen.turns += 1
                gives_lines = self._is_read and not self.is_void
                if not (seen.title or gives_lines) and turn.role == "user":
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
            return Reason.LINE_TOO_LONG, _left_out(self._seen.too_long)
        if self._reader.malformed:
            return Reason.MALFORMED_LINES, _left_out(self._reader.malformed)
        return Reason.OK, ""

    def _bad(self, number: int, why: Reason) -> None:
        if len(self._seen.bad_lines) < BAD_LINES_KEPT:
            self._seen.bad_lines.append([number, why.value])

    def _limited(self, spans: list[ChunkSpan]) -> list[ChunkSpan]:
        return within_limit([s for s in spans if s.text.strip()], self._cutting.input_bytes)


def _left_out(lines: int) -> str:
    return f"{lines:,} {'line' if lines == 1 else 'lines'} left out"


# --- rows of the index --------------------------------------------------------------------


def transcript_rows(connection: Connection) -> dict[str, TranscriptRow]:
    """Read what the index knows of every transcript, by path."""
    if not number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'transcripts'"):
        # An index that an older memtui made.
        return {}
    rows = connection.execute(
        f"SELECT f.path, f.size, f.mtime_ns, coalesce(c.number, 0), {', '.join(_FACTS)} "
        "FROM transcripts t JOIN files f ON f.id = t.file_id LEFT JOIN "
        "(SELECT file_id, count(*) AS number FROM chunks GROUP BY file_id) c "
        "ON c.file_id = t.file_id"
    ).fetchall()
    return {path: _row(*row) for path, *row in cast("list[tuple[Any, ...]]", rows)}


def _row(size: int, mtime_ns: int, chunks: int, *values: Any) -> TranscriptRow:
    row = dict(zip(_FACTS, values, strict=True))
    row["kind"] = TranscriptKind(row["kind"]) if row["kind"] else None
    row["bad_lines"] = tuple((line, Reason(why)) for line, why in json.loads(row["bad_lines"]))
    row["left_out"] = json.loads(row["left_out"])
    row["reason"] = Reason(row["reason"])
    return TranscriptRow(chunks, TranscriptFacts(**row), (size, mtime_ns))


def write_row(
    connection: Connection, file_id: int, facts: TranscriptFacts, goes_on: Resuming
) -> None:
    """Make the row of a transcript say this."""
    row = {name: getattr(facts, name) for name in _FACTS} | {
        "file_id": file_id,
        "kind": facts.kind.value if facts.kind is not None else "",
        "bad_lines": json.dumps([(line, reason.value) for line, reason in facts.bad_lines]),
        "left_out": json.dumps(dict(facts.left_out), sort_keys=True),
        "reason": facts.reason.value,
        "next_byte": goes_on.next_byte,
        "next_line": goes_on.next_line,
        "prefix": goes_on.prefix,
        "state": json.dumps(dict(goes_on.state), sort_keys=True),
        "open_chunks": json.dumps(goes_on.open_chunks),
    }
    connection.execute(
        f"INSERT OR REPLACE INTO transcripts({', '.join(row)}) VALUES({', '.join('?' * len(row))})",
        tuple(row.values()),
    )


def resuming(connection: Connection, file_id: int) -> Resuming:
    """Read where the reading of a transcript goes on."""
    rows = connection.execute(
        "SELECT next_byte, next_line, prefix, state, open_chunks FROM transcripts"
        " WHERE file_id = ?",
        (file_id,),
    ).fetchall()
    for next_byte, next_line, prefix, state, open_chunks in cast("list[tuple[Any, ...]]", rows):
        chunks = tuple(json.loads(open_chunks))
        return Resuming(next_byte, next_line, prefix, json.loads(state), chunks)
    return Resuming()


def registered_as(connection: Connection) -> dict[str, str]:
    """Read what each transcript was registered as when it was read, by path; empty: as nothing."""
    rows = connection.execute(
        f"SELECT f.path, coalesce(json_extract(t.state, '$.{REGISTERED}'), '') "
        "FROM transcripts t JOIN files f ON f.id = t.file_id"
    ).fetchall()
    return {str(path): str(run) for path, run in rows}
