"""The tables of an index file, and what the file says about how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.embedding.provider import ProviderIdentity
from memtui.errors import IndexUnusable
from memtui.index.database import Connection, IndexDamaged, number, transaction
from memtui.text.tokens import FTS5_TOKENIZE

SCHEMA_VERSION: Final = 5
CHUNKING_RULES: Final = "2026.9"
NO_MODEL: Final = "none"
_TABLES: Final = Path(__file__).parents[1] / "data" / "index.sql"


def create(connection: Connection) -> None:
    """Make the tables of an empty index file."""
    tables = _TABLES.read_text(encoding="utf-8")
    connection.execute(tables.replace("{tokenize}", FTS5_TOKENIZE))
    write_meta(connection, {"schema_version": str(SCHEMA_VERSION)})


def read_meta(connection: Connection) -> dict[str, str]:
    """Return what the file says about itself; empty for a file without tables."""
    if not number(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'meta'"):
        return {}
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    return {str(key): str(value) for key, value in rows}


def write_meta(connection: Connection, values: Mapping[str, str]) -> None:
    """Add or replace what the file says about itself; without effect where it says so already."""
    if new := values.items() - read_meta(connection).items():
        with transaction(connection):
            connection.executemany("INSERT OR REPLACE INTO meta VALUES(?, ?)", new)


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


def made_by(meta: Mapping[str, str]) -> ProviderIdentity | None:
    """Return who made the vectors of an index; `None` for one that is to hold none."""
    name = meta.get("provider", NO_MODEL)
    if name in ("", NO_MODEL):
        return None
    dimensions, limit = meta.get("dimensions", ""), meta.get("input_bytes", "")
    return ProviderIdentity(
        name,
        meta.get("model", NO_MODEL),
        int(dimensions) if dimensions.isdecimal() else None,
        meta.get("fingerprint", ""),
        int(limit) if limit.isdecimal() else None,
    )


class Recipe(Struct, frozen=True):
    """The recipe of an index; two indexes of one folder and one recipe are equal."""

    identity: ProviderIdentity | None
    """Whose vectors; `None` for an index without vectors."""
    chunk_tokens: int = 400
    chunk_overlap: int = 80

    @property
    def model(self) -> str:
        """The model as the chunk ids hold it."""
        return self.identity.model if self.identity else NO_MODEL

    def meta(self) -> dict[str, str]:
        """Return the recipe as the index file keeps it."""
        identity = self.identity or ProviderIdentity(NO_MODEL, NO_MODEL, None, "", None)
        return {
            "schema_version": str(SCHEMA_VERSION),
            "provider": identity.name,
            "model": identity.model,
            "fingerprint": identity.fingerprint,
            "dimensions": str(identity.dimensions or ""),
            "tokenizer": FTS5_TOKENIZE,
            "chunk_tokens": str(self.chunk_tokens),
            "chunk_overlap": str(self.chunk_overlap),
            "chunking": CHUNKING_RULES,
            "input_bytes": str(identity.input_bytes or ""),
        }

    def of_model_in(self, meta: Mapping[str, str]) -> Recipe | None:
        """Return the recipe of an index that differs by its model alone; else `None`."""
        identity = made_by(meta)
        recipe = replace(self, identity=identity)
        return recipe if identity is not None and recipe.matches(meta) else None

    def matches(self, meta: Mapping[str, str]) -> bool:
        """Tell whether an index that says `meta` about itself was made by this recipe."""
        expected = self.meta()
        if not expected["dimensions"]:
            # Only the provider's first answer can tell.
            del expected["dimensions"]
        return all(meta.get(key) == value for key, value in expected.items())
