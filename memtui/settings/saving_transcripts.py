"""Writing which conversations are indexed: what would change in the user's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from memtui.model import Ranking
from memtui.settings.layers import STRENGTH, Source
from memtui.settings.load import Gathered
from memtui.settings.needed_changes import Beats
from memtui.settings.saving import Plan, changed_text, target_of, told_beaten
from memtui.settings.settings_files import SettingsFiles
from memtui.settings.writing import edited

TRANSCRIPTS: Final = "transcripts"


def plan_transcripts(
    files: SettingsFiles, sources: Sequence[str], paths: Sequence[str] | None = None
) -> Plan:
    """What to write so that the user's settings opt in these sources, and no others.

    `paths` are files, folders and globs; `None` leaves those of the file. Raises `SettingsError`.
    """
    found = files.gather()
    target = target_of(found, Source.USER, None)
    there = target.layer.values if target.layer is not None else {}
    wanted: dict[str, list[str]] = {"sources": list(dict.fromkeys(sources))}
    if paths is not None:
        wanted["paths"] = list(dict.fromkeys(paths))
    changes: dict[tuple[str, ...], Any] = {
        (*target.prefix, TRANSCRIPTS, key): value
        for key, value in wanted.items()
        if list(there.get(f"{TRANSCRIPTS}.{key}") or ()) != value
    }
    after = changed_text(found, target, lambda text: edited(text, changes))
    beaten = _stronger(found, wanted)
    return Plan(target, after, Ranking(), beaten, tuple(told_beaten(beats) for beats in beaten))


def _stronger(found: Gathered, wanted: Mapping[str, list[str]]) -> tuple[Beats, ...]:
    """What wins over the user's file and says something else."""
    above = STRENGTH[: STRENGTH.index(Source.USER)]
    return tuple(
        Beats(key, layer.place(key) or layer.source.value, layer.values[key])
        for layer in found.layers
        if layer.source in above
        for name, value in wanted.items()
        if (key := f"{TRANSCRIPTS}.{name}") in layer.values
        and list(layer.values[key] or ()) != value
    )


def opted_in(files: SettingsFiles) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sources and the paths that the user's own file opts in."""
    target = target_of(files.gather(), Source.USER, None)
    there = target.layer.values if target.layer is not None else {}
    sources, paths = (there.get(f"{TRANSCRIPTS}.{key}") or () for key in ("sources", "paths"))
    return tuple(sources), tuple(paths)
