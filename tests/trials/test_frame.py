"""The frame of the long trials: what is recorded, what is shown, and what README says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memtui.embedding.http import duration
from memtui.memory.care.masking import is_secret, known_tokens
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
from tests.trials.growth import Pump, expressions, pumps_of
from tests.trials.soak import Samples, least_squares

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


# --- no regular expression takes more than linear time ------------------------------------------


def test_every_call_of_re_is_found_with_its_pattern() -> None:
    found, unknown = expressions()
    assert unknown == []
    assert len(found) > 250
    assert any(one.methods == {"fullmatch"} for one in found)


@pytest.mark.parametrize(
    ("pattern", "hard"),
    [
        (r"(a+)+$", Pump("a", "", "\x01")),
        (r"[a-z]?[a-z]*(?:-[a-z]?[a-z]*)+", Pump("-a", "", "\x01")),
        (r"\s+$", Pump(" ", "", "\x01")),
    ],
)
def test_hard_texts_are_made_of_the_parts_of_a_pattern(pattern: str, hard: Pump) -> None:
    assert hard in pumps_of(re.compile(pattern))


# What follows took minutes, or longer than anybody waits, and ran with no other thread beside it.


def test_words_in_a_row_are_told_from_a_token_at_once() -> None:
    token = "sk-" + "a-" * 2000 + "9x7777"
    assert not is_secret(token)
    assert known_tokens(f"the key is {token}") == []
    assert not is_secret("words-in-a-row-and-Another_one99.x")
    assert is_secret("sk-Qz8vKp3LmWx5TnB2cYd7")
    assert known_tokens("8240917:Qz8vKp3LmWx5TnB2cYd7") == ["8240917:Qz8vKp3LmWx5TnB2cYd7"]


def test_digits_without_an_end_are_no_token_and_no_duration() -> None:
    digits = "0123456789" * 6000
    assert known_tokens(digits) == []
    assert duration(digits + "x") is None
    assert duration("6m0.5s") == 360.5


def test_a_slope_and_its_error_are_those_of_least_squares() -> None:
    assert least_squares([0, 1, 2, 3], [5, 7, 9, 11]) == pytest.approx((2, 0), abs=1e-12)
    # By hand: slope 3/5, residuals 0.1, -0.3, 0.3, -0.1, variance 0.2/2 over 5.
    assert least_squares([0, 1, 2, 3], [0, 0.2, 1.4, 1.6]) == pytest.approx((0.6, 0.02**0.5))
    with pytest.raises(ValueError, match="three points"):
        least_squares([0, 1], [0, 1])


def test_what_grows_by_event_is_named_and_what_is_noise_is_not() -> None:
    samples = Samples(list(range(0, 4000, 100)))
    steady = [20 + (number % 2) for number in range(40)]
    for name in ("resident bytes", "threads", "connections", "objects", "widgets"):
        samples.held[name] = list(map(float, steady))
    samples.held["open files"] = [20 + number for number in range(40)]
    assert [failure.split(":")[0] for failure in samples.failures()] == ["open files"]
