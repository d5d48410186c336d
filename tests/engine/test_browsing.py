"""Browsing a real memory: how files stand to the index, and the history that is asked again."""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace

from memtui.bus import Bus, SearchReady
from memtui.engine import Engine, browse
from memtui.engine.browse import recalls_of
from memtui.engine.ports import Partial, SearchRequest
from memtui.memory.care.rules import written_links
from memtui.model import CandidatePool, FileState, IndexState, Reason, SkippedFile
from memtui.model.browsing import CareRule
from memtui.model.inquiry import Place
from memtui.settings.schema import EmbeddingSettings, MemorySettings, TranscriptSettings
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.small_memory import NOTES, SETTINGS, SmallMemory, make_small_memory

NO_TEXT = "no text: 3 NUL bytes, first on line 3"
REPLACED = "not UTF-8: 1 bad sequence shown as U+FFFD, first on line 3"


@pytest.fixture(autouse=True)
def hashed() -> Iterator[HashedProvider]:
    with registered_hashed() as provider:
        yield provider


def test_every_file_says_how_it_stands_to_the_index(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "lab.md").write_text("# Lab\n\nA bench and a scope.\n", "utf-8")
    extra = replace(SETTINGS, memory=MemorySettings(extra_paths=("../outside",)))
    memory = dataclasses.replace(make_small_memory(tmp_path, indexed=False), settings=extra)
    notes = memory.root / "memory"
    with memory.open() as engine:
        assert {file.state for file in engine.browse.files()} == {FileState.NEVER_INDEXED}
        assert {file.reason for file in engine.browse.files()} == {Reason.NOT_YET_INDEXED}
        engine.index.sync(wait=True)
        assert {file.state for file in engine.browse.files()} == {FileState.CURRENT}
        (notes / "2026-01-21.md").write_text("# Move\n\nOther words.\n", "utf-8")
        (notes / "2026-01-22.md").unlink()
        (notes / "new.md").write_text("# New\n\nJust written.\n", "utf-8")
        (notes / "link.md").symlink_to(memory.root / "MEMORY.md")
        (notes / "2025-09-15.md").chmod(0)
        files = {file.path: file for file in engine.browse.files()}
        readable = os.access(notes / "2025-09-15.md", os.R_OK)
        assert engine.index.files.path_of("../outside/lab.md") == outside / "lab.md"
        (notes / "2026-01-21.md").unlink()
        (notes / "2026-01-21.md").symlink_to(memory.root / "MEMORY.md")
        engine.index.refresh_status()
        removals = engine.index.status().removals
    assert removals["memory/2026-01-22.md"] == "gone" not in removals["memory/2026-01-21.md"]
    states = {path: (file.state, file.reason) for path, file in files.items()}
    assert states["memory/2026-01-21.md"] == (FileState.STALE, Reason.STALE)
    assert states["memory/2026-01-22.md"] == (FileState.ORPHAN, Reason.VANISHED)
    assert states["memory/new.md"] == (FileState.NEVER_INDEXED, Reason.NOT_YET_INDEXED)
    assert states["memory/link.md"] == (FileState.SKIPPED, Reason.SYMLINK)
    assert readable or states["memory/2025-09-15.md"] == (FileState.ERROR, Reason.UNREADABLE)
    assert states["MEMORY.md"] == (FileState.CURRENT, Reason.OK)
    assert list(files) == sorted(files)
    lab, day = files["../outside/lab.md"], files["memory/2026-02-07.md"]
    assert (lab.place, day.place) == ("../outside", "workspace")
    # As its chunk is cited, and as the margin of the file counts.
    assert (day.day, day.chunks, day.lines) == (date(2026, 2, 7), 1, 3)
    assert day.size == len(NOTES[day.path].encode())


