"""The rows of an OpenClaw index: what it says about itself, files, chunks and vectors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memtui.index.foreign.layout import Layout
from memtui.model.status import Identity
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.index.database import Connection

IDENTITY_KEY: Final = "memory_index_meta_v1"
REBUILD_KEY: Final = "memory_vector_rebuild_v1"
_SHOWN = 60
_LOOKUP = 400
_NUMBERS: Final = {
    "chunk_tokens": "chunkTokens",
    "chunk_overlap": "chunkOverlap",
    "vector_dims": "vectorDims",
    "chunking_version": "chunkingVersion",
    "provenance_version": "provenanceVersion",
}
_TEXTS: Final = {
    "model": "model",
    "provider": "provider",
    "provider_key": "providerKey",
    "scope_hash": "scopeHash",
    "fts_tokenizer": "ftsTokenizer",
}


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """What the index says it was made with, and what of that cannot be read."""

    identity: Identity
    present: bool
    """Whether the meta row is there; without it the program pauses its search."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """What the agent's database says about itself; `None`: not written there."""

    schema_version: int | None = None
    agent_id: str | None = None
    app_version: str | None = None


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file as it was indexed: `mtime` in ms since the epoch, `size` in bytes, SHA-256 hash."""

    path: str
    source: str
    hash: str
    mtime: float
    size: int


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk as it is stored; lines are 1-based, `updated_at` is in ms since the epoch."""

    rowid: int
    id: str
    path: str
    source: str
    start_line: int
    end_line: int
    hash: str
    model: str
    text: str
    updated_at: int
    importance: int | None = None
    """1 to 10, of the newest generation."""
    project_key: str | None = None


def identity(connection: Connection, layout: Layout) -> StoredIdentity:
    """Read the stored identity; what is missing or of a wrong type becomes `None` and a line."""
    text = meta_value(connection, layout, IDENTITY_KEY)
    if text is None:
        return StoredIdentity(Identity(), False, ("the index metadata is missing",))
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        stored = None
    if not isinstance(stored, dict):
        line = f"the index metadata is not a JSON object: {_short(text)}"
        return StoredIdentity(Identity(), True, (line,))
    return _identity_of(stored)


def _identity_of(stored: Mapping[str, object]) -> StoredIdentity:
    problems: list[str] = []
    fields: dict[str, Any] = {}
    for name, key in (_TEXTS | _NUMBERS).items():
        value = stored.get(key)
        wanted = str if name in _TEXTS else int
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            problems.append(f"the index metadata has an odd {key}: {_short(json.dumps(value))}")
            value = None
        fields[name] = value
    sources = stored.get("sources")
    if isinstance(sources, list) and all(isinstance(source, str) for source in sources):
        fields["sources"] = tuple(sources)
    elif sources is not None:
        problems.append(f"the index metadata has odd sources: {_short(json.dumps(sources))}")
    return StoredIdentity(Identity(**fields), True, tuple(problems))


def meta_value(connection: Connection, layout: Layout, key: str) -> str | None:
    """Read one value of the meta table, as text."""
    rows = connection.execute(f"SELECT value FROM {layout.meta} WHERE key = ?", (key,)).fetchall()
    return _text(rows[0][0]) if rows else None


def vector_rebuild(connection: Connection, layout: Layout) -> str | None:
    """Tell `1` (the vector table is not complete), `clean`, or `None` (not written)."""
    return meta_value(connection, layout, REBUILD_KEY)


def origin(connection: Connection, layout: Layout) -> Origin:
    """Read `schema_meta`, which only an agent's own database has."""
    if layout.schema is None:
        return Origin()
    names = [
        str(name)
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_info(?)", (layout.schema,)
        ).fetchall()
    ]
    rows = connection.execute(
        f"SELECT * FROM {layout.schema} ORDER BY schema_version DESC LIMIT 1"
    ).fetchall()
    row = dict(zip(names, rows[0], strict=True)) if rows else {}
    version, agent, app = (row.get(key) for key in ("schema_version", "agent_id", "app_version"))
    return Origin(
        schema_version=version if isinstance(version, int) else None,
        agent_id=agent if isinstance(agent, str) else None,
        app_version=app if isinstance(app, str) else None,
    )


