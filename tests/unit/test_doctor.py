"""`memtui doctor`: what it finds, what it says is wrong, and what it asks of whom."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.engine import doctor
from memtui.engine.doctor import GRAVEST_FIRST, Check, Examination
from memtui.index.watcher import WatchLimitReached
from tests.support.command_line import Answer, Run, command_line, own_home, set_up
from tests.support.embedding import registered_hashed
from tests.support.embedding_services import EmbeddingServer, embedding_server, repeated_key
from tests.support.known import load

KEY = "sk-SECRET-that-nobody-may-see-0123456789"
ELSEWHERE = "https://embeddings.invalid/v1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


@pytest.fixture
def notes(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / "notes"
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Memory\n\nThe router is on VLAN 30.\n")
    (folder / "memory" / "2026-02-10.md").write_text("A brass lantern.\n")
    monkeypatch.setenv("MEMTUI_ROOT", str(folder))
    return folder


@pytest.fixture
def indexed(notes: Path, memtui: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notes with an index of keywords alone, which takes no model."""
    with monkeypatch.context() as patch:
        set_up(patch, provider="none")
        assert memtui("index").code == 0
    return notes


def of_area(answer: Answer, area: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in answer.document["checks"] if check["area"] == area}


def problems(answer: Answer) -> list[dict[str, Any]]:
    return [check for check in answer.document["checks"] if check["grade"] == "problem"]


def test_nothing_is_wrong(memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, provider="none")
    assert memtui("index").code == 0
    answer = memtui("doctor", "--json")
    assert (answer.code, answer.document["exit_code"], problems(answer)) == (0, 0, [])
    assert {check["area"] for check in answer.document["checks"]} == {
        *("program", "settings", "folders", "memory", "index", "watcher", "agents", "providers")
    }
    assert answer.document["root"] == str(notes)
    assert of_area(answer, "memory")["notes"]["detail"].startswith("2 files, ")
    assert of_area(answer, "index")["database"]["detail"] == "quick_check found nothing wrong"
    assert of_area(answer, "providers")["requested"]["detail"].startswith("none: keyword search")
    text = memtui("doctor")
    assert text.code == 0
    assert "nothing is wrong" in text.out


def test_without_a_memory_folder(memtui: Run) -> None:
    answer = memtui("doctor", "--json")
    assert answer.code == 2
    (missing,) = problems(answer)
    assert (missing["area"], missing["exit_code"]) == ("memory", 2)
    assert "no memory folder found" in missing["detail"]
    assert "memtui demo" in missing["hint"]
    assert of_area(answer, "program")["fts5"]["grade"] == "ok"
    assert of_area(answer, "providers")["requested"]["grade"] == "ok"
    assert memtui("doctor", "--root", "/nowhere-at-all").code == 2


def test_settings_that_are_broken(memtui: Run, indexed: Path) -> None:
    own = indexed / ".memtui.toml"
    own.write_text('[embedding]\nmodle = "x"\nthreads = -1\n\n[index]\nwatch = false\n')
    answer = memtui("doctor", "--json")
    assert answer.code == 2
    found = {check["name"]: check for check in problems(answer)}
    assert f"{own}:3" in found["embedding.threads"]["detail"]
    assert "did you mean embedding.model?" in found["embedding.modle"]["hint"]
    assert of_area(answer, "watcher")["watcher"]["detail"] == "off (index.watch)"
    own.write_text("[embedding\n")
    broken = memtui("doctor", "--json")
    assert broken.code == 2
    assert "broken TOML" in problems(broken)[0]["detail"]
    assert of_area(broken, "index")["index"]["detail"].startswith("2 files, 2 chunks, 0 vectors")


def test_without_a_place_for_settings(
    memtui: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*names: str, **options: object) -> Path:
        raise RuntimeError

    for place in ("user_config_path", "user_state_path"):
        monkeypatch.setattr(f"platformdirs.{place}", missing)
    answer = memtui("doctor", "--json")
    assert answer.code == 2
    assert {check["area"] for check in problems(answer)} == {"settings", "folders"}
    assert of_area(answer, "index")


