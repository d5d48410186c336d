"""The status of an index in words and styles: its facts, a pane with some, the status bar."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from textual import events
from textual.content import Content

from memtui.model import IndexState, IndexStatus, Progress, ProviderState
from memtui.model.status import ForeignStatus, Severity
from memtui.report import status as words
from memtui.report.words import duration, short_number
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.present import STYLES
from memtui.tui.widgets.lists import Fact, TextBlock

LABEL = 12
"""Cells for the name of a fact."""
READ_ONLY = "the index belongs to the agent's program: memtui only reads it"
LOOKS_AGAIN = f"{READ_ONLY}, and looks at it again"
REBUILD_HINT = f"{READ_ONLY}; openclaw memory index --force rebuilds it"
_NOT_IN_PANE = frozenset(("memory", "sources", "why", "failure", "next step", "usage"))
_PANE_LABEL = 10
_METER = 6
_NEXT = glyphs.SIGNS["next"]
_WATCHING = {"events": "watching", "off": "not watching"}


def state_line(status: IndexStatus) -> Content:
    """Return the state as glyph and words, with what it means: `◌ stale: 2 files waiting`."""
    details = [safe_line(words.state_detail(status))]
    if status.state in _NEXT and status.foreign is None:
        # A rebuild would not bring the folder back.
        last = status.errors[-1].where if status.errors else ""
        is_folder = status.state is IndexState.ERROR and last == "folder"
        step = _NEXT["folder" if is_folder else status.state]
        details.append("another memtui writes" if status.has_other_writer else step)
    detail = ", ".join(filter(None, details))
    head = f"{glyphs.SIGNS['index'][status.state]} {words.state_words(status.state)}"
    style = STYLES[words.tone_of(status.state)]
    return Content.assemble((head, f"bold {style}"), (f": {detail}" if detail else "", style))


def counted_findings(foreign: ForeignStatus) -> str:
    """Return how many things are wrong: `1 error, 2 warnings`; empty when there is none."""
    findings = foreign.truth.findings if foreign.truth is not None else ()
    counts = Counter(finding.severity for finding in findings)
    wrong = [severity for severity in (Severity.ERROR, Severity.WARNING) if counts[severity]]
    return ", ".join(fmt.count(counts[severity], severity.value) for severity in wrong)


def index_facts(status: IndexStatus, now: datetime) -> list[Fact]:
    """Return what there is to know of an index, and the newest error."""
    facts = facts_of(status, now, "index", "warnings")
    if status.errors:
        error = status.errors[-1]
        aside = f"  {safe_line(error.where)}, {fmt.ago(error.at, now)}"
        message = (safe_line(error.message), "$state-error" if words.present_errors(status) else "")
        facts.append(("last error", Content.assemble(message, (aside, fmt.MUTED))))
    return facts


def facts_of(status: IndexStatus, now: datetime, *sections: str) -> list[Fact]:
    """Return the rows of sections of the report but the state, which is told beside them."""
    return [
        (row.cells[0], Content.styled(fmt.home_relative(row.cells[1]), STYLES[row.tone]))
        for section in words.status_sections(status, now)
        for row in section.rows
        if section.id in sections and row.cells[0] != "state"
    ]


def place_style(address: str, *, remote: bool) -> str:
    """Return the style of a place that text goes to: a warning for what leaves the machine."""
    if remote:
        return "$state-warn"
    return "" if address else fmt.MUTED


def progress_line(progress: Progress, width: int) -> Content:
    """Draw a meter in `width` cells with share, rate and time left: `━━── 61 %  41/s  9 s left`."""
    tail = f" {fmt.percent(progress.done, progress.total)}"
    extra = f"  {short_number(progress.rate, 0)}/s" if progress.rate > 0 else ""
    if progress.eta is not None:
        extra += f"  {duration(progress.eta)} left"
    cells = max(_METER, width - len(tail) - len(extra))
    full = cells * progress.done // max(progress.total, 1)
    return Content.assemble(
        (glyphs.METER_FULL * full, "$accent"),
        (glyphs.RULE * (cells - full), "$foreground 30%"),
        tail,
        (extra, fmt.MUTED),
    )


class IndexStatusPane(TextBlock):
    """The index at a glance, for the layout with three columns."""

    def __init__(self) -> None:
        super().__init__(id="index-status")
        self.border_title = "Index"
        self.show(lambda width: [Content()])

    def show_status(self, status: IndexStatus, now: datetime) -> None:
        """Show a snapshot, one line a fact; ages count from `now`."""
        facts = []
        for label, value in index_facts(status, now):
            if label not in _NOT_IN_PANE:
                facts.append(Content.assemble((f"{label:<{_PANE_LABEL}}", fmt.MUTED), value))

        def lines(width: int) -> list[Content]:
            progress = status.progress
            meter = [progress_line(progress, width)] if progress is not None else []
            return [fmt.fit(line, width) for line in (state_line(status), *meter, *facts)]

        self.show(lines)


class StatusBar(TextBlock):
    """State, provider and where text goes, counts, watcher: what fits, in this order."""

    def __init__(self) -> None:
        super().__init__(id="status-bar")
        self.show_note("opening…")

    def show_status(self, status: IndexStatus) -> None:
        """Show a snapshot of the index status; a long state leaves room for the provider."""
        state, provider, *others = status_segments(status)

        def draw(width: int) -> list[Content]:
            room = max(width // 3, width - provider.cell_length - 2)
            line = fmt.fit(state, room) + "  " + provider
            for segment in others:
                if line.cell_length + 2 + segment.cell_length > width:
                    break
                line = line + "  " + segment
            return [fmt.fit(line, width)]

        self.show(draw)

    def show_note(self, note: str, *, error: bool = False) -> None:
        """Show one line in place of the status, before there is one."""
        text, style = (f"{glyphs.ERROR} {note}", "$state-error") if error else (note, fmt.DIM)
        self.show(lambda width: [fmt.fit(_segment(text, style), width)])

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        await self.run_action("app.show_screen('index')")


def status_segments(status: IndexStatus) -> list[Content]:
    """Return the parts of the status line, the most important first."""
    foreign, watcher, errors = status.foreign, status.watcher, words.present_errors(status)
    counts = f"{fmt.count(status.files, 'file')} {fmt.count(status.chunks, 'chunk')}"
    if foreign is not None:
        segments = [
            _segment(foreign.agent or "index file", "bold"),
            _segment(foreign.profile, "$primary"),
            _segment(counted_findings(foreign), "$state-warn"),
            _segment(counts, ""),
            _segment(foreign.given_vectors or f"meaning needs {foreign.query_vectors}", fmt.DIM),
            _segment("read-only", fmt.DIM),
        ]
    else:
        event_age = f", {fmt.ago(watcher.last_event)}" if watcher.last_event else ""
        follows = f"{_WATCHING.get(watcher.mode, watcher.mode)}{event_age}"
        if status.has_other_writer:
            follows = "another memtui writes the index"
        segments = [
            provider_segment(status.provider),
            _segment(f"{glyphs.ERROR} {fmt.count(errors, 'error')}" * bool(errors), "$state-error"),
            _segment(counts, ""),
            _segment(follows, fmt.DIM),
        ]
    return [state_line(status), *filter(None, segments)]


def provider_segment(provider: ProviderState) -> Content:
    """Return who makes vectors, instead of whom, and where text goes: `minilm, here`."""
    if provider.actual is None:
        return Content.styled("no model: keyword match only", fmt.DIM)
    name, style = words.brief(provider.actual), fmt.DIM
    if words.is_fallback(provider):
        name = f"{glyphs.DEGRADED} {words.brief(provider.requested)} → {name}"
        name, style = f"{name}: {words.why(provider)}", "$state-warn"
    place = words.place_words(provider.address, remote=provider.remote)
    if place == words.HERE:
        return Content.styled(f"{name}, here", style)
    style_there = place_style(provider.address, remote=provider.remote) or fmt.DIM
    return Content.assemble((name, style), (f" → {place}", style_there))


def _segment(text: str, style: str) -> Content:
    return Content.styled(safe_line(text), style)
