"""Known answers of the real programs: OpenClaw releases and memini."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from memtui.model import (
    CandidatePool,
    Chunk,
    DateRule,
    Decay,
    Fusion,
    Hit,
    Leg,
    LegHit,
    MinScoreRule,
    Mmr,
    Ranked,
    Ranking,
    Reason,
    Rerank,
    ScoreMapping,
    Stage,
    TieRule,
)
from memtui.ranking import mmr, stages
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.stages import bm25_score, min_max
from tests.support.known import cases, load, stated
from tests.support.pools import chunk, pool

NOW = datetime(2026, 2, 10, tzinfo=UTC)
RELEASE_4, RELEASE_9 = PROFILES["openclaw-2026.4"], PROFILES["openclaw-2026.9"]


# The answers' keys for the two releases that the files state most.
MERGED = {"expected_2026_4_26": RELEASE_4, "expected_2026_9_6": RELEASE_9}


@pytest.mark.parametrize("case", cases("bm25_score"))
def test_bm25_score(case: dict[str, Any]) -> None:
    raw = float(case["rank"])
    assert bm25_score(raw, ScoreMapping.CLAMP) == pytest.approx(case["clamp_form"], abs=1e-15)
    assert bm25_score(raw, ScoreMapping.SIGNED) == pytest.approx(case["signed_form"], abs=1e-15)


@pytest.mark.parametrize("case", load("bm25_score")["asserted_upstream"], ids=str)
def test_bm25_score_as_upstream_asserts(case: dict[str, Any]) -> None:
    def score(raw: float) -> float:
        return bm25_score(float(raw), ScoreMapping.SIGNED)

    if "ordering_best_to_worst" in case:
        ordered = [score(raw) for raw in case["ordering_best_to_worst"]]
        assert ordered == sorted(ordered, reverse=True)
        assert case["strict"] is (len(set(ordered)) == len(ordered))
    elif "close_to" in case:
        assert score(case["rank"]) == pytest.approx(case["close_to"], abs=0.01)
    else:
        assert score(case["rank"]) < score(case["less_than_score_of"])


def test_the_mapping_of_scores_changed_once() -> None:
    assert "clamp form up to 2026.3.2" in load("bm25_score")["version_change"]
    mappings = {name: ranking.keyword_mapping for name, ranking in PROFILES.items()}
    assert mappings.pop("openclaw-2026.2") is ScoreMapping.CLAMP
    assert set(mappings.values()) == {ScoreMapping.SIGNED}


def merge_pool(data: dict[str, Any]) -> CandidatePool:
    chunks: dict[str, Chunk] = {}
    tiers: dict[str, int] = {}
    for hit in (*data["vector"], *data["keyword"]):
        tiers[hit["id"]] = max(tiers.get(hit["id"], 0), hit.get("exactPathSpecificity", 0))
        keys = (hit["projectKey"],) if hit.get("projectKey") else ()
        chunks[hit["id"]] = chunk(
            hit["id"],
            hit["snippet"],
            path=hit["path"],
            line=hit["startLine"],
            importance=hit.get("importance"),
            project_keys=keys,
            snippet=hit["snippet"] or None,
        )
    return pool(
        chunks.values(),
        [(hit["id"], hit["vectorScore"]) for hit in data["vector"]],
        [(hit["id"], hit["textScore"]) for hit in data["keyword"]],
        tiers=tiers,
        path_scores={hit["id"]: hit["pathScore"] for hit in data["keyword"] if "pathScore" in hit},
    )


def merge_ranking(base: Ranking, data: dict[str, Any]) -> Ranking:
    diversity = data.get("mmr", {})
    ageing = data.get("temporalDecay", {})
    return replace(
        base,
        k=100,
        vector_weight=data["vectorWeight"],
        keyword_weight=data["textWeight"],
        keyword_mapping=ScoreMapping.GIVEN,
        min_score=None,
        project_keys=tuple(data.get("activeProjectKeys", ())),
        mmr=replace(
            base.mmr, enabled=diversity.get("enabled", False), lambda_=diversity.get("lambda", 0.7)
        ),
        decay=replace(
            base.decay,
            enabled=ageing.get("enabled", False),
            half_life_days=ageing.get("halfLifeDays", 30),
        ),
    )


@pytest.mark.parametrize(("case", "key", "base"), stated("hybrid_merge", "cases", MERGED))
def test_hybrid_merge(case: dict[str, Any], key: str, base: Ranking) -> None:
    data = case["input"]
    now = datetime.fromtimestamp(data.get("nowMs", 0) / 1000, UTC)
    ranked = rank(merge_pool(data), merge_ranking(base, data), now=now)
    assert [hit.chunk.path for hit in ranked.hits] == [row["path"] for row in case[key]]
    for hit, row in zip(ranked.hits, case[key], strict=True):
        assert hit.score == pytest.approx(row["score"], abs=1e-15)
        raw = {str(leg): part.raw for leg, part in hit.legs.items()}
        assert raw.get("vector", 0) == row["vectorScore"]
        assert raw.get("keyword", 0) == row["textScore"]
        if "snippet" in row:
            assert hit.chunk.snippet == row["snippet"]


@pytest.mark.parametrize("case", cases("hybrid_merge", "selection"))
def test_selection_of_release_9(case: dict[str, Any]) -> None:
    in_keyword = set(case["keyword_ranges"])
    chunks = [chunk(row["path"], row["path"], path=row["path"]) for row in case["merged"]]
    keyword = [
        (row["path"], row["textScore"])
        for row in case["merged"]
        if f"memory:{row['path']}:{row['startLine']}:{row['endLine']}" in in_keyword
    ]
    vector = [(row["path"], row["vectorScore"]) for row in case["merged"] if row["vectorScore"]]
    ranking = replace(
        RELEASE_9,
        k=case["maxResults"],
        min_score=case["minScore"],
        keyword_mapping=ScoreMapping.GIVEN,
        mmr=Mmr(enabled=False),
        decay=Decay(enabled=False),
    )
    ranked = rank(pool(chunks, vector, keyword), ranking, now=NOW)
    assert [hit.chunk.path for hit in ranked.hits] == case["expected_2026_9_6_paths"]


@pytest.mark.parametrize("case", cases("hybrid_merge", "minscore_relax_2026_4_26"))
def test_relaxed_minimum_score_of_release_4(case: dict[str, Any]) -> None:
    text_score = case["merged_score"] / case.get("textWeight", RELEASE_4.keyword_weight)
    ranking = replace(
        RELEASE_4,
        min_score=case.get("minScore", RELEASE_4.min_score),
        keyword_mapping=ScoreMapping.GIVEN,
    )
    assert case["in_keyword_results"], "what no keyword found cannot be rescued"
    ranked = rank(pool([chunk("a")], [], [("a", text_score)]), ranking, now=NOW)
    assert bool(ranked.hits) is case["kept"]
    unfound = replace(ranking, vector_weight=case["merged_score"])
    assert not rank(pool([chunk("a")], [("a", 1.0)]), unfound, now=NOW).hits


@pytest.mark.parametrize("case", cases("hybrid_merge", "importance_multiplier"))
def test_importance_multiplier(case: dict[str, Any]) -> None:
    value = stages.importance_multiplier(case["importance"])
    assert value == pytest.approx(case["multiplier"], abs=1e-15)


@pytest.mark.parametrize("case", cases("hybrid_merge", "exact_path_tie"))
def test_exact_path_content(case: dict[str, Any]) -> None:
    candidates = pool([chunk("a")], [("a", case["content"])], [], tiers={"a": 1})
    ranking = replace(RELEASE_9, vector_weight=1.0, min_score=None, mmr=Mmr())
    hit = rank(candidates, ranking, now=NOW).hits[0]
    identity = next(stage for stage in hit.stages if stage.stage is Stage.IDENTITY)
    assert identity.after == case["score"]
    assert hit.score == 1.0


def test_what_mmr_compares_is_cut_at_700_units() -> None:
    for text, characters in (("ab" * 400, 700), ("😀" * 400, 350), ("a" + "😀" * 400, 350)):
        assert len(mmr.snippet_text(chunk("a", text))) == characters


def test_mmr_parts() -> None:
    known = load("mmr")
    for case in known["tokenize"]:
        assert sorted(mmr.tokenize(case["input"])) == sorted(case["tokens"])
    for case in known["text_similarity_by_tokens"]:
        texts = case["a"], case["b"]
        assert mmr.similarity_matrix(texts, "one")[0, 1] == case["expected"]
    for case in known["jaccard"]:
        texts = " ".join(case["a"]), " ".join(case["b"])
        assert mmr.similarity_matrix(texts, "one")[0, 1] == case["expected"]


def test_mmr_defaults() -> None:
    defaults = load("mmr")["defaults"]
    assert Mmr() == Mmr(enabled=defaults["enabled_in_function"], lambda_=defaults["lambda"])
    by_release = defaults["config_default_enabled"]
    for name, ranking in PROFILES.items():
        if name.startswith("openclaw"):
            key = ">=2026.8.1" if name == "openclaw-2026.9" else "<=2026.7.1"
            assert ranking.mmr.enabled is by_release[key]
            assert ranking.mmr.lambda_ == defaults["lambda"]


ORDERS = {"order_2026_4_26": RELEASE_4, "order_2026_9_6": RELEASE_9}


@pytest.mark.parametrize(("case", "key", "base"), stated("mmr", "rerank", ORDERS))
def test_mmr_order(case: dict[str, Any], key: str, base: Ranking) -> None:
    items = case["items"]
    config = case["config"]
    candidates = pool(
        [chunk(item["id"], item["text"]) for item in items],
        [(item["id"], item["score"]) for item in items],
    )
    ranking = replace(
        base,
        k=100,
        vector_weight=1.0,
        min_score=None,
        decay=Decay(),
        mmr=replace(base.mmr, enabled=True, lambda_=config.get("lambda", 0.7)),
    )
    order = [hit.chunk.id for hit in rank(candidates, ranking, now=NOW).hits]
    assert order == case[key]
    assert order == case.get("asserted_upstream_order", order)


@pytest.mark.parametrize("case", load("temporal_decay")["multipliers"])
def test_decay_factor(case: dict[str, Any]) -> None:
    (factor,) = stages.decay_factors([case["age_days"]], case["half_life_days"])
    assert factor == pytest.approx(case["multiplier"], rel=1e-14)


@pytest.mark.parametrize("case", load("temporal_decay")["path_dates"])
@pytest.mark.parametrize(
    ("rule", "suffix"),
    [(DateRule.OPENCLAW_2026_4, "2026_4_26"), (DateRule.OPENCLAW_2026_8, "2026_9_6")],
)
def test_path_dates(case: dict[str, Any], rule: DateRule, suffix: str) -> None:
    day, source = stages.chunk_day(chunk("a", path=case["path"]), rule)
    dated = day.date().isoformat() if day and source is Reason.FILE_NAME else None
    assert dated == case[f"date_{suffix}"]
    assert (source is Reason.EVERGREEN) == case[f"evergreen_{suffix}"]


def ageing(base: Ranking, case: dict[str, Any]) -> Ranking:
    """The vector leg alone, with the decay of a known answer."""
    decay = replace(base.decay, enabled=True, half_life_days=case.get("half_life_days", 30))
    return replace(base, vector_weight=1.0, min_score=None, mmr=Mmr(), decay=decay)


@pytest.mark.parametrize(("case", "key", "base"), stated("temporal_decay", "merged", MERGED))
def test_decayed_merge(case: dict[str, Any], key: str, base: Ranking) -> None:
    hits = case["vector"]
    candidates = pool(
        [chunk(hit["id"], path=hit["path"]) for hit in hits],
        [(hit["id"], hit["score"]) for hit in hits],
    )
    ranked = rank(candidates, ageing(base, case), now=datetime.fromisoformat(case["now"]))
    assert [hit.chunk.path for hit in ranked.hits] == [row["path"] for row in case[key]]
    for hit, row in zip(ranked.hits, case[key], strict=True):
        assert hit.score == pytest.approx(row["score"], rel=1e-12)


def decayed(case: dict[str, Any], base: Ranking, item: Chunk, score: float) -> Hit:
    """The one hit of a pool with one vector hit of that score, with decay on."""
    item = replace(item, source=case["source"])
    return rank(pool([item], [("a", score)]), ageing(base, case), now=NOW).hits[0]


def at(when: datetime) -> int:
    """A moment as a file system has it."""
    return int(when.timestamp()) * 10**9


OPENCLAW = [ranking for name, ranking in PROFILES.items() if name.startswith("openclaw")]
FILE_CASES = {case["name"]: case for case in load("temporal_decay")["file_cases"]}
EVERGREEN = "evergreen ignores old mtime"
FILE_TIME = "non-memory source uses file mtime (<=2026.7)"
STORED_TIME = "sessions use indexed source mtime column (2026.9)"


def test_every_file_case_is_known_here() -> None:
    assert FILE_CASES.keys() == {EVERGREEN, FILE_TIME, STORED_TIME}


@pytest.mark.parametrize("base", OPENCLAW, ids=lambda ranking: ranking.profile)
def test_the_time_of_a_file(base: Ranking) -> None:
    case = FILE_CASES[EVERGREEN]
    for file, before, after in zip(
        case["files"], case["scores_in"], case["scores_out"], strict=True
    ):
        old = datetime.fromisoformat(file["mtime"]).replace(tzinfo=UTC)
        item = chunk("a", path=file["path"], mtime_ns=at(old))
        assert decayed(case, base, item, before).score == after
    if base is not RELEASE_9:
        case = FILE_CASES[FILE_TIME]
        (file,) = case["files"]
        when = NOW - timedelta(days=file["mtime_days_before_now"])
        hit = decayed(
            case, base, chunk("a", path=file["path"], mtime_ns=at(when)), case["score_in"]
        )
        assert hit.score == pytest.approx(case["score_out_close_to"])
        assert hit.stages[1].reason is Reason.FILE_TIME


def test_sessions_of_release_9_decay_by_their_stored_time() -> None:
    case = FILE_CASES[STORED_TIME]
    assert case["rule"].startswith("timestamp comes from the stored source mtime; absent means no")
    item = chunk("a", path="sessions/main/x.jsonl", mtime_ns=at(NOW - timedelta(days=30)))
    assert decayed(case, RELEASE_9, item, 0.8).score == pytest.approx(0.4)
    unknown = decayed(case, RELEASE_9, replace(item, mtime_ns=0), 0.8)
    assert unknown.score == 0.8
    assert Reason.NO_DATE in {stage.reason for stage in unknown.stages}


def assert_known(ranked: Ranked, case: dict[str, Any], tolerance: float) -> None:
    """A list is the known one, and keeps what the program's own tests assert of it."""
    order = [hit.chunk.id for hit in ranked.hits]
    scores = [hit.score for hit in ranked.hits]
    assert order == [i for i, _ in case["expected"]]
    assert scores == pytest.approx([score for _, score in case["expected"]], abs=tolerance)
    asserted = case.get("asserted", {})
    if "first" in asserted:
        assert order[0] == asserted["first"]
    assert asserted.get("order", order) == order
    for key in ("count", "unique"):
        assert asserted.get(key, len(set(order))) == len(order)
    assert asserted.get("scores", scores) == scores
    if "scores_close_to" in asserted:
        assert scores == pytest.approx([asserted["scores_close_to"]] * len(scores))


