"""How many examples a property is tried with."""

from __future__ import annotations

import os
from typing import Final

TIMES: Final = "MEMTUI_TEST_EXAMPLES"
"""The environment variable that multiplies the counts: 10 makes a run ten times as thorough."""


def examples(count: int) -> int:
    """So many examples, times what the environment asks for; at least one."""
    return max(1, round(count * float(os.environ.get(TIMES, "1"))))
