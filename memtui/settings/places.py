"""Where configuration, state and data belong on this platform."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import platformdirs

APPLICATION: Final = "memtui"
CONFIG_VARIABLE: Final = "MEMTUI_CONFIG"
PROJECT_FILE: Final = ".memtui.toml"
PROJECT_TABLE_FILE: Final = "pyproject.toml"


def user_config_file(env: Mapping[str, str]) -> Path:
    """The user's configuration file: `$MEMTUI_CONFIG`, else the platform's place for it."""
    named = env.get(CONFIG_VARIABLE)
    if named:
        return Path(named).expanduser()
    return platformdirs.user_config_path(APPLICATION, appauthor=False) / "config.toml"


def state_dir() -> Path:
    """The folder for history, window choices and trusted files."""
    return platformdirs.user_state_path(APPLICATION, appauthor=False)


def data_dir() -> Path:
    """The folder that holds one index folder for each workspace."""
    return platformdirs.user_data_path(APPLICATION, appauthor=False)


def demo_data_dir() -> Path:
    """The folder for the index of the demo, apart from those of real memories."""
    return data_dir() / "demo"
