"""The package root: public names, loaded when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import memtui


def test_every_public_name_is_there() -> None:
    for name in memtui.__all__:
        assert getattr(memtui, name) is not None
    assert set(memtui.__all__) <= set(dir(memtui))


def test_importing_the_package_loads_nothing() -> None:
    code = (
        "import sys, memtui\n"
        "print(*(name for name in sys.modules if name.startswith('memtui')))\n"
        "memtui.Ranking\n"
        "print('memtui.model' in sys.modules, 'numpy' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.split() == ["memtui", "True", "False"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = memtui.nothing
