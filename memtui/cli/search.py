"""`memtui search`: the legs, the ranking, and five ways to print what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memtui.cli.common_options import Invocation, command, refuse_several
from memtui.cli.output import BOLD, EXIT_NOTHING, EXIT_OK, MARKED, Line, Part
from memtui.cli.session import Session, open_reading, stale_warning
from memtui.errors import IndexUnusable, ProviderError
from memtui.model import IndexState, IndexStatus, LegStatus, Ranked, Reason
from memtui.model.status import FileState, Severity
from memtui.ranking.strength import is_all_weak, strength
from memtui.ranking.trace import cited_lines
from memtui.report import words
from memtui.report.arithmetic import NO_PASSAGES, bar_scale, lacks_passages, part_cells
from memtui.report.json_text import SNIPPET, FileStates, drop_entry, hit_entry, search_entry
from memtui.report.layout import Layout, SectionId
from memtui.report.status import agent_gets_words, state_detail, vectors_note
from memtui.retrieval.query import day_rule, query_problems

_INDENT, _LEAST_BAR, _BAR, _BESIDE_BAR = 8, 8, 16, 28
_HEADING = " # move score  {:<{cells}.{cells}}  path:line, strength, age"
_PARTS = ("vector", "keyword", "gain", "mmr", "decay", "loss", "up", "down", "cut")
UNICODE: Mapping[str, str] = dict(zip(_PARTS, "█▒▓◇╌╌▲▼…", strict=True))
ASCII: Mapping[str, str] = dict(zip(_PARTS, "#=+x..+-~", strict=True))
"""One character for each part of a bar, for a movement, and for what is cut off."""


@command("search")
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
        output, status = invocation.output(), session.engine.index.status()
        exit_code = EXIT_OK if ranked.hits or zero_ok else EXIT_NOTHING
        if invocation.json:
            output.document(search_document(ranked, status, warnings))
            return exit_code
        # Once: what is said in place of results, too.
        summary_text = "" if ranked.hits or jsonl or paths else summary(ranked)
        output.warn(one for one in (*warnings, *day_rule(query)) if one not in summary_text)
        states = file_states(status)
        if jsonl:
            for hit in ranked.hits:
                output.document(hit_entry(ranked, hit, states), indent=None)
        elif paths:
            for path in dict.fromkeys(hit.chunk.path for hit in ranked.hits):
                output.data(path)
        else:
            if plain:
                output.lines(sentences(ranked, states or {}))
            else:
                ui = session.loaded.settings.ui
                ascii_only = ui.ascii_only(invocation.env) or not output.unicode
                if output.out_is_terminal and ranked.hits:
                    cells = bar_room(ranked, output.width)
                    output.note(_HEADING.format("meaning, words", cells=cells))
                output.lines(rows(ranked, states or {}, output.width, ascii_only=ascii_only))
            if explain:
                layout = Layout(output.clean, output.wrap_width)
                output.lines(arithmetic_lines(ranked, layout, is_foreign=session.is_foreign))
            if output.err_is_terminal or not ranked.hits:
                output.note(summary(ranked))
    return exit_code


def answer(session: Session, query: str) -> tuple[Ranked, list[str]]:
    """Search with the configured ranking; the warnings tell what should be known about it.

    Raises `ProviderError` or `IndexUnusable` when no leg could answer because something failed.
    """
    index, is_foreign = session.engine.index, session.is_foreign
    if not is_foreign:
        # Meanwhile the model is being loaded.
        index.refresh_status(brief=True)
    ranked = session.engine.search.ask(query, ranking=session.ranking)
    status = session.current_status() if is_foreign else index.status()
    states = ranked.pool.states
    failed = [leg for leg, state in states.items() if state.status is LegStatus.FAILED]
    if failed and not any(state.status is LegStatus.OK for state in states.values()):
        leg, state = failed[0], states[failed[0]]
        if state.reason is Reason.NOT_REPRODUCIBLE:
            raise ProviderError(f"{words.leg_name(leg)}: {state.detail}")
        detail = f"{words.leg_name(leg)} failed: {state.detail or words.reason_words(state.reason)}"
        if state.reason is Reason.PROVIDER_FAILED:
            raise ProviderError(detail, hint="and the query has no words to match")
        raise IndexUnusable(detail, hint="`memtui index --force` rebuilds the index")
    sources = [one.source for one in status.sources]
    warnings = [*session.warnings(), *query_problems(query, sources, by_release=is_foreign)]
    warnings += [state.detail for state in states.values() if state.reason in words.TOLD_REASONS]
    if not ranked.pool.is_scored and 0 < len(ranked.hits) < ranked.pool.total:
        shown = f"{len(ranked.hits)} of {words.count(ranked.pool.total)}"
        warnings.append(f"{shown} listed: -n N lists up to 200")
    warnings += [words.leg_note(leg, states[leg], brief=False) for leg in failed]
    # Beside another memtui the index is stale alone: what makes vectors is refused.
    note = "" if status.has_other_writer else vectors_note(states, status.provider, full=True)
    if not is_foreign and (note := note if status.files else state_detail(status)):
        warnings.append(note)
    if lacks_passages(ranked):
        warnings.append(NO_PASSAGES)
    if is_all_weak(ranked):
        warnings.append(f"{words.NOTHING_GOOD}: scores only compare the results of one query")
    lacks_vectors = status.state is IndexState.STALE and not (note or is_foreign)
    if status.pending_count or lacks_vectors:
        warnings.append(stale_warning(status))
    if (foreign := status.foreign) is not None:
        if gets := agent_gets_words(foreign):
            warnings.append(f"this list is NOT what the agent gets: {gets}")
        warnings += [error.message for error in status.errors]
        if foreign.truth is not None:
            findings = foreign.truth.findings
            warnings += [one.message for one in findings if one.severity is Severity.ERROR]
    return ranked, warnings


def search_document(ranked: Ranked, status: IndexStatus, warnings: Sequence[str]) -> dict[str, Any]:
    """Make the document of a search: every number of the trace, none computed here.

    `generation` is the one that was searched; `index` tells how the index is by now, and whose it
    is. Its examination is what `memtui status` prints.
    """
    states, foreign = file_states(status), status.foreign
    names = ("root", "generation", "state", "files", "chunks", "vectors")
    index: dict[str, Any] = {
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
    if foreign is not None:
        shown = {*foreign.__struct_fields__} - {"truth", "examining", "given_vectors"}
        index["foreign"] = {name: getattr(foreign, name) for name in sorted(shown)}
    return {
        **search_entry(ranked),
        "generation": ranked.pool.generation,
        "timings": {"pool_ms": ranked.pool.elapsed_ms, "rank_ms": ranked.elapsed_ms},
        "hits": [hit_entry(ranked, hit, states) for hit in ranked.hits],
        "drops": [drop_entry(ranked, drop) for drop in ranked.drops],
        "stages": ranked.trace.stages,
        "index": index,
        "warnings": warnings,
    }


def file_states(status: IndexStatus) -> FileStates | None:
    """By path, the files of an agent's index as far as they were compared; `None` before that."""
    truth = status.foreign.truth if status.foreign is not None else None
    return None if truth is None else {file.path: file.state for file in truth.files}


