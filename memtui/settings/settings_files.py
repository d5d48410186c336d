"""Where the settings of one run come from: what is needed to read them again, and to write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memtui.settings.layers import Source
from memtui.settings.load import Gathered, Loaded, gather, settle
from memtui.settings.state import StateFolder

WRITABLE: Final = (Source.USER, Source.PROJECT)


@dataclass(frozen=True, slots=True)
class SettingsFiles:
    """Where settings come from, read anew at every call, and the files that may be written."""

    env: Mapping[str, str]
    root: Path | None = None
    """The workspace whose own file counts; `None`: the user's file alone."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    state: StateFolder | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that can be written."""
        return WRITABLE if self.root is not None else WRITABLE[:1]

    def gather(self) -> Gathered:
        """Read every source; raises `SettingsProblems` for what cannot be used."""
        found = gather(flags=self.flags, env=self.env, root=self.root, state=self.state)
        settle(found)
        return found

    def load(self) -> Loaded:
        """The settings in force; raises `SettingsProblems`."""
        return settle(self.gather())
