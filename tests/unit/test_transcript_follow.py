"""When a transcript that grows is indexed again: by bytes, by lines, and not twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from memtui.errors import IndexUnusable
from memtui.index.index_rows import KnownFile
from memtui.index.transcripts.discovery import discover_transcripts
from memtui.index.transcripts.follow import TranscriptFollower
from memtui.memory.discover import Discovery
from memtui.settings.schema import TranscriptSettings
from tests.support.conversations import Homes

PATH = "sessions/main/a.jsonl"


class Scene:
    """A transcript, what the index holds of it, and what was said of it."""

    def __init__(self, folder: Path, size: int, messages: int) -> None:
        self.homes = Homes(folder)
        self.file = self.homes.openclaw("a.jsonl", b"begun\n")
        self.known: dict[str, KnownFile] = {}
        self.changed: list[tuple[str, ...]] = []
        self.failed: list[str] = []
        self.times = [0.0]
        """Of the next looks, the last of them of all that follow."""
        self.follower = TranscriptFollower(
            *(self.scan, self.read_index, self.changed.append),
            TranscriptSettings(delta_bytes=size, delta_messages=messages),
            failed=self.failed.append,
            clock=lambda: self.times.pop(0) if len(self.times) > 1 else self.times[0],
        )

    def scan(self) -> Discovery:
        return discover_transcripts(self.homes.scope(self.homes.folder, "openclaw"))

    def read_index(self) -> dict[str, KnownFile]:
        if "damaged" in self.known:
            raise IndexUnusable("the index is damaged")
        return self.known

    def index(self) -> None:
        """Let the index hold everything as it is."""
        self.known = {
            file.path: KnownFile(
                file.path, file.source, "h", file.size, file.mtime_ns, file.inode, 0
            )
            for file in self.scan().files
        }

    def append(self, content: bytes) -> None:
        with self.file.open("ab") as stream:
            stream.write(content)

    def due(self) -> tuple[str, ...]:
        """Look once, and return what is to be indexed."""
        self.changed.clear()
        self.follower.look()
        return self.changed[0] if self.changed else ()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path, 1000, 5)
    made.index()
    return made


def test_small_growth_waits_until_it_adds_up(scene: Scene) -> None:
    assert scene.due() == ()
    for content, due in [
        (b"1\n2\n", ()),
        (b"3\n4\n", ()),
        (b"5\n", (PATH,)),
        (b"x" * 999, ()),
        (b"x", (PATH,)),
    ]:
        scene.append(content)
        assert scene.due() == due
        if due:
            scene.index()


@pytest.mark.parametrize(("size", "messages"), [(0, 5), (1000, -1)])
def test_a_delta_below_one_means_any_change(tmp_path: Path, size: int, messages: int) -> None:
    scene = Scene(tmp_path, size, messages)
    scene.index()
    scene.append(b"x")
    assert scene.due() == (PATH,)


def test_new_shrunk_exchanged_and_gone_files_are_due_at_once(scene: Scene) -> None:
    scene.homes.openclaw("b.jsonl", b"new\n")
    assert scene.due() == ("sessions/main/b.jsonl",)
    scene.index()
    for content in (b"b\n", b"c\n"):
        scene.file.write_bytes(content)
        assert scene.due() == (PATH,), "shorter, then as long and another"
        scene.index()
    content = scene.file.read_bytes()
    (scene.file.parent / "other").write_bytes(content)
    (scene.file.parent / "other").replace(scene.file)
    assert scene.due() == (PATH,)
    scene.index()
    scene.file.unlink()
    assert scene.due() == (PATH,)


def test_what_cannot_be_indexed_is_told_of_once(scene: Scene) -> None:
    scene.homes.openclaw("b.jsonl", b"not readable\n")
    assert scene.due() == ("sessions/main/b.jsonl",)
    scene.append(b"x")
    assert scene.due() == (), "the other one is as it was"
    scene.homes.openclaw("b.jsonl", b"not readable, and longer\n")
    assert scene.due() == ("sessions/main/b.jsonl",)


def test_events_count_as_messages(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1000, 3)
    scene.file.unlink()
    database = scene.homes.write("openclaw/agents/main/agent/openclaw-agent.sqlite", b"")
    path = "sessions/main/s.jsonl"
    scene.known[path] = KnownFile(path, "sessions", "h", 1, 0, database.stat().st_ino, 0, 1)
    with closing(apsw.Connection(str(database))) as connection:
        connection.execute(
            "CREATE TABLE transcript_events(session_id, seq, event_json, created_at)"
        )
        due = []
        for number in range(1, 6):
            row = (number, "{}", number)
            connection.execute("INSERT INTO transcript_events VALUES('s', ?, ?, ?)", row)
            due.append(scene.due())
    assert due == [(), (), (), (path,), (path,)]


def test_looking_stays_a_small_load(scene: Scene) -> None:
    scene.times = [0.0, 0.1, 10.0, 12.0]
    assert scene.follower.look() == 5.0
    scene.append(b"x" * 2000)
    assert scene.follower.look() == pytest.approx(2.0 / 0.05)
    assert scene.changed == [(PATH,)]


def test_an_index_that_cannot_be_read_ends_nothing(scene: Scene) -> None:
    scene.known = {"damaged": scene.known[PATH]}
    assert scene.follower.look() == 5.0
    assert scene.failed == ["cannot look at the transcripts: the index is damaged"]
    scene.follower.start()
    scene.follower.stop()
    assert scene.follower.is_closing
