"""The measurements: what the guard compares and lets pass, how rankings are judged, what is fitted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from memtui.model import FEATURES
from tests.bench.__main__ import main
from tests.bench.fit import Sample, fit_logistic, fit_weights, thresholds
from tests.bench.frame import (
    RECORDED,
    Judged,
    Limit,
    Measurement,
    Series,
    load,
    record,
    regressions,
)
from tests.bench.quality import interval, score
from tests.support import known


def _measured(
    name: str,
    ours: list[float],
    theirs: list[float],
    cpu: tuple[list[float], list[float]] = ([], []),
) -> Measurement:
    return Measurement(name, Series(ours, cpu[0]), theirs=Series(theirs, cpu[1]), peer="peer")


@pytest.mark.parametrize(
    ("now", "worse"),
    [(1.0, False), (1.49, False), (1.51, True), (0.2, False)],
    ids=["as recorded", "inside the margin", "beyond it", "better"],
)
def test_a_ratio_beyond_the_margin_is_a_regression(tmp_path: Path, now: float, worse: bool) -> None:
    path = tmp_path / "recorded.json"
    record(path, [_measured("query", [10.0], [10.0]).as_json()])

    found = regressions([_measured("query", [now * 700], [700.0])], load(path))

    assert [one.partition(":")[0] for one in found] == (["query"] if worse else [])


def test_the_ratio_of_processor_time_is_taken_where_it_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    record(path, [_measured("query", [10.0], [10.0], ([2.0], [2.0])).as_json()])

    waited = _measured("query", [90.0], [10.0], ([2.0], [2.0]))
    worked = _measured("query", [10.0], [10.0], ([9.0], [2.0]))

    assert regressions([waited], load(path)) == []
    assert regressions([worked], load(path)) == ["query: 4.5, recorded 1"]


@pytest.mark.parametrize(
    ("judged", "number"),
    [(Judged.RATIO, 2.0), (Judged.P50, 20.0), (Judged.P95, 29.0), (Judged.OVER, 10.0)],
)
def test_an_aim_speaks_of_one_number(judged: Judged, number: float) -> None:
    ours, theirs = Series([10.0, 20.0, 30.0]), Series([5.0, 10.0, 15.0])
    made = Measurement("x", ours, theirs=theirs, limit=Limit(number, judged))

    assert made.judged(judged) == pytest.approx(number)
    assert made.met is True
    assert Measurement("x", ours, theirs=theirs, limit=Limit(number - 0.1, judged)).met is False


def test_the_committed_record_says_what_was_measured_and_where() -> None:
    for name, entry in load(RECORDED).items():
        assert entry["name"] == name
        assert entry["ours"]["count"] > 0, name
        assert {"on", "processor", "python", "sqlite", "numpy"} <= set(entry["run"]), name


@pytest.mark.parametrize("case", known.cases("quality", "scores"))
def test_a_list_is_scored_by_its_first_ten(case: dict[str, list[float]]) -> None:
    assert score(case["results"], frozenset(case["relevant"])) == pytest.approx(case["figures"])


def test_questions_are_resampled_by_group() -> None:
    scores = np.array([[0.0, 1.0]] * 50 + [[1.0, 1.0]] * 50)

    mean, low, high = interval(scores, [str(number) for number in range(100)])
    _, low_by_half, high_by_half = interval(scores, ["first"] * 50 + ["second"] * 50)

    assert [*mean] == [0.5, 1.0]
    # A share of one half of 100 has a standard error of 0.05.
    assert [low[0], high[0]] == pytest.approx([0.4, 0.6], abs=0.02)
    assert (low_by_half[0], high_by_half[0]) == (0.0, 1.0)
    assert (low[1], high[1]) == (1.0, 1.0)


def test_sets_of_a_folder_are_indexed_searched_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = known.load("quality")
    for name, rows in folder["data"].items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
    chosen = {f"--set={place.split()[0]}": None for place in folder["answered"]}

    assert main(["--only=quality", f"--data={tmp_path}", *chosen]) == 0

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    # After the count three columns a measure: the figure and both ends of its interval.
    answered = {f"{r[0]} {r[1]}": [r[3], r[10]] for r in rows if r[2:3] == ["default"]}
    assert answered == folder["answered"]


def test_without_a_folder_of_data_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only=quality"]) == 0

    assert "quality: not measured: --data names no folder" in capsys.readouterr().out


def test_weights_that_made_the_answers_are_found_and_others_stay() -> None:
    drawn = np.random.default_rng(0)
    made_by = {"chunk": 3.0, "cover": 4.5, "question": -2.0}
    weights = np.array([made_by.get(name, 0.0) for name in FEATURES])
    fixed = np.where(np.array(FEATURES) == "question", weights, 0.0)
    samples = []
    for _ in range(2000):
        values = drawn.random((30, len(FEATURES)))
        shares = np.exp(values @ weights)
        is_answer = np.arange(30) == drawn.choice(30, p=shares / shares.sum())
        samples.append(Sample(0, values, [], is_answer, {}))

    fitted = fit_weights(samples, ["chunk", "cover"], fixed, weights)

    assert fitted == pytest.approx(weights, abs=0.25)
    assert fitted[FEATURES.index("question")] == -2.0


def test_rows_are_told_apart_by_the_weights_that_made_them() -> None:
    drawn = np.random.default_rng(0)
    rows = drawn.random((20_000, 2))
    is_positive = drawn.random(len(rows)) < 1 / (1 + np.exp(-(rows @ [4.0, -2.0] - 1)))

    assert fit_logistic(rows[is_positive], rows[~is_positive]) == pytest.approx([4, -2], abs=0.25)


@pytest.mark.parametrize(
    ("answered", "unanswered", "cuts"),
    [
        (range(100), range(100), (2.0, 89.05)),
        # A hundredth may not be cut off, and ties are not parted.
        ([1.0, *[3.0] * 9], [0.52] * 10, (1.0, 0.55)),
    ],
)
def test_thresholds_keep_to_their_shares(
    answered: Sequence[float], unanswered: Sequence[float], cuts: tuple[float, float]
) -> None:
    assert thresholds(np.array(answered), np.array(unanswered)) == pytest.approx(cuts)
