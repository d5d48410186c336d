"""The status of an index in words and styles: its facts, a pane with some, the status bar."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from textual import events
from textual.content import Content

from memtui.model import IndexState, IndexStatus, Progress, ProviderState
from memtui.model.status import ForeignStatus, Severity
from memtui.report import status as words
from memtui.report.status import state_detail, state_words, status_sections, tone_of
from memtui.report.words import BACKEND_WORDS, clock, short_number
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.present import STYLES
from memtui.tui.widgets.lists import Fact, TextBlock

LABEL = 12
"""Cells for the name of a fact."""
READ_ONLY = "the index belongs to the agent's program: memtui only reads it"
LOOKS_AGAIN = f"{READ_ONLY}, and looks at it again"
REBUILD_HINT = f"{READ_ONLY}; openclaw memory index --force rebuilds it"
_NOT_IN_PANE = frozenset(
    ("memory", "index", "", "why", "failure", "next step", "tokenizer", "writer", "usage", "next")
)
_PANE_LABEL = 10
_METER = 6
_STATE_CELLS = 36
_FALLBACK_CELLS = 60
_NEXT = {
    IndexState.NO_INDEX: "F5 index this folder; search works while it runs",
    IndexState.ERROR: "R rebuild the index (Esc R while typing)",
}
_WATCHING = {"events": "watching", "off": "not watching"}


def state_line(status: IndexStatus, glyphs: Glyphs = UNICODE) -> Content:
    """Return the state as glyph and words, with what it means: `◌ stale: 2 files waiting`."""
    detail = safe_line(state_detail(status))
    if status.state is IndexState.NO_INDEX and status.foreign is None:
        detail = "F5 index this folder"
    elif status.state is IndexState.STALE and status.foreign is None:
        detail += ", F5 continue"
    head = f"{getattr(glyphs, status.state.value)} {state_words(status.state)}"
    style = STYLES[tone_of(status.state)]
    return Content.assemble((head, f"bold {style}"), (f": {detail}" if detail else "", style))


def counted_findings(foreign: ForeignStatus) -> str:
    """Return how many things are wrong: `1 error, 2 warnings`; empty when there is none."""
    findings = foreign.truth.findings if foreign.truth is not None else ()
    counts = Counter(finding.severity for finding in findings)
    wrong = [severity for severity in (Severity.ERROR, Severity.WARNING) if counts[severity]]
    return ", ".join(fmt.count(counts[severity], severity.value) for severity in wrong)


def index_facts(status: IndexStatus, now: datetime) -> list[Fact]:
    """Return everything about an index that is no list, and the newest error."""
    facts = [
        (row.cells[0], Content.styled(fmt.home_relative(row.cells[1]), STYLES[row.tone]))
        for section in status_sections(status, now)
        for row in section.rows
        if section.id in ("index", "warnings") and row.cells[0] != "state"
    ]
    if status.errors:
        error = status.errors[-1]
        aside = f"  {safe_line(error.where)}, {fmt.ago(error.at, now)}"
        message = (safe_line(error.message), "$state-error")
        facts.append(("last error", Content.assemble(message, (aside, fmt.MUTED))))
    if status.state in _NEXT and status.foreign is None:
        facts.append(("next", Content(_NEXT[status.state])))
    return facts


def place_style(address: str, *, remote: bool) -> str:
    """Return the style of a place that text goes to: a warning for what leaves the machine."""
    if remote:
        return "$state-warn"
    return "" if address else fmt.MUTED


def progress_line(progress: Progress, width: int, glyphs: Glyphs = UNICODE) -> Content:
    """Draw a meter in `width` cells with share, rate and time left: `━━── 61 %  41/s  ETA 0:12`."""
    tail = f" {fmt.percent(progress.done, progress.total)}"
    extra = f"  {short_number(progress.rate, 0)}/s" if progress.rate > 0 else ""
    if progress.eta is not None:
        extra += f"  ETA {clock(progress.eta)}"
    cells = max(_METER, width - len(tail) - len(extra))
    full = cells * progress.done // progress.total if progress.total > 0 else 0
    full = min(cells, max(0, full))
    return Content.assemble(
        (glyphs.meter_full * full, "$accent"),
        (glyphs.meter_empty * (cells - full), "$foreground 30%"),
        tail,
        (extra, fmt.MUTED),
    )


class IndexStatusPane(TextBlock):
    """The index at a glance, for the layout with three columns."""

    def __init__(self, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="index-status")
        self.glyphs = glyphs
        self.border_title = "Index"
        self.show(lambda width: [Content.styled("opening the index…", fmt.MUTED)])

    def show_status(self, status: IndexStatus, now: datetime) -> None:
        """Show a snapshot, one line a fact; ages count from `now`."""
        facts = []
        for label, value in index_facts(status, now):
            if label == "holds":
                # How much each source holds is on the index screen.
                value = Content(value.plain.partition(" (")[0])
            if label not in _NOT_IN_PANE and (label != "text" or status.provider.address):
                facts.append(Content.assemble((f"{label:<{_PANE_LABEL}}", fmt.MUTED), value))

        def lines(width: int) -> list[Content]:
            progress = status.progress
            meter = [progress_line(progress, width, self.glyphs)] if progress is not None else []
            shown = [state_line(status, self.glyphs), *meter, *facts]
            return [fmt.fit(line, width) for line in shown]

        self.show(lines)


class StatusBar(TextBlock):
    """State, waiting changes, counts, model, backend, watcher: what fits, in this order."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="status-bar")
        self._glyphs = glyphs
        self.show_note("opening…")

    def show_status(self, status: IndexStatus) -> None:
        """Show a snapshot of the index status; the place text goes to comes before the counts."""
        provider, foreign = status.provider, status.foreign
        first, *others = status_segments(status, self._glyphs)
        goes = Content("")
        tooltip = None
        if foreign is not None:
            place = fmt.home_relative(status.index_dir)
            facts = index_facts(status, datetime.now(UTC))
            # Which profile, and how the file is read.
            lines = [value for label, value in facts if label in ("profile", "")]
            aside = Content.styled(f"{place}   i: everything", fmt.MUTED)
            tooltip = Content("\n").join([*lines, aside])
        elif place_text := destination(provider, self._glyphs):
            name = words.brief(provider.actual or provider.requested)
            goes = Content.assemble((f"{name} ", fmt.DIM), place_text)
        # A new tooltip would be laid out every time.
        if tooltip != self.tooltip:
            self.tooltip = tooltip

        def draw(width: int) -> list[Content]:
            line, rest = first, others
            if goes and line.cell_length + 2 + rest[0].cell_length > width:
                rest = [goes, *rest[1:]]
                line = fmt.fit(line, width - goes.cell_length - 2)
            for segment in rest:
                if line.cell_length + 2 + segment.cell_length > width:
                    break
                line = line + "  " + segment
            return [fmt.fit(line, width)]

        self.show(draw)

    def show_note(self, note: str, *, error: bool = False) -> None:
        """Show one line in place of the status, before there is one."""
        text, style = (f"{self._glyphs.error} {note}", "$state-error") if error else (note, fmt.DIM)
        line = _segment(text, style)
        self.show(lambda width: [fmt.fit(line, width)])

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        await self.run_action("app.show_screen('index')")