def memini_pool(lists: list[Any]) -> CandidatePool:
    """memini names its lists by number; the first is the vector leg, the second the keyword leg."""
    legs = [[(i, score) for i, score in entries] for entries in lists] + [[], []]
    chunks = [chunk(i, i) for i in dict.fromkeys(i for leg in legs for i, _ in leg)]
    return pool(chunks, legs[0], legs[1])


PASSAGE = "matched chunk survives from either leg (newer memini)"


RRF = Ranking(fusion=Fusion.RRF, vector_weight=1.0, keyword_weight=1.0, tie_rule=TieRule.STABLE)


@pytest.mark.parametrize("case", [case for case in cases("memini_fuse") if case.id != PASSAGE])
def test_memini_rrf(case: dict[str, Any]) -> None:
    ranking = replace(RRF, rrf_k=case["rrfk"], k=case["k"] or 100)
    ranked = rank(memini_pool(case["lists"]), ranking, now=NOW)
    assert_known(ranked, case, 1e-15)


@pytest.mark.parametrize("fusion", Fusion)
def test_a_passage_of_either_leg_stays_on_the_fused_hit(fusion: Fusion) -> None:
    (case,) = [case for case in load("memini_fuse")["cases"] if case["name"] == PASSAGE]
    assert case["asserted"] == "a passage attached by either leg is kept on the fused hit"
    passages = {name: chunk(name, f"all of {name}", snippet=f"of {name}") for name in "abc"}
    found = pool(passages.values(), [("a", 0.9), ("b", 0.5)])
    keyword = (LegHit("b", 0, -2.0, terms=("router",)), LegHit("c", 1, -1.0, terms=("vlan",)))
    found = replace(found, hits={**found.hits, Leg.KEYWORD: keyword})
    hits = {hit.chunk.id: hit for hit in rank(found, Ranking(fusion=fusion), now=NOW).hits}
    assert {name: hit.chunk for name, hit in hits.items()} == passages
    terms = {name: hit.legs[Leg.KEYWORD].terms for name, hit in hits.items() if name != "a"}
    assert terms == {"b": ("router",), "c": ("vlan",)}