def test_what_is_configured_is_told_with_its_place(
    memtui: Run, home: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config" / "memtui").mkdir(parents=True)
    user = home / "config" / "memtui" / "config.toml"
    user.write_text(f'[embedding]\nkey_command = "pass {KEY}"\nthreads = 3\n')
    set_up(monkeypatch, base_url=f"https://me:{KEY}@embeddings.invalid/v1?key={KEY}", threads=4)
    answer = memtui("doctor", "--json")
    assert {
        item["key"]: (item["value"], item["place"]) for item in answer.document["configured"]
    } == {
        "embedding.base_url": (
            "https://***@embeddings.invalid/v1?***",
            "$MEMTUI_EMBEDDING__BASE_URL",
        ),
        "embedding.key_command": ("pass …", f"{user}:2"),
        "embedding.threads": (4, "$MEMTUI_EMBEDDING__THREADS"),
    }
    text = memtui("doctor")
    assert f'key_command = "pass …"  # user {user}:2' in text.out
    assert "SECRET" not in answer.out + text.out + text.err


@pytest.mark.parametrize(
    ("fallback", "code"), [("none", 4), ("minilm", 1), ("use-multilingual", 1), ("gguf", 4)]
)
def test_a_provider_without_its_key(
    memtui: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch, fallback: str, code: int
) -> None:
    set_up(monkeypatch, provider="openai", fallback=fallback)
    answer = memtui("doctor", "--json")
    assert answer.code == code
    requested = of_area(answer, "providers")["requested"]
    assert (requested["grade"], requested["exit_code"]) == ("problem", code)
    assert "key" in requested["detail"]
    assert "OPENAI_API_KEY" in requested["hint"]
    if fallback == "gguf":
        assert of_area(answer, "providers")["fallback"]["grade"] == "problem"
    set_up(monkeypatch, provider="opanai")
    unknown = memtui("doctor", "--json")
    assert unknown.code == 2
    assert any("is named opanai" in check["detail"] for check in problems(unknown))


# --- probes -----------------------------------------------------------------------------------


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    """A server that is configured; beside it there is only a local provider that loads quickly."""
    module = {"openai": "remote"}
    monkeypatch.setattr("memtui.embedding.registry._MODULES", module)
    with embedding_server() as server, registered_hashed():
        url = f"{server.url}/v1"
        set_up(monkeypatch, provider="openai", base_url=url, model="m", fallback="hashed")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server


def test_a_service_that_answers(memtui: Run, indexed: Path, openai: EmbeddingServer) -> None:
    looked = memtui("doctor", "--json")
    assert looked.document["probes"] == []
    assert not openai.seen
    answer = memtui("doctor", "--probe", "--json")
    probes = {result["name"]: result for result in answer.document["probes"]}
    asked = probes["openai"]
    assert (asked["works"], asked["dimensions"], asked["address"]) == (True, 16, openai.host)
    assert 0 < asked["milliseconds"] < 10_000
    assert len(openai.seen) == 1
    assert openai.seen[0].headers["authorization"] == f"Bearer {KEY}"
    text = memtui("doctor", "--probe")
    assert "openai: answers with 16 numbers in " in text.out
    assert f"ms from {openai.host}" in text.out
    assert "SECRET" not in looked.out + answer.out + answer.err + text.out + text.err


@pytest.mark.parametrize(("fallback", "code"), [("hashed", 1), ("none", 4)])
def test_a_service_that_refuses(
    memtui: Run,
    indexed: Path,
    openai: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
    fallback: str,
    code: int,
) -> None:
    openai.faults, openai.stays = [repeated_key(401)], True
    set_up(monkeypatch, fallback=fallback)
    answer = memtui("doctor", "--probe", "--json")
    assert answer.code == code
    requested = of_area(answer, "providers")["requested"]
    assert requested["grade"] == "problem"
    assert "401" in requested["detail"]
    assert requested["hint"]
    (refused,) = (result for result in answer.document["probes"] if not result["works"])
    assert refused["failure"] == "key_refused"
    assert "SECRET" not in answer.out + answer.err
    assert memtui("doctor").code == 0


def test_a_fallback_that_made_the_index_is_a_problem(
    memtui: Run, indexed: Path, openai: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    openai.faults, openai.stays = [repeated_key(401)], True
    with registered_hashed():
        set_up(monkeypatch, fallback="hashed")
        assert memtui("index").code == 0
        answer = memtui("doctor", "--json")
    assert answer.code == 1
    made_by = of_area(answer, "index")["made by"]
    assert made_by["grade"] == "problem"
    assert made_by["detail"].startswith("of hashed, not of openai: openai: HTTP 401")
    requested = of_area(answer, "providers")["requested"]
    assert (requested["grade"], requested["exit_code"]) == ("problem", 1)
    assert requested["detail"].startswith("openai: HTTP 401")


def test_no_service_is_asked_that_is_not_configured(
    memtui: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    answer = memtui("doctor", "--probe", "--json")
    listings = {listing["name"]: listing for listing in answer.document["providers"]}
    assert listings["openai"]["works"]
    asked = [result["name"] for result in answer.document["probes"]]
    assert asked
    assert all(not listings[name]["address"] and not listings[name]["remote"] for name in asked)
    assert {"minilm", "use-multilingual", "wordllama"} <= set(asked)


# --- folders, watcher, agents, database ---------------------------------------------------------


def test_folders(memtui: Run, home: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "state").mkdir(exist_ok=True)
    state = home / "state" / "memtui"
    state.mkdir(mode=0o755, exist_ok=True)
    state.chmod(0o755)
    check = of_area(memtui("doctor", "--json"), "folders")["state"]
    assert (check["grade"], check["hint"]) == ("note", f"chmod 700 {state}")
    state.chmod(0o700)
    (index,) = (home / "data" / "memtui").iterdir()
    index.chmod(0o755)
    found = of_area(memtui("doctor", "--json"), "folders")
    assert {name: check["grade"] for name, check in found.items()} == {
        "state": "ok",
        "data": "ok",
        "index": "note",
    }
    state.rmdir()
    state.write_text("")
    blocked = memtui("doctor", "--json")
    assert blocked.code == 1
    assert of_area(blocked, "folders")["state"]["detail"] == f"{state} is no folder"
    monkeypatch.setattr(doctor, "LEAST_FREE", 10**18)
    full = of_area(memtui("doctor", "--json"), "folders")["data"]
    assert (full["grade"], "free" in full["detail"]) == ("problem", True)


@pytest.mark.parametrize(("named", "why"), load("services")["certificates"])
def test_certificates_that_cannot_be_used_do_not_hold_it_up(
    memtui: Run, home: Path, indexed: Path, named: str, why: str
) -> None:
    os.mkfifo(home / "pipe")
    (home / "text.pem").write_text("no certificate")
    user = home / "config" / "memtui" / "config.toml"
    user.parent.mkdir(parents=True, exist_ok=True)
    path = named if named.startswith(("/", "a")) else str(home / named)
    user.write_text(f'[embedding]\nca_file = "{path}"\n')
    answer = memtui("doctor", "--json")
    assert answer.code == 2
    assert why in problems(answer)[0]["detail"]


def test_too_many_folders_to_watch(
    memtui: Run, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise WatchLimitReached("more than 8192 folders, the limit of fs.inotify.max_user_watches")

    monkeypatch.setattr(doctor, "FileEvents", refuse)
    answer = memtui("doctor", "--json")
    assert answer.code == 1
    check = of_area(answer, "watcher")["watcher"]
    assert "more than 8192 folders" in check["detail"]
    assert "fs.inotify.max_user_watches" in check["hint"]


def test_a_damaged_index(memtui: Run, home: Path, indexed: Path) -> None:
    (database,) = (home / "data").rglob("index-*.db")
    for suffix in ("-wal", "-shm"):
        Path(f"{database}{suffix}").unlink(missing_ok=True)
    database.write_bytes(os.urandom(8192))
    answer = memtui("doctor", "--json")
    assert answer.code == 3
    assert any("index --force" in check["hint"] for check in problems(answer))
    assert of_area(answer, "agents")
    assert of_area(answer, "providers")


def test_notes_that_are_missing_or_cannot_be_reached(memtui: Run, indexed: Path) -> None:
    (indexed / "MEMORY.md").unlink()
    (indexed / "memory" / "2026-02-10.md").unlink()
    (indexed / "memory" / "linked.md").symlink_to("/etc/hostname")
    answer = memtui("doctor", "--json")
    checks = of_area(answer, "memory")
    assert (checks["notes"]["grade"], checks["left out"]["detail"]) == ("note", "1 symlink")


# --- what it comes to ---------------------------------------------------------------------------


@given(st.lists(st.sampled_from([1, 2, 3, 4, 5]), max_size=6), st.booleans())
def test_the_gravest_problem_decides(codes: list[int], with_notes: bool) -> None:
    checks = [Check("index", "x", "problem", "", exit_code=code) for code in codes]
    if with_notes:
        checks.append(Check("index", "x", "note", "", exit_code=2))
    examination = Examination(None, (), tuple(checks), (), ())
    assert examination.exit_code == min(codes, key=GRAVEST_FIRST.index, default=0)
