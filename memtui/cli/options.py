"""Options that several commands share, and how they become settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from memtui.settings import Loaded
    from memtui.settings.load import Flag

F = TypeVar("F", bound=Callable[..., Any])


def private_option(function: F) -> F:
    """`--private`: what is asked in the terminal interface is not written down."""
    return click.option(
        "--private", is_flag=True, help="Keep no history of queries, and read none."
    )(function)


def place_options(function: F) -> F:
    """`--root` and `--json`: on every command."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document, also on errors."),
        click.option(
            "--root", metavar="FOLDER", type=click.Path(), help="The memory folder to work on."
        ),
    ):
        function = option(function)
    return function


def foreign_options(function: F) -> F:
    """`--agent` and `--index`: an OpenClaw index instead of memtui's own, read-only."""
    return _foreign_options(function, hidden=False)


def refused_foreign_options(function: F) -> F:
    """The same where memtui would write: taken, so that the command can say why it refuses."""
    return _foreign_options(function, hidden=True)


def _foreign_options(function: F, *, hidden: bool) -> F:
    for option in (
        click.option(
            "--index",
            metavar="FILE",
            type=click.Path(),
            hidden=hidden,
            help="Read this OpenClaw index.",
        ),
        click.option(
            "--agent",
            metavar="NAME",
            hidden=hidden,
            shell_complete=_agent_names,
            help="Read the index of this OpenClaw agent.",
        ),
    ):
        function = option(function)
    return function


def query_vectors_option(function: F) -> F:
    """`--query-vectors`: what to search an agent's vectors with where its model is not at hand."""
    return click.option(
        "--query-vectors",
        "--query-vector",
        "query_vectors",
        metavar="FILE",
        type=click.Path(),
        help="With --agent or --index: vectors of queries, as JSON.",
    )(function)


def _agent_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The agents of this machine that a shell can be offered."""
    from memtui.cli.invocation import Invocation
    from memtui.engine.foreign.agent import agents_here
    from memtui.text.sanitize import safe_line

    obj = ctx.find_object(Invocation)
    env = os.environ if obj is None else obj.env
    home = Path(os.path.expanduser("~")) if obj is None else obj.home()
    names = {agent.name for agent in agents_here(env, home) if agent.database is not None}
    return sorted(n for n in names if n.startswith(incomplete) and n == safe_line(n))


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The named rankings that a shell can be offered; none while the settings are broken."""
    from memtui.settings.schema import BUILT_IN

    loaded = _loaded_for(ctx)
    own = () if loaded is None else tuple(loaded.settings.profiles)
    return [name for name in (*BUILT_IN, *own) if name.startswith(incomplete)]


def own_profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The profiles of the user's own file, which can be removed."""
    from memtui.settings import Source

    loaded = _loaded_for(ctx)
    layers = () if loaded is None else loaded.layers
    own = (name for layer in layers if layer.source is Source.USER for name in layer.profiles)
    return [name for name in own if name.startswith(incomplete)]


def _loaded_for(ctx: click.Context) -> Loaded | None:
    """The settings of a line that is being typed; `None` while they are broken."""
    from memtui.cli.invocation import Invocation
    from memtui.errors import MemtuiError
    from memtui.settings import load_settings

    obj = ctx.find_object(Invocation)
    try:
        if obj is None:
            return load_settings(env=os.environ)
        for typed in _params(ctx):
            obj = obj.with_options(root=typed.get("root"), demo=typed.get("demo", False))
        found = obj.workspace_if_any()
        return obj.settings(found.root if found else None)
    except MemtuiError:
        return None


def _params(ctx: click.Context) -> list[dict[str, Any]]:
    """The parameters of a command and of the groups that it belongs to, the outermost first."""
    return [*(_params(ctx.parent) if ctx.parent is not None else ()), ctx.params]


def demo_option(function: F) -> F:
    """`--demo`: the bundled sample memory instead of a folder."""
    return click.option("--demo", is_flag=True, help="Work on the bundled sample memory.")(function)


