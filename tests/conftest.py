"""What every test run has in common."""

from __future__ import annotations

import gc
import os
import signal
import threading
from pathlib import Path

import apsw
import pytest
from hypothesis import settings

from tests.support import thrift
from tests.support.demo import index_of_the_demo
from tests.support.dice import TIMES, examples

thrift.keep_compiled()
thrift.work_in_memory()
thrift.collect_seldom()
thrift.multiply_on_one_core()

# How long an example takes says something about the machine, not about the program.
# The same examples every time, so that a change is judged by itself; with MEMTUI_TEST_EXAMPLES,
# which asks for more of them, others each time.
settings.register_profile(
    "memtui", deadline=None, max_examples=examples(50), derandomize=TIMES not in os.environ
)
settings.load_profile("memtui")


# In any other one things are drawn in other characters.
os.environ["TERM"] = "xterm-256color"
os.environ.pop("LC_ALL", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a script's background: programs that are started here would ignore ctrl+c as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Two test processes for each processor: those of the screen often wait."""
    return 2 * (os.cpu_count() or 1)


def pytest_collection_finish() -> None:
    """What is there once the tests are known is there to stay: no need to look through it again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Wait for models that are still loaded: a process that ends meanwhile is aborted."""
    for thread in threading.enumerate():
        if thread.name == "memtui-model":
            thread.join(20)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The SQL of every connection that is opened from now on, in its order."""
    asked: list[str] = []

    def note(cursor: object, sql: str, bindings: object) -> bool:
        asked.append(sql)
        return True

    def trace(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, trace])
    return asked


@pytest.fixture(scope="session")
def indexed_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder with the index of the demo; to be copied, not to be written to."""
    return index_of_the_demo(tmp_path_factory)
