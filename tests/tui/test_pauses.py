"""The garbage collector is left as it was found."""

from __future__ import annotations

import gc

from memtui.tui.pauses import SETTLING_SECONDS, short_pauses


def test_what_lives_while_starting_is_taken_out_of_sight_and_given_back() -> None:
    now = 0.0
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    with short_pauses(lambda: now):
        made = [[number] for number in range(1000)]
        gc.collect()
        at_start = gc.get_freeze_count()
        assert at_start > len(made)
        now = SETTLING_SECONDS + 1
        later = [[number] for number in range(1000)]
        gc.collect()
        assert gc.get_freeze_count() < at_start + len(later)
        assert gc.get_threshold()[2] > before[2]
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before
    assert gc.callbacks == callbacks
