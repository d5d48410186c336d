"""Consistency of an OpenClaw index in itself: its tables against one another."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import asdict

from memtui.errors import Cancelled
from memtui.index.database import DatabaseError
from memtui.index.foreign.findings import Findings, catalogue, listed
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import (
    REBUILD_KEY,
    meta_value,
    parse_vector,
    pieces,
    read_indexed,
    vector_count,
)
from memtui.model.status import IndexGeneration, ModelShare
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL
from memtui.text.sanitize import counted

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


def check_integrity(opened: Opened, findings: Findings, *, deep: bool) -> str:
    """Run `quick_check` over the whole file, or, beyond `MAX_BYTES`, over two small tables.

    The search index of FTS5 is part of the check. Returns `ok`, the first thing that is wrong, or
    what was checked.
    """
    stamp = opened.fingerprint.database
    size = stamp.size if stamp is not None else 0
    tables, result = ["1"], "ok"
    if not deep and size > MAX_BYTES:
        tables = [opened.layout.meta, opened.layout.files]
        result = f"{' and '.join(tables)} ok; not run on all of {size:,} bytes"
    for table in tables:
        try:
            rows = opened.connection.execute(f"PRAGMA quick_check({table})").fetchall()
        except DatabaseError as error:
            if _UNKNOWN_MODULE not in str(error):
                raise
            # Tables of extensions that are not loaded here are none of SQLite's business.
            continue
        wrong = str(rows[0][0]).replace("\n", " ")
        if wrong != "ok":
            findings.add("damaged", [wrong], subject=opened.path, wrong=wrong)
            return wrong
    return result


def check_rows(opened: Opened, findings: Findings, *codes: str) -> None:
    """Add the findings whose queries select something."""
    names = asdict(opened.layout) | {"dimensions": _DIMENSIONS}
    for code in codes:
        rows = opened.connection.execute(catalogue()[code]["query"].format_map(names)).fetchall()
        findings.add(code, [_chunk_name(*row) if len(row) > 1 else str(row[0]) for row in rows])


def _chunk_name(path: object, line: object, identifier: object) -> str:
    """Name a chunk for people: where it starts, and the first digits of its id."""
    return f"{path}:{line} {str(identifier)[:12]}"


def model_shares(opened: Opened) -> tuple[ModelShare, ...]:
    """Count the chunks of each model and vector length, largest first; looks at every vector.

    Dimensions `DAMAGED`: not a vector at all.
    """
    rows: list[Any] = opened.connection.execute(
        f"SELECT model, {_DIMENSIONS}, count(*) FROM {opened.layout.chunks} GROUP BY 1, 2"
    ).fetchall()
    shares = [ModelShare(str(model), dims, count) for model, dims, count in rows]
    return tuple(sorted(shares, key=lambda share: (-share.chunks, share.model, share.dimensions)))


def stored_lengths(shares: Sequence[ModelShare]) -> list[int]:
    """Return the different lengths of the stored vectors."""
    return sorted({share.dimensions for share in shares if share.dimensions > 0})


def check_models(opened: Opened, shares: Sequence[ModelShare], findings: Findings) -> None:
    """Say which models and lengths are mixed, and which chunks have no usable vector."""
    models = sorted({share.model for share in shares})
    if len(models) > 1:
        shown = listed(
            f"{share.model} {max(share.dimensions, 0)}: {counted(share.chunks, 'chunk')}"
            for share in shares
        )
        findings.add("mixed_models", models, models=len(models), shares=shown)
    lengths = [str(length) for length in stored_lengths(shares)]
    if len(lengths) > 1:
        findings.add("mixed_dimensions", lengths, lengths=" and ".join(lengths))
    if any(share.dimensions <= 0 for share in shares):
        check_rows(opened, findings, "chunks_without_vector", "vectors_damaged")


def check_scripts(opened: Opened, findings: Findings, cancelled: Callable[[], bool]) -> None:
    """Say how much East Asian text a keyword table holds that cuts words at spaces.

    Reads the text of every chunk.
    """
    layout = opened.layout
    if layout.fts is None or layout.tokenizer.startswith("trigram"):
        return
    total, paths = 0, list[str]()
    query = f"SELECT rowid, path, text FROM {layout.chunks} WHERE rowid > ? ORDER BY rowid LIMIT ?"
    for batch in pieces(opened.connection, query, _BATCH):
        if cancelled():
            raise Cancelled
        total += len(batch)
        texts = ((path, text) for _, path, text in batch if isinstance(text, str))
        paths += [str(path) for path, text in texts if not text.isascii() and _CJK.search(text)]
    if paths:
        names, share, words = sorted(set(paths)), len(paths) / total, layout.tokenizer
        findings.add(
            "cjk_words", names, count=len(paths), total=total, share=share, tokenizer=words
        )


# --- vectors ----------------------------------------------------------------------------------


def check_vectors(
    opened: Opened,
    shares: Sequence[ModelShare],
    findings: Findings,
    *,
    expected: bool,
    deep: bool,
    cancelled: Callable[[], bool],
) -> str:
    """Compare the vectors of the chunks with the vector table (OPENCLAW.md section 5).

    `expected`: whether the configuration has a vector table. Float64 blobs are all compared, JSON
    text up to `MAX_NUMBERS` or when `deep`, else 2000 chunks spread evenly. Returns the state in
    one word, as `Truth.vector_state` has it.
    """
    vec = opened.layout.vec
    is_blob = opened.layout.generation is IndexGeneration.AGENT_BLOB
    with_vector = sum(share.chunks for share in shares if share.dimensions > 0)
    if vec is None:
        if not with_vector or not expected:
            return "absent"
        findings.add("vec_absent", count=with_vector)
        has_model = any(share.model != KEYWORD_ONLY_MODEL for share in shares)
        return "incomplete" if is_blob and has_model else "absent"
    if vector_count(opened) is None:
        findings.add("vec_unreadable", [vec], form="rowids", table=vec)
        return "unverified"
    before = len(findings.items)
    check_rows(opened, findings, "vec_missing")
    lacks_vectors = len(findings.items) > before
    check_rows(opened, findings, "vec_orphans")
    if not opened.vec_readable:
        findings.add("vec_unreadable", [vec])
    # `1`: the vector table is not complete; `clean`; `None`: not written.
    rebuild = meta_value(opened, REBUILD_KEY)
    if rebuild == "1":
        findings.add("vec_incomplete")
    if with_vector:
        numbers = sum(share.chunks * share.dimensions for share in shares)
        every = is_blob or deep or numbers <= MAX_NUMBERS
        _compare_numbers(opened, findings, every, cancelled)
    if is_blob and rebuild not in {"1", "clean"}:
        return "unverified"
    if rebuild == "1" or lacks_vectors:
        return "incomplete"
    return "complete" if with_vector else "empty"


def _compare_numbers(
    opened: Opened, findings: Findings, every: bool, cancelled: Callable[[], bool]
) -> None:
    """Compare the numbers of both tables, in single precision."""
    layout, indexed = opened.layout, read_indexed(opened)
    if indexed is None:
        findings.add("part_unreadable", [str(layout.vec)], subject=layout.vec)
        return
    total = len(indexed.rowids)
    compared = total if every else min(total, _SAMPLE)
    places = np.arange(compared) * total // max(compared, 1)
    differing: list[str] = []
    unusable: list[str] = []
    sql = (
        f"SELECT rowid, path, start_line, id, embedding FROM {layout.chunks}"
        " WHERE rowid IN (SELECT value FROM json_each(?))"
    )
    for start in range(0, compared, _COMPARED_AT_ONCE):
        if cancelled():
            raise Cancelled
        part = places[start : start + _COMPARED_AT_ONCE]
        rowids = indexed.rowids[part].tolist()
        vectors = dict(zip(rowids, indexed.vectors[part], strict=True))
        rows: list[Any] = opened.connection.execute(sql, (json.dumps(rowids),)).fetchall()
        for rowid, *place, stored in rows:
            try:
                vector = parse_vector(stored)
            except ValueError as error:
                # What is no vector at all is already counted, for every row.
                if "finite" in str(error) or "numbers" in str(error):
                    unusable.append(f"{_chunk_name(*place)}: {error}")
                continue
            with np.errstate(over="ignore"):
                if not np.array_equal(vector.astype(np.float32), vectors[rowid]):
                    differing.append(_chunk_name(*place))
    what = "all" if compared == total else f"{compared:,} of {total:,}"
    findings.add("vectors_compared", count=compared, what=what)
    findings.add("vec_differs", differing, compared=compared)
    findings.add("vectors_damaged", unusable, form="numbers", compared=compared)
