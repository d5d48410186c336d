"""`memtui search`: the legs, the ranking, and five ways to print what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import click

from memtui.cli.invocation import Invocation
from memtui.cli.options import RAW, filter_options, on_memory, ranking_options
from memtui.cli.output import Output
from memtui.cli.session import Session, open_reading, stale_warning
from memtui.errors import IndexMissing, IndexUnusable, ProviderError, SettingsError
from memtui.model import Fusion, Hit, IndexStatus, Leg, LegStatus, Ranked, Reason, Stage
from memtui.model.status import FileState, Severity
from memtui.ranking.trace import explain as explain_chunk
from memtui.ranking.trace import movement
from memtui.report import words
from memtui.report.arithmetic import arithmetic_section, place_of
from memtui.report.documents import (
    Excerpt,
    FileStates,
    drop_entry,
    excerpt_of,
    hit_entry,
    legs_entry,
    ranking_entry,
)
from memtui.report.layout import Layout, Section
from memtui.report.providers import vectors_note
from memtui.retrieval.query import parse_query

EXIT_OK, EXIT_NOTHING = 0, 1
_BOLD, _UNDERLINE = 1, 4
_SNIPPET = 300
_PAUSED = "the agent gets nothing until its index is rebuilt (openclaw memory index --force)"
_AGENT_GETS = {
    "search_disabled": "the agent gets nothing while its memory search is switched off",
    "qmd_backend": "another program answers the agent",
    "other_database_read": "the agent searches another database",
    "keyword_only_served": "the agent searches keywords only until its index is rebuilt",
}
"""By the code of the finding; every other one pauses the agent's search."""


@click.command(epilog="`memtui help search` tells about the query language and the output.")
@click.argument("query", nargs=-1, required=True)
@filter_options
@ranking_options
@click.option("--explain", is_flag=True, help="The arithmetic of every result.")
@click.option("--jsonl", is_flag=True, help="One JSON document for each result.")
@click.option("--plain", is_flag=True, help="Sentences: no columns, no bars, no colour.")
@click.option("--paths", is_flag=True, help="Only the files of the results, best first.")
@click.option("--zero-ok", is_flag=True, help="Exit with 0 when nothing is found.")
@RAW
@on_memory(vectors=True, agent=True, demo=True)
def search(
    invocation: Invocation,
    query: str,
    now: datetime | None,
    explain: bool,
    jsonl: bool,
    plain: bool,
    paths: bool,
    zero_ok: bool,
    raw: bool,
) -> int:
    """Search the memory for QUERY."""
    formats = {"--jsonl": jsonl, "--plain": plain, "--paths": paths, "--json": invocation.json}
    chosen = [name for name, is_given in formats.items() if is_given]
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(chosen)} exclude each other")
    with open_reading(invocation, now, warm=True) as session:
        ranked, warnings = answer(session, query)
        output = invocation.output(raw=raw)
        status = session.engine.index.status()
        if invocation.json:
            output.document(search_document(ranked, status, warnings))
            return EXIT_OK if ranked.hits or zero_ok else EXIT_NOTHING
        output.warn(warnings)
        if jsonl:
            states = file_states(status)
            for hit in ranked.hits:
                output.record(hit_entry(hit, excerpt_of(hit, _SNIPPET).text, states))
        elif paths:
            for path in dict.fromkeys(hit.chunk.path for hit in ranked.hits):
                output.data(path)
        else:
            if plain:
                print_sentences(output, ranked, file_states(status) or {})
            else:
                ascii_only = session.loaded.settings.ui.glyphs == "ascii"
                print_rows(output, ranked, file_states(status) or {}, ascii_only=ascii_only)
            if explain:
                print_arithmetic(output, ranked, is_foreign=session.is_foreign)
            if output.err_is_terminal or not ranked.hits:
                output.note(summary(ranked))
            if not ranked.hits:
                output.note(why_nothing(ranked))
    return EXIT_OK if ranked.hits or zero_ok else EXIT_NOTHING


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
    warnings += [text for text in (instead, stale_warning(status)) if text]
    return ranked, warnings + _problems_of_agent(status)


