"""The frame of the long trials: what is recorded, what is shown, and what README says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trials.__main__ import main
from tests.trials.frame import (
    PROGRAM,
    TRIALS,
    Case,
    Result,
    load,
    markdown,
    record,
    results,
    trial_of,
)

README = Path(__file__).parents[2] / "README.md"


def test_cases_of_one_name_are_one_line_of_the_table() -> None:
    cases = [
        Case("kills", facts={"twice": 1}),
        Case("kills", ["failed"], {"twice": 0, "last": "b"}),
        Case("fuzz", tried=20),
    ]
    kills, fuzz = results(cases, "again")
    assert (kills.tried, kills.failed, kills.facts) == (2, ["failed"], {"twice": 1, "last": "b"})
    assert (fuzz.name, fuzz.tried, fuzz.repeat) == ("fuzz", 20, "again")


def test_a_run_replaces_only_the_results_of_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    record([Result("kills", "", 300), Result("fuzz", "", 10, ["broke"])], path)
    record([Result("fuzz", "", 20)], path)
    assert {name: (one["tried"], one["failed"]) for name, one in load(path).items()} == {
        "kills": (300, []),
        "fuzz": (20, []),
    }


def test_failures_are_counted_and_the_first_ones_shown() -> None:
    failed = [f"failure {number}" for number in range(12)]
    text = str(Result("kills", "", 1300, failed, {"seconds": 12.5}))
    assert text.splitlines()[:2] == ["kills: 1,300 tried, 12 FAILED", "  seconds 12.5"]
    assert "failure 9" in text
    assert "failure 10" not in text


def test_an_unknown_trial_is_named_and_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nothing"])

    assert ended.value.code == 2
    assert "no trial 'nothing'" in capsys.readouterr().err


def test_the_readme_holds_the_table_of_the_recorded_runs() -> None:
    assert markdown(load()) in README.read_text(encoding="utf-8")


def test_every_recorded_run_can_be_repeated_by_one_command() -> None:
    for name, entry in load().items():
        assert str(entry["repeat"]).startswith(PROGRAM), name
        assert trial_of(entry) in TRIALS, name
