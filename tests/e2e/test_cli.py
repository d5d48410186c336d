"""The real program: index, search, explain, status, pipes and signals.

What an own process, its start or its streams make a difference to is called as one, as users do;
the other calls are made in this process.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memtui.text.sanitize import HOSTILE
from tests.support import in_process

NOW = "2026-02-20T12:00:00+00:00"
NOTES = {
    "MEMORY.md": "# Memory\n\n- The router is an Omada ER605 at 192.168.10.1.\n",
    "memory/2026-02-10.md": "# Network\n\nConfigured the router: VLAN 20 for IoT, VLAN 30 guests.\n",
    "memory/2026-01-05.md": "# Network\n\nConfigured the router: VLAN 20 for IoT, VLAN 30 guests.\n",
    "memory/cooking.md": "# Bread\n\n- [x] sourdough at 75 percent\n",
    "memory/attack.md": "router \x1b]2;PWNED\x1b\\ \x9b31m \u202egnp.exe [/] [@click=app.quit]x[/]\n",
}

Memtui = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    for name, text in NOTES.items():
        path = folder / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def environment(place: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MEMTUI_", "OPENCLAW_"))
    }
    return {
        **kept,
        "HOME": str(place),
        "XDG_CONFIG_HOME": str(place / "config"),
        "XDG_STATE_HOME": str(place / "state"),
        "XDG_DATA_HOME": str(place / "data"),
        "MEMTUI_ROOT": str(place / "notes"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


@pytest.fixture(scope="module")
def process(place: Path, environment: dict[str, str]) -> Memtui:
    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "memtui", *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            cwd=place,
            env={**environment, **env},
            stdin=subprocess.DEVNULL,
            timeout=100,
        )

    return call


@pytest.fixture(scope="module")
def memtui(place: Path, environment: dict[str, str]) -> Memtui:
    def call(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return in_process.call(arguments, environment={**environment, **env}, folder=place)

    return call


@pytest.fixture(scope="module")
def indexed(memtui: Memtui, process: Memtui, place: Path) -> Path:
    """The notes, after looking at what happens without an index and then making one."""
    missing = memtui("search", "router", "--json")
    assert missing.returncode == 3
    assert json.loads(missing.stdout)["error"]["code"] == "no_index"
    assert not (place / "data").exists(), "a search does no hidden work"
    status = memtui("status", "--json")
    assert status.returncode == 3
    assert json.loads(status.stdout)["state"] == "no_index"
    dry = memtui("index", "--dry-run", "--json")
    assert json.loads(dry.stdout)["pending_count"] == len(NOTES)
    assert not (place / "data").exists(), "neither does a dry run"
    made = process("index", "--json")
    assert made.returncode == 0, made.stderr
    assert made.stderr == "", "no progress without a terminal"
    document = json.loads(made.stdout)
    assert document["sync"]["files_added"] == len(NOTES)
    assert document["vectors"] == document["chunks"] > 0
    return place / "notes"


def _document(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run.stdout)
    assert document["schema_version"] == 1
    return document


@pytest.mark.usefixtures("indexed")
def test_search_json_can_be_recomputed_and_repeated(memtui: Memtui, process: Memtui) -> None:
    options = ("--json", "-n", "3", "--lambda", "0.6", "--half-life", "30", "--now", NOW)
    first = process("search", "router", "vlan", *options)
    assert first.returncode == 0, first.stderr
    document = _document(first)
    assert document["query"] == "router vlan"
    assert document["now"] == NOW
    assert document["ranking"]["k"] == 3
    assert document["ranking"]["mmr"]["enabled"] is True
    assert document["ranking"]["decay"]["half_life_days"] == 30.0
    assert set(document["legs"]) == {"vector", "keyword"}
    assert [hit["rank"] for hit in document["hits"]] == [1, 2, 3]
    for hit in document["hits"]:
        total = 0.0
        for leg in hit["legs"].values():
            assert leg["contribution"] == leg["weight"] * leg["mapped"]
            total += leg["contribution"]
        assert hit["stages"][0]["after"] == total
        for stage in hit["stages"]:
            before, operand = stage["before"], stage["operand"]
            expected = {
                "sum": total,
                "multiply": before * (operand or 0.0),
                "subtract": before - (operand or 0.0),
                "replace": operand,
                "keep": before,
            }[stage["operation"]]
            assert stage["after"] == expected
        assert hit["citation"].startswith(hit["path"] + "#L")
        assert hit["snippet"]
    assert document["drops"]
    assert document["index"]["files"] == len(NOTES)
    again = _document(memtui("search", "router", "vlan", *options))
    for timing in ("timings", "legs"):
        document.pop(timing), again.pop(timing)
    assert again == document


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("form", [(), ("--plain",), ("--explain",), ("--json",), ("--jsonl",)])
def test_no_form_prints_what_a_terminal_acts_on(memtui: Memtui, form: tuple[str, ...]) -> None:
    found = memtui("search", "router", "-n", "5", "--weights", "0,1", *form)
    assert found.returncode == 0
    assert "attack.md" in found.stdout
    assert HOSTILE.search(found.stdout) is None
    assert HOSTILE.search(found.stderr) is None
    assert "memory/attack.md" in found.stdout


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize("form", ["text", "json", "markdown", "svg"])
def test_no_export_holds_what_a_terminal_acts_on(memtui: Memtui, form: str) -> None:
    place = ("--chunk", "memory/attack.md", "--weights", "0,1", "-n", "1", "--passages")
    told = memtui("explain", "router", *place, "--format", form)
    assert told.returncode == 0, told.stderr
    assert "PWNED" in told.stdout
    assert HOSTILE.search(told.stdout) is None
    assert HOSTILE.search(told.stderr) is None


@pytest.mark.usefixtures("indexed")
def test_status_deep_asks_every_part(memtui: Memtui) -> None:
    document = _document(memtui("status", "--deep", "--json"))
    assert document["state"] == "ready"
    assert {probe["name"]: probe["works"] for probe in document["probes"]} == {
        "provider": True,
        "database": True,
        "full-text": True,
        "sqlite-vec": True,
    }
    text = memtui("status").stdout
    assert text.startswith("state     ready\n")


def test_a_changed_note_is_named_until_it_is_indexed(memtui: Memtui, indexed: Path) -> None:
    note = indexed / "memory" / "new.md"
    note.write_text("# New\n\nA lighthouse with a brass lantern.\n")
    try:
        stale = memtui("search", "router", "--json")
        (warning,) = _document(stale)["warnings"]
        assert "memory/new.md" in warning
        assert "stale" in memtui("search", "router").stderr
        assert memtui("index", "--dry-run").stdout.endswith("memory/new.md\n")
        assert "1 added" in memtui("index").stdout
        assert _document(memtui("search", "lighthouse", "--json"))["warnings"] == []
    finally:
        note.unlink()
        rebuilt = _document(memtui("index", "--force", "--json"))
    assert rebuilt["sync"]["rebuild"] is True
    assert rebuilt["sync"]["chunks_embedded"] == 0, "vectors come from the cache"
    assert rebuilt["files"] == len(NOTES)


@pytest.mark.usefixtures("indexed")
def test_a_second_writer_is_refused_with_5(
    memtui: Memtui, place: Path, environment: dict[str, str]
) -> None:
    with Watching(place, environment) as watching:
        assert watching.stdout is not None
        assert "synced" in watching.stdout.readline()
        refused = memtui("index", "--json")
        assert refused.returncode == 5
        assert _document(refused)["error"]["code"] == "locked"
        assert memtui("search", "router").returncode == 0, "reading goes on"
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130


def test_watch_prints_later_syncs(indexed: Path, place: Path, environment: dict[str, str]) -> None:
    note = indexed / "memory" / "watched.md"
    fast = {**environment, "MEMTUI_INDEX__DEBOUNCE_SECONDS": "0.1"}
    with Watching(place, fast) as watching:
        assert watching.stdout is not None
        assert "synced" in watching.stdout.readline()
        assert watching.stdout.readline().startswith("index: ")
        note.write_text("# Watched\n\nA ferry at noon.\n")
        assert "1 added" in watching.stdout.readline()
        note.unlink()
        assert "1 removed" in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 130


class Watching:
    """`memtui index --watch` as a process that is ended at the end of the block."""

    def __init__(self, place: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "memtui", "index", "--watch"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=place,
            env=environment,
        )

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *details: object) -> None:
        self._process.kill()
        self._process.wait(20)
        if self._process.stdout is not None:
            self._process.stdout.close()


@pytest.mark.usefixtures("indexed")
def test_a_closed_pipe_is_no_error(place: Path, environment: dict[str, str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        run = subprocess.run(
            [sys.executable, "-m", "memtui", "search", "router", "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            cwd=place,
            env=environment,
            timeout=100,
        )
    finally:
        os.close(writer)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.usefixtures("indexed")
def test_ascii_locale_gets_ascii_bars_and_utf8_json(process: Memtui) -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    rows = process("search", "router", **env)
    assert rows.returncode == 0
    assert rows.stdout.isascii()
    assert _document(process("search", "rööter 路由", "--json", **env))["query"] == "rööter 路由"


@pytest.mark.usefixtures("indexed")
def test_in_a_terminal_there_is_colour_and_nothing_hostile(
    place: Path, environment: dict[str, str]
) -> None:
    text = _in_terminal(["search", "router", "-n", "5"], place, environment)
    assert "\x1b[1m" in text
    assert "PWNED" in text
    assert "\x1b]" not in text
    assert "\x9b" not in text
    plain = _in_terminal(["search", "router"], place, {**environment, "NO_COLOR": "1"})
    assert "\x1b[1m" not in plain


def _in_terminal(arguments: list[str], place: Path, environment: dict[str, str]) -> str:
    return b"".join(_terminal_output(arguments, place, environment)).decode("utf-8")


def _terminal_output(
    arguments: list[str], place: Path, environment: dict[str, str]
) -> Iterator[bytes]:
    main, other = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "memtui", *arguments],
        stdin=other,
        stdout=other,
        stderr=other,
        cwd=place,
        env={**environment, "TERM": "xterm-256color"},
    )
    os.close(other)
    try:
        while select.select([main], [], [], 60)[0]:
            try:
                data = os.read(main, 65536)
            except OSError:  # Linux: the other side was closed
                break
            if not data:
                break
            yield data
    finally:
        process.wait(20)
        os.close(main)


@pytest.mark.usefixtures("indexed")
@pytest.mark.parametrize(
    ("arguments", "banned"),
    [
        (
            ["search", "router"],
            {"textual", "rich", "watchdog", "httpx", "numpy"},
        ),
        (["explain", "router", "--format", "svg"], {"textual", "rich", "watchdog", "httpx"}),
        (["status"], {"textual", "rich", "watchdog", "httpx", "onnxruntime"}),
        (["--help"], {"textual", "rich", "numpy", "apsw", "pydantic", "onnxruntime"}),
        (["--version"], {"textual", "rich", "numpy", "apsw", "pydantic", "onnxruntime"}),
        (["config", "show"], {"textual", "rich", "numpy", "apsw", "onnxruntime"}),
    ],
)
def test_commands_import_only_what_they_need(
    place: Path, environment: dict[str, str], arguments: list[str], banned: set[str]
) -> None:
    code = (
        "import sys\nfrom memtui.cli.main import run\n"
        f"code = run({arguments!r}, None)\n"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=place,
        env={**environment, "MEMTUI_EMBEDDING__PROVIDER": "none"},
        timeout=100,
    )
    code_text, *modules = run.stderr.splitlines()[-1].split()
    assert code_text == "0", run.stderr
    assert banned.isdisjoint(modules)
