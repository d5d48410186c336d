"""Writing rankings into the settings files: first what would change, then the change itself."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memtui.errors import SettingsError
from memtui.model import Ranking
from memtui.settings.files import ConfigFile
from memtui.settings.layers import STRENGTH, Layer, Source, file_layer, flag_layer
from memtui.settings.leaves import PROFILES, RANKING, profile_key, profile_of
from memtui.settings.load import Gathered, merge, settle
from memtui.settings.needed_changes import Beats, needed_changes
from memtui.settings.places import PROJECT_FILE
from memtui.settings.problems import SettingsProblems
from memtui.settings.profile_names import name_problem, shown_name
from memtui.settings.ranking_keys import as_built_in, base_of, keys_for, rules_of
from memtui.settings.replacing import replace_text
from memtui.settings.schema import BUILT_IN
from memtui.settings.settings_files import WRITABLE, SettingsFiles
from memtui.settings.state import StateFolder
from memtui.settings.toml_text import toml_value
from memtui.settings.trust import is_trusted, trust
from memtui.settings.writing import REMOVED, CannotEdit, edited, with_table, without_table


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
