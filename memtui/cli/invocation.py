"""What every command knows: how it was called, and on which memory it works."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from memtui.cli.output import Line, Output
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
    raw: bool = False
    flags: Mapping[str, Any] | None = None
    """Settings given as options, by dotted key."""
    agent: str | None = None
    """The OpenClaw agent whose index is read."""
    index: str | None = None
    """The OpenClaw index that is read."""
    query_vectors: str | None = None
    """The file with the vectors of queries."""
    now: datetime | None = None
    """The time that ages count from; `None` for the clock's."""

    @property
    def foreign(self) -> bool:
        """Whether an agent's index is read instead of memtui's own."""
        return self.agent is not None or self.index is not None

    def with_options(self, *, private: bool = False, **options: Any) -> Invocation:
        """Return the same with the options of the command; those before the command hold too.

        `private` stands for the setting that no query is remembered.

        Raises `SettingsError` for options that exclude each other.
        """
        given = {name: value for name, value in options.items() if value not in (None, False)}
        called = replace(self, **given)
        if private:
            called = called.with_flags({"ui.history": Flag("--private", False)})
        which = {
            "--demo": called.demo,
            "--agent": called.agent is not None,
            "--index": called.index is not None,
            "--root": called.demo and called.root is not None,
        }
        refuse_several(which)
        return called

    def with_flags(self, flags: Mapping[str, Any]) -> Invocation:
        """Return the same with settings given as options."""
        return replace(self, flags={**(self.flags or {}), **flags})

    def output(self) -> Output:
        """Return stdout and stderr."""
        return Output(self.env, raw=self.raw)

    def respond(
        self,
        document: Mapping[str, Any],
        lines: Iterable[Line] = (),
        *,
        warnings: Iterable[object] | None = None,
        notes: Iterable[str] = (),
        exit_code: int = 0,
    ) -> int:
        """Print an answer as it was asked for, as a document or as lines; return the exit code.

        Warnings are a part of the document; notes are for people alone.
        """
        output = self.output()
        if self.json:
            more = {} if warnings is None else {"warnings": warnings}
            output.document({**document, **more})
            return exit_code
        output.warn(warnings or ())
        output.lines(lines)
        for note in notes:
            output.note(note)
        return exit_code

    def workspace(self, folder: str | None = None) -> Found:
        """Find the memory to work on; raises `WorkspaceNotFound` with the places looked at."""
        if self.demo:
            return Found(demo_root(), "the bundled demo")
        return find_workspace(
            folder, env=self.env, cwd=self.here(), home=self.home(), root=self.root
        )

    def root_if_any(self) -> Path | None:
        """Find the folder to work on; `None` when none was named and none is there.

        Raises `WorkspaceNotFound` when one was named and is not there.
        """
        try:
            return self.workspace().root
        except WorkspaceNotFound:
            if self.root or self.env.get("MEMTUI_ROOT"):
                raise
            return None

    def here(self) -> Path:
        """Return the current folder; the top folder when it was removed."""
        try:
            return Path.cwd()
        except FileNotFoundError:
            return Path(os.sep)

    def path(self, name: str) -> Path:
        """Return the path of a file that was named on the command line."""
        return self.here() / os.path.expanduser(name)

    def home(self) -> Path:
        """Return the user's home folder; the top folder for a user who has none."""
        try:
            return Path.home()
        except RuntimeError:
            return Path(os.sep)

    def settings_here(self) -> Loaded:
        """Load the settings in force here, with a workspace or without."""
        return self.settings(self.root_if_any())

    def settings(self, root: Path | None) -> Loaded:
        """Load the settings in force for a workspace; raises `SettingsProblems`."""
        return load_settings(flags=self.flags, env=self.env, root=root)


def refuse_several(given: Mapping[str, bool]) -> None:
    """Raise `SettingsError` when more than one of some options is given."""
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise SettingsError(f"{' and '.join(names)} exclude each other")
