"""Merging the layers of the configuration, key by key, with the origin of every value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from memtui.settings.files import ConfigFile, read_config
from memtui.settings.layers import (
    Layer,
    Source,
    environment_layer,
    file_layer,
    flag_layer,
    is_binding,
)
from memtui.settings.leaves import leaves, nested, profile_key, profile_of, value_of
from memtui.settings.limits import ValidationError
from memtui.settings.places import (
    CONFIG_VARIABLE,
    PROJECT_FILE,
    PROJECT_TABLE_FILE,
    user_config_file,
)
from memtui.settings.problems import Problem, ProblemCode, SettingsProblems
from memtui.settings.profile_names import nearest_profile, shown_name
from memtui.settings.schema import BUILT_IN, Settings
from memtui.settings.state import StateFolder
from memtui.settings.trust import is_trusted, protected_keys

PROJECT_PREFIX = ("tool", "memtui")


@dataclass(frozen=True, slots=True)
class Given:
    """A value that a source gave for a key, and where."""

    source: Source
    place: str
    value: Any


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the value of a key comes from, and what it took the place of, strongest first."""

    key: str
    value: Any
    layer: Layer | None
    beaten: tuple[Layer, ...] = ()

    @property
    def source(self) -> Source:
        """The source of the value."""
        return Source.DEFAULT if self.layer is None else self.layer.source

    @property
    def place(self) -> str:
        """`file:line`, `$VARIABLE` or the flag; empty for a default."""
        return "" if self.layer is None else self.layer.place(self.key)

    @property
    def overrode(self) -> tuple[Given, ...]:
        """The values that were given too and did not win."""
        return tuple(
            Given(layer.source, layer.place(self.key), layer.values[self.key])
            for layer in self.beaten
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, the origin of each, and what was ignored on the way."""

    settings: Settings
    origins: Mapping[str, Origin]
    """By dotted key: every key of the schema, every binding and every key of a profile that is
    set. A profile is one value: the strongest file that defines it gives all of its keys."""
    warnings: tuple[str, ...]
    user_file: Path
    project_file: Path | None
    """The project's file, if there is one, trusted or not."""
    layers: tuple[Layer, ...] = ()
    """What each source gave, strongest first."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The layers, strongest first, and everything that is wrong with them."""

    layers: tuple[Layer, ...]
    problems: tuple[Problem, ...]
    user_file: Path
    project: ConfigFile | None
    user: ConfigFile | None = None
    """The user's file, if it can be read."""


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str],
    root: Path | None = None,
    state: StateFolder | None = None,
) -> Loaded:
    """Load the settings for a workspace: flag > environment > project > user > default.

    `flags` maps dotted keys to values or `Flag`s; `None` values are not set. Raises
    `SettingsProblems` for anything but unknown keys and untrusted values, which are warnings.
    """
    return settle(gather(flags=flags or {}, env=env, root=root, state=state))


def settle(gathered: Gathered) -> Loaded:
    """What the sources come to; raises `SettingsProblems` as `load_settings` does."""
    settings, contradictions = merge(gathered.layers)
    problems = (*gathered.problems, *contradictions)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal or settings is None:
        raise SettingsProblems(fatal)
    return Loaded(
        settings,
        _origins(settings, gathered.layers),
        tuple(str(problem) for problem in problems),
        gathered.user_file,
        gathered.project.path if gathered.project is not None else None,
        gathered.layers,
    )


def check_settings(
    *, env: Mapping[str, str], root: Path | None = None, state: StateFolder | None = None
) -> tuple[Problem, ...]:
    """Everything that is wrong with the configuration; never raises for its content."""
    gathered = gather(flags={}, env=env, root=root, state=state)
    return (*gathered.problems, *merge(gathered.layers)[1])


def gather(
    *,
    flags: Mapping[str, Any],
    env: Mapping[str, str],
    root: Path | None,
    state: StateFolder | None,
) -> Gathered:
    """Read every source; what cannot be used is left out and listed."""
    problems: list[Problem] = []
    user_file = user_config_file(env)
    user = _collect(read_config(user_file), problems)
    if user is None and env.get(CONFIG_VARIABLE) and not problems:
        problems.append(
            Problem(ProblemCode.UNREADABLE, f"${CONFIG_VARIABLE}", "", f"no such file: {user_file}")
        )
    project = project_file(root, problems)
    layers = [flag_layer(flags), environment_layer(env)]
    if project is not None:
        layers.append(_project_layer(project, state or StateFolder()))
    if user is not None:
        layers.append(file_layer(Source.USER, user))
    for _, found in layers:
        problems.extend(found)
    merged = tuple(layer for layer, _ in layers)
    return Gathered(merged, tuple(problems), user_file, project, user)


