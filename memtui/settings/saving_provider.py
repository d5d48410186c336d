"""Writing which embedding provider is wanted: what would change in the user's file."""

from __future__ import annotations

from typing import Any, Final

from memtui.model import Ranking
from memtui.settings.layers import STRENGTH, Source
from memtui.settings.load import Gathered
from memtui.settings.needed_changes import Beats
from memtui.settings.saving import Plan, changed_text, target_of, told_beaten
from memtui.settings.settings_files import SettingsFiles
from memtui.settings.writing import REMOVED, edited

EMBEDDING: Final = "embedding"
OF_ONE_PROVIDER: Final = (
    "model",
    "dimensions",
    "base_url",
    "key_env",
    "key_command",
    "query_prefix",
    "document_prefix",
    "price",
)
"""Keys that mean one provider: kept for another they would send a key or a text to a wrong host."""


def plan_provider(files: SettingsFiles, name: str, *, is_other: bool) -> Plan:
    """What to write so that the user's settings ask for a provider by its name.

    With `is_other` what is set for the provider before is taken out, but for a model file. Never
    writes a key. Raises `SettingsError`.
    """
    found = files.gather()
    target = target_of(found, Source.USER, None)
    there = target.layer.values if target.layer is not None else {}
    changes: dict[tuple[str, ...], Any] = {}
    if there.get(f"{EMBEDDING}.provider") != name:
        changes[*target.prefix, EMBEDDING, "provider"] = name
    for key in OF_ONE_PROVIDER if is_other else ():
        if f"{EMBEDDING}.{key}" in there:
            changes[*target.prefix, EMBEDDING, key] = REMOVED
    after = changed_text(found, target, lambda text: edited(text, changes))
    beaten, notes = _stronger(found, name, is_other=is_other)
    told = [told_beaten(beats) for beats in beaten]
    return Plan(target, after, Ranking(), beaten, (*told, *notes))


def _stronger(found: Gathered, name: str, *, is_other: bool) -> tuple[tuple[Beats, ...], list[str]]:
    """What wins over the user's file: another provider, and what is set for the one before."""
    beaten: list[Beats] = []
    notes: list[str] = []
    above = STRENGTH[: STRENGTH.index(Source.USER)]
    for layer in (layer for layer in found.layers if layer.source in above):
        for key in (f"{EMBEDDING}.{key}" for key in ("provider", *OF_ONE_PROVIDER)):
            if key not in layer.values:
                continue
            place = layer.place(key) or layer.source.value
            if key.endswith(".provider"):
                given = layer.values[key]
                beaten += [Beats(key, place, given)] if given != name else []
            elif is_other:
                # The value may be secret: it is not told.
                notes.append(f"{key}: {place} gives it, and this provider gets it too")
    return tuple(beaten), notes
