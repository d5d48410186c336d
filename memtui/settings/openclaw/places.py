"""Where OpenClaw keeps its state and its configuration (`src/config/paths.ts`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STATE_FOLDERS: Final = (".openclaw", ".clawdbot", ".moldbot", ".moltbot")
"""The state folder in the home folder under its name of today and those it had before."""
CONFIG_NAMES: Final = ("openclaw.json", "clawdbot.json", "moldbot.json", "moltbot.json")


def home_of(env: Mapping[str, str], home: Path) -> Path:
    """The home folder that OpenClaw works with: `$OPENCLAW_HOME`, else the user's."""
    named = _variable(env, "OPENCLAW_HOME")
    return expanded(named, home) if named else home


def expanded(path: str, home: Path) -> Path:
    """A path as OpenClaw reads it: absolute, `~` at its start is the home folder."""
    path = path.strip().replace("\0", "")
    if path == "~" or path.startswith(("~/", "~\\")):
        path = str(home) + path[1:]
    return Path(os.path.abspath(path))


def state_dir_of(env: Mapping[str, str], home: Path) -> Path:
    """The state folder: `$OPENCLAW_STATE_DIR`, else the first that is there, newest name first."""
    base = home_of(env, home)
    named = _variable(env, "OPENCLAW_STATE_DIR", "CLAWDBOT_STATE_DIR")
    if named:
        return expanded(named, base)
    folders = [base / name for name in STATE_FOLDERS]
    return next((folder for folder in folders if os.path.isdir(folder)), folders[0])


def config_candidates(
    env: Mapping[str, str], home: Path, state_dir: Path | None = None
) -> tuple[Path, ...]:
    """The places of the configuration, first one first; a named file is the only one.

    With `state_dir`, only that folder is looked at: the environment speaks of another one.
    """
    if state_dir is not None:
        return tuple(state_dir / name for name in CONFIG_NAMES)
    base = home_of(env, home)
    named = _variable(env, "OPENCLAW_CONFIG_PATH", "CLAWDBOT_CONFIG_PATH")
    if named:
        return (expanded(named, base),)
    folders = [state_dir_of(env, home), *(base / name for name in STATE_FOLDERS)]
    return tuple(
        dict.fromkeys(folder / name for folder in dict.fromkeys(folders) for name in CONFIG_NAMES)
    )


def config_file(env: Mapping[str, str], home: Path, state_dir: Path | None = None) -> Path | None:
    """The configuration that OpenClaw reads, `None` when there is none.

    A file that `$OPENCLAW_CONFIG_PATH` names and that is not there counts as none, as it does for
    the program, which then starts with its defaults.
    """
    places = config_candidates(env, home, state_dir)
    return next((path for path in places if os.path.lexists(path)), None)


def _variable(env: Mapping[str, str], *variables: str) -> str:
    return next((env[name].strip() for name in variables if env.get(name, "").strip()), "")
