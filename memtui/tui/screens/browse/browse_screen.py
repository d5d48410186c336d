"""The browse screen: tree, file, outline and timeline, laid out by size classes in browse.tcss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Input, Static

from memtui.engine import Engine
from memtui.model import Ranking
from memtui.model.browsing import DayTotals
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import LongTask, tell
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import glyphs
from memtui.tui.options import UiOptions
from memtui.tui.place_actions import app_of
from memtui.tui.screens.browse.file_list import FileList, Sort, file_line, folder_line
from memtui.tui.screens.browse.markdown import RenderedView
from memtui.tui.screens.browse.reader import Reader, Target, day_filter
from memtui.tui.screens.common import HEIGHTS, HUGE, TALL, TOO_SMALL, WIDE, WIDTHS, act_on_part
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.query_bar import LONGEST, SafeInput
from memtui.tui.widgets.row_list import RowList
from memtui.tui.widgets.timeline import DayOpened, Measure, Timeline

if TYPE_CHECKING:
    from memtui.tui.app import MemtuiApp

_TREE_ACTIONS = frozenset({"fold", "unfold", "fold_all"})


class BrowseScreen(Screen[None]):
    """Shows the list of files, the reader of one and the timeline; each has a controller."""

    CSS_PATH = "browse.tcss"
    BINDING_GROUP_TITLE = "Browse"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings("browse", "tree")
    action_part = act_on_part

    file_rows = query_one("#file-tree", RowList)
    view = query_one("#file-view", Preview)
    rendered_view = query_one("#rendered-view", RenderedView)
    outline_rows = query_one("#outline", RowList)
    timeline = query_one("#timeline", Timeline)
    filter_input = query_one("#browse-filter", Input)

    def __init__(self, options: UiOptions) -> None:
        super().__init__(id="browse")
        self.glyphs = glyphs(options.glyphs)
        self.file_list = FileList(self)
        self.reader = Reader(self)
        self.recalls = RecallCounter(self)
        self.came_to_read = False
        """Whether a place was asked for from another screen, to which Escape leads back."""
        self.timeline_wanted: bool | None = None
        """Whether the timeline is shown; `None` lets the size decide."""
        self._is_behind = False
        """Whether the index changed since the file was read."""

    @property
    def memtui(self) -> MemtuiApp:
        """The application."""
        return app_of(self)

    @property
    def engine(self) -> Engine | None:
        """The engine of the application, once it is open."""
        return self.memtui.engine

    def now(self) -> datetime:
        """Return the time by the engine's clock."""
        return self.engine.now() if self.engine is not None else datetime.now(UTC)

    def today(self) -> date:
        """Return the day by the engine's clock, as a calendar here shows it."""
        return self.now().astimezone().date()

    def compose(self) -> ComposeResult:
        marker = self.glyphs.marker
        with Horizontal(id="filter-bar"):
            yield Static(Content(" / "), id="filter-prompt", markup=False)
            yield SafeInput(
                placeholder="filter files", id="browse-filter", compact=True, max_length=LONGEST
            )
            yield Static(id="browse-count", markup=False)
        yield Timeline(self.glyphs)
        with Container(id="browse-body"):
            yield RowList(id="file-tree", marker=marker, gap=0)
            with Horizontal(id="browse-right"):
                yield Preview(self.glyphs, is_file=True)
                yield RenderedView(self.glyphs)
                yield RowList(id="outline", marker=marker, secondary=True)
        yield Static(id="browse-detail", markup=False)
        yield KeyBar()
        with Horizontal(id="too-small"):
            yield Static(Content(TOO_SMALL), markup=False)

    def on_mount(self) -> None:
        self.file_rows.border_title = Content("Files")
        self.outline_rows.border_title = Content("Outline")
        self.rendered_view.display = False
        self.file_rows.set_rows((), empty=f"listing the files{self.glyphs.ellipsis}")
        self.view.show_note("Choose a file to read it here.")
        self.apply_layout()
        if (target := self.reader.target) is None:
            self.file_rows.focus()
        else:
            self._show_place(target)
        self.timeline.show_days((), self.today())
        self.file_list.load()

    def open_place(self, path: str, line: int, chunk_id: str | None = None) -> None:
        """Show a file at a line or a chunk, also before there are widgets or files."""
        self.reader.target = target = Target(path, line, chunk_id, is_asked=True)
        if self.is_mounted:
            self._show_place(target)

    def _show_place(self, target: Target) -> None:
        self.file_list.reveal(target.path)
        self.reader.show(target)
        self.reader.focus_view()

    # --- what changes outside -------------------------------------------------------------------

    def content_changed(self) -> None:
        """Follow a changed index: the files, and the one that is shown."""
        self.file_list.changed_outside()
        self._is_behind = not (self.is_mounted and self.is_current)
        if not self._is_behind:
            self.reader.read_again()

    def status_changed(self) -> None:
        """Follow changed files that wait for the next sync."""
        self.file_list.changed_outside()

    def on_screen_resume(self) -> None:
        if self.file_list.is_listed:
            self.file_list.load()
        if self._is_behind and self.is_mounted:
            self._is_behind = False
            self.reader.read_again()

    # --- layout ---------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self.apply_layout()
        self.describe()

    def apply_layout(self) -> None:
        """Set the classes that depend on the size, the focus and what the user chose."""
        pane = self._pane()
        is_small = self.size.width < 60 or self.size.height < 16
        panes = {f"-pane-{name}": pane == name for name in ("tree", "file", "days")}
        self.update_classes({"-single": is_small, **panes})
        self.timeline.set_class(is_small or self.size.width < 40, "-list")
        is_tall = self.size.height >= TALL
        has_days = is_tall if self.timeline_wanted is None else self.timeline_wanted
        self.timeline.display = pane == "days" if is_small else has_days
        outline = self.reader.outline_wanted
        has_outline = self.size.width >= HUGE if outline is None else outline
        self.outline_rows.display = has_outline and (self.size.width >= WIDE or pane == "file")

    def _pane(self) -> str:
        around = self.focused.ancestors_with_self if self.focused is not None else ()
        if self.timeline in around:
            return "days"
        return "file" if self.query_one("#browse-right") in around else "tree"

    @on(events.DescendantFocus)
    def pane_entered(self, event: events.DescendantFocus) -> None:
        """Give the pane that got the keys its room."""
        self.apply_layout()
        self.describe()

    def describe(self) -> None:
        """Write the line below: what is wrong with the filter, else what is chosen."""
        files, line = self.file_list, self.file_list.chosen
        file, content = self.reader.file, Content("")
        if self.file_rows.has_focus or file is None:
            file = line.file if line is not None else None
        if files.problems:
            content = Content.styled(safe_line("; ".join(files.problems)), "$state-warn")
        elif file is not None:
            recalled = files.recalled if files.sort is Sort.RECALLS else None
            content = file_line(file, self.now(), self.glyphs, recalled)
        elif line is not None:
            content = folder_line(line)
        content = fmt.fit(content, self.size.width - 2)
        self.query_one("#browse-detail", Static).update(content, layout=False)

    # --- choosing -------------------------------------------------------------------------------

    @on(RowList.Chosen, "#file-tree")
    def file_chosen(self, message: RowList.Chosen) -> None:
        """Show the file under the cursor; a file that is being read stays, even when it is gone."""
        file, path = self.file_list.chosen_file, self.reader.path
        self.describe()
        if message.by_user:
            self.file_list.path_to_reveal = None
            self.came_to_read = False
        is_lost = path is None or path not in self.file_list.by_path
        if file is not None and (message.by_user or (is_lost and self._pane() != "file")):
            self.reader.show_other(file.path)

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Open a folder or a conversation, go into the file, or jump to a heading."""
        line = self.file_list.chosen
        if message.row_list is self.outline_rows:
            self.reader.go_to_line(int(message.row_id))
        elif message.row_list is not self.file_rows or line is None:
            return
        elif line.file is None:
            self.file_list.toggle(line.id)
        elif self.memtui.is_conversation(line.file.path):
            self.memtui.open_turn(line.file.path)
        else:
            self.reader.show_other(line.file.path)
            self.reader.focus_view()

    @on(DayOpened)
    def day_opened(self, message: DayOpened) -> None:
        """Open a day: its one note, or the tree with the notes of that day alone."""
        totals = self.timeline.days.get(message.day)
        if totals is None or not totals.paths:
            tell(self, f"No notes of {message.day}.")
        elif len(totals.paths) == 1:
            self.reader.show_file(totals.paths[0])
            self.call_after_refresh(self.reader.focus_view)
        else:
            self.filter_input.value = day_filter(message.day)
            self.file_rows.focus()

    @on(Input.Changed, "#browse-filter")
    @on(Input.Submitted, "#browse-filter")
    def filter_typed(self, event: Input.Changed | Input.Submitted) -> None:
        """Filter as it is typed; Enter goes to what the filter let through."""
        if isinstance(event, Input.Submitted):
            self.file_rows.focus()
        else:
            self.file_list.arrange()

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what cannot be done now; leave the keys of the tree to other panes."""
        if action == "part" and parameters[1] in _TREE_ACTIONS:
            return self.file_rows.has_focus
        return None if action == "sync" and self.engine is None else True

    def action_focus_filter(self) -> None:
        self.filter_input.focus()
        self.filter_input.action_select_all()

    def action_toggle_timeline(self) -> None:
        is_inside = self.timeline.display and self.timeline.has_focus_within
        self.timeline_wanted = not is_inside
        if is_inside:
            self.file_rows.focus()
        self.apply_layout()
        if not is_inside:
            self.call_after_refresh(self.timeline.give_keys)

    def action_next_pane(self, step: int) -> None:
        view = self.rendered_view if self.rendered_view.display else self.view
        panes = [self.file_rows, view, self.outline_rows, self.timeline]
        always = (self.file_rows, self.timeline if self.has_class("-single") else None)
        shown = [pane for pane in panes if pane.display or pane in always]
        at = next((n for n, pane in enumerate(shown) if pane.has_focus_within), -step)
        pane = shown[(at + step) % len(shown)]
        if isinstance(pane, Timeline):
            pane.display = True
            self.call_after_refresh(pane.give_keys)
        else:
            pane.focus()

    def action_close(self) -> None:
        """Go to the tree; from there take the filter away, then go back.

        What is being counted is stopped first. From a place that another screen led to, the first
        step is back there.
        """
        shows_recalls = self.timeline.has_focus_within or self.file_list.sort is Sort.RECALLS
        if shows_recalls and self.recalls.stop():
            return
        comes_back = self.came_to_read and self._pane() == "file"
        if not comes_back and not self.file_rows.has_focus:
            self.file_rows.focus()
        elif not comes_back and self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.came_to_read = False
            self.app.pop_screen()

    def stop_running(self) -> bool:
        """Stop counting recalls; false when they are not counted."""
        return self.recalls.stop()

    def action_sync(self) -> None:
        if self.engine is not None:
            self.engine.index.sync()


