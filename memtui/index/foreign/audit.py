"""What an OpenClaw index really holds, against its files, its tables and its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from memtui.errors import Cancelled
from memtui.index.database import DatabaseError, Fault, Interrupted, fault, interruptible
from memtui.index.foreign import consistency, rows
from memtui.index.foreign.consistency import VectorCheck, check_integrity, check_vectors
from memtui.index.foreign.discovery import Databases, Listing, list_memory
from memtui.index.foreign.drift import SOURCE as MEMORY
from memtui.index.foreign.drift import Look, compare, drift_findings
from memtui.index.foreign.findings import Code, counted, finding, listed
from memtui.index.foreign.identity_check import Counted, identity_fields, identity_findings
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import FileRow, StoredIdentity
from memtui.index.foreign.sessions import (
    DELTA_BYTES,
    Sessions,
    compare_sessions,
    list_sessions,
    sessions_folder,
)
from memtui.index.foreign.sessions import SOURCE as SESSIONS
from memtui.index.foreign.sidecar_files import (
    configuration_findings,
    database_findings,
    leftover_findings,
    problem_findings,
    replaced_findings,
)
from memtui.model.status import (
    Coverage,
    FileState,
    FileTruth,
    Finding,
    Identity,
    IdentityField,
    ModelShare,
    Severity,
    Truth,
)
from memtui.settings.openclaw import (
    AgentConfig,
    MemorySearchConfig,
    OpenClawConfig,
    effective,
)
from memtui.text.sanitize import safe_line

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_BLANK_READ: Final = 500

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of an index, and what is known besides it.

    `config` `None`: nothing is expected. `sessions`: the folder of the transcripts, when it is
    not at its place beside the database. `deep`: read every file and every vector, and check a
    database of any size.
    """

    workspace: Path | None
    config: AgentConfig | None
    release: str
    databases: Databases | None
    now: datetime
    home: Path | None = None
    backend: str = "builtin"
    sessions: Path | None = None
    deep: bool = False
    cancelled: Callable[[], bool] | None = None

    @property
    def search(self) -> MemorySearchConfig | None:
        """The configuration of memory search."""
        return self.config.search if self.config is not None else None


@dataclass(slots=True)
class _Tables:
    """What the database says."""

    identity: StoredIdentity = field(default_factory=lambda: StoredIdentity(Identity(), True))
    fields: tuple[IdentityField, ...] = ()
    files: tuple[FileRow, ...] = ()
    chunks: dict[tuple[str, str], int] = field(default_factory=dict)
    models: tuple[ModelShare, ...] = ()
    vectors: VectorCheck = field(default_factory=lambda: VectorCheck("unverified", ()))
    transcripts: Sessions | None = None
    integrity: str = "not run"
    read: str = ""
    findings: list[Finding] = field(default_factory=list)


def examine(
    opened: Opened,
    *,
    workspace: Path | None,
    config: AgentConfig | None,
    release: str,
    databases: Databases | None,
    now: datetime,
    home: Path | None = None,
    backend: str = "builtin",
    sessions: Path | None = None,
    deep: bool = False,
    cancelled: Callable[[], bool] | None = None,
    written: OpenClawConfig | None = None,
) -> Truth:
    """Compare an index with its files, its own tables and the agent's configuration.

    Nothing is written anywhere. `release` is one of the four profiles; `now` dates left-over
    files; `written` is the whole configuration, whose problems are told. A table that cannot be
    read becomes a finding, the rest is still examined. Raises `IndexChanged` when another program
    changes the index meanwhile, `Cancelled`, and `ValueError` for a release without a profile.
    """
    asked = Question(
        workspace, config, release, databases, now, home, backend, sessions, deep, cancelled
    )
    tables = _Tables()
    with opened.errors():
        _read_tables(opened, asked, tables)
    files, listing_findings = _files(tables, asked)
    transcripts, session_findings = _transcripts(tables, asked)
    beside, leftovers = leftover_findings(opened.real, now)
    found = [*tables.findings, *listing_findings, *session_findings, *beside]
    found += replaced_findings(opened)
    found += problem_findings(written)
    found += configuration_findings(asked.search, tables.identity.identity, release, backend)
    return Truth(
        identity=tables.fields,
        files=(files or ()) + transcripts,
        findings=tuple(sorted(found, key=lambda item: _ORDER[item.severity])),
        models=tuple(_shown(share) for share in tables.models),
        coverage=_coverage(tables, files, asked),
        integrity=tables.integrity,
        vector_state=tables.vectors.state,
        database_read=tables.read,
        leftovers=leftovers,
    )


def _read_tables(opened: Opened, asked: Question, tables: _Tables) -> None:
    cancelled = asked.cancelled or _never
    try:
        with interruptible(opened.connection, cancelled), opened.snapshot():
            _read(opened, asked, tables)
    except Interrupted:
        raise Cancelled from None


