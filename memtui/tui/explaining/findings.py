"""What is found out about a chunk beside the loop, part by part, and how it is gathered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, cast

from memtui.model import Chunk, Ranked, Ranking
from memtui.model.inquiry import Inquiry, Passages, Place, WordChanges
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.least import LeastChanges
Found: TypeAlias = "Inquiry | Passages | LeastChanges | WordChanges"

Subject: TypeAlias = str | Place
"""A chunk by its id, or a file or a line by its name."""


class Part(StrEnum):
    """What is gathered, in this order."""

    INQUIRY = "inquiry"
    PASSAGES = "passages"
    LEAST = "least"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known so far; a part is `None` until it is there, or for good where not `due`."""

    inquiry: Inquiry | None = None
    passages: Passages | None = None
    least: LeastChanges | None = None
    words: WordChanges | None = None
    problems: Mapping[Part, str] = field(default_factory=dict)
    """Why a part could not be found out, safe for one line."""
    due: frozenset[Part] = frozenset()
    """What is still being looked for."""

    def found(self, part: Part, value: Found) -> Findings:
        """The same with a part that was found."""
        changed = {part.value: value}
        return replace(self, due=self.due - {part}, **changed)  # type: ignore[arg-type]

    def failed(self, part: Part, problem: str) -> Findings:
        """The same with a part that could not be found out."""
        problems = {**self.problems, part: safe_line(problem)}
        return replace(self, due=self.due - {part}, problems=problems)

    def not_needed(self, part: Part) -> Findings:
        """The same without a part that has nothing to say, as least changes of what is shown."""
        return replace(self, due=self.due - {part})


class Left(Exception):
    """The reader went on: what is being looked for is not wanted any more."""


Tell: TypeAlias = Callable[[Part, "Found | None", str], None]
"""Takes a part, its value, or why there is none; neither where it has nothing to say."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """Finds everything out about one subject; runs on a worker thread and waits for the engine."""

    engine: Engine
    ranked: Ranked
    ranking: Ranking
    """What `ranked` was asked with."""
    subject: Subject
    is_left: Callable[[], bool]
    """Whether the reader went on; asked between the parts and at every step of a long one."""
    tell: Tell

    def run(self) -> None:
        """Tell each part as soon as it is there; what fails is told in its place."""
        try:
            inquiry = self._inquiry()
            chunk = self._chunk(inquiry)
            if chunk is None:
                for part in (Part.PASSAGES, Part.LEAST, Part.WORDS):
                    self.tell(part, None, "")
                return
            self._part(Part.PASSAGES, lambda: self.engine.explain.passages(self.ranked, chunk.id))
            if any(hit.chunk.id == chunk.id for hit in self.ranked.hits):
                self.tell(Part.LEAST, None, "")
                self.tell(Part.WORDS, None, "")
                return
            self._part(Part.LEAST, lambda: self._least(chunk, inquiry))
            self._part(Part.WORDS, lambda: self._words(chunk, inquiry))
        except Left:
            return

    def _part(self, part: Part, look: Callable[[], Found]) -> Found | None:
        self._check()
        try:
            found = look()
        except Left:
            raise
        except Exception as error:
            # Whatever goes wrong with one part is told in its place; the others still come.
            self._check()
            self.tell(part, None, str(error) or type(error).__name__)
            return None
        self._check()
        self.tell(part, found, "")
        return found

    def _check(self, _: object = None) -> None:
        if self.is_left():
            raise Left

    def _inquiry(self) -> Inquiry | None:
        def look() -> Inquiry:
            if isinstance(self.subject, Place):
                return self.engine.explain.inquire_at(self.ranked, self.subject)
            return self.engine.explain.inquire(self.ranked, self.subject)

        return cast("Inquiry | None", self._part(Part.INQUIRY, look))

    def _chunk(self, inquiry: Inquiry | None) -> Chunk | None:
        if inquiry is not None and inquiry.chunk is not None:
            return inquiry.chunk
        known = self.ranked.pool.chunks
        return known.get(self.subject) if isinstance(self.subject, str) else None

    def _least(self, chunk: Chunk, inquiry: Inquiry | None) -> LeastChanges:
        places = inquiry.leg_places if inquiry is not None else {}
        return self.engine.explain.least_changes(
            self.ranked, self.ranking, chunk.id, places, progress=self._check
        )

    def _words(self, chunk: Chunk, inquiry: Inquiry | None) -> WordChanges:
        terms = inquiry.terms if inquiry is not None else None
        return self.engine.explain.word_changes(
            self.ranked, self.ranking, chunk, terms, progress=self._check
        )
