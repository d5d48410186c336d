"""Looking at the settings: what is configured, where, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from memtui.engine.doctor.checks import EXIT_SETTINGS, Area, Check, fine, note, problem
from memtui.settings import Problem, ProblemCode, Settings
from memtui.settings.files import read_bytes
from memtui.settings.load import Gathered, merge
from memtui.settings.shown import shown_value

MAX_CERTIFICATES: Final = 16 * 2**20
"""Bytes of a file of certificates; those of all authorities are a fraction of a megabyte."""

_AREA = Area.SETTINGS
_TABLES: Final = ("embedding.", "index.", "memory.")
_STOPS: Final = frozenset({ProblemCode.UNKNOWN_KEY})


@dataclass(frozen=True, slots=True)
class Configured:
    """A value that is set; without anything secret."""

    key: str
    value: Any
    source: str
    place: str
    """`file:line`, `$VARIABLE` or the flag."""


def usable_settings(gathered: Gathered) -> Settings:
    """The settings without what is wrong with them; the defaults where nothing else is left."""
    return merge(gathered.layers)[0] or Settings()


def configured(gathered: Gathered) -> tuple[Configured, ...]:
    """What is set of the provider, the index and the memory, the winning place of each."""
    found: dict[str, Configured] = {}
    for layer in gathered.layers:
        for key, value in layer.values.items():
            if key.startswith(_TABLES) and key not in found:
                shown = shown_value(key, value)
                found[key] = Configured(key, shown, layer.source.value, layer.place(key))
    return tuple(found[key] for key in sorted(found))


def settings_checks(gathered: Gathered, settings: Settings) -> Iterator[Check]:
    """Every problem of the settings, or that there is none."""
    problems = (*gathered.problems, *merge(gathered.layers)[1])
    for found in problems:
        yield _of_problem(found)
    if not problems:
        where = gathered.user_file if gathered.user is not None else "no file, defaults"
        yield fine(_AREA, "settings", str(where))
    yield from _certificates(settings)


def _of_problem(found: Problem) -> Check:
    name = found.key or "settings"
    detail = f"{found.place}: {found.message}" if found.place else found.message
    if found.fatal or found.code in _STOPS:
        return problem(_AREA, name, detail, found.hint, EXIT_SETTINGS)
    return note(_AREA, name, detail, found.hint)


def _certificates(settings: Settings) -> Iterator[Check]:
    named = settings.embedding.ca_file
    if not named:
        return
    key, path = "embedding.ca_file", Path(named)
    try:
        text = read_bytes(path.expanduser(), MAX_CERTIFICATES)
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        yield problem(_AREA, key, f"{path} cannot be read: {why}", "name a file", EXIT_SETTINGS)
        return
    if b"-----BEGIN CERTIFICATE-----" not in text:
        yield problem(_AREA, key, f"{path} holds no certificate", "it must be PEM", EXIT_SETTINGS)
    else:
        yield fine(_AREA, key, str(path))
