"""Saving the parameters: what changes in which settings file, shown before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from memtui.model import Ranking
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.options import built_in_rankings
from memtui.tui.screens.write_base import WriteScreen
from memtui.tui.widgets.safe_input import SafeInput
from memtui.tui.writing import Where, Written, make_plan, name_error, paths_of

if TYPE_CHECKING:
    from memtui.settings.write import Plan, SettingsFiles

NOT_THE_AGENTS = "memtui's settings, not the agent's (C copies for the agent)"
ALREADY = "The settings give exactly these parameters already."
SAME_PROFILE = "The profile is exactly this already."
NAME_WIDTH = 64
LABEL = 15
"""Cells for the name of a place."""
_KEYS = "enter write  tab where  esc leave"
_SCROLL_KEYS = "enter write  tab where  j/k scroll  esc leave"


@dataclass
class PathsFound(Message):
    """The file of every place is known."""

    paths: Mapping[Where, Path]


class WriteParameters(WriteScreen[Written]):
    """The difference of a settings file; Enter writes it. Returns what was written."""

    PARTS = "write"
    BINDING_GROUP_TITLE = "Write the parameters"
    BINDINGS: ClassVar[list[BindingType]] = bindings("write")

    DEFAULT_CSS = """
    WriteParameters {
        align: center middle;
        background: $background 60%;
        & #write-box {
            width: 96; max-width: 100%; height: auto; max-height: 100%;
            padding: 0 2;
            background: $surface;
            border: round $primary;
            border-title-color: $foreground;
            border-subtitle-color: $foreground 68%;
        }
        & #write-places { height: auto; }
        & #write-name {
            height: 1; border: none; padding: 0; margin-left: 2; background: $foreground 8%;
        }
        & #write-name:focus { background-tint: $foreground 0%; }
        & #write-told, & #write-notes { height: auto; width: 1fr; }
        & #write-scroll { height: auto; margin: 1 0; scrollbar-size-vertical: 1; }
        & #write-difference {
            width: 1fr; height: auto; text-wrap: nowrap; text-overflow: ellipsis;
        }
    }
    """

    def __init__(
        self,
        files: SettingsFiles,
        ranking: Ranking,
        glyphs: Glyphs,
        *,
        name: str = "",
        foreign: bool = False,
    ) -> None:
        """`name` is offered for a profile; `foreign`: an agent's index is open."""
        super().__init__(files, glyphs)
        self._ranking = ranking
        self._offered = name
        self._foreign = foreign
        self._places = tuple(
            place for place in Where if place is not Where.PROJECT or files.root is not None
        )
        self._paths: Mapping[Where, Path] = {}
        self.where = Where.USER
        """What is chosen."""
        self._told = NOT_THE_AGENTS if foreign else ""

    def compose(self) -> ComposeResult:
        """Where to, the name of a profile, the difference, what else there is to know."""
        with Vertical(id="write-box"):
            yield Static(id="write-places", markup=False)
            yield SafeInput(
                self._offered,
                placeholder="a name, such as recent-heavy",
                max_length=NAME_WIDTH,
                id="write-name",
            )
            yield Static(id="write-told", markup=False)
            with VerticalScroll(id="write-scroll"):
                yield Static(id="write-difference", markup=False)
            yield Static(id="write-notes", markup=False)

    def on_mount(self) -> None:
        """Find out what would change."""
        self.query_one("#write-box").border_title = Content(self.BINDING_GROUP_TITLE or "")
        self._choose(Where.USER)

    def resized(self) -> None:
        """Write the paths for the width, and give the difference the room that there is."""
        self._draw_places()

    # --- what would change ----------------------------------------------------------------------

    @property
    def typed_name(self) -> str:
        """The name that is typed for a profile."""
        return self.query_one("#write-name", Input).value.strip()

    def _choose(self, where: Where) -> None:
        self.where = where
        box = self.query_one("#write-name", Input)
        box.display = where is Where.PROFILE
        if where is Where.PROFILE:
            box.focus()
        else:
            self.scroll.focus()
        self.plan_anew()

    def plan_anew(self) -> None:
        """Plan anew; a name that cannot be given is told at once."""
        self.plan, self._error = None, ""
        if self.where is Where.PROFILE:
            self._error = name_error(self.typed_name)
        if self._error:
            self.draw()
        else:
            super().plan_anew()

    @property
    def asked(self) -> tuple[Where, str]:
        """The place that is chosen, and the name where that is a profile."""
        return self.where, self.typed_name if self.where is Where.PROFILE else ""

    @property
    def already(self) -> str:
        """What to say where nothing would change."""
        return SAME_PROFILE if self.where is Where.PROFILE else ALREADY

    def plan_of(self, asked: object) -> Plan:
        """The plan of the settings with these parameters, in the place that is asked for."""
        self.post_message(PathsFound(paths_of(self._files)))
        where, name = cast("tuple[Where, str]", asked)
        return make_plan(self._files, self._ranking, where, name)

    def result_of(self, plan: Plan) -> Written:
        """What was written, and the profiles as the settings have them now."""
        settings = self._files.load().settings
        return Written(plan, self.where, settings.named_rankings(built_in_rankings()))

    @on(PathsFound)
    def paths_found(self, message: PathsFound) -> None:
        """Name the files of the places."""
        message.stop()
        self._paths = {**self._paths, **message.paths}

    @on(Input.Changed, "#write-name")
    def name_changed(self, event: Input.Changed) -> None:
        """Plan for another name."""
        event.stop()
        if self.where is Where.PROFILE:
            self.plan_anew()

    # --- drawing --------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw the places, the difference, and what else there is to know."""
        told = self.query_one("#write-told", Static)
        told.display = bool(self._told)
        told.update(self.warning(self._told))
        self.draw_difference()
        notes = self.query_one("#write-notes", Static)
        lines = self.warnings
        notes.display = bool(lines)
        notes.update(Content("\n").join(lines))
        self.scroll.scroll_home(animate=False)
        self._draw_places()

    def _draw_places(self) -> None:
        if not self.is_open:
            return
        rows = [self._place(place) for place in self._places]
        self.query_one("#write-places", Static).update(Content("\n").join(rows))
        self.call_after_refresh(self.fit)

    def _place(self, place: Where) -> Content:
        from memtui.settings.toml import toml_key

        chosen = place is self.where
        path = self._paths.get(Where.USER if place is Where.PROFILE else place)
        before = after = ""
        if place is Where.PROFILE:
            name = self.typed_name if chosen and self.typed_name else "NAME"
            before = f"[{safe_line(toml_key(('profiles', name)))}] in "
        if chosen and self.plan is not None and self.plan.target.file is None:
            after = " (new)"
        shown = ""
        if path is not None:
            room = self._width - LABEL - 2 - cell_len(before) - len(after)
            shown = before + self._end_of(fmt.home_relative(str(path)), room) + after
        line = Content.assemble(
            (f"{self._glyphs.marker if chosen else ' '} ", "bold $primary"),
            (f"{place.value:<{LABEL}}", "bold $primary" if chosen else fmt.MUTED),
            (shown, "" if chosen else fmt.MUTED),
        )
        return fmt.fit(line, self._width)

    def _end_of(self, path: str, width: int) -> str:
        """A path, its begin left out where there is no room: the end tells files apart."""
        if cell_len(path) <= width:
            return path
        while path and cell_len(path) >= max(width, 1):
            path = path[1:]
        return self._glyphs.ellipsis + path

    @property
    def _width(self) -> int:
        return self.query_one("#write-box").content_size.width or self.size.width - 6

    def fit(self) -> bool:
        """Say how to scroll only where there is something to scroll."""
        overflows = super().fit()
        if not self.is_open:
            return False
        self.query_one("#write-box").border_subtitle = Content(_SCROLL_KEYS if overflows else _KEYS)
        return overflows

    # --- keys -----------------------------------------------------------------------------------

    def action_where(self, step: int) -> None:
        """Choose another place to write to."""
        if not self._writing:
            at = self._places.index(self.where) + step
            self._told = NOT_THE_AGENTS if self._foreign else ""
            self._choose(self._places[at % len(self._places)])

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_scroll(pages * max(1, self.scroll.size.height - 1))

    @on(Input.Submitted, "#write-name")
    def name_submitted(self, event: Input.Submitted) -> None:
        """Enter in the name writes, too."""
        event.stop()
        self.action_write()

    def on_click(self, event: events.Click) -> None:
        """A click on a place chooses it."""
        if event.widget is self.query_one("#write-places") and not self._writing:
            self._choose(self._places[min(event.y, len(self._places) - 1)])
