"""The index thread: coalescing, cancelling, following, taking over, and living on."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from memtui.bus import (
    Bus,
    Event,
    FileIndexed,
    IndexSwapped,
    LegRecovered,
    StatusChanged,
    SyncFailed,
    SyncFinished,
    SyncProgressed,
    SyncStarted,
)
from memtui.embedding.provider import Provider, ProviderIdentity, Vector
from memtui.errors import WorkspaceNotFound, WriterLocked
from memtui.index.database import IndexDamaged
from memtui.index.generations import WriterLock
from memtui.index.indexer import Indexer, IndexerSnapshot, Work
from memtui.index.job import ProgressReporter
from memtui.index.reader import LiveIndex, file_rows
from memtui.model import ProviderState, Reason
from tests.support.events import EventQueue, collect
from tests.support.indexing import Workspace

WAIT = 20.0

WRITE_AND_WAIT = """
import sys
from pathlib import Path
from tests.support.indexing import Workspace
workspace = Workspace(Path(sys.argv[1]), Path(sys.argv[2]))
indexer = workspace.indexer()
indexer.start()
indexer.sync()
print(indexer.wait_idle(30), flush=True)
for line in sys.stdin:
    indexer.sync()
    print(indexer.wait_idle(30), flush=True)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "notes", tmp_path / "index")
    for index in range(20):
        made.write(f"{index}.md", f"# Note {index}\n\nword{index} of the garden\n")
    yield made
    made.close()


@pytest.fixture
def indexer(workspace: Workspace) -> Iterator[Indexer]:
    made = workspace.indexer()
    made.start()
    yield made
    made.close()


def until(queue: EventQueue, condition: Callable[[], bool]) -> None:
    """Wait for events until a condition holds."""
    while not condition():
        assert queue.get(WAIT) is not None, "nothing more happened"


class Gate:
    """Stops the index thread at an event until it is opened."""

    def __init__(self, bus: Bus, kind: type[Event], when: Callable[[Event], bool]) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        self._when = when
        bus.subscribe(kind, self._hold)

    def _hold(self, event: Event) -> None:
        if self._when(event) and not self.open.is_set():
            self.reached.set()
            assert self.open.wait(WAIT)


def at_vectors(event: Event) -> bool:
    return isinstance(event, SyncProgressed) and event.phase == "vectors"


def test_a_sync_runs_and_is_reported(workspace: Workspace, indexer: Indexer) -> None:
    assert indexer.is_writer
    indexer.require_writer()
    assert indexer.snapshot().generation == 0
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    snapshot = indexer.snapshot()
    assert snapshot.writer == "this process"
    assert snapshot.running is Work.NONE
    assert snapshot.progress is None
    assert snapshot.failure is None
    assert snapshot.generation == 1
    assert (snapshot.counts.files, snapshot.counts.chunks, snapshot.counts.vectors) == (20, 20, 20)
    assert (snapshot.cache_hits, snapshot.cache_misses) == (0, 20)
    assert snapshot.last_sync is not None
    assert snapshot.last_sync.files_added == 20
    assert snapshot.vector_extension is not None
    assert snapshot.pending == ()
    kinds = [type(event) for event in workspace.events if type(event) is not StatusChanged]
    assert kinds[0] is SyncStarted
    assert kinds[-1] is SyncFinished
    assert kinds.count(FileIndexed) == 20


def test_requests_during_a_sync_run_once_more(workspace: Workspace, indexer: Indexer) -> None:
    gate = Gate(workspace.bus, SyncProgressed, at_vectors)
    indexer.sync()
    assert gate.reached.wait(WAIT)
    workspace.write("0.md", "rewritten\n")
    for _ in range(5):
        indexer.sync(["0.md"])
    snapshot = indexer.snapshot()
    assert snapshot.running is Work.SYNC
    assert snapshot.pending == ("0.md",)
    assert snapshot.progress is not None
    assert snapshot.progress.phase == "vectors"
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    assert len(workspace.of_type(SyncFinished)) == 2
    assert indexer.snapshot().pending_count == 0
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_pending_files_are_shown_until_they_are_indexed(
    workspace: Workspace, indexer: Indexer
) -> None:
    seen: list[IndexerSnapshot] = []
    workspace.bus.subscribe(FileIndexed, lambda event: seen.append(indexer.snapshot()))
    workspace.bus.subscribe(SyncStarted, lambda event: seen.append(indexer.snapshot()))
    indexer.expect(["5.md", "gone.md"])
    assert indexer.snapshot().pending == ("5.md", "gone.md")
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert seen[0].pending == ("5.md", "gone.md")
    assert seen[1].pending_count == 20
    assert indexer.snapshot().pending_count == 0


