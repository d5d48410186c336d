"""Dialogs to choose in: a row of a list, a file or a line of it, an agent's index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from memtui.engine import Engine
from memtui.engine.places import parse_place
from memtui.errors import Cancelled
from memtui.model import Ranked, Ranking, Stage
from memtui.model.browsing import MemoryFile
from memtui.model.inquiry import Place
from memtui.model.status import ForeignAgent
from memtui.ranking.pipeline import difference, needs_search
from memtui.report.explanation import IDLE, differences
from memtui.report.words import PROFILE_WORDS, WITHOUT_CONTEXT, WORDS
from memtui.settings.schema import base_of
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import in_background
from memtui.tui.options import EngineOpened
from memtui.tui.screens.common import close, is_open
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.widgets.lists import Row, RowList
from memtui.tui.widgets.parameter_panes import changed_values, effect
from memtui.tui.widgets.query_bar import SafeInput

_MOST_LINES = 18
_NAME, _AGE = 18, 11


class Chooser(Dialog[str], keys="chooser"):
    """Rows with one of them chosen; the result is the id of the row that was opened.

    With a filter, typing leaves the rows whose id holds every typed word.
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[Row],
        chosen: str | None = None,
        *,
        opens: str = "open",
        filtered: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._rows, self._first, self._filtered = title, rows, chosen, filtered
        self._opens = opens

    def compose(self) -> ComposeResult:
        with Vertical(id="chooser-box"):
            if self._filtered:
                yield SafeInput(placeholder="filter", id="chooser-filter", opens=self._opens)
            yield RowList(id="chooser", classes="dialog-box", opens=self._opens)

    def on_mount(self) -> None:
        lines = sum(row.lines or 3 for row in self._rows)
        self.rows.styles.height = min(max(lines, 1), _MOST_LINES) + 2
        self.frame(safe_line(self._title))
        self.rows.set_rows(self._rows, self._first, empty="nothing to choose from yet")

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        rows = [row for row in self._rows if fmt.holds_words(row.id, event.value)]
        self.rows.set_rows(rows, empty="none holds these words")

    @on(RowList.Opened)
    def _row_opened(self, message: RowList.Opened) -> None:
        close(self, message.row_id)


def choose_query(queries: Sequence[str]) -> Chooser:
    """Return a dialog with the queries asked before, newest first; typing narrows them."""
    rows = [Row(query, partial(fmt.fit, Content(safe_line(query)))) for query in queries]
    return Chooser("Queries asked before", rows, opens="ask", filtered=True)


def choose_profile(
    engine: Engine | None,
    named: Mapping[str, Ranking],
    present: Ranking,
    ranked: Ranked | None,
    in_use: str,
    place: str = "",
) -> Chooser:
    """Return a dialog with rankings, and what each would change of the present one's list.

    `place`: the list that it is chosen for, where there are two.
    """

    def outcome(ranking: Ranking) -> str:
        """Say what a ranking would do to the list, where the pool alone can tell."""
        if ranked is None or engine is None:
            return ""
        if needs_search(ranked.pool, present, ranking):
            return ": needs a new search, Enter shows what moves"
        return f": {effect(difference(ranked, engine.search.rerank(ranked.pool, ranking)))}"

    changes: dict[str, str] = {}
    for name, one in named.items():
        rules = ", ".join(rule for rule, _, now in differences(present, one) if IDLE not in now)
        same = f"the same parameters, other rules ({rules})" if rules else "the same parameters"
        changes[name] = f"{changed_values(present, one) or same}{outcome(one)}"

    def draw(name: str, width: int) -> Content:
        about = PROFILE_WORDS.get(name, f"your own, from {base_of(named[name])}")
        if Stage.CONTEXT not in named[name].stages:
            about += f"; {WITHOUT_CONTEXT}"
        mark = "  in use" if name == in_use else ""
        first = Content.assemble((safe_line(name), "bold"), (mark, "$state-ok"), f"  {about}")
        second = Content.styled(changes[name], fmt.MUTED)
        lines = (*fmt.hanging(first, width, 2), *fmt.hanging("  " + second, width, 2))
        return Content("\n").join(lines)

    rows = [Row(name, partial(draw, name), lines=0) for name in named]
    title = f"Choose a profile for {place}" if place else "Choose a profile"
    return Chooser(title, rows, in_use, opens="use")


