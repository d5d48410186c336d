"""The comparison: two rankings side by side, two results step by step."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import combinations
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from memtui.model import Context, Decay, Fusion, Hit, Leg, Mmr, Ranking, SearchMode, Stage
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import (
    cited_lines,
    compare_settings,
    deciding_step,
    find,
    shares_of,
    stage_score,
)
from memtui.report.explanation import differences, value_words
from memtui.report.words import FEATURE_WORDS, PARAMETER_WORDS
from memtui.tui.glyphs import ASCII_ONLY
from memtui.tui.options import UiOptions
from memtui.tui.screens.compare import (
    CONFIGURED,
    CURRENT,
    CompareScreen,
    columns,
    comparison_lines,
    two_results,
)
from memtui.tui.screens.explain import ExplainScreen
from tests.support.small_memory import SmallMemory
from tests.tui.harness import Running, dark, running, settle
from tests.tui.samples import make_ranked

BASE = Ranking(k=5)
OTHER = replace(BASE, decay=Decay(enabled=True), mmr=Mmr(enabled=True, lambda_=0.5))


def options(ranking: Ranking = BASE, **more: object) -> UiOptions:
    return dark(ranking=ranking, **more)  # type: ignore[arg-type]


def test_every_parameter_has_a_name() -> None:
    parts = {f"{name}.": getattr(BASE, name) for name in ("context", "decay", "rerank", "mmr")}
    keys = {name for name in BASE.__struct_fields__ if f"{name}." not in parts}
    for prefix, part in parts.items():
        keys |= {prefix + name.rstrip("_") for name in part.__struct_fields__}
    assert keys <= PARAMETER_WORDS.keys()
    assert value_words("leg_order") == "order of the matches"
    assert value_words("clamp") == "as found or not"


def test_only_settings_that_differ_are_named_by_their_keys() -> None:
    assert compare_settings(BASE, BASE) == {}
    assert compare_settings(BASE, replace(OTHER, fusion=Fusion.RRF, min_score=0.2)) == {
        "fusion": ("relative_score", "rrf"),
        "decay.enabled": (False, True),
        "min_score": (None, 0.2),
        "mmr.enabled": (False, True),
        "mmr.lambda": (0.7, 0.5),
    }
    idle = replace(BASE, stages=(Stage.FUSION, Stage.CUT), decay=Decay(half_life_days=7), rrf_k=9)
    assert differences(BASE, idle) == [
        ("steps", "fused, context, list", "fused, list"),
        ("half-life", "30", "7, no effect: ranks without decay"),
        ("RRF constant", "5", "9, no effect: ranks without reciprocal rank"),
    ]


def leads(better: Hit, worse: Hit) -> dict[Leg | Stage, float]:
    """Return what each leg and later stage gave one beyond what it gave the other."""
    given: dict[Leg | Stage, float] = defaultdict(float)
    for sign, hit in ((1, better), (-1, worse)):
        for leg, part in hit.legs.items():
            given[leg] += sign * part.contribution
        for stage in hit.stages[1:]:
            given[stage.stage] += sign * (stage.after - stage.before)
    return given


def test_the_step_that_decides() -> None:
    ranked = make_ranked(replace(BASE, k=10))
    top, last = ranked.hits[0], ranked.hits[-1]
    given = leads(top, last)
    leg = max(given, key=given.__getitem__)
    assert deciding_step(top, last) == deciding_step(last, top) == (leg, "", False)
    assert deciding_step(top, top) == (None, "", False)
    # What loses a result decides, but not that there was no room for it.
    ranked = make_ranked(replace(BASE, min_score=0.5))
    lost = next(drop for drop in ranked.drops if drop.stage is Stage.MIN_SCORE)
    assert deciding_step(ranked.hits[0], lost) == (Stage.MIN_SCORE, "", True)
    cut = make_ranked(replace(BASE, k=2))
    assert cut.drops[0].stage is Stage.CUT
    assert isinstance(deciding_step(cut.hits[0], cut.drops[0])[0], Leg)


def test_of_context_the_share_decides_that_differs_most(memory: SmallMemory) -> None:
    with memory.open() as engine:
        ranked = engine.search.ask("router config", ranking=BASE)
    for better, worse in combinations(ranked.hits, 2):
        (mine, others) = (
            shares_of(stage)
            for one in (better, worse)
            if (stage := stage_score(one, Stage.CONTEXT)) is not None
        )
        share = max(mine, key=lambda name: mine[name] - others[name])
        assert deciding_step(worse, better)[:2] == (Stage.CONTEXT, share)
        for width in range(76, 170):
            drawn = two_results(ranked, better, worse, width)
            told = "\n".join(line.plain for line in drawn)
            assert all(part in told for part in ("B gains", "◀")), width
        # Only what would turn the order without its difference decides.
        total, lead = sum(mine.values()) - sum(others.values()), mine[share] - others[share]
        name, decides = FEATURE_WORDS[share], round(lead, 9) >= round(total, 9)
        reason = f": {name} decides." if decides else f". Largest difference: {name}."
        assert f"A is ahead of B{reason}" in told
        for name in mine:
            assert (FEATURE_WORDS[name] in told) == any(one[name] for one in (mine, others))


def test_a_stage_that_turns_the_order_decides_and_may_be_the_largest_difference() -> None:
    before = make_ranked(replace(BASE, k=10))
    after = make_ranked(replace(BASE, k=10, decay=Decay(enabled=True, half_life_days=7)))
    ranks = {hit.chunk.id: hit.rank for hit in before.hits}
    turned = {
        (better.rank, worse.rank): ranks[better.chunk.id] > ranks[worse.chunk.id]
        for better in after.hits
        for worse in after.hits[better.rank :]
    }
    assert any(turned.values())
    told = []
    for (better, worse), is_turned in turned.items():
        pair = after.hits[better - 1], after.hits[worse - 1]
        given = leads(*pair)
        most = Stage.DECAY if is_turned else max(given, key=given.__getitem__)
        assert deciding_step(*pair)[::2] == (most, given[most] >= sum(given.values()))
        told.append("\n".join(line.plain for line in two_results(after, *pair, 160)))
        marked = next(line for line in told[-1].splitlines() if "◀" in line)
        gain = float(marked.split()[-2].replace("−", "-"))
        assert most is not Stage.DECAY or gain == pytest.approx(-given[most], abs=0.00051)
    assert any("Largest difference: decay. A: × " in one for one in told)


@pytest.mark.parametrize("width", [40, 76, 116, 190])
@pytest.mark.parametrize("braille", [True, False])
def test_both_lists_and_both_results_fill_the_width(width: int, braille: bool) -> None:
    first, second = make_ranked(BASE), make_ranked(replace(OTHER, k=8))
    column, gutter = columns(width)
    for lines in (1, 2, 3):
        chosen = second.hits[2].chunk.id
        before = ASCII_ONLY.set(not braille)
        drawn = comparison_lines([first, second], width, lines, chosen)
        ASCII_ONLY.reset(before)
        assert len(drawn) == lines * 8
        assert {line.cell_length for line in drawn} == {column * 2 + gutter}
    steps = two_results(second, second.hits[0], second.hits[3], width)
    assert max(line.cell_length for line in steps) <= max(width, 60)
    listed = replace(second, pool=replace(second.pool, search_mode=SearchMode.FILTERS_ONLY))
    pair = second.hits[0], second.hits[1]
    drawn = comparison_lines([listed] * 2, 116, 1) + two_results(listed, *pair, width)
    told = " ".join(" ".join(line.plain for line in drawn).split())
    days = [one.chunk.day or "undated" for one in pair]
    assert f"Filters alone: ordered by date, no scores. A {days[0]}, B {days[1]}" in told
    assert re.findall(r" \d+\.\d{3} ", told) == []


async def opened(run: Running, *keys: str) -> CompareScreen:
    """Search, press keys, open the comparison."""
    await run.search()
    await run.press("escape", *keys, "c")
    screen = run.screen(CompareScreen)
    return screen


def names(screen: CompareScreen) -> list[str]:
    return [side.name for side in screen.sides]


async def test_equal_rankings_are_said_and_another_profile_is_chosen(memory: SmallMemory) -> None:
    profiles = {"memtui": BASE, "mine": replace(BASE, profile="mine", k=3)}
    async with running(memory.open, options=options(profiles=profiles), size=(120, 40)) as run:
        screen = await opened(run)
        assert names(screen) == [CURRENT, "mine"]
        assert "A as configured, nothing changed   B your own" in run.text
        assert "P another profile for A" in run.text
        await run.press("P")
        assert "as the search screen ranks now" in run.text
        await run.press("G", "enter")
        assert names(screen) == ["mine", "mine"]
        await run.press("right", "P", "g", "enter")
        assert names(screen) == ["mine", CONFIGURED]


async def test_a_row_of_either_list_is_chosen_read_and_explained_by_its_ranking(
    memory: SmallMemory,
) -> None:
    profiles = {name: replace(PROFILES[name], k=4) for name in ("memtui", "openclaw-2026.2")}
    async with running(memory.open, options=options(profiles=profiles), size=(120, 40)) as run:
        screen = await opened(run, "down")
        for side, keys in enumerate((["down"], ["tab"], ["k"])):
            await run.press(*keys)
            ranked = screen.sides[screen.active].ranked
            assert ranked is not None
            assert (screen.active, screen.chosen in ranked.ranks) == (min(side, 1), True)
            marked = [line for line in run.text.splitlines() if "›" in line]
            assert [line.index("›") > 60 for line in marked] == [screen.active == 1]
            hit = find(ranked, screen.chosen or "")
            assert f"{hit.chunk.path}:{cited_lines(hit)[0]}" in marked[0]
            await run.press("x")
            explained = run.screen(ExplainScreen)
            assert (explained.chunk_id, explained.ranked) == (screen.chosen, ranked)
            assert explained.ranking == screen.sides[screen.active].ranking
            told = [one in run.text for one in ("another ranking", "profile openclaw-2026.2: ")]
            assert told == [side > 0] * 2
            await run.press("c")
            assert (run.app.screen, len(run.app.screen_stack)) == (screen, 2)
            await run.press("enter")
            assert f"{hit.chunk.path}" in run.text
            await run.press("escape")
            assert run.app.screen is screen
        assert "B without context: whole chunks, from their first line" in run.text
        await run.pilot.resize_terminal(80, 24)
        await settle(run.app, run.pilot)
        assert "more: press ," in run.text
        await run.press("comma")
        assert "a keyword match counts" in run.text
        # What both lack is no difference.
        await run.press("escape", "left", "P", "G", "enter")
        assert names(screen) == ["openclaw-2026.2"] * 2
        assert "without context" not in run.text


async def test_a_filter_that_leaves_a_pinned_chunk_out_is_named(memory: SmallMemory) -> None:
    async with running(memory.open, options=options(), size=(80, 24)) as run:
        await run.search()
        await run.press("escape", "p", "down", "p")
        pinned = [pin.chunk.path for pin in run.app.search_screen.state.pins.values()]
        await run.search(f"router path:{pinned[0]} -nowhere")
        await run.press("c")
        told = " ".join(run.text.replace("│", " ").split())
        assert f"left out by path:{pinned[0]} x says why of B" in told
        for leads_to in ("rankings", "pins", "rankings"):
            assert f"tab {leads_to}" in run.text
            await run.press("tab")


async def test_a_ranking_that_takes_other_candidates_is_searched_for(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = {"memtui": BASE, "deep": replace(BASE, profile="deep", k=60)}
    async with running(memory.open, options=options(profiles=profiles)) as run:
        screen = await opened(run)
        await run.until(lambda: screen.sides[1].ranked is not None)
        there = screen.sides[1].ranked
        assert there is not None
        assert len(there.hits) == 14
        monkeypatch.setattr(run.engine.search, "ask", Mock(side_effect=OSError("disk [/] gone")))
        await run.press("escape", "c", shows="B could not search: disk [/] gone")


async def test_the_comparison_follows_another_answer(memory: SmallMemory) -> None:
    async with running(memory.open, options=options()) as run:
        screen = await opened(run, "d")
        before = screen.sides[1].ranked
        run.app.search_screen.rankings.change(replace(OTHER, k=2, context=Context(near_cover=2.5)))
        await settle(run.app, run.pilot)
        after = screen.sides[1].ranked
        assert after is not before
        assert after is run.app.search_screen.state.ranked
        assert "results 5→2" in run.text
        assert "words covered nearby 3.00→2.50" in run.text


async def test_of_two_results_where_it_scrolls_the_bar_hides_nothing(memory: SmallMemory) -> None:
    async with running(memory.open, options=options(OTHER), size=(80, 14)) as run:
        screen = await opened(run, "p", "down", "p")
        assert screen.query_one("#compare-scroll").show_vertical_scrollbar
        assert "score rank  B gains" in run.text