def test_a_rebuild_is_followed_by_a_sync(workspace: Workspace, indexer: Indexer) -> None:
    gate = Gate(workspace.bus, SyncProgressed, at_vectors)
    indexer.rebuild()
    assert gate.reached.wait(WAIT)
    workspace.write("late.md", "written during the rebuild\n")
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    stats = [event.stats for event in workspace.of_type(SyncFinished)]
    assert [one.rebuild for one in stats] == [True, False]
    assert stats[1].files_added == 1


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
    assert snapshot.stopped == "stopped; 25 % kept"
    assert snapshot.failure is None
    assert snapshot.errors == ()
    assert (snapshot.counts.files, snapshot.counts.vectors) == (20, 5)
    assert [event.error for event in workspace.of_type(SyncFailed)] == [snapshot.stopped]
    assert len(workspace.of_type(SyncStarted)) == 1
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert workspace.provider.texts == 20
    assert indexer.snapshot().stopped is None


def test_a_cancelled_rebuild_leaves_the_index_as_it_was(
    workspace: Workspace, indexer: Indexer
) -> None:
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    gate = Gate(
        workspace.bus, SyncProgressed, lambda event: indexer.snapshot().running is Work.REBUILD
    )
    indexer.rebuild()
    assert gate.reached.wait(WAIT)
    indexer.cancel()
    gate.open.set()
    assert indexer.wait_idle(WAIT)
    assert indexer.snapshot().stopped == "stopped; the index is as it was"
    assert indexer.snapshot().generation == 1
    assert not list(workspace.data.glob("*.building"))


def test_closing_stops_what_runs_and_frees_the_lock(workspace: Workspace) -> None:
    indexer = workspace.indexer()
    indexer.start()
    gate = Gate(workspace.bus, SyncProgressed, at_vectors)
    indexer.sync()
    assert gate.reached.wait(WAIT)
    closer = threading.Thread(target=indexer.close)
    closer.start()
    gate.open.set()
    closer.join(WAIT)
    assert not closer.is_alive()
    assert indexer.wait_idle(0)
    other = workspace.indexer()
    other.start()
    assert other.is_writer
    other.close()


