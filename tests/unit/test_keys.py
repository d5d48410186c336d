"""Where the key of a service is found, where it may go, and that nothing shows it."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, NoKeyringError

from memtui.embedding.api_keys import FoundKey, find_key, key_of_command, key_of_keyring
from memtui.embedding.services import SERVICES, address_of
from memtui.errors import Cancelled
from memtui.settings.schema import EmbeddingSettings
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


def openclaw(home: Path, document: Mapping[str, Any]) -> None:
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(document), encoding="utf-8")


def find(
    home: Path,
    places: dict[str, Any] | None = None,
    *,
    service: str = "openai",
    base_url: str = "",
    **env: str,
) -> FoundKey:
    chosen = SERVICES[service]
    choice = EmbeddingSettings(provider=service, base_url=base_url, **(places or {}))
    return find_key(chosen, address_of(chosen, base_url), choice, {"HOME": str(home), **env})


def look(home: Path, places: dict[str, Any] | None = None, provider: str = "openai") -> FoundKey:
    choice = EmbeddingSettings(provider=provider, **(places or {}))
    env = {"HOME": str(home), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}
    return find_key(OPENAI, address_of(OPENAI), choice, env, only_look=True)


def python(program: str) -> str:
    """A command line that runs a program of one line."""
    return f"'{sys.executable}' -c \"{program}\""


def test_the_variables_of_a_service(home: Path) -> None:
    assert find(home, OPENAI_API_KEY=KEY) == FoundKey(KEY, "OPENAI_API_KEY")
    assert find(home, service="gemini", GOOGLE_API_KEY=OTHER).origin == "GOOGLE_API_KEY"
    both = find(home, service="gemini", GOOGLE_API_KEY=OTHER, GEMINI_API_KEY=KEY)
    assert (both.value, both.origin) == (KEY, "GEMINI_API_KEY")
    assert find(home, OPENAI_API_KEY="  ") == FoundKey()
    assert not find(home, MISTRAL_API_KEY=KEY).is_there


def test_a_key_that_lies_there_goes_to_the_services_own_host_alone(home: Path) -> None:
    found = find(home, base_url=ELSEWHERE, OPENAI_API_KEY=KEY)
    assert found.value == ""
    assert not found.is_there
    assert found.withheld == (
        "the key in OPENAI_API_KEY is meant for api.openai.com and not sent to "
        "embeddings.example; embedding.key_env names one that is"
    )
    assert find(home, base_url="http://127.0.0.1:8080/v1", OPENAI_API_KEY=KEY).value == KEY
    assert find(home, base_url="http://[::1]:8080/v1", OPENAI_API_KEY=KEY).value == KEY
    plain = find(home, base_url="http://api.openai.com/v1", OPENAI_API_KEY=KEY)
    assert plain.value == ""
    assert plain.withheld == "the key in OPENAI_API_KEY is sent to api.openai.com over https alone"


def test_where_a_place_is_named_no_other_is_looked_at(home: Path) -> None:
    found = find(home, {"key_env": "TEAM_KEY"}, OPENAI_API_KEY=KEY)
    assert found == FoundKey(problem="the variable TEAM_KEY (embedding.key_env) is not set")
    failing = {"key_command": python("raise SystemExit(3)")}
    assert not find(home, failing, OPENAI_API_KEY=KEY).is_there


@pytest.mark.parametrize("value", [f"{KEY}\nX-Other: 1", f"{KEY}\x7f", f"{KEY}é"])
def test_what_cannot_be_sent_is_no_key(home: Path, value: str) -> None:
    found = find(home, OPENAI_API_KEY=value)
    assert found.value == ""
    assert found.problem == "OPENAI_API_KEY holds characters that cannot be sent as a key"
    named = find(home, {"key_env": "TEAM_KEY"}, TEAM_KEY=value)
    assert not named.is_there
    assert "SECRET" not in f"{found} {named}"


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
        find_key(OPENAI, address_of(OPENAI), choice, {"HOME": str(home)}, cancelled=cancelled)
    assert time.monotonic() - stopped[0] < 1.0
    assert time.monotonic() - asked < 9.0


def assert_ended(pid: int) -> None:
    """A process that is dead, or is dead and waits for its parent to take notice."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        threading.Event().wait(0.02)
    raise AssertionError(f"process {pid} still runs")


def test_the_keyring(home: Path) -> None:
    backend = MemoryKeyring({("memtui", "openai"): OTHER, ("memtui", "gemini"): KEY})
    keyring.set_keyring(backend)
    assert find(home, OPENAI_API_KEY=KEY) == FoundKey(OTHER, "the keyring")
    assert find(home, base_url=ELSEWHERE).value == OTHER
    assert find(home, service="gemini").value == KEY
    assert find(home, service="voyage", VOYAGE_API_KEY=KEY).origin == "VOYAGE_API_KEY"
    backend.asked.clear()
    assert not find(home, {"keyring": False}).is_there
    assert not backend.asked


