"""The state of an index, of its files, its vectors and their provider, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from memtui.model.chunks import EPOCH, SkippedFile
from memtui.model.reasons import Failure, Reason


class FileState(StrEnum):
    """The state of a file of the memory in the index, from the best to the worst."""

    CURRENT = "current"
    STALE = "stale"
    """Indexed, and changed since."""
    ORPHAN = "orphan"
    """In the index, and no longer on disk or no longer part of the memory."""
    NEVER_INDEXED = "never_indexed"
    SKIPPED = "skipped"
    """On disk, and left out by a rule."""
    ERROR = "error"
    """Cannot be read."""


class Severity(StrEnum):
    """The weight of a finding: `error` when searches are wrong or impossible."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


AgentGets = Literal["same", "keywords", "other", "nothing"]
"""The answer of the agent's own search: what memtui shows, hits of the keywords alone, the answer
of another index or program, or nothing at all."""


class IndexGeneration(StrEnum):
    """The layout of OpenClaw's index: where the tables are, and how vectors are written."""

    SIDECAR = "sidecar"
    """A file of its own for each agent, vectors as JSON text (up to 2026.5)."""
    AGENT = "agent"
    """Inside the agent's database, vectors as JSON text (2026.6 to 2026.8)."""
    AGENT_BLOB = "agent-blob"
    """Inside the agent's database, vectors as float64 blobs (2026.9)."""


class Identity(Struct, frozen=True):
    """The origin an index states (`memory_index_meta_v1`); `None`: not written there."""

    model: str | None = None
    provider: str | None = None
    provider_key: str | None = None
    sources: tuple[str, ...] | None = None
    scope_hash: str | None = None
    chunk_tokens: int | None = None
    chunk_overlap: int | None = None
    vector_dims: int | None = None
    fts_tokenizer: str | None = None
    chunking_version: int | None = None
    provenance_version: int | None = None
    present: bool = True
    """True if the row is there; without it the program pauses its search."""
    problems: tuple[str, ...] = ()
    """The parts that cannot be read, each in one line."""


class ForeignAgent(Struct, frozen=True):
    """An agent found on this machine and the index that its program would read."""

    name: str
    state_dir: Path
    database: Path | None = None
    generation: IndexGeneration | None = None
    workspace: Path | None = None
    provider: str | None = None
    model: str | None = None
    dimensions: int | None = None
    files: int = 0
    chunks: int = 0
    changed: datetime | None = None
    problem: str = ""
    """One line when the index is missing or cannot be read."""

    @property
    def made_by(self) -> str:
        """Provider and model of its vectors, as far as they are known; empty for neither."""
        return "/".join(part for part in (self.provider, self.model) if part)


class FileTruth(Struct, frozen=True):
    """One file, as it is on disk and as it is in the index."""

    path: str
    source: str
    state: FileState
    reason: str = ""
    """One line that says why."""
    cause: Reason = Reason.OK
    """The reason why it is not as it was indexed, as a code; `OK` when it is."""
    chunks: int = 0
    on_disk: datetime | None = None
    """The time of the file's last change."""
    in_index: datetime | None = None
    """The time of the indexed version's last change."""


class IdentityField(Struct, frozen=True):
    """One field of the index identity: what is stored, and what the configuration asks for."""

    name: str
    stored: str | None
    expected: str | None
    """`None` when it cannot be known here."""
    agrees: bool | None
    """`None` when one side is not known."""
    note: str = ""


class Finding(Struct, frozen=True):
    """Something about an index that a person should know."""

    code: str
    """A stable name that scripts can match; `memtui/data/openclaw-findings.toml` lists all."""
    severity: Severity
    message: str
    """One line: what, where, and what to do."""
    names: tuple[str, ...] = ()
    """The files, chunks or tables it is about; at most 200."""
    count: int = 0


class ModelShare(Struct, frozen=True):
    """The number of chunks with a vector of one model and size."""

    model: str
    dimensions: int
    """0: no vector."""
    chunks: int


class Coverage(Struct, frozen=True):
    """The indexed part of one source."""

    source: str
    on_disk: int | None
    """Files that belong to the source; `None` when they cannot be counted here."""
    indexed: int
    chunks: int


