"""What a database is, told by its tables and columns; what version it claims does not count."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtui.errors import IndexUnusable
from memtui.model.status import IndexGeneration
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.index.database import Connection

KNOWN_SCHEMA = 23
"""The newest `schema_meta.schema_version` whose memory tables are known (OpenClaw 2026.9.6)."""

_CHUNKS = frozenset(
    {"id", "path", "start_line", "end_line", "hash", "model", "text", "embedding", "updated_at"}
)
_FILES = frozenset({"path", "hash", "mtime", "size"})
_META = frozenset({"key", "value"})
_SHOWN_TABLES = 4

_TOKENIZE = re.compile(
    r"""\btokenize\s*=\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|(\w+))""", re.IGNORECASE
)
_DIMS = re.compile(r"\bFLOAT\s*\[\s*(\d+)\s*\]", re.IGNORECASE)
_SOURCE = re.compile(r"\bsource\b", re.IGNORECASE)
_VIRTUAL = re.compile(r"\bUSING\s+(\w+)", re.IGNORECASE)


class NotRecognised(IndexUnusable):
    """A sound database without the tables of an OpenClaw memory index."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of an OpenClaw memory index, by name; `None`: this file has no such table."""

    generation: IndexGeneration
    meta: str
    files: str
    chunks: str
    fts: str | None
    vec: str | None
    cache: str | None
    paths_fts: str | None
    recall: str | None
    provenance: str | None
    state: str | None
    schema: str | None
    tokenizer: str
    """`unicode61`, `trigram`, or the words of the CREATE statement when they are others."""
    blob_vectors: bool
    """The column says float64 blobs; else JSON text. A single row may disagree."""
    vec_dims: int | None
    """Numbers in a vector of the vec0 table, as its CREATE statement says."""
    chunks_have_source: bool
    """False in the oldest files, in which everything is of the source `memory`."""
    files_have_source: bool
    fts_has_source: bool


@dataclass(frozen=True, slots=True)
class _Names:
    meta: str
    files: str
    chunks: str
    fts: str
    vec: str
    cache: str
    paths_fts: str = ""
    recall: str = ""
    provenance: str = ""
    state: str = ""
    schema: str = ""


_SIDECAR = _Names("meta", "files", "chunks", "chunks_fts", "chunks_vec", "embedding_cache")
_AGENT = _Names(
    "memory_index_meta",
    "memory_index_sources",
    "memory_index_chunks",
    "memory_index_chunks_fts",
    "memory_index_chunks_vec",
    "memory_embedding_cache",
    "memory_index_paths_fts",
    "memory_index_chunk_recall_metadata",
    "memory_index_chunk_provenance",
    "memory_index_state",
    "schema_meta",
)


def recognise(connection: Connection, name: str = "this file") -> Layout:
    """Find the memory tables of a database; `name` is what a message calls the file.

    A half-made index (tables without rows, no meta row) is recognised. Raises `NotRecognised`
    when the tables of no known generation are there.
    """
    tables = _tables(connection)
    for names in (_AGENT, _SIDECAR):
        columns = {
            table: _columns(connection, table)
            for table in (names.meta, names.files, names.chunks)
            if table in tables
        }
        if (
            columns.get(names.meta, {}).keys() >= _META
            and columns.get(names.files, {}).keys() >= _FILES
            and columns.get(names.chunks, {}).keys() >= _CHUNKS
        ):
            schema = _columns(connection, names.schema) if names.schema in tables else {}
            return _layout(names, tables, columns, "schema_version" in schema)
    raise _not_recognised(connection, tables, name)


def _tables(connection: Connection) -> dict[str, str]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
    return {str(name): str(sql or "") for name, sql in rows}


def _columns(connection: Connection, table: str) -> dict[str, str]:
    rows = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
    return {str(name): str(kind) for name, kind in rows}


def _layout(
    names: _Names,
    tables: Mapping[str, str],
    columns: Mapping[str, Mapping[str, str]],
    versioned: bool,
) -> Layout:
    blob = columns[names.chunks]["embedding"].upper() == "BLOB"
    generation = IndexGeneration.SIDECAR
    if names is _AGENT:
        generation = IndexGeneration.AGENT_BLOB if blob else IndexGeneration.AGENT
    fts = _virtual(tables, names.fts, "fts5")
    vec = _virtual(tables, names.vec, "vec0")
    dims = _DIMS.search(tables[vec]) if vec else None
    return Layout(
        generation=generation,
        meta=names.meta,
        files=names.files,
        chunks=names.chunks,
        fts=fts,
        vec=vec,
        cache=_present(tables, names.cache),
        paths_fts=_virtual(tables, names.paths_fts, "fts5"),
        recall=_present(tables, names.recall),
        provenance=_present(tables, names.provenance),
        state=_present(tables, names.state),
        schema=names.schema if versioned else None,
        tokenizer=tokenizer(tables[fts]) if fts else "unicode61",
        blob_vectors=blob,
        vec_dims=int(dims[1]) if dims else None,
        chunks_have_source="source" in columns[names.chunks],
        files_have_source="source" in columns[names.files],
        # Not asked of the table itself, which a damaged search index would refuse.
        fts_has_source=fts is not None and _SOURCE.search(tables[fts]) is not None,
    )


def _present(tables: Mapping[str, str], name: str) -> str | None:
    return name if name and name in tables else None


def _virtual(tables: Mapping[str, str], name: str, module: str) -> str | None:
    found = _VIRTUAL.search(tables.get(name, ""))
    return name if found and found[1].lower() == module else None


def tokenizer(sql: str) -> str:
    """Read the tokenizer from the CREATE statement of an FTS5 table."""
    found = _TOKENIZE.search(sql)
    if found is None:
        return "unicode61"
    quoted, double_quoted, bare = found.groups()
    if quoted is not None:
        words = quoted.replace("''", "'").split()
    elif double_quoted is not None:
        words = double_quoted.replace('""', '"').split()
    else:
        words = [bare]
    plain = " ".join(words).lower()
    return "trigram" if plain == "trigram case_sensitive 0" else plain or "unicode61"


def _not_recognised(connection: Connection, tables: Mapping[str, str], name: str) -> NotRecognised:
    message = f"{name} is not an OpenClaw memory index"
    if "chunks" in tables and "embedded" in _columns(connection, "chunks"):
        return NotRecognised(
            f"{message}: it is an index of memtui", hint="open its notes with: memtui FOLDER"
        )
    if "schema_meta" in tables or "transcript_events" in tables:
        return NotRecognised(
            f"{message}: the agent's database has no memory tables",
            hint="openclaw memory index builds them",
        )
    if not tables:
        return NotRecognised(
            f"{message}: the database has no tables", hint="give another file, or --agent NAME"
        )
    shown = ", ".join(safe_line(table) for table in sorted(tables)[:_SHOWN_TABLES])
    more = f" and {len(tables) - _SHOWN_TABLES} more" if len(tables) > _SHOWN_TABLES else ""
    return NotRecognised(
        f"{message}: its tables are {shown}{more}", hint="give another file, or --agent NAME"
    )
