"""One line about the index, the most important first."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from memtui.model import IndexState, IndexStatus, ProviderState
from memtui.model.status import ForeignStatus
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words as words
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets import foreign_status

_STATE_CELLS = 36
_FALLBACK_CELLS = 60
_MUTED = "$foreground 60%"


class StatusBar(Widget):
    """State, waiting changes, counts, model, backend, watcher: what fits, in this order."""

    DEFAULT_CSS = """
    StatusBar { height: 1; padding: 0 1; background: $surface; color: $foreground; }
    """

    class Clicked(Message):
        """The bar was clicked."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="status-bar")
        self._glyphs = glyphs
        self._segments: tuple[Content, ...] = (Content.styled("opening…", "$foreground 60%"),)
        self._destination = Content("")
        """Where text goes, in short; empty while it stays here."""

    def show(self, status: IndexStatus) -> None:
        """Show a snapshot of the index status."""
        self._segments = status_segments(status, self._glyphs)
        self._destination = destination(status, self._glyphs)
        # A new tooltip would be laid out every time.
        if (told := foreign_status.tooltip(status)) != self.tooltip:
            self.tooltip = told
        self.refresh()

    def show_note(self, note: str, *, error: bool = False) -> None:
        """Show one line in place of the status, before there is one."""
        style = "$state-error" if error else "$foreground 60%"
        mark = f"{self._glyphs.error} " if error else ""
        self._destination = Content("")
        self._segments = (Content.styled(mark + safe_line(note), style),)
        self.refresh()

    def render(self) -> Content:
        """Draw the segments that fit; where text goes to has its place before any of them."""
        width = max(self.size.width, 1)
        first = self._segments[0] if self._segments else Content("")
        rest = list(self._segments[1:])
        goes = self._destination
        if goes and first.cell_length + 2 + rest[0].cell_length > width:
            rest[0] = goes
            first = fmt.fit(first, width - goes.cell_length - 2)
        line = first
        for segment in rest:
            if line.cell_length + 2 + segment.cell_length > width:
                break
            line = line + "  " + segment
        return line.truncate(width, ellipsis=True)

    def on_click(self, event: events.Click) -> None:
        """Ask for the index screen."""
        event.stop()
        self.post_message(self.Clicked())


def status_segments(status: IndexStatus, glyphs: Glyphs) -> tuple[Content, ...]:
    """The parts of the status line, the most important first."""
    if status.foreign is not None:
        return foreign_segments(status, status.foreign, glyphs)
    watcher = status.watcher
    seen = f", {fmt.ago(watcher.last_event)}" if watcher.last_event else ""
    watching = {"events": "watching", "polling": "polling", "off": "not watching"}
    model = provider_segment(status.provider, glyphs)
    # What leaves the machine, and what is not as asked for, comes before anything that is counted.
    is_first = bool(_destination(status.provider, glyphs)) or words.is_fallback(status.provider)
    asked = status.cache_hits + status.cache_misses
    candidates = (
        state_segment(status, glyphs),
        model if is_first else Content(""),
        _segment(
            f"{fmt.counted(status.pending_count, 'change')} waiting"
            if status.pending_count
            else "",
            "$state-warn",
        ),
        _segment(
            f"{glyphs.error} {len(status.errors)} errors" if status.errors else "", "$state-error"
        ),
        _segment(f"{fmt.counted(status.files, 'file')} {fmt.counted(status.chunks, 'chunk')}", ""),
        Content("") if is_first else model,
        _segment(f"cache {fmt.percent(status.cache_hits, asked)}" if asked else "", _MUTED),
        _segment(status.vector_backend, _MUTED),
        _segment(watching.get(watcher.mode, watcher.mode) + seen, _MUTED),
    )
    return tuple(segment for segment in candidates if segment)


