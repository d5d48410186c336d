"""Writing into a settings file: the difference is shown first, and Enter writes what is shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, cast

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.worker import Worker

from memtui.embedding.choice import choice_of
from memtui.errors import SettingsError
from memtui.index.transcripts.scope import is_source
from memtui.model import Ranking
from memtui.model.conversations import TranscriptSource
from memtui.ranking.profiles import PROFILES
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


@dataclass
class Planned(Message):
    """What writing would change; or why it cannot be."""

    subject: object
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


class WriteDialog(BaseScreen[Result | None], ModalScreen[Result | None], Generic[Result]):
    """The difference of a settings file; Enter writes it. Returns what was written, if it was."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("write_file")
    KEYS = "enter write  j/k scroll  esc leave"
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

    already = ""
    """What to say where nothing would change."""
    always: ClassVar[tuple[Content, ...]] = ()
    """What is told below every difference."""

    def __init__(self, files: SettingsFiles, glyphs: Glyphs) -> None:
        super().__init__()
        self._files = files
        self._glyphs = glyphs
        self.plan: Plan | None = None
        """What Enter writes; `None` while it is made, and when nothing can be written."""
        self._error = self._told = ""
        self._writing = False

    @abstractmethod
    def plan_of(self, subject: object) -> Plan:
        """What writing would change; off the event loop, raises `SettingsError`."""

    @abstractmethod
    def result_of(self, plan: Plan) -> Result:
        """What to return once it is written; off the event loop, raises `SettingsError`."""

    @property
    def subject(self) -> object:
        """What a plan is made for: one for anything else comes too late."""
        return None

    def compose(self) -> ComposeResult:
        """The file, the difference, what else there is to know."""
        with Vertical(id="write-box"):
            yield Static(id="write-places", markup=False)
            yield Static(id="write-told", markup=False)
            with VerticalScroll(id="write-scroll"):
                yield Static(id="write-difference", markup=False)
            yield Static(id="write-notes", markup=False)

    def on_mount(self) -> None:
        """Find out what would change."""
        box = self.query_one("#write-box")
        box.border_title = Content(self.BINDING_GROUP_TITLE or "")
        box.border_subtitle = Content(self.KEYS)
        self.scroll.focus()
        self.draw()
        self.plan_anew()

    def plan_anew(self) -> None:
        """Find out what would change."""
        self._make_plan(self.subject)

    @work(
        thread=True, exclusive=True, group="plan", exit_on_error=False, description="read settings"
    )
    def _make_plan(self, subject: object) -> None:
        try:
            self.post_message(Planned(subject, self.plan_of(subject)))
        except SettingsError as error:
            self.post_message(Planned(subject, None, str(error)))

    @on(Planned)
    def planned(self, message: Planned) -> None:
        """Show what would change, unless something else is asked for meanwhile."""
        message.stop()
        if self.is_open and message.subject == self.subject:
            self.plan, self._error = message.plan, message.error
            self.draw()

    @property
    def scroll(self) -> VerticalScroll:
        """The scroll of the difference."""
        return self.query_one("#write-scroll", VerticalScroll)

    def draw(self) -> None:
        """Draw the file, the difference, and what else there is to know."""
        self.draw_places()
        difference = self.query_one("#write-difference", Static)
        difference.styles.text_wrap = "wrap" if self._error else "nowrap"
        difference.update(self._difference())
        self._draw_lines("#write-told", [self._warning(self._told)] if self._told else [])
        notes = self.plan.notes if self.plan is not None else ()
        self._draw_lines("#write-notes", [*map(self._warning, notes), *self.always])
        self.call_after_refresh(self.fit)

    def draw_places(self) -> None:
        """Draw the file that Enter writes; nothing while that is not known."""
        if self.plan is not None:
            path = fmt.home_relative(str(self.plan.target.path))
            new = " (new)" if self.plan.target.is_new else ""
            self.query_one("#write-places", Static).update(Content.styled(path + new, "bold"))

    def _draw_lines(self, part: str, lines: Sequence[Content]) -> None:
        widget = self.query_one(part, Static)
        widget.display = bool(lines)
        widget.update(Content("\n").join(lines))

    def _difference(self) -> Content:
        if self._error:
            return Content.styled(f"{self._glyphs.error} {safe_line(self._error)}", "$state-error")
        if self.plan is None:
            return Content.styled(f"reading the settings{self._glyphs.ellipsis}", fmt.MUTED)
        if not self.plan.changes:
            return Content.styled(f"{self._glyphs.ready} {self.already}", "$state-ok")
        return _drawn_difference(self.plan.before, self.plan.after)

    def _warning(self, text: str) -> Content:
        return Content.assemble((f"{self._glyphs.degraded} ", "$state-warn bold"), safe_line(text))

    def fit(self) -> bool:
        """Let the difference be as high as it is; whether that is too much, and it scrolls."""
        if not self.is_open:
            return False
        scroll, box = self.scroll, self.query_one("#write-box")
        others = [child for child in box.children if child.display and child is not scroll]
        # Two lines for the border, two for the margin of the difference.
        room = self.size.height - 4 - sum(child.outer_size.height for child in others)
        scroll.styles.max_height = max(1, room)
        return scroll.virtual_size.height > room

    def on_resize(self, event: events.Resize) -> None:
        """Use the new size, once the screen is laid out for it."""
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        """Give the difference the room that there is."""
        self.fit()

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
        self.dismiss(cast("Result", message.result))

    def action_close(self) -> None:
        """Leave without writing; what is being written is waited for."""
        if not self._writing:
            self.dismiss(None)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Let another try begin after one that went wrong."""
        if event.worker.error is not None:
            self._writing = False


def _drawn_difference(before: str, after: str) -> Content:
    """The hunks that make one settings file of another, each line with its mark.

    Commands that print keys and the secret parts of addresses are left out.
    """
    return Content("\n").join(
        drawn(difference(_lines(shown_text(before)), _lines(shown_text(after)), CONTEXT))
    )


def _lines(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


class WriteProvider(WriteDialog["Chosen"]):
    """Writes which provider makes the vectors. Returns what to go over to."""

    BINDING_GROUP_TITLE = "Write the provider"
    already = "The settings ask for this provider already."
    always = (Content.styled(NO_KEYS, fmt.MUTED),)

    def __init__(self, files: SettingsFiles, chosen: Chosen, glyphs: Glyphs) -> None:
        super().__init__(files, glyphs)
        self._chosen = chosen

    def plan_of(self, subject: object) -> Plan:
        """The plan of the settings with the chosen provider."""
        name, is_other = self._chosen.choice.provider, self._chosen.is_other
        return plan_provider(self._files, name, is_other=is_other)

    def result_of(self, plan: Plan) -> Chosen:
        """What was chosen, as the settings have it now."""
        configured = choice_of(self._files.load().settings.embedding)
        chosen = replace(self._chosen, plan=plan, configured=configured)
        if configured.provider == chosen.choice.provider:
            # What else the settings say for it counts from now on, too.
            chosen = replace(chosen, choice=configured)
        return chosen


class WriteTranscripts(WriteDialog[bool]):
    """Writes which conversations are indexed. Returns whether it was written."""

    BINDING_GROUP_TITLE = "Write the sources"
    already = "The settings name these sources already."

    def __init__(
        self,
        files: SettingsFiles,
        found: Sequence[TranscriptSource],
        chosen: Collection[str],
        glyphs: Glyphs,
    ) -> None:
        """Of the sources found, the settings are to opt in those whose names are `chosen`."""
        super().__init__(files, glyphs)
        self._folders = [source.name for source in found if source.folder]
        self._chosen = [source.name for source in found if source.name in chosen]

    def plan_of(self, subject: object) -> Plan:
        """The plan of the settings with the chosen sources."""
        sources = [name for name in self._chosen if is_source(name)]
        paths = [name for name in self._chosen if not is_source(name)]
        named = names_for(opted_in(self._files)[0], self._folders, sources)
        return plan_transcripts(self._files, named, paths)

    def result_of(self, plan: Plan) -> bool:
        """That it is written."""
        return True


class Where(StrEnum):
    """What the parameters are written to."""

    USER = "my settings"
    PROJECT = "this folder's"
    PROFILE = "a profile"


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and every named ranking as the files now have it."""

    plan: Plan
    where: Where
    profiles: Mapping[str, Ranking]


