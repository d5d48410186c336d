"""The values that travel between the parts of memtui: frozen, typed, without behaviour of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any


class Leg(StrEnum):
    """A way of finding candidates."""

    VECTOR = "vector"
    KEYWORD = "keyword"


class Stage(StrEnum):
    """A step of the ranking pipeline; the order in which they run is `Ranking.stages`."""

    FUSION = "fusion"
    BOOST = "boost"
    DECAY = "decay"
    RERANK = "rerank"
    DEDUP = "dedup"
    MIN_SCORE = "min_score"
    MMR = "mmr"
    EXACT_PATH = "exact_path"
    CUT = "cut"


class Reason(StrEnum):
    """The closed set of reason codes: why a file, a leg, a chunk or a stage is as it is."""

    OK = "ok"
    # files that are not indexed
    SYMLINK = "symlink"
    IGNORED = "ignored"
    NOT_REGULAR = "not_regular"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    DUPLICATE_FILE = "duplicate_file"
    OUTSIDE_ROOT = "outside_root"
    VANISHED = "vanished"
    # legs that were not asked, or could not answer
    EMPTY_QUERY = "empty_query"
    ONLY_STOP_WORDS = "only_stop_words"
    NO_TERMS = "no_terms"
    QUERY_TOO_SHORT = "query_too_short"
    ZERO_QUERY_VECTOR = "zero_query_vector"
    SCRIPT_NOT_SUPPORTED = "script_not_supported"
    DISABLED = "disabled"
    NO_INDEX = "no_index"
    NO_VECTORS = "no_vectors"
    PENDING = "pending"
    PROVIDER_FAILED = "provider_failed"
    DIMENSIONS_DIFFER = "dimensions_differ"
    INDEX_FAILED = "index_failed"
    EXTENSION_MISSING = "extension_missing"
    # where the date of a chunk came from
    FILE_NAME = "file_name"
    FRONT_MATTER = "front_matter"
    FILE_TIME = "file_time"
    EVERGREEN = "evergreen"
    # chunks that were dropped
    OUTSIDE_CANDIDATES = "outside_candidates"
    DUPLICATE_TEXT = "duplicate_text"
    BELOW_MIN_SCORE = "below_min_score"
    CUT_AT_K = "cut_at_k"
    OTHER_PROJECT = "other_project"
    # what a stage did
    OFF = "off"
    RELAXED = "relaxed"
    EXACT_PATH = "exact_path"
    REDUNDANT = "redundant"
    FIRST = "first"


Numbers = Mapping[str, float | int | str | None]


# --- files and chunks -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that discovery found; `path` is relative to the workspace root with `/` separators."""

    path: str
    absolute: Path
    source: str
    size: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file or folder that discovery left out, and why."""

    path: str
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read: decoded text, sha256 of its UTF-8 form, its own date if it has one."""

    file: SourceFile
    text: str
    hash: str
    day: date | None
    day_from: Reason | None
    """`FILE_NAME` or `FRONT_MATTER`; `None` when the document has no date of its own."""
    importance: float | None
    """`importance` of the front matter, 0 to 1 (values above 1 are read as 1 to 10)."""
    warnings: tuple[str, ...] = ()
    """One line each: undecodable bytes replaced, NUL bytes found."""


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A piece of a document as the chunker cut it; lines are 1-based and inclusive."""

    start_line: int
    end_line: int
    text: str
    hash: str
    """sha256 hex of `text`."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document as the index holds it; lines are 1-based and inclusive."""

    id: str
    """sha256 hex of `source:path:start_line:end_line:hash:model`."""
    path: str
    source: str
    start_line: int
    end_line: int
    text: str
    hash: str
    model: str
    day: date | None = None
    day_from: Reason | None = None
    mtime_ns: int = 0
    importance: float | None = None
    project_keys: tuple[str, ...] = ()
    snippet: str | None = None
    """The text MMR compares; `None` means the first 700 UTF-16 units of `text`."""


def citation(path: str, start_line: int, end_line: int) -> str:
    """Name a place as `path#L12` or `path#L12-L31`."""
    lines = f"#L{start_line}" if start_line == end_line else f"#L{start_line}-L{end_line}"
    return path + lines


