"""The parameters of a ranking, the candidates that the legs return, and the ranked list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.model.chunks import Chunk
from memtui.model.reasons import Leg, Numbers, Reason, Stage


class Fusion(StrEnum):
    """The method that makes one score of the legs' scores."""

    WEIGHTED_SUM = "weighted_sum"
    RELATIVE_SCORE = "relative_score"
    RRF = "rrf"


class ScoreMapping(StrEnum):
    """The function from a raw BM25 value to a score: `given` means that it already is one."""

    CLAMP = "clamp"
    SIGNED = "signed"
    GIVEN = "given"


NATIVE_STAGES = (
    Stage.FUSION,
    Stage.CONTEXT,
    Stage.DECAY,
    Stage.RERANK,
    Stage.DEDUP,
    Stage.MIN_SCORE,
    Stage.MMR,
    Stage.CUT,
)
"""memtui's own order: nothing that is going to be dropped can push another result down."""


class DateRule(StrEnum):
    """The rule for a chunk's date; OpenClaw's rules by the release that brought them."""

    MEMTUI = "memtui"
    OPENCLAW_2026_2 = "openclaw-2026.2"
    OPENCLAW_2026_4 = "openclaw-2026.4"
    OPENCLAW_2026_8 = "openclaw-2026.8"


class MinScoreRule(StrEnum):
    """The treatment of hits below the minimum score (by OpenClaw release)."""

    PLAIN = "plain"
    RELAXED = "relaxed"
    FILL = "fill"


class SearchMode(StrEnum):
    """The legs that rank: both, or one alone with weight 1; or neither, for filters alone."""

    HYBRID = "hybrid"
    KEYWORD_ONLY = "keyword_only"
    VECTOR_ONLY = "vector_only"
    FILTERS_ONLY = "filters_only"


class TieRule(StrEnum):
    """The order of equal scores: by path and line, or what other programs do.

    Those keep the order so far (memini), that of the legs (OpenClaw up to 2026.7), or sort by path
    and line as `localeCompare` does (2026.9).
    """

    PLACE = "place"
    STABLE = "stable"
    LEG_ORDER = "leg_order"
    LOCATION = "location"


class Decay(Struct, frozen=True):
    """Temporal decay: factor = floor + (1 - floor) * 2^(-age_days / half_life_days)."""

    enabled: bool = False
    half_life_days: float = 30.0
    floor: float = 0.0
    dates: DateRule = DateRule.MEMTUI


class Rerank(Struct, frozen=True):
    """Composite rerank: w_rel * score / max + w_rec * exp(-age / scale) + w_imp * importance."""

    enabled: bool = False
    relevance: float = 0.80
    recency: float = 0.05
    importance: float = 0.15
    recency_scale_days: float = 7.0


class Mmr(Struct, frozen=True):
    """Maximal marginal relevance over Jaccard similarity of snippet tokens."""

    enabled: bool = False
    lambda_: float = 0.7
    """0 to 1; 1 is relevance alone, 0 is variety alone."""
    empty_similarity: str = "one"
    """Two texts without tokens: `one` (alike) or `text` (alike only when equal)."""


class Evidence(StrEnum):
    """The parts of an index that the features of passages are made of; each has its own weights."""

    WORD_PIECES = "word_pieces"
    VECTORS = "vectors"
    WORDS = "words"


class Context(Struct, frozen=True):
    """Passages ranked in their context: a chunk scores the best sum of weight * feature, 0 to 1.

    A weight that is `None` is that of `data/context.toml` for what the index holds.
    """

    enabled: bool = True
    chunk: float | None = None
    """The fused score of the chunk."""
    keyword: float | None = None
    """The keyword match of the passage: BM25 with b 0.2, as a part of what it can be."""
    cover: float | None = None
    """The share of the query's rarity that the passage covers."""
    near_cover: float | None = None
    """The same, of the passage and its neighbours."""
    two_away: float | None = None
    """The mean keyword match two passages before and behind."""
    word_pieces: float | None = None
    """MaxSim: each word of the query by its nearest word piece, weighted by its rarity."""
    near_word_pieces: float | None = None
    """The same, of the passage and two before and behind."""
    reply: float | None = None
    """In dialogue: the keyword match of the line before, where that is a question."""
    speaker: float | None = None
    """In dialogue: 1 where the query names who speaks."""
    time: float | None = None
    """In dialogue: 1 for a line that names a time, where the query asks when."""
    question: float | None = None
    """In dialogue: 1 for a line that is a question."""
    date: float | None = None
    """In dialogue: 1 where the query names the day of the file, 0.5 where its month alone."""


FEATURES = Context.__struct_fields__[1:]
"""The names of the features in the order in which their shares are added up."""

HIGHEST_MINIMUM: Final = 50.0
"""The highest minimum score: scores end at 1, and in context at the sum of its weights."""


