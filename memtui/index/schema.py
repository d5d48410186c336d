"""The tables of an index file, and what the file says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.embedding.provider import ProviderIdentity
from memtui.errors import IndexUnusable
from memtui.index.database import IndexDamaged, number, vector_extension
from memtui.text.tokens import FTS5_TOKENIZE

if TYPE_CHECKING:
    from memtui.index.database import Connection


SCHEMA_VERSION = 2

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files(
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  hash TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  day TEXT,
  day_from TEXT,
  importance REAL,
  lines INTEGER NOT NULL,
  warnings TEXT NOT NULL DEFAULT '[]',
  seen_ns INTEGER NOT NULL
);
CREATE TABLE chunks(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  chunk_id TEXT NOT NULL UNIQUE,
  file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
  start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  text TEXT NOT NULL,
  hash TEXT NOT NULL,
  model TEXT NOT NULL,
  embedded INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE transcripts(
  file_id INTEGER PRIMARY KEY REFERENCES files ON DELETE CASCADE,
  kind TEXT NOT NULL,
  agent TEXT NOT NULL,
  title TEXT NOT NULL,
  model TEXT NOT NULL,
  session TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  messages INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  malformed INTEGER NOT NULL,
  bad_lines TEXT NOT NULL,
  left_out TEXT NOT NULL,
  reason TEXT NOT NULL,
  detail TEXT NOT NULL,
  next_byte INTEGER NOT NULL,
  next_line INTEGER NOT NULL,
  prefix TEXT NOT NULL,
  state TEXT NOT NULL,
  open_chunks TEXT NOT NULL
);
CREATE INDEX chunks_of_file ON chunks(file_id);
CREATE INDEX chunks_without_vector ON chunks(id) WHERE embedded = 0;
"""

# A page of the full-text index that fits one page of the file: a fifth less space.
_FTS_PAGE = 16000
# How much of a transaction is gathered before it is written: nearly always all of it, in one piece.
_FTS_HASH = 64 * 2**20


def create(connection: Connection, dims: int | None) -> None:
    """Make the tables of an empty index file; the vector table only when it can be filled.

    `dims` is the length of a vector, `None` while it is not known (or nothing is embedded).
    """
    connection.execute(_TABLES)
    tokenize = FTS5_TOKENIZE.replace('"', '""')
    connection.execute(
        "CREATE VIRTUAL TABLE chunks_fts USING fts5("
        f"text, content='', contentless_delete=1, tokenize=\"{tokenize}\")"
    )
    connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES('pgsz', ?)", (_FTS_PAGE,))
    connection.execute(
        "INSERT INTO chunks_fts(chunks_fts, rank) VALUES('hashsize', ?)", (_FTS_HASH,)
    )
    connection.execute("CREATE VIRTUAL TABLE chunks_terms USING fts5vocab(chunks_fts, 'row')")
    write_meta(connection, {"schema_version": str(SCHEMA_VERSION)})
    if dims is not None:
        create_vector_table(connection, dims)


def create_vector_table(connection: Connection, dims: int) -> bool:
    """Make the vector table where sqlite-vec is loaded; whether it is there now."""
    if vector_extension(connection) is None:
        return False
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS chunks_vec USING vec0(embedding float[{int(dims)}])"
    )
    return True


def has_vector_table(connection: Connection) -> bool:
    """Whether vectors can be read from and written to this file (else they are in the cache)."""
    if vector_extension(connection) is None:
        return False
    query = "SELECT count(*) FROM sqlite_master WHERE name = 'chunks_vec'"
    return bool(number(connection, query))


def read_meta(connection: Connection) -> dict[str, str]:
    """Read what the file says about itself; empty for a file without tables."""
    if not number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'meta'"):
        return {}
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    return {str(key): str(value) for key, value in rows}


def write_meta(connection: Connection, values: Mapping[str, str]) -> None:
    """Add or replace what the file says about itself."""
    connection.executemany(
        "INSERT INTO meta(key, value) VALUES(?, ?) "
        "ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        list(values.items()),
    )


def check_version(meta: Mapping[str, str], path: Path) -> None:
    """Raise `IndexDamaged` for a file that is no index, `IndexUnusable` for a newer memtui's."""
    version = meta.get("schema_version")
    if version is None:
        raise IndexDamaged(
            f"{path.name} is no index of memtui", hint="memtui index builds it again"
        )
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        raise IndexUnusable(
            f"{path.name} has schema {version}, this memtui knows {SCHEMA_VERSION}",
            hint="a newer memtui wrote it; update memtui, or memtui index --force",
        )


CHUNKING_RULES = "2026.9"
NO_MODEL = "none"
INPUT_BYTES = "input_bytes"


def made_by(meta: Mapping[str, str]) -> ProviderIdentity | None:
    """Return who made the vectors of an index; `None` for one that is to hold none."""
    name = meta.get("provider", NO_MODEL)
    if name in ("", NO_MODEL):
        return None
    dimensions, limit = meta.get("dimensions", ""), meta.get(INPUT_BYTES, "")
    return ProviderIdentity(
        name,
        meta.get("model", NO_MODEL),
        int(dimensions) if dimensions.isdecimal() else None,
        meta.get("fingerprint", ""),
        int(limit) if limit.isdecimal() else None,
    )


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an index is to be made; two indexes of one folder and one recipe are equal."""

    identity: ProviderIdentity | None
    """Whose vectors; `None` for an index without vectors."""
    chunk_tokens: int = 400
    chunk_overlap: int = 80

    @property
    def model(self) -> str:
        """The model as the chunk ids hold it."""
        return self.identity.model if self.identity else NO_MODEL

    @property
    def input_bytes(self) -> int | None:
        """The most UTF-8 bytes of a chunk, which is split above; `None`: never split."""
        return self.identity.input_bytes if self.identity else None

    def meta(self) -> dict[str, str]:
        """Write the recipe down as the index file keeps it."""
        identity = self.identity
        return {
            "schema_version": str(SCHEMA_VERSION),
            "provider": identity.name if identity else NO_MODEL,
            "model": self.model,
            "fingerprint": identity.fingerprint if identity else "",
            "dimensions": str((identity and identity.dimensions) or ""),
            "tokenizer": FTS5_TOKENIZE,
            "chunk_tokens": str(self.chunk_tokens),
            "chunk_overlap": str(self.chunk_overlap),
            "chunking": CHUNKING_RULES,
            INPUT_BYTES: str(self.input_bytes or ""),
        }

    def of_model_in(self, meta: Mapping[str, str]) -> Recipe | None:
        """Return the recipe of an index that differs by its model alone; else `None`."""
        identity = made_by(meta)
        recipe = replace(self, identity=identity)
        return recipe if identity is not None and recipe.matches(meta) else None

    def matches(self, meta: Mapping[str, str]) -> bool:
        """Whether an index that says `meta` about itself was made by this recipe."""
        expected = self.meta()
        if not expected["dimensions"]:
            # Only the provider's first answer can tell.
            del expected["dimensions"]
        # An index that says nothing of it is of a time when no chunk was split.
        stored = {INPUT_BYTES: "", **meta}
        return all(stored.get(key) == value for key, value in expected.items())
