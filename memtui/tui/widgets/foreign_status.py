"""An index that another program made, in a few words: status bar, index pane, tooltips."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from textual.content import Content

from memtui.model import IndexState, IndexStatus
from memtui.model.status import FileState, Finding, ForeignStatus, IndexGeneration, Severity
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.widgets.facts import Fact

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


def state_detail(status: IndexStatus, foreign: ForeignStatus) -> str:
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