def test_a_keyring_that_refuses(home: Path) -> None:
    keyring.set_keyring(MemoryKeyring({}, KeyringLocked("SECRET of the wallet")))
    found = find(home)
    assert found == FoundKey(problem="the keyring could not be asked: KeyringLocked")
    with_variable = find(home, OPENAI_API_KEY=KEY)
    assert (with_variable.value, with_variable.problem) == (KEY, found.problem)


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
    assert (named.is_there, named.value) == (True, "")
    assert named.origin == "embedding.key_command"
    asked_for = look(home)
    assert (asked_for.is_there, asked_for.origin) == (True, "the keyring, if it holds one")
    assert not look(home, provider="auto").is_there
    choice = EmbeddingSettings(provider="openai")
    address, env = address_of(OPENAI), {"HOME": str(home)}
    assert not find_key(OPENAI, address, choice, env, only_look=True).is_there
    chosen = home / ".config" / "python_keyring" / "keyringrc.cfg"
    chosen.parent.mkdir(parents=True)
    chosen.write_text("[backend]\n")
    assert find_key(OPENAI, address, choice, env, only_look=True).is_there
    assert not look(home, {"keyring": False}).is_there
    assert not look(home, {"key_env": "TEAM_KEY"}).is_there
    assert not witness.exists()
    assert not backend.asked


SEARCH = "remote.apiKey"


@pytest.mark.parametrize("new", [False, True])
def test_a_key_of_openclaw(home: Path, new: bool) -> None:
    search = {"provider": "openai", "remote": {"apiKey": OTHER}}
    old = {"agents": {"defaults": {"memorySearch": search}}}
    openclaw(home, {"memory": {"search": search}} if new else old)
    assert find(home) == FoundKey(OTHER, f"OpenClaw's configuration ({SEARCH})")
    assert find(home, OPENAI_API_KEY=KEY).value == KEY
    assert not find(home, service="gemini").is_there
    assert not find(home, {"agent_keys": False}).is_there
    assert not find(home, base_url=ELSEWHERE).is_there
    assert find(home, base_url="http://localhost:1234").value == OTHER


def test_a_key_of_openclaw_goes_where_openclaw_sends_it(home: Path) -> None:
    remote = {"apiKey": OTHER, "baseUrl": f"{ELSEWHERE}/?token=SECRET"}
    openclaw(home, {"memory": {"search": {"provider": "openai", "remote": remote}}})
    own_host = find(home)
    assert own_host.value == ""
    assert "meant for embeddings.example and not sent to api.openai.com" in own_host.withheld
    assert find(home, base_url="https://embeddings.example:443/other").value == OTHER
    for other in ("http://embeddings.example", "https://embeddings.example:444", "http://[::1]"):
        found = find(home, base_url=other)
        assert found.value == ""
        assert "SECRET" not in repr(found)


def test_keys_of_models_providers(home: Path) -> None:
    providers = {"google": {"apiKey": OTHER}, "mistral": {"apiKey": KEY, "baseUrl": ELSEWHERE}}
    openclaw(home, {"models": {"providers": providers}})
    found = find(home, service="gemini")
    assert found == FoundKey(OTHER, "OpenClaw's configuration (models.providers apiKey)")
    assert not find(home, service="mistral").is_there
    assert find(home, service="mistral", base_url=ELSEWHERE).value == KEY


def profiles(home: Path, store: object, agent: str = "main") -> None:
    folder = home / ".openclaw" / "agents" / agent / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "auth-profiles.json").write_text(json.dumps(store), encoding="utf-8")


def profile(provider: str, key: object, **more: object) -> dict[str, object]:
    return {"type": "api_key", "provider": provider, "key": key, **more}


def test_a_key_of_a_profile(home: Path) -> None:
    store = {"openai:default": profile("OpenAI", OTHER), "google:default": profile("google", KEY)}
    profiles(home, {"version": 1, "profiles": store})
    found = find(home)
    assert found == FoundKey(OTHER, "OpenClaw's configuration (auth-profiles.json)")
    assert "SECRET" not in repr(found)
    assert find(home, service="gemini").value == KEY
    assert not find(home, service="voyage").is_there
    assert find(home, OPENAI_API_KEY=KEY).value == KEY
    assert not find(home, {"agent_keys": False}).is_there
    elsewhere = find(home, base_url=ELSEWHERE)
    assert elsewhere.value == ""
    assert "auth-profiles.json) is meant for api.openai.com" in elsewhere.withheld


def test_a_profile_goes_where_models_providers_sends_it(home: Path) -> None:
    profiles(home, {"profiles": {"o": profile("openai", OTHER)}})
    openclaw(home, {"models": {"providers": {"openai": {"baseUrl": ELSEWHERE}}}})
    assert find(home).value == ""
    assert find(home, base_url=ELSEWHERE).value == OTHER
    openclaw(home, {"models": {"providers": {"openai": {"baseUrl": "${GONE_URL}"}}}})
    assert find(home).value == find(home, base_url=ELSEWHERE).value == ""
    (home / ".openclaw" / "openclaw.json").write_text("{", encoding="utf-8")
    assert find(home).value == ""


def test_no_key_goes_anywhere_while_an_include_may_say_where(home: Path) -> None:
    providers = {"openai": {"$include": "gone.json", "apiKey": OTHER}}
    openclaw(home, {"models": {"providers": providers}})
    profiles(home, {"profiles": {"o": profile("openai", OTHER)}})
    found = find(home)
    assert found.value == ""
    assert "gone.json" in found.problem
    (home / ".openclaw" / "gone.json").write_text(json.dumps({"baseUrl": ELSEWHERE}))
    assert find(home).value == ""
    assert find(home, base_url=ELSEWHERE).value == OTHER


@pytest.mark.parametrize(("key", "why"), load("services")["unreadable_keys"])
def test_a_key_of_openclaw_that_cannot_be_read(home: Path, key: object, why: str) -> None:
    openclaw(home, {"memory": {"search": {"provider": "openai", "remote": {"apiKey": key}}}})
    found = find(home)
    assert not found.is_there
    assert why in found.problem
    assert "SECRET" not in repr(found)
