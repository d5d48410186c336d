"""The real program's answers: every recorded query, from the index and from recorded legs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memtui.cli.main import run as run_cli
from memtui.engine.foreign.query_vectors import load_given
from memtui.engine.foreign.verify import (
    FROM_LEGS,
    RecordedSettings,
    Verification,
    load_recording,
    verify,
)
from memtui.errors import SettingsError
from memtui.index.foreign.agents import ForeignTarget
from memtui.model import Ranking
from memtui.settings.openclaw.releases import with_fields
from tests.support import recorded
from tests.support.known import cases, load
from tests.support.openclaw import edit

# sqlite-vec can read these indexes, so only decay (another exp) may differ, in the last bit.
LAST_BIT = 2.3e-16
OTHERS = 12
"""Queries among which one that was tampered with is found; all of them are reproduced elsewhere."""


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recorded")
    return {
        release: recorded.build(release, folder / f"{release}.sqlite")
        for release in recorded.RELEASES
    }


def run(index: Path, recording: Path) -> Verification:
    return verify(
        ForeignTarget(index),
        load_recording(recording),
        vectors=load_given(recorded.QUERY_VECTORS),
        env={},
    )


@pytest.mark.parametrize("name", recorded.RECORDINGS)
def test_every_recorded_query_is_reproduced(
    indexes: dict[str, Path], name: str, tmp_path: Path
) -> None:
    release = name.split("-", 1)[0]
    found = run(indexes[release], recorded.recording(name, tmp_path))
    assert [(v.query, v.stage, v.detail) for v in found.queries if not v.agrees] == []
    assert len(found.queries) == 36
    assert found.profile == f"openclaw-{release.rsplit('.', 1)[0]}"
    assert (found.score_difference or 0.0) <= LAST_BIT
    from_legs = [verdict.from_legs for verdict in found.queries if verdict.from_legs is not None]
    assert all(difference <= FROM_LEGS for difference in from_legs)
    assert bool(from_legs) is (release != "2026.9.6")


def tampered(tmp_path: Path, change: Any) -> Path:
    """A recording in which one number is not what the program said."""
    path = recorded.recording("2026.4.26-mmr-decay", tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["queries"][OTHERS:]
    change(next(query for query in content["queries"] if len(query["results"]) >= 3))
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def add(values: Any, key: Any) -> None:
    values[key] += 1e-5


@pytest.mark.parametrize(
    ("change", "stage"),
    [
        (lambda query: add(query["legs"][1]["hits"][3], 1), "vector"),
        (lambda query: add(query["results"][0], "textScore"), "keyword"),
        (lambda query: add(query["results"][0], "score"), "decay"),
        (lambda query: query["results"].insert(1, query["results"].pop(2)), "mmr"),
        (lambda query: query["results"].pop(), "min_score"),
        (lambda query: query["results"][0].update(path="memory/nowhere.md"), "candidates"),
        (lambda query: query["results"][0].update(snippet="another"), "snippet"),
    ],
)
def test_a_difference_is_named_by_its_first_stage(
    indexes: dict[str, Path], tmp_path: Path, change: Any, stage: str
) -> None:
    found = run(indexes["2026.4.26"], tampered(tmp_path, change))
    assert not found.agrees
    assert [v.stage for v in found.queries if not v.agrees] == [stage]


def content_of(tmp_path: Path) -> Any:
    return json.loads(recorded.recording("2026.4.26-default", tmp_path).read_text(encoding="utf-8"))


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def shared_place(indexes: dict[str, Path], tmp_path: Path) -> tuple[Path, Any]:
    """An index whose two best chunks for a query have the same lines, and what it answers."""
    content = content_of(tmp_path)
    query = next(
        query
        for query in content["queries"]
        if len({result["score"] for result in query["results"]}) >= 3 and not query["opts"]
    )
    first, second = query["results"][:2]
    index = Path(shutil.copy(indexes["2026.4.26"], tmp_path / "shared.sqlite"))
    edit(
        index,
        f"UPDATE chunks SET path = '{first['path']}', start_line = {first['startLine']}, "
        f"end_line = {first['endLine']} WHERE path = '{second['path']}' "
        f"AND start_line = {second['startLine']}",
    )
    second.update({key: first[key] for key in ("path", "startLine", "endLine")})
    return index, {**content, "queries": [query]}


def test_chunks_of_the_same_lines_are_told_apart_and_paired_in_their_order_where_ranks_differ(
    shared_place: tuple[Path, Any], tmp_path: Path
) -> None:
    index, content = shared_place
    found = run(index, written(tmp_path / "same.json", content))
    assert [(verdict.stage, verdict.detail) for verdict in found.queries] == [(None, "")]
    assert (found.score_difference or 0.0) <= LAST_BIT
    results = content["queries"][0]["results"]
    results.insert(0, results.pop(2))
    (verdict,) = run(index, written(tmp_path / "moved.json", content)).queries
    assert (verdict.stage, verdict.detail[:7]) == ("fusion", "rank 1:")


@pytest.mark.parametrize(
    ("shown", "recorded_results", "stage"),
    [(1, [0, 1], "cut"), (2, [0], "min_score"), (3, [2, 1], "min_score")],
)
def test_one_of_two_chunks_of_the_same_lines_that_is_not_there_is_named(
    shared_place: tuple[Path, Any],
    tmp_path: Path,
    shown: int,
    recorded_results: list[int],
    stage: str,
) -> None:
    index, content = shared_place
    (query,) = content["queries"]
    query["opts"] = {"maxResults": shown}
    query["results"] = [query["results"][place] for place in recorded_results]
    del query["legs"]
    (verdict,) = run(index, written(tmp_path / "one.json", content)).queries
    assert (verdict.agrees, verdict.stage) == (False, stage)
    assert (verdict.score_difference or 0.0) <= LAST_BIT


def test_a_result_is_named_by_the_stage_that_lost_it(
    indexes: dict[str, Path], tmp_path: Path
) -> None:
    content = content_of(tmp_path)
    for query in content["queries"]:
        query["opts"] = {"minScore": 0.6}
        del query["legs"]
    found = run(indexes["2026.4.26"], written(tmp_path / "lost.json", content)).queries
    lost = {verdict.stage for verdict in found if "was lost here" in verdict.detail}
    assert "min_score" in lost


@pytest.mark.parametrize(("enabled", "asked", "finds"), load("agents")["enabled sources"])
def test_only_enabled_sources_that_are_asked_for_are_searched(
    indexes: dict[str, Path], tmp_path: Path, enabled: Any, asked: Any, finds: bool
) -> None:
    """Without any, nothing is; an empty list asks for what is configured, as the program has it."""
    content = content_of(tmp_path)
    content["settings"]["sources"] = enabled
    query = next(query for query in content["queries"] if query["results"])
    query["opts"]["sources"] = asked
    del query["legs"]
    content["queries"] = [query, {**query, "results": []}]
    found = run(indexes["2026.4.26"], written(tmp_path / "sources.json", content))
    assert [verdict.agrees for verdict in found.queries] == [finds, not finds]


def test_a_query_for_no_enabled_source_needs_no_vector(
    indexes: dict[str, Path], tmp_path: Path
) -> None:
    content = {"queries": [{"query": "a", "opts": {"sources": ["sessions"]}, "results": []}]}
    recording = load_recording(written(tmp_path / "none.json", content))
    assert verify(ForeignTarget(indexes["2026.4.26"]), recording, env={}).agrees


def settings_of(tmp_path: Path, settings: Any) -> RecordedSettings:
    content = {"settings": settings, "queries": [{"query": "a", "results": []}]}
    loaded = load_recording(written(tmp_path / "settings.json", content)).settings
    assert loaded is not None
    return loaded


@pytest.mark.parametrize(("written_weights", "weights"), load("agents")["weights"])
def test_weights_are_the_programs(
    tmp_path: Path, written_weights: Any, weights: list[float]
) -> None:
    base = Ranking(vector_weight=0.25, keyword_weight=0.75)
    settings = settings_of(tmp_path, {"query": {"hybrid": written_weights}})
    ranking = with_fields(base, settings.search)
    assert [ranking.vector_weight, ranking.keyword_weight] == weights


@pytest.mark.parametrize(("change", "said"), cases("agents", "recordings that cannot be used"))
def test_what_of_a_recording_cannot_be_used_is_named(
    tmp_path: Path, change: Any, said: str
) -> None:
    query = {"query": "a", "results": []}
    if change.keys() <= {"now", "settings", "queries"}:
        content = {"queries": [query], **change}
    else:
        content = {"queries": [{**query, **change}]}
    path = written(tmp_path / "answers.json", content)
    with pytest.raises(SettingsError) as raised:
        load_recording(path)
    assert f"answers.json: {said}" in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", ":1: broken JSON"), ("{}", "missing required field `queries`"), ("[]", "no query"),
     ("null", "neither an object nor a list"), ("[1]", "query 1: Expected `object`")],
)  # fmt: skip
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "answers.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=said) as raised:
        load_recording(path)
    assert 'must hold {"query": …, "results": […]}, a list of these' in raised.value.hint


@pytest.fixture
def called(
    indexes: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> Callable[..., tuple[int, Any]]:
    """Runs `memtui verify --json` over recordings; its exit code and its one document."""
    for name in list(os.environ):
        if name.startswith(("MEMTUI_", "OPENCLAW_", "CLAWDBOT_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def call(*recordings: Path) -> tuple[int, Any]:
        against = [word for path in recordings for word in ("--against", str(path))]
        vectors = ("--query-vectors", str(recorded.QUERY_VECTORS))
        index = ("--index", str(indexes["2026.4.26"]))
        code = run_cli(("verify", *index, *against, *vectors, "--json"), lambda *_, **__: 0)
        return code, json.loads(capsys.readouterr().out)

    return call


def test_the_exit_code_tells_agreement_difference_and_a_recording_that_is_none(
    called: Callable[..., tuple[int, Any]], tmp_path: Path
) -> None:
    content = content_of(tmp_path)
    content["queries"] = [query for query in content["queries"] if query["results"]][:2]
    good = written(tmp_path / "good.json", content)
    content["queries"][1]["results"].pop()
    bad = written(tmp_path / "bad.json", content)
    empty = written(tmp_path / "empty.json", [])

    code, document = called(good)
    assert (code, document["agrees"]) == (0, True)
    code, document = called(good, bad)
    assert (code, document["agrees"]) == (1, False)
    assert [found["agrees"] for found in document["recordings"]] == [True, False]
    code, document = called(good, empty)
    assert (code, document["error"]["exit_code"]) == (2, 2)
    assert document["error"]["message"].endswith("empty.json: it holds no query")