class Truth(Struct, frozen=True):
    """The content of an index, against what it should hold."""

    identity: tuple[IdentityField, ...]
    files: tuple[FileTruth, ...]
    findings: tuple[Finding, ...]
    """Errors before warnings before the rest."""
    models: tuple[ModelShare, ...]
    coverage: tuple[Coverage, ...]
    integrity: str
    """`ok`, or the first thing SQLite's quick check names."""
    vector_state: str
    """`complete`, `incomplete`, `empty`, `unverified` or `absent`."""
    database_read: str
    """The database that the program would read, and why where there is a choice."""
    leftovers: tuple[str, ...] = ()
    """Temporary, shadow, backup and lock files beside the index, with size and age."""

    @property
    def drifted(self) -> tuple[FileTruth, ...]:
        """The files that a sync would touch."""
        touched = {FileState.STALE, FileState.ORPHAN, FileState.NEVER_INDEXED}
        return tuple(file for file in self.files if file.state in touched)


class ForeignStatus(Struct, frozen=True):
    """The part of a status that only an index of another program has."""

    agent: str | None
    generation: IndexGeneration
    profile: str
    chosen_because: str
    opened: str
    """The way the file is read: `immutable`, `live`, …"""
    app_version: str | None
    query_vectors: str
    """The origin of a query's vector, or what it would need."""
    given_vectors: str | UnsetType = UNSET
    """The queries that a given file has vectors of, for people; in no document."""
    truth: Truth | None = None
    """`None` until the index was examined."""
    examining: bool = False
    agent_gets: AgentGets | None = None
    """The answer of the agent's own search just now; `None` where that is not known."""
    agent_gets_because: str = ""
    """The code of the finding that makes it another answer than the one shown here."""


class ProviderListing(Struct, frozen=True):
    """One provider that can be chosen, as far as a look tells that loads and asks nothing."""

    name: str
    summary: str
    """A few words for people."""
    remote: bool
    """True if it is a service: text leaves this program, for `address`."""
    works: bool
    """True if everything it needs is here: a package, a file, a key."""
    detail: str
    """One line: what was found, or what is missing."""
    hint: str = ""
    """The next step, where something is missing."""
    failure: Failure | None = None
    model: str | None = None
    """The model that it would use; `None` where its settings do not tell."""
    dimensions: int | None = None
    """`None` while only a first answer of the provider can tell."""
    address: str = ""
    """The host that text is sent to; empty when it stays in this program, or is not known yet."""
    is_requested: bool = False
    """True if the settings ask for it, by its name or by `auto`."""
    is_actual: bool = False
    """True if it answers now."""
    is_fallback: bool = False
    """True if it takes over when the requested one fails."""


class ProbeResult(Struct, frozen=True):
    """The outcome of asking a provider for the vector of one word."""

    name: str
    works: bool
    detail: str
    """One line: that it answers, or how it failed."""
    hint: str = ""
    failure: Failure | None = None
    milliseconds: float | None = None
    """Duration of the answer, without loading; `None` when there was none."""
    dimensions: int | None = None
    address: str = ""
    model: str | None = None


class IndexState(StrEnum):
    """The one word that says how the index is."""

    READY = "ready"
    INDEXING = "indexing"
    STALE = "stale"
    DEGRADED = "degraded"
    ERROR = "error"
    NO_INDEX = "no_index"


class Usage(Struct, frozen=True):
    """The requests, texts and tokens that a provider was asked for."""

    requests: int = 0
    texts: int = 0
    tokens: int = 0
    estimated: bool = False
    """True if some tokens were estimated by length, because an answer did not count them."""

    def plus(self, other: Usage, sign: int = 1) -> Usage:
        """Return both together; with a `sign` of -1 what came after the other."""
        return Usage(
            self.requests + sign * other.requests,
            self.texts + sign * other.texts,
            self.tokens + sign * other.tokens,
            self.estimated or other.estimated,
        )


class SyncStats(Struct):
    """The work of a sync, counted as it goes on; counts of files and chunks, time in seconds."""

    rebuild: bool = False
    finished_at: datetime = EPOCH
    seconds: float = 0.0
    files_seen: int = 0
    files_added: int = 0
    files_changed: int = 0
    files_removed: int = 0
    files_skipped: int = 0
    chunks_written: int = 0
    chunks_embedded: int = 0
    cache_hits: int = 0
    usage: Usage = Usage()
    """The requests to the provider."""


