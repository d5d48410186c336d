"""A small seeded part of the fuzzing of files: settings, JSON, JSON5 and databases of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trust.fuzz import tried
from tests.trust.fuzz_inputs import Target, targets

SEED = 7


@pytest.mark.parametrize("target", targets(("fuzz_files",)), ids=lambda target: target.name)
def test_promises_hold_for_files_that_nobody_wrote(target: Target, tmp_path: Path) -> None:
    found = tried(target, target.share, SEED, tmp_path)
    assert not found.lines, "\n".join(found.lines)
