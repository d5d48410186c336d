"""`memtui doctor`, `memtui providers` and `memtui agents`: what there is on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memtui.cli.invocation import Invocation
from memtui.cli.options import on_memory
from memtui.cli.output import Output
from memtui.errors import MemtuiError
from memtui.model import ProviderListing
from memtui.model.status import ForeignAgent
from memtui.report import words
from memtui.report.documents import plain
from memtui.report.providers import listing_words
from memtui.settings.files import demo_data_dir
from memtui.settings.toml import toml_value

if TYPE_CHECKING:
    from memtui.engine.doctor import Check, Examination

EXIT_OK, EXIT_NOTHING = 0, 1
_BOLD, _DIM, _RED, _YELLOW = 1, 2, 31, 33
_COLOURS = {"problem": _RED, "note": _YELLOW}
_GRADE, _LONGEST_NAME = 7, 26
_NAME, _STATE, _MODEL, _DIMENSIONS = 16, 13, 26, 5
WIDTH = 80
_AGENT, _INDEX, _LABEL = 30, 12, 11
_INDENT = "  "
_ROOM = WIDTH - 2 * len(_INDENT) - _LABEL


@click.command(short_help="Look at everything and say what is wrong, with the next step.")
@click.option("--probe", is_flag=True, help="Ask the configured and the local providers, too.")
@on_memory(demo=True)
def doctor(invocation: Invocation, probe: bool) -> int:
    """Look at settings, folders, notes, index, watcher, agents and embedding providers.

    Works without a memory folder and with broken settings. With --probe one word is embedded by
    every provider that is configured or runs on this machine; no other service is asked. Exits
    with the code of the problem that has to be put right first (`memtui help exit-codes`).
    """
    from memtui.engine.doctor import Surroundings, examine

    output = invocation.output()
    around = Surroundings(
        invocation.env,
        invocation.home(),
        invocation.flags or {},
        invocation.workspace,
        demo_data_dir() if invocation.demo else None,
    )
    examination = examine(
        around, probe=probe, tell=(lambda line: None) if invocation.json else output.progress
    )
    if invocation.json:
        output.document({"exit_code": examination.exit_code, **plain(examination)})
        return examination.exit_code
    output.progress("")
    for area, checks in groupby(examination.checks, lambda check: check.area):
        output.line(output.styled(area.value.upper(), _BOLD))
        _print_checks(output, list(checks))
        output.line()
    if examination.configured:
        _print_settings(output, examination)
    output.line(output.clean(_verdict(examination, probe=probe)))
    return examination.exit_code


def _print_checks(output: Output, checks: Sequence[Check]) -> None:
    width = min(_LONGEST_NAME, max(words.cells_of(output.clean(check.name)) for check in checks))
    for check in checks:
        grade = f"{check.grade.value:<{_GRADE}}"
        if check.grade.value in _COLOURS:
            grade = output.styled(grade, _COLOURS[check.grade.value])
        name = words.padded(output.clean(check.name), width)
        output.line(f"  {grade} {name}  {output.clean(check.detail)}")
        if check.hint:
            output.line(f"  {'':<{_GRADE}} {'':<{width}}  -> {output.clean(check.hint)}")


def _print_settings(output: Output, examination: Examination) -> None:
    output.line(output.styled("CONFIGURED", _BOLD))
    width = max(len(item.key) for item in examination.configured)
    for item in examination.configured:
        where = output.styled(output.clean(f"  # {item.source} {item.place}"), _DIM)
        output.line(f"  {output.clean(f'{item.key:<{width}} = {toml_value(item.value)}')}{where}")
    output.line()


def _verdict(examination: Examination, *, probe: bool) -> str:
    """How many problems there are, and which one the exit code is of."""
    problems = examination.problems
    if not problems:
        return "nothing is wrong" if probe else "nothing is wrong; --probe asks the providers, too"
    first = next(check for check in problems if check.exit_code == examination.exit_code)
    number = words.count(len(problems), "problem")
    return f"{number}; first put right {first.area.value}, {first.name}: {first.detail}"


@click.command(short_help="List the embedding providers and how each of them is.")
@on_memory()
def providers(invocation: Invocation) -> int:
    """List the embedding providers: state, model, dimensions, where text goes, what is missing.

    Loads none of them and asks nobody; `memtui doctor --probe` does.
    """
    from memtui.engine import Engine
    from memtui.engine.doctor.checks import listed_by, provider_listings

    # 2 when the settings name one that does not exist, and the list all the same.
    root = invocation.root_if_any()
    loaded = invocation.settings(root)
    embedding = loaded.settings.embedding
    warnings, exit_code = list(loaded.warnings), EXIT_OK
    listings: Sequence[ProviderListing] | None = None
    try:
        if root is not None:
            with Engine.open(root, loaded.settings, write=False) as engine:
                listings = listed_by(engine)
    except MemtuiError as error:
        warnings.append(str(error))
        exit_code = error.exit_code
    if listings is None:
        listings = provider_listings(embedding)
    output = invocation.output()
    if invocation.json:
        output.document(
            {
                "requested": embedding.provider,
                "fallback": embedding.fallback,
                "providers": listings,
                "warnings": warnings,
            }
        )
        return exit_code
    output.warn(warnings)
    for line in provider_lines(listings, embedding.provider):
        output.line(output.clean(line).rstrip())
    return exit_code


def provider_lines(listings: Sequence[ProviderListing], requested: str) -> Iterator[str]:
    """A table; below each provider what it is for now, and what was found or is missing."""
    yield (
        f"{'PROVIDER':<{_NAME}} {'STATE':<{_STATE}} {'MODEL':<{_MODEL}} "
        f"{'DIMS':>{_DIMENSIONS}} TEXT GOES TO"
    )
    for listing in listings:
        dimensions = "-" if listing.dimensions is None else str(listing.dimensions)
        model = words.ending(listing.model, _MODEL) if listing.model else "-"
        address = listing.address or ("a service" if listing.remote else "this program")
        yield (
            f"{words.padded(listing.name, _NAME)} {listing_words(listing):<{_STATE}} "
            f"{words.padded(model, _MODEL)} {dimensions:>{_DIMENSIONS}} {address}"
        )
        asked = f"requested ({requested})" if requested != listing.name else "requested"
        roles = (
            (listing.is_requested, asked),
            (listing.is_actual, "in use"),
            (listing.is_fallback, "fallback"),
        )
        role = ", ".join(word for is_it, word in roles if is_it)
        hint = f" ({listing.hint})" if listing.hint else ""
        yield f"{'':<{_NAME}} {f'{role}: ' if role else ''}{listing.detail}{hint}"


@click.command(short_help="List the OpenClaw agents of this machine and their indexes.")
@on_memory()
def agents(invocation: Invocation) -> int:
    """List the OpenClaw agents of this machine: index, model, size, last change, problems.

    Looks where OpenClaw does: $OPENCLAW_STATE_DIR, ~/.openclaw and its profiles, the older
    names. Exits with 1 when there is none.
    """
    from memtui.engine.foreign.agent import agents_here
    from memtui.index.foreign.discovery import state_dirs

    home = invocation.home()
    folders = state_dirs(invocation.env, home)
    here = agents_here(invocation.env, home)
    now = datetime.now(UTC)
    output = invocation.output()
    if invocation.json:
        entries: list[dict[str, Any]] = [
            {**plain(agent), "age_days": _age(agent, now)} for agent in here
        ]
        output.document({"looked_in": folders, "agents": entries})
    elif here:
        output.lines(agent_lines(here, home, now))
    else:
        where = f"looked in {', '.join(str(folder) for folder in folders)}"
        if not folders:
            where = (
                f"there is no state folder (looked at $OPENCLAW_STATE_DIR, {home / '.openclaw'}, "
                "its profiles and its older names)"
            )
        output.note(f"memtui: no OpenClaw agent: {where}")
    return EXIT_OK if here else EXIT_NOTHING


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
            kind = agent.generation.value if agent.generation is not None else "-"
            dimensions = "-" if agent.dimensions is None else str(agent.dimensions)
            age = _age(agent, now)
            yield (
                f"{_INDENT}{words.padded(agent.name, _AGENT)} {kind:<{_INDEX}} "
                f"{dimensions:>5} {agent.files:>6} {agent.chunks:>8} "
                f"{'-' if age is None else words.short_age(age)}"
            )
            for label, text in _details(agent, home):
                yield f"{_INDENT * 2}{label:<{_LABEL}}{text}"


def _details(agent: ForeignAgent, home: Path) -> Iterator[tuple[str, str]]:
    model = "/".join(part for part in (agent.provider, agent.model) if part)
    if model:
        yield "model", words.ending(model, _ROOM)
    for label, path in (("database", agent.database), ("workspace", agent.workspace)):
        if path is not None:
            yield label, words.ending(_shown(path, home), _ROOM)
    label, rest = "problem", agent.problem
    while rest:
        # Broken at blanks where there are any.
        end = fits = words.fitting(rest, _ROOM)
        if fits < len(rest):
            blank = rest.rfind(" ", 0, fits + 1)
            end = blank if blank > 0 else max(1, fits)
        yield label, rest[:end]
        label, rest = "", rest[end:].lstrip()


def _age(agent: ForeignAgent, now: datetime) -> float | None:
    return None if agent.changed is None else (now - agent.changed).total_seconds() / 86400


def _shown(path: Path, home: Path) -> str:
    """A path with `~` for the home folder."""
    text = str(path)
    inside = text.removeprefix(str(home) + os.sep)
    return text if inside == text else f"~{os.sep}{inside}"
