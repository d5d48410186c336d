"""State folders of OpenClaw around the indexes of its releases, for the tests of foreign indexes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.openclaw import RELEASES, SIDECAR, State, make_state


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def state(tmp_path: Path, release: str) -> State:
    return make_state(tmp_path / ".openclaw", release)


@pytest.fixture
def sidecar(tmp_path: Path) -> State:
    return make_state(tmp_path / ".openclaw", SIDECAR)
