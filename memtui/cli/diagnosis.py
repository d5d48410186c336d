"""`memtui doctor`, `memtui providers` and `memtui agents`: what there is on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memtui.cli.common_options import Invocation, command
from memtui.cli.output import BOLD, DIM, EXIT_NOTHING, EXIT_OK, Line
from memtui.engine import Engine
from memtui.engine.providers.catalog import provider_listings
from memtui.errors import MemtuiError
from memtui.model import ProviderListing
from memtui.model.status import ForeignAgent
from memtui.report import words
from memtui.report.json_text import plain
from memtui.report.layout import Column, Row, Section, Tone
from memtui.report.status import providers_section
from memtui.settings.files import demo_data_dir
from memtui.settings.toml import toml_value
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.engine.doctor import Examination

_GRADE = 8
"""Cells of a check's grade."""
_LONGEST_NAME = 26
"""Cells after which the name of a check is cut."""
_TONES = {"problem": Tone.ERROR, "note": Tone.WARN}
WIDTH = 80
_AGENT, _INDEX, _LABEL = 30, 12, 11
_ROOM = WIDTH - 4 - _LABEL


@command("doctor")
def doctor(invocation: Invocation, probe: bool, deep: bool) -> int:
    """Look at settings, folders, notes, index, watcher, agents and embedding providers."""
    from memtui.engine.doctor import examine

    output = invocation.output()
    examination = examine(
        invocation.workspace,
        env=invocation.env,
        home=invocation.home,
        flags=invocation.flags,
        data_dir=demo_data_dir() if invocation.demo else None,
        probe=probe,
        deep=deep,
        tell=(lambda line: None) if invocation.json else output.progress,
    )
    output.progress("")
    checks = [replace(one, hint=invocation.completed(one.hint)) for one in examination.checks]
    examination = replace(examination, checks=tuple(checks))
    return invocation.respond(
        {"exit_code": examination.exit_code, **plain(examination)},
        _doctor_lines(examination, probe=probe),
        exit_code=examination.exit_code,
    )


def _doctor_lines(examination: Examination, *, probe: bool) -> Iterator[Line | Section]:
    for area, group in groupby(examination.checks, lambda check: check.area):
        checks = list(group)
        width = min(_LONGEST_NAME, max(words.cells_of(safe_line(one.name)) for one in checks))
        columns = (Column(width=_GRADE), Column(width=width + 2), Column())
        rows = []
        for check in checks:
            name = words.padded(safe_line(check.name), width)
            tone = _TONES.get(check.grade, Tone.PLAIN)
            rows.append(Row((check.grade, name, check.detail), tone=tone))
            if check.hint:
                rows.append(Row(("", "", f"-> {check.hint}")))
        yield Section("checks", area.upper(), columns, tuple(rows))
        yield ""
    if examination.configured:
        yield [("CONFIGURED", BOLD)]
        width = max(len(item["key"]) for item in examination.configured)
        for item in examination.configured:
            where = (f"  # {item['source']} {item['place']}", DIM)
            yield [f"  {item['key']:<{width}} = {toml_value(item['value'])}", where]
        yield ""
    problems = examination.problems
    if not problems:
        notes = sum(check.grade == "note" for check in examination.checks)
        noted = f", {words.count(notes, 'note')}" if notes else ""
        yield f"no problems{noted}{'' if probe else '; --probe also tests the providers'}"
        return
    # What is looked at later needs what is looked at before.
    first, number = problems[0], words.count(len(problems), "problem")
    place = first.area if first.name == first.area else f"{first.area} {first.name}"
    yield f"{number}; put this right first: {place}: {first.detail}"


@command("providers")
def providers(invocation: Invocation) -> int:
    """List the embedding providers: state, model, dimensions, where text goes, what is missing."""
    from memtui.engine.doctor import listed_by

    # What keeps the index from opening sets the code, and there is the list all the same.
    root = invocation.root_if_any()
    loaded = invocation.settings(root)
    embedding = loaded.settings.embedding
    warnings, exit_code = list(loaded.warnings), EXIT_OK
    listings: Sequence[ProviderListing] = ()
    try:
        if root is not None:
            with Engine.open(root, loaded.settings, write=False) as engine:
                listings = listed_by(engine)
    except MemtuiError as error:
        warnings.append(str(error))
        exit_code = error.exit_code
    listings = listings or provider_listings(embedding)
    cells = 32 if invocation.output().out_is_terminal else 1000
    return invocation.respond(
        {"requested": embedding.provider, "fallback": embedding.fallback, "providers": listings},
        [replace(providers_section(listings, embedding.provider, cells), title="")],
        notes=["memtui: E on the index screen chooses one, or embedding.provider in the settings"],
        warnings=warnings,
        exit_code=exit_code,
    )


@command("agents")
def agents(invocation: Invocation) -> int:
    """List the OpenClaw agents of this machine: index, model, size, last change, problems."""
    from memtui.index.foreign.agents import agents_here, state_dirs

    home = invocation.home
    folders = state_dirs(invocation.env, home)
    here = agents_here(invocation.env, home)
    now = datetime.now(UTC)
    where = f"looked in {', '.join(map(str, folders))}; --index FILE opens one that lies elsewhere"
    if not folders:
        where = (
            f"there is no state folder (looked at $OPENCLAW_STATE_DIR, {home / '.openclaw'}, "
            "its profiles and its older names); --index FILE opens an index that lies elsewhere"
        )
    return invocation.respond(
        {
            "looked_in": folders,
            "agents": [{**plain(agent), "age_days": _age(agent, now)} for agent in here],
        },
        agent_lines(here, home, now),
        notes=[] if here else [f"memtui: no OpenClaw agent: {where}"],
        exit_code=EXIT_OK if here else EXIT_NOTHING,
    )


def agent_lines(agents: Sequence[ForeignAgent], home: Path, now: datetime) -> Iterator[str]:
    """Yield a table for each state folder, each line at most 80 cells."""

    def shown(path: Path) -> str:
        inside = str(path).removeprefix(str(home) + os.sep)
        return str(path) if inside == str(path) else f"~{os.sep}{inside}"

    for number, (folder, group) in enumerate(groupby(agents, lambda agent: agent.state_dir)):
        if number:
            yield ""
        yield words.ending(shown(folder), WIDTH)
        yield (
            f"  {'AGENT':<{_AGENT}} {'INDEX':<{_INDEX}} "
            f"{'DIMS':>5} {'FILES':>6} {'CHUNKS':>8} LAST CHUNK"
        )
        for agent in group:
            kind = agent.generation.value if agent.generation is not None else "-"
            dimensions = "-" if agent.dimensions is None else agent.dimensions
            age = _age(agent, now)
            yield (
                f"  {words.padded(agent.name, _AGENT)} {kind:<{_INDEX}} "
                f"{dimensions:>5} {agent.files:>6} {agent.chunks:>8} "
                f"{'-' if age is None else words.age(age)}"
            )
            places = {"database": agent.database, "workspace": agent.workspace}
            details = {"model": agent.made_by}
            details |= {label: shown(path) for label, path in places.items() if path is not None}
            for label, text in details.items():
                if text:
                    yield f"    {label:<{_LABEL}}{words.ending(text, _ROOM)}"
            if agent.problem:
                first, *others = words.wrapped(agent.problem, _ROOM)
                yield f"    {'problem':<{_LABEL}}{first}"
                yield from (f"    {'':<{_LABEL}}{line}" for line in others)


def _age(agent: ForeignAgent, now: datetime) -> float | None:
    return None if agent.changed is None else (now - agent.changed).total_seconds() / 86400
