"""The index status in a pane of about ten lines, and the facts that the index screen shows."""

from __future__ import annotations

from datetime import UTC, datetime

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from memtui.model import IndexState, IndexStatus, Progress, ProviderState, Reason, SyncStats
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words as words
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.widgets import foreign_status
from memtui.tui.widgets.facts import Fact

_LABEL = 11
_METER = 6


def state_line(status: IndexStatus, glyphs: Glyphs = UNICODE) -> Content:
    """The state as glyph and words, with what it means: `◌ stale  2 files waiting`."""
    style = fmt.STATE_STYLES[status.state]
    glyph = str(getattr(glyphs, status.state.value))
    return Content.assemble(
        (f"{glyph} {fmt.state_word(status.state)}", f"bold {style}"),
        (f"  {state_detail(status)}" if state_detail(status) else "", fmt.MUTED),
    )


def state_detail(status: IndexStatus) -> str:
    """What a state means just now."""
    if status.foreign is not None:
        return foreign_status.state_detail(status, status.foreign)
    match status.state:
        case IndexState.INDEXING if status.progress is not None:
            progress = status.progress
            return f"{safe_line(progress.phase)} {fmt.percent(progress.done, progress.total)}"
        case IndexState.STALE if status.pending_count:
            return f"{fmt.counted(status.pending_count, 'file')} waiting"
        case IndexState.STALE:
            return f"{fmt.counted(status.chunks - status.vectors, 'chunk')} without a vector"
        case IndexState.DEGRADED if words.is_fallback(status.provider):
            return words.fallback_note(status.provider)
        case IndexState.DEGRADED:
            return f"keyword only: {fmt.reason_words(status.provider.state)}"
        case IndexState.ERROR if status.errors:
            return safe_line(status.errors[-1].message)
        case IndexState.NO_INDEX:
            return "r indexes this folder"
        case _:
            return ""


def counts(status: IndexStatus) -> Content:
    """How much the index holds."""
    return Content(f"{fmt.counted(status.files, 'file')}  {fmt.counted(status.chunks, 'chunk')}")


def vectors_line(status: IndexStatus) -> Content:
    """What searches the vectors, and how many there are as long as some are missing."""
    backend = safe_line(status.vector_backend)
    if status.vectors >= status.chunks:
        return Content(backend)
    some = f"{fmt.count(status.vectors)} of {fmt.count(status.chunks)}"
    return Content.assemble((some, "$state-warn"), f"  {backend}")


def provider_line(provider: ProviderState, glyphs: Glyphs = UNICODE) -> Content:
    """The provider asked for and the one that answers, when they differ with the reason."""
    asked = safe_line(provider.requested)
    actual = safe_line(provider.actual) if provider.actual else "none"
    names = actual if asked == actual else f"{asked} {glyphs.arrow} {actual}"
    if provider.actual:
        names += " (remote)" if provider.remote else " (local)"
    if provider.state is Reason.OK:
        return Content(names)
    why = words.detail_of(provider) or words.why(provider)
    return Content.assemble(names, (f"  {why}", "$state-warn"))


def model_line(provider: ProviderState) -> Content:
    """The model and its dimensions."""
    if provider.model is None:
        return Content.styled("none", fmt.MUTED)
    dimensions = f"  {provider.dimensions} d" if provider.dimensions else ""
    return Content(safe_line(provider.model) + dimensions)


def watcher_line(status: IndexStatus, now: datetime | None = None) -> Content:
    """How changes are noticed and when the last one was."""
    watcher = status.watcher
    text = safe_line(watcher.mode)
    if watcher.last_event is not None:
        text += f", last event {fmt.ago(watcher.last_event, now)}"
    if watcher.detail:
        text += f"  {safe_line(watcher.detail)}"
    return Content(text)


def cache_line(status: IndexStatus) -> Content:
    """The hit rate of the embedding cache."""
    total = status.cache_hits + status.cache_misses
    if not total:
        return Content.styled("not asked yet", fmt.MUTED)
    return Content(
        f"{fmt.percent(status.cache_hits, total)} hits"
        f"  ({fmt.count(status.cache_hits)} of {fmt.count(total)})"
    )


