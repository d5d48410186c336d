"""Keeps numpy's matrix products on one thread.

A product of a matrix and one vector is bound by memory: more threads read no faster, burn CPU
time and take the core that draws the screen.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_VARIABLE = "OPENBLAS_NUM_THREADS"
_LIBRARY_FOLDERS = ("../numpy.libs", ".dylibs", ".libs")
_PREFIXES = ("scipy_openblas", "openblas")
_SUFFIXES = ("64_", "")


def import_numpy() -> None:
    """Import numpy without the threads that it would make and `use_one_thread` would stop.

    The variable that says so is there for the import alone.
    """
    if "numpy" in sys.modules or _VARIABLE in os.environ:
        return
    os.environ[_VARIABLE] = "1"
    try:
        import numpy as np
    finally:
        os.environ.pop(_VARIABLE, None)
    assert np


@functools.cache
def use_one_thread() -> bool:
    """Limit OpenBLAS to one thread in this process, unless `OPENBLAS_NUM_THREADS` is set.

    Works after numpy is imported, so nothing depends on the order of imports and no setting leaks
    into programs that memtui starts. Returns whether a library was found that could be told; the
    matrix libraries of macOS and Intel decide for themselves.
    """
    if _VARIABLE in os.environ:
        return False
    told = False
    for library in _libraries():
        told = _call(library, "set_num_threads", 1) is not None or told
    return told


def threads() -> int | None:
    """Tell how many threads OpenBLAS uses; `None` when numpy runs on another library."""
    counts = [_call(library, "get_num_threads") for library in _libraries()]
    return next((count for count in counts if count is not None), None)


def _libraries() -> Iterator[ctypes.CDLL]:
    import ctypes

    import numpy as np

    package = Path(np.__file__).parent
    for folder in _LIBRARY_FOLDERS:
        for path in sorted((package / folder).glob("*openblas*")):
            # numpy has loaded this file already: opening it again gives the same library.
            yield ctypes.CDLL(str(path.resolve()))


def _call(library: ctypes.CDLL, name: str, *arguments: int) -> int | None:
    from ctypes import c_int

    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            function = getattr(library, f"{prefix}_{name}{suffix}", None)
            if function is not None:
                function.restype = None if arguments else c_int
                result = function(*arguments)
                return 0 if arguments else int(result)
    return None
