"""Browsing a real memory: files, one chunk, what is like it, the history, care."""

from __future__ import annotations

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random

import numpy as np
import pytest

from memtui.bus import Bus, SearchReady
from memtui.engine import Engine
from memtui.engine.ports import Partial, SearchRequest
from memtui.memory.care.duplicates import cut, jaccard
from memtui.memory.care.rules import first_words
from memtui.memory.documents import read_document
from memtui.model import CandidatePool, Chunk, DateRule, Reason, SourceFile
from memtui.model.browsing import CareRule, FileState
from memtui.settings.schema import EmbeddingSettings, IndexSettings, MemorySettings, Settings
from tests.support.embedding import HashedProvider, registered_hashed

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
SYLLABLES = ("ra", "to", "mi", "ve", "so", "lun", "ka", "dor")


def settings(*extra: str) -> Settings:
    return Settings(
        embedding=EmbeddingSettings(provider="hashed", fallback="none"),
        index=IndexSettings(watch=False),
        memory=MemorySettings(extra_paths=extra),
    )


def sentences(chosen: Random, count: int) -> str:
    words = ["".join(chosen.choices(SYLLABLES, k=2)) for _ in range(10 * count)]
    return ".\n".join(" ".join(words[n : n + 10]) for n in range(0, len(words), 10)) + ".\n"


def write_memory(root: Path) -> None:
    chosen = Random(7)
    memory = root / "memory"
    memory.mkdir(parents=True)
    (root / "MEMORY.md").write_text("# Memory\n\n- The router is in the hall.\n", "utf-8")
    for number in range(1, 13):
        text = f"# Day {number}\n\n{sentences(chosen, 5)}"
        (memory / f"2026-11-{number:02}.md").write_text(text, "utf-8")
    copied = (memory / "2026-11-03.md").read_text("utf-8").replace("# Day 3", "# Copied")
    (memory / "copy.md").write_text(copied.replace("ra", "RA", 1), "utf-8")
    (memory / "twin.md").write_text((memory / "2026-11-04.md").read_text("utf-8"), "utf-8")
    (memory / "京都.md").write_text("# 京都\n\n京都駅から清水寺まではバスで行く。\n", "utf-8")


@pytest.fixture(autouse=True)
def hashed() -> Iterator[HashedProvider]:
    with registered_hashed() as provider:
        yield provider


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    write_memory(folder)
    return folder


@pytest.fixture
def engine(root: Path, tmp_path: Path) -> Iterator[Engine]:
    data = tmp_path / "data"
    with Engine.open(root, settings(), data_dir=data, now=lambda: NOW) as opened:
        opened.index.sync(wait=True)
        yield opened


def all_chunks(engine: Engine) -> list[Chunk]:
    return [chunk for file in engine.browse.files() for chunk in engine.browse.chunks_of(file.path)]


# --- files ----------------------------------------------------------------------------------------


def test_every_file_says_how_it_stands_to_the_index(tmp_path: Path) -> None:
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    write_memory(root)
    outside.mkdir()
    (outside / "lab.md").write_text("# Lab\n\nA bench and a scope.\n", "utf-8")
    with Engine.open(root, settings("../outside"), data_dir=tmp_path / "data") as engine:
        assert {file.state for file in engine.browse.files()} == {FileState.NOT_INDEXED}
        assert {file.reason for file in engine.browse.files()} == {Reason.NOT_YET_INDEXED}
        engine.index.sync(wait=True)
        assert {file.state for file in engine.browse.files()} == {FileState.CURRENT}
        (root / "memory/2026-11-01.md").write_text("# Day 1\n\nOther words.\n", "utf-8")
        (root / "memory/2026-11-02.md").unlink()
        (root / "memory/new.md").write_text("# New\n\nJust written.\n", "utf-8")
        (root / "memory/link.md").symlink_to(root / "MEMORY.md")
        (root / "memory/2026-11-05.md").chmod(0)
        files = {file.path: file for file in engine.browse.files()}
        readable = os.access(root / "memory/2026-11-05.md", os.R_OK)
        assert engine.browse.file_of("../outside/lab.md") == outside / "lab.md"
    states = {path: (file.state, file.reason) for path, file in files.items()}
    assert states["memory/2026-11-01.md"] == (FileState.CHANGED, Reason.STALE)
    assert states["memory/2026-11-02.md"] == (FileState.STALE, Reason.VANISHED)
    assert states["memory/new.md"] == (FileState.NOT_INDEXED, Reason.NOT_YET_INDEXED)
    assert states["memory/link.md"] == (FileState.NOT_INDEXED, Reason.SYMLINK)
    assert readable or states["memory/2026-11-05.md"] == (FileState.ERROR, Reason.UNREADABLE)
    assert states["MEMORY.md"] == (FileState.CURRENT, Reason.OK)
    assert list(files) == sorted(files)
    lab, day = files["../outside/lab.md"], files["memory/2026-11-03.md"]
    assert (lab.place, day.place) == ("../outside", "workspace")
    assert (day.day, day.chunks, day.lines) == (date(2026, 11, 3), 1, 7)
    assert day.size == (root / "memory/2026-11-03.md").stat().st_size


