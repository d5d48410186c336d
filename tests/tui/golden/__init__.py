"""Whole screens as text, each below the keys that lead to it: `*.txt` beside this file.

A file holds scenes, a scene its steps and what is on screen after a `look`:

    === mmr toggles the order 80x24
    > query router config
    > press escape m
    > look
    | ╭─ Query ...

Behind the name stand the size of the terminal and, where it is not the memory of twelve notes, what
is opened: `agent` (an index of OpenClaw), `sessions` (the notes with two conversations), `talk` (with
a conversation of every kind of entry), `services NAME` (notes that the service `first`, on another
machine, or `spare` embeds; with `broken`, `first` cannot be loaded). With `settings` there is a file of
settings. `query` types a text and waits for its answer, `press` presses
keys, `click` takes a column and a line, `resize` a size, `write` a path and a text of a note (with
the escapes of JSON), `append` the same for what is added, `remove` a path, `link` a path and what it
points to, `grow` a path and bytes, `sync` reads the notes again, `wait` takes a text that comes,
`clear` takes the toasts away, `config` writes a text into the settings and `read` shows them; `fail`
lets the services refuse with a text, `work` lets them work again. Times are shown as `#`.

`python -m tests.tui.golden [--update] [NAME ...]` compares or rewrites the screens of the scenes
whose names hold one of these words.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from textual.pilot import Pilot

from memtui.errors import ProviderError
from memtui.settings.load import SettingsFiles
from memtui.text.sanitize import HOSTILE
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions, options_from
from memtui.tui.screens.search import search_controller
from tests.support.command_line import KEY_VARIABLES
from tests.support.conversations import Homes, asked, began, claude, said, talk
from tests.support.embedding import registered_hashed
from tests.support.provider_scenes import NOTES, opened_scene
from tests.support.services import KEY_REFUSED, Service, registered
from tests.support.small_memory import NOW, make_small_agent, make_small_memory
from tests.tui.harness import dark, press_at_once, render_lines, settle, until

FOLDER = Path(__file__).parent
SIZE = re.compile(r"(\d+)x(\d+)")
VOLATILE = (
    (re.compile(r"(?:\bunder )?\b\d[\d.]* ?m?s\b"), "#"),
    (re.compile(r"(?:notes|workspace)-[0-9a-f]{5,}|(?<=│ )( +)[0-9a-f]{7}"), "#"),
    (re.compile(r"(?<=changed )(\d+ \w+ ago|just now|now)"), "#"),
)
"""Durations, names of folders made of random ones, and ages of files that a scene writes."""
NEW = re.compile(r"(?<=\d )(?:new|=  )(?= )")
"""Whether a row is new to the list, or was in the first, quick answer as well."""
BLANKS = re.compile(" {3,}")
SHOWING = ("look", "read")
"""Steps whose screen, or text, is recorded."""
OWN = """\
[profiles.recent-heavy]
k = 4
decay.enabled = true
decay.half_life_days = 14

