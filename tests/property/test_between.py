"""What is proven between two values holds at every value tried between them."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.model import CandidatePool, MinScoreRule, Mmr, Ranking, Rerank, SearchMode, Stage
from memtui.ranking.counterfactual import Parameter, apply
from memtui.ranking.counterfactual.columns import columns_of, reach
from memtui.ranking.counterfactual.listing import listing, shown_scores
from memtui.ranking.counterfactual.proofs import Between, Place
from memtui.ranking.counterfactual.solve import is_used
from memtui.ranking.counterfactual.walk import Axis
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES, for_mode
from tests.support import openclaw_pools
from tests.support.examples import examples
from tests.support.openclaw_rules import Release
from tests.support.pools import NOW, chunk, pool, pools, rankings

PARAMETERS = (Parameter.LAMBDA, Parameter.VECTOR_WEIGHT, Parameter.HALF_LIFE, Parameter.RRF_K)
TRIED = 9
WORDS = ("router", "vlan", "gateway", "lamp", "hinge", "invoice", "tax", "kyoto")


class Case:
    """Two values of one parameter, and what can be proven between them."""

    def __init__(
        self, pool: CandidatePool, base: Ranking, parameter: Parameter, start: float, width: float
    ) -> None:
        self.pool, self.base, self.parameter = pool, base, parameter
        columns = columns_of(pool, base, NOW)
        self.ids = [row.chunk.id for row in columns.rows]
        self.axis = Axis(columns, base, parameter)
        low, high = self.axis.bounds
        self.here = low + start * (high - low)
        self.width = max(width * (high - self.here), 1e-9 * (high - low))
        state = self.axis.state(self.here, self.here)
        self.width = min(self.width, reach(state.margins, 1) * 0.999)
        self.rows = listing(state, certified=False).rows
        shown = shown_scores(state)
        place = Place(state, shown.strict | shown.filling, base.k)
        second = self.axis.state(self.here + self.width, self.here)
        self.between = Between(place, second, self.width)

    def lists(self) -> list[list[str]]:
        """The lists of the ranking itself at values from end to end."""
        found = []
        for number in range(TRIED):
            value = self.axis.value(self.here + self.width * number / (TRIED - 1))
            changed = apply(self.base, self.parameter, value)
            found.append([hit.chunk.id for hit in rank(self.pool, changed, now=NOW).hits])
        return found

    def check(self) -> None:
        """Hold the proof against the lists."""
        lists = self.lists()
        if self.between.is_steady(self.rows):
            assert all(found == lists[0] for found in lists)


def runs(ranking: Ranking, parameter: Parameter) -> bool:
    return Stage.MMR in ranking.stages and ranking.mmr.enabled and is_used(ranking, parameter)


STARTS = st.floats(0, 0.999)
WIDTHS = st.sampled_from([1.0, 0.3, 0.05, 1e-2, 1e-3, 1e-5])


def crowd(seed: int) -> tuple[CandidatePool, Ranking]:
    """Many candidates of nearly the same score and text, with a minimum among them."""
    numbers = random.Random(seed)
    chunks = [
        chunk(
            f"c{n}",
            " ".join(numbers.sample(WORDS, numbers.randint(2, 6))),
            path=f"memory/{NOW.date() - timedelta(days=numbers.randint(0, 90))}.md",
            line=n,
        )
        for n in range(40)
    ]
    vector = [(one.id, round(numbers.uniform(0.3, 0.6), 3)) for one in chunks[:32]]
    keyword = [(one.id, -round(numbers.uniform(0.2, 2.0), 3)) for one in chunks[16:]]
    found = pool(
        chunks,
        sorted(vector, key=lambda hit: -hit[1]),
        sorted(keyword, key=lambda hit: hit[1]),
    )
    base = PROFILES[numbers.choice(["memtui", "openclaw-2026.4", "openclaw-2026.9"])]
    weight = numbers.choice([0.3, 0.5, 0.7])
    return found, replace(
        base,
        k=numbers.randint(2, 8),
        vector_weight=weight,
        keyword_weight=round(1 - weight, 3),
        min_score=numbers.choice([None, 0.1, 0.2, 0.3, 0.4]),
        min_score_rule=numbers.choice(list(MinScoreRule)),
        mmr=Mmr(enabled=True, lambda_=numbers.choice([0.3, 0.5, 0.7, 0.9])),
        decay=replace(base.decay, enabled=numbers.random() < 0.7),
        rerank=Rerank(enabled=numbers.random() < 0.2),
    )


@given(st.integers(0, 10**9), st.sampled_from(PARAMETERS), STARTS, WIDTHS)
@settings(max_examples=examples(100))
def test_proofs_hold_in_a_crowd(
    seed: int, parameter: Parameter, start: float, width: float
) -> None:
    found, ranking = crowd(seed)
    if runs(ranking, parameter):
        Case(found, ranking, parameter, start, width).check()


@given(pools(), rankings(), st.sampled_from(PARAMETERS), STARTS, WIDTHS)
@settings(max_examples=examples(30))
def test_proofs_hold(
    found: CandidatePool, ranking: Ranking, parameter: Parameter, start: float, width: float
) -> None:
    ranking = replace(ranking, mmr=replace(ranking.mmr, enabled=True))
    if found.chunks and runs(ranking, parameter):
        Case(found, ranking, parameter, start, width).check()


@given(st.data(), st.sampled_from(PARAMETERS), STARTS, WIDTHS)
@settings(max_examples=examples(30))
def test_proofs_hold_under_every_release(
    data: st.DataObject, parameter: Parameter, start: float, width: float
) -> None:
    release = data.draw(st.sampled_from([Release.B, Release.D, Release.D]))
    found = openclaw_pools.pool_of(data.draw(openclaw_pools.legs(release)), release)
    searched = data.draw(openclaw_pools.searches(release, SearchMode.HYBRID))
    ranking = openclaw_pools.ranking_of(replace(searched, mmr_enabled=True), SearchMode.HYBRID)
    ranking = replace(for_mode(ranking, SearchMode.HYBRID), k=min(6, ranking.k))
    if found.chunks and runs(ranking, parameter):
        Case(found, ranking, parameter, start, width).check()


def test_proofs_are_found() -> None:
    chunks = [
        chunk(f"c{n}", f"{WORDS[n % 8]} {WORDS[n * 3 % 8]} note {n}", line=n) for n in range(40)
    ]
    found = pool(chunks, [(f"c{n}", 0.9 - n / 50) for n in range(40)])
    base = replace(PROFILES["memtui"], vector_weight=0.5, keyword_weight=0.5)
    base = replace(base, mmr=Mmr(enabled=True, lambda_=0.8))
    steady = Case(found, base, Parameter.LAMBDA, 0.75, 1e-4)
    assert steady.between.is_steady(steady.rows)
    assert not Case(found, base, Parameter.LAMBDA, 0.1, 1.0).between.is_steady(steady.rows)
