"""Moving between panes and choosing what is on screen."""

from __future__ import annotations

from textual.widget import Widget
from textual.widgets import Input

from memtui.tui.actions_index import IndexActions
from memtui.tui.search_base import ROOMY, TALL, WIDE
from memtui.tui.widgets.result_list import SORTS

PLACES = ("auto", "right", "below", "off")
PANES = ("results", "preview", "why")
"""The panes of a small terminal, one at a time."""
TAB_ORDER = ("query", "results", "results-message", "near-misses", "preview", "why")


class PaneActions(IndexActions):
    """Focus, panes, near misses, order."""

    pane = "results"
    """The pane that is shown where one is shown at a time."""

    def layout_classes(self) -> dict[str, bool]:
        """The classes that depend on the size and on what the user chose."""
        near = self.near_wanted
        if near is None:
            near = self.size.width >= WIDE and self.size.height >= TALL
        near = near and self.ranked is not None
        return {
            **super().layout_classes(),
            **{f"-preview-{place}": self.preview_place == place for place in PLACES},
            **{f"-pane-{pane}": self.is_small and self.pane == pane for pane in PANES},
            "-single": self.is_small,
            "-roomy": self.size.height >= ROOMY,
            "-near": near,
        }

    def apply_layout(self) -> None:
        """Lay out for the size, for what the user chose and for what there is to show."""
        # One look through the style sheets for all of them.
        self.update_classes(self.layout_classes())
        self.fit_results(len(self.results.rows))
        if self.look is not None and self.look.lines != self.row_lines:
            self.call_after_refresh(self.redraw_lists)

    def panes(self) -> list[Widget]:
        """The panes that can have the focus, in the order of Tab."""
        widgets = [self.query_one(f"#{name}") for name in TAB_ORDER]
        return [widget for widget in widgets if widget.focusable and _is_shown(widget)]

    def show_pane(self, pane: str) -> None:
        """Bring a pane to the front and give it the keys."""
        self.pane = pane if pane in PANES else "results"
        self.apply_layout()
        first = self.results if self.results.display else self.message
        widget = first if self.pane == "results" else self.query_one(f"#{pane}")
        if self.is_small:
            self.call_after_refresh(widget.focus)
        elif widget.focusable and _is_shown(widget):
            widget.focus()
        else:
            first.focus()

    # --- actions --------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide what has no meaning now, grey what cannot be done now."""
        if action in ("explain", "edit", "copy_citation", "copy_text", "toggle_pin"):
            possible = self.selected_id is not None or action == "edit"
            return True if possible else None
        if action == "sync" and self.engine_error:
            return True
        if action in ("sync", "rebuild"):
            return True if self.engine is not None else None
        return True

    def action_focus_query(self) -> None:
        """Edit the query; what is typed replaces it."""
        self.query_input.focus()
        self.query_input.action_select_all()

    def action_leave(self) -> None:
        """Go from the query, or any other pane, to the list; there, follow no chunk any more.

        Never quits, and never clears the query.
        """
        if isinstance(self.focused, Input):
            self.remember_query()
        elif self.results.has_focus and self.pinned:
            self.clear_pins()
        self.show_pane("results")

    def action_move(self, step: int) -> None:
        """Move the choice in the list, also while typing."""
        if self.results.display:
            self.results.move(step)

    def action_next_pane(self, step: int) -> None:
        """Give the keys to the next pane."""
        if self.is_small:
            self._next_small_pane(step)
            return
        panes = self.panes()
        if not panes:
            return
        focused = self.focused
        at = panes.index(focused) if focused in panes else -step
        panes[(at + step) % len(panes)].focus()

    def _next_small_pane(self, step: int) -> None:
        if isinstance(self.focused, Input):
            self.show_pane("results" if step > 0 else PANES[-1])
            return
        at = PANES.index(self.pane) + step
        if 0 <= at < len(PANES):
            self.show_pane(PANES[at])
        else:
            self.query_input.focus()

    def action_cycle_preview(self) -> None:
        """Show the preview where it fits, right, below or not at all."""
        at = PLACES.index(self.preview_place)
        self.preview_place = PLACES[(at + 1) % len(PLACES)]
        self.apply_layout()
        self.note(f"preview: {self.preview_place}")

    def action_toggle_near_misses(self) -> None:
        """Show or hide the candidates that are not in the list."""
        self.near_wanted = not self.has_class("-near")
        if not self.near_wanted and self.near.has_focus:
            self.show_pane("results")
        self.apply_layout()
        self.redraw_lists()

    def action_toggle_parameters(self) -> None:
        """Show or hide the parameter panel, where there is room for it."""
        if self.size.width < WIDE or self.is_small:
            self.note(f"no room for the panel below {WIDE} columns")
        else:
            self.toggle_class("-parameters")

    def action_cycle_sort(self) -> None:
        """Show the list in another order; ranks and scores stay what they are."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.note(f"list by {self.sort}")
        self.redraw_lists()


def _is_shown(widget: Widget) -> bool:
    """Whether a widget and everything around it is displayed."""
    return all(node.display for node in widget.ancestors_with_self if isinstance(node, Widget))
