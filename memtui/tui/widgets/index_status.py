"""The index status in a pane of about ten lines, and the facts that the index screen shows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from memtui.model import IndexState, IndexStatus, Progress, ProviderState, Reason, SyncStats
from memtui.model.status import FileState, Finding, ForeignStatus, IndexGeneration, Severity
from memtui.report import providers as words
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import provider_words
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.widgets.line_view import Fact, TextBlock

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
        return foreign_detail(status, status.foreign)
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


def status_lines(
    status: IndexStatus, now: datetime, glyphs: Glyphs = UNICODE
) -> dict[str, Content]:
    """Return what there is to know of an index, one line by its label."""
    provider, watcher = status.provider, status.watcher
    backend = Content(safe_line(status.vector_backend))
    if status.vectors < status.chunks:
        some = f"{fmt.count(status.vectors)} of {fmt.count(status.chunks)}"
        backend = Content.assemble((some, "$state-warn"), "  ", backend)
    asked = status.cache_hits + status.cache_misses
    hits = f"{fmt.percent(status.cache_hits, asked)} hits" if asked else ""
    cache = f"{hits}  ({fmt.count(status.cache_hits)} of {fmt.count(asked)})"
    watching = safe_line(watcher.mode)
    if watcher.last_event is not None:
        watching += f", last event {fmt.ago(watcher.last_event, now)}"
    if watcher.detail:
        watching += f"  {safe_line(watcher.detail)}"
    model = Content.styled("none", fmt.MUTED)
    if provider.model is not None:
        dimensions = f"  {provider.dimensions} d" if provider.dimensions else ""
        model = Content(safe_line(provider.model) + dimensions)
    return {
        "holds": counts(status),
        "provider": provider_line(provider, glyphs),
        "model": model,
        "vectors": backend,
        "cache": Content(cache) if asked else Content.styled("not asked yet", fmt.MUTED),
        "watcher": Content(watching),
        "last sync": sync_line(status.last_sync, now),
    }


def provider_line(provider: ProviderState, glyphs: Glyphs) -> Content:
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


def sync_line(stats: SyncStats | None, now: datetime | None = None) -> Content:
    """What the last sync did, how long it took and when."""
    if stats is None:
        return Content.styled("never", fmt.MUTED)
    counted = {"+": stats.files_added, "~": stats.files_changed, fmt.MINUS: stats.files_removed}
    changes = [f"{mark}{fmt.count(value)}" for mark, value in counted.items() if value]
    files = "file" if sum(counted.values()) == 1 else "files"
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
    lines = status_lines(status, now, glyphs)
    if status.foreign is not None:
        told = foreign_pane_facts(status, status.foreign, now)
        held = [(label, lines[label]) for label in ("holds", "vectors")]
        return [*told[:2], *held, *told[2:], ("last error", error_line(status, now))]
    facts: list[Fact] = list(lines.items())
    if status.provider.address:
        facts.insert(3, ("text", provider_words.text_line(status.provider)))
    if status.progress is not None:
        facts.insert(1, ("progress", progress_line(status.progress, width - _LABEL, glyphs)))
    if status.pending_count:
        facts.append(("waiting", Content(fmt.counted(status.pending_count, "file"))))
    return [*facts, ("last error", error_line(status, now))]


class IndexStatusPane(TextBlock):
    """The index at a glance, for the layout with three columns."""

    DEFAULT_CSS = """
    IndexStatusPane {
        min-height: 3;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        padding: 0 1;
    }
    """

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = "index-status") -> None:  # noqa: A002
        super().__init__(id=id)
        self.glyphs = glyphs
        self.border_title = "Index"
        self.show(lambda width: [Content.styled("opening the index…", fmt.MUTED)])

    def show_status(self, status: IndexStatus, now: datetime | None = None) -> None:
        """Show a snapshot; ages count from `now`, by default the present moment."""

        def lines(width: int) -> list[Content]:
            facts = pane_facts(status, width, self.glyphs, now or datetime.now(UTC))
            head = state_line(status, self.glyphs)
            rest = (
                Content.assemble((f"{label:<{_LABEL}}", fmt.MUTED), value) for label, value in facts
            )
            return [line.truncate(max(8, width), ellipsis=True) for line in (head, *rest)]

        self.show(lines)


GENERATION_WORDS: Mapping[IndexGeneration, str] = {
    IndexGeneration.SIDECAR: "a file of its own",
    IndexGeneration.AGENT: "inside the agent's database",
    IndexGeneration.AGENT_BLOB: "inside the agent's database, vectors as blobs",
}
SEVERITY_GLYPHS: Mapping[Severity, str] = {
    Severity.ERROR: "✗",
    Severity.WARNING: "!",
    Severity.INFO: "i",
}
SEVERITY_STYLES: Mapping[Severity, str] = {
    Severity.ERROR: "$state-error",
    Severity.WARNING: "$state-warn",
    Severity.INFO: fmt.MUTED,
}
SEVERITIES = (Severity.ERROR, Severity.WARNING, Severity.INFO)
"""The worst first."""
FILE_STATE_GLYPHS: Mapping[FileState, str] = {
    FileState.CURRENT: "✓",
    FileState.STALE: "~",
    FileState.ORPHAN: "✗",
    FileState.NEVER_INDEXED: "+",
    FileState.SKIPPED: "·",
}
FILE_STATE_STYLES: Mapping[FileState, str] = {
    FileState.CURRENT: "$state-ok",
    FileState.STALE: "$state-warn",
    FileState.ORPHAN: "$state-error",
    FileState.NEVER_INDEXED: "$state-warn",
    FileState.SKIPPED: fmt.MUTED,
}
AGENT_GETS: Mapping[str, str] = {
    "search_disabled": "the agent gets nothing: search is switched off",
    "qmd_backend": "another program answers the agent",
    "other_database_read": "the agent searches another database",
    "keyword_only_served": "the agent searches keywords only",
}
"""By the code of the finding; every other one pauses the agent's search."""
PAUSED = "the agent gets nothing: search is paused"
READ_ONLY = "the index belongs to the agent's program: memtui only reads it"
LOOKS_AGAIN = f"{READ_ONLY}, and looks at it again"
REBUILD_HINT = f"{READ_ONLY}; openclaw memory index --force builds it again"