def test_memini_defaults() -> None:
    memini = PROFILES["memini"]
    assert Ranking().rrf_k == load("memini_fuse")["default_rrfk"]
    alpha = load("memini_fuse_scores")["default_alpha"]
    assert (memini.vector_weight, memini.keyword_weight) == (alpha, 1 - alpha)
    assert load("memini_rerank")["bench_headline"]["pool"] == "max(k*5, 50) per leg"
    for k in (1, 6, 10, 11, 30):
        assert replace(memini, k=k).candidates == max(k * 5, 50)


def test_the_classic_constant_of_reciprocal_rank_fusion() -> None:
    ranking = replace(RRF, rrf_k=load("memini_fuse")["classic"])
    ranked = rank(pool([chunk("a")], [("a", 1.0)], [("a", -1.0)]), ranking, now=NOW)
    assert ranked.hits[0].score == 2 / 60


@pytest.mark.parametrize("case", cases("memini_fuse_scores"))
def test_memini_relative_score(case: dict[str, Any]) -> None:
    weights = [*case["weights"], 1.0, 1.0][:2]
    ranking = Ranking(
        fusion=Fusion.RELATIVE_SCORE,
        keyword_mapping=ScoreMapping.GIVEN,
        vector_weight=weights[0],
        keyword_weight=weights[1],
        k=case["k"] or 100,
        tie_rule=TieRule.STABLE,
    )
    ranked = rank(memini_pool(case["lists"]), ranking, now=NOW)
    assert_known(ranked, case, 1e-15)


