"""The options that several commands share, and what they stand for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from functools import wraps
from inspect import getdoc
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from memtui.cli.output import Line, Output
from memtui.data import DEMO_ROOT, read_table
from memtui.errors import MemtuiError, SettingsError, WorkspaceNotFound
from memtui.memory.workspace import Found, find_workspace
from memtui.model import FEATURES
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.report.layout import Section
from memtui.report.suggested_commands import COMMANDS, completed
from memtui.report.words import SWEPT_PARAMETERS
from memtui.settings.load import Given, Loaded, SettingsFiles, Source
from memtui.settings.schema import NO_MINIMUM, PROFILES, nearest, path_of
from memtui.text.sanitize import safe_line

VECTORS_NEED_AN_AGENT: Final = "--query-vectors needs --agent NAME or --index FILE"
Interface: TypeAlias = Callable[..., int]
"""Opens the terminal interface and returns the exit code; see `memtui.__main__.open_interface`."""


class Invocation(Struct, frozen=True):
    """The options of a command's call, and the memory it works on."""

    interface: Interface
    env: Mapping[str, str]
    here: Path
    """The current folder."""
    home: Path
    root: str | None = None
    json: bool = False
    demo: bool = False
    raw: bool = False
    flags: Mapping[str, Any] = {}
    """Settings given as options, by dotted key."""
    agent: str | None = None
    """The OpenClaw agent whose index is read."""
    index: str | None = None
    """The OpenClaw index that is read."""
    query_vectors: str | None = None
    now: Callable[[], datetime] | None = None
    """The clock that ages count from; `None` for the machine's."""

    @property
    def foreign(self) -> bool:
        """True if an agent's index is read instead of memtui's own."""
        return self.agent is not None or self.index is not None

    def with_options(
        self, *, private: bool = False, flags: Mapping[str, Any] | None = None, **options: Any
    ) -> Invocation:
        """Return the same with the options of the command; those before the command hold too.

        `private` stands for the setting that no query is remembered.

        Raises `SettingsError` for options that exclude each other.
        """
        values = {name: value for name, value in options.items() if value not in (None, False)}
        hidden = {"ui.history": Given(Source.FLAG, "--private", False)} if private else {}
        called = replace(self, flags={**self.flags, **hidden, **(flags or {})}, **values)
        refuse_several(
            {
                "--demo": called.demo,
                "--agent": called.agent is not None,
                "--index": called.index is not None,
                "--root": called.demo and called.root is not None,
            }
        )
        return called

    def completed(self, text: str) -> str:
        """Complete the commands that a message suggests with the memory of this one."""
        named = {"agent": self.agent, "index": self.index, "root": self.root}
        memory = {name: value for name, value in named.items() if value is not None}
        return completed(text, memory | ({"demo": ""} if self.demo else {}))

    def output(self) -> Output:
        """Return stdout and stderr."""
        return Output(self.env, raw=self.raw, completed=self.completed)

    def respond(
        self,
        document: Mapping[str, Any],
        lines: Iterable[Line | Section] = (),
        *,
        warnings: Iterable[object] | None = None,
        data: Iterable[str] = (),
        notes: Iterable[str] = (),
        exit_code: int = 0,
    ) -> int:
        """Print an answer as it was asked for, as a document or for people; return the exit code.

        Warnings are a part of the document; `data` are lines for programs, notes for people alone.
        """
        output = self.output()
        if self.json:
            more = {} if warnings is None else {"warnings": warnings}
            output.document({**document, **more})
            return exit_code
        output.warn(warnings or ())
        output.lines(lines)
        for line in data:
            output.data(line)
        for note in notes:
            output.note(note)
        return exit_code

    def workspace(self, folder: str | None = None) -> Found:
        """Find the memory to work on; raises `WorkspaceNotFound` with the places looked at."""
        if self.demo:
            return Found(DEMO_ROOT, "the bundled demo")
        return find_workspace(folder, env=self.env, cwd=self.here, home=self.home, root=self.root)

    def root_if_any(self) -> Path | None:
        """Find the folder to work on; `None` when none was named and none is there.

        Raises `WorkspaceNotFound` when one was named and is not there.
        """
        try:
            return self.workspace().root
        except WorkspaceNotFound:
            if self.root or self.env.get("MEMTUI_ROOT"):
                raise
            return None

    def path(self, name: str) -> Path:
        """Return the path of a file that was named on the command line."""
        return self.here / os.path.expanduser(name)

    def settings_here(self) -> Loaded:
        """Load the settings in force here, with a workspace or without."""
        return self.settings(self.root_if_any())

    def settings(self, root: Path | None) -> Loaded:
        """Load the settings in force for a workspace; raises `SettingsProblems`."""
        return SettingsFiles(self.env, root, self.flags).load()


