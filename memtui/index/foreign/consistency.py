"""Consistency of an OpenClaw index in itself: its tables against one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memtui.errors import Cancelled
from memtui.index.database import Connection, DatabaseError
from memtui.index.foreign import rows
from memtui.index.foreign.findings import Code, counted, finding, listed
from memtui.index.foreign.opening import Layout, Opened
from memtui.index.foreign.rows import (
    DamagedVector,
    IndexedVectors,
    parse_vector,
    pieces,
    read_indexed,
)
from memtui.model.status import Finding, IndexGeneration, ModelShare
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.index.database import Connection
    from memtui.index.foreign.opening import Layout, Opened


DAMAGED: Final = -1
"""The dimensions of a vector that is neither a JSON array nor a blob of float64."""

_CJK = re.compile("[\u3040-\u30ff\u3131-\u3163\u3400-\u9fff\uac00-\ud7af]")
_BATCH: Final = 4096

_DIMENSIONS: Final = f"""CASE typeof(embedding)
    WHEN 'blob' THEN CASE WHEN length(embedding) % 8 THEN {DAMAGED} ELSE length(embedding) / 8 END
    WHEN 'text' THEN CASE
        WHEN embedding = '[]' THEN 0
        WHEN NOT json_valid(embedding) THEN {DAMAGED}
        WHEN json_type(embedding) <> 'array' THEN {DAMAGED}
        ELSE json_array_length(embedding) END
    ELSE {DAMAGED} END"""


def model_shares(connection: Connection, layout: Layout) -> tuple[ModelShare, ...]:
    """Count the chunks of each model and vector length, largest first; looks at every vector.

    Dimensions `DAMAGED`: not a vector at all.
    """
    rows = connection.execute(
        f"SELECT model, {_DIMENSIONS}, count(*) FROM {layout.chunks} GROUP BY 1, 2"
    ).fetchall()
    shares = [
        ModelShare(str(model), dims, count)
        for model, dims, count in rows
        if isinstance(dims, int) and isinstance(count, int)
    ]
    return tuple(sorted(shares, key=lambda share: (-share.chunks, share.model, share.dimensions)))


def model_findings(
    connection: Connection, layout: Layout, shares: tuple[ModelShare, ...]
) -> list[Finding]:
    """Say which models and lengths are mixed, and which chunks have no usable vector."""
    found: list[Finding] = []
    models = sorted({share.model for share in shares})
    if len(models) > 1:
        text = f"chunks of {len(models)} models in one index ({_shares(shares)}): a search"
        text += " compares the query with one model's vectors only; index anew"
        found.append(finding(Code.MIXED_MODELS, text, models))
    lengths = sorted({share.dimensions for share in shares if share.dimensions > 0})
    if len(lengths) > 1:
        text = f"vectors of {' and '.join(map(str, lengths))} dimensions in one index: index anew"
        found.append(finding(Code.MIXED_DIMENSIONS, text, map(str, lengths)))
    bare = [s for s in shares if s.dimensions == 0 and s.model != KEYWORD_ONLY_MODEL]
    if bare:
        names = _ids(connection, layout, f"({_DIMENSIONS}) = 0 AND model <> ?", KEYWORD_ONLY_MODEL)
        text = f"{counted(len(names), 'chunk')} without a vector: only keywords find them"
        found.append(finding(Code.CHUNKS_WITHOUT_VECTOR, text, names))
    if any(share.dimensions == DAMAGED for share in shares):
        names = _ids(connection, layout, f"({_DIMENSIONS}) = {DAMAGED}")
        text = f"{counted(len(names), 'stored vector')} damaged: the program leaves such chunks out"
        found.append(finding(Code.VECTORS_DAMAGED, text, names))
    return found


def _shares(shares: tuple[ModelShare, ...]) -> str:
    return listed(
        f"{share.model} {max(share.dimensions, 0)}: {counted(share.chunks, 'chunk')}"
        for share in shares
    )


def _ids(connection: Connection, layout: Layout, where: str, *values: str) -> list[str]:
    rows = connection.execute(
        f"SELECT id, path, start_line FROM {layout.chunks} WHERE {where} ORDER BY path, start_line",
        values,
    ).fetchall()
    return [chunk_name(*row) for row in rows]


def chunk_name(identifier: object, path: object, line: object) -> str:
    """Name a chunk for people: where it starts, and the first digits of its id."""
    return f"{path}:{line} {str(identifier)[:12]}"


def keyword_findings(connection: Connection, layout: Layout, *, hybrid: bool) -> list[Finding]:
    """Compare the keyword table with the chunks; `hybrid`: whether the program searches it."""
    if layout.fts is None:
        if not hybrid:
            return []
        text = "there is no keyword table: no search finds words, only similar vectors"
        return [finding(Code.FTS_ABSENT, text)]
    found: list[Finding] = []
    fts, chunks = layout.fts, layout.chunks
    missing = _ids(connection, layout, f"id NOT IN (SELECT id FROM {fts} WHERE id IS NOT NULL)")
    if missing:
        text = f"{counted(len(missing), 'chunk')} not in the keyword table: no word finds them"
        found.append(finding(Code.FTS_MISSING, text, missing))
    rows = connection.execute(f"SELECT id, count(*) FROM {fts} GROUP BY id").fetchall()
    known = {row[0] for row in connection.execute(f"SELECT id FROM {chunks}").fetchall()}
    orphans = sorted(str(identifier) for identifier, _ in rows if identifier not in known)
    if orphans:
        text = f"{counted(len(orphans), 'keyword row')} without a chunk: searches up to 2026.5"
        found.append(finding(Code.FTS_ORPHANS, f"{text} return text that is gone", orphans))
    doubles = [str(name) for name, count in rows if isinstance(count, int) and count > 1]
    if doubles:
        text = f"{counted(len(doubles), 'chunk')} several times in the keyword table"
        found.append(finding(Code.FTS_DUPLICATES, text, sorted(doubles)))
    return found + _path_findings(connection, layout)


def _path_findings(connection: Connection, layout: Layout) -> list[Finding]:
    if layout.paths_fts is None:
        return []
    rows = connection.execute(
        f"SELECT path FROM {layout.files}"
        f" WHERE rowid NOT IN (SELECT rowid FROM {layout.paths_fts}) ORDER BY path"
    ).fetchall()
    if not rows:
        return []
    names = [str(path) for (path,) in rows]
    text = f"{counted(len(names), 'file')} unknown to the path search: {listed(names)}"
    return [finding(Code.PATHS_MISSING, text, names)]


def chunk_counts_by_path(connection: Connection, layout: Layout) -> dict[tuple[str, str], int]:
    """Count the chunks of each (path, source)."""
    source = "source" if layout.chunks_have_source else "'memory'"
    rows = connection.execute(
        f"SELECT path, {source}, count(*) FROM {layout.chunks} GROUP BY 1, 2"
    ).fetchall()
    return {(str(path), str(kind)): count for path, kind, count in rows if isinstance(count, int)}


def unlisted_findings(
    chunks: Mapping[tuple[str, str], int], files: set[tuple[str, str]]
) -> list[Finding]:
    """Say which chunks belong to no row of the file table."""
    names = sorted({path for path, source in chunks if (path, source) not in files})
    if not names:
        return []
    count = sum(number for key, number in chunks.items() if key not in files)
    text = f"{counted(count, 'chunk')} of {counted(len(names), 'file')} that the index does not"
    text += f" list, so that no sync removes them: {listed(names)}"
    return [finding(Code.CHUNKS_WITHOUT_FILE, text, names, count=count)]


def cjk_findings(
    connection: Connection, layout: Layout, cancelled: Callable[[], bool] | None
) -> list[Finding]:
    """Say how much East Asian text a keyword table holds that cuts words at spaces.

    Reads the text of every chunk.
    """
    if layout.fts is None or layout.tokenizer.startswith("trigram"):
        return []
    total, paths = 0, set[str]()
    count = 0
    query = f"SELECT rowid, path, text FROM {layout.chunks} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    for batch in pieces(connection, query, _BATCH):
        if cancelled is not None and cancelled():
            raise Cancelled
        for _, path, text in batch:
            total += 1
            if isinstance(text, str) and not text.isascii() and _CJK.search(text):
                count += 1
                paths.add(str(path))
    if not count:
        return []
    text = (
        f"{counted(count, 'chunk')} of {total:,} ({count / total:.0%}) hold Chinese, Japanese or"
        f" Korean text, and {layout.tokenizer} takes a run of it for one word: keywords rarely find"
        " it; store.fts.tokenizer trigram does"
    )
    return [finding(Code.CJK_WORDS, text, sorted(paths), count=count)]


MAX_BYTES: Final = 256 * 2**20
"""Larger databases are checked only when that is asked for; about 1 s."""
_UNKNOWN_MODULE: Final = "no such module"


@dataclass(frozen=True, slots=True)
class Integrity:
    """`ok`, the first thing that is wrong, or why nothing was checked."""

    text: str
    findings: tuple[Finding, ...] = ()


def check_integrity(opened: Opened, *, deep: bool) -> Integrity:
    """Run `quick_check` over the whole file, or, beyond `MAX_BYTES`, over two small tables.

    The search index of FTS5 is part of the check.
    """
    stamp = opened.fingerprint.database
    size = stamp.size if stamp is not None else 0
    if deep or size <= MAX_BYTES:
        wrong = _quick_check(opened, None)
        checked = "ok"
    else:
        layout = opened.layout
        wrong = _quick_check(opened, layout.meta) or _quick_check(opened, layout.files)
        checked = f"{layout.meta} and {layout.files} ok; not run on all of {size:,} bytes"
    if wrong is None:
        return Integrity(checked)
    text = f"{opened.path} is damaged: {wrong}; openclaw memory index --force builds it again"
    return Integrity(wrong, (finding(Code.DAMAGED, text, [wrong]),))


def _quick_check(opened: Opened, table: str | None) -> str | None:
    pragma = "PRAGMA quick_check(1)" if table is None else f"PRAGMA quick_check({table})"
    try:
        first = str(opened.connection.execute(pragma).fetchall()[0][0])
    except DatabaseError as error:
        if _UNKNOWN_MODULE not in str(error):
            raise
        # Tables of extensions that are not loaded here are none of SQLite's business.
        return None
    return None if first == "ok" else first.replace("\n", " ")


_TABLE: Final = "memtui_retokenized"
_PATHS: Final = "memtui_retokenized_paths"
_TOKENIZE: Final = {
    "unicode61": "unicode61",
    "trigram": "trigram case_sensitive 0",
}


def retokenized(connection: Connection, layout: Layout, tokenizer: str) -> Layout:
    """Build a keyword table of the index's chunks with `tokenizer`, in this connection's memory.

    The rows go in by rowid, as the program's own rebuild has them. Nothing of the file changes;
    the table goes with the connection. Returns the layout that searches it. Raises `ValueError`
    for a tokenizer that no release offers.
    """
    if tokenizer not in _TOKENIZE:
        raise ValueError(f"{tokenizer!r} is no tokenizer of the agent's program")
    source = "source" if layout.chunks_have_source else "'memory'"
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_TABLE} USING fts5("
        "text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, "
        f"start_line UNINDEXED, end_line UNINDEXED, tokenize = '{_TOKENIZE[tokenizer]}')"
    )
    connection.execute(f"DELETE FROM temp.{_TABLE}")
    connection.execute(
        f"INSERT INTO temp.{_TABLE}(rowid, text, id, path, source, model, start_line, end_line) "
        f"SELECT rowid, text, id, path, {source}, model, start_line, end_line "
        f"FROM {layout.chunks} ORDER BY rowid"
    )
    paths = _retokenized_paths(connection, layout, tokenizer) if layout.paths_fts else None
    return replace(layout, fts=_TABLE, paths_fts=paths, fts_has_source=True, tokenizer=tokenizer)


def _retokenized_paths(connection: Connection, layout: Layout, tokenizer: str) -> str:
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_PATHS} USING fts5("
        f"path, source UNINDEXED, tokenize = '{_TOKENIZE[tokenizer]}')"
    )
    connection.execute(f"DELETE FROM temp.{_PATHS}")
    connection.execute(
        f"INSERT INTO temp.{_PATHS}(rowid, path, source) "
        f"SELECT rowid, path, source FROM {layout.files} ORDER BY rowid"
    )
    return _PATHS


MAX_NUMBERS: Final = 4_000_000
"""JSON numbers that are read when not every vector is asked for; about 1 s."""
_SAMPLE: Final = 2000
_CHECKED_AT_ONCE: Final = 500
_FLOAT64: Final = np.dtype("<f8")


@dataclass(frozen=True, slots=True)
class VectorCheck:
    """The state in one word, as `Truth.vector_state` has it, and what is wrong."""

    state: str
    findings: tuple[Finding, ...]


def check_vectors(
    opened: Opened,
    shares: tuple[ModelShare, ...],
    *,
    wanted: bool,
    deep: bool,
    cancelled: Callable[[], bool] | None,
) -> VectorCheck:
    """Compare the vectors of the chunks with the vector table (OPENCLAW.md section 5).

    `wanted`: whether the configuration has a vector table. Float64 blobs are all compared, JSON
    text up to `MAX_NUMBERS` or when `deep`, else 2000 chunks spread evenly.
    """
    connection, layout = opened.connection, opened.layout
    with_vector = sum(share.chunks for share in shares if share.dimensions > 0)
    rebuild = rows.vector_rebuild(connection, layout)
    if layout.vec is None:
        return _without_table(layout, shares, with_vector, wanted)
    if not _has_rowids(connection, layout):
        text = f"{layout.vec} has no table of row ids: the vector search does not work; index anew"
        broken = finding(Code.VEC_UNREADABLE, text, [layout.vec])
        return VectorCheck("unverified", (broken,))
    found = _set_findings(connection, layout)
    if not opened.vec_readable:
        text = "sqlite-vec cannot read the vector table here; the chunks' own vectors are used"
        found.append(finding(Code.VEC_UNREADABLE, text, [layout.vec]))
    if rebuild == "1":
        text = "the program marked its vector table as incomplete (memory_vector_rebuild_v1 = 1)"
        found.append(finding(Code.VEC_INCOMPLETE, f"{text}: a rebuild was cut off or is under way"))
    every = (
        layout.blob_vectors or deep or sum(s.chunks * s.dimensions for s in shares) <= MAX_NUMBERS
    )
    if with_vector:
        found += _compared(connection, layout, every, cancelled)
    state = _state(layout, rebuild, with_vector, found)
    return VectorCheck(state, tuple(found))


def _without_table(
    layout: Layout, shares: tuple[ModelShare, ...], with_vector: int, wanted: bool
) -> VectorCheck:
    if not with_vector or not wanted:
        return VectorCheck("absent", ())
    text = (
        f"{counted(with_vector, 'chunk')} with a vector and no vector table (sqlite-vec was not"
        " loaded): the program compares every vector in its own code"
    )
    missing = finding(Code.VEC_ABSENT, text, count=with_vector)
    named = layout.generation is IndexGeneration.AGENT_BLOB and any(
        share.model != KEYWORD_ONLY_MODEL for share in shares
    )
    return VectorCheck("incomplete" if named else "absent", (missing,))


def _state(layout: Layout, rebuild: str | None, with_vector: int, found: list[Finding]) -> str:
    if rebuild == "1":
        return "incomplete"
    if layout.generation is IndexGeneration.AGENT_BLOB and rebuild != "clean":
        return "unverified"
    if any(item.code == Code.VEC_MISSING for item in found):
        return "incomplete"
    return "complete" if with_vector else "empty"


def _has_rowids(connection: Connection, layout: Layout) -> bool:
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (f"{layout.vec}_rowids",)
    ).fetchall()
    return bool(found)


def _set_findings(connection: Connection, layout: Layout) -> list[Finding]:
    chunks, ids = layout.chunks, f"{layout.vec}_rowids"
    found: list[Finding] = []
    missing = connection.execute(
        f"SELECT id, path, start_line FROM {chunks} WHERE id NOT IN (SELECT id FROM {ids})"
        " AND length(embedding) > 2 ORDER BY path, start_line"
    ).fetchall()
    if missing:
        names = [chunk_name(*row) for row in missing]
        text = f"{counted(len(names), 'vector')} not in the vector table: no meaning finds them"
        found.append(finding(Code.VEC_MISSING, text, names))
    orphans = connection.execute(
        f"SELECT id FROM {ids} WHERE id NOT IN (SELECT id FROM {chunks}) ORDER BY id"
    ).fetchall()
    if orphans:
        text = f"{counted(len(orphans), 'row')} of the vector table without a chunk: they take the"
        text += " place of real hits among the nearest"
        found.append(finding(Code.VEC_ORPHANS, text, [str(row[0]) for row in orphans]))
    return found


def _compared(
    connection: Connection,
    layout: Layout,
    every: bool,
    cancelled: Callable[[], bool] | None,
) -> list[Finding]:
    indexed = read_indexed(connection, layout)
    if indexed is None:
        text = f"the parts of {layout.vec} do not fit together: the vector search is not reliable"
        return [finding(Code.PART_UNREADABLE, text, [str(layout.vec)])]
    rowids = indexed.rowids
    if not every and len(rowids) > _SAMPLE:
        rowids = rowids[np.linspace(0, len(rowids) - 1, _SAMPLE).astype(np.int64)]
    differing: list[str] = []
    damaged: list[DamagedVector] = []
    for part in _stored(connection, layout, rowids, cancelled):
        if _all_same(part, indexed):
            continue
        for rowid, *place, stored in part:
            name = chunk_name(*place)
            try:
                vector = parse_vector(stored)
            except ValueError as error:
                damaged.append(DamagedVector(name, str(error)))
                continue
            if not _same(vector, _indexed(indexed, rowid)):
                differing.append(name)
    return _comparison(len(rowids), len(indexed.rowids), differing, damaged)


def _stored(
    connection: Connection,
    layout: Layout,
    rowids: NDArray[np.int64],
    cancelled: Callable[[], bool] | None,
) -> Iterator[list[Any]]:
    for start in range(0, len(rowids), _CHECKED_AT_ONCE):
        if cancelled is not None and cancelled():
            raise Cancelled
        part = tuple(int(rowid) for rowid in rowids[start : start + _CHECKED_AT_ONCE])
        marks = ",".join("?" * len(part))
        yield connection.execute(
            f"SELECT rowid, id, path, start_line, embedding FROM {layout.chunks}"
            f" WHERE rowid IN ({marks})",
            part,
        ).fetchall()


def _all_same(part: list[Any], indexed: IndexedVectors) -> bool:
    """Whether every stored vector is a sound blob and equal: most parts need no closer look."""
    size = indexed.vectors.shape[1] * _FLOAT64.itemsize
    blobs = [row[-1] for row in part]
    if not all(isinstance(blob, bytes) and len(blob) == size for blob in blobs):
        return False
    stored = np.frombuffer(b"".join(blobs), dtype=_FLOAT64).reshape(len(blobs), -1)
    if not np.isfinite(stored).all():
        return False
    places = np.searchsorted(indexed.rowids, [row[0] for row in part])
    with np.errstate(over="ignore"):
        return bool(np.array_equal(stored.astype(np.float32), indexed.vectors[places]))


def _indexed(indexed: IndexedVectors, rowid: int) -> NDArray[np.float32]:
    at = int(np.searchsorted(indexed.rowids, rowid))
    row: NDArray[np.float32] = indexed.vectors[at]
    return row


def _same(stored: NDArray[np.float64], indexed: NDArray[np.float32]) -> bool:
    if stored.size != indexed.size:
        return False
    with np.errstate(over="ignore"):
        return bool(np.array_equal(stored.astype(np.float32), indexed))


def _comparison(
    compared: int, total: int, differing: list[str], damaged: list[DamagedVector]
) -> list[Finding]:
    what = "all" if compared == total else f"{compared:,} of {total:,}"
    text = f"{what} vectors of the chunks compared with the vector table, in single precision"
    found = [finding(Code.VECTORS_COMPARED, text, count=compared)]
    if differing:
        text = (
            f"{counted(len(differing), 'vector')} of {compared:,} compared differ from the vector"
        )
        text += " table: searches rank by numbers that are not those of the text; index anew"
        found.append(finding(Code.VEC_DIFFERS, text, differing))
    # What is no vector at all is already counted, for every row.
    broken = [item for item in damaged if "finite" in item.reason or "numbers" in item.reason]
    if broken:
        names = [f"{item.chunk_id}: {item.reason}" for item in broken]
        text = f"{counted(len(names), 'stored vector')} of {compared:,} cannot be used"
        found.append(finding(Code.VECTORS_DAMAGED, text, names))
    return found
