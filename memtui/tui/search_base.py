"""State and helpers that every concern of the search screen uses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from textual.getters import query_one
from textual.timer import Timer
from textual.widgets import Input

from memtui.model import Chunk, Drop, Hit, IndexStatus, Ranked, SearchMode
from memtui.tui.glyphs import glyphs
from memtui.tui.history import QueryHistory
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import BaseScreen
from memtui.tui.search_flow import SearchFlow
from memtui.tui.widgets.near_misses import NearMisses
from memtui.tui.widgets.param_panel import ParamPanel
from memtui.tui.widgets.param_strip import ParamStrip
from memtui.tui.widgets.query_bar import QueryBar
from memtui.tui.widgets.result_list import ResultList
from memtui.tui.widgets.results_message import ResultsMessage
from memtui.tui.widgets.status_bar import StatusBar

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.source import SourceText
    from memtui.tui.widgets.result_row import RowLook

TALL = 30
ROOMY = 36
WIDE = 100
HUGE = 160


class SearchBase(BaseScreen[None]):
    """What the search screen knows; the concerns are mixins over it."""

    query_bar = query_one("#query-bar", QueryBar)
    query_input = query_one("#query", Input)
    strip = query_one("#param-strip", ParamStrip)
    results = query_one("#results", ResultList)
    message = query_one("#results-message", ResultsMessage)
    near = query_one("#near-misses", NearMisses)
    panel = query_one("#parameters", ParamPanel)
    status_bar = query_one("#status-bar", StatusBar)

    def __init__(self, options: UiOptions) -> None:
        super().__init__(id="search")
        self.options = options
        self.glyphs = glyphs(options.glyphs)
        self.engine: Engine | None = None
        self.engine_error = ""
        self.ranking = options.ranking
        self.ranked: Ranked | None = None
        """The answer on screen; `None` while the query is empty."""
        self.mode = SearchMode.HYBRID
        """The legs that could search for the last answer."""
        self.status: IndexStatus | None = None
        self.flow = SearchFlow()
        self.history = QueryHistory()
        self.sort = "rank"
        self.selected_id: str | None = None
        """Chunk id of the chosen result or near miss."""
        self.selected_by_user = False
        self.shown_complete = False
        self.near_wanted: bool | None = None
        """Whether near misses are shown; `None` lets the size decide."""
        self.preview_place = options.preview
        self.pinned: tuple[str, ...] = ()
        """Chunk ids that are followed through every query, the newest last, at most two."""
        self.source: SourceText | None = None
        """The note that was read last."""
        self.look: RowLook | None = None
        self.highlight_timer: Timer | None = None
        self._bindings_shown: tuple[bool, ...] = ()

    @property
    def is_built(self) -> bool:
        """Whether there are widgets: not before the first paint, and not after the last."""
        # When the program ends, widgets go pane by pane while answers may still arrive.
        return self.app.is_running and self.is_attached and bool(self.query("#results"))

    @property
    def is_foreign(self) -> bool:
        """Whether another program made the index, and memtui only reads it."""
        return self.status is not None and self.status.foreign is not None

    @property
    def is_small(self) -> bool:
        """Whether one pane is shown at a time."""
        return self.size.width < 60 or self.size.height < 16

    @property
    def row_lines(self) -> int:
        """Lines of a result: 1 where one pane is shown at a time, 4 on a huge screen, else 2."""
        if self.is_small:
            return 1
        return 4 if self.size.width >= HUGE and self.size.height >= 40 else 2

    def selected(self) -> Hit | Drop | None:
        """The chosen result or near miss."""
        if self.ranked is None or self.selected_id is None:
            return None
        for hit in self.ranked.hits:
            if hit.chunk.id == self.selected_id:
                return hit
        return next((d for d in self.ranked.drops if d.chunk.id == self.selected_id), None)

    def selected_chunk(self) -> Chunk | None:
        """The chunk of the chosen row."""
        scored = self.selected()
        return scored.chunk if scored is not None else None

    def clock(self) -> datetime:
        """The clock of the ranking on screen, else now."""
        return self.ranked.trace.now if self.ranked is not None else self.engine_now()

    def show_bindings(self) -> None:
        """Name the keys again where other ones work now."""
        state = (
            self.selected_id is None, self.engine is None, not self.engine_error, self.is_foreign,
        )  # fmt: skip
        if state != self._bindings_shown:
            self._bindings_shown = state
            self.refresh_bindings()

    def engine_now(self) -> datetime:
        """The clock of the engine, which the demo sets to the end of its story."""
        return self.engine.now() if self.engine is not None else datetime.now(UTC)

    def tell(self, text: str, *, error: bool = False, warning: bool = False) -> None:
        """Show a toast: what happened, and what to do next."""
        severity = "error" if error else "warning" if warning else "information"
        self.app.notify(
            text,
            markup=False,
            severity=severity,  # type: ignore[arg-type]
            timeout=30 if error else 4,
        )

    # --- given by the other concerns --------------------------------------------------------------

    def apply_layout(self) -> None:
        """Set the classes that depend on the size and on what there is."""
        raise NotImplementedError

    def show_parameters(self) -> None:
        """Draw the parameters."""
        raise NotImplementedError

    def refresh_status(self) -> None:
        """Show the newest snapshot of the index status."""
        raise NotImplementedError

    def select(self, chunk_id: str | None) -> None:
        """Show the chosen chunk in the other panes."""
        raise NotImplementedError

    def open_selected(self) -> None:
        """Open the chosen row."""
        raise NotImplementedError

    def remember_query(self) -> None:
        """Put the query into the history."""
        raise NotImplementedError
