"""`memtui agents`: the OpenClaw agents of this machine and their indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from memtui.cli.invocation import Invocation
from memtui.model.status import ForeignAgent
from memtui.report import words
from memtui.report.documents import plain

EXIT_OK, EXIT_NOTHING = 0, 1
WIDTH = 80
_AGENT, _INDEX = 30, 12
_LABEL = 11
_INDENT = "  "
_ROOM = WIDTH - 2 * len(_INDENT) - _LABEL


def run_agents(invocation: Invocation) -> int:
    """Print the agents that are found; 1 when there is none, and where it was looked."""
    from memtui.engine.foreign.agent import agents_here
    from memtui.index.foreign.discovery import state_dirs

    home = invocation.home()
    folders = state_dirs(invocation.env, home)
    agents = agents_here(invocation.env, home)
    now = datetime.now(UTC)
    output = invocation.output()
    if invocation.json:
        output.document(
            {"looked_in": folders, "agents": [agent_entry(agent, now) for agent in agents]}
        )
    elif agents:
        for line in agent_lines(agents, home, now):
            output.line(output.clean(line))
    else:
        output.note(f"memtui: no OpenClaw agent: {_nowhere(folders, home)}")
    return EXIT_OK if agents else EXIT_NOTHING


def agent_entry(agent: ForeignAgent, now: datetime) -> dict[str, Any]:
    """An agent with the fields of `ForeignAgent`, and the days since its index last changed."""
    entry: dict[str, Any] = plain(agent)
    return {**entry, "age_days": _age(agent, now)}


def agent_lines(agents: Sequence[ForeignAgent], home: Path, now: datetime) -> Iterator[str]:
    """A table for each state folder, each line at most 80 cells."""
    for number, (folder, group) in enumerate(groupby(agents, lambda agent: agent.state_dir)):
        if number:
            yield ""
        yield words.ending(_shown(folder, home), WIDTH)
        yield (
            f"{_INDENT}{'AGENT':<{_AGENT}} {'INDEX':<{_INDEX}} "
            f"{'DIMS':>5} {'FILES':>6} {'CHUNKS':>8} CHANGED"
        )
        for agent in group:
            yield from _agent(agent, home, now)


def _agent(agent: ForeignAgent, home: Path, now: datetime) -> Iterator[str]:
    kind = agent.generation.value if agent.generation is not None else "-"
    dimensions = "-" if agent.dimensions is None else str(agent.dimensions)
    age = _age(agent, now)
    yield (
        f"{_INDENT}{words.padded(agent.name, _AGENT)} {kind:<{_INDEX}} "
        f"{dimensions:>5} {agent.files:>6} {agent.chunks:>8} "
        f"{'-' if age is None else words.short_age(age)}"
    )
    model = "/".join(part for part in (agent.provider, agent.model) if part)
    if model:
        yield _detail("model", words.ending(model, _ROOM))
    for label, path in (("database", agent.database), ("workspace", agent.workspace)):
        if path is not None:
            yield _detail(label, words.ending(_shown(path, home), _ROOM))
    if agent.problem:
        for number, part in enumerate(_wrapped(agent.problem)):
            yield _detail("problem" if number == 0 else "", part)


def _detail(label: str, text: str) -> str:
    return f"{_INDENT * 2}{label:<{_LABEL}}{text}"


def _wrapped(text: str) -> Iterator[str]:
    """A text in pieces that fit behind a label, broken at blanks where there are any."""
    while words.cells_of(text) > _ROOM:
        fits = words.fitting(text, _ROOM)
        end = text.rfind(" ", 0, fits + 1)
        end = end if end > 0 else max(1, fits)
        yield text[:end]
        text = text[end:].lstrip()
    yield text


def _age(agent: ForeignAgent, now: datetime) -> float | None:
    return None if agent.changed is None else (now - agent.changed).total_seconds() / 86400


def _shown(path: Path, home: Path) -> str:
    """A path with `~` for the home folder."""
    text = str(path)
    inside = text.removeprefix(str(home) + os.sep)
    return text if inside == text else f"~{os.sep}{inside}"


def _nowhere(folders: Sequence[Path], home: Path) -> str:
    if folders:
        return f"looked in {', '.join(str(folder) for folder in folders)}"
    return (
        f"there is no state folder (looked at $OPENCLAW_STATE_DIR, {home / '.openclaw'}, its "
        "profiles and its older names)"
    )
