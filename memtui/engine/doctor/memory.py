"""Looking at the memory folder, how its changes are noticed, and the agents of this machine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from memtui.engine.doctor.checks import Area, Check, counted, fine, note, problem
from memtui.index.events import inotify_limit, start_events, watched_folders
from memtui.memory.discover import Discovery, Scope, discover
from memtui.memory.workspace import Found
from memtui.model import Reason
from memtui.settings import Settings
from memtui.text.sizes import size_words

_UNSEEN = frozenset({Reason.UNREADABLE, Reason.VANISHED, Reason.OUTSIDE_ROOT})
"""Reasons that say that something named, or found, could not be looked at."""


def memory_checks(found: Found, scope: Scope) -> Iterator[Check]:
    """The folder, the notes in it, and what is left out."""
    yield fine(Area.MEMORY, "folder", f"{found.root} ({found.how})")
    discovery = discover(scope)
    if discovery.files:
        size = size_words(sum(file.size for file in discovery.files))
        yield fine(Area.MEMORY, "notes", f"{counted(len(discovery.files), 'file')}, {size}")
    else:
        hint = "notes are MEMORY.md and the .md files below memory/, and memory.extra_paths"
        yield note(Area.MEMORY, "notes", "no file is found", hint)
    yield from _left_out(discovery)


def _left_out(discovery: Discovery) -> Iterator[Check]:
    for skipped in discovery.skipped:
        if skipped.reason in _UNSEEN:
            why = skipped.detail or skipped.reason.value.replace("_", " ")
            yield note(Area.MEMORY, "skipped", f"{skipped.path}: {why}", "check its permissions")
    others = Counter(s.reason for s in discovery.skipped if s.reason not in _UNSEEN)
    if others:
        told = ", ".join(
            f"{count} {reason.value.replace('_', ' ')}" for reason, count in others.items()
        )
        yield fine(Area.MEMORY, "left out", told)


def watcher_check(scope: Scope, settings: Settings) -> Check:
    """Whether the system can tell of changes of the files: it is asked to, for a moment."""
    if not settings.index.watch:
        return fine(Area.WATCHER, "watcher", "off (index.watch)")
    folders = watched_folders(scope)
    limit = inotify_limit()
    try:
        start_events(folders, lambda change: None).stop()
    except OSError as error:
        why = error.strerror or str(error)
        seconds = f"{settings.index.rescan_seconds:g}"
        hint = (
            f"raise fs.inotify.max_user_watches; until then files are looked at every {seconds} s"
        )
        return problem(Area.WATCHER, "watcher", f"events cannot be had: {why}", hint)
    told = (
        "" if limit is None else f", {_folders_below(folders_of(scope), limit)} of {limit} watches"
    )
    return fine(Area.WATCHER, "watcher", f"events{told}")


def folders_of(scope: Scope) -> list[str]:
    """The folders that are watched with everything below them."""
    return [folder.real for folder in watched_folders(scope) if folder.recursive]


def _folders_below(folders: list[str], most: int) -> int:
    walked = (None for folder in folders for _ in os.walk(folder))
    return sum(1 for _ in islice(walked, most))


def agent_checks(env: Mapping[str, str], home: Path) -> Iterator[Check]:
    """The OpenClaw agents of this machine; what is wrong with their indexes is no problem here."""
    from memtui.engine.foreign.target import agents_here

    agents = agents_here(env, home)
    if not agents:
        yield fine(Area.AGENTS, "agents", "no OpenClaw agent on this machine")
    for agent in agents:
        made_by = "/".join(part for part in (agent.provider, agent.model) if part)
        detail = f"{counted(agent.chunks, 'chunk')}{f' by {made_by}' if made_by else ''}"
        if agent.problem:
            hint = f"`memtui status --agent {agent.name}` tells more"
            yield note(Area.AGENTS, agent.name, agent.problem, hint)
        else:
            yield fine(Area.AGENTS, agent.name, detail)
