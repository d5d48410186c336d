"""What a list of results says about itself: whose vectors it has, and what did not answer."""

from __future__ import annotations

from textual.content import Content

from memtui.model import IndexStatus, Leg, LegStatus, Ranked
from memtui.tui import format as fmt
from memtui.tui.provider_words import vectors_note
from memtui.tui.widgets import foreign_status


def list_notes(ranked: Ranked, status: IndexStatus | None) -> list[Content]:
    """What an agent gets instead, who made the vectors instead, and legs that did not answer."""
    notes = [
        foreign_status.agent_note(status.foreign if status is not None else None),
        vectors_note(ranked, status.provider if status is not None else None),
    ]
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        state = ranked.pool.states.get(leg)
        if state is not None and state.status is not LegStatus.OK:
            notes.append(fmt.leg_note(leg, state))
    return [Content.styled(note, "$state-warn") for note in notes if note]
