"""What an OpenClaw index really holds, against its files, its tables and its configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from memtui.errors import Cancelled
from memtui.index.database import DatabaseError, Fault, Interrupted, fault, interruptible
from memtui.index.foreign import consistency, rows
from memtui.index.foreign.consistency import VectorCheck
from memtui.index.foreign.discovery import Databases
from memtui.index.foreign.findings import Code, counted, finding, listed
from memtui.index.foreign.identity_check import (
    RowFacts,
    configuration_findings,
    identity_fields,
    identity_findings,
    problem_findings,
)
from memtui.index.foreign.notes import Listing, Look, compare, drift_findings, list_memory
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import MEMORY, FileRow, StoredIdentity
from memtui.index.foreign.sessions import (
    DELTA_BYTES,
    SESSIONS,
    Sessions,
    compare_sessions,
    list_sessions,
    sessions_folder,
)
from memtui.index.foreign.sidecar_files import (
    database_findings,
    leftover_findings,
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
from memtui.settings.openclaw import AgentConfig, OpenClawConfig, effective
from memtui.text.sanitize import safe_line

_ORDER: Final = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}
_BLANK_READ: Final = 500
_ON_DISK: Final = {FileState.CURRENT, FileState.STALE, FileState.NEVER_INDEXED}

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known besides an index, and how closely it is looked at."""

    release: str
    """One of the four profiles."""
    now: datetime
    """Dates left-over files."""
    workspace: Path | None = None
    config: AgentConfig | None = None
    """`None`: nothing is expected."""
    databases: Databases | None = None
    home: Path | None = None
    sessions: Path | None = None
    """The folder of the transcripts, when it is not at its place beside the database."""
    written: OpenClawConfig | None = None
    """The whole configuration, whose problems are told."""
    deep: bool = False
    """Read every file and every vector, and check a database of any size."""
    cancelled: Callable[[], bool] = lambda: False


def examine(opened: Opened, surroundings: Surroundings) -> Truth:
    """Compare an index with its files, its own tables and the agent's configuration.

    Nothing is written anywhere. A table that cannot be read becomes a finding, the rest is still
    examined. Raises `IndexChanged` when another program changes the index meanwhile, `Cancelled`,
    and `ValueError` for a release without a profile.
    """
    return _Audit(opened, surroundings).truth()


