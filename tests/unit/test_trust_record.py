"""The recorded long trials, and the table of the README that is made from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trust.__main__ import TRIALS, main
from tests.trust.report import (
    PROGRAM,
    RECORDED,
    TITLES,
    Outcome,
    load,
    markdown,
    record,
    table,
    trial_of,
)

README = Path(__file__).parents[2] / "README.md"


def test_a_run_replaces_only_the_results_of_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "recorded.json"
    record([Outcome("kills", 300), Outcome("fuzz", 10, ("broke",))], path)
    record([Outcome("fuzz", 20)], path)

    kept = load(path)

    assert {name: (one["tried"], one["failed"]) for name, one in kept.items()} == {
        "kills": (300, []),
        "fuzz": (20, []),
    }


def test_failures_are_counted_and_the_first_ones_shown() -> None:
    failed = tuple(f"failure {number}" for number in range(12))

    text = table([Outcome("kills", 1300, failed, {"seconds": 12.5})])

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
    for name, entry in load(RECORDED).items():
        assert str(entry["repeat"]).startswith(PROGRAM), name
        assert trial_of(entry) in TRIALS, name
    assert set(TITLES) == set(TRIALS)