def completions(text: str, paths: Sequence[str]) -> list[str]:
    """Return paths that begin with the text, then those whose name does, then any that hold it.

    A line number behind the path does not count.
    """
    typed = parse_place(text.strip()).path.casefold()

    def order(path: str) -> tuple[bool, bool]:
        folded = path.casefold()
        starts = folded.startswith(typed)
        return not starts, not starts and not folded.rpartition("/")[2].startswith(typed)

    return sorted((path for path in paths if typed in path.casefold()), key=order)


class PlacePrompt(Dialog[Place | None], keys="place"):
    """Takes `PATH` or `PATH:LINE`, whether the index holds it or not. Returns the place."""

    def __init__(self, read_files: Callable[[], Sequence[MemoryFile]], typed: str = "") -> None:
        """`read_files` runs on a worker thread; `typed` is in the box to begin with."""
        super().__init__()
        self._read_files, self._typed = read_files, typed
        self._notes: Mapping[str, str] | None = None
        """Every file, with what stands behind its name; `None` until they are listed."""

    def compose(self) -> ComposeResult:
        with Vertical(id="place-box"):
            yield SafeInput(self._typed, placeholder="PATH or PATH:LINE", id="place", opens="trace")
            yield Static(id="place-problem", markup=False)
            yield RowList(id="place-list")

    def on_mount(self) -> None:
        box = self.query_one(Input)
        box.border_title = Content("Why is a file or a line shown, or not?")
        box.action_end()
        self._show()

        def take(files: Sequence[MemoryFile]) -> None:
            self._notes = {one.path: "" if one.chunks else "  not indexed" for one in files}
            self._show()

        self._reading = in_background(self, self._read_files, take, "list the files")

    @on(Input.Changed)
    def _show(self) -> None:
        self.query_one("#place-problem", Static).update("")
        typed, rows, notes = self.query_one(Input).value.strip(), self.rows, self._notes or {}
        paths = completions(typed, [*notes])
        offered = {path: notes[path] for path in paths}
        if typed and not {typed, parse_place(typed).path} & {*paths}:
            offered[typed] = "" if self._notes is None else "  use as typed"

        def draw(path: str, width: int) -> Content:
            folder, slash, name = safe_line(path).rpartition("/")
            note = offered[path], "$state-warn"
            line = Content.assemble((folder + slash, fmt.MUTED), (name, "$primary"), note)
            return fmt.fit(line, width)

        rows.set_rows([Row(path, partial(draw, path)) for path in offered])
        title = "reading the paths…"
        if self._notes is not None:
            missing = sum(map(bool, notes.values()))
            title = fmt.count(len(notes) - missing, "file")
            title += f", {fmt.count(missing)} not indexed" if missing else ""
        rows.border_title = Content(title)

    def action_complete(self) -> None:
        """Write the chosen path before the line number, or to go on with one."""
        box, path = self.query_one(Input), self.rows.chosen_id
        if path and path != (typed := box.value.strip()):
            box.value = str(Place(path, parse_place(typed).line))
            box.action_end()

    @on(RowList.Opened)
    def open_chosen(self) -> None:
        """Trace the chosen path, at the line that was typed, or what was typed."""
        typed, path = self.query_one(Input).value.strip(), self.rows.chosen_id
        # A name that the index holds is taken whole, even when it ends in a number.
        place = Place(typed) if typed in (self._notes or ()) else parse_place(typed)
        if not self._reading.is_finished:
            problem = "The files are still being read: Enter again in a moment."
        elif not typed and not path:
            problem = "Name a file, or a line of it: memory/2026-02-10.md:12"
        elif place.line is not None and place.line < 1:
            problem = safe_line(f"{typed}: lines count from 1")
        else:
            close(self, Place(path, place.line) if path and path != typed else place)
            return
        self.query_one("#place-problem", Static).update(Content(problem))