def test_an_index_that_cannot_be_closed_does_not_keep_the_lock(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer = workspace.indexer()
    indexer.start()
    assert indexer.wait_idle(WAIT)

    def fail(live: LiveIndex) -> None:
        raise RuntimeError("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(LiveIndex, "close", fail)
        indexer.close()
    assert not indexer.is_writer
    assert indexer.snapshot().failure == "RuntimeError: disk I/O error"
    other = workspace.indexer()
    other.start()
    assert other.is_writer
    other.close()


def test_the_provider_is_asked_for_on_the_index_thread_and_only_once_needed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def factory() -> tuple[Provider | None, ProviderState]:
        loaded.append(threading.current_thread().name)
        return Workspace.factory(workspace)

    monkeypatch.setattr(workspace, "factory", factory)
    indexer = workspace.indexer()
    indexer.start()
    try:
        assert loaded == []
        for text in ("more", "more", "most"):
            workspace.write("more.md", f"{text}\n")
            indexer.sync()
            assert indexer.wait_idle(WAIT)
        assert loaded == ["memtui-index"] * 2
    finally:
        indexer.close()


def test_a_provider_that_cannot_be_loaded_is_shown_and_tried_again(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = ProviderState(
        "minilm", None, "m", 64, Reason.PROVIDER_FAILED, "onnxruntime is not installed"
    )
    monkeypatch.setattr(workspace, "factory", lambda: (None, missing))
    indexer = workspace.indexer()
    indexer.start()
    try:
        indexer.sync()
        assert indexer.wait_idle(WAIT)
        snapshot = indexer.snapshot()
        assert snapshot.provider == missing
        assert snapshot.problem is not None
        assert snapshot.problem.detail == "onnxruntime is not installed"
        assert [record.where for record in snapshot.errors] == ["embedding"]
        assert snapshot.counts.chunks == 20
        assert snapshot.counts.vectors == 0
        indexer._make_provider = lambda: Workspace.factory(workspace)
        indexer.sync()
        assert indexer.wait_idle(WAIT)
        assert indexer.snapshot().problem is None
        assert len(workspace.of_type(LegRecovered)) == 1
    finally:
        indexer.close()


def test_the_thread_outlives_an_unexpected_error(
    workspace: Workspace, indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*arguments: object, **more: object) -> None:
        raise RuntimeError("boom\nin two lines")

    monkeypatch.setattr("memtui.memory.chunking.chunk_document", explode)
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    snapshot = indexer.snapshot()
    assert snapshot.failure == "RuntimeError: boom in two lines"
    assert [record.message for record in snapshot.errors] == [snapshot.failure]
    assert [event.error for event in workspace.of_type(SyncFailed)] == [snapshot.failure]
    monkeypatch.undo()
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert indexer.snapshot().failure is None
    assert indexer.snapshot().counts.files == 20


@pytest.mark.parametrize("damage", ["no database", "format of no release"])
def test_a_damaged_index_is_named_and_made_again(workspace: Workspace, damage: str) -> None:
    workspace.sync()
    before = workspace.contents()
    path = workspace.folder.path(1)
    whole = path.read_bytes()
    # The schema's format number is in the bytes 44 to 47 of the header.
    unknown = whole[:44] + b"\0\0\0\x09" + whole[48:]
    path.write_bytes(b"not a database " * 5000 if damage == "no database" else unknown)
    indexer = workspace.indexer()
    indexer.start()
    try:
        indexer.sync()
        assert indexer.wait_idle(WAIT)
        snapshot = indexer.snapshot()
        assert snapshot.failure is None
        assert "index-1.db is damaged" in snapshot.errors[0].message
        assert snapshot.generation == 2
        assert workspace.contents() == before
    finally:
        indexer.close()


def test_an_index_deleted_under_a_running_program_comes_back(
    workspace: Workspace, indexer: Indexer
) -> None:
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    for path in workspace.data.glob("index-*"):
        path.unlink()
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert indexer.snapshot().failure is None
    assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")


def test_a_missing_root_is_a_failure_and_no_loss(workspace: Workspace, indexer: Indexer) -> None:
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    away = workspace.root.with_name("away")
    workspace.root.rename(away)
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    snapshot = indexer.snapshot()
    assert snapshot.failure is not None
    assert "is not there" in snapshot.failure
    assert snapshot.counts.files == 20
    away.rename(workspace.root)
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert indexer.snapshot().failure is None


def test_a_second_indexer_follows_the_first(workspace: Workspace, indexer: Indexer) -> None:
    bus = Bus()
    queue = collect(bus, (IndexSwapped, StatusChanged))
    follower = workspace.indexer(bus=bus)
    follower.start()
    try:
        assert not follower.is_writer
        with pytest.raises(WriterLocked):
            follower.require_writer()
        assert follower.snapshot().writer.startswith("process ")
        follower.sync()
        assert follower.wait_idle(WAIT)
        indexer.sync()
        until(queue, lambda: follower.snapshot().counts.vectors == 20)
        workspace.write("new.md", "a new note\n")
        indexer.sync()
        until(queue, lambda: follower.snapshot().counts.vectors == 21)
        swapped = collect(bus, IndexSwapped)
        indexer.rebuild()
        assert swapped.get(WAIT) == IndexSwapped(2)
        until(queue, lambda: follower.snapshot().generation == 2)
    finally:
        follower.close()


def test_a_reader_never_takes_the_lock(workspace: Workspace, indexer: Indexer) -> None:
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    bus = Bus()
    queue = collect(bus, StatusChanged)
    reader = workspace.indexer(write=False, bus=bus)
    reader.start()
    try:
        indexer.close()
        until(queue, lambda: reader.snapshot().writer == "none")
        assert not reader.is_writer
    finally:
        reader.close()


def test_a_follower_takes_over_from_a_killed_process(workspace: Workspace) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", WRITE_AND_WAIT, workspace.root, workspace.data],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    follower = workspace.indexer()
    queue = collect(workspace.bus, Event)
    try:
        assert owner.stdout.readline() == "True\n"
        follower.start()
        assert not follower.is_writer
        until(queue, lambda: follower.snapshot().counts.files == 20)
        assert follower.snapshot().writer == f"process {owner.pid}"
        workspace.write("new.md", "a new note\n")
        owner.stdin.write("\n")
        owner.stdin.flush()
        assert owner.stdout.readline() == "True\n"
        until(queue, lambda: follower.snapshot().counts.files == 21)
        workspace.write("newer.md", "a newer note\n")
        owner.kill()
        owner.wait()
        until(queue, lambda: follower.snapshot().counts.files == 22)
        assert follower.is_writer
        assert follower.snapshot().writer == "this process"
        assert follower.wait_idle(WAIT)
        assert workspace.contents() == workspace.fresh(workspace.data.parent / "fresh")
    finally:
        follower.close()
        owner.kill()
        owner.wait()
        owner.stdin.close()
        owner.stdout.close()


def test_searching_goes_on_while_the_index_thread_writes(
    workspace: Workspace, indexer: Indexer
) -> None:
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    live = LiveIndex(workspace.folder)
    for round_ in range(3):
        for index in range(20):
            workspace.write(f"{index}.md", f"round {round_} note {index}\n" * 50)
        indexer.rebuild() if round_ == 1 else indexer.sync()
        while not indexer.wait_idle(0):
            assert len(file_rows(live.connection())) == 20
    live.close()
    assert indexer.snapshot().errors == ()


def test_the_end_is_told_after_five_seconds_and_three_samples() -> None:
    bus, time = Bus(), [0.0]
    events: list[SyncProgressed] = []
    bus.subscribe(SyncProgressed, events.append)
    reporter = ProgressReporter(bus, clock=lambda: time[0])
    reporter.start("vectors", 100)
    for _ in range(40):
        time[0] += 0.25
        reporter.advance(1)
    early = [event for event in events if event.done <= 19]
    late = [event for event in events if event.done >= 20]
    assert all(event.eta is None for event in early)
    assert late[-1].rate == pytest.approx(4.0)
    assert late[-1].eta == pytest.approx(15.0)
    assert reporter.kept_percent() == 40


def test_progress_is_published_ten_times_a_second_and_at_the_end() -> None:
    bus, time = Bus(), [0.0]
    events: list[SyncProgressed] = []
    bus.subscribe(SyncProgressed, events.append)
    reporter = ProgressReporter(bus, clock=lambda: time[0])
    reporter.start("files", 1000)
    for _ in range(1000):
        time[0] += 0.001
        reporter.advance(1, "a.md")
    assert 10 <= len(events) <= 12
    assert (events[-1].done, events[-1].total, events[-1].current) == (1000, 1000, "a.md")


def test_what_the_writer_indexed_no_longer_waits_in_a_follower(
    workspace: Workspace, indexer: Indexer
) -> None:
    bus = Bus()
    queue = collect(bus, StatusChanged)
    follower = workspace.indexer(bus=bus)
    follower.start()
    try:
        workspace.write("new.md", "a new note\n")
        follower.sync(("new.md",))
        assert follower.snapshot().pending == ("new.md",)
        indexer.sync(("new.md",))
        until(queue, lambda: follower.snapshot().pending_count == 0)
    finally:
        follower.close()


def test_a_failure_carries_its_exit_code(workspace: Workspace, indexer: Indexer) -> None:
    queue = collect(workspace.bus, SyncFailed)
    shutil.rmtree(workspace.root)
    indexer.sync()
    failed = queue.get(WAIT)
    assert isinstance(failed, SyncFailed)
    assert failed.exit_code == WorkspaceNotFound.exit_code


def test_an_index_folder_that_was_deleted_has_one_writer(
    workspace: Workspace, indexer: Indexer
) -> None:
    shutil.rmtree(workspace.data)
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert indexer.snapshot().counts.files > 0
    assert not WriterLock(workspace.folder).try_acquire(seconds=0)


def test_a_file_that_is_no_index_is_built_again(workspace: Workspace, indexer: Indexer) -> None:
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    for path in workspace.data.glob("index-*"):
        path.unlink()
    (workspace.data / "index-1.db").touch()
    live = LiveIndex(workspace.folder)
    with pytest.raises(IndexDamaged, match="no index of memtui"):
        live.connection()
    indexer.sync()
    assert indexer.wait_idle(WAIT)
    assert indexer.snapshot().failure is None
    assert indexer.snapshot().generation == 2