# --- one chunk ------------------------------------------------------------------------------------


def test_a_record_holds_what_can_be_counted_by_hand(engine: Engine, hashed: HashedProvider) -> None:
    chunks = all_chunks(engine)
    chunk = next(one for one in chunks if one.path == "memory/2026-11-03.md")
    record = engine.browse.chunk_record(chunk.id)
    assert record is not None
    counts = Counter(chunk.text.replace(".", "").replace("#", "").lower().split())
    assert record.tokens == sum(counts.values())
    held = {term.term: term for term in record.terms}
    # The stem of `day`.
    assert held["dai"].count == counts["day"]
    assert held["dai"].document_frequency == sum(
        "day" in one.text.lower().split() for one in chunks
    )
    frequencies = [term.document_frequency for term in record.terms]
    assert frequencies == sorted(frequencies)
    assert min(frequencies) >= 1
    assert record.norm == pytest.approx(float(np.linalg.norm(hashed.embed_query(chunk.text))))
    assert (record.dimensions, record.provider, record.vector_state) == (64, "hashed", Reason.OK)
    assert (record.chunk.day, record.chunk.day_from) == (date(2026, 11, 3), Reason.FILE_NAME)
    memory = engine.browse.chunk_record(engine.browse.chunks_of("MEMORY.md")[0].id)
    assert memory is not None
    assert memory.chunk.day_from is Reason.EVERGREEN
    assert engine.ranking.decay.dates is DateRule.MEMTUI
    assert engine.browse.chunk_record("0" * 64) is None


def test_without_vectors_a_record_says_why(root: Path, tmp_path: Path) -> None:
    none = Settings(
        embedding=EmbeddingSettings(provider="none", fallback="none"),
        index=IndexSettings(watch=False),
    )
    with Engine.open(root, none, data_dir=tmp_path / "other") as engine:
        engine.index.sync(wait=True)
        chunk = engine.browse.chunks_of("MEMORY.md")[0]
        record, found = engine.browse.chunk_record(chunk.id), engine.browse.neighbours(chunk.id)
    assert record is not None
    assert (record.norm, record.provider, record.vector_state) == (None, "", Reason.NO_VECTORS)
    assert (found.by_vector, found.vector_state) == ((), Reason.NO_VECTORS)


# --- what is like a chunk -------------------------------------------------------------------------


def test_neighbours_are_those_of_a_brute_force_search(
    engine: Engine, hashed: HashedProvider
) -> None:
    chunks = all_chunks(engine)
    vectors = {one.id: hashed.embed_query(one.text).astype(np.float64) for one in chunks}
    terms = {}
    frequency: Counter[str] = Counter()
    for one in chunks:
        record = engine.browse.chunk_record(one.id)
        assert record is not None
        terms[one.id] = {term.term for term in record.terms}
        frequency.update(terms[one.id])

    def weight(some: set[str]) -> float:
        return math.fsum(math.log1p(len(chunks) / frequency[term]) for term in some)

    for chunk in chunks:
        others = [one for one in chunks if one.id != chunk.id]
        found = engine.browse.neighbours(chunk.id, 5)
        cosines = {one.id: float(vectors[one.id] @ vectors[chunk.id]) for one in others}
        expected = sorted((max(0.0, c) for c in cosines.values()), reverse=True)[:5]
        assert [one.score for one in found.by_vector] == pytest.approx(expected, abs=1e-6)
        assert all(
            one.score == pytest.approx(max(0.0, cosines[one.chunk.id]), abs=1e-6)
            for one in found.by_vector
        )
        shares = {
            one.id: weight(terms[one.id] & terms[chunk.id])
            / weight(terms[one.id] | terms[chunk.id])
            for one in others
        }
        expected = sorted((share for share in shares.values() if share), reverse=True)[:5]
        assert [one.score for one in found.by_words] == pytest.approx(expected)
        assert all(one.score == pytest.approx(shares[one.chunk.id]) for one in found.by_words)
        near = {one.id: jaccard(cut(one.text).shingles, cut(chunk.text).shingles) for one in others}
        assert {one.chunk.id: one.score for one in found.duplicates} == {
            name: share for name, share in near.items() if share >= 0.6
        }


