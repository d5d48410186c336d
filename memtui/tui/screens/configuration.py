"""The current parameters as a piece of an agent's configuration, to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from memtui.model import Ranking
from memtui.text.sanitize import safe, safe_line
from memtui.tui.bindings import bindings
from memtui.tui.screens.base import BaseScreen

PREFIX = "openclaw-"
NEWEST = "2026.9"
_KEYS = "y copy  ←/→ release  esc back"


def release_for(profiles: Sequence[str]) -> str:
    """The release of the first profile that is one of OpenClaw's, else the newest."""
    from memtui.settings.openclaw import RELEASES

    for name in profiles:
        release = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and release in RELEASES:
            return release
    return NEWEST


class ConfigurationScreen(BaseScreen[None], ModalScreen[None]):
    """JSON5 to merge into openclaw.json, and what that release cannot say."""

    BINDING_GROUP_TITLE = "Agent configuration"
    BINDINGS: ClassVar[list[BindingType]] = bindings("configuration")

    DEFAULT_CSS = """
    ConfigurationScreen {
        align: center middle;
        background: $background 60%;
        & #configuration-box {
            width: 88; max-width: 100%; height: auto; max-height: 100%;
            padding: 0 2;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-subtitle-color: $foreground 68%;
        }
        & #configuration-scroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        & #configuration-text, & #configuration-cannot { width: 1fr; height: auto; }
        & #configuration-cannot { margin-top: 1; }
        &.-short #configuration-box { height: 100%; }
        &.-short #configuration-scroll { height: 1fr; }
    }
    """

    def __init__(self, ranking: Ranking, release: str) -> None:
        super().__init__()
        self._ranking = ranking
        self.release = release
        self.text = ""
        """The fragment that is shown."""

    def compose(self) -> ComposeResult:
        with Vertical(id="configuration-box"), VerticalScroll(id="configuration-scroll"):
            yield Static(id="configuration-text", markup=False)
            yield Static(id="configuration-cannot", markup=False)

    def on_mount(self) -> None:
        """Show the fragment of the release, and copy it."""
        self.query_one("#configuration-scroll").focus()
        self._show()
        self.action_copy()

    def _show(self) -> None:
        from memtui.settings.openclaw import fragment

        made = fragment(self._ranking, self.release)
        self.text = safe(made.text)
        box = self.query_one("#configuration-box")
        box.border_title = Content.assemble("For OpenClaw ", (self.release, "bold"))
        box.border_subtitle = Content(_KEYS)
        self.query_one("#configuration-text", Static).update(Content(self.text.rstrip("\n")))
        self.query_one("#configuration-cannot", Static).update(_cannot(made.cannot))

    def action_copy(self) -> None:
        """Copy the fragment."""
        self.app.copy_to_clipboard(self.text)
        told = Content.assemble(("copied", "$state-ok bold"), f"   {_KEYS}")
        self.query_one("#configuration-box").border_subtitle = told

    def action_release(self, step: int) -> None:
        """Write the same parameters for another release."""
        from memtui.settings.openclaw import RELEASES

        place = RELEASES.index(self.release) + step
        if 0 <= place < len(RELEASES):
            self.release = RELEASES[place]
            self._show()

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        scroll = self.query_one("#configuration-scroll", VerticalScroll)
        scroll.scroll_relative(y=lines, animate=False)


def _cannot(lines: Sequence[str]) -> Content:
    if not lines:
        return Content.styled("This release takes every parameter.", "$state-ok")
    head = Content.styled("This release cannot take:", "$state-warn bold")
    told = [Content.assemble(("! ", "$state-warn"), safe_line(line)) for line in lines]
    return Content("\n").join([head, *told])
