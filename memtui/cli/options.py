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
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def agent_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of an agent of this machine."""
    from memtui.engine.foreign.agent import agents_here
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

_switch = functools.partial(click.option, is_flag=True)
PLACE = (
    click.option(
        "--root", metavar="FOLDER", type=click.Path(), help="The memory folder to work on."
    ),
    click.option("--json", "as_json", is_flag=True, help="One JSON document, also on errors."),
)
DEMO = _switch("--demo", help="Work on the bundled sample memory.")
PRIVATE = _switch("--private", help="Keep no history of queries, and read none.")
RAW = _switch("--raw", help="Leave control characters of notes as they are.")
VECTORS = click.option(
    *("--query-vectors", "--query-vector", "query_vectors"),
    metavar="FILE",
    type=click.Path(),
    help="With --agent or --index: vectors of queries, as JSON.",
)


def _agent_options(*, hidden: bool) -> tuple[Callable[[Any], Any], ...]:
    """`--agent` and `--index`; hidden where memtui would write and the command has to refuse."""
    return (
        click.option(
            "--agent",
            metavar="NAME",
            hidden=hidden,
            shell_complete=agent_names,
            help="Read the index of this OpenClaw agent.",
        ),
        click.option(
            "--index",
            metavar="FILE",
            type=click.Path(),
            hidden=hidden,
            help="Read this OpenClaw index.",
        ),
    )


_FILTERS = ("path", "source", "after", "before")
FILTERS = (
    click.option(
        "--path", multiple=True, metavar="TEXT", help="Only files with this in their path, or *."
    ),
    click.option("--source", multiple=True, metavar="NAME", help="memory or sessions."),
    click.option("--after", type=DAY, help="Only files of this day or later."),
    click.option("--before", type=DAY, help="Only files of an earlier day."),
)
LIMIT = click.option("-n", "--limit", type=int, help="How many results. [default: 6]")
RANKING = (
    click.option(
        "--candidate-multiplier",
        type=int,
        metavar="N",
        help="Candidates of each leg: -n times this, 50 to 200.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        shell_complete=profile_names,
        help="Named ranking: openclaw-2026.9, one of your own, ... (memtui profiles).",
    ),
    click.option("--mmr/--no-mmr", default=None, help="Push down what repeats."),
    click.option("--lambda", "lambda_", type=float, help="MMR: 1 relevance, 0 variety."),
    click.option("--decay/--no-decay", default=None, help="Let old notes count less."),
    click.option("--half-life", type=float, metavar="DAYS", help="Decay: half-life."),
    click.option("--floor", type=float, help="Decay: the factor that no age falls below."),
    click.option("--weights", type=WEIGHTS, help="Weights of vector and keyword leg."),
    click.option("--fusion", help="weighted_sum, relative_score or rrf."),
    click.option("--rrf-k", type=float, metavar="N", help="Constant of rrf."),
    click.option("--rerank/--no-rerank", default=None, help="Blend in recency and importance."),
    click.option("--dedup/--no-dedup", default=None, help="Show equal texts once."),
    click.option("--min-score", type=MINIMUM, help="Leave out what scores less; off: no minimum."),
    click.option("--project", multiple=True, metavar="KEY", help="Project at work."),
    click.option("--now", type=MOMENT, help="The time that ages count from. [UTC]"),
)
_RANKING_KEYS = (
    ("limit", "ranking.k", "-n"),
    ("candidate_multiplier", "ranking.candidate_multiplier", "--candidate-multiplier"),
    ("profile", "ranking.profile", "--profile"),
    ("mmr", "ranking.mmr.enabled", "--mmr"),
    ("lambda_", "ranking.mmr.lambda", "--lambda"),
    ("decay", "ranking.decay.enabled", "--decay"),
    ("half_life", "ranking.decay.half_life_days", "--half-life"),
    ("floor", "ranking.decay.floor", "--floor"),
    ("vector_weight", "ranking.vector_weight", "--weights"),
    ("keyword_weight", "ranking.keyword_weight", "--weights"),
    ("fusion", "ranking.fusion", "--fusion"),
    ("rrf_k", "ranking.rrf_k", "--rrf-k"),
    ("rerank", "ranking.rerank.enabled", "--rerank"),
    ("dedup", "ranking.dedup", "--dedup"),
    ("min_score", "ranking.min_score", "--min-score"),
    ("project", "ranking.project_keys", "--project"),
)
"""Name of a ranking option, the setting that it stands for, and how it is written."""
_PLACE_NAMES = frozenset({"root", "demo", "agent", "index", "query_vectors", "private"})
RANKING_OPTIONS = frozenset(name for name, _, _ in _RANKING_KEYS) | {"weights"}


def ranking_flags(options: Mapping[str, Any]) -> dict[str, Flag]:
    """The settings that ranking options stand for.

    A lambda alone turns MMR on, a half-life or a floor alone turns decay on: whoever gives one
    wants it.
    """
    given = dict(options)
    if given["mmr"] is None and given["lambda_"] is not None:
        given["mmr"] = True
    if given["decay"] is None and (given["half_life"] is not None or given["floor"] is not None):
        given["decay"] = True
    given["vector_weight"], given["keyword_weight"] = given["weights"] or (None, None)
    given["project"] = list(given["project"]) or None
    return {
        key: Flag(written, given[name])
        for name, key, written in _RANKING_KEYS
        if given.get(name) is not None
    }


def filtered(query: str, options: Mapping[str, Any]) -> str:
    """The query with the filters of the options written into it.

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
) -> Callable[[Command], Command]:
    """Give a command the options that say on which memory it works.

    The command gets an `Invocation` in place of them, and in place of the ranking options but
    `now`; filters are written into its `query`.
    """
    declared = added(
        *([VECTORS] if vectors else ()),
        *(_agent_options(hidden=refuses_agent) if agent or refuses_agent else ()),
        *([DEMO] if demo else ()),
        *([PRIVATE] if private else ()),
        *PLACE,
    )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(**options: Any) -> int | None:
            invocation: Invocation = click.get_current_context().obj
            place = {name: options.pop(name) for name in _PLACE_NAMES & options.keys()}
            invocation = invocation.with_options(json=options.pop("as_json"), **place)
            if "after" in options:
                options["query"] = filtered(" ".join(options["query"]), options)
                for name in _FILTERS:
                    del options[name]
            if "mmr" in options:
                chosen = {name: options.pop(name) for name in RANKING_OPTIONS & options.keys()}
                invocation = invocation.with_flags(ranking_flags(chosen))
            return command(invocation, **options)

        return declared(call)

    return decorate
