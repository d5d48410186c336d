"""Findings about an OpenClaw index, and its consistency: its tables against one another.

The codes and words of findings are in `openclaw-findings.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import numpy as np
from msgspec.structs import asdict

from memtui.data import read_table
from memtui.index.database import DatabaseError, Fault, Interrupted, fault, number
from memtui.index.foreign import rows
from memtui.index.foreign.opening import UNKNOWN_MODULE, Opened, index_format
from memtui.index.foreign.rows import FileRow, parse_vector
from memtui.model import status
from memtui.retrieval.openclaw.tables import SQL
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL, release_named
from memtui.settings.openclaw.schema import MemorySearchConfig
from memtui.text.sanitize import counted, listed, safe_line

MAX_NAMES: Final = 200
PAUSING_RELEASES: Final = frozenset({"2026.7", "2026.9"})
"""Whose search returns nothing while the index does not fit the configuration."""

catalogue: Final = partial(read_table, "openclaw-findings.toml")
"""Read severity, words and query of every finding, by its code."""


class Findings:
    """Collects the findings of one examination, in order."""

    def __init__(self) -> None:
        self.items: list[status.Finding] = []

    def add(
        self,
        code: str,
        names: Iterable[str] = (),
        *,
        form: str = "text",
        count: int | None = None,
        severity: status.Severity | None = None,
        **values: Any,
    ) -> None:
        """Add one finding, safe to show; nothing where its words are about things and none is.

        `form` names the words where a code has several, `values` what they mention. `count` is
        that of `names` when it is not given; names beyond `MAX_NAMES` are counted and left out.
        """
        entry, every = catalogue()[code], tuple(names)
        words = entry[form]
        if not every and count is None and ("{things}" in words or "{names}" in words):
            return
        count = len(every) if count is None else count
        things = counted(count, entry.get("noun", ""), entry.get("plural", ""))
        message = words.format(things=things, names=listed(every), **values)
        severity = severity or status.Severity(entry["severity"])
        shown = tuple(safe_line(name) for name in every[:MAX_NAMES])
        self.items.append(status.Finding(code, severity, safe_line(message), shown, count))


def agent_gets(truth: status.Truth, release: str) -> tuple[status.AgentGets | None, str]:
    """Return what the agent's own search returns, and the code that keeps it from the same as here.

    `None` where that is not known: the configuration cannot be read, or the index is newer than
    memtui. Raises `SettingsError` for a release without a profile.
    """
    pausing = release_named(release).name in PAUSING_RELEASES
    codes = {finding.code for finding in truth.findings}
    for code, entry in catalogue().items():
        if code in codes and "gets" in entry and (pausing or not entry.get("pauses")):
            return entry["gets"] or None, code
    return "same", ""


MAX_BYTES: Final = 256 * 2**20
"""Larger databases are checked only when that is asked for; about 1 s."""
MAX_NUMBERS: Final = 4_000_000
"""JSON numbers that are read when not every vector is asked for; about 1 s."""

_CJK = re.compile("[\u3040-\u30ff\u3131-\u3163\u3400-\u9fff\uac00-\ud7af]")
_BATCH: Final = 4096
_SAMPLE: Final = 2000
_COMPARED_AT_ONCE: Final = 500


class StoredTables:
    """The tables of one index as they are read, each checked against the others."""

    def __init__(self, opened: Opened, findings: Findings, deep: bool) -> None:
        self._opened, self._findings, self._deep = opened, findings, deep
        self.unread: set[str] = set()
        """The parts that cannot be read."""
        self.identity = status.Identity()
        self.files: tuple[FileRow, ...] = ()
        self.chunks: dict[tuple[str, str], tuple[int, int]] = {}
        self.models: tuple[status.ModelShare, ...] = ()
        """The chunks of each model and vector length, largest first."""
        self.lengths: list[int] = []
        """The different lengths of the stored vectors."""
        self.integrity, self.vector_state = "not run", "unverified"

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Read one part; damage to it becomes a finding and does not hide the others."""
        try:
            yield
        except DatabaseError as error:
            wrong = fault(error)
            codes = {Fault.DAMAGED: "damaged", Fault.TOO_SLOW: "part_too_slow"}
            if isinstance(error, Interrupted) or (wrong is not None and wrong not in codes):
                raise
            code = codes[wrong] if wrong is not None else "part_unreadable"
            self._findings.add(code, [name], form="part", subject=name, wrong=error)
            self.unread.add(name)
            if wrong is Fault.DAMAGED and self.integrity in {"ok", "not run"}:
                self.integrity = safe_line(f"{name}: {error}")

    def read(self, config: MemorySearchConfig | None) -> None:
        """Read every table; `config` is what the agent is configured for, where that is known."""
        opened, findings, part = self._opened, self._findings, self.part
        layout = opened.layout
        with part(layout.meta):
            self.identity = rows.identity(opened)
        with part(layout.files):
            self.files = rows.files(opened)
        with part(layout.chunks):
            self.chunks = rows.chunks_by_file(opened)
            self._check_models()
        with part(layout.fts or "the keyword table"):
            if layout.fts is not None:
                self._check_rows("fts_missing", "fts_orphans", "fts_duplicates")
            if layout.fts is not None and layout.paths_fts is not None:
                self._check_rows("paths_missing")
            if layout.fts is None and (config is None or config.hybrid_enabled):
                findings.add("fts_absent")
        with part(layout.vec or "the vector table"):
            self.vector_state = self._check_vectors(config is None or config.vector_enabled)
        with part(layout.chunks):
            if layout.fts is not None and not layout.tokenizer.startswith("trigram"):
                # How much East Asian text a keyword table holds that cuts words at spaces.
                total, names = 0, list[str]()
                where = "WHERE rowid > ? ORDER BY rowid LIMIT ?"
                texts = f"SELECT rowid, path, start_line, id, text FROM {layout.chunks} {where}"
                for batch in rows.pieces(opened, texts, _BATCH):
                    total += len(batch)
                    names += [
                        _chunk_name(*place)
                        for _, *place, text in batch
                        if isinstance(text, str) and not text.isascii() and _CJK.search(text)
                    ]
                findings.add(
                    "cjk_words",
                    sorted(names, key=lambda name: name.rpartition(":")[0]),
                    total=total,
                    share=len(names) / max(total, 1),
                    tokenizer=layout.tokenizer,
                )
        if layout.fts is not None:
            findings.add("tokenizer_in_use", [layout.tokenizer], tokenizer=layout.tokenizer)
        if layout.cache is not None:
            with part(layout.cache):
                cached = f"SELECT count(*) FROM {layout.cache}"
                findings.add("cache_rows", count=number(opened.connection, cached))

    def check_integrity(self) -> None:
        """Run `quick_check` over the whole file, or, beyond `MAX_BYTES`, over two small tables.

        The search index of FTS5 is part of the check.
        """
        opened = self._opened
        size = opened.fingerprint.database.size
        tables, result = ["1"], "ok"
        if not self._deep and size > MAX_BYTES:
            tables = [opened.layout.meta, opened.layout.files]
            result = f"{' and '.join(tables)} ok; not run on all of {size:,} bytes"
        for table in tables:
            try:
                answer = opened.select(f"PRAGMA quick_check({table})")
            except DatabaseError as error:
                if UNKNOWN_MODULE not in str(error):
                    raise
                # Tables of extensions that are not loaded here are none of SQLite's business.
                continue
            wrong = str(answer[0][0]).replace("\n", " ")
            if wrong != "ok":
                self._findings.add("damaged", [wrong], subject=opened.path, wrong=wrong)
                result = wrong
                break
        self.integrity = result

    def _check_rows(self, *codes: str) -> bool:
        """Add the findings whose queries select something; tell whether the last one did."""
        names = asdict(self._opened.layout) | {"dimensions": index_format()["dimensions"]}
        selected: list[Any] = []
        for code in codes:
            selected = self._opened.select(catalogue()[code]["query"].format_map(names))
            chunks = [_chunk_name(*row) if len(row) > 1 else str(row[0]) for row in selected]
            self._findings.add(code, chunks)
        return bool(selected)

    def _check_models(self) -> None:
        """Say which models and lengths are mixed, and which chunks have no usable vector.

        Looks at every vector; dimensions -1: not a vector at all.
        """
        parts = {"chunks": self._opened.layout.chunks, "dimensions": index_format()["dimensions"]}
        counts = self._opened.select(SQL["models"].format(**parts))
        shares = tuple(status.ModelShare(str(model), *rest) for model, *rest in counts)
        self.models = shares
        models = sorted({share.model for share in shares})
        if len(models) > 1:
            texts = [
                f"{share.model} {max(share.dimensions, 0)}: {counted(share.chunks, 'chunk')}"
                for share in shares
            ]
            self._findings.add("mixed_models", models, models=len(models), shares=listed(texts))
        self.lengths = sorted({share.dimensions for share in shares if share.dimensions > 0})
        lengths = [str(length) for length in self.lengths]
        if len(lengths) > 1:
            self._findings.add("mixed_dimensions", lengths, lengths=" and ".join(lengths))
        if any(share.dimensions <= 0 for share in shares):
            self._check_rows("chunks_without_vector", "vectors_damaged")

    def _check_vectors(self, expected: bool) -> str:
        """Compare the vectors of the chunks with the vector table (OPENCLAW.md section 5).

        `expected`: whether the configuration has a vector table. Float64 blobs are all compared,
        JSON text up to `MAX_NUMBERS` or when `deep`, else 2000 chunks spread evenly. Returns the
        state in one word, as `Truth.vector_state` has it.
        """
        opened, findings, vec = self._opened, self._findings, self._opened.layout.vec
        is_blob = opened.layout.generation is status.IndexGeneration.AGENT_BLOB
        with_vector = sum(share.chunks for share in self.models if share.dimensions > 0)
        if vec is None:
            if not with_vector or not expected:
                return "absent"
            findings.add("vec_absent", count=with_vector)
            has_model = any(share.model != KEYWORD_ONLY_MODEL for share in self.models)
            return "incomplete" if is_blob and has_model else "absent"
        if rows.vector_count(opened) is None:
            findings.add("vec_unreadable", [vec], form="rowids", table=vec)
            return "unverified"
        lacks_vectors = self._check_rows("vec_missing")
        self._check_rows("vec_orphans")
        if not opened.vec_readable:
            findings.add("vec_unreadable", [vec])
        # `1`: the vector table is not complete; `clean`; `None`: not written.
        rebuild = rows.meta_value(opened, rows.REBUILD_KEY)
        if rebuild == "1":
            findings.add("vec_incomplete")
        if with_vector:
            numbers = sum(share.chunks * share.dimensions for share in self.models)
            self._compare_numbers(is_blob or self._deep or numbers <= MAX_NUMBERS)
        if is_blob and rebuild not in {"1", "clean"}:
            return "unverified"
        if rebuild == "1" or lacks_vectors:
            return "incomplete"
        return "complete" if with_vector else "empty"

    def _compare_numbers(self, every: bool) -> None:
        opened, findings, layout = self._opened, self._findings, self._opened.layout
        indexed = rows.read_indexed(opened)
        if indexed is None:
            findings.add("part_unreadable", [str(layout.vec)], subject=layout.vec)
            return
        total = len(indexed.rowids)
        compared = total if every else min(total, _SAMPLE)
        places = np.arange(compared) * total // max(compared, 1)
        differing, unusable = list[str](), list[str]()
        sql = SQL["embeddings"].format(chunks=layout.chunks)
        for start in range(0, compared, _COMPARED_AT_ONCE):
            part = places[start : start + _COMPARED_AT_ONCE]
            rowids = indexed.rowids[part].tolist()
            vectors = dict(zip(rowids, indexed.vectors[part], strict=True))
            for rowid, *place, stored in opened.select(sql, json.dumps(rowids)):
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
        extent = "all" if compared == total else f"{compared:,} of {total:,}"
        findings.add("vectors_compared", count=compared, extent=extent)
        findings.add("vec_differs", differing, compared=compared)
        findings.add("vectors_damaged", unusable, form="numbers", compared=compared)


def _chunk_name(path: object, line: object, identifier: object) -> str:
    """Name a chunk for people: where it starts, and the first digits of its id."""
    return f"{path}:{line} {str(identifier)[:12]}"
