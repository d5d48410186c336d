"""The list of changes that would bring a chunk into the list; one of them is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Offset, Region
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from memtui.report.layout import Section
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.present.report import section_rows
from memtui.tui.widgets.line_view import TextBlock

if TYPE_CHECKING:
    from memtui.tui.screens.explain_controller import Choice

_RESERVED = 10
"""Lines that a section takes at least, so that what follows stays where it is when it is there."""


class ChangeList(TextBlock, can_focus=True):
    """Least changes, then words; arrows choose, Enter or a click on the chosen one applies."""

    BINDING_GROUP_TITLE = "Changes"
    HELP = "What would bring this chunk into the list. `a` applies the marked one, `u` undoes it."
    BINDINGS: ClassVar[list[BindingType]] = bindings("least_list")

    class Opened(Message):
        """The chosen change was clicked again."""

    def __init__(self, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self._sections: Sequence[Section] = ()
        self._choices: Sequence[Choice] = ()
        self._chosen = 0

    @property
    def chosen(self) -> Choice | None:
        """The change that would be applied."""
        return self._choices[self._chosen] if self._chosen < len(self._choices) else None

    def show_changes(
        self, sections: Sequence[Section], choices: Sequence[Choice], *, again: bool
    ) -> None:
        """Show sections whose rows are the choices, in their order; `again` keeps the place."""
        self._chosen = self._chosen if again else 0
        self._sections, self._choices = sections, choices
        self.display = bool(sections)
        self.show(lambda width: [line for _, line in self._lines(width)])

    def action_choose(self, step: int) -> None:
        """Choose the next or the previous change; at the ends the page scrolls."""
        place = self._chosen + step
        if 0 <= place < len(self._choices):
            self._choose(place)
        else:
            self._page().scroll_relative(y=step, animate=False)

    def on_focus(self) -> None:
        """Bring the chosen change into view."""
        self._choose(self._chosen)

    def on_click(self, event: events.Click) -> None:
        """Choose by the mouse; a second click applies."""
        place = event.style.meta.get("choice")
        if not isinstance(place, int):
            return
        event.stop()
        if place == self._chosen:
            self.post_message(self.Opened())
        else:
            self._choose(place)

    def _choose(self, place: int) -> None:
        self._chosen = place
        self.refresh()
        lines = self._lines(self.content_size.width)
        at = next((number for number, (choice, _) in enumerate(lines) if choice == place), 0)
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

    def _lines(self, width: int) -> list[tuple[int | None, Content]]:
        """Each line with the number of its choice."""
        lines: list[tuple[int | None, Content]] = []
        first = 0
        for section in self._sections:
            drawn = section_rows(section, max(1, width), self.glyphs, self._chosen - first)
            for row, line in drawn:
                if row is None:
                    lines.append((None, line))
                else:
                    meta = Style.from_meta({"choice": first + row})
                    lines.append((first + row, line.stylize(meta)))
            lines += [(None, Content(""))] * max(1, _RESERVED - len(drawn))
            first += len(section.rows)
        return lines
