"""`memtui search`: the legs, the ranking, and five ways to print what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import click

from memtui.cli.invocation import Invocation, refuse_several
from memtui.cli.options import filter_options, on_memory, ranking_options
from memtui.cli.output import BOLD, EXIT_NOTHING, EXIT_OK, MARKED, Line, Output, Part
from memtui.cli.session import Session, open_reading, stale_warning
from memtui.errors import IndexMissing, IndexUnusable, ProviderError
from memtui.model import Hit, IndexStatus, LegStatus, Ranked, Reason
from memtui.model.status import FileState, Severity
from memtui.ranking.trace import explain as explain_chunk
from memtui.ranking.trace import movement
from memtui.report import words
from memtui.report.arithmetic import arithmetic_section, bar_parts, bar_scale, place_of
from memtui.report.documents import (
    SNIPPET,
    Excerpt,
    FileStates,
    drop_entry,
    excerpt_of,
    hit_entry,
    search_entry,
)
from memtui.report.layout import Layout
from memtui.report.providers import vectors_note
from memtui.retrieval.query import parse_query

_PAUSED = "the agent gets nothing until its index is rebuilt (openclaw memory index --force)"
_AGENT_GETS = {
    "search_disabled": "the agent gets nothing while its memory search is switched off",
    "qmd_backend": "another program answers the agent",
    "other_database_read": "the agent searches another database",
    "keyword_only_served": "the agent searches keywords only until its index is rebuilt",
}
"""By the code of the finding; every other one pauses the agent's search."""
_INDENT = 8
_STAGE_FIELDS = ("stage", "active", "order", "dropped", "numbers")


@click.command(epilog="`memtui help search` tells about the query language and the output.")
@click.argument("query", nargs=-1, required=True)
@filter_options
@ranking_options
@click.option("--explain", is_flag=True, help="The arithmetic of every result.")
@click.option("--jsonl", is_flag=True, help="One JSON document for each result.")
@click.option("--plain", is_flag=True, help="Sentences: no columns, no bars, no colour.")
@click.option("--paths", is_flag=True, help="Only the files of the results, best first.")
@click.option("--zero-ok", is_flag=True, help="Exit with 0 when nothing is found.")
@on_memory(vectors=True, agent=True, demo=True, raw=True)
def search(
    invocation: Invocation,
    query: str,
    explain: bool,
    jsonl: bool,
    plain: bool,
    paths: bool,
    zero_ok: bool,
) -> int:
    """Search the memory for QUERY."""
    refuse_several(
        {"--jsonl": jsonl, "--plain": plain, "--paths": paths, "--json": invocation.json}
    )
    with open_reading(invocation, warm=True) as session:
        ranked, warnings = answer(session, query)
        output = invocation.output()
        status = session.engine.index.status()
        exit_code = EXIT_OK if ranked.hits or zero_ok else EXIT_NOTHING
        if invocation.json:
            output.document(search_document(ranked, status, warnings))
            return exit_code
        output.warn(warnings)
        states = file_states(status)
        if jsonl:
            for hit in ranked.hits:
                output.record(hit_entry(hit, states))
        elif paths:
            for path in dict.fromkeys(hit.chunk.path for hit in ranked.hits):
                output.data(path)
        else:
            if plain:
                output.lines(sentences(ranked, states or {}))
            else:
                ascii_only = session.loaded.settings.ui.glyphs == "ascii" or not output.unicode
                output.lines(rows(ranked, states or {}, output.width(), ascii_only=ascii_only))
            if explain:
                print_arithmetic(output, ranked, is_foreign=session.is_foreign)
            if output.err_is_terminal or not ranked.hits:
                output.note(summary(ranked))
            if not ranked.hits:
                output.note(why_nothing(ranked))
    return exit_code


def answer(session: Session, query: str) -> tuple[Ranked, list[str]]:
    """Search with the configured ranking; the warnings tell what should be known about it.

    Raises `ProviderError` or `IndexUnusable` when no leg could answer because something failed.
    """
    ranking = session.ranking()
    if not session.is_foreign:
        # Meanwhile the model is being loaded.
        session.engine.index.refresh_status(brief=True)
    try:
        ranked = session.engine.search.ask(query, ranking=ranking)
    except IndexMissing as error:
        if session.is_foreign:
            raise
        raise session.no_index() from error
    status = session.status() if session.is_foreign else session.engine.index.status()
    states = ranked.pool.states
    _require_an_answer(ranked)
    warnings = session.warnings(ranking)
    if not session.is_foreign:
        # Over an agent's index everything that is typed stays words.
        warnings += parse_query(query).problems
    warnings += [
        f"{leg} search {words.leg_words(state)}"
        for leg, state in states.items()
        if state.status is LegStatus.FAILED
    ]
    instead = "" if session.is_foreign else vectors_note(states, status.provider, full=True)
    warnings += filter(None, (instead, stale_warning(status)))
    return ranked, warnings + _problems_of_agent(status)


