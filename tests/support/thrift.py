"""What a test run would pay for again and again, paid for once: no test is another one for it."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 4 * 2**30
"""Bytes that have to be free in memory: a run needs a fraction of it at a time."""
_YOUNG_OBJECTS = 300_000


def keep_compiled() -> None:
    """Write compiled modules, whatever the environment says.

    Otherwise every test process, and every program that a test starts, compiles all of them.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def work_in_memory() -> None:
    """Put temporary files into memory where there is room: a disk is waited for at every commit.

    Not where `TMPDIR` says another place, nor where programs cannot be run from.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    facts = os.statvfs(_MEMORY)
    if facts.f_flag & os.ST_NOEXEC or facts.f_bavail * facts.f_frsize < _ROOM:
        return
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None


def collect_seldom() -> None:
    """Look for garbage after so many new objects; an application alone makes thousands."""
    gc.set_threshold(_YOUNG_OBJECTS, 5, 5)
