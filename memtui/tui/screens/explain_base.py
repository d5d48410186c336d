"""What the explain screen knows: its subjects, what was found out, and how it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from textual import on
from textual.message import Message
from textual.timer import Timer
from textual.worker import get_current_worker

from memtui.model import Chunk, Ranked, Ranking
from memtui.model.inquiry import Place
from memtui.tui.explaining.findings import Findings, Found, Gathering, Part, Subject
from memtui.tui.explaining.page import Page, page_of
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.screens.base import Modal

if TYPE_CHECKING:
    from memtui.engine import Engine

STEP_PAUSE = 0.12
"""Seconds on one chunk before the engine is asked about it, for a reader who steps on."""


class SearchDoor(Protocol):
    """What the explain screen asks of the search screen below it."""

    ranking: Ranking
    """What is asked for at present."""

    @property
    def pins(self) -> Sequence[str]:
        """Ids of the pinned chunks."""

    def change_ranking(self, ranking: Ranking, *, at_end: str = "") -> None:
        """Rank with other parameters."""

    def change_query(self, text: str) -> None:
        """Ask another query, as finished."""

    def follow_chunk(self, chunk_id: str | None) -> None:
        """Choose this chunk in the next whole list."""

    def pin_chunk(self, chunk: Chunk) -> None:
        """Pin a chunk, or unpin it."""


class PartFound(Message):
    """A part of what was looked for is there, or could not be found out."""

    def __init__(self, ticket: int, part: Part, value: Found | None, problem: str) -> None:
        super().__init__()
        self.ticket = ticket
        self.part = part
        self.value = value
        self.problem = problem


class ExplainBase(Modal[str | None]):
    """One place of one result list, and what is found out about it; drawn by `ExplainScreen`."""

    def __init__(
        self,
        ranked: Ranked,
        subject: Subject,
        *,
        ranking: Ranking | None = None,
        glyphs: Glyphs = UNICODE,
        engine: Engine | None = None,
        search: SearchDoor | None = None,
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
        self.ranked = ranked
        self.ranking = ranking or ranked.ranking
        self.glyphs = glyphs
        self.engine = engine
        self.search = search
        self.follows = follows
        self._folder = folder
        self._subjects: list[Subject] = []
        self._place = 0
        self._known: dict[Subject, Findings] = {}
        self._ticket = 0
        """Counts what was asked of the engine; an answer to an older question is dropped."""
        self._pause: Timer | None = None
        self._line_up(subject)
        self._page = page_of(ranked, subject, glyphs, self._unasked(), self.ranking)

    # --- what is explained ----------------------------------------------------------------------

    @property
    def subject(self) -> Subject:
        """What is explained: a chunk's id, or a place."""
        return self._subjects[self._place]

    @property
    def chunk_id(self) -> str | None:
        """The chunk that is explained; `None` while a place is none."""
        if isinstance(self.subject, str):
            return self.subject
        chunk = self._page.chunk
        return chunk.id if chunk is not None else None

    @property
    def page(self) -> Page:
        """Everything that is known by now."""
        return self._page

    def _line_up(self, subject: Subject) -> None:
        """Results, near misses, then the subject itself where it is neither."""
        self._subjects = [hit.chunk.id for hit in self.ranked.hits]
        self._subjects += [drop.chunk.id for drop in self.ranked.drops]
        if subject not in self._subjects:
            self._subjects.append(subject)
        self._place = self._subjects.index(subject)

    def take(self, ranked: Ranked, ranking: Ranking) -> None:
        """Explain the same place by another list, after a change of parameters or words."""
        old = self.ranked
        # The asked ranking besides what ran: with one leg alone they differ.
        if not self.follows or (
            ranked.pool.query,
            ranked.ranking,
            ranked.pool.limit,
            ranking,
        ) == (old.pool.query, old.ranking, old.pool.limit, self.ranking):
            return
        subject = self.chunk_id or self.subject
        self.ranked, self.ranking = ranked, ranking
        self._known.clear()
        self._line_up(subject)
        if self.is_mounted:
            self.show_page(again=False)
            self._gather_later()

    def _paged(self) -> Page:
        """The present page; the ranking is asked once for each chunk."""
        findings = self._known.get(self.subject) or self._unasked()
        page = self._page
        same = page.subject == self.subject and page.ranked is self.ranked
        if same and page.explanation is not None:
            return replace(page, findings=findings)
        return page_of(self.ranked, self.subject, self.glyphs, findings, self.ranking)

    # --- asking the engine ----------------------------------------------------------------------

    def _unasked(self) -> Findings:
        return Findings(due=frozenset(Part) if self.engine is not None else frozenset())

    def _gather_later(self) -> None:
        self._ticket += 1
        if self._pause is not None:
            self._pause.stop()
        self._pause = self.set_timer(STEP_PAUSE, self._gather)

    def _gather(self) -> None:
        """Look for what is not known yet."""
        findings = self._known.setdefault(self.subject, self._unasked())
        if self.engine is None or not findings.due:
            return
        self._ticket += 1
        self.run_worker(
            self._looking(self.engine, self._ticket).run,
            thread=True,
            exclusive=True,
            group="explain",
            exit_on_error=False,
            description="explain a chunk",
        )

    def _looking(self, engine: Engine, ticket: int) -> Gathering:
        def is_left() -> bool:
            return ticket != self._ticket or get_current_worker().is_cancelled

        def tell(part: Part, value: Found | None, problem: str) -> None:
            self.post_message(PartFound(ticket, part, value, problem))

        return Gathering(engine, self.ranked, self.ranking, self.subject, is_left, tell)

    @on(PartFound)
    def part_found(self, message: PartFound) -> None:
        """Draw a part in its place."""
        message.stop()
        if message.ticket != self._ticket:
            return
        findings = self._known.get(self.subject, self._unasked())
        if message.value is not None:
            findings = findings.found(message.part, message.value)
        elif message.problem:
            findings = findings.failed(message.part, message.problem)
        else:
            findings = findings.not_needed(message.part)
        self._known[self.subject] = findings
        self._take_place(findings)
        self.show_page(again=True)

    def _take_place(self, findings: Findings) -> None:
        """Go over from a named place to its chunk, where the list or the near misses have it."""
        chunk = findings.inquiry.chunk if findings.inquiry is not None else None
        if isinstance(self.subject, Place) and chunk is not None and chunk.id in self._subjects:
            self._known[chunk.id] = findings
            self._line_up(chunk.id)

    # --- given by the screen --------------------------------------------------------------------

    def show_page(self, *, again: bool) -> None:
        """Draw everything that is known; `again` keeps the place of a reader of the same page."""
        raise NotImplementedError
