"""What is shown of a ranking by passages in their context: every share, the line, the bar."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.engine import Engine
from memtui.model import FEATURES, Context, Drop, Hit, PassageFeatures, Ranking, Stage
from memtui.ranking.counterfactual.change import Parameter
from memtui.ranking.counterfactual.solve import least_changes, sweep
from memtui.ranking.pipeline import rank
from memtui.ranking.strength import strength
from memtui.ranking.trace import deciding_step, explain
from memtui.report.arithmetic import NO_PASSAGES, bar_parts, part_cells, score_steps
from memtui.report.explanation import Explained, report_of, verdict_words
from memtui.report.json_text import drop_entry, hit_entry
from memtui.report.layout import text_of
from memtui.report.words import aside_words, score
from memtui.settings.load import SettingsFiles
from memtui.tui.widgets.parameter_panes import stepped
from memtui.tui.widgets.result_rows import RowContext, draw_hit
from tests.support.pools import chunk, pool
from tests.support.small_memory import make_small_agent, words_alone

NOTES = {
    "memory/2026-01-03.md": "Ann: where is the red fox?\nBob: with the lamp, since Monday.\nAnn: a boat!",
    "memory/2026-01-04.md": "Bob: is a fox here, in all of this large and old house?\nAnn: no.\n",
    "memory/boats.md": "# Boats\n\n- a red boat\n- a lamp\n\nThe fox sleeps.\nThe red\nfox runs.\n",
    "memory/lamps.md": "A lamp, and a fox by the boat.\n",
}
ON = Ranking(context=Context(enabled=True))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with words_alone(tmp_path_factory.mktemp("memory"), NOTES) as opened:
        yield opened


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["red fox", "when did Ann see the lamp on 2026-01-03", "boat lamp"]),
    st.tuples(*[st.none() | st.floats(-20, 20)] * len(FEATURES)),
    st.integers(1, 3),
)
def test_every_share_is_shown_and_they_are_the_score_and_the_bar(
    engine: Engine, query: str, weights: tuple[float | None, ...], k: int
) -> None:
    ranked = engine.search.ask(query, ranking=Ranking(k=k, context=Context(True, *weights)))
    everything: list[Hit | Drop] = [*ranked.hits, *ranked.drops]
    for one in everything:
        step = next(step for step in score_steps(ranked, one) if step.kind is Stage.CONTEXT)
        total = 0.0
        for share in step.shares:
            total += share.value or 0.0
        assert total == step.value == one.effective
        report = report_of(Explained(ranked, ranked.ranking, subject=one.chunk.id))
        for share in step.shares:
            row = f" {share.word} +{score(share.value)} +" if share.value else f"0 .*{share.word}"
            assert re.search(row, text_of(report))
        entry = hit_entry(ranked, one) if isinstance(one, Hit) else drop_entry(ranked, one)
        shown, lines = entry["passage"], NOTES[one.chunk.path].splitlines()
        assert [*shown["shares"].values()] == [share.value for share in step.shares]
        assert shown["score"] == total
        first, *_, last = shown["text"].split("\n") * 2
        assert first in lines[shown["start_line"] - 1]
        assert last in lines[shown["end_line"] - 1]
        parts = bar_parts(one)
        kept = parts["vector"] + parts["keyword"] + parts["gain"]
        assert kept == pytest.approx(max(0.0, total), abs=1e-9)
        assert min(parts.values()) >= 0
        assert sum(count for _, count in part_cells(one, 12, max(1.0, sum(parts.values())))) <= 12


def test_the_stage_is_told_where_it_moves_a_chunk_and_where_it_decides(engine: Engine) -> None:
    """The second line is the reply to the question of the first: weighing that alone lifts it."""
    reply = Context(True, *[float(name == "reply") for name in FEATURES])
    ranked = engine.search.ask("red fox", ranking=Ranking(k=1, context=reply))
    best = ranked.hits[0]
    assert hit_entry(ranked, best)["passage"]["text"] == "Bob: with the lamp, since Monday."
    other = next(drop for drop in ranked.drops if drop.stages[0].rank == 1)
    assert verdict_words(ranked, other) == "NOT SHOWN: rank 3 > 1 result: context #1 → #3"
    assert deciding_step(best, other) == (Stage.CONTEXT, "reply", True)
    assert explain(ranked, other.chunk.id).without == {"context": 1}
    assert verdict_words(ranked, ranked.drops[-1]) == "NOT SHOWN: rank 4 > 1 result", (
        "outside anyway"
    )


def test_a_result_that_cites_a_line_again_says_so() -> None:
    above, below = "first\nred fox", "red fox\nlast"
    one, two = chunk("one", above), chunk("two", below, line=2)
    found = pool(
        [one, two, chunk("else", below, path="b.md")],
        [("one", 0.9), ("two", 0.8), ("else", 0.7)],
        [],
    )
    starts = {"one": (above.index("red"), 0.9), "two": (0, 0.1), "else": (0, 0.1)}
    passages = {
        name: (PassageFeatures(at, at + 7, (value,) * (len(FEATURES) - 1)),)
        for name, (at, value) in starts.items()
    }
    ranked = rank(replace(found, passages=passages), ON, now=datetime(2026, 2, 1, tzinfo=UTC))
    told = {hit.chunk.id: aside_words(ranked, hit) for hit in ranked.hits}
    assert told == {"one": "", "two": "same lines as #1", "else": ""}
    assert [strength(ranked, hit) for hit in ranked.hits] == ["strong", "weak", "weak"], (
        "of its own numbers"
    )
    rows = [draw_hit(hit, RowContext(2, 1.0, ranked), 80).plain for hit in ranked.hits]
    assert ["same lines as #1" in row for row in rows] == [False, True, False]
    assert "same lines as #1" in verdict_words(ranked, ranked.hits[1])


def test_a_minimum_goes_as_far_as_scores_do(engine: Engine) -> None:
    ranked = engine.search.ask("red fox", ranking=ON)
    (best, other), now = ranked.hits[:2], ranked.trace.now
    assert best.effective > other.effective > 2
    steps = int(other.effective / 0.25) + 1
    strict = stepped(ON, "minimum", steps)
    given_value = SettingsFiles(env={"MEMTUI_RANKING__MIN_SCORE": str(steps * 0.25)})
    assert strict == given_value.load().settings.configured_ranking()
    barred = engine.search.ask("red fox", ranking=strict)
    assert [hit.chunk.id for hit in barred.hits] == [best.chunk.id]
    found = least_changes(barred.pool, strict, other.chunk.id, now=now)
    (minimum,) = (one.new for one in found.changes if one.parameter is Parameter.MIN_SCORE)
    assert minimum is None or 1 < float(minimum) <= other.effective
    ranks = sweep(ranked.pool, ON, Parameter.MIN_SCORE, [best.chunk.id], now=now).ranks
    *_, last = ranks[best.chunk.id]
    assert last.rank is None
    assert last.start == best.effective


def test_without_passages_or_context_everything_is_as_it_was(
    engine: Engine, tmp_path: Path
) -> None:
    off = Ranking(context=Context(enabled=False))
    ranked = engine.search.ask("red fox", ranking=off)
    assert "passage" not in hit_entry(ranked, ranked.hits[0])
    told = text_of(report_of(Explained(ranked, off, subject=ranked.hits[0].chunk.id)))
    assert "context" not in told
    with make_small_agent(tmp_path).open() as agent:
        ranked = agent.search.ask("router", ranking=ON)
        assert "passage" not in hit_entry(ranked, ranked.hits[0])
        told = text_of(report_of(Explained(ranked, ON, subject=ranked.hits[0].chunk.id)))
        assert NO_PASSAGES in told
        assert agent.explain.word_matches(ranked, ranked.hits[0].chunk.id) is None
