"""The version of memtui, and of what it stands on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from memtui import __version__
from memtui.cli.invocation import Invocation

_LIBRARIES = ("apsw", "click", "numpy", "onnxruntime", "sqlite-vec", "textual", "watchdog")


def show_version(invocation: Invocation) -> int:
    """Print the version; as JSON with Python, platform and libraries, without importing them."""
    output = invocation.output()
    if not invocation.json:
        output.line(f"memtui {__version__}")
        return 0
    output.document(
        {
            "version": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "libraries": {name: _installed(name) for name in _LIBRARIES},
        }
    )
    return 0


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
