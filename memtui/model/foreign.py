"""Indexes that other programs made: what memtui knows of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal

from memtui.model.kinds import FileState, Severity

AgentGets = Literal["same", "keywords", "other", "nothing"]
"""What the agent's own search returns: what memtui shows, hits of the keywords alone, the answer
of another index or program, or nothing at all."""


class IndexGeneration(StrEnum):
    """How OpenClaw stores its index: where the tables are, and how vectors are written."""

    SIDECAR = "sidecar"
    """A file of its own for each agent, vectors as JSON text (up to 2026.5)."""
    AGENT = "agent"
    """Inside the agent's database, vectors as JSON text (2026.6 to 2026.8)."""
    AGENT_BLOB = "agent-blob"
    """Inside the agent's database, vectors as float64 blobs (2026.9)."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What an index says it was made with (`memory_index_meta_v1`); `None`: not written there."""

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


@dataclass(frozen=True, slots=True)
class ForeignAgent:
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


@dataclass(frozen=True, slots=True)
class FileTruth:
    """One file, as it is on disk and as it is in the index."""

    path: str
    source: str
    state: FileState
    reason: str = ""
    """One line that says why."""
    chunks: int = 0
    on_disk: datetime | None = None
    """When the file changed last."""
    in_index: datetime | None = None
    """When the indexed version changed last."""


@dataclass(frozen=True, slots=True)
class IdentityField:
    """One field of the index identity: what is stored, and what the configuration asks for."""

    name: str
    stored: str | None
    expected: str | None
    """`None` when it cannot be known here."""
    agrees: bool | None
    """`None` when one side is not known."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about an index that a person should know."""

    code: str
    """A stable name that scripts can match; `memtui.index.foreign.findings` lists all."""
    severity: Severity
    message: str
    """One line: what, where, and what to do."""
    names: tuple[str, ...] = ()
    """The files, chunks or tables it is about; at most 200."""
    count: int = 0


@dataclass(frozen=True, slots=True)
class ModelShare:
    """How many chunks have a vector of one model and size."""

    model: str
    dimensions: int
    """0: no vector."""
    chunks: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of one source is indexed."""

    source: str
    on_disk: int | None
    """Files that belong to the source; `None` when they cannot be counted here."""
    indexed: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Truth:
    """What an index really holds, against what it should hold."""

    identity: tuple[IdentityField, ...]
    files: tuple[FileTruth, ...]
    findings: tuple[Finding, ...]
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


@dataclass(frozen=True, slots=True)
class ForeignStatus:
    """What is special about an index that another program made and memtui only reads."""

    agent: str | None
    generation: IndexGeneration
    profile: str
    chosen_because: str
    opened: str
    """How the file is read: `immutable`, `live`, …"""
    app_version: str | None
    query_vectors: str
    """Where the vector of a query comes from, or what it would need."""
    truth: Truth | None = None
    """`None` until the index was examined."""
    examining: bool = False
    agent_gets: AgentGets | None = None
    """What the agent's own search returns just now; `None` where that is not known."""
    agent_gets_because: str = ""
    """The code of the finding that makes it another answer than the one shown here."""
