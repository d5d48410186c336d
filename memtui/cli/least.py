"""The least changes that bring a chunk into the list, as lines of text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memtui.cli import words
from memtui.cli.output import Output
from memtui.cli.session import Session
from memtui.model import Leg, Ranked, Ranking, Reason
from memtui.model.terms import LegPlace
from memtui.ranking.counterfactual import (
    Change,
    Counterfactuals,
    Needed,
    NoChange,
    NoChangeReason,
    Parameter,
    apply,
)

if TYPE_CHECKING:
    from memtui.engine.least import LeastChanges

_NUMBERS: Mapping[Parameter, str] = {
    Parameter.HALF_LIFE: "--half-life",
    Parameter.MIN_SCORE: "--min-score",
    Parameter.LAMBDA: "--lambda",
    Parameter.FUSION: "--fusion",
    Parameter.K: "-n",
}
_SWITCHES: Mapping[Parameter, tuple[str, str]] = {
    Parameter.DECAY: ("--no-decay", "--decay"),
    Parameter.MMR: ("--no-mmr", "--mmr"),
}


def changes_of(
    session: Session,
    ranked: Ranked,
    chunk_id: str,
    places: Mapping[Leg, LegPlace],
    output: Output,
) -> LeastChanges:
    """Look for changes; tells of the progress where a line can be erased."""
    from memtui.engine.least import find_changes

    def progress(parameter: Parameter) -> None:
        output.progress(f"memtui: looking for the least change of {parameter}")

    try:
        return find_changes(
            session.engine,
            ranked,
            session.ranking(),
            chunk_id,
            places,
            chunks=session.engine.status().chunks,
            progress=progress,
        )
    finally:
        output.progress("")


def least_entry(least: LeastChanges, ranking: Ranking) -> dict[str, Any]:
    """The changes by their fields, each with the options that make it."""
    from memtui.cli.output import plain

    found = least.found
    return {
        "least_changes": [
            {**plain(change), "flags": flags_of(ranking, change)} for change in found.changes
        ],
        "without_change": found.without,
        "needs": least.needs,
    }


def flags_of(ranking: Ranking, change: Change) -> str | None:
    """The options of the command line that make a change; `None` where there are none."""
    parameter, new = change.parameter, change.new
    if parameter is Parameter.VECTOR_WEIGHT:
        changed = apply(ranking, parameter, new)
        return f"--weights {changed.vector_weight!r},{changed.keyword_weight!r}"
    if parameter in _SWITCHES and isinstance(new, bool):
        return _SWITCHES[parameter][new]
    if parameter in _NUMBERS and new is not None:
        return f"{_NUMBERS[parameter]} {new}"
    return None


def change_lines(found: Counterfactuals, ranking: Ranking) -> Iterator[str]:
    """Each change, the cheapest first, then the parameters that cannot do it."""
    if found.changes:
        yield "  to bring it into the list, each alone, the least change first"
    for change in found.changes:
        moved = f"{_value(change.old)} -> {_value(change.new)}"
        flags = flags_of(ranking, change) or f"ranking.{change.parameter}"
        yield (
            f"    {change.parameter:<22}{moved:<24} rank {change.rank_after:<4}"
            f"cost {change.cost:<9.3g}{flags}"
        ).rstrip()
    if not found.changes:
        yield "  no single parameter brings it into the list"
    yield from _without(found.without)


def deeper_lines(needs: Needed | None, places: Mapping[Leg, LegPlace]) -> Iterator[str]:
    """What a chunk needs that no leg brought into the pool."""
    if needs is None:
        uncounted = any(place.reason is Reason.TOO_MANY for place in places.values())
        so = "how deep a search must go is not known" if uncounted else "no parameter brings it in"
        yield f"  no leg ranks it: {so}"
        return
    yield (
        f"  a new search has to take {needs.candidates} candidates of each leg, "
        f"this one took {needs.taken}"
    )
    if needs.candidates <= needs.taken:
        yield "    so many are taken: the leg's own merge of keywords and paths left it out"
        return
    ways = [f"k = {needs.k}"] if needs.k is not None else []
    if needs.candidate_multiplier is not None:
        ways.append(f"candidate_multiplier = {needs.candidate_multiplier}")
    if ways:
        yield f"    {' or '.join(ways)} takes so many; whether it is then in the list is below"
    else:
        yield "    no k and no candidate_multiplier takes so many"


def _without(without: tuple[NoChange, ...]) -> Iterator[str]:
    for reason in NoChangeReason:
        named = [str(found.parameter) for found in without if found.reason is reason]
        if named:
            yield f"    {reason}: {', '.join(named)}"


def _value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    return words.number(value) if isinstance(value, int) else str(value)