def revision(connection: Connection, layout: Layout) -> int | None:
    """Read the counter that every write to files or chunks raises; `None`: generation 1."""
    if layout.state is None:
        return None
    rows = connection.execute(f"SELECT revision FROM {layout.state} LIMIT 1").fetchall()
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def files(connection: Connection, layout: Layout, path: str | None = None) -> tuple[FileRow, ...]:
    """Read all files, by source and path; with `path`, those of that path."""
    source = "source" if layout.files_have_source else "'memory'"
    where, values = ("", ()) if path is None else (" WHERE path = ?", (path,))
    rows = connection.execute(
        f"SELECT path, {source}, hash, mtime, size FROM {layout.files}{where} ORDER BY 2, 1", values
    ).fetchall()
    return tuple(
        FileRow(_text(path), _text(kind), _text(digest), _real(mtime), _whole(size))
        for path, kind, digest, mtime, size in rows
    )


def file_counts(connection: Connection, layout: Layout) -> dict[str, int]:
    """Count the files of each source."""
    return _counts(connection, layout.files, layout.files_have_source)


def chunk_counts(connection: Connection, layout: Layout) -> dict[str, int]:
    """Count the chunks of each source; an index answers, the rows are not read."""
    return _counts(connection, layout.chunks, layout.chunks_have_source)


def _counts(connection: Connection, table: str, has_source: bool) -> dict[str, int]:
    source = "source" if has_source else "'memory'"
    rows = connection.execute(f"SELECT {source}, count(*) FROM {table} GROUP BY 1 ORDER BY 1")
    return {_text(name): count for name, count in rows.fetchall() if isinstance(count, int)}


def model_counts(connection: Connection, layout: Layout) -> dict[tuple[str, str], int]:
    """Count the chunks of each (source, model); reads every row, but not its vector."""
    source = "source" if layout.chunks_have_source else "'memory'"
    rows = connection.execute(
        f"SELECT {source}, model, count(*) FROM {layout.chunks} GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    return {
        (_text(kind), _text(model)): count for kind, model, count in rows if isinstance(count, int)
    }


def chunks(connection: Connection, layout: Layout, rowids: Sequence[int]) -> dict[int, ChunkRow]:
    """Read chunks by rowid; one that is not there is left out."""
    found: dict[int, ChunkRow] = {}
    query = _chunk_query(layout)
    for start in range(0, len(rowids), _LOOKUP):
        part = tuple(rowids[start : start + _LOOKUP])
        marks = ",".join("?" * len(part))
        for row in connection.execute(f"{query} WHERE c.rowid IN ({marks})", part).fetchall():
            chunk = _chunk(row)
            found[chunk.rowid] = chunk
    return found


def all_chunks(connection: Connection, layout: Layout) -> Iterator[ChunkRow]:
    """Read all chunks in the order of their rowids; do not leave the iteration half-way."""
    for row in connection.execute(f"{_chunk_query(layout)} ORDER BY c.rowid"):
        yield _chunk(row)


def _chunk_query(layout: Layout) -> str:
    source = "c.source" if layout.chunks_have_source else "'memory'"
    recall = ("r.importance, r.project_key", f"LEFT JOIN {layout.recall} r ON r.chunk_id = c.id")
    columns, join = recall if layout.recall else ("NULL, NULL", "")
    return (
        f"SELECT c.rowid, c.id, c.path, {source}, c.start_line, c.end_line, c.hash, c.model,"
        f" c.text, c.updated_at, {columns} FROM {layout.chunks} c {join}"
    )


def _chunk(row: Sequence[Any]) -> ChunkRow:
    rowid, identifier, path, source, start, end, digest, model, text, updated, weight, project = row
    return ChunkRow(
        rowid=rowid,
        id=_text(identifier),
        path=_text(path),
        source=_text(source),
        start_line=_whole(start),
        end_line=_whole(end),
        hash=_text(digest),
        model=_text(model),
        text=_text(text),
        updated_at=_whole(updated),
        importance=weight if isinstance(weight, int) else None,
        project_key=project if isinstance(project, str) else None,
    )


def _text(value: object) -> str:
    # A file of the older generations is not STRICT: a column may hold any type.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _real(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0


def _whole(value: object) -> int:
    number = _real(value)
    return int(number) if math.isfinite(number) else 0


def _short(text: str) -> str:
    line = safe_line(text)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