def _problems_of_agent(status: IndexStatus) -> list[str]:
    """What makes searches of an agent's index wrong, or kept it from being examined."""
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
    """The document of a search: every number of the trace, none computed here.

    `generation` is the one that was searched; `index` tells how the index is by now.
    """
    states = file_states(status)
    return {
        "query": ranked.pool.query,
        "now": ranked.trace.now,
        "ranking": ranking_entry(ranked),
        "search_mode": ranked.pool.search_mode,
        "generation": ranked.pool.generation,
        "legs": legs_entry(ranked),
        "timings": {"pool_ms": ranked.pool.elapsed_ms, "rank_ms": ranked.elapsed_ms},
        "hits": [hit_entry(hit, excerpt_of(hit, _SNIPPET).text, states) for hit in ranked.hits],
        "drops": [drop_entry(drop) for drop in ranked.drops],
        "stages": [
            {name: getattr(trace, name) for name in _STAGE_FIELDS} for trace in ranked.trace.stages
        ],
        "index": _index_entry(status),
        "warnings": warnings,
    }


_STAGE_FIELDS = ("stage", "active", "order", "dropped", "numbers")


def file_states(status: IndexStatus) -> FileStates | None:
    """By path, the files of an agent's index as far as they were compared; `None` before that."""
    truth = status.foreign.truth if status.foreign is not None else None
    return None if truth is None else {file.path: file.state for file in truth.files}


def _index_entry(status: IndexStatus) -> dict[str, Any]:
    """Which index answered, and whose it is; its examination is what `memtui status` prints."""
    entry = {
        "root": status.root,
        "dir": status.index_dir,
        "generation": status.generation,
        "state": status.state,
        "files": status.files,
        "chunks": status.chunks,
        "vectors": status.vectors,
        "pending": status.pending_count,
        "provider": status.provider.actual,
        "model": status.provider.model,
        "dimensions": status.provider.dimensions,
        "provider_state": status.provider,
        "vector_backend": status.vector_backend,
        "tokenizer": status.tokenizer,
    }
    if (foreign := status.foreign) is not None:
        names = {field.name for field in fields(foreign)} - {"truth", "examining"}
        entry["foreign"] = {name: getattr(foreign, name) for name in sorted(names)}
    return entry


def print_rows(
    output: Output, ranked: Ranked, states: FileStates, *, ascii_only: bool = False
) -> None:
    """Two lines a result: rank, movement, effective score, bar, place, age; then the excerpt.

    `states` marks the results whose file is not what was indexed.
    """
    glyphs = ASCII if ascii_only or not output.unicode else UNICODE
    full = full_length(ranked)
    indent = " " * 8
    for hit in ranked.hits:
        moved = movement(hit)
        arrow = f"{glyphs.up if moved > 0 else glyphs.down}{abs(moved)}" if moved else "="
        place = output.styled(output.clean(f"{hit.chunk.path}:{hit.chunk.start_line}"), _BOLD)
        age = words.age_of(hit.chunk, ranked.ranking.decay.dates, ranked.trace.now)
        output.line(
            f"{hit.rank:>2} {arrow:<4}{words.score(hit.effective):>6}  {bar(hit, full, glyphs)}  "
            f"{place}  {words.short_age(age)}{_mark(hit, states, '  ')}"
        )
        output.line(indent + _marked(output, excerpt_of(hit, output.width() - len(indent))))


def print_sentences(output: Output, ranked: Ranked, states: FileStates) -> None:
    """One paragraph a result, meaning in words alone: for screen readers."""
    for hit in ranked.hits:
        age = words.age_of(hit.chunk, ranked.ranking.decay.dates, ranked.trace.now)
        moved = movement(hit)
        way = f", up {moved}" if moved > 0 else f", down {-moved}" if moved < 0 else ""
        output.line(
            output.clean(
                f"Rank {hit.rank}, score {words.score(hit.effective)}{way}, "
                f"{hit.chunk.path} line {hit.chunk.start_line}, {words.long_age(age)}"
                f"{_mark(hit, states, ', ')}."
            )
        )
        output.line(output.clean(excerpt_of(hit, _SNIPPET).text))
        output.line()


