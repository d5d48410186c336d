"""The arithmetic of one score, step by step: every number is read from the trace.

The why panel, the explain screen, the comparison of two results and every export show these steps,
so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from memtui.model import (
    FEATURES,
    Chunk,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegStatus,
    Operation,
    Ranked,
    Reason,
    ScoreMapping,
    SearchMode,
    Stage,
    StageScore,
    citation,
    effective_scores,
)
from memtui.model.inquiry import WordTable
from memtui.ranking.pipeline import runs
from memtui.ranking.stages import taken_hits
from memtui.ranking.trace import Explanation, cited_lines, shares_of, stage_score, stage_trace
from memtui.report import words
from memtui.report.layout import Column, Extent, Mark, Row, Section, SectionId, Tone
from memtui.report.words import MINUS
from memtui.text.sanitize import listed, safe_line

TONES: Mapping[str, Tone] = {name: Tone(tone) for name, tone in words.WORDS["step_tone"].items()}
"""By legs and stages; every other stage puts another score in the place of the sum."""
LEG_OF: Mapping[str, Leg] = {name: Leg(leg) for name, leg in words.WORDS["feature_leg"].items()}
"""The leg to whose part of a bar the share of a feature is added; all others are added beyond."""
CHANGED = "the index changed since the search: these numbers are of now"
NO_PASSAGES = "context: not used, this index keeps no passages"
_SHARED_WORDS = 14


class ScoreStep(Struct, frozen=True):
    """One line of the arithmetic."""

    kind: Leg | Stage
    sign: str
    """The sign of its effect on the score: `+ = × − →` or empty."""
    value: float | None
    """The score after the step, or the leg's contribution; `None` when there is none."""
    rank: int | None
    formula: str
    """The numbers that make `value`: `0.3 × 0.920`."""
    note: str = ""
    """The origin of the numbers: `min-max of cos 0.431`."""
    brief: str = ""
    """The same for narrow places."""
    extent: Extent | None = None
    """The part of the axis that the step adds or takes away."""
    failed: bool = False
    """True if this is the step that lost the chunk."""
    shares: tuple[ScoreStep, ...] = ()
    """The parts whose sum is `value`, of the context."""
    feature: str = ""
    """The feature of the best passage whose share of the context it is."""
    legs: tuple[Leg, ...] = ()
    """The legs that made this share, the one that gave most first; the only one of a fusion."""

    @property
    def word(self) -> str:
        """The name of the feature, the leg or the stage."""
        return words.FEATURE_WORDS.get(self.feature) or words.step_name(self.kind)

    @property
    def tone(self) -> Tone:
        """The meaning of its colour."""
        if self.feature in FEATURES[1:]:
            return TONES[LEG_OF[self.feature]] if self.feature in LEG_OF else Tone.RERANK
        return TONES[self.legs[0]] if self.legs else TONES.get(self.kind, Tone.RERANK)


def arithmetic_section(ranked: Ranked, explanation: Explanation) -> Section:
    """The waterfall of one chunk of the pool, from the raw values to the last stage."""
    rows = []
    for step in score_steps(ranked, explanation.scored):
        score = "" if step.value is None else words.score(step.value)
        rank = "" if step.rank is None else words.rank(step.rank)
        workings = "  ".join(filter(None, (step.formula, step.note)))
        tone = Tone.ERROR if step.failed else step.tone if score else Tone.MUTED
        cells = (f"{step.sign:<2}{step.word}", score, rank, workings)
        rows.append(Row(cells, Mark.FAILED if step.failed else None, tone, extent=step.extent))
    columns = (Column("step"), Column("score", right=True), Column("rank"), Column("arithmetic"))
    notes: tuple[str, ...] = (NO_PASSAGES,) if lacks_passages(ranked) else ()
    if (similar := explanation.similar) is not None:
        ordered = sorted(similar.shared, key=lambda word: (word[:1].isdigit(), word))
        shared = f": {listed(ordered, _SHARED_WORDS)}" if ordered else ""
        jaccard = words.short_number(similar.similarity)
        notes += (f"most like {similar.citation}, Jaccard {jaccard}{shared}",)
    end = axis(ranked, explanation.scored)
    return Section(SectionId.ARITHMETIC, "arithmetic", columns, tuple(rows), notes, axis=end)