class Progress(Struct, frozen=True):
    """The progress of a running sync; `eta` in seconds, `None` until it can be told."""

    phase: str
    done: int
    total: int
    rate: float
    eta: float | None
    current: str = ""


class ProviderState(Struct, frozen=True):
    """The embedding provider that was asked for, the one that answers, and why they differ."""

    requested: str
    """The name in the settings, `auto` among them."""
    actual: str | None
    """The provider that answers; `None` when none does."""
    model: str | None
    dimensions: int | None
    state: Reason = Reason.OK
    """`fallback` when another than the requested one answers because that one failed."""
    detail: str = ""
    """One line: why `actual` is what it is; empty when there is nothing to tell."""
    remote: bool = False
    address: str = ""
    """The host that text is sent to; empty when it stays in this program."""
    failure: Failure | None = None
    """The failure of the requested provider, when it failed."""
    hint: str = ""
    """The remedy for the failure; `detail` ends with it."""

    @property
    def cause(self) -> str:
        """The reason why `actual` is what it is, without the next step."""
        return self.detail.removesuffix(f" ({self.hint})") if self.hint else self.detail

    def differs_from(self, made_by: str) -> bool:
        """Return whether vectors by `made_by` are known not to be those of the one that answers."""
        mine = f"{self.actual}/{self.model}" if self.actual and self.model else made_by
        return self.state is Reason.OK and bool(made_by) and made_by != mine


class WatcherState(Struct, frozen=True):
    """The way changes are noticed: `events`, `polling` or `off`."""

    mode: str
    detail: str = ""
    last_event: datetime | None = None


class ErrorRecord(Struct, frozen=True):
    """Something that went wrong, when and where."""

    at: datetime
    where: str
    message: str


class SourceCount(Struct, frozen=True):
    source: str
    files: int
    chunks: int


class IndexStatus(Struct, frozen=True, kw_only=True):
    """A snapshot of the index and everything that keeps it up to date."""

    state: IndexState = IndexState.NO_INDEX
    root: str = ""
    index_dir: str = ""
    generation: int = 0
    files: int = 0
    chunks: int = 0
    vectors: int = 0
    pieces: int = 0
    """The number of chunks whose word pieces have vectors in the index."""
    piece_bytes: int = 0
    sources: tuple[SourceCount, ...] = ()
    conversations: tuple[SourceCount, ...] = ()
    """Those that have chunks, by the names of their sources; `paths` for those of paths."""
    for_run: Mapping[str, str] = {}
    """The sources among these that are not as the settings say: on for this `run`, `off` for it, or
    on for that of an `other` memtui."""
    pending: tuple[str, ...] = ()
    """Files whose change is seen and not yet indexed, at most 200 names."""
    pending_count: int = 0
    removals: dict[str, str] = {}
    """The reason why a sync takes a file out of the index, by path; of `pending` the last ones."""
    skipped: tuple[SkippedFile, ...] = ()
    withheld: tuple[SkippedFile, ...] = ()
    """Chunks, as `path:line`, that have no vector because their text is not sent."""
    unread: int = 0
    """Chunks that have no vector because the model does not read their script."""
    provider: ProviderState = ProviderState("none", None, None, None)
    vector_backend: str = "not loaded"
    tokenizer: str = ""
    watcher: WatcherState = WatcherState("off")
    writer: str = "none"
    """`this process`, `process 1234`, or `none`."""
    last_sync: SyncStats | None = None
    progress: Progress | None = None
    errors: tuple[ErrorRecord, ...] = ()
    warnings: tuple[str, ...] = ()
    foreign: ForeignStatus | None = None
    """Set when another program owns the index, and memtui only reads it."""
    made_by: str = ""
    """Provider and model of the live index's vectors, as `minilm/all-MiniLM-L6-v2-int8`; empty for
    none, and before the index was read."""
    usage: Usage = Usage()
    """The requests to providers by the syncs of this run of the program."""

    @property
    def has_other_writer(self) -> bool:
        """True while another memtui keeps the index up to date, and this one follows it."""
        return self.foreign is None and self.writer not in ("none", "this process")

    @property
    def without_vector(self) -> int:
        """The number of chunks whose vector is still to be made."""
        return self.chunks - self.vectors - len(self.withheld) - self.unread
