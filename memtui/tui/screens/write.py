"""Writing into a settings file: the difference is shown first, and Enter writes what is shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from memtui.index.transcripts.scope import is_source
from memtui.model import Ranking
from memtui.model.conversations import TranscriptSource
from memtui.ranking.profiles import PROFILES
from memtui.report.words import cells_of, ending
from memtui.settings.keys import NAME_RULE, name_problem
from memtui.settings.load import SettingsFiles, Source
from memtui.settings.shown import shown_text
from memtui.settings.storage import FileChanged
from memtui.settings.toml import toml_key
from memtui.settings.write import (
    Plan,
    names_for,
    opted_in,
    plan_profile,
    plan_provider,
    plan_ranking,
    plan_transcripts,
    target_of,
    write,
)
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.difference import difference, drawn
from memtui.tui.widgets.query_bar import SafeInput

if TYPE_CHECKING:
    from memtui.tui.screens.providers.switch import Chosen

CHANGED = "changed by another program meanwhile: below is the difference to it now"
NO_KEYS = "No key is ever written."
NOT_THE_AGENTS = "memtui's settings, not the agent's (C copies for the agent)"
ALREADY = "The settings give exactly these parameters already."
SAME_PROFILE = "The profile is exactly this already."
NAME_WIDTH = 64
LABEL = 15
"""Cells for the name of a place."""
CONTEXT = 2
"""Lines around a change: what explains a key in the sample."""

Result = TypeVar("Result")


class Where(StrEnum):
    """Where something is written to."""

    USER = "my settings"
    PROJECT = "this folder's"
    PROFILE = "a profile"


@dataclass(frozen=True, slots=True)
class Writing(Generic[Result]):
    """What a dialog writes; `plan` and `result` run off the event loop and raise `MemtuiError`."""

    title: str
    files: SettingsFiles
    plan: Callable[[Where, str], Plan]
    """Tell what writing to a place would change; the text is the name of a profile."""
    result: Callable[[Plan, Where], Result]
    """Tell what the dialog returns once it is written."""
    already: str
    """Said where nothing would change."""
    note: str = ""
    """Said below every difference."""
    warning: str = ""
    """Said above the first one."""
    places: tuple[Where, ...] = (Where.USER,)
    name: str = ""
    """Offered for a profile."""


def write_provider(files: SettingsFiles, chosen: Chosen) -> Writing[Chosen]:
    """Write which provider makes the vectors; returns what to go over to."""

    def result(plan: Plan, where: Where) -> Chosen:
        configured = files.load().settings.embedding
        written = replace(chosen, plan=plan, configured=configured)
        if configured.provider == chosen.choice.provider:
            # What else the settings say for it counts from now on, too.
            written = replace(written, choice=configured)
        return written

    def plan(where: Where, name: str) -> Plan:
        return plan_provider(files, chosen.choice.provider, is_other=chosen.is_other)

    already = "The settings ask for this provider already."
    return Writing("Write the provider", files, plan, result, already, note=NO_KEYS)


def write_transcripts(
    files: SettingsFiles, sources: Sequence[TranscriptSource], chosen: Collection[str]
) -> Writing[bool]:
    """Write which of these sources, those whose names are `chosen`, are indexed."""
    folders = [source.name for source in sources if source.folder]
    names = [source.name for source in sources if source.name in chosen]

    def plan(where: Where, name: str) -> Plan:
        opted = names_for(opted_in(files)[0], folders, [name for name in names if is_source(name)])
        return plan_transcripts(files, opted, [name for name in names if not is_source(name)])

    already = "The settings name these sources already."
    return Writing("Write the sources", files, plan, lambda plan, where: True, already)


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and every named ranking as the files now have it."""

    plan: Plan
    where: Where
    profiles: Mapping[str, Ranking]


def write_parameters(
    files: SettingsFiles, ranking: Ranking, *, name: str = "", foreign: bool = False
) -> Writing[Written]:
    """Write the parameters: into the user's settings, the folder's, or a profile.

    `name` is offered for a profile; `foreign`: an agent's index is open.
    """

    def plan(where: Where, name: str) -> Plan:
        if where is Where.PROFILE:
            return plan_profile(files, Source.USER, name, ranking, PROFILES)
        source = Source.PROJECT if where is Where.PROJECT else Source.USER
        return plan_ranking(files, source, ranking, PROFILES)

    def result(plan: Plan, where: Where) -> Written:
        return Written(plan, where, files.load().settings.named_rankings(PROFILES))

    return Writing(
        "Write the parameters",
        files,
        plan,
        result,
        ALREADY,
        warning=NOT_THE_AGENTS if foreign else "",
        places=tuple(one for one in Where if one is not Where.PROJECT or files.root is not None),
        name=name,
    )


