"""What the explain screen explains, what is known of it, and how that is found out: no Textual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from memtui.errors import Cancelled
from memtui.model import Ranked, Ranking
from memtui.model.inquiry import Inquiry, Place, WordChange
from memtui.ranking.counterfactual import Change, apply
from memtui.report.explanation import Explained, Part, Subject, change_words
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.engine import Engine

Choice: TypeAlias = Change | WordChange
"""Something that can be applied."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that was applied here: what a changed query was before, or what it ranked by."""

    choice: Choice
    query: str | None = None
    ranking: Ranking | None = None


class ExplainController:
    """The subjects of one result list, and what was found out about each."""

    def __init__(
        self, ranked: Ranked, ranking: Ranking, subject: Subject, engine: Engine | None
    ) -> None:
        self.ranked, self.ranking, self.engine = ranked, ranking, engine
        self.applied: tuple[Applied, ...] = ()
        self.note = ""
        """What was applied or taken back last."""
        self.ticket = 0
        """Counts what was asked of the engine; an answer to an older question is dropped."""
        self._known: dict[Subject, Explained] = {}
        self._subjects: list[Subject] = []
        self._place = 0
        self._line_up(subject)

    @property
    def subject(self) -> Subject:
        """What is explained: a chunk's id, or a place."""
        return self._subjects[self._place]

    @property
    def explained(self) -> Explained:
        """Everything that is known by now."""
        if self.subject not in self._known:
            due = frozenset(Part) if self.engine is not None else frozenset()
            new = Explained(self.ranked, self.ranking, subject=self.subject, due=due)
            self._known[self.subject] = new
        return self._known[self.subject]

    @property
    def chunk_id(self) -> str | None:
        """The chunk that is explained; `None` while a place is none."""
        if isinstance(self.subject, str):
            return self.subject
        chunk = self.explained.chunk
        return chunk.id if chunk is not None else None

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Everything that can be applied: least changes, then changes of the words."""
        explained = self.explained
        if not explained.offers_changes:
            return ()
        changes = explained.least.found.changes if explained.least is not None else ()
        return (*changes, *(explained.words.changes if explained.words is not None else ()))

    @property
    def heading(self) -> str:
        """The rank of what is explained, or that it is not shown."""
        explained = self.explained
        if explained.explanation is None and Part.INQUIRY in explained.due:
            return "…"
        rank = explained.explanation.rank if explained.explanation is not None else None
        return "not shown" if rank is None else f"{rank} of {len(self.ranked.hits)}"

    def step(self, steps: int) -> bool:
        """Go to another chunk, near misses after the results; tell whether there is one."""
        place = min(max(self._place + steps, 0), len(self._subjects) - 1)
        is_other = place != self._place
        if is_other:
            self._place, self.note = place, ""
        return is_other

    def take(self, ranked: Ranked, ranking: Ranking) -> bool:
        """Explain the same subject by another list; tell whether it is another one."""
        # The asked ranking besides what ran: with one leg alone they differ.
        old, new = (
            (one.pool.query, one.ranking, one.pool.limit, asked)
            for one, asked in ((self.ranked, self.ranking), (ranked, ranking))
        )
        if old == new:
            return False
        subject = self.chunk_id or self.subject
        self.ranked, self.ranking = ranked, ranking
        self._known.clear()
        self._line_up(subject)
        return True

    def learn(self, part: Part, value: object, problem: str) -> None:
        """Take a part that was found, or that could not be found out."""
        explained = self.explained
        if problem:
            explained = explained.failed(part, safe_line(problem))
        else:
            explained = explained.found(part, value)
        self._known[self.subject] = explained
        chunk = explained.chunk
        if isinstance(self.subject, Place) and chunk is not None and chunk.id in self._subjects:
            # From a named place to its chunk, where the list or the near misses have it.
            self._known[chunk.id] = explained
            self._line_up(chunk.id)

    def apply(self, choice: Choice) -> None:
        """Note a change that is about to be made."""
        if isinstance(choice, WordChange):
            applied = Applied(choice, self.ranked.pool.query)
        else:
            applied = Applied(choice, ranking=self.changed(choice))
        self.applied = (*self.applied, applied)
        self.note = f"applied: {change_words(choice)}   u takes it back"

    def changed(self, change: Change) -> Ranking:
        """Return the ranking with one change."""
        return apply(self.ranking, change.parameter, change.new)

    def take_back(self, present: Ranking) -> Applied | None:
        """Take back the last change; `None`: it was made elsewhere, to the parameters."""
        last = self.applied[-1] if self.applied else None
        if last is None or (last.query is None and last.ranking != present):
            self.note = "taken back: the last change of the parameters"
            return None
        self.applied = self.applied[:-1]
        self.note = f"taken back: {change_words(last.choice)}"
        return last

    def gather(self, tell: Callable[[int, Part, object, str], object]) -> None:
        """Find out what is due, part by part; runs on a thread and waits for the engine.

        `tell` takes the ticket, a part, and its value or why there is none; what fails is told in
        its place, and the other parts still come. Raises `Cancelled` once the reader went on.
        """
        ticket, explained, ranked, ranking = self.ticket, self.explained, self.ranked, self.ranking
        subject = self.subject
        assert self.engine is not None
        explain = self.engine.explain

        def check(_: object = None) -> None:
            if ticket != self.ticket:
                raise Cancelled

        def look(part: Part, find: Callable[[], object]) -> object:
            check()
            value, problem = None, ""
            try:
                value = find()
            except Cancelled:
                raise
            except Exception as error:
                # Whatever goes wrong with one part is told in its place.
                problem = str(error) or type(error).__name__
            check()
            tell(ticket, part, value, problem)
            return value

        inquiry = look(
            Part.INQUIRY,
            lambda: (
                explain.inquire_at(ranked, subject)
                if isinstance(subject, Place)
                else explain.inquire(ranked, subject)
            ),
        )
        chunk, terms, places = explained.chunk, None, {}
        if isinstance(inquiry, Inquiry):
            chunk, terms = inquiry.chunk or chunk, inquiry.terms
            places = dict(inquiry.leg_places)
        is_shown = chunk is not None and any(hit.chunk.id == chunk.id for hit in ranked.hits)
        finders: dict[Part, Callable[[], object]] = {}
        if chunk is not None:
            known = chunk
            finders[Part.PASSAGES] = lambda: explain.passages(ranked, known.id)
        if chunk is not None and not is_shown:
            finders[Part.LEAST] = lambda: explain.least_changes(
                ranked, ranking, known.id, places, progress=check
            )
            finders[Part.WORDS] = lambda: explain.word_changes(
                ranked, ranking, known, terms, progress=check
            )
        for part in (Part.PASSAGES, Part.LEAST, Part.WORDS):
            look(part, finders.get(part, lambda: None))

    def _line_up(self, subject: Subject) -> None:
        """Line up results, near misses, then the subject itself where it is neither."""
        self._subjects = [hit.chunk.id for hit in self.ranked.hits]
        self._subjects += [drop.chunk.id for drop in self.ranked.drops]
        if subject not in self._subjects:
            self._subjects.append(subject)
        self._place = self._subjects.index(subject)
