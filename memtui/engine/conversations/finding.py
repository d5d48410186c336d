"""The transcripts of a memory, opted in or not, each with the place that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import escape
from pathlib import Path
from typing import Final

from memtui.errors import MemtuiError
from memtui.index.transcripts.discovery import SOURCE, Located, locate
from memtui.index.transcripts.events import sessions_in
from memtui.index.transcripts.places import TranscriptPlace
from memtui.index.transcripts.scope import TranscriptScope
from memtui.index.transcripts.state import TranscriptFacts
from memtui.memory.paths import written
from memtui.model import Reason, SkippedFile, SourceFile
from memtui.model.conversations import TranscriptKind
from memtui.text.sanitize import safe_line

WHOLE: Final = frozenset({Reason.OK, Reason.MALFORMED_LINES, Reason.LINE_TOO_LONG})
"""How a transcript stands that is indexed but for lines of it."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """What an index says of a transcript that it holds."""

    chunks: int
    facts: TranscriptFacts | None = None
    """`None` where the index has chunks and nothing else."""
    stat: tuple[int, int] | None = None
    """Size and mtime in ns of what was indexed; `None` where that cannot be compared."""

    def is_current(self, file: SourceFile) -> bool:
        """Whether the file is what was indexed, as far as that can be told."""
        return self.stat is None or self.stat == (file.size, file.mtime_ns)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A transcript that was found."""

    file: SourceFile
    place: TranscriptPlace
    is_opted_in: bool


def everywhere(scope: TranscriptScope) -> tuple[Located, ...]:
    """Every place of this machine and what is in it, opted in or not; no transcript is opened."""
    return locate(scope, everything=True)


def of_agent(scope: TranscriptScope, agent: str) -> tuple[Located, ...]:
    """What one agent of OpenClaw keeps; the databases of the others are not opened."""
    source = f"{TranscriptKind.OPENCLAW}:{escape(agent)}"
    is_opted_in = scope.source_of(TranscriptKind.OPENCLAW, agent) is not None
    found = locate(replace(scope, sources=(source,), paths=()))
    return tuple(
        replace(one, place=replace(one.place, is_indexed=is_opted_in))
        for one in found
        if one.place.agent == agent
    )


def of_database(scope: TranscriptScope, database: Path, agent: str) -> tuple[Located, ...]:
    """The conversations in the rows of a database that lies anywhere; `agent` may be empty."""
    name = written(str(database))
    place = TranscriptPlace(
        name, TranscriptKind.OPENCLAW, name, not scope.is_empty, agent, str(database)
    )
    try:
        inode, sessions = database.stat().st_ino, sessions_in(database)
    except (OSError, MemtuiError) as error:
        skipped = SkippedFile(name, Reason.UNREADABLE, written(safe_line(str(error))))
        return (Located(place, (), (skipped,)),)
    prefix = f"{SOURCE}/{agent}/" if agent else f"{SOURCE}/"
    files = tuple(
        SourceFile(
            path=f"{prefix}{written(one.session)}.jsonl",
            absolute=database,
            source=SOURCE,
            size=one.size,
            mtime_ns=max(0, one.changed_ms) * 10**6,
            inode=inode,
            kind=TranscriptKind.OPENCLAW,
            session=one.session,
        )
        for one in sessions
    )
    return (Located(place, files, ()),)


def transcripts_of(scope: TranscriptScope, found: Sequence[Located]) -> dict[str, Transcript]:
    """Every transcript by its stored path."""
    return {
        file.path: Transcript(file, place.place, is_opted_in(scope, place.place, file))
        for place in found
        for file in place.files
    }


def is_opted_in(scope: TranscriptScope, place: TranscriptPlace, file: SourceFile) -> bool:
    """Whether the settings ask for a transcript."""
    if place.kind is not TranscriptKind.CLAUDE_CODE:
        return place.is_indexed
    return scope.source_of(place.kind, project_of(file)) is not None


def project_of(file: SourceFile) -> str:
    """The project folder of a Claude Code transcript; empty for every other one."""
    parts = file.path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == TranscriptKind.CLAUDE_CODE else ""
