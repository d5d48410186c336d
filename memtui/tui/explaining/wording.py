"""Stations, stages and what was compared there, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memtui.model import Drop, Hit, Leg, Ranked, Reason, Stage
from memtui.model.inquiry import Inquiry, Outcome, Station, TraceStep
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.verdicts import verdict

STEP_WORDS: Mapping[Station | Stage, str] = {
    Station.DISCOVERED: "discovered",
    Station.INDEXED: "indexed",
    Station.KEYWORD_LEG: "keyword leg",
    Station.VECTOR_LEG: "vector leg",
    Station.KEYWORD_POOL: "keyword pool",
    Station.VECTOR_POOL: "vector pool",
    Stage.FUSION: "fused",
    Stage.IDENTITY: "exact name",
    Stage.DECAY: "temporal decay",
    Stage.IMPORTANCE: "importance",
    Stage.PROJECT: "project",
    Stage.TIERS: "names first",
    Stage.RERANK: "rerank",
    Stage.DEDUP: "duplicates",
    Stage.MIN_SCORE: "minimum score",
    Stage.MMR: "MMR",
    Stage.EXACT_PATH: "name score",
    Stage.CUT: "cut at k",
}
"""A station or a stage in the width of a column."""

POOLS: Mapping[Leg, Station] = {
    Leg.KEYWORD: Station.KEYWORD_POOL,
    Leg.VECTOR: Station.VECTOR_POOL,
}
LEGS: Mapping[Leg, Station] = {
    Leg.KEYWORD: Station.KEYWORD_LEG,
    Leg.VECTOR: Station.VECTOR_LEG,
}


def step_words(step: TraceStep) -> str:
    """Why a step ended as it did, the words that matter and what was compared."""
    return "  ".join(part for part in _parts(step) if part)


def failure_words(step: TraceStep, *, brief: bool = False) -> str:
    """The first failure in one phrase: `keyword leg: a required word is missing, omada`.

    `brief` for one narrow line: `vector pool: #31 of 214 > 24`.
    """
    name = STEP_WORDS[step.at]
    if brief and step.at in POOLS.values() and step.rank is not None:
        return f"{name}: {rank_words(step)} > {step.numbers.get('limit')}"
    if step.outcome is Outcome.PUSHED_OUT:
        by = f" by {safe_line(step.other)}" if step.other else ""
        return f"pushed down to {fmt.rank(step.rank)} in {name}{by}"
    parts = [part for part in _parts(step) if part]
    if step.at in POOLS.values() and step.rank is not None:
        parts.insert(0, rank_words(step))
    told = ", ".join(parts) or "lost here"
    return told if step.at in (Station.DISCOVERED, Station.INDEXED) else f"{name}: {told}"


def rank_words(step: TraceStep) -> str:
    """The rank of a step: `#31 of 214`."""
    if step.rank is None:
        return ""
    of = f" of {fmt.count(step.of)}" if step.of else ""
    return f"{fmt.rank(step.rank)}{of}"


def verdict_of(ranked: Ranked, scored: Hit | Drop | None, inquiry: Inquiry | None) -> str:
    """Whether and where a place is shown, or what lost it first; empty until that is known."""
    failure = inquiry.first_failure if inquiry is not None else None
    if scored is None:
        if inquiry is None:
            return ""
        if inquiry.rank is not None:
            return f"SHOWN at rank {inquiry.rank}"
        return f"NOT SHOWN: {failure_words(failure)}" if failure is not None else "NOT SHOWN"
    told = verdict(ranked, scored)
    if failure is None or failure.outcome is not Outcome.PUSHED_OUT or isinstance(scored, Hit):
        return told
    return f"{told}; first {failure_words(failure)}"


def _parts(step: TraceStep) -> Iterator[str]:
    said = fmt.reason_words(step.reason)
    told_again = step.at in LEGS.values() and step.other.startswith(said)
    if step.reason not in (Reason.OK, Reason.OUTSIDE_CANDIDATES) and not told_again:
        yield said
    yield safe_line(", ".join(step.words))
    match step.at:
        case Station.DISCOVERED:
            told = safe_line(step.other)
            yield "" if said in told.casefold() else told
            yield _sizes(step)
        case Station.INDEXED:
            yield _lines(step)
        case Station.KEYWORD_POOL | Station.VECTOR_POOL:
            yield _limit(step)
        case Station.KEYWORD_LEG | Station.VECTOR_LEG:
            yield safe_line(step.other)
            yield from _raw(step)
        case _:
            yield safe_line(step.other)
            yield _after(step)


def _sizes(step: TraceStep) -> str:
    size, limit = step.numbers.get("bytes"), step.numbers.get("limit_bytes")
    parts = [fmt.size(size)] if isinstance(size, int) else []
    parts += [f"limit {fmt.size(limit)}"] if isinstance(limit, int) else []
    return ", ".join(parts)


def _lines(step: TraceStep) -> str:
    numbers = step.numbers
    first, last = numbers.get("start_line"), numbers.get("end_line")
    if first is not None and last is not None:
        return f"lines {first} to {last}"
    if numbers.get("line") is not None and numbers.get("last_line") is not None:
        return f"line {numbers['line']}, the chunks end at line {numbers['last_line']}"
    return ""


def _limit(step: TraceStep) -> str:
    limit = step.numbers.get("limit")
    if limit is None:
        return ""
    return f"{'within' if step.outcome is Outcome.PASSED else 'beyond'} the first {limit}"


def _raw(step: TraceStep) -> Iterator[str]:
    for name, unit, decimals in (("bm25", "bm25", 2), ("cosine", "cos", 3)):
        value = step.numbers.get(name)
        if isinstance(value, int | float):
            yield f"{unit} {fmt.number(float(value), decimals)}"


def _after(step: TraceStep) -> str:
    after = step.numbers.get("after")
    return fmt.score(float(after)) if isinstance(after, int | float) else ""
