"""What is copied as OpenClaw's configuration means the same when it is read again."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.model import DateRule, Decay, Fusion, Mmr, Ranking, Rerank
from memtui.model.rankings import SearchMode
from memtui.ranking.profiles import PROFILES, profile
from memtui.settings.openclaw.convert import fragment
from memtui.settings.openclaw.read import read_config
from memtui.settings.openclaw.releases import RELEASES, effective, layout_of
from memtui.settings.openclaw.schema import MemorySearchConfig, OpenClawConfig, normalised_weights

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


def test_the_text_is_what_a_person_would_paste() -> None:
    ranking = replace(
        profile("openclaw-2026.4"),
        k=10,
        vector_weight=0.5,
        keyword_weight=0.5,
        mmr=Mmr(enabled=True, lambda_=0.6),
    )
    assert fragment(ranking, "openclaw-2026.4").text == (
        "// OpenClaw 2026.4: merge into openclaw.json\n"
        "{\n"
        "  agents: {\n"
        "    defaults: {\n"
        "      memorySearch: {\n"
        "        query: {\n"
        "          maxResults: 10, // default 6\n"
        "          minScore: 0.35,\n"
        "          hybrid: {\n"
        "            enabled: true,\n"
        "            vectorWeight: 0.5, // default 0.7\n"
        "            textWeight: 0.5, // default 0.3\n"
        "            candidateMultiplier: 4,\n"
        "            mmr: {\n"
        "              enabled: true, // default false\n"
        "              lambda: 0.6, // default 0.7\n"
        "            },\n"
        "            temporalDecay: {\n"
        "              enabled: false,\n"
        "              halfLifeDays: 30,\n"
        "            },\n"
        "          },\n"
        "        },\n"
        "      },\n"
        "    },\n"
        "  },\n"
        "}\n"
    )
    assert fragment(ranking, "2026.9").text == (
        "// OpenClaw 2026.9: merge into openclaw.json\n"
        "{\n"
        "  memory: {\n"
        "    search: {\n"
        "      query: {\n"
        "        maxResults: 10, // default 6\n"
        "        minScore: 0.35,\n"
        "      },\n"
        "    },\n"
        "  },\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("release", "changes", "said"),
    [
        ("2026.4", {"fusion": Fusion.RRF}, "fusion rrf"),
        ("2026.4", {"vector_weight": 0.9}, "0.75 and 0.25"),
        ("2026.4", {"vector_weight": 0.0, "keyword_weight": 0.0}, "0.7 and 0.3"),
        ("2026.4", {"candidate_multiplier": 30}, "candidate multiplier 30"),
        ("2026.4", {"min_candidates": 50}, "50 candidates of each leg: OpenClaw takes 24"),
        ("2026.4", {"k": 300}, "k 300"),
        ("2026.4", {"min_score": None}, "no minimum score"),
        ("2026.4", {"dedup": True}, "dedup"),
        ("2026.4", {"rerank": Rerank(enabled=True)}, "rerank"),
        ("2026.4", {"decay": Decay(enabled=True, floor=0.8)}, "decay floor 0.8"),
        ("2026.4", {"decay": Decay(enabled=True, half_life_days=7.5)}, "whole days, 7"),
        ("2026.4", {"decay": Decay(enabled=True)}, "dates of decay"),
        ("2026.4", {"profile": "memtui"}, "profile memtui"),
        ("2026.4", {"search_mode": SearchMode.KEYWORD_ONLY}, "keyword leg alone"),
        ("2026.2", {"mmr": Mmr(enabled=True)}, "only from 2026.2.17"),
        ("2026.9", {"vector_weight": 0.6, "keyword_weight": 0.4}, "fixed at 0.7 and 0.3"),
        ("2026.9", {"mmr": Mmr(enabled=False)}, "MMR off"),
        ("2026.9", {"mmr": Mmr(enabled=True, lambda_=0.5)}, "MMR lambda 0.5"),
        ("2026.9", {"decay": Decay()}, "decay off"),
        ("2026.9", {"min_candidates": 1}, "24 candidates"),
        ("2026.9", {"search_mode": SearchMode.VECTOR_ONLY}, "vector leg alone"),
        (
            "2026.9",
            {"decay": Decay(True, 7, 0.0, DateRule.OPENCLAW_2026_8)},
            "half-life 7 days: fixed at 30",
        ),
    ],
)
def test_what_a_release_cannot_take_is_named(
    release: str, changes: dict[str, Any], said: str
) -> None:
    ranking = replace(profile(f"openclaw-{release}"), **changes)
    assert any(said in line for line in fragment(ranking, release).cannot)


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
