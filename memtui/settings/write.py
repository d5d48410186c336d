"""Writing settings: a text with other values, and what to write so that the settings say it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import tomlkit
import tomlkit.items
from msgspec import Struct
from msgspec.structs import replace

from memtui.errors import SettingsError
from memtui.model import Ranking
from memtui.settings.files import ConfigFile, SettingsProblems, parse_config
from memtui.settings.keys import (
    PROFILES,
    RANKING,
    WEIGHTS,
    base_of,
    has_rules_of,
    keys_for,
    name_problem,
    nested,
    profile_key,
    shown_name,
    values_of,
)
from memtui.settings.load import (
    STRENGTH,
    Layer,
    Loaded,
    SettingsFiles,
    Source,
    file_layer,
    flag_layer,
    is_trusted,
    merge,
    trust,
)
from memtui.settings.schema import BUILT_IN, RankingSettings
from memtui.settings.storage import StateFolder, replace_text
from memtui.settings.toml import KeyPath, comments, statements, toml_key, toml_value

REMOVED: Final = object()
"""What a change may be instead of a value."""
OF_ONE_PROVIDER: Final = (
    *("model", "dimensions", "base_url", "key_env", "key_command"),
    *("query_prefix", "document_prefix", "price"),
)
"""Keys that mean one provider: kept for another they would send a key or a text to a wrong host."""


# --- the text of a file ---------------------------------------------------------------------------


class CannotEdit(ValueError):
    """A text that cannot be changed; the message says why, and what to write by hand."""


def edited(text: str, changes: Mapping[KeyPath, Any]) -> str:
    """Return the text with other values for these keys; `REMOVED` takes a key out.

    Tables that are missing are made; a key to remove that is not there is no mistake. Raises
    `CannotEdit` when a key is a table or lies below a value, and when anything else of the text
    would change; `ValueError` for a text that is not TOML.
    """

    def rewrite() -> str:
        document = tomlkit.parse(text.replace("\r\n", "\n"))
        for path, value in changes.items():
            _rewrite(document, path, value)
        return tomlkit.dumps(document)

    return _checked(text, changes, rewrite)


def with_table(text: str, path: KeyPath, values: Mapping[str, Any]) -> str:
    """Return the text with a new table at its end, `values` by dotted key.

    Raises as `edited` does.
    """
    before = text.replace("\r\n", "\n").rstrip()
    rows = [f"{key} = {toml_value(value)}" for key, value in values.items()]
    lines = [*([before, ""] if before else []), f"[{toml_key(path)}]", *rows, ""]
    changes = {(*path, *key.split(".")): value for key, value in values.items()}
    return _checked(text, changes, lambda: "\n".join(lines))


def without_table(text: str, path: KeyPath) -> str:
    """Return the text without a table and everything in it; comments before its header stay.

    Raises as `edited` does.
    """
    every = list(statements(text))
    headers = [one for one in every if one.is_header and one.path[: len(path)] == path]
    if not headers:
        return edited(text, {path: REMOVED})
    document = tomllib.loads(text)
    _change(document, path, REMOVED)
    after = text
    for header in reversed(headers):
        end = max(one.end for one in every if one.table == header.table)
        after = after[: header.start] + after[end:].partition("\n")[2].lstrip("\r\n")
    if _content(tomllib.loads(after)) != _content(document):
        raise CannotEdit(f"more of it would change; {_by_hand({path: REMOVED})}")
    # Blank lines at the end go, blanks at the end of the last line stay.
    return re.sub(r"(\r?\n)(?:[ \t]*\r?\n)*[ \t]*\Z", r"\1", after) if after.strip() else ""


def _checked(text: str, changes: Mapping[KeyPath, Any], rewrite: Callable[[], str]) -> str:
    """Return the text that is made of another, if these keys of it changed and nothing else."""
    document = tomllib.loads(text)
    for path, value in changes.items():
        _change(document, path, value)
    try:
        after = rewrite().replace("\n", "\r\n" if "\r\n" in text else "\n")
        is_right = _content(tomllib.loads(after)) == _content(document)
    except Exception as error:
        # Whatever the writer makes of a document of a person, that document is left alone.
        why = " ".join(str(error).split()) or type(error).__name__
        raise CannotEdit(f"{why}; {_by_hand(changes)}") from error
    if is_right:
        before, now = comments(text), "\n".join(comments(after))
        is_right = all(now.count(one) >= before.count(one) for one in before)
        # Parts of `[[an.array]]` with another table between them would be put side by side.
        removed = {path for path, value in changes.items() if value is REMOVED}
        headers = iter([one.path for one in statements(after) if one.is_header])
        is_right &= all(
            one.path in headers
            for one in statements(text)
            if one.is_header and not any(one.path[: len(path)] == path for path in removed)
        )
    if not is_right:
        raise CannotEdit(f"more of it would change; {_by_hand(changes)}")
    return after


def _rewrite(table: Any, path: KeyPath, value: Any) -> None:
    """Make a change in a document with its layout."""
    document = table
    for depth, part in enumerate(path[:-1]):
        if part not in table:
            if value is REMOVED:
                return
            table[part] = tomlkit.table(is_super_table=depth + 2 < len(path))
        table = table[part]
    if value is not REMOVED:
        table[path[-1]] = tomlkit.parse(f"x = {toml_value(value)}\n")["x"]
    elif path[-1] in table:
        item = table.item(path[-1]) if hasattr(table, "item") else table[path[-1]]
        remark = item.trivia.comment if isinstance(item, tomlkit.items.Item) else ""
        del table[path[-1]]
        if remark:
            line = f"{toml_key(path[-1:])} = {item.as_string()} {remark}"
            # A table in several parts takes none; the end of the file does.
            (table if hasattr(table, "add") else document).add(tomlkit.comment(line))


def _change(table: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Make a change in what a document says."""
    for part in path[:-1]:
        if value is REMOVED and part not in table:
            return
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise CannotEdit(f"{part} of {toml_key(path)} is no table")
    if value is REMOVED:
        table.pop(path[-1], None)
    elif isinstance(table.get(path[-1]), dict):
        raise CannotEdit(f"{toml_key(path)} is a table")
    else:
        table[path[-1]] = tomllib.loads(f"x = {toml_value(value)}")["x"]


