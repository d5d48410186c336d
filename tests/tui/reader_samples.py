"""A believable note and index status, and an application for the tests of single widgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace
from textual.app import App
from textual.theme import Theme
from textual.widget import Widget

from memtui.engine.ports import RebuildCost, SourceText
from memtui.model import (
    ErrorRecord,
    IndexState,
    IndexStatus,
    Progress,
    ProviderState,
    Reason,
    SkippedFile,
    SourceCount,
    SyncStats,
    WatcherState,
)
from memtui.tui.app import MemtuiApp
from memtui.tui.fmt import THEMES, variable_defaults
from tests.support.known import load

NOW = datetime(2026, 2, 13, 9, 30, tzinfo=UTC)


def Source(
    path: str, lines: list[str], state: str = "current", detail: str = "", **more: Any
) -> SourceText:
    """A note as the engine would hand it out."""
    return SourceText(path, lines, state, detail=detail, **more)


def Cost(**more: Any) -> RebuildCost:
    """The cost of a rebuild."""
    model = "all-MiniLM-L6-v2-int8"
    cost = RebuildCost(142, 1284, 1233, 512_000, False, provider="minilm", model=model)
    return replace(cost, **more)


def note(lines: int = 60) -> SourceText:
    """A Markdown note of about this many lines with the first chunk at lines 12 to 31."""
    head = load("notes")["panes"]["memory/2026-02-10.md"].splitlines()
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
        return list(self._widgets)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The leg and state colours."""
        theme: Theme = self.current_theme
        return variable_defaults(theme.dark)
