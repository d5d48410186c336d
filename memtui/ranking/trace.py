"""Reading a trace: explain one chunk, tell what decides between two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from memtui.model import FEATURES, Drop, Hit, Leg, Ranked, Ranking, Stage, StageScore, StageTrace
from memtui.ranking.counterfactual.change import Value
from memtui.ranking.mmr import snippet_text, tokenize
from memtui.ranking.pipeline import rank, runs


class Similar(Struct, frozen=True):
    """The chunk that a chunk was held to repeat, and the words they share."""

    chunk_id: str
    citation: str
    similarity: float
    shared: tuple[str, ...]


class Explanation(Struct, frozen=True):
    """The reasons for the place of one chunk of a ranked pool."""

    scored: Hit | Drop
    without: Mapping[str, int | None]
    """The rank without `context`, `mmr`, `decay`, where on; `None` when it would not be shown."""
    similar: Similar | None


def explain(ranked: Ranked, chunk_id: str) -> Explanation:
    """Say why a chunk of the pool is where it is.

    The counterfactual ranks come from ranking the same pool again with one stage turned off.
    Raises `KeyError` when the pool does not hold the chunk.
    """
    scored, ranking = find(ranked, chunk_id), ranked.ranking
    without: dict[str, int | None] = {}
    for name in (Stage.CONTEXT, Stage.MMR, Stage.DECAY):
        if runs(ranking, name):
            changed = replace(ranking, **{name: replace(getattr(ranking, name), enabled=False)})
            other = rank(ranked.pool, changed, now=ranked.trace.now)
            without[name] = other.ranks.get(chunk_id)
    stage, similar = stage_score(scored, Stage.MMR), None
    twin_id = stage.numbers.get("similar_to") if stage else None
    if stage is not None and isinstance(twin_id, str):
        twin = ranked.pool.chunks[twin_id]
        shared = tokenize(snippet_text(scored.chunk)) & tokenize(snippet_text(twin))
        similarity = float(stage.numbers["max_similarity"] or 0.0)
        similar = Similar(twin_id, twin.citation, similarity, tuple(sorted(shared)))
    return Explanation(scored, without, similar)


def find(ranked: Ranked, chunk_id: str) -> Hit | Drop:
    """Return the hit or the near miss of a chunk; raises `KeyError` for one outside the pool."""
    if (scored := find_in(ranked, chunk_id)) is None:
        raise KeyError(chunk_id)
    return scored


def find_in(ranked: Ranked | None, chunk_id: str | None) -> Hit | Drop | None:
    """Return the hit or the near miss of a chunk; `None` for one outside the pool."""
    every: tuple[Hit | Drop, ...] = (*ranked.hits, *ranked.drops) if ranked is not None else ()
    return next((one for one in every if one.chunk.id == chunk_id), None)


def stage_score(scored: Hit | Drop, stage: Stage) -> StageScore | None:
    """Return what a stage did to a chunk; `None` when it was off or not reached."""
    return next((score for score in scored.stages if score.stage is stage), None)


def best_passage(scored: Hit | Drop) -> tuple[int, int] | None:
    """Return the characters of the passage that a candidate scores by; `None` without context."""
    stage = stage_score(scored, Stage.CONTEXT)
    if stage is None or "start" not in stage.numbers:
        return None
    return int(str(stage.numbers["start"])), int(str(stage.numbers["end"]))


def cited_lines(scored: Hit | Drop) -> tuple[int, int]:
    """Return the first and the last line of the best passage, or of the chunk without context.

    Of a conversation, too, whose file has other lines than its text.
    """
    chunk, passage = scored.chunk, best_passage(scored)
    if passage is None or chunk.text.count("\n") != chunk.end_line - chunk.start_line:
        return chunk.start_line, chunk.end_line
    first, last = (chunk.start_line + chunk.text.count("\n", 0, at) for at in passage)
    return first, last


def first_citing(ranked: Ranked, scored: Hit | Drop) -> Hit | None:
    """Return the first result that cites the lines of a candidate: chunks of a file may overlap."""
    lines = cited_lines(scored)
    of_file = (hit for hit in ranked.hits if hit.chunk.path == scored.chunk.path)
    return next((hit for hit in of_file if cited_lines(hit) == lines), None)


def shares_of(stage: StageScore) -> dict[str, float]:
    """Return what each feature gives a candidate, in the order in which that is added up."""
    return {name: float(str(stage.numbers[name])) for name in FEATURES if name in stage.numbers}


def stage_trace(ranked: Ranked, stage: Stage) -> StageTrace | None:
    """Return what a stage did to the whole list; `None` where it was off or had nothing to do."""
    return next((one for one in ranked.trace.stages if one.stage is stage and one.active), None)


def compare_settings(first: Ranking, second: Ranking) -> dict[str, tuple[Value, Value]]:
    """Return both values of the parameters that differ, by their keys in the settings.

    Of other `stages` those that run, in their order.
    """
    both = first, second
    before, after = (dict(_flat(to_builtins(one))) for one in both)
    differing = {name: (was, after[name]) for name, was in before.items() if was != after[name]}
    if "stages" in differing:
        was, now = (
            ", ".join(one for one in ranking.stages if runs(ranking, one)) for ranking in both
        )
        differing["stages"] = was, now
    return differing


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Yield the fields of a ranking and of its parts: `mmr.lambda`; lists as one text."""
    for field, value in values.items():
        name = prefix + field.rstrip("_")
        if isinstance(value, dict):
            yield from _flat(value, f"{name}.")
        else:
            yield name, ", ".join(value) if isinstance(value, list | tuple) else value


