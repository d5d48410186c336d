"""The index thread: coalescing, waiting, cancelling, following, taking over, living on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from unittest.mock import Mock

import pytest

from memtui.bus import (
    Bus,
    Event,
    FileIndexed,
    IndexChanged,
    LegChanged,
    StatusChanged,
    SyncFailed,
    SyncFinished,
    SyncProgressed,
    SyncStarted,
)
from memtui.embedding.provider import ProviderIdentity, Vector
from memtui.errors import Cancelled, IndexMissing, WorkspaceNotFound
from memtui.index.database import Recipe, number, open_database, write_meta
from memtui.index.generations import LiveIndex, WriterLock
from memtui.index.indexer import Indexer
from memtui.index.job import WORTH_A_WAIT, IndexerStatus, ProgressReporter, TypingPause, Work
from memtui.model import ProviderState, Reason
from tests.support.indexing import EventQueue, Workspace
from tests.support.interrupted import running_python

WAIT = 20.0


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    for index in range(20):
        workspace.write(f"{index}.md", f"# Note {index}\n\nword{index} of the garden\n")
    return workspace


@pytest.fixture
def indexer(workspace: Workspace) -> Iterator[Indexer]:
    with closing(workspace.indexer()) as made:
        made.start()
        yield made


def until(queue: EventQueue, condition: Callable[[], bool]) -> None:
    """Wait for events until a condition holds."""
    while not condition():
        assert queue.get(WAIT) is not None, "nothing more happened"


class Gate:
    """Stops the index thread in a phase of its work until it is opened."""

    def __init__(self, bus: Bus, phase: str) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self._phase = phase
        bus.subscribe(SyncProgressed, self._hold)

    def _hold(self, event: SyncProgressed) -> None:
        if event.phase == self._phase and not self.open.is_set():
            self.reached.set()
            assert self.open.wait(WAIT)


def sync(indexer: Indexer) -> IndexerStatus:
    """Have everything indexed, and return how the indexer is then."""
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    return indexer.snapshot()


def stopped_at(
    workspace: Workspace, indexer: Indexer, phase: str = "vectors", *, rebuild: bool = False
) -> Gate:
    """Begin a run, and wait until it has come to a phase."""
    gate = Gate(workspace.bus, phase)
    indexer.sync(rebuild=rebuild)
    assert gate.reached.wait(WAIT)
    return gate


def test_a_sync_runs_and_is_reported(workspace: Workspace, indexer: Indexer) -> None:
    assert indexer.is_writer
    indexer.require_writer()
    assert indexer.snapshot().generation == 0
    snapshot = sync(indexer)
    assert snapshot.writer == "this process"
    assert snapshot.running is Work.NONE
    assert snapshot.progress is None
    assert snapshot.failure is None
    assert snapshot.generation == 1
    assert (snapshot.files, snapshot.chunks, snapshot.vectors) == (20, 20, 20)
    assert snapshot.last_sync is not None
    assert snapshot.last_sync.files_added == 20
    assert snapshot.pending == ()
    kinds = [type(event) for event in workspace.events if type(event) is not StatusChanged]
    assert kinds[0] is SyncStarted
    assert kinds[-1] is SyncFinished
    assert kinds.count(FileIndexed) == 20


def test_a_request_interrupts_the_vectors_and_is_done_first(
    workspace: Workspace, indexer: Indexer
) -> None:
    workspace.provider.batch_size = 5
    gate = stopped_at(workspace, indexer)
    workspace.write("0.md", "rewritten\n")
    for _ in range(5):
        indexer.expect(["0.md"])
        indexer.sync()
    snapshot = indexer.snapshot()
    assert snapshot.running is Work.SYNC
    assert snapshot.pending == ("0.md",)
    assert snapshot.progress is not None
    assert snapshot.progress.phase == "vectors"
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    first, second = workspace.of_type(SyncFinished)
    assert (first.stats.chunks_embedded, second.stats.chunks_embedded >= 15) == (5, True)
    assert indexer.snapshot().pending_count == 0
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_pending_files_are_shown_until_they_are_indexed(
    workspace: Workspace, indexer: Indexer
) -> None:
    seen: list[IndexerStatus] = []
    workspace.bus.subscribe(FileIndexed, lambda event: seen.append(indexer.snapshot()))
    workspace.bus.subscribe(SyncStarted, lambda event: seen.append(indexer.snapshot()))
    indexer.expect(["5.md", "gone.md"])
    assert indexer.snapshot().pending == ("5.md", "gone.md")
    sync(indexer)
    assert seen[0].pending == ("5.md", "gone.md")
    assert seen[1].pending_count == 20
    assert indexer.snapshot().pending_count == 0


def test_cancelling_keeps_what_was_made_and_says_how_much(
    workspace: Workspace, indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace.provider.batch_size = 5
    put_many = workspace.cache.put_many
    made = threading.Event()
    cancelled = threading.Event()

    def put(identity: ProviderIdentity, vectors: Mapping[str, Vector]) -> None:
        put_many(identity, vectors)
        made.set()
        assert cancelled.wait(WAIT)

    monkeypatch.setattr(workspace.cache, "put_many", put)
    indexer.sync()
    assert made.wait(WAIT)
    indexer.sync()
    indexer.cancel()
    cancelled.set()
    assert indexer.wait_idle(WAIT)
    snapshot = indexer.snapshot()
    assert snapshot.failure is None
    assert snapshot.errors == ()
    assert (snapshot.files, snapshot.vectors) == (20, 5)
    errors = [event.error for event in workspace.of_type(SyncFailed)]
    assert errors == ["stopped at 5 of 20 vectors; the next sync goes on"]
    assert len(workspace.of_type(SyncStarted)) == 1
    sync(indexer)
    assert workspace.provider.texts == 20


def test_a_stop_holds_before_the_first_run_has_begun(
    workspace: Workspace, indexer: Indexer
) -> None:
    indexer.cancel()
    assert sync(indexer).pending_count == 20
    errors = [event.error for event in workspace.of_type(SyncFailed)]
    assert errors == ["stopped; the next sync goes on"]
    assert sync(indexer).files == 20


def test_a_run_begins_again_by_another_recipe(workspace: Workspace, indexer: Indexer) -> None:
    gate = stopped_at(workspace, indexer)
    indexer.use(Recipe(None))
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    assert {chunk[5] for chunk in workspace.contents().chunks.values()} == {"none"}
    assert workspace.of_type(SyncFailed) == []


def test_a_rebuild_is_followed_by_a_sync_and_a_cancelled_one_leaves_the_index(
    workspace: Workspace, indexer: Indexer
) -> None:
    gate = stopped_at(workspace, indexer, rebuild=True)
    workspace.write("late.md", "written during the rebuild\n")
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    stats = [event.stats for event in workspace.of_type(SyncFinished)]
    assert [one.rebuild for one in stats] == [True, False]
    assert stats[1].files_added == 1
    for rebuild in (True, False):
        # The sync after a rebuild that found nothing is no news.
        indexer.sync(rebuild=rebuild)
        assert indexer.wait_idle(WAIT)
        last_sync = indexer.snapshot().last_sync
        assert last_sync is not None
        assert last_sync.rebuild is rebuild
    gate = stopped_at(workspace, indexer, "files", rebuild=True)
    assert indexer.snapshot().running is Work.REBUILD
    indexer.cancel()
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    assert [one.error for one in workspace.of_type(SyncFailed)] == [
        "stopped; the index is as it was"
    ]
    assert indexer.snapshot().generation == 2
    assert not list(workspace.data.glob("*.building"))


def test_closing_stops_what_runs_and_frees_the_lock(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer = workspace.indexer()
    indexer.start()
    gate = stopped_at(workspace, indexer)
    with monkeypatch.context() as patched:
        # What cannot be closed does not keep the lock either.
        patched.setattr(LiveIndex, "close", Mock(side_effect=RuntimeError("disk I/O error")))
        closer = threading.Thread(target=indexer.close)
        closer.start()
        gate.open.set()
        closer.join(WAIT)
    assert not closer.is_alive()
    assert indexer.wait_idle(0)
    assert indexer.snapshot().failure == "RuntimeError: disk I/O error"
    with closing(workspace.indexer()) as other:
        other.start()
        assert other.is_writer


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (None, ""),
        (lambda whole: None, ""),
        (lambda whole: b"", "index-1.db is no index of memtui"),
        (lambda whole: b"not a database " * 5000, "index-1.db is damaged"),
        # The schema's format number is in the bytes 44 to 47 of the header.
        (lambda whole: whole[:44] + b"\0\0\0\x09" + whole[48:], "index-1.db is damaged"),
    ],
    ids=["no folder", "no index", "empty", "no database", "of no release"],
)
def test_a_broken_index_is_named_and_made_again(
    workspace: Workspace,
    indexer: Indexer,
    damage: Callable[[bytes], bytes | None] | None,
    message: str,
) -> None:
    sync(indexer)
    before, path = workspace.contents(), workspace.folder.path(1)
    whole = path.read_bytes()
    for file in workspace.data.glob("index-*" if damage is not None else "*"):
        file.unlink()
    if damage is None:
        workspace.data.rmdir()
    elif (left := damage(whole)) is not None:
        path.write_bytes(left)
    snapshot = sync(indexer)
    assert snapshot.failure is None
    errors = [record.message for record in snapshot.errors]
    assert [message in error for error in errors] == ([True] if message else [])
    assert workspace.contents() == before
    assert not WriterLock(workspace.folder).try_acquire(seconds=0)


def test_an_index_is_made_again_when_only_the_count_meets_the_damage(
    workspace: Workspace, indexer: Indexer
) -> None:
    sync(indexer)
    before = workspace.contents()
    with closing(open_database(workspace.folder.path(1))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        roots = "SELECT rootpage FROM sqlite_schema WHERE name = 'chunks_of_file'"
        page, size = number(connection, roots), number(connection, "PRAGMA page_size")
    with workspace.folder.path(1).open("r+b") as database:
        database.seek((page - 1) * size)
        database.write(b"\xa5" * size)
    (workspace.root / "0.md").touch()
    snapshot = sync(indexer)
    assert snapshot.failure is None
    assert [record.message for record in snapshot.errors if "is damaged" in record.message]
    after = workspace.contents()
    assert (after.chunks, after.terms) == (before.chunks, before.terms)
    assert after.files.keys() == before.files.keys()


def test_an_index_of_a_schema_without_conversations_is_made_anew_without_a_word_of_damage(
    workspace: Workspace, indexer: Indexer
) -> None:
    sync(indexer)
    with closing(open_database(workspace.folder.path(1))) as connection:
        connection.execute("DROP TABLE transcripts")
        write_meta(connection, {"schema_version": "3"})
    with closing(LiveIndex(workspace.folder)) as live, pytest.raises(IndexMissing):
        live.connection()
    snapshot = sync(indexer)
    assert (snapshot.files, snapshot.generation, snapshot.errors) == (20, 2, ())


def test_failures_are_named_and_the_thread_goes_on(
    workspace: Workspace, indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = EventQueue(workspace.bus, SyncFailed)
    sync(indexer)
    away = workspace.root.with_name("away")
    workspace.root.rename(away)
    indexer.sync()
    failed = queue.get(WAIT)
    assert isinstance(failed, SyncFailed)
    assert failed.exit_code == WorkspaceNotFound.exit_code
    assert indexer.wait_idle(WAIT)
    snapshot = indexer.snapshot()
    assert snapshot.failure == failed.error
    assert "is not there" in failed.error
    assert snapshot.errors[-1].where == "folder"
    assert snapshot.files == 20
    away.rename(workspace.root)
    workspace.write("more.md", "more\n")
    with monkeypatch.context() as patched:
        explode = Mock(side_effect=RuntimeError("boom\nin two lines"))
        patched.setattr("memtui.index.sync.chunk_document", explode)
        sync(indexer)
    assert indexer.snapshot().failure == "RuntimeError: boom in two lines"
    assert indexer.snapshot().errors[-1].message == "RuntimeError: boom in two lines"
    sync(indexer)
    assert indexer.snapshot().failure is None
    assert indexer.snapshot().files == 21


def test_a_provider_that_cannot_be_loaded_is_shown_and_tried_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ProviderState(
        "minilm", None, "m", 64, Reason.PROVIDER_FAILED, "onnxruntime is not installed"
    )
    answers = [(None, missing)]
    factory = workspace.factory
    monkeypatch.setattr(workspace, "factory", lambda: answers.pop() if answers else factory())
    with closing(workspace.indexer()) as indexer:
        indexer.start()
        snapshot = sync(indexer)
        assert snapshot.problem is not None
        assert snapshot.problem.detail == "onnxruntime is not installed"
        assert [record.where for record in snapshot.errors] == ["embedding"]
        assert (snapshot.chunks, snapshot.vectors) == (20, 0)
        sync(indexer)
        assert indexer.snapshot().problem is None
        reasons = [one.reason for one in workspace.of_type(LegChanged)]
        assert reasons == [Reason.PROVIDER_FAILED, Reason.OK]


def test_a_follower_waits_takes_over_from_a_killed_process_and_a_reader_does_not(
    workspace: Workspace,
) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.support.indexing import Workspace\n"
        "workspace = Workspace(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "indexer = workspace.indexer(); indexer.start(); indexer.sync()\n"
        "print(indexer.wait_idle(30), flush=True); sys.stdin.readline()\n"
        "indexer.sync(); print(indexer.wait_idle(30), flush=True); sys.stdin.read()\n"
    )
    queue = EventQueue(workspace.bus, Event)
    with (
        running_python("-c", program, str(workspace.root), str(workspace.data)) as owner,
        closing(workspace.indexer()) as follower,
    ):
        assert owner.stdin is not None
        assert owner.stdout is not None
        assert owner.stdout.readline() == "True\n"
        workspace.write("new.md", "a new note\n")
        follower.start()
        assert not follower.is_writer
        until(queue, lambda: follower.snapshot().files == 20)
        assert follower.snapshot().writer == f"process {owner.pid}"
        until(queue, lambda: follower.snapshot().pending == ("new.md",))
        follower.expect(["ignored.md"])
        until(queue, lambda: follower.snapshot().pending == ("new.md",))
        follower.sync()
        assert follower.snapshot().pending == ("new.md",)
        owner.stdin.write("go\n")
        owner.stdin.flush()
        # The owner took it in: it no longer waits here.
        until(queue, lambda: follower.snapshot().pending_count == 0)
        workspace.write("newer.md", "another new note\n")
        owner.kill()
        owner.wait()
        until(queue, lambda: follower.snapshot().files == 22)
        assert follower.is_writer


def test_a_follower_knows_what_waits_when_it_first_tells_of_an_index_without_files(
    workspace: Workspace,
) -> None:
    lock, waiting = WriterLock(workspace.folder), list[int]()
    assert lock.try_acquire()
    with pytest.raises(Cancelled):
        workspace.sync(lambda: workspace.folder.current() is not None)
    with closing(workspace.indexer()) as follower:
        workspace.bus.subscribe(
            IndexChanged, lambda _: waiting.append(follower.snapshot().pending_count)
        )
        follower.start()
        until(EventQueue(workspace.bus, IndexChanged), lambda: bool(waiting))
    assert set(waiting) == {20}


def test_progress_is_published_ten_times_a_second_with_the_time_left() -> None:
    bus, seconds = Bus(), [0.0]
    events: list[SyncProgressed] = []
    bus.subscribe(SyncProgressed, events.append)
    reporter = ProgressReporter(bus, clock=lambda: seconds[0])
    reporter.start("files", 1000)
    for _ in range(1000):
        seconds[0] += 0.001
        reporter.advance(1, "a.md")
    assert 10 <= len(events) <= 12
    assert (events[-1].done, events[-1].total, events[-1].current) == (1000, 1000, "a.md")
    events.clear()
    reporter.start("vectors", 100)
    for _ in range(40):
        seconds[0] += 0.25
        reporter.advance(1)
    # Told after five seconds.
    assert {event.eta is None for event in events if event.done <= 19} == {True}
    assert events[-1].rate == pytest.approx(4.0)
    assert events[-1].eta == pytest.approx(15.0)
    assert reporter.stopped(rebuild=False) == "stopped at 40 of 100 vectors; the next sync goes on"


@pytest.mark.parametrize(
    ("keys", "seconds", "most", "expected"),
    [(0, 60.0, 60.0, 0.0), (1, 0.1, 60.0, 0.1), (4, 0.1, 60.0, 0.1), (1, 60.0, 0.1, 0.1)],
)
def test_a_step_waits_until_nobody_types(
    keys: int, seconds: float, most: float, expected: float
) -> None:
    pause = TypingPause(seconds, most)
    for _ in range(keys):
        pause.typed()
    began = time.monotonic()
    pause.wait(lambda: False)
    assert expected <= time.monotonic() - began < WAIT


@pytest.mark.parametrize("closes", [False, True])
def test_much_work_waits_while_keys_come_and_a_saved_note_does_not(
    workspace: Workspace, closes: bool
) -> None:
    waits = threading.Event()

    class Noted(TypingPause):
        def wait(self, stopped: Callable[[], bool]) -> None:
            waits.set()
            super().wait(stopped)

    pause = Noted(60.0, 60.0 if closes else 0.0)
    pause.typed()
    with closing(workspace.indexer(pause=pause)) as indexer:
        indexer.start()
        sync(indexer)
        assert len(workspace.of_type(FileIndexed)) == 20 < WORTH_A_WAIT
        assert not waits.is_set()
        for index in range(WORTH_A_WAIT):
            workspace.write(f"more/{index}.md", f"# Note {index}\n")
        indexer.sync()
        assert waits.wait(WAIT)
        assert indexer.wait_idle(0 if closes else WAIT) is not closes
        assert len(workspace.of_type(FileIndexed)) == 20 + WORTH_A_WAIT * (not closes)
    assert not indexer.is_writer