def test_bytes_that_are_no_text_are_told_wherever_files_are(memory: SmallMemory) -> None:
    notes = memory.root / "memory"
    (notes / "wide.md").write_bytes("# Bramble\n\nThe hedge is cut.\n".encode("utf-16"))
    (notes / "latin.md").write_bytes("# Notes\n\nThe café by the river.\n".encode("latin-1"))
    (notes / "image.md").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with memory.open() as engine:
        reports = [engine.browse.care()]
        engine.index.sync(wait=True)
        reports.append(engine.browse.care())
        statuses = [engine.index.status()]
        found, *_ = engine.search.ask("bramble").hits
        files = {file.path: file for file in engine.browse.files()}
        source = engine.index.files.source("memory/image.md")
        trace = engine.explain.inquire_at(engine.search.ask("hedge"), Place("memory/image.md"))
    with memory.open(write=False) as engine:
        engine.index.refresh_status()
        statuses.append(engine.index.status())
    skipped = SkippedFile("memory/image.md", Reason.NOT_TEXT, NO_TEXT)
    for status in statuses:
        assert (status.state, status.skipped) == (IndexState.READY, (skipped,))
        assert status.warnings == (f"memory/latin.md: {REPLACED}",)
        assert status.files == len(NOTES) + 2
    assert found.chunk.path == "memory/wide.md"
    assert trace.steps[-1].reason is Reason.NOT_TEXT
    image, latin = files["memory/image.md"], files["memory/latin.md"]
    assert (image.state, image.reason, image.detail) == (
        *(FileState.SKIPPED, Reason.NOT_TEXT),
        NO_TEXT,
    )
    assert (latin.state, latin.detail) == (FileState.CURRENT, REPLACED)
    assert source.detail == NO_TEXT, "there is no indexed text"
    for report in reports:
        care = [one for one in report.findings if one.rule is CareRule.NO_TEXT]
        assert [(one.place.citation, one.message) for one in care] == [
            ("memory/image.md#L1", NO_TEXT),
            ("memory/latin.md#L3", REPLACED),
        ]


def test_without_vectors_a_record_says_why(memory: SmallMemory) -> None:
    none = replace(SETTINGS, embedding=EmbeddingSettings(provider="none", fallback="none"))
    with dataclasses.replace(memory, settings=none).open() as engine:
        engine.index.sync(wait=True)
        chunk = engine.browse.chunks_of("MEMORY.md")[0]
        record, like = engine.browse.chunk_record(chunk.id), engine.browse.neighbours(chunk.id)
    assert record is not None
    assert (record.norm, record.provider, record.vector_state) == (None, "", Reason.NO_VECTORS)
    assert (like.by_vector, like.vector_state) == ((), Reason.NO_VECTORS)


