"""The guard of the measured ratios: what it compares, and what it lets pass."""

from __future__ import annotations

from pathlib import Path

import pytest

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