[profiles.old]
profile = "openclaw-2026.4"
k = 3
"""
"""The settings of a scene with `settings`."""
LONG = 600


@dataclass
class Scene:
    """Steps, and the screens that are expected after those that look."""

    name: str
    size: tuple[int, int]
    memory: str
    steps: list[str] = field(default_factory=list)
    screens: list[list[str]] = field(default_factory=list)

    @property
    def header(self) -> str:
        """The line that begins it."""
        words = [self.name, "x".join(map(str, self.size)), self.memory]
        return " ".join(word for word in words if word and word != "small")

    def text(self) -> str:
        """Write it with its screens."""
        lines, screens = [f"=== {self.header}"], iter(self.screens)
        for step in self.steps:
            lines.append(f"> {step}")
            if step in SHOWING:
                lines += [f"| {line}".rstrip() for line in next(screens)]
        return "\n".join(lines) + "\n"


def scenes_in(path: Path) -> list[Scene]:
    """Read the scenes of a file."""
    scenes: list[Scene] = []
    for row in path.read_text(encoding="utf-8").splitlines():
        if row.startswith("=== "):
            size = SIZE.search(row)
            assert size is not None, f"no size: {row}"
            name, memory = row[4 : size.start()].strip(), row[size.end() :].strip()
            scenes.append(Scene(name, (int(size[1]), int(size[2])), memory or "small"))
        elif row.startswith("> "):
            scenes[-1].steps.append(row[2:])
            if row[2:] in SHOWING:
                scenes[-1].screens.append([])
        elif row.startswith("|"):
            scenes[-1].screens[-1].append(row[2:])
    return scenes


async def play(scene: Scene) -> list[list[str]]:
    """Play a scene; what was on screen at each look."""
    screens: list[list[str]] = []
    # Of the same length everywhere: paths on the screen are wrapped.
    with (
        tempfile.TemporaryDirectory(prefix="memtui-golden-", dir="/tmp") as name,
        _memory(scene.memory, folder := Path(name)) as (open_engine, root),
        # What is told for some seconds stays, however long the machine takes.
        patch.object(search_controller, "NOTE_SECONDS", LONG),
    ):
        options = dark(root=root, is_provider_given=True)
        if "settings" in scene.memory:
            options = _with_settings(options, folder)
        app = MemtuiApp(open_engine, options)
        _keep_toasts(app)
        async with app.run_test(size=scene.size, notifications=True) as pilot:
            await until(pilot, lambda: app.search_screen.engine is not None)
            await at_rest(app, pilot)
            for step in scene.steps:
                if step == "look":
                    lines = await at_rest(app, pilot)
                    assert not any(map(HOSTILE.search, lines)), "a text commands the terminal"
                    screens.append(masked(lines, folder))
                elif step == "read":
                    screens.append((folder / "config.toml").read_text("utf-8").splitlines())
                else:
                    await _take(step, app, pilot, root)
                    await settle(app, pilot)
        app.memories.close()
    return screens


def _with_settings(options: UiOptions, folder: Path) -> UiOptions:
    """Give a scene a file of settings."""
    (folder / "config.toml").write_text(OWN, "utf-8")
    variables = {"MEMTUI_CONFIG": str(folder / "config.toml")}
    loaded = SettingsFiles(env=variables).load()
    made = options_from(loaded, options.root, demo=False)
    look = replace(made.settings.ui, theme=options.settings.ui.theme)
    settings = replace(made.settings, ui=look)
    files = SettingsFiles(variables, options.root if options.root != Path() else None)
    return replace(made, settings=settings, files=files, is_provider_given=True, state_dir=None)


def _keep_toasts(app: MemtuiApp) -> None:
    """Let toasts stay, however long the machine takes."""
    notify = app.notify

    def notify_for_long(message: str, **options: Any) -> None:
        notify(message, **{**options, "timeout": LONG})

    app.notify = notify_for_long  # type: ignore[method-assign]


async def at_rest(app: MemtuiApp, pilot: Pilot[Any]) -> list[str]:
    """Wait until the screen does not change any more; its lines."""
    before: list[str] = []
    while True:
        await settle(app, pilot)
        lines = render_lines(app)
        now = masked(lines, Path("-"))
        if now == before:
            return lines
        before = now


def masked(lines: list[str], folder: Path) -> list[str]:
    """Take out of a screen what differs from run to run."""
    # A path that is cut on the left begins anywhere.
    cut = f"memtui-golden-{'#' * 8}"
    shown = [line.replace(str(folder), "…").replace(folder.name, cut) for line in lines]
    return [_masked(line).rstrip() for line in shown]


def _masked(line: str) -> str:
    masked_line = line = NEW.sub("=  ", line)
    for pattern, replacement in VOLATILE:
        masked_line = pattern.sub(replacement, masked_line)
    # What differs in length moves what stands beside it.
    return line if masked_line == line else BLANKS.sub("  ", masked_line)


async def _take(step: str, app: MemtuiApp, pilot: Pilot[Any], root: Path) -> None:
    verb, _, rest = step.partition(" ")
    match verb:
        case "press":
            for key in rest.split():
                await press_at_once(pilot, key)
        case "wait":
            await until(pilot, lambda: rest in "\n".join(render_lines(app)))
        case "clear":
            app.clear_notifications()
        case "query":
            screen = app.search_screen
            if screen.foreign:
                screen.query_input.value = rest
            else:
                # As it is once the pause after the last key is over.
                screen.search.ask_query(rest)
            await until(pilot, lambda: screen.state.answered_text == rest)
        case "resize":
            width, _, height = rest.partition("x")
            await pilot.resize_terminal(int(width), int(height))
        case "click":
            column, _, line = rest.partition(" ")
            await pilot.click(offset=(int(column), int(line)))
        case "write" | "append":
            path, _, text = (json.loads(f'"{part}"') for part in rest.partition(" "))
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            with (root / path).open("a" if verb == "append" else "w", encoding="utf-8") as stream:
                stream.write(text)
            written = NOW.timestamp() - 1_800 + (root / path).stat().st_size
            os.utime(root / path, (written, written))
        case "remove":
            (root / rest).unlink()
        case "link":
            path, _, target = rest.partition(" ")
            (root / path).symlink_to(target)
        case "grow":
            path, _, size = rest.partition(" ")
            with (root / path).open("wb") as stream:
                stream.truncate(int(size))
            os.utime(root / path, (NOW.timestamp(),) * 2)
        case "config":
            (root.parent / "config.toml").write_text(json.loads(f'"{rest}"'), "utf-8")
        case "fail" | "work":
            refusal = ProviderError(json.loads(f'"{rest}"'), hint="again") if rest else None
            for service in SERVICES:
                service.refusal = refusal
        case "sync":
            engine = app.search_screen.engine
            assert engine is not None
            await asyncio.to_thread(engine.index.sync, wait=True)
        case _:
            raise ValueError(f"no such step: {step}")


@contextlib.contextmanager
def _memory(name: str, folder: Path) -> Iterator[Any]:
    """What opens the engine of a scene, and the folder of its notes."""
    if name.startswith("services"):
        with _services(name.split()[1:], folder) as opened:
            yield opened
        return
    with registered_hashed():
        if name.startswith("agent"):
            agent = make_small_agent(folder)
            yield agent.open, Path()
            return
        memory = make_small_memory(folder)
        options: dict[str, Any] = {}
        if name in ("sessions", "talk"):
            options["homes"] = (_conversations if name == "sessions" else talk)(folder).homes
        yield partial(memory.open, **options), memory.root


SERVICES: list[Service] = []
"""Those of the scene that is played."""


@contextlib.contextmanager
def _services(words: list[str], folder: Path) -> Iterator[Any]:
    """Open notes whose vectors one of two services makes."""
    with patch.dict(os.environ, {"HOME": str(folder)}), opened_scene(folder) as scene:
        for variable in KEY_VARIABLES:
            os.environ.pop(variable, None)
        scene.first.remote = True
        if "broken" in words:
            scene.first.unloadable = KEY_REFUSED
        SERVICES[:] = [scene.first, scene.spare]
        for note in NOTES:
            os.utime(scene.root / note, (time.time() - 3 * 86_400,) * 2)

        make = partial(scene.synced, provider=words[0], keyring=False, agent_keys=False)
        with registered(scene.first, scene.spare):
            yield make, scene.root


def _conversations(folder: Path) -> Homes:
    homes = Homes(folder)
    lines = [
        began(),
        said("assistant", "Good evening, what is it?", 0),
        said("user", "The gate code is 9026", 1),
        asked("router networks"),
        said("assistant", "Noted, the gate opens at seven.", 9),
    ]
    homes.openclaw("s1.jsonl", lines)
    homes.claude("c1.jsonl", [claude("user", "Water the garden")])
    return homes
