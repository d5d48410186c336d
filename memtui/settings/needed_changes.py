"""Which keys of one file have to change so that the settings give a wanted ranking."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memtui.model import Ranking
from memtui.settings.layers import STRENGTH, Layer, Source, flag_layer
from memtui.settings.leaves import RANKING, nested
from memtui.settings.ranking_keys import WEIGHTS, is_rest, values_of
from memtui.settings.schema import RankingSettings
from memtui.settings.writing import REMOVED

_PROFILE: Final = ("profile",)
_FLOOR: Final = ("decay.floor", "decay.preset")


@dataclass(frozen=True, slots=True)
class Beats:
    """A value that wins over the file that is written."""

    key: str
    """The dotted key."""
    place: str
    value: Any


@dataclass(frozen=True, slots=True)
class Needed:
    """What to change in `[ranking]` of a file, by key within the table."""

    changes: Mapping[str, Any]
    """Values, or `REMOVED`."""
    beaten_by: tuple[Beats, ...]
    """What a stronger source says otherwise; the file is written as if it did not."""
    refused: tuple[str, ...]
    """What no settings file can say, one line each; it is not written."""
    ranking: Ranking
    """What the settings give then, without what wins over the file."""


def needed_changes(
    layers: Sequence[Layer], source: Source, wanted: Ranking, named: Mapping[str, Ranking]
) -> Needed:
    """Find the fewest changes of the file of `source` that make the settings give `wanted`.

    `layers` are those of the settings, strongest first; `named` are all named rankings, among
    them the one of `wanted.profile`. A key that gives the value already stays as it is; one whose
    value the profile gives too is removed; else it is written, the keyword weight only where it
    is not the rest to 1.
    """
    world = _World(layers, source, named)
    return Needed(
        world.reach(wanted), tuple(world.beaten_by), tuple(world.refused), world.ranking({})
    )


class _World:
    """The values of `[ranking]` in every source, and the file among them that may change."""

    def __init__(
        self, layers: Sequence[Layer], source: Source, named: Mapping[str, Ranking]
    ) -> None:
        self._named = named
        self._layers = {layer.source: layer for layer in layers}
        self._values = {
            each: _ranking_values(self._layers[each]) if each in self._layers else {}
            for each in STRENGTH
        }
        self._file = self._values[source]
        self._stronger = STRENGTH[: STRENGTH.index(source)]
        self.beaten_by: list[Beats] = []
        self.refused: list[str] = []

    def reach(self, wanted: Ranking) -> dict[str, Any]:
        """Change the file until every key gives what is wanted; returns all changes."""
        changes: dict[str, Any] = {}
        for group in _groups():
            made = self._change(group, wanted)
            changes |= made
            self._apply(made)
        return changes

    def ranking(self, change: Mapping[str, Any]) -> Ranking:
        """What the settings give with a change of the file."""
        merged: dict[str, Any] = {}
        for values in reversed(self._values.values()):
            mine = {**values, **change} if values is self._file else values
            merged |= {key: value for key, value in mine.items() if value is not REMOVED}
        settings = RankingSettings.model_validate(nested(merged))
        return settings.apply(self._named[settings.profile])

    def _apply(self, change: Mapping[str, Any]) -> None:
        for key, value in change.items():
            if value is REMOVED:
                self._file.pop(key, None)
            else:
                self._file[key] = value

    def _change(self, group: Sequence[str], wanted: Ranking) -> dict[str, Any]:
        problems = _problems(group, wanted)
        found = self._matching(group, wanted, can_write=not problems)
        if found is not None:
            return found
        if problems:
            self.refused.extend(problems)
            return {}
        for source in self._stronger:
            values = self._values[source]
            for key in group:
                if key in values:
                    dotted = f"{RANKING}.{key}"
                    place = self._layers[source].place(dotted) or source.value
                    self.beaten_by.append(Beats(dotted, place, values.pop(key)))
        return self._matching(group, wanted, can_write=True) or {}

    def _matching(
        self, group: Sequence[str], wanted: Ranking, *, can_write: bool
    ) -> dict[str, Any] | None:
        for change in _candidates(group, wanted, self._file):
            is_writing = any(value is not REMOVED for value in change.values())
            if (can_write or not is_writing) and _agree(group, self.ranking(change), wanted):
                return change
        return None


def _ranking_values(layer: Layer) -> dict[str, Any]:
    start = f"{RANKING}."
    return {
        key.removeprefix(start): value
        for key, value in layer.values.items()
        if key.startswith(start)
    }


def _groups() -> Iterator[Sequence[str]]:
    """The keys that only together say something; the profile first, which the others change."""
    yield _PROFILE
    yield WEIGHTS
    yield _FLOOR
    for key in values_of(Ranking()):
        if key not in (*WEIGHTS, *_FLOOR):
            yield (key,)


def _candidates(
    group: Sequence[str], wanted: Ranking, file: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Changes of a group, the one that a person would like best first."""
    yield {}
    there = {key: REMOVED for key in group if key in file}
    if there:
        yield dict(there)
    values = _values(group, wanted)
    if group is WEIGHTS and is_rest(wanted):
        rest = {key: REMOVED for key in there if key != "vector_weight"}
        yield {"vector_weight": values["vector_weight"], **rest}
    yield values


def _values(group: Sequence[str], wanted: Ranking) -> dict[str, Any]:
    given = {"profile": wanted.profile, **values_of(wanted)}
    return {key: given[key] for key in group if key in given}


def _agree(group: Sequence[str], made: Ranking, wanted: Ranking) -> bool:
    return _values(group, made) == _values(group, wanted)


def _problems(group: Sequence[str], wanted: Ranking) -> list[str]:
    """Why the values of a group cannot be written, one line each."""
    values = {f"{RANKING}.{key}": value for key, value in _values(group, wanted).items()}
    return [f"{problem.key}: {problem.message}" for problem in flag_layer(values)[1]]
