"""Options that several commands share, and how they become settings."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from memtui.errors import MemtuiError, SettingsError
from memtui.settings import Source, load_settings
from memtui.settings.load import Flag
from memtui.settings.rankings import NO_MINIMUM
from memtui.settings.schema import BUILT_IN

if TYPE_CHECKING:
    from memtui.cli.invocation import Invocation
    from memtui.settings import Loaded

Command: TypeAlias = Callable[..., int | None]
_PLACE = frozenset({"root", "demo", "agent", "index", "query_vectors", "private", "raw", "now"})
_RANKING = "ranking__"
_FILTERS = ("path", "source", "after", "before")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def agent_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an agent of this machine."""
    from memtui.index.foreign.discovery import agents_here
    from memtui.text.sanitize import safe_line

    invocation: Invocation | None = ctx.obj
    env = os.environ if invocation is None else invocation.env
    home = Path(os.path.expanduser("~")) if invocation is None else invocation.home()
    names = {agent.name for agent in agents_here(env, home) if agent.database is not None}
    return sorted(n for n in names if n.startswith(incomplete) and n == safe_line(n))


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a ranking; of a built-in one alone while the settings are broken."""
    loaded = _loaded_for(ctx)
    own = () if loaded is None else tuple(loaded.settings.profiles)
    return [name for name in (*BUILT_IN, *own) if name.startswith(incomplete)]


def own_profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a profile of the user's own file, which can be removed."""
    loaded = _loaded_for(ctx)
    layers = () if loaded is None else loaded.layers
    own = (name for layer in layers if layer.source is Source.USER for name in layer.profiles)
    return [name for name in own if name.startswith(incomplete)]


def _loaded_for(ctx: click.Context) -> Loaded | None:
    """Load the settings of a line that is being typed; `None` while they are broken."""
    invocation: Invocation | None = ctx.obj
    try:
        if invocation is None:
            return load_settings(env=os.environ)
        for typed in _params(ctx):
            invocation = invocation.with_options(
                root=typed.get("root"), demo=typed.get("demo", False)
            )
        return invocation.settings_here()
    except MemtuiError:
        return None


def _params(ctx: click.Context) -> list[dict[str, Any]]:
    """The parameters of a command and of the groups that it belongs to, the outermost first."""
    return [*(_params(ctx.parent) if ctx.parent is not None else ()), ctx.params]


