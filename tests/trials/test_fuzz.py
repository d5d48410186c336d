"""A small seeded part of the fuzzing, of texts and of files."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.trials.fuzz import Target, targets, try_target

SEED = 7


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_promises_hold_for_inputs_that_nobody_wrote(target: Target, tmp_path: Path) -> None:
    case = try_target(target, target.share, SEED, tmp_path)
    assert not case.wrong, "\n".join(case.wrong)
    assert case.tried == target.share + len(target.kept())


def test_the_same_seed_makes_the_same_inputs() -> None:
    target = targets()[0]
    made, again, other = ([*islice(target.inputs(seed), 20)] for seed in (1, 1, 2))
    assert made == again != other


def test_an_input_that_breaks_a_promise_is_kept_with_the_command_that_repeats_it(
    tmp_path: Path,
) -> None:
    def check(_given: object) -> None:
        raise ValueError("broken\n[/]")

    target = Target("broken one", check, lambda: [b"seed"])
    case = try_target(target, 3, SEED, tmp_path / "failures")
    (file,) = (tmp_path / "failures").iterdir()
    (line,) = case.wrong
    assert line.endswith(f"python -m tests.trials.fuzz broken-one {file}")
    assert "ValueError: broken\\n[/]" in line
    assert case.facts["failing inputs"] == 3