def _problems_of_agent(status: IndexStatus) -> list[str]:
    """Return what makes searches of an agent's index wrong, or kept it from being examined."""
    foreign = status.foreign
    if foreign is None:
        return []
    problems = [error.message for error in status.errors]
    if foreign.agent_gets_because and foreign.agent_gets not in (None, "same"):
        gets = _AGENT_GETS.get(foreign.agent_gets_because, _PAUSED)
        problems.insert(0, f"this list is NOT what the agent gets: {gets}")
    if foreign.truth is not None:
        wrong = (item for item in foreign.truth.findings if item.severity is Severity.ERROR)
        problems += [item.message for item in wrong]
    elif foreign.examining:
        problems.append("the index is still being examined: changed files are not marked")
    return problems


def _require_an_answer(ranked: Ranked) -> None:
    states = ranked.pool.states
    if any(state.status is LegStatus.OK for state in states.values()):
        return
    for leg, state in states.items():
        if state.status is not LegStatus.FAILED:
            continue
        if state.reason is Reason.NOT_REPRODUCIBLE:
            hint = "--query-vectors FILE gives the vector of a query"
            raise ProviderError(f"{leg} search is {state.detail}", hint=hint)
        detail = f"{leg} search failed: {state.detail or state.reason}"
        if state.reason is Reason.PROVIDER_FAILED:
            raise ProviderError(detail, hint="and the other leg has nothing to search for")
        raise IndexUnusable(detail, hint="`memtui index --force` builds the index anew")


def search_document(ranked: Ranked, status: IndexStatus, warnings: Sequence[str]) -> dict[str, Any]:
    """Make the document of a search: every number of the trace, none computed here.

    `generation` is the one that was searched; `index` tells how the index is by now.
    """
    states = file_states(status)
    return {
        **search_entry(ranked),
        "generation": ranked.pool.generation,
        "timings": {"pool_ms": ranked.pool.elapsed_ms, "rank_ms": ranked.elapsed_ms},
        "hits": [hit_entry(hit, states) for hit in ranked.hits],
        "drops": [drop_entry(drop) for drop in ranked.drops],
        "stages": [
            {name: getattr(trace, name) for name in _STAGE_FIELDS} for trace in ranked.trace.stages
        ],
        "index": _index_entry(status),
        "warnings": warnings,
    }


def file_states(status: IndexStatus) -> FileStates | None:
    """By path, the files of an agent's index as far as they were compared; `None` before that."""
    truth = status.foreign.truth if status.foreign is not None else None
    return None if truth is None else {file.path: file.state for file in truth.files}


def _index_entry(status: IndexStatus) -> dict[str, Any]:
    """Which index answered, and whose it is; its examination is what `memtui status` prints."""
    names = ("root", "generation", "state", "files", "chunks", "vectors")
    entry: dict[str, Any] = {
        **{name: getattr(status, name) for name in names},
        "dir": status.index_dir,
        "pending": status.pending_count,
        "provider": status.provider.actual,
        "model": status.provider.model,
        "dimensions": status.provider.dimensions,
        "provider_state": status.provider,
        "vector_backend": status.vector_backend,
        "tokenizer": status.tokenizer,
    }
    if (foreign := status.foreign) is not None:
        shown = {field.name for field in fields(foreign)} - {"truth", "examining"}
        entry["foreign"] = {name: getattr(foreign, name) for name in sorted(shown)}
    return entry


def rows(
    ranked: Ranked, states: FileStates, width: int, *, ascii_only: bool = False
) -> Iterator[Line]:
    """Lay out two lines a result: rank, movement, score, bar, place, age; then the excerpt.

    `states` marks the results whose file is not what was indexed.
    """
    glyphs = ASCII if ascii_only else UNICODE
    scale = bar_scale(ranked.hits)
    for hit in ranked.hits:
        moved = movement(hit)
        arrow = f"{glyphs['up' if moved > 0 else 'down']}{abs(moved)}" if moved else "="
        place = f"{hit.chunk.path}:{hit.chunk.start_line}"
        age = words.age_of(hit.chunk, ranked.ranking.decay.dates, ranked.trace.now)
        yield [
            f"{hit.rank:>2} {arrow:<4}{words.score(hit.effective):>6}  {bar(hit, scale, glyphs)}  ",
            (place, BOLD),
            f"  {words.short_age(age)}{_mark(hit, states, '  ')}",
        ]
        yield [" " * _INDENT, *_marked(excerpt_of(hit, width - _INDENT))]


