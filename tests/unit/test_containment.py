"""One corpus of paths, tried on everything that takes a path which a stranger may have written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from memtui.embedding.gguf import find_model
from memtui.engine.engine import data_dir_of
from memtui.engine.places import read_source, spellings
from memtui.index.transcripts.discovery import TranscriptScope, discover_transcripts
from memtui.index.transcripts.reading import open_lines
from memtui.index.watcher import watched_folders
from memtui.memory.discover import Scope, bases_of, discover, look_at, may_contain
from memtui.memory.documents import read_document, split_lines
from memtui.model import SourceFile
from memtui.settings.containment import is_inside
from memtui.settings.files import StateFolder
from memtui.settings.load import SettingsFiles
from memtui.settings.openclaw.read import Unreadable, read_sections
from memtui.settings.schema import MemorySettings, Settings, protected_keys
from memtui.settings.toml import toml_value
from tests.support.known import load, text_of
from tests.support.small_memory import write_notes

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX names and links")

SECRET = "the secret of somebody else"
CORPUS = [
    pytest.param(text, kind == "outside", id=f"{about}-{number}")
    for about, kind, texts in load("paths")["paths"]
    for number, text in enumerate(texts)
]
every_path = pytest.mark.parametrize(("text", "is_outside"), CORPUS)


class World:
    """A memory, a private folder beside it, and links from each to each."""

    def __init__(self, folder: Path) -> None:
        # As a pattern the root's name would match the folder `root` beside it.
        self.folder, self.name = folder, "ro[o]t"
        self.root, self.home, self.alias = folder / self.name, folder / "home", folder / "alias"
        files = {
            f"{self.name}/{file}": "{}\n" for file in ("MEMORY.md", "notes/a.md", "notes/s.jsonl")
        }
        for name in ("home/private", "home/private/deep", "root", f"{self.name}beside"):
            files |= {f"{name}/secret.{end}": f'{{"a": "{SECRET}"}}' for end in ("md", "jsonl")}
        write_notes(folder, files)
        links = {"out": "../home/private", "notes/out": "../../home/private", "twice": "out"}
        links |= {"file.md": "../home/private/secret.md", "dangling": "../home/gone", "up": ".."}
        links |= {"loop": "loop", "back": "notes", "../alias": self.name}
        for link, target in links.items():
            (self.root / link).symlink_to(target)

    def path(self, text: str) -> str:
        """Fill a path of the corpus in."""
        for name in ("home", "root", "alias", "name"):
            text = text.replace(f"{{{name}}}", str(getattr(self, name)))
        return text_of(text)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return World(tmp_path)


@every_path
def test_a_strangers_file_names_nothing_outside(world: World, text: str, is_outside: bool) -> None:
    path = world.path(text)
    for key in ("memory.extra_paths", "transcripts.paths"):
        for value in ([path], ["notes", path]):
            assert protected_keys({key: value}, world.root) == ((key,) if is_outside else ())
    if path.isprintable() and path.isascii():
        table = f"[memory]\nextra_paths = {toml_value([path])}\n"
        (world.root / ".memtui.toml").write_text(table)
        loaded = SettingsFiles(
            env={}, root=world.root, state=StateFolder(world.home / "state")
        ).load()
        assert [one.code for one in loaded.problems] == ["protected"] * is_outside
        assert loaded.settings.memory.extra_paths == (() if is_outside else (path,))


@every_path
def test_files_are_found_through_no_link_and_watched(
    world: World, text: str, is_outside: bool
) -> None:
    path = world.path(text)
    scope = Scope(world.root, MemorySettings(extra_paths=(path,)))
    folders = [folder.real for folder in watched_folders(scope)]
    # This machine's own files are left alone.
    is_here = "\0" in path or all(is_inside(base, str(world.folder)) for base in bases_of(scope))
    transcripts = TranscriptScope(world.root, paths=(path,))
    notes = discover(scope).files if is_here else ()
    conversations = discover_transcripts(transcripts).files if is_here else ()
    for file in (*notes, *conversations):
        base, place = Path(file.base), str(file.absolute)
        assert file.absolute.resolve() == base.resolve() / file.absolute.relative_to(base)
        assert is_outside or is_inside(place, str(world.root))
        assert any(is_inside(place, folder) for folder in folders)
        assert may_contain(place, scope)
    for file in notes:
        source = read_source(bases_of(scope), file.path, None, "")
        assert (source.state, source.lines) == ("current", split_lines(read_document(file).text))
    for file in conversations:
        with open_lines(file) as lines:
            assert next(lines).number == 1


@every_path
def test_a_place_that_somebody_asks_for_is_of_the_memory(
    world: World, text: str, is_outside: bool
) -> None:
    for path in spellings(world.path(text), world.root):
        file = look_at(Scope(world.root), path)
        assert not isinstance(file, SourceFile) or SECRET not in read_document(file).text
    include = world.root / "openclaw.json"
    include.write_text(json.dumps({"agents": {"$include": world.path(text)}}))
    with suppress(Unreadable):
        assert not is_outside or SECRET not in str(read_sections(include, ["agents"])[0])


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u00a0", "\u2003"])
def test_every_path_of_the_settings_has_one_form(world: World, blank: str) -> None:
    settings = Settings.parse(
        {"index": {"data_dir": f"{blank}~/x "}, "embedding": {"model_path": f"{blank}~/x "}}
    )
    assert data_dir_of(settings) == world.home / "x"
    assert find_model(settings.embedding)[0] == world.home / "x"


@pytest.mark.parametrize("walks", [True, False], ids=["walk", "comparison"])
@pytest.mark.parametrize(
    "name", ["out/secret.md", "notes/out/secret.md", "file.md", "up/alias/out"]
)
def test_no_component_below_the_base_is_a_link_when_a_file_is_opened(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, walks: bool
) -> None:
    if not walks:
        monkeypatch.setattr(os, "supports_dir_fd", frozenset[Callable[..., object]]())
    file = SourceFile(name, str(world.alias / name), "memory", 0, 0, 0, base=str(world.alias))
    with pytest.raises(OSError, match=r"symbolic links|regular"):
        read_document(file)
    # The base itself may be reached through links.
    note = SourceFile("", f"{world.alias}/notes/a.md", "memory", 0, 0, 0, base=str(world.alias))
    assert read_document(note).text == "{}\n"
