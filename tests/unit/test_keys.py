"""Where the key of a service is found, where it may go, and that nothing shows it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, NoKeyringError

from memtui.embedding.api_keys import FoundKey, find_key, key_of_command, key_of_keyring
from memtui.embedding.services import SERVICES
from memtui.errors import Cancelled
from memtui.settings.schema import EmbeddingSettings
from tests.support.interrupted import assert_ended
from tests.support.known import load

KEY = "sk-SECRET-of-the-environment"
OTHER = "sk-SECRET-of-somewhere-else"
OPENAI, GEMINI = SERVICES["openai"], SERVICES["gemini"]
ELSEWHERE = "https://embeddings.example/v1"


class MemoryKeyring(KeyringBackend):
    """A keyring in memory, which may refuse or hang."""

    def __init__(
        self, entries: Mapping[tuple[str, str], str], error: Exception | None = None
    ) -> None:
        self.entries = dict(entries)
        self.error = error
        self.asked: list[tuple[str, str]] = []
        self.hold = threading.Event()
        self.hold.set()

    def get_password(self, service: str, username: str) -> str | None:
        self.asked.append((service, username))
        self.hold.wait(30)
        if self.error is not None:
            raise self.error
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    """No test asks the keyring of whoever runs it."""
    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring({}, NoKeyringError()))
    yield
    keyring.set_keyring(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw").mkdir()
    return tmp_path


def find(
    home: Path,
    places: dict[str, Any] | None = None,
    *,
    service: str = "openai",
    base_url: str = "",
    only_look: bool = False,
    **env: str,
) -> FoundKey:
    chosen, named = SERVICES[service], {"provider": service, **(places or {})}
    choice, own = EmbeddingSettings(base_url=base_url, **named), {"HOME": str(home), **env}
    return find_key(chosen, chosen.address(base_url), choice, own, only_look=only_look)


look = partial(find, only_look=True, DBUS_SESSION_BUS_ADDRESS="unix:path=/nowhere")


def python(program: str) -> str:
    """A command line that runs a program of one line."""
    return f"'{sys.executable}' -c \"{program}\""


@pytest.mark.parametrize(("_about", "files", "asked"), load("keys"))
def test_which_key_goes_where(
    tmp_path: Path, _about: str, files: dict[str, Any], asked: list[Any]
) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    for service, base_url, places, env, expected in asked:
        found = find(tmp_path, places, service=service, base_url=base_url, **env)
        told = {name: value.replace(str(tmp_path), "HOME") for name, value in asdict(found).items()}
        assert {name: value for name, value in told.items() if value} == expected
        assert "SECRET" not in repr(found)


def test_where_a_place_is_named_no_other_is_looked_at(home: Path) -> None:
    found = find(home, {"key_env": "TEAM_KEY"}, OPENAI_API_KEY=KEY)
    assert found == FoundKey(problem="the variable TEAM_KEY (embedding.key_env) is not set")
    failing = {"key_command": python("raise SystemExit(3)")}
    assert not find(home, failing, OPENAI_API_KEY=KEY).origin


def test_a_command_prints_the_key(home: Path) -> None:
    places = {"key_command": python(f"print('{OTHER}'); print('second line')")}
    found = find(home, places, base_url=ELSEWHERE, OPENAI_API_KEY=KEY)
    assert found == FoundKey(OTHER, "embedding.key_command")
    assert "SECRET" not in repr(found)


def test_a_command_gets_no_shell_and_no_input(home: Path) -> None:
    witness = home / "touched"
    places = {"key_command": f"echo $HOME; touch {witness}"}
    assert find(home, places).value == f"$HOME; touch {witness}"
    assert not witness.exists()
    reads = {"key_command": python("import sys; print(len(sys.stdin.read()))")}
    assert find(home, reads).value == "0"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program-of-memtui --token SECRET", "cannot be started: No such file"),
        ("echo 'SECRET", "has a quote that does not end"),
        ("   ", "is empty"),
        ("true", "prints nothing"),
        (python("print(); print('  ')"), "prints nothing"),
        (python("import os; os.kill(os.getpid(), 15)"), "was ended by signal 15"),
        (python("print('SECRET' * 20000)"), "prints more than 65536 bytes"),
        (python("while True: print('SECRET' * 1000)"), "prints more than 65536 bytes"),
    ],
)
def test_a_command_that_gives_no_key(home: Path, command: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as raised:
        key_of_command(command, os.environ)
    assert "SECRET" not in str(raised.value)
    found = find(home, {"key_command": command})
    assert why in found.problem
    assert "SECRET" not in repr(found)
    assert "\n" not in found.problem


def test_a_command_is_ended_with_what_it_started(home: Path) -> None:
    pid_file = home / "pid"
    program = (
        "import subprocess, sys; "
        f"child = subprocess.Popen(['sleep', '60']); open('{pid_file}', 'w').write(str(child.pid)); "
        "child.wait()"
    )
    with pytest.raises(ValueError, match=r"took longer than 0\.5 s"):
        key_of_command(python(program), os.environ, limit=0.5)
    assert_ended(int(pid_file.read_text()))


def test_a_command_is_cancelled(home: Path) -> None:
    ready = home / "ready"
    program = f"open('{ready}', 'w').close(); import threading; threading.Event().wait(60)"
    asked = time.monotonic()
    stopped: list[float] = []

    def cancelled() -> bool:
        if ready.exists() and not stopped:
            stopped.append(time.monotonic())
        return bool(stopped)

    choice = EmbeddingSettings(provider="openai", key_command=python(program))
    with pytest.raises(Cancelled):
        find_key(OPENAI, OPENAI.address(), choice, {"HOME": str(home)}, cancelled=cancelled)
    assert time.monotonic() - stopped[0] < 1.0
    assert time.monotonic() - asked < 9.0


def test_the_keyring(home: Path) -> None:
    backend = MemoryKeyring({("memtui", "openai"): OTHER, ("memtui", "gemini"): KEY})
    keyring.set_keyring(backend)
    assert find(home, OPENAI_API_KEY=KEY) == FoundKey(OTHER, "the keyring")
    assert find(home, base_url=ELSEWHERE).value == OTHER
    assert find(home, service="gemini").value == KEY
    assert find(home, service="voyage", VOYAGE_API_KEY=KEY).origin == "VOYAGE_API_KEY"
    backend.asked.clear()
    assert not find(home, {"keyring": False}).origin
    assert not backend.asked


def test_a_keyring_that_refuses(home: Path) -> None:
    keyring.set_keyring(MemoryKeyring({}, KeyringLocked("SECRET of the wallet")))
    found = find(home)
    assert found == FoundKey(problem="the keyring could not be asked: KeyringLocked")
    assert find(home, OPENAI_API_KEY=KEY).value == KEY


def test_a_keyring_that_hangs_is_asked_once() -> None:
    backend = MemoryKeyring({("memtui", "mistral"): KEY})
    backend.hold.clear()
    keyring.set_keyring(backend)
    for _ in range(3):
        with pytest.raises(ValueError, match=r"did not answer within 0\.05 s; it may be locked"):
            key_of_keyring("mistral", limit=0.05)
    assert backend.asked == [("memtui", "mistral")]
    with pytest.raises(Cancelled):
        key_of_keyring("mistral", cancelled=lambda: True)
    backend.hold.set()
    assert key_of_keyring("mistral") == KEY
    assert backend.asked == [("memtui", "mistral")]


def test_a_look_runs_nothing(home: Path) -> None:
    backend = MemoryKeyring({("memtui", "openai"): OTHER})
    keyring.set_keyring(backend)
    witness = home / "ran"
    named = look(home, {"key_command": f"touch {witness}"})
    assert (bool(named.origin), named.value) == (True, "")
    assert named.origin == "embedding.key_command"
    asked_for = look(home)
    assert asked_for.origin == "the keyring, if it holds one"
    assert not look(home, {"provider": "auto"}).origin
    assert not find(home, only_look=True).origin
    chosen = home / ".config" / "python_keyring" / "keyringrc.cfg"
    chosen.parent.mkdir(parents=True)
    chosen.write_text("[backend]\n")
    assert find(home, only_look=True).origin
    assert not look(home, {"keyring": False}).origin
    assert not look(home, {"key_env": "TEAM_KEY"}).origin
    assert not witness.exists()
    assert not backend.asked
