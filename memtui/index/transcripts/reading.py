"""One transcript being read, from its lines to chunks and facts, and what the index keeps of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, Final, cast

from memtui.index.database import Connection, number
from memtui.index.index_rows import within_limit
from memtui.index.schema import Recipe
from memtui.index.transcripts.streams import open_lines
from memtui.memory.chunking import Packer
from memtui.memory.paths import written
from memtui.memory.transcripts.formats import FORMATS, format_of, line_reader, recognise
from memtui.memory.transcripts.generated import Role, without_channel
from memtui.memory.transcripts.memory_calls import is_memory_search
from memtui.memory.transcripts.openclaw_files import TranscriptRules
from memtui.memory.transcripts.records import Record, RecordFacts, TranscriptFormat, record_in
from memtui.memory.transcripts.stream import RawLine
from memtui.model import ChunkSpan, Reason, SourceFile
from memtui.model.conversations import TranscriptKind, TurnKind
from memtui.text.redact import redact, redact_spoken
from memtui.text.sanitize import safe_line

BAD_LINES_KEPT: Final = 50
REGISTERED: Final = "registered"
"""In the state of a row: what the program's list of sessions said that it is."""

_LINES = 50
_BYTES = 1 << 20
_TITLE: Final = 120
_TITLE_SOURCE: Final = 4000
_MASKED: Final = 1 << 16


@dataclass(slots=True)
class TranscriptFacts:
    """What lists show of a transcript; texts are masked."""

    kind: TranscriptKind | None = None
    """`None` for a file that is no transcript."""
    agent: str = ""
    title: str = ""
    """The beginning of what the user said first."""
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

    def note(self, facts: RecordFacts) -> None:
        """Take in what one record says of the whole transcript."""
        self.agent = self.agent or _masked(facts.agent)
        self.model = _masked(facts.model) or self.model
        self.session = self.session or _masked(facts.session)
        if facts.timestamp_ms > 0:
            self.started_ms = min(self.started_ms or facts.timestamp_ms, facts.timestamp_ms)
            self.ended_ms = max(self.ended_ms, facts.timestamp_ms)


_FACTS = tuple(one.name for one in fields(TranscriptFacts))
"""They are columns of the table `transcripts`, too."""


