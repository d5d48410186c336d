"""The choice of conversations to index: nothing is opted in before somebody says so here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from memtui.engine import Engine
from memtui.model.conversations import TranscriptSource, is_source
from memtui.report.conversations import WAITS, source_state, source_words
from memtui.report.words import WORDS, ending
from memtui.settings.load import SettingsFiles
from memtui.settings.write import Plan, names_for, opted_in, plan_transcripts
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import in_background
from memtui.tui.present import error_line
from memtui.tui.screens.common import act_on_part, close
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.screens.write_dialog import Where, WriteDialog, Written
from memtui.tui.widgets.lists import Fact, Row, RowList, TextBlock, fact_lines
from memtui.tui.widgets.result_rows import message

TITLE = "Sources of conversations"
SKIPPED_SHOWN = 12
LOOK_SECONDS = 2.0
"""Between two looks at the sources while they are shown: others may turn them, too."""
_LABEL = 11
_NAME = 36
_FOUND = 18


class TranscriptsScreen(Dialog[str], keys="transcripts"):
    """Every place of transcripts. Returns what becomes of the choice."""

    details = query_one(VerticalScroll)
    action_part = act_on_part

    def __init__(self, engine: Engine, files: SettingsFiles | None) -> None:
        """`files` are the settings that the choice can be written to; `None` in the demo."""
        super().__init__()
        self._engine = engine
        self._is_agents = engine.index.status().foreign is not None
        self._files = None if self._is_agents else files
        self.sources: dict[str, TranscriptSource] = {}
        """The sources that are shown, by name."""
        self.toggled: set[str] = set()
        """The names of those that are to be turned on or off."""
        self._is_busy = False
        self._message = Content("")
        """Stands above what there is to know of the chosen place."""

    def compose(self) -> ComposeResult:
        with Vertical(id="transcripts", classes="dialog-box"):
            yield Static(id="transcripts-intro", markup=False)
            yield RowList(id="transcripts-list", opens="" if self._is_agents else "apply all")
            with VerticalScroll(id="transcripts-scroll", can_focus=False):
                yield TextBlock(id="transcripts-facts")

    def on_mount(self) -> None:
        self._show_rows(Content("looking for transcripts…"))
        self._look()
        self.set_interval(LOOK_SECONDS, self._look)

    def _look(self, then: Callable[[], object] = lambda: None) -> None:
        """Look at the sources as they are now, then do something."""

        def take(sources: Sequence[TranscriptSource]) -> None:
            choice, can_write = WORDS["choice"], self._files is not None
            later = choice["later"].format(choice["taken_in"] * can_write)
            later *= self._engine.index.status().has_other_writer
            writes = choice["written"] * can_write + later
            intro = message("agent_sources" if self._is_agents else "sources", writes=writes)
            self.query_one("#transcripts-intro", Static).update(intro if sources else "")
            before, shown = {*self.selected}, [*self.sources.values()]
            self.sources = {source.name: source for source in sources}
            # What somebody else has turned is as it was to become.
            self.toggled -= before.symmetric_difference(self.selected)
            if sources != shown or not sources:
                self._show_rows(Content("" if sources else WORDS["opted"]["none"]))
            then()

        in_background(self, self._engine.conversations.sources, take, self._refuse)

    def _refuse(self, error: str) -> None:
        self._is_busy = False
        self._show_rows(error_line(error))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        is_refused = {"toggle_source": self._is_agents, "write": self._files is None}
        return not is_refused.get(action, False)

    @property
    def selected(self) -> list[str]:
        """The names of the sources that are to be on."""
        sources = self.sources.items()
        return [name for name, one in sources if one.is_indexed != (name in self.toggled)]

    @property
    def chosen(self) -> TranscriptSource | None:
        """The place of the chosen row."""
        return self.sources.get(self.rows.chosen_id or "")

    def _show_rows(self, notice: Content) -> None:
        self._message, selected = notice, self.selected
        rows = [source_row(source, name in selected) for name, source in self.sources.items()]
        self.rows.set_rows(rows, self.rows.chosen_id)
        self._draw()

    @on(RowList.Chosen)
    def _row_chosen(self) -> None:
        self._draw()

    def _draw(self, note: str = "") -> None:
        facts = [("", self._message)] if self._message else []
        if self.chosen is not None:
            facts += source_facts(self.chosen, is_chosen=self.chosen.name in self.selected)
        self.query_one(TextBlock).show(partial(fact_lines, facts, column=_LABEL))
        self.details.scroll_home(animate=False)
        self.frame(TITLE, note)
        self.on_resize()

    def action_toggle_source(self) -> None:
        if (source := self.chosen) is not None and not self._is_busy:
            self.toggled ^= {source.name}
            self._show_rows(Content(""))

    @on(RowList.Opened)
    def row_opened(self) -> None:
        if self.toggled:
            self._look(partial(self._use, "demo" if self._files is None else "this run"))
        elif not self._is_agents:
            self._draw("nothing changed: space turns it on or off")

    def _use(self, holds: str) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        in_background(
            self,
            lambda: self._engine.index.transcripts.use_sources(self.selected),
            lambda nothing: close(self, WORDS["choice"][holds]),
            self._refuse,
        )

    def action_write(self) -> None:
        self._look(self._open_write_dialog)

    def _open_write_dialog(self) -> None:
        if (files := self._files) is not None and self.sources:
            chosen = self.selected
            folders = [source.name for source in self.sources.values() if source.folder]

            def plan(name: str) -> Plan:
                named = [one for one in chosen if is_source(one)]
                paths = [one for one in chosen if not is_source(one)]
                return plan_transcripts(files, names_for(opted_in(files)[0], folders, named), paths)

            plans = {Where.USER: plan}
            dialog = WriteDialog("Write the sources, for every memory folder", files, plans)

            def close_dialog(written: Written | None) -> None:
                if written is not None and written.plan.changes:
                    self._look(partial(self._use, "for good"))

            self.app.push_screen(dialog, close_dialog)


def source_row(source: TranscriptSource, is_chosen: bool) -> Row:
    """Draw whether it is chosen, its name, and whether it is on, off or waits."""
    amount = f"{fmt.count(source.found)} found  {fmt.size_words(source.size)}"
    if not source.found:
        amount = "empty" if source.folder else "no such folder"
    style = "$state-ok" if source.is_indexed else fmt.MUTED
    style = style if is_chosen == source.is_indexed else "$state-warn"

    def draw(width: int) -> Content:
        cells = max(8, min(_NAME, width // 3))
        program, colon, part = safe_line(source.name).partition(":")
        # The end of a long name tells it from others.
        part = ending(part, cells - 2 - len(program))
        name = fmt.fit(Content(f"{program}{colon}{part}"), cells - 1)
        return Content.assemble(
            (f"[{'x' if is_chosen else ' '}]", "bold $primary" if is_chosen else fmt.MUTED),
            " ",
            name,
            " " * (cells - name.cell_length),
            (f"{amount:<{_FOUND}}", "" if source.found else fmt.MUTED),
            (f" {source_state(source, 'source', is_chosen)}", style),
        )

    return Row(source.name, draw)


def source_facts(source: TranscriptSource, *, is_chosen: bool) -> list[Fact]:
    """Return what is, or would be, indexed; how much; what is left out and why, by name."""
    facts = []
    searches = source_state(source, "source_chosen", is_chosen)
    for label, text in source_words(source, searches):
        style = "$state-warn" if label == "malformed" else ""
        facts.append((label, Content.styled(fmt.home_relative(text), style)))
    reasons = (file.reason for file in source.skipped)
    counts = Counter(fmt.reason_words(one) for one in reasons if one not in WAITS)
    if counts:
        words = "; ".join(f"{why} {fmt.count(number)}" for why, number in counts.most_common())
        facts.append(("skipped", Content(words)))
    for file in source.skipped[:SKIPPED_SHOWN]:
        why = safe_line(file.detail) or fmt.reason_words(file.reason)
        label = "waiting" * (file.reason in WAITS)
        facts.append((label, Content.assemble(safe_line(file.path), (f"  {why}", fmt.MUTED))))
    if (more := len(source.skipped) - SKIPPED_SHOWN) > 0:
        facts.append(("", Content.styled(f"and {fmt.count(more)} more", fmt.MUTED)))
    return facts
