"""The bundled demo memory, indexed once for a whole test run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from memtui.engine import Engine
from memtui.memory.workspace import demo_root
from memtui.settings.schema import Settings

_DONE = "complete"


def index_of_the_demo(temporary: pytest.TempPathFactory) -> Path:
    """The data folder with the index of the demo; made once, also for several test processes.

    Nothing may write there: `copy_to` makes a copy that belongs to a test.
    """
    base = temporary.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    folder = shared / "indexed-demo"
    with FileLock(f"{folder}.lock"):
        if not (shared / f"{folder.name}.{_DONE}").exists():
            _index(folder)
            (shared / f"{folder.name}.{_DONE}").touch()
    return folder


def _index(folder: Path) -> None:
    # The vectors are the bundled model's own, recorded: a tenth of the time.
    from tests.support.recorded_model import recorded_model

    with recorded_model(), Engine.open(demo_root(), Settings(), data_dir=folder) as engine:
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert status.vectors == status.chunks > 0, "run `python -m tests.screenshots`"


def copy_to(data_home: Path, indexed: Path) -> None:
    """Put the index where the command line looks for it when `data_home` is $XDG_DATA_HOME."""
    shutil.copytree(indexed, data_home / "memtui" / "demo")
