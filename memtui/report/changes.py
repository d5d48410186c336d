"""What would bring a chunk into the list: the least change of each parameter, and of the words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from memtui.model import Leg, Ranking, Reason
from memtui.model.inquiry import LegPlace, WordChange, WordChanges
from memtui.ranking.counterfactual import Change, Needed, NoChange, NoChangeReason
from memtui.report import words
from memtui.report.flags import flags_of
from memtui.report.model import Column, Row, Section, SectionId, Tone

if TYPE_CHECKING:
    from memtui.engine.least import LeastChanges

_COLUMNS = (
    Column("parameter"),
    Column("change"),
    Column("rank", right=True),
    Column("cost", right=True),
    Column("options"),
)
_WORD_COLUMNS = (Column("words"), Column("rank", right=True), Column("query"))


def changes_section(
    least: LeastChanges, ranking: Ranking, places: Mapping[Leg, LegPlace], *, in_pool: bool
) -> Section:
    """Each change, the cheapest first, then the parameters that cannot do it."""
    found = least.found
    rows = tuple(
        Row(_change(change, ranking), None, Tone.OK if place == 0 else Tone.PLAIN)
        for place, change in enumerate(found.changes)
    )
    notes = [] if in_pool else list(_deeper(least.needs, places))
    if found.changes:
        notes.append(
            "each alone brings it into the list; the cost is the part of the range crossed"
        )
    else:
        notes.append("no single parameter brings it into the list")
    notes += _without(found.without)
    return Section(SectionId.LEAST_CHANGES, "least changes", _COLUMNS, rows, tuple(notes))


def words_section(changes: WordChanges) -> Section:
    """The queries that show the chunk, each searched for, and how many were tried."""
    rows = tuple(
        Row((_words(change), f"{change.rank_after}", change.query)) for change in changes.changes
    )
    tried = f"{changes.tried} changed {'query' if changes.tried == 1 else 'queries'}"
    if changes.reason is not Reason.OK:
        note = f"not tried: {words.reason_words(changes.reason)}"
    elif changes.changes:
        note = f"each was searched: {tried} tried"
    else:
        note = f"no word that was tried brings it into the list ({tried})"
    return Section(SectionId.WORD_CHANGES, "other words", _WORD_COLUMNS, rows, (note,))


def _change(change: Change, ranking: Ranking) -> tuple[str, ...]:
    return (
        change.parameter.value,
        f"{_value(change.old)} -> {_value(change.new)}",
        f"{change.rank_after}",
        f"{change.cost:.3g}",
        flags_of(ranking, change),
    )


def _words(change: WordChange) -> str:
    return " ".join([*(f"+{word}" for word in change.added), *(f"-{w}" for w in change.removed)])


def _deeper(needs: Needed | None, places: Mapping[Leg, LegPlace]) -> Iterator[str]:
    """What a chunk needs that no leg brought into the pool."""
    if needs is None:
        uncounted = any(place.reason is Reason.TOO_MANY for place in places.values())
        so = "how deep a search must go is not known" if uncounted else "no parameter brings it in"
        yield f"no leg ranks it: {so}"
        return
    yield (
        f"a new search has to take {needs.candidates} candidates of each leg, "
        f"this one took {needs.taken}"
    )
    if needs.candidates <= needs.taken:
        yield "so many are taken: the leg's own merge of keywords and paths left it out"
        return
    ways = [f"k = {needs.k}"] if needs.k is not None else []
    if needs.candidate_multiplier is not None:
        ways.append(f"candidate_multiplier = {needs.candidate_multiplier}")
    if ways:
        yield f"{' or '.join(ways)} takes so many; what then shows it is listed, nothing else"
    else:
        yield "no k and no candidate_multiplier takes so many"


def _without(without: tuple[NoChange, ...]) -> Iterator[str]:
    for reason in NoChangeReason:
        named = [str(found.parameter) for found in without if found.reason is reason]
        if named:
            yield f"{reason}: {', '.join(named)}"


def _value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    return words.number(value) if isinstance(value, int) else str(value)
