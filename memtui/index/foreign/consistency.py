"""The tables of an OpenClaw index against one another: chunks, files, keywords, models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from memtui.errors import Cancelled
from memtui.index.foreign.findings import Code, counted, finding, listed
from memtui.index.foreign.layout import Layout
from memtui.index.foreign.pieces import pieces
from memtui.model.status import Finding, ModelShare
from memtui.settings.openclaw.identity import KEYWORD_ONLY_MODEL

if TYPE_CHECKING:
    from memtui.index.database import Connection

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


def chunk_counts(connection: Connection, layout: Layout) -> dict[tuple[str, str], int]:
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
    for rows in pieces(connection, query, _BATCH):
        if cancelled is not None and cancelled():
            raise Cancelled
        for _, path, text in rows:
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