SEED_VERSION: dict[str, Any] = load("memini_rerank")["seed_version"]


def test_memini_rerank_weights() -> None:
    weights = SEED_VERSION["weights"]
    assert Rerank(enabled=True, **weights) == PROFILES["memini"].rerank
    assert SEED_VERSION["recency"].startswith("exp(-age/7days)")
    assert stages.recency(7, Rerank().recency_scale_days) == 1 / math.e


@pytest.mark.parametrize("case", SEED_VERSION["cases"], ids=lambda case: str(case["name"]))
def test_memini_rerank(case: dict[str, Any]) -> None:
    now_ns = int(NOW.timestamp()) * 10**9
    chunks = [
        chunk(
            item["id"],
            item["id"],
            path=f"notes/{item['id']}.md",
            importance=item["importance"],
            mtime_ns=now_ns - item["age_days"] * 86_400 * 10**9,
        )
        for item in case["items"]
    ]
    ranking = Ranking(
        fusion=Fusion.WEIGHTED_SUM,
        vector_weight=1.0,
        keyword_weight=0.0,
        rerank=Rerank(enabled=True),
    )
    hits = [(item["id"], item["relevance"]) for item in case["items"]]
    ranked = rank(pool(chunks, hits), ranking, now=NOW)
    assert_known(ranked, case, 1e-12)


