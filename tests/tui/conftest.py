"""What the tests of the terminal interface have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from textual._compositor import Compositor

from tests.support.embedding import registered_hashed
from tests.support.small_memory import SmallMemory, make_small_memory
from tests.support.thrift import parse_once

parse_once()
# There is no terminal: a frame is drawn whole after a layout, and where a test looks at it.
Compositor.render_partial_update = lambda self: self._dirty_regions.clear()  # type: ignore[method-assign]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SmallMemory]:
    """A real memory of twelve notes; its `open` is a factory for `running`."""
    with registered_hashed():
        yield make_small_memory(tmp_path)