class Ranking(Struct, frozen=True):
    """Everything that changes an order and needs no I/O."""

    profile: str = "memtui"
    stages: tuple[Stage, ...] = NATIVE_STAGES
    k: int = 6
    candidate_multiplier: int = 4
    min_candidates: int = 50
    max_candidates: int = 200
    fusion: Fusion = Fusion.RELATIVE_SCORE
    vector_weight: float = 0.3
    keyword_weight: float = 0.7
    keyword_mapping: ScoreMapping = ScoreMapping.SIGNED
    rrf_k: float = 5.0
    context: Context = Context()
    decay: Decay = Decay()
    rerank: Rerank = Rerank()
    dedup: bool = False
    min_score: float | None = None
    min_score_rule: MinScoreRule = MinScoreRule.PLAIN
    mmr: Mmr = Mmr()
    importance_multiplier: bool = False
    """Fused score times 0.75 + 0.05 * importance (OpenClaw 2026.9)."""
    project_keys: tuple[str, ...] = ()
    """The active project keys; empty turns the project multiplier off."""
    search_mode: SearchMode = SearchMode.HYBRID
    lexical_boost: bool = False
    """The keyword leg's boosted score is weighted where there is one (OpenClaw)."""
    relaxed_min_score: float | None = None
    """The minimum of keyword hits when nothing reaches the other; `None`: the lower of the minimum
    and the keyword weight."""
    tie_rule: TieRule = TieRule.PLACE
    media_keeps_vector: bool = False
    """A vector-only hit on a file that is not text keeps its whole vector score (2026.9)."""

    @property
    def candidates(self) -> int:
        """The number of hits of each leg that take part in the ranking."""
        product = max(1, int(self.k * self.candidate_multiplier))
        return max(self.min_candidates, min(self.max_candidates, product))


def value_at(values: Struct, key: str) -> Any:
    """Return a value of a ranking, or of its settings, by its key: `k`, `mmr.lambda`."""
    # A word of Python is no attribute.
    return attrgetter(key.replace("lambda", "lambda_"))(values)


def with_value(ranking: Ranking, key: str, value: Any) -> Ranking:
    """Return a ranking with another value at such a key."""
    part, dot, name = key.replace("lambda", "lambda_").partition(".")
    changed = replace(getattr(ranking, part), **{name: value}) if dot else value
    return replace(ranking, **{part: changed})


class LegHit(Struct, frozen=True):
    """A chunk that a leg found.

    `raw` is SQLite's `bm25()` (lower is better, usually negative) for the keyword leg and the
    cosine (-1 to 1) for the vector leg; `position` is 0-based within the leg.
    """

    chunk_id: str
    position: int
    raw: float
    terms: tuple[str, ...] = ()
    """Keyword leg only: the query terms the chunk holds, as the query spells them."""
    path_raw: float | None = None
    """Score of a match on the path, where a profile uses one; 0 to 1."""
    path_tier: int = 0
    """3 full path, 2 file name, 1 stem, 0 none: how exactly the query names the file."""
    score: float | None = None
    """Keyword leg: the text score where there is no BM25 value, as of a substring match."""
    boosted: float | None = None
    """Keyword leg: the text score with the release's lexical boost, the best of all keywords."""
    share: float = 0.0
    """Keyword leg: the share of the query's words that the chunk holds; stop words do not count."""
    has_body: bool = True
    """False for a chunk that was found by its path alone."""


class LegStatus(StrEnum):
    OK = "ok"
    SKIPPED = "skipped"
    PENDING = "pending"
    FAILED = "failed"


class LegState(Struct, frozen=True):
    status: LegStatus
    reason: Reason = Reason.OK
    detail: str = ""
    elapsed_ms: float = 0.0
    facts: Numbers = {}
    """Keyword: `match`, `pruned`, `passing`; vector: `backend`, `model`, `searched`; and more."""


class PassageFeatures(Struct, frozen=True, gc=False):
    """A passage of a chunk for one query: the characters that it has of the text."""

    start: int
    end: int
    values: tuple[float, ...]
    """Its `FEATURES` but for the first, which is the chunk's; 0 to 1."""


