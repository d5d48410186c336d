"""The measures of ranking quality by known answers, and a run over a small folder of data."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from tests.bench.__main__ import main
from tests.bench.quality import interval, score
from tests.support.known import cases, load


@pytest.mark.parametrize("case", cases("quality", "scores"))
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
    known = load("quality")
    for name, rows in known["data"].items():
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)
    chosen = {f"--set={place.split()[0]}": None for place in known["answered"]}

    assert main(["--only=quality", f"--data={tmp_path}", *chosen]) == 0

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    # After the count three columns a measure: the figure and both ends of its interval.
    answered = {f"{r[0]} {r[1]}": [r[3], r[10]] for r in rows if r[2:3] == ["default"]}
    assert answered == known["answered"]


def test_without_a_folder_of_data_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only=quality"]) == 0

    assert "quality: not measured: --data names no folder" in capsys.readouterr().out
