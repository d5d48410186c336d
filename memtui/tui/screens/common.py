"""For all screens: classes of their size, parts one at a time, closing, actions, timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from textual.app import App
from textual.content import Content
from textual.message_pump import MessagePump
from textual.screen import Screen, ScreenResultType
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from memtui.engine import Engine
from memtui.errors import WriterLocked
from memtui.text.sanitize import safe_line
from memtui.tui.background import tell
from memtui.tui.bindings import next_of
from memtui.tui.widgets.bars import draw_key

WIDE, HUGE, TALL = 100, 160, 30
WIDTHS = [(0, "-sliver"), (40, "-small"), (60, "-narrow"), (WIDE, "-wide"), (HUGE, "-huge")]
HEIGHTS = [(0, "-flat"), (10, "-low"), (16, "-short"), (TALL, "-tall")]
"""The breakpoints of screens of several panes; below 40 and 10 only `TOO_SMALL` is shown."""
TOO_SMALL = "memtui needs 40×10; try `memtui search`"


def size_classes(screen: Screen[Any]) -> dict[str, bool]:
    """Return the classes of a screen's breakpoints, and which of them its present size sets.

    Set in `on_resize`, they spare a layout: Textual sets them after it has laid out the screen.
    """
    classes: dict[str, bool] = {}
    for breakpoints, cells in (
        (screen.HORIZONTAL_BREAKPOINTS, screen.size.width),
        (screen.VERTICAL_BREAKPOINTS, screen.size.height),
    ):
        reached = max((at for at, _ in breakpoints or () if at <= cells), default=None)
        classes |= {name: at == reached for at, name in breakpoints or ()}
    return classes


class PartLine(Static):
    """The parts of a screen by name in one line, for where only one of them is shown at a time.

    The part in front and the boxes around it have the class `-front`; all of them are of the class
    `part`.
    """

    def __init__(self, titles: Mapping[str, str], front: str) -> None:
        """`titles` are by the id of each part, in the order of Tab."""
        super().__init__(markup=False)
        self.titles, self.front = titles, front

    def entitle(self, titles: Mapping[str, str]) -> None:
        self.titles = titles
        drawn = [
            Content.styled(f" {title} ", "bold reverse" if name == self.front else "")
            for name, title in titles.items()
        ]
        shown = (*drawn, draw_key("tab", "next")) if len(titles) > 1 else ()
        self.update(Content(" ").join(shown), layout=False)
        self.refresh_bindings()

    def show(self, name: str) -> None:
        self.front = name
        front = self.screen.query_one(f"#{name}").ancestors_with_self
        for widget in self.screen.query(".part"):
            widget.set_class(widget in front, "-front")
        self.entitle(self.titles)

    def on_mount(self) -> None:
        self.watch(self.screen, "focused", self._follow)

    def _follow(self, focused: Widget | None) -> None:
        """Bring the part that got the keys to the front."""
        if focused is not None and (name := focused.id or "") in self.titles:
            self.show(name)

    def step(self, step: int) -> None:
        """Give the keys to the next or the previous part."""
        self.show(next_of(self.titles, self.front, step))
        # Another part may be in front by then.
        after_refresh(self.screen, lambda: self.screen.query_one(f"#{self.front}").focus())


def is_open(screen: Screen[Any]) -> bool:
    """Tell whether a screen is on the stack: a message may come after it was closed."""
    return screen in screen.app.screen_stack


def close(screen: Screen[ScreenResultType], result: ScreenResultType | None = None) -> None:
    """Close a screen with a result, and what lies over it; a second call does nothing.

    Textual's `dismiss` takes away the screen in front, whichever it is.
    """
    if is_open(screen):
        while screen.app.screen is not screen:
            screen.app.pop_screen()
        screen.dismiss(result)


def after_refresh(screen: Screen[Any], callback: Callable[..., Any], *arguments: Any) -> None:
    """Do something once all is drawn, unless the screen is closed by then.

    Textual leaves it to the screen in front, which may come to it when this one has no widgets.
    """
    screen.call_after_refresh(lambda: callback(*arguments) if is_open(screen) else None)


def is_locked(screen: Screen[Any], engine: Engine, waits: str = "") -> bool:
    """Tell whether another program writes the index, and say so behind what `waits` for it."""
    try:
        engine.index.require_writer()
    except WriterLocked as error:
        tell(screen, waits + safe_line(str(error)), warning=True)
        return True
    return False


def act_on_part(
    node: Screen[Any] | App[Any], part: str, name: str, arguments: tuple[object, ...] = ()
) -> None:
    """Run an action of a controller or widget that is an attribute of a screen or the application.

    A class with such actions has this as `action_part`.
    """
    getattr(getattr(node, part), name)(*arguments)


class Timers:
    """Timers of a node by name; another one of the same name takes the place of the first."""

    def __init__(self, node: MessagePump) -> None:
        self._node = node
        self._running: dict[str, Timer] = {}

    def start(self, name: str, seconds: float, action: Callable[[], object]) -> None:
        self.stop(name)

        def act() -> None:
            # One that was stopped may have been due already.
            if self._running.get(name) is timer:
                del self._running[name]
                action()

        timer = self._running[name] = self._node.set_timer(seconds, act)

    def stop(self, name: str) -> None:
        if name in self._running:
            self._running.pop(name).stop()

    def is_running(self, name: str) -> bool:
        return name in self._running