@lru_cache(maxsize=256)
def _masked(text: str) -> str:
    return safe_line(redact(text))


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """A transcript as an index holds it."""

    chunks: int
    facts: TranscriptFacts = field(default_factory=TranscriptFacts)
    stat: tuple[int, int] | None = None
    """Size in bytes and mtime in ns of what was indexed; `None` where the index has only chunks."""

    def is_current(self, file: SourceFile) -> bool:
        """Return whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


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


def _first_records(file: SourceFile, limit: int) -> Iterator[Record]:
    # A packed file may turn out to be cut: who reads all of it says so.
    with open_lines(file, limit=min(limit, _BYTES)) as lines, suppress(OSError):
        for raw in lines:
            # One that is no record is counted when the file is read.
            with suppress(ValueError):
                if (record := record_in(raw)) is not None:
                    yield record
            if raw.number >= _LINES or raw.offset >= _BYTES:
                return


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


class TranscriptReading:
    """Takes in one line after the other; `state` is what it goes on from another day."""

    def __init__(
        self,
        form: TranscriptFormat | None,
        name: str,
        rules: TranscriptRules,
        recipe: Recipe,
        state: Mapping[str, Any] | None = None,
        run: str = "",
    ) -> None:
        """`name` is the file's, by which a release tells archives; `state` that of a reading.

        `run`: what the program's list of sessions says that the whole transcript is, if anything.

        Without a `form` the file is no transcript: its lines are counted, and give nothing.
        """
        state = state or {}
        self._form = form or FORMATS[0]
        self._is_foreign = form is None
        self._limit = recipe.identity.input_bytes if recipe.identity is not None else None
        reader = dict(state.get("reader", {}))
        reader["run"] = reader.get("run") or run
        self._reader = line_reader(self._form, name, rules, reader)
        self._began_with = self._reader.cutoff
        lines = state.get("lines", ())
        self._packer = Packer(recipe.chunk_tokens, recipe.chunk_overlap, held=lines)
        self._facts = _facts_in(state["facts"]) if "facts" in state else TranscriptFacts()
        self._too_long: int = state.get("too_long", 0)

    @property
    def is_void(self) -> bool:
        """Whether the program talked with itself: no chunk of it is to be kept."""
        return self._reader.run is not None

    @property
    def kind(self) -> str:
        """Whose transcript it is, once a record has shown it; empty before."""
        return self._facts.kind or ""

    @property
    def begins_again(self) -> dict[str, Any] | None:
        """The state to read it with from its first line, when its last lines ask for that."""
        cutoff = self._reader.cutoff
        return None if cutoff == self._began_with else {"reader": {"cutoff": cutoff}}

    def state(self) -> dict[str, Any]:
        """Return what a reading that goes on is made from; can be written as JSON."""
        return {
            "reader": self._reader.state(),
            "lines": self._packer.held,
            "facts": _columns_of(self._facts),
            "too_long": self._too_long,
        }

    def add(self, raw: RawLine) -> list[ChunkSpan]:
        """Take in the next line; give the chunks that it completes."""
        facts, reader, form = self._facts, self._reader, self._form
        record, problem = None, Reason.LINE_TOO_LONG if raw.data is None else Reason.OK
        try:
            record = record_in(raw) if not self._is_foreign else None
        except ValueError:
            # Counted: a cut or damaged line must not end the reading of a transcript.
            problem = Reason.MALFORMED_LINES if reader.is_read else Reason.OK
        if problem is not Reason.OK:
            facts.malformed += 1
            self._too_long += problem is Reason.LINE_TOO_LONG
            if len(facts.bad_lines) < BAD_LINES_KEPT:
                facts.bad_lines += ((raw.number, problem),)
        if record is None:
            return []
        lines = reader.add(record, raw.number)
        if facts.kind is None and form.recognises(record):
            facts.kind = form.kind
        facts.note(form.facts(record))
        for turn in form.turns(record, raw.number):
            if turn.kind is TurnKind.MESSAGE and turn.role in ("user", "assistant"):
                facts.turns += 1
                gives_lines = reader.is_read and not self.is_void
                if not (facts.title or gives_lines) and turn.role == "user":
                    facts.title = self._title(redact(turn.text[:_MASKED]))
            elif turn.kind is TurnKind.TOOL_CALL and is_memory_search(turn.tool, turn.text):
                facts.calls += 1
        if self.is_void:
            return []
        spans: list[ChunkSpan] = []
        if lines and reader.cuts_before(raw.number):
            spans += self._packer.cut()
        for line in lines:
            if not facts.title and line.startswith(f"{Role.USER.label}: "):
                facts.title = self._title(redact_spoken(line).partition(": ")[2])
            spans += self._packer.feed(raw.number, line)
        return self._limited(spans)

    def tail(self) -> list[ChunkSpan]:
        """Return the chunk that what comes next may still change."""
        return [] if self.is_void else self._limited(self._packer.finish())

    def facts(self, agent: str) -> TranscriptFacts:
        """Return what lists show of it; `agent` where no record names one."""
        facts, reader = self._facts, self._reader
        lost = facts.malformed
        reason, detail = Reason.OK, ""
        if reader.run is not None:
            reason = Reason.GENERATED_RUN
            detail = f"a {reader.run} run: the program talked with itself"
        elif facts.kind is None:
            reason = Reason.NOT_A_TRANSCRIPT
            detail = "no record of a known program is in it"
        elif not reader.is_read:
            reason = Reason.ARCHIVE_NOT_READ
            detail = "this release lists archives and does not read them"
        elif not reader.messages:
            reason, detail = Reason.NO_MESSAGES, "nothing that the user or the assistant says"
        elif lost:
            reason = Reason.LINE_TOO_LONG if self._too_long else Reason.MALFORMED_LINES
            lost = self._too_long or lost
            detail = f"{lost:,} {'line' if lost == 1 else 'lines'} left out"
        return replace(
            facts,
            agent=facts.agent or agent,
            messages=0 if self.is_void else reader.messages,
            left_out={str(why): count for why, count in sorted(reader.dropped.items())},
            reason=reason,
            detail=detail,
        )

    def _title(self, text: str) -> str:
        line = " ".join(safe_line(text[:_TITLE_SOURCE]).split())
        if self._form.kind is TranscriptKind.OPENCLAW:
            line = without_channel(line)
        return line if len(line) <= _TITLE else line[: _TITLE - 1].rstrip() + "…"

    def _limited(self, spans: list[ChunkSpan]) -> list[ChunkSpan]:
        return within_limit([s for s in spans if s.text.strip()], self._limit)


# --- rows of the index --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """Where the reading of a transcript goes on."""

    next_byte: int = 0
    next_line: int = 1
    prefix: str = ""
    """sha256 hex of the bytes before `next_byte`; empty when it cannot go on."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """The state of the reading, whose transcript it is, and what it was registered as."""
    open_chunks: tuple[str, ...] = ()
    """The ids of chunks that what comes next may change."""


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
    return {
        path: TranscriptRow(
            chunks, _facts_in(dict(zip(_FACTS, values, strict=True))), (size, mtime_ns)
        )
        for path, size, mtime_ns, chunks, *values in cast("list[tuple[Any, ...]]", rows)
    }


def _columns_of(facts: TranscriptFacts) -> dict[str, str | int]:
    return {name: getattr(facts, name) for name in _FACTS} | {
        "kind": facts.kind or "",
        "bad_lines": json.dumps(facts.bad_lines),
        "left_out": json.dumps(dict(facts.left_out), sort_keys=True),
        "reason": facts.reason.value,
    }


def _facts_in(columns: Mapping[str, Any]) -> TranscriptFacts:
    bad_lines = tuple((line, Reason(why)) for line, why in json.loads(columns["bad_lines"]))
    values = dict(columns) | {
        "kind": TranscriptKind(columns["kind"]) if columns["kind"] else None,
        "bad_lines": bad_lines,
        "left_out": json.loads(columns["left_out"]),
        "reason": Reason(columns["reason"]),
    }
    return TranscriptFacts(**values)


def write_row(
    connection: Connection, file_id: int, facts: TranscriptFacts, position: ReadPosition
) -> None:
    """Make the row of a transcript say this."""
    row = _columns_of(facts) | {
        "file_id": file_id,
        "next_byte": position.next_byte,
        "next_line": position.next_line,
        "prefix": position.prefix,
        "state": json.dumps(dict(position.state), sort_keys=True),
        "open_chunks": json.dumps(position.open_chunks),
    }
    connection.execute(
        f"INSERT OR REPLACE INTO transcripts({', '.join(row)}) VALUES({', '.join('?' * len(row))})",
        tuple(row.values()),
    )


def read_position(connection: Connection, path: str) -> ReadPosition:
    """Read where the reading of a transcript goes on; at its beginning when nothing tells."""
    rows = connection.execute(
        "SELECT next_byte, next_line, prefix, state, open_chunks FROM transcripts"
        " WHERE file_id = (SELECT id FROM files WHERE path = ?)",
        (path,),
    ).fetchall()
    for next_byte, next_line, prefix, text, open_chunks in cast("list[tuple[Any, ...]]", rows):
        state = json.loads(text)
        # What an older memtui wrote there is another state.
        if "facts" in state.get("reading", {}):
            chunks = tuple(json.loads(open_chunks))
            return ReadPosition(next_byte, next_line, prefix, state, chunks)
    return ReadPosition()


def registered_as(connection: Connection) -> dict[str, str]:
    """Read what each transcript was registered as when it was read, by path; empty: as nothing."""
    rows = connection.execute(
        f"SELECT f.path, coalesce(json_extract(t.state, '$.{REGISTERED}'), '') "
        "FROM transcripts t JOIN files f ON f.id = t.file_id"
    ).fetchall()
    return {str(path): str(run) for path, run in rows}
