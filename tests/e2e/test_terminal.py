"""The program in a real terminal: search, toggle, sync, edit, resize, quit, and hostile notes."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal, terminal
from tests.support.small_memory import write_notes

NOTES = {
    "MEMORY.md": "# Memory\n\n- The router password lives in the vault.\n",
    "memory/2026-11-18.md": "# Tuesday\n\nConfigured the Omada router: VLAN 20 for IoT.\n",
    "memory/2026-11-19.md": "# Wednesday\n\nThe heron came back to the pond.\n",
}
KEYWORD_ONLY = {"MEMTUI_EMBEDDING__PROVIDER": "none"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_notes(tmp_path / "workspace", NOTES)
    return tmp_path / "workspace"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_search_toggle_edit_sync_resize_and_quit(root: Path, home: Path) -> None:
    with terminal(str(root), home=home, size=(120, 40), more=KEYWORD_ONLY) as window:
        window.shows("ready")
        window.type("router")
        finds(window, "2026-11-18.md")
        window.press("M-5", shows="R rebuild")
        window.press("q")
        window.press("F2", shows="MMR λ 0.70")
        window.press("F3")
        window.until(lambda shown: "decay half-life 30 d" in shown, "decay is on")
        (root / "memory/kite.md").write_text("The router is now called kite.\n", encoding="utf-8")
        window.shows("kite.md")
        window.press("F5", shows="ready")
        survives_every_size(window)
        window.press("C-q")
        window.ends()


def finds(window: Terminal, name: str) -> str:
    """Wait until a note is among the results: the preview and the recent notes name no line."""
    return window.until(
        lambda shown: "─ Results" in shown and f"{name}:1" in shown, f"{name} among the results"
    )


def survives_every_size(window: Terminal) -> None:
    for columns, rows in ((20, 5), (39, 9), (5, 2), (200, 60), (60, 16), (80, 24)):
        window.resize(columns, rows)
    window.shows("router")
    window.shows("ready")


@contextmanager
def edited(root: Path, home: Path, editor: Path) -> Iterator[Terminal]:
    """Open a note that was found in an editor, and quit in the end."""
    more = {**KEYWORD_ONLY, "EDITOR": str(editor)}
    with terminal(str(root), home=home, size=(100, 30), more=more) as window:
        window.shows("ready")
        window.type("heron")
        finds(window, "2026-11-19.md")
        window.press("C-o")
        yield window
        window.press("C-q")
        window.ends()


def test_the_editor_opens_at_the_line_and_the_screen_comes_back(root: Path, home: Path) -> None:
    seen = home / "editor-arguments"
    editor = home / "editor.sh"
    editor.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{seen}"\nexit 0\n', encoding="utf-8")
    editor.chmod(0o755)
    with edited(root, home, editor) as window:
        window.until(
            lambda shown: seen.exists() and "heron" in shown, "the screen after the editor"
        )
        arguments = seen.read_text(encoding="utf-8").splitlines()
        assert str(root / "memory/2026-11-19.md") in arguments


@pytest.mark.parametrize("interpreter", ["", "/no/such/interpreter"])
def test_an_editor_that_cannot_start_leaves_the_screen(
    root: Path, home: Path, interpreter: str
) -> None:
    editor = home / "editor.sh"
    if interpreter:
        editor.write_text(f"#!{interpreter}\n", encoding="utf-8")
        editor.chmod(0o755)
    with edited(root, home, editor) as window:
        window.shows("The editor did not start")
        window.type(" pond")
        window.shows("heron pond")


def test_it_is_suspended_as_other_programs_are(root: Path, home: Path) -> None:
    stopped = home / "stopped"
    shell = ("sh", "-i", "-c", '"$@"; echo > "$0"; fg', str(stopped))
    with terminal(str(root), home=home, more=KEYWORD_ONLY, before=shell) as window:
        # What is typed before there is a screen is kept.
        window.type("pond")
        window.until(lambda shown: "› pond" in shown and "1 = " in shown, "an answer")
        window.press("Escape")
        window.shows("/ query")
        window.press("C-z")
        window.until(lambda shown: stopped.exists(), "the shell again")
        window.until(lambda shown: "› pond" in shown and "1 = " in shown, "the whole screen")
        window.press("C-q")


def test_a_setting_that_keeps_a_memory_from_opening_is_read_again(root: Path, home: Path) -> None:
    config = home / "config/memtui/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[embedding]\nallow_remote = true\nmodel = "nope"\n', "utf-8")
    with terminal(str(root), home=home) as window:
        window.shows("cannot open this memory")
        config.write_text('[embedding]\nprovider = "none"\n', encoding="utf-8")
        window.press("F5", shows="no model: keyword match only")
        window.press("C-q")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_it_and_gives_the_terminal_back(root: Path, home: Path, name: str) -> None:
    own_id, number = home / "process-id", signal.Signals[name]
    before = ("sh", "-c", 'echo $$ > "$0"; exec "$@"', str(own_id))
    with terminal(str(root), home=home, more=KEYWORD_ONLY, before=before) as window:
        window.shows("ready")
        os.kill(int(own_id.read_text()), number)
        window.ends(128 + number)
        window.is_given_back()


def test_without_a_memory_it_says_where_it_looked(home: Path) -> None:
    with terminal(home=home) as window:
        shown = window.shows("demo")
        assert "looked" in shown or "no memory" in shown.lower()
        window.type("n\n")
        window.ends(2)


FAILING = """
import sys, threading
from memtui.__main__ import main
from memtui.tui.app import MemtuiApp

def fail(*_):
    key = "sk-proj-Zq8Lw3Xv7Rt2Yp5Kd9Ns4Bm6"
    note = "the heron sleeps on one leg"
    raise ValueError(f"no {key}" + "\\n" + "x" * 5000)
async def fail_later():
    fail()
class Drawn(Exception):
    __rich__ = lambda self: "sk-proj-Zq8Lw3Xv7Rt2Yp5Kd9Ns4Bm6"
def draw(app):
    raise Drawn("heron")
way = sys.argv.pop(1)
MemtuiApp.action_help = {
    "handler": fail,
    "drawn": draw,
    "worker": lambda app: app.run_worker(fail_later()),
    "timer": lambda app: app.set_timer(0.01, fail),
    "callback": lambda app: app.call_after_refresh(fail),
    "thread": lambda app: threading.Thread(target=fail).start() or app.exit(0),
}[way]
main()
"""


@pytest.mark.parametrize("way", ["handler", "drawn", "worker", "timer", "callback", "thread"])
def test_a_crash_says_where_and_not_what(root: Path, home: Path, way: str) -> None:
    run, more = (sys.executable, "-c", FAILING, way), KEYWORD_ONLY
    with terminal(str(root), home=home, size=(200, 40), more=more, program=run) as window:
        window.shows("ready")
        window.press("F1")
        window.ends(0 if way == "thread" else 1)
        window.is_given_back()
        shown = window.screen()
    assert not [one for one in ("sk-proj-Zq8L", "heron sleeps", "Traceback") if one in shown]
    (trace,) = (home / "state" / "memtui").glob("crash-*.txt")
    text = trace.read_text("utf-8")
    assert f"in {'draw' if way == 'drawn' else 'fail'}" in text
    assert not [one for one in ("Zq8Lw3Xv7Rt2Yp5Kd9Ns4Bm6", "one leg") if one in text]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (trace, trace.parent)]
    assert modes == [0o600, 0o700]
    if way != "thread":
        what = "Drawn" if way == "drawn" else "ValueError: no "
        assert f"memtui: this should not have happened: {what}" in shown
        assert f"trace in {trace}" in shown
