"""The explain screen: why one chunk, line or file is shown or not, and what would change it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from memtui.model import Hit, Ranked, Ranking
from memtui.model.inquiry import Place, WordChange
from memtui.ranking.context import with_weights
from memtui.ranking.counterfactual.change import Change, apply
from memtui.ranking.trace import best_passage
from memtui.report.explanation import (
    Explained,
    Part,
    Subject,
    change_words,
    differences,
    find_part,
    report_of,
)
from memtui.report.export import Format, exported
from memtui.report.layout import Section, SectionId
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background, stop_if_cancelled, tell
from memtui.tui.bindings import bindings
from memtui.tui.place_actions import act_on_place, app_of
from memtui.tui.present import section_rows, text_lines
from memtui.tui.screens.common import Timers, act_on_part, after_refresh, close, is_open
from memtui.tui.screens.dialogs import Dialog
from memtui.tui.widgets.lists import TextBlock
from memtui.tui.widgets.parameter_panes import describe_change
from memtui.tui.widgets.result_rows import sorted_hits

if TYPE_CHECKING:
    from memtui.tui.screens.search.search_screen import SearchScreen

STEP_PAUSE = 0.12
"""Seconds on one chunk before the engine is asked about it, for a reader who steps on."""
_STILL_LOOKING = "Still looking: wait a moment."
_CHANGES = (SectionId.LEAST_CHANGES, SectionId.WORD_CHANGES)
_LEFT = (SectionId.TRACE, SectionId.ARITHMETIC, SectionId.SHARES, SectionId.WORDS, SectionId.RANKS)
_AT_ONCE = frozenset(Part) - {Part.MATCHES}
"""The table behind a share is looked for when it is opened."""
_RIGHT = (SectionId.TERMS, SectionId.PASSAGES, SectionId.LEGS)


class ChangeList(TextBlock, can_focus=True):
    """Least changes, then words; arrows choose, Enter or a click on the chosen one applies."""

    BINDINGS = bindings("least_list")

    def __init__(self, page: VerticalScroll) -> None:
        """`page` scrolls around this list."""
        super().__init__(id="explain-changes")
        self._page = page
        self._numbers: list[int | None] = []
        """The number of the change that each line is a part of."""
        self.at = 0
        """The number of the chosen change."""

    def show_changes(self, sections: Sequence[Section], *, again: bool) -> None:
        """Show sections whose rows are the changes, in their order; `again` keeps the chosen."""

        def draw(width: int) -> list[Content]:
            lines: list[tuple[int | None, Content]] = []
            first = 0
            for section in sections:
                rows = section_rows(section, max(1, width), self.at - first)
                lines += [(None if row is None else first + row, line) for row, line in rows]
                lines.append((None, Content("")))
                first += len(section.rows)
            self._numbers = [number for number, _ in lines]
            return [line for _, line in lines]

        self.display = bool(sections)
        self.at = self.at if again else 0
        self.show(draw)

    def choose(self, number: int) -> bool:
        """Mark a change, and scroll the page to it; false for one that is not there."""
        if is_there := number in self._numbers:
            self.at = number
            self.refresh()
            self.call_after_refresh(self.show_chosen)
        return is_there

    def action_choose(self, step: int) -> None:
        """Choose the next or the previous change; at the ends the page scrolls."""
        if not self.choose(self.at + step):
            self._page.scroll_relative(y=step, animate=False, immediate=True)

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        number = None
        if offset is not None and offset.y < len(self._numbers):
            number = self._numbers[offset.y]
        if number == self.at:
            await self.run_action("screen.apply")
        elif number is not None:
            self.choose(number)

    @on(events.Focus)
    def show_chosen(self) -> None:
        """Scroll the page to the first line of the chosen change."""
        page = self._page
        top = self.content_region.y - page.content_region.y + page.scroll_offset.y
        line = self._numbers.index(self.at) if self.at in self._numbers else 0
        page.scroll_to_region(Region(0, top + line, 1, 1), animate=False, force=True)


class ExplainScreen(Dialog[str | None], keys="explain"):
    """Explains one place for one result list; its result is the chunk that was looked at last."""

    action_part = act_on_part

    def __init__(
        self, search: SearchScreen, ranked: Ranked, subject: Subject, ranking: Ranking | None = None
    ) -> None:
        """Explain a chunk by its id, or a place by its name, by what `ranked` tells.

        `ranking` is what was asked for, where that is not what ran: when one leg searches alone.
        The list of the search screen is followed: its changes are explained, too.
        """
        super().__init__()
        self.search = search
        self.follows = ranked is search.state.ranked
        self.ranked = ranked
        self.ranking = search.state.ranking if self.follows else ranking or ranked.ranking
        self._by_subject: dict[Subject, Explained] = {}
        self._subjects: list[Subject] = []
        """Results, near misses, then what was asked about where it is neither."""
        self._place = 0
        self._note = ""
        """The change that was applied or taken back last."""
        self._pauses = Timers(self)
        self._reading: tuple[Widget, int] | None = None
        """The section that is read, and the line of the page where it begins."""
        self._line_up(subject)

    @property
    def explained(self) -> Explained:
        """Everything that is known by now of the chunk or the place that is explained."""
        subject = self._subjects[self._place]
        configured = self.search.options.ranking
        new = Explained(
            self.ranked, self.ranking, subject=subject, due=_AT_ONCE, configured=configured
        )
        return self._by_subject.setdefault(subject, new)

    @property
    def chunk_id(self) -> str | None:
        """The chunk that is explained; `None` while a place is none."""
        explained = self.explained
        place = explained.chunk.id if explained.chunk is not None else None
        return explained.subject if isinstance(explained.subject, str) else place

    @property
    def _has_passage(self) -> bool:
        scored = self.explained.scored
        return scored is not None and best_passage(scored) is not None

    def follow_list(self, ranked: Ranked, ranking: Ranking) -> None:
        """Explain the same place by another list, after a change of parameters or words."""
        # The asked ranking besides what ran: with one leg alone they differ.
        old, new = (
            (one.pool.query, one.pool.limit, one.ranking, asked_for)
            for one, asked_for in ((self.ranked, self.ranking), (ranked, ranking))
        )
        if self.follows and not self.search.state.is_pending and old != new:
            subject = self.chunk_id or self.explained.subject
            self.ranked, self.ranking = ranked, ranking
            self._by_subject.clear()
            self._line_up(subject)
            if self.is_mounted:
                self._show_another()

    def _line_up(self, subject: Subject) -> None:
        sort = self.search.search.sort if self.follows else "rank"
        self._subjects = [hit.chunk.id for hit in sorted_hits(self.ranked, sort)]
        self._subjects += [drop.chunk.id for drop in self.ranked.drops]
        if subject not in self._subjects:
            self._subjects.append(subject)
        self._place = self._subjects.index(subject)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog-box", id="explain-box") as page:
            yield TextBlock(id="explain-verdict")
            yield ChangeList(page)
            with Container(id="explain-columns"):
                with Vertical(id="explain-left"):
                    for name in (*_LEFT, "text-left"):
                        yield TextBlock(id=f"explain-{name}")
                with Vertical(id="explain-right"):
                    for name in (*_RIGHT, "text"):
                        yield TextBlock(id=f"explain-{name}")

    def on_mount(self) -> None:
        self.watch(self.box, "virtual_size", self._keep_place, init=False)
        self._show()
        after_refresh(self, self._gather)

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """Let the changes scroll by themselves: Textual would bring their middle into view."""
        scrolls_itself = isinstance(widget, ChangeList)
        super().set_focus(widget, scroll_visible and not scrolls_itself, from_app_focus)

    def _show_another(self) -> None:
        """Show another place, and ask the engine about it once the reader stays."""
        self._show()
        self.workers.cancel_group(self, "explain")
        self._pauses.start("gather", STEP_PAUSE, self._gather)

    def _gather(self) -> None:
        """Find out the next part that is not known yet, on a thread that waits for the engine.

        What fails is told in its place, and the other parts still come.
        """
        engine, explained = self.search.engine, self.explained
        part = next((part for part in Part if part in explained.due), None)
        if engine is None or part is None:
            return

        def failed(problem: str) -> None:
            problems, due = {**explained.problems, part: problem}, explained.due - {part}
            self._take(replace(explained, problems=problems, due=due))

        find = partial(find_part, engine, explained, part, stop_if_cancelled)
        in_background(self, find, self._take, failed, group="explain")

    def _take(self, update: Explained) -> None:
        """Draw what is known by now, unless something else is explained, and go on."""
        subject, explained = update.subject, self.explained
        is_of_this = explained.subject == subject and explained.ranked is update.ranked
        if not is_of_this or not is_open(self):
            return
        self._by_subject[subject] = update
        chunk = update.chunk
        if isinstance(subject, Place) and chunk is not None and chunk.id in self._subjects:
            # From a named place to its chunk, where the list or the near misses have it.
            self._by_subject[chunk.id] = update
            self._line_up(chunk.id)
        self._show(again=True)
        if Part.MATCHES in explained.due - update.due:
            shares = self.query_one(f"#explain-{SectionId.SHARES}")
            after_refresh(self, partial(self.box.scroll_to_widget, shares, animate=False, top=True))
        # Once the worker that found this out is over.
        self.call_next(self._gather)

    def _show(self, *, again: bool = False) -> None:
        """Draw everything that is known; `again` keeps the place of a reader of the same page."""
        explained, box, changes = self.explained, self.box, self.query_one(ChangeList)
        self._reading = self._reading_place() if again else None
        self._show_frame()
        report = report_of(explained)
        style = f"bold ${'state-ok' if explained.shown else 'state-warn'}"
        head = [
            Content.styled(safe_line(report.verdict), style),
            Content.styled(f"query  {safe_line(report.query)}", fmt.MUTED),
            Content.styled(self._other_ranking(), "$state-warn"),
            Content.styled(self._note, "$primary bold"),
        ]
        self.query_one("#explain-verdict", TextBlock).show(
            lambda width: [line for part in head if part for line in part.wrap(width)]
        )

        def draw(sections: Sequence[Section], width: int) -> list[Content]:
            return [line for one in sections for _, line in section_rows(one, width)]

        for name in (*_LEFT, *_RIGHT):
            sections = [section for section in report.sections if section.id == name]
            block = self.query_one(f"#explain-{name}", TextBlock)
            block.display = bool(sections)
            block.show(partial(draw, sections))
        sections = [section for section in report.sections if section.id in _CHANGES]
        changes.show_changes(sections, again=again)
        chunk, passages = explained.chunk, explained.passages

        def draw_text(width: int) -> list[Content]:
            return text_lines(chunk.text, self.ranked, passages, width) if chunk else []

        for block in self.query("#explain-text, #explain-text-left").results(TextBlock):
            block.show(draw_text)
        if not again:
            box.scroll_home(animate=False, immediate=True)
        if not (again and changes.display):
            # Where there are changes to choose from, the arrows choose, and scroll at their ends.
            (changes if changes.display else box).focus()
        self.refresh_bindings()

    def _other_ranking(self) -> str:
        """Name the ranking, and what it has otherwise than the one of the search screen."""
        ranking, present, pool = self.ranking, self.search.state.ranking, self.ranked.pool
        changes = differences(*(with_weights(one, pool.evidence) for one in (present, ranking)))
        if not changes and ranking.profile == present.profile:
            return ""
        values = ", ".join(f"{name} {value}" for name, _, value in changes)
        named = f"by another ranking, profile {safe_line(ranking.profile)}"
        return f"{named}: {values or 'the same parameters'}"

    def _show_frame(self) -> None:
        mark = f"{glyphs.PIN} " if self.chunk_id in self.search.state.pins else ""
        explained, scored = self.explained, self.explained.scored
        where = "not shown"
        if isinstance(scored, Hit):
            where = f"{scored.rank} of {len(self.ranked.hits)}"
        elif scored is None and Part.INQUIRY in explained.due:
            where = "…"
        title = Content.assemble(
            (mark, "bold $primary"), "Explain  ", (safe_line(explained.title), "bold"), f"  {where}"
        )
        self.frame(title)

    def worded(self, binding: Binding) -> Binding:
        explained, state = self.explained, self.search.state
        is_changed = (state.text, state.ranking) in state.replaced or bool(state.undoable)
        has_use = {
            "apply": bool(self._changes_to_apply),
            "undo": self.follows and is_changed,
            "pin": explained.chunk is not None,
            "compare": explained.chunk is not None,
            "place('chunk')": explained.chunk is not None,
            "open_share": self._has_passage,
            "step(1)": self._place < len(self._subjects) - 1,
        }
        return dataclasses.replace(binding, show=binding.show and has_use.get(binding.action, True))

    @property
    def _changes_to_apply(self) -> list[Change | WordChange]:
        explained = self.explained
        parts = () if explained.shown else (explained.least, explained.words)
        return [change for part in parts if part is not None for change in part.changes]

    def _reading_place(self) -> tuple[Widget, int] | None:
        """Return the section in the middle of the view and its line; `None` at the top."""
        box = self.box
        middle = box.content_region.y + box.content_region.height // 2
        sections = box.query("#explain-columns > Vertical > *").results(Widget)
        shown = (one for one in sections if one.display and one.region.bottom > middle)
        section = next(shown, None) if box.scroll_offset.y else None
        return (section, self._line_of(section)) if section is not None else None

    def _line_of(self, section: Widget) -> int:
        # Both are of the last layout, which may not know yet how far the page is scrolled.
        return section.region.y - self.query_one("#explain-verdict").region.y

    def _keep_place(self) -> None:
        """Leave the section that is read where it was, whatever grew above it."""
        if self._reading is not None and self._reading[0].display:
            section, line = self._reading
            now = self._line_of(section)
            self._reading = section, now
            self.box.scroll_relative(y=now - line, animate=False, force=True, immediate=True)

    def action_step(self, steps: int) -> None:
        place = min(max(self._place + steps, 0), len(self._subjects) - 1)
        if place == self._place:
            tell(self, f"Nothing {'after' if steps > 0 else 'before'} this one.")
        else:
            self._place, self._note = place, ""
            self._show_another()

    def action_open_share(self) -> None:
        """Open the table behind the share of the words of the query; close it where it is seen."""
        explained, table = self.explained, frozenset({Part.MATCHES})
        if not self._has_passage:
            tell(self, "Nothing to open: the context does not rank it.")
            return
        shares = self.query_one(f"#explain-{SectionId.SHARES}")
        if explained.matches is not None and not shares.region.overlaps(self.box.region):
            self.box.scroll_to_widget(shares, animate=False, top=True)
            return
        due = explained.due | table if explained.matches is None else explained.due - table
        self._by_subject[self._subjects[self._place]] = replace(explained, matches=None, due=due)
        self._show(again=True)
        self._gather()

    def action_apply(self) -> None:
        changes, at = self._changes_to_apply, self.query_one(ChangeList).at
        if at >= len(changes):
            looking = {Part.LEAST, Part.WORDS} & self.explained.due and not self.explained.shown
            tell(self, _STILL_LOOKING if looking else "Nothing to apply here.")
            return
        choice = changes[at]
        self._note = f"applied: {change_words(choice)}   u undo"
        self.follows = True
        self.search.notes.follow_chunk(self.chunk_id)
        if isinstance(choice, WordChange):
            state = self.search.state
            state.replaced[choice.query, state.ranking] = self.ranked.pool.query
            self.search.search.ask_query(choice.query)
        else:
            self.search.rankings.change(apply(self.ranking, choice.parameter, choice.new))

    def action_undo(self) -> None:
        """Take back the change that was made last, here or below."""
        search = self.search
        text, present = search.state.text, search.state.ranking
        if self.follows:
            search.notes.follow_chunk(self.chunk_id)
            search.rankings.undo()
        if search.state.text != text:
            self._note = f"undone: back to {safe_line(search.state.text)}"
        elif search.state.ranking == present:
            self._note = ""
            tell(self, "Nothing to undo here.")
        else:
            self._note = f"undone: {describe_change(present, search.state.ranking)} again"

    def action_pin(self) -> None:
        if self.explained.chunk is not None:
            self.search.notes.toggle_pin(self.explained.chunk)
            self._show_frame()

    def action_place(self, verb: str) -> None:
        if (chunk := self.explained.chunk) is not None:
            act_on_place(self, verb, chunk.path, chunk.start_line, chunk.end_line, chunk.id)
        else:
            tell(self, "No chunk of the index is there.")

    def action_compare(self) -> None:
        from memtui.tui.screens.compare import CompareScreen

        if any(isinstance(screen, CompareScreen) for screen in self.app.screen_stack):
            self.action_close()
        else:
            self.search.notes.follow_chunk(self.chunk_id)
            self.search.rankings.compare()

    def action_copy(self, format_: str) -> None:
        ascii_only = self.search.options.ascii_only
        self.app.copy_to_clipboard(exported(self.explained, Format(format_), ascii_only=ascii_only))
        tell(self, f"Explanation copied as {'text' if format_ == Format.TEXT else 'Markdown'}.")

    def action_save_json(self) -> None:
        explained = self.explained
        if explained.inquiry is None:
            failed = "Nothing to export: it could not be explained."
            tell(self, _STILL_LOOKING if Part.INQUIRY in explained.due else failed)
            return
        name = f"explanations/explanation-{datetime.now():%Y-%m-%d-%H%M%S-%f}.json"
        make_text = partial(exported, explained, Format.JSON)
        app_of(self).save_file(name, make_text, "save the explanation")

    def action_close(self) -> None:
        close(self, self.chunk_id)
