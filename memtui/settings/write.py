"""Writing settings: a text with other values, and what to write so that the settings say it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import tomlkit
from msgspec import Struct
from msgspec.structs import replace
from tomlkit.items import Table

from memtui.errors import SettingsError
from memtui.model import Ranking
from memtui.settings.files import ConfigFile, SettingsProblems, parse_config
from memtui.settings.keys import (
    base_of,
    has_rules_of,
    key_of,
    keys_for,
    name_problem,
    path_of,
    profile_key,
    shown_name,
    values_of,
)
from memtui.settings.load import (
    STRENGTH,
    Given,
    Loaded,
    SettingsFiles,
    Source,
    file_layer,
    is_trusted,
    merge,
    option_layer,
    trust,
    values_in,
)
from memtui.settings.schema import BUILT_IN, PROFILES, RANKING, WEIGHTS
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
    """Return the text with other values for these keys; `REMOVED` takes a key or a table out.

    Everything else stays as it is, comments, order and layout among it. Tables that are missing
    are made; a key to remove that is not there is no mistake. Raises `CannotEdit` when a key is a
    table or lies below a value, and when more of the text, or a comment inside a value, would
    change; `ValueError` for a text that is not TOML.
    """
    document, after = tomllib.loads(text), text.replace("\r\n", "\n")
    try:
        real = {path: value for path, value in changes.items() if _change(document, path, value)}
        for path in [path for path, value in real.items() if value is REMOVED]:
            after = _without(after, path)
        for table, rows in _new_profiles(tomllib.loads(after), real).items():
            above = after.rstrip("\n")
            after = "\n".join([above, f"\n[{toml_key(table)}]", *rows, ""]).lstrip("\n")
        layout, before, there = tomlkit.parse(after), after, tomllib.loads(after)
        for path, value in real.items():
            if _change(there, path, value):
                _rewrite(layout, path, value)
        after = tomlkit.dumps(layout)
        # Parts of `[[an.array]]` with another table between them would be put side by side.
        headers = iter([one.path for one in statements(after) if one.is_header])
        in_order = all(one.path in headers for one in statements(before) if one.is_header)
        if not in_order or _content(tomllib.loads(after)) != _content(document):
            raise CannotEdit("more of it would change")
        if Counter(comments(before)) - Counter(comments(after)):
            raise CannotEdit("comments inside a value would be lost")
    except Exception as error:
        # Whatever the writer makes of a document of a person, that document is left alone.
        lines = (
            f"no {toml_key(path)}" if new is REMOVED else f"{toml_key(path)} = {toml_value(new)}"
            for path, new in changes.items()
        )
        why = " ".join(str(error).split()) or type(error).__name__
        raise CannotEdit(f"{why}; by hand: {', '.join(lines)}") from error
    return after.replace("\n", "\r\n") if "\r\n" in text else after


def _new_profiles(document: Any, changes: Mapping[KeyPath, Any]) -> dict[KeyPath, list[str]]:
    """Return the rows of each profile that is not there yet: tables for the end of the text."""
    tables: dict[KeyPath, list[str]] = {}
    for path, value in changes.items():
        if value is REMOVED or PROFILES not in path[:-2]:
            continue
        depth = path.index(PROFILES) + 2
        there = document
        for part in path[:depth]:
            there = there.get(part) if isinstance(there, dict) else None
        if there is None:
            row = f"{toml_key(path[depth:])} = {toml_value(value)}"
            tables.setdefault(path[:depth], []).append(row)
    return tables


def _rewrite(table: Any, path: KeyPath, value: Any) -> None:
    """Make a change in a document with its layout."""
    depth = 0
    while depth < len(path) - 1 and path[depth] in table:
        table, depth = table[path[depth]], depth + 1
    key, parts = path[-1], path[depth:]
    if value is REMOVED:
        # All but what is left in an inline table is gone by now.
        if depth == len(path) - 1:
            table.pop(key, None)
        return
    item = tomlkit.value(toml_value(value))
    is_open = isinstance(table, Table) and not table.is_super_table()
    if len(parts) > 1 and is_open:
        table.add(tomlkit.key(list(parts)), item)
        return
    for part in parts[:-1]:
        table[part] = tomlkit.table(is_super_table=part != parts[-2])
        table = table[part]
    table[key] = item


def _without(text: str, path: KeyPath) -> str:
    """Take a key, or a table with the comments in it, out of a text with line feeds."""
    every = list(statements(text))
    for one in reversed([one for one in every if one.path[: len(path)] == path]):
        above, row, below = text[: one.start], text[one.start : one.line_end], text[one.line_end :]
        if one.is_header:
            last = max(other.line_end for other in every if other.table == one.table)
            below = text[last:].lstrip("\n")
            above = above if below or not above.strip() else above.rstrip("\n") + "\n"
        elif one.table[: len(path)] == path:
            # It goes with its header.
            continue
        elif comments(row):
            # A remark stays, and what it was about.
            above += "# " + row.rstrip("\n").replace("\n", "\n# ") + "\n"
        else:
            above = above.rstrip(" \t")
        text = above + below
    return text


def _change(table: dict[str, Any], path: KeyPath, value: Any) -> bool:
    """Make a change in what a document says; tell whether there is anything to change."""
    for part in path[:-1]:
        if value is REMOVED and part not in table:
            return False
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise CannotEdit(f"{part} of {toml_key(path)} is no table")
    if value is REMOVED:
        return table.pop(path[-1], REMOVED) is not REMOVED
    if isinstance(table.get(path[-1]), dict):
        raise CannotEdit(f"{toml_key(path)} is a table")
    table[path[-1]] = tomllib.loads(f"x = {toml_value(value)}")["x"]
    return True


def _content(value: Any) -> Any:
    """Return a document to compare: an empty table says nothing, NaN is NaN, 1 is not 1.0."""
    if isinstance(value, dict):
        inner = {key: _content(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one != {}}
    return [_content(one) for one in value] if isinstance(value, list) else repr(value)


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
    layers = dict(loaded.layers)
    notes: list[str] = []
    name = ranking.profile
    owner = next((one for one, layer in layers.items() if profile_key(name) in layer), None)
    if name not in built_in and owner is not source:
        ranking = replace(ranking, profile=base_of(ranking, built_in))
        notes.append(f"profile {name} is not this file's: its values, on {ranking.profile}")
    goal = _ranking_keys(ranking)
    refused = {one.key: one.message for one in option_layer(goal)[1]}
    before = {
        key: given.value for key, given in layers[source].items() if key.startswith(f"{RANKING}.")
    }

    def first_that_gives(
        values: Mapping[str, Any], candidates: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        for one in candidates:
            if values.items() <= _ranking_keys(made_with(one)).items():
                return one
        return None

    def made_with(keys: Mapping[str, Any]) -> Ranking:
        """Return what the settings give with other keys of `[ranking]` in the file."""
        rest = {key: given for key, given in layers[source].items() if key not in before}
        mine = {key: Given(source, "", value) for key, value in keys.items()}
        return merge({**layers, source: {**rest, **mine}})[0].configured_ranking(built_in)

    # Keys of a group only together say something; the profile is first, the others change it.
    weights = [f"{RANKING}.{key}" for key in WEIGHTS]
    floor = [f"{RANKING}.decay.floor", f"{RANKING}.decay.preset"]
    groups = [[f"{RANKING}.profile"], weights, floor]
    groups += [[key] for key in goal if not any(key in group for group in groups)]
    after = before
    for group in groups:
        values = {key: goal[key] for key in group if key in goal}
        others = {key: value for key, value in after.items() if key not in group}
        unwritable = [key for key in group if key in refused]
        # What a person would like best comes first.
        candidates = [after, others]
        if not unwritable:
            candidates += [others | {weights[0]: goal[weights[0]]}] if group is weights else []
            candidates.append(after | values)
        chosen = first_that_gives(values, candidates)
        if chosen is None and unwritable:
            notes += [f"{key}: {refused[key]}: not written" for key in unwritable]
        elif chosen is None:
            for one in _stronger(source):
                notes += [_beaten(key, layers[one][key]) for key in group if key in layers[one]]
                layers[one] = {key: given for key, given in layers[one].items() if key not in group}
            chosen = first_that_gives(values, candidates)
        after = after if chosen is None else chosen
    plan = _plan(loaded, source, files.root, dict.fromkeys(before, REMOVED) | after)
    return replace(plan, ranking=made_with(after), notes=tuple(notes))


def _ranking_keys(ranking: Ranking) -> dict[str, Any]:
    """Return every key that a ranking can be made of, with its value."""
    values = {"profile": ranking.profile, **values_of(ranking)}
    return {f"{RANKING}.{key}": value for key, value in values.items()}


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
    if problems := option_layer({f"{RANKING}.{key}": value for key, value in keys.items()})[1]:
        raise SettingsProblems(problems)
    plan = plan_profiles(files, {name: keys}, force=force)
    words = {
        Source.USER: "replaces {0} at {1}",
        Source.PROJECT: "in this workspace {0} at {1} takes its place",
    }
    given = [layer.get(profile_key(name)) for layer in files.load().layers.values()]
    notes = tuple(words[one.source].format(name, one.place) for one in given if one is not None)
    return replace(plan, ranking=replace(ranking, profile=name), notes=notes)


def plan_profiles(
    files: SettingsFiles, profiles: Mapping[str, Mapping[str, Any]], *, force: bool
) -> Plan:
    """Plan what to write so that the user's file has all of these profiles, given by their keys.

    Raises `SettingsError`; without `force` also for a name that it has already.
    """
    loaded = files.load()
    layer = loaded.layers[Source.USER]
    values: dict[str, Any] = {}
    for name, keys in profiles.items():
        if profile_key(name) in layer and not force:
            place = layer[profile_key(name)].place
            raise SettingsError(f"{name} is there already: {place}", hint="--force replaces it")
        values |= {key: REMOVED for key in layer if key.startswith(profile_key(name, ""))}
        values |= {profile_key(name, key): value for key, value in keys.items()}
    return _plan(loaded, Source.USER, None, values)


def plan_removal(files: SettingsFiles, name: str) -> Plan:
    """Plan what to write so that the user's file has no profile of that name.

    Raises `SettingsError`, for one that is not in it and for one that `ranking.profile` names.
    """
    loaded = files.load()
    if name in BUILT_IN:
        raise SettingsError(f"{name} is built in and cannot be removed")
    definitions = {
        source: layer[profile_key(name)].place
        for source, layer in loaded.layers.items()
        if profile_key(name) in layer
    }
    if Source.USER not in definitions:
        place = next(iter(definitions.values()), "")
        hint = f"it is in {place}, which is not changed here" if place else ""
        raise SettingsError(f"no profile {name} in {loaded.user_file}", hint=hint)
    key = f"{RANKING}.profile"
    for source, layer in loaded.layers.items():
        has_its_own = source is not Source.USER and source in definitions
        if key in layer and layer[key].value == name and not has_its_own:
            raise SettingsError(
                f"{name} is in use: {key} at {layer[key].place}", hint="choose another one first"
            )
    return _plan(loaded, Source.USER, None, {key_of((PROFILES, name)): REMOVED})


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
        f"{key}: {layer[key].place or source} gives it, and this provider gets it too"
        for source, layer in ((one, loaded.layers[one]) for one in _stronger(Source.USER))
        for key in of_one
        if key in layer
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
    there = values_in(files.load().layers[Source.USER])
    return there.get("transcripts.sources", ()), there.get("transcripts.paths", ())


def _plan_user_keys(loaded: Loaded, values: Mapping[str, Any]) -> Plan:
    """Plan what to write so that the user's file has these values, by dotted key, or none."""
    notes = tuple(
        _beaten(key, loaded.layers[source][key])
        for source in _stronger(Source.USER)
        for key, value in values.items()
        if value is not REMOVED and values_in(loaded.layers[source]).get(key, value) != value
    )
    return replace(_plan(loaded, Source.USER, None, values), notes=notes)