def sentences(ranked: Ranked, states: FileStates) -> Iterator[str]:
    """Lay out one paragraph a result, meaning in words alone: for screen readers."""
    for hit in ranked.hits:
        age = words.age_of(hit.chunk, ranked.ranking.decay.dates, ranked.trace.now)
        moved = movement(hit)
        way = f", up {moved}" if moved > 0 else f", down {-moved}" if moved < 0 else ""
        yield (
            f"Rank {hit.rank}, score {words.score(hit.effective)}{way}, "
            f"{hit.chunk.path} line {hit.chunk.start_line}, {words.long_age(age)}"
            f"{_mark(hit, states, ', ')}."
        )
        yield excerpt_of(hit, SNIPPET).text
        yield ""


def summary(ranked: Ranked) -> str:
    """Sum up the whole search in one line: how many of how many, the legs, the time."""
    pool = ranked.pool
    legs = ", ".join(f"{leg} {words.leg_words(state)}" for leg, state in pool.states.items())
    shown = f"{len(ranked.hits)} of {words.count(len(pool.chunks), 'candidate')}"
    return f"{shown} in {words.duration(pool.elapsed_ms / 1000)}; {legs}"


def why_nothing(ranked: Ranked) -> str:
    """Tell what kept everything out of a list without results."""
    below = [drop for drop in ranked.drops if drop.reason is Reason.BELOW_MIN_SCORE]
    if not below:
        return "nothing found"
    best = max(drop.score for drop in below)
    return (
        f"{len(below)} below the minimum score {ranked.ranking.min_score}, "
        f"the best with {best:.3f}: `--min-score 0` shows them"
    )


def _mark(hit: Hit, states: FileStates, before: str) -> str:
    """What to say of a result whose file is not what was indexed."""
    state = states.get(hit.chunk.path, FileState.CURRENT)
    return "" if state is FileState.CURRENT else f"{before}{words.FILE_STATE_WORDS[state]}"


def _marked(excerpt: Excerpt) -> list[Part]:
    parts: list[Part] = []
    end = 0
    for start, stop in excerpt.spans:
        if start >= end:
            parts += [excerpt.text[end:start], (excerpt.text[start:stop], MARKED)]
            end = stop
    return [*parts, excerpt.text[end:]]


def print_arithmetic(output: Output, ranked: Ranked, *, is_foreign: bool) -> None:
    """Below the list: what each leg of an agent's search was asked, and the steps of each score."""
    from memtui.report.explanation import legs_section, ranks_section, verdict_words

    layout = Layout(output.clean, output.wrap_width())
    if ranked.hits and is_foreign:
        output.line()
        output.lines(line.text for line in layout.section(legs_section(ranked)))
    for hit in ranked.hits:
        explanation = explain_chunk(ranked, hit.chunk.id)
        output.line()
        output.line((place_of(ranked, hit.chunk.id), BOLD))
        output.line(f"  {verdict_words(ranked, hit, spell=words.EXACT)}")
        for section in (
            arithmetic_section(ranked, explanation, words.EXACT),
            ranks_section(ranked, explanation, {}, words.EXACT),
        ):
            output.lines(line.text for line in layout.section(section))


_BAR = 16
UNICODE: Mapping[str, str] = {
    **{"vector": "█", "keyword": "▒", "gain": "▓", "mmr": "◇", "decay": "╌", "loss": "╌"},
    **{"up": "▲", "down": "▼"},
}
ASCII: Mapping[str, str] = {
    **{"vector": "#", "keyword": "=", "gain": "+", "mmr": "x", "decay": ".", "loss": "."},
    **{"up": "+", "down": "-"},
}
"""One character for each part of a bar, and for a movement."""


def bar(hit: Hit, scale: float, glyphs: Mapping[str, str]) -> str:
    """Draw a score by its legs, then what stages took; a score of `scale` fills the bar."""
    cells = bar_parts(hit).cells(_BAR, scale)
    return "".join(glyphs[name] * count for name, count in cells).ljust(_BAR)