# --- the history ----------------------------------------------------------------------------------


def test_a_second_look_asks_nothing_until_the_index_changes(
    engine: Engine, root: Path, monkeypatch: pytest.MonkeyPatch
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
    first = engine.browse.recalled(["router", "day 3"], progressed=lambda *done: told.append(done))
    assert asked == ["router", "day 3"]
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert engine.browse.recalled(["day 3", "router"]) == first
    assert len(asked) == 2
    (root / "memory/more.md").write_text("# Router\n\nThe router again.\n", "utf-8")
    engine.index.sync(wait=True)
    assert "memory/more.md" in engine.browse.recalled(["router"])
    assert len(asked) == 3


def test_a_failed_leg_is_not_remembered(engine: Engine, hashed: HashedProvider) -> None:
    hashed.fail_next = 1
    engine.browse.recalled(["a query without vector"])
    calls = hashed.calls
    engine.browse.recalled(["a query without vector"])
    assert hashed.calls == calls + 1


def test_a_typed_search_goes_before_the_history(root: Path, tmp_path: Path) -> None:
    """A search that is typed while the history is asked is answered after one query at most."""
    bus = Bus()
    answers: list[int] = []
    done = threading.Event()

    def ready(event: SearchReady) -> None:
        if event.complete:
            answers.append(event.sequence)
            done.set()

    with Engine.open(root, settings(), data_dir=tmp_path / "data", bus=bus) as engine:
        engine.index.sync(wait=True)
        bus.subscribe(SearchReady, ready)
        queries = [f"day {number} router" for number in range(60)]
        finished: list[int] = []

        def progressed(count: int, total: int) -> None:
            finished.append(count)
            if count == 5:
                engine.search.submit("router hall")
            if count == 8:
                assert done.wait(20)

        engine.browse.recalled(queries, progressed=progressed)
    assert len(answers) == 1
    assert finished[-1] == 60


# --- care -----------------------------------------------------------------------------------------


def test_care_finds_what_was_planted_and_writes_nothing(engine: Engine, root: Path) -> None:
    memory = root / "memory"
    for number in range(14):
        # A template: nothing tells one of these notes from the other by how it begins.
        text = f"# Daily note of the team\n\n## What was done and what is next\n\nSeed {number * 7919} {'lunka' * (number % 3)}\n"
        (memory / f"team-{number}.md").write_text(text, "utf-8")
    (memory / "keys.md").write_text("# Keys\n\nOPENAI_API_KEY=sk-Zk81QpX0vT7mWb42LdYc9\n", "utf-8")
    (memory / "links.md").write_text("# Links\n\nSee [gone](gone.md) and [[copy]].\n", "utf-8")
    (memory / "empty.md").write_text("# Empty\n", "utf-8")
    engine.index.sync(wait=True)
    before = {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(root.rglob("*.md"))
    }
    report = engine.browse.care()
    assert {
        path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(root.rglob("*.md"))
    } == before
    found = {rule: [one for one in report.findings if one.rule is rule] for rule in CareRule}
    assert [one.place.path for one in found[CareRule.CREDENTIAL]] == ["memory/keys.md"]
    assert [one.place.path for one in found[CareRule.EMPTY_FILE]] == ["memory/empty.md"]
    assert [(one.place.path, one.place.start_line) for one in found[CareRule.BROKEN_LINK]] == [
        ("memory/links.md", 3)
    ]
    pairs = {
        frozenset((one.place.path, one.other.path))
        for one in found[CareRule.NEAR_DUPLICATE]
        if one.other is not None
    }
    assert {
        frozenset(("memory/2026-11-03.md", "memory/copy.md")),
        frozenset(("memory/2026-11-04.md", "memory/twin.md")),
    } <= pairs
    unreachable = {one.place.path for one in found[CareRule.UNREACHABLE]}
    assert len([path for path in unreachable if "team-" in path]) == 14 - engine.ranking.k
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root).as_posix()
        stat = path.stat()
        note = read_document(SourceFile(name, path, "memory", stat.st_size, 0, 0))
        hits = engine.search.ask(first_words(note)).hits
        is_found = not first_words(note) or name in {hit.chunk.path for hit in hits}
        assert (name in unreachable) is not is_found
    assert "Zk81QpX0vT7mWb42LdYc9" not in repr(report)
    assert report.looked_at[CareRule.UNREACHABLE] >= 30
    assert not report.skipped
