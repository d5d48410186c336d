"""What every test run has in common."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.demo import index_of_the_demo
from tests.support.examples import TIMES, examples

# How long an example takes says something about the machine, not about the program.
# The same examples every time, so that a change is judged by itself; with MEMTUI_TEST_EXAMPLES,
# which asks for more of them, others each time.
settings.register_profile(
    "memtui", deadline=None, max_examples=examples(50), derandomize=TIMES not in os.environ
)
settings.load_profile("memtui")


def pytest_xdist_auto_num_workers() -> int:
    """One test process more than there are processors: those of the screen often wait."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def indexed_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder with the index of the demo; to be copied, not to be written to."""
    return index_of_the_demo(tmp_path_factory)
