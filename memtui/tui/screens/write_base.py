"""Writing into a settings file: the difference is shown first, and Enter writes what is shown."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static
from textual.worker import Worker

from memtui.errors import SettingsError
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.base import Modal
from memtui.tui.writing import drawn_difference

if TYPE_CHECKING:
    from memtui.settings.write import Plan, SettingsFiles

KEYS = "enter write  j/k scroll  esc leave"
CHANGED = "changed by another program meanwhile: below is the difference to it now"

Result = TypeVar("Result")


@dataclass
class Planned(Message):
    """What writing would change; or why it cannot be."""

    asked: object
    plan: Plan | None
    error: str = ""


@dataclass
class Refused(Message):
    """Nothing was written."""

    error: str
    was_changed: bool


@dataclass
class Done(Message):
    """The file was written."""

    result: object


class WriteScreen(Modal[Result | None], Generic[Result]):
    """The difference of a settings file; Enter writes it. Returns what was written, else nothing.

    Has a box, in it a scroll with the difference, and notes: their ids begin with `PARTS`.
    """

    PARTS: ClassVar[str]
    """What the ids of the parts begin with."""

    def __init__(self, files: SettingsFiles, glyphs: Glyphs) -> None:
        super().__init__()
        self._files = files
        self._glyphs = glyphs
        self.plan: Plan | None = None
        """What Enter writes; `None` while it is made, and when nothing can be written."""
        self._error = self._told = ""
        self._writing = False

    # --- given by each dialog -------------------------------------------------------------------

    @property
    @abstractmethod
    def already(self) -> str:
        """What to say where nothing would change."""

    @abstractmethod
    def plan_of(self, asked: object) -> Plan:
        """What writing would change; beside the loop, raises `SettingsError`."""

    @abstractmethod
    def result_of(self, plan: Plan) -> Result:
        """What to return once it is written; beside the loop, raises `SettingsError`."""

    @abstractmethod
    def draw(self) -> None:
        """Draw everything anew."""

    @property
    def asked(self) -> object:
        """What a plan is made for: one for anything else comes too late."""
        return None

    # --- what would change ----------------------------------------------------------------------

    def plan_anew(self) -> None:
        """Find out what would change."""
        self._make_plan(self.asked)

    @work(
        thread=True, exclusive=True, group="plan", exit_on_error=False, description="read settings"
    )
    def _make_plan(self, asked: object) -> None:
        try:
            self.post_message(Planned(asked, self.plan_of(asked)))
        except SettingsError as error:
            self.post_message(Planned(asked, None, str(error)))

    @on(Planned)
    def planned(self, message: Planned) -> None:
        """Show what would change, unless something else is asked for meanwhile."""
        message.stop()
        if self.is_open and message.asked == self.asked:
            self.plan, self._error = message.plan, message.error
            self.draw()

    # --- drawing --------------------------------------------------------------------------------

    @property
    def scroll(self) -> VerticalScroll:
        """What the difference scrolls in."""
        return self.query_one(f"#{self.PARTS}-scroll", VerticalScroll)

    @property
    def named_target(self) -> Content:
        """The file that Enter writes; empty while that is not known."""
        if self.plan is None:
            return Content("")
        path = fmt.home_relative(str(self.plan.target.path))
        return Content.styled(path + (" (new)" if self.plan.target.file is None else ""), "bold")

    def draw_difference(self) -> None:
        """Draw what would change, or why nothing does."""
        widget = self.query_one(f"#{self.PARTS}-difference", Static)
        widget.styles.text_wrap = "wrap" if self._error else "nowrap"
        widget.update(self._difference())

    def _difference(self) -> Content:
        if self._error:
            return Content.styled(f"{self._glyphs.error} {safe_line(self._error)}", "$state-error")
        if self.plan is None:
            return Content.styled(f"reading the settings{self._glyphs.ellipsis}", fmt.MUTED)
        if not self.plan.changes:
            return Content.styled(f"{self._glyphs.ready} {self.already}", "$state-ok")
        return drawn_difference(self.plan.before, self.plan.after)

    def warning(self, text: str) -> Content:
        """A line with the sign of a warning."""
        return Content.assemble((f"{self._glyphs.degraded} ", "$state-warn bold"), safe_line(text))

    @property
    def warnings(self) -> list[Content]:
        """What there is to know of the plan."""
        return [self.warning(line) for line in self.plan.notes] if self.plan is not None else []

    def fit(self) -> bool:
        """Let the difference be as high as it is; whether that is too much, and it scrolls."""
        if not self.is_open:
            return False
        scroll, box = self.scroll, self.query_one(f"#{self.PARTS}-box")
        others = [child for child in box.children if child.display and child is not scroll]
        # Two lines for the border, two for the margin of the difference.
        room = self.size.height - 4 - sum(child.outer_size.height for child in others)
        scroll.styles.max_height = max(1, room)
        return scroll.virtual_size.height > room

    def on_resize(self, event: events.Resize) -> None:
        """Give the difference the room that there is."""
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        """Use the new size, once the screen is laid out for it."""
        self.fit()

    # --- keys -----------------------------------------------------------------------------------

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll.scroll_relative(y=lines, animate=False)

    def action_write(self) -> None:
        """Write what is shown."""
        if self.plan is not None and not self._writing:
            self._writing = True
            self._write(self.plan)

    @work(thread=True, group="write", exit_on_error=False, description="write the settings")
    def _write(self, plan: Plan) -> None:
        from memtui.settings.storage import FileChanged
        from memtui.settings.write import write

        try:
            if plan.changes:
                write(plan, self._files)
            self.post_message(Done(self.result_of(plan)))
        except SettingsError as error:
            self.post_message(Refused(str(error), isinstance(error, FileChanged)))

    @on(Refused)
    def refused(self, message: Refused) -> None:
        """Show why nothing was written; the difference to a changed file is made anew."""
        message.stop()
        self._writing = False
        self.plan = None
        if not self.is_open:
            return
        if message.was_changed:
            self._told = CHANGED
            self.plan_anew()
        else:
            self._error = message.error
        self.draw()

    @on(Done)
    def done(self, message: Done) -> None:
        """Hand over what was written."""
        message.stop()
        result: Result = message.result  # type: ignore[assignment]
        self.dismiss(result)

    def action_close(self) -> None:
        """Leave without writing; what is being written is waited for."""
        if not self._writing:
            self.dismiss(None)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Let another try begin after one that went wrong."""
        if event.worker.error is not None:
            self._writing = False


