"""Small memories and indexes, homes of conversations, and state folders of OpenClaw's releases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memtui.engine import Engine
from tests.counterfactuals import open_demo
from tests.support.conversations import Homes
from tests.support.indexing import Workspace
from tests.support.openclaw import RELEASES, SIDECAR, State, make_state
from tests.support.rows import IndexFile
from tests.support.small_memory import SmallMemory, make_small_memory


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


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with closing(Workspace(tmp_path / "notes", tmp_path / "index")) as made:
        yield made


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    return Homes(tmp_path / "homes")


@pytest.fixture
def memory(tmp_path: Path) -> SmallMemory:
    return make_small_memory(tmp_path)


@pytest.fixture
def engine(memory: SmallMemory) -> Iterator[Engine]:
    with memory.open() as opened:
        yield opened


@pytest.fixture(scope="module")
def demo(indexed_demo: Path) -> Iterator[Engine]:
    with open_demo(indexed_demo) as opened:
        yield opened