def sync_line(stats: SyncStats | None, now: datetime | None = None) -> Content:
    """What the last sync did, how long it took and when."""
    if stats is None:
        return Content.styled("never", fmt.MUTED)
    counts = (
        ("+", stats.files_added),
        ("~", stats.files_changed),
        (fmt.MINUS, stats.files_removed),
    )
    changes = [f"{mark}{fmt.count(value)}" for mark, value in counts if value]
    files = "file" if sum(value for _, value in counts) == 1 else "files"
    what = f"{' '.join(changes)} {files}" if changes else "no change"
    kind = "rebuild, " if stats.rebuild else ""
    return Content(
        f"{fmt.ago(stats.finished_at, now)}: {kind}{what}, {fmt.duration(stats.seconds)}"
    )


def progress_line(progress: Progress, width: int, glyphs: Glyphs = UNICODE) -> Content:
    """A meter with share, rate and time left, in `width` cells: `━━━━── 61 %  41/s  ETA 0:12`."""
    tail = f" {fmt.percent(progress.done, progress.total)}"
    extra = f"  {fmt.short_number(progress.rate, 0)}/s" if progress.rate > 0 else ""
    if progress.eta is not None:
        extra += f"  ETA {fmt.clock(progress.eta)}"
    cells = max(_METER, width - len(tail) - len(extra))
    full = cells * progress.done // progress.total if progress.total > 0 else 0
    full = min(cells, max(0, full))
    return Content.assemble(
        (glyphs.meter_full * full, "$accent"),
        (glyphs.meter_empty * (cells - full), "$foreground 30%"),
        tail,
        (extra, fmt.MUTED),
    )


def error_line(status: IndexStatus, now: datetime | None = None) -> Content:
    """The newest error with its age, or `none`."""
    if not status.errors:
        return Content.styled("none", fmt.MUTED)
    error = status.errors[-1]
    return Content.assemble(
        (safe_line(error.message), "$state-error"),
        (f"  {safe_line(error.where)}, {fmt.ago(error.at, now)}", fmt.MUTED),
    )


def pane_facts(status: IndexStatus, width: int, glyphs: Glyphs, now: datetime) -> list[Fact]:
    """The facts of the pane, each of one line."""
    if status.foreign is not None:
        held: list[Fact] = [("holds", counts(status)), ("vectors", vectors_line(status))]
        told = foreign_status.foreign_pane_facts(status, status.foreign, now)
        return [*told[:2], *held, *told[2:], ("last error", error_line(status, now))]
    facts: list[Fact] = [
        ("holds", counts(status)),
        ("provider", provider_line(status.provider, glyphs)),
        ("model", model_line(status.provider)),
        ("vectors", vectors_line(status)),
        ("cache", cache_line(status)),
        ("watcher", watcher_line(status, now)),
        ("last sync", sync_line(status.last_sync, now)),
    ]
    if status.provider.address:
        facts.insert(3, ("text", words.text_line(status.provider)))
    if status.progress is not None:
        facts.insert(1, ("progress", progress_line(status.progress, width - _LABEL, glyphs)))
    if status.pending_count:
        facts.append(("waiting", Content(fmt.counted(status.pending_count, "file"))))
    facts.append(("last error", error_line(status, now)))
    return facts


class IndexStatusPane(Widget):
    """The index at a glance, for the layout with three columns."""

    DEFAULT_CSS = """
    IndexStatusPane {
        height: auto;
        min-height: 3;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = "index-status") -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self.border_title = "Index"
        self._status: IndexStatus | None = None
        self._now: datetime | None = None
        self._counted = 0
        """Lines when the height was chosen."""

    def show(self, status: IndexStatus, now: datetime | None = None) -> None:
        """Show a snapshot; ages count from `now`, by default the present moment."""
        self._status = status
        self._now = now
        lines = len(self._lines(self.content_size.width))
        # Not against the height at hand, which may be capped: that would be a layout every time.
        # Where nothing was counted yet, the layout that first shows this pane counts.
        self.refresh(layout=0 < self._counted != lines)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Count the lines."""
        self._counted = len(self._lines(width))
        return self._counted

    def render(self) -> Content:
        """Write the lines at the present width."""
        return Content("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> list[Content]:
        if self._status is None:
            return [Content.styled("opening the index…", fmt.MUTED)]
        now = self._now or datetime.now(UTC)
        facts = pane_facts(self._status, width, self.glyphs, now)
        lines = [state_line(self._status, self.glyphs)]
        lines += [
            Content.assemble((f"{label:<{_LABEL}}", fmt.MUTED), value) for label, value in facts
        ]
        return [line.truncate(max(8, width), ellipsis=True) for line in lines]
