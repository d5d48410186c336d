"""Looking for what would bring a chunk into the list, with a word on a terminal meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtui.cli.output import Output
from memtui.cli.session import Session
from memtui.model import Chunk, Ranked
from memtui.model.inquiry import Inquiry, WordChanges
from memtui.ranking.counterfactual import Parameter

if TYPE_CHECKING:
    from memtui.engine.what_if import LeastChanges


def least_changes_of(
    session: Session, ranked: Ranked, chunk: Chunk, inquiry: Inquiry, output: Output
) -> LeastChanges:
    """Look for the least change of each parameter; raises what a search raises."""

    def progress(parameter: Parameter) -> None:
        output.progress(f"memtui: looking for the least change of {parameter}")

    try:
        return session.engine.explain.least_changes(
            ranked, session.ranking(), chunk.id, inquiry.leg_places, progress=progress
        )
    finally:
        output.progress("")


def word_changes_of(
    session: Session, ranked: Ranked, chunk: Chunk, inquiry: Inquiry, output: Output
) -> WordChanges:
    """Try queries with a word more or less; raises what a search raises."""

    def progress(query: str) -> None:
        output.progress(f"memtui: trying {query}")

    try:
        return session.engine.explain.word_changes(
            ranked, session.ranking(), chunk, inquiry.terms, progress=progress
        )
    finally:
        output.progress("")