class WriteDialog(BaseScreen[Any], ModalScreen[Any]):
    """The difference of a settings file; Enter writes it. Returns the result, if it was written."""

    BINDING_GROUP_TITLE = "Write the settings"
    BINDINGS: ClassVar[list[BindingType]] = bindings("write")
    DEFAULT_CSS = """
    WriteDialog {
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
        & #write-name {
            height: 1; border: none; padding: 0; margin-left: 2; background: $foreground 8%;
        }
        & #write-name:focus { background-tint: $foreground 0%; }
        & #write-places, & #write-told, & #write-notes { height: auto; width: 1fr; }
        & #write-scroll { height: auto; margin: 1 0; scrollbar-size-vertical: 1; }
        & #write-difference {
            width: 1fr; height: auto; text-wrap: nowrap; text-overflow: ellipsis;
        }
    }
    """

    def __init__(self, writing: Writing[Any], glyphs: Glyphs) -> None:
        super().__init__()
        self._writing, self._glyphs = writing, glyphs
        self.where = writing.places[0]
        """The place that is chosen."""
        self.plan: Plan | None = None
        """What Enter writes; `None` while it is made, and when nothing can be written."""
        self._paths: Mapping[Where, Path] = {}
        self._error, self._warning = "", writing.warning
        self._is_writing = False

    def compose(self) -> ComposeResult:
        """The file, the difference, what else there is to know."""
        with Vertical(id="write-box"):
            yield Static(id="write-places", markup=False)
            if Where.PROFILE in self._writing.places:
                yield SafeInput(
                    self._writing.name,
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
        self.query_one("#write-box").border_title = Content(self._writing.title)
        # A text is laid out some refreshes after it was drawn: only then is its height known.
        self.watch(self.scroll, "virtual_size", self._fit_later)
        self._choose(self.where)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer the choice of a place where there are several."""
        return action != "where" or len(self._writing.places) > 1

    @property
    def scroll(self) -> VerticalScroll:
        """The scroll of the difference."""
        return self.query_one("#write-scroll", VerticalScroll)

    @property
    def typed_name(self) -> str:
        """The name that is typed for a profile; empty for another place."""
        if self.where is not Where.PROFILE:
            return ""
        return self.query_one("#write-name", Input).value.strip()

    # --- the plan -------------------------------------------------------------------------------

    def _choose(self, where: Where) -> None:
        """Choose another place to write to."""
        self.where = where
        for name in self.query("#write-name"):
            name.display = where is Where.PROFILE
        self.query_one("#write-name" if where is Where.PROFILE else "#write-scroll").focus()
        self._plan_anew()

    def _plan_anew(self) -> None:
        """Find out what would change; a name that cannot be given is told at once."""
        self.plan, self._error = None, ""
        where, name = self.where, self.typed_name
        if where is Where.PROFILE:
            self._error = _name_error(name)
        if not self._error:
            in_background(
                self,
                partial(self._make_plan, where, name),
                partial(self._planned, (where, name)),
                partial(self._planned, (where, name), None),
                description="read settings",
                group="plan",
                exclusive=True,
            )
        self._draw()

    def _make_plan(self, where: Where, name: str) -> Plan:
        files = self._writing.files
        gathered = files.gather()
        paths = {source: target_of(gathered, source, files.root).path for source in files.sources}
        self._paths = {
            Where.USER: paths[Source.USER],
            Where.PROFILE: paths[Source.USER],
            Where.PROJECT: paths.get(Source.PROJECT, Path()),
        }
        return self._writing.plan(where, name)

    def _planned(self, subject: tuple[Where, str], plan: Plan | None, error: str = "") -> None:
        """Show what would change, unless something else is asked for meanwhile."""
        if self.is_open and subject == (self.where, self.typed_name):
            self.plan, self._error = plan, error
            self._draw()

    # --- drawing --------------------------------------------------------------------------------

    def _draw(self) -> None:
        """Draw the file, the difference, and what else there is to know."""
        self._draw_places()
        difference = self.query_one("#write-difference", Static)
        difference.styles.text_wrap = "wrap" if self._error else "nowrap"
        difference.update(self._difference())
        self._draw_lines("#write-told", [self._warned(self._warning)] if self._warning else [])
        notes = [self._warned(note) for note in (self.plan.notes if self.plan is not None else ())]
        if self._writing.note:
            notes.append(Content.styled(self._writing.note, fmt.MUTED))
        self._draw_lines("#write-notes", notes)
        self.scroll.scroll_home(animate=False)
        self._fit_later()

    def _draw_lines(self, part: str, lines: Sequence[Content]) -> None:
        widget = self.query_one(part, Static)
        widget.display = bool(lines)
        widget.update(Content("\n").join(lines))

    def _warned(self, text: str) -> Content:
        return Content.assemble((f"{self._glyphs.degraded} ", "$state-warn bold"), safe_line(text))

    def _difference(self) -> Content:
        """The hunks of the file, each line with its mark, without what may be secret."""
        if self._error:
            return Content.styled(f"{self._glyphs.error} {safe_line(self._error)}", "$state-error")
        if self.plan is None:
            return Content.styled(f"reading the settings{self._glyphs.ellipsis}", fmt.MUTED)
        if not self.plan.changes:
            already = SAME_PROFILE if self.where is Where.PROFILE else self._writing.already
            return Content.styled(f"{self._glyphs.ready} {already}", "$state-ok")
        before, after = (_lines(shown_text(text)) for text in (self.plan.before, self.plan.after))
        return Content("\n").join(drawn(difference(before, after, CONTEXT)))

    def _draw_places(self) -> None:
        """Draw every place that can be written, with its file."""
        rows = [self._place(place) for place in self._writing.places]
        self.query_one("#write-places", Static).update(Content("\n").join(rows))

    def _place(self, place: Where) -> Content:
        chosen, path = place is self.where, self._paths.get(place)
        before = shown = ""
        after = " (new)" if chosen and self.plan is not None and self.plan.target.is_new else ""
        if place is Where.PROFILE:
            name = (chosen and self.typed_name) or "NAME"
            before = f"[{safe_line(toml_key(('profiles', name)))}] in "
        width = self.query_one("#write-box").content_size.width or self.size.width - 6
        several = len(self._writing.places) > 1
        if path is not None:
            room = width - (LABEL + 2 if several else 0) - cells_of(before) - len(after)
            shown = (
                before + ending(fmt.home_relative(str(path)), room, self._glyphs.ellipsis) + after
            )
        if not several:
            return Content.styled(shown, "bold")
        line = Content.assemble(
            (f"{self._glyphs.marker if chosen else ' '} ", "bold $primary"),
            (f"{place.value:<{LABEL}}", "bold $primary" if chosen else fmt.MUTED),
            (shown, "" if chosen else fmt.MUTED),
        )
        return fmt.fit(line, width)

    def _fit_later(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Let the difference be as high as it is; say how to scroll where that is too much."""
        scroll, box = self.scroll, self.query_one("#write-box")
        others = [child for child in box.children if child.display and child is not scroll]
        # Two lines for the border, two for the margin of the difference.
        room = self.size.height - 4 - sum(child.outer_size.height for child in others)
        scroll.styles.max_height = max(1, room)
        keys = ["enter write", "esc leave"]
        if scroll.virtual_size.height > room:
            keys.insert(1, "j/k scroll")
        if len(self._writing.places) > 1:
            keys.insert(1, "tab where")
        box.border_subtitle = Content("  ".join(keys))

    def on_resize(self, event: events.Resize) -> None:
        """Use the new size, once the screen is laid out for it."""
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        self._draw_places()
        self._fit_later()

    # --- keys -----------------------------------------------------------------------------------

    def action_where(self, step: int) -> None:
        """Choose another place to write to."""
        if not self._is_writing:
            places = self._writing.places
            self._warning = self._writing.warning
            self._choose(places[(places.index(self.where) + step) % len(places)])

    def action_scroll(self, lines: int) -> None:
        """Scroll by lines."""
        self.scroll.scroll_relative(y=lines, animate=False)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_scroll(pages * max(1, self.scroll.size.height - 1))

    @on(Input.Changed, "#write-name")
    def name_changed(self, event: Input.Changed) -> None:
        """Plan for another name."""
        event.stop()
        if self.where is Where.PROFILE:
            self._plan_anew()

    @on(Input.Submitted, "#write-name")
    def name_submitted(self, event: Input.Submitted) -> None:
        """Enter in the name writes, too."""
        event.stop()
        self.action_write()

    def on_click(self, event: events.Click) -> None:
        """A click on a place chooses it."""
        places = self._writing.places
        if event.widget is self.query_one("#write-places") and not self._is_writing:
            self._choose(places[min(event.y, len(places) - 1)])

    def action_write(self) -> None:
        """Write what is shown."""
        plan, where = self.plan, self.where
        if plan is None or self._is_writing:
            return
        self._is_writing = True

        def write_and_tell() -> Any:
            try:
                if plan.changes:
                    write(plan, self._writing.files)
            except FileChanged:
                return None
            return self._writing.result(plan, where)

        in_background(
            self, write_and_tell, self._done, self._refused, description="write the settings"
        )

    def _done(self, result: Any) -> None:
        """Hand over the result; the difference to a file that changed meanwhile is made anew."""
        self._is_writing = False
        if result is not None:
            self.dismiss(result)
        elif self.is_open:
            self._warning = CHANGED
            self._plan_anew()

    def _refused(self, error: str) -> None:
        """Show why nothing was written."""
        self._is_writing = False
        if self.is_open:
            self.plan, self._error = None, error
            self._draw()

    def action_close(self) -> None:
        """Leave without writing; what is being written is waited for."""
        if not self._is_writing:
            self.dismiss(None)


def _lines(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def _name_error(name: str) -> str:
    """Why a profile cannot have this name; empty when it can."""
    if not name:
        return f"type a name: {NAME_RULE}"
    wrong = name_problem(name)
    return f"{name}: {wrong}" if wrong else ""
