"""Why, and why not: explaining a chunk, pinning one, tracing a place by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.getters import query_one

from memtui.model import Chunk, Ranked, Ranking
from memtui.tui.actions_source import SourceActions
from memtui.tui.messages import PinTraced
from memtui.tui.widgets.pins import MOST, Pin, Pins, standing

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.model.inquiry import Inquiry, Place
    from memtui.report.explanation import Subject

_NO_QUERY = "Nothing asked yet: type a query first; a trace says why its answer has a place or not."


class InquiryActions(SourceActions):
    """The explain screen, the pin and the trace."""

    pin_strip = query_one("#pins", Pins)

    _pinned_chunks: Mapping[str, Chunk] = {}
    _traced: Mapping[str, Inquiry | str] = {}
    """What the engine said of pinned chunks outside the pool of the list on screen."""
    _tracing: Ranked | None = None
    _followed: str | None = None
    """The chunk to choose in the list that answers a change made from its explanation."""

    # --- explaining -----------------------------------------------------------------------------

    def action_explain(self) -> None:
        """Open the whole arithmetic of the chosen result."""
        chunk = self.selected_chunk()
        if self.ranked is None or chunk is None:
            self.tell("Nothing to explain: choose a result first.")
            return
        self.remember_query()
        self._explain(self.ranked, chunk.id)

    def _explain(self, ranked: Ranked, subject: Subject, ranking: Ranking | None = None) -> None:
        from memtui.tui.screens.explain import ExplainScreen

        folder = self.options.state_dir
        screen = ExplainScreen(
            ranked,
            subject,
            ranking=self.ranking if ranked is self.ranked else ranking,
            glyphs=self.glyphs,
            engine=self.engine,
            search=self,
            follows=ranked is self.ranked,
            folder=folder / "explanations" if folder is not None else None,
        )
        self.app.push_screen(screen, self._explained)

    def _explained(self, chunk_id: str | None) -> None:
        """Choose the chunk that was explained last."""
        if self.shown_complete:
            self._followed = None
        self.show_pins()
        ranked = self.ranked
        if ranked is None or chunk_id not in ranked.pool.chunks or chunk_id == self.selected_id:
            return
        assert chunk_id is not None
        self.results.choose(chunk_id, by_user=True)
        self.near.choose(chunk_id, by_user=True)
        self.select(chunk_id)

    def show_ranked(self, ranked: Ranked, **look: Any) -> None:
        """Put a list on screen, and let what follows a chunk follow it there."""
        if ranked is not self.ranked:
            self._traced = {}
        if self._followed is not None:
            look["keep"] = self._followed
        super().show_ranked(ranked, **look)
        if self.shown_complete:
            self._followed = None
        self.show_pins()
        self._trace_pins()
        if self.shown_complete and len(self.app.screen_stack) > 1:
            from memtui.tui.screens.explain import ExplainScreen

            for screen in self.app.screen_stack:
                if isinstance(screen, ExplainScreen):
                    screen.take(ranked, self.ranking)

    # --- what the explain screen asks -----------------------------------------------------------

    @property
    def pins(self) -> Sequence[str]:
        """Ids of the pinned chunks, the newest last."""
        return self.pinned

    def follow_chunk(self, chunk_id: str | None) -> None:
        """Choose this chunk in the next whole list."""
        if chunk_id is not None:
            self.selected_id = self._followed = chunk_id
            self.selected_by_user = True

    def change_query(self, text: str) -> None:
        """Ask another query at once, as if it were typed and entered."""
        if self.engine is None:
            return
        self.query_input.value = text
        self.query_input.action_end()
        self.shown_complete = False
        self.flow.wanted = self.flow.submitted = text.strip()
        self.ask()

    # --- tracing a place ------------------------------------------------------------------------

    def action_trace_place(self) -> None:
        """Name a file or a line, and learn why it is shown or not."""
        from memtui.tui.screens.place_prompt import PlacePrompt

        if self.ranked is None or self.engine is None:
            self.tell(_NO_QUERY)
            return
        prompt = PlacePrompt(self.engine.browse.paths, self._place_in_preview())
        self.app.push_screen(prompt, self._place_named)

    def _place_in_preview(self) -> str:
        """The first line in view of the note that is read; empty elsewhere."""
        if not self.preview.has_focus or self.source is None:
            return ""
        return f"{self.source.path}:{self.preview.first_visible_line}"

    def _place_named(self, place: Place | None) -> None:
        if place is not None and self.ranked is not None:
            self.remember_query()
            self._explain(self.ranked, place)

    # --- pinning --------------------------------------------------------------------------------

    def action_toggle_pin(self) -> None:
        """Follow the chosen chunk through every query, or do not any more."""
        chunk = self.selected_chunk()
        if chunk is None:
            self.tell("Nothing to pin: choose a result first.")
            return
        self.pin_chunk(chunk)

    def pin_chunk(self, chunk: Chunk) -> None:
        """Pin a chunk, or unpin it; of more than two the oldest goes."""
        kept = tuple(pin for pin in self.pinned if pin != chunk.id)
        is_new = len(kept) == len(self.pinned)
        known = {**self._pinned_chunks, chunk.id: chunk}
        self._set_pins((*kept, chunk.id)[-MOST:] if is_new else kept, known)

    def clear_pins(self) -> None:
        """Follow nothing any more."""
        self._set_pins((), {})

    def _set_pins(self, pinned: tuple[str, ...], known: Mapping[str, Chunk]) -> None:
        self.pinned = pinned
        self._pinned_chunks = {chunk_id: known[chunk_id] for chunk_id in pinned}
        counts = range(1, MOST + 1)
        self.update_classes({f"-pins-{count}": len(pinned) == count for count in counts})
        self.show_pins()
        self._trace_pins()
        self.redraw_lists()

    def forget_pins(self) -> None:
        """Forget what was followed in another memory, and close what explains it."""
        from memtui.tui.screens.explain import ExplainScreen

        self._traced = {}
        self.clear_pins()
        for screen in tuple(self.app.screen_stack):
            if isinstance(screen, ExplainScreen):
                screen.dismiss(None)

    def show_pins(self) -> None:
        """Draw the strip of pins."""
        self.pin_strip.show([self._pin(chunk_id) for chunk_id in self.pinned])

    def _pin(self, chunk_id: str) -> Pin:
        traced = self._traced.get(chunk_id)
        problem = traced if isinstance(traced, str) else ""
        inquiry = None if isinstance(traced, str) else traced
        return standing(self.ranked, self._pinned_chunks[chunk_id], inquiry, problem, self.glyphs)

    def _trace_pins(self) -> None:
        """Ask why pins outside the pool are not there; one question at a time, newest list only."""
        ranked = self.ranked
        if ranked is None or self.engine is None or self._tracing is not None:
            return
        outside = [
            chunk_id
            for chunk_id in self.pinned
            if chunk_id not in ranked.pool.chunks and chunk_id not in self._traced
        ]
        if outside:
            self._tracing = ranked
            self._trace_pin(self.engine, ranked, outside[0])

    @work(thread=True, group="pins", exit_on_error=False, description="trace a pinned chunk")
    def _trace_pin(self, engine: Engine, ranked: Ranked, chunk_id: str) -> None:
        try:
            found = engine.explain.inquire(ranked, chunk_id)
        except Exception as error:
            # Whatever goes wrong is told in the pin's line, and the next list is tried again.
            told = str(error) or type(error).__name__
            self.post_message(PinTraced(ranked, chunk_id, None, told))
            return
        self.post_message(PinTraced(ranked, chunk_id, found))

    @on(PinTraced)
    def pin_traced(self, message: PinTraced) -> None:
        """Show how a pin stands, unless another list is on screen by now."""
        self._tracing = None
        if message.ranked is self.ranked:
            found = message.inquiry if message.inquiry is not None else message.error
            self._traced = {**self._traced, message.chunk_id: found}
            self.show_pins()
        self._trace_pins()
