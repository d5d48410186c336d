"""The explain screen: why one chunk, line or file is shown or not, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget

from memtui.model import Ranking
from memtui.model.inquiry import WordChange
from memtui.text.sanitize import safe_line
from memtui.tui.arithmetic import axis, steps_of
from memtui.tui.bindings import bindings
from memtui.tui.explaining.export import page_as, text_of_page
from memtui.tui.explaining.facts import LABEL, facts_of
from memtui.tui.explaining.findings import Part
from memtui.tui.explaining.least_lines import Choice, applied_words
from memtui.tui.explaining.page import Page
from memtui.tui.screens.explain_base import ExplainBase
from memtui.tui.widgets.facts import Facts
from memtui.tui.widgets.least_list import LeastList
from memtui.tui.widgets.text_block import TextBlock
from memtui.tui.widgets.waterfall import Waterfall

if TYPE_CHECKING:
    from memtui.ranking.counterfactual import Change
    from memtui.tui.app import MemtuiApp

_STILL_LOOKING = "Still looking: wait a moment."
_NOT_EXPLAINED = "Nothing to export: it could not be explained."
_NOTHING_APPLIED = "Nothing to take back here."
_LEFT, _RIGHT = "explain-left", "explain-right"


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that was applied here: what a changed query was before, or what it ranked by."""

    choice: Choice
    query: str | None = None
    ranking: Ranking | None = None


@dataclass(frozen=True, slots=True)
class _Held:
    """A section, where its first line was in the view, and how far the page was scrolled then."""

    section: Widget
    offset: int
    scrolled: int