def test_near_duplicates_are_told_of_a_chunk_and_by_care(
    engine: Engine, memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# Copied\n\n" + " ".join(f"word{number}" for number in range(60)) + "\n"
    copies = {"one": text, "two": text, "near": text.replace("word30", "other")}
    copies["yet"] = text.replace("Copied", "Headed")
    # 74 % alike and with other numbers: a record of the same kind, of another thing.
    copies["other"] = re.sub("word([135]0)", r"page\1", text)
    # Titles are not compared, even if texts are short by them alone.
    copies["short"] = copies["again"] = "# The title of a note of few words\n\nAnna leads it.\n"
    for name, copied in copies.items():
        (memory.root / f"memory/{name}.md").write_text(copied, "utf-8")
    engine.index.sync(wait=True)
    (chunk,) = engine.browse.chunks_of("memory/one.md")
    scores = {one.chunk.path: one.score for one in engine.browse.neighbours(chunk.id).duplicates}
    assert scores.keys() == {f"memory/{name}.md" for name in ("two", "near", "yet")}
    assert 0.6 <= scores["memory/near.md"] < scores["memory/two.md"] == 1.0
    assert scores["memory/yet.md"] == 1.0
    # Where many others share more words, the nearest in meaning are compared as well.
    monkeypatch.setattr(browse, "MOST_COMPARED", 1)
    assert len(engine.browse.neighbours(chunk.id).duplicates) == 3
    (short,) = engine.browse.chunks_of("memory/short.md")
    assert not engine.browse.neighbours(short.id).duplicates
    told = {
        (one.place.path, one.other.path): one.message.partition(" as ")[0]
        for one in engine.browse.care().findings
        if one.rule is CareRule.NEAR_DUPLICATE and one.other is not None
    }
    share = round(100 * scores["memory/near.md"])
    assert told["memory/near.md", "memory/one.md"] == f"{share} % the same"
    assert told["memory/one.md", "memory/two.md"] == "the same text"
    assert told["memory/one.md", "memory/yet.md"] == "nearly the same text"
    assert ("memory/again.md", "memory/short.md") not in told


def test_a_link_leads_nowhere_for_the_reader_where_it_does_for_care(memory: SmallMemory) -> None:
    lines = [
        *("[[mai]]", "[[Garden|beds]]", "[a](people/mai.md#x)", "[b](mai.md)", "[[people]]"),
        *("[[nowhere]]", "![[lost.png]]", "![[plan.png|300]]", "![[pictures/plan.png]]"),
        "[c](../../outside.md)",
    ]
    pictures = memory.root / "memory/deep/pictures"
    pictures.mkdir(parents=True)
    (pictures / "plan.png").write_bytes(b"PNG")
    (memory.root.parent / "outside.md").write_text("not of this memory")
    (memory.root / "memory/links.md").write_text("\n".join(lines))
    with memory.open() as engine:
        broken = {
            one.place.start_line
            for one in engine.browse.care().findings
            if (one.rule, one.place.path) == (CareRule.BROKEN_LINK, "memory/links.md")
        }
        leads_nowhere = {
            number
            for number, line in enumerate(lines, start=1)
            for link in written_links(line)
            if "leads nowhere" in engine.browse.follow("memory/links.md", link).problem
        }
    assert [lines[number - 1] for number in sorted(broken)] == [
        *("[b](mai.md)", "[[nowhere]]", "![[lost.png]]", "![[pictures/plan.png]]")
    ]
    assert leads_nowhere == broken


def test_care_goes_on_without_a_note_that_vanishes_meanwhile(
    engine: Engine, memory: SmallMemory
) -> None:
    last = memory.root / max(NOTES)
    report = engine.browse.care(progressed=lambda *_: last.unlink(missing_ok=True))
    assert not last.exists()
    assert report.looked_at[CareRule.EMPTY_FILE] == len(NOTES) - 1


def test_a_second_look_asks_nothing_until_the_index_changes(
    engine: Engine, memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    retrieve: Callable[..., CandidatePool] = engine.index.legs.retrieve

    def noted(
        request: SearchRequest, cancelled: Callable[[], bool], partial: Partial | None
    ) -> CandidatePool:
        asked.append(request.text)
        return retrieve(request, cancelled, partial)

    monkeypatch.setattr(engine.index.legs, "retrieve", noted)
    told: list[tuple[int, int]] = []
    # Filters alone recall nothing: they list.
    queries = ["router", "path:memory/* ", "day 3"]
    first = engine.search.tops(queries, progressed=lambda *done: told.append(done))
    assert asked == ["router", "day 3"]
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert engine.search.tops(["day 3", "router"]) == first
    assert len(asked) == 2
    (memory.root / "memory/more.md").write_text("# Router\n\nThe router again.\n", "utf-8")
    engine.index.sync(wait=True)
    assert "memory/more.md" in recalls_of(engine.search.tops(["router"]))
    assert len(asked) == 3


def test_a_failed_leg_is_not_remembered(engine: Engine, hashed: HashedProvider) -> None:
    hashed.fail_next = 1
    engine.search.tops(["a query without vector"])
    calls = hashed.calls
    engine.search.tops(["a query without vector"])
    assert hashed.calls == calls + 1


def test_a_typed_search_goes_before_the_history(memory: SmallMemory) -> None:
    bus, answered = Bus(), threading.Event()

    def ready(event: SearchReady) -> None:
        if event.complete:
            answered.set()

    bus.subscribe(SearchReady, ready)
    with memory.open(bus) as engine:

        def progressed(count: int, total: int) -> None:
            if count == 5:
                engine.search.submit("router hall")
            if count == 8:
                assert answered.wait(20)

        engine.search.tops([f"day {n} router" for n in range(60)], progressed=progressed)


def test_a_packed_file_that_is_too_large_stands_with_what_is_left_out(tmp_path: Path) -> None:
    chosen = replace(SETTINGS, transcripts=TranscriptSettings(paths=("s1.jsonl.zst",)))
    memory = dataclasses.replace(make_small_memory(tmp_path, indexed=False), settings=chosen)
    bomb = zstandard.compress(bytes(2**25))
    (memory.root / "s1.jsonl.zst").write_bytes(bomb)
    with memory.open() as engine:
        engine.index.sync(wait=True)
        (file,) = [one for one in engine.browse.files() if one.path == "s1.jsonl.zst"]
        assert (file.state, file.reason) == (FileState.SKIPPED, Reason.TOO_LARGE)
        assert file.detail == "unpacks to more than 1,000 times its size and 16,000,000 bytes"
        assert "s1.jsonl.zst" in {one.path for one in engine.index.status().skipped}
