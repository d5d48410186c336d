"""The arithmetic of one score, step by step: every number is read from the trace.

The why panel, the explain screen, the comparison of two results and every export show these steps,
so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from memtui.model import (
    Chunk,
    Drop,
    Fusion,
    Hit,
    Leg,
    LegHit,
    LegScore,
    LegStatus,
    Operation,
    Ranked,
    Reason,
    ScoreMapping,
    SearchMode,
    Stage,
    StageScore,
    citation,
)
from memtui.ranking.trace import Explanation, other_model
from memtui.report import words
from memtui.report.layout import Column, Extent, Mark, Row, Section, SectionId, Tone
from memtui.report.words import MINUS, Spell
from memtui.text.sanitize import safe_line

LEGS = (Leg.VECTOR, Leg.KEYWORD)
_TONES: Mapping[Leg | Stage, Tone] = {
    Leg.VECTOR: Tone.VECTOR,
    Leg.KEYWORD: Tone.KEYWORD,
    Stage.FUSION: Tone.PLAIN,
    Stage.DECAY: Tone.DECAY,
    Stage.DEDUP: Tone.DECAY,
    Stage.MIN_SCORE: Tone.DECAY,
    Stage.CUT: Tone.DECAY,
    Stage.MMR: Tone.MMR,
}
"""Every other stage puts another score in the place of the sum."""
_TIER_WORDS: Mapping[int, str] = {3: "its path", 2: "its file name", 1: "its bare name"}
_SHARED_WORDS = 14


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """One line of the arithmetic."""

    kind: Leg | Stage
    sign: str
    """How it acts on the score: `+ = × − →` or empty."""
    value: float | None
    """The score after the step, or the leg's contribution; `None` when there is none."""
    rank: int | None
    formula: str
    """The numbers that make `value`: `0.3 × 0.920`."""
    note: str = ""
    """Where the numbers come from: `min-max of cos 0.431`."""
    brief: str = ""
    """The same for narrow places."""
    extent: Extent | None = None
    """The part of the axis that the step adds or takes away."""
    failed: bool = False
    """Whether this is the step that lost the chunk."""

    @property
    def word(self) -> str:
        """The name of the leg or the stage."""
        return words.step_name(self.kind)

    @property
    def tone(self) -> Tone:
        """What its colour stands for."""
        return _TONES.get(self.kind, Tone.RERANK)


def arithmetic_section(ranked: Ranked, explanation: Explanation, spell: Spell) -> Section:
    """The waterfall of one chunk of the pool, from the raw values to the last stage."""
    rows = tuple(
        Row(
            (
                f"{step.sign:<2}{step.word}",
                "" if step.value is None else spell(step.value),
                "" if step.rank is None else words.rank(step.rank),
                "  ".join(filter(None, (step.formula, step.note))),
            ),
            Mark.FAILED if step.failed else None,
            Tone.ERROR if step.failed else step.tone if step.value is not None else Tone.MUTED,
            extent=step.extent,
        )
        for step in score_steps(ranked, explanation.scored, spell)
    )
    columns = (Column("step"), Column("score", right=True), Column("rank"), Column("arithmetic"))
    notes: tuple[str, ...] = ()
    if explanation.similar is not None:
        ordered = sorted(explanation.similar.shared, key=lambda word: (word[:1].isdigit(), word))
        more = len(ordered) - _SHARED_WORDS
        tail = f" and {words.count(more)} more" if more > 0 else ""
        shared = f": {', '.join(ordered[:_SHARED_WORDS])}{tail}" if ordered else ""
        similarity = spell.number(explanation.similar.similarity)
        notes = (f"most like {explanation.similar.citation}, Jaccard {similarity}{shared}",)
    return Section(SectionId.ARITHMETIC, "arithmetic", columns, rows, notes, axis=axis(ranked))


def score_steps(
    ranked: Ranked, scored: Hit | Drop, spell: Spell = words.SHORT
) -> tuple[ScoreStep, ...]:
    """Spell out the score of a hit or a near miss of `ranked`, first the legs, then the stages."""
    steps: list[ScoreStep | None] = []
    start = 0.0
    for leg in LEGS:
        part = scored.legs.get(leg)
        sign = "+" if leg is Leg.KEYWORD and Leg.VECTOR in scored.legs else ""
        if part is None:
            why, brief = _absence(ranked, leg, scored.chunk)
            steps.append(ScoreStep(leg, sign, None, None, why, brief=brief))
            continue
        end = start + part.contribution
        steps.append(
            ScoreStep(
                leg,
                sign,
                part.contribution,
                part.position + 1,
                f"{spell.number(part.weight)} × {spell(part.mapped)}",
                _leg_note(ranked, scored.chunk.id, leg, part, spell),
                _boost(part, spell) or raw_score(leg, part, spell),
                _extent(start, end),
            )
        )
        start = end
    for stage in scored.stages:
        lost = isinstance(scored, Drop) and stage.stage is scored.stage
        steps.append(_STAGES[stage.stage](_At(ranked, stage, lost, spell)))
    return tuple(step for step in steps if step is not None)


