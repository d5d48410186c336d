"""The two places of an OpenClaw index that hold vectors, compared number by number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from memtui.errors import Cancelled
from memtui.index.foreign import rows
from memtui.index.foreign.consistency import chunk_name
from memtui.index.foreign.findings import Code, counted, finding
from memtui.index.foreign.vectors import (
    DamagedVector,
    IndexedVectors,
    parse_vector,
    read_indexed,
)
from memtui.model.status import Finding, IndexGeneration, ModelShare
from memtui.settings.openclaw.identity import KEYWORD_ONLY_MODEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memtui.index.database import Connection
    from memtui.index.foreign.layout import Layout
    from memtui.index.foreign.opening import Opened

MAX_NUMBERS: Final = 4_000_000
"""JSON numbers that are read when not every vector is asked for; about 1 s."""
_SAMPLE: Final = 2000
_BATCH: Final = 500
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
    for start in range(0, len(rowids), _BATCH):
        if cancelled is not None and cancelled():
            raise Cancelled
        part = tuple(int(rowid) for rowid in rowids[start : start + _BATCH])
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
