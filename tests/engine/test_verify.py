"""The real program's answers: every recorded query, from the index and from recorded legs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memtui.engine.foreign.answers import load_recording
from memtui.engine.foreign.comparison import FROM_LEGS
from memtui.engine.foreign.target import ForeignTarget
from memtui.engine.foreign.verify import Verification, verify
from memtui.engine.given_vectors import load_given
from memtui.errors import SettingsError
from tests.support import recorded

# sqlite-vec can read these indexes, so only decay (another exp) may differ, in the last bit.
LAST_BIT = 2.3e-16


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
        given=load_given(recorded.QUERY_VECTORS),
        env={},
    )


@pytest.mark.parametrize("name", recorded.RECORDINGS)
def test_every_recorded_query_is_reproduced(
    indexes: dict[str, Path], name: str, tmp_path: Path
) -> None:
    release = name.split("-", 1)[0]
    found = run(indexes[release], recorded.recording(name, tmp_path))
    assert [(v.query, v.stage, v.detail) for v in found.verdicts if not v.agrees] == []
    assert len(found.verdicts) == 36
    assert found.profile == f"openclaw-{release.rsplit('.', 1)[0]}"
    assert found.score_difference <= LAST_BIT


def test_recorded_legs_alone_give_the_same_scores(indexes: dict[str, Path], tmp_path: Path) -> None:
    recording = recorded.recording("2026.7.1-mmr-decay", tmp_path)
    found = run(indexes["2026.7.1"], recording)
    from_legs = [verdict.from_legs for verdict in found.verdicts]
    assert None not in from_legs
    assert all(value is not None and value <= FROM_LEGS for value in from_legs)


def tampered(tmp_path: Path, change: Any) -> Path:
    """A recording in which one number is not what the program said."""
    path = recorded.recording("2026.4.26-mmr-decay", tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    change(next(query for query in content["queries"] if len(query["results"]) >= 3))
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def shift_vector_leg(query: Any) -> None:
    query["legs"][1]["hits"][3][1] += 1e-5


def shift_text_score(query: Any) -> None:
    query["results"][0]["textScore"] += 1e-5


def shift_score(query: Any) -> None:
    query["results"][0]["score"] += 1e-5


def swap_results(query: Any) -> None:
    results = query["results"]
    results[1], results[2] = results[2], results[1]


def drop_result(query: Any) -> None:
    del query["results"][-1]


def invent_result(query: Any) -> None:
    query["results"][0]["path"] = "memory/nowhere.md"


def change_snippet(query: Any) -> None:
    query["results"][0]["snippet"] += "."


@pytest.mark.parametrize(
    ("change", "stage"),
    [
        (shift_vector_leg, "vector"),
        (shift_text_score, "keyword"),
        (shift_score, "decay"),
        (swap_results, "mmr"),
        (drop_result, "min_score"),
        (invent_result, "candidates"),
        (change_snippet, "snippet"),
    ],
)
def test_a_difference_is_named_by_its_first_stage(
    indexes: dict[str, Path], tmp_path: Path, change: Any, stage: str
) -> None:
    found = run(indexes["2026.4.26"], tampered(tmp_path, change))
    assert not found.agrees
    assert [v.stage for v in found.verdicts if not v.agrees] == [stage]


def test_without_a_query_vector_the_vector_leg_is_named(
    indexes: dict[str, Path], tmp_path: Path
) -> None:
    recording = load_recording(recorded.recording("2026.4.26-default", tmp_path))
    found = verify(ForeignTarget(indexes["2026.4.26"]), recording, env={})
    assert {verdict.stage for verdict in found.verdicts} == {"vector"}
    assert "needs openai/text-embedding-3-small" in found.verdicts[0].detail


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "broken JSON"),
        ("{", "broken JSON"),
        ("{}", "queries is missing"),
        ('{"queries": [{"query": "a"}]}', "results is missing"),
        ('{"queries": [{"query": "a", "results": [{"path": "x"}]}]}', "startLine is missing"),
        ("[1]", "cannot use the recorded answers"),
        ('"text"', "cannot use the recorded answers"),
    ],
)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "answers.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=said):
        load_recording(path)


def test_the_cli_of_the_program_gives_recordings_too(
    indexes: dict[str, Path], tmp_path: Path
) -> None:
    """A list of queries with results, as scripts make it of the program's own --json."""
    full = json.loads(recorded.recording("2026.4.26-default", tmp_path).read_text("utf-8"))
    plain = [{"query": q["query"], "results": q["results"]} for q in full["queries"][:5]]
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    found = run(indexes["2026.4.26"], path)
    assert found.agrees
    assert [verdict.from_legs for verdict in found.verdicts] == [None] * 5
