"""Editing settings files: a plan says what would change, and is written after it was shown.

What cannot be planned raises `SettingsError`.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import tomlkit
from msgspec import Struct
from msgspec.structs import replace
from tomlkit.items import InlineTable, Table

from memtui.errors import SettingsError
from memtui.model import Ranking
from memtui.model.conversations import covers
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.settings import load, schema
from memtui.settings.files import (
    ConfigFile,
    SettingsProblems,
    StateFolder,
    parse_config,
    replace_text,
)
from memtui.settings.toml import KeyPath, comments, statements, toml_key, toml_value

REMOVED: Final = object()
"""The change that removes a key."""


class CannotEdit(ValueError):
    """A text that cannot be changed; the message says why, and what to write by hand."""


def edited(text: str, changes: Mapping[KeyPath, Any]) -> str:
    """Return the text with other values for these keys; `REMOVED` takes a key or a table out.

    Everything else stays as it is, comments, order and layout among it; where some lines end in
    CRLF, all do then. Tables that are missing are made; a key to remove that is not there is no
    mistake. Raises `CannotEdit` when the text is not TOML, when a key is a table or lies below a
    value, and when more of the text, or a comment inside a value, would change.
    """
    after = text.replace("\r\n", "\n")
    try:
        goal = tomllib.loads(text)
        real = {path: value for path, value in changes.items() if _change(goal, path, value)}
        for path in [path for path, value in real.items() if value is REMOVED]:
            after = _without(after, path)
        before = after
        for path in [path for path, value in real.items() if value is not REMOVED]:
            after = _with(after, path, real[path])
        # Parts of `[[an.array]]` with another table between them would be put side by side.
        headers = iter([one.path for one in statements(after) if one.is_header])
        in_order = all(one.path in headers for one in statements(before) if one.is_header)
        if not in_order or _content(tomllib.loads(after)) != _content(goal):
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


def _with(text: str, path: KeyPath, value: Any) -> str:
    """Return a text with line feeds with another value for a key."""
    layout = tomlkit.parse(text)
    table: Any = layout
    depth = 0
    while depth < len(path) - 1 and path[depth] in table:
        table, depth = table[path[depth]], depth + 1
    item = tomlkit.value(toml_value(value))
    if depth == len(path) - 1:
        table[path[-1]] = item
    elif isinstance(table, InlineTable) or (
        isinstance(table, Table) and not table.is_super_table()
    ):
        if isinstance(table, InlineTable) and table:
            raise CannotEdit("Inline tables cannot contain a table")
        table.add(tomlkit.key(list(path[depth:])), item)
    else:
        row = f"{toml_key(path[-1:])} = {toml_value(value)}"
        above = text.rstrip("\n")
        return f"{above}\n\n[{toml_key(path[:-1])}]\n{row}\n".lstrip("\n")
    return tomlkit.dumps(layout)


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
    layout = tomlkit.parse(text)
    table: Any = layout
    for part in path[:-1]:
        table = table.get(part, {})
    # What is still there is in an inline table.
    table.pop(path[-1], None)
    return tomlkit.dumps(layout)


class Plan(Struct, frozen=True):
    """A change of a settings file that has not been made yet."""

    source: load.Source
    file: ConfigFile
    """The file as it was read; `is_new` while it is not there."""
    after: str
    """The text that the file would hold."""
    notes: tuple[str, ...] = ()
    """Notes for the user, one line each."""
    ranking: Ranking = Ranking()
    """The ranking that the settings, or the profile, would give."""

    @property
    def changes(self) -> bool:
        """True if there is anything to write."""
        return self.after != self.file.text


def plan_ranking(files: load.SettingsFiles, source: load.Source, ranking: Ranking) -> Plan:
    """Plan what to write so that the settings give a ranking: the fewest changes that do.

    A key that gives the value already stays as it is; one whose value the profile gives too is
    removed. A profile that another file defines is not named in it: it would be unknown, or
    another one, wherever that file is not read. What no settings file can say is not written, and
    where a stronger source says otherwise the file is written as if it did not: notes tell of
    both. Raises `SettingsError`.
    """
    loaded = files.load()
    layers = {one: dict(layer) for one, layer in loaded.layers.items()}
    notes: list[str] = []
    name = ranking.profile
    owner = next((one for one, layer in layers.items() if schema.profile_key(name) in layer), None)
    if name not in BUILT_IN and owner is not source:
        ranking = replace(ranking, profile=schema.base_of(ranking))
        notes.append(f"profile {name} is not this file's: its values, on {ranking.profile}")

    def keys_of(made: Ranking) -> dict[str, Any]:
        return {f"{schema.RANKING}.{key}": value for key, value in schema.values_of(made).items()}

    def made_with(keys: Mapping[str, Any]) -> Ranking:
        """Return what the settings give with other keys of `[ranking]` in the file."""
        rest = {key: entry for key, entry in layers[source].items() if key not in before}
        mine = {key: load.Given(source, "", value) for key, value in keys.items()}
        return load.merge({**layers, source: {**rest, **mine}})[0].configured_ranking()

    goal = keys_of(ranking)
    for problem in load.option_layer(goal)[1]:
        del goal[problem.key]
        notes.append(f"{problem.key}: {problem.message}: not written")
    for key, entry in _stronger(loaded, source, goal):
        notes.append(_wins(key, entry))
        del layers[entry.source][key]
    before = {
        key: entry.value
        for key, entry in layers[source].items()
        if key.startswith(f"{schema.RANKING}.")
    }
    # Keys of a group only together say something; the profile is first, the others change it.
    weights = [f"{schema.RANKING}.{key}" for key in schema.WEIGHTS]
    floor = [f"{schema.RANKING}.decay.floor", f"{schema.RANKING}.decay.preset"]
    groups = [[f"{schema.RANKING}.profile"], weights, floor]
    groups += [[key] for key in goal if not any(key in group for group in groups)]
    after = before
    for group in groups:
        values = {key: goal[key] for key in group if key in goal}
        others = {key: value for key, value in after.items() if key not in group}
        alone = {key: values[key] for key in weights[:1] if key in values}
        # What a person would like best comes first.
        for candidate in (after, others, others | alone, after | values):
            if values.items() <= keys_of(made_with(candidate)).items():
                after = candidate
                break
    plan = _plan(loaded, source, dict.fromkeys(before, REMOVED) | after, notes)
    return replace(plan, ranking=made_with(after))


def plan_profile(
    files: load.SettingsFiles, name: str, ranking: Ranking, *, force: bool = True
) -> Plan:
    """Plan what to write so that a ranking has a name; one of that name in the file is replaced.

    Raises `SettingsError`, for a name that cannot be given and for values out of range, too;
    without `force` also for a name that the file has already.
    """
    if wrong := schema.name_problem(name):
        raise SettingsError(f"{schema.shown_name(name)}: {wrong}")
    base = BUILT_IN[schema.base_of(ranking)]
    if not schema.has_rules_of(ranking, base):
        raise SettingsError("this ranking follows rules that no profile has")
    keys = schema.keys_for(ranking, base)
    if problems := load.option_layer(
        {f"{schema.RANKING}.{key}": value for key, value in keys.items()}
    )[1]:
        raise SettingsProblems(problems)
    plan = plan_profiles(files, {name: keys}, force=force)
    return replace(plan, ranking=replace(ranking, profile=name))


def plan_profiles(
    files: load.SettingsFiles, profiles: Mapping[str, Mapping[str, Any]], *, force: bool
) -> Plan:
    """Plan the user's file with these profiles; without `force` none that it has already."""
    loaded = files.load()
    values: dict[str, Any] = {}
    notes: list[str] = []
    for name, keys in profiles.items():
        start = schema.profile_key(name)
        for entry in [layer[start] for layer in loaded.layers.values() if start in layer]:
            if entry.source is not load.Source.USER:
                notes.append(f"in this workspace {name} at {entry.place} takes its place")
            elif force:
                notes.append(f"replaces {name} at {entry.place}")
            else:
                raise SettingsError(
                    f"{name} is there already: {entry.place}", hint="--force replaces it"
                )
        mine = (
            key
            for key in loaded.layers[load.Source.USER]
            if key.startswith(schema.profile_key(name, ""))
        )
        values |= dict.fromkeys(mine, REMOVED)
        values |= {schema.profile_key(name, key): value for key, value in keys.items()}
    return _plan(loaded, load.Source.USER, values, notes)


