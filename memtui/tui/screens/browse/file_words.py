"""What is said about a file of the memory: its badge, and one line in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from textual.content import Content

from memtui.model.browsing import FileState, MemoryFile
from memtui.model.reasons import Reason
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.browse.tree import Folder
from memtui.tui.widgets.timeline import WEEKDAYS

STATE_STYLES = {
    FileState.CURRENT: "",
    FileState.CHANGED: "$state-warn",
    FileState.STALE: "$state-warn",
    FileState.ERROR: "$state-error",
    FileState.NOT_INDEXED: fmt.MUTED,
}


def badge(state: FileState, glyphs: Glyphs) -> str:
    """One character for the state of a file; a space for one that is current."""
    return {
        FileState.CURRENT: " ",
        FileState.CHANGED: glyphs.changed,
        FileState.STALE: glyphs.stale,
        FileState.ERROR: glyphs.problem,
        FileState.NOT_INDEXED: glyphs.not_indexed,
    }[state]


def state_words(file: MemoryFile) -> str:
    """The state of a file in words, with why."""
    why = file.detail or ("" if file.reason is Reason.OK else fmt.reason_words(file.reason))
    words = {
        FileState.CURRENT: "indexed",
        FileState.CHANGED: "changed since it was indexed",
        FileState.STALE: "file gone, still in the index",
        FileState.ERROR: "error",
        FileState.NOT_INDEXED: "not indexed",
    }[file.state]
    return safe_line(words if not why or why == words else f"{words}: {why}")


def recall_words(file: MemoryFile, recalled: Mapping[str, int]) -> str:
    """How often the queries bring a file up; empty for one without chunks, which none can."""
    return f"{fmt.rounded(recalled.get(file.path, 0))}×" if file.chunks else ""


def file_line(
    file: MemoryFile, now: datetime, glyphs: Glyphs, recalled: Mapping[str, int] | None = None
) -> Content:
    """The state of a file and its numbers, the most important first; recalls where counted."""
    mark = badge(file.state, glyphs).strip()
    state = f"{mark} {state_words(file)}" if mark else state_words(file)
    words = [fmt.counted(file.chunks, "chunk")] if file.chunks else []
    if file.chunks and recalled is not None:
        times = recalled.get(file.path, 0)
        words.insert(0, f"recalled {fmt.count(times)}×" if times else "never recalled")
    if file.lines:
        words.append(fmt.counted(file.lines, "line"))
    if file.size is not None:
        words.append(fmt.size(file.size))
    if file.day is not None:
        words.append(f"{WEEKDAYS[file.day.weekday()]} {file.day.isoformat()}")
    if file.changed is not None:
        words.append(f"changed {fmt.ago(file.changed, now)}")
    style = STATE_STYLES[file.state] or ("$state-warn" if file.detail else "$state-ok")
    return Content.assemble((state, style), ("  " + " · ".join(words), fmt.MUTED))


def folder_line(folder: Folder) -> Content:
    """What a folder holds."""
    words = [
        fmt.counted(folder.count, "file"),
        fmt.counted(folder.chunks, "chunk"),
        fmt.size(folder.size),
    ]
    name = safe_line(folder.name)
    return Content.assemble((name, "bold"), ("  " + " · ".join(words), fmt.MUTED))
