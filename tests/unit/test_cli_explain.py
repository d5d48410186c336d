"""`memtui explain` opened up: terms, ranks among all chunks, and changes that really do it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from memtui.cli.common_options import ranking_flags
from memtui.cli.main import program
from memtui.model import Fusion, MinScoreRule, Ranking
from memtui.ranking.counterfactual.change import (
    Change,
    ChangeKind,
    Parameter,
    Value,
    apply,
    value_of,
)
from memtui.ranking.counterfactual.solve import least_changes
from memtui.ranking.profiles import PROFILES
from memtui.report.explanation import flags_of
from memtui.settings.load import load_settings
from tests.support import demo, recorded
from tests.support.command_line import Run, command_line, own_home
from tests.support.known import load
from tests.support.pools import NOW, chunk, pool

AT = ("--now", "2026-11-21T12:00:00+00:00")
OAUTH = "OAuth refresh token clock skew"
RAISE = ChangeKind.RAISE


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, indexed_demo: Path) -> Iterator[Path]:
    """A home of its own, in which the demo is indexed; the model is read once for all runs."""
    folder = tmp_path_factory.mktemp("home")
    demo.copy_to(folder / "data", indexed_demo)
    with pytest.MonkeyPatch.context() as patch:
        own_home(folder, patch)
        # What is said depends on what was found, not on how soon.
        patch.setattr("memtui.cli.session.EXAMINATION_SECONDS", 60.0)
        yield folder


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    call = command_line(capsys)
    return lambda *arguments: call(*arguments, *AT)


def place_of(drop: dict[str, Any]) -> str:
    return f"{drop['path']}#L{drop['start_line']}"


def apply_all(memtui: Run, *arguments: str, place: str) -> set[str]:
    """Give every suggested option to a search; the parameters that were tried."""
    asked = ("explain", *arguments, "--chunk", place, "--no-words")
    document = memtui(*asked, "--json").document
    assert not document["shown"]
    for change in document["least_changes"]:
        changed = memtui("search", *arguments, *change["flags"].split(" "), "--json").document
        ranks = {hit["chunk_id"]: hit["rank"] for hit in changed["hits"]}
        assert ranks[document["chunk_id"]] == change["rank_after"], (place, change)
    costs = [change["cost"] for change in document["least_changes"]]
    assert costs == sorted(costs)
    named = {change["parameter"] for change in document["least_changes"]}
    assert named | {one["parameter"] for one in document["without_change"]} == set(Parameter)
    return named


# --- memtui's own index -----------------------------------------------------------------------


@pytest.mark.parametrize(("query", "options", "parameters"), load("settings")["suggestions"])
def test_every_suggestion_for_the_demo_does_what_it_says(
    memtui: Run, query: str, options: str, parameters: str
) -> None:
    base = (query, "--demo", *options.split())
    drops = memtui("search", *base, "--json").document["drops"]
    places = [place_of(drop) for drop in drops[:3]]
    if not options:
        # Beyond the candidates: a larger k takes a new search.
        places = [next(place_of(drop) for drop in drops if drop["stages"][0]["rank"] == 20)]
    tried = [apply_all(memtui, *base, place=place) for place in places]
    assert set().union(*tried) >= set(parameters.split())


# --- flags --------------------------------------------------------------------------------------


def _command(name: str) -> click.Command:
    command: click.Command | None = program.get_command(click.Context(program), name)
    assert command is not None
    return command


@pytest.mark.parametrize(("parameter", "values"), load("explain")["values of parameters"].items())
def test_every_change_has_options_that_make_it(parameter: str, values: list[Value]) -> None:
    parameter = Parameter(parameter)
    for name, ranking in PROFILES.items():
        if parameter in {Parameter.HALF_LIFE, Parameter.FLOOR}:
            ranking = apply(ranking, Parameter.DECAY, True)
        if parameter is Parameter.LAMBDA:
            ranking = apply(ranking, Parameter.MMR, True)
        for value in values:
            change = Change(parameter, value_of(ranking, parameter), value, 1, True, 1, RAISE)
            flags = ("--profile", name, *flags_of(ranking, change).split(" "))
            for command in ("search", "explain"):
                context = _command(command).make_context(command, ["query", *flags])
                given = ranking_flags(context)
                settings = load_settings(flags=given, env={}).settings
                assert settings.configured_ranking(PROFILES) == apply(ranking, parameter, value)


# --- an agent's index -------------------------------------------------------------------------


@pytest.mark.parametrize("release", recorded.RELEASES)
def test_every_suggestion_for_an_agents_index_does_what_it_says(
    memtui: Run, home: Path, release: str
) -> None:
    vectors = home / "vectors.json"
    vectors.write_bytes(gzip.decompress(recorded.QUERY_VECTORS.read_bytes()))
    index = str(recorded.build(release, home / f"{release}.sqlite"))
    base = (OAUTH, "--index", index, "--query-vectors", str(vectors), "-n", "2")
    drop = memtui("search", *base, "--json").document["drops"][0]
    assert apply_all(memtui, *base, place=place_of(drop))


def test_a_minimum_may_drop_the_exact_name_that_takes_the_place() -> None:
    """Exact names come first with whatever score, so that a minimum can drop them alone."""
    named, other = chunk("named", path="a.md", project_keys=("two",)), chunk("other", line=5)
    ranking = Ranking(
        **{
            name: getattr(PROFILES["openclaw-2026.9"], name)
            for name in ("profile", "stages", "keyword_mapping", "tie_rule", "lexical_boost")
        },
        k=1,
        fusion=Fusion.WEIGHTED_SUM,
        vector_weight=0.0,
        keyword_weight=1.0,
        min_score=0.1,
        min_score_rule=MinScoreRule.PLAIN,
        project_keys=("one",),
    )
    both = pool([named, other], [], [("named", -1.0), ("other", -99.0)], tiers={"named": 3})
    found = least_changes(both, ranking, "other", now=NOW)
    change = {one.parameter: one for one in found.changes}[Parameter.MIN_SCORE]
    assert change.rank_after == 1
    assert isinstance(change.new, float)
    assert 0.9 < change.new < 0.91
