"""What every test run has in common."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.demo import index_of_the_demo

# How long an example takes says something about the machine, not about the program.
settings.register_profile("memtui", deadline=None)
settings.load_profile("memtui")


def pytest_xdist_auto_num_workers() -> int:
    """One test process more than there are processors: those of the screen often wait."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def indexed_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder with the index of the demo; to be copied, not to be written to."""
    return index_of_the_demo(tmp_path_factory)
