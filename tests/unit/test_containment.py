"""One corpus of paths, tried on everything that takes a path which a stranger may have written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from memtui.engine.places import read_source, spellings
from memtui.index.transcripts.discovery import (
    TranscriptHomes,
    discover_transcripts,
    transcript_scope_of,
)
from memtui.index.transcripts.reading import open_lines
from memtui.index.watcher import watched_folders
from memtui.memory.discover import Scope, bases_of, discover, look_at, may_contain
from memtui.memory.documents import read_document
from memtui.model import SourceFile
from memtui.settings.containment import is_inside
from memtui.settings.files import StateFolder
from memtui.settings.load import load_settings
from memtui.settings.openclaw.read import Unreadable, read_sections
from memtui.settings.schema import MemorySettings, Settings, TranscriptSettings, protected_keys
from memtui.settings.toml import toml_value
from tests.support.known import load, text_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX names and links")

SECRET = "the secret of somebody else"
CORPUS = [
    pytest.param(text, kind, id=f"{about}-{number}")
    for about, kind, texts in load("paths")["paths"]
    for number, text in enumerate(texts)
]
every_path = pytest.mark.parametrize(("text", "kind"), CORPUS)


class World:
    """A memory, a private folder beside it, and links from each to each."""

    def __init__(self, folder: Path) -> None:
        self.home, self.alias = folder / "home", folder / "alias"
        # As a pattern it would match the folder beside it.
        self.root, self.name = folder / "ro[o]t", "ro[o]t"
        (self.root / "notes").mkdir(parents=True)
        for name in ("private", "private/deep", "../root", "../ro[o]tbeside"):
            (self.home / name).mkdir(parents=True)
            for file in ("secret.md", "secret.jsonl", "secret.json"):
                (self.home / name / file).write_text(json.dumps({"agents": SECRET}))
        for file in ("MEMORY.md", "notes/a.md", "notes/s.jsonl"):
            (self.root / file).write_text("{}\n")
        links = {"out": "../home/private", "notes/out": "../../home/private", "twice": "out"}
        links |= {"file.md": "../home/private/secret.md", "dangling": "../home/gone", "up": ".."}
        for link, target in {
            **links,
            "loop": "loop",
            "back": "notes",
            "../alias": self.name,
        }.items():
            (self.root / link).symlink_to(target)

    def holds(self, scope: Scope) -> bool:
        """Tell whether a scope stays within this world: the machine's own files are left alone."""
        folder, names = str(self.root.parent), scope.settings.extra_paths
        return "\0" in "".join(names) or all(is_inside(base, folder) for base in bases_of(scope))

    def path(self, text: str) -> str:
        """Fill a path of the corpus in."""
        for name in ("home", "root", "alias", "name"):
            text = text.replace(f"{{{name}}}", str(getattr(self, name)))
        return text_of(text)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return World(tmp_path)


def check_unlinked(files: tuple[SourceFile, ...], root: Path, kind: str) -> None:
    """Check that files are reached through no link, and without trust below the root alone."""
    for file in files:
        assert file.absolute.resolve() == Path(file.base).resolve() / file.absolute.relative_to(
            file.base
        )
        assert kind == "outside" or is_inside(str(file.absolute), str(root))


@every_path
def test_a_strangers_file_names_nothing_outside(world: World, text: str, kind: str) -> None:
    path, needs_trust = world.path(text), []
    for key in ("memory.extra_paths", "transcripts.paths"):
        if kind == "outside":
            needs_trust.append(key)
        for value in ([path], ["notes", path]):
            assert protected_keys({key: value}, world.root) == tuple(needs_trust[-1:])
    if path.isprintable() and path.isascii():
        table = f"[memory]\nextra_paths = {toml_value([path])}\n"
        (world.root / ".memtui.toml").write_text(table)
        loaded = load_settings(env={}, root=world.root, state=StateFolder(world.home / "state"))
        assert [one.code for one in loaded.problems] == ["protected"] * len(needs_trust[:1])
        assert loaded.settings.memory.extra_paths == (() if needs_trust else (path,))


@every_path
def test_notes_are_found_through_no_link_and_watched(world: World, text: str, kind: str) -> None:
    scope = Scope(world.root, MemorySettings(extra_paths=(world.path(text),)))
    files = discover(scope).files if world.holds(scope) else ()
    check_unlinked(files, world.root, kind)
    folders = [folder.real for folder in watched_folders(scope)]
    for file in files:
        assert may_contain(str(file.absolute), scope)
        assert any(is_inside(str(file.absolute), folder) for folder in folders)
        text_there = read_document(file).text
        assert kind == "outside" or SECRET not in text_there
        source = read_source(world.root, file.path, None, "", bases_of(scope))
        assert (source.state, source.lines) == ("current", text_there.split("\n"))


@every_path
def test_conversations_are_found_through_no_link(world: World, text: str, kind: str) -> None:
    settings = Settings(transcripts=TranscriptSettings(paths=(world.path(text),)))
    scope = transcript_scope_of(settings, world.root, homes=TranscriptHomes())
    notes = Scope(world.root, MemorySettings(extra_paths=scope.paths))
    files = discover_transcripts(scope).files if world.holds(notes) else ()
    check_unlinked(files, world.root, kind)
    for file in files:
        with open_lines(file) as lines:
            assert kind == "outside" or all(
                SECRET.encode() not in (one.data or b"") for one in lines
            )


@every_path
def test_a_place_that_somebody_asks_for_is_of_the_memory(
    world: World, text: str, kind: str
) -> None:
    for path in spellings(world.path(text), world.root):
        looked_at = look_at(Scope(world.root), path)
        if isinstance(looked_at, SourceFile):
            assert SECRET not in read_document(looked_at).text
    include = world.root / "openclaw.json"
    include.write_text(json.dumps({"agents": {"$include": world.path(text)}}))
    with suppress(Unreadable):
        assert SECRET not in str(read_sections(include, ["agents"])[0])


@pytest.mark.parametrize("walks", [True, False], ids=["walk", "comparison"])
@pytest.mark.parametrize(
    "name", ["out/secret.md", "notes/out/secret.md", "file.md", "up/alias/out"]
)
def test_no_component_below_the_base_is_a_link_when_a_file_is_opened(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, walks: bool
) -> None:
    if not walks:
        monkeypatch.setattr(os, "supports_dir_fd", frozenset[Callable[..., object]]())
    file = SourceFile(name, world.alias / name, "memory", 0, 0, 0, base=str(world.alias))
    with pytest.raises(OSError, match=r"symbolic links|regular"):
        read_document(file)
    # The base itself may be reached through links.
    note = SourceFile("", world.alias / "notes/a.md", "memory", 0, 0, 0, base=str(world.alias))
    assert read_document(note).text == "{}\n"