def plan_removal(files: load.SettingsFiles, name: str) -> Plan:
    """Plan the user's file without a profile, which must be in it and not be chosen."""
    loaded = files.load()
    if name in BUILT_IN:
        raise SettingsError(f"{name} is built in and cannot be removed")
    start, chosen = schema.profile_key(name), f"{schema.RANKING}.profile"
    if start not in loaded.layers[load.Source.USER]:
        places = [layer[start].place for layer in loaded.layers.values() if start in layer]
        if not places:
            near = schema.nearest_profile(name, loaded.settings.named_rankings())
            raise SettingsError(f"no such profile: {schema.shown_name(name)}", hint=near)
        hint = f"it is in {places[0]}, which is not changed here"
        raise SettingsError(f"no profile {name} in {loaded.user.path}", hint=hint)
    for source, layer in loaded.layers.items():
        has_its_own = source is not load.Source.USER and start in layer
        if chosen in layer and layer[chosen].value == name and not has_its_own:
            raise SettingsError(
                f"{name} is in use: {chosen} at {layer[chosen].place}",
                hint="choose another one first",
            )
    return _plan(loaded, load.Source.USER, {schema.key_of((schema.PROFILES, name)): REMOVED})


def plan_provider(files: load.SettingsFiles, name: str, *, is_other: bool) -> Plan:
    """Plan what to write so that the user's settings ask for a provider by its name.

    With `is_other` what is set for the provider before is taken out, but for a model file. Never
    writes a key. Raises `SettingsError`.
    """
    loaded = files.load()
    values: dict[str, Any] = {"embedding.provider": name}
    removed = {f"embedding.{key}": REMOVED for key in schema.OF_ONE_PROVIDER if is_other}
    notes = [_wins(*one) for one in _stronger(loaded, load.Source.USER, values)]
    # The value may be secret: it is not told.
    notes += [
        f"{key}: {entry.place or entry.source} gives it, and this provider gets it too"
        for key, entry in _stronger(loaded, load.Source.USER, removed)
    ]
    return _plan(loaded, load.Source.USER, values | removed, notes)


