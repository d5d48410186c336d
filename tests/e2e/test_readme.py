"""Every command in the README does what it says, and every link in it leads somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from memtui.settings.actions import ALL_ACTIONS
from memtui.settings.load import SettingsFiles
from tests.e2e.terminal import private_environment, terminal
from tests.support import command_line, demo, recorded

README = Path(__file__).parents[2] / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
INSTALL, TEST = (block.strip() for block in BLOCKS[:2])
COMMANDS = [line for block in BLOCKS[2:] for line in block.strip().splitlines()]


def run(line: str, home: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)
    assert words[0] == "memtui"
    return command_line.call(words[1:], environment=private_environment(home), folder=folder)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, indexed_demo: Path) -> Path:
    """A home folder with the demo indexed and an agent in it, whose program's answers are known."""
    folder = tmp_path_factory.mktemp("home")
    demo.copy_to(folder / "data", indexed_demo)
    recorded.build("2026.4.26", folder / ".openclaw" / "memory" / "main.sqlite")
    settings = "{agents: {defaults: {memorySearch: {query: {maxResults: 8}}}}}"
    (folder / ".openclaw" / "openclaw.json").write_text(settings, encoding="utf-8")
    return folder


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_readme_works(line: str, home: Path, tmp_path: Path) -> None:
    answers = recorded.recording("2026.4.26-default", tmp_path)
    answers.rename(tmp_path / "answers.json")
    shutil.copy(recorded.QUERY_VECTORS, tmp_path / "vectors.json")
    done = run(line, home, tmp_path)
    assert done.returncode == 0, done.stderr
    if "--output" in line:
        assert (tmp_path / shlex.split(line)[-1]).stat().st_size
    else:
        assert done.stdout.strip()


def test_the_first_command_installs_and_opens_the_demo(tmp_path: Path) -> None:
    assert INSTALL.endswith(".venv/bin/memtui demo")
    assert ".venv/bin/pip install --quiet ." in INSTALL
    with terminal("demo", home=tmp_path) as window:
        window.shows("files")
        window.press("C-q")
        window.ends()


def test_the_second_command_is_the_one_that_the_checks_run() -> None:
    assert "<!-- test command -->" in TEXT
    assert TEST.endswith(".venv/bin/python -m pytest")
    script = (README.parent / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script


def test_what_the_tests_install_is_locked_with_hashes() -> None:
    assert "--require-hashes --requirement requirements.lock" in TEST
    lock = (README.parent / "requirements.lock").read_text("utf-8")
    locked = re.findall(
        r"^([\w-]+)==(\S+)[^\n]*\\\n +--hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE
    )
    assert len(locked) == len(re.findall(r"^[\w-]", lock, re.MULTILINE))
    project = tomllib.loads((README.parent / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    names = ("dev", "multilingual", "fast", "gguf", "keyring")
    lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
    for wanted in map(Requirement, chain(*lists, *(extras[name] for name in names))):
        versions = [version for name, version in locked if name == canonicalize_name(wanted.name)]
        assert versions or wanted.name == "memtui", wanted
        assert all(version in wanted.specifier for version in versions), wanted


def test_the_example_configuration_is_valid(tmp_path: Path) -> None:
    examples = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    user_file = tmp_path / "config.toml"
    user_file.write_text("\n".join(examples), encoding="utf-8")
    loaded = SettingsFiles(env={"MEMTUI_CONFIG": str(user_file)}, root=tmp_path).load()
    assert loaded.warnings == ()
    assert loaded.settings.ranking.decay.enabled is True


def test_every_key_in_the_table_is_bound() -> None:
    table = re.search(r"## Keys\n\n(.*?)\n\n", TEXT, re.DOTALL)
    assert table is not None
    names = {"↓": "down", "↑": "up", "esc": "escape", ",": "comma"}
    # The palette has its key from the library.
    bound = {"ctrl+p"} | {
        key.lower() if len(key) > 1 else key for action in ALL_ACTIONS for key in action.keys
    }
    for row in table[1].splitlines()[2:]:
        for written in re.findall(r"`([^`]+)`", "|".join(row.split("|")[1:3])):
            key = names.get(written, written.lower() if len(written) > 1 else written)
            assert key in bound, written


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", TEXT))
def test_a_link_leads_somewhere(target: str) -> None:
    assert (README.parent / target).exists()
