"""The application: themes, keys, screens, and the engine that is opened after the first paint."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name
from time import monotonic
from typing import Any, ClassVar, cast

import msgspec.structs
from rich.console import Console
from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Input

from memtui.bus import (
    Bus,
    Event,
    ForeignExamined,
    LegChanged,
    SearchFailed,
    SearchReady,
    SyncFailed,
    SyncFinished,
    changes_content,
)
from memtui.engine import Engine
from memtui.memory.workspace import Found
from memtui.report.suggested_commands import completed
from memtui.settings.files import make_private, remove_view
from memtui.settings.load import Loaded
from memtui.settings.schema import UiSettings
from memtui.text.sanitize import safe, safe_line
from memtui.tui.background import in_background, tell
from memtui.tui.bindings import bindings, resolve_keymap
from memtui.tui.commands import MemtuiCommands
from memtui.tui.fmt import DARK, LIGHT, THEMES, variable_defaults
from memtui.tui.glyphs import ASCII_ONLY, AsciiFilter
from memtui.tui.memories import EngineFactory, MachineAgents, Memories
from memtui.tui.options import UiOptions, View, keep_view, options_from
from memtui.tui.screens.common import act_on_part, close
from memtui.tui.screens.search.search_screen import SearchScreen

LASTING_SCREENS = {
    "browse": "browse.browse_screen:BrowseScreen",
    "reader": "browse.browse_screen:ReaderScreen",
    "sessions": "sessions.sessions_screen:SessionsScreen",
    "care": "care:CareScreen",
}
"""The screens that keep their state while one memory is open, each imported for its first use.