def status_segments(status: IndexStatus, glyphs: Glyphs) -> list[Content]:
    """Return the parts of the status line, the most important first."""
    foreign, watcher, provider = status.foreign, status.watcher, status.provider
    counts = f"{fmt.count(status.files, 'file')} {fmt.count(status.chunks, 'chunk')}"
    state, holds = state_line(status, glyphs), _segment(counts, "")
    backend = _segment(
        "" if status.vector_backend in BACKEND_WORDS else status.vector_backend, fmt.DIM
    )
    if foreign is not None:
        findings = counted_findings(foreign)
        segments = [
            fmt.fit(state, _STATE_CELLS),
            _segment(foreign.agent or "index file", "bold"),
            _segment(foreign.profile, "$primary"),
            _segment(f"i: {findings}" if findings else "", "$state-warn"),
            holds,
            _segment(f"needs {foreign.query_vectors}", fmt.DIM),
            backend,
            _segment("read-only", fmt.DIM),
        ]
        return [segment for segment in segments if segment]
    waiting = f"{fmt.count(status.pending_count, 'change')} waiting"
    errors = f"{glyphs.error} {fmt.count(len(status.errors), 'error')}"
    lookups = status.cache_hits + status.cache_misses
    seen = f", {fmt.ago(watcher.last_event)}" if watcher.last_event else ""
    segments = [
        state,
        _segment(waiting if status.pending_count else "", "$state-warn"),
        _segment(errors if status.errors else "", "$state-error"),
        holds,
        _segment(f"cache {fmt.percent(status.cache_hits, lookups)}" if lookups else "", fmt.DIM),
        backend,
        _segment(_WATCHING.get(watcher.mode, watcher.mode) + seen, fmt.DIM),
    ]
    # What leaves the machine, and what is not as asked for, comes before anything that is counted.
    name = "/".join(words.brief(part) for part in (provider.actual, provider.model) if part)
    model = f"{name} {provider.dimensions} d" if name and provider.dimensions else name
    answers = _segment(model or "no model: keyword match only", fmt.DIM)
    goes, is_fallback = destination(provider, glyphs), words.is_fallback(provider)
    if is_fallback:
        requested, actual = words.brief(provider.requested), words.brief(provider.actual or "")
        instead = f"{glyphs.degraded} {requested} {glyphs.arrow} {actual}: {words.why(provider)}"
        answers = Content.styled(instead, "$state-warn").truncate(_FALLBACK_CELLS, ellipsis=True)
    if goes:
        answers = Content.assemble(answers, " ", goes)
    segments.insert(1 if goes or is_fallback else 4, answers)
    return [segment for segment in segments if segment]


def destination(provider: ProviderState, glyphs: Glyphs) -> Content:
    """Return the place text goes to; empty while it stays in this program."""
    # Until it is loaded, a service that was asked for has no address yet.
    if not provider.address and not (provider.remote and provider.actual):
        return Content("")
    place = f"{glyphs.arrow} {words.place_words(provider.address, remote=provider.remote)}"
    return Content.styled(place, place_style(provider.address, remote=provider.remote) or fmt.DIM)


def _segment(text: str, style: str) -> Content:
    return Content.styled(safe_line(text), style)