def axis(ranked: Ranked) -> float:
    """The right end of the axis: the largest value any step of the shown results reaches."""
    scored: list[Hit | Drop] = [*ranked.hits, *ranked.drops[:1]]
    largest = max((stage.after for one in scored for stage in one.stages), default=0.0)
    return largest if largest > 0 else 1.0


def place_of(ranked: Ranked, chunk_id: object) -> str:
    """The citation of a chunk of the pool, safe for one line."""
    chunk = ranked.pool.chunks.get(chunk_id) if isinstance(chunk_id, str) else None
    return "another chunk" if chunk is None else place(chunk)


def place(chunk: Chunk) -> str:
    """The citation of a chunk, safe for one line."""
    return safe_line(citation(chunk.path, chunk.start_line, chunk.end_line))


def raw_score(leg: Leg, part: LegScore, spell: Spell = words.SHORT) -> str:
    """What the index itself said: `cos 0.431` or `bm25 −6.810`."""
    return f"{words.LEG_UNITS[leg]} {spell(part.raw)}"


def _extent(one: float, other: float) -> Extent:
    return Extent(min(one, other), max(one, other))


# --- legs ---------------------------------------------------------------------------------------


def _absence(ranked: Ranked, leg: Leg, chunk: Chunk) -> tuple[str, str]:
    """Why a leg says nothing about a chunk: in full, and for narrow places."""
    state = ranked.pool.states.get(leg)
    if state is not None and state.status is not LegStatus.OK:
        why = words.leg_reason(state)
        pending = state.status is LegStatus.PENDING
        return why, why if pending else words.reason_words(state.reason)
    model = other_model(ranked, chunk) if leg is Leg.VECTOR else None
    why = "not found by this leg"
    if model is not None:
        why = f"its vector is of another model: {safe_line(model)}"
    return why, why


def _boost(part: LegScore, spell: Spell) -> str:
    """How the boosted text score came about: `1.000 = 0.951 + boost`; empty without a boost."""
    if part.text_score is None or part.text_score == part.mapped:
        return ""
    return f"{spell(part.mapped)} = {spell(part.text_score)} + boost"


def _leg_note(ranked: Ranked, chunk_id: str, leg: Leg, part: LegScore, spell: Spell) -> str:
    raw = raw_score(leg, part, spell)
    ranking = ranked.ranking
    if part.text_score is not None and ranking.fusion is Fusion.WEIGHTED_SUM:
        hits = ranked.pool.hits.get(Leg.KEYWORD, ())
        hit = next((hit for hit in hits if hit.chunk_id == chunk_id), None)
        raw = " → ".join(_text_steps(hit, part, part.text_score, raw, spell))
    elif ranking.fusion is Fusion.RELATIVE_SCORE:
        raw = f"min-max of {raw}"
    elif ranking.fusion is Fusion.RRF:
        raw = f"1/({words.short_number(ranking.rrf_k)} + {part.position}), {raw}"
    elif leg is Leg.KEYWORD and ranking.keyword_mapping is not ScoreMapping.GIVEN:
        raw = f"{words.MAPPING_WORDS[ranking.keyword_mapping]} {raw}"
    return f"{raw} ({safe_line(', '.join(part.terms))})" if part.terms else raw


def _text_steps(
    hit: LegHit | None, part: LegScore, text_score: float, raw: str, spell: Spell
) -> Iterator[str]:
    """From what the keyword leg found to the value that is weighted."""
    if hit is not None and not hit.has_body:
        yield "the path alone"
    else:
        yield "substrings, no bm25" if hit is not None and hit.score is not None else raw
        yield f"text score {spell(text_score)}"
    if hit is None or (part.mapped == text_score and hit.has_body):
        return
    if hit.has_body and part.mapped == hit.boosted:
        yield f"boosted {spell(part.mapped)}"
    elif part.mapped == hit.path_raw:
        yield f"path score {spell(part.mapped)}"
    else:
        yield f"counted as {spell(part.mapped)}"


