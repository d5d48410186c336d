"""What a project file may not decide before its owner is trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final

from memtui.settings.files import ConfigFile
from memtui.settings.state import StateFolder

TRUST_FILE: Final = "trusted.json"

LOCAL_PROVIDERS: Final = frozenset(
    {"auto", "none", "minilm", "use-multilingual", "wordllama", "gguf"}
)
"""Providers that send nothing anywhere."""


def _always(value: Any) -> bool:
    return True


def _remote(value: Any) -> bool:
    return value not in LOCAL_PROVIDERS


def _outside(value: Any) -> bool:
    """Whether a list of paths has one that leaves the folder it is given in."""
    return any(_leaves_folder(path) for path in value)


def _leaves_folder(path: str) -> bool:
    if path.startswith(("~", "$", "/", "\\")) or PureWindowsPath(path).drive:
        return True
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return ".." in parts


PROTECTED: Final[Mapping[str, Callable[[Any], bool]]] = {
    "editor": _always,
    "pager": _always,
    "embedding.provider": _remote,
    "embedding.fallback": _remote,
    "embedding.allow_remote": bool,
    "embedding.base_url": _always,
    "embedding.key_env": _always,
    "embedding.key_command": _always,
    "embedding.model_path": _always,
    "embedding.ca_file": _always,
    "embedding.batch": bool,
    "index.data_dir": _always,
    "memory.extra_paths": _outside,
    "transcripts.sources": bool,
    "transcripts.paths": _outside,
}
"""The closed set of keys that run commands, reach other machines, or read or write elsewhere,
each with the test of which values do."""


def protected_keys(values: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys whose values need trust, in the order of `PROTECTED`."""
    return tuple(key for key, needs in PROTECTED.items() if key in values and needs(values[key]))


def is_trusted(file: ConfigFile, state: StateFolder) -> bool:
    """Whether exactly this content of this file was trusted."""
    return _trusted(state).get(_name(file.path)) == file.sha256


def trust(file: ConfigFile, state: StateFolder) -> None:
    """Remember the file's content as trusted; raises OSError when the state cannot be written."""
    state.write_json(TRUST_FILE, {**_trusted(state), _name(file.path): file.sha256})


def revoke(path: Path, state: StateFolder) -> bool:
    """Forget that a file was trusted; `False` when it was not."""
    trusted = _trusted(state)
    if trusted.pop(_name(path), None) is None:
        return False
    state.write_json(TRUST_FILE, trusted)
    return True


def _trusted(state: StateFolder) -> dict[str, str]:
    value = state.read_json(TRUST_FILE)
    if not isinstance(value, dict):
        return {}
    return {key: digest for key, digest in value.items() if isinstance(digest, str)}


def _name(path: Path) -> str:
    return os.path.realpath(path)