def better(first: Hit | Drop, second: Hit | Drop) -> Hit | Drop:
    """Return which of two results of one ranked pool came further: in the list, else lost later."""

    def progress(scored: Hit | Drop) -> tuple[int, int, int]:
        if isinstance(scored, Hit):
            return 0, scored.rank, 0
        return 1, -len(scored.stages), scored.stages[-1].rank if scored.stages else 0

    return min(first, second, key=progress)


def deciding_step(first: Hit | Drop, second: Hit | Drop) -> tuple[Leg | Stage | None, str, bool]:
    """Return the step that made the better one of two results of one ranked pool the better one.

    The stage that lost the other one, where one did before the cut; else the stage after which
    their order stayed what it is. Where fusion or context had it: the leg, the feature of context
    (it follows, else empty) or the later stage that gave the better one the most beyond the other.
    Last, true if that outweighs all else. `None` for one result itself, and without candidates.
    """
    winner = better(first, second)
    loser = second if winner is first else first
    if first.chunk.id == second.chunk.id or not winner.stages:
        return None, "", False
    if isinstance(loser, Drop) and loser.stage is not Stage.CUT:
        lost_together = isinstance(winner, Drop) and winner.stage is loser.stage
        if not lost_together:
            return loser.stage, "", True
    others = {stage.stage: stage for stage in loser.stages}
    decided: Stage | None = None
    behind = False
    for stage in winner.stages:
        if stage.stage in others:
            ahead = stage.rank <= others[stage.stage].rank
            if ahead and behind:
                decided = stage.stage
            behind = not ahead
    if decided not in (None, Stage.CONTEXT):
        return decided, "", True
    mine, theirs = _gains(winner), _gains(loser)
    leads = {one: round(mine.get(one, 0.0) - theirs.get(one, 0.0), 9) for one in {**mine, **theirs}}
    step, feature = most = max(leads, key=leads.__getitem__)
    return step, feature, leads[most] >= round(sum(leads.values()), 9)


def _gains(scored: Hit | Drop) -> dict[tuple[Leg | Stage, str], float]:
    """Return what each step adds to a score, the features of context in place of the legs."""
    gains: dict[tuple[Leg | Stage, str], float]
    gains = {(leg, ""): part.contribution for leg, part in scored.legs.items()}
    if (context := stage_score(scored, Stage.CONTEXT)) is not None:
        gains = {(Stage.CONTEXT, name): share for name, share in shares_of(context).items()}
    return gains | {(stage.stage, ""): stage.gain for stage in scored.stages}
