"""Consistency of an OpenClaw index in itself: its tables against one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from memtui.errors import Cancelled
from memtui.index.database import DatabaseError
from memtui.index.foreign.findings import Code, counted, finding, listed, of_things
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import (
    REBUILD_KEY,
    meta_value,
    parse_vector,
    pieces,
    read_indexed,
)
from memtui.model.status import Finding, IndexGeneration, ModelShare
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL

if TYPE_CHECKING:
    from numpy.typing import NDArray

DAMAGED: Final = -1
"""The dimensions of a vector that is neither a JSON array nor a blob of float64."""
MAX_BYTES: Final = 256 * 2**20
"""Larger databases are checked only when that is asked for; about 1 s."""
MAX_NUMBERS: Final = 4_000_000
"""JSON numbers that are read when not every vector is asked for; about 1 s."""

_CJK = re.compile("[\u3040-\u30ff\u3131-\u3163\u3400-\u9fff\uac00-\ud7af]")
_UNKNOWN_MODULE: Final = "no such module"
_BATCH: Final = 4096
_SAMPLE: Final = 2000
_COMPARED_AT_ONCE: Final = 500

_DIMENSIONS: Final = f"""CASE typeof(embedding)
    WHEN 'blob' THEN CASE WHEN length(embedding) % 8 THEN {DAMAGED} ELSE length(embedding) / 8 END
    WHEN 'text' THEN CASE
        WHEN embedding = '[]' THEN 0
        WHEN NOT json_valid(embedding) THEN {DAMAGED}
        WHEN json_type(embedding) <> 'array' THEN {DAMAGED}
        ELSE json_array_length(embedding) END
    ELSE {DAMAGED} END"""


def check_integrity(opened: Opened, *, deep: bool) -> tuple[str, list[Finding]]:
    """Run `quick_check` over the whole file, or, beyond `MAX_BYTES`, over two small tables.

    The search index of FTS5 is part of the check. Returns `ok`, the first thing that is wrong, or
    what was checked.
    """
    stamp = opened.fingerprint.database
    size = stamp.size if stamp is not None else 0
    if deep or size <= MAX_BYTES:
        wrong, checked = _quick_check(opened, "1"), "ok"
    else:
        meta, files = opened.layout.meta, opened.layout.files
        wrong = _quick_check(opened, meta) or _quick_check(opened, files)
        checked = f"{meta} and {files} ok; not run on all of {size:,} bytes"
    if wrong is None:
        return checked, []
    text = f"{opened.path} is damaged: {wrong}; openclaw memory index --force builds it again"
    return wrong, [finding(Code.DAMAGED, text, [wrong])]


def _quick_check(opened: Opened, argument: str) -> str | None:
    try:
        rows = opened.connection.execute(f"PRAGMA quick_check({argument})").fetchall()
    except DatabaseError as error:
        if _UNKNOWN_MODULE not in str(error):
            raise
        # Tables of extensions that are not loaded here are none of SQLite's business.
        return None
    first = str(rows[0][0])
    return None if first == "ok" else first.replace("\n", " ")


def model_shares(opened: Opened) -> tuple[ModelShare, ...]:
    """Count the chunks of each model and vector length, largest first; looks at every vector.

    Dimensions `DAMAGED`: not a vector at all.
    """
    rows = opened.connection.execute(
        f"SELECT model, {_DIMENSIONS}, count(*) FROM {opened.layout.chunks} GROUP BY 1, 2"
    ).fetchall()
    shares = [
        ModelShare(str(model), dims, count)
        for model, dims, count in rows
        if isinstance(dims, int) and isinstance(count, int)
    ]
    return tuple(sorted(shares, key=lambda share: (-share.chunks, share.model, share.dimensions)))


def model_findings(opened: Opened, shares: tuple[ModelShare, ...]) -> list[Finding]:
    """Say which models and lengths are mixed, and which chunks have no usable vector."""
    findings: list[Finding] = []
    models = sorted({share.model for share in shares})
    if len(models) > 1:
        shown = listed(
            f"{share.model} {max(share.dimensions, 0)}: {counted(share.chunks, 'chunk')}"
            for share in shares
        )
        text = f"chunks of {len(models)} models in one index ({shown}): a search"
        text += " compares the query with one model's vectors only; index anew"
        findings.append(finding(Code.MIXED_MODELS, text, models))
    lengths = sorted({share.dimensions for share in shares if share.dimensions > 0})
    if len(lengths) > 1:
        text = f"vectors of {' and '.join(map(str, lengths))} dimensions in one index: index anew"
        findings.append(finding(Code.MIXED_DIMENSIONS, text, map(str, lengths)))
    if any(share.dimensions == 0 and share.model != KEYWORD_ONLY_MODEL for share in shares):
        names = _chunks(opened, f"({_DIMENSIONS}) = 0 AND model <> ?", KEYWORD_ONLY_MODEL)
        text = f"{counted(len(names), 'chunk')} without a vector: only keywords find them"
        findings.append(finding(Code.CHUNKS_WITHOUT_VECTOR, text, names))
    if any(share.dimensions == DAMAGED for share in shares):
        names = _chunks(opened, f"({_DIMENSIONS}) = {DAMAGED}")
        text = f"{counted(len(names), 'stored vector')} damaged: the program leaves such chunks out"
        findings.append(finding(Code.VECTORS_DAMAGED, text, names))
    return findings


def _chunks(opened: Opened, where: str, *values: str) -> list[str]:
    """Name the chunks that fulfil a condition."""
    rows = opened.connection.execute(
        f"SELECT id, path, start_line FROM {opened.layout.chunks} WHERE {where}"
        " ORDER BY path, start_line",
        values,
    ).fetchall()
    return [_chunk_name(*row) for row in rows]


def _chunk_name(identifier: object, path: object, line: object) -> str:
    """Name a chunk for people: where it starts, and the first digits of its id."""
    return f"{path}:{line} {str(identifier)[:12]}"


def keyword_findings(opened: Opened, *, hybrid: bool) -> list[Finding]:
    """Compare the keyword table with the chunks; `hybrid`: whether the program searches it."""
    connection, layout = opened.connection, opened.layout
    if layout.fts is None:
        text = "there is no keyword table: no search finds words, only similar vectors"
        return [finding(Code.FTS_ABSENT, text)] if hybrid else []
    findings: list[Finding] = []
    lacking = _chunks(opened, f"id NOT IN (SELECT id FROM {layout.fts} WHERE id IS NOT NULL)")
    if lacking:
        text = f"{counted(len(lacking), 'chunk')} not in the keyword table: no word finds them"
        findings.append(finding(Code.FTS_MISSING, text, lacking))
    rows = connection.execute(f"SELECT id, count(*) FROM {layout.fts} GROUP BY id").fetchall()
    present = {row[0] for row in connection.execute(f"SELECT id FROM {layout.chunks}").fetchall()}
    orphans = sorted(str(identifier) for identifier, _ in rows if identifier not in present)
    if orphans:
        text = f"{counted(len(orphans), 'keyword row')} without a chunk: searches up to 2026.5"
        findings.append(finding(Code.FTS_ORPHANS, f"{text} return text that is gone", orphans))
    doubles = [str(name) for name, count in rows if isinstance(count, int) and count > 1]
    if doubles:
        text = f"{counted(len(doubles), 'chunk')} several times in the keyword table"
        findings.append(finding(Code.FTS_DUPLICATES, text, sorted(doubles)))
    if layout.paths_fts is not None:
        rows = connection.execute(
            f"SELECT path FROM {layout.files}"
            f" WHERE rowid NOT IN (SELECT rowid FROM {layout.paths_fts}) ORDER BY path"
        ).fetchall()
        paths = [str(path) for (path,) in rows]
        findings += of_things(Code.PATHS_MISSING, paths, "file", "unknown to the path search")
    return findings


def table_facts(opened: Opened) -> list[Finding]:
    """Say how the keyword table cuts text into words, and what the embedding cache holds."""
    layout = opened.layout
    findings: list[Finding] = []
    if layout.fts is not None:
        text = f"the keyword table cuts text into words by {layout.tokenizer}"
        findings.append(finding(Code.TOKENIZER_IN_USE, text, [layout.tokenizer]))
    if layout.cache is not None:
        rows = opened.connection.execute(f"SELECT count(*) FROM {layout.cache}").fetchall()
        count = int(str(rows[0][0]))
        text = f"the embedding cache holds {counted(count, 'vector')}"
        findings.append(finding(Code.CACHE_ROWS, text, count=count))
    return findings


def chunk_counts_by_path(opened: Opened) -> dict[tuple[str, str], int]:
    """Count the chunks of each (path, source)."""
    source = "source" if opened.layout.chunks_have_source else "'memory'"
    rows = opened.connection.execute(
        f"SELECT path, {source}, count(*) FROM {opened.layout.chunks} GROUP BY 1, 2"
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


def cjk_findings(opened: Opened, cancelled: Callable[[], bool]) -> list[Finding]:
    """Say how much East Asian text a keyword table holds that cuts words at spaces.

    Reads the text of every chunk.
    """
    layout = opened.layout
    if layout.fts is None or layout.tokenizer.startswith("trigram"):
        return []
    total, paths, count = 0, set[str](), 0
    query = f"SELECT rowid, path, text FROM {layout.chunks} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    for batch in pieces(opened.connection, query, _BATCH):
        _check(cancelled)
        total += len(batch)
        for _, path, text in batch:
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


def _check(cancelled: Callable[[], bool]) -> None:
    if cancelled():
        raise Cancelled


# --- vectors ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorCheck:
    """The state in one word, as `Truth.vector_state` has it, and what is wrong."""

    state: str
    findings: Iterable[Finding] = ()


def check_vectors(
    opened: Opened,
    shares: tuple[ModelShare, ...],
    *,
    wanted: bool,
    deep: bool,
    cancelled: Callable[[], bool],
) -> VectorCheck:
    """Compare the vectors of the chunks with the vector table (OPENCLAW.md section 5).

    `wanted`: whether the configuration has a vector table. Float64 blobs are all compared, JSON
    text up to `MAX_NUMBERS` or when `deep`, else 2000 chunks spread evenly.
    """
    connection, layout = opened.connection, opened.layout
    with_vector = sum(share.chunks for share in shares if share.dimensions > 0)
    if layout.vec is None:
        return _without_table(opened, shares, with_vector if wanted else 0)
    row_ids = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (f"{layout.vec}_rowids",)
    ).fetchall()
    if not row_ids:
        text = f"{layout.vec} has no table of row ids: the vector search does not work; index anew"
        return VectorCheck("unverified", [finding(Code.VEC_UNREADABLE, text, [layout.vec])])
    findings = _row_findings(opened, f"{layout.vec}_rowids")
    if not opened.vec_readable:
        text = "sqlite-vec cannot read the vector table here; the chunks' own vectors are used"
        findings.append(finding(Code.VEC_UNREADABLE, text, [layout.vec]))
    # `1`: the vector table is not complete; `clean`; `None`: not written.
    rebuild = meta_value(connection, layout, REBUILD_KEY)
    if rebuild == "1":
        text = "the program marked its vector table as incomplete (memory_vector_rebuild_v1 = 1)"
        text += ": a rebuild was cut off or is under way"
        findings.append(finding(Code.VEC_INCOMPLETE, text))
    numbers = sum(share.chunks * share.dimensions for share in shares)
    if with_vector:
        every = layout.blob_vectors or deep or numbers <= MAX_NUMBERS
        findings += _number_findings(opened, every, cancelled)
    state = "complete" if with_vector else "empty"
    if rebuild == "1" or any(item.code == Code.VEC_MISSING for item in findings):
        state = "incomplete"
    if layout.generation is IndexGeneration.AGENT_BLOB and rebuild not in {"1", "clean"}:
        state = "unverified"
    return VectorCheck(state, findings)


def _without_table(opened: Opened, shares: tuple[ModelShare, ...], with_vector: int) -> VectorCheck:
    if not with_vector:
        return VectorCheck("absent")
    text = (
        f"{counted(with_vector, 'chunk')} with a vector and no vector table (sqlite-vec was not"
        " loaded): the program compares every vector in its own code"
    )
    named = opened.layout.generation is IndexGeneration.AGENT_BLOB and any(
        share.model != KEYWORD_ONLY_MODEL for share in shares
    )
    absent = finding(Code.VEC_ABSENT, text, count=with_vector)
    return VectorCheck("incomplete" if named else "absent", [absent])


def _row_findings(opened: Opened, ids: str) -> list[Finding]:
    chunks = opened.layout.chunks
    findings: list[Finding] = []
    lacking = _chunks(opened, f"id NOT IN (SELECT id FROM {ids}) AND length(embedding) > 2")
    if lacking:
        text = f"{counted(len(lacking), 'vector')} not in the vector table: no meaning finds them"
        findings.append(finding(Code.VEC_MISSING, text, lacking))
    orphans = opened.connection.execute(
        f"SELECT id FROM {ids} WHERE id NOT IN (SELECT id FROM {chunks}) ORDER BY id"
    ).fetchall()
    if orphans:
        text = f"{counted(len(orphans), 'row')} of the vector table without a chunk: they take the"
        text += " place of real hits among the nearest"
        findings.append(finding(Code.VEC_ORPHANS, text, [str(row[0]) for row in orphans]))
    return findings


def _number_findings(opened: Opened, every: bool, cancelled: Callable[[], bool]) -> list[Finding]:
    """Compare the numbers of both tables, in single precision."""
    layout = opened.layout
    indexed = read_indexed(opened.connection, layout)
    if indexed is None:
        text = f"the parts of {layout.vec} do not fit together: the vector search is not reliable"
        return [finding(Code.PART_UNREADABLE, text, [str(layout.vec)])]
    total = compared = len(indexed.rowids)
    places = np.arange(total)
    if not every and total > _SAMPLE:
        places, compared = np.linspace(0, total - 1, _SAMPLE).astype(np.int64), _SAMPLE
    differing: list[str] = []
    unusable: list[str] = []
    for start in range(0, compared, _COMPARED_AT_ONCE):
        _check(cancelled)
        part = places[start : start + _COMPARED_AT_ONCE]
        vectors = dict(zip(indexed.rowids[part].tolist(), indexed.vectors[part], strict=True))
        rows = opened.connection.execute(
            f"SELECT rowid, id, path, start_line, embedding FROM {layout.chunks}"
            f" WHERE rowid IN ({','.join('?' * len(vectors))})",
            tuple(vectors),
        ).fetchall()
        for rowid, *place, stored in rows:
            try:
                vector = parse_vector(stored)
            except ValueError as error:
                # What is no vector at all is already counted, for every row.
                if "finite" in str(error) or "numbers" in str(error):
                    unusable.append(f"{_chunk_name(*place)}: {error}")
                continue
            if not _is_same(vector, vectors[int(str(rowid))]):
                differing.append(_chunk_name(*place))
    what = "all" if compared == total else f"{compared:,} of {total:,}"
    text = f"{what} vectors of the chunks compared with the vector table, in single precision"
    findings = [finding(Code.VECTORS_COMPARED, text, count=compared)]
    if differing:
        text = f"{counted(len(differing), 'vector')} of {compared:,} compared differ from the"
        text += " vector table: searches rank by numbers that are not those of the text; index anew"
        findings.append(finding(Code.VEC_DIFFERS, text, differing))
    if unusable:
        text = f"{counted(len(unusable), 'stored vector')} of {compared:,} cannot be used"
        findings.append(finding(Code.VECTORS_DAMAGED, text, unusable))
    return findings


def _is_same(stored: NDArray[np.float64], indexed: NDArray[np.floating]) -> bool:
    if stored.size != indexed.size:
        return False
    with np.errstate(over="ignore"):
        return bool(np.array_equal(stored.astype(np.float32), indexed))