@pytest.mark.parametrize("case", load("memini_rerank")["dedup"]["cases"])
def test_memini_dedup(case: dict[str, Any]) -> None:
    contents = case["contents"]
    ranking = Ranking(
        fusion=Fusion.WEIGHTED_SUM, dedup=True, k=case["limit"] or 100, vector_weight=1.0
    )
    chunks = [chunk(i, text) for i, text in contents]
    hits = [(i, 1 - n / 10) for n, (i, _) in enumerate(contents)]
    ranked = rank(pool(chunks, hits), ranking, now=NOW)
    assert [hit.chunk.id for hit in ranked.hits] == case["expected"]
    assert all(drop.reason in (Reason.DUPLICATE_TEXT, Reason.CUT_AT_K) for drop in ranked.drops)


def test_numbers_that_are_not_finite_do_not_spread() -> None:
    assert min_max([math.nan, 2.0, math.inf, 4.0, 3.0, -math.inf]) == [0, 0, 0, 1, 0.5, 0]
    assert min_max([math.nan]) == [0]
    raws = [("a", math.inf), ("b", 0.5), ("c", math.nan)]
    ids = [chunk(name, name) for name, _ in raws]
    for fusion in Fusion:
        ranked = rank(pool(ids, raws, raws), Ranking(fusion=fusion), now=NOW)
        assert all(math.isfinite(hit.score) for hit in ranked.hits)
        assert len(ranked.hits) == 3


def test_no_results_are_wanted_when_k_is_not_above_zero() -> None:
    found = pool([chunk("a", "a"), chunk("b", "b")], [("a", 0.9), ("b", 0.8)])
    for k in (0, -1):
        ranked = rank(found, Ranking(k=k), now=NOW)
        assert (len(ranked.hits), len(ranked.drops)) == (0, 2)


def test_a_leg_without_spread_is_all_ones() -> None:
    assert min_max([7.0, 7.0]) == [1.0, 1.0]
    assert min_max([]) == []
    assert min_max([1.0, 2.0, 3.0]) == [0.0, 0.5, 1.0]


def test_minimum_score_rules_differ_only_below_the_minimum() -> None:
    chunks = [chunk("strong"), chunk("weak", line=9)]
    candidates = pool(chunks, [("strong", 0.9)], [("weak", 0.4)])
    for rule in MinScoreRule:
        ranking = replace(
            RELEASE_9, min_score=0.35, min_score_rule=rule, keyword_mapping=ScoreMapping.GIVEN
        )
        ranked = rank(candidates, ranking, now=NOW)
        shown = [hit.chunk.id for hit in ranked.hits]
        assert shown == (["strong", "weak"] if rule is MinScoreRule.FILL else ["strong"])
