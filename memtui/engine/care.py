"""Everything that needs care: rules over the notes, and those that need the index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from msgspec.structs import replace

from memtui.engine.ports import Index, Progressed
from memtui.engine.search import Search
from memtui.errors import IsCancelled, never, stop_if
from memtui.memory.care import rules
from memtui.memory.care.duplicates import near_duplicates, overlaps, without_forms
from memtui.memory.discover import SUFFIXES
from memtui.model import NOTES, Chunk, Document, Reason, SkippedFile
from memtui.model.browsing import (
    CareFinding,
    CarePlace,
    CareReport,
    CareRule,
    LinkTarget,
    MemoryFile,
)
from memtui.model.status import FileState
from memtui.text.redact import redact

MOST_FINDINGS: Final = 5_000
"""Of one rule; `looked_at` still counts everything."""
MOST_OF_A_FILE: Final = 500
"""Of one rule in one file: whoever has to check more of them checks the whole file."""
NO_INDEX: Final = "there is no index yet: `memtui index` makes one"
_OF_NOTES: Final = (
    *(CareRule.NO_TEXT, CareRule.EMPTY_FILE, CareRule.LONG_FILE, CareRule.DATED_FACT),
    *(CareRule.BROKEN_LINK, CareRule.LONG_LINE, CareRule.CREDENTIAL),
)
_PARTS: Final = 1000
MOST_FOLDERS: Final = 20_000
"""So many folders are looked through for a picture."""
_SHOWN: Final = 4_000
"""Characters of a chunk that are shown; a chunk seldom has more."""


def file_test(index: Index) -> Callable[[str, str], bool]:
    """Return a test of a link of a note in a folder: true where a file is there, or a folder."""

    @cache
    def on_disk(folder: str) -> Path | None:
        file = index.files.path_of(f"{folder}/_" if folder else "_")
        return file.parent if file is not None else None

    @cache
    def names_below(base: Path) -> frozenset[str]:
        return frozenset(
            name for *_, names in islice(os.walk(base), MOST_FOLDERS) for name in names
        )

    def is_file(folder: str, target: str) -> bool:
        bases = [base for base in map(on_disk, (folder, "")) if base is not None]
        tried = [os.path.join(base, target) for base in bases]
        # False as well for a name that no file can have.
        if any(
            os.path.isabs(one) and os.path.exists(one)
            for one in (target, os.path.expanduser(target), *tried)
        ):
            return True
        # A picture may be in any folder.
        is_note = target.lower().endswith(SUFFIXES)
        return not is_note and any(target in names_below(base) for base in bases[-1:])

    return is_file


def follow_link(index: Index, path: str, link: rules.WrittenLink) -> LinkTarget:
    """Return the place that a link in a note leads to, as the rule of broken links has it."""
    target = rules.note_of(link)
    address = f"[[{link.target}]]" if link.is_wiki else link.target.strip("<>")
    heading = link.heading or ("" if link.is_wiki else unquote(address.partition("#")[2]))
    if heading and not (link.target if link.is_wiki else address.partition("#")[0]):
        return LinkTarget(path, heading)
    names = rules.NoteNames(file_test(index))
    for file in index.files.entries(never) if target else ():
        names.add_path(file.path)
    place = names.place_of(path, target, is_wiki=link.is_wiki)
    if target and not place and link.is_wiki:
        # The titles are read only where no note is called so.
        for document in index.files.documents(never):
            if isinstance(document, Document):
                names.add(document)
        place = names.place_of(path, target, is_wiki=True)
    if place and not place.endswith("/"):
        return LinkTarget(place, heading)
    if place:
        return LinkTarget(problem=f"{address} is a folder: {place}")
    if target and not names.leads(path, target, is_wiki=link.is_wiki):
        return LinkTarget(problem=f"{address} leads nowhere: there is no such note")
    return LinkTarget(problem=f"not opened: {address} is no note of this memory")


class CareRun:
    """One look through the whole memory; only reads."""

    def __init__(self, index: Index, search: Search, today: date, cancelled: IsCancelled) -> None:
        self._index = index
        self._search = search
        self._today = today
        self._cancelled = cancelled
        self._looked_at = dict.fromkeys(CareRule, 0)
        self._skipped: dict[CareRule, str] = {}
        self._first_words: dict[str, str] = {}
        """The first words of each note, by path."""

    def report(self, progressed: Progressed) -> CareReport:
        """Apply every rule; `progressed` is told thousandths of three equal parts.

        Raises `Cancelled`, and what reading the index raises.
        """

        def part(number: int) -> Progressed:
            def tell(done: int, total: int) -> None:
                share = done / total if total else 1.0
                progressed(int((number + share) * _PARTS), 3 * _PARTS)

            return tell

        files = self._index.files.entries(self._cancelled)
        findings = [
            *self._check_notes(files, part(0)),
            *self._compare_chunks(files, part(1)),
            *self._ask_for_notes(files, part(2)),
        ]
        progressed(3 * _PARTS, 3 * _PARTS)
        order = list(CareRule)
        findings.sort(key=lambda one: (order.index(one.rule), one.place.path, one.place.start_line))
        # What a finding shows is masked already; what it says, and was asked, is not.
        first = [
            replace(
                finding,
                message=redact(finding.message),
                numbers={
                    key: redact(value) if isinstance(value, str) else value
                    for key, value in finding.numbers.items()
                },
            )
            for _, of_rule in groupby(findings, lambda one: one.rule)
            for finding in islice(of_rule, MOST_FINDINGS)
        ]
        return CareReport(tuple(first), self._looked_at, self._skipped)

    def _check_notes(
        self, files: Sequence[MemoryFile], progressed: Progressed
    ) -> Iterator[CareFinding]:
        if missing := self._index.files.notes_missing:
            self._skipped |= dict.fromkeys(_OF_NOTES, missing)
            return

        names, links = rules.NoteNames(file_test(self._index)), list[rules.Link]()
        # A name that two notes have leads to the one that is read.
        for file in sorted(files, key=lambda file: file.state is FileState.SKIPPED):
            stop_if(self._cancelled)
            names.add_path(file.path)
            if file.state is FileState.SKIPPED:
                names.left_out[file.path] = file.detail or file.reason
        for done, document in enumerate(self._index.files.documents(self._cancelled)):
            progressed(min(done, len(files)), len(files))
            if isinstance(document, SkippedFile):
                # What cannot be read otherwise is listed with its reason among the files.
                if document.reason is Reason.NOT_TEXT:
                    self._looked_at[CareRule.NO_TEXT] += 1
                    place = CarePlace(document.path, 1, 1, "")
                    yield CareFinding(CareRule.NO_TEXT, place, document.detail)
                continue
            names.add(document)
            links += rules.links_in(document)
            self._first_words[document.file.path] = rules.first_words(document)
            for rule in _OF_NOTES:
                self._looked_at[rule] += rule is not CareRule.DATED_FACT or document.day is None
            for findings in (
                rules.replaced_bytes(document),
                rules.empty_file(document),
                rules.long_file(document),
                rules.long_lines(document, self._index.chunk_tokens),
                rules.dated_facts(document, self._today),
                rules.credentials(document),
            ):
                yield from islice(findings, MOST_OF_A_FILE)
        for _, of_file in groupby(links, lambda link: link.file.path):
            yield from islice(rules.broken_links(of_file, names), MOST_OF_A_FILE)

    def _compare_chunks(
        self, files: Sequence[MemoryFile], progressed: Progressed
    ) -> Iterator[CareFinding]:
        if self._index.stamp() is None:
            self._skipped[CareRule.NEAR_DUPLICATE] = NO_INDEX
            return
        chunks: list[Chunk] = []
        # File by file, to let searches through.
        for file in files:
            stop_if(self._cancelled)
            if file.source == NOTES and file.chunks:
                chunks += (one for one in self._chunks_of(file.path) if one.source == NOTES)
        chunks.sort(key=lambda one: (one.path, one.start_line, one.id))
        self._looked_at[CareRule.NEAR_DUPLICATE] = len(chunks)
        pairs = near_duplicates(
            without_forms([chunk.text for chunk in chunks], self._cancelled),
            apart=lambda first, second: not overlaps(chunks[first], chunks[second]),
            cancelled=self._cancelled,
            progressed=progressed,
        )
        for pair in pairs:
            first, second = chunks[pair.first], chunks[pair.second]
            same = f"{min(99, round(100 * pair.score))} % the same"
            if pair.score == 1.0:
                same = "the same text" if first.text == second.text else "nearly the same text"
            message = f"{same} as {second.path}:{second.start_line}"
            places, numbers = (_place(first), _place(second)), {"similarity": pair.score}
            yield CareFinding(CareRule.NEAR_DUPLICATE, places[0], message, places[1], numbers)
        progressed(1, 1)

    def _ask_for_notes(
        self, files: Sequence[MemoryFile], progressed: Progressed
    ) -> Iterator[CareFinding]:
        missing = self._skipped.get(CareRule.NEAR_DUPLICATE) or self._index.files.notes_missing
        if missing:
            self._skipped[CareRule.UNREACHABLE] = missing
            return
        queries = {
            file.path: words
            for file in files
            if file.chunks and (words := self._first_words.get(file.path))
        }
        self._looked_at[CareRule.UNREACHABLE] = len(queries)
        ranking = self._index.ranking
        texts = list(queries.values())
        tops = self._search.tops(texts, cancelled=self._cancelled, progressed=progressed)

        def place_in(path: str, chunk_id: str = "") -> CarePlace | None:
            chunks = (one for one in self._chunks_of(path) if chunk_id in ("", one.id))
            return next(map(_place, chunks), None)

        for path, words in queries.items():
            best = tops.get(words, ())
            if all(one.path != path for one in best):
                yield CareFinding(
                    CareRule.UNREACHABLE,
                    place_in(path) or CarePlace(path, 1, 1, words),
                    f"not among the first {ranking.k} results of its own first words",
                    other=place_in(best[0].path, best[0].chunk_id) if best else None,
                    numbers={"query": words, "k": ranking.k, "results": len(best)},
                )

    def _chunks_of(self, path: str) -> Sequence[Chunk]:
        return self._index.read(lambda reading: reading.chunks_of(path)) or ()


def _place(chunk: Chunk) -> CarePlace:
    text = rules.shown(chunk.text, _SHOWN)
    return CarePlace(chunk.path, chunk.start_line, chunk.end_line, text, chunk.id)
