"""Sync and rebuild: what is read, written and kept, and what stopping or failing leaves."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.bus import IndexChanged, LegChanged, SyncProgressed
from memtui.embedding.provider import ProviderIdentity, Vector, byte_size
from memtui.engine.own_reading import OwnReading
from memtui.errors import Cancelled, IndexUnusable
from memtui.index.database import (
    SCHEMA_VERSION,
    Connection,
    Recipe,
    number,
    open_database,
    read_meta,
    write_meta,
)
from memtui.index.generations import LiveIndex
from memtui.index.index_rows import (
    KnownFile,
    counts,
    known_file,
    known_files,
    plan_changes,
    within_limit,
)
from memtui.index.job import VECTORS
from memtui.memory.discover import Scope
from memtui.memory.documents import read_document, text_hash
from memtui.model import ChunkSpan, Document, Leg, Reason, SkippedFile, SourceFile
from memtui.settings.schema import MemorySettings
from memtui.text.tokens import index_text
from tests.support.embedding import HashedProvider
from tests.support.indexing import Workspace, identity
from tests.support.rows import numbers

LONG_AGO = 1_700_000_000


@pytest.fixture
def live(workspace: Workspace) -> Iterator[LiveIndex]:
    with closing(LiveIndex(workspace.folder)) as made:
        yield made


def age(path: Path, seconds: int = LONG_AGO) -> None:
    """Give a file a modification time long before any scan."""
    os.utime(path, (seconds, seconds))


def paragraphs(count: int) -> str:
    """Write paragraphs that fill more than one chunk, each with a word of its own."""
    return "\n\n".join(
        f"## Entry {number}\n\nword{number} " + "about the garden and the router. " * 12
        for number in range(count)
    )


def matches(live: LiveIndex, word: str) -> int:
    return number(
        live.connection(), "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", word
    )


def rows_by_chunk(live: LiveIndex) -> dict[str, int]:
    rows: list[Any] = live.connection().execute("SELECT chunk_id, id FROM chunks").fetchall()
    return dict(rows)


def pending(connection: Connection) -> int:
    return number(connection, "SELECT count(*) FROM chunks WHERE embedded = 0")


def test_keywords_are_found_while_vectors_are_being_made(
    workspace: Workspace, live: LiveIndex
) -> None:
    workspace.write("a.md", paragraphs(4))
    seen: list[tuple[int, int]] = []

    def look(event: SyncProgressed) -> None:
        if event.phase == "vectors":
            seen.append((matches(live, "word1"), pending(live.connection())))

    workspace.bus.subscribe(SyncProgressed, look)
    workspace.sync()
    assert seen[0][0] >= 1
    assert seen[0][1] > 0
    assert pending(live.connection()) == 0


def test_a_sync_without_changes_reads_and_writes_nothing(
    workspace: Workspace, live: LiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(workspace.write("a.md", "one\n"))
    age(workspace.write("b/c.md", "two\n"))
    workspace.sync()
    live.connection()
    before = live.stamp()

    def refuse(file: SourceFile, *, max_bytes: int) -> Document:
        raise AssertionError(f"read {file.path}")

    monkeypatch.setattr("memtui.index.sync.read_document", refuse)
    result = workspace.sync()
    assert live.stamp() == before
    stats = result.stats
    changes = stats.files_added, stats.files_changed, stats.files_removed
    assert (stats.files_seen, *changes) == (2, 0, 0, 0)


def test_an_edit_keeps_the_chunks_it_leaves_alone(workspace: Workspace, live: LiveIndex) -> None:
    text = paragraphs(12)
    workspace.write("a.md", text)
    first = workspace.sync().stats
    before = rows_by_chunk(live)
    workspace.write("a.md", text + "\n\nOne more thing about tulips.\n")
    second = workspace.sync().stats
    after = rows_by_chunk(live)
    kept = before.keys() & after.keys()
    assert len(kept) >= first.chunks_written - 2
    assert all(before[name] == after[name] for name in kept)
    assert second.chunks_written == len(after) - len(kept)
    assert second.chunks_embedded == second.chunks_written
    assert matches(live, "tulips") == 1
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file"), Reason.VANISHED),
        (PermissionError(13, "Permission denied"), Reason.UNREADABLE),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_loses_its_rows(
    workspace: Workspace,
    live: LiveIndex,
    monkeypatch: pytest.MonkeyPatch,
    error: OSError,
    reason: Reason,
) -> None:
    workspace.write("a.md", "alpha\n")
    workspace.write("b.md", "bravo\n")
    workspace.sync()

    def refuse(file: SourceFile, *, max_bytes: int) -> Document:
        if file.path == "a.md":
            raise error
        return read_document(file, max_bytes=max_bytes)

    monkeypatch.setattr("memtui.index.sync.read_document", refuse)
    result = workspace.sync()
    assert [(skipped.path, skipped.reason) for skipped in result.skipped] == [("a.md", reason)]
    assert [row.path for row in known_files(live.connection()).values()] == ["b.md"]
    monkeypatch.undo()
    assert workspace.sync().stats.files_added == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bytes.md", b"caf\xe9 \xff\xfe and its end\n"),
        ("empty.md", b""),
        ("blank.md", b" \n\t\n"),
        ("line\nbreak.md", b"text\n"),
        (os.fsdecode(b"caf\xe9.md"), b"text\n"),
        ("n" * 250 + ".md", b"text\n"),
        ("long.md", b"a" * 300_000),
        ("surrogate.md", "\ud83d\ude00 pair".encode("utf-16", "surrogatepass")),
    ],
)
def test_hostile_files_are_indexed_and_harm_nothing(
    workspace: Workspace, live: LiveIndex, name: str, content: bytes
) -> None:
    workspace.write(name, content)
    workspace.write("good.md", "alpha\n")
    result = workspace.sync()
    assert result.stats.files_added == 2
    assert matches(live, "alpha") == 1
    assert workspace.sync().stats.chunks_written == 0
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_file_without_text_is_skipped_counted_and_read_once(
    workspace: Workspace, live: LiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(workspace.write("good.md", "alpha\n"))
    age(workspace.write("image.md", b"\x89PNG\0\0"))
    first, again = workspace.sync(), workspace.sync()
    why = SkippedFile("image.md", Reason.NOT_TEXT, "no text: 2 NUL bytes, first on line 1")
    assert first.skipped == again.skipped == [why]
    assert (first.stats.files_added, first.stats.files_skipped) == (1, 1)
    read = partial(pytest.fail, "read again")
    monkeypatch.setattr("memtui.index.sync.read_document", read)
    assert workspace.sync().skipped == [why]
    assert counts(live.connection())["files"] == 1
    monkeypatch.undo()
    age(workspace.write("image.md", "bravo, a text\n"))
    assert (workspace.sync().skipped, matches(live, "bravo")) == ([], 1)


def test_what_older_rules_decoded_otherwise_is_read_anew(
    workspace: Workspace, live: LiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(workspace.write("wide.md", "# Wide\n".encode("utf-16")))
    age(workspace.write("zero.md", b"zero \0 \xff byte\n"))
    age(workspace.write("latin.md", b"caf\xe9\n"))
    with monkeypatch.context() as older:
        older.setattr("memtui.index.sync.read_document", partial(read_document, any_bytes=True))
        assert workspace.sync().skipped == []
    with closing(open_database(workspace.folder.path(1))) as connection:
        write_meta(connection, {"decoding": "1"})
    assert [skipped.path for skipped in workspace.sync().skipped] == ["zero.md"]
    assert matches(live, "wide") == 1
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_stopping_inside_a_file_rolls_that_file_back(
    workspace: Workspace, live: LiveIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.write("a.md", "alpha\n")
    workspace.sync()
    workspace.write("a.md", paragraphs(400))
    tokenised = 0

    def count(text: str) -> str:
        nonlocal tokenised
        tokenised += 1
        return index_text(text)

    monkeypatch.setattr("memtui.retrieval.passages.index_text", count)
    with pytest.raises(Cancelled):
        workspace.sync(lambda: tokenised > 60)
    assert 60 < tokenised <= 110
    assert matches(live, "alpha") == 1
    assert number(live.connection(), "SELECT count(*) FROM chunks") == 1
    monkeypatch.undo()
    workspace.sync()
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_zero_vectors_are_not_asked_for_again(workspace: Workspace, live: LiveIndex) -> None:
    workspace.provider.answer = "zero"
    workspace.write("a.md", "alpha\n")
    workspace.sync()
    connection = live.connection()
    assert pending(connection) == 0
    assert workspace.cache.count() == 1
    calls = workspace.provider.calls
    workspace.sync()
    assert workspace.provider.calls == calls


def test_another_model_makes_another_generation(workspace: Workspace, live: LiveIndex) -> None:
    workspace.write("a.md", "alpha\n")
    workspace.sync()
    workspace.provider = HashedProvider(model="other", dimensions=32)
    workspace.recipe = Recipe(dataclasses.replace(identity("other"), dimensions=32))
    during: list[int] = []
    workspace.bus.subscribe(
        SyncProgressed, lambda event: during.append(matches(live, "alpha") * live.generation)
    )
    result = workspace.sync()
    assert result.stats.rebuild
    assert set(during) == {1}
    assert read_meta(live.connection())["model"] == "other"
    assert live.generation == 2
    assert sorted(path.name for path in workspace.data.glob("index-*.db")) == ["index-2.db"]
    assert not workspace.sync().stats.rebuild


def test_dimensions_may_be_known_from_the_first_answer_on(
    workspace: Workspace, live: LiveIndex
) -> None:
    workspace.recipe = Recipe(dataclasses.replace(identity("hashed-trigrams"), dimensions=None))
    workspace.write("a.md", "alpha\n")
    workspace.sync()
    assert read_meta(live.connection())["dimensions"] == "64"
    assert number(live.connection(), "SELECT count(*) FROM vectors") == 1
    workspace.write("b.md", "bravo\n")
    result = workspace.sync()
    assert not result.stats.rebuild
    assert number(live.connection(), "SELECT count(*) FROM vectors") == 2


def test_vectors_of_another_length_in_the_cache_are_not_mixed_in(workspace: Workspace) -> None:
    maker = dataclasses.replace(identity("hashed-trigrams"), dimensions=None)
    workspace.recipe = Recipe(maker)
    workspace.write("a.md", "alpha\n")
    workspace.write("b.md", "bravo\n")
    # What a service gave under the same name before its model was another one.
    workspace.cache.put_many(maker, {text_hash("alpha\n"): np.full(16, 0.25, np.float32)})
    assert workspace.sync().problem is None
    assert {len(vector) for vector in workspace.contents().vectors.values()} == {64 * 4}


def test_nothing_is_gone_below_a_folder_that_could_not_be_listed() -> None:
    known = {
        path: KnownFile(path, "sessions", "", 1, 1, 1, 1) for path in ("closed/a", "open/b", "c")
    }
    assert plan_changes((), known, ("closed/",)).removed == ("c", "open/b")


def test_another_file_of_the_same_stat_is_read(workspace: Workspace, live: LiveIndex) -> None:
    age(workspace.write("a.md", "alpha\n"))
    workspace.sync()
    aside = workspace.write("aside", "bravo\n")
    age(aside)
    aside.replace(workspace.root / "a.md")
    assert workspace.sync().stats.files_changed == 1
    assert (matches(live, "alpha"), matches(live, "bravo")) == (0, 1)


def test_a_renamed_touched_or_removed_file_costs_no_new_vector(
    workspace: Workspace, live: LiveIndex
) -> None:
    note = workspace.write("old.md", paragraphs(5))
    gone = workspace.write("gone.md", "bravo\n")
    age(note)
    workspace.sync()
    rows = numbers(live.connection(), "SELECT id FROM chunks WHERE text NOT LIKE 'bravo%'")
    texts = workspace.provider.texts
    age(note, LONG_AGO + 5)
    gone.unlink()
    result = workspace.sync()
    assert (result.stats.files_changed, result.stats.files_removed) == (0, 1)
    assert numbers(live.connection(), "SELECT id FROM chunks ORDER BY id") == rows
    row = known_file(live.connection(), "old.md")
    assert row is not None
    assert row.mtime_ns == (LONG_AGO + 5) * 10**9
    for table in ("chunks_terms WHERE term = 'bravo'", "files WHERE path = 'gone.md'"):
        assert number(live.connection(), f"SELECT count(*) FROM {table}") == 0
    assert number(live.connection(), "SELECT count(*) FROM vectors") == len(rows)
    note.rename(workspace.root / "new.md")
    result = workspace.sync()
    assert (result.stats.files_added, result.stats.files_removed) == (1, 1)
    assert result.stats.cache_hits == result.stats.chunks_written == len(rows)
    assert workspace.provider.texts == texts
    assert list(known_files(live.connection())) == ["new.md"]


@pytest.mark.parametrize("kind", ["sync", "rebuild"])
@pytest.mark.parametrize("made", [0, 16])
def test_a_provider_that_fails_leaves_the_keyword_index_and_what_it_made(
    workspace: Workspace, live: LiveIndex, monkeypatch: pytest.MonkeyPatch, kind: str, made: int
) -> None:
    workspace.write("a.md", paragraphs(200))
    put_many = workspace.cache.put_many

    def put(maker: ProviderIdentity, vectors: dict[str, Vector]) -> None:
        put_many(maker, vectors)
        workspace.provider.fail_next = 3

    with monkeypatch.context() as patched:
        patched.setattr(workspace.cache, "put_many", put)
        workspace.provider.fail_next = 0 if made else 3
        result = workspace.rebuild() if kind == "rebuild" else workspace.sync()
    assert result.problem is not None
    assert result.problem.reason is Reason.PROVIDER_FAILED
    assert "told to fail" in result.problem.detail
    degraded = workspace.of_type(LegChanged)
    assert [(one.leg, one.reason) for one in degraded] == [(Leg.VECTOR, Reason.PROVIDER_FAILED)]
    assert matches(live, "word7") >= 1
    assert result.stats.chunks_embedded == made
    assert pending(live.connection()) == result.stats.chunks_written - made
    workspace.provider.fail_next = 0
    assert workspace.sync().problem is None
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_vectors_of_other_dimensions_are_refused(workspace: Workspace, live: LiveIndex) -> None:
    workspace.write("a.md", "alpha\n")
    workspace.provider.dimensions = 16
    result = workspace.sync()
    assert result.problem is not None
    assert result.problem.reason is Reason.DIMENSIONS_DIFFER
    assert "16" in result.problem.detail
    assert pending(live.connection()) == 1


def test_the_scope_and_the_recipe_decide_what_is_indexed(
    workspace: Workspace, live: LiveIndex
) -> None:
    outside = workspace.root.parent / "outside"
    outside.mkdir()
    (outside / "plan.md").write_text("delta plan\n")
    workspace.write("a.md", paragraphs(10)).with_name("link.md").symlink_to(outside / "plan.md")
    workspace.scope = Scope(workspace.root, MemorySettings(extra_paths=("../outside",)))
    workspace.recipe = Recipe(None)
    result = workspace.sync()
    assert result.problem is None
    assert (result.stats.files_added, result.stats.files_skipped) == (2, 1)
    assert [(skip.path, skip.reason) for skip in result.skipped] == [("link.md", Reason.SYMLINK)]
    assert workspace.provider.calls == 0
    assert not number(live.connection(), "SELECT count(*) FROM vectors")
    before = number(live.connection(), "SELECT count(*) FROM chunks")
    workspace.scope = Scope(workspace.root)
    assert workspace.sync().stats.files_removed == 1
    workspace.recipe = Recipe(None, chunk_tokens=100, chunk_overlap=10)
    assert workspace.sync().stats.rebuild
    assert number(live.connection(), "SELECT count(*) FROM chunks") > before


def test_an_index_of_words_alone_takes_a_model_without_reading_anything_again(
    workspace: Workspace, live: LiveIndex
) -> None:
    recipe, workspace.recipe = workspace.recipe, Recipe(None)
    workspace.write("a.md", paragraphs(10))
    assert not workspace.sync().stats.rebuild
    workspace.recipe = recipe
    workspace.write("new.md", "the gate code is 9026\n")
    seen = set()

    def note(event: SyncProgressed) -> None:
        if event.phase == VECTORS:
            seen.add((workspace.folder.current(), matches(live, "gate")))

    workspace.bus.subscribe(SyncProgressed, note)
    stats = workspace.sync().stats
    # What was saved meanwhile is found before any vector is made.
    assert seen == {(2, 1)}
    assert (stats.rebuild, stats.files_added, stats.files_changed) == (False, 1, 0)
    contents = workspace.contents()
    assert len(contents.vectors) == len(contents.chunks) == stats.chunks_embedded
    assert contents == workspace.fresh(workspace.data.parent / "fresh")


def moments(workspace: Workspace, kind: str, happens: Callable[[], object]) -> Iterator[int]:
    """Let something happen at each moment of a run at which it may be cancelled, one a run."""
    run = workspace.rebuild if kind == "rebuild" else workspace.sync
    for moment in count():
        calls = count()

        def at_its_moment(calls: Iterator[int] = calls, moment: int = moment) -> bool:
            return next(calls) == moment and bool(happens())

        workspace.write("notes/a.md", f"heron {moment}\n")
        workspace.write("notes/deep/b.md", f"heron {moment}\n")
        run(at_its_moment)
        if next(calls) <= moment:
            # There are moments before, among and after the files' being read.
            assert moment > 10
            return
        yield moment


@pytest.mark.skipif(os.name != "posix", reason="needs links")
@pytest.mark.parametrize(("kind", "extra"), [("sync", "."), ("rebuild", "notes")])
@pytest.mark.parametrize("folder", ["notes", "notes/deep"])
def test_a_folder_that_is_swapped_for_a_link_is_not_followed(
    workspace: Workspace, live: LiveIndex, kind: str, extra: str, folder: str
) -> None:
    (workspace.root / "memory").mkdir()
    workspace.scope = Scope(workspace.root, MemorySettings(extra_paths=(extra,)))
    outside, away = workspace.root.parent / "outside", workspace.root.parent / "away"
    (outside / "deep").mkdir(parents=True)
    for name in ("a.md", "b.md", "deep/b.md"):
        (outside / name).write_text("zebra\n")
    place = workspace.root / folder

    def swap() -> None:
        place.rename(away)
        place.symlink_to(outside)

    for _ in moments(workspace, kind, swap):
        assert matches(live, "zebra") == 0
        place.unlink()
        away.rename(place)
        workspace.sync()
        assert matches(live, "heron") == 2


@pytest.mark.parametrize("kind", ["sync", "rebuild"])
def test_a_note_that_an_editor_replaces_between_finding_and_reading_is_not_lost(
    workspace: Workspace, live: LiveIndex, kind: str
) -> None:
    saved = workspace.root / "notes/deep/b.md"

    def save() -> None:
        os.replace(workspace.write("b.tmp", "heron ibis\n"), saved)

    for _ in moments(workspace, kind, save):
        assert matches(live, "heron") == 2
        workspace.sync()
        assert (matches(live, "heron"), matches(live, "ibis")) == (2, 1)


LIMIT = 100
TEXT = "\n".join(f"line {number} of 京都の長いノート about the garden" for number in range(20))


def span(text: str) -> ChunkSpan:
    return ChunkSpan(3, 9, text, text_hash(text))


def limited(limit: int | None = LIMIT) -> Recipe:
    return Recipe(dataclasses.replace(HashedProvider().identity, input_bytes=limit))


@given(st.text(max_size=300), st.integers(4, 60))
def test_parts_are_within_the_limit_and_lose_nothing(text: str, limit: int) -> None:
    parts = within_limit([span(text)], limit)
    assert all(byte_size(part.text) <= limit for part in parts)
    assert all((part.start_line, part.end_line) == (3, 9) for part in parts)
    assert all(part.hash == text_hash(part.text) for part in parts)
    assert len({part.hash for part in parts}) == len(parts)
    if byte_size(text) <= limit:
        assert parts == [span(text)]
    for part in parts:
        assert part.text in text


def test_a_chunk_over_the_limit_is_rows_of_its_own_and_another_limit_another_index(
    workspace: Workspace, live: LiveIndex
) -> None:
    assert within_limit([span(TEXT)], None) == [span(TEXT)]
    # Blank and equal parts are left out.
    assert [part.text for part in within_limit([span("ab" * 4 + " " * 8)], 4)] == ["abab"]
    workspace.recipe = limited(None)
    workspace.write("long.md", TEXT)
    workspace.write("short.md", "short\n")
    workspace.sync()
    workspace.recipe = limited()
    workspace.sync()
    assert workspace.folder.current() == 2
    contents = workspace.contents()
    parts = [row for row in contents.chunks.values() if row[0] == "long.md"]
    assert len(parts) == len(within_limit([span(TEXT)], LIMIT)) > 9
    assert {row[1:3] for row in parts} == {(1, 20)}
    assert len(contents.vectors) == len(contents.chunks) == len(parts) + 1
    reading = OwnReading(live.connection(), None)  # type: ignore[arg-type]
    assert reading.indexed_text("long.md") == TEXT
    edited = TEXT.replace("line 0", "LINE 0")
    workspace.write("long.md", edited)
    workspace.sync()
    reading = OwnReading(live.connection(), None)  # type: ignore[arg-type]
    assert reading.indexed_text("long.md") == edited
    workspace.write("long.md", f"{TEXT}\nmore\n")
    workspace.sync()
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


@pytest.fixture
def many(workspace: Workspace) -> Workspace:
    for index in range(40):
        text = f"# Note {index}\n\nword{index} of the garden\n"
        workspace.write(f"{index % 4}/{index}.md", text)
    return workspace


def files(many: Workspace) -> list[str]:
    endings = (".db", ".building", ".tmp")
    names = (path.name for path in many.data.iterdir() if path.name != "cache.db")
    return sorted(name for name in names if name.endswith(endings))


def test_a_rebuild_equals_a_sync_and_embeds_nothing_again(many: Workspace) -> None:
    many.sync()
    before = many.contents()
    texts = many.provider.texts
    result = many.rebuild()
    assert many.folder.current() == 2
    assert result.stats.rebuild
    assert result.stats.files_added == result.stats.cache_hits == 40
    assert many.contents() == before
    assert many.provider.texts == texts
    assert files(many) == ["index-2.db"]
    assert len(many.of_type(IndexChanged)) == 2


def test_the_bulk_settings_do_not_stay(many: Workspace) -> None:
    many.rebuild()
    with closing(open_database(many.folder.path(1))) as connection:
        rows = connection.execute("SELECT k, v FROM chunks_fts_config").fetchall()
        config = {str(name): value for name, value in rows}
        assert config["pgsz"] == 16000
        assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


@pytest.mark.parametrize("phase", ["files", "vectors"])
def test_a_stopped_rebuild_leaves_the_old_generation(many: Workspace, phase: str) -> None:
    many.sync()
    before = many.contents()
    phases: list[str] = []
    many.bus.subscribe(SyncProgressed, lambda event: phases.append(event.phase))
    with pytest.raises(Cancelled):
        many.rebuild(lambda: phase in phases)
    assert files(many) == ["index-1.db"]
    assert many.contents() == before


@pytest.mark.parametrize("kind", ["sync", "rebuild"])
def test_a_full_disk_is_named_and_leaves_what_was_there(
    many: Workspace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    many.sync()
    before = many.contents()

    def open_small(path: Path, **options: bool) -> Connection:
        connection = open_database(path, **options)
        connection.execute("PRAGMA max_page_count = 1").fetchall()
        return connection

    monkeypatch.setattr("memtui.index.database.open_database", open_small)
    many.write("0/big.md", "# Big\n\n" + "garden and router\n" * 20_000)
    with pytest.raises(IndexUnusable, match="no space left"):
        many.rebuild() if kind == "rebuild" else many.sync()
    assert files(many) == ["index-1.db"]
    assert many.contents() == before
    monkeypatch.undo()
    many.sync()
    assert many.contents() == many.fresh(many.data.parent / "fresh")


def test_an_index_of_a_newer_memtui_is_left_alone(many: Workspace) -> None:
    many.sync()
    with closing(open_database(many.folder.path(1))) as connection:
        write_meta(connection, {"schema_version": str(SCHEMA_VERSION + 1)})
    with pytest.raises(IndexUnusable, match="newer memtui"):
        many.sync()
    with closing(LiveIndex(many.folder)) as live:
        with pytest.raises(IndexUnusable, match="newer memtui"):
            live.connection()
        assert many.folder.path(1).exists()
        many.rebuild()
        assert read_meta(live.connection())["schema_version"] == str(SCHEMA_VERSION)
