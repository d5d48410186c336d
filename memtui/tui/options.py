"""What the interface needs to know before the engine is open: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.embedding.choice import EmbeddingChoice
from memtui.model import Ranking

if TYPE_CHECKING:
    from memtui.settings import Flag, Loaded
    from memtui.settings.load import Layer, SettingsFiles


def built_in_rankings() -> Mapping[str, Ranking]:
    """The rankings that come with memtui, by name."""
    # Imported late: what only needs a type of this module does not need them.
    from memtui.ranking.profiles import PROFILES

    return PROFILES


@dataclass(frozen=True, slots=True)
class UiOptions:
    """The settings of the interface, resolved."""

    ranking: Ranking = field(default_factory=Ranking)
    """The configured ranking; `0` goes back to it."""
    profiles: Mapping[str, Ranking] = field(default_factory=built_in_rankings)
    """Every named ranking: those that are built in, then the own ones."""
    files: SettingsFiles | None = None
    """Where the settings are; `None`: parameters cannot be written."""
    root: Path = Path()
    theme: str = "auto"
    preview: str = "auto"
    """`auto`, `right`, `below` or `off`."""
    glyphs: str = "unicode"
    history: bool = True
    editor: str | None = None
    """The configured command; `None` means `$VISUAL`, `$EDITOR` or the system's own."""
    keymap_preset: str = "default"
    keymap: Mapping[str, str] = field(default_factory=dict)
    state_dir: Path | None = None
    """Where history and screenshots go; `None` keeps nothing on disk."""
    embedding: EmbeddingChoice = field(default_factory=EmbeddingChoice)
    """The configured provider and everything that is set for it."""
    is_provider_given: bool = False
    """Whether somebody decided about the provider: the first run asks nothing then."""
    demo: bool = False
    warnings: tuple[str, ...] = ()
    """One line each, told once at the start."""


def is_provider_given(loaded: Loaded) -> bool:
    """Whether a file, a variable or an option says which provider is wanted, `auto` among them."""
    return any("embedding.provider" in layer.values for layer in loaded.layers)


def flags_of(layers: Sequence[Layer]) -> dict[str, Flag]:
    """The settings that were given as options, each with the name of its option."""
    from memtui.settings.load import Flag, Source

    return {
        key: Flag(layer.place(key), value)
        for layer in layers
        if layer.source is Source.FLAG
        for key, value in layer.values.items()
    }
