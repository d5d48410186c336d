"""A believable result list, note and index status for the tests of the reading widgets."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta
from typing import Any

from msgspec.structs import replace
from textual.app import App
from textual.theme import Theme
from textual.widget import Widget

from memtui.engine.ports import RebuildCost, SourceText
from memtui.model import (
    CandidatePool,
    Chunk,
    Decay,
    Drop,
    ErrorRecord,
    Hit,
    IndexState,
    IndexStatus,
    Leg,
    LegHit,
    LegState,
    LegStatus,
    Mmr,
    Progress,
    ProviderState,
    Ranked,
    Ranking,
    Reason,
    SkippedFile,
    SourceCount,
    SyncStats,
    WatcherState,
)
from memtui.ranking.pipeline import rank
from memtui.tui.app import MemtuiApp
from memtui.tui.format import THEMES, variable_defaults

NOW = datetime(2026, 2, 13, 9, 30, tzinfo=UTC)

HOSTILE = (
    "- [x] done",
    "[/]",
    "[/foo]",
    "[@click=app.quit]hi[/]",
    "[red]x[/red] arr[0] [r [1, '3']",
    "\x1b]2;PWNED\x1b\\",
    "\x1b]52;c;cHduZWQ=\x07",
    "\x1b[6n\x9b31m\x00\x7f\x08\x0b\x0c\r",
    "\u202eevil\u2066x\u2069\u202a\u202d",
    "\ud800lone",
    "a\tb\nc",
)
"""Strings that must never reach a terminal as they are, nor be read as markup."""

_NOTES = (
    ("memory/2026-02-10.md", 12, 31, 0.4312, -6.81,
     "Configured Omada router: VLAN 20 for IoT, VLAN 30 guests; DHCP lease 12 h.\n- [x] backup config\n- [ ] follow up with the ISP"),
    ("memory/network.md", 1, 26, 0.4051, -5.20,
     "# Network\nRouter 192.168.10.1 (Omada ER605). DNS: AdGuard on 192.168.10.2."),
    ("memory/2026-02-09.md", 4, 22, 0.4180, -6.40,
     "Configured Omada router again after firmware 5.13; VLAN 20 IoT, VLAN 30 guests; DHCP lease 12 h."),
    ("MEMORY.md", 30, 44, 0.3710, -3.90,
     "Prefers wired uplinks. Router password lives in the vault, never in notes."),
    ("sessions/3f9a.md", 211, 230, 0.3902, None,
     "User: why does the router drop VLAN 20? Assistant: the trunk port was untagged."),
    ("memory/2026-02-07.md", 9, 20, 0.3555, -3.10,
     "Set up AdGuard DNS on the NAS; router hands out 192.168.10.2 as resolver."),
    ("memory/2026-01-21.md", 3, 9, 0.3205, -2.71, "Router order placed; config sheet printed."),
    ("memory/2025-11-02.md", 40, 58, 0.3010, -2.45, "Old router config exported to the NAS share."),
)  # fmt: skip


def chunk(path: str, start: int, end: int, text: str) -> Chunk:
    """A chunk of a note; dated when its name is."""
    key = hashlib.sha256(f"{path}:{start}".encode("utf-8", "surrogatepass")).hexdigest()
    stem = path.rpartition("/")[2].removesuffix(".md")
    day = date.fromisoformat(stem) if len(stem) == 10 and stem[:2] == "20" else None
    return Chunk(
        key, path, "sessions" if path.startswith("sessions") else "memory", start, end, text,
        key, "all-MiniLM-L6-v2-int8", day, Reason.FILE_NAME if day else None,
        int((NOW - timedelta(days=12)).timestamp() * 1e9),
    )  # fmt: skip


def pool() -> CandidatePool:
    """Eight candidates for "router config"."""
    chunks = [chunk(path, start, end, text) for path, start, end, _, _, text in _NOTES]
    vector = sorted(zip(chunks, _NOTES, strict=True), key=lambda pair: -pair[1][3])
    keyword = sorted(
        (pair for pair in zip(chunks, _NOTES, strict=True) if pair[1][4] is not None),
        key=lambda pair: pair[1][4] or 0.0,
    )
    return CandidatePool(
        "router config",
        {item.id: item for item in chunks},
        {
            Leg.VECTOR: tuple(
                LegHit(item.id, place, note[3]) for place, (item, note) in enumerate(vector)
            ),
            Leg.KEYWORD: tuple(
                LegHit(item.id, place, note[4] or 0.0, ("router", "config"))
                for place, (item, note) in enumerate(keyword)
            ),
        },
        {
            Leg.VECTOR: LegState(
                LegStatus.OK, elapsed_ms=4.2,
                facts={"backend": "matrix", "provider": "minilm", "model": "all-MiniLM-L6-v2-int8"},
            ),
            Leg.KEYWORD: LegState(
                LegStatus.OK, elapsed_ms=1.3,
                facts={"match": '"router" OR "config"', "stop_words": "the, my", "pruned": ""},
            ),
        },
        50,
    )  # fmt: skip


RANKING = Ranking(
    k=6, decay=Decay(enabled=True), mmr=Mmr(enabled=True, lambda_=0.7), min_score=0.05
)


def ranked(ranking: Ranking = RANKING, candidates: CandidatePool | None = None) -> Ranked:
    """The pool, ranked at a fixed moment."""
    return rank(candidates or pool(), ranking, now=NOW)


def everything(result: Ranked) -> list[Hit | Drop]:
    """The hits and the near misses."""
    return [*result.hits, *result.drops]


def hostile_ranked() -> Ranked:
    """A list in which every text from outside is hostile."""
    attack = "".join(HOSTILE)
    base = pool()
    chunks = {
        key: replace(item, path=f"memory/{attack}{index}.md", text=f"{attack}\n{item.text}")
        for index, (key, item) in enumerate(base.chunks.items())
    }
    hits = {
        leg: tuple(replace(hit, terms=(attack,) if hit.terms else ()) for hit in found)
        for leg, found in base.hits.items()
    }
    states = {
        Leg.VECTOR: LegState(
            LegStatus.FAILED, Reason.PROVIDER_FAILED, attack, 1.0, {"model": attack}
        ),
        Leg.KEYWORD: LegState(
            LegStatus.OK, facts={"match": attack, "pruned": attack, "stop_words": attack}
        ),
    }
    return ranked(candidates=replace(base, query=attack, chunks=chunks, hits=hits, states=states))


def Source(
    path: str, lines: list[str], state: str = "current", detail: str = "", **more: Any
) -> SourceText:
    """A note as the engine would hand it out."""
    return SourceText(path, lines, state, detail=detail, **{"hash": "", **more})


def Cost(**more: Any) -> RebuildCost:
    """The cost of a rebuild."""
    model = "all-MiniLM-L6-v2-int8"
    cost = RebuildCost(142, 1284, 1233, 512_000, False, provider="minilm", model=model)
    return replace(cost, **more)


def note(lines: int = 60) -> SourceText:
    """A Markdown note of about this many lines with the first chunk at lines 12 to 31."""
    head = [
        "---", "date: 2026-02-10", "importance: 0.8", "---", "",
        "# Tuesday", "", "Quiet day. Coffee with **Mara**, then the network closet.", "",
        "", "## Network",
        "Configured Omada router: VLAN 20 for IoT, VLAN 30 guests; DHCP lease 12 h.",
        "- [x] backup config", "- [ ] follow up with the ISP, see [ticket](https://isp.example/4711)",
        "- the `ER605` needs firmware *5.13* or later",
        "", "```python", "def lease(hours: int) -> str:", '    return f"{hours} h"  # router default',
        "```", "", "| vlan | name   |", "|------|--------|", "| 20   | IoT    |",
        "", "> never put the router password in a note", "",
        "路由器配置：VLAN 20 用于物联网设备。", "",
    ]  # fmt: skip
    tail = [f"plain line {number} about nothing" for number in range(len(head) + 1, lines + 1)]
    return Source("memory/2026-02-10.md", head + tail)


def status(state: IndexState = IndexState.READY) -> IndexStatus:
    """An index of 142 files in a state."""
    indexing = state is IndexState.INDEXING
    degraded = state is IndexState.DEGRADED
    return IndexStatus(
        state=state,
        root="/home/mara/openclaw",
        index_dir="/home/mara/.local/share/memtui/openclaw-4be1",
        generation=3,
        files=142,
        chunks=1284,
        vectors=1284 if not indexing else 783,
        sources=(SourceCount("memory", 118, 902), SourceCount("sessions", 24, 382)),
        pending=("memory/2026-02-13.md", "memory/projects/boat.md"),
        pending_count=2,
        skipped=(
            SkippedFile("memory/link.md", Reason.SYMLINK, "to /etc/hosts"),
            SkippedFile("node_modules", Reason.IGNORED),
            SkippedFile("memory/dump.md", Reason.TOO_LARGE, "64 MB"),
        ),
        provider=ProviderState(
            "auto" if degraded else "minilm",
            None if degraded else "minilm",
            "all-MiniLM-L6-v2-int8",
            384,
            Reason.PROVIDER_FAILED if degraded else Reason.OK,
            "401 from api.example: no such key" if degraded else "",
        ),
        vector_backend="matrix, sqlite-vec 0.1.6",
        tokenizer="porter unicode61 remove_diacritics 2",
        watcher=WatcherState("events", "", NOW - timedelta(seconds=3)),
        writer="this process",
        last_sync=SyncStats(
            False, NOW - timedelta(minutes=2), 0.42, 142, 1, 2, 0, 3, 31, 29, 2
        ),
        progress=Progress("vectors", 783, 1284, 41.5, 12.1, "memory/2026-02-10.md")
        if indexing else None,
        cache_hits=1233,
        cache_misses=51,
        errors=(
            ErrorRecord(NOW - timedelta(minutes=7), "memory/bad.md", "3 bytes are not UTF-8, replaced"),
            ErrorRecord(NOW - timedelta(hours=2), "provider", "timeout after 30 s"),
        ),
    )  # fmt: skip


def hostile_status() -> IndexStatus:
    """A status in which every text from outside is hostile."""
    attack = "".join(HOSTILE)
    return replace(
        status(IndexState.DEGRADED),
        root=attack,
        index_dir=attack,
        sources=(SourceCount(attack, 1, 1),),
        pending=(attack,),
        skipped=(SkippedFile(attack, Reason.SYMLINK, attack),),
        provider=ProviderState(attack, attack, attack, 3, Reason.PROVIDER_FAILED, attack),
        vector_backend=attack,
        tokenizer=attack,
        watcher=WatcherState(attack, attack, NOW),
        writer=attack,
        progress=Progress(attack, 1, 2, 1.0, 3.0, attack),
        errors=(ErrorRecord(NOW, attack, attack),),
        warnings=(attack,),
    )


class ReaderApp(App[object]):
    """An application around a few widgets, with memtui's themes and colours."""

    DEFAULT_CSS = MemtuiApp.DEFAULT_CSS
    SCOPED_CSS = False

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide"), (160, "-huge")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012

    def __init__(self, *widgets: Widget, theme: str = "memtui-dark", css: str = "") -> None:
        super().__init__()
        self._widgets = widgets
        for known in THEMES:
            self.register_theme(known)
        self.theme = theme
        self._extra = css

    def compose(self) -> list[Widget]:
        """Show the widgets."""
        return list(self._widgets)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The leg and state colours."""
        theme: Theme = self.current_theme
        return variable_defaults(theme.dark)


def screen_text(app: App[object]) -> str:
    """What is on screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)
