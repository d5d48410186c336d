"""The way of a place through stations and stages, one line each, up to where it was lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from textual.content import Content

from memtui.model import Drop, Hit, Leg, LegStatus, Ranked, Reason, Stage
from memtui.model.inquiry import Inquiry, Outcome, Station, TraceStep
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.arithmetic import ScoreStep, steps_of
from memtui.tui.explaining.lines import hanging
from memtui.tui.explaining.wording import LEGS, POOLS, STEP_WORDS, rank_words, step_words
from memtui.tui.glyphs import Glyphs

_NAME = 15
_RANK = 13
_STYLES: Mapping[Outcome, str] = {
    Outcome.PASSED: "$state-ok",
    Outcome.PUSHED_OUT: "$state-warn",
    Outcome.MISSED: "$state-warn",
    Outcome.LOST: "$state-error",
    Outcome.SKIPPED: fmt.MUTED,
}


def trace_lines(
    ranked: Ranked,
    scored: Hit | Drop | None,
    inquiry: Inquiry | None,
    width: int,
    glyphs: Glyphs,
    *,
    waiting: bool = False,
) -> list[Content]:
    """One line for each step: outcome, name, rank, numbers; the first failure is bold.

    Without an inquiry the steps that the ranking itself knows; while `waiting` for it, the others
    have their line already, so that nothing moves when they are known.
    """
    steps = inquiry.steps if inquiry is not None else known_steps(ranked, scored)
    first = inquiry.first_failure if inquiry is not None else _first_failure(steps)
    scores = {step.kind: step for step in steps_of(ranked, scored)} if scored is not None else {}
    lines: list[Content] = []
    if inquiry is None and waiting:
        known = {step.at for step in steps}
        for station in Station:
            if station not in known:
                lines.append(_pending(station, glyphs))
    for step in steps:
        lines += _step_lines(ranked, step, scores, width, glyphs, bold=step is first)
    return lines


def known_steps(ranked: Ranked, scored: Hit | Drop | None) -> tuple[TraceStep, ...]:
    """What a ranking itself tells: the pools of the legs and the stages."""
    if scored is None:
        return ()
    return (*_pools(ranked, scored), *_stages(ranked, scored))


def _pools(ranked: Ranked, scored: Hit | Drop) -> Iterator[TraceStep]:
    lost = scored.numbers if isinstance(scored, Drop) else {}
    for leg, station in POOLS.items():
        state = ranked.pool.states.get(leg)
        part = scored.legs.get(leg)
        named = lost.get(f"{leg}_rank")
        if part is not None:
            yield TraceStep(station, Outcome.PASSED, rank=part.position + 1)
        elif isinstance(named, int):
            numbers = {"limit": lost.get("candidates")}
            yield TraceStep(station, Outcome.MISSED, numbers=numbers, rank=named)
        elif state is None or state.status is not LegStatus.OK:
            reason = Reason.DISABLED if state is None else state.reason
            yield TraceStep(LEGS[leg], Outcome.SKIPPED, reason)


def _stages(ranked: Ranked, scored: Hit | Drop) -> Iterator[TraceStep]:
    k, before = ranked.ranking.k, None
    among = {t.stage: len(t.order) + len(t.dropped) for t in ranked.trace.stages if t.active}
    for stage in scored.stages:
        lost = isinstance(scored, Drop) and stage.stage is scored.stage
        outcome = Outcome.LOST if lost else Outcome.PASSED
        if not lost and before is not None and before <= k < (stage.rank or 0):
            outcome = Outcome.PUSHED_OUT
        yield TraceStep(
            stage.stage, outcome, stage.reason, stage.numbers, stage.rank, among.get(stage.stage)
        )
        before = stage.rank


def _first_failure(steps: Sequence[TraceStep]) -> TraceStep | None:
    failures = (s for s in steps if s.outcome in (Outcome.PUSHED_OUT, Outcome.LOST))
    return next(failures, None)


def _pending(station: Station, glyphs: Glyphs) -> Content:
    return Content.styled(f"{glyphs.ellipsis} {STEP_WORDS[station]}", fmt.MUTED)


def _step_lines(
    ranked: Ranked,
    step: TraceStep,
    scores: Mapping[Leg | Stage, ScoreStep],
    width: int,
    glyphs: Glyphs,
    *,
    bold: bool,
) -> list[Content]:
    failed = step.outcome in (Outcome.LOST, Outcome.PUSHED_OUT)
    style = "bold $state-error" if bold else _STYLES[step.outcome]
    name_style = style if failed else fmt.MUTED if step.outcome is Outcome.SKIPPED else ""
    head = Content.assemble(
        (f"{outcome_glyph(step.outcome, glyphs)} ", style),
        (f"{STEP_WORDS[step.at]:<{_NAME}} ", name_style),
        (f"{rank_words(step):<{_RANK}} ", "bold" if bold else ""),
    )
    body = Content.styled(_body(ranked, step, scores), "bold" if bold else fmt.MUTED)
    return hanging(head, body, width, indent=_NAME + 3 if width < 60 else None)


def outcome_glyph(outcome: Outcome, glyphs: Glyphs) -> str:
    """✓ passed, ✗ lost, pushed out or missed, – not asked."""
    if outcome is Outcome.PASSED:
        return glyphs.passed
    return glyphs.skipped if outcome is Outcome.SKIPPED else glyphs.error


def _body(ranked: Ranked, step: TraceStep, scores: Mapping[Leg | Stage, ScoreStep]) -> str:
    """The arithmetic of a stage where the ranking has it, else what the step itself says."""
    score = scores.get(step.at) if isinstance(step.at, Stage) else None
    if score is None or score.value is None:
        return step_words(step)
    parts = [fmt.score(score.value), score.formula, score.note]
    if step.outcome is Outcome.PUSHED_OUT:
        other = safe_line(step.other)
        parts.append(f"pushed beyond k {ranked.ranking.k}" + (f" by {other}" if other else ""))
    return "  ".join(part for part in parts if part)
