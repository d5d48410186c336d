"""Where a file of another program's index stands, by the rules of that program's release."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from memtui.engine.foreign.facts import ForeignFacts
from memtui.engine.places import meant
from memtui.engine.standing import FileStanding
from memtui.index.foreign.discovery import Listing, Why, list_memory
from memtui.index.foreign.drift import SOURCE as MEMORY
from memtui.index.foreign.drift import Look, compare
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import FileRow
from memtui.index.foreign.sessions import (
    DELTA_BYTES,
    Sessions,
    compare_sessions,
    list_sessions,
    sessions_folder,
)
from memtui.index.foreign.sessions import SOURCE as SESSIONS
from memtui.memory.discover import absent
from memtui.memory.documents import read_document, split_lines
from memtui.model import Reason, SourceFile
from memtui.model.status import FileState, FileTruth
from memtui.settings.openclaw import MemorySearchConfig, effective

NO_WORKSPACE: Final = "the workspace is not known"
REASONS: Final[Mapping[Why, Reason]] = {
    Why.LINK: Reason.SYMLINK,
    Why.NOT_MARKDOWN: Reason.NOT_A_NOTE,
    Why.REPAIR: Reason.IGNORED,
    Why.LOWER_CASE: Reason.IGNORED,
    Why.NOT_YET: Reason.IGNORED,
    Why.OUTSIDE: Reason.OUTSIDE_ROOT,
    Why.PATTERN: Reason.OUTSIDE_ROOT,
    Why.DUPLICATE: Reason.DUPLICATE_FILE,
    Why.NOT_REGULAR: Reason.NOT_REGULAR,
    Why.UNREADABLE: Reason.UNREADABLE,
    Why.TOO_LARGE: Reason.TOO_LARGE,
    Why.SOURCE_OFF: Reason.DISABLED,
}


def note_standing(facts: ForeignFacts, path: str, row: FileRow | None) -> FileStanding:
    """Look at one note of the workspace; `row` is what the index has of it. Any thread."""
    workspace = facts.target.workspace
    if workspace is None:
        return FileStanding(path, Reason.NOT_REPRODUCIBLE, NO_WORKSPACE, checked=False)
    place = os.path.normpath(os.path.join(os.path.abspath(workspace), path))
    if "\0" in path:
        return FileStanding(path, Reason.NO_FILE, "no file can have this name")
    config = configured(facts)
    listing = list_memory(
        workspace,
        config,
        facts.choice.profile,
        home=facts.target.home,
        only=place,
    )
    if listing.problem:
        detail = f"the workspace cannot be listed: {listing.problem.lower()}"
        return FileStanding(path, Reason.UNREADABLE, detail, checked=False)
    truths = compare(
        [row] if row is not None else [],
        listing,
        {},
        workspace,
        Look(deep=True),
        enabled=MEMORY in enabled_sources(facts),
        scope_known=config is not None,
    )
    truth = next((truth for truth in truths if truth.path == path), None)
    if truth is None:
        return _passed_over(path, place, listing)
    return _standing(truth, listing.left_out[path].why if path in listing.left_out else None, place)


def named_on_disk(facts: ForeignFacts, spelled: Sequence[str]) -> str | None:
    """The one note of the workspace whose path ends in one of the spellings; any thread."""
    workspace, home = facts.target.workspace, facts.target.home
    if workspace is None:
        return None
    listing = list_memory(workspace, configured(facts), facts.choice.profile, home=home)
    return meant(spelled, [*listing.found, *listing.left_out]).path


def transcript_standing(
    opened: Opened, facts: ForeignFacts, path: str, row: FileRow | None, now: datetime
) -> FileStanding:
    """Look at one transcript, on the engine thread: the newest are rows of the database."""
    target = facts.target
    folder = target.sessions
    if folder is None and target.is_configured and target.search is not None:
        folder = sessions_folder(opened, target.search.name)
    listed = list_sessions(opened, folder, facts.choice.profile)
    if listed is None:
        detail = "the folder of the transcripts is not known"
        return FileStanding(path, Reason.NOT_REPRODUCIBLE, detail, checked=False)
    name = path.rpartition("/")[2]
    found = {name: listed.found[name]} if name in listed.found else {}
    truth = compare_sessions(
        [row] if row is not None else [],
        Sessions(found),
        {},
        enabled=SESSIONS in enabled_sources(facts),
        delta_bytes=DELTA_BYTES,
        now=now,
    )
    if not truth.files:
        return FileStanding(path, Reason.NO_FILE, "no such transcript")
    return _standing(truth.files[0], None, None)


def configured(facts: ForeignFacts) -> MemorySearchConfig | None:
    """What the agent is configured for, as it is written; `None` where nothing is."""
    target = facts.target
    return target.search.search if target.is_configured and target.search is not None else None


def enabled_sources(facts: ForeignFacts) -> tuple[str, ...]:
    """The sources that the agent indexes, as far as anybody knows."""
    config = configured(facts)
    if config is not None:
        return effective(config, facts.choice.profile).search.sources
    return facts.identity.sources or (MEMORY, SESSIONS)


def _standing(truth: FileTruth, why: Why | None, place: str | None) -> FileStanding:
    path, detail = truth.path, truth.reason
    match truth.state:
        case FileState.CURRENT | FileState.NEVER_INDEXED:
            return FileStanding(path, detail=detail)
        case FileState.STALE:
            return FileStanding(path, detail=detail, stale=True, lines=_lines(path, place))
        case _ if why is not None:
            return FileStanding(path, REASONS[why], detail)
        case _ if detail == Why.SOURCE_OFF.value:
            return FileStanding(path, Reason.DISABLED, detail)
        case FileState.SKIPPED:
            return FileStanding(path, Reason.UNREADABLE, detail)
        case _:
            is_there = place is not None and os.path.lexists(place)
            return FileStanding(path, Reason.OUTSIDE_ROOT if is_there else Reason.VANISHED, detail)


def _lines(path: str, place: str | None) -> tuple[str, ...] | None:
    """The file as it is now; `None` when it cannot be read any more."""
    if place is None:
        return None
    try:
        state = os.lstat(place)
        file = SourceFile(path, Path(place), MEMORY, state.st_size, state.st_mtime_ns, state.st_ino)
        return tuple(split_lines(read_document(file).text))
    except OSError:
        return None


def _passed_over(path: str, place: str, listing: Listing) -> FileStanding:
    """A path that the program's rules say nothing about: what is there, or what it lies below."""
    nothing = absent(place)
    if nothing is not None:
        return FileStanding(path, *nothing)
    above = [left for left in listing.left_out.values() if path.startswith(f"{left.path}/")]
    if above:
        nearest = max(above, key=lambda left: len(left.path))
        return FileStanding(path, REASONS[nearest.why], f"{nearest.path}: {nearest.reason}")
    if os.path.isdir(place):
        return FileStanding(path, Reason.NOT_A_NOTE, "folder")
    if not place.endswith(".md"):
        return FileStanding(path, Reason.NOT_A_NOTE, Why.NOT_MARKDOWN.value)
    return FileStanding(path, Reason.OUTSIDE_ROOT, Why.OUTSIDE.value)