class ExplainScreen(ExplainBase):
    """Explains one place for one result list; its result is the chunk that was looked at last."""

    CSS_PATH = "explain.tcss"
    BINDING_GROUP_TITLE = "Explain"
    BINDINGS: ClassVar[list[BindingType]] = bindings("explain")

    _applied: tuple[Applied, ...] = ()
    _held: _Held | None = None
    _note = ""
    """What was applied or taken back, below the verdict."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="explain-box"):
            yield TextBlock(id="explain-verdict")
            with Container(id="explain-columns"):
                with Vertical(id=_LEFT):
                    yield TextBlock(id="explain-trace")
                    yield Waterfall(glyphs=self.glyphs, id="explain-waterfall")
                    yield Facts(label_width=LABEL, id="explain-facts")
                    yield TextBlock(id="explain-text-left")
                with Vertical(id=_RIGHT):
                    yield LeastList(glyphs=self.glyphs, id="explain-least")
                    yield TextBlock(id="explain-keyword")
                    yield TextBlock(id="explain-vector")
                    yield TextBlock(id="explain-text")

    def on_mount(self) -> None:
        """Show what the ranking knows, and ask the engine for the rest."""
        self.show_page(again=False)
        box = self.query_one("#explain-box")
        self.watch(box, "virtual_size", self._laid_out, init=False)
        self.call_after_refresh(self._gather)

    def on_unmount(self) -> None:
        """Stop looking."""
        self._ticket += 1

    # --- drawing --------------------------------------------------------------------------------

    def show_page(self, *, again: bool) -> None:
        """Draw everything that is known; `again` keeps the place of a reader of the same page."""
        self._page = page = self._paged()
        box = self.query_one("#explain-box", VerticalScroll)
        if again:
            self._hold(box)
        else:
            self._held = None
        box.border_title = self._title()
        box.border_subtitle = Content(self._keys())
        told = page.verdict()
        self._block("verdict").show(lambda width: self._verdict(told, width))
        self._show_arithmetic(page)
        least = self.query_one(LeastList)
        least.display = page.offers_changes
        least.show(page.findings, again=again)
        for name, draw in (
            ("trace", page.trace),
            ("keyword", page.keyword),
            ("vector", page.vector),
            ("text", page.text),
            ("text-left", page.text),
        ):
            self._block(name).show(draw)
        if not again:
            box.scroll_home(animate=False)
            box.focus()
        self.refresh_bindings()

    def _show_arithmetic(self, page: Page) -> None:
        waterfall, facts = self.query_one(Waterfall), self.query_one(Facts)
        waterfall.display = facts.display = page.explanation is not None
        if page.explanation is not None:
            waterfall.show(steps_of(self.ranked, page.explanation.scored), axis(self.ranked))
            facts.show(facts_of(self.ranked, page.explanation, self.glyphs))

    def _block(self, name: str) -> TextBlock:
        return self.query_one(f"#explain-{name}", TextBlock)

    def _verdict(self, told: Content, width: int) -> list[Content]:
        lines = list(told.wrap(width))
        if self._note:
            lines += Content.styled(self._note, "$primary bold").wrap(width)
        return lines

    def _title(self) -> Content:
        pinned = self.search is not None and self.chunk_id in self.search.pins
        mark = f"{self.glyphs.pin} " if pinned else ""
        return Content.assemble((mark, "bold $primary"), self._page.title())

    def _keys(self) -> str:
        apply = "a apply  " if self._page.offers_changes else ""
        undo = "u undo  " if self._applied else ""
        can_pin = self.search is not None and self._page.chunk is not None
        host = "p pin  c compare  " if can_pin else ""
        return f"j/k other results  {apply}{undo}{host}y copy  esc back"

    def _hold(self, box: VerticalScroll) -> None:
        """Note the section in the middle of the view, and where it is; at the top nothing."""
        scrolled = box.scroll_offset.y
        if self._held is not None and self._held.scrolled == scrolled:
            return  # what was drawn last is not laid out yet
        self._held = None
        top = box.content_region.y
        middle = top + box.content_region.height // 2
        for section in box.query("#explain-columns > Vertical > *").results(Widget):
            if scrolled and section.display and section.region.bottom > middle:
                self._held = _Held(section, section.region.y - top, scrolled)
                return

    def _laid_out(self) -> None:
        self.call_after_refresh(self._keep)

    def _keep(self) -> None:
        """Put the section that is read back to where it was, whatever grew above it."""
        box, held = self.query_one("#explain-box", VerticalScroll), self._held
        if held is None:
            return
        moved = held.section.region.y - box.content_region.y - held.offset
        if moved or box.scroll_offset.y != held.scrolled:
            self._held = None
        if moved and box.scroll_offset.y == held.scrolled:
            box.scroll_relative(y=moved, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Write the title again: what is drawn for the width draws itself."""
        self.query_one("#explain-box").border_title = self._title()

    # --- keys -----------------------------------------------------------------------------------

    def action_step(self, steps: int) -> None:
        """Go to the next or the previous chunk, near misses after the results."""
        place = min(max(self._place + steps, 0), len(self._subjects) - 1)
        if place != self._place:
            self._place = place
            self._note = ""
            self.show_page(again=False)
            self._gather_later()

    @on(LeastList.Opened)
    def change_opened(self, message: LeastList.Opened) -> None:
        """Apply the change that was clicked."""
        message.stop()
        self.action_apply()

    def action_apply(self) -> None:
        """Apply the marked change to the search, and explain its new list."""
        choice = self.query_one(LeastList).chosen if self._page.offers_changes else None
        if choice is None or self.search is None:
            looking = self._page.findings.due & {Part.LEAST, Part.WORDS}
            told = _STILL_LOOKING if looking and not self._page.shown else "Nothing to apply here."
            self.notify(told, markup=False)
            return
        self._note = f"applied: {applied_words(choice, self.glyphs)}   u takes it back"
        self.follows = True
        self.search.follow_chunk(self.chunk_id)
        if isinstance(choice, WordChange):
            self._applied = (*self._applied, Applied(choice, self.ranked.pool.query))
            self.search.change_query(choice.query)
        else:
            ranking = _changed(self.ranking, choice)
            self._applied = (*self._applied, Applied(choice, ranking=ranking))
            self.search.change_ranking(ranking)

    async def action_undo(self) -> None:
        """Take back the change that was made last, here or below."""
        last = self._applied[-1] if self._applied else None
        if self.search is None or not self.follows:
            self.notify(_NOTHING_APPLIED, markup=False)
            return
        self.search.follow_chunk(self.chunk_id)
        if last is not None and last.query is not None:
            self._took_back(last)
            self.search.change_query(last.query)
            return
        before = self.search.ranking
        if last is not None and last.ranking == before:
            self._took_back(last)
        else:
            self._note = "taken back: the last change of the parameters"
        await self.app.run_action("undo_ranking")
        if self.search.ranking == before:
            self._note = ""
            self.notify(_NOTHING_APPLIED, markup=False)

    def _took_back(self, last: Applied) -> None:
        self._applied = self._applied[:-1]
        self._note = f"taken back: {applied_words(last.choice, self.glyphs)}"

    def action_pin(self) -> None:
        """Follow this chunk through every query, or do not any more."""
        if self.search is not None and self._page.chunk is not None:
            self.search.pin_chunk(self._page.chunk)
            self.query_one("#explain-box").border_title = self._title()

    def action_show_chunk(self) -> None:
        """Show everything that the index holds about the chunk that is explained."""
        if self.chunk_id is not None:
            cast("MemtuiApp", self.app).open_chunk(self.chunk_id)

    async def action_compare(self) -> None:
        """Put two rankings side by side; from there, go back to them."""
        from memtui.tui.screens.compare import CompareScreen

        if any(isinstance(screen, CompareScreen) for screen in self.app.screen_stack):
            self.action_close()
        elif self.search is not None:
            self.search.follow_chunk(self.chunk_id)
            await self.app.run_action("compare")

    def action_copy(self, format_: str) -> None:
        """Copy the explanation as plain text or as Markdown."""
        from memtui.report.export import Format

        if format_ == Format.TEXT:
            text: str | None = text_of_page(self._page)
        else:
            text = page_as(self._page, Format(format_))
        if text is None:
            self._tell_missing()
            return
        self.app.copy_to_clipboard(text)
        name = "text" if format_ == Format.TEXT else "Markdown"
        self.notify(f"Explanation copied as {name}.", markup=False)

    def action_save_json(self) -> None:
        """Write the explanation into a file."""
        if self._page.inquiry is None:
            self._tell_missing()
            return
        name = f"explanation-{datetime.now():%Y-%m-%d-%H%M%S-%f}.json"
        page, path = self._page, (self._folder or Path.cwd()) / name
        self.run_worker(
            lambda: self._write_json(page, path),
            thread=True,
            exit_on_error=False,
            group="export",
            description="save the explanation",
        )

    def _tell_missing(self) -> None:
        """Say why there is nothing to export."""
        looking = Part.INQUIRY in self._page.findings.due
        self.notify(_STILL_LOOKING if looking else _NOT_EXPLAINED, markup=False)

    def _write_json(self, page: Page, path: Path) -> None:
        from memtui.report.export import Format, save
        from memtui.settings.storage import make_private

        if self._folder is not None:
            make_private(self._folder)
        save(path, page_as(page, Format.JSON) or "", mode=0o600)
        told = f"saved {safe_line(str(path))}"
        self.app.call_from_thread(self.app.notify, told, markup=False)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(self.chunk_id)


def _changed(ranking: Ranking, change: Change) -> Ranking:
    from memtui.ranking.counterfactual import apply

    return apply(ranking, change.parameter, change.new)