# --- what the legs return ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegHit:
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
    """Score of a match on the path alone, where a profile uses one."""
    path_tier: int = 0
    """3 full path, 2 file name, 1 stem, 0 none: how exactly the query names the file."""


class LegStatus(StrEnum):
    """Whether a leg answered."""

    OK = "ok"
    SKIPPED = "skipped"
    PENDING = "pending"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LegState:
    """How a leg answered one query."""

    status: LegStatus
    reason: Reason = Reason.OK
    detail: str = ""
    elapsed_ms: float = 0.0
    facts: Numbers = field(default_factory=dict)
    """Keyword: `match`, `pruned`, `stop_words`; vector: `backend`, `provider`, `model`, `searched`."""


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Everything that ranking may look at for one query; fetched once, ranked many times."""

    query: str
    chunks: Mapping[str, Chunk]
    hits: Mapping[Leg, tuple[LegHit, ...]]
    """Best first; `hits[leg][i].position == i`. Both legs are always present as keys."""
    states: Mapping[Leg, LegState]
    limit: int
    """How many hits were asked of each leg."""
    generation: int = 0
    elapsed_ms: float = 0.0
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What ranking computed from the pool alone (token overlap, dates), kept for the next ranking."""


# --- how to rank ------------------------------------------------------------------------------


class Fusion(StrEnum):
    """How the legs' scores become one."""

    WEIGHTED_SUM = "weighted_sum"
    RELATIVE_SCORE = "relative_score"
    RRF = "rrf"


class ScoreMapping(StrEnum):
    """How a raw BM25 value becomes a score: `given` means that it already is one."""

    CLAMP = "clamp"
    SIGNED = "signed"
    GIVEN = "given"


NATIVE_STAGES = (
    Stage.FUSION,
    Stage.DECAY,
    Stage.RERANK,
    Stage.DEDUP,
    Stage.MIN_SCORE,
    Stage.MMR,
    Stage.CUT,
)
"""memtui's own order: nothing that is going to be dropped can push another result down."""


class DateRule(StrEnum):
    """How a chunk's date is found; the OpenClaw rules are those of releases 2026.2-7 and 2026.8+."""

    MEMTUI = "memtui"
    OPENCLAW_2026_2 = "openclaw-2026.2"
    OPENCLAW_2026_8 = "openclaw-2026.8"


class MinScoreRule(StrEnum):
    """What happens to hits below the minimum score (by OpenClaw release)."""

    PLAIN = "plain"
    RELAXED = "relaxed"
    FILL = "fill"


@dataclass(frozen=True, slots=True)
class Decay:
    """Temporal decay: factor = floor + (1 - floor) * 2^(-age_days / half_life_days)."""

    enabled: bool = False
    half_life_days: float = 30.0
    floor: float = 0.0
    dates: DateRule = DateRule.MEMTUI


@dataclass(frozen=True, slots=True)
class Rerank:
    """Composite rerank: w_rel * score / max + w_rec * exp(-age / scale) + w_imp * importance."""

    enabled: bool = False
    relevance: float = 0.80
    recency: float = 0.05
    importance: float = 0.15
    recency_scale_days: float = 7.0


@dataclass(frozen=True, slots=True)
class Mmr:
    """Maximal marginal relevance over Jaccard similarity of snippet tokens."""

    enabled: bool = False
    lambda_: float = 0.7
    """0 to 1; 1 is relevance alone, 0 is variety alone."""
    empty_similarity: str = "one"
    """Two texts without tokens: `one` (alike) or `text` (alike only when equal)."""


@dataclass(frozen=True, slots=True)
class Ranking:
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
    media_keeps_vector: bool = False
    """A vector-only hit on a file that is not text keeps its whole vector score (2026.9)."""

    @property
    def candidates(self) -> int:
        """How many hits of each leg take part in the ranking."""
        wanted = max(1, self.k * self.candidate_multiplier)
        return max(self.min_candidates, min(self.max_candidates, wanted))


# --- what ranking returns ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegScore:
    """One leg's part in a fused score: contribution = weight * mapped."""

    raw: float
    mapped: float
    weight: float
    contribution: float
    position: int
    terms: tuple[str, ...] = ()


