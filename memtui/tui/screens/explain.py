"""The explain screen: why one chunk, line or file is shown or not, and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widget import Widget

from memtui.model import Ranked, Ranking
from memtui.model.inquiry import WordChange
from memtui.report.explanation import Explained, Part, Subject, report_of
from memtui.report.export import Format, exported, save
from memtui.report.layout import Section, SectionId
from memtui.report.words import SHORT
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs
from memtui.tui.present.report import section_lines, text_lines
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.explain_controller import ExplainController
from memtui.tui.widgets.change_list import ChangeList
from memtui.tui.widgets.line_view import TextBlock

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.tui.app import MemtuiApp
    from memtui.tui.screens.search.screen import SearchScreen

STEP_PAUSE = 0.12
"""Seconds on one chunk before the engine is asked about it, for a reader who steps on."""
_STILL_LOOKING = "Still looking: wait a moment."
_NOT_EXPLAINED = "Nothing to export: it could not be explained."
_NOTHING_APPLIED = "Nothing to take back here."
_CHANGES = (SectionId.LEAST_CHANGES, SectionId.WORD_CHANGES)
_BLOCKS = (
    SectionId.TRACE,
    SectionId.ARITHMETIC,
    SectionId.RANKS,
    SectionId.TERMS,
    SectionId.PASSAGES,
    SectionId.LEGS,
)


_RESERVED = {SectionId.PASSAGES: 5}
"""Lines that a section takes at least, so that what follows stays where it is when it is there."""


class ExplainScreen(BaseScreen[str | None], ModalScreen[str | None]):
    """Explains one place for one result list; its result is the chunk that was looked at last."""

    CSS_PATH = "explain.tcss"
    BINDING_GROUP_TITLE = "Explain"
    BINDINGS: ClassVar[list[BindingType]] = bindings("explain")

    def __init__(
        self,
        ranked: Ranked,
        subject: Subject,
        *,
        ranking: Ranking | None = None,
        glyphs: Glyphs = UNICODE,
        engine: Engine | None = None,
        search: SearchScreen | None = None,
        follows: bool = False,
        folder: Path | None = None,
    ) -> None:
        """Explain a chunk by its id, or a place by its name, by what `ranked` tells.

        `ranking` is what was asked for, where that is not what ran: when one leg searches alone.
        Without an engine only what the ranking knows is told; without a search screen nothing
        can be applied or pinned. `follows` says that `ranked` is the list of the search screen,
        whose changes are then explained, too. JSON is saved in `folder`, else where the program
        was started.
        """
        super().__init__()
        self.controller = ExplainController(ranked, ranking or ranked.ranking, subject, engine)
        self.glyphs, self.search, self.follows = glyphs, search, follows
        self._folder = folder
        self._pause: Timer | None = None

    @property
    def explained(self) -> Explained:
        """Everything that is known by now."""
        return self.controller.explained

    @property
    def chunk_id(self) -> str | None:
        """The chunk that is explained; `None` while a place is none."""
        return self.controller.chunk_id

    def take(self, ranked: Ranked, ranking: Ranking) -> None:
        """Explain the same place by another list, after a change of parameters or words."""
        if self.follows and self.controller.take(ranked, ranking) and self.is_mounted:
            self._show_another()

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="explain-box"):
            yield TextBlock(id="explain-verdict")
            with Container(id="explain-columns"):
                with Vertical(id="explain-left"):
                    yield TextBlock(id="explain-trace")
                    yield TextBlock(id="explain-arithmetic")
                    yield TextBlock(id="explain-ranks")
                    yield TextBlock(id="explain-text-left")
                with Vertical(id="explain-right"):
                    yield ChangeList(self.glyphs, id="explain-changes")
                    yield TextBlock(id="explain-terms")
                    yield TextBlock(id="explain-passages")
                    yield TextBlock(id="explain-legs")
                    yield TextBlock(id="explain-text")

    def on_mount(self) -> None:
        """Show what the ranking knows, and ask the engine for the rest."""
        self._show()
        self.call_after_refresh(self._gather)

    def on_unmount(self) -> None:
        """Stop looking."""
        self.controller.ticket += 1

    # --- asking the engine ----------------------------------------------------------------------

    def _show_another(self) -> None:
        """Show another place, and ask the engine about it once the reader stays."""
        self._show()
        self.controller.ticket += 1
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(STEP_PAUSE, self._gather)

    def _gather(self) -> None:
        """Look for what is not known yet."""
        if self.controller.engine is None or not self.explained.due:
            return
        self.controller.ticket += 1
        in_background(
            self,
            lambda: self.controller.gather(lambda *part: self.call_later(self._take_part, *part)),
            lambda _: None,
            group="explain",
            description="explain a chunk",
        )

    def _take_part(self, ticket: int, part: Part, value: object, problem: str) -> None:
        """Draw a part in its place."""
        if ticket == self.controller.ticket:
            self.controller.learn(part, value, problem)
            self._show(again=True)

    # --- drawing --------------------------------------------------------------------------------

    def _show(self, *, again: bool = False) -> None:
        """Draw everything that is known; `again` keeps the place of a reader of the same page."""
        explained = self.explained
        box = self.query_one("#explain-box", VerticalScroll)
        place = self._reading_place(box) if again else None
        box.border_title = self._title()
        box.border_subtitle = Content(self._keys())
        report = report_of(explained, spell=SHORT)
        by_id: dict[str, list[Section]] = {}
        for section in report.sections:
            by_id.setdefault(section.id, []).append(section)
        verdict = Content.styled(
            safe_line(report.verdict), f"bold ${'state-ok' if explained.shown else 'state-warn'}"
        )
        query = Content.styled(f"query  {safe_line(report.query)}", fmt.MUTED)
        note = Content.styled(self.controller.note, "$primary bold")
        self._block("verdict").show(
            lambda width: [
                line for part in (verdict, query, note) if part for line in part.wrap(width)
            ]
        )
        for name in _BLOCKS:
            self._show_sections(name, by_id.get(name, ()))
        changes = [section for name in _CHANGES for section in by_id.get(name, ())]
        self.query_one(ChangeList).show_changes(changes, self.controller.choices, again=again)
        for text in ("text", "text-left"):
            self._block(text).show(self._text)
        if place is not None:
            self.call_after_refresh(self._keep_place, *place)
        elif not again:
            box.scroll_home(animate=False)
            box.focus()
        self.refresh_bindings()

    def _show_sections(self, name: SectionId, sections: Sequence[Section]) -> None:
        def draw(width: int) -> list[Content]:
            parts = (section_lines(section, width, self.glyphs) for section in sections)
            lines = [line for drawn in parts for line in drawn]
            return lines + [Content("")] * (_RESERVED.get(name, 0) - len(lines))

        block = self._block(name)
        block.display = bool(sections)
        block.show(draw)

    def _text(self, width: int) -> list[Content]:
        explained = self.explained
        if explained.chunk is None:
            return []
        text, passages = explained.chunk.text, explained.passages
        return text_lines(text, explained.ranked, passages, width, self.glyphs)

    def _block(self, name: str) -> TextBlock:
        return self.query_one(f"#explain-{name}", TextBlock)

    def _title(self) -> Content:
        pinned = self.search is not None and self.chunk_id in self.search.pinned
        mark = f"{self.glyphs.pin} " if pinned else ""
        named = (safe_line(self.explained.title), "bold")
        where = f"  {self.controller.heading}"
        return Content.assemble((mark, "bold $primary"), "Explain  ", named, where)

    def _keys(self) -> str:
        apply = "a apply  " if self.explained.offers_changes else ""
        undo = "u undo  " if self.controller.applied else ""
        can_pin = self.search is not None and self.explained.chunk is not None
        host = "p pin  c compare  " if can_pin else ""
        return f"j/k other results  {apply}{undo}{host}y copy  esc back"

    def _reading_place(self, box: VerticalScroll) -> tuple[Widget, int] | None:
        """Return the section in the middle of the view and its line; `None` at the top."""
        middle = box.content_region.y + box.content_region.height // 2
        scrolled = box.scroll_offset.y
        sections = box.query("#explain-columns > Vertical > *").results(Widget)
        shown = (one for one in sections if one.display and one.region.bottom > middle)
        section = next(shown, None) if scrolled else None
        return (section, section.region.y + scrolled) if section is not None else None

    def _keep_place(self, section: Widget, line: int) -> None:
        """Leave the section that is read where it was, whatever grew above it."""
        box = self.query_one("#explain-box", VerticalScroll)
        grown = section.region.y + box.scroll_offset.y - line
        if grown:
            box.scroll_relative(y=grown, animate=False, force=True)

    def on_resize(self, event: events.Resize) -> None:
        """Write the title again: what is drawn for the width draws itself."""
        self.query_one("#explain-box").border_title = self._title()

    # --- keys -----------------------------------------------------------------------------------

    def action_step(self, steps: int) -> None:
        """Go to the next or the previous chunk, near misses after the results."""
        if self.controller.step(steps):
            self._show_another()

    @on(ChangeList.Opened)
    def change_opened(self, message: ChangeList.Opened) -> None:
        """Apply the change that was clicked."""
        message.stop()
        self.action_apply()

    def action_apply(self) -> None:
        """Apply the marked change to the search, and explain its new list."""
        choice = self.query_one(ChangeList).chosen
        if choice is None or self.search is None:
            looking = {Part.LEAST, Part.WORDS} & self.explained.due and not self.explained.shown
            self.notify(_STILL_LOOKING if looking else "Nothing to apply here.", markup=False)
            return
        self.controller.apply(choice)
        self.follows = True
        self.search.inquiry.follow_chunk(self.chunk_id)
        if isinstance(choice, WordChange):
            self.search.search.ask_query(choice.query)
        else:
            self.search.rankings.change(self.controller.changed(choice))

    def action_undo(self) -> None:
        """Take back the change that was made last, here or below."""
        if self.search is None or not self.follows:
            self.notify(_NOTHING_APPLIED, markup=False)
            return
        self.search.inquiry.follow_chunk(self.chunk_id)
        before = self.search.ranking
        last = self.controller.take_back(before)
        if last is not None and last.query is not None:
            self.search.search.ask_query(last.query)
            return
        self.search.rankings.undo()
        if self.search.ranking == before:
            self.controller.note = ""
            self.notify(_NOTHING_APPLIED, markup=False)

    def action_pin(self) -> None:
        """Follow this chunk through every query, or do not any more."""
        if self.search is not None and self.explained.chunk is not None:
            self.search.inquiry.pin_chunk(self.explained.chunk)
            self.query_one("#explain-box").border_title = self._title()

    def action_show_chunk(self) -> None:
        """Show everything that the index holds about the chunk that is explained."""
        if self.chunk_id is not None:
            cast("MemtuiApp", self.app).open_chunk(self.chunk_id)

    def action_compare(self) -> None:
        """Put two rankings side by side; from there, go back to them."""
        from memtui.tui.screens.compare import CompareScreen

        if any(isinstance(screen, CompareScreen) for screen in self.app.screen_stack):
            self.action_close()
        elif self.search is not None:
            self.search.inquiry.follow_chunk(self.chunk_id)
            self.search.rankings.compare()

    def action_copy(self, format_: str) -> None:
        """Copy the explanation as plain text or as Markdown."""
        ascii_only = self.glyphs is ASCII
        self.app.copy_to_clipboard(exported(self.explained, Format(format_), ascii_only=ascii_only))
        name = "text" if format_ == Format.TEXT else "Markdown"
        self.notify(f"Explanation copied as {name}.", markup=False)

    def action_save_json(self) -> None:
        """Write the explanation into a file."""
        explained = self.explained
        if explained.inquiry is None:
            looking = Part.INQUIRY in explained.due
            self.notify(_STILL_LOOKING if looking else _NOT_EXPLAINED, markup=False)
            return
        name = f"explanation-{datetime.now():%Y-%m-%d-%H%M%S-%f}.json"
        path = (self._folder or Path.cwd()) / name
        in_background(
            self,
            lambda: self._write_json(explained, path),
            lambda _: self.notify(f"saved {safe_line(str(path))}", markup=False),
            group="export",
            description="save the explanation",
        )

    def _write_json(self, explained: Explained, path: Path) -> None:
        from memtui.settings.storage import make_private

        if self._folder is not None:
            make_private(self._folder)
        save(path, exported(explained, Format.JSON), mode=0o600)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(self.chunk_id)