def plan_transcripts(
    files: load.SettingsFiles, sources: Sequence[str], paths: Sequence[str]
) -> Plan:
    """Plan the user's settings with these sources, files, folders and globs, and no others."""
    loaded = files.load()
    lists = {"transcripts.sources": sources, "transcripts.paths": paths}
    values = {key: tuple(dict.fromkeys(one)) for key, one in lists.items()}
    notes = [_wins(*one) for one in _stronger(loaded, load.Source.USER, values)]
    # Without its key a list is empty.
    there = loaded.layers[load.Source.USER]
    needed = {key: value for key, value in values.items() if value or key in there}
    return _plan(loaded, load.Source.USER, needed, notes)


def opted_in(files: load.SettingsFiles) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sources and the paths that the user's own file opts in."""
    there = load.values_in(files.load().layers[load.Source.USER])
    return there.get("transcripts.sources", ()), there.get("transcripts.paths", ())


def _stronger(
    loaded: load.Loaded, source: load.Source, values: Mapping[str, Any]
) -> Iterator[tuple[str, load.Given]]:
    """Yield what sources that win over one say otherwise about the keys of values."""
    for layer in (loaded.layers[one] for one in load.STRENGTH[: load.STRENGTH.index(source)]):
        for key, value in values.items():
            if key in layer and layer[key].value != value:
                yield key, layer[key]


def _wins(key: str, entry: load.Given) -> str:
    place = entry.place or entry.source
    return f"{key}: {place} gives {toml_value(entry.value)} and wins over this file"


def _plan(
    loaded: load.Loaded, source: load.Source, values: Mapping[str, Any], notes: Sequence[str] = ()
) -> Plan:
    """Plan what to write so that a file, which must stay sound, has these values, or none."""
    file, there = loaded.file(source), load.values_in(loaded.layers[source])
    changes = {
        (*file.prefix, *schema.path_of(key)): value
        for key, value in values.items()
        if there.get(key, ...) != value
    }
    try:
        after = edited(file.text, changes)
    except CannotEdit as error:
        raise SettingsError(
            f"{file.path} cannot be changed: {error}", hint="change it by hand"
        ) from error
    parsed = parse_config(file.path, after.encode(), file.prefix) or ConfigFile(file.path)
    layer, problems = load.file_layer(source, parsed)
    problems += load.merge({**loaded.layers, source: layer})[1]
    if fatal := [problem for problem in problems if problem.fatal]:
        raise SettingsProblems(fatal)
    return Plan(source, file, after, tuple(notes))


def write(plan: Plan, files: load.SettingsFiles) -> None:
    """Make the change; a file that was trusted stays so, for what it holds now.

    Raises `FileChanged` for another file than the plan was made from, else `SettingsError`.
    """
    file, state = plan.file, files.state or StateFolder()
    was_trusted = (
        plan.source is load.Source.PROJECT and not file.is_new and load.is_trusted(file, state)
    )
    digest = replace_text(file.path, plan.after, file.sha256)
    if was_trusted:
        try:
            load.trust(replace(file, sha256=digest), state)
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
    remaining = [
        name
        for name in dict.fromkeys(named)
        if name in chosen or all(place in chosen for place in places if covers(name, place))
    ]
    others = (name for name in chosen if not any(covers(one, name) for one in remaining))
    return tuple(dict.fromkeys((*remaining, *others)))
