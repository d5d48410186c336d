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
from typing import TYPE_CHECKING, Final

from memtui.engine.neighbours import overlaps
from memtui.engine.ports import Index, Reading
from memtui.errors import Cancelled
from memtui.memory.care.duplicates import near_duplicates, without_forms
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
from memtui.model import Chunk, Document, SkippedFile
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule, MemoryFile

if TYPE_CHECKING:
    from memtui.engine.browse import QueryAsker

MOST_FINDINGS: Final = 5_000
"""Of one rule; `looked_at` still counts everything."""
MOST_OF_A_FILE: Final = 500
"""Of one rule in one file: whoever has to look at more of them looks at the file."""
NO_INDEX: Final = "there is no index yet: memtui index makes one"
_OF_NOTES: Final = (
    CareRule.EMPTY_FILE,
    CareRule.LONG_FILE,
    CareRule.DATED_FACT,
    CareRule.BROKEN_LINK,
    CareRule.LONG_LINE,
    CareRule.CREDENTIAL,
)
_ROWS: Final = 500
_SHARES: Final = 3
"""Reading the notes, comparing the chunks and asking for the notes are a third of it each."""
_PARTS: Final = 1000
_SHOWN: Final = 4_000
"""Characters of a chunk that are shown; a chunk seldom has more."""


