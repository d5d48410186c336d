"""Settings as they are shown, and that no command ever prints or keeps a key."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memtui.settings.shown import masked_text, shown_command, shown_value, shown_variable
from tests.support.command_line import Run, command_line, own_home, set_up
from tests.support.configured import known_answers
from tests.support.embedding import registered_hashed
from tests.support.embedding_services import EmbeddingServer, embedding_server, repeated_key
from tests.support.known import load

MARK = "SECRET"
KEY = f"sk-{MARK}-of-the-environment-0123456789"
ADDRESS = f"https://user{MARK}:pw{MARK}@embeddings.invalid/v1?key={MARK}#{MARK}"


@pytest.mark.parametrize(("show", "text", "shown"), known_answers("masked"))
def test_what_looks_like_a_key_is_masked(show: str, text: str, shown: str) -> None:
    shows = {one.__name__: one for one in (masked_text, shown_command, shown_variable)}
    assert shows[show](text) == shown


@pytest.mark.parametrize("part", ["://", "://a:", "https://u:x/", "a://x?", "'\"", "://@"])
def test_masking_takes_time_that_grows_with_the_text_alone(part: str) -> None:
    assert MARK not in masked_text(part * 100_000 + f" https://u:{MARK}@h")


def test_other_values_stay_as_they_are() -> None:
    assert shown_value("embedding.threads", 3) == 3
    assert shown_value("embedding.batch", True) is True
    assert shown_value("embedding.model", None) is None
    assert shown_value("memory.extra_paths", ("notes", f"x?token={MARK}")) == [
        "notes",
        "x?token=***",
    ]


# --- every command ------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


@pytest.fixture
def planted(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    """Keys in the environment, the settings, OpenClaw's files, and a service that repeats them."""
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("TEAM_KEY", f"team-{MARK}-key")
    openclaw = home / ".openclaw"
    openclaw.mkdir()
    remote = {"apiKey": f"sk-{MARK}-openclaw", "headers": {"X-Team": MARK}, "baseUrl": ADDRESS}
    search = {"provider": "openai", "remote": remote}
    document = {
        "agents": {"defaults": {"memorySearch": search}},
        "models": {"providers": {"google": {"apiKey": f"{MARK}-of-google"}}},
        "env": {"MISTRAL_API_KEY": f"{MARK}-of-mistral"},
    }
    (openclaw / "openclaw.json").write_text(json.dumps(document), encoding="utf-8")
    (openclaw / ".env").write_text(f"VOYAGE_API_KEY={MARK}-dotenv\n", encoding="utf-8")
    folder = home / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n\nThe router is on VLAN 30.\n")
    monkeypatch.setenv("MEMTUI_ROOT", str(folder))
    services = dict.fromkeys(("openai", "gemini", "voyage", "mistral"), "remote")
    known = {"minilm": "packaged", **services}
    monkeypatch.setattr("memtui.embedding.registry._MODULES", known)
    with embedding_server() as server, registered_hashed():
        user = home / "config" / "memtui" / "config.toml"
        user.parent.mkdir(parents=True)
        user.write_text(
            f'editor = "vi --api-key {KEY}"\n[embedding]\nprovider = "openai"\nmodel = "m"\n'
            f'base_url = "{server.url}/v1?key={MARK}"\nkey_command = "echo {KEY}"\n'
            'fallback = "hashed"\n'
        )
        yield server


COMMANDS = (
    ("config", "show"),
    ("config", "validate"),
    ("config", "path"),
    ("doctor",),
    ("doctor", "--probe"),
    ("providers",),
    ("index",),
    ("index", "--force"),
    ("index", "--dry-run", "--force"),
    ("status",),
    ("status", "--deep"),
    ("search", "router"),
    ("explain", "router"),
    ("trust", "--dry-run"),
    ("agents",),
    ("profiles",),
    ("config", "init", "--from-openclaw"),
    ("config", "init", "--from-openclaw", "--force"),
)


TELLING = (("config", "show"), ("config", "validate"), ("doctor",), ("providers",), ("index",))
"""Those that speak of settings that are wrong."""