def _read(opened: Opened, asked: Question, tables: _Tables) -> None:
    connection, layout = opened.connection, opened.layout
    held = _held(asked)

    def part(name: str, read: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
        return _guarded(name, read, otherwise, tables)

    none: list[Finding] = []
    check = part("the database", lambda: check_integrity(opened, deep=asked.deep), None)
    if check is not None:
        tables.integrity = check.text
        tables.findings += check.findings
    odd, tables.read = part(
        "schema_meta", lambda: database_findings(opened, asked.databases), (none, str(opened.path))
    )
    tables.findings += odd
    tables.identity = part(layout.meta, lambda: rows.identity(connection, layout), tables.identity)
    tables.files = part(layout.files, lambda: rows.files(connection, layout), ())
    tables.chunks = part(
        layout.chunks, lambda: consistency.chunk_counts_by_path(connection, layout), {}
    )
    tables.models = part(layout.chunks, lambda: consistency.model_shares(connection, layout), ())
    tables.findings += part(
        layout.chunks, lambda: consistency.model_findings(connection, layout, tables.models), none
    )
    hybrid = held is None or held.hybrid_enabled
    tables.findings += part(
        layout.fts or "the keyword table",
        lambda: consistency.keyword_findings(connection, layout, hybrid=hybrid),
        none,
    )
    tables.vectors = part(
        layout.vec or "the vector table",
        lambda: _vectors(opened, asked, tables, held),
        tables.vectors,
    )
    tables.findings += tables.vectors.findings
    tables.findings += part(
        layout.chunks, lambda: consistency.cjk_findings(connection, layout, asked.cancelled), none
    )
    tables.findings += part(layout.cache or "the cache", lambda: _facts(opened), none)
    tables.transcripts = part("the transcripts", lambda: _sessions(opened, asked), None)
    _identify(opened, asked, tables)


def _guarded(
    name: str, read: Callable[[], _Answer], otherwise: _Answer, tables: _Tables
) -> _Answer:
    """Read one part; damage to it becomes a finding and does not keep the others from a look."""
    try:
        return read()
    except (Interrupted, Cancelled):
        raise
    except DatabaseError as error:
        wrong = fault(error)
        if wrong not in {None, Fault.DAMAGED}:
            raise
        text = f"{name} cannot be read: {error}; openclaw memory index --force builds it again"
        code = Code.DAMAGED if wrong is Fault.DAMAGED else Code.PART_UNREADABLE
        tables.findings.append(finding(code, text, [name]))
        if wrong is Fault.DAMAGED and tables.integrity in {"ok", "not run"}:
            tables.integrity = safe_line(f"{name}: {error}")
        return otherwise


def _never() -> bool:
    return False


def _held(asked: Question) -> MemorySearchConfig | None:
    return effective(asked.search, asked.release).search if asked.search is not None else None


def _vectors(
    opened: Opened, asked: Question, tables: _Tables, held: MemorySearchConfig | None
) -> VectorCheck:
    wanted = held is None or held.vector_enabled
    return check_vectors(
        opened, tables.models, wanted=wanted, deep=asked.deep, cancelled=asked.cancelled
    )


def _sessions(opened: Opened, asked: Question) -> Sessions | None:
    folder = asked.sessions
    if folder is None and asked.config is not None:
        folder = sessions_folder(opened, asked.config.name)
    return list_sessions(opened, folder, asked.release, cancelled=asked.cancelled)


def _facts(opened: Opened) -> list[Finding]:
    connection, layout = opened.connection, opened.layout
    found: list[Finding] = []
    if layout.fts is not None:
        text = f"the keyword table cuts text into words by {layout.tokenizer}"
        found.append(finding(Code.TOKENIZER_IN_USE, text, [layout.tokenizer]))
    if layout.cache is not None:
        count = connection.execute(f"SELECT count(*) FROM {layout.cache}").fetchall()[0][0]
        if isinstance(count, int):
            text = f"the embedding cache holds {counted(count, 'vector')}"
            found.append(finding(Code.CACHE_ROWS, text, count=count))
    return found


def _identify(opened: Opened, asked: Question, tables: _Tables) -> None:
    layout = opened.layout
    dimensions = sorted({share.dimensions for share in tables.models if share.dimensions > 0})
    said = Counted(tuple(dimensions), layout.tokenizer if layout.fts is not None else None)
    tables.fields = identity_fields(
        tables.identity,
        asked.search,
        asked.workspace,
        asked.release,
        layout.generation,
        said,
        home=asked.home,
    )
    # A table that cannot be read is no reason to say that its rows are missing.
    unread = {name for item in tables.findings if _is_unread(item) for name in item.names}
    if layout.meta not in unread:
        tables.findings += identity_findings(
            tables.identity, tables.fields, asked.search, asked.release, said
        )
    if unread & {layout.files, layout.chunks}:
        return
    keys = {(row.path, row.source) for row in tables.files}
    tables.findings += consistency.unlisted_findings(tables.chunks, keys)
    if not tables.chunks:
        text = "the index holds no chunk: every search comes back empty; run openclaw memory index"
        tables.findings.append(finding(Code.INDEX_EMPTY, text))


def _is_unread(item: Finding) -> bool:
    return item.code in {Code.DAMAGED, Code.PART_UNREADABLE}


def _sources(tables: _Tables, asked: Question) -> tuple[str, ...]:
    """The sources that should be indexed: by the configuration, else by the index itself."""
    held = _held(asked)
    if held is not None:
        return held.sources
    stored = tables.identity.identity.sources
    return stored or tuple(sorted({MEMORY, *(row.source for row in tables.files)}))


def _files(tables: _Tables, asked: Question) -> tuple[tuple[FileTruth, ...] | None, list[Finding]]:
    """Compare the notes; `None` when there is no workspace to compare with."""
    if asked.workspace is None:
        text = "no workspace is known: the files could not be compared with the index"
        return None, [finding(Code.WORKSPACE_UNKNOWN, text)]
    listing = list_memory(
        asked.workspace, asked.search, asked.release, home=asked.home, cancelled=asked.cancelled
    )
    if listing.problem:
        text = f"the workspace {asked.workspace} cannot be listed: {listing.problem.lower()}"
        return None, [finding(Code.WORKSPACE_MISSING, text, [str(asked.workspace)])]
    look = Look(asked.deep, asked.cancelled)
    files = compare(
        [row for row in tables.files if row.source == MEMORY],
        listing,
        tables.chunks,
        asked.workspace,
        look,
        enabled=MEMORY in _sources(tables, asked),
        scope_known=asked.search is not None,
    )
    found = drift_findings(files, listing)
    return files, found + _chunkless(files, listing, look)


def _chunkless(files: tuple[FileTruth, ...], listing: Listing, look: Look) -> list[Finding]:
    """Files that are listed as current, have text, and yet no chunk."""
    suspects = [f for f in files if f.state is FileState.CURRENT and not f.chunks]
    names = []
    for truth in suspects[:_BLANK_READ]:
        look.check()
        found = listing.found.get(truth.path)
        if found is not None and found.size and not _is_blank(Path(found.absolute)):
            names.append(truth.path)
    if not names:
        return []
    text = f"{counted(len(names), 'file')} with text, listed as indexed and without a chunk: no"
    return [finding(Code.FILES_WITHOUT_CHUNKS, f"{text} search finds {listed(names)}", names)]


def _is_blank(path: Path) -> bool:
    try:
        return not path.read_bytes().strip()
    except OSError:
        # Gone or locked since it was listed; the drift report has its own line for that.
        return True


def _transcripts(
    tables: _Tables, asked: Question
) -> tuple[tuple[FileTruth, ...], tuple[Finding, ...]]:
    indexed = [row for row in tables.files if row.source == SESSIONS]
    if tables.transcripts is None:
        if not indexed and SESSIONS not in _sources(tables, asked):
            return (), ()
        text = "the folder of the transcripts is not known or cannot be listed: not compared"
        return (), (finding(Code.SESSIONS_UNKNOWN, text, count=len(indexed)),)
    held = _held(asked)
    truth = compare_sessions(
        indexed,
        tables.transcripts,
        tables.chunks,
        enabled=SESSIONS in _sources(tables, asked),
        delta_bytes=held.delta_bytes if held is not None else DELTA_BYTES,
        now=asked.now,
    )
    return truth.files, truth.findings


def _coverage(
    tables: _Tables, files: tuple[FileTruth, ...] | None, asked: Question
) -> tuple[Coverage, ...]:
    chunks: dict[str, int] = {}
    for (_, source), count in tables.chunks.items():
        chunks[source] = chunks.get(source, 0) + count
    indexed: dict[str, int] = {}
    for row in tables.files:
        indexed[row.source] = indexed.get(row.source, 0) + 1
    on_disk: dict[str, int | None] = {}
    if files is not None:
        present = {FileState.CURRENT, FileState.STALE, FileState.NEVER_INDEXED}
        on_disk[MEMORY] = sum(1 for file in files if file.state in present)
    if tables.transcripts is not None:
        on_disk[SESSIONS] = len(tables.transcripts.found)
    sources = {*_sources(tables, asked), *indexed, *chunks}
    if on_disk.get(SESSIONS):
        sources.add(SESSIONS)
    return tuple(
        Coverage(source, on_disk.get(source), indexed.get(source, 0), chunks.get(source, 0))
        for source in sorted(sources)
    )


def _shown(share: ModelShare) -> ModelShare:
    return ModelShare(share.model, max(share.dimensions, 0), share.chunks)
