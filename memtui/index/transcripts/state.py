"""What the index keeps of a transcript besides its chunks: facts for lists, and where to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from memtui.index.database import number
from memtui.model import Reason
from memtui.model.conversations import TranscriptKind

if TYPE_CHECKING:
    from memtui.index.database import Connection

_FACTS = (
    "kind, agent, title, model, session, started_ms, ended_ms, turns, messages, calls, malformed, "
    "bad_lines, left_out, reason, detail"
)
_RESUMING = "next_byte, next_line, prefix, state, open_chunks"
REGISTERED = "registered"
"""In the state of a row: what the program's list of sessions said that it is."""
_COLUMNS = ("file_id", *_FACTS.split(", "), *_RESUMING.split(", "))


@dataclass(frozen=True, slots=True)
class TranscriptFacts:
    """What is told of a transcript in lists."""

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


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """A transcript as the index holds it."""

    path: str
    facts: TranscriptFacts
    chunks: int
    size: int
    """Bytes at the last sync; less than nothing while it is being read."""
    mtime_ns: int


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


def has_transcripts(connection: Connection) -> bool:
    """Whether the index file has the table; one of an older memtui has not."""
    found = "SELECT count(*) FROM sqlite_master WHERE name = 'transcripts'"
    return bool(number(connection, found))


def transcript_rows(connection: Connection) -> dict[str, TranscriptRow]:
    """Read what the index knows of every transcript, by path."""
    if not has_transcripts(connection):
        return {}
    rows = connection.execute(
        f"SELECT f.path, f.size, f.mtime_ns, coalesce(c.number, 0), {_FACTS} "
        "FROM transcripts t JOIN files f ON f.id = t.file_id LEFT JOIN "
        "(SELECT file_id, count(*) AS number FROM chunks GROUP BY file_id) c "
        "ON c.file_id = t.file_id"
    ).fetchall()
    return {str(row[0]): _row(row) for row in rows}


def transcript_row(connection: Connection, path: str) -> TranscriptRow | None:
    """Read what the index knows of one transcript; `None` when it does not hold it."""
    if not has_transcripts(connection):
        return None
    rows = connection.execute(
        "SELECT f.path, f.size, f.mtime_ns, "
        f"(SELECT count(*) FROM chunks WHERE file_id = f.id), {_FACTS} "
        "FROM transcripts t JOIN files f ON f.id = t.file_id WHERE f.path = ?",
        (path,),
    ).fetchall()
    return _row(rows[0]) if rows else None


def resuming(connection: Connection, file_id: int) -> Resuming:
    """Read where the reading of a transcript goes on."""
    rows = connection.execute(
        f"SELECT {_RESUMING} FROM transcripts WHERE file_id = ?", (file_id,)
    ).fetchall()
    if not rows:
        return Resuming()
    next_byte, next_line, prefix, state, open_chunks = rows[0]
    return Resuming(
        int(str(next_byte)),
        int(str(next_line)),
        str(prefix),
        json.loads(str(state)),
        tuple(json.loads(str(open_chunks))),
    )


def registered_as(connection: Connection) -> dict[str, str]:
    """Read what each transcript was registered as when it was read, by path; empty: as nothing."""
    rows = connection.execute(
        f"SELECT f.path, coalesce(json_extract(t.state, '$.{REGISTERED}'), '') "
        "FROM transcripts t JOIN files f ON f.id = t.file_id"
    ).fetchall()
    return {str(path): str(run) for path, run in rows}


def write_row(
    connection: Connection, file_id: int, facts: TranscriptFacts, goes_on: Resuming
) -> None:
    """Make the row of a transcript say this."""
    values = (
        file_id,
        facts.kind.value if facts.kind is not None else "",
        facts.agent,
        facts.title,
        facts.model,
        facts.session,
        facts.started_ms,
        facts.ended_ms,
        facts.turns,
        facts.messages,
        facts.calls,
        facts.malformed,
        json.dumps([(line, reason.value) for line, reason in facts.bad_lines]),
        json.dumps(dict(facts.left_out), sort_keys=True),
        facts.reason.value,
        facts.detail,
        goes_on.next_byte,
        goes_on.next_line,
        goes_on.prefix,
        json.dumps(dict(goes_on.state), sort_keys=True),
        json.dumps(goes_on.open_chunks),
    )
    connection.execute(
        f"INSERT OR REPLACE INTO transcripts({', '.join(_COLUMNS)}) "
        f"VALUES({', '.join('?' * len(_COLUMNS))})",
        values,
    )


def _row(row: tuple[object, ...]) -> TranscriptRow:
    path, size, mtime_ns, chunks, *facts = row
    return TranscriptRow(
        str(path), _facts(facts), int(str(chunks)), int(str(size)), int(str(mtime_ns))
    )


def _facts(values: list[object]) -> TranscriptFacts:
    kind, agent, title, model, session, *rest = (str(value) for value in values)
    started, ended, turns, messages, calls, malformed, bad, left_out, reason, detail = rest
    return TranscriptFacts(
        TranscriptKind(kind) if kind else None,
        agent,
        title,
        model,
        session,
        int(started),
        int(ended),
        int(turns),
        int(messages),
        int(calls),
        int(malformed),
        tuple((line, Reason(why)) for line, why in json.loads(bad)),
        json.loads(left_out),
        Reason(reason),
        detail,
    )
