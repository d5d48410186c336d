"""The list of files: loading, refreshing, filtering, sorting."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual import on, work
from textual.timer import Timer
from textual.widgets import Input

from memtui.text.sanitize import safe_line
from memtui.tui.browsing.base import BrowseBase, Wanted
from memtui.tui.browsing.filtering import filter_files
from memtui.tui.browsing.messages import FilesListed, TreeArranged
from memtui.tui.browsing.tree import Sort, build_tree

if TYPE_CHECKING:
    from memtui.engine import Engine

SOONEST = 1.0
"""Seconds between two looks at the files while they change; more where a look takes long."""
_PATIENCE = 5


class ListingActions(BrowseBase):
    """The files of the memory, as the tree shows them."""

    _loading = False
    _again = False
    _ticket = 0
    _seconds = 0.0
    _timer: Timer | None = None
    _reveal: str | None = None
    """A file to put the cursor on, once the tree has it."""

    # --- loading ----------------------------------------------------------------------------------

    def load(self) -> None:
        """List the files; while that goes on, once more afterwards."""
        if self.engine is None:
            return
        if self._loading:
            self._again = True
            return
        self._loading, self._again = True, False
        self._list_files(self.engine)

    @work(thread=True, group="files", exit_on_error=False, description="list the files")
    def _list_files(self, engine: Engine) -> None:
        began = time.monotonic()
        try:
            files = tuple(engine.browse.files())
            days = tuple(engine.browse.days(self.recalled))
        except Exception as error:
            # Whatever a folder or an index can do to its reader is told on the screen.
            told = str(error) or type(error).__name__
            self.post_message(FilesListed(engine, error=told))
            return
        self.post_message(FilesListed(engine, files, days, seconds=time.monotonic() - began))

    @on(FilesListed)
    def files_listed(self, message: FilesListed) -> None:
        """Show the files, and look again if something changed meanwhile."""
        message.stop()
        self._loading = False
        if message.engine is not self.engine or not self.is_built:
            return
        self._seconds = message.seconds
        if message.error:
            self.problems = (f"cannot list the files: {safe_line(message.error)}",)
            self.describe()
        else:
            self.listed = True
            self.files, self.days = message.files, message.days
            self.by_path = {file.path: file for file in message.files}
            self.timeline.show_days(self.days, self.today())
            self.arrange_files()
        if self._again:
            self.changed_outside()

    def changed_outside(self) -> None:
        """Follow files or an index that changed, but not at every change."""
        if self._timer is None and self.is_built:
            wait = max(SOONEST, _PATIENCE * self._seconds)
            self._timer = self.set_timer(wait, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        if self.is_current:
            self.load()
        else:
            self._again = True

    # --- filter and order -------------------------------------------------------------------------

    def arrange_files(self) -> None:
        """Put what the filter lets through into the tree, beside the loop; the newest wish wins."""
        self._ticket += 1
        self._arrange_files(self._ticket, self.filter_input.value, self.sort, self.recalls_in_order)

    @work(thread=True, group="arrange", exit_on_error=False, description="filter the files")
    def _arrange_files(
        self, ticket: int, text: str, sort: Sort, recalled: Mapping[str, int] | None
    ) -> None:
        if ticket != self._ticket:
            return
        found = filter_files(self.files, text)
        tree = build_tree(found.files, sort, recalled)
        count = len(found.files)
        self.post_message(TreeArranged(ticket, tree, count, found.problems, recalled))

    @on(TreeArranged)
    def tree_arranged(self, message: TreeArranged) -> None:
        """Show the tree with the cursor where it was."""
        message.stop()
        if message.ticket != self._ticket:
            return
        self.problems = message.problems
        filtered = bool(self.filter_input.value.strip())
        empty = "no file fits: esc clears" if filtered else self._no_files()
        first = self.file_tree.chosen_id is None
        self.file_tree.show_tree(
            message.tree, self.now(), filtered=filtered, empty=empty, recalled=message.recalled
        )
        self.show_count(message.count)
        if self._reveal is not None and self.file_tree.reveal(self._reveal):
            self._reveal = None
        elif first or filtered:
            self._choose_first_file()
        file = self.file_tree.chosen_file
        if filtered and file is not None and (self.wanted is None or self.wanted.path != file.path):
            self.want(Wanted(file.path))
        self.describe()

    def _no_files(self) -> str:
        return "no Markdown notes here"

    def _choose_first_file(self) -> None:
        """From the place that stands first to a file, so that there is something to read."""
        if self.file_tree.chosen_file is not None:
            return
        for line in self.file_tree.tree_lines:
            if line.file is not None:
                self.file_tree.choose(line.id)
                return

    def reveal(self, path: str) -> None:
        """Put the cursor on a file; a filter that hides it is taken away."""
        self._reveal = path
        if self.file_tree.reveal(path):
            self._reveal = None
        elif path in self.by_path:
            self.set_filter("")
            self.arrange_files()

    def forget_wish(self) -> None:
        """Let the cursor stay where it is when a file that was asked for appears."""
        self._reveal = None

    def set_filter(self, text: str) -> None:
        """Put a text into the filter."""
        self.filter_input.value = text

    @on(Input.Changed, "#browse-filter")
    def filter_changed(self, event: Input.Changed) -> None:
        """Filter as it is typed."""
        event.stop()
        self.arrange_files()

    @on(Input.Submitted, "#browse-filter")
    def filter_submitted(self, event: Input.Submitted) -> None:
        """Go to what was found."""
        event.stop()
        self.file_tree.focus()

    def action_focus_filter(self) -> None:
        """Edit the filter; what is typed replaces it."""
        self.filter_input.focus()
        self.filter_input.action_select_all()

    def action_cycle_sort(self) -> None:
        """Show the files in another order."""
        orders = list(Sort)
        self.sort = orders[(orders.index(self.sort) + 1) % len(orders)]
        self._reveal = self.wanted.path if self.wanted is not None else None
        self.arrange_files()