The screen bar has them by their lines in the table of actions.
"""
HANDLED = SearchReady | SearchFailed | SyncFinished | SyncFailed | ForeignExamined | LegChanged
"""The events that the search screen shows one by one."""
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, *filter(None, [getattr(signal, "SIGHUP", None)]))
"""The signals after which the interface ends in order, with 128 and their number as exit code."""
_LEAVING_KEYS = frozenset({"ctrl+c", "ctrl+q", "ctrl+z"})
MOST_WARNINGS = 10
"""So many things that are wrong with the configuration are told one by one at the start."""


# Textual takes Alt and a digit for the character that a Mac writes with them, such as `£`.
for _digit in "123456789":
    cast("dict[str, Any]", ANSI_SEQUENCES_KEYS).pop(f"\x1b{_digit}", None)


class MemtuiApp(App[int]):
    """Shows a memory and why it recalls what it recalls."""

    TITLE = "memtui"
    CSS_PATH = "screens/search/search.tcss"
    DEFAULT_CSS = (Path(__file__).parent / "widgets" / "widgets.tcss").read_text("utf-8")
    """The styles of every widget here: those of a screen go before them."""
    SCOPED_CSS = False
    BINDINGS = bindings("app")
    COMMANDS: ClassVar[set[Any]] = {MemtuiCommands}
    """Without Textual's own: its keys, maximize and screenshot are not this program's."""
    COMMAND_PALETTE_BINDING = "ctrl+p"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (160, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        open_engine: EngineFactory | None,
        options: UiOptions | None = None,
        *,
        agents: MachineAgents | None = None,
        choose: bool = False,
        bus: Bus | None = None,
    ) -> None:
        """`open_engine` opens the notes; `None`: there is no folder of notes.

        `agents` are offered beside them, with `choose` at the start already. `bus` is the one of
        an engine that is open already.
        """
        super().__init__()
        # Textual would print an exception with the values of all variables.
        self.error_console = Console(quiet=True)
        self.crash: BaseException | None = None
        """The exception that ended the interface."""
        self.keymap: Mapping[str, str] = {}
        """The keys of actions that are bound otherwise than in the table, by the ids of these."""
        self.animation_level = "none"
        self.options = options or UiOptions()
        # Whatever is drawn for this application has its context.
        ASCII_ONLY.set(self.options.ascii_only)
        self.configured = self.options
        """The options without what an agent's index changes."""
        self.engine: Engine | None = None
        """The engine; `None` until it is open."""
        self._choose = choose
        self._has_painted = False
        self.bus = bus or Bus()
        """The bus of the memory that is open."""
        self._is_status_due = self._is_content_due = False
        """True if the event loop is to look at the index; true if its chunks changed."""
        self._toasts_until = 0.0
        """The time until which a warning or an error is to be read."""
        self._screens: dict[str, Any] = {}
        """The lasting screens that were shown already, by name."""
        self.memories = Memories(self, open_engine, agents)
        self.search_screen = SearchScreen(self.options)
        self.listen(self.bus)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Leg and state colours for themes that do not define them."""
        return variable_defaults(self.current_theme.dark)

    def get_line_filters(self) -> Sequence[LineFilter]:
        filters = super().get_line_filters()
        return [*filters, AsciiFilter()] if self.options.ascii_only else filters

    def on_load(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self._show_theme(self.options.view)
        self._view_before = self._view()

    def _show_theme(self, view: View) -> None:
        automatic = LIGHT if UiSettings().is_light(os.environ) else DARK
        names = view.theme, self.options.settings.ui.theme, automatic
        self.theme = next(name for name in names if name in self.available_themes)

    def _view(self) -> View:
        screen = self.search_screen
        return View(
            theme=self.theme,
            preview=screen.preview_place,
            parameters=screen.has_class("-parameters"),
            not_shown=screen.shows_near_misses,
            sort=screen.search.sort,
        )

    def action_forget_view(self) -> None:
        """Show everything as configured, and keep nothing of what was chosen."""
        if self.options.state_dir is not None:
            with suppress(OSError):
                remove_view(self.options.state_dir)
        self._show_theme(View())
        self.search_screen.show_view(View())
        self._view_before = self._view()
        tell(self, "forgot the view: everything is shown as configured")

    def refresh_css(self, animate: bool = True) -> None:
        """Before the first screen take the colours alone: nothing is parsed that has others."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def completed(self, text: str) -> str:
        """Complete the commands that a message suggests with the memory that is open."""
        return completed(text, self.options.memory)

    def notify(self, message: str, **options: Any) -> None:
        if options.get("severity", "information") != "information":
            self._toasts_until = monotonic() + options["timeout"]
        text = self.completed(message)
        # The same words a second time take the place of the first.
        for same in [one for one in self._notifications if one.message == text]:
            self._unnotify(same, refresh=False)
        super().notify(text, **options)

    def _clear_toasts(self, screen: Screen[Any]) -> None:
        """Take toasts away with the screen that they were told on; warnings and errors stay."""
        if monotonic() > self._toasts_until:
            self.clear_notifications()

    def get_default_screen(self) -> Screen[Any]:
        return self.search_screen

    def on_mount(self) -> None:
        # Whoever ends the program from outside gets the terminal back, too.
        for number in ENDING_SIGNALS if not self.is_headless else ():
            # The event loop of Windows knows no signals.
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, self.exit, 128 + number)
        self.screen_change_signal.subscribe(self, self._clear_toasts)
        # Textual draws what changed meanwhile alone: the terminal shows another picture.
        self.app_resume_signal.subscribe(self, lambda app: app.refresh(layout=True))
        keymap, theme = self.options.settings.keymap, self.options.settings.ui.theme
        self.keymap, unknown = resolve_keymap(keymap.preset, keymap.bindings)
        self.set_keymap(self.keymap)
        problems = [*self.options.warnings]
        if theme not in ("auto", *self.available_themes):
            problems.append(f"no theme {theme!r}; ctrl+p lists them")
        problems += unknown
        if len(problems) > MOST_WARNINGS + 1:
            more = len(problems) - MOST_WARNINGS
            problems[MOST_WARNINGS:] = [f"{more} more: `memtui config validate`"]
        for problem in problems:
            tell(self, safe_line(problem), warning=True)

        def begin() -> None:
            self._has_painted = True
            # What is loaded by now is left out of every collection, which makes it short.
            gc.freeze()
            gc.enable()
            self.memories.start(choose=self._choose)

        self.call_after_refresh(begin)

    def listen(self, bus: Bus) -> None:
        def published(event: Event) -> None:
            """Go over to the event loop with what an engine publishes on its own threads."""
            if not isinstance(event, SearchReady | SearchFailed):
                # A sync publishes thousands of events: the index is looked at once for many.
                if changes_content(event):
                    self._is_content_due = True
                if not self._is_status_due:
                    self._is_status_due = True
                    self.call_later(self._index_changed)
            if isinstance(event, HANDLED):
                self.call_later(self._handle, event, bus)

        self.bus = bus
        self.unsubscribe = bus.subscribe(Event, published)

    def _handle(self, event: Event, bus: Bus) -> None:
        """Handle an event of the memory that is open: each bus counts its own requests."""
        screen = self.search_screen
        if bus is not self.bus or not screen.is_built:
            return
        match event:
            case SearchReady():
                screen.search.answered(event)
            case SearchFailed():
                screen.search.failed(event)
            case SyncFinished() | SyncFailed():
                screen.sync_ended(event)
                if "sessions" in self._screens:
                    self._screens["sessions"].conversations.catch_up()
            case ForeignExamined():
                screen.examined(event)
                if (refresh := getattr(self.screen, "refresh_status", None)) is not None:
                    refresh()
            case LegChanged():
                screen.leg_changed(event)

    def _index_changed(self) -> None:
        """Show the index status, and follow the index where chunks were added or removed."""
        self._is_status_due = False
        is_content, self._is_content_due = self._is_content_due, False
        sessions = self._screens.get("sessions")
        if self.search_screen.is_built:
            if is_content:
                self.search_screen.notes.reload()
                self.search_screen.search.refresh()
            self.search_screen.refresh_status()
        for screen in dict.fromkeys((*self._screens.values(), *self.screen_stack)):
            if is_content and hasattr(screen, "content_changed"):
                # Not before it is mounted.
                screen.call_later(screen.content_changed)
            if hasattr(screen, "file_list"):
                screen.file_list.changed_outside()
        if sessions is not None and is_content:
            sessions.conversations.catch_up()

    def _handle_exception(self, error: Exception) -> None:
        """Give up as Textual does, and keep the exception as it was raised."""
        self.crash = self.crash or sys.exc_info()[1]
        super()._handle_exception(error)

    async def on_event(self, event: events.Event) -> None:
        """Take a greeting away before a key is handed on, so that no later key overtakes it.

        Behind the words that the terminal is too small no key does anything but leave.
        """
        is_typed = isinstance(event, events.Key | events.Paste)
        is_let_go = is_typed and event.is_forwarded
        if is_typed and not (self.screen.is_mounted if is_let_go else self._has_painted):
            # Nothing has the keys yet, or a box lets one go that is for the screen it opened.
            self.call_after_refresh(self.post_message, event)
            return
        if is_typed and not is_let_go:
            leaves = isinstance(event, events.Key) and event.key in _LEAVING_KEYS
            if not leaves and any(one.display for one in self.screen.query("#too-small")):
                return
            closing_keys = getattr(self.screen, "CLOSING_KEYS", ())
            if closing_keys:
                self.screen.dismiss(None)
                if isinstance(event, events.Key) and event.key in closing_keys:
                    return
            if isinstance(event, events.Key) and not isinstance(self.focused, Input | None):
                # At once: what is typed behind a key that goes to a box belongs into the box.
                for is_first in (True, False):
                    if await self._check_bindings(event.key, priority=is_first):
                        return
        await super().on_event(event)

    action_part = act_on_part

    def action_help(self) -> None:
        from memtui.tui.screens.dialogs import HelpScreen

        self.push_screen(HelpScreen())

    def action_save_svg(self) -> None:
        svg = self.export_screenshot(title="memtui")
        name = f"screenshots/memtui-{datetime.now():%Y-%m-%d-%H%M%S}.svg"
        self.save_file(name, lambda: svg, "save the screenshot")

    def save_file(self, name: str, make_text: Callable[[], str], description: str) -> None:
        """Write a text to a path within the state folder, and tell where it is."""
        from memtui.report.export import save

        path = (self.options.state_dir or Path.cwd()) / name

        def write() -> None:
            make_private(path.parent)
            save(path, make_text(), force=True)

        saved = f"saved {safe_line(str(path))}"
        in_background(self, write, lambda _: tell(self, saved), description)

    def action_show_screen(self, name: str) -> None:
        """Go to a screen of the bar; on the search screen to its list."""
        self.search_screen.came_from = ""
        from memtui.tui.screens.index import AgentIndexScreen, IndexScreen

        if name == "browse" and hasattr(self.screen, "show_tree"):
            self.screen.show_tree()
        elif name in LASTING_SCREENS:
            self._show_lasting(name)
        elif name == "index":
            if (engine := self.opened_engine()) is not None:
                kind = AgentIndexScreen if self.search_screen.foreign else IndexScreen
                shown = [one for one in self.screen_stack if isinstance(one, IndexScreen)]
                self._bring(*shown or (kind(engine),))
        elif self.screen is self.search_screen:
            self.search_screen.show_pane("results")
        else:
            self._bring(self.search_screen)

    def run_elsewhere(self, place: str, action: str) -> None:
        """Go to a screen, or to the explanation of the chosen result, and run an action there."""
        if place == "explain":
            self.search_screen.notes.explain()
        else:
            self.action_show_screen(place)
        if self.screen is not self.search_screen:
            # Not before it is mounted.
            self.screen.call_later(self.screen.run_action, action)

    def action_show_asked(self) -> None:
        if (screen := self._show_lasting("sessions")) is not None:
            screen.searches.is_all = True
            screen.call_later(screen.show_pane, "searches")

    def action_close_top(self) -> None:
        """Close the part with the keys that a key opened, else the screen; from the search quit."""
        if getattr(self.screen, "close_part", lambda: False)():
            return
        if self.screen is self.search_screen:
            self.exit(0)
        else:
            close(self.screen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out suspending where there is no terminal that can, and the help of the help."""
        if action == "help":
            return not self.screen.query("#help-filter")
        return action != "suspend_process" or (os.name != "nt" and not self.is_headless)

    def worded(self, binding: Binding) -> Binding:
        screen = self.search_screen
        if binding.id == "quit" and (self.screen is not screen or screen.part_in_front):
            return dataclasses.replace(binding, description="close", show=False)
        return binding

    def action_interrupt(self) -> None:
        """Copy what is selected, clear what is typed, stop what runs, close a screen, or quit."""
        typed = self.focused if isinstance(self.focused, Input) else None
        selected = typed.selected_text if typed is not None else ""
        if typed is not None and selected == typed.value:
            # As `/` leaves it; another key would replace it.
            selected = ""
        selected = selected or self.screen.get_selected_text() or ""
        if selected:
            self.copy_to_clipboard(selected)
            self.notify("copied the selection", markup=False)
            return
        if typed is None and self.screen is self.search_screen:
            typed = self.search_screen.query_input
        if typed is not None and typed.value:
            self.search_screen.notes.remember_query()
            typed.clear()
            return
        # What runs behind a dialog can be stopped once that is closed.
        screens = (self.screen,) if self.screen.is_modal else (self.screen, self.search_screen)
        if any(getattr(screen, "stop_running", lambda: False)() for screen in screens):
            return
        if self.screen is self.search_screen:
            self.exit(0)
        else:
            close(self.screen)

    def is_conversation(self, path: str) -> bool:
        """Tell a path of the index that is that of a transcript, by its name."""
        return ".jsonl" in path.rpartition("/")[2]

    def open_place(
        self,
        path: str,
        line: int = 1,
        chunk_id: str | None = None,
        terms: Sequence[str] = (),
        *,
        alone: bool = False,
    ) -> None:
        """Show a file of the memory at a line, on the browse screen.

        `alone` without the tree, over the screen that leads there.
        """
        name = "reader" if alone else "browse"
        if (screen := self._show_lasting(name, is_over=alone)) is not None:
            screen.open_place(path, line, chunk_id, terms)

    def open_turn(self, path: str, line: int = 1, end_line: int | None = None) -> None:
        """Show a conversation at a line of its transcript, on the sessions screen.

        With `end_line` at the turn from `line` to there that holds the most of the query's words.
        """
        if (screen := self._show_lasting("sessions")) is not None:
            screen.open_turn(path, line, end_line)

    def open_chunk(self, chunk_id: str) -> None:
        from memtui.tui.screens.chunk import ChunkScreen

        if (engine := self.opened_engine()) is not None:
            self.push_screen(ChunkScreen(engine, chunk_id))

    def run_query(self, query: str) -> None:
        """Ask on the search screen; from there `esc` leads back to a screen that lasts."""
        came_from = self.screen.id or ""
        self.action_show_screen("search")
        self.search_screen.came_from = came_from if came_from in LASTING_SCREENS else ""
        self.search_screen.show_pane("results")
        self.search_screen.search.ask_query(query)

    def _bring(self, screen: Screen[None], *, is_over: bool = False) -> None:
        """Put a screen in front: what lies over it is closed, else it comes over the others.

        With `is_over` nothing is closed.
        """
        if screen in self.screen_stack and not is_over:
            while self.screen is not screen:
                self.pop_screen()
        elif self.screen is not screen:
            self.push_screen(screen)

    def _show_lasting(self, name: str, *, is_over: bool = False) -> Any:
        """Bring a lasting screen to the front and return it; `None` while no memory is open."""
        if name not in self._screens and (engine := self.opened_engine()) is not None:
            kind = resolve_name(f"memtui.tui.screens.{LASTING_SCREENS[name]}")
            self._screens[name] = kind(engine)
            self.install_screen(self._screens[name], name)
        if (screen := self._screens.get(name)) is not None:
            self._bring(screen, is_over=is_over)
        return screen

    def opened_engine(self) -> Engine | None:
        """Return the engine; where no memory is open the user is told so, or why."""
        if self.engine is None:
            self.notify(safe(self.search_screen.engine_error) or "Still opening.", markup=False)
        return self.engine

    def forget_screens(self) -> None:
        hidden = [screen for screen in self._screens.values() if screen not in self.screen_stack]
        self._bring(self.search_screen)
        for screen in self._screens.values():
            self.uninstall_screen(screen)
        for screen in hidden:
            # One on the stack is removed as it is left; what these look for goes on otherwise.
            screen.remove()
        self._screens.clear()

    def on_unmount(self) -> None:
        if self.options.state_dir is not None:
            keep_view(self.options.state_dir, self._view_before, self._view())
        self.search_screen.notes.remember_query(at_end=True)
        self.memories.begin_closing()


def run(
    workspace: Found | None,
    loaded: Loaded,
    *,
    demo: bool = False,
    choose: bool = False,
    foreign: Engine | None = None,
) -> int:
    """Open the interface on a memory folder, or on an agent's index, and return the exit code.

    With `choose`, for a call that names no folder, the agents of this machine are offered first
    when there are any; `workspace` may then be `None`. `foreign` is open already.
    """

    def open_engine(bus: Bus) -> Engine:
        files = options.files
        # What kept the memory from opening may have been corrected since.
        settings = files.load().settings if files is not None else loaded.settings
        app.configured = msgspec.structs.replace(app.configured, settings=settings)
        return Engine.open(root, settings, bus=bus, watch=True, warm=True, files=files, demo=demo)

    opened = foreign or workspace
    root = opened.root if opened is not None else Path()
    options = options_from(loaded, root, demo=demo, foreign=foreign is not None)
    app = MemtuiApp(
        open_engine if foreign is None and opened is not None else None,
        options,
        agents=MachineAgents(allow_insecure=loaded.settings.embedding.allow_insecure),
        choose=choose,
        bus=foreign.bus if foreign is not None else None,
    )
    if foreign is not None:
        app.memories.factory = lambda bus: foreign
    try:
        code = app.run(mouse=loaded.settings.ui.mouse)
    finally:
        app.memories.close()
    if app.crash is not None:
        raise app.crash
    return app.return_code or code or 0
