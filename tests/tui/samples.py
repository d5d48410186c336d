"""A small memory in values: chunks, a pool, a status, and an engine that ranks for real."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import count
from typing import Any

from memtui.bus import Bus, SearchReady
from memtui.engine.ports import RebuildCost, RecentFile, SourceText
from memtui.engine.what_if import MOST_WORDS, WordsToTry
from memtui.errors import ProviderError
from memtui.model import (
    CandidatePool,
    Chunk,
    IndexState,
    IndexStatus,
    Leg,
    LegHit,
    LegState,
    LegStatus,
    ProviderState,
    Ranked,
    Ranking,
    Reason,
    SourceCount,
    WatcherState,
)
from memtui.model.inquiry import Inquiry, Passages, Place
from memtui.model.status import ProbeResult, ProviderListing
from memtui.ranking.pipeline import rank
from memtui.settings.schema import EmbeddingSettings
from tests.tui import sample_answers
from tests.tui.provider_samples import PROVIDERS
from tests.tui.quiet import NothingToBrowse

NOW = datetime(2026, 2, 13, 12, 0, tzinfo=UTC)

NOTES: tuple[tuple[str, int, int, str], ...] = (
    (
        "memory/2026-02-10.md",
        12,
        31,
        "Configured Omada router: VLAN 20 for IoT, VLAN 30 guests; DHCP lease 12h.\n"
        "- [x] backup config\n- [ ] follow up on the guest portal\n\n## Later\nplain line",
    ),
    (
        "memory/2026-02-09.md",
        4,
        22,
        "Configured Omada router again after firmware 5.13; VLAN 20 IoT, VLAN 30 guests kept.\n"
        "- [x] backup config",
    ),
    (
        "memory/network.md",
        1,
        26,
        "# Network\nRouter 192.168.10.1 (Omada ER605). DNS: AdGuard on 192.168.10.2. Config lives in git.",
    ),
    (
        "MEMORY.md",
        30,
        44,
        "Prefers wired uplinks. Router password lives in the vault, never in notes. Config reviews on Fridays.",
    ),
    (
        "memory/2026-02-07.md",
        9,
        24,
        "Set up AdGuard DNS on the NAS; router hands out 192.168.10.2 as resolver.",
    ),
    (
        "memory/topics/homelab.md",
        41,
        60,
        "The trunk port was untagged, so the switch dropped VLAN 20 frames from the router.",
    ),
    (
        "memory/2026-01-21.md",
        3,
        15,
        "Moved the router to the hallway; better signal in the office. Old config exported.",
    ),
    (
        "memory/2025-11-02.md",
        40,
        58,
        "Router config first written down: PPPoE, MTU 1492, bridge mode on the modem.",
    ),
    ("memory/家/网络.md", 1, 9, "路由器 配置: VLAN 20 给 IoT 设备, router config 备份在 git."),
    ("memory/2025-09-15.md", 7, 19, "Bought the Omada ER605 router; still in the box."),
)
_VECTOR = (0.92, 0.90, 0.71, 0.66, 0.61, 0.58, 0.55, 0.52, 0.40, 0.31)
_KEYWORD = (-6.9, -6.8, -7.4, -5.2, None, -3.1, -4.4, -7.2, -3.9, None)


def make_chunk(path: str, start: int, end: int, text: str) -> Chunk:
    """A chunk whose day is the date in its file name."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    name = path.rpartition("/")[2].removesuffix(".md")
    try:
        day: date | None = date.fromisoformat(name)
    except ValueError:
        day = None
    chunk_id = hashlib.sha256(
        f"{path}:{start}:{digest}".encode("utf-8", "surrogatepass")
    ).hexdigest()
    return Chunk(
        chunk_id,
        path,
        "memory",
        start,
        end,
        text,
        digest,
        "demo",
        day=day,
        day_from=Reason.FILE_NAME if day else None,
        mtime_ns=1_760_000_000_000_000_000,
    )


CHUNKS: tuple[Chunk, ...] = tuple(make_chunk(*note) for note in NOTES)


