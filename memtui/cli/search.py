"""`memtui search`: the legs, the ranking, and four ways to print what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memtui.cli.documents import file_states, search_document
from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.cli.results import (
    leg_warnings,
    print_rows,
    print_sentences,
    summary,
)
from memtui.cli.searching import SearchSession, open_search, stale_warning
from memtui.errors import IndexMissing, IndexUnusable, ProviderError, SettingsError
from memtui.model import IndexStatus, Leg, LegState, LegStatus, Ranked, Reason
from memtui.model.status import Severity
from memtui.report.documents import excerpt_of, hit_entry
from memtui.report.providers import vectors_note

EXIT_OK, EXIT_NOTHING = 0, 1
_JSON_SNIPPET = 300
_FORMATS = ("jsonl", "plain", "paths")
_PAUSED = "the agent gets nothing until its index is rebuilt (openclaw memory index --force)"
_AGENT_GETS = {
    "search_disabled": "the agent gets nothing while its memory search is switched off",
    "qmd_backend": "another program answers the agent",
    "other_database_read": "the agent searches another database",
    "keyword_only_served": "the agent searches keywords only until its index is rebuilt",
}
"""By the code of the finding; every other one pauses the agent's search."""


def run_search(invocation: Invocation, query: str, options: Mapping[str, Any]) -> int:
    """Search and print; 0 when something is found, 1 when nothing is (0 with --zero-ok)."""
    chosen = [f"--{name}" for name in _FORMATS if options[name]]
    chosen += ["--json"] if invocation.json else []
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(chosen)} exclude each other")
    with open_search(invocation, options["now"]) as session:
        ranked, warnings = search(session, query)
        output = invocation.output(raw=options["raw"])
        _print(output, session, ranked, warnings, invocation, options)
    return EXIT_OK if ranked.hits or options["zero_ok"] else EXIT_NOTHING


def search(session: SearchSession, query: str) -> tuple[Ranked, list[str]]:
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
        message = f"{session.workspace.root} has no index yet"
        raise IndexMissing(message, hint="`memtui index` makes one") from error
    status = session.status() if session.is_foreign else session.engine.index.status()
    _check_legs(ranked.pool.states)
    stale = stale_warning(status)
    instead = (
        "" if session.is_foreign else vectors_note(ranked.pool.states, status.provider, full=True)
    )
    warnings = [
        *session.warnings(ranking),
        *_query_problems(session, query),
        *leg_warnings({str(leg): state for leg, state in ranked.pool.states.items()}),
        *([instead] if instead else []),
        *([stale] if stale else []),
        *_index_problems(status),
    ]
    return ranked, warnings


def _query_problems(session: SearchSession, query: str) -> Sequence[str]:
    """What cannot be used of the query language; over an agent's index that stays words."""
    from memtui.retrieval.query import parse_query

    return () if session.is_foreign else parse_query(query).problems


def _index_problems(status: IndexStatus) -> list[str]:
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


def _check_legs(states: Mapping[Leg, LegState]) -> None:
    if any(state.status is LegStatus.OK for state in states.values()):
        return
    failed = {leg: state for leg, state in states.items() if state.status is LegStatus.FAILED}
    for leg, state in failed.items():
        detail = f"{leg} search failed: {state.detail or state.reason}"
        if state.reason is Reason.NOT_REPRODUCIBLE:
            hint = "--query-vectors FILE gives the vector of a query"
            raise ProviderError(f"{leg} search is {state.detail}", hint=hint)
        if state.reason is Reason.PROVIDER_FAILED:
            raise ProviderError(detail, hint="and the other leg has nothing to search for")
        raise IndexUnusable(detail, hint="`memtui index --force` builds the index anew")


def _print(
    output: Output,
    session: SearchSession,
    ranked: Ranked,
    warnings: Sequence[str],
    invocation: Invocation,
    options: Mapping[str, Any],
) -> None:
    if invocation.json:
        snippets = {hit.chunk.id: excerpt_of(hit, _JSON_SNIPPET).text for hit in ranked.hits}
        status = session.engine.index.status()
        output.document(search_document(ranked, snippets, status, warnings))
        return
    for warning in warnings:
        output.note(f"memtui: {warning}")
    if options["jsonl"]:
        states = file_states(session.engine.index.status())
        for hit in ranked.hits:
            output.record(hit_entry(hit, excerpt_of(hit, _JSON_SNIPPET).text, states))
    elif options["paths"]:
        for path in dict.fromkeys(hit.chunk.path for hit in ranked.hits):
            output.data(path)
    else:
        _print_for_people(output, session, ranked, options)


def _print_for_people(
    output: Output, session: SearchSession, ranked: Ranked, options: Mapping[str, Any]
) -> None:
    ascii_only = session.loaded.settings.ui.glyphs == "ascii"
    states = file_states(session.engine.index.status()) or {}
    if options["plain"]:
        print_sentences(output, ranked, states)
    else:
        print_rows(output, ranked, ascii_only=ascii_only, states=states)
    if options["explain"]:
        from memtui.cli.waterfall import print_searched, print_waterfall

        if ranked.hits and session.is_foreign:
            output.line()
            print_searched(output, ranked)
        for hit in ranked.hits:
            output.line()
            print_waterfall(output, ranked, hit.chunk.id)
    if output.err_is_terminal or not ranked.hits:
        output.note(summary(ranked))
    if not ranked.hits:
        output.note(_why_nothing(ranked))


def _why_nothing(ranked: Ranked) -> str:
    below = [drop for drop in ranked.drops if drop.reason is Reason.BELOW_MIN_SCORE]
    if below:
        best = max(drop.score for drop in below)
        return (
            f"{len(below)} below the minimum score {ranked.ranking.min_score}, "
            f"the best with {best:.3f}: `--min-score 0` shows them"
        )
    return "nothing found"