@dataclass
class PathsFound(Message):
    """The file of every place is known."""

    paths: Mapping[Where, Path]


class WriteParameters(WriteDialog[Written], inherit_bindings=False):
    """Writes the parameters: into the user's settings, the folder's, or a profile."""

    BINDING_GROUP_TITLE = "Write the parameters"
    BINDINGS: ClassVar[list[BindingType]] = bindings("write")
    KEYS = "enter write  tab where  esc leave"
    SCROLL_KEYS = "enter write  tab where  j/k scroll  esc leave"

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

    def on_mount(self) -> None:
        """Add the name of a profile."""
        name = SafeInput(
            self._offered,
            placeholder="a name, such as recent-heavy",
            max_length=NAME_WIDTH,
            id="write-name",
        )
        name.display = False
        self.query_one("#write-box").mount(name, after="#write-places")

    def resized(self) -> None:
        """Write the paths for the width, and give the difference the room that there is."""
        self.draw_places()
        self.call_after_refresh(self.fit)

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
        self.already = ALREADY
        if self.where is Where.PROFILE:
            self.already = SAME_PROFILE
            self._error = _name_error(self.typed_name)
        if self._error:
            self.draw()
        else:
            super().plan_anew()

    @property
    def subject(self) -> tuple[Where, str]:
        """The place that is chosen, and the name where that is a profile."""
        return self.where, self.typed_name if self.where is Where.PROFILE else ""

    def plan_of(self, subject: object) -> Plan:
        """The plan of the settings with these parameters, in the place that is asked for."""
        gathered = self._files.gather()
        targets = {
            source: target_of(gathered, source, self._files.root).path
            for source in self._files.sources
        }
        places = {Source.USER: Where.USER, Source.PROJECT: Where.PROJECT}
        self.post_message(PathsFound({places[one]: path for one, path in targets.items()}))
        where, name = cast("tuple[Where, str]", subject)
        built_in = PROFILES
        if where is Where.PROFILE:
            return plan_profile(self._files, Source.USER, name, self._ranking, built_in)
        source = Source.PROJECT if where is Where.PROJECT else Source.USER
        return plan_ranking(self._files, source, self._ranking, built_in)

    def result_of(self, plan: Plan) -> Written:
        """What was written, and the profiles as the settings have them now."""
        settings = self._files.load().settings
        return Written(plan, self.where, settings.named_rankings(PROFILES))

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

    def draw(self) -> None:
        """Draw everything anew, from its beginning."""
        super().draw()
        self.scroll.scroll_home(animate=False)

    def draw_places(self) -> None:
        """Draw every place that can be written, with its file."""
        if self.is_open:
            rows = [self._place(place) for place in self._places]
            self.query_one("#write-places", Static).update(Content("\n").join(rows))

    def _place(self, place: Where) -> Content:
        chosen = place is self.where
        path = self._paths.get(Where.USER if place is Where.PROFILE else place)
        before = after = shown = ""
        if place is Where.PROFILE:
            name = self.typed_name if chosen and self.typed_name else "NAME"
            before = f"[{safe_line(toml_key(('profiles', name)))}] in "
        if chosen and self.plan is not None and self.plan.target.is_new:
            after = " (new)"
        width = self.query_one("#write-box").content_size.width or self.size.width - 6
        if path is not None:
            room = width - LABEL - 2 - cell_len(before) - len(after)
            shown = before + self._end_of(fmt.home_relative(str(path)), room) + after
        line = Content.assemble(
            (f"{self._glyphs.marker if chosen else ' '} ", "bold $primary"),
            (f"{place.value:<{LABEL}}", "bold $primary" if chosen else fmt.MUTED),
            (shown, "" if chosen else fmt.MUTED),
        )
        return fmt.fit(line, width)

    def _end_of(self, path: str, width: int) -> str:
        """A path, its begin left out where there is no room: the end tells files apart."""
        if cell_len(path) <= width:
            return path
        while path and cell_len(path) >= max(width, 1):
            path = path[1:]
        return self._glyphs.ellipsis + path

    def fit(self) -> bool:
        """Say how to scroll only where there is something to scroll."""
        overflows = super().fit()
        if self.is_open:
            keys = Content(self.SCROLL_KEYS if overflows else self.KEYS)
            self.query_one("#write-box").border_subtitle = keys
        return overflows

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


def _name_error(name: str) -> str:
    """Why a profile cannot have this name; empty when it can."""
    if not name:
        return f"type a name: {NAME_RULE}"
    wrong = name_problem(name)
    return f"{name}: {wrong}" if wrong else ""