def shares_section(ranked: Ranked, scored: Hit | Drop) -> Section:
    """The shares that the context adds up, each bar from where the last one ends."""
    title = f"context: best passage, {lines_words(scored)}"
    columns = (Column("share"), Column("score", right=True), Column("weight × feature"))
    shares = [share for step in score_steps(ranked, scored) for share in step.shares]
    rows = tuple(
        Row((one.word, words.score(one.value), one.formula), None, one.tone, extent=one.extent)
        for one in shares
        if one.value
    )
    nothing = ", ".join(one.word for one in shares if not one.value)
    notes = [f"0 each: {nothing}"] if nothing else []
    notes += [words.WORDS["evidence"][ranked.pool.evidence]] if shares else []
    return Section(SectionId.SHARES, title, columns, rows, tuple(notes), axis=axis(ranked, scored))


def matches_section(ranked: Ranked, scored: Hit | Drop, matches: WordTable | None) -> Section:
    """The words of a query, what each is nearest to in the best passage, and its share."""
    title = words.FEATURE_WORDS["word_pieces"]
    if not isinstance(matches, tuple):
        counts = words.WORDS["without_pieces"].get(str(matches), "")
        why = () if matches is None else (f"no table: {words.reason_words(matches)}{counts}",)
        return Section(SectionId.WORDS, title, notes=why)
    *_, total = ends = [*accumulate((one.share for one in matches), initial=0.0)]
    # What is shown adds up, too.
    shares = [end - start for start, end in pairwise(round(end, 3) for end in ends)]
    rows = []
    for one, share in zip(matches, shares, strict=True):
        pair = f"{one.word} → {', '.join(one.nearest) or 'nothing'}"
        formula = f"{words.score(one.weight)} × {words.score(one.cosine)}"
        cells = (pair, words.score(share), formula)
        rows.append(Row(cells, tone=Tone.VECTOR, extent=Extent(0.0, share)))
    columns = Column("query → passage"), Column("share", right=True), Column("rarity × best cosine")
    stage, trace = stage_score(scored, Stage.CONTEXT), stage_trace(ranked, Stage.CONTEXT)
    weight = float(str(trace.numbers.get("word_pieces", 0.0))) if trace is not None else 0.0
    is_same = stage is not None and shares_of(stage).get("word_pieces", 0.0) == weight * total
    notes: tuple[str, ...] = () if is_same else (CHANGED,)
    if several := [one.word for one in matches if len(one.nearest) > 1]:
        read = "read in pieces, each beside its nearest word; the cosine is their mean"
        notes += (f"{listed(several, _SHARED_WORDS)}: {read}",)
    title = f"{title}: {words.score(total)} together"
    return Section(SectionId.WORDS, title, columns, tuple(rows), notes, axis=max(shares) or None)


def lacks_passages(ranked: Ranked) -> bool:
    """Tell whether the context was asked for and the index has no passages for it."""
    is_on, trace = runs(ranked.ranking, Stage.CONTEXT), stage_trace(ranked, Stage.CONTEXT)
    return is_on and trace is None and bool(ranked.pool.chunks)


