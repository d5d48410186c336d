"""Where transcripts are, which are opted in, and when one that grows is indexed again."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from memtui.errors import Cancelled, IndexUnusable
from memtui.index.index_rows import KnownFile
from memtui.index.transcripts.discovery import (
    TranscriptHomes,
    discover_transcripts,
    homes_of,
    locate,
    places_of,
    rules_of,
    transcript_scope_of,
    with_transcripts,
)
from memtui.index.transcripts.reading import open_lines
from memtui.index.watcher import TranscriptFollower
from memtui.memory.discover import Scope, discover
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model import Reason
from memtui.settings.schema import Settings, TranscriptSettings
from tests.support.conversations import Homes, append, said
from tests.support.known import load

UUID = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    made = Homes(tmp_path / "homes")
    for agent in ("main", "work"):
        made.openclaw("a.jsonl", said("user", "hello"), agent)
    made.openclaw("a.jsonl.deleted.2026-10-01T10-00-00Z", b"")
    made.openclaw(f"a.checkpoint.{UUID}.jsonl", b"")
    made.openclaw("a.trajectory.jsonl", b"")
    made.openclaw("a.jsonl.bak.2026-10-01T10-00-00Z", b"")
    made.openclaw("sessions.json", b"{}")
    made.claude("c.jsonl", b"", "-home-garden")
    made.claude("c/subagents/agent-1.jsonl", b"", "-home-garden")
    made.claude("d.jsonl", b"", "-home-shed")
    made.codex("rollout-x.jsonl", b"")
    made.write("codex/archived_sessions/rollout-y.jsonl", b"")
    return made


def paths(homes: Homes, root: Path, *sources: str, **fields: object) -> list[str]:
    found = discover_transcripts(homes.scope(root, *sources, **fields))
    return [file.path for file in found.files]


def test_nothing_is_found_unless_it_is_opted_in(homes: Homes, tmp_path: Path) -> None:
    assert paths(homes, tmp_path) == []
    assert sum(len(one.files) for one in locate(homes.scope(tmp_path), everything=True)) == 8


def test_paths_are_files_folders_and_globs_stored_as_notes_are(
    homes: Homes, tmp_path: Path
) -> None:
    root = tmp_path / "notes"
    for name in ("logs/one.jsonl", "logs/deep/two.jsonl", "logs/notes.txt", "other.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(said("user", name))
    outside = homes.folder / "codex/sessions"
    scope = homes.scope(root, paths=("logs", "other.log", "gone", str(outside / "**/*.jsonl")))
    found = discover_transcripts(scope)
    stored = [file.path for file in found.files]
    assert stored[1:] == ["logs/deep/two.jsonl", "logs/one.jsonl", "other.log"]
    assert stored[0].endswith("codex/sessions/2026/10/01/rollout-x.jsonl")
    assert {file.kind for file in found.files} == {""}
    assert [(file.path, file.reason) for file in found.skipped] == [("gone", Reason.VANISHED)]


def test_a_file_of_two_places_is_kept_once(homes: Homes, tmp_path: Path) -> None:
    two = RULES["openclaw-2026.4"]
    scope = homes.scope(tmp_path, "openclaw", paths=(str(homes.folder / "openclaw"),), rules=two)
    found = discover_transcripts(scope)
    files = [str(file.absolute) for file in found.files]
    assert len(files) == len(set(files))
    clash = [file for file in found.skipped if file.reason is Reason.DUPLICATE_FILE]
    assert any("sessions/a.jsonl is another" in file.detail for file in clash)
    assert any(file.detail == "already found as sessions/a.jsonl" for file in clash)


def test_a_note_wins_over_a_transcript_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("# A note\n")
    homes = Homes(tmp_path / "homes")
    notes = discover(Scope(tmp_path))
    found = with_transcripts(notes, homes.scope(tmp_path, paths=("MEMORY.md",)))
    assert [(file.path, file.source) for file in found.files] == [("MEMORY.md", "memory")]


@pytest.mark.parametrize(
    "folder",
    [
        *("openclaw/agents/main", "openclaw/agents/main/sessions", "openclaw/agents/rows/agent"),
        *("claude/projects/-garden", "codex/sessions/2026/10"),
    ],
)
def test_no_link_is_followed_below_the_folder_of_a_program(tmp_path: Path, folder: str) -> None:
    made = Homes(tmp_path / "homes")
    made.openclaw("a.jsonl", said("user", "hello"))
    made.events(said("user", "hello"), agent="rows")
    made.claude("c.jsonl", b"{}\n")
    made.codex("rollout-x.jsonl", b"{}\n")
    scope, place = made.scope(tmp_path, "openclaw", "claude-code", "codex"), made.folder / folder
    files = [
        file for file in discover_transcripts(scope).files if file.absolute.is_relative_to(place)
    ]
    assert files
    # Swapped after it was listed, then there from the start.
    place.rename(tmp_path / "away")
    place.symlink_to(tmp_path / "away")
    for file in files:
        with pytest.raises(OSError, match="symbolic links"), open_lines(file):
            pass
    found = discover_transcripts(scope)
    assert not {file.path for file in files} & {file.path for file in found.files}


def test_a_search_can_be_stopped(homes: Homes, tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        discover_transcripts(homes.scope(tmp_path, "codex"), cancelled=lambda: True)


def test_places_say_what_is_opted_in(homes: Homes, tmp_path: Path) -> None:
    own = re.sub(r"[\W_]", "-", str(tmp_path))
    homes.claude("e.jsonl", b"", own)
    scope = homes.scope(tmp_path, "openclaw:work", "claude-code:*-shed", paths=("logs",))
    places = list(places_of(scope))
    assert [(place.name, place.is_indexed) for place in places] == [
        ("openclaw:main", False),
        ("openclaw:work", True),
        (f"claude-code:{own}", False),
        ("claude-code:-home-garden", False),
        ("claude-code:-home-shed", True),
        ("codex", False),
        ("logs", True),
    ]
    shed = str(homes.folder / "claude/projects/-home-shed")
    located = locate(homes.scope(tmp_path, paths=(shed,)), everything=True)
    counts = {place.name: len(place.files) for place in located}
    assert (counts[shed], counts["claude-code:-home-shed"]) == (1, 0), "where it is opted in"


def test_homes_are_where_the_programs_look(tmp_path: Path) -> None:
    env = {"OPENCLAW_STATE_DIR": "/o", "CLAUDE_CONFIG_DIR": "~/cc", "CODEX_HOME": "/c"}
    assert homes_of(env, tmp_path) == TranscriptHomes(Path("/o"), tmp_path / "cc", Path("/c"))
    assert homes_of({}, tmp_path) == TranscriptHomes(
        tmp_path / ".openclaw", tmp_path / ".claude", tmp_path / ".codex"
    )


@pytest.mark.parametrize(("settings", "rules"), load("transcript_rules")["profiles"])
def test_the_rules_are_those_of_the_ranking_profile(
    tmp_path: Path, settings: dict[str, object], rules: str
) -> None:
    chosen = Settings.parse({**settings, "transcripts": {"sources": ["codex"]}})
    is_wide = rules == "openclaw-2026.9"
    wanted = replace(RULES[rules], masks_more=is_wide)
    assert rules_of(chosen) == wanted
    scope = transcript_scope_of(chosen, tmp_path, env={}, home=tmp_path)
    assert (scope.rules, scope.sources) == (wanted, ("codex",))


@pytest.mark.parametrize(
    ("redaction", "profile", "masks_more"), load("transcript_rules")["redaction"]
)
def test_the_list_of_credentials_is_the_settings_or_the_profiles(
    redaction: str, profile: str, masks_more: bool
) -> None:
    chosen = {"ranking": {"profile": profile}, "transcripts": {"redaction": redaction}}
    assert rules_of(Settings.parse(chosen)).masks_more is masks_more


@pytest.mark.parametrize(
    "source", ["claude", "codex:x", "openclaw:", "openclaw:a/b", "~/.codex", ""]
)
def test_a_source_that_is_none_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="transcripts"):
        Settings.parse({"transcripts": {"sources": [source]}})


FOLLOWED = "sessions/main/a.jsonl"


class Scene:
    """A transcript, what the index holds of it, and what was said of it."""

    def __init__(self, folder: Path, size: int, messages: int) -> None:
        self.homes = Homes(folder)
        self.file = self.homes.openclaw("a.jsonl", b"begun\n")
        self.known: dict[str, KnownFile] = {}
        self.failed: list[str] = []
        self.is_writer = True
        self.follower = TranscriptFollower(
            lambda: self.homes.scope(self.homes.folder, "openclaw"),
            self.read_index,
            TranscriptSettings(delta_bytes=size, delta_messages=messages),
            self.failed.append,
            lambda: self.is_writer,
        )
        self.due = self.follower.due

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
            for file in discover_transcripts(self.homes.scope(self.homes.folder, "openclaw")).files
        }

    def append(self, content: bytes) -> None:
        append(self.file, content)


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
        (b"5\n", (FOLLOWED,)),
        (b"x" * 999, ()),
        (b"x", (FOLLOWED,)),
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
    assert scene.due() == (FOLLOWED,)


def test_new_shrunk_exchanged_and_gone_files_are_due_at_once(scene: Scene) -> None:
    scene.homes.openclaw("b.jsonl", b"new\n")
    assert scene.due() == ("sessions/main/b.jsonl",)
    scene.index()
    for content in (b"b\n", b"c\n"):
        scene.file.write_bytes(content)
        assert scene.due() == (FOLLOWED,), "shorter, then as long and another"
        scene.index()
    content = scene.file.read_bytes()
    (scene.file.parent / "other").write_bytes(content)
    (scene.file.parent / "other").replace(scene.file)
    assert scene.due() == (FOLLOWED,)
    scene.index()
    scene.file.unlink()
    assert scene.due() == (FOLLOWED,)


def test_what_waits_for_another_memtui_is_named_until_it_ends(scene: Scene) -> None:
    new = scene.homes.openclaw("b.jsonl", b"new\n")
    scene.file.unlink()
    scene.is_writer = False
    for _ in range(2):
        assert scene.due() == ("sessions/main/b.jsonl",), "and not what only the other one has on"
        scene.follower.forget()
        assert scene.follower.waiting == ("sessions/main/b.jsonl",)
    scene.is_writer = True
    new.unlink()
    scene.follower.forget()
    assert (scene.follower.waiting, scene.due()) == ((), (FOLLOWED,))


def test_what_a_stopped_run_left_waits_and_begins_none(scene: Scene) -> None:
    scene.homes.openclaw("b.jsonl", b"new\n")
    scene.follower.forget(is_stopped=True)
    assert scene.due() == ()
    assert scene.follower.waiting == ("sessions/main/b.jsonl",)
    scene.append(b"x" * 1000)
    assert scene.due() == (FOLLOWED,)
    scene.index()
    scene.follower.forget(is_stopped=True)
    assert not scene.due()
    assert not scene.follower.waiting


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


def test_an_index_that_cannot_be_read_ends_nothing(scene: Scene) -> None:
    scene.known = {"damaged": scene.known[FOLLOWED]}
    assert scene.due() == ()
    assert scene.failed == ["cannot look at the transcripts: the index is damaged"]