class WeightsType(click.ParamType["tuple[float, float]"]):
    """Two weights with a comma: vector, keyword."""

    name = "V,K"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """Parse `0.3,0.7`."""
        if isinstance(value, tuple):
            return value
        try:
            vector, keyword = (float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not two numbers such as 0.3,0.7", param, ctx)
        return vector, keyword


class MinimumType(click.ParamType["float | str"]):
    """A score, or `off` for no minimum at all, whatever the profile says."""

    name = "SCORE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """Parse `0.35` or `off`."""
        from memtui.settings.rankings import NO_MINIMUM

        if value == NO_MINIMUM:
            return NO_MINIMUM
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is neither a score such as 0.35 nor off", param, ctx)


class MomentType(click.ParamType[datetime]):
    """A date or a time in ISO 8601; UTC when it has no zone."""

    name = "ISO"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Parse `2026-02-11` or `2026-02-11T09:00:00+01:00`."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value))
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time such as 2026-02-11T09:00", param, ctx)


def ranking_options(function: F) -> F:
    """Everything about the ranking that a command line can change."""
    limit = click.option("-n", "--limit", type=int, help="How many results. [default: 6]")
    return limit(parameter_options(function))


def parameter_options(function: F) -> F:
    """Everything about the ranking but how many results there are."""
    options = (
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
        click.option("--weights", type=WeightsType(), help="Weights of vector and keyword leg."),
        click.option("--fusion", help="weighted_sum, relative_score or rrf."),
        click.option("--rrf-k", type=float, metavar="N", help="Constant of rrf."),
        click.option("--rerank/--no-rerank", default=None, help="Blend in recency and importance."),
        click.option("--dedup/--no-dedup", default=None, help="Show equal texts once."),
        click.option(
            "--min-score", type=MinimumType(), help="Leave out what scores less; off: no minimum."
        ),
        click.option("--project", multiple=True, metavar="KEY", help="Project at work."),
        click.option("--now", type=MomentType(), help="The time that ages count from. [UTC]"),
    )
    for option in reversed(options):
        function = option(function)
    return function


def explain_options(function: F) -> F:
    """What `explain` looks at, and what it writes."""
    options = (
        click.option(
            "--rank", type=click.IntRange(1), help="The result of this rank. [default: 1]"
        ),
        click.option(
            "--chunk", metavar="PATH[:LINE]", help="The file or the line here, shown or not."
        ),
        click.option(
            "--words/--no-words", default=True, help="Try queries with a word more or less."
        ),
        click.option("--passages", is_flag=True, help="Show the passages nearest to the query."),
        click.option(
            "--format",
            type=click.Choice(["text", "json", "markdown", "svg"]),
            help="What to write; by the ending of --output when it is not given.",
        ),
        click.option(
            "--output", metavar="FILE", type=click.Path(), help="Write to this file, a new one."
        ),
        click.option(
            "--force", is_flag=True, help="Replace the file of --output when it is there."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def ranking_flags(options: Mapping[str, Any]) -> dict[str, Flag]:
    """The settings that ranking options stand for.

    A lambda alone turns MMR on, a half-life or a floor alone turns decay on: whoever gives one
    wants it.
    """
    from memtui.settings.load import Flag

    mmr, decay = options["mmr"], options["decay"]
    if mmr is None and options["lambda_"] is not None:
        mmr = True
    if decay is None and (options["half_life"] is not None or options["floor"] is not None):
        decay = True
    vector, keyword = options["weights"] or (None, None)
    given = {
        "ranking.k": Flag("-n", options["limit"]),
        "ranking.candidate_multiplier": Flag(
            "--candidate-multiplier", options["candidate_multiplier"]
        ),
        "ranking.profile": Flag("--profile", options["profile"]),
        "ranking.mmr.enabled": Flag("--mmr", mmr),
        "ranking.mmr.lambda": Flag("--lambda", options["lambda_"]),
        "ranking.decay.enabled": Flag("--decay", decay),
        "ranking.decay.half_life_days": Flag("--half-life", options["half_life"]),
        "ranking.decay.floor": Flag("--floor", options["floor"]),
        "ranking.vector_weight": Flag("--weights", vector),
        "ranking.keyword_weight": Flag("--weights", keyword),
        "ranking.fusion": Flag("--fusion", options["fusion"]),
        "ranking.rrf_k": Flag("--rrf-k", options["rrf_k"]),
        "ranking.rerank.enabled": Flag("--rerank", options["rerank"]),
        "ranking.dedup": Flag("--dedup", options["dedup"]),
        "ranking.min_score": Flag("--min-score", options["min_score"]),
        "ranking.project_keys": Flag("--project", list(options["project"]) or None),
    }
    return {key: flag for key, flag in given.items() if flag.value is not None}
