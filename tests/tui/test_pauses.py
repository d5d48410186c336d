"""The garbage collector is left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from memtui.tui.pauses import (
    FULL_SECONDS,
    LONG_PAUSE_SECONDS,
    MOST_FULL_SECONDS,
    NEW_OBJECTS,
    PAUSE_SECONDS,
    SETTLING_SECONDS,
    QuietCollector,
    short_pauses,
)


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


class Hands:
    """A clock, a collector that goes by it, and which generations it looked at."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looked: list[int] = []
        self.collector = QuietCollector(lambda: self.now)

    def look(self, seconds: float) -> list[int]:
        """Let so much time go by after a key, and look."""
        self.collector.typed()
        self.now += seconds
        self.looked.clear()
        self.collector.look()
        return list(self.looked)


@contextmanager
def hands() -> Iterator[Hands]:
    made = Hands()

    def noted(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            made.looked.append(info["generation"])

    gc.collect()
    gc.disable()
    gc.callbacks.append(noted)
    try:
        yield made
    finally:
        gc.callbacks.remove(noted)
        gc.enable()


def test_nothing_is_looked_at_while_somebody_types() -> None:
    with hands() as typing:
        made = [[number] for number in range(2 * NEW_OBJECTS)]
        assert typing.look(PAUSE_SECONDS / 2) == []
        assert typing.look(PAUSE_SECONDS) == [1]
        assert len(made) == 2 * NEW_OBJECTS


def test_a_pause_without_new_objects_needs_no_look() -> None:
    with hands() as typing:
        assert typing.look(PAUSE_SECONDS) == []
        assert typing.look(LONG_PAUSE_SECONDS + FULL_SECONDS) == []


def test_everything_is_looked_at_in_a_long_pause_and_not_again_at_once() -> None:
    with hands() as typing:
        made = [[number] for number in range(2 * NEW_OBJECTS)]
        assert typing.look(PAUSE_SECONDS) == [1]
        typing.now += FULL_SECONDS
        assert typing.look(PAUSE_SECONDS) == []
        assert typing.look(LONG_PAUSE_SECONDS) == [2]
        made += [[number] for number in range(2 * NEW_OBJECTS)]
        assert typing.look(LONG_PAUSE_SECONDS) == [1]
        assert typing.look(LONG_PAUSE_SECONDS) == []


def test_rubbish_of_typing_is_gone_after_a_pause() -> None:
    with hands() as typing:
        for number in range(NEW_OBJECTS):
            ring: list[object] = [number]
            ring.append(ring)
        before = gc.get_count()[0]
        typing.look(PAUSE_SECONDS)
        assert gc.get_count()[0] < before - NEW_OBJECTS / 2


def test_short_pauses_have_to_do_when_there_is_no_long_one() -> None:
    with hands() as typing:
        looked: set[int] = set()
        kept: list[object] = []
        for _ in range(int(MOST_FULL_SECONDS / PAUSE_SECONDS) + 2):
            # So many that they outlive a look at new objects, and are rubbish afterwards.
            kept = [[kept[:1], number] for number in range(2 * NEW_OBJECTS)]
            looked.update(typing.look(PAUSE_SECONDS))
        assert looked == {1, 2}