class Operation(StrEnum):
    """What a stage does with a score, so that a reader can repeat it."""

    SUM = "sum"
    MULTIPLY = "multiply"
    SUBTRACT = "subtract"
    REPLACE = "replace"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class StageScore:
    """What one stage did to one chunk.

    `after` is `before` with `operation` and `operand` applied, to the last bit: `multiply`
    before * operand, `subtract` before - operand, `replace` operand, `keep` before, `sum` the
    sum of the leg contributions in the order vector, keyword. `rank` is 1-based after the stage.
    """

    stage: Stage
    before: float
    after: float
    operation: Operation
    operand: float | None
    rank: int
    reason: Reason = Reason.OK
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk in the result list."""

    chunk: Chunk
    rank: int
    score: float
    """After fusion, decay and rerank; what the profile's own program reports."""
    effective: float
    """`score` less the MMR penalty in the same unit: falls from row to row, drawn by the bar."""
    legs: Mapping[Leg, LegScore]
    stages: tuple[StageScore, ...]

    @property
    def citation(self) -> str:
        """The place in the source file, as `path#L12-L31`."""
        return citation(self.chunk.path, self.chunk.start_line, self.chunk.end_line)


@dataclass(frozen=True, slots=True)
class Drop:
    """A chunk of the pool that is not in the result list, where it was lost and why."""

    chunk: Chunk
    stage: Stage
    reason: Reason
    score: float
    """Its score when it was lost; 0 when it never had one."""
    legs: Mapping[Leg, LegScore]
    stages: tuple[StageScore, ...]
    """The stages it went through before it was lost, and the one that lost it."""
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageTrace:
    """What one stage did to the whole list: `order` holds the chunk ids after it, best first."""

    stage: Stage
    active: bool
    order: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trace:
    """How a result list came about."""

    query: str
    now: datetime
    stages: tuple[StageTrace, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A result list, its near misses and its trace; `drops` best first by stage and score."""

    pool: CandidatePool
    ranking: Ranking
    hits: tuple[Hit, ...]
    drops: Sequence[Drop]
    trace: Trace
    elapsed_ms: float = 0.0


# --- the index --------------------------------------------------------------------------------


class IndexState(StrEnum):
    """The one word that says how the index is."""

    READY = "ready"
    INDEXING = "indexing"
    STALE = "stale"
    DEGRADED = "degraded"
    ERROR = "error"
    NO_INDEX = "no_index"


@dataclass(frozen=True, slots=True)
class SyncStats:
    """What a sync did; counts of files and chunks, time in seconds."""

    rebuild: bool
    finished_at: datetime
    seconds: float
    files_seen: int
    files_added: int
    files_changed: int
    files_removed: int
    files_skipped: int
    chunks_written: int
    chunks_embedded: int
    cache_hits: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running sync is; `eta` in seconds, `None` until it can be told."""

    phase: str
    done: int
    total: int
    rate: float
    eta: float | None
    current: str = ""


@dataclass(frozen=True, slots=True)
class ProviderState:
    """Which embedding provider was asked for, which one answers, and why they differ."""

    requested: str
    actual: str | None
    model: str | None
    dimensions: int | None
    state: Reason = Reason.OK
    detail: str = ""
    remote: bool = False


@dataclass(frozen=True, slots=True)
class WatcherState:
    """How changes are noticed: `events`, `polling` or `off`."""

    mode: str
    detail: str = ""
    last_event: datetime | None = None


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Something that went wrong, when and where."""

    at: datetime
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class SourceCount:
    """How much of one source the index holds."""

    source: str
    files: int
    chunks: int


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """A snapshot of the index and everything that keeps it up to date."""

    state: IndexState
    root: str
    index_dir: str
    generation: int
    files: int
    chunks: int
    vectors: int
    sources: tuple[SourceCount, ...]
    pending: tuple[str, ...]
    """Files whose change is seen and not yet indexed, at most 200 names."""
    pending_count: int
    skipped: tuple[SkippedFile, ...]
    provider: ProviderState
    vector_backend: str
    tokenizer: str
    watcher: WatcherState
    writer: str
    """`this process`, `process 1234`, or `none`."""
    last_sync: SyncStats | None
    progress: Progress | None
    cache_hits: int
    cache_misses: int
    errors: tuple[ErrorRecord, ...]
    warnings: tuple[str, ...] = ()
