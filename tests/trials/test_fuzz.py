"""A small seeded part of the fuzzing, of texts and of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trials.fuzz import tried
from tests.trials.fuzz_inputs import Inputs, Target, kept_inputs, targets

SEED = 7
TEXTS = targets(("fuzz_texts",))


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_promises_hold_for_inputs_that_nobody_wrote(target: Target, tmp_path: Path) -> None:
    found = tried(target, target.share, SEED, tmp_path)
    assert not found.lines, "\n".join(found.lines)
    assert found.tried == target.share + len(kept_inputs(target))


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, again, other = (Inputs(TEXTS[0], seed) for seed in (1, 1, 2))
    made = [first.make() for _ in range(20)]
    assert made == [again.make() for _ in range(20)]
    assert made != [other.make() for _ in range(20)]


def test_an_input_that_breaks_a_promise_is_kept_with_the_command_that_repeats_it(
    tmp_path: Path,
) -> None:
    def check(_given: object) -> None:
        raise ValueError("broken\n[/]")

    target = Target("broken one", check, lambda: [b"seed"])
    found = tried(target, 3, SEED, tmp_path / "failures")
    (file,) = (tmp_path / "failures").iterdir()
    (line,) = found.lines
    assert line.endswith(f"python -m tests.trials.fuzz broken-one {file}")
    assert "ValueError: broken\\n[/]" in line
    assert sum(found.places.values()) == 3
