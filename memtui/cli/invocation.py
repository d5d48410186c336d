"""What every command knows: how it was called, and on which memory it works."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memtui.errors import SettingsError, WorkspaceNotFound

if TYPE_CHECKING:
    from memtui.cli.output import Output
    from memtui.memory.workspace import Found
    from memtui.settings import Loaded


class Interface(Protocol):
    """Opens the terminal interface on a memory and returns the exit code."""

    def __call__(self, workspace: Found, loaded: Loaded, *, demo: bool) -> int: ...


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a command was called."""

    interface: Interface
    env: Mapping[str, str]
    root: str | None = None
    json: bool = False
    demo: bool = False
    flags: Mapping[str, Any] | None = None
    """Settings given as options, by dotted key."""

    def with_options(
        self, *, root: str | None = None, json: bool = False, demo: bool = False
    ) -> Invocation:
        """The same with the options of the command; an option before the command holds too."""
        if demo and (root or self.root):
            raise SettingsError("--demo and --root exclude each other")
        return replace(self, root=root or self.root, json=json or self.json, demo=demo or self.demo)

    def with_flags(self, flags: Mapping[str, Any]) -> Invocation:
        """The same with settings given as options."""
        return replace(self, flags=flags)

    def output(self, *, raw: bool = False) -> Output:
        """Stdout and stderr."""
        from memtui.cli.output import Output

        return Output(self.env, raw=raw)

    def workspace(self, folder: str | None = None) -> Found:
        """The memory to work on; raises `WorkspaceNotFound` with the places looked at."""
        from memtui.memory.workspace import Found, demo_root, find_workspace

        if self.demo:
            return Found(demo_root(), "the bundled demo")
        return find_workspace(folder, env=self.env, cwd=_here(), home=_home(), root=self.root)

    def workspace_if_any(self) -> Found | None:
        """The memory to work on, `None` when none was named and none is found.

        Raises `WorkspaceNotFound` when one was named and is not there.
        """
        try:
            return self.workspace()
        except WorkspaceNotFound:
            if self.root or self.env.get("MEMTUI_ROOT"):
                raise
            return None

    def settings(self, root: Path | None) -> Loaded:
        """The settings in force for a workspace; raises `SettingsProblems`."""
        from memtui.settings import load_settings

        return load_settings(flags=self.flags, env=self.env, root=root)


def _here() -> Path:
    """The current folder; the top folder when it was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.sep)


def _home() -> Path:
    """The home folder; the top folder for a user who has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.sep)