class WriteUserFile(WriteScreen[Result]):
    """A change of the user's own file: its path, the difference, and what there is to know."""

    BOX_CLASS: ClassVar[str]
    """The class that the stylesheet gives the box of such a dialog."""
    always: tuple[Content, ...] = ()
    """What is told below every difference."""

    def compose(self) -> ComposeResult:
        """The file, the difference, what else there is to know."""
        with Vertical(id=f"{self.PARTS}-box", classes=self.BOX_CLASS):
            yield Static(id=f"{self.PARTS}-path", markup=False)
            with VerticalScroll(id=f"{self.PARTS}-scroll"):
                yield Static(id=f"{self.PARTS}-difference", markup=False)
            yield Static(id=f"{self.PARTS}-notes", markup=False)

    def on_mount(self) -> None:
        """Find out what would change."""
        box = self.query_one(f"#{self.PARTS}-box")
        box.border_title = Content(self.BINDING_GROUP_TITLE or "")
        box.border_subtitle = Content(KEYS)
        self.scroll.focus()
        self.draw()
        self.plan_anew()

    def draw(self) -> None:
        """Draw the file, the difference, and what else there is to know."""
        self.query_one(f"#{self.PARTS}-path", Static).update(self.named_target)
        self.draw_difference()
        lines = [self.warning(self._told)] if self._told else []
        lines += [*self.warnings, *self.always]
        notes = self.query_one(f"#{self.PARTS}-notes", Static)
        notes.display = bool(lines)
        notes.update(Content("\n").join(lines))
        self.call_after_refresh(self.fit)
