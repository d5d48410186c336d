"""Writing the chosen provider into the settings: the difference is shown before it is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static
from textual.worker import Worker

from memtui.embedding.choice import choice_of
from memtui.errors import SettingsError
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.choosing import Chosen
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.modal import Modal
from memtui.tui.worker_errors import tell_worker_error
from memtui.tui.writing import drawn_difference

if TYPE_CHECKING:
    from memtui.settings.saving import Plan
    from memtui.settings.settings_files import SettingsFiles

CHANGED = "changed by another program meanwhile: below is the difference to it now"
NO_KEYS = "No key is ever written."
_KEYS = "enter write  j/k scroll  esc leave"


@dataclass
class ProviderPlanned(Message):
    """What writing would change; or why it cannot be."""

    plan: Plan | None
    error: str = ""


@dataclass
class ProviderRefused(Message):
    """Nothing was written."""

    error: str
    was_changed: bool


@dataclass
class ProviderWritten(Message):
    """The file was written."""

    chosen: Chosen


class WriteProvider(Modal[Chosen | None]):
    """The difference of the user's settings file; Enter writes it. Returns what to go over to."""

    CSS_PATH = "providers.tcss"
    BINDING_GROUP_TITLE = "Write the provider"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "write", "write", id="write_provider.write"),
        Binding("j,down", "scroll(1)", "down", show=False, id="write_provider.down"),
        Binding("k,up", "scroll(-1)", "up", show=False, id="write_provider.up"),
        Binding("escape,q", "close", "leave", id="write_provider.close"),
    ]

    def __init__(self, files: SettingsFiles, chosen: Chosen, glyphs: Glyphs) -> None:
        super().__init__()
        self._files = files
        self._chosen = chosen
        self._glyphs = glyphs
        self.plan: Plan | None = None
        """What Enter writes; `None` while it is made, and when nothing can be written."""
        self._error = self._told = ""
        self._writing = False

    def compose(self) -> ComposeResult:
        """The file, the difference, what else there is to know."""
        with Vertical(id="write-provider-box", classes="provider-box"):
            yield Static(id="write-provider-path", markup=False)
            with VerticalScroll(id="write-provider-scroll"):
                yield Static(id="write-provider-difference", markup=False)
            yield Static(id="write-provider-notes", markup=False)

    def on_mount(self) -> None:
        """Find out what would change."""
        box = self.query_one("#write-provider-box")
        box.border_title = Content(self.BINDING_GROUP_TITLE or "")
        box.border_subtitle = Content(_KEYS)
        self.query_one("#write-provider-scroll").focus()
        self._draw()
        self._make_plan()

    @work(
        thread=True, exclusive=True, group="plan", exit_on_error=False, description="read settings"
    )
    def _make_plan(self) -> None:
        from memtui.settings.saving_provider import plan_provider

        try:
            name, is_other = self._chosen.choice.provider, self._chosen.is_other
            plan = plan_provider(self._files, name, is_other=is_other)
        except SettingsError as error:
            self.post_message(ProviderPlanned(None, str(error)))
            return
        self.post_message(ProviderPlanned(plan))

    @on(ProviderPlanned)
    def planned(self, message: ProviderPlanned) -> None:
        """Show what would change."""
        message.stop()
        self.plan, self._error = message.plan, message.error
        self._draw()

    # --- drawing --------------------------------------------------------------------------------

    def _draw(self) -> None:
        path = ""
        if self.plan is not None:
            path = fmt.home_relative(str(self.plan.target.path))
            path += " (new)" if self.plan.target.file is None else ""
        self.query_one("#write-provider-path", Static).update(Content.styled(path, "bold"))
        difference = self.query_one("#write-provider-difference", Static)
        difference.styles.text_wrap = "wrap" if self._error else "nowrap"
        difference.update(self._difference())
        told = [self._told] if self._told else []
        told += self.plan.notes if self.plan is not None else ()
        lines = [
            Content.assemble((f"{self._glyphs.degraded} ", "$state-warn bold"), safe_line(line))
            for line in told
        ]
        lines.append(Content.styled(NO_KEYS, fmt.MUTED))
        self.query_one("#write-provider-notes", Static).update(Content("\n").join(lines))
        self.call_after_refresh(self._fit)

    def _difference(self) -> Content:
        if self._error:
            return Content.styled(f"{self._glyphs.error} {safe_line(self._error)}", "$state-error")
        if self.plan is None:
            return Content.styled(f"reading the settings{self._glyphs.ellipsis}", fmt.MUTED)
        if not self.plan.changes:
            said = "The settings ask for this provider already."
            return Content.styled(f"{self._glyphs.ready} {said}", "$state-ok")
        return drawn_difference(self.plan.before, self.plan.after)

    def _fit(self) -> None:
        """Let the difference be as high as it is, and scroll where that is too much."""
        scroll = self.query_one("#write-provider-scroll", VerticalScroll)
        box = self.query_one("#write-provider-box")
        others = [child for child in box.children if child.display and child is not scroll]
        # Two lines for the border, two for the margin of the difference.
        room = self.size.height - 4 - sum(child.outer_size.height for child in others)
        scroll.styles.max_height = max(1, room)

    def on_resize(self, event: events.Resize) -> None:
        """Give the difference the room that there is."""
        self.call_after_refresh(self._fit)

    # --- keys -----------------------------------------------------------------------------------

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        scroll = self.query_one("#write-provider-scroll", VerticalScroll)
        scroll.scroll_relative(y=lines, animate=False)

    def action_write(self) -> None:
        """Write what is shown."""
        if self.plan is not None and not self._writing:
            self._writing = True
            self._write(self.plan)

    @work(thread=True, group="write", exit_on_error=False, description="write the settings")
    def _write(self, plan: Plan) -> None:
        from memtui.settings.replacing import FileChanged
        from memtui.settings.saving import write

        try:
            if plan.changes:
                write(plan, self._files)
            configured = choice_of(self._files.load().settings.embedding)
        except SettingsError as error:
            self.post_message(ProviderRefused(str(error), isinstance(error, FileChanged)))
            return
        chosen = replace(self._chosen, plan=plan, configured=configured)
        if configured.provider == chosen.choice.provider:
            # What else the settings say for it counts from now on, too.
            chosen = replace(chosen, choice=configured)
        self.post_message(ProviderWritten(chosen))

    @on(ProviderRefused)
    def refused(self, message: ProviderRefused) -> None:
        """Show why nothing was written; the difference to a changed file is made anew."""
        message.stop()
        self._writing = False
        self.plan = None
        if message.was_changed:
            self._told = CHANGED
            self._make_plan()
        else:
            self._error = message.error
            self._draw()

    @on(ProviderWritten)
    def written(self, message: ProviderWritten) -> None:
        """Hand over what was written."""
        message.stop()
        self.dismiss(message.chosen)

    def action_close(self) -> None:
        """Leave without writing; what is being written is waited for."""
        if not self._writing:
            self.dismiss(None)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Tell what went wrong beside the loop."""
        if event.worker.error is not None:
            self._writing = False
        tell_worker_error(self.app, event)
