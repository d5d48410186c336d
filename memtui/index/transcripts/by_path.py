"""One transcript by its stored path, without a look at all the others."""

from __future__ import annotations

import os
from collections.abc import Iterator

from memtui.index.transcripts.discovery import SOURCE, discover_transcripts, taken_in
from memtui.index.transcripts.places import (
    ARCHIVED,
    PROJECTS,
    SESSIONS,
    TranscriptPlace,
    places_of,
)
from memtui.index.transcripts.scope import TranscriptScope
from memtui.memory.paths import first_link, written
from memtui.model import SourceFile
from memtui.model.conversations import TranscriptKind


def file_at(scope: TranscriptScope, path: str) -> SourceFile | None:
    """The transcript of that stored path, opted in or not; `None` when there is none."""
    if (named := _named_by(scope, path)) is not None:
        return named
    for file in discover_transcripts(scope, everything=True).files:
        if file.path == path:
            return file
    return None


def _named_by(scope: TranscriptScope, path: str) -> SourceFile | None:
    """The transcript of a program that its stored path leads to by itself; nothing is listed."""
    for place in places_of(scope):
        if place.kind is None or place.database:
            continue
        for prefix, folder in _folders_of(place, scope):
            rest = path.removeprefix(prefix)
            parts = rest.split("/")
            below = len(parts) == 1 or place.kind is not TranscriptKind.OPENCLAW
            if rest == path or not below or not all(written(part) == part for part in parts):
                continue
            absolute = os.path.join(folder, *parts)
            if {"", ".", ".."} & set(parts) or first_link(absolute, folder) is not None:
                continue
            if (file := taken_in(scope, place, absolute, path)) is not None:
                return file
    return None


def _folders_of(place: TranscriptPlace, scope: TranscriptScope) -> Iterator[tuple[str, str]]:
    """What the stored paths of a program begin with, and the folder that this stands for."""
    match place.kind:
        case TranscriptKind.OPENCLAW:
            if not (os.path.islink(place.folder) or os.path.islink(os.path.dirname(place.folder))):
                agent = f"{place.agent}/" if scope.rules.stores_agent else ""
                yield f"{SOURCE}/{agent}", place.folder
        case TranscriptKind.CLAUDE_CODE:
            yield f"{TranscriptKind.CLAUDE_CODE}/", os.path.join(place.folder, PROJECTS)
        case TranscriptKind.CODEX:
            below = f"{TranscriptKind.CODEX}/"
            yield f"{below}{ARCHIVED}/", os.path.join(place.folder, ARCHIVED)
            yield below, os.path.join(place.folder, SESSIONS)