def project_file(root: Path | None, problems: list[Problem]) -> ConfigFile | None:
    """The workspace's own configuration: `.memtui.toml`, else `[tool.memtui]` of pyproject.toml."""
    if root is None:
        return None
    own = _collect(read_config(root / PROJECT_FILE), problems)
    shared = _collect(read_config(root / PROJECT_TABLE_FILE, PROJECT_PREFIX), problems)
    if own is not None and shared is not None:
        problems.append(
            Problem(
                ProblemCode.SHADOWED_FILE,
                shared.place(()),
                "tool.memtui",
                f"not read, because {own.path.name} is there too",
                fatal=False,
            )
        )
    return own or shared


def _collect(found: ConfigFile | Problem | None, problems: list[Problem]) -> ConfigFile | None:
    if isinstance(found, Problem):
        problems.append(found)
        return None
    return found


def _project_layer(file: ConfigFile, state: StateFolder) -> tuple[Layer, list[Problem]]:
    layer, problems = file_layer(Source.PROJECT, file)
    withheld = protected_keys(layer.values)
    if not withheld or is_trusted(file, state):
        return layer, problems
    problems.extend(
        Problem(
            ProblemCode.PROTECTED,
            layer.place(key),
            key,
            "ignored: a project file may not set it until you trust the file",
            "memtui trust",
            fatal=False,
        )
        for key in withheld
    )
    kept = {key: value for key, value in layer.values.items() if key not in withheld}
    return Layer(layer.source, kept, layer.place), problems


def merge(layers: Sequence[Layer]) -> tuple[Settings | None, list[Problem]]:
    """The settings of layers given strongest first, and where they contradict one another."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        anew = set(layer.profiles)
        merged = {key: value for key, value in merged.items() if _profile(key) not in anew}
        merged.update(layer.values)
    try:
        settings = Settings.model_validate(nested(merged))
    except ValidationError as error:
        return None, [Problem(ProblemCode.WRONG_VALUE, "", "", str(error))]
    return settings, _contradictions(settings, layers)


def _contradictions(settings: Settings, layers: Sequence[Layer]) -> list[Problem]:
    found: list[Problem] = []

    def report(key: str, message: str) -> None:
        place = next((layer.place(key) for layer in layers if key in layer.values), "")
        found.append(Problem(ProblemCode.CONTRADICTION, place, key, message))

    chunking = settings.chunking
    if chunking.overlap >= chunking.tokens:
        key = _strongest(("chunking.overlap", "chunking.tokens"), layers)
        report(
            key, f"chunking.overlap ({chunking.overlap}) must be below tokens ({chunking.tokens})"
        )
    weights = (settings.ranking.vector_weight, settings.ranking.keyword_weight)
    if weights == (0.0, 0.0):
        key = _strongest(("ranking.vector_weight", "ranking.keyword_weight"), layers)
        report(key, "vector_weight and keyword_weight must not both be 0")
    for name, profile in settings.profiles.items():
        if (profile.vector_weight, profile.keyword_weight) == (0.0, 0.0):
            key = profile_key(name, "vector_weight")
            report(key, "vector_weight and keyword_weight must not both be 0")
    return [*found, *_unknown_profiles(settings, layers)]


def _unknown_profiles(settings: Settings, layers: Sequence[Layer]) -> Iterator[Problem]:
    """The names of `ranking.profile` that no profile has, in every layer that gives one."""
    key = "ranking.profile"
    known = (*BUILT_IN, *settings.profiles)
    for layer in layers:
        name = layer.values.get(key)
        if name is not None and name not in known:
            message = f"no such profile: {shown_name(name)}"
            hint = nearest_profile(name, known)
            yield Problem(ProblemCode.WRONG_VALUE, layer.place(key), key, message, hint)


def _profile(key: str) -> str | None:
    """The own profile that a key belongs to."""
    within = profile_of(key)
    return within[0] if within is not None else None


def _strongest(keys: tuple[str, ...], layers: Sequence[Layer]) -> str:
    return next((key for layer in layers for key in keys if key in layer.values), keys[0])


def _origins(settings: Settings, layers: Sequence[Layer]) -> dict[str, Origin]:
    bound = {key for layer in layers for key in layer.values if is_binding(key)}
    origins: dict[str, Origin] = {}
    for key in (*leaves(), *sorted(bound), *_profile_keys(settings, layers)):
        givers = tuple(layer for layer in layers if key in layer.values)
        winner = givers[0] if givers else None
        origins[key] = Origin(key, value_of(settings, key), winner, givers[1:])
    return origins


def _profile_keys(settings: Settings, layers: Sequence[Layer]) -> Iterator[str]:
    """The keys of the own profiles, of each those of the strongest file that defines it."""
    keys: dict[str, list[str]] = {name: [] for name in settings.profiles}
    for layer in layers:
        found: dict[str, list[str]] = {}
        for key in layer.values:
            within = profile_of(key)
            if within is not None:
                found.setdefault(within[0], []).append(key)
        for name, of_it in found.items():
            keys[name] = keys[name] or of_it
    return chain.from_iterable(keys.values())
