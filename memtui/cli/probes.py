"""`memtui status --deep`: ask every part whether it works, and print what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memtui.cli.session import Session
from memtui.embedding.provider import EmbeddingChoice, create_provider
from memtui.errors import MemtuiError
from memtui.index.database import (
    Connection,
    DatabaseError,
    damage,
    number,
    open_database,
    vector_extension,
)
from memtui.index.generations import IndexFolder


@dataclass(frozen=True, slots=True)
class Probe:
    """What one part said."""

    name: str
    works: bool
    detail: str


def probe_all(session: Session) -> tuple[Probe, ...]:
    """Embed a word, load sqlite-vec, query the full-text index, check the database file."""
    return (_probe_provider(session), *_probe_index(session))


def _probe_provider(session: Session) -> Probe:
    embedding = session.loaded.settings.embedding
    options = {"base_url": embedding.base_url} if embedding.base_url else {}
    try:
        provider, state = create_provider(
            EmbeddingChoice(embedding.provider, embedding.model, embedding.threads, options)
        )
        if provider is None:
            return Probe("provider", embedding.provider == "none", state.detail)
        try:
            length = provider.embed_query("memory").shape[0]
        finally:
            provider.close()
    except MemtuiError as error:
        return Probe("provider", False, str(error))
    return Probe("provider", True, f"{provider.name} {provider.model}, {length} dimensions")


def _probe_index(session: Session) -> Iterator[Probe]:
    folder = IndexFolder(Path(session.engine.status().index_dir))
    try:
        generation = folder.current()
        if generation is None:
            yield Probe("index", False, "there is none yet: `memtui index` makes one")
            return
        connection = open_database(folder.path(generation), readonly=True)
    except MemtuiError as error:
        yield Probe("index", False, str(error))
        return
    try:
        yield _asked("database", lambda: _whole(connection))
        yield _asked("full-text", lambda: _terms(connection))
        yield _asked("sqlite-vec", lambda: _vectors(connection))
    finally:
        connection.close()


def _asked(name: str, ask: Callable[[], tuple[bool, str]]) -> Probe:
    try:
        works, detail = ask()
    except (MemtuiError, DatabaseError) as error:
        return Probe(name, False, str(error))
    return Probe(name, works, detail)


def _whole(connection: Connection) -> tuple[bool, str]:
    problem = damage(connection)
    return problem is None, problem or "quick_check found nothing wrong"


def _terms(connection: Connection) -> tuple[bool, str]:
    rows = number(connection, "SELECT count(*) FROM chunks_fts")
    number(connection, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", '"memory"')
    return True, f"{rows} rows answer"


def _vectors(connection: Connection) -> tuple[bool, str]:
    version = vector_extension(connection)
    if version is None:
        return False, "cannot be loaded; search uses the vectors of the cache"
    return True, version
