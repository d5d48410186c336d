"""Looking at the index of a memory: its state, its database, its cache of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from memtui.embedding.cache import EmbeddingCache
from memtui.engine.doctor.checks import (
    EXIT_INDEX,
    EXIT_PROVIDER,
    Area,
    Check,
    Grade,
    counted,
    fine,
    note,
    problem,
)
from memtui.engine.doctor.program import asked
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
from memtui.model import IndexState, IndexStatus, ProviderState, Reason
from memtui.text.sizes import size_words

_AREA = Area.INDEX
_BUILD: Final = "`memtui index` makes one"
_REBUILD: Final = "`memtui index --force` builds it anew"
_UPDATE: Final = "`memtui index` takes them in"


def index_checks(status: IndexStatus, folder: IndexFolder, cache_mb: int) -> Iterator[Check]:
    """The state of the index, whether each part of its database answers, and the cache."""
    yield _state(status)
    if status.state is not IndexState.NO_INDEX:
        yield from _vectors_of(status.provider)
        yield from database_checks(folder)
    yield _cache(folder, cache_mb)
    if status.writer not in ("none", "this process"):
        yield note(_AREA, "writer", f"{status.writer} writes to it", "only one can at a time")
    for warning in status.warnings:
        yield note(_AREA, "warning", warning)
    for error in status.errors:
        yield problem(_AREA, error.where, error.message, _REBUILD)


def _state(status: IndexStatus) -> Check:
    parts = ((status.files, "file"), (status.chunks, "chunk"), (status.vectors, "vector"))
    holds = ", ".join(counted(number_of, noun) for number_of, noun in parts)
    match status.state:
        case IndexState.NO_INDEX:
            return problem(_AREA, "index", "there is none yet", _BUILD, EXIT_INDEX)
        case IndexState.ERROR:
            return problem(_AREA, "index", f"in error; {holds}", _REBUILD, EXIT_INDEX)
        case IndexState.STALE if status.pending_count:
            changed = counted(status.pending_count, "changed file")
            return note(_AREA, "index", f"{holds}; {changed}", _UPDATE)
        case IndexState.STALE:
            return note(_AREA, "index", f"{holds}; chunks wait for a vector", _UPDATE)
        case state:
            return fine(_AREA, "index", f"{state.value}, {holds}, in {status.index_dir}")


def _vectors_of(provider: ProviderState) -> Iterator[Check]:
    """Whether the vectors are those of the requested provider."""
    if provider.state is Reason.FALLBACK:
        detail = f"of {provider.actual}, not of {provider.requested}: {why(provider)}"
        yield problem(_AREA, "made by", detail, provider.hint)
    elif provider.state is Reason.PROVIDER_FAILED:
        yield problem(_AREA, "made by", why(provider), provider.hint, EXIT_PROVIDER)


def why(provider: ProviderState) -> str:
    """Why the requested provider does not answer, without the next step."""
    return provider.detail.removesuffix(f" ({provider.hint})") if provider.hint else provider.detail


def database_checks(folder: IndexFolder) -> Iterator[Check]:
    """Check the database file, query the full-text index, load sqlite-vec."""
    try:
        generation = folder.current()
        if generation is None:
            yield problem(_AREA, "index", "there is none yet", _BUILD, EXIT_INDEX)
            return
        connection = open_database(folder.path(generation), readonly=True)
    except MemtuiError as error:
        yield problem(_AREA, "index", error.message, error.hint or _REBUILD, EXIT_INDEX)
        return
    try:
        yield _whole(connection)
        yield asked(_AREA, "full-text", lambda: _terms(connection))
        yield _vectors(connection)
    finally:
        connection.close()


def _whole(connection: Connection) -> Check:
    check = asked(_AREA, "database", lambda: damage(connection) or "")
    if check.grade is not Grade.OK:
        return check
    if check.detail:
        return problem(_AREA, "database", check.detail, _REBUILD, EXIT_INDEX)
    return fine(_AREA, "database", "quick_check found nothing wrong")


def _terms(connection: Connection) -> str:
    rows = number(connection, "SELECT count(*) FROM chunks_fts")
    number(connection, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", '"memory"')
    return f"{counted(rows, 'row')} can be asked"


def _vectors(connection: Connection) -> Check:
    version = vector_extension(connection)
    if version is None:
        detail = "cannot be loaded; search uses the vectors of the cache"
        return problem(_AREA, "sqlite-vec", detail, "pip install --force-reinstall sqlite-vec")
    return fine(_AREA, "sqlite-vec", version)


def _cache(folder: IndexFolder, cache_mb: int) -> Check:
    cache = EmbeddingCache(folder.cache_path, partial(open_database, readonly=True), writable=False)
    try:
        size, count = cache.size_bytes(), cache.count()
    except (MemtuiError, DatabaseError) as error:
        hint = "delete it: its vectors are made again"
        return problem(_AREA, "cache", f"{folder.cache_path} cannot be read: {error}", hint)
    finally:
        cache.close()
    return fine(
        _AREA, "cache", f"{counted(count, 'vector')}, {size_words(size)} of at most {cache_mb} MB"
    )
