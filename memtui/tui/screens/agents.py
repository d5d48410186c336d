"""Choosing an agent's index among those of this machine, or the notes folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.bindings import bindings
from memtui.tui.bridge import AgentsFound, EngineFailed, EngineOpened
from memtui.tui.screens.base import BaseScreen
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


class AgentsScreen(BaseScreen[EngineOpened | None], ModalScreen[EngineOpened | None]):
    """The agents of this machine; typing narrows them. Returns what was opened, else `None`."""

    BINDING_GROUP_TITLE = "Agents"
    BINDINGS: ClassVar[list[BindingType]] = bindings("agents")

    DEFAULT_CSS = """
    AgentsScreen {
        align: center middle;
        background: $background 60%;
        & > Vertical { width: 96; max-width: 100%; height: 80%; max-height: 40; }
        &.-short > Vertical, &.-narrow > Vertical { height: 100%; }
        & Input {
            border: round $primary; border-title-color: $primary; border-subtitle-color: $primary;
            background: $background;
        }
        & Input:focus { border: round $primary; background-tint: $foreground 0%; }
        & RowList { height: 1fr; background: $background; }
        & #agents-note { height: auto; max-height: 3; padding: 0 2; background: $background; }
    }
    """

    def __init__(
        self,
        find: Callable[[], Sequence[ForeignAgent]],
        open_memory: Callable[[ForeignAgent | None], EngineOpened],
        *,
        found: Sequence[ForeignAgent] | None = None,
        notes: str = "",
    ) -> None:
        """`find` and `open_memory` are called in a worker; `notes` names the notes folder."""
        super().__init__()
        self._find = find
        self._open_memory = open_memory
        self._found = found
        self._notes = notes
        self._choices: dict[str, ForeignAgent | None] = {}
        """What can be opened, by row; `None` stands for the notes folder."""
        self._busy = False
        self._left = False

    def compose(self) -> ComposeResult:
        """A filter over a list over a line for what goes wrong."""
        with Vertical():
            yield SafeInput(placeholder="filter", id="agents-filter")
            yield RowList(id="agents-list")
            yield Static(id="agents-note", markup=False)

    def on_mount(self) -> None:
        """List what is known, or look for it."""
        box = self.query_one(Input)
        box.border_title = Content("Open an index")
        back = "notes folder" if self._notes else "back"
        box.border_subtitle = Content(f"enter opens  esc {back}")
        box.focus()
        if self._found is None:
            self._note("looking for agents…")
            self._look()
        else:
            self.take(self._found)

    # --- the list -------------------------------------------------------------------------------

    @work(thread=True, exit_on_error=False, description="look for agents")
    def _look(self) -> None:
        self.post_message(AgentsFound(self._find()))

    @on(AgentsFound)
    def agents_found(self, message: AgentsFound) -> None:
        """List what was found."""
        message.stop()
        self._note("" if message.agents else "no agents on this machine: no ~/.openclaw")
        self.take(message.agents)

    def take(self, agents: Sequence[ForeignAgent]) -> None:
        """List these agents, after the notes folder where there is one."""
        self._choices = {NOTES: None} if self._notes else {}
        self._choices |= {str(number): agent for number, agent in enumerate(agents)}
        self._show(self.query_one(Input).value, keep="0" if agents else None)

    @on(Input.Changed)
    def filter_changed(self, event: Input.Changed) -> None:
        """Show what holds every typed word."""
        event.stop()
        self._show(event.value, keep=self.query_one(RowList).chosen_id)

    def _show(self, text: str, *, keep: str | None) -> None:
        words = text.lower().split()
        notes = f"notes {self._notes}".lower()
        matching = [
            self._row(row_id, agent)
            for row_id, agent in self._choices.items()
            if all(word in (notes if agent is None else _words(agent)) for word in words)
        ]
        rows = self.query_one(RowList)
        rows.set_rows(matching[:SHOWN], keep, first=True)
        rows.border_subtitle = Content(f"{len(matching)} of {len(self._choices)}" if words else "")

    def _row(self, row_id: str, agent: ForeignAgent | None) -> Row:
        if agent is None:
            return Row(row_id, lambda width: _notes_row(self._notes, width))
        now = datetime.now(UTC)
        return Row(row_id, lambda width: agent_row(agent, width, now), 2)

    def _note(self, text: str, *, error: bool = False) -> None:
        style = "$state-error" if error else fmt.MUTED
        line = self.query_one("#agents-note", Static)
        line.display = bool(text)
        line.update(Content.styled(safe_line(text), style))

    # --- opening --------------------------------------------------------------------------------

    @on(Input.Submitted)
    def filter_submitted(self, event: Input.Submitted) -> None:
        """Open the chosen index."""
        event.stop()
        self._choose(self.query_one(RowList).chosen_id)

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Open the index that was clicked."""
        message.stop()
        self._choose(message.row_id)

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Forget what went wrong with another index."""
        message.stop()
        if message.by_user and not self._busy:
            self._note("")

    def _choose(self, row_id: str | None) -> None:
        if row_id not in self._choices or self._busy:
            return
        self._busy = True
        agent = self._choices[row_id]
        self._note(f"opening {agent.name if agent else self._notes}…")
        self._open(agent)

    @work(thread=True, exit_on_error=False, description="open the index")
    def _open(self, agent: ForeignAgent | None) -> None:
        try:
            opened = self._open_memory(agent)
        except Exception as error:
            # Whatever keeps an index from opening is one line of this dialog.
            self.post_message(EngineFailed(str(error) or type(error).__name__))
            return
        if self._left or not self.post_message(opened):
            opened.memory.engine.close()

    @on(EngineOpened)
    def memory_opened(self, message: EngineOpened) -> None:
        """Return what was opened."""
        message.stop()
        if not self._left:
            self._left = True
            self.dismiss(message)

    @on(EngineFailed)
    def memory_failed(self, message: EngineFailed) -> None:
        """Say why it cannot be opened; another can be chosen."""
        message.stop()
        self._busy = False
        self._note(message.error, error=True)

    # --- keys -----------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """Move the choice while typing."""
        self.query_one(RowList).action_move(step)

    def action_leave(self) -> None:
        """Go back without an index."""
        if not self._left:
            self._left = True
            self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        """Draw the rows for the new width."""
        self.call_after_refresh(self.query_one(RowList).redraw)


def agent_row(agent: ForeignAgent, width: int, now: datetime) -> Content:
    """Two lines: name, model and age; then what the index holds and where the notes are."""
    age = fmt.ago(agent.changed, now) if agent.changed is not None else ""
    model = _model(agent)
    room = max(width - _NAME - 1 - _AGE - 1, 4)
    name = Content(safe_line(agent.name)).truncate(_NAME, ellipsis=True, pad=True)
    first = Content.assemble(
        name.stylize("bold"), " ",
        Content(model).truncate(room, ellipsis=True, pad=True), " ",
        (f"{age:>{_AGE}}", fmt.MUTED),
    )  # fmt: skip
    return Content("\n").join([fmt.fit(first, width), fmt.fit(_second(agent), width)])


def _second(agent: ForeignAgent) -> Content:
    parts = []
    if agent.generation is not None:
        parts.append(_GENERATIONS[agent.generation])
    if agent.files or agent.chunks:
        parts.append(f"{fmt.counted(agent.files, 'file')} {fmt.counted(agent.chunks, 'chunk')}")
    place = agent.workspace or agent.state_dir
    parts.append(fmt.home_relative(str(place)))
    told = Content.styled("  ".join(parts), fmt.MUTED)
    if not agent.problem:
        return Content.assemble("  ", told)
    said = agent.problem
    if agent.database is not None:
        # The whole path would push the reason out of a narrow list.
        said = said.replace(str(agent.database), agent.database.name)
    problem = (f"! {safe_line(said)}", "$state-warn")
    return Content.assemble("  ", problem, "  ", told)


def _model(agent: ForeignAgent) -> str:
    name = "/".join(safe_line(part) for part in (agent.provider, agent.model) if part)
    return f"{name} {agent.dimensions} d" if name and agent.dimensions else name


def _notes_row(notes: str, width: int) -> Content:
    return fmt.fit(Content.assemble(("the notes folder", "bold"), f"   {notes}"), width)


def _words(agent: ForeignAgent) -> str:
    parts = (agent.name, str(agent.workspace or ""), str(agent.state_dir), _model(agent))
    return " ".join(safe_line(part) for part in parts).lower()