def _content(value: Any) -> Any:
    """What a document says, to compare: an empty table says nothing, NaN is NaN, 1 is not 1.0."""
    if isinstance(value, dict):
        inner = {key: _content(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one != {}}
    return [_content(one) for one in value] if isinstance(value, list) else repr(value)


def _by_hand(changes: Mapping[KeyPath, Any]) -> str:
    """The lines to paste."""
    lines = (
        f"no {toml_key(path)}" if value is REMOVED else f"{toml_key(path)} = {toml_value(value)}"
        for path, value in changes.items()
    )
    return f"by hand: {', '.join(lines)}"


# --- plans ----------------------------------------------------------------------------------------


class Plan(Struct, frozen=True):
    """A change of a settings file that has not been made yet."""

    source: Source
    file: ConfigFile
    """The file as it was read; `is_new` while it is not there."""
    after: str
    """The text that the file would hold."""
    ranking: Ranking = Ranking()
    """What the settings, or the profile, would give."""
    notes: tuple[str, ...] = ()
    """What else there is to know, one line each."""

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.after != self.file.text


def plan_ranking(
    files: SettingsFiles, source: Source, ranking: Ranking, built_in: Mapping[str, Ranking]
) -> Plan:
    """Plan what to write so that the settings give a ranking: the fewest changes that do.

    A key that gives the value already stays as it is; one whose value the profile gives too is
    removed. A profile that another file defines is not named in it: it would be unknown, or
    another one, wherever that file is not read. What no settings file can say is not written, and
    where a stronger source says otherwise the file is written as if it did not: notes tell of
    both. Raises `SettingsError`.
    """
    loaded = files.load()
    file = loaded.file(source, files.root)
    notes: list[str] = []
    name = ranking.profile
    owner = next((layer.source for layer in loaded.layers if name in layer.profiles), None)
    if name not in built_in and owner is not source:
        ranking = replace(ranking, profile=base_of(ranking, built_in))
        notes.append(f"profile {name} is not this file's: its values, on {ranking.profile}")
    named = loaded.settings.named_rankings(built_in)
    ranking_values = {"profile": ranking.profile, **values_of(ranking)}
    refused = flag_layer({f"{RANKING}.{key}": value for key, value in ranking_values.items()})[1]
    tables: dict[Source, dict[str, Any]] = {one: {} for one in reversed(STRENGTH)}
    for layer in loaded.layers:
        parts = ((*key.partition("."), value) for key, value in layer.values.items())
        tables[layer.source] = {key: value for table, _, key, value in parts if table == RANKING}
    in_file = tables[source]

    def given(change: Mapping[str, Any]) -> Ranking:
        """Return what the settings give with a change of the file."""
        merged: dict[str, Any] = {}
        for values in tables.values():
            mine = {**values, **change} if values is in_file else values
            merged |= {key: value for key, value in mine.items() if value is not REMOVED}
        settings = RankingSettings.parse(nested(merged))
        return settings.apply(named[settings.profile])

    def first_that_gives(
        values: Mapping[str, Any], candidates: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        for one in candidates:
            made = given(one)
            if values.items() <= {"profile": made.profile, **values_of(made)}.items():
                return one
        return None

    groups: list[Sequence[str]] = [("profile",), WEIGHTS, ("decay.floor", "decay.preset")]
    groups += [(key,) for key in ranking_values if not any(key in group for group in groups)]
    changes: dict[str, Any] = {}
    # Keys of a group only together say something; the profile is first, the others change it.
    for group in groups:
        values = {key: value for key, value in ranking_values.items() if key in group}
        problems = [one for one in refused if one.key.removeprefix(f"{RANKING}.") in group]
        # What a person would like best comes first.
        removed: dict[str, Any] = {key: REMOVED for key in group if key in in_file}
        candidates = [{}, removed]
        if group is WEIGHTS and not problems:
            candidates.append({**removed, "vector_weight": values["vector_weight"]})
        candidates += [] if problems else [values]
        change = first_that_gives(values, candidates)
        if change is None and problems:
            notes += [f"{one.key}: {one.message}: not written" for one in problems]
        elif change is None:
            for layer in _stronger(loaded.layers, source):
                for key in [key for key in group if key in tables[layer.source]]:
                    notes.append(_beaten(layer, f"{RANKING}.{key}"))
                    del tables[layer.source][key]
            change = first_that_gives(values, candidates)
        changes |= change or {}
        in_file |= change or {}
        for key in [key for key in group if in_file.get(key) is REMOVED]:
            del in_file[key]
    paths = {file.path_of(f"{RANKING}.{key}"): value for key, value in changes.items()}
    after = _changed_text(loaded, source, file, lambda text: edited(text, paths))
    return Plan(source, file, after, given({}), tuple(notes))


def plan_profile(
    files: SettingsFiles,
    name: str,
    ranking: Ranking,
    built_in: Mapping[str, Ranking],
    *,
    force: bool = True,
) -> Plan:
    """Plan what to write so that a ranking has a name; one of that name in the file is replaced.

    Raises `SettingsError`, for a name that cannot be given and for values out of range, too;
    without `force` also for a name that the file has already.
    """
    if wrong := name_problem(name):
        raise SettingsError(f"{shown_name(name)}: {wrong}")
    base = built_in[base_of(ranking, built_in)]
    if not has_rules_of(ranking, base):
        raise SettingsError("this ranking follows rules that no profile has")
    keys = {"profile": base.profile, **keys_for(ranking, base)}
    if problems := flag_layer({f"{RANKING}.{key}": value for key, value in keys.items()})[1]:
        raise SettingsProblems(problems)
    plan = plan_profiles(files, {name: keys}, force=force)
    notes = []
    for layer in files.load().layers:
        place = layer.place(profile_key(name, "profile"))
        if place and layer.source is Source.USER:
            notes.append(f"replaces {name} at {place}")
        elif place and layer.source is Source.PROJECT:
            notes.append(f"in this workspace {name} at {place} takes its place")
    return replace(plan, ranking=replace(ranking, profile=name), notes=tuple(notes))


def plan_profiles(
    files: SettingsFiles, profiles: Mapping[str, Mapping[str, Any]], *, force: bool
) -> Plan:
    """Plan what to write so that the user's file has all of these profiles, given by their keys.

    Raises `SettingsError`; without `force` also for a name that it has already.
    """
    loaded = files.load()
    file, layer = loaded.file(Source.USER, None), loaded.layer(Source.USER)
    for name in profiles:
        if name in layer.profiles and not force:
            place = layer.place(profile_key(name, "profile"))
            raise SettingsError(f"{name} is there already: {place}", hint="--force replaces it")

    def change(text: str) -> str:
        for name, keys in profiles.items():
            path, there = (*file.prefix, PROFILES, name), layer.profiles.get(name)
            if there is None:
                text = with_table(text, path, keys)
                continue
            changes: dict[str, Any] = {key: REMOVED for key in there if key not in keys}
            changes |= {k: v for k, v in keys.items() if k not in there or there[k] != v}
            text = edited(text, {(*path, *key.split(".")): v for key, v in changes.items()})
        return text

    return Plan(Source.USER, file, _changed_text(loaded, Source.USER, file, change))


def plan_removal(files: SettingsFiles, name: str) -> Plan:
    """Plan what to write so that the user's file has no profile of that name.

    Raises `SettingsError`, for one that is not in it and for one that `ranking.profile` names.
    """
    loaded = files.load()
    file = loaded.file(Source.USER, None)
    if name in BUILT_IN:
        raise SettingsError(f"{name} is built in and cannot be removed")
    if name not in loaded.layer(Source.USER).profiles:
        places = [layer.place(profile_key(name, "profile")) for layer in loaded.layers]
        place = next(filter(None, places), "")
        hint = f"it is in {place}, which is not changed here" if place else ""
        raise SettingsError(f"no profile {name} in {file.path}", hint=hint)
    key = f"{RANKING}.profile"
    for layer in loaded.layers:
        has_its_own = layer.source is not Source.USER and name in layer.profiles
        if layer.values.get(key) == name and not has_its_own:
            raise SettingsError(
                f"{name} is in use: {key} at {layer.place(key)}", hint="choose another one first"
            )
    path = (*file.prefix, PROFILES, name)
    after = _changed_text(loaded, Source.USER, file, lambda text: without_table(text, path))
    return Plan(Source.USER, file, after)


def plan_provider(files: SettingsFiles, name: str, *, is_other: bool) -> Plan:
    """Plan what to write so that the user's settings ask for a provider by its name.

    With `is_other` what is set for the provider before is taken out, but for a model file. Never
    writes a key. Raises `SettingsError`.
    """
    of_one = tuple(f"embedding.{key}" for key in OF_ONE_PROVIDER) if is_other else ()
    loaded = files.load()
    plan = _plan_user_keys(loaded, {"embedding.provider": name, **dict.fromkeys(of_one, REMOVED)})
    # The value may be secret: it is not told.
    notes = tuple(
        f"{key}: {layer.place(key) or layer.source.value} gives it, and this provider gets it too"
        for layer in _stronger(loaded.layers, Source.USER)
        for key in of_one
        if key in layer.values
    )
    return replace(plan, notes=plan.notes + notes)


def plan_transcripts(
    files: SettingsFiles, sources: Sequence[str], paths: Sequence[str] | None = None
) -> Plan:
    """Plan what to write so that the user's settings opt in these sources, and no others.

    `paths` are files, folders and globs; `None` leaves those of the file. Raises `SettingsError`.
    """
    values = {"transcripts.sources": tuple(dict.fromkeys(sources))}
    if paths is not None:
        values["transcripts.paths"] = tuple(dict.fromkeys(paths))
    return _plan_user_keys(files.load(), values)


def opted_in(files: SettingsFiles) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sources and the paths that the user's own file opts in."""
    there = files.load().layer(Source.USER).values
    return there.get("transcripts.sources", ()), there.get("transcripts.paths", ())


def _plan_user_keys(loaded: Loaded, values: Mapping[str, Any]) -> Plan:
    """Plan what to write so that the user's file has these values, by dotted key, or none."""
    file, there = loaded.file(Source.USER, None), loaded.layer(Source.USER).values
    changes = {
        file.path_of(key): value
        for key, value in values.items()
        if there.get(key, () if value == () else REMOVED) != value
    }
    notes = tuple(
        _beaten(layer, key)
        for layer in _stronger(loaded.layers, Source.USER)
        for key, value in values.items()
        if value is not REMOVED and layer.values.get(key, value) != value
    )
    after = _changed_text(loaded, Source.USER, file, lambda text: edited(text, changes))
    return Plan(Source.USER, file, after, notes=notes)


def _stronger(layers: Sequence[Layer], source: Source) -> list[Layer]:
    return [one for one in layers if STRENGTH.index(one.source) < STRENGTH.index(source)]


def _beaten(layer: Layer, key: str) -> str:
    place, value = layer.place(key) or layer.source.value, toml_value(layer.values[key])
    return f"{key}: {place} gives {value} and wins over this file"


def _changed_text(
    loaded: Loaded, source: Source, file: ConfigFile, change: Callable[[str], str]
) -> str:
    """Return the changed text; raises `SettingsError` when it cannot be, or could not be read."""
    try:
        after = change(file.text)
    except (CannotEdit, RecursionError) as error:
        why = error if isinstance(error, CannotEdit) else "nested too deeply"
        raise SettingsError(
            f"{file.path} cannot be changed: {why}", hint="change it by hand"
        ) from error
    parsed = parse_config(file.path, after.encode(), file.prefix) or ConfigFile(file.path)
    layer, problems = file_layer(source, parsed)
    layers = [*(one for one in loaded.layers if one.source is not source), layer]
    layers.sort(key=lambda one: STRENGTH.index(one.source))
    if fatal := [problem for problem in (*problems, *merge(layers)[1]) if problem.fatal]:
        raise SettingsProblems(fatal)
    return after


def write(plan: Plan, files: SettingsFiles) -> None:
    """Make the change; a file that was trusted stays so, for what it holds now.

    Raises `FileChanged` when the file is not what the plan was made from, `SettingsError` when it
    cannot be written.
    """
    file, state = plan.file, files.state or StateFolder()
    was_trusted = plan.source is Source.PROJECT and not file.is_new and is_trusted(file, state)
    digest = replace_text(file.path, plan.after, None if file.is_new else file.sha256)
    if was_trusted:
        try:
            trust(replace(file, sha256=digest), state)
        except OSError as error:
            raise SettingsError(
                f"{file.path} is written, but cannot be kept as trusted: {error.strerror}",
                hint="`memtui trust` trusts it again",
            ) from error


def names_for(
    named: Sequence[str], places: Collection[str], chosen: Sequence[str]
) -> tuple[str, ...]:
    """The names that opt in the chosen places, those that are named already before the others.

    `named` are names such as `openclaw`, `openclaw:AGENT`, `claude-code:GLOB` that opt in sources
    so far; `places` the names of all places there are, `chosen` those that are to be opted in. A
    name stays as long as every place that it covers is chosen, also while there is no such place.
    """

    def covers(name: str, place: str) -> bool:
        """Whether a name opts in a place, or a part of it where places are not told apart."""
        program, _, pattern = name.partition(":")
        other, _, part = place.partition(":")
        return program == other and (not pattern or not part or fnmatchcase(part, pattern))

    remaining = [
        name
        for name in dict.fromkeys(named)
        if name in chosen or all(place in chosen for place in places if covers(name, place))
    ]
    others = (name for name in chosen if not any(covers(one, name) for one in remaining))
    return tuple(dict.fromkeys((*remaining, *others)))