def run_all(memtui: Run, commands: Sequence[tuple[str, ...]] = COMMANDS) -> str:
    """Everything that commands print, as text and as JSON."""
    told = []
    for command in commands:
        for form in ((), ("--json",)):
            answer = memtui(*command, *form)
            told.append(f"{command} {answer.code}\n{answer.out}{answer.err}")
    text = "\n".join(told)
    assert "should not have happened" not in text
    return text


def written_by_memtui(home: Path) -> dict[str, bytes]:
    """Every file below the folders of state, data and configuration that memtui wrote."""
    files = [path for name in ("state", "data") for path in (home / name).rglob("*")]
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def test_no_command_shows_or_keeps_a_key(memtui: Run, home: Path, planted: EmbeddingServer) -> None:
    told = run_all(memtui)
    assert any(KEY in seen.headers["authorization"] for seen in planted.seen)
    assert MARK not in told
    kept = written_by_memtui(home)
    assert any(name.endswith(".db") for name in kept)
    assert not [name for name, data in kept.items() if MARK.encode() in data]
    made = (home / "config" / "memtui" / "config.toml").read_text()
    assert made.startswith("# memtui: configuration, from ")
    assert MARK not in made


def test_no_command_shows_a_key_that_is_refused(
    memtui: Run, home: Path, planted: EmbeddingServer
) -> None:
    planted.faults, planted.stays = [repeated_key(401)], True
    told = run_all(memtui)
    assert "401" in told
    assert "vectors by hashed, because openai: HTTP 401" in told
    assert MARK not in told
    assert not [name for name, data in written_by_memtui(home).items() if MARK.encode() in data]


def test_no_crash_shows_or_keeps_a_key(
    memtui: Run, home: Path, planted: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(embedding: object) -> object:
        raise RuntimeError(f"Authorization: Bearer {KEY}")

    monkeypatch.setattr("memtui.engine.doctor.listed_by", fail)
    answer = memtui("providers")
    assert answer.code == 1
    assert "this should not have happened: RuntimeError" in answer.err
    log = (home / "state" / "memtui" / "crash.log").read_text()
    assert "RuntimeError: Authorization: Bearer ***" in log
    assert MARK not in answer.err + log


def test_no_command_shows_a_key_that_is_misplaced(
    memtui: Run, home: Path, planted: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home / "notes" / ".memtui.toml"
    own.write_text(
        f'[embedding]\napi_key = "{KEY}"\n"{KEY}" = 1\nkey_env = "{KEY}"\nmodel = ["{KEY}"]\n'
        f'base_url = "ftp://x:{MARK}@h/?key={MARK}"\nprovider = "{KEY}"\nkey_command = 3\n'
    )
    told = run_all(memtui, TELLING)
    assert "must be the name of an environment variable, not the key" in told
    assert "no key is kept here" in told
    assert MARK not in told
    own.write_text(f'[embedding]\nkey_env = "AIza{MARK}0123456789abcdefghijklmnopq"\n')
    assert memtui("trust").code == 0
    assert MARK not in run_all(memtui, TELLING)
    own.unlink()
    set_up(monkeypatch, base_url=f"gopher://{MARK}@h/?q={MARK}", key_env=KEY)
    assert MARK not in run_all(memtui, TELLING)
    assert not [name for name in os.listdir(home / "here") if MARK in name]


@pytest.mark.parametrize("setting", load("settings")["commands_that_show_keys"])
def test_no_command_shows_a_key_without_a_prefix(
    memtui: Run, home: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    plain = f"aB3dE5fG7hI9{MARK}1mN3pQ5rS7t"
    user = home / "config" / "memtui" / "config.toml"
    user.parent.mkdir(parents=True)
    first = "" if setting.startswith("provider") else 'provider = "openai"\n'
    user.write_text(f"[embedding]\n{first}{setting.format(plain)}\n")
    notes = home / "notes"
    notes.mkdir()
    (notes / "MEMORY.md").write_text("# Memory\n\nThe router is on VLAN 30.\n")
    monkeypatch.setenv("MEMTUI_ROOT", str(notes))
    set_up(monkeypatch, keyring=False)
    told = run_all(memtui, (*TELLING, ("status", "--deep"), ("search", "router")))
    assert MARK not in told
    assert not [name for name, data in written_by_memtui(home).items() if MARK.encode() in data]