def bar_room(ranked: Ranked, width: int) -> int:
    """Return the cells of each bar: as many as the longest place and age leave, or none."""
    texts = (
        f"{hit.chunk.path}:{cited_lines(hit)[0]}{words.age_words(ranked, hit.chunk)}"
        for hit in ranked.hits
    )
    room = width - _BESIDE_BAR - max(map(words.cells_of, texts), default=0)
    return min(_BAR, room) if room >= _LEAST_BAR else 0


def rows(
    ranked: Ranked, states: FileStates, width: int, *, ascii_only: bool = False
) -> Iterator[Line]:
    """Lay out two lines a result: rank, movement, score, bar, place, strength, age; the excerpt.

    The bar has the parts of the score by its legs, then what stages took. `states` marks the
    results whose file is not what was indexed.
    """
    glyphs = ASCII if ascii_only else UNICODE
    scale = bar_scale(ranked.hits)
    cells = bar_room(ranked, width)
    for hit in ranked.hits:
        moved = hit.gained
        arrow = f"{glyphs['up' if moved > 0 else 'down']}{abs(moved)}" if moved else "="
        bar_parts = part_cells(hit, cells, scale) if cells and ranked.pool.is_scored else ()
        bar = "".join(glyphs[name] * count for name, count in bar_parts)
        state = states.get(hit.chunk.path, FileState.CURRENT)
        mark = "" if state is FileState.CURRENT else f"  {words.FILE_STATE_WORDS[state]}"
        yield [
            f"{hit.rank:>2} {arrow:<4}{words.result_score(ranked, hit):>6}  {bar:<{cells}}  ",
            (f"{hit.chunk.path}:{cited_lines(hit)[0]}", BOLD),
            f"  {words.match_words(ranked, hit):<7}  {words.age_words(ranked, hit.chunk)}{mark}",
            f"  {words.aside_words(ranked, hit)}".rstrip(),
        ]
        text, spans = words.excerpt_of(hit, width - _INDENT)
        text = text.replace(UNICODE["cut"], glyphs["cut"])
        parts: list[Part] = [" " * _INDENT]
        end = 0
        for start, stop in spans:
            parts += [text[end:start], (text[start:stop], MARKED)]
            end = stop
        yield [*parts, text[end:]]