# --- stages -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _At:
    """One stage of one chunk, and how its numbers are written."""

    ranked: Ranked
    stage: StageScore
    lost: bool
    spell: Spell

    def real(self, name: str) -> float:
        value = self.stage.numbers.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    def number(self, name: str) -> str:
        return self.spell.number(self.real(name))

    def score(self, name: str) -> str:
        return self.spell(self.real(name))

    @property
    def factor(self) -> str:
        return f"× {self.spell(1.0 if self.stage.operand is None else self.stage.operand)}"

    def step(self, sign: str, formula: str, note: str = "", brief: str = "") -> ScoreStep:
        stage = self.stage
        extent = None
        if stage.operation in (Operation.MULTIPLY, Operation.SUBTRACT):
            extent = _extent(stage.before, stage.after)
        elif stage.operation is not Operation.KEEP and stage.after > 0:
            extent = Extent(0.0, stage.after)
        return ScoreStep(
            stage.stage, sign, stage.after, stage.rank, formula, note, brief or note, extent,
            self.lost,
        )  # fmt: skip

    def replaced(self, note: str, formula: str = "", brief: str = "") -> ScoreStep:
        return self.step("→", formula or self.spell(self.stage.after), note, brief)


def _fusion(at: _At) -> ScoreStep:
    alone = at.ranked.ranking.search_mode is not SearchMode.HYBRID
    return at.step("=", "one leg alone" if alone else words.FUSION_WORDS[at.ranked.ranking.fusion])


def _multiplied(at: _At) -> ScoreStep:
    reason = at.stage.reason
    return at.step("×", at.factor, words.reason_words(reason) if reason is not Reason.OK else "")


def _decay(at: _At) -> ScoreStep:
    source = words.reason_words(at.stage.reason)
    if at.stage.numbers.get("age_days") is None:
        return at.step("×", at.factor, source, source.partition(",")[0])
    age = words.days(at.real("age_days"))
    power = (
        f"2^({MINUS}{words.short_number(max(0.0, at.real('age_days')), 1)} d"
        f" / {at.number('half_life_days')} d)"
    )
    if at.real("floor") > 0:
        power = f"{at.number('floor')} + (1 {MINUS} {at.number('floor')}) × {power}"
    note = f"= {power}, {at.stage.numbers.get('date')}, {source}, {age}"
    return at.step("×", at.factor, note, f"{source}, {age}")


def _rerank(at: _At) -> ScoreStep:
    formula = (
        f"{at.number('relevance_weight')} × {at.spell(at.stage.before)}/{at.score('maximum')}"
        f" + {at.number('recency_weight')} × {at.number('recency')}"
        f" + {at.number('importance_weight')} × {at.number('importance')}"
    )
    return at.step("→", formula, "relevance + recency + importance")


def _dedup(at: _At) -> ScoreStep | None:
    if not at.lost:
        return None
    twin = place_of(at.ranked, at.stage.numbers.get("duplicate_of"))
    return at.step("", "same text", f"as {twin}")


def _min_score(at: _At) -> ScoreStep:
    relaxed = at.stage.reason is Reason.RELAXED
    sign = "<" if at.lost or relaxed else "≥"
    note = words.reason_words(at.stage.reason) if at.lost or relaxed else ""
    return at.step("", f"{at.spell(at.stage.after)} {sign} {at.number('min_score')}", note)


def _mmr(at: _At) -> ScoreStep:
    similarity, lambda_ = at.number("max_similarity"), at.number("lambda")
    if at.stage.operation is Operation.REPLACE:
        return at.step("→", f"{MINUS}{similarity} alike", "variety only: relevance is ignored")
    formula = f"{MINUS} {at.spell(at.stage.operand or 0.0)}"
    twin = at.stage.numbers.get("similar_to")
    if twin is None:
        first = at.stage.reason is Reason.FIRST
        nothing = words.reason_words(Reason.FIRST) if first else "nothing alike"
        return at.step(MINUS, formula, nothing, "nothing alike")
    like = place_of(at.ranked, twin)
    note = f"= (1 {MINUS} {lambda_})/{lambda_} × {at.score('span')} span × {similarity} like {like}"
    return at.step(MINUS, formula, note, f"{similarity} like {like}")