def score_steps(ranked: Ranked, scored: Hit | Drop) -> tuple[ScoreStep, ...]:
    """Spell out a score, first the legs, then the stages; nothing where filters alone chose."""
    if not ranked.pool.is_scored:
        return ()
    steps, end = list[ScoreStep](), 0.0
    given = {leg: part.contribution for leg, part in scored.legs.items() if part.contribution > 0}
    contributors = tuple(sorted(given, key=given.__getitem__, reverse=True))
    for leg in Leg:
        sign = "+" if leg is Leg.KEYWORD and Leg.VECTOR in scored.legs else ""
        value = rank = extent = None
        if (part := scored.legs.get(leg)) is not None:
            value, rank = part.contribution, part.position + 1
            start, end = end, end + value
            extent = Extent(min(start, end), max(start, end))
        leg_words = _leg_words(ranked, scored, leg)
        steps.append(ScoreStep(leg, sign, value, rank, *leg_words, extent))
    for stage, effective in zip(scored.stages, effective_scores(scored.stages), strict=True):
        if (about := _stage_words(ranked, scored, stage, effective)) is None:
            continue
        before, after = stage.before, stage.after
        extent = Extent(0.0, after) if after > 0 else None
        if stage.operation in (Operation.MULTIPLY, Operation.SUBTRACT):
            extent = Extent(min(before, after), max(before, after))
        elif stage.operation is Operation.KEEP:
            extent = None
        sign, formula, note, brief = about
        is_lost = isinstance(scored, Drop) and stage.stage is scored.stage
        value = effective if stage.operation is Operation.KEEP else after
        step = ScoreStep(stage.stage, sign, value, stage.rank, formula, note, brief, extent)
        shares = _shares(ranked, stage, contributors)
        legs = contributors if (stage.stage, len(given)) == (Stage.FUSION, 1) else ()
        steps.append(replace(step, failed=is_lost, shares=shares, legs=legs))
    return tuple(steps)


def _shares(ranked: Ranked, stage: StageScore, legs: tuple[Leg, ...]) -> tuple[ScoreStep, ...]:
    """Return the shares of a candidate by the context; nothing for any other stage."""
    trace = stage_trace(ranked, stage.stage)
    if stage.stage is not Stage.CONTEXT or trace is None:
        return ()
    shares, end = list[ScoreStep](), 0.0
    for name, value in shares_of(stage).items():
        weight = float(str(trace.numbers.get(name, 0.0)))
        feature = value / weight if weight else 0.0
        formula = f"{words.exact(weight)} × {words.score(feature)}"
        start, end = end, end + value
        extent = Extent(min(start, end), max(start, end))
        step = ScoreStep(stage.stage, "+", value, None, formula, extent=extent, feature=name)
        shares.append(replace(step, legs=legs if name == FEATURES[0] else ()))
    return tuple(shares)


def axis(ranked: Ranked, *explained: Hit | Drop) -> float:
    """The right end of the axis: the largest value any step of these, or of the list, reaches."""
    scored: list[Hit | Drop] = [*ranked.hits, *ranked.drops[:1], *explained]
    return max([0.0, *(stage.after for one in scored for stage in one.stages)]) or 1.0


def relative_words(ranked: Ranked) -> str:
    """Say of scores that are stretched to the best and the worst of a query that they are."""
    return "relative to this query" if ranked.ranking.fusion is Fusion.RELATIVE_SCORE else ""


def place_of(ranked: Ranked, chunk_id: object) -> str:
    """The citation of a chunk of the pool, safe for one line."""
    chunk = ranked.pool.chunks.get(chunk_id) if isinstance(chunk_id, str) else None
    return "another chunk" if chunk is None else place(chunk)


def lines_words(scored: Hit | Drop) -> str:
    """Return the lines that a candidate is cited by: `line 12`, `lines 12 to 14`."""
    first, last = cited_lines(scored)
    return f"line {first}" if first == last else f"lines {first} to {last}"


def cited(scored: Hit | Drop) -> str:
    """The citation of a candidate by its best passage, safe for one line."""
    return safe_line(citation(scored.chunk.path, *cited_lines(scored)))


def place(chunk: Chunk) -> str:
    """The citation of a chunk, safe for one line."""
    return safe_line(chunk.citation)