def sentences(ranked: Ranked, states: FileStates) -> Iterator[str]:
    """Lay out one paragraph a result, meaning in words alone: for screen readers."""
    for hit in ranked.hits:
        age, moved = words.age_words(ranked, hit.chunk), hit.gained
        way = f", up {moved}" if moved > 0 else f", down {-moved}" if moved < 0 else ""
        state = states.get(hit.chunk.path, FileState.CURRENT)
        mark = "" if state is FileState.CURRENT else f", {words.FILE_STATE_WORDS[state]}"
        match = words.STRENGTH_MATCHES[strength(ranked, hit)]
        match, aside = (one and f", {one}" for one in (match, words.aside_words(ranked, hit)))
        yield (
            f"Rank {hit.rank}, score {words.result_score(ranked, hit)}{way}{match}, "
            f"{hit.chunk.path} line {cited_lines(hit)[0]}, {age}{mark}{aside}."
        )
        yield words.excerpt_of(hit, SNIPPET)[0]
        yield ""


def summary(ranked: Ranked) -> str:
    """Sum up a search: how many of how many, the legs, the time; and what kept all out."""
    pool = ranked.pool
    legs = ", ".join(
        f"{words.leg_name(leg)}: {words.leg_words(state)}" for leg, state in pool.states.items()
    )
    shown = f"{len(ranked.hits)} of {words.count(pool.total)} found"
    line = f"{shown} in {words.duration(pool.elapsed_ms / 1000)}; {legs}"
    if ranked.hits:
        return line
    is_below = any(drop.reason is Reason.BELOW_MIN_SCORE for drop in ranked.drops)
    hint = ": `--min-score 0` shows them" if is_below else ""
    return f"{line}\nno result: {words.nothing_words(ranked)}{hint}"


def arithmetic_lines(ranked: Ranked, layout: Layout, *, is_foreign: bool) -> Iterator[Line]:
    """Yield what each leg of an agent's search was asked, and the steps of each score."""
    # A search without `--explain` does without.
    from memtui.report.explanation import Explained, legs_section, report_of

    if ranked.hits and is_foreign:
        yield ""
        yield from (line.text for line in layout.section(legs_section(ranked)))
    for hit in ranked.hits:
        report = report_of(Explained(ranked, ranked.ranking, subject=hit.chunk.id))
        yield ""
        yield [(report.title, BOLD)]
        yield f"  {report.verdict}"
        for section in report.sections:
            if section.id in (SectionId.ARITHMETIC, SectionId.SHARES, SectionId.RANKS):
                yield from (line.text for line in layout.section(section))
