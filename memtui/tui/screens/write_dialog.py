"""Writing into a settings file: the difference is shown first, and Enter writes what is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path

from msgspec import Struct
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from memtui.errors import MemtuiError
from memtui.report.words import cells_of, ending
from memtui.settings.files import FileChanged
from memtui.settings.load import SettingsFiles, Source
from memtui.settings.schema import NAME_RULE, Settings, name_problem
from memtui.settings.shown import shown_text
from memtui.settings.toml import toml_key
from memtui.settings.write import Plan, write
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background
from memtui.tui.bindings import next_of
from memtui.tui.present import error_line
from memtui.tui.screens.common import close
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.side_by_side import diff_contents, unified_lines
from memtui.tui.widgets.lists import TextBlock
from memtui.tui.widgets.query_bar import SafeInput

CHANGED = "changed by another program meanwhile: below is the difference to it now"
NAME_WIDTH = 64
LABEL = 15
"""Cells for the name of a place."""
CONTEXT = 2
"""Lines around a change: what explains a key in the sample."""


class Where(StrEnum):
    USER = "my settings"
    PROJECT = "this folder's"
    PROFILE = "a profile"


class Written(Struct, frozen=True):
    """A change that was made, where, and the settings as the files now have them."""

    plan: Plan
    where: Where
    settings: Settings


class WriteDialog(Dialog[Written], keys="write"):
    """The difference of a settings file; Enter writes it. Returns what was written."""

    def __init__(
        self,
        title: str,
        files: SettingsFiles,
        plans: Mapping[Where, Callable[[str], Plan]],
        *,
        note: str = "",
        warning: str = "",
        name: str = "",
    ) -> None:
        """`plans` return the change of each place, given the name of a profile, which `name` is.

        They run on a thread and raise `MemtuiError`. `note` is said below every difference,
        `warning` above the first one.
        """
        super().__init__()
        self._title = title
        self._files = files
        self._plans = plans
        self._note = note
        self._first_warning = warning
        self._profile = name
        self._places = list(plans)
        self.where = self._places[0]
        self.plan: Plan | None = None
        """The change that Enter makes; `None` while it is made, and when it cannot be made."""
        self._paths: dict[Where, Path] = {}
        self._warning = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box", id="write"):
            yield TextBlock(id="write-places")
            yield SafeInput(
                self._profile,
                placeholder="a name, such as recent-heavy",
                max_length=NAME_WIDTH,
                id="write-name",
            )
            yield Static(id="write-told", markup=False)
            with VerticalScroll(id="write-scroll"):
                yield Static(id="write-difference", markup=False)
            yield Static(id="write-notes", markup=False)

    def on_mount(self) -> None:
        self.frame(self._title)
        # A text is laid out some refreshes after it was drawn: only then is its height known.
        self.watch(self.query_one("#write-scroll"), "virtual_size", self.on_resize)
        self._choose(self.where)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "write":
            return True if self.plan is not None else None
        return action != "where" or len(self._places) > 1

    def _choose(self, where: Where) -> None:
        self.where, self._warning = where, self._first_warning
        is_profile = where is Where.PROFILE
        self.query_one(Input).display = is_profile
        self.query_one("#write-name" if is_profile else "#write-scroll").focus()
        self._plan_anew()

    @on(Input.Changed)
    def _plan_anew(self) -> None:
        """Find out what would change; a name that cannot be given is told at once."""
        files, where, name = self._files, self.where, self.query_one(Input).value.strip()
        self.workers.cancel_group(self, "plan")
        if where is Where.PROFILE and (wrong := name_problem(name)):
            self._show(error=f"{name}: {wrong}" if name else f"type a name: {NAME_RULE}")
            return

        def make_plan() -> Plan:
            loaded = files.load()
            for place in self._places:
                source = Source.PROJECT if place is Where.PROJECT else Source.USER
                self._paths[place] = loaded.file(source).path
            return self._plans[where](name)

        in_background(self, make_plan, self._show, partial(self._show, None), group="plan")
        self._show()

    def _show(self, plan: Plan | None = None, error: str = "") -> None:
        self.plan = plan
        if error:
            difference = [error_line(error)]
        elif plan is None:
            difference = [Content.styled("reading the settings…", fmt.MUTED)]
        elif not plan.changes:
            already = f"{glyphs.READY} Nothing to write: it is so already."
            difference = [Content.styled(already, "$state-ok")]
        else:
            # Without what may be secret.
            before, after = (shown_text(text).splitlines() for text in (plan.file.text, plan.after))
            difference = list(diff_contents(unified_lines(before, after, CONTEXT)))
        mark = (f"{glyphs.DEGRADED} ", "$state-warn bold")
        warnings = [Content.assemble(mark, self._warning)] if self._warning else []
        notes = [Content.assemble(mark, safe_line(note)) for note in plan.notes] if plan else []
        if self._note:
            notes.append(Content.styled(self._note, fmt.MUTED))
        for name, lines in (("told", warnings), ("difference", difference), ("notes", notes)):
            block = self.query_one(f"#write-{name}", Static)
            block.display = bool(lines)
            block.update(Content("\n").join(lines))
        # Lines of a file are cut, everything else is wrapped.
        self.query_one("#write-difference").styles.text_wrap = "wrap" if error else "nowrap"
        self.query_one("#write-places", TextBlock).show(
            lambda width: [self._place(place, width) for place in self._places]
        )
        self.query_one(VerticalScroll).scroll_home(animate=False)
        is_done = plan is not None and not plan.changes
        self.opens = self.query_one(SafeInput).opens = "close" if is_done else "write"
        self.refresh_bindings()
        self.on_resize()

    def _place(self, place: Where, width: int) -> Content:
        is_chosen, several = place is self.where, len(self._places) > 1
        is_new = is_chosen and self.plan is not None and self.plan.file.is_new
        before, after, shown = "", " (new)" if is_new else "", ""
        if place is Where.PROFILE:
            name = (is_chosen and self.query_one(Input).value.strip()) or "NAME"
            before = f"[{safe_line(toml_key(('profiles', name)))}] in "
        if path := self._paths.get(place):
            room = width - (LABEL + 2 if several else 0) - cells_of(before) - len(after)
            file = ending(fmt.home_relative(str(path)), room, "…")
            shown = before + file + after
        if not several:
            return Content.styled(shown, "bold")
        line = Content.assemble(
            (f"{glyphs.MARKER if is_chosen else ' '} ", "bold $primary"),
            (f"{place.value:<{LABEL}}", "bold $primary" if is_chosen else fmt.MUTED),
            (shown, "" if is_chosen else fmt.MUTED),
        )
        return fmt.fit(line, width)

    def action_where(self, step: int) -> None:
        self._choose(next_of(self._places, self.where, step))

    def on_click(self, event: events.Click) -> None:
        if event.widget is self.query_one("#write-places"):
            self._choose(self._places[min(event.y, len(self._places) - 1)])

    def open_chosen(self) -> None:
        """Write what is shown; Enter in the name does so as well."""
        if self.plan is None:
            return
        try:
            if self.plan.changes:
                write(self.plan, self._files)
            close(self, Written(self.plan, self.where, self._files.load().settings))
        except FileChanged:
            self._warning = CHANGED
            self._plan_anew()
        except MemtuiError as error:
            self._show(error=str(error))

    action_write = open_chosen
