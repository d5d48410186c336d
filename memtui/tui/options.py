"""Plain values that the interface needs before an engine is open, and as one is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from memtui.model import Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.files import state_dir
from memtui.settings.load import Loaded, SettingsFiles, Source
from memtui.settings.schema import Settings
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs

if TYPE_CHECKING:
    from memtui.engine import Engine


class UiOptions(Struct, frozen=True):
    """The settings of the interface, resolved."""

    settings: Settings = Settings()
    """All of them, as they are configured."""
    ranking: Ranking = Ranking()
    """The configured ranking; `0` goes back to it."""
    profiles: Mapping[str, Ranking] = PROFILES
    """Every named ranking: those that are built in, then the own ones."""
    files: SettingsFiles | None = None
    """The settings files; `None`: parameters cannot be written."""
    root: Path = Path()
    state_dir: Path | None = None
    """The folder of history and screenshots; `None` keeps nothing on disk."""
    is_provider_given: bool = False
    """True if the provider was chosen already: the first run asks nothing then, nor in the demo."""
    warnings: tuple[str, ...] = ()
    """One line each, told once at the start."""

    @property
    def glyphs(self) -> Glyphs:
        """The characters that everything is drawn with."""
        return ASCII if self.settings.ui.glyphs == "ascii" else UNICODE


class EngineOpened(Struct, frozen=True):
    """A memory is ready to be asked."""

    engine: Engine
    is_new: bool = False
    """True if it was never indexed before it was opened."""


def options_from(loaded: Loaded, root: Path, *, demo: bool, foreign: bool = False) -> UiOptions:
    """Resolve the interface's options from loaded settings.

    Of the demo and of an agent's workspace no file is written: parameters go to the user's.
    """
    settings = loaded.settings
    has_folder = root != Path() and not demo and not foreign
    flags = loaded.layers[Source.FLAG]
    return UiOptions(
        settings,
        ranking=settings.configured_ranking(),
        profiles=settings.named_rankings(),
        files=SettingsFiles(dict(os.environ), root if has_folder else None, flags),
        root=root,
        state_dir=state_dir(),
        # A file, a variable or an option says which provider it is to be, `auto` among them.
        is_provider_given=demo
        or any("embedding.provider" in layer for layer in loaded.layers.values()),
        warnings=loaded.warnings,
    )
