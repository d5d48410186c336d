"""The sweep: exact flips, the steps of its cursor, the chart, and the screen that draws them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from memtui.model import (
    FEATURES,
    CandidatePool,
    Context,
    Decay,
    Evidence,
    Mmr,
    PassageFeatures,
    Ranked,
    Ranking,
    Stage,
)
from memtui.ranking.context import context_weights
from memtui.ranking.counterfactual.change import Parameter, apply
from memtui.ranking.counterfactual.solve import Segment, Sweep, sweep
from memtui.ranking.pipeline import rank
from memtui.report.words import PARAMETER_WORDS
from memtui.tui.glyphs import ASCII_ONLY
from memtui.tui.screens import sweep as screen
from memtui.tui.screens.sweep import SweepScreen, flips_of, value_text
from memtui.tui.widgets.chart import FOOT, LABEL, Axis, Canvas, Chart, Line, Mark, RankChart
from tests.support import small_memory
from tests.support.known import load
from tests.support.small_memory import SmallMemory
from tests.tui.harness import Running, dark, running, settle
from tests.tui.samples import CHUNKS, NOW, make_pool

UNIT = Axis(0.0, 1.0, ticks=((0.0, "0"), (1.0, "1"), (0.5, "0.5")))


def crossing(letter: str, first: int | None, second: int | None) -> Line:
    return Line(letter, "red", (Segment(0.0, 0.5, first), Segment(0.5, 1.0, second)))


def test_ascii_strokes_go_the_way_of_the_line() -> None:
    canvas = Canvas(5, 5, braille=False)
    canvas.path([(0, 0), (4, 4)], "")
    canvas.path([(4, 0), (0, 4)], "")
    canvas.path([(0, 2), (1, 2)], "")
    canvas.path([(4, 2), (4, 3)], "")
    assert [canvas.row(row).plain for row in range(5)] == [
        "\\   /",
        " \\ / ",
        "--/ |",
        " / \\|",
        "/   \\",
    ]


@pytest.mark.parametrize("braille", [True, False])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 2), (40, 14), (90, 31)])
def test_a_chart_fills_exactly_its_cells(width: int, height: int, braille: bool) -> None:
    lines = [crossing(letter, rank, None) for rank, letter in enumerate("ABCDEF", start=1)]
    marks = [Mark(0.3, "|", "^", "0.30", ""), Mark(0.31, ":", "n", "now 0.31", "")]
    before = ASCII_ONLY.set(not braille)
    drawn = Chart(UNIT, 6, lines, marks).draw(width, height)
    ASCII_ONLY.reset(before)
    assert len(drawn) == height + FOOT
    assert all(line.cell_length <= LABEL + width for line in drawn)
    assert all(line.cell_length == LABEL + width for line in drawn[:height])


def test_ranks_share_a_row_but_none_that_of_what_is_out() -> None:
    drawn = Chart(UNIT, 6, [crossing("A", 6, 6)]).draw(20, 4)
    assert [line.plain[:LABEL].strip() for line in drawn[:4]] == ["1-2", "3", "4-6", "out"]


# Of two that would overlap, the first one keeps its word.
@pytest.mark.parametrize(("values", "foot"), load("explain")["marks of charts"])
def test_marks_stand_in_their_columns_with_their_words(values: list[float], foot: str) -> None:
    words = (("│", "▲", "0.50"), ("┆", "△", "now 0.52"), ("┊", "◇", "config 1"))
    marks = [Mark(value, *one, "") for value, one in zip(values, words, strict=True)]
    drawn = [line.plain[LABEL:] for line in Chart(UNIT, 2, marks=marks).draw(41, 5)]
    assert drawn[-1].rstrip() == foot
    assert [line[20] for line in drawn[:6]] == [*"│││││", "┴"]
    assert drawn[-2].split() == ["0", "0.5", "1"]


@pytest.mark.parametrize(("low", "high", "near_low", "near_high"), load("explain")["tidy numbers"])
def test_a_tidy_number_lies_between_and_near(
    low: float, high: float, near_low: float, near_high: float
) -> None:
    assert screen.tidy(low, high, first=True) == near_low
    assert screen.tidy(low, high, first=False) == near_high
    assert low <= screen.tidy(low, low + 1e-14, first=True) <= low + 1e-14


UNIT_SUBJECT = screen.Subject(Parameter.LAMBDA, Ranking(), 0.0, 1.0)
KNOWN = Sweep(
    Parameter.LAMBDA,
    0.0,
    1.0,
    {
        "a": (Segment(0.0, 0.25, 1), Segment(0.25, 1.0, 2)),
        "b": (Segment(0.0, 0.25, 2), Segment(0.25, 0.6, 1), Segment(0.6, 1.0, None)),
    },
)


@pytest.mark.parametrize(
    ("direction", "values", "flips"),
    [(1, [0.1, 0.26, 0.61], [0.25, 0.6]), (-1, [0.9, 0.59, 0.24], [0.6, 0.25])],
)
def test_the_cursor_goes_beyond_each_flip_and_back(
    direction: int, values: list[float], flips: list[float]
) -> None:
    seen, crossed = values[:1], []
    while (flip := screen.next_flip(KNOWN, seen[-1], direction)) is not None:
        crossed.append(flip[0])
        seen.append(flip[1])
    assert (seen, crossed) == (values, flips)


def test_whole_numbers_are_stepped_whole() -> None:
    subject = screen.Subject(Parameter.K, Ranking(), 1, 12)
    known = Sweep(Parameter.K, 1, 12, {"a": (Segment(1, 3, None), Segment(4, 12, 4))})
    assert screen.next_flip(known, 2, 1) == (4, 4)
    assert screen.next_flip(known, 4, -1) == (4, 3)
    assert screen.next_flip(known, 4, 1) is screen.next_flip(known, 3, -1) is None
    assert [UNIT_SUBJECT.beside(value, -1) for value in (0.3, 0.0)] == [0.29, 0.0]
    half_life = screen.Subject(Parameter.HALF_LIFE, Ranking(), 1.0, 36_500.0)
    assert [half_life.beside(value, 1) for value in (1.0, 30.0, 36_500.0)] == [1.1, 34.0, 36_500.0]
    assert [subject.beside(value, 1) for value in (1, 12)] == [2, 12]
    assert subject.at(5.0).k == 5


def test_only_what_the_pool_holds_is_swept_of_k() -> None:
    ranking = Ranking(k=3, min_candidates=1, candidate_multiplier=2)

    def ends(found: CandidatePool) -> tuple[float, float]:
        subject = screen.subject_of(ranking, Parameter.K, found)
        assert subject is not None
        return subject.low, subject.high

    assert ends(make_pool(limit=50)) == (1, len(CHUNKS))
    few = make_pool(limit=8)
    assert ends(few) == (1, 4)
    sized = replace(few, sized=True, limit=6)
    assert ends(sized) == (3, 3)
    exact = sweep(sized, ranking, Parameter.K, [CHUNKS[0].id], now=NOW)
    assert (exact.low, exact.high) == (3, 3)


def test_what_a_ranking_uses_or_could_is_swept() -> None:
    off = Context(enabled=False)
    ranking = Ranking(context=off, mmr=Mmr(False, 0.6), decay=Decay(enabled=True))
    swept = screen.subject_of(ranking, Parameter.LAMBDA, make_pool())
    assert swept is not None
    assert (swept.note, swept.ranking.mmr.enabled, swept.now) == ("with MMR on", True, 0.6)
    assert swept.at(0.4).mmr == Mmr(enabled=True, lambda_=0.4)
    here = screen.subject_of(ranking, Parameter.HALF_LIFE, make_pool())
    assert here is not None
    assert here.note == ""
    assert here.axis.logarithmic
    assert here.axis.ticks[:2] == [(1, "1d"), (7, "7d")]
    lines = {CHUNKS[0].id: (PassageFeatures(0, 9, (0.5,) * len(FEATURES[1:])),)}
    passages = replace(make_pool(), passages=lines, evidence=Evidence.VECTORS)
    weight = screen.subject_of(ranking, Parameter.COVER, passages)
    assert weight is not None
    constant = context_weights(ranking, Evidence.VECTORS)[FEATURES.index("cover")]
    assert (weight.note, weight.now, weight.high) == ("with context on", constant, 20)
    assert weight.at(6.5).context == Context(enabled=True, cover=6.5)
    assert screen.subject_of(ranking, Parameter.COVER, make_pool()) is None
    without = replace(ranking, stages=(Stage.FUSION, Stage.CUT))
    assert screen.subject_of(without, Parameter.LAMBDA, make_pool()) is None
    assert screen.subject_of(ranking, Parameter.RRF_K, make_pool()) is None


@pytest.mark.parametrize(("parameter", "value", "text"), load("explain")["values as text"])
def test_values_are_written_with_every_digit_and_no_noise(
    parameter: str, value: float, text: str
) -> None:
    assert screen.value_text(Parameter(parameter), value) == text


BASE = Ranking(mmr=Mmr(enabled=True, lambda_=0.7), k=6)
OPTIONS = dark(ranking=BASE)


async def opened(run: Running) -> SweepScreen:
    """Open the sweep on a search and wait until it is exact."""
    await run.search()
    await run.press("escape", "S")
    shown = run.screen(SweepScreen)
    await run.until(lambda: shown.swept is not None)
    await settle(run.app, run.pilot)
    return shown


def ids(ranked: Ranked) -> list[str]:
    return [hit.chunk.id for hit in ranked.hits]


def ranked_at(shown: SweepScreen, parameter: Parameter, value: float) -> list[str]:
    pool = shown.ranked.pool
    return ids(rank(pool, apply(BASE, parameter, value), now=small_memory.NOW))


async def test_the_cursor_goes_from_flip_to_flip_and_shows_the_list_there(
    memory: SmallMemory,
) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        await run.press("escape", "S")
        assert "Nothing to sweep: search for something first." in run.toasts
        shown = await opened(run)
        assert (shown.parameter, shown.cursor) == (Parameter.VECTOR_WEIGHT, 0.3)
        assert shown.swept is not None
        flips = flips_of(shown.swept)
        before, seen = ids(shown.list_at_cursor()), 0
        while True:
            at = shown.cursor
            await run.pilot.press("right")
            if shown.cursor == at:
                break
            crossed = [flip for flip in flips if at < flip < shown.cursor]
            assert len(crossed) == 1
            there = ids(shown.list_at_cursor())
            assert there == ranked_at(shown, Parameter.VECTOR_WEIGHT, shown.cursor)
            assert there != before
            assert ranked_at(shown, Parameter.VECTOR_WEIGHT, crossed[0] - 1e-7) == before
            before, seen = there, seen + 1
        assert seen == sum(flip > 0.3 for flip in flips) > 1
        await run.press("left")
        assert shown.cursor < flips[-1]
        assert f"List at {value_text(shown.parameter, shown.cursor)}" in run.text
        await run.until(lambda: f"{len(flips)} order changes" in run.text)
        names = [PARAMETER_WORDS[one].removeprefix("weight: ") for one in shown.subjects]
        assert names[:3] == ["meaning weight", "MMR variety (λ)", "half-life"]
        assert names[6:8] == ["fused score of the chunk", "keyword match of the line"]
        for name in (*names[1:], names[0]):
            await run.press("tab")
            assert f"Rank against {name} " in run.text
        await run.press("tab", "tab", *["l"] * 40)
        assert "off 30 d" in run.text
        await run.press("escape")
        assert run.app.search_screen.state.ranking == BASE


async def test_the_sweep_follows_an_index_that_changes(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS, query="router config") as run:
        await run.press("escape", "greater_than_sign")
        shown = await opened(run)
        await run.press("0")
        assert (shown.subject.now, shown.cursor) == (0.35, 0.3)
        assert shown.parameter is Parameter.VECTOR_WEIGHT
        await run.press("l")
        cursor, before = shown.cursor, shown.ranked
        path = memory.root / "memory/new.md"
        path.write_text("# Router config\n\nThe router config is new: router config.\n")
        run.engine.index.sync()
        await run.until(lambda: shown.ranked is not before)
        await run.until(lambda: len(shown.ranked.pool.chunks) == 15)
        await run.until(lambda: shown.swept is not None)
        assert shown.cursor == cursor
        assert shown.swept is not None
        exact = ranked_at(shown, shown.parameter, cursor)
        assert len(shown.swept.ranks) == 15
        for chunk_id, segments in shown.swept.ranks.items():
            here = next(one for one in segments if one.start <= cursor <= one.end)
            assert here.rank == (exact.index(chunk_id) + 1 if chunk_id in exact else None)


async def test_a_pinned_chunk_has_a_line_besides_the_results(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS, query="router config") as run:
        search = run.app.search_screen
        pinned = run.ranked.drops[-1].chunk
        search.notes.toggle_pin(pinned)
        shown = await opened(run)
        assert [letter for letter, _ in shown.traced.values()] == list("ABCDEFG")
        assert list(shown.traced)[-1] == pinned.id
        await run.press(*["down"] * 9)
        assert shown.chosen == pinned.id
        shown.action_point(1.0)
        await run.press(*["up"] * 9, "down", "down")
        assert shown.chosen == list(shown.list_at_cursor().ranks)[2] != list(shown.traced)[2]


async def test_a_click_moves_the_cursor(memory: SmallMemory) -> None:
    async with running(memory.open, options=OPTIONS) as run:
        shown = await opened(run)
        width = shown.query_one(RankChart).content_size.width
        await run.pilot.click(RankChart, offset=(LABEL + UNIT.place(0.8, width - LABEL), 3))
        await settle(run.app, run.pilot)
        assert abs(shown.cursor - 0.8) < 0.02
