"""The current parameters as a piece of an agent's configuration, to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from memtui.model import Ranking
from memtui.settings.openclaw.convert import fragment
from memtui.settings.openclaw.releases import RELEASES
from memtui.text.sanitize import safe, safe_line
from memtui.tui.bindings import bindings
from memtui.tui.screens.dialogs import Dialog

PREFIX = "openclaw-"
_KEYS = "y copy  ←/→ release  esc back"


def release_for(profiles: Sequence[str]) -> str:
    """Return the release of the first profile that is one of OpenClaw's, else the newest."""
    releases = (name.removeprefix(PREFIX) for name in profiles if name.startswith(PREFIX))
    return next((release for release in releases if release in RELEASES), RELEASES[-1])


class ConfigurationScreen(Dialog[None]):
    """JSON5 to merge into openclaw.json, and what that release cannot say."""

    BINDING_GROUP_TITLE = "Agent configuration"
    BINDINGS: ClassVar[list[BindingType]] = bindings("configuration")

    def __init__(self, ranking: Ranking, release: str) -> None:
        super().__init__()
        self._ranking = ranking
        self.release = release
        self.text = ""
        """The fragment that is shown."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog-box", id="configuration"):
            yield Static(id="configuration-text", markup=False)
            yield Static(id="configuration-cannot", markup=False)

    def on_mount(self) -> None:
        """Show the fragment of the release, and copy it."""
        self.box.focus()
        self._show()
        self.action_copy()

    def _show(self) -> None:
        made = fragment(self._ranking, self.release)
        self.text = safe(made.text)
        self.frame(Content.assemble("For OpenClaw ", (self.release, "bold")), _KEYS)
        self.query_one("#configuration-text", Static).update(Content(self.text.rstrip("\n")))
        cannot = Content.styled("This release takes every parameter.", "$state-ok")
        if made.cannot:
            head = Content.styled("This release cannot take:", "$state-warn bold")
            lines = (Content.assemble(("! ", "$state-warn"), safe_line(one)) for one in made.cannot)
            cannot = Content("\n").join([head, *lines])
        self.query_one("#configuration-cannot", Static).update(cannot)

    def action_copy(self) -> None:
        """Copy the fragment."""
        self.app.copy_to_clipboard(self.text)
        self.box.border_subtitle = Content.assemble(("copied", "$state-ok bold"), f"   {_KEYS}")

    def action_release(self, step: int) -> None:
        """Write the same parameters for another release."""
        place = RELEASES.index(self.release) + step
        if 0 <= place < len(RELEASES):
            self.release = RELEASES[place]
            self._show()
