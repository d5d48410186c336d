"""A user's settings file, a workspace and a state folder, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memtui.model import Ranking
from memtui.settings.files import ConfigFile, Problem, SettingsProblems, StateFolder, read_config
from memtui.settings.load import Given, Loaded, SettingsFiles, Source
from memtui.settings.write import Plan, plan_ranking, write


@dataclass
class Configured:
    """The files below a folder; both settings files start empty, the project's is not there."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.folder / "notes"
        self.user = self.folder / "config" / "memtui.toml"
        self.project = self.root / ".memtui.toml"
        self.state = StateFolder(self.folder / "state")
        self.env = {"MEMTUI_CONFIG": str(self.user), **self.env}
        self.root.mkdir()
        self.user.parent.mkdir()
        self.user.write_text("")

    def files(self, flags: Mapping[str, Any] | None = None) -> SettingsFiles:
        """Where the settings come from."""
        return SettingsFiles(self.env, self.root, flags or {}, self.state)

    def load(self, text: str | None = None, **flags: object) -> Loaded:
        """Load the settings, the user's file holding `text`; flags are keys of `[ranking]`."""
        if text is not None:
            self.user.write_text(text)
        return self.files(
            {f"ranking.{k}": Given(Source.FLAG, f"--{k}", v) for k, v in flags.items()}
        ).load()

    def refused(self, text: str | None = None, **flags: object) -> tuple[Problem, ...]:
        """Load settings that cannot be used; everything that is wrong with them."""
        with pytest.raises(SettingsProblems) as caught:
            self.load(text, **flags)
        assert caught.value.exit_code == 2
        return caught.value.problems

    def ranking(self) -> Ranking:
        return self.load().settings.configured_ranking()

    def plan(self, wanted: Ranking, source: Source = Source.USER) -> Plan:
        """What to write so that the settings give a ranking."""
        return plan_ranking(self.files(), source, wanted)

    def write(self, wanted: Ranking, source: Source = Source.USER) -> Plan:
        plan = self.plan(wanted, source)
        write(plan, self.files())
        return plan


def settings_file(path: Path) -> ConfigFile:
    """Read a settings file that can be read."""
    file = read_config(path)
    assert isinstance(file, ConfigFile)
    return file
