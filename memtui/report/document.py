"""An explanation as a JSON document: the names of the code, every number as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memtui.model import Hit, Ranked, Ranking
from memtui.model.inquiry import Passages
from memtui.report.entries import (
    FileStates,
    drop_entry,
    hit_entry,
    legs_entry,
    ranking_entry,
)
from memtui.report.excerpts import excerpt_of
from memtui.report.explained import Explained
from memtui.report.flags import flags_of
from memtui.report.jsonable import plain

if TYPE_CHECKING:
    from memtui.engine.least import LeastChanges
    from memtui.ranking.trace import Explanation

SNIPPET = 300
"""Cells of a hit's snippet."""


def search_entry(ranked: Ranked, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """The search that is explained, and nothing of any chunk yet."""
    return {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "search_mode": ranked.pool.search_mode,
        "legs": legs_entry(ranked),
        "shown": False,
        "place": None,
        "trace": [],
        "first_failure": None,
        "chunk_id": None,
        "citation": None,
        "hit": None,
        "drop": None,
        "terms": None,
        "ranks": [],
        "leg_ranks": {},
        "leg_ranks_of_all": {},
        "without": {},
        "similar": None,
        "least_changes": [],
        "without_change": [],
        "needs": None,
        "word_changes": None,
        "passages": None,
        "warnings": warnings,
    }


def explanation_document(
    explained: Explained, *, states: FileStates | None = None, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """The document of one place; `states` as for `hit_entry`.

    Every key is always there: null or empty for what nobody looked for or a place has not.
    """
    inquiry = explained.inquiry
    document: dict[str, Any] = {
        **search_entry(explained.ranked, warnings),
        "shown": inquiry.shown,
        "place": inquiry.place,
        "citation": inquiry.citation,
        "trace": inquiry.steps,
        "first_failure": inquiry.first_failure,
        "word_changes": explained.words,
        "passages": None if explained.passages is None else _passages(explained.passages),
    }
    if inquiry.chunk is None:
        return document
    document |= {
        "chunk_id": inquiry.chunk.id,
        "terms": inquiry.terms,
        "leg_ranks_of_all": inquiry.leg_places,
        **_least_entry(explained.least, explained.ranking),
    }
    if explained.told is not None:
        document |= _told_entry(explained.told, states)
    return document


def _told_entry(told: Explanation, states: FileStates | None) -> dict[str, Any]:
    """What the ranking says of a chunk of its pool."""
    scored = told.scored
    if isinstance(scored, Hit):
        entry = {"hit": hit_entry(scored, excerpt_of(scored, SNIPPET).text, states)}
    else:
        entry = {"drop": drop_entry(scored)}
    return {
        **entry,
        "ranks": [{"stage": stage, "rank": rank} for stage, rank in told.ranks],
        "leg_ranks": told.leg_ranks,
        "without": told.without,
        "similar": told.similar,
    }


def _least_entry(least: LeastChanges | None, ranking: Ranking) -> dict[str, Any]:
    """The changes by their fields, each with the options that make it."""
    found = () if least is None else least.found.changes
    return {
        "least_changes": [{**plain(one), "flags": flags_of(ranking, one)} for one in found],
        "without_change": () if least is None else least.found.without,
        "needs": None if least is None else least.needs,
    }


def _passages(passages: Passages) -> dict[str, Any]:
    """The passages with their text; `start` and `end` count characters of the whole `text`."""
    return {
        **plain(passages),
        "found": [
            {**plain(one), "text": passages.text[one.start : one.end]} for one in passages.found
        ],
    }