def summary(ranked: Ranked) -> str:
    """One line about the whole search: how many of how many, the legs, the time."""
    pool = ranked.pool
    legs = ", ".join(f"{leg} {words.leg_words(state)}" for leg, state in pool.states.items())
    found = f"{len(ranked.hits)} of {words.count(len(pool.chunks), 'candidate')}"
    return f"{found} in {words.duration(pool.elapsed_ms / 1000)}; {legs}"


def why_nothing(ranked: Ranked) -> str:
    """What kept everything out of a list without results."""
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


def _marked(output: Output, excerpt: Excerpt) -> str:
    text = output.clean(excerpt.text)
    if not output.colour or len(text) != len(excerpt.text):
        return text
    parts, end = [], 0
    for start, stop in excerpt.spans:
        if start >= end:
            parts += [text[end:start], output.styled(text[start:stop], _BOLD, _UNDERLINE)]
            end = stop
    return "".join(parts) + text[end:]


def print_arithmetic(output: Output, ranked: Ranked, *, is_foreign: bool) -> None:
    """Below the list: what each leg of an agent's search was asked, and the steps of each score."""
    from memtui.report.explanation import legs_section, ranks_section, verdict_words

    def print_section(section: Section) -> None:
        for line in Layout(output.clean, output.wrap_width()).section(section):
            output.line(line.text)

    if ranked.hits and is_foreign:
        output.line()
        print_section(legs_section(ranked))
    for hit in ranked.hits:
        told = explain_chunk(ranked, hit.chunk.id)
        output.line()
        output.line(output.styled(output.clean(place_of(ranked, hit.chunk.id)), _BOLD))
        output.line(output.clean(f"  {verdict_words(ranked, told.scored, spell=words.EXACT)}"))
        print_section(arithmetic_section(ranked, told, words.EXACT))
        print_section(ranks_section(ranked, told, {}, words.EXACT))


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One character for each part of a bar, and for a movement."""

    vector: str
    keyword: str
    mmr: str
    decay: str
    up: str
    down: str


UNICODE = Glyphs("█", "▒", "◇", "╌", "▲", "▼")
ASCII = Glyphs("#", "=", "x", ".", "+", "-")
BAR_WIDTH = 16


def full_length(ranked: Ranked) -> float:
    """The score that fills a bar: 1, or the largest of all where scores are not on that scale."""
    scores = (
        abs(stage.after) for hit in ranked.hits for stage in hit.stages if stage.stage != Stage.MMR
    )
    largest = max(scores, default=0.0)
    return largest or 1.0 if ranked.ranking.fusion is Fusion.RRF else max(1.0, largest)


def bar(hit: Hit, full: float, glyphs: Glyphs, width: int = BAR_WIDTH) -> str:
    """Draw what is left of the score by leg, then what MMR and decay took, in `width` cells."""
    taken = {stage.stage: max(0.0, stage.before - stage.after) for stage in hit.stages}
    parts = {leg: max(0.0, part.contribution) for leg, part in hit.legs.items()}
    total = sum(parts.values())
    left = max(0.0, hit.effective)
    lengths = [
        (glyphs.vector, left * parts.get(Leg.VECTOR, 0.0) / total if total else left),
        (glyphs.keyword, left * parts.get(Leg.KEYWORD, 0.0) / total if total else 0.0),
        (glyphs.mmr, min(taken.get(Stage.MMR, 0.0), max(0.0, hit.score))),
        (glyphs.decay, taken.get(Stage.DECAY, 0.0)),
    ]
    drawn, end = "", 0.0
    for glyph, length in lengths:
        end += length / full * width
        drawn += glyph * (min(width, round(end)) - len(drawn))
    return drawn.ljust(width)
