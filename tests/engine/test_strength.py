"""How strong a match is, measured on the demo: right answers, and queries that mean nothing."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from memtui.data import read_table
from memtui.engine import Engine
from memtui.model import Context, Drop, Hit, Leg, Ranked, Ranking
from memtui.ranking.strength import Strength, is_all_weak, strength
from memtui.report.arithmetic import TONES, part_cells, score_steps
from memtui.report.words import strength_words
from tests.support.known import DATA
from tests.support.small_memory import make_small_agent

NONSENSE = [*(DATA / "nonsense_queries.txt").read_text("utf-8").splitlines(), "x" * 10_000]
ANSWERS = tomllib.loads((DATA / "demo_answers.toml").read_text("utf-8"))
MEASURED = 0.438
"""The greatest cosine of nonsense, as the table says."""


def best(ranked: Ranked) -> float:
    return max((hit.raw for hit in ranked.pool.hits[Leg.VECTOR]), default=0.0)


def test_right_answers_are_mostly_strong_and_nonsense_never_is(demo: Engine) -> None:
    found = Counter[Strength | None]()
    for query, place in ANSWERS.items():
        ranked = demo.search.ask(query, ranking=Ranking(k=100))
        answers = [
            hit for hit in ranked.hits if f"{hit.chunk.path}:{hit.chunk.start_line}" == place
        ]
        assert answers, f"{place} does not answer {query}"
        found[strength(ranked, answers[0])] += 1
    assert found[Strength.STRONG] >= 0.7 * len(ANSWERS), found
    nearest = []
    for query in NONSENSE:
        ranked = demo.search.ask(query)
        nearest.append(best(ranked))
        everything: list[Strength | None] = [strength(ranked, hit) for hit in ranked.hits]
        assert set(everything) <= {Strength.WEAK, Strength.NONE}, query
        assert is_all_weak(ranked) or not ranked.hits
    (weak, strong), *_ = read_table("strength.toml")["cosine"].values()
    assert max(nearest) == pytest.approx(MEASURED, abs=5e-4)
    assert sorted(nearest)[len(nearest) // 2] == pytest.approx(weak, abs=5e-3)
    assert strong == pytest.approx(MEASURED + 0.05, abs=5e-3)


def test_in_context_answers_are_mostly_strong_and_nonsense_is_nothing(demo: Engine) -> None:
    context = Context(enabled=True)
    first = []
    for query in ANSWERS:
        ranked = demo.search.ask(query, ranking=Ranking(context=context))
        first.append(strength(ranked, ranked.hits[0]))
    assert first.count(Strength.STRONG) >= 0.7 * len(ANSWERS), Counter(first)
    plain = demo.search.ask("what is Mai allergic to", ranking=Ranking(context=context))
    assert strength(plain, plain.hits[0]) is Strength.STRONG
    for query in NONSENSE:
        ranked = demo.search.ask(query, ranking=Ranking(context=context))
        assert {strength(ranked, hit) for hit in ranked.hits} <= {Strength.NONE}, query
    mention = demo.search.ask("supermarket", ranking=Ranking(context=context))
    assert {strength(mention, hit) for hit in mention.hits} == {Strength.WEAK, Strength.NONE}
    assert not is_all_weak(mention), "the word that was asked for is there"
    letter = demo.search.ask("x", ranking=Ranking(context=context))
    assert Strength.STRONG not in {strength(letter, hit) for hit in letter.hits}


def test_the_sum_that_is_told_decides_and_its_fused_share_has_the_colour_of_its_leg(
    demo: Engine,
) -> None:
    for query in [*ANSWERS, "router vlan", "xyzzy router", "京都 プログラム 冷蔵庫 xyzzy"]:
        ranked = demo.search.ask(query, ranking=Ranking(context=Context(enabled=True)))
        for hit in ranked.hits:
            word, sum_ = strength_words(ranked, hit).replace("−", "-").split(": ")
            sum_, not_measured, _ = sum_.partition("; meaning not measured")
            assert not (not_measured and word == "none"), "a word was found"
            total, sign, limit = sum_.split()[-3:]
            shares = re.findall(r"([\d.]+) × [a-z ]+ (-?[\d.]+)", sum_)
            added = sum(float(weight) * float(value) for weight, value in shares)
            assert added == pytest.approx(float(total), abs=0.01)
            assert (float(total) >= float(limit)) is (sign == "≥") is (word == "strong")
            fused = next(step for step in score_steps(ranked, hit) if step.shares).shares[0]
            given = {leg: part.contribution for leg, part in hit.legs.items()}
            if any(given.values()):
                assert fused.tone is TONES[max(given, key=given.__getitem__)]


def test_words_alone_judge_where_no_cosine_was_measured(demo: Engine, tmp_path: Path) -> None:
    ranked = demo.search.ask("router zeppelin flugelhorn", ranking=Ranking(k=50))
    states = ranked.pool.states
    other = replace(states[Leg.VECTOR], facts={"model": "a model that nobody measured"})
    unknown = replace(ranked, pool=replace(ranked.pool, states={**states, Leg.VECTOR: other}))
    by_words = {Leg.KEYWORD in hit.legs: strength(unknown, hit) for hit in ranked.hits}
    assert by_words == {True: Strength.WEAK, False: None}
    assert not is_all_weak(unknown)
    letter = demo.search.ask("x")
    assert {strength(letter, hit) for hit in letter.hits} == {Strength.WEAK}
    # While vectors are made, a chunk that waits for its own is judged as where there are none.
    ranked = demo.search.ask("Omada router", ranking=Ranking(context=Context(enabled=True)))
    unmade = replace(ranked.hits[0], legs={Leg.KEYWORD: ranked.hits[0].legs[Leg.KEYWORD]})
    vectors = ranked.pool.states[Leg.VECTOR]
    state = replace(vectors, facts={**vectors.facts, "pending": 1})
    pool = replace(ranked.pool, states={**ranked.pool.states, Leg.VECTOR: state})
    alone = replace(ranked, hits=(unmade,))
    assert strength(alone, unmade) is Strength.WEAK
    assert strength(replace(alone, pool=pool), unmade) is Strength.STRONG
    agent = make_small_agent(tmp_path)
    with agent.open() as opened:
        held = opened.search.ask("what is a router")
        judged = {strength_words(held, hit) for hit in held.hits if Leg.KEYWORD in hit.legs}
        rule = "more than half (stop words count only where there are no others)"
        assert judged == {f"strong: it holds 100 % of the query's words, {rule}"}


def test_a_leg_that_contributes_has_a_cell_of_the_bar(demo: Engine) -> None:
    for query in ANSWERS:
        ranked = demo.search.ask(query)
        scored: list[Hit | Drop] = [*ranked.hits, *ranked.drops]
        for one in scored:
            cells = dict(part_cells(one, 12, 1.0))
            given = (leg for leg, part in one.legs.items() if part.contribution >= 0.001)
            assert all(cells[leg.value] for leg in given)
            assert sum(cells.values()) <= 12 or not isinstance(one, Hit)
