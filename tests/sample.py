"""The recorded sample of the real program: `python -m tests.sample FOLDER`.

FOLDER holds databases that OpenClaw made (`openclaw-<release>-*.sqlite.xz`), its answers to the
same queries under many configurations (`results/<release>-<configuration>.json.gz`) and
`query_vectors.json`. Every query of every recording is run against the database of its release.

With `--extract` the default tests' part of it is written to `tests/data/openclaw/recorded`: the
rows of each database in their order, vectors in single precision, the recordings.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from memtui.engine.foreign.query_vectors import load_given
from memtui.engine.foreign.verify import load_recording, verify
from memtui.index.foreign import rows
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.opening import open_foreign
from tests.support.recorded import FOLDER, RELEASES, VECTORS


def main(arguments: list[str]) -> int:
    """Verify, or extract; 0 when every query agrees."""
    extracts = "--extract" in arguments
    (folder,) = [Path(argument) for argument in arguments if not argument.startswith("-")]
    with tempfile.TemporaryDirectory() as scratch:
        databases = {release: _unpacked(folder, release, Path(scratch)) for release in RELEASES}
        if extracts:
            FOLDER.mkdir(exist_ok=True)
            by_hash: dict[str, Any] = {}
            for release, database in databases.items():
                by_hash |= _extract(folder, release, database)
            matrix = np.array([by_hash[digest] for digest in sorted(by_hash)])
            np.savez_compressed(VECTORS, vectors=matrix)
            _extract_query_vectors(folder)
            return 0
        return _verify(folder, databases)


def _verify(folder: Path, databases: dict[str, Path]) -> int:
    worst, queries, failed = 0.0, 0, 0
    given = load_given(folder / "query_vectors.json")
    for recording in sorted((folder / "results").glob("2026*.json.gz")):
        release = recording.name.split("-", 1)[0]
        found = verify(
            ForeignTarget(databases[release]), load_recording(recording), vectors=given, env={}
        )
        queries += len(found.queries)
        worst = max(worst, found.score_difference or 0.0)
        for verdict in found.queries:
            if not verdict.agrees:
                failed += 1
                print(f"{recording.name}: {verdict.stage}: {verdict.query!r}: {verdict.detail}")
    print(f"{queries - failed} of {queries} queries agree, largest difference {worst:.2g}")
    return int(failed > 0)


def _unpacked(folder: Path, release: str, scratch: Path) -> Path:
    (packed,) = folder.glob(f"openclaw-{release}-*.sqlite.xz")
    database = scratch / packed.stem
    database.write_bytes(lzma.decompress(packed.read_bytes()))
    return database


def _extract(folder: Path, release: str, database: Path) -> dict[str, Any]:
    """Write the rows of one database; the vectors of its texts, by hash."""
    with closing(open_foreign(database)) as opened:
        layout, connection = opened.layout, opened.connection
        chunks = connection.execute(
            "SELECT id, path, source, start_line, end_line, hash, model, text"
            f" FROM {layout.chunks} ORDER BY rowid"
        ).fetchall()
        indexed = rows.read_indexed(opened)
        assert indexed is not None
        content: dict[str, Any] = {
            "meta": rows.meta_value(opened, rows.IDENTITY_KEY),
            "app_version": rows.versions(opened)[1],
            "files": [
                [file.path, file.source, file.hash, file.mtime, file.size]
                for file in rows.files(opened)
            ],
            "chunks": [list(chunk) for chunk in chunks],
        }
    assert len(indexed.rowids) == len(chunks)
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    (FOLDER / f"{release}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
    for source in sorted((folder / "results").glob(f"{release}-*.json.gz")):
        answers = gzip.decompress(source.read_bytes())
        packed = FOLDER / source.name.replace(".gz", ".xz")
        packed.write_bytes(lzma.compress(answers, preset=9))
    return {str(chunk[5]): vector for chunk, vector in zip(chunks, indexed.vectors, strict=True)}


def _extract_query_vectors(folder: Path) -> None:
    content = json.loads((folder / "query_vectors.json").read_text(encoding="utf-8"))
    text = json.dumps({"vectors": content["vectors"]}, ensure_ascii=False, separators=(",", ":"))
    packed = gzip.compress(text.encode(), mtime=0)
    (FOLDER / "query_vectors.json.gz").write_bytes(packed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
