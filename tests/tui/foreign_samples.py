"""Another program's index for the tests of the interface: a real one, and one made of values."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from textual.pilot import Pilot

from memtui.bus import Bus, ForeignExamined
from memtui.engine import Engine
from memtui.errors import IndexUnusable
from memtui.index.foreign.discovery import ForeignTarget, find_target
from memtui.model import IndexState, IndexStatus, Ranking
from memtui.model.status import (
    Coverage,
    FileState,
    FileTruth,
    Finding,
    ForeignAgent,
    ForeignStatus,
    IdentityField,
    IndexGeneration,
    ModelShare,
    Severity,
    Truth,
)
from memtui.tui.app import MemtuiApp
from memtui.tui.memories import MachineAgents
from memtui.tui.options import UiOptions
from tests.support.openclaw import State, make_state
from tests.tui.harness import screen_text, settle, until
from tests.tui.samples import NOW, STATUS, SampleEngine

TRUTH = Truth(
    identity=(
        IdentityField("model", "text-embedding-3-small", "text-embedding-3-large", False),
        IdentityField("provider", "openai", "openai", True),
        IdentityField("scopeHash", "e861c1d2", None, None, "the workspace is not known"),
    ),
    files=(
        FileTruth("MEMORY.md", "memory", FileState.CURRENT, "same content", 3, NOW, NOW),
        FileTruth("memory/new.md", "memory", FileState.NEVER_INDEXED, "no row in the index", 0, NOW),
        FileTruth("memory/old.md", "memory", FileState.ORPHAN, "no longer on disk", 2, None, NOW),
        FileTruth(
            "memory/router.md", "memory", FileState.STALE, "other content", 2, NOW,
            NOW - timedelta(days=2),
        ),
        FileTruth("memory/big.bin", "memory", FileState.SKIPPED, "not text"),
    ),
    findings=(
        Finding("leftover_file", Severity.INFO, "a backup lies beside the index"),
        Finding("files_stale", Severity.WARNING, "1 file changed", ("memory/router.md",), 1),
        Finding(
            "identity_mismatch", Severity.ERROR, "made with another model; index it again",
            ("model", "vectorDims"), 300,
        ),
    ),
    models=(ModelShare("text-embedding-3-small", 256, 118), ModelShare("", 0, 2)),
    coverage=(Coverage("memory", 17, 16, 118), Coverage("sessions", None, 0, 0)),
    integrity="ok",
    vector_state="incomplete",
    database_read="/home/ann/.openclaw/agents/main/agent/openclaw-agent.sqlite: the only index",
    leftovers=("openclaw-agent.sqlite.bak  12 KB  3 d old",),
)  # fmt: skip

FOREIGN = ForeignStatus(
    agent="main",
    generation=IndexGeneration.AGENT_BLOB,
    profile="openclaw-2026.9",
    chosen_because="the database was written by 2026.9.6",
    opened="immutable",
    app_version="2026.9.6",
    query_vectors="openai/text-embedding-3-small",
    truth=TRUTH,
)
FOREIGN_STATUS = replace(
    STATUS,
    state=IndexState.DEGRADED,
    root="/home/ann/.openclaw/workspace",
    index_dir="/home/ann/.openclaw/agents/main/agent/openclaw-agent.sqlite",
    pending=("memory/router.md",),
    pending_count=3,
    writer="the agent's program",
    foreign=FOREIGN,
)

AGENTS: tuple[ForeignAgent, ...] = (
    ForeignAgent(
        "main", Path("/home/ann/.openclaw"), Path("/home/ann/.openclaw/agents/main.sqlite"),
        IndexGeneration.AGENT_BLOB, Path("/home/ann/notes"), "openai", "text-embedding-3-small",
        1536, 142, 1284, NOW - timedelta(hours=5),
    ),
    ForeignAgent(
        "research", Path("/home/ann/.openclaw"), Path("/home/ann/.openclaw/memory/research.sqlite"),
        IndexGeneration.SIDECAR, Path("/home/ann/papers"), "ollama", "nomic-embed-text", 768, 9, 40,
        NOW - timedelta(days=40),
    ),
    ForeignAgent("empty", Path("/home/ann/.openclaw"), problem="has no memory index"),
)  # fmt: skip


@dataclass
class ForeignSample(SampleEngine):
    """The sample engine as if another program owned its index."""

    current: IndexStatus = FOREIGN_STATUS
    ranking: Ranking = field(default_factory=Ranking)
    root: Path = Path()
    typed: list[bool] = field(default_factory=list)
    """Of each request, whether the query was still being typed."""

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Note whether the query is finished."""
        self.typed.append(typing)
        return super().submit(text, ranking=ranking, typing=typing)

    def sync(self, wait: bool = False) -> None:
        """Note the call, and tell that the index was looked at."""
        super().sync(wait)
        self.bus.publish(ForeignExamined(""))