def make_pool(
    query: str = "router config",
    chunks: Sequence[Chunk] = CHUNKS,
    *,
    terms: tuple[str, ...] = ("router", "config"),
    vector: LegState | None = None,
    limit: int = 50,
) -> CandidatePool:
    """A pool of these chunks, scored as the sample's tables say."""
    cosines = _VECTOR[: len(chunks)]
    texts = [(chunk, raw) for chunk, raw in zip(chunks, _KEYWORD, strict=False) if raw is not None]
    by_bm25 = sorted(texts, key=lambda pair: pair[1])
    vector_state = vector or LegState(LegStatus.OK, elapsed_ms=11.0)
    vector_hits = tuple(
        LegHit(chunk.id, place, raw)
        for place, (chunk, raw) in enumerate(zip(chunks, cosines, strict=False))
    )
    keyword_hits = tuple(
        LegHit(chunk.id, place, raw, terms) for place, (chunk, raw) in enumerate(by_bm25)
    )
    return CandidatePool(
        query=query,
        chunks={chunk.id: chunk for chunk in chunks},
        hits={
            Leg.VECTOR: vector_hits if vector_state.status is LegStatus.OK else (),
            Leg.KEYWORD: keyword_hits,
        },
        states={Leg.VECTOR: vector_state, Leg.KEYWORD: LegState(LegStatus.OK, elapsed_ms=4.0)},
        limit=limit,
        generation=1,
        elapsed_ms=15.0,
    )


def make_ranked(ranking: Ranking | None = None, **pool: object) -> Ranked:
    """The sample ranked at a fixed clock."""
    return rank(make_pool(**pool), ranking or Ranking(), now=NOW)  # type: ignore[arg-type]


STATUS = IndexStatus(
    state=IndexState.READY,
    root="/home/ann/memory",
    index_dir="/home/ann/.local/share/memtui/memory-1f",
    generation=3,
    files=142,
    chunks=1284,
    vectors=1284,
    sources=(SourceCount("memory", 142, 1284),),
    pending=(),
    pending_count=0,
    skipped=(),
    provider=ProviderState("auto", "minilm", "all-MiniLM-L6-v2-int8", 384),
    vector_backend="exact float32",
    tokenizer="porter unicode61",
    watcher=WatcherState("events", "", None),
    writer="this process",
    last_sync=None,
    progress=None,
    cache_hits=1200,
    cache_misses=84,
    errors=(),
)


def SampleSource(path: str, lines: list[str], state: str = "current", **more: Any) -> SourceText:
    """A note as the sample engine reads it."""
    return SourceText(path, lines, state, **{"hash": "", **more})


def SampleCost(**more: Any) -> RebuildCost:
    """A rebuild's price."""
    model = "all-MiniLM-L6-v2-int8"
    cost = RebuildCost(142, 1284, 1200, 33_600, False, provider="minilm", model=model)
    return replace(cost, **more)


