"""Faults that users of OpenClaw reported, planted into a copy of a real index."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from memtui.index.database import number
from memtui.index.foreign.agents import Databases, ForeignTarget, databases_of
from memtui.index.foreign.audit import examine
from memtui.index.foreign.opening import Opened, open_foreign, recognise
from memtui.model.status import Severity, Truth
from memtui.settings.openclaw.read import read_config
from memtui.settings.openclaw.schema import AgentConfig, MemorySearchConfig, OpenClawConfig
from tests.support.known import load
from tests.support.openclaw import AGENT, AGENT_BLOB, DIMS, SIDECAR, State, connect, make_state

Fault = Mapping[str, Any]
FAULTS: Mapping[str, list[Fault]] = load("openclaw_faults")
"""What users reported: planted into an index, and what the report must say; by its code."""

PROFILES = {SIDECAR: "openclaw-2026.4", AGENT: "openclaw-2026.7", AGENT_BLOB: "openclaw-2026.9"}
PROVIDERS = {SIDECAR: "openai", AGENT: "openai", AGENT_BLOB: "openai-compatible"}
MODEL = "text-embedding-3-small"
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LONG_AGO = NOW.timestamp() - 3 * 86_400
NOTE = "memory/auth.md"


@dataclass(slots=True)
class Case:
    """An agent whose index is about to be looked at; a fault changes it in place."""

    state: State
    version: str
    config: AgentConfig | None
    workspace: Path | None
    databases: Databases | None = None
    deep: bool = False
    release: str = ""
    """The profile, when it is not that of the version."""
    written: OpenClawConfig | None = None
    """The configuration file."""

    @property
    def sessions(self) -> Path:
        """The folder of the transcripts."""
        folder = self.state.folder / "agents" / "main" / "sessions"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def search(self, **values: Any) -> None:
        """Change the configuration of memory search."""
        assert self.config is not None
        self.config = replace(self.config, search=replace(self.config.search, **values))

    def sql(self, *statements: str) -> None:
        """Change the database as a program would; `{chunks}` and the like name its tables."""
        with closing(connect(self.state.database)) as connection:
            layout = recognise(connection)
            names = {field: getattr(layout, field) for field in layout.__struct_fields__}
            is_blob = self.version == AGENT_BLOB
            names["no_vector"] = "x''" if is_blob else "'[]'"
            for size in (DIMS, 384):
                numbers = ",".join(["0.5"] * size)
                names[f"vector_{size}"] = f"zeroblob({8 * size})" if is_blob else f"'[{numbers}]'"
            for statement in statements:
                connection.execute(statement.format_map(names)).fetchall()

    def identity(self, **values: Any) -> None:
        """Change what the index says it was made with; `None` takes a key out."""
        with closing(connect(self.state.database)) as connection:
            meta = recognise(connection).meta
            where = "WHERE key = 'memory_index_meta_v1'"
            stored = json.loads(connection.execute(f"SELECT value FROM {meta} {where}").get)
            changed = {
                name: value for name, value in (stored | values).items() if value is not None
            }
            connection.execute(f"UPDATE {meta} SET value = ? {where}", (json.dumps(changed),))

    def note(self, path: str, text: str = "# new\n\nnever indexed\n") -> Path:
        """Write a file of the workspace."""
        file = self.state.workspace / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def transcript(self, name: str, size: int = 120, changed: float = LONG_AGO) -> None:
        """Write a transcript of `size` bytes: an event of the database from 2026.9 on."""
        if self.version == AGENT_BLOB:
            session = name.removesuffix(".jsonl")
            self.sql(
                "INSERT INTO transcript_events(session_id, seq, event_json, created_at)"
                f" VALUES ('{session}', 1, '[]', {int(changed * 1000)})"
            )
            return
        file = self.sessions / name
        file.write_text("x" * size, encoding="utf-8")
        os.utime(file, (changed, changed))

    def transcript_row(self, name: str, size: int = 120) -> None:
        """Let the index list a transcript."""
        self.sql(
            "INSERT INTO {files}(path, source, hash, mtime, size)"
            f" VALUES ('sessions/{name}', 'sessions', 'h', {int(LONG_AGO * 1000)}, {size})"
        )

    def with_sessions(self) -> None:
        """Make transcripts a source, in the configuration and in the index."""
        self.search(sources=("memory", "sessions"), session_memory=True)
        self.identity(sources=["memory", "sessions"])

    def plant(self, fault: Fault) -> None:
        """Plant one of `FAULTS`."""
        if fault.get("sessions"):
            self.with_sessions()
        lists = {
            key: tuple(v) if isinstance(v, list) else v
            for key, v in fault.get("search", {}).items()
        }
        if lists:
            self.search(**lists)
        identity = fault.get("identity", {}) | dict.fromkeys(fault.get("forget", ()))
        if identity:
            self.identity(**identity)
        if self.version != AGENT_BLOB:
            self.sql(*fault.get("sql_of_tables", ()))
        self.sql(*fault.get("sql", ()))
        for name, *measures in fault.get("transcripts", ()):
            size, age = measures or (120, NOW.timestamp() - LONG_AGO)
            self.transcript(name, size, NOW.timestamp() - age)
        for row in fault.get("rows", ()):
            self.transcript_row(*row)
        for path, text in fault.get("notes", {}).items():
            self.note(path, text)
        for path, target in fault.get("links", {}).items():
            (self.state.workspace / path).symlink_to(target)
        for suffix in fault.get("copies", ()):
            self.beside(suffix, self.state.database.read_bytes())
        for suffix in fault.get("beside", ()):
            self.beside(suffix)
        if "config" in fault:
            folder = self.state.folder
            (folder / "openclaw.json").write_text(fault["config"], encoding="utf-8")
            self.written = read_config({}, folder, state_dir=folder)
            self.config = None if self.written.broken else self.config
        if "damage" in fault:
            self.damage(fault["damage"])

    def damage(self, table: str) -> None:
        """Overwrite the root page of a table, as a torn write does."""
        with closing(apsw.Connection(str(self.state.database))) as connection:
            name = table.format(files=recognise(connection).files)
            root = number(connection, "SELECT rootpage FROM sqlite_master WHERE name = ?", name)
            size = number(connection, "PRAGMA page_size")
        with self.state.database.open("r+b") as file:
            file.seek((root - 1) * size)
            file.write(b"\xff" * size)

    def beside(self, suffix: str, content: bytes = b"", changed: float = LONG_AGO) -> Path:
        """Leave a file beside the database."""
        file = self.state.beside(suffix)
        file.write_bytes(content)
        os.utime(file, (changed, changed))
        return file

    @property
    def target(self) -> ForeignTarget:
        """The index and what belongs to it."""
        written, state_dir = self.written, None
        if self.config is not None:
            state_dir = self.state.folder
            written = written or OpenClawConfig()
            written = replace(written, path=written.path or self.state.folder / "openclaw.json")
        return ForeignTarget(
            self.state.database,
            "main",
            state_dir,
            workspace=self.workspace,
            config=written,
            search=self.config,
            databases=self.databases,
            home=self.state.folder.parent,
        )

    def look(self, opened: Opened | None = None, **options: Any) -> Truth:
        """Examine the index, which is opened where it is not."""
        index = opened or open_foreign(self.state.database)
        release = self.release or PROFILES[self.version]
        try:
            return examine(index, self.target, release, now=NOW, deep=self.deep, **options)
        finally:
            if opened is None:
                index.close()


def make_case(folder: Path, version: str) -> Case:
    """An agent with a clean index, and the configuration that it was made with."""
    state = make_state(folder / "state", version)
    search = MemorySearchConfig(provider=PROVIDERS[version], model=MODEL)
    return Case(state, version, AgentConfig("main", state.workspace, search), state.workspace)


def both_generations(case: Case) -> None:
    """Put the index of 2026.4 in its place, as an update leaves it."""
    make_state(case.state.folder, SIDECAR)
    case.databases = databases_of(case.state.folder, AgentConfig("main"))


def codes(truth: Truth, *severities: Severity) -> set[str]:
    """The codes of a report, of all or some severities."""
    wanted: Iterable[Severity] = severities or tuple(Severity)
    return {finding.code for finding in truth.findings if finding.severity in wanted}