class _Audit:
    """One examination."""

    def __init__(self, opened: Opened, surroundings: Surroundings) -> None:
        self._opened = opened
        self._known = known = surroundings
        self._search = known.config.search if known.config is not None else None
        self._held = (
            effective(self._search, known.release).search if self._search is not None else None
        )
        """The configuration as the release acts on it."""
        self._findings: list[Finding] = []
        self._unread: set[str] = set()
        """The tables that cannot be read."""
        self._identity = StoredIdentity(Identity(), True)
        self._fields: tuple[IdentityField, ...] = ()
        self._rows: tuple[FileRow, ...] = ()
        self._chunks: dict[tuple[str, str], int] = {}
        self._models: tuple[ModelShare, ...] = ()
        self._vector_state = "unverified"
        self._transcripts: Sessions | None = None
        self._integrity = "not run"
        self._database_read = str(opened.path)

    def truth(self) -> Truth:
        """Look at everything."""
        opened, known = self._opened, self._known
        with opened.errors():
            try:
                with interruptible(opened.connection, known.cancelled), opened.snapshot():
                    self._read_tables()
            except Interrupted:
                raise Cancelled from None
        files = self._compare_files()
        transcripts = self._compare_transcripts()
        beside, leftovers = leftover_findings(opened.real, known.now)
        findings = [*self._findings, *beside, *replaced_findings(opened)]
        findings += problem_findings(known.written)
        backend = known.written.backend if known.written is not None else "builtin"
        findings += configuration_findings(
            self._search, self._identity.identity, known.release, backend
        )
        return Truth(
            identity=self._fields,
            files=(files or ()) + transcripts,
            findings=tuple(sorted(findings, key=lambda item: _ORDER[item.severity])),
            models=tuple(
                ModelShare(share.model, max(share.dimensions, 0), share.chunks)
                for share in self._models
            ),
            coverage=self._coverage(files),
            integrity=self._integrity,
            vector_state=self._vector_state,
            database_read=self._database_read,
            leftovers=leftovers,
        )

    def _read_tables(self) -> None:
        opened, known, part = self._opened, self._known, self._part
        connection, layout = opened.connection, opened.layout
        none: list[Finding] = []
        integrity = part(
            "the database", lambda: consistency.check_integrity(opened, deep=known.deep), None
        )
        if integrity is not None:
            self._integrity, damage = integrity
            self._findings += damage
        about, self._database_read = part(
            "schema_meta",
            lambda: database_findings(opened, known.databases),
            (none, self._database_read),
        )
        self._findings += about
        self._identity = part(
            layout.meta, lambda: rows.identity(connection, layout), self._identity
        )
        self._rows = part(layout.files, lambda: rows.files(connection, layout), ())
        self._chunks = part(layout.chunks, lambda: consistency.chunk_counts_by_path(opened), {})
        self._models = part(layout.chunks, lambda: consistency.model_shares(opened), ())
        held = self._held
        hybrid = held is None or held.hybrid_enabled
        vectors = part(layout.vec or "the vector table", self._check_vectors, None)
        self._vector_state = vectors.state if vectors is not None else "unverified"
        checks: tuple[tuple[str, Callable[[], list[Finding]]], ...] = (
            (layout.chunks, lambda: consistency.model_findings(opened, self._models)),
            (
                layout.fts or "the keyword table",
                lambda: consistency.keyword_findings(opened, hybrid=hybrid),
            ),
            ("", lambda: list(vectors.findings) if vectors is not None else []),
            (layout.chunks, lambda: consistency.cjk_findings(opened, known.cancelled)),
            (layout.cache or "the cache", lambda: consistency.table_facts(opened)),
        )
        for name, check in checks:
            self._findings += part(name, check, none)
        self._transcripts = part("the transcripts", self._list_transcripts, None)
        self._check_identity()

    def _part(self, name: str, read: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
        """Read one part; damage to it becomes a finding and does not hide the others."""
        try:
            return read()
        except DatabaseError as error:
            wrong = fault(error)
            if isinstance(error, Interrupted) or wrong not in {None, Fault.DAMAGED}:
                raise
            text = f"{name} cannot be read: {error}; openclaw memory index --force builds it again"
            code = Code.DAMAGED if wrong is Fault.DAMAGED else Code.PART_UNREADABLE
            self._findings.append(finding(code, text, [name]))
            self._unread.add(name)
            if wrong is Fault.DAMAGED and self._integrity in {"ok", "not run"}:
                self._integrity = safe_line(f"{name}: {error}")
            return otherwise

    def _check_vectors(self) -> VectorCheck | None:
        return consistency.check_vectors(
            self._opened,
            self._models,
            wanted=self._held is None or self._held.vector_enabled,
            deep=self._known.deep,
            cancelled=self._known.cancelled,
        )

    def _list_transcripts(self) -> Sessions | None:
        known, folder = self._known, self._known.sessions
        if folder is None and known.config is not None:
            folder = sessions_folder(self._opened, known.config.name)
        return list_sessions(self._opened, folder, known.release, cancelled=known.cancelled)

    def _check_identity(self) -> None:
        known, layout = self._known, self._opened.layout
        lengths = sorted({share.dimensions for share in self._models if share.dimensions > 0})
        facts = RowFacts(tuple(lengths), layout.tokenizer if layout.fts is not None else None)
        self._fields = identity_fields(
            self._identity,
            self._search,
            known.workspace,
            known.release,
            layout.generation,
            facts,
            home=known.home,
        )
        # A table that cannot be read is no reason to say that its rows are missing.
        if layout.meta not in self._unread:
            self._findings += identity_findings(
                self._identity, self._fields, self._search, known.release, facts
            )
        if self._unread & {layout.files, layout.chunks}:
            return
        listed_files = {(row.path, row.source) for row in self._rows}
        self._findings += consistency.unlisted_findings(self._chunks, listed_files)
        if not self._chunks:
            text = "the index holds no chunk: every search comes back empty;"
            text += " run openclaw memory index"
            self._findings.append(finding(Code.INDEX_EMPTY, text))

    @property
    def _sources(self) -> tuple[str, ...]:
        """The sources that should be indexed: by the configuration, else by the index itself."""
        if self._held is not None:
            return self._held.sources
        stored = self._identity.identity.sources
        return stored or tuple(sorted({MEMORY, *(row.source for row in self._rows)}))

    def _compare_files(self) -> tuple[FileTruth, ...] | None:
        """Compare the notes; `None` when there is no workspace to compare with."""
        known, workspace = self._known, self._known.workspace
        if workspace is None:
            text = "no workspace is known: the files could not be compared with the index"
            self._findings.append(finding(Code.WORKSPACE_UNKNOWN, text))
            return None
        listing = list_memory(
            workspace, self._search, known.release, home=known.home, cancelled=known.cancelled
        )
        if listing.problem:
            text = f"the workspace {workspace} cannot be listed: {listing.problem.lower()}"
            self._findings.append(finding(Code.WORKSPACE_MISSING, text, [str(workspace)]))
            return None
        look = Look(known.deep, known.cancelled)
        files = compare(
            [row for row in self._rows if row.source == MEMORY],
            listing,
            self._chunks,
            workspace,
            look,
            enabled=MEMORY in self._sources,
            scope_known=self._search is not None,
        )
        self._findings += drift_findings(files, listing)
        names = _without_chunks(files, listing, look)
        if names:
            text = f"{counted(len(names), 'file')} with text, listed as indexed and without a"
            text += f" chunk: no search finds {listed(names)}"
            self._findings.append(finding(Code.FILES_WITHOUT_CHUNKS, text, names))
        return files

    def _compare_transcripts(self) -> tuple[FileTruth, ...]:
        indexed = [row for row in self._rows if row.source == SESSIONS]
        enabled = SESSIONS in self._sources
        if self._transcripts is None:
            if indexed or enabled:
                text = "the folder of the transcripts is not known or cannot be listed:"
                text += " not compared"
                self._findings.append(finding(Code.SESSIONS_UNKNOWN, text, count=len(indexed)))
            return ()
        files, findings = compare_sessions(
            indexed,
            self._transcripts,
            self._chunks,
            enabled=enabled,
            delta_bytes=self._held.delta_bytes if self._held is not None else DELTA_BYTES,
            now=self._known.now,
        )
        self._findings += findings
        return files

    def _coverage(self, files: tuple[FileTruth, ...] | None) -> tuple[Coverage, ...]:
        chunks: Counter[str] = Counter()
        for (_, source), count in self._chunks.items():
            chunks[source] += count
        indexed = Counter(row.source for row in self._rows)
        on_disk: dict[str, int] = {}
        if files is not None:
            on_disk[MEMORY] = sum(1 for file in files if file.state in _ON_DISK)
        if self._transcripts is not None:
            on_disk[SESSIONS] = len(self._transcripts.found)
        sources = {*self._sources, *indexed, *chunks}
        if on_disk.get(SESSIONS):
            sources.add(SESSIONS)
        return tuple(
            Coverage(source, on_disk.get(source), indexed[source], chunks[source])
            for source in sorted(sources)
        )


def _without_chunks(files: tuple[FileTruth, ...], listing: Listing, look: Look) -> list[str]:
    """Name the files that are listed as current, have text, and yet no chunk."""
    suspects = [f.path for f in files if f.state is FileState.CURRENT and not f.chunks]
    names = []
    for path in suspects[:_BLANK_READ]:
        look.check()
        file = listing.found.get(path)
        try:
            if file is not None and file.size and Path(file.absolute).read_bytes().strip():
                names.append(path)
        except OSError:
            # Gone or locked since it was listed; the drift report has its own line for that.
            continue
    return names
