"""Where the settings of one run come from: what is needed to read them again, and to write them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from memtui.errors import SettingsError
from memtui.model import Ranking
from memtui.settings.files import PROJECT_FILE, ConfigFile, SettingsProblems
from memtui.settings.keys import (
    PROFILES,
    RANKING,
    name_problem,
    nested,
    profile_key,
    profile_of,
    shown_name,
)
from memtui.settings.load import (
    STRENGTH,
    Gathered,
    Layer,
    Loaded,
    Source,
    file_layer,
    flag_layer,
    gather,
    is_trusted,
    merge,
    settle,
    trust,
)
from memtui.settings.rankings import (
    WEIGHTS,
    as_built_in,
    base_of,
    is_rest,
    keys_for,
    rules_of,
    values_of,
)
from memtui.settings.schema import BUILT_IN, RankingSettings
from memtui.settings.storage import StateFolder, replace_text
from memtui.settings.toml import REMOVED, CannotEdit, edited, toml_value, with_table, without_table

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


@dataclass(frozen=True, slots=True)
class Target:
    """A file that is to be written."""

    source: Source
    path: Path
    file: ConfigFile | None
    """What it holds; `None`: it is not there."""
    layer: Layer | None

    @property
    def text(self) -> str:
        """What it holds."""
        return self.file.text if self.file is not None else ""

    @property
    def prefix(self) -> tuple[str, ...]:
        """The way to memtui's table in it."""
        return self.file.prefix if self.file is not None else ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of a settings file that has not been made yet."""

    target: Target
    after: str
    """The text that the file would hold."""
    ranking: Ranking
    """What the settings, or the profile, would give."""
    beaten_by: tuple[Beats, ...] = ()
    notes: tuple[str, ...] = ()
    """What else there is to know, one line each."""

    @property
    def before(self) -> str:
        """The text that the file holds."""
        return self.target.text

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.after != self.before


def target_of(found: Gathered, source: Source, root: Path | None) -> Target:
    """The file of a source: for a workspace its `.memtui.toml`, unless it has `[tool.memtui]`."""
    layer = next((layer for layer in found.layers if layer.source is source), None)
    if source is Source.USER:
        return Target(source, found.user_file, found.user, layer)
    if found.project is not None:
        return Target(source, found.project.path, found.project, layer)
    if root is None:
        raise SettingsError("there is no workspace to write settings in")
    return Target(source, root / PROJECT_FILE, None, layer)


def plan_ranking(
    files: SettingsFiles, source: Source, wanted: Ranking, built_in: Mapping[str, Ranking]
) -> Plan:
    """What to write so that the settings give a ranking.

    A profile that another file defines is not named in it: it would be unknown, or another one,
    wherever that file is not read. Raises `SettingsError`.
    """
    found = files.gather()
    target = target_of(found, source, files.root)
    named = settle(found).settings.named_rankings(built_in)
    notes: list[str] = []
    if wanted.profile not in built_in and not _is_its_own(found, source, wanted.profile):
        start = as_built_in(wanted, built_in)
        notes.append(f"profile {wanted.profile} is not this file's: its values, on {start.profile}")
        wanted = start
    needed = needed_changes(found.layers, source, wanted, named)
    notes += [f"{line}: not written" for line in needed.refused]
    changes = {
        (*target.prefix, RANKING, *key.split(".")): value for key, value in needed.changes.items()
    }
    after = changed_text(found, target, lambda text: edited(text, changes))
    notes += [told_beaten(beats) for beats in needed.beaten_by]
    return Plan(target, after, needed.ranking, needed.beaten_by, tuple(notes))


def _is_its_own(found: Gathered, source: Source, name: str) -> bool:
    """Whether a profile is the one that the file of a source defines."""
    giver = next((layer.source for layer in found.layers if name in layer.profiles), None)
    return giver is source


def told_beaten(beats: Beats) -> str:
    """One line about a value that wins over the file."""
    return f"{beats.key}: {beats.place} gives {toml_value(beats.value)} and wins over this file"


def plan_profile(
    files: SettingsFiles,
    source: Source,
    name: str,
    wanted: Ranking,
    built_in: Mapping[str, Ranking],
) -> Plan:
    """What to write so that a ranking has a name; one of that name in the file is replaced.

    Raises `SettingsError`, for a name that cannot be given and for values out of range, too.
    """
    wrong = name_problem(name)
    if wrong:
        raise SettingsError(f"{shown_name(name)}: {wrong}")
    found = files.gather()
    target = target_of(found, source, files.root)
    base = built_in[base_of(wanted, built_in)]
    if rules_of(wanted) != rules_of(base):
        raise SettingsError("this ranking follows rules that no profile has")
    keys = {"profile": base.profile, **keys_for(wanted, base)}
    _refuse_out_of_range(keys)
    after = changed_text(found, target, lambda text: with_profile(text, target, name, keys))
    notes = []
    for layer in found.layers:
        if layer.source not in WRITABLE or name not in layer.profiles:
            continue
        place = layer.place(profile_key(name, "profile"))
        if layer.source is source:
            notes.append(f"replaces {name} at {place}")
        elif layer.source is Source.PROJECT:
            notes.append(f"in this workspace {name} at {place} takes its place")
    return Plan(target, after, replace(wanted, profile=name), (), tuple(notes))


def with_profile(text: str, target: Target, name: str, keys: Mapping[str, Any]) -> str:
    """A text with these keys, and no others, in `[profiles.NAME]`."""
    path = (*target.prefix, PROFILES, name)
    if target.layer is None or name not in target.layer.profiles:
        return with_table(text, path, keys)
    owned = {key: profile_of(key) for key in target.layer.values}
    there = {
        within[1]: target.layer.values[key]
        for key, within in owned.items()
        if within is not None and within[0] == name
    }
    changes: dict[str, Any] = {key: REMOVED for key in there if key not in keys}
    changes |= {k: value for k, value in keys.items() if k not in there or there[k] != value}
    return edited(text, {(*path, *key.split(".")): value for key, value in changes.items()})


def plan_profiles(
    files: SettingsFiles, profiles: Mapping[str, Mapping[str, Any]], *, force: bool
) -> Plan:
    """What to write so that the user's file has all of these profiles, given by their keys.

    Raises `SettingsError`; without `force` also for a name that it has already.
    """
    found = files.gather()
    target = target_of(found, Source.USER, None)
    there = [n for n in profiles if target.layer is not None and n in target.layer.profiles]
    if there and not force:
        assert target.layer is not None
        place = target.layer.place(profile_key(there[0], "profile"))
        raise SettingsError(f"{there[0]} is there already: {place}", hint="--force replaces it")

    def all_of_them(text: str) -> str:
        for name, keys in profiles.items():
            text = with_profile(text, target, name, keys)
        return text

    return Plan(target, changed_text(found, target, all_of_them), Ranking())


def plan_removal(files: SettingsFiles, name: str) -> Plan:
    """What to write so that the user's file has no profile of that name.

    Raises `SettingsError`, for one that is not in it and for one that `ranking.profile` names.
    """
    found = files.gather()
    target = target_of(found, Source.USER, None)
    if name in BUILT_IN:
        raise SettingsError(f"{name} is built in and cannot be removed")
    layers = [layer for layer in found.layers if name in layer.profiles]
    if target.layer is None or name not in target.layer.profiles:
        where = [layer.place(profile_key(name, "profile")) for layer in layers]
        hint = f"it is in {where[0]}, which is not changed here" if where else ""
        raise SettingsError(f"no profile {name} in {target.path}", hint=hint)
    _refuse_in_use(found.layers, name)
    path = (*target.prefix, PROFILES, name)
    return Plan(
        target, changed_text(found, target, lambda text: without_table(text, path)), Ranking()
    )


def write(plan: Plan, files: SettingsFiles) -> None:
    """Make the change; a file that was trusted stays so, for what it holds now.

    Raises `FileChanged` when the file is not what the plan was made from, `SettingsError` when it
    cannot be written.
    """
    target, state = plan.target, files.state or StateFolder()
    was_trusted = (
        target.source is Source.PROJECT
        and target.file is not None
        and is_trusted(target.file, state)
    )
    before = target.file.sha256 if target.file is not None else None
    digest = replace_text(target.path, plan.after, before)
    if was_trusted and target.file is not None:
        try:
            trust(replace(target.file, sha256=digest, text=plan.after), state)
        except OSError as error:
            raise SettingsError(
                f"{target.path} is written, but cannot be kept as trusted: {error.strerror}",
                hint="`memtui trust` trusts it again",
            ) from error


def changed_text(found: Gathered, target: Target, change: Callable[[str], str]) -> str:
    """The changed text; raises `SettingsError` when it cannot be, or could not be read."""
    try:
        after = change(target.text)
    except (CannotEdit, RecursionError) as error:
        why = error if isinstance(error, CannotEdit) else "nested too deeply"
        raise SettingsError(
            f"{target.path} cannot be changed: {why}", hint="change it by hand"
        ) from error
    document: Any = tomllib.loads(after)
    for name in target.prefix:
        document = document[name]
    file = ConfigFile(target.path, after, "", document, target.prefix)
    layer, problems = file_layer(target.source, file)
    others = [other for other in found.layers if other.source is not target.source]
    layers = sorted([*others, layer], key=lambda each: STRENGTH.index(each.source))
    fatal = [problem for problem in (*problems, *merge(layers)[1]) if problem.fatal]
    if fatal:
        raise SettingsProblems(fatal)
    return after


def _refuse_out_of_range(keys: Mapping[str, Any]) -> None:
    problems = flag_layer({f"{RANKING}.{key}": value for key, value in keys.items()})[1]
    if problems:
        raise SettingsProblems(problems)


def _refuse_in_use(layers: Iterable[Layer], name: str) -> None:
    """Raise for a name that a source gives without a profile of its own for it."""
    key = f"{RANKING}.profile"
    for layer in layers:
        has_its_own = layer.source is not Source.USER and name in layer.profiles
        if layer.values.get(key) == name and not has_its_own:
            raise SettingsError(
                f"{name} is in use: {key} at {layer.place(key)}", hint="choose another one first"
            )


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
    beaten = _stronger_sources(found, wanted)
    return Plan(target, after, Ranking(), beaten, tuple(told_beaten(beats) for beats in beaten))


def _stronger_sources(found: Gathered, wanted: Mapping[str, list[str]]) -> tuple[Beats, ...]:
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
        settings = RankingSettings.parse(nested(merged))
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


def names_for(
    named: Sequence[str], places: Collection[str], chosen: Sequence[str]
) -> tuple[str, ...]:
    """The names that opt in the chosen places, those that are named already before the others.

    `named` are names such as `openclaw`, `openclaw:AGENT`, `claude-code:GLOB` that opt in sources
    so far; `places` the names of all places there are, `chosen` those that are to be opted in. A
    name stays as long as every place that it covers is chosen, also while there is no such place.
    """
    kept = [
        name
        for name in dict.fromkeys(named)
        if name in chosen or all(place in chosen for place in places if _covers(name, place))
    ]
    others = (name for name in chosen if not any(_covers(one, name) for one in kept))
    return tuple(dict.fromkeys((*kept, *others)))


def _covers(name: str, place: str) -> bool:
    """Whether a name opts in a place, or a part of it where places are not told apart."""
    program, _, wanted = name.partition(":")
    other, _, part = place.partition(":")
    return program == other and (not wanted or not part or fnmatchcase(part, wanted))
