"""What would bring a chunk in, tried on the bundled demo; `python -m tests.counterfactuals` has all."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from memtui.engine import Engine
from memtui.engine.what_if import MOST_SEARCHES, MOST_WORDS
from memtui.model import Chunk, Decay, Leg, LegState, LegStatus, Mmr, Ranked, Ranking, Reason
from memtui.model.inquiry import Place, WordChange
from memtui.ranking.counterfactual.change import Parameter, apply
from memtui.report.explanation import Explained, Part, find_part, report_of
from memtui.report.layout import text_of
from memtui.text.tokens import STOP_WORDS
from tests.counterfactuals import QUERIES, TRIED, Trial
from tests.support.dice import examples
from tests.support.known import load

NEAR, FAR = 2, 1
"""Of each query so many of the nearest misses, and so many from everywhere in the index."""
POINTS = examples(10)
"""Values of each range that is searched in vain; the full run tries twenty times as many."""


@pytest.mark.parametrize("name", TRIED)
def test_changes_do_it_and_nothing_else_does(demo: Engine, name: str) -> None:
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    # A fifteenth of the queries, others for each ranking.
    queries = QUERIES[10 + list(TRIED).index(name) :: 3 * len(TRIED)]
    for query in queries:
        trial = Trial(demo, query, TRIED[name], POINTS)
        near, rest = trial.missing()[:12], trial.missing()[12:]
        seeded = random.Random(len(near) + len(rest))
        for chunk_id in (*seeded.sample(near, NEAR), *seeded.sample(rest, FAR)):
            wrong += trial.check(chunk_id, tally)
    assert wrong == []
    assert tally["chunks"] == (NEAR + FAR) * len(queries)
    assert len(tally.keys() & set(Parameter)) >= 3
    assert tally["changes"] + tally["refusals"] >= tally["chunks"] * len(Parameter)


def test_what_a_reset_gives_is_told_where_no_parameter_does_it_alone(demo: Engine) -> None:
    pushed = replace(demo.ranking, decay=Decay(enabled=True), mmr=Mmr(enabled=True))
    ranked = demo.search.ask("router config", ranking=pushed)
    place = Place("memory/2026-04-21.md")
    explained = Explained(ranked, pushed, subject=place, configured=demo.ranking)
    for part in (Part.INQUIRY, Part.LEAST):
        explained = find_part(demo, explained, part, lambda parameter: None)
    report = report_of(explained)
    assert re.search(r"> 6 results: decay #2 → #\d+, MMR → #\d+$", report.verdict)
    text = text_of(report)
    assert "reset, every parameter as configured: #2" in text
    assert len(re.findall(r"does it alone \(\d+ tried\)", text)) == 1
    same = replace(explained, configured=pushed)
    assert "as configured" not in text_of(report_of(same))
    # The ends of the scale give the value beside them.
    [(value, raw, worst, best)] = re.findall(
        r"0.3 × (\S+)  cos (\S+) scaled: (\S+) → 0, (\S+) → 1", text
    )
    scaled = (float(raw) - float(worst)) / (float(best) - float(worst))
    assert float(value) == pytest.approx(scaled, abs=0.005)


def test_looking_for_changes_can_be_stopped(demo: Engine) -> None:
    ranking = replace(demo.ranking, k=1, candidate_multiplier=1, min_candidates=1)
    ranked = demo.search.ask("router config", ranking=ranking)
    trial = Trial(demo, "router config", ranking)
    chunk_id = trial.missing()[0]
    places = demo.explain.inquire(ranked, chunk_id).leg_places
    stop = Mock(side_effect=InterruptedError)
    with pytest.raises(InterruptedError):
        demo.what_if.least_changes(ranked, ranking, chunk_id, places, progress=stop)
    stop.assert_called_once()


@pytest.mark.parametrize("typing", [False, True])
def test_what_is_tried_is_asked_as_the_list_was(demo: Engine, typing: bool) -> None:
    # As the beginning of a word `config` finds one note more.
    query = "router config"
    ranked = demo.search.ask(query, typing=typing)
    assert ranked.pool.typing is typing
    inquiry = demo.explain.inquire_at(ranked, Place("memory/2026-01-20.md", 3))
    assert inquiry.chunk is not None
    chunk_id = inquiry.chunk.id
    least = demo.what_if.least_changes(ranked, demo.ranking, chunk_id, inquiry.leg_places)
    offered = {change.parameter: change.new for change in least.changes}
    everything = demo.search.ask(query, ranking=replace(demo.ranking, k=50), typing=typing)
    assert offered[Parameter.K] == everything.ranks[chunk_id]
    for change in least.changes:
        tried = apply(demo.ranking, change.parameter, change.new)
        shown = demo.search.ask(query, ranking=tried, typing=typing).hits
        assert shown[change.rank_after - 1].chunk.id == chunk_id


@pytest.fixture
def queries(demo: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that are searched while words are tried."""
    texts: list[str] = []
    ask = demo.search.ask

    def search(text: str, **options: Any) -> Ranked:
        texts.append(text)
        return ask(text, **options)

    monkeypatch.setattr(demo.search, "ask", search)
    return texts


def missed(
    demo: Engine, query: str, path: str, ranking: Ranking, *, typing: bool = False
) -> tuple[Ranked, Chunk]:
    ranked = demo.search.ask(query, ranking=ranking, typing=typing)
    inquiry = demo.explain.inquire_at(ranked, Place(path))
    assert inquiry.chunk is not None
    assert not inquiry.shown
    return ranked, inquiry.chunk