class CareRun:
    """One look through the whole memory; only reads."""

    def __init__(self, index: Index, asker: QueryAsker, today: date) -> None:
        self._index = index
        self._asker = asker
        self._ranking = index.ranking
        self._today = today
        self._found: dict[CareRule, list[CareFinding]] = defaultdict(list)
        self._looked_at = dict.fromkeys(CareRule, 0)
        self._skipped: dict[CareRule, str] = {}
        self._folders: dict[str, Path | None] = {}

    def report(
        self, *, cancelled: Callable[[], bool], progressed: Callable[[int, int], None]
    ) -> CareReport:
        """Apply every rule; `progressed` is told thousandths of three equal parts.

        Raises `Cancelled`, and what reading the index raises.
        """

        def part(number: int) -> Callable[[int, int], None]:
            def told(done: int, total: int) -> None:
                share = done / total if total else 1.0
                progressed(int((number + share) * _PARTS), _SHARES * _PARTS)

            return told

        files = self._index.files(cancelled)
        documents = self._read_notes(files, cancelled, part(0))
        self._compare_chunks(cancelled, part(1))
        self._ask_for_notes(documents, files, cancelled, part(2))
        progressed(_SHARES * _PARTS, _SHARES * _PARTS)
        return CareReport(tuple(self._in_order()), self._looked_at, self._skipped)

    def _in_order(self) -> Iterable[CareFinding]:
        for rule in CareRule:
            ordered = sorted(
                self._found[rule], key=lambda one: (one.place.path, one.place.start_line)
            )
            yield from map(_masked, ordered[:MOST_FINDINGS])

    def _add(self, findings: Iterable[CareFinding]) -> None:
        for finding in findings:
            self._found[finding.rule].append(finding)

    # --- over the notes -------------------------------------------------------------------------

    def _read_notes(
        self,
        files: list[MemoryFile],
        cancelled: Callable[[], bool],
        progressed: Callable[[int, int], None],
    ) -> list[tuple[str, str]]:
        """Apply the rules of single files; returns the first words of each note, by path.

        The notes are read twice, so that they are never all in memory: links need every title.
        """
        if self._index.notes_missing:
            self._skipped |= dict.fromkeys(_OF_NOTES, self._index.notes_missing)
            return []
        names = NoteNames(self._is_on_disk)
        for file in files:
            if cancelled():
                raise Cancelled
            names.add_path(file.path)
        begun: list[tuple[str, str]] = []
        total = 2 * max(1, len(files))
        for done, document in enumerate(self._index.documents(cancelled)):
            progressed(done, total)
            if isinstance(document, Document):
                names.add(document)
                begun.append((document.file.path, first_words(document)))
        for done, document in enumerate(self._index.documents(cancelled), start=total // 2):
            progressed(min(done, total), total)
            self._judge(document, names)
        return begun

    def _judge(self, document: Document | SkippedFile, names: NoteNames) -> None:
        if not isinstance(document, Document):
            # What cannot be read is listed with its reason among the files.
            return
        for rule in _OF_NOTES:
            is_judged = rule is not CareRule.DATED_FACT or document.day is None
            self._looked_at[rule] += is_judged
        whole = (empty_file(document), long_file(document))
        self._add(found for found in whole if found is not None)
        for findings in (
            long_lines(document, self._index.chunk_tokens),
            dated_facts(document, self._today),
            broken_links(document, names),
            credentials(document),
        ):
            self._add(islice(findings, MOST_OF_A_FILE))

    def _is_on_disk(self, folder: str, target: str) -> bool:
        """Whether a link of a note in `folder` leads to a file that is no part of the memory."""
        base, root = self._folder(folder), self._folder("")
        tried = [target, os.path.expanduser(target)]
        tried += [os.path.join(one, target) for one in (base, root) if one is not None]
        return any(os.path.isabs(one) and _exists(one) for one in tried)

    def _folder(self, folder: str) -> Path | None:
        """Where a folder of notes is on disk; asked once, since the index is asked for it."""
        if folder not in self._folders:
            file = self._index.file_of(f"{folder}/_" if folder else "_")
            self._folders[folder] = file.parent if file is not None else None
        return self._folders[folder]

    # --- over the index -------------------------------------------------------------------------

    def _compare_chunks(
        self, cancelled: Callable[[], bool], progressed: Callable[[int, int], None]
    ) -> None:
        chunks = self._chunks(cancelled)
        if chunks is None:
            self._skipped[CareRule.NEAR_DUPLICATE] = NO_INDEX
            return
        self._looked_at[CareRule.NEAR_DUPLICATE] = len(chunks)
        pairs = near_duplicates(
            without_forms([chunk.text for chunk in chunks], cancelled),
            apart=lambda first, second: not overlaps(chunks[first], chunks[second]),
            cancelled=cancelled,
            progressed=progressed,
        )
        for pair in pairs:
            self._add([_pair(chunks[pair.first], chunks[pair.second], pair.score)])
        progressed(1, 1)

    def _chunks(self, cancelled: Callable[[], bool]) -> list[Chunk] | None:
        """Every chunk of a note, by path and line; read in pieces, so that searches get through."""
        found: list[Chunk] = []
        last = -(2**62)
        while True:
            if cancelled():
                raise Cancelled
            piece = self._index.read(partial(_piece, after=last))
            if piece is None:
                return None
            rows, chunks = piece
            if not rows:
                return sorted(found, key=lambda chunk: (chunk.path, chunk.start_line, chunk.id))
            last = rows[-1]
            found += chunks

    def _ask_for_notes(
        self,
        begun: list[tuple[str, str]],
        files: list[MemoryFile],
        cancelled: Callable[[], bool],
        progressed: Callable[[int, int], None],
    ) -> None:
        """Ask for each note by its own first words, as the ranking is."""
        if CareRule.NEAR_DUPLICATE in self._skipped:
            self._skipped[CareRule.UNREACHABLE] = NO_INDEX
            return
        if self._index.notes_missing:
            self._skipped[CareRule.UNREACHABLE] = self._index.notes_missing
            return
        held = {file.path for file in files if file.chunks}
        wanted = {path: words for path, words in begun if words and path in held}
        self._looked_at[CareRule.UNREACHABLE] = len(wanted)
        tops = self._asker.tops(
            list(wanted.values()), self._ranking, cancelled=cancelled, progressed=progressed
        )
        for path, words in wanted.items():
            hits = tops.get(words, ())
            if all(hit.path != path for hit in hits):
                self._add([self._unreachable(path, words, [hit.path for hit in hits])])

    def _unreachable(self, path: str, words: str, instead: list[str]) -> CareFinding:
        chunks = self._first_chunks(path, *instead[:1])
        own, first = chunks.get(path), chunks.get(instead[0]) if instead else None
        place = _place(own) if own is not None else CarePlace(path, 1, 1, words)
        return CareFinding(
            CareRule.UNREACHABLE,
            place,
            f"its own first words do not bring it among the first {self._ranking.k}: "
            "let it begin with what it is about",
            other=_place(first) if first is not None else None,
            numbers={"query": words, "k": self._ranking.k, "results": len(instead)},
        )

    def _first_chunks(self, *paths: str) -> dict[str, Chunk]:
        def first(reading: Reading) -> dict[str, Chunk]:
            rows = {path: reading.rows_of(path)[:1] for path in paths}
            chunks = reading.chunks(row for found in rows.values() for row in found)
            return {path: chunks[row] for path, found in rows.items() for row in found}

        return self._index.read(first) or {}


def _piece(reading: Reading, after: int) -> tuple[Sequence[int], list[Chunk]]:
    rows = reading.rows_after(after, _ROWS, SOURCE)
    chunks = reading.chunks(rows)
    # A damaged table may give rows in no order: no row comes twice.
    ahead = [row for row in rows if row > after]
    return ahead, [chunks[row] for row in ahead if row in chunks]


def _pair(first: Chunk, second: Chunk, score: float) -> CareFinding:
    same = "the same text" if score == 1.0 else f"{score:.0%} the same"
    return CareFinding(
        CareRule.NEAR_DUPLICATE,
        _place(first),
        f"{same} as {second.path}:{second.start_line}: keep one of them",
        other=_place(second),
        numbers={"similarity": score},
    )


def _place(chunk: Chunk) -> CarePlace:
    text = shown(chunk.text, _SHOWN)
    return CarePlace(chunk.path, chunk.start_line, chunk.end_line, text, chunk.id)


def _masked(finding: CareFinding) -> CareFinding:
    """The same without any credential in what it says; what it shows is masked already."""
    return replace(
        finding,
        message=masked(finding.message),
        numbers={
            key: masked(value) if isinstance(value, str) else value
            for key, value in finding.numbers.items()
        },
    )


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        # A name that no file can have.
        return False
