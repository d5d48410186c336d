"""A small index, and state folders of OpenClaw around the indexes of its releases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.openclaw import RELEASES, SIDECAR, State, make_state
from tests.support.rows import IndexFile


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def state(tmp_path: Path, release: str) -> State:
    return make_state(tmp_path / ".openclaw", release)


@pytest.fixture
def sidecar(tmp_path: Path) -> State:
    return make_state(tmp_path / ".openclaw", SIDECAR)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexFile]:
    made = IndexFile(tmp_path)
    yield made
    made.connection.close()
