"""What is copied as OpenClaw's configuration means the same when it is read again."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from memtui.model import DateRule, Decay, Fusion, Mmr, Ranking, Rerank
from memtui.model.rankings import SearchMode
from memtui.ranking.profiles import PROFILES, profile
from memtui.settings.openclaw.convert import fragment
from memtui.settings.openclaw.read import read_config
from memtui.settings.openclaw.releases import RELEASES, effective, layout_of
from memtui.settings.openclaw.schema import MemorySearchConfig, OpenClawConfig, normalised_weights
from tests.support.known import load

_SHARE = st.floats(0, 1)
RANKINGS = st.builds(
    replace,
    st.sampled_from([*PROFILES.values()]),
    k=st.integers(1, 400),
    candidate_multiplier=st.integers(1, 50),
    fusion=st.sampled_from(Fusion),
    vector_weight=_SHARE,
    keyword_weight=_SHARE,
    min_score=st.none() | _SHARE,
    dedup=st.booleans(),
    search_mode=st.sampled_from(SearchMode),
    mmr=st.builds(Mmr, enabled=st.booleans(), lambda_=_SHARE),
    decay=st.builds(
        Decay,
        enabled=st.booleans(),
        half_life_days=st.floats(0.01, 36500),
        floor=_SHARE,
        dates=st.sampled_from(DateRule),
    ),
    rerank=st.builds(Rerank, enabled=st.booleans()),
)


def _read(text: str) -> OpenClawConfig:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "openclaw.json").write_text(text, encoding="utf-8")
        return read_config({}, Path(folder), state_dir=Path(folder))


@given(RANKINGS, st.sampled_from(RELEASES))
def test_a_fragment_read_again_is_the_ranking(ranking: Ranking, release: str) -> None:
    written = fragment(ranking, release)
    config = _read(written.text)
    assert config.problems == ()
    assert config.layout == layout_of(release)
    assert all(line and "\n" not in line for line in written.cannot)
    held = effective(config.default_agent.search, release)
    assert held.ignored == ()
    search = held.search
    assert search.max_results == min(200, ranking.k)
    assert search.min_score == (ranking.min_score or 0.0)
    if release == "2026.9":
        assert search == replace(
            effective(MemorySearchConfig(), release).search,
            max_results=search.max_results,
            min_score=search.min_score,
            set_keys=search.set_keys,
        )
        return
    weights = normalised_weights(ranking.vector_weight, ranking.keyword_weight)
    assert (search.vector_weight, search.text_weight) == weights
    assert search.candidate_multiplier == min(20, ranking.candidate_multiplier)
    assert search.hybrid_enabled is (ranking.search_mode is not SearchMode.VECTOR_ONLY)
    assert (search.mmr_enabled, search.mmr_lambda) == (ranking.mmr.enabled, ranking.mmr.lambda_)
    assert search.decay_enabled is ranking.decay.enabled
    assert search.half_life_days == max(1, int(ranking.decay.half_life_days))


@pytest.mark.parametrize("release", RELEASES)
def test_the_profile_of_a_release_can_be_said_whole(release: str) -> None:
    written = fragment(profile(f"openclaw-{release}"), release)
    assert written.cannot == ()
    assert "// default" not in written.text
    assert _read(written.text).default_agent.search.set_keys


@pytest.mark.parametrize("case", load("openclaw_fragments"), ids=lambda case: str(case["changes"]))
def test_what_a_person_would_paste_and_what_a_release_cannot_take(case: dict[str, Any]) -> None:
    types = get_type_hints(Ranking)
    changes = {name: convert(value, types[name]) for name, value in case["changes"].items()}
    written = fragment(replace(profile(f"openclaw-{case['release']}"), **changes), case["release"])
    assert written.text.split("\n") == case["text"]
    assert list(written.cannot) == case["cannot"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("agents", "defaults", "list", "entries", "memory", "search", "memorySearch"),
                    *("id", "workspace", "query", "hybrid", "mmr", "lambda", "maxResults"),
                    *("remote", "headers", "extraPaths", "path", "sources", "$include", "meta"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(["agents", "memory", "$include", "meta"]), _JSON))
def test_no_document_makes_the_reader_fail(document: dict[str, Any]) -> None:
    config = _read(json.dumps(document))
    assert config.agents
    for agent in config.agents:
        for release in RELEASES:
            effective(agent.search, release)
