"""Why a note is in a list or not: one test a reason, on real files, a real index, a real search."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memtui.embedding.provider import Vector
from memtui.engine import Engine
from memtui.engine.places import parse_place
from memtui.index.database import open_database
from memtui.index.generations import IndexFolder
from memtui.memory.chunking import chunk_id
from memtui.model import Mmr, Ranking, Reason, SearchMode, Stage
from memtui.model.inquiry import Inquiry, Outcome, Place, Station
from memtui.report.explanation import failure_words
from memtui.settings.schema import EmbeddingSettings, MemorySettings, Settings
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.inquiries import check, lost, step
from tests.support.known import cases, load
from tests.support.small_memory import write_notes

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
SETTINGS = Settings(
    embedding=EmbeddingSettings(provider="hashed"), memory=MemorySettings(max_file_bytes=2000)
)
NOTES: dict[str, str] = load("notes")["inquiry"]
QUERY = "omada router vlan"


class Sightless(HashedProvider):
    """Sees nothing in a note that says so."""

    def _raw(self, text: str) -> Vector:
        row = super()._raw(text)
        return row * 0 if "NOVECTOR" in text else row


@pytest.fixture
def provider() -> Iterator[HashedProvider]:
    with registered_hashed(Sightless()) as hashed:
        yield hashed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_notes(tmp_path / "workspace", NOTES)
    return tmp_path / "workspace"


@pytest.fixture
def engine(root: Path, tmp_path: Path, provider: HashedProvider) -> Iterator[Engine]:
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "data", now=lambda: NOW) as opened:
        opened.index.sync(wait=True)
        yield opened


def ask(engine: Engine, place: str, query: str = QUERY, ranking: Ranking | None = None) -> Inquiry:
    ranked = engine.search.ask(query, ranking=ranking)
    inquiry = engine.explain.inquire_at(ranked, parse_place(place))
    check(ranked, inquiry)
    return inquiry


def small(engine: Engine, **changes: object) -> Ranking:
    """A ranking that looks at two candidates of each leg."""
    few = replace(engine.ranking, k=1, candidate_multiplier=2, min_candidates=1)
    return replace(few, **changes)


@pytest.mark.parametrize(("path", "reason", "detail"), cases("explain", "paths that are no notes"))
def test_a_path_that_is_not_of_the_memory_says_why(
    engine: Engine, root: Path, path: str, reason: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "memory/link.md").symlink_to("mai.md")
    (root / "memory/linked").symlink_to("people")
    for name in ("memory/node_modules/readme.md", "projects/plan.md", "../outside.md"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(QUERY)
    (root / "memory/large.md").write_text("x" * 3000)
    (root / "memory/picture.png").write_bytes(b"\x89PNG")
    os.mkfifo(root / "memory/pipe.md")
    (root / "memory/locked.md").write_text(QUERY)
    (root / "memory/locked.md").chmod(0o200)
    allowed = os.access
    # Whoever runs as root may read everything.
    monkeypatch.setattr(os, "access", lambda p, m: "locked" not in str(p) and allowed(p, m))
    inquiry = ask(engine, path)
    assert lost(inquiry) == (Station.DISCOVERED, reason)
    assert detail in inquiry.steps[-1].other
    assert inquiry.chunk is None
    if reason == Reason.TOO_LARGE:
        assert dict(inquiry.steps[0].numbers) == {"bytes": 3000, "limit_bytes": 2000}


def test_a_note_that_is_new_is_not_indexed_yet(engine: Engine, root: Path) -> None:
    (root / "memory/2026-11-20.md").write_text("A new Omada router.\n")
    for name in ("memory/2026-11-20.md", "2026-11-20.md", str(root / "memory/2026-11-20.md")):
        inquiry = ask(engine, name)
        assert lost(inquiry) == (Station.INDEXED, Reason.NOT_YET_INDEXED)
        assert failure_words(inquiry.steps[-1]) == "not indexed yet", "the title names the file"


def test_a_changed_note_is_stale_and_still_shown(engine: Engine, root: Path) -> None:
    path = root / "memory/2026-11-18.md"
    path.write_text("An added line.\n" + NOTES["memory/2026-11-18.md"] + "Another VLAN router.\n")
    whole = ask(engine, "memory/2026-11-18.md")
    assert whole.shown
    indexed = step(whole, Station.INDEXED)
    assert (indexed.outcome, indexed.reason) == (Outcome.MISSED, Reason.STALE)
    # Of a new line and of a blank one, which are all alike, the chunk of what stands above it.
    for line in (1, 3, 4, 5):
        assert ask(engine, f"memory/2026-11-18.md:{line}").chunk == whole.chunk
    nothing = ask(engine, "memory/2026-11-18.md:99")
    assert lost(nothing) == (Station.INDEXED, Reason.NO_CHUNK_AT_LINE)


def test_a_note_that_is_gone_is_still_what_the_index_held(engine: Engine, root: Path) -> None:
    (root / "memory/2026-11-18.md").unlink()
    inquiry = ask(engine, "2026-11-18.md")
    assert inquiry.shown
    discovered = step(inquiry, Station.DISCOVERED)
    assert (discovered.outcome, discovered.reason) == (Outcome.MISSED, Reason.VANISHED)
    assert step(inquiry, Station.INDEXED).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("memory/blank.md", Reason.NO_CHUNK),
        ("memory/blank.md:1", Reason.NO_CHUNK),
        ("MEMORY.md:77", Reason.NO_CHUNK_AT_LINE),
    ],
)
def test_a_line_without_a_chunk_says_so(engine: Engine, place: str, reason: Reason) -> None:
    inquiry = ask(engine, place)
    assert lost(inquiry) == (Station.INDEXED, reason)
    assert inquiry.steps[-1].numbers["chunks"] == (reason is Reason.NO_CHUNK_AT_LINE)


def test_before_the_first_index_everything_waits_for_it(
    root: Path, tmp_path: Path, provider: HashedProvider
) -> None:
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "one", now=lambda: NOW) as engine:
        engine.index.sync(wait=True)
        ranked = engine.search.ask(QUERY)
    with Engine.open(root, SETTINGS, data_dir=tmp_path / "two", now=lambda: NOW) as empty:
        inquiry = empty.explain.inquire_at(ranked, Place("MEMORY.md"))
        assert lost(inquiry) == (Station.INDEXED, Reason.NO_INDEX)
        assert not any(file.chunks for file in empty.browse.files())


def test_a_chunk_that_vanished_since_the_search_has_one_clear_answer(
    engine: Engine, root: Path
) -> None:
    ranked = engine.search.ask(QUERY)
    first = ranked.hits[0].chunk
    (root / first.path).write_text("Something else.\n")
    engine.index.sync(wait=True)
    inquiry = engine.explain.inquire(ranked, first.id)
    assert (inquiry.rank, inquiry.first_failure) == (1, None)
    assert step(inquiry, Station.INDEXED).reason is Reason.VANISHED
    assert engine.explain.passages(ranked, first.id).text == first.text
    other = engine.search.ask("lotus tea")
    assert first.id not in other.pool.chunks or other.pool.chunks[first.id] == first
    nowhere = engine.explain.inquire(ranked, "0" * 64)
    assert lost(nowhere) == (Station.INDEXED, Reason.VANISHED)


def test_a_note_indexed_since_the_search_was_no_candidate_of_it(engine: Engine, root: Path) -> None:
    ranked = engine.search.ask(QUERY)
    (root / "memory/new.md").write_text("The Omada router has a VLAN.\n")
    engine.index.sync(wait=True)
    inquiry = engine.explain.inquire_at(ranked, Place("memory/new.md"))
    assert step(inquiry, Station.VECTOR_LEG).outcome is Outcome.PASSED
    assert lost(inquiry) == (Station.VECTOR_POOL, Reason.NOT_YET_INDEXED)
    assert {one.rank for one in inquiry.steps} == {None}
    assert engine.explain.inquire_at(engine.search.ask(QUERY), Place("memory/new.md")).shown


@pytest.mark.parametrize("written", load("reading")["spellings of a path"])
def test_a_path_is_found_however_it_is_written(engine: Engine, root: Path, written: str) -> None:
    place = Place(written.format(root=root))
    inquiry = engine.explain.inquire_at(engine.search.ask("lotus tea"), place)
    assert inquiry.chunk is not None
    assert inquiry.chunk.path == "memory/people/mai.md"
    assert inquiry.rank == 1
    by_text = engine.explain.inquire_at(engine.search.ask("lotus tea"), parse_place(str(place)))
    assert by_text.chunk == inquiry.chunk


@pytest.mark.parametrize(
    ("name", "written"), [(".private.md", ".private.md"), ("caf\u00e9.md", "cafe\u0301.md")]
)
def test_names_are_found_by_their_end(engine: Engine, root: Path, name: str, written: str) -> None:
    (root / "memory" / name).write_text("A quince.\n")
    engine.index.sync(wait=True)
    assert ask(engine, written, "quince").place.path == f"memory/{name}"


def test_a_name_that_several_files_have_names_them(engine: Engine, root: Path) -> None:
    (root / "memory/people/one.md").write_text("Another.\n")
    engine.index.sync(wait=True)
    inquiry = ask(engine, "one.md")
    assert lost(inquiry) == (Station.DISCOVERED, Reason.NO_FILE)
    assert inquiry.steps[-1].other == "it could be memory/copies/one.md, memory/people/one.md"


KEYWORD_ONLY = SearchMode.KEYWORD_ONLY


@pytest.mark.parametrize(
    ("place", "query", "changes", "at", "reason", "words"),
    # The words that a note lacks keep the keyword leg from finding it, not the other one.
    cases("explain", "legs that do not give a note"),
)
def test_why_a_leg_does_not_give_a_note(
    engine: Engine,
    place: str,
    query: str,
    changes: dict[str, Any],
    at: str,
    reason: str,
    words: list[str],
) -> None:
    inquiry = ask(engine, place, query, replace(engine.ranking, **changes))
    assert not inquiry.shown
    here = step(inquiry, Station(at))
    assert (here.reason, list(here.words)) == (reason, words)
    if here.at is Station.VECTOR_POOL:
        assert here.rank is not None
        assert (here.rank > 2, here.numbers["limit"]) == (True, 2)
    # What comes last is what lost it.
    is_last = here is inquiry.steps[-1]
    assert here.outcome is (Outcome.LOST if is_last else Outcome.MISSED)


def test_a_leg_that_takes_no_part_decides_nothing(engine: Engine) -> None:
    shown = ask(
        engine, "memory/2026-11-18.md", ranking=small(engine, k=2, search_mode=KEYWORD_ONLY)
    )
    vector = step(shown, Station.VECTOR_LEG)
    assert (vector.outcome, vector.reason) == (Outcome.SKIPPED, Reason.DISABLED)
    inquiry = ask(engine, "memory/empty-sight.md", "model note")
    vector = step(inquiry, Station.VECTOR_LEG)
    assert (vector.outcome, vector.reason) == (Outcome.MISSED, Reason.ZERO_VECTOR)
    assert inquiry.shown
    assert Station.VECTOR_POOL not in {one.at for one in inquiry.steps}


@pytest.mark.parametrize(
    ("statement", "reason", "other"), cases("explain", "vectors that cannot be compared")
)
def test_a_vector_that_cannot_be_compared(
    engine: Engine, statement: str, reason: str, other: str
) -> None:
    status = engine.index.status()
    database = IndexFolder(Path(status.index_dir)).path(status.generation)
    connection = open_database(database)
    (row,) = connection.execute("SELECT id FROM files WHERE path LIKE '%mai.md'").fetchall()
    connection.execute(
        "DELETE FROM vectors WHERE id IN (SELECT id FROM chunks WHERE file_id = ?)", row
    )
    connection.execute(statement, row)
    named = (
        "SELECT c.id, source, path, start_line, end_line, c.hash, model FROM chunks c "
        "JOIN files f ON f.id = file_id"
    )
    for number, *named_by in connection.execute(named).fetchall():
        values = chunk_id(*named_by), number  # type: ignore[arg-type]
        connection.execute("UPDATE chunks SET chunk_id = ? WHERE id = ?", values)
    connection.close()
    inquiry = ask(engine, "mai.md")
    assert lost(inquiry) == (Station.VECTOR_LEG, reason)
    assert inquiry.steps[-1].other == other


def test_a_provider_that_fails_may_be_what_lost_it(
    engine: Engine, provider: HashedProvider
) -> None:
    provider.fail_next = 3
    inquiry = ask(engine, "mai.md", "unheard of vlan")
    assert lost(inquiry) == (Station.VECTOR_LEG, Reason.PROVIDER_FAILED)
    assert "told to fail" in inquiry.steps[-1].other
    ranked = engine.search.ask("lotus tea")
    assert engine.explain.passages(ranked, ranked.hits[0].chunk.id).reason is Reason.PROVIDER_FAILED


def test_pushed_down_by_mmr_names_the_chunk_it_repeats(engine: Engine) -> None:
    ranking = replace(engine.ranking, search_mode=KEYWORD_ONLY, mmr=Mmr(enabled=True, lambda_=0.1))
    plain = engine.search.ask("omada attic", ranking=replace(ranking, mmr=Mmr()))
    assert [hit.chunk.path for hit in plain.hits[:2]] == [
        "memory/copies/one.md",
        "memory/copies/two.md",
    ]
    inquiry = ask(engine, "memory/copies/two.md", "omada attic", replace(ranking, k=2))
    assert lost(inquiry) == (Stage.MMR, Reason.PUSHED_DOWN)
    assert inquiry.first_failure is not None
    assert inquiry.first_failure.other == "memory/copies/one.md#L1-L2"
    assert inquiry.first_failure.numbers["similarity"] == 1.0
    assert inquiry.first_failure.numbers["lambda"] == 0.1


def test_of_a_file_the_chunk_that_comes_nearest_is_meant(engine: Engine, root: Path) -> None:
    parts = [f"# Part {n}\n\n" + f"Filler about nothing number {n}. " * 30 for n in range(8)]
    parts[5] += "\nThe Omada router of part five: VLAN.\n"
    (root / "memory/long.md").write_text(
        "\n".join(part[:360] for part in parts[:5]) + parts[5][-60:]
    )
    engine.index.sync(wait=True)
    ranked = engine.search.ask(QUERY, ranking=replace(engine.ranking, k=50))
    best = next(hit for hit in ranked.hits if hit.chunk.path == "memory/long.md")
    ranked = engine.search.ask(QUERY, ranking=replace(engine.ranking, k=best.rank))
    assert any(drop.chunk.path == best.chunk.path for drop in ranked.drops)
    inquiry = engine.explain.inquire_at(ranked, Place("long.md"))
    assert (inquiry.chunk, inquiry.rank) == (best.chunk, best.rank)
    outside = engine.search.ask(QUERY, ranking=small(engine))
    far = engine.explain.inquire_at(outside, Place("long.md"))
    assert far.chunk is not None
    assert "Omada" in far.chunk.text
    # A row is named by the first line of its chunk, which the chunk before may hold as well.
    (root / "memory/long.md").write_text("".join(f"Line {n} of the file.\n" for n in range(95)))
    engine.index.sync(wait=True)
    first, second, *_ = engine.browse.chunks_of("memory/long.md")
    assert first.end_line >= second.start_line
    for chunk in (first, second):
        inquiry = engine.explain.inquire_at(ranked, Place(chunk.path, chunk.start_line))
        assert inquiry.chunk == chunk


def test_of_a_file_no_chunk_that_the_query_shuts_out_is_meant(engine: Engine, root: Path) -> None:
    filler = "Filler about nothing at all. " * 28
    words = "lantern quince deep\n" * 3 + filler
    (root / "memory/long.md").write_text(
        f"# One\n\n{words}\n\n# Two\n\n{filler} NOVECTOR deep quince\n"
    )
    for number in range(60):
        (root / f"memory/{number}.md").write_text("Here: deep quince.\n")
    engine.index.sync(wait=True)
    assert len(engine.browse.chunks_of("memory/long.md")) > 1
    ranked = engine.search.ask('lantern "deep quince"', ranking=small(engine))
    inquiry = engine.explain.inquire_at(ranked, Place("memory/long.md"))
    assert inquiry.chunk is not None
    assert "deep quince" in inquiry.chunk.text
    assert lost(inquiry)[1] is Reason.OUTSIDE_CANDIDATES
