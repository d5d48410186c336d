"""Why, and why not: explaining a chunk, pinning one, tracing a place by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memtui.model import Chunk, Ranked, Ranking
from memtui.tui.background import in_background, tell
from memtui.tui.widgets.pins import MOST, Pin, standing

if TYPE_CHECKING:
    from memtui.model.inquiry import Inquiry, Place
    from memtui.report.explanation import Subject
    from memtui.tui.screens.search.screen import SearchScreen

_NO_QUERY = "Nothing asked yet: type a query first; a trace says why its answer has a place or not."


class InquiryController:
    """The explain screen, the pins and the trace."""

    def __init__(self, view: SearchScreen) -> None:
        self.view = view
        self._chunks: Mapping[str, Chunk] = {}
        """The pinned chunks by id."""
        self._traced: Mapping[str, Inquiry | str] = {}
        """What the engine said of pinned chunks outside the pool of the list on screen."""
        self._tracing: Ranked | None = None

    def list_shown(self, ranked: Ranked, is_other: bool) -> None:
        """Let what follows a chunk or a change follow it to the list on screen."""
        view = self.view
        if is_other:
            self._traced = {}
        self._show_pins()
        self._trace_pins()
        if len(view.app.screen_stack) < 2:
            return
        from memtui.tui.screens.compare import CompareScreen
        from memtui.tui.screens.explain import ExplainScreen
        from memtui.tui.screens.sweep import SweepScreen

        for screen in view.app.screen_stack:
            if isinstance(screen, SweepScreen):
                screen.follow(ranked, view.ranking, view.options.ranking)
            elif isinstance(screen, CompareScreen):
                screen.follow(ranked, view.ranking)
            elif isinstance(screen, ExplainScreen) and view.shown_complete:
                screen.take(ranked, view.ranking)

    # --- explaining -----------------------------------------------------------------------------

    def explain(self) -> None:
        """Open the whole arithmetic of the chosen result."""
        chunk, ranked = self.view.selected_chunk(), self.view.ranked
        if ranked is None or chunk is None:
            tell(self.view, "Nothing to explain: choose a result first.")
            return
        self.view.notes.remember_query()
        self.explain_in(ranked, chunk.id)

    def explain_in(self, ranked: Ranked, subject: Subject, ranking: Ranking | None = None) -> None:
        """Explain a chunk of a list; `ranking` is what was asked for."""
        from memtui.tui.screens.explain import ExplainScreen

        screen = ExplainScreen(self.view, ranked, subject, ranking)
        self.view.app.push_screen(screen, self._explained)

    def _explained(self, chunk_id: str | None) -> None:
        """Choose the chunk that was explained last."""
        view = self.view
        if view.shown_complete:
            view.lists.followed = None
        self._show_pins()
        candidates = view.ranked.pool.chunks if view.ranked is not None else {}
        if chunk_id is not None and chunk_id in candidates and chunk_id != view.selected_id:
            view.lists.choose(chunk_id)

    def follow_chunk(self, chunk_id: str | None) -> None:
        """Choose this chunk in the next whole list."""
        if chunk_id is not None:
            self.view.selected_id = self.view.lists.followed = chunk_id
            self.view.selected_by_user = True

    # --- tracing a place ------------------------------------------------------------------------

    def trace_place(self) -> None:
        """Name a file or a line, and learn why it is shown or not."""
        from memtui.tui.screens.place_prompt import PlacePrompt

        view = self.view
        if view.ranked is None or view.engine is None:
            tell(view, _NO_QUERY)
            return
        source, preview = view.notes.source, view.preview
        is_read = preview.has_focus and source is not None
        place = f"{source.path}:{preview.first_visible_line}" if is_read and source else ""
        view.app.push_screen(PlacePrompt(view.engine.browse.paths, place), self._place_named)

    def _place_named(self, place: Place | None) -> None:
        if place is not None and self.view.ranked is not None:
            self.view.notes.remember_query()
            self.explain_in(self.view.ranked, place)

    # --- pinning --------------------------------------------------------------------------------

    def toggle_pin(self) -> None:
        """Follow the chosen chunk through every query, or do not any more."""
        chunk = self.view.selected_chunk()
        if chunk is None:
            tell(self.view, "Nothing to pin: choose a result first.")
        else:
            self.pin_chunk(chunk)

    def pin_chunk(self, chunk: Chunk) -> None:
        """Pin a chunk, or unpin it; of more than two the oldest goes."""
        others = tuple(pin for pin in self.view.pinned if pin != chunk.id)
        is_new = len(others) == len(self.view.pinned)
        chunks = {**self._chunks, chunk.id: chunk}
        self._set_pins((*others, chunk.id)[-MOST:] if is_new else others, chunks)

    def clear_pins(self) -> None:
        """Follow nothing any more."""
        self._set_pins((), {})

    def _set_pins(self, pinned: tuple[str, ...], chunks: Mapping[str, Chunk]) -> None:
        view = self.view
        view.pinned = pinned
        self._chunks = {chunk_id: chunks[chunk_id] for chunk_id in pinned}
        counts = range(1, MOST + 1)
        view.update_classes({f"-pins-{count}": len(pinned) == count for count in counts})
        self._show_pins()
        self._trace_pins()
        view.lists.redraw()

    def forget(self) -> None:
        """Forget what was followed in another memory, and close what explains it."""
        from memtui.tui.screens.explain import ExplainScreen

        self._traced = {}
        self.clear_pins()
        for screen in tuple(self.view.app.screen_stack):
            if isinstance(screen, ExplainScreen):
                screen.dismiss(None)

    def _show_pins(self) -> None:
        self.view.pin_strip.show_pins([self._pin(chunk_id) for chunk_id in self.view.pinned])

    def _pin(self, chunk_id: str) -> Pin:
        traced = self._traced.get(chunk_id)
        problem = traced if isinstance(traced, str) else ""
        inquiry = None if isinstance(traced, str) else traced
        chunk = self._chunks[chunk_id]
        return standing(self.view.ranked, chunk, inquiry, problem, self.view.glyphs)

    def _trace_pins(self) -> None:
        """Ask why pins outside the pool are not there; one question at a time, newest list only."""
        ranked, engine = self.view.ranked, self.view.engine
        if ranked is None or engine is None or self._tracing is not None:
            return
        outside = (
            chunk_id
            for chunk_id in self.view.pinned
            if chunk_id not in ranked.pool.chunks and chunk_id not in self._traced
        )
        chunk_id = next(outside, None)
        if chunk_id is None:
            return
        self._tracing = ranked

        def inquire() -> Inquiry | str:
            try:
                return engine.explain.inquire(ranked, chunk_id)
            except Exception as error:
                # Whatever goes wrong is told in the pin's line, and the next list is tried again.
                return str(error) or type(error).__name__

        def show(answer: Inquiry | str) -> None:
            self._tracing = None
            if ranked is self.view.ranked:
                self._traced = {**self._traced, chunk_id: answer}
                self._show_pins()
            self._trace_pins()

        in_background(self.view, inquire, show, group="pins", description="trace a pinned chunk")
