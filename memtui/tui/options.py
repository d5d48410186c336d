"""Plain values that the interface needs before an engine is open, and as one is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from memtui.engine import Engine
from memtui.model import Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.files import VIEW, StateFolder, read_bytes, state_dir
from memtui.settings.load import Loaded, SettingsFiles, Source
from memtui.settings.schema import Settings


class View(Struct, frozen=True):
    """The choices of the look that last from one start to the next; empty is as configured."""

    version: Literal[1] = 1
    theme: str = ""
    preview: str = ""
    sort: str = ""
    parameters: bool = False
    """True if the panel is shown although the size alone would not show it, or the other way."""
    not_shown: bool | None = None
    """True if the candidates that are not shown are listed; `None` lets the size decide."""


def read_view(folder: Path) -> View | None:
    """Read the view of the last start; `None` for a file that is not one of this version."""
    try:
        return msgspec.json.decode(read_bytes(folder / VIEW), type=View)
    except FileNotFoundError:
        return View()
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


def keep_view(folder: Path, before: View, now: View) -> None:
    """Keep what was changed of the view; the rest stays as another program may have kept it."""
    changed = {name: new for name, new in asdict(now).items() if new != getattr(before, name)}
    if changed and (stored_view := read_view(folder)) is not None:
        # Where it cannot be written, nothing is remembered.
        with suppress(OSError):
            StateFolder(folder).write_json(VIEW, {**asdict(stored_view), **changed})


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
    view: View = View()
    """The view to begin with, beside what is configured."""
    is_provider_given: bool = False
    """True if the provider was chosen already: the first run asks nothing then, nor in the demo."""
    warnings: tuple[str, ...] = ()
    """One line each, told once at the start."""
    memory: Mapping[str, str] = {}
    """The option of a command line that names the memory, without dashes, with its value."""

    @property
    def ascii_only(self) -> bool:
        return self.settings.ui.ascii_only(os.environ)


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
    folder, warnings = state_dir(), loaded.warnings
    if (view := read_view(folder)) is None:
        view = View()
        warnings += (f"{folder / VIEW} is no view of this memtui: not used, and left as it is",)
    # What is asked for this start wins over what was chosen on the screen.
    overrides = {**flags, **loaded.layers[Source.ENVIRONMENT]}
    view = replace(view, **{name: "" for name in ("theme", "preview") if f"ui.{name}" in overrides})
    return UiOptions(
        settings,
        ranking=settings.configured_ranking(),
        profiles=settings.named_rankings(),
        files=SettingsFiles(dict(os.environ), root if has_folder else None, flags),
        root=root,
        state_dir=folder,
        view=view,
        # A file, a variable or an option says which provider it is to be, `auto` among them.
        is_provider_given=demo
        or any("embedding.provider" in layer for layer in loaded.layers.values()),
        warnings=warnings,
        memory={"demo": ""} if demo else {"root": str(root)} if has_folder else {},
    )