def _leg_words(ranked: Ranked, scored: Hit | Drop, leg: Leg) -> tuple[str, str, str]:
    """Return the formula of a leg, or why it has none; the origin of its value; that in brief."""
    ranking, pool, chunk = ranked.ranking, ranked.pool, scored.chunk
    if (part := scored.legs.get(leg)) is None:
        why, brief = f"not among the first {ranking.candidates}: counts 0", "no match"
        state = pool.states[leg]
        if state.status is not LegStatus.OK:
            why = words.leg_reason(state)
            is_pending = state.status is LegStatus.PENDING
            return why, "", why if is_pending else words.reason_words(state.reason)
        searched = state.facts.get("model") if leg is Leg.VECTOR else None
        if searched and chunk.model and chunk.model != searched:
            why = brief = f"its vector is of another model: {safe_line(chunk.model)}"
        elif state.facts.get("pending"):
            brief = "no match, or no vector yet"
        return why, "", brief
    origin = brief = f"{words.WORDS['leg_unit'][leg]} {words.score(part.raw)}"
    mapped, text = words.score(part.mapped), part.text_score
    if text is not None and text != part.mapped:
        brief = f"{mapped} = {words.score(text)} + boost"
    if text is not None and ranking.fusion is Fusion.WEIGHTED_SUM:
        hit = next(hit for hit in pool.hits[Leg.KEYWORD] if hit.chunk_id == chunk.id)
        if not hit.has_body:
            origin = "the path alone"
        else:
            raw = origin if hit.score is None else "substrings, no bm25"
            origin = f"{raw} → text score {words.score(text)}"
        if part.mapped != text or not hit.has_body:
            kind = "path score" if part.mapped == hit.path_raw else "counted as"
            if hit.has_body and part.mapped == hit.boosted:
                kind = "boosted"
            origin += f" → {kind} {mapped}"
    elif ranking.fusion is Fusion.RELATIVE_SCORE:
        raws = [hit.raw for hit in taken_hits(pool, ranking)[leg] if isfinite(hit.raw)]
        # Of the keyword match the smallest is the best, but for a program that scores otherwise.
        is_signed = leg is Leg.KEYWORD and ranking.keyword_mapping is not ScoreMapping.GIVEN
        raws.sort(reverse=is_signed)
        ends = dict(zip((*raws[:1], *raws[-1:]), (0, 1), strict=False))
        scaled = (f"{words.short_number(raw)} → {end}" for raw, end in ends.items())
        origin += f" scaled: {', '.join(scaled)}"
    elif ranking.fusion is Fusion.RRF:
        origin = f"1/({words.short_number(ranking.rrf_k)} + {part.position} above), {origin}"
    elif leg is Leg.KEYWORD and ranking.keyword_mapping is not ScoreMapping.GIVEN:
        origin = f"{words.WORDS['mapping'][ranking.keyword_mapping]} {origin}"
    note = f"{origin} ({safe_line(', '.join(part.terms))})" if part.terms else origin
    return f"{words.short_number(part.weight)} × {mapped}", note, brief


def compared_score(score: float, effective: float) -> str:
    """Return the score that the minimum is compared with, and why it is not the one shown."""
    return words.score(score) if score == effective else f"{words.score(score)} before MMR"


def _stage_words(
    ranked: Ranked, scored: Hit | Drop, stage: StageScore, effective: float
) -> list[str] | None:
    """Return the sign, the formula, the note and the brief note of what a stage did to a score.

    `None` for a stage that has nothing to say of it.
    """
    ranking, numbers, name = ranked.ranking, stage.numbers, stage.stage.value
    cases = [f"{name} {stage.operation}", f"{name} {stage.reason}", name]
    if ranking.decay.enabled:
        cases.insert(0, f"{name} {stage.reason} decay")
    template = next((words.ARITHMETIC[one] for one in cases if one in words.ARITHMETIC), None)
    if template is None:
        return None
    fusion, mode = words.WORDS["fusion"][ranking.fusion], words.WORDS["mode"][ranking.search_mode]
    values = {name: words.short_number(value) for name, value in numbers.items()} | {
        "before": words.score(stage.before),
        "after": words.score(stage.after),
        "compared": compared_score(stage.after, effective),
        # The release counts the content as 0 where only the name was found: read it off.
        "content": words.score(2 * stage.after - 1),
        "operand": words.score(stage.operand or 0.0),
        "rank": str(stage.rank),
        "shown": words.count(ranking.k, "result"),
        "method": fusion if ranking.search_mode is SearchMode.HYBRID else mode,
        "lines": lines_words(scored),
        "why": words.reason_words(stage.reason) if stage.reason is not Reason.OK else "",
        "tier": words.WORDS["tier"].get(str(numbers.get("tier")), ""),
        "same": words.percent(float(numbers.get("max_similarity") or 0), 1),
        "twin": place_of(ranked, numbers.get("similar_to", numbers.get("duplicate_of"))),
    }
    for score in ("maximum", "ranked_by", "span"):
        if isinstance(value := numbers.get(score), int | float):
            values[score] = words.score(value)
    if isinstance(age := numbers.get("age_days"), int | float):
        days = words.short_number(max(0.0, age), 1)
        power = f"2^({MINUS}{days} d / {values['half_life_days']} d)"
        if ranking.decay.floor > 0:
            power = f"{values['floor']} + (1 {MINUS} {values['floor']}) × {power}"
        values |= {"age": words.age(age), "power": power}
    if stage.stage is Stage.MIN_SCORE:
        every: list[Hit | Drop] = [*ranked.hits, *ranked.drops]
        reasons = [one.reason for each in every for one in each.stages if one.stage is stage.stage]
        filling = reasons.count(Reason.FREE_PLACE)
        more = f", {words.count(filling, 'more fills', 'more fill')} the list" if filling else ""
        values |= {"reached": words.count(reasons.count(Reason.OK)), "filling": more}
        values["all"] = words.count(len(reasons))
    sign, formula, *notes = (part.format_map(values) for part in template)
    return [sign, formula, notes[0] if notes else "", notes[-1] if notes else ""]