@pytest.mark.parametrize("typing", [False, True])
@pytest.mark.parametrize(("query", "path"), load("reading")["suggested queries"])
def test_every_suggestion_was_searched_and_shows_the_chunk(
    demo: Engine, queries: list[str], query: str, path: str, typing: bool
) -> None:
    ranked, chunk = missed(demo, query, path, demo.ranking, typing=typing)
    terms = demo.explain.inquire(ranked, chunk.id).terms
    queries.clear()
    outcome = demo.what_if.word_changes(ranked, demo.ranking, chunk, terms)
    searched = tuple(queries)
    assert outcome.changes
    assert outcome.reason is Reason.OK
    assert outcome.tried == len(searched) <= MOST_SEARCHES
    assert len(set(searched)) == len(searched)
    for change in outcome.changes:
        assert change.query in searched
        again = demo.search.ask(change.query, typing=typing)
        assert again.hits[change.rank_after - 1].chunk.id == chunk.id
        for word in change.added:
            assert word.lower() not in STOP_WORDS
            assert word.isalpha(), "nobody types a piece of code"
            assert word in change.query.split()
            assert word.lower() in chunk.text.lower()
    sizes = [(len(c.added) + len(c.removed), c.rank_after) for c in outcome.changes]
    assert sizes == sorted(sizes)


def test_a_word_that_a_phrase_requires_is_taken_out(demo: Engine) -> None:
    shown = demo.search.ask("router vlan").hits[0].chunk
    query = 'router vlan "Lightning came over the telephone line"'
    ranked = demo.search.ask(query)
    assert ranked.hits
    assert shown.id not in ranked.ranks
    terms = demo.explain.inquire(ranked, shown.id).terms
    assert terms is not None
    outcome = demo.what_if.word_changes(ranked, demo.ranking, shown, terms)
    assert outcome.changes[0].removed == ("Lightning came over the telephone line",)
    assert outcome.changes[0].query == "router vlan"


@pytest.mark.parametrize(
    ("query", "place", "filters", "changed", "removed"), load("reading")["left out by filters"]
)
def test_all_filters_that_leave_it_out_are_taken_out_together(
    demo: Engine, query: str, place: str, filters: list[str], changed: str, removed: list[str]
) -> None:
    answer = demo.search.ask(query)
    path, _, line = place.partition(":")
    found = demo.explain.inquire_at(answer, Place(path, int(line)))
    assert found.chunk is not None
    assert found.filters == tuple(filters)
    least = demo.what_if.word_changes(answer, demo.ranking, found.chunk, found.terms, found.filters)
    rank = demo.search.ask(changed, ranking=replace(demo.ranking, k=50)).ranks[found.chunk.id]
    lifted = least.changes[0].filters
    assert least.changes[0] == WordChange(changed, (), tuple(removed), rank, lifted)
    # Of a day all that was typed.
    assert {*lifted} == {*filters, *(one for one in query.split() if one == "after:2020-01-01")}
    assert (len(least.changes) > 1) == (rank > demo.ranking.k)
    report = text_of(report_of(Explained(answer, demo.ranking, found, words=least)))
    assert f"NOT SHOWN: left out by {', '.join(filters)}\n" in report
    assert f"other words, without {', '.join(lifted)}\n" in report
    named = "−router" if removed else "no other change"
    assert re.search(f" {named} *#{rank}{' > 6' * (rank > 6)}  {changed}\n", report)


def test_a_chunk_behind_the_newest_that_filters_alone_list_has_its_rank(demo: Engine) -> None:
    ranked, place = demo.search.ask("before:2026-11-01"), Place("memory/2026-01-20.md")
    every = demo.search.ask("before:2026-11-01", ranking=replace(demo.ranking, k=100))
    explained = Explained(ranked, demo.ranking, subject=place)
    for part in (Part.INQUIRY, Part.LEAST):
        explained = find_part(demo, explained, part, lambda parameter: None)
    report, rank = (
        report_of(explained),
        next(h.rank for h in every.hits if h.chunk.path == str(place)),
    )
    assert f"#{rank} of {len(every.hits)}, beyond the first 50" in report.verdict
    assert f"6 → {rank} " in text_of(report)


def test_a_search_without_a_leg_of_the_first_counts_for_nothing(
    demo: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked, chunk = missed(demo, "router config", "USER.md", demo.ranking)
    ask = demo.search.ask

    def search(text: str, **options: Any) -> Ranked:
        answer = ask(text, **options)
        failed = LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED)
        states = {**answer.pool.states, Leg.VECTOR: failed}
        return replace(answer, pool=replace(answer.pool, states=states))

    monkeypatch.setattr(demo.search, "ask", search)
    outcome = demo.what_if.word_changes(ranked, demo.ranking, chunk, None)
    assert (outcome.changes, outcome.reason) == ((), Reason.PROVIDER_FAILED)
    assert outcome.tried > 0


def test_the_words_that_are_added_are_rare_and_new(demo: Engine) -> None:
    ranked, chunk = missed(demo, "router config", "USER.md", demo.ranking)
    tried: list[str] = []
    demo.what_if.word_changes(ranked, demo.ranking, chunk, None, progress=tried.append)
    added = [one.removeprefix("router config ") for one in tried if one.startswith("router c")]
    words = [word for word in added if " " not in word][:MOST_WORDS]
    assert len(words) > 3
    holding = [len(demo.search.ask(w).pool.hits[Leg.KEYWORD]) for w in words if not w.isdigit()]
    assert holding == sorted(holding)
    assert all(len(word) > 1 for word in words)
    assert not {"router", "routers", "config"} & {word.lower() for word in words}