def refuse_several(options: Mapping[str, bool]) -> None:
    """Raise `SettingsError` when more than one of some options is given."""
    names = [name for name, is_given in options.items() if is_given]
    if len(names) > 1:
        raise SettingsError(f"{' and '.join(names)} exclude each other")


def parsed(parse: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    """Return a parser of an option's value that tells what is expected instead of a wrong one."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, OverflowError):
            raise click.BadParameter(f"{text!r} is {expected}") from None

    return read


def _weights(text: str) -> tuple[float, float]:
    vector, keyword = map(float, text.split(","))
    return vector, keyword


def _feature(text: str) -> tuple[str, float]:
    name, _, weight = text.partition("=")
    return FEATURES[FEATURES.index(name)], float(weight)


def _clock(text: str) -> Callable[[], datetime]:
    """Parse a time, UTC by default, as a clock that stands still."""
    moment = datetime.fromisoformat(text)
    moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    return lambda: moment


def _day(text: str) -> str:
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError(text)
    return text


def agent_names(ctx: click.Context) -> list[str]:
    from memtui.index.foreign.agents import agents_here

    agents = agents_here(ctx.obj.env, ctx.obj.home)
    names = {agent.name for agent in agents if agent.database is not None}
    return sorted(name for name in names if name == safe_line(name))


def _loaded_for(ctx: click.Context) -> Loaded:
    """Load the settings of a line that is being typed; the defaults while they are broken."""
    invocation: Invocation = ctx.obj
    try:
        for one in filter(None, (ctx.find_root(), ctx.parent, ctx)):
            root, demo = one.params.get("root"), one.params.get("demo")
            invocation = invocation.with_options(root=root, demo=demo)
        return invocation.settings_here()
    except MemtuiError:
        return Loaded()


RANKING_PREFIX: Final = "ranking__"
"""Begins the name of the parameter of each setting of `[ranking]`; `__` stands for a dot."""
_TABLE: Final = read_table("commands.toml")
_TYPES: Final[Mapping[str, Any]] = {
    "int": int,
    "float": float,
    "file": click.Path(),
    "file or -": click.Path(allow_dash=True),
    "day": parsed(_day, "no day such as 2026-02-11"),
    "moment": parsed(_clock, "not a time such as 2026-02-11T09:00"),
    "weights": parsed(_weights, "not two numbers such as 0.3,0.7"),
    "feature": parsed(_feature, f"not a weight such as cover=4.5, of {', '.join(FEATURES)}"),
    "minimum": parsed(
        lambda text: text if text == NO_MINIMUM else float(text),
        "neither a score such as 0.35 nor off",
    ),
}
_COMPLETIONS: Final[Mapping[str, Callable[[click.Context], list[str]]]] = {
    "agents": agent_names,
    "profiles": lambda ctx: [*BUILT_IN, *_loaded_for(ctx).settings.profiles],
    "own profiles": lambda ctx: [
        *dict.fromkeys(
            path[1]
            for path in map(path_of, _loaded_for(ctx).layers[Source.USER])
            if path[0] == PROFILES
        )
    ],
    "sources": lambda ctx: ["openclaw", "claude-code", "codex"],
}
"""The names that a shell offers for a parameter, those that begin as what is typed."""
_PLACE_NAMES = frozenset({"private", *Invocation.__struct_fields__})


def parameter(row: Mapping[str, Any]) -> click.Parameter:
    """Make an option, or an argument, from its row of the table.

    A type is one of `_TYPES`, a range such as `0..100` or `1..`, or words separated by `|`.
    """
    attributes = dict(row)
    kind = attributes.pop("type", "")
    if "complete" in row:
        names_of = _COMPLETIONS[attributes.pop("complete")]
        attributes["shell_complete"] = lambda ctx, _, typed: [
            name for name in names_of(ctx) if name.startswith(typed)
        ]
    if ".." in kind:
        low, _, high = kind.partition("..")
        attributes["type"] = click.IntRange(int(low), int(high) if high else None)
    elif kind:
        attributes["type"] = _TYPES.get(kind) or click.Choice(kind.split("|"))
    if "name" in row:
        return click.Argument([attributes.pop("name")], **attributes)
    names = attributes.pop("names")
    if "/" in names:
        attributes.setdefault("default", None)
    return click.Option(names.split(), **attributes)


def command(
    name: str, of: click.Group | None = None, cls: type[click.Command] = click.Command
) -> Callable[[Callable[..., int | None]], Any]:
    """Make a function the command `name` of the table, of the program or of a group.

    It gets an `Invocation` in place of the ranking options and of the options that say on what it
    works; filters are written into its `query`.
    """
    attributes = dict(COMMANDS[name])
    attributes.pop("module", None)
    about = attributes.pop("about", "")
    places = {*attributes.pop("on", ()), attributes.pop("place", "root"), "every"}
    rows = list(attributes.pop("arguments", ()))
    listed = attributes.pop("options", [])
    for row in listed if "on" in listed else [*listed, "on"]:
        if row == "on":
            rows += [
                one for place, these in _TABLE["on"].items() if place in places for one in these
            ]
        else:
            rows += _TABLE["shared"][row] if isinstance(row, str) else [row]

    def decorate(function: Callable[..., int | None]) -> Any:
        @wraps(function)
        def call(**options: Any) -> int | None:
            ctx = click.get_current_context()
            place = {name: options.pop(name) for name in _PLACE_NAMES & options.keys()}
            invocation: Invocation = ctx.obj.with_options(flags=ranking_flags(ctx), **place)
            # The options of a group hold for its commands, too.
            ctx.obj = invocation
            options = {
                name: value
                for name, value in options.items()
                if not name.startswith(RANKING_PREFIX)
            }
            if "after" in options:
                options["query"] = " ".join(options["query"])
                for row in _TABLE["shared"]["filters"]:
                    option = row["names"]
                    values = options.pop(option.removeprefix("--"))
                    for value in values if isinstance(values, tuple) else filter(None, (values,)):
                        if not value or '"' in value:
                            raise SettingsError(f"{option} {value!r} cannot be looked for")
                        options["query"] += f' {option.removeprefix("--")}:"{value}"'
            try:
                return function(invocation, **options)
            except MemtuiError as error:
                error.message = ctx.obj.completed(error.message)
                error.hint = ctx.obj.completed(error.hint)
                raise

        attributes["help"] = f"{getdoc(function)}\n\n{about}"
        params = [parameter(row) for row in rows]
        made = click.command(name.split()[-1], cls=cls, params=params, **attributes)(call)
        if of is not None:
            of.add_command(made)
        return made

    return decorate


def ranking_flags(ctx: click.Context) -> dict[str, Given]:
    """Return the settings that the ranking options of a command line stand for, by their keys."""
    written = {param.name: param.opts[0] for param in ctx.command.params}
    flags: dict[str, Given] = {}
    for name, value in ctx.params.items():
        if name.startswith(RANKING_PREFIX) and value not in (None, ()):
            value = list(value) if name.endswith("keys") else value
            flags[name.replace("__", ".")] = Given(Source.FLAG, written[name], value)
    if (weights := flags.pop("ranking.weights", None)) is not None:
        for leg, weight in zip(("vector", "keyword"), weights.value, strict=True):
            flags[f"ranking.{leg}_weight"] = weights._replace(value=weight)
    if (weights := flags.pop("ranking.context.weights", None)) is not None:
        for feature, weight in weights.value:
            flags[f"ranking.context.{feature}"] = weights._replace(value=weight)
    # Whoever gives a parameter that does nothing without a switch wants that, too.
    for key, about in SWEPT_PARAMETERS.items():
        if "switch" in about and f"ranking.{key}" in flags:
            switch = f"ranking.{about['switch']}"
            flags.setdefault(switch, Given(Source.FLAG, written[switch.replace(".", "__")], True))
    return flags


class Subgroup(click.Group):
    """A group whose first word, where it is no command, is the argument of its `default` command.

    Where that does not take it, the nearest command is named.
    """

    def __init__(self, *args: Any, default: str | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._default = default

    def takes(self, word: str) -> bool:
        """Tell whether the default command takes a word that is no command."""
        return True

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, default = args[0], self._default
        names = [name for name in self.list_commands(ctx) if name != default]
        if word == default or word in names:
            return word, self.get_command(ctx, word), args[1:]
        if default is not None and self.takes(word):
            return default, self.get_command(ctx, default), args
        near = nearest(word, names)
        hint = f"Did you mean `{ctx.command_path} {near}`?" if near else ""
        hint = hint or f"Commands: {', '.join(names)}."
        problem = "no command" if default is None else "neither a command nor a folder"
        raise click.UsageError(f"{word!r} is {problem}. {hint}", ctx)