def bar_parts(scored: Hit | Drop) -> dict[str, float]:
    """Read the parts of a score bar off the legs and the stages of a result, from left to right.

    In the unit of the fused score, none below 0: `vector` and `keyword` by the legs and `gain` by
    stages after fusion, which together are the effective score (when that is above 0); then what
    `mmr`, `decay` and other stages (`loss`) took. Multiplying stages shrink all legs alike,
    subtracting ones eat from the right. The context weighs the fused score, legs and all, and adds
    the other shares by `LEG_OF`. No score is computed here: every length is a contribution, a
    share, or a difference of a stage's before and after.
    """
    given = {leg.value: max(0.0, part.contribution) for leg, part in scored.legs.items()}
    left = {leg.value: 0.0 for leg in Leg} | given | {"gain": 0.0}
    losses = {"mmr": 0.0, "decay": 0.0, "loss": 0.0}
    before = None
    for stage, effective in zip(scored.stages, effective_scores(scored.stages), strict=True):
        if effective == before:
            continue
        before = effective
        if stage.stage is Stage.CONTEXT:
            fused, *shares = shares_of(stage).items()
            weight = fused[1] / stage.before if stage.before else 0.0
            left = {name: weight * length for name, length in left.items()}
            for name, share in shares:
                left[LEG_OF.get(name, "gain")] += share
            left = {name: max(0.0, length) for name, length in left.items()}
        excess = sum(left.values()) - max(0.0, effective)
        if excess <= 0:
            left["gain"] -= excess
            continue
        losses[stage.stage.value if stage.stage.value in losses else "loss"] += excess
        if stage.operation is not Operation.SUBTRACT:
            share = max(0.0, effective) / sum(left.values())
            left = {name: length * share for name, length in left.items()}
            continue
        for name in ("gain", "keyword", "vector"):
            eaten = min(left[name], excess)
            left[name] -= eaten
            excess -= eaten
    return left | losses


def part_cells(scored: Hit | Drop, width: int, scale: float) -> list[tuple[str, int]]:
    """Return how many of `width` cells each part fills; a score of `scale` fills all of them.

    A leg has a cell of its own, however little it gives, unless that rounds to 0.000.
    """
    parts = bar_parts(scored)
    ends = [0, *(min(width, round(end / scale * width)) for end in accumulate(parts.values()))]
    cells = {name: end - start for name, (start, end) in zip(parts, pairwise(ends), strict=True)}
    for leg in Leg:
        if parts[leg.value] >= 0.0005 and not cells[leg.value]:
            if sum(cells.values()) >= width:
                cells[max(cells, key=cells.__getitem__)] -= 1
            cells[leg.value] = 1
    return list(cells.items())


def bar_scale(results: Iterable[Hit | Drop]) -> float:
    """Return the score that fills a bar: 1, or the longest one when all are short or one longer."""
    longest = max((sum(bar_parts(result).values()) for result in results), default=1.0)
    return 1.0 if 0.5 <= longest <= 1.0 or longest <= 0 else longest
