"""Everything that needs care: rules over the notes, and those that need the index."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from memtui.engine.ports import Index, Reading
from memtui.engine.search import QueryAsker
from memtui.errors import Cancelled
from memtui.memory.care.duplicates import near_duplicates, overlaps, without_forms
from memtui.memory.care.links import NoteNames, broken_links
from memtui.memory.care.masking import masked, shown
from memtui.memory.care.rules import (
    credentials,
    dated_facts,
    empty_file,
    first_words,
    long_file,
    long_lines,
)
from memtui.memory.discover import SOURCE
from memtui.model import Chunk, Document
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule, MemoryFile

MOST_FINDINGS: Final = 5_000
"""Of one rule; `looked_at` still counts everything."""
MOST_OF_A_FILE: Final = 500
"""Of one rule in one file: whoever has to look at more of them looks at the file."""
NO_INDEX: Final = "there is no index yet: memtui index makes one"
_OF_NOTES: Final = (
    *(CareRule.EMPTY_FILE, CareRule.LONG_FILE, CareRule.DATED_FACT, CareRule.BROKEN_LINK),
    *(CareRule.LONG_LINE, CareRule.CREDENTIAL),
)
_ROWS: Final = 500
_PARTS: Final = 1000
_SHOWN: Final = 4_000
"""Characters of a chunk that are shown; a chunk seldom has more."""


class CareRun:
    """One look through the whole memory; only reads."""

    def __init__(
        self, index: Index, asker: QueryAsker, today: date, cancelled: Callable[[], bool]
    ) -> None:
        self._index = index
        self._asker = asker
        self._today = today
        self._cancelled = cancelled
        self._found: dict[CareRule, list[CareFinding]] = defaultdict(list)
        self._looked_at = dict.fromkeys(CareRule, 0)
        self._skipped: dict[CareRule, str] = {}
        self._folders: dict[str, Path | None] = {}

    def report(self, progressed: Callable[[int, int], None]) -> CareReport:
        """Apply every rule; `progressed` is told thousandths of three equal parts.

        Raises `Cancelled`, and what reading the index raises.
        """

        def part(number: int) -> Callable[[int, int], None]:
            def tell(done: int, total: int) -> None:
                share = done / total if total else 1.0
                progressed(int((number + share) * _PARTS), 3 * _PARTS)

            return tell

        files = self._index.files.entries(self._cancelled)
        beginnings = self._read_notes(files, part(0))
        self._compare_chunks(part(1))
        self._ask_for_notes(beginnings, files, part(2))
        progressed(3 * _PARTS, 3 * _PARTS)
        findings = [
            _masked(finding)
            for rule in CareRule
            for finding in sorted(
                self._found[rule], key=lambda one: (one.place.path, one.place.start_line)
            )[:MOST_FINDINGS]
        ]
        return CareReport(tuple(findings), self._looked_at, self._skipped)

    def _add(self, *findings: CareFinding | None) -> None:
        for finding in findings:
            if finding is not None:
                self._found[finding.rule].append(finding)

    # --- over the notes -------------------------------------------------------------------------

    def _read_notes(
        self, files: list[MemoryFile], progressed: Callable[[int, int], None]
    ) -> dict[str, str]:
        """Apply the rules of single files; returns the first words of each note, by path.

        The notes are read twice, so that they are never all in memory: links need every title.
        """
        if missing := self._index.files.notes_missing:
            self._skipped |= dict.fromkeys(_OF_NOTES, missing)
            return {}
        names = NoteNames(self._is_on_disk)
        for file in files:
            if self._cancelled():
                raise Cancelled
            names.add_path(file.path)
        beginnings: dict[str, str] = {}
        total = 2 * max(1, len(files))
        # What cannot be read is listed with its reason among the files.
        for done, document in enumerate(self._index.files.documents(self._cancelled)):
            progressed(done, total)
            if isinstance(document, Document):
                names.add(document)
                beginnings[document.file.path] = first_words(document)
        for done, document in enumerate(self._index.files.documents(self._cancelled), total // 2):
            progressed(min(done, total), total)
            if isinstance(document, Document):
                self._judge(document, names)
        return beginnings

    def _judge(self, document: Document, names: NoteNames) -> None:
        for rule in _OF_NOTES:
            self._looked_at[rule] += rule is not CareRule.DATED_FACT or document.day is None
        self._add(empty_file(document), long_file(document))
        for findings in (
            long_lines(document, self._index.chunk_tokens),
            dated_facts(document, self._today),
            broken_links(document, names),
            credentials(document),
        ):
            self._add(*islice(findings, MOST_OF_A_FILE))

    def _is_on_disk(self, folder: str, target: str) -> bool:
        """Tell whether a link of a note in `folder` leads to a file that is no note."""
        tried = [target, os.path.expanduser(target)]
        for name in (folder, ""):
            if name not in self._folders:
                # Once for a folder, since the index is asked for it.
                file = self._index.files.path_of(f"{name}/_" if name else "_")
                self._folders[name] = file.parent if file is not None else None
            if (base := self._folders[name]) is not None:
                tried.append(os.path.join(base, target))
        return any(os.path.isabs(one) and _exists(one) for one in tried)

    # --- over the index -------------------------------------------------------------------------

    def _compare_chunks(self, progressed: Callable[[int, int], None]) -> None:
        chunks = self._chunks()
        if chunks is None:
            self._skipped[CareRule.NEAR_DUPLICATE] = NO_INDEX
            return
        self._looked_at[CareRule.NEAR_DUPLICATE] = len(chunks)
        pairs = near_duplicates(
            without_forms([chunk.text for chunk in chunks], self._cancelled),
            apart=lambda first, second: not overlaps(chunks[first], chunks[second]),
            cancelled=self._cancelled,
            progressed=progressed,
        )
        for pair in pairs:
            first, second = chunks[pair.first], chunks[pair.second]
            same = "the same text" if pair.score == 1.0 else f"{pair.score:.0%} the same"
            message = f"{same} as {second.path}:{second.start_line}: keep one of them"
            numbers = {"similarity": pair.score}
            self._add(
                CareFinding(
                    CareRule.NEAR_DUPLICATE, _place(first), message, _place(second), numbers
                )
            )
        progressed(1, 1)

    def _chunks(self) -> list[Chunk] | None:
        """Return every chunk of a note, by path and line, read in pieces to let searches through.

        `None` before the first index.
        """
        chunks: list[Chunk] = []
        last = -(2**62)
        while True:
            if self._cancelled():
                raise Cancelled
            piece = self._index.read(partial(_piece, after=last))
            if piece is None:
                return None
            rows, more = piece
            if not rows:
                return sorted(chunks, key=lambda chunk: (chunk.path, chunk.start_line, chunk.id))
            last = rows[-1]
            chunks += more

    def _ask_for_notes(
        self,
        beginnings: dict[str, str],
        files: list[MemoryFile],
        progressed: Callable[[int, int], None],
    ) -> None:
        """Ask for each note by its own first words, as the ranking is."""
        missing = NO_INDEX if CareRule.NEAR_DUPLICATE in self._skipped else ""
        if missing := missing or self._index.files.notes_missing:
            self._skipped[CareRule.UNREACHABLE] = missing
            return
        indexed = {file.path for file in files if file.chunks}
        queries = {path: words for path, words in beginnings.items() if words and path in indexed}
        self._looked_at[CareRule.UNREACHABLE] = len(queries)
        tops = self._asker.tops(
            list(queries.values()),
            self._index.ranking,
            cancelled=self._cancelled,
            progressed=progressed,
        )
        for path, words in queries.items():
            paths = [hit.path for hit in tops.get(words, ())]
            if path not in paths:
                self._add(self._unreachable(path, words, paths))

    def _unreachable(self, path: str, words: str, instead: list[str]) -> CareFinding:
        chunks = self._index.read(partial(_first_chunks, paths=(path, *instead[:1]))) or {}
        own, first = chunks.get(path), chunks.get(instead[0]) if instead else None
        k = self._index.ranking.k
        return CareFinding(
            CareRule.UNREACHABLE,
            _place(own) if own is not None else CarePlace(path, 1, 1, words),
            f"its own first words do not bring it among the first {k}: "
            "let it begin with what it is about",
            other=_place(first) if first is not None else None,
            numbers={"query": words, "k": k, "results": len(instead)},
        )


def _piece(reading: Reading, after: int) -> tuple[Sequence[int], list[Chunk]]:
    rows = reading.rows_after(after, _ROWS, SOURCE)
    chunks = reading.chunks(rows)
    # A damaged table may give rows in no order: no row comes twice.
    ahead = [row for row in rows if row > after]
    return ahead, [chunks[row] for row in ahead if row in chunks]


def _first_chunks(reading: Reading, paths: Iterable[str]) -> dict[str, Chunk]:
    rows = {path: reading.rows_of(path)[:1] for path in paths}
    chunks = reading.chunks(row for first in rows.values() for row in first)
    return {path: chunks[row] for path, first in rows.items() for row in first}


def _place(chunk: Chunk) -> CarePlace:
    text = shown(chunk.text, _SHOWN)
    return CarePlace(chunk.path, chunk.start_line, chunk.end_line, text, chunk.id)


def _masked(finding: CareFinding) -> CareFinding:
    """Return the same without credentials in what it says; what it shows is masked already."""
    numbers = {
        key: masked(value) if isinstance(value, str) else value
        for key, value in finding.numbers.items()
    }
    return replace(finding, message=masked(finding.message), numbers=numbers)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # A name that no file can have.
        return False
