"""The truth about another program's index as rows and facts: pure functions of the status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from textual.content import Content

from memtui.model import IndexStatus
from memtui.model.status import (
    Coverage,
    FileState,
    FileTruth,
    Finding,
    ForeignStatus,
    IdentityField,
    ModelShare,
    Truth,
)
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.widgets.index_status import (
    FILE_STATE_GLYPHS,
    FILE_STATE_STYLES,
    SEVERITY_GLYPHS,
    SEVERITY_STYLES,
    agent_name,
    counts,
    error_line,
    found_line,
    opened_line,
)
from memtui.tui.widgets.line_view import Fact
from memtui.tui.widgets.row_list import Row

FILES_SHOWN = 500
"""More files than this are counted and not drawn: drawing thousands of rows would be felt."""
_FIELD = 19
_STATE = 13
_GAP = "  "
FILE_ORDER = (
    FileState.STALE,
    FileState.ORPHAN,
    FileState.NEVER_INDEXED,
    FileState.SKIPPED,
    FileState.CURRENT,
)
"""What a sync would touch comes first."""
_COUNTED = {FileState.NEVER_INDEXED: "new"}
"""Shorter words for the line that counts every state."""
_UNKNOWN = "not known here"

_AGREEMENT = {True: ("✓", "$state-ok"), False: ("✗", "$state-error"), None: ("?", fmt.MUTED)}
_VECTOR_STYLES = {"complete": "$state-ok", "absent": "$state-error", "empty": "$state-error"}


def place_facts(status: IndexStatus, foreign: ForeignStatus) -> list[Fact]:
    """Which index it is, and how it is read."""
    facts: list[Fact] = [
        ("agent", Content(agent_name(foreign))),
        ("database", Content(fmt.home_relative(status.index_dir))),
        ("", Content.assemble(opened_line(foreign), (", read only", fmt.MUTED))),
        ("workspace", Content(fmt.home_relative(status.root) if status.root else _UNKNOWN)),
    ]
    if foreign.truth is not None and foreign.truth.database_read:
        facts.append(("agent reads", Content(fmt.home_relative(foreign.truth.database_read))))
    return facts


def state_facts(status: IndexStatus, foreign: ForeignStatus, now: datetime) -> list[Fact]:
    """How much the index holds, and what its vectors are like."""
    truth = foreign.truth
    provider = status.provider
    size = f"{provider.dimensions} d  " if provider.dimensions else ""
    backend = size + safe_line(status.vector_backend)
    facts: list[Fact] = [
        ("holds", Content.assemble(counts(status), f"  {fmt.counted(status.vectors, 'vector')}")),
        ("made with", Content(safe_line(foreign.query_vectors))),
        ("tokenizer", Content(safe_line(status.tokenizer))),
        ("found", found_line(foreign)),
    ]
    if truth is not None:
        style = _VECTOR_STYLES.get(truth.vector_state, "$state-warn")
        whole = "$state-ok" if truth.integrity == "ok" else "$state-error"
        whether = Content.styled(safe_line(truth.vector_state), style)
        facts[-1:-1] = [
            ("vectors", Content.assemble(whether, f"  {backend}")),
            ("integrity", Content.styled(safe_line(truth.integrity), whole)),
        ]
    if status.errors:
        facts.append(("problem", error_line(status, now)))
    return facts


# --- findings -----------------------------------------------------------------------------------


def finding_rows(findings: Sequence[Finding]) -> list[Row]:
    """A finding: its severity and code, then what it means in as many lines as that needs."""
    return [Row(str(at), partial(_finding, finding), 0) for at, finding in enumerate(findings)]


def _finding(finding: Finding, width: int) -> Content:
    style = SEVERITY_STYLES[finding.severity]
    names = f"  ⏎ {fmt.count(max(finding.count, len(finding.names)))}" if finding.names else ""
    head = Content.assemble(
        (f" {SEVERITY_GLYPHS[finding.severity]} ", f"bold {style}"),
        (safe_line(finding.code), f"bold {style}"),
        (names, fmt.MUTED),
    )
    told = Content(safe_line(finding.message)).wrap(max(width - 3, 8))
    lines = [fmt.fit(head, width), *(Content.assemble("   ", line) for line in told)]
    return Content("\n").join(lines)


def finding_detail(finding: Finding) -> Content:
    """Everything about a finding."""
    style = SEVERITY_STYLES[finding.severity]
    lines = [
        Content.styled(f"{SEVERITY_GLYPHS[finding.severity]} {finding.severity.value}", style),
        Content(safe_line(finding.message)),
    ]
    if finding.names:
        more = finding.count - len(finding.names)
        lines += [Content(""), *(Content(f"  {safe_line(name)}") for name in finding.names)]
        if more > 0:
            lines.append(Content.styled(f"  and {fmt.count(more)} more", fmt.MUTED))
    return Content("\n").join(lines)


# --- identity -----------------------------------------------------------------------------------


def identity_rows(fields: Sequence[IdentityField]) -> list[Row]:
    """A field of the identity: what is stored, what is expected, whether they agree."""
    return [Row(str(at), partial(identity_row, field)) for at, field in enumerate(fields)]


def identity_row(field: IdentityField, width: int) -> Content:
    """`✗ model  stored → expected`, one value where both agree."""
    mark, style = _AGREEMENT[field.agrees]
    stored, expected = _value(field.stored), _value(field.expected)
    room = max(width - _FIELD - 3, 8)
    if field.agrees:
        value = Content(stored)
    elif field.expected is None:
        note = field.note or "expected: not known here"
        value = Content.assemble(stored, (f"  {safe_line(note)}", fmt.MUTED))
    else:
        value = Content.assemble((stored, style), (" → ", fmt.MUTED), (expected, "bold"))
    return fmt.fit(
        Content.assemble(
            (f"{mark} ", style), (f"{safe_line(field.name):<{_FIELD}}", fmt.MUTED),
            " ", value.truncate(room, ellipsis=True),
        ),
        width,
    )  # fmt: skip


def identity_detail(field: IdentityField) -> Content:
    """Both values whole, and the note."""
    mark, style = _AGREEMENT[field.agrees]
    words = {True: "agree", False: "differ", None: "cannot be compared here"}[field.agrees]
    lines = [
        Content.styled(f"{mark} {words}", style),
        Content.assemble(("stored    ", fmt.MUTED), _value(field.stored)),
        Content.assemble(("expected  ", fmt.MUTED), _value(field.expected)),
    ]
    if field.note:
        lines += [Content(""), Content(safe_line(field.note))]
    return Content("\n").join(lines)


def _value(value: str | None) -> str:
    return fmt.NOTHING if value is None else safe_line(value) or '""'


# --- files --------------------------------------------------------------------------------------


def state_words(state: FileState) -> str:
    """The state of a file in words."""
    return state.value.replace("_", " ")


def state_counts(files: Sequence[FileTruth]) -> Content:
    """How many files are in each state, what drifted first: `~ 2 stale  ✓ 14 current`."""
    found = Counter(file.state for file in files)
    return Content("  ").join(
        Content.assemble(
            (f"{FILE_STATE_GLYPHS[state]} ", FILE_STATE_STYLES[state]),
            f"{fmt.count(found[state])} {_COUNTED.get(state, state_words(state))}",
        )
        for state in FILE_ORDER
        if found[state]
    )


def file_rows(files: Sequence[FileTruth]) -> list[Row]:
    """Files that drifted before the others; at most `FILES_SHOWN`."""
    ordered = sorted(files, key=lambda file: FILE_ORDER.index(file.state))
    return [
        Row(f"{file.source}:{file.path}", partial(file_row, file)) for file in ordered[:FILES_SHOWN]
    ]


def file_row(file: FileTruth, width: int) -> Content:
    """`~ stale  memory/a.md  the file changed after it was indexed`; nothing more when current."""
    style = FILE_STATE_STYLES[file.state]
    path = Content(safe_line(file.path))
    reason = "" if file.state is FileState.CURRENT else safe_line(file.reason)
    state = f"{FILE_STATE_GLYPHS[file.state]} {state_words(file.state):<{_STATE}} "
    head = Content.styled(state, style)
    room = max(width - head.cell_length, 8)
    shown = path.truncate(max(room * 3 // 5, 8), ellipsis=True) if reason else path
    return fmt.fit(
        Content.assemble(head, shown, (f"{_GAP}{reason}" if reason else "", fmt.MUTED)), width
    )


def file_detail(file: FileTruth, now: datetime) -> Content:
    """The state of a file, why, and both times."""
    style = FILE_STATE_STYLES[file.state]
    facts = [
        ("source", safe_line(file.source)),
        ("chunks", fmt.count(file.chunks)),
        ("on disk", _time(file.on_disk, now)),
        ("in index", _time(file.in_index, now)),
    ]
    lines = [Content.styled(f"{FILE_STATE_GLYPHS[file.state]} {state_words(file.state)}", style)]
    if file.reason:
        lines.append(Content(safe_line(file.reason)))
    lines.append(Content(""))
    lines += [Content.assemble((f"{label:<10}", fmt.MUTED), value) for label, value in facts]
    return Content("\n").join(lines)


def _time(when: datetime | None, now: datetime) -> str:
    if when is None:
        return fmt.NOTHING
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}  {fmt.ago(when, now)}"


# --- coverage and leftovers ---------------------------------------------------------------------


def coverage_rows(truth: Truth) -> list[Row]:
    """The sources, then the models and sizes of the vectors."""
    rows = [_line(f"source:{part.source}", _source(part)) for part in truth.coverage]
    many = len([share for share in truth.models if share.dimensions]) > 1
    rows += [
        _line(f"model:{at}", _model(share, many=many)) for at, share in enumerate(truth.models)
    ]
    return rows


def _source(part: Coverage) -> Content:
    whole = part.on_disk is None or part.on_disk == part.indexed
    disk = _UNKNOWN if part.on_disk is None else f"{fmt.count(part.on_disk)} on disk"
    return Content.assemble(
        (f"{safe_line(part.source):<10} ", "bold"),
        (f"{disk}, {fmt.count(part.indexed)} indexed", "" if whole else "$state-warn"),
        f", {fmt.counted(part.chunks, 'chunk')}",
    )


def _model(share: ModelShare, *, many: bool) -> Content:
    if not share.dimensions:
        size, style = "no vector", "$state-warn"
    else:
        size, style = f"{share.dimensions} d", "$state-warn" if many else ""
    name = safe_line(share.model) or fmt.NOTHING
    held = fmt.counted(share.chunks, "chunk")
    return Content.assemble(("model      ", fmt.MUTED), (f"{name}  {size}", style), f"  {held}")


def leftover_rows(names: Sequence[str]) -> list[Row]:
    """The files beside the database that somebody left."""
    return [_line(str(at), Content(safe_line(name))) for at, name in enumerate(names)]


def _line(row_id: str, content: Content) -> Row:
    return Row(row_id, lambda width: fmt.fit(Content.assemble(" ", content), width))
