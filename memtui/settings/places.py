"""Where configuration, state and data belong on this platform."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import platformdirs

from memtui.errors import SettingsError

APPLICATION: Final = "memtui"
CONFIG_VARIABLE: Final = "MEMTUI_CONFIG"
PROJECT_FILE: Final = ".memtui.toml"
PROJECT_TABLE_FILE: Final = "pyproject.toml"


def user_config_file(env: Mapping[str, str]) -> Path:
    """The user's configuration file: `$MEMTUI_CONFIG`, else the platform's place for it."""
    named = env.get(CONFIG_VARIABLE)
    if named:
        return Path(os.path.expanduser(named))
    return _folder(platformdirs.user_config_path) / "config.toml"


def state_dir() -> Path:
    """The folder for history, window choices and trusted files."""
    return _folder(platformdirs.user_state_path)


def data_dir() -> Path:
    """The folder that holds one index folder for each workspace."""
    return _folder(platformdirs.user_data_path)


def demo_data_dir() -> Path:
    """The folder for the index of the demo, apart from those of real memories."""
    return data_dir() / "demo"


def _folder(find: Callable[..., Path]) -> Path:
    """Ask for one of the platform's folders; raises `SettingsError` for who has no home folder.

    A relative place would be below the current folder, which may be the memory.
    """
    try:
        folder = find(APPLICATION, appauthor=False)
    except RuntimeError as error:
        raise _no_home() from error
    if not folder.is_absolute():
        raise _no_home()
    return folder


def _no_home() -> SettingsError:
    return SettingsError(
        "there is no home folder for configuration, state and indexes",
        hint="set HOME, or XDG_CONFIG_HOME, XDG_STATE_HOME and XDG_DATA_HOME, to an absolute path",
    )