class Parsed(click.ParamType[Any]):
    """A parameter that a function parses; what its `ValueError` says is the usage error."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text; anything else has been parsed already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _weights(text: str) -> tuple[float, float]:
    try:
        vector, keyword = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not two numbers such as 0.3,0.7") from None
    return vector, keyword


def _minimum(text: str) -> float | str:
    try:
        return NO_MINIMUM if text == NO_MINIMUM else float(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a score such as 0.35 nor off") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time such as 2026-02-11T09:00") from None


def _day(text: str) -> str:
    if not _DAY.fullmatch(text):
        raise ValueError(f"{text!r} is no day such as 2026-02-11")
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ValueError(f"{text!r} is no day: {error}") from None


WEIGHTS = Parsed("V,K", _weights)
MINIMUM = Parsed("SCORE", _minimum)
MOMENT = Parsed("ISO", _moment)
DAY = Parsed("YYYY-MM-DD", _day)

PLACE = (
    click.option(
        "--root", metavar="FOLDER", type=click.Path(), help="The memory folder to work on."
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON document, also on errors."),
)
DEMO = click.option("--demo", is_flag=True, help="Work on the bundled sample memory.")
PRIVATE = click.option("--private", is_flag=True, help="Keep no history of queries, and read none.")
RAW = click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
VECTORS = click.option(
    *("--query-vectors", "--query-vector", "query_vectors"),
    metavar="FILE",
    type=click.Path(),
    help="With --agent or --index: vectors of queries, as JSON.",
)
FILTERS = (
    click.option(
        "--path", multiple=True, metavar="TEXT", help="Only files with this in their path, or *."
    ),
    click.option("--source", multiple=True, metavar="NAME", help="memory or sessions."),
    click.option("--after", type=DAY, help="Only files of this day or later."),
    click.option("--before", type=DAY, help="Only files of an earlier day."),
)


def _setting(*names: str, key: str | None = None, **options: Any) -> Callable[[Any], Any]:
    """Declare the option of a setting of `[ranking]`: its parameter is named after the key."""
    name = (key or names[0].removeprefix("--")).replace("-", "_").replace(".", "__")
    return click.option(*names, f"{_RANKING}{name}", **options)


LIMIT = _setting("-n", "--limit", key="k", type=int, help="How many results. [default: 6]")
RANKING = (
    _setting(
        "--candidate-multiplier",
        type=int,
        metavar="N",
        help="Candidates of each leg: -n times this, 50 to 200.",
    ),
    _setting(
        "--profile",
        metavar="NAME",
        shell_complete=profile_names,
        help="Named ranking: openclaw-2026.9, one of your own, ... (memtui profiles).",
    ),
    _setting("--mmr/--no-mmr", key="mmr.enabled", default=None, help="Push down what repeats."),
    _setting("--lambda", key="mmr.lambda", type=float, help="MMR: 1 relevance, 0 variety."),
    _setting(
        "--decay/--no-decay", key="decay.enabled", default=None, help="Let old notes count less."
    ),
    _setting(
        "--half-life",
        key="decay.half_life_days",
        type=float,
        metavar="DAYS",
        help="Decay: half-life.",
    ),
    _setting(
        "--floor", key="decay.floor", type=float, help="Decay: the factor that no age falls below."
    ),
    _setting("--weights", type=WEIGHTS, help="Weights of vector and keyword leg."),
    _setting("--fusion", help="weighted_sum, relative_score or rrf."),
    _setting("--rrf-k", type=float, metavar="N", help="Constant of rrf."),
    _setting(
        "--rerank/--no-rerank",
        key="rerank.enabled",
        default=None,
        help="Blend in recency and importance.",
    ),
    _setting("--dedup/--no-dedup", key="dedup", default=None, help="Show equal texts once."),
    _setting("--min-score", type=MINIMUM, help="Leave out what scores less; off: no minimum."),
    _setting(
        "--project", key="project_keys", multiple=True, metavar="KEY", help="Project at work."
    ),
    click.option("--now", type=MOMENT, help="The time that ages count from. [UTC]"),
)
_TURNED_ON_BY = {
    "ranking.mmr.lambda": "ranking.mmr.enabled",
    "ranking.decay.half_life_days": "ranking.decay.enabled",
    "ranking.decay.floor": "ranking.decay.enabled",
}
"""Whoever gives the one wants the other."""


def ranking_flags(ctx: click.Context) -> dict[str, Flag]:
    """Return the settings that the ranking options of a command line stand for."""
    written = {param.name: param.opts[0] for param in ctx.command.params}
    flags = {
        name.replace("__", "."): Flag(
            written[name], list(value) if name.endswith("keys") else value
        )
        for name, value in ctx.params.items()
        if name.startswith(_RANKING) and value not in (None, ())
    }
    weights = flags.pop("ranking.weights", None)
    if weights is not None:
        for leg, weight in zip(("vector", "keyword"), weights.value, strict=True):
            flags[f"ranking.{leg}_weight"] = Flag(weights.name, weight)
    for key, switch in _TURNED_ON_BY.items():
        if key in flags:
            flags.setdefault(switch, Flag(written[switch.replace(".", "__")], True))
    return flags


def filtered(query: str, options: Mapping[str, Any]) -> str:
    """Return the query with the filters of the options written into it.

    Raises `SettingsError` for a value that cannot be written there.
    """
    written = [query]
    for name in _FILTERS:
        values = options[name]
        for value in values if isinstance(values, tuple) else filter(None, (values,)):
            if not value or '"' in value:
                raise SettingsError(f"--{name} {value!r} cannot be looked for")
            written.append(f'{name}:"{value}"')
    return " ".join(written)


def added(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Give a command several options, in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


filter_options = added(*FILTERS)
parameter_options = added(*RANKING)
ranking_options = added(LIMIT, *RANKING)


def on_memory(
    *,
    demo: bool = False,
    agent: bool = False,
    refuses_agent: bool = False,
    vectors: bool = False,
    private: bool = False,
    raw: bool = False,
) -> Callable[[Command], Command]:
    """Give a command the options that say on which memory it works, and how it answers.

    The command gets an `Invocation` in place of them and of the ranking options; filters are
    written into its `query`. `--agent` and `--index` are hidden where memtui would write and the
    command has to refuse them.
    """
    of_agent = (
        click.option(
            "--agent",
            metavar="NAME",
            hidden=refuses_agent,
            shell_complete=agent_names,
            help="Read the index of this OpenClaw agent.",
        ),
        click.option(
            "--index",
            metavar="FILE",
            type=click.Path(),
            hidden=refuses_agent,
            help="Read this OpenClaw index.",
        ),
    )
    declared = added(
        *([RAW] if raw else ()),
        *([VECTORS] if vectors else ()),
        *(of_agent if agent or refuses_agent else ()),
        *([DEMO] if demo else ()),
        *([PRIVATE] if private else ()),
        *PLACE,
    )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(**options: Any) -> int | None:
            ctx = click.get_current_context()
            place = {name: options.pop(name) for name in _PLACE & options.keys()}
            invocation: Invocation = ctx.obj.with_options(json=options.pop("as_json"), **place)
            if "after" in options:
                query = filtered(" ".join(options["query"]), options)
                others = {name: options[name] for name in options.keys() - set(_FILTERS)}
                options = {**others, "query": query}
            invocation = invocation.with_flags(ranking_flags(ctx))
            own = {name: options[name] for name in options if not name.startswith(_RANKING)}
            return command(invocation, **own)

        return declared(call)

    return decorate