def worst_first(foreign: ForeignStatus) -> tuple[Finding, ...]:
    """The findings, errors before warnings before the rest."""
    if foreign.truth is None:
        return ()
    findings = foreign.truth.findings
    return tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)))


def counted_findings(foreign: ForeignStatus) -> str:
    """How many things are wrong: `1 error, 2 warnings`; empty when there is none."""
    words = {Severity.ERROR: "error", Severity.WARNING: "warning"}
    found = [finding.severity for finding in worst_first(foreign)]
    return ", ".join(
        fmt.counted(found.count(severity), word)
        for severity, word in words.items()
        if severity in found
    )


def foreign_detail(status: IndexStatus, foreign: ForeignStatus) -> str:
    """What the state of another program's index means just now."""
    if foreign.examining:
        return "examining…"
    match status.state:
        case IndexState.ERROR if status.errors:
            return safe_line(status.errors[-1].message)
        case IndexState.DEGRADED:
            worst = worst_first(foreign)
            return safe_line(worst[0].code).replace("_", " ") if worst else ""
        case IndexState.STALE:
            return f"{fmt.counted(status.pending_count, 'file')} drifted"
        case _:
            return ""


def agent_note(foreign: ForeignStatus | None) -> str:
    """What the agent gets in place of the list on screen; empty where that is not known to differ.

    Known as soon as the index was examined.
    """
    if foreign is None or foreign.agent_gets in (None, "same"):
        return ""
    return AGENT_GETS.get(foreign.agent_gets_because, PAUSED)


def profile_line(foreign: ForeignStatus) -> Content:
    """The profile and how it was chosen."""
    because = f": {safe_line(foreign.chosen_because)}" if foreign.chosen_because else ""
    return Content.assemble((safe_line(foreign.profile), "bold"), because)


def opened_line(foreign: ForeignStatus) -> Content:
    """The generation, how the file is read and which program wrote it."""
    parts = [GENERATION_WORDS[foreign.generation]]
    if foreign.opened:
        parts.append(f"opened {safe_line(foreign.opened)}")
    if foreign.app_version:
        parts.append(f"written by {safe_line(foreign.app_version)}")
    return Content(", ".join(parts))


def agent_name(foreign: ForeignStatus) -> str:
    """The agent, or that there is only a file."""
    return safe_line(foreign.agent) if foreign.agent else "index file"


def found_line(foreign: ForeignStatus) -> Content:
    """The findings in one line."""
    if foreign.truth is None:
        return Content.styled("examining…" if foreign.examining else "not examined", fmt.MUTED)
    wrong = counted_findings(foreign)
    if not wrong:
        return Content.styled("nothing wrong", "$state-ok")
    return Content.styled(wrong, SEVERITY_STYLES[worst_first(foreign)[0].severity])


def foreign_pane_facts(status: IndexStatus, foreign: ForeignStatus, now: datetime) -> list[Fact]:
    """The facts of the pane, each of one line."""
    provider = status.provider
    model = "/".join(safe_line(part) for part in (provider.actual, provider.model) if part)
    size = f"  {provider.dimensions} d" if provider.dimensions else ""
    drifted = fmt.counted(status.pending_count, "file") if foreign.truth else "not known yet"
    return [
        ("agent", Content(agent_name(foreign))),
        ("profile", profile_line(foreign)),
        ("made with", Content((model or "no model") + size)),
        ("opened", opened_line(foreign)),
        ("drifted", Content(drifted)),
        ("found", found_line(foreign)),
    ]


def tooltip(status: IndexStatus) -> Content | None:
    """What the status bar says on hovering; `None` for memtui's own index."""
    foreign = status.foreign
    if foreign is None:
        return None
    lines = [profile_line(foreign), opened_line(foreign)]
    place = fmt.home_relative(status.index_dir)
    return Content("\n").join([*lines, Content.styled(f"{place}   i: everything", fmt.MUTED)])


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
        if (told := tooltip(status)) != self.tooltip:
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
    style = provider_words.place_style(provider.address, remote=provider.remote)
    return Content.styled(place, style or _MUTED)


def foreign_segments(
    status: IndexStatus, foreign: ForeignStatus, glyphs: Glyphs
) -> tuple[Content, ...]:
    """The parts for another program's index: state, agent, profile, findings, what it holds."""
    found = counted_findings(foreign)
    held = f"{fmt.counted(status.files, 'file')} {fmt.counted(status.chunks, 'chunk')}"
    state = state_segment(status, glyphs)
    long = state.cell_length > _STATE_CELLS
    candidates = (
        state.truncate(_STATE_CELLS, ellipsis=True) if long else state,
        _segment(agent_name(foreign), "bold"),
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
        detail = foreign_detail(status, status.foreign)
        text += f": {detail}" if detail else ""
    elif status.state is IndexState.DEGRADED:
        detail = status.provider.detail or fmt.reason_words(status.provider.state)
        text += f": {detail}"
    elif status.state is IndexState.ERROR and status.errors:
        text += f": {status.errors[-1].message}"
    return Content.styled(safe_line(text), style)


def _segment(text: str, style: str) -> Content:
    return Content.styled(safe_line(text), style)