def _identity(at: _At) -> ScoreStep | None:
    """What an exact name or a substring match is ranked by in place of its score."""
    if at.stage.reason is Reason.SUBSTRING_ONLY:
        note = "no BM25 value: ranked by the words found"
        return at.replaced(note, brief="no BM25 value")
    if at.stage.reason is not Reason.EXACT_PATH:
        return None
    if not at.ranked.ranking.decay.enabled:
        return at.replaced("an exact name is ranked by its content")
    # The release counts the content as 0 where only the name was found: read it off the result.
    return at.replaced("half name, half content", f"(1 + {at.spell(2 * at.stage.after - 1)})/2")


def _tiers(at: _At) -> ScoreStep | None:
    """Exact names go before everything else, whatever they score."""
    if at.stage.reason is Reason.SUBSTRING_ONLY:
        shown = f"shown as {at.spell(at.stage.after)}, ranked by {at.score('ranked_by')}"
        return at.replaced(f"no BM25 value: {shown}", brief="no BM25 value")
    if at.stage.reason is not Reason.EXACT_PATH:
        return None
    which = _TIER_WORDS.get(int(at.real("tier")), "its name")
    return at.replaced(f"exact names first: {which}", brief=which)


def _exact_path(at: _At) -> ScoreStep | None:
    """The score that an exact name is shown with, and compared with the minimum."""
    if at.stage.reason is not Reason.EXACT_PATH:
        return None
    return at.replaced(f"for an exact name; ranked by {at.score('ranked_by')}")


def _cut(at: _At) -> ScoreStep | None:
    k = at.stage.numbers.get("k")
    return at.step("", f"rank {at.stage.rank} > k {k}") if at.lost else None


_STAGES: Mapping[Stage, Callable[[_At], ScoreStep | None]] = {
    Stage.FUSION: _fusion,
    Stage.IDENTITY: _identity,
    Stage.IMPORTANCE: _multiplied,
    Stage.PROJECT: _multiplied,
    Stage.TIERS: _tiers,
    Stage.DECAY: _decay,
    Stage.RERANK: _rerank,
    Stage.DEDUP: _dedup,
    Stage.MIN_SCORE: _min_score,
    Stage.MMR: _mmr,
    Stage.EXACT_PATH: _exact_path,
    Stage.CUT: _cut,
}


# --- the stacked bar ----------------------------------------------------------------------------


def bar_parts(scored: Hit | Drop) -> dict[str, float]:
    """Read the parts of a score bar off the legs and the stages of a result, from left to right.

    In the unit of the fused score, none below 0: `vector` and `keyword` by the legs and `gain` by
    stages after fusion, which together are the effective score (when that is above 0); then what
    `mmr`, `decay` and other stages (`loss`) took. Multiplying stages shrink all legs alike,
    subtracting ones eat from the right. No score is computed here: every length is a contribution
    or a difference of a stage's before and after.
    """
    left = {leg.value: 0.0 for leg in LEGS} | {"gain": 0.0}
    for leg, part in scored.legs.items():
        left[leg.value] = max(0.0, part.contribution)
    losses = {"mmr": 0.0, "decay": 0.0, "loss": 0.0}
    for stage in scored.stages:
        # A stage that keeps the score goes on from the score before MMR; and at lambda 0 the
        # effective score of MMR is no score. Neither has a length.
        at_lambda_0 = stage.stage is Stage.MMR and stage.operation is Operation.REPLACE
        if stage.operation is Operation.KEEP or at_lambda_0:
            continue
        total, target = sum(left.values()), max(0.0, stage.after)
        if target >= total:
            left["gain"] += target - total
            continue
        excess = total - target
        losses[stage.stage.value if stage.stage.value in losses else "loss"] += excess
        if stage.operation is not Operation.SUBTRACT:
            left = {name: length * (target / total) for name, length in left.items()}
            continue
        for name in ("gain", "keyword", "vector"):
            eaten = min(left[name], excess)
            left[name] -= eaten
            excess -= eaten
    return left | losses


def part_cells(scored: Hit | Drop, width: int, scale: float) -> list[tuple[str, int]]:
    """Return how many of `width` cells each part fills; a score of `scale` fills all of them."""
    cells: list[tuple[str, int]] = []
    filled, end = 0, 0.0
    for name, length in bar_parts(scored).items():
        end += length
        count = max(0, min(width, round(end / scale * width)) - filled)
        cells.append((name, count))
        filled += count
    return cells


def bar_scale(results: Iterable[Hit | Drop]) -> float:
    """Return the score that fills a bar: 1, or the longest one when all are short or one longer."""
    longest = max((sum(bar_parts(result).values()) for result in results), default=1.0)
    return 1.0 if 0.5 <= longest <= 1.0 or longest <= 0 else longest
