"""Choosing an agent's index among those of this machine, or the notes folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from memtui.errors import Cancelled
from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.options import EngineOpened
from memtui.tui.screens.common import close
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.widgets.query_bar import SafeInput
from memtui.tui.widgets.row_list import Row, RowList

NOTES = "notes"
SHOWN = 200
_GENERATIONS: Mapping[IndexGeneration, str] = {
    IndexGeneration.SIDECAR: "own file",
    IndexGeneration.AGENT: "agent database",
    IndexGeneration.AGENT_BLOB: "agent database, blobs",
}
_NAME = 18
_AGE = 11


class AgentsScreen(Dialog[EngineOpened | None]):
    """The agents of this machine; typing narrows them. Returns what was opened, else `None`."""

    BINDING_GROUP_TITLE = "Agents"
    BINDINGS: ClassVar[list[BindingType]] = bindings("agents")

    def __init__(
        self,
        find: Callable[[], Sequence[ForeignAgent]],
        open_memory: Callable[[ForeignAgent | None], EngineOpened],
        *,
        found: Sequence[ForeignAgent] | None = None,
        notes: str = "",
    ) -> None:
        """`find` and `open_memory` run on a thread; `notes` names the notes folder."""
        super().__init__()
        self._find, self._open_memory = find, open_memory
        self._agents, self._notes = found, notes
        self._choices: dict[str, ForeignAgent | None] = {}
        """The indexes that can be opened, by row; `None` stands for the notes folder."""
        self._is_opening = False
        self._is_left = False

    def compose(self) -> ComposeResult:
        with Vertical(id="agents-box"):
            yield SafeInput(placeholder="filter", id="agents-filter")
            yield RowList(id="agents-list")
            yield Static(id="agents-note", markup=False)

    def on_mount(self) -> None:
        """List the agents that are known, or look for them."""
        box = self.query_one(Input)
        box.border_title = Content("Open an index")
        box.border_subtitle = f"enter opens  esc {'notes folder' if self._notes else 'back'}"
        if self._agents is None:
            self._note("looking for agents…")
            in_background(self, self._find, self.take, description="look for agents")
        else:
            self.take(self._agents)

    def take(self, agents: Sequence[ForeignAgent]) -> None:
        """List these agents, after the notes folder where there is one."""
        self._note("" if agents else "no agents on this machine: no ~/.openclaw")
        self._choices = {NOTES: None} if self._notes else {}
        self._choices |= {str(number): agent for number, agent in enumerate(agents)}
        self._show("0" if agents else None)

    @on(Input.Changed)
    def _filter_changed(self) -> None:
        self._show(self.query_one(RowList).chosen_id)

    def _show(self, keep: str | None) -> None:
        """Show the choices that hold every typed word."""
        typed, now = self.query_one(Input).value.lower().split(), datetime.now(UTC)
        rows = []
        for row_id, agent in self._choices.items():
            if agent is None:
                words = f"notes {self._notes}"
                notes = Content.assemble(("the notes folder", "bold"), f"   {self._notes}")
                row = Row(row_id, partial(fmt.fit, notes))
            else:
                words = f"{agent.name} {agent.workspace or ''} {agent.state_dir} {_model(agent)}"
                row = Row(row_id, partial(agent_row, agent, now=now), 2)
            if all(word in safe_line(words).lower() for word in typed):
                rows.append(row)
        widget = self.query_one(RowList)
        widget.set_rows(rows[:SHOWN], keep, first=True)
        widget.border_subtitle = f"{len(rows)} of {len(self._choices)}" if typed else ""

    def _note(self, text: str, style: str = fmt.MUTED) -> None:
        line = self.query_one("#agents-note", Static)
        line.display = bool(text)
        line.update(Content.styled(safe_line(text), style))

    # --- opening --------------------------------------------------------------------------------

    @on(RowList.Chosen)
    def _row_chosen(self, message: RowList.Chosen) -> None:
        """Forget what went wrong with another index."""
        if message.by_user and not self._is_opening:
            self._note("")

    @on(RowList.Opened)
    def _row_opened(self, message: RowList.Opened) -> None:
        """Open an index on a thread; one that is open after the dialog was left is closed."""
        if self._is_opening:
            return
        self._is_opening = True
        agent = self._choices[message.row_id]
        self._note(f"opening {agent.name if agent else self._notes}…")

        def open_index() -> EngineOpened:
            opened = self._open_memory(agent)
            if self._is_left:
                opened.engine.close()
                raise Cancelled
            return opened

        in_background(self, open_index, self._leave, self._failed, description="open the index")

    def _failed(self, error: str) -> None:
        self._is_opening = False
        self._note(error, "$state-error")

    def _leave(self, opened: EngineOpened | None) -> None:
        self._is_left = True
        close(self, opened)

    def action_leave(self) -> None:
        """Go back without an index."""
        self._leave(None)


def agent_row(agent: ForeignAgent, width: int, *, now: datetime) -> Content:
    """Draw two lines: name, model and age; then what the index holds and where the notes are."""
    age = fmt.ago(agent.changed, now) if agent.changed is not None else ""
    room = max(width - _NAME - 1 - _AGE - 1, 4)
    name = Content(safe_line(agent.name)).truncate(_NAME, ellipsis=True, pad=True)
    model = Content(_model(agent)).truncate(room, ellipsis=True, pad=True)
    first = Content.assemble(name.stylize("bold"), " ", model, " ", (f"{age:>{_AGE}}", fmt.MUTED))
    parts = [_GENERATIONS[agent.generation]] if agent.generation is not None else []
    if agent.files or agent.chunks:
        parts.append(f"{fmt.counted(agent.files, 'file')} {fmt.counted(agent.chunks, 'chunk')}")
    parts.append(fmt.home_relative(str(agent.workspace or agent.state_dir)))
    problem = agent.problem
    if problem and agent.database is not None:
        # The whole path would push the reason out of a narrow list.
        problem = problem.replace(str(agent.database), agent.database.name)
    told = (f"! {safe_line(problem)}  " if problem else "", "$state-warn")
    second = Content.assemble("  ", told, ("  ".join(parts), fmt.MUTED))
    return Content("\n").join([fmt.fit(first, width), fmt.fit(second, width)])


def _model(agent: ForeignAgent) -> str:
    name = safe_line(agent.made_by)
    return f"{name} {agent.dimensions} d" if name and agent.dimensions else name
