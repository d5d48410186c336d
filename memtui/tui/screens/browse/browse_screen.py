"""The browse screen: tree, file, outline and timeline, laid out by size classes in browse.tcss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from memtui.engine import Engine
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import tell
from memtui.tui.bindings import bindings, next_of
from memtui.tui.place_actions import app_of
from memtui.tui.screens.browse.file_list import FileList, Sort, file_line
from memtui.tui.screens.browse.reader import Reader, Target, day_filter
from memtui.tui.screens.common import HEIGHTS, HUGE, TALL, TOO_SMALL, WIDE, WIDTHS, act_on_part
from memtui.tui.widgets.bars import KeyBar, ScreenBar
from memtui.tui.widgets.lists import RowList
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.query_bar import QueryBar
from memtui.tui.widgets.timeline import DayOpened, Measure, Timeline

_MARKS = "   ▌ this chunk ▉ best lines ╭│╰ each ║ two"


class BrowseScreen(Screen[None]):
    """Shows the list of files, the reader of one and the timeline."""

    CSS_PATH = "browse.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS = bindings("browse", "tree")
    action_part = act_on_part
    is_alone: ClassVar[bool] = False
    """True if only a file is shown, over the whole width."""
    list_actions = frozenset({"fold", "unfold", "fold_all"})
    """Those that only work in the list of files."""

    file_rows = query_one("#file-tree", RowList)
    view = query_one("#file-view", Preview)
    outline_rows = query_one("#outline", RowList)
    timeline = query_one("#timeline", Timeline)
    filter_input = query_one("#browse-filter", Input)

    def __init__(self, engine: Engine) -> None:
        super().__init__(id="reader" if self.is_alone else "browse")
        self.engine = engine
        self.file_list = FileList(self)
        self.reader = Reader(self)
        self.timeline_wanted: bool | None = None
        """True if the timeline is shown; `None` lets the size decide."""
        self._is_behind = False
        """True if the index is another since the file was read."""

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield QueryBar("/", "browse-filter", "filter files")
        yield Timeline()
        with Container(id="browse-body"):
            yield RowList(id="file-tree", gap=0)
            with Horizontal(id="browse-right"):
                yield Preview(is_file=True, title="Source" if self.is_alone else "Preview")
                yield RowList(id="outline", secondary=True, opens="go there")
        yield Static(id="browse-detail", markup=False)
        yield KeyBar()
        yield Static(Content(TOO_SMALL), id="too-small", markup=False)

    def on_mount(self) -> None:
        self.file_rows.border_title = Content("Files")
        self.outline_rows.border_title = Content("Outline")
        self.file_rows.set_rows((), empty="listing the files…")
        self.file_list.show_days()
        (self.file_rows if self.reader.target is None else self.view).focus()
        self.apply_layout()

    def open_place(
        self, path: str, line: int, chunk_id: str | None = None, terms: Sequence[str] = ()
    ) -> None:
        """Show a file at a line or a chunk, also before there are widgets or files.

        The words of a query are marked.
        """
        self.reader.come_to(Target(path, line, chunk_id), terms)
        self.file_list.path_to_reveal = path
        if self.is_mounted:
            self.file_list.reveal(path)
            self.reader.read_again()
            self.view.focus()

    def content_changed(self) -> None:
        """Follow a changed index: the file that is shown, and the files when they are in front."""
        self._is_behind = True
        if self.is_current:
            self._catch_up()

    def on_screen_resume(self) -> None:
        self.file_list.load()
        self._catch_up()

    def _catch_up(self) -> None:
        """Read the file again where the index is another, or a place is asked for."""
        target = self.reader.target
        if self._is_behind or (target is not None and target.line is not None):
            self._is_behind = False
            self.reader.read_again()

    @on(events.Resize)
    @on(events.DescendantFocus)
    def apply_layout(self) -> None:
        """Set the classes that depend on the size, the focus and what the user chose."""
        pane = self._pane()
        is_small = self.size.width < 60 or self.size.height < 16
        panes = {f"-pane-{name}": pane == name for name in ("tree", "file", "days")}
        self.update_classes({"-single": is_small, **panes})
        is_tall = self.size.height >= TALL
        has_days = is_tall if self.timeline_wanted is None else self.timeline_wanted
        self.timeline.display = not self.is_alone and (pane == "days" if is_small else has_days)
        outline = self.reader.outline_wanted
        has_outline = self.size.width >= HUGE and not self.is_alone if outline is None else outline
        self.outline_rows.display = has_outline and (self.size.width >= WIDE or pane == "file")
        self.describe()
        self.call_after_refresh(self.reader.follow_width)

    def _pane(self) -> str:
        around = self.focused.ancestors_with_self if self.focused is not None else ()
        if self.timeline in around:
            return "days"
        return "file" if self.query_one("#browse-right") in around else "tree"

    def describe(self) -> None:
        """Write the line below: what is wrong with the filter, else what is chosen."""
        listed, line, path = self.file_list, self.file_list.chosen, self.reader.path
        file, content = self.reader.file, Content("")
        if self.file_rows.has_focus or not path:
            file, path = line.file if line is not None else None, ""
        if listed.problems:
            content = Content.styled(safe_line("; ".join(listed.problems)), "$state-warn")
        elif file is not None:
            content = file_line(file, self.engine.now(), listed.shown_recalls)
        elif path and listed.files:
            content = Content.styled(safe_line(f"no such file: {path}"), "$state-warn")
        elif line is not None:
            chunks = sum(one.chunks for one in line.files)
            counts = fmt.count(line.number, "file"), fmt.count(chunks, "chunk")
            words = " · ".join((*counts, fmt.size_words(line.size)))
            content = Content.assemble((safe_line(line.name), "bold"), (f"  {words}", fmt.MUTED))
        width, is_source = self.size.width - 2, self.is_alone and not self.view.rendered
        if is_source and content.cell_length + len(_MARKS) <= width:
            content += Content.styled(_MARKS, fmt.MUTED)
        content = fmt.fit(content, width)
        self.query_one("#browse-detail", Static).update(content, layout=False)

    @on(RowList.Chosen, "#file-tree")
    def file_chosen(self, message: RowList.Chosen) -> None:
        """Show the file under the cursor, whatever led there; a file that has the keys stays."""
        line = self.file_list.chosen
        self.describe()
        if message.by_user:
            self.file_list.path_to_reveal = ""
        if line is None or self._pane() == "file":
            return
        if line.file is not None:
            self.reader.show_file(line.file.path)
        elif message.by_user:
            self.reader.leave("A folder: Enter opens and closes it.")

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Open a folder or a conversation, go into the file, or jump to a heading."""
        line, app = self.file_list.chosen, app_of(self)
        if message.row_list is self.outline_rows:
            self.reader.go_to_line(int(message.row_id))
        elif message.row_list is not self.file_rows or line is None:
            return
        elif line.file is None:
            self.file_list.toggle(line.id)
        elif app.is_conversation(line.file.path):
            app.open_turn(line.file.path)
        else:
            self.reader.show_file(line.file.path)
            self.view.focus()

    @on(DayOpened)
    def day_opened(self, message: DayOpened) -> None:
        """Open a day: its one note, or the tree with the notes of that day alone."""
        totals = self.timeline.heat_map.days.get(message.day)
        if totals is None:
            tell(self, f"No notes of {message.day}.")
        elif len(totals.paths) == 1:
            self.file_list.reveal(totals.paths[0])
            self.reader.show_file(totals.paths[0])
            self.call_after_refresh(self.view.focus)
        else:
            self.file_list.path_to_reveal = totals.paths[0]
            self.filter_input.value = day_filter(message.day)
            self.file_rows.focus()

    @on(Input.Changed, "#browse-filter")
    def filter_typed(self) -> None:
        """Filter as it is typed; the file that was read is chosen again where it fits."""
        self.file_list.path_to_reveal = self.file_list.path_to_reveal or self.reader.path
        self.file_list.arrange()

    @on(Input.Submitted, "#browse-filter")
    def filter_left(self) -> None:
        """Go to what the filter let through."""
        self.file_list.path_to_reveal = ""
        self.file_rows.focus()

    @on(Preview.Opened)
    def link_opened(self, message: Preview.Opened) -> None:
        if message.link is not None:
            self.reader.follow(message.link)
        else:
            why = "tab goes from link to link" if self.view.has_links else "there is none here"
            tell(self, f"No link is chosen: {why}.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys of the tree to other panes."""
        name = parameters[1] if action == "part" else action
        return name not in self.list_actions or (self.is_mounted and self.file_rows.has_focus)

    def worded(self, binding: Binding) -> Binding:
        """Name only what can be done here and with the file, and what `M` shows."""
        useless: tuple[str, ...]
        useless = () if self.file_rows.has_focus else ("'cycle_sort'", "toggle_timeline")
        useless += () if self.reader.has_text else ("'toggle_outline'", "'toggle_rendered'")
        useless += () if self.view.chunk is not None else ("'show_chunk'", "'step_chunk'")
        useless += () if self.reader.before else ("'go_back', ()",)
        if any(name in binding.action for name in useless):
            return replace(binding, show=False)
        is_toggle = "'toggle_rendered'" in binding.action and self.view.rendered
        return replace(binding, description="source") if is_toggle else binding

    def action_focus_filter(self) -> None:
        self.filter_input.focus()
        self.filter_input.action_select_all()

    def action_toggle_timeline(self, day: str | None = None) -> None:
        """Show the timeline, or hide it; from the reader show it, with the cursor on a day."""
        is_inside = day is None and self.timeline.display and self.timeline.has_focus_within
        self.timeline_wanted = not is_inside
        if day:
            self.timeline.heat_map.day = date.fromisoformat(day)
            self.file_list.show_days()
        if is_inside:
            self.file_rows.focus()
        self.apply_layout()
        if not is_inside:
            self.call_after_refresh(self.timeline.heat_map.focus)

    def action_cycle_measure(self) -> None:
        """Make days dark by bytes, by chunks, or by how often they come up in the searches."""
        timeline, heat_map = self.timeline, self.timeline.heat_map
        heat_map.measure = next_of(Measure, heat_map.measure)
        if not timeline.display and not self.has_class("-single"):
            self.timeline_wanted = True
            self.apply_layout()
        self.file_list.show_days()
        self.file_list.count_recalls()

    def action_next_pane(self, step: int) -> None:
        timeline = self.timeline
        panes: list[Widget] = [self.view] if self.is_alone else [self.file_rows, self.view]
        panes += [self.outline_rows] if self.outline_rows.display else []
        has_days = timeline.display or (self.has_class("-single") and not self.is_alone)
        panes += [timeline.heat_map] if has_days else []
        if panes == [self.view]:
            tell(self, "No further link, and no other pane.")
        at = next((at for at, pane in enumerate(panes) if pane.has_focus), -step)
        pane = panes[(at + step) % len(panes)]
        timeline.display = timeline.display or pane is timeline.heat_map
        self.call_after_refresh(pane.focus)

    def action_close(self) -> None:
        """Go to the tree; from there, or where no file fits, take the filter away, then go back.

        What is being counted is stopped first, and the timeline that `T` opened closed.
        """
        shows_recalls = self.timeline.has_focus_within or self.file_list.sort is Sort.RECALLS
        if (shows_recalls and self.stop_running()) or self.close_part():
            return
        if self.file_list.lines and not self.file_rows.has_focus:
            self.file_rows.focus()
        elif self.filter_input.value:
            self.filter_input.value = ""
        else:
            self.app.pop_screen()

    def close_part(self) -> bool:
        """Close the timeline that has the keys; false where `T` did not open it."""
        is_opened = self.timeline.has_focus_within and bool(self.timeline_wanted)
        if is_opened:
            self.action_toggle_timeline()
        return is_opened

    def stop_running(self) -> bool:
        """Stop counting recalls; false when they are not counted."""
        return self.file_list.stop_counting()


class ReaderScreen(BrowseScreen):
    """A file that another screen leads to, without the tree: Browse stays as it is."""

    BINDINGS = bindings("reader")
    is_alone = True
    list_actions = BrowseScreen.list_actions | {"cycle_sort", "cycle_measure"}

    def show_tree(self) -> None:
        """Show the file on the browse screen instead."""
        chunk, (line, _) = self.view.chunk, self.view.top
        self.app.pop_screen()
        chunk_id = chunk.id if chunk is not None else None
        app_of(self).open_place(self.reader.path, line, chunk_id, self.reader.terms)

    def action_toggle_timeline(self, day: str | None = None) -> None:
        day = str(file.day or "") if (file := self.reader.file) is not None else ""
        app_of(self).run_elsewhere("browse", f"toggle_timeline('{day}')")

    def action_focus_query(self) -> None:
        """Go back to the query."""
        self.app.pop_screen()
        app_of(self).search_screen.action_focus_query()

    def close_part(self) -> bool:
        """Close the outline that has the keys."""
        if has_keys := self.outline_rows.has_focus:
            self.reader.toggle_outline()
        return has_keys

    def action_close(self) -> None:
        if not self.close_part():
            self.app.pop_screen()