class CandidatePool(Struct, frozen=True, eq=False):
    """All that ranking may look at for one query, ranked many times; equal to itself alone."""

    query: str
    chunks: Mapping[str, Chunk]
    hits: Mapping[Leg, tuple[LegHit, ...]]
    """Best first; `hits[leg][i].position == i`. Both legs are always keys, of `states` as well."""
    states: Mapping[Leg, LegState]
    limit: int
    """Number of hits that were asked of each leg."""
    sized: bool = False
    """The legs chose their candidates by a release's own rule for this `limit`: none is cut."""
    search_mode: SearchMode = SearchMode.HYBRID
    """The legs that could search at all, on which the ranking of an OpenClaw release depends."""
    typing: bool = False
    """The query was asked as one still being typed: its last word finds longer ones, too."""
    passages: Mapping[str, tuple[PassageFeatures, ...]] = {}
    """Of each chunk, in the order of the text; empty where the index keeps none."""
    evidence: Evidence = Evidence.WORDS
    """The parts of the index that the features are made of."""
    pieces_due: int = 0
    """The chunks whose word pieces are still to be made: a better answer follows."""
    generation: int = 0
    elapsed_ms: float = 0.0

    @property
    def is_scored(self) -> bool:
        """True where words found the candidates: filters alone list them, without a score."""
        return self.search_mode is not SearchMode.FILTERS_ONLY

    @property
    def total(self) -> int:
        """The candidates; of filters alone all chunks that pass, of which those are the newest."""
        passing = self.states[Leg.KEYWORD].facts.get("passing")
        return int(passing or 0) if not self.is_scored else len(self.chunks)


class LegScore(Struct, frozen=True):
    """One leg's part in a fused score: contribution = weight * mapped."""

    raw: float
    mapped: float
    weight: float
    contribution: float
    position: int
    terms: tuple[str, ...] = ()
    text_score: float | None = None
    """Keyword leg: the mapped BM25 value before any lexical boost; `None` where none was added."""


class Operation(StrEnum):
    """The arithmetic of a stage, so that a reader can repeat it."""

    SUM = "sum"
    MULTIPLY = "multiply"
    SUBTRACT = "subtract"
    REPLACE = "replace"
    KEEP = "keep"


class StageScore(Struct, frozen=True):
    """The effect of one stage on one chunk.

    `after` is `before` with `operation` and `operand` applied, to the last bit: `multiply`
    before * operand, `subtract` before - operand, `replace` operand, `keep` before, `sum` the
    sum of the leg contributions in the order vector, keyword, or of the shares of context in the
    order of `FEATURES`. `rank` is 1-based after the stage;
    what it drops ranks behind what it leaves.
    """

    stage: Stage
    before: float
    after: float
    operation: Operation
    operand: float | None
    rank: int
    reason: Reason = Reason.OK
    numbers: Numbers = {}

    @property
    def gain(self) -> float:
        """The change of a score; 0 where it is kept, or is another one than before."""
        is_change = self.operation in (Operation.MULTIPLY, Operation.SUBTRACT)
        return self.after - self.before if is_change else 0.0


def effective_scores(stages: Sequence[StageScore]) -> Iterator[float]:
    """Yield the effective score after each stage: what a list shows.

    What MMR took stays taken behind it. At λ 0 it gives an order and no score, and the score stays.
    """
    effective = 0.0
    for stage in stages:
        is_replaced = stage.operation is Operation.REPLACE
        is_other = is_replaced and (stage.stage is Stage.MMR or stage.reason is Reason.OK)
        if stage.operation is not Operation.KEEP and not is_other:
            effective = stage.after
        yield effective


class Hit(Struct, frozen=True):
    """A chunk in the result list."""

    chunk: Chunk
    rank: int
    score: float
    """After fusion, decay and rerank; what the profile's own program reports."""
    effective: float
    """`score` less the MMR penalty in the same unit, shown and drawn by the bar; `score` at λ 0."""
    legs: Mapping[Leg, LegScore]
    stages: tuple[StageScore, ...]

    @property
    def gained(self) -> int:
        """Places gained (above 0) or lost between fusion and the final list."""
        return self.stages[0].rank - self.rank if self.stages else 0


class Drop(Struct, frozen=True):
    """A chunk of the pool that is not in the result list, where it was lost and why."""

    chunk: Chunk
    stage: Stage
    reason: Reason
    score: float
    """Its score when it was lost; 0 when it never had one."""
    legs: Mapping[Leg, LegScore]
    stages: tuple[StageScore, ...]
    """The stages it went through before it was lost, and the one that lost it."""
    numbers: Numbers = {}

    @property
    def effective(self) -> float:
        """Its effective score when it was lost, as that of a hit."""
        return list(effective_scores(self.stages))[-1] if self.stages else self.score


class StageTrace(Struct, frozen=True):
    """The effect of one stage on the whole list: `order` has the chunk ids after it, best first."""

    stage: Stage
    active: bool
    order: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    numbers: Numbers = {}


class Trace(Struct, frozen=True):
    """The record of how a result list came about."""

    now: datetime
    stages: tuple[StageTrace, ...]


class Ranked(Struct, frozen=True):
    """A result list, its near misses and its trace; `drops` best first by stage and score."""

    pool: CandidatePool
    ranking: Ranking
    hits: tuple[Hit, ...]
    drops: Sequence[Drop]
    trace: Trace
    elapsed_ms: float = 0.0

    @property
    def ranks(self) -> dict[str, int]:
        """The 1-based rank of each chunk of the list, best first."""
        return {hit.chunk.id: hit.rank for hit in self.hits}
