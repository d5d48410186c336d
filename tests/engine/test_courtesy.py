"""The index waits while somebody types, and goes on when that ends or takes too long."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from memtui.bus import FileIndexed
from memtui.index.job import MOST_SECONDS, PAUSE_SECONDS, TURN_SECONDS, WORTH_A_WAIT, Courtesy
from tests.support.indexing import Workspace

STEP = 0.125
"""A binary fraction: sums of it are exact."""


class Ticking:
    """A clock that goes on by a step whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += STEP
        return self.now


def never() -> bool:
    return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    # Time goes on by itself here: nothing is waited for.
    monkeypatch.setattr("memtui.index.job._LOOK_SECONDS", 0.0001)
    return Ticking()


def test_nobody_is_waited_for_when_nothing_was_typed(clock: Ticking) -> None:
    Courtesy(clock).wait(never)
    assert clock.now == STEP


def test_the_wait_ends_a_pause_after_the_last_key(clock: Ticking) -> None:
    courtesy = Courtesy(clock)
    courtesy.typed()
    typed_at = clock.now
    courtesy.wait(never)
    assert typed_at + PAUSE_SECONDS <= clock.now <= typed_at + PAUSE_SECONDS + STEP


def test_a_key_in_between_prolongs_the_wait(clock: Ticking) -> None:
    courtesy = Courtesy(clock)
    asked: list[float] = []

    def typing() -> bool:
        if len(asked) < 5:
            courtesy.typed()
            asked.append(clock.now)
        return False

    courtesy.typed()
    courtesy.wait(typing)
    assert len(asked) == 5
    assert clock.now >= asked[-1] + PAUSE_SECONDS


def test_who_is_stopped_waits_no_longer(clock: Ticking) -> None:
    courtesy = Courtesy(clock)
    courtesy.typed()
    before = clock.now
    courtesy.wait(lambda: True)
    assert clock.now == before + STEP


def test_typing_without_an_end_leaves_the_index_its_turns(clock: Ticking) -> None:
    courtesy = Courtesy(clock)

    def typing() -> bool:
        courtesy.typed()
        return False

    courtesy.typed()
    for _ in range(2):
        began = clock.now
        courtesy.wait(typing)
        assert MOST_SECONDS <= clock.now - began <= MOST_SECONDS + 3 * STEP
        turn = clock.now
        # Its turn: each look finds it free, until that is over.
        for _ in range(int(TURN_SECONDS / STEP / 2) - 1):
            courtesy.typed()
            courtesy.wait(typing)
        assert clock.now < turn + TURN_SECONDS
        clock.now = turn + TURN_SECONDS
        courtesy.typed()


@dataclass
class Standing:
    """A clock that stands still until it is let go, and tells when the index has waited."""

    waited: threading.Event = field(default_factory=threading.Event)
    goes: threading.Event = field(default_factory=threading.Event)
    _looks: int = 0

    def __call__(self) -> float:
        if threading.current_thread().name == "memtui-index":
            self._looks += 1
            if self._looks == 5:
                self.waited.set()
        return 1000.0 if self.goes.is_set() else 0.0


def test_no_note_is_read_while_keys_come_and_all_are_afterwards(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "notes", tmp_path / "index")
    for index in range(WORTH_A_WAIT):
        workspace.write(f"{index}.md", f"# Note {index}\n\nword{index}\n")
    clock = Standing()
    courtesy = Courtesy(clock)
    courtesy.typed()
    indexer = workspace.indexer(courtesy=courtesy)
    indexer.start()
    try:
        indexer.sync()
        assert clock.waited.wait(20)
        assert not workspace.of_type(FileIndexed)
        assert not indexer.wait_idle(0)
        clock.goes.set()
        assert indexer.wait_idle(20)
        assert len(workspace.of_type(FileIndexed)) == WORTH_A_WAIT
    finally:
        indexer.close()
        workspace.close()


def test_a_wait_does_not_hold_up_the_end(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "notes", tmp_path / "index")
    for index in range(WORTH_A_WAIT):
        workspace.write(f"{index}.md", "# Note\n")
    clock = Standing()
    courtesy = Courtesy(clock)
    courtesy.typed()
    indexer = workspace.indexer(courtesy=courtesy)
    indexer.start()
    indexer.sync()
    assert clock.waited.wait(20)
    indexer.close()
    assert not indexer.is_writer
    workspace.close()


def test_a_saved_note_does_not_wait(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "notes", tmp_path / "index")
    workspace.write("MEMORY.md", "# Note\n")
    courtesy = Courtesy(Standing())
    courtesy.typed()
    indexer = workspace.indexer(courtesy=courtesy)
    indexer.start()
    indexer.sync()
    assert indexer.wait_idle(20)
    assert len(workspace.of_type(FileIndexed)) == 1
    indexer.close()
    workspace.close()
