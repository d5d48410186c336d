"""The values that travel between the parts of memtui: frozen, typed, without behaviour."""

from memtui.model.chunks import EPOCH, Chunk, ChunkSpan, Document, SkippedFile, SourceFile, citation
from memtui.model.rankings import (
    CandidatePool,
    DateRule,
    Decay,
    Drop,
    Fusion,
    Hit,
    LegHit,
    LegScore,
    LegState,
    LegStatus,
    MinScoreRule,
    Mmr,
    Operation,
    Ranked,
    Ranking,
    Rerank,
    ScoreMapping,
    SearchMode,
    StageScore,
    StageTrace,
    TieRule,
    Trace,
    effective_scores,
)
from memtui.model.reasons import Failure, Leg, Numbers, Reason, Stage
from memtui.model.status import (
    ErrorRecord,
    FileState,
    IndexState,
    IndexStatus,
    ProbeResult,
    Progress,
    ProviderListing,
    ProviderState,
    SourceCount,
    SyncStats,
    Usage,
    WatcherState,
)
