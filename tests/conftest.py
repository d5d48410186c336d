"""What every test run has in common."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.demo import index_of_the_demo

# How long an example takes says something about the machine, not about the program.
settings.register_profile("memtui", deadline=None)
settings.load_profile("memtui")


@pytest.fixture(scope="session")
def indexed_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder with the index of the demo; to be copied, not to be written to."""
    return index_of_the_demo(tmp_path_factory)
