"""What every command knows: how it was called, and on which memory it works."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from memtui.cli.output import Output
from memtui.errors import SettingsError, WorkspaceNotFound
from memtui.memory.workspace import Found, demo_root, find_workspace
from memtui.settings import Loaded, load_settings
from memtui.settings.load import Flag

VECTORS_NEED_AN_AGENT = "--query-vectors needs --agent NAME or --index FILE"
Interface: TypeAlias = Callable[..., int]
"""Opens the terminal interface and returns the exit code; see `memtui.__main__.open_interface`."""


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
    agent: str | None = None
    """The OpenClaw agent whose index is read."""
    index: str | None = None
    """The OpenClaw index that is read."""
    query_vectors: str | None = None
    """The file with the vectors of queries."""

    @property
    def foreign(self) -> bool:
        """Whether an agent's index is read instead of memtui's own."""
        return self.agent is not None or self.index is not None

    def with_options(
        self,
        *,
        root: str | None = None,
        json: bool = False,
        demo: bool = False,
        agent: str | None = None,
        index: str | None = None,
        query_vectors: str | None = None,
        private: bool = False,
    ) -> Invocation:
        """The same with the options of the command; an option before the command holds too.

        `private` stands for the setting that no query is remembered.

        Raises `SettingsError` for options that exclude each other.
        """
        called = replace(
            self,
            root=root or self.root,
            json=json or self.json,
            demo=demo or self.demo,
            agent=self.agent if agent is None else agent,
            index=self.index if index is None else index,
            query_vectors=self.query_vectors if query_vectors is None else query_vectors,
        )
        if private:
            called = called.with_flags({"ui.history": Flag("--private", False)})
        which = {
            "--demo": called.demo,
            "--agent": called.agent is not None,
            "--index": called.index is not None,
            "--root": called.demo and called.root is not None,
        }
        given = [option for option, is_given in which.items() if is_given]
        if len(given) > 1:
            raise SettingsError(f"{' and '.join(given)} exclude each other")
        return called

    def with_flags(self, flags: Mapping[str, Any]) -> Invocation:
        """The same with settings given as options."""
        return replace(self, flags={**(self.flags or {}), **flags})

    def output(self, *, raw: bool = False) -> Output:
        """Stdout and stderr."""
        return Output(self.env, raw=raw)

    def workspace(self, folder: str | None = None) -> Found:
        """The memory to work on; raises `WorkspaceNotFound` with the places looked at."""
        if self.demo:
            return Found(demo_root(), "the bundled demo")
        return find_workspace(
            folder, env=self.env, cwd=self.here(), home=self.home(), root=self.root
        )

    def root_if_any(self) -> Path | None:
        """The folder to work on, `None` when none was named and none is found.

        Raises `WorkspaceNotFound` when one was named and is not there.
        """
        try:
            return self.workspace().root
        except WorkspaceNotFound:
            if self.root or self.env.get("MEMTUI_ROOT"):
                raise
            return None

    def here(self) -> Path:
        """The current folder; the top folder when it was removed."""
        try:
            return Path.cwd()
        except FileNotFoundError:
            return Path(os.sep)

    def home(self) -> Path:
        """The user's home folder; the top folder for a user who has none."""
        try:
            return Path.home()
        except RuntimeError:
            return Path(os.sep)

    def settings_here(self) -> Loaded:
        """The settings in force here, with a workspace or without; raises `SettingsProblems`."""
        return self.settings(self.root_if_any())

    def settings(self, root: Path | None) -> Loaded:
        """The settings in force for a workspace; raises `SettingsProblems`."""
        return load_settings(flags=self.flags, env=self.env, root=root)
