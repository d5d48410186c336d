"""The list of changes that would bring a chunk into the list; one of them is chosen."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from memtui.tui.bindings import bindings
from memtui.tui.explaining.findings import Findings
from memtui.tui.explaining.least_lines import Choice, LeastLine, choices, least_lines
from memtui.tui.glyphs import UNICODE, Glyphs


class LeastList(Widget, can_focus=True):
    """Least changes, then words; arrows choose, Enter or a click on the chosen one applies."""

    DEFAULT_CSS = """
    LeastList {
        width: 1fr;
        height: auto;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """
    BINDING_GROUP_TITLE = "Changes"
    HELP = "What would bring this chunk into the list. `a` applies the marked one, `u` undoes it."
    BINDINGS: ClassVar[list[BindingType]] = bindings("least_list")

    class Opened(Message):
        """The chosen change was clicked again."""

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self._findings = Findings()
        self._chosen = 0
        self._counted = -1

    @property
    def chosen(self) -> Choice | None:
        """The change that would be applied."""
        offered = choices(self._findings)
        return offered[self._chosen] if self._chosen < len(offered) else None

    def show(self, findings: Findings, *, again: bool) -> None:
        """Show what was found; `again` keeps the chosen place."""
        self._chosen = self._chosen if again else 0
        self._findings = findings
        self.refresh(layout=len(self._lines(self.content_size.width)) != self._counted)

    def action_choose(self, step: int) -> None:
        """Choose the next or the previous change; at the ends the page scrolls."""
        place = self._chosen + step
        if not 0 <= place < len(choices(self._findings)):
            self._page().scroll_relative(y=step, animate=False)
            return
        self._choose(place)

    def on_focus(self) -> None:
        """Bring the chosen change into view."""
        self._choose(self._chosen)

    def on_click(self, event: events.Click) -> None:
        """Choose by the mouse; a second click applies."""
        meta: dict[str, Any] = dict(event.style.meta)
        place = meta.get("change")
        if not isinstance(place, int):
            return
        event.stop()
        if place == self._chosen:
            self.post_message(self.Opened())
        else:
            self._choose(place)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Count the lines at this width."""
        self._counted = len(self._lines(width))
        return self._counted

    def render(self) -> Content:
        """Draw the lines at the present width."""
        lines = self._lines(self.content_size.width)
        return Content("\n").join([_clickable(line) for line in lines])

    def _choose(self, place: int) -> None:
        self._chosen = place
        self.refresh()
        lines = self._lines(self.content_size.width)
        at = next((n for n, line in enumerate(lines) if line.choice == place), 0)
        region = Region(0, at + self.gutter.top, self.size.width, 1)
        self.call_after_refresh(self._show_line, region)

    def _show_line(self, region: Region) -> None:
        page = self._page()
        top = self.region.y - page.content_region.y + page.scroll_offset.y
        page.scroll_to_region(region.translate(Offset(0, top)), animate=False, force=True)

    def _page(self) -> Widget:
        """What scrolls around this list."""
        nodes = (node for node in self.ancestors if isinstance(node, Widget))
        return next((node for node in nodes if node.is_scrollable), self.screen)

    def _lines(self, width: int) -> list[LeastLine]:
        offered = choices(self._findings)
        chosen = self._chosen if self._chosen < len(offered) else None
        return least_lines(self._findings, chosen, max(1, width), self.glyphs)


def _clickable(line: LeastLine) -> Content:
    if line.choice is None:
        return line.content
    return line.content.stylize(Style.from_meta({"change": line.choice}))