def provider_segment(provider: ProviderState, glyphs: Glyphs) -> Content:
    """Who answers instead of whom and why, the model, and where text goes."""
    name = "/".join(words.brief(part) for part in (provider.actual, provider.model) if part)
    model = f"{name} {provider.dimensions}d" if name and provider.dimensions else name
    if words.is_fallback(provider):
        asked, actual = words.brief(provider.requested), words.brief(provider.actual or "")
        instead = f"{glyphs.degraded} {asked} {glyphs.arrow} {actual}: {words.why(provider)}"
        told = Content.styled(instead, "$state-warn").truncate(_FALLBACK_CELLS, ellipsis=True)
    else:
        told = _segment(model or "no model: keyword only", _MUTED)
    goes = _destination(provider, glyphs)
    return Content.assemble(told, " ", goes) if goes else told


def destination(status: IndexStatus, glyphs: Glyphs) -> Content:
    """Where text goes in as few cells as possible; empty while it stays in this program."""
    provider = status.provider
    goes = _destination(provider, glyphs) if status.foreign is None else Content("")
    name = words.brief(provider.actual or provider.requested)
    return Content.assemble((f"{name} ", _MUTED), goes) if goes else goes


def _destination(provider: ProviderState, glyphs: Glyphs) -> Content:
    # Until it is loaded, a service that was asked for has no address yet.
    if not provider.address and not (provider.remote and provider.actual):
        return Content("")
    place = f"{glyphs.arrow} {words.place_words(provider.address, remote=provider.remote)}"
    style = words.place_style(provider.address, remote=provider.remote)
    return Content.styled(place, style or _MUTED)


def foreign_segments(
    status: IndexStatus, foreign: ForeignStatus, glyphs: Glyphs
) -> tuple[Content, ...]:
    """The parts for another program's index: state, agent, profile, findings, what it holds."""
    found = foreign_status.counted_findings(foreign)
    held = f"{fmt.counted(status.files, 'file')} {fmt.counted(status.chunks, 'chunk')}"
    state = state_segment(status, glyphs)
    long = state.cell_length > _STATE_CELLS
    candidates = (
        state.truncate(_STATE_CELLS, ellipsis=True) if long else state,
        _segment(foreign_status.agent_name(foreign), "bold"),
        _segment(foreign.profile, "$primary"),
        _segment(f"i: {found}" if found else "", "$state-warn"),
        _segment(held, ""),
        _segment(f"needs {foreign.query_vectors}", "$foreground 60%"),
        _segment(status.vector_backend, "$foreground 60%"),
        _segment("read only", "$foreground 60%"),
    )
    return tuple(segment for segment in candidates if segment)


def state_segment(status: IndexStatus, glyphs: Glyphs) -> Content:
    """The state as glyph and word, with how far it is or what is wrong."""
    glyph, style = {
        IndexState.READY: (glyphs.ready, "$state-ok"),
        IndexState.INDEXING: (glyphs.indexing, "$state-warn"),
        IndexState.STALE: (glyphs.stale, "$state-warn"),
        IndexState.DEGRADED: (glyphs.degraded, "$state-warn"),
        IndexState.ERROR: (glyphs.error, "$state-error"),
        IndexState.NO_INDEX: (glyphs.no_index, "$state-warn"),
    }[status.state]
    text = f"{glyph} {fmt.state_word(status.state)}"
    progress = status.progress
    if status.state is IndexState.INDEXING and progress is not None:
        text += f" {progress.phase} {fmt.percent(progress.done, progress.total)}"
        if progress.eta is not None:
            text += f" {fmt.clock(progress.eta)} left"
    elif status.foreign is not None:
        detail = foreign_status.state_detail(status, status.foreign)
        text += f": {detail}" if detail else ""
    elif status.state is IndexState.DEGRADED:
        detail = status.provider.detail or fmt.reason_words(status.provider.state)
        text += f": {detail}"
    elif status.state is IndexState.ERROR and status.errors:
        text += f": {status.errors[-1].message}"
    return Content.styled(safe_line(text), style)


def _segment(text: str, style: str) -> Content:
    return Content.styled(safe_line(text), style)