class AgentsScreen(Dialog[EngineOpened | None], keys="agents"):
    """The agents of this machine; typing narrows them. Returns what was opened, else `None`."""

    def __init__(
        self,
        find: Callable[[], Sequence[ForeignAgent]],
        open_memory: Callable[[ForeignAgent | None], EngineOpened],
        agents: Sequence[ForeignAgent] | None,
        notes: str,
    ) -> None:
        """`find`, for agents that are not known yet, and `open_memory` run on a thread.

        `notes` names the notes folder, where there is one.
        """
        super().__init__()
        self._find = find
        self._open_memory = open_memory
        self._agents = agents
        self._notes = notes
        self._choices: dict[str, ForeignAgent | None] = {}
        """The indexes that can be opened, by the words that they are found by."""
        self._is_opening = False

    def compose(self) -> ComposeResult:
        with Vertical(id="agents-box"):
            yield SafeInput(placeholder="filter", id="agents-filter", opens="open")
            yield RowList(id="agents-list")
            yield Static(id="agents-note", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).border_title = Content("Open an index")
        if self._agents is None:
            self._note("looking for agents…")
            in_background(self, self._find, self._take, "look for agents")
        else:
            self._take(self._agents)

    def _take(self, agents: Sequence[ForeignAgent]) -> None:
        """List these agents, after the notes folder where there is one."""
        self._choices = {f"notes {self._notes}": None} if self._notes else {}
        for agent in agents:
            words = agent.name, agent.workspace or "", agent.state_dir, _model(agent), agent.problem
            self._choices[" ".join(map(str, words))] = agent
        self._note("" if agents else "no agents on this machine: no ~/.openclaw")
        first = next((words for words, agent in self._choices.items() if agent is not None), None)
        self._show(first)

    @on(Input.Changed)
    def _filter_changed(self) -> None:
        self._show(self.rows.chosen_id)

    def _show(self, keep: str | None) -> None:
        now, typed = datetime.now(UTC), self.query_one(Input).value.strip()

        def row(words: str, agent: ForeignAgent | None) -> Row:
            if agent is not None:
                return Row(words, partial(agent_row, agent, now=now), 2)
            notes = Content.assemble(("the notes folder", "bold"), f"   {self._notes}")
            return Row(words, partial(fmt.fit, notes))

        fitting = (one for one in self._choices.items() if fmt.holds_words(one[0], typed))
        rows = [row(*choice) for choice in fitting]
        self.rows.set_rows(rows, keep, first=True)
        self.rows.border_subtitle = f"{len(rows)} of {len(self._choices)}" if typed else ""

    def _note(self, text: str, style: str = fmt.MUTED) -> None:
        line = self.query_one("#agents-note", Static)
        line.display = bool(text)
        line.update(Content.styled(safe_line(text), style))

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
            if not is_open(self):
                opened.engine.close()
                raise Cancelled
            return opened

        def failed(error: str) -> None:
            self._is_opening = False
            self._note(error, "$state-error")

        in_background(self, open_index, partial(close, self), failed)


def agent_row(agent: ForeignAgent, width: int, *, now: datetime) -> Content:
    """Draw two lines: name, model and age; then what the index holds and where the notes are."""
    age = fmt.ago(agent.changed, now) if agent.changed is not None else ""
    name = fmt.fit(Content.styled(safe_line(agent.name), "bold"), _NAME, pad=True)
    model = Content.assemble(name, " ", _model(agent))
    first = fmt.spread(model, Content.styled(f"{age:>{_AGE}}", fmt.MUTED), width)
    parts = [WORDS["generation"][agent.generation]] if agent.generation is not None else []
    if agent.files or agent.chunks:
        parts.append(f"{fmt.count(agent.files, 'file')} {fmt.count(agent.chunks, 'chunk')}")
    parts.append(fmt.home_relative(str(agent.workspace or agent.state_dir)))
    problem = agent.problem
    if problem and agent.database is not None:
        # The whole path would push the reason out of a narrow list.
        problem = problem.replace(str(agent.database), agent.database.name)
    aside = (f"! {safe_line(problem)}  " if problem else "", "$state-warn")
    second = Content.assemble("  ", aside, ("  ".join(parts), fmt.MUTED))
    return Content("\n").join([fmt.fit(first, width), fmt.fit(second, width)])


def _model(agent: ForeignAgent) -> str:
    name = safe_line(agent.made_by)
    return f"{name} {agent.dimensions} d" if name and agent.dimensions else name
