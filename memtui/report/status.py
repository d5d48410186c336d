"""The state of an index as sections: for `memtui status` and the screens of the index.

Every row is a label and a value; the tone of a row is that of its value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from memtui.model import IndexState, IndexStatus, SkippedFile, SyncStats
from memtui.model.status import FileState, ForeignStatus, Severity, Truth
from memtui.report import words
from memtui.report.layout import LABELLED, Column, Row, Section, Tone
from memtui.report.providers import (
    cache_words,
    is_fallback,
    provider_lines,
    provider_summary,
    usage_words,
)

SHOWN_FILES = 20
"""So many changed files are named to people; `--json` has all."""
STATE_TONES = {
    IndexState.READY: Tone.OK,
    IndexState.INDEXING: Tone.WARN,
    IndexState.STALE: Tone.WARN,
    IndexState.DEGRADED: Tone.WARN,
    IndexState.ERROR: Tone.ERROR,
    IndexState.NO_INDEX: Tone.WARN,
}
FILE_TONES = {
    FileState.CURRENT: Tone.OK,
    FileState.STALE: Tone.WARN,
    FileState.ORPHAN: Tone.ERROR,
    FileState.NEVER_INDEXED: Tone.WARN,
    FileState.SKIPPED: Tone.MUTED,
}
SEVERITY_TONES = {
    Severity.ERROR: Tone.ERROR,
    Severity.WARNING: Tone.WARN,
    Severity.INFO: Tone.MUTED,
}


def status_sections(status: IndexStatus, now: datetime | None = None) -> Iterator[Section]:
    """Yield what there is to know of an index: its facts, then what is waiting or wrong.

    With `now`, times are told as ages.
    """
    if status.foreign is not None:
        yield from _agent_sections(status, status.foreign)
        return
    yield Section("index", "index", LABELLED, tuple(_index_rows(status, now)))
    lists = {
        "pending": [Row(("pending", path)) for path in status.pending],
        "skipped": [
            Row(("skipped", f"{file.path}: {skipped_words(file)}")) for file in status.skipped
        ],
        "errors": [
            Row(
                ("error", f"{time_words(error.at, now)} {error.where}: {error.message}"),
                tone=Tone.ERROR,
            )
            for error in status.errors
        ],
        "warnings": [Row(("warning", text), tone=Tone.WARN) for text in status.warnings],
    }
    for name, rows in lists.items():
        if rows:
            yield Section(name, name, LABELLED, tuple(rows))


def _index_rows(status: IndexStatus, now: datetime | None) -> Iterator[Row]:
    state = state_words(status.state)
    if status.pending_count and status.state is IndexState.NO_INDEX:
        state += f" ({words.count(status.pending_count, 'file', ' to index')})"
    elif status.pending_count:
        state += f" ({words.count(status.pending_count, 'changed file')})"
    yield Row(("state", state), tone=STATE_TONES[status.state])
    yield Row(("memory", status.root))
    yield Row(("index", f"{status.index_dir} (generation {status.generation})"))
    sources = ", ".join(
        f"{s.source} {words.count(s.files, 'file')} {words.count(s.chunks, 'chunk')}"
        for s in status.sources
    )
    yield Row(("holds", f"{held_words(status, 'vector')}{f' ({sources})' if sources else ''}"))
    provider = status.provider
    fails = provider.actual is None or is_fallback(provider)
    yield Row(("provider", provider_summary(provider)), tone=Tone.WARN if fails else Tone.PLAIN)
    yield from (Row(pair) for pair in provider_lines(provider))
    yield Row(("vectors", status.vector_backend))
    yield Row(("tokenizer", status.tokenizer))
    detail = f" ({status.watcher.detail})" if status.watcher.detail else ""
    event = status.watcher.last_event if now is not None else None
    seen = f", last event {words.ago(event, now)}" if event is not None else ""
    yield Row(("watcher", f"{status.watcher.mode}{detail}{seen}"))
    yield Row(("writer", status.writer))
    stats = status.last_sync
    yield Row(("last sync", last_sync_words(stats, now)))
    if stats is not None:
        did = (
            f"{words.count(stats.files_seen, 'file')} seen, "
            f"{words.count(stats.chunks_written, 'chunk')} written, "
            f"{words.count(stats.chunks_embedded)} embedded, "
            f"{words.count(stats.cache_hits, 'cache hit')}"
        )
        yield Row(("", did), tone=Tone.MUTED)
    if status.usage.requests:
        yield Row(("spent", usage_words(status.usage)))
    if status.cache_hits or status.cache_misses:
        yield Row(("cache", cache_words(status.cache_hits, status.cache_misses)))


def state_words(state: IndexState | FileState) -> str:
    """Return a state as words: `no index`."""
    return state.value.replace("_", " ")


def held_words(status: IndexStatus, vector: str, after: str = "") -> str:
    """Return how much the index holds: `2 files, 7 chunks, 7 vectors`."""
    return (
        f"{words.count(status.files, 'file')}, {words.count(status.chunks, 'chunk')}, "
        f"{words.count(status.vectors, vector)}{after}"
    )


def agent_gets_words(foreign: ForeignStatus | None) -> str:
    """Return what the agent gets in place of what is shown here; empty while that is the same."""
    if foreign is None or foreign.agent_gets in (None, "same"):
        return ""
    return words.AGENT_GETS.get(foreign.agent_gets_because or "", words.AGENT_GETS["paused"])


def skipped_words(file: SkippedFile) -> str:
    """Return why a file is left out."""
    return file.detail or words.reason_words(file.reason)


def time_words(when: datetime, now: datetime | None) -> str:
    """Return an age where there is a clock to count it from, else the time itself."""
    return f"{when:%Y-%m-%d %H:%M:%S}" if now is None else words.ago(when, now)


def last_sync_words(stats: SyncStats | None, now: datetime | None = None) -> str:
    """Return when the last sync of this process ended, and how long it took; with ages what it did.

    `3 s ago: +1 ~2 files, 41 ms`.
    """
    if stats is None:
        return "not by this process"
    did = ""
    if now is not None:
        counted = {"+": stats.files_added, "~": stats.files_changed}
        counted[words.MINUS] = stats.files_removed
        changes = [f"{mark}{words.count(number)}" for mark, number in counted.items() if number]
        files = "file" if sum(counted.values()) == 1 else "files"
        did = f": {' '.join(changes)} {files}" if changes else ": no change"
        did = did.replace(": ", ": rebuild, ", 1) if stats.rebuild else did
    return f"{time_words(stats.finished_at, now)}{did}, {words.duration(stats.seconds)}"


# --- an agent's index ---------------------------------------------------------------------------


def _agent_sections(status: IndexStatus, foreign: ForeignStatus) -> Iterator[Section]:
    """Yield which index it is and what it says of itself, then what is wrong with it."""
    truth = foreign.truth
    rows = list(_agent_rows(status, foreign))
    if truth is None:
        yield Section("index", "index", LABELLED, tuple(rows))
        return
    whole = Tone.OK if truth.integrity == "ok" else Tone.ERROR
    vectors = {"complete": Tone.OK, "absent": Tone.ERROR, "empty": Tone.ERROR}
    rows += [
        Row(("integrity", truth.integrity), tone=whole),
        Row(("vectors", truth.vector_state), tone=vectors.get(truth.vector_state, Tone.WARN)),
        Row(("reads", truth.database_read)),
    ]
    yield Section("index", "index", LABELLED, tuple(rows))
    yield Section("identity", "identity", LABELLED, tuple(_identity_rows(truth)))
    yield from _file_sections(truth)
    yield Section("coverage", "coverage", LABELLED, tuple(_coverage_rows(truth)))
    leftovers = tuple(Row(("leftover", text)) for text in truth.leftovers)
    yield Section("leftovers", "leftovers", LABELLED, leftovers)
    findings = tuple(
        Row(
            (finding.severity.value, f"{finding.code}: {finding.message}"),
            tone=SEVERITY_TONES[finding.severity],
            names=finding.names,
            count=max(finding.count, len(finding.names)),
        )
        for finding in truth.findings
    )
    yield Section("findings", "findings", LABELLED, findings)


def _agent_rows(status: IndexStatus, foreign: ForeignStatus) -> Iterator[Row]:
    yield Row(("state", state_words(status.state)), tone=STATE_TONES[status.state])
    yield Row(("agent", foreign.agent or "not known"))
    yield Row(("index", status.index_dir))
    yield Row(("", f"generation {foreign.generation.value}, opened {foreign.opened}"))
    unknown = "the workspace is not known: --root FOLDER names it"
    yield Row(("memory", status.root or unknown))
    yield Row(("profile", f"{foreign.profile}: {foreign.chosen_because}"))
    yield Row(("program", foreign.app_version or "its version is not written in the index"))
    keywords_alone = status.provider.actual == "none" or status.provider.model == "fts-only"
    queries = f"need vectors of {foreign.query_vectors}"
    if keywords_alone:
        queries = "by keywords alone: the index has no vectors"
    yield Row(("queries", queries))
    yield Row(("holds", held_words(status, "row", " in the vector table")))
    yield Row(("tokenizer", status.tokenizer or "none"))


def _identity_rows(truth: Truth) -> Iterator[Row]:
    """Yield what an index says of itself, and whether that is what is expected."""
    width = max((words.cells_of(field.name) for field in truth.identity), default=0)
    tones = {True: Tone.OK, False: Tone.ERROR, None: Tone.MUTED}
    for field in truth.identity:
        text = "not stored" if field.stored is None else field.stored
        if field.agrees:
            text += ", as expected"
        elif field.agrees is None:
            expected = "" if field.expected is None else f", expected {field.expected}"
            text += f"{expected}, not compared"
        else:
            text = f"DIFFERS: {text}, expected {field.expected}"
        note = f" ({field.note})" if field.note else ""
        label = words.padded(field.name, width)
        yield Row(("identity", f"{label}  {text}{note}"), tone=tones[field.agrees])


def _file_sections(truth: Truth) -> Iterator[Section]:
    counts = Counter(file.state for file in truth.files)
    listed = [f"{counts[state]:,} {state_words(state)}" for state in FileState if counts[state]]
    total = Row(("files", ", ".join(listed) or "not compared"))
    yield Section("files", "files", LABELLED, (total,))
    drifted = truth.drifted
    rows = []
    for file in drifted[:SHOWN_FILES]:
        reason = f": {file.reason}" if file.reason else ""
        cells = (f"  {state_words(file.state)}", f"{file.path}{reason}")
        rows.append(Row(cells, tone=FILE_TONES[file.state]))
    left = len(drifted) - SHOWN_FILES
    more = (f"… and {left:,} more: --json names all",) if left > 0 else ()
    yield Section(
        "drifted", "drifted", (Column("state", width=16), Column("file")), tuple(rows), more
    )


def _coverage_rows(truth: Truth) -> Iterator[Row]:
    for coverage in truth.coverage:
        total = "?" if coverage.on_disk is None else f"{coverage.on_disk:,}"
        text = (
            f"{coverage.source}: {coverage.indexed:,} indexed of {total} on disk, "
            f"{words.count(coverage.chunks, 'chunk')}"
        )
        complete = coverage.on_disk in (None, coverage.indexed)
        yield Row(("coverage", text), tone=Tone.PLAIN if complete else Tone.WARN)
    for share in truth.models:
        size = f"{share.dimensions} dimensions" if share.dimensions else "no vector"
        text = f"{share.model or '?'}, {size}: {words.count(share.chunks, 'chunk')}"
        yield Row(("model", text), tone=Tone.PLAIN if share.dimensions else Tone.WARN)