class RecallCounter:
    """Counts how often the queries of the history bring up files and days, where that is shown."""

    def __init__(self, screen: BrowseScreen) -> None:
        self._screen = screen
        self._task = LongTask(screen, "count the recalls")
        self._counted: tuple[Sequence[str], Ranking] | None = None
        """The queries and the ranking that recalls were counted with."""

    def cycle_measure(self) -> None:
        """Make days dark by bytes, by chunks, or by how often they come up in the searches."""
        screen, timeline, order = self._screen, self._screen.timeline, list(Measure)
        measure = order[(order.index(timeline.measure) + 1) % len(order)]
        if not timeline.display and not screen.has_class("-single"):
            screen.timeline_wanted = True
            screen.apply_layout()
        timeline.show_measure(measure, screen.today())
        self.follow()

    def follow(self) -> None:
        """Count where days or files show it; stop where neither does any more."""
        screen, engine, files = self._screen, self._screen.engine, self._screen.file_list
        if files.sort is not Sort.RECALLS and screen.timeline.measure is not Measure.RECALLS:
            self.stop()
            return
        search = screen.memtui.search_screen
        queries, ranking = search.notes.queries, search.state.ranking
        if self._task.is_running or engine is None:
            return
        if not queries:
            self._note("no queries asked yet, nothing to count", "no queries yet")
            return
        if files.recalled is not None and self._counted == (queries, ranking):
            self._note("", "")
            return
        self._counted = queries, ranking
        self._note("counting…", "counting recalls")

        def count(
            cancelled: Callable[[], bool], report: Callable[[int, int], None]
        ) -> tuple[Mapping[str, int], Sequence[DayTotals]]:
            recalled = engine.browse.recalled(
                queries, ranking=ranking, cancelled=cancelled, progressed=report
            )
            return recalled, engine.browse.days(recalled)

        def take(counts: tuple[Mapping[str, int], Sequence[DayTotals]]) -> None:
            files.recalled, days = counts
            self._note("", "")
            screen.timeline.show_days(days, screen.today())
            if files.sort is Sort.RECALLS:
                files.arrange()

        def failed(error: str) -> None:
            self._counted = None
            self._note("", "recalls not counted")
            tell(screen, f"recalls not counted: {error}", error=True)

        def progressed(done: int, total: int) -> None:
            long = f"counting recalls: query {done} of {total}  esc stops"
            self._note(long, f"recalls {done}/{total} esc stops")

        self._task.start(count, take, failed, progressed)

    def stop(self) -> bool:
        """Stop counting; false when nothing was counted."""
        was_running = self._task.stop()
        if was_running:
            self._counted = None
            self._note("not counted", "recalls not counted")
        else:
            self._screen.timeline.show_note("")
        return was_running

    def _note(self, text: str, brief: str) -> None:
        self._screen.timeline.show_note(text)
        self._screen.file_list.note = brief
        self._screen.file_list.show_count()
