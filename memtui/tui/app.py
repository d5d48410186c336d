"""The application: themes, keys, screens, and the engine that is opened after the first paint."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.actions import ActionParseResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.worker import Worker

from memtui.bus import Bus
from memtui.model import Ranking
from memtui.text.sanitize import safe_line
from memtui.tui.actions_screens import ScreenActions
from memtui.tui.bindings import bindings, resolve_keymap
from memtui.tui.commands import MemtuiCommands
from memtui.tui.memories import (
    AgentSource,
    EngineFactory,
    MachineAgents,
    OpenedMemory,
    foreign_memory,
    open_target,
)
from memtui.tui.messages import (
    IndexContentChanged,
    IndexExamined,
    IndexStatusChanged,
    LegChanged,
    SearchAnswered,
    SearchErred,
    SyncEnded,
)
from memtui.tui.options import UiOptions, flags_of, is_provider_given
from memtui.tui.screens.base import Modal, show_worker_error

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.foreign import ForeignTarget
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded

WIDTHS = [(0, "-narrow"), (100, "-wide"), (160, "-huge")]
HEIGHTS = [(0, "-short"), (30, "-tall")]
MOST_WARNINGS = 10
"""So many things that are wrong with the configuration are told one by one at the start."""


class MemtuiApp(ScreenActions):
    """Shows a memory and why it recalls what it recalls."""

    TITLE = "memtui"
    CSS_PATH = "screens/main.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    COMMANDS: ClassVar[set[Any]] = {MemtuiCommands}
    """Without Textual's own: its keys, maximize and screenshot are not this program's."""
    COMMAND_PALETTE_BINDING = "ctrl+p"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    ESCAPE_TO_MINIMIZE = False

    def __init__(
        self,
        open_engine: EngineFactory | None,
        options: UiOptions | None = None,
        *,
        agents: AgentSource | None = None,
        choose: bool = False,
        bus: Bus | None = None,
    ) -> None:
        super().__init__(open_engine, options, agents=agents, choose=choose, bus=bus)
        self.animation_level = "none"

    def get_default_screen(self) -> Screen[Any]:
        """Start on the search screen."""
        return self.search_screen

    def on_mount(self) -> None:
        """Set keys; open the engine once the first screen is painted."""
        keymap, unknown = resolve_keymap(self.options.keymap_preset, self.options.keymap)
        self.set_keymap(keymap)
        told = (*self.options.warnings, *self.theme_problems, *unknown)
        more = (f"{len(told) - MOST_WARNINGS} more: memtui config validate",)
        for problem in told if len(told) <= MOST_WARNINGS + 1 else told[:MOST_WARNINGS] + more:
            self.notify(safe_line(problem), markup=False, severity="warning", timeout=10)
        # What is loaded by now stays: without it, a collection is short.
        self.call_after_refresh(gc.freeze)
        self.call_after_refresh(self.start_opening)

    # --- what the bus tells ---------------------------------------------------------------------

    def on_search_answered(self, message: SearchAnswered) -> None:
        """Draw an answer."""
        if self.search_screen.is_built and self.is_current(message.memory):
            self.search_screen.search_answered(message)

    def on_search_erred(self, message: SearchErred) -> None:
        """Tell a failed search."""
        if self.search_screen.is_built and self.is_current(message.memory):
            self.search_screen.search_erred(message)

    def on_index_status_changed(self, message: IndexStatusChanged) -> None:
        """Show the index status."""
        self._bridge.taken(message)
        if self.search_screen.is_built:
            self.search_screen.refresh_status()
        if self._browse is not None:
            self._browse.status_changed()

    def on_index_content_changed(self, message: IndexContentChanged) -> None:
        """Follow a changed index."""
        self._bridge.taken(message)
        if self.search_screen.is_built:
            self.search_screen.content_changed()
        if self._browse is not None:
            self._browse.content_changed()
        if self._sessions is not None:
            self._sessions.content_changed()

    def on_sync_ended(self, message: SyncEnded) -> None:
        """Tell how a sync ended."""
        if self.search_screen.is_built:
            self.search_screen.sync_ended(message)
        if self._sessions is not None:
            self._sessions.content_changed()

    def on_index_examined(self, message: IndexExamined) -> None:
        """Show what another look at the index found."""
        from memtui.tui.screens.truth import TruthScreen

        if self.search_screen.is_built:
            self.search_screen.index_examined(message)
        if isinstance(self.screen, TruthScreen):
            self.screen.refresh_status()

    def on_leg_changed(self, message: LegChanged) -> None:
        """Tell that a leg stopped answering or answers again."""
        if self.search_screen.is_built:
            self.search_screen.leg_changed(message)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Tell what went wrong beside the loop."""
        show_worker_error(self, event)

    async def on_event(self, event: events.Event) -> None:
        """Take a greeting away before a key is handed on, so that no later key overtakes it."""
        typed = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if typed and isinstance(front := self.screen, Modal) and front.CLOSING_KEYS is not None:
            front.dismiss(None)
            if isinstance(event, events.Key) and event.key in front.CLOSING_KEYS:
                return
        await super().on_event(event)

    # --- actions --------------------------------------------------------------------------------

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action; what the application has not is an action of the search screen.

        So the palette, a key and the mouse share one path, whatever screen is in front.
        """
        if default_namespace is None and isinstance(action, str):
            name = action.partition("(")[0]
            if "." not in name and not hasattr(self, f"action_{name}"):
                default_namespace = self.search_screen
        return await super().run_action(action, default_namespace, namespaces)

    def action_help(self) -> None:
        """Show the keys of the focused pane."""
        from memtui.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen(self.screen.focused))

    def action_save_svg(self) -> None:
        """Save the screen as SVG in the state folder."""
        svg = self.export_screenshot(title="memtui")
        name = f"memtui-{datetime.now():%Y-%m-%d-%H%M%S}.svg"
        folder = (self.options.state_dir or Path.cwd()) / "screenshots"
        self.run_worker(
            lambda: self._write_svg(folder / name, svg),
            thread=True,
            exit_on_error=False,
            group="screenshot",
            description="save the screenshot",
        )

    def _write_svg(self, path: Path, svg: str) -> None:
        from memtui.report.export import ExportFailed, save
        from memtui.settings.storage import make_private

        try:
            make_private(path.parent)
            save(path, svg, force=True, mode=0o600)
        except (OSError, ExportFailed) as error:
            text = f"screenshot not saved: {error}"
            self.call_from_thread(self.notify, safe_line(text), markup=False, severity="error")
            return
        self.call_from_thread(self.notify, f"saved {safe_line(str(path))}", markup=False)

    def settings_written(
        self, ranking: Ranking | None, profiles: Mapping[str, Ranking], *, foreign: bool
    ) -> None:
        """Take over what was written to the settings: a ranking, or `None`, and the named ones.

        Over an agent's index the configured ranking stays the agent's; the notes get the new one.
        """
        configured = replace(self._configured, profiles=profiles)
        self._configured = configured if ranking is None else replace(configured, ranking=ranking)
        shown = replace(self.options, profiles=profiles)
        if ranking is not None and not foreign:
            shown = replace(shown, ranking=ranking)
        self.options = self.search_screen.options = shown
        self.search_screen.show_parameters()

    async def action_quit(self) -> None:
        """Quit at once."""
        self.exit(0)

    def handle_bindings_clash(self, clashed_bindings: set[Binding], node: DOMNode) -> None:
        """Tell once that two actions want one key."""
        names = ", ".join(sorted(binding.id or binding.action for binding in clashed_bindings))
        self.notify(
            safe_line(f"keymap: one key for {names}"), markup=False, severity="warning", timeout=10
        )


def options_from(loaded: Loaded, root: Path, *, demo: bool, foreign: bool = False) -> UiOptions:
    """Resolve the interface's options from loaded settings.

    Of the demo and of an agent's workspace no file is written: parameters go to the user's.
    """
    from memtui.embedding.choice import choice_of
    from memtui.ranking.profiles import PROFILES
    from memtui.settings import state_dir
    from memtui.settings.write import SettingsFiles

    settings = loaded.settings
    has_folder = root != Path() and not demo and not foreign
    return UiOptions(
        ranking=settings.configured_ranking(PROFILES),
        profiles=settings.named_rankings(PROFILES),
        files=SettingsFiles(
            dict(os.environ), root if has_folder else None, flags_of(loaded.layers)
        ),
        root=root,
        theme=settings.ui.theme,
        preview=settings.ui.preview,
        glyphs=settings.ui.glyphs,
        history=settings.ui.history,
        editor=settings.editor,
        keymap_preset=settings.keymap.preset,
        keymap=settings.keymap.bindings,
        state_dir=state_dir(),
        embedding=choice_of(settings.embedding),
        is_provider_given=is_provider_given(loaded),
        demo=demo,
        warnings=loaded.warnings,
    )


def run(
    workspace: Found | None,
    loaded: Loaded,
    *,
    demo: bool = False,
    choose: bool = False,
) -> int:
    """Open the interface on a memory folder and return the exit code.

    With `choose`, for a call that names no folder, the agents of this machine are offered first
    when there are any; `workspace` may then be `None`.
    """

    def open_engine(bus: Bus) -> Engine:
        # Imported after the first paint: numpy, apsw and the model take longer than a screen.
        from memtui.engine import Engine
        from memtui.index.transcripts.scope import demo_homes
        from memtui.memory.workspace import demo_clock
        from memtui.settings import demo_data_dir

        assert workspace is not None
        return Engine.open(
            workspace.root,
            loaded.settings,
            bus=bus,
            now=demo_clock() if demo else None,
            data_dir=demo_data_dir() if demo else None,
            watch=True,
            warm=True,
            homes=demo_homes() if demo else None,
        )

    options = options_from(loaded, workspace.root if workspace else Path(), demo=demo)
    agents = MachineAgents.of_user()
    app = MemtuiApp(open_engine if workspace else None, options, agents=agents, choose=choose)
    return _run(app, loaded)


def run_foreign(
    opened: ForeignTarget | Engine,
    loaded: Loaded,
    *,
    given: GivenVectors | None = None,
    profile: str | None = None,
) -> int:
    """Open the interface on another program's index and return the exit code.

    `given` and `profile` are for a target, which is opened after the first paint; an engine is
    open already.
    """
    from memtui.engine.foreign import ForeignTarget

    folder = opened.workspace if isinstance(opened, ForeignTarget) else opened.root

    def open_engine(bus: Bus) -> OpenedMemory:
        if isinstance(opened, ForeignTarget):
            return open_target(opened, bus, given=given, profile=profile)
        return foreign_memory(opened)

    app = MemtuiApp(
        open_engine,
        options_from(loaded, folder or Path(), demo=False, foreign=True),
        agents=MachineAgents.of_user(),
        bus=None if isinstance(opened, ForeignTarget) else opened.bus,
    )
    return _run(app, loaded)


def _run(app: MemtuiApp, loaded: Loaded) -> int:
    try:
        code = app.run(mouse=loaded.settings.ui.mouse)
    finally:
        app.close_engine()
    return app.return_code or code or 0