@dataclass(frozen=True)
class SampleAgents(MachineAgents):
    """Agents whose indexes are samples; opening a name in `broken` fails."""

    agents: Sequence[ForeignAgent] = AGENTS
    broken: frozenset[str] = frozenset({"research"})
    opened: list[str] = field(default_factory=list)
    engines: list[ForeignSample] = field(default_factory=list)

    def find(self) -> Sequence[ForeignAgent]:
        """The agents of the sample."""
        return self.agents

    def open(self, agent: ForeignAgent, bus: Bus) -> Engine:
        """Open a sample engine."""
        self.opened.append(agent.name)
        if agent.name in self.broken:
            raise IndexUnusable("the database is locked by [another] program\x1b[31m")
        engine = ForeignSample(bus)
        engine.ranking, engine.root = Ranking(k=3), agent.workspace or Path()
        self.engines.append(engine)
        return engine


def make_target(folder: Path, release: str, config: str = "") -> tuple[State, ForeignTarget]:
    """A state folder with the index that a release made, and how it is opened."""
    state = make_state(folder / ".openclaw", release)
    if config:
        (state.folder / "openclaw.json").write_text(config, encoding="utf-8")
    target = find_target(
        agent="main",
        index=None,
        workspace=None,
        env={"OPENCLAW_STATE_DIR": str(state.folder)},
        home=folder,
    )
    return state, target


@dataclass
class ForeignRunning:
    """The application on a real index of another program."""

    app: MemtuiApp
    pilot: Pilot[int]
    engine: Engine

    @property
    def text(self) -> str:
        """What is on screen."""
        return screen_text(self.app)

    async def search(self, query: str) -> None:
        """Put a query into the box and wait for its answer."""
        screen = self.app.search_screen
        screen.query_input.value = query
        await until(
            self.pilot, lambda: screen.search.answered_text == query and screen.search.complete, 20
        )
        await settle(self.app, self.pilot)


@asynccontextmanager
async def foreign_running(
    target: ForeignTarget, *, size: tuple[int, int] = (120, 40), theme: str = "memtui-dark"
) -> AsyncIterator[ForeignRunning]:
    """Run the application on a real foreign engine, examined and at rest."""
    engines: list[Engine] = []

    def open_engine(bus: Bus) -> Engine:
        clock = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
        engines.append(Engine.open_agent(target, bus=bus, env={}, now=lambda: clock))
        return engines[0]

    app = MemtuiApp(open_engine, UiOptions(theme=theme))
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.search_screen.engine is not None, 20)
        await until(pilot, lambda: engines[0].index.status().foreign is not None, 20)
        await until(pilot, lambda: _is_examined(engines[0]), 20)
        app.search_screen.index.refresh_status()
        await settle(app, pilot)
        yield ForeignRunning(app, pilot, engines[0])
    app.memories.close()


def _is_examined(engine: Engine) -> bool:
    foreign = engine.index.status().foreign
    return foreign is not None and foreign.truth is not None and not foreign.examining
