"""The chart of ranks: known pictures of known values; the steps of a sweep's cursor."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from textual.content import Content

from memtui.model import CandidatePool, Decay, Mmr, Ranking, Stage
from memtui.ranking.counterfactual import Parameter, Segment, Sweep, sweep
from memtui.tui.screens import sweep as screen
from memtui.tui.widgets.chart import FOOT, LABEL, Axis, Canvas, Line, Mark, Plot
from tests.tui.samples import CHUNKS, NOW, make_pool

UNIT = Axis(0.0, 1.0, ticks=((0.0, "0"), (1.0, "1"), (0.5, "0.5")))


def plain(lines: list[Content]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


def crossing(letter: str, first: int | None, second: int | None) -> Line:
    return Line(letter, "red", (Segment(0.0, 0.5, first), Segment(0.5, 1.0, second)))


# --- canvas -------------------------------------------------------------------------------------


def test_braille_dots_are_the_bits_of_the_standard() -> None:
    canvas = Canvas(2, 1)
    for y in range(4):
        canvas.dot(0, y, "")
    canvas.dot(3, 3, "")
    assert canvas.row(0).plain == "⡇⢀"


def test_ascii_strokes_go_the_way_of_the_line() -> None:
    canvas = Canvas(5, 5, braille=False)
    canvas.line((0, 0), (4, 4), "")
    canvas.line((4, 0), (0, 4), "")
    canvas.line((0, 2), (1, 2), "")
    canvas.line((4, 2), (4, 3), "")
    assert [canvas.row(row).plain for row in range(5)] == [
        "\\   /",
        " \\ / ",
        "--/ |",
        " / \\|",
        "/   \\",
    ]


# --- chart --------------------------------------------------------------------------------------


SWAP = [crossing("A", 1, 2), crossing("B", 2, 1)]


def test_two_lines_that_swap() -> None:
    plot = Plot(UNIT, ranks=2, width=21, height=5)
    assert plain(plot.draw(SWAP, [])) == [
        "  1 ─A──────⢄  ⢀─B───────",
        "             ⢑⢔⠁",
        "  2 ─B──────⠔⠁ ⠑─A───────",
        "",
        "out",
        "    ┴─────────┴─────────┴",
        "    0        0.5        1",
        "",
    ]


def test_two_lines_that_swap_in_ascii() -> None:
    plot = Plot(UNIT, ranks=2, width=21, height=5, braille=False)
    drawn = plain(plot.draw(SWAP, []))
    assert drawn[0] == "  1 -A-------\\ --B-------"
    assert drawn[2] == "  2 -B-------/ --A-------"
    assert drawn[5] == "    +---------+---------+"
    assert all(line.isascii() for line in drawn)


def test_values_lie_where_the_axis_says() -> None:
    plot = Plot(Axis(1.0, 100.0, logarithmic=True), ranks=3, width=41, height=10)
    assert [plot.column(value) for value in (1, 10, 100, 1000)] == [0, 20, 40, 40]
    for column in range(41):
        assert plot.column(plot.value(column)) == column
    assert [plot.row(rank) for rank in (1, 2, 3, None)] == [0, 3, 6, 9]
    linear = Plot(Axis(0.2, 0.6), ranks=1, width=5, height=2)
    assert [linear.column(value) for value in (0.2, 0.3, 0.4, 0.6)] == [0, 1, 2, 4]


@pytest.mark.parametrize("braille", [True, False])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 2), (40, 14), (90, 31)])
def test_a_chart_fills_exactly_its_cells(width: int, height: int, braille: bool) -> None:
    plot = Plot(UNIT, ranks=6, width=width, height=height, braille=braille)
    lines = [crossing(letter, rank, None) for rank, letter in enumerate("ABCDEF", start=1)]
    marks = [Mark(0.3, "|", "^", "0.30", ""), Mark(0.31, ":", "n", "now 0.31", "")]
    drawn = plot.draw(lines, marks)
    assert len(drawn) == height + FOOT
    assert all(line.cell_length <= LABEL + width for line in drawn)
    assert all(line.cell_length == LABEL + width for line in drawn[:height])


def test_marks_stand_in_their_columns_and_the_first_keeps_its_word() -> None:
    plot = Plot(UNIT, ranks=2, width=41, height=5)
    marks = [
        Mark(0.5, "│", "▲", "0.50", ""),
        Mark(0.52, "┆", "△", "now 0.52", ""),
        Mark(1.0, "┊", "◇", "config 1", ""),
    ]
    drawn = plain(plot.draw([], marks))
    assert all(line[LABEL + 20] == "│" for line in drawn[:5])
    foot = drawn[-1]
    assert foot[: LABEL + 21].endswith(" 0.50 ▲")
    assert "now" not in foot
    assert foot.endswith("config 1 ◇")
    apart = plain(plot.draw([], [marks[0], replace(marks[1], value=0.6)]))[-1]
    assert apart[: LABEL + 21].endswith(" 0.50 ▲")
    assert apart[LABEL + 24 :] == "△ now 0.52"
    assert drawn[-2][LABEL:].split() == ["0", "0.5", "1"]
    assert drawn[-3][LABEL + 20] == "┴"


def test_the_chosen_line_lies_above_the_others() -> None:
    plot = Plot(UNIT, ranks=1, width=30, height=3)
    whole = (Segment(0.0, 1.0, 1),)
    lines = [Line("A", "red", whole), Line("B", "blue", whole, chosen=True)]
    row = plot.draw(lines, [])[0]
    styles = {str(span.style) for span in row.spans}
    assert "blue" in styles
    assert "red" not in styles
    assert "━" in row.plain


# --- the steps of the cursor --------------------------------------------------------------------


def test_a_tidy_number_lies_between_and_near() -> None:
    assert screen.tidy(0.437291, 0.471, first=True) == 0.44
    assert screen.tidy(0.437291, 0.471, first=False) == 0.47
    assert screen.tidy(0.437291, 0.438, first=True) == 0.4373
    assert screen.tidy(30.2, 61.7, first=True) == 31
    assert screen.tidy(30.2, 61.7, first=False) == 61
    assert screen.tidy(434.1, 434.3, first=True) == 434.2
    assert screen.tidy(0.0, 0.3, first=True) == 0.01
    assert screen.tidy(0.2, 0.3, first=True) == 0.21
    narrow = screen.tidy(0.5, 0.5 + 1e-14, first=True)
    assert 0.5 <= narrow <= 0.5 + 1e-14


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


def test_the_cursor_goes_beyond_each_flip_and_back() -> None:
    assert screen.flips_of(KNOWN) == [0.25, 0.6]
    seen = [0.1]
    while (value := screen.beyond_flip(KNOWN, UNIT_SUBJECT, seen[-1], 1)) is not None:
        seen.append(value)
    assert seen == [0.1, 0.26, 0.61]
    back = [0.9]
    while (value := screen.beyond_flip(KNOWN, UNIT_SUBJECT, back[-1], -1)) is not None:
        back.append(value)
    assert back == [0.9, 0.59, 0.24]


def test_whole_numbers_are_stepped_whole() -> None:
    subject = screen.Subject(Parameter.K, Ranking(), 1, 12)
    known = Sweep(Parameter.K, 1, 12, {"a": (Segment(1, 3, None), Segment(4, 12, 4))})
    assert screen.beyond_flip(known, subject, 2, 1) == 4
    assert screen.beyond_flip(known, subject, 4, -1) == 3
    assert screen.beyond_flip(known, subject, 4, 1) is None
    assert screen.beyond_flip(known, subject, 3, -1) is None
    assert [screen.fine_step(subject, value, 1) for value in (1, 12)] == [2, 12]
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


def test_fine_steps_stay_on_the_axis() -> None:
    half_life = screen.Subject(Parameter.HALF_LIFE, Ranking(), 1.0, 36_500.0)
    value, seen = 1.0, [1.0]
    while value < half_life.high:
        value = screen.fine_step(half_life, value, 1)
        seen.append(value)
        assert len(seen) < 200
    assert all(after > before for before, after in pairwise(seen))
    assert screen.fine_step(UNIT_SUBJECT, 0.3, -1) == 0.29
    assert screen.fine_step(UNIT_SUBJECT, 0.0, -1) == 0.0


def test_a_stage_that_is_off_is_swept_as_if_it_were_on() -> None:
    ranking = Ranking(mmr=Mmr(enabled=False, lambda_=0.6), decay=Decay(enabled=True))
    found = screen.subject_of(ranking, Parameter.LAMBDA, make_pool())
    assert found is not None
    assert (found.note, found.ranking.mmr.enabled, found.now) == ("with MMR on", True, 0.6)
    assert found.at(0.4).mmr == Mmr(enabled=True, lambda_=0.4)
    here = screen.subject_of(ranking, Parameter.HALF_LIFE, make_pool())
    assert here is not None
    assert here.note == ""
    assert here.axis.ticks[:2] == ((1.0, "1d"), (7.0, "7d"))
    assert here.axis.logarithmic
    without = replace(ranking, stages=(Stage.FUSION, Stage.CUT))
    assert screen.subject_of(without, Parameter.LAMBDA, make_pool()) is None
    assert screen.subject_of(ranking, Parameter.RRF_K, make_pool()) is None


@pytest.mark.parametrize(
    ("parameter", "value", "text"),
    [
        (Parameter.LAMBDA, 0.7, "0.70"),
        (Parameter.LAMBDA, 0.643162729, "0.643162729"),
        (Parameter.LAMBDA, 1.0, "1.00"),
        (Parameter.HALF_LIFE, 30.0, "30 d"),
        (Parameter.HALF_LIFE, 434.085, "434.085 d"),
        (Parameter.K, 6.0, "6"),
    ],
)
def test_values_are_written_with_every_digit_and_no_noise(
    parameter: Parameter, value: float, text: str
) -> None:
    assert screen.value_text(parameter, value) == text
