"""Compares an OpenClaw index with its files, its tables and its configuration."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.errors import Cancelled, IsCancelled, MemtuiError, never
from memtui.index.database import Interrupted, interruptible
from memtui.index.foreign import disk, opening, rows
from memtui.index.foreign.agents import ForeignTarget
from memtui.index.foreign.consistency import PAUSING_RELEASES, Findings, StoredTables, catalogue
from memtui.index.foreign.disk import Listing, Why
from memtui.model import CONVERSATIONS, NOTES, Reason, status
from memtui.retrieval.connection import snapshot
from memtui.settings.files import file_stamp
from memtui.settings.openclaw import releases
from memtui.settings.openclaw.schema import MemorySearchConfig
from memtui.text.sanitize import counted, safe_line

_BLANK_READ: Final = 500
_BUSY_S: Final = 120.0
"""Seconds since a write within which a rebuild may be under way."""
_RECENT: Final = timedelta(days=1)
_ON_DISK: Final = {status.FileState.CURRENT, status.FileState.STALE, status.FileState.NEVER_INDEXED}
_SIDES: Final = ("-wal", "-shm", "-journal")

_VERSIONS: Final = {
    "chunkingVersion": releases.CHUNKING_VERSION,
    "provenanceVersion": releases.PROVENANCE_VERSION,
}
_CONFIGURED_DIMS: Final = "outputDimensionality of the configuration"
_PAUSED: Final = "its search is paused and returns nothing until openclaw memory index --force"
_REBUILT: Final = "the next sync rebuilds the index; until then it answers from the old one"


def examine(
    opened: opening.Opened,
    target: ForeignTarget,
    release: str,
    *,
    now: datetime,
    deep: bool = False,
    cancelled: IsCancelled = never,
) -> status.Truth:
    """Compare an index with its files, its own tables and the agent's configuration.

    `release` is one of the four profiles, `now` dates left-over files. `deep`: read every file and
    every vector, and check a database of any size. Nothing is written anywhere. A table that
    cannot be read becomes a finding, the rest is still examined. Raises `IndexChanged` when
    another program changes the index meanwhile, `Cancelled`, and `SettingsError` for a release
    without a profile.
    """
    findings = Findings()
    config = (
        releases.effective(target.expected.search, release) if target.expected is not None else None
    )
    tables = StoredTables(opened, findings, deep)
    audit = _Audit(
        opened, target, releases.release_named(release).name, now, deep, config, findings, tables
    )
    return audit.truth(cancelled)


class _Audit(Struct):
    opened: opening.Opened
    target: ForeignTarget
    release: str
    now: datetime
    deep: bool
    config: MemorySearchConfig | None
    """The configuration as the release acts on it."""
    findings: Findings
    tables: StoredTables
    transcripts: Listing | None = None

    def truth(self, cancelled: IsCancelled) -> status.Truth:
        opened, tables, findings = self.opened, self.tables, self.findings
        try:
            with interruptible(opened.connection, cancelled), snapshot(opened.connection):
                with tables.part("the database"):
                    tables.check_integrity()
                with tables.part("schema_meta"):
                    self._check_database()
                tables.read(self.config)
                with tables.part("the transcripts"):
                    self.transcripts = disk.list_sessions(opened, self.target, self.release)
        except Interrupted:
            raise Cancelled from None
        identity = self._identity_fields()
        # A table that cannot be read is no reason to say that its rows are missing.
        if opened.layout.meta not in tables.unread:
            self._check_identity(identity)
        if not tables.unread & {opened.layout.files, opened.layout.chunks}:
            listed = {(row.path, row.source) for row in tables.files}
            lost = {key: chunks for key, (chunks, _) in tables.chunks.items() if key not in listed}
            names, chunks = sorted({path for path, _ in lost}), counted(sum(lost.values()), "chunk")
            findings.add("chunks_without_file", names, chunks=chunks)
            if not tables.chunks:
                findings.add("index_empty")
        # What should be indexed: by the configuration, else by the index itself.
        sources = tables.identity.sources
        if self.config is not None:
            sources = self.config.sources
        elif not sources:
            sources = tuple(sorted({NOTES, *(row.source for row in tables.files)}))
        notes = self._compare_notes(NOTES in sources, cancelled)
        transcripts = self._compare_transcripts(CONVERSATIONS in sources)
        leftovers = self._report_leftovers()
        if file_stamp(opened.real).inode != opened.fingerprint.database.inode:
            findings.add("database_replaced", [str(opened.path)], database=opened.path)
        self._check_configuration()
        order = list(status.Severity)
        databases, database_read = self.target.databases, f"{opened.path}: opened by --index"
        if databases is not None and databases.read is not None:
            database_read = f"{databases.read}: {databases.reason}"
        return status.Truth(
            identity=identity,
            files=(notes or ()) + transcripts,
            findings=tuple(sorted(findings.items, key=lambda one: -order.index(one.severity))),
            models=tuple(replace(one, dimensions=max(one.dimensions, 0)) for one in tables.models),
            coverage=self._coverage(sources, notes),
            integrity=tables.integrity,
            vector_state=tables.vector_state,
            database_read=safe_line(database_read),
            leftovers=leftovers,
        )

    def _check_database(self) -> None:
        """Tell which database the program would read, and what is odd about this one."""
        opened, databases, findings = self.opened, self.target.databases, self.findings
        if databases is not None and databases.read is not None:
            read, reason = databases.read, databases.reason
            if os.path.realpath(read) != os.path.realpath(opened.path):
                names, database = [str(read)], opened.path
                findings.add(
                    "other_database_read", names, read=read, database=database, reason=reason
                )
            elif databases.sidecar is not None and databases.agent is not None:
                other = databases.agent if read == databases.sidecar else databases.sidecar
                findings.add("both_generations", [str(other)], reason=reason, other=other)
        version, _ = rows.versions(opened)
        if version is not None and version > opening.KNOWN_SCHEMA:
            findings.add("schema_newer", version=version, newest=opening.KNOWN_SCHEMA)
        effective_ids = os.access in os.supports_effective_ids
        places = (opened.real, opened.real.parent)
        if not all(os.access(place, os.W_OK, effective_ids=effective_ids) for place in places):
            findings.add("database_not_writable", [str(opened.real)], database=opened.real)

    def _identity_fields(self) -> tuple[status.IdentityField, ...]:
        """Set what is stored beside what is expected, in the order of the program's own record.

        Without a configuration nothing is expected but what the rows themselves say.
        """
        config, target, expected = self.config, self.target, status.Identity()
        if target.expected is not None:
            expected = releases.expected_identity(
                target.expected.search, target.workspace, self.release, home=target.home
            )
        fields, present, lengths = [], self.tables.identity.present, self.tables.lengths
        is_blob = self.opened.layout.generation is status.IndexGeneration.AGENT_BLOB
        for key, part in opening.index_format()["identity"].items():
            value = getattr(self.tables.identity, part["field"])
            due, note = getattr(expected, part["field"]), ""
            if config is None:
                note = "no configuration is known"
            if key in _VERSIONS and not is_blob:
                # 2026.8 writes other versions into the older tables.
                due, note = None, part["unknown"]
            elif key == "vectorDims" and config is not None and config.output_dimensionality:
                due, note = config.output_dimensionality, _CONFIGURED_DIMS
            elif key == "vectorDims" and len(lengths) == 1:
                due, note = lengths[0], "the length of the stored vectors"
            elif due is None and (config is not None or key == "vectorDims"):
                note = part.get("unknown", "cannot be known here")
            stored, due = _written(value), _written(due)
            if not present:
                stored, note = None, "the index has no metadata"
            elif key == "ftsTokenizer" and stored is None:
                stored, note = "unicode61", note or "not written, which means unicode61"
            agrees = None
            if due is not None and stored is not None:
                agrees = stored == due
            elif due is not None and present:
                agrees, note = False if part.get("required") else None, "not written in the index"
            fields.append(status.IdentityField(key, stored, due, agrees, note))
        return tuple(fields)

    def _check_identity(self, fields: Sequence[status.IdentityField]) -> None:
        add, stored, layout = self.findings.add, self.tables.identity, self.opened.layout
        config = self.config
        consequence, severity = _REBUILT, status.Severity.WARNING
        if self.release in PAUSING_RELEASES:
            consequence, severity = _PAUSED, status.Severity.ERROR
        follows: Any = {"severity": severity, "consequence": consequence}
        if not stored.present:
            add("identity_missing", [rows.IDENTITY_KEY], **follows)
            return
        for problem in stored.problems:
            add("identity_unreadable", problem=problem, consequence=consequence)
        differing = {field.name: field for field in fields if field.agrees is False}
        versions = {
            "chunkingVersion": stored.chunking_version,
            "provenanceVersion": stored.provenance_version,
        }
        newer = [key for key, value in versions.items() if value and value > _VERSIONS[key]]
        older = [name for name in differing if name in _VERSIONS]
        if newer:
            add("identity_newer", newer, keys=", ".join(f"{key} {versions[key]}" for key in newer))
        elif older and self.release == "2026.9":
            served = [*differing] == ["chunkingVersion"]
            code = "keyword_only_served" if served else "identity_outdated"
            version = versions["chunkingVersion"]
            add(code, older, version=version, newest=releases.CHUNKING_VERSION)
        wrong = {
            name: f"{name} {_short(field.stored)}, not {_short(field.expected)}"
            for name, field in differing.items()
            if name not in {*_VERSIONS, "vectorDims"} or field.note == _CONFIGURED_DIMS
        }
        # The length of vectors comes last.
        names = sorted(wrong, key=lambda name: name == "vectorDims")
        if wrong:
            differences = ", ".join(wrong[name] for name in names)
            add("identity_mismatch", names, differences=differences, **follows)
        if config is not None and stored.model == releases.KEYWORD_ONLY_MODEL:
            if config.provider == "auto":
                add("keyword_only_index", form="auto", severity=status.Severity.INFO)
            elif config.provider != releases.NO_PROVIDER:
                names = [config.provider]
                add("keyword_only_index", names, severity=severity, provider=config.provider)
        elif config is not None and differing.keys() & {"model", "provider"}:
            made = f"{stored.provider}/{stored.model}"
            configured = f"{config.provider}/{config.model or 'its default'}"
            code, form = "model_differs", "text"
            if stored.provider == config.fallback and stored.provider != config.provider:
                code = "fallback_latched"
            elif config.fallback == releases.NO_PROVIDER:
                form = "no_fallback"
            add(code, [made, configured], form=form, made=made, wanted=configured)
        dims = stored.vector_dims
        others = [str(length) for length in self.tables.lengths if length != dims]
        if dims is not None and others:
            names = [str(dims), *others]
            add("dimensions_differ", names, dimensions=dims, others=", ".join(others))
        tokenizer, written = layout.tokenizer, stored.fts_tokenizer or "unicode61"
        if layout.fts is not None and tokenizer != written:
            add("tokenizer_differs", [tokenizer, written], tokenizer=tokenizer, written=written)

    def _check_configuration(self) -> None:
        """Say what of the configuration cannot be used, or keeps this index from answering.

        Hits of the keywords alone are lost up to 2026.4. 2026.2 gives each the text score 1 and
        has no lower minimum. In 2026.4 the lower minimum is the smaller of minScore and the text
        weight, which no text score below 1 reaches.
        """
        written, config, add = self.target.config, self.config, self.findings.add
        if written is not None and written.broken:
            add("configuration_unreadable", [str(written.path)], problem=written.problems[0])
        elif written is not None:
            add("configuration_problems", written.problems, file=written.path)
        if written and written.backend == "qmd" and self.release in {"2026.4", "2026.7"}:
            add("qmd_backend", ["qmd"])
        if config is None:
            return
        if not config.enabled:
            add("search_disabled")
        has_vectors = self.tables.identity.model != releases.KEYWORD_ONLY_MODEL
        if not config.hybrid_enabled or config.provider == releases.NO_PROVIDER or not has_vectors:
            return
        best, least = config.text_weight, config.min_score
        if self.release == "2026.2" and best < least:
            add("keyword_hits_dropped", best=best, least=least)
        elif self.release == "2026.4" and 0 < best <= least:
            add("keyword_hits_dropped", form="below_one", best=best, least=least)

    def _compare_notes(
        self, enabled: bool, cancelled: IsCancelled
    ) -> tuple[status.FileTruth, ...] | None:
        """Compare the notes; `None` when there is no workspace to compare with."""
        findings, workspace = self.findings, self.target.workspace
        if workspace is None:
            findings.add("workspace_unknown")
            return None
        listing = disk.list_memory(self.target, self.release, cancelled=cancelled)
        if listing.problem:
            names, problem = [str(workspace)], listing.problem.lower()
            findings.add("workspace_missing", names, workspace=workspace, problem=problem)
            return None
        files = disk.compare_notes(
            [row for row in self.tables.files if row.source == NOTES],
            listing,
            self.tables.chunks,
            self.target,
            deep=self.deep,
            enabled=enabled,
        )
        findings.add("files_stale", _paths(files, status.FileState.STALE))
        findings.add("files_orphaned", _paths(files, status.FileState.ORPHAN))
        findings.add("files_never_indexed", _paths(files, status.FileState.NEVER_INDEXED))
        locked = [file.path for file in files if file.cause is Reason.UNREADABLE]
        findings.add("files_unreadable", locked)
        findings.items += listing.findings.items
        why_of = {path: left.why for path, left in sorted(listing.left_out.items())}
        links = [path for path, why in why_of.items() if why is Why.LINK]
        own = {"memory", "MEMORY.md", "USER.md"}
        findings.add("memory_linked", [path for path in links if path in own])
        findings.add("links_skipped", [path for path in links if path not in own])
        of_another_release = {Why.LOWER_CASE, Why.NOT_YET}
        skipped = [path for path, why in why_of.items() if why in of_another_release]
        findings.add("root_file_skipped", skipped)
        without_chunks = []
        suspects = [f.path for f in files if f.state is status.FileState.CURRENT and not f.chunks]
        if self.opened.layout.chunks in self.tables.unread:
            suspects = []
        for path in suspects[:_BLANK_READ]:
            # Gone or locked since it was listed: the drift report has its own line for that.
            with suppress(OSError):
                file = listing.files.get(path)
                if file is not None and file.size and file.absolute.read_bytes().strip():
                    without_chunks.append(path)
        findings.add("files_without_chunks", without_chunks)
        return files

    def _compare_transcripts(self, enabled: bool) -> tuple[status.FileTruth, ...]:
        """Compare the transcripts with their rows.

        One that has less to index than the program waits for, and is of today, merely waits for
        the next sync.
        """
        indexed = {row.path: row for row in self.tables.files if row.source == CONVERSATIONS}
        sessions, findings = self.transcripts, self.findings
        if sessions is None:
            if indexed or enabled:
                findings.add("sessions_unknown", count=len(indexed))
            return ()
        least = self.config.delta_bytes if self.config is not None else disk.DELTA_BYTES
        files = disk.compare_sessions(
            indexed.values(), sessions, self.tables.chunks, enabled=enabled
        )
        waiting: dict[str, str] = {}
        added = 0
        for truth in files:
            file, row = sessions.files.get(truth.path.rpartition("/")[2]), indexed.get(truth.path)
            late = 0
            if file is not None and (row is None or not file.session):
                late = file.size - (row.size if row is not None else 0)
            is_recent = truth.on_disk is not None and self.now - truth.on_disk < _RECENT
            is_new = truth.state in {status.FileState.NEVER_INDEXED, status.FileState.STALE}
            if is_new and late < least and is_recent:
                waiting[truth.path] = f"{truth.path} (+{late:,} bytes)"
            elif truth.state is status.FileState.STALE:
                added += late
        others = [truth for truth in files if truth.path not in waiting]
        gone = _paths(others, status.FileState.ORPHAN)
        if not enabled:
            findings.add("sessions_disabled", _paths(others, status.FileState.SKIPPED))
            findings.add("sessions_orphaned", gone, form="source_off")
            return files
        missing = _paths(others, status.FileState.NEVER_INDEXED)
        total = counted(len(sessions.files), "transcript")
        findings.add("sessions_never_indexed", missing, number=len(missing), total=total)
        findings.add("sessions_stale", _paths(others, status.FileState.STALE), added=added)
        findings.add("sessions_orphaned", gone)
        findings.add("sessions_pending", waiting.values())
        findings.add("sessions_unregistered", sessions.unregistered)
        return files

    def _coverage(
        self, sources: Sequence[str], notes: Sequence[status.FileTruth] | None
    ) -> tuple[status.Coverage, ...]:
        chunks = Counter[str]()
        for (_, source), (count, _) in self.tables.chunks.items():
            chunks[source] += count
        indexed = Counter(row.source for row in self.tables.files)
        on_disk: dict[str, int] = {}
        if notes is not None:
            on_disk[NOTES] = sum(file.state in _ON_DISK for file in notes)
        if self.transcripts is not None:
            on_disk[CONVERSATIONS] = len(self.transcripts.files)
        every = {*sources, *indexed, *chunks, *(source for source, n in on_disk.items() if n)}
        return tuple(
            status.Coverage(source, on_disk.get(source), indexed[source], chunks[source])
            for source in sorted(every)
        )

    def _report_leftovers(self) -> tuple[str, ...]:
        """Say what reindexing left beside a database, by name; as lines, too.

        A log with content, or shared memory, is listed whether or not a program has the database
        open: from outside nobody can tell without touching it.
        """
        lines, real, now, names = list[str](), self.opened.real, self.now.timestamp(), list[str]()
        with suppress(OSError):
            names = sorted(os.listdir(real.parent))
        for name in names:
            if (code := leftover_code(name, real.name)) is None:
                continue
            is_log, is_lock = code == "log_beside", code == "lock_file"
            sides = [] if is_log else [name + side for side in _SIDES if name + side in names]
            try:
                states = [os.lstat(real.with_name(each)) for each in (name, *sides)]
            except OSError:
                # Removed by its owner between the listing and here.
                continue
            size = sum(state.st_size for state in states)
            if not stat.S_ISREG(states[0].st_mode) or (is_log and size == 0):
                continue
            holds = ""
            if not (is_log or is_lock):
                # The chunks of an index that was being built or replaced; why not, otherwise.
                try:
                    chunks = opening.read_once(
                        real.with_name(name), lambda other: rows.counts(other, other.layout.chunks)
                    )
                    holds = f", {sum(chunks.values()):,} chunks"
                except MemtuiError as error:
                    holds = f", {error.message}"
            seconds = max(0.0, now - max(state.st_mtime for state in states))
            age = f"{seconds:.0f} s"
            for unit_seconds, unit in ((60, "min"), (3_600, "h"), (86_400, "d")):
                if seconds >= unit_seconds:
                    age = f"{seconds // unit_seconds:.0f} {unit}"
            line = f"{name}: {size:,} bytes, {age} old{holds}"
            lines.append(safe_line(line))
            is_busy = not is_log and seconds < _BUSY_S
            self.findings.add(
                code,
                [name],
                severity=status.Severity.INFO if is_busy else None,
                file=line,
                busy="; written to just now, so it may be under way" if is_busy else "",
            )
        return tuple(lines)


def leftover_code(name: str, database: str) -> str | None:
    """Return the code of the finding about a file beside `database`; `None`: nothing to report."""
    if name.endswith(_SIDES):
        return "log_beside" if name in {database + side for side in _SIDES} else None
    for code, finding in catalogue().items():
        pattern = finding.get("file_name")
        if pattern is not None and re.fullmatch(pattern.format(re.escape(database)), name, re.S):
            return code
    return None


def _paths(files: Iterable[status.FileTruth], state: status.FileState) -> list[str]:
    return [file.path for file in files if file.state is state]


def _written(value: Any) -> str | None:
    if value is None:
        return None
    return ", ".join(sorted(value)) if isinstance(value, tuple) else str(value)


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 40 else f"{text[:12]}…"