def _stronger(source: Source) -> Sequence[Source]:
    return STRENGTH[: STRENGTH.index(source)]


def _beaten(key: str, given: Given) -> str:
    place = given.place or given.source
    return f"{key}: {place} gives {toml_value(given.value)} and wins over this file"


def _plan(loaded: Loaded, source: Source, root: Path | None, values: Mapping[str, Any]) -> Plan:
    """Plan what to write so that a file has these values, by dotted key, or none.

    Raises `SettingsError` when the text cannot be changed, or could not be read afterwards.
    """
    file, there = loaded.file(source, root), values_in(loaded.layers[source])
    changes: dict[KeyPath, Any] = {}
    for key, value in values.items():
        is_there = any(f"{one}.".startswith(f"{key}.") for one in there)
        # Without its key, a list of these is empty; in a ranking it would come from elsewhere.
        is_empty = value == () and key.startswith("transcripts.")
        needs_its_key = value is not REMOVED and not is_empty
        if (is_there or needs_its_key) and there.get(key, ...) != value:
            changes[*file.prefix, *path_of(key)] = value
    try:
        after = edited(file.text, changes)
    except (CannotEdit, RecursionError) as error:
        why = error if isinstance(error, CannotEdit) else "nested too deeply"
        raise SettingsError(
            f"{file.path} cannot be changed: {why}", hint="change it by hand"
        ) from error
    parsed = parse_config(file.path, after.encode(), file.prefix) or ConfigFile(file.path)
    layer, problems = file_layer(source, parsed)
    problems += merge({**loaded.layers, source: layer})[1]
    if fatal := [problem for problem in problems if problem.fatal]:
        raise SettingsProblems(fatal)
    return Plan(source, file, after)


def write(plan: Plan, files: SettingsFiles) -> None:
    """Make the change; a file that was trusted stays so, for what it holds now.

    Raises `FileChanged` when the file is not what the plan was made from, `SettingsError` when it
    cannot be written.
    """
    file, state = plan.file, files.state or StateFolder()
    was_trusted = plan.source is Source.PROJECT and not file.is_new and is_trusted(file, state)
    digest = replace_text(file.path, plan.after, file.sha256)
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
    """Return the names that opt in the chosen places, those there are before the others.

    `named` are names such as `openclaw`, `openclaw:AGENT`, `claude-code:GLOB` that opt in sources
    so far; `places` the names of all places there are, `chosen` those that are to be opted in. A
    name stays as long as every place that it covers is chosen, also while there is no such place.
    """

    def covers(name: str, place: str) -> bool:
        """Tell whether a name opts in a place, or a part of it where places are not told apart."""
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