@dataclass
class SampleEngine(NothingToBrowse):
    """An engine over the sample: really ranks, answers on the bus, and notes what was asked."""

    bus: Bus
    pool: CandidatePool = field(default_factory=make_pool)
    current: IndexStatus = STATUS
    silent: bool = False
    """Whether searches stay unanswered until `answer` is called."""
    asked: list[tuple[int, str]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    """Texts that were asked as finished ones."""
    calls: list[str] = field(default_factory=list)
    sources: dict[str, SourceText] = field(default_factory=dict)
    recents: list[RecentFile] = field(default_factory=list)
    outside: tuple[Chunk, ...] = ()
    """Chunks of the index that no search finds."""
    listings: Sequence[ProviderListing] = PROVIDERS
    probes: dict[str, ProbeResult] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)
    """By name, why the engine does not go over to a provider."""
    switched: list[EmbeddingSettings] = field(default_factory=list)
    held: int = 0
    """How often the index was to wait for a key."""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def now(self) -> datetime:
        """Tell the time of the sample."""
        return NOW

    def hold_indexing(self) -> None:
        """Count the keys that the index would wait for."""
        self.held += 1

    def submit(self, text: str, *, ranking: Ranking | None = None, typing: bool = True) -> int:
        """Note the request and answer it at once, unless silent."""
        sequence = next(self._numbers)
        self.asked.append((sequence, text))
        self.finished += [] if typing else [text]
        if not self.silent:
            self.answer(sequence, text, ranking)
        return sequence

    def answer(self, sequence: int, text: str, ranking: Ranking | None = None) -> None:
        """Publish an answer."""
        pool = replace(self.pool, query=text)
        self.bus.publish(SearchReady(sequence, self.rerank(pool, ranking or Ranking()), True))

    def rerank(self, pool: CandidatePool, ranking: Ranking) -> Ranked:
        """Rank at the sample's clock."""
        return rank(pool, ranking, now=NOW)

    def ask(self, text: str, *, ranking: Ranking | None = None, typing: bool = False) -> Ranked:
        """Note the search and answer it with the sample."""
        self.calls.append(f"search {text}")
        return self.rerank(replace(self.pool, query=text), ranking or Ranking())

    @property
    def indexed(self) -> tuple[Chunk, ...]:
        """Every chunk of the index, in the pool or not."""
        return (*self.pool.chunks.values(), *self.outside)

    def inquire(self, ranked: Ranked, chunk_id: str) -> Inquiry:
        """Why a chunk is shown or not, from the pool."""
        self.calls.append("inquire")
        return sample_answers.inquiry(ranked, self.indexed, chunk_id)

    def inquire_at(self, ranked: Ranked, place: Place) -> Inquiry:
        """Why a place is shown or not, from the pool."""
        self.calls.append(f"inquire {place}")
        return sample_answers.inquiry_at(ranked, self.indexed, place)

    def passages(self, ranked: Ranked, chunk_id: str) -> Passages:
        """The sentences nearest to the query, by hashed words."""
        return sample_answers.passages(ranked, self.indexed, chunk_id)

    def words_to_try(self, ranked: Ranked, chunk_id: str, limit: int = MOST_WORDS) -> WordsToTry:
        """The chunk's rarest words in the sample."""
        return WordsToTry(sample_answers.lacking(ranked, self.indexed, chunk_id, limit))

    def paths(self) -> Sequence[str]:
        """The files of the sample, sorted."""
        return sorted({chunk.path for chunk in self.indexed})

    def recent(self, limit: int = 20) -> Sequence[RecentFile]:
        """The notes that changed last."""
        return self.recents[:limit]

    def sync(self, wait: bool = False) -> None:
        """Note the call."""
        self.calls.append("sync")

    def rebuild(self, wait: bool = False) -> None:
        """Note the call."""
        self.calls.append("rebuild")

    def cancel(self) -> None:
        """Note the call."""
        self.calls.append("cancel")

    def rebuild_cost(self) -> RebuildCost:
        """A fixed price."""
        return SampleCost()

    def listed_providers(self) -> Sequence[ProviderListing]:
        """The providers of the sample."""
        self.calls.append("providers")
        return self.listings

    def provider_cost(self, choice: EmbeddingSettings) -> RebuildCost:
        """The price of the sample, for where the provider of that name sends text."""
        self.calls.append(f"cost {choice.provider}")
        found = next(each for each in self.listings if each.name == choice.provider)
        return SampleCost(
            remote=found.remote,
            price=0.0007 if found.remote else None,
            currency="USD" if found.remote else "",
            provider=found.name,
            model=found.model or "",
            address=found.address,
        )

    def switch_provider(self, choice: EmbeddingSettings) -> None:
        """Note the choice; a provider that refuses raises."""
        if choice.provider in self.refuses:
            raise ProviderError(self.refuses[choice.provider])
        self.switched.append(choice)

    def probe_provider(self, choice: EmbeddingSettings) -> ProbeResult:
        """What is prepared for the provider of that name."""
        self.calls.append(f"probe {choice.provider}")
        return self.probes[choice.provider]

    def status(self) -> IndexStatus:
        """The current snapshot."""
        return self.current

    def source(self, path: str) -> SourceText:
        """A note made of the sample's chunks, at their lines."""
        self.calls.append(f"source {path}")
        if path in self.sources:
            return self.sources[path]
        lines: list[str] = []
        for chunk in self.pool.chunks.values():
            if chunk.path == path:
                lines += [""] * (chunk.start_line - 1 - len(lines))
                lines += chunk.text.split("\n")
        return SampleSource(path, lines)

    def close(self) -> None:
        """Note the call."""
        self.calls.append("close")
