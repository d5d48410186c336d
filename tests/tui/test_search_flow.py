"""When to ask, and which answer to believe."""

from __future__ import annotations

from memtui.tui.screens.search.search_controller import SearchFlow


def test_a_pause_is_as_long_as_the_last_answer_took() -> None:
    flow = SearchFlow(remote=True)
    assert flow.pause() == 0.4
    flow.latency = 0.7
    assert flow.pause() == 0.7
    flow.latency = 9.0
    assert flow.pause() == 1.2


def test_only_the_newest_answer_is_believed() -> None:
    flow = SearchFlow(wanted="ab")
    flow.ask("a", 1)
    flow.ask("ab", 2)
    assert not flow.accept(1, complete=True, seconds=0.1)
    assert flow.running
    assert flow.accept(2, complete=False, seconds=0.1)
    assert flow.running
    assert flow.accept(2, complete=True, seconds=0.2)
    assert not flow.running
    assert (flow.answered, flow.latency) == ("ab", 0.2)


def test_after_clearing_no_answer_is_believed() -> None:
    flow = SearchFlow(wanted="a")
    flow.ask("a", 1)
    flow.clear()
    assert not flow.accept(1, complete=True, seconds=0.1)
    assert not flow.running


def test_an_old_failure_does_not_end_a_new_search() -> None:
    flow = SearchFlow(wanted="b")
    flow.ask("a", 1)
    flow.ask("b", 2)
    assert not flow.fail(1)
    assert flow.running
    assert flow.fail(2)
    assert not flow.running
