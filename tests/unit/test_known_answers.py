"""Every group of every file of known answers is asserted by a test that exists and reads it."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent
DATA = TESTS / "data"

DIGESTS = {
    "bm25_score": "fa765aca485f928f",
    "chunking": "ac9beea1c02f73b9",
    "config_and_output": "f2aeed879d22e3df",
    "embedding_limits": "56f867b5c594a413",
    "fallback_boost": "0812c3de6697d3f0",
    "fts_query": "9210c2b797a5daa6",
    "hybrid_merge": "aca1cd7ba54af5ad",
    "keyword_plan": "a30435c685e4164f",
    "memini_fuse": "f3c559f57ecaf415",
    "memini_fuse_scores": "3c71378702426796",
    "memini_rerank": "0caa00908cfccac1",
    "minilm": "8928dd666ce2df14",
    "mmr": "77080894aebe60d3",
    "query_expansion": "bc9db63a043982f2",
    "sessions": "0811469afa61fcc7",
    "temporal_decay": "4667f44cf39da214",
}
"""The first characters of each file's SHA-256: an answer is never bent to fit the program."""

CLAIMS: dict[str, dict[str, str]] = {
    "bm25_score": {
        "asserted_upstream": "unit/test_ranking_vectors.py::test_bm25_score_as_upstream_asserts",
        "cases": "unit/test_ranking_vectors.py::test_bm25_score",
        "version_change": "unit/test_ranking_vectors.py::test_the_mapping_of_scores_changed_once",
    },
    "chunking": {
        "cases": "unit/test_chunking.py::test_known_chunks",
        "size_estimate": "unit/test_chunking.py::test_known_sizes",
        "chunk_id.example": "unit/test_chunking.py::test_known_chunk_id",
        "provider_key_examples": "unit/test_openclaw_config.py::test_provider_key",
        "scope_hash_example": "unit/test_openclaw_config.py::test_scope_hash",
    },
    "config_and_output": {
        "weights": "unit/test_openclaw_config.py::test_weights_are_clamped_and_divided_by_their_sum",
        "candidate_count": "unit/test_openclaw_config.py::test_candidate_count",
        "clamps.minScore": "unit/test_openclaw_config.py::test_values_are_clamped_to_their_range",
        "clamps.candidateMultiplier": "unit/test_openclaw_config.py::test_values_are_clamped_to_their_range",
        "clamps.mmr.lambda": "unit/test_openclaw_config.py::test_values_are_clamped_to_their_range",
        "clamps.vectorWeight": "unit/test_openclaw_config.py::test_weight_clamps_are_the_known_ones",
        "clamps.textWeight": "unit/test_openclaw_config.py::test_weight_clamps_are_the_known_ones",
        "clamps.halfLifeDays": "unit/test_openclaw_config.py::test_half_life_is_rounded_down_and_at_least_a_day",
        "clamps.chunking.tokens": "unit/test_openclaw_config.py::test_chunk_sizes",
        "clamps.chunking.overlap": "unit/test_openclaw_config.py::test_chunk_sizes",
        "clamps.cache.maxEntries": "unit/test_openclaw_config.py::test_cache_entries",
        "merge_defaults_and_agent": "unit/test_openclaw_config.py::test_an_agents_values_go_over_the_defaults",
    },
    "embedding_limits": {
        "split": "unit/test_embedding_limits.py::test_known_parts",
        "batches": "unit/test_embedding_limits.py::test_known_batches",
        "retry.classification": "unit/test_embedding_limits.py::test_known_failures",
        "retry.waits_base_500_max_attempts_3": "unit/test_embedding_limits.py::test_known_waits",
        "retry.jitter": "unit/test_embedding_limits.py::test_known_jitter",
        "retry.split_sizes_on_431": "unit/test_embedding_limits.py::test_known_halves",
    },
    "fallback_boost": {"cases": "unit/test_openclaw_query.py::test_boost"},
    "fts_query": {
        "rule_versions": "unit/test_openclaw_query.py::test_token_rules_by_release",
        "asserted_upstream": "unit/test_tokens.py::test_openclaw_query_asserted_upstream",
        "cases": "unit/test_openclaw_query.py::test_match_expressions_of_every_release",
    },
    "hybrid_merge": {
        "cases": "unit/test_ranking_vectors.py::test_hybrid_merge",
        "selection": "unit/test_ranking_vectors.py::test_selection_of_release_9",
        "exact_path_tie": "unit/test_ranking_vectors.py::test_exact_path_content",
        "importance_multiplier": "unit/test_ranking_vectors.py::test_importance_multiplier",
        "minscore_relax_2026_4_26": "unit/test_ranking_vectors.py::test_relaxed_minimum_score_of_release_4",
        "exact_path_specificity": "unit/test_openclaw_query.py::test_exact_path_tier",
    },
    "keyword_plan": {
        "cases": "unit/test_openclaw_query.py::test_keyword_plan",
        "search_expectations": "engine/test_openclaw_legs.py::test_known_searches",
    },
    "memini_fuse": {
        "default_rrfk": "unit/test_ranking_vectors.py::test_memini_defaults",
        "classic": "unit/test_ranking_vectors.py::test_the_classic_constant_of_reciprocal_rank_fusion",
        "cases": "unit/test_ranking_vectors.py::test_memini_rrf",
    },
    "memini_fuse_scores": {
        "default_alpha": "unit/test_ranking_vectors.py::test_memini_defaults",
        "cases": "unit/test_ranking_vectors.py::test_memini_relative_score",
    },
    "memini_rerank": {
        "seed_version.weights": "unit/test_ranking_vectors.py::test_memini_rerank_weights",
        "seed_version.recency": "unit/test_ranking_vectors.py::test_memini_rerank_weights",
        "seed_version.cases": "unit/test_ranking_vectors.py::test_memini_rerank",
        "dedup.cases": "unit/test_ranking_vectors.py::test_memini_dedup",
        "bench_headline.pool": "unit/test_ranking_vectors.py::test_memini_defaults",
    },
    "minilm": {
        "cases": "unit/test_wordpiece.py::test_known_answers",
        "cosines": "unit/test_local_models.py::test_cosines_are_the_known_ones",
    },
    "mmr": {
        "defaults": "unit/test_ranking_vectors.py::test_mmr_defaults",
        "tokenize": "unit/test_ranking_vectors.py::test_mmr_tokenize",
        "jaccard": "unit/test_ranking_vectors.py::test_jaccard",
        "text_similarity_by_tokens": "unit/test_ranking_vectors.py::test_text_similarity",
        "mmr_score": "unit/test_ranking_vectors.py::test_mmr_score",
        "rerank": "unit/test_ranking_vectors.py::test_mmr_order",
    },
    "query_expansion": {"cases": "unit/test_openclaw_query.py::test_keywords"},
    "sessions": {
        "entry_cases": "unit/test_openclaw_transcripts.py::test_known_entries",
        "text_normalise": "unit/test_openclaw_transcripts.py::test_known_folding",
        "wrap_800": "unit/test_openclaw_transcripts.py::test_known_wrapping",
        "timestamps_ms": "unit/test_openclaw_transcripts.py::test_known_timestamps",
        "listing": "unit/test_openclaw_transcripts.py::test_known_listing",
        "redaction_2026_4_26": "unit/test_redact.py::test_known_redactions",
    },
    "temporal_decay": {
        "multipliers": "unit/test_ranking_vectors.py::test_decay_factor",
        "path_dates": "unit/test_ranking_vectors.py::test_path_dates",
        "merged": "unit/test_ranking_vectors.py::test_decayed_merge",
        "file_cases": "unit/test_ranking_vectors.py::test_every_file_case_is_known_here",
    },
}

PROSE = {
    *("topic", "upstream", "reading", "note", "rule", "formula", "quality", "salience", "recipe"),
    *("now",),
}
"""Keys of plain text that says what a file is, or in words what its numbers assert."""

MEASURED = {
    *("model", "metric", "longmemeval_s_session_500q", "locomo_turn_1982q", "locomo_session_1981q"),
    *("ablation_rrfk60_locomo_turn_r5", "rrf5_locomo_turn", "p50_ms"),
}
"""Under `memini_rerank.bench_headline`: what another program measured on data that is not here."""

LATER_MEMINI = {
    *("current_version.weights", "current_version.tier_weights", "current_version.asserted"),
    *("temporal_targeting.boost", "temporal_targeting.proximity", "temporal_targeting.cases"),
}
"""Under `memini_rerank`: a later memini than the profile, by facts that no note has."""

NOT_IN_THE_PROGRAM = {
    "chunking": {"remap"},
    "config_and_output": {
        *("citations", "citation_mode", "decorated_snippet", "qmd_parse", "qmd_snippet_lines"),
    },
    "sessions": {"path_mapping"},
}
"""What OpenClaw does around its search, and memtui does not: citations, another backend, paths."""

RELEASE = re.compile(r"20\d\d[._]\d{1,2}(?:[._]\d{1,2})?")


def groups(content: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """The groups of a file by their dotted names: lists, values, and objects of values."""
    for key, value in content.items():
        name = f"{before}{key}"
        if key in PROSE and isinstance(value, str):
            continue
        if isinstance(value, dict) and not is_claimed_whole(name):
            yield from groups(value, f"{name}.")
        else:
            yield name


WHOLE = {
    *("scope_hash_example", "chunk_id.example", "rule_versions", "defaults", "listing"),
    *("retry.waits_base_500_max_attempts_3", "seed_version.weights", "current_version.weights"),
    "current_version.tier_weights",
}


def is_claimed_whole(name: str) -> bool:
    return name in WHOLE or name.rpartition(".")[2] in MEASURED


def releases(value: object) -> Iterator[str]:
    """The releases that the keys of a group state, as they are written."""
    if isinstance(value, dict):
        for key, inner in value.items():
            found = RELEASE.search(key)
            if found:
                yield found[0]
            yield from releases(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from releases(inner)


def content_of(file: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{file}.json").read_text("utf-8"))
    return found


def group_of(file: str, name: str) -> object:
    """A group by its dotted name; a key may have dots itself."""
    value: Any = content_of(file)
    while name:
        key = next(key for key in value if name == key or name.startswith(f"{key}."))
        value, name = value[key], name[len(key) + 1 :]
    return value


@cache
def source_of(module: str) -> str:
    return (TESTS / module).read_text("utf-8")


@cache
def functions_of(module: str) -> dict[str, str]:
    """The functions of a test module with their decorators, as text."""
    source = source_of(module)
    lines = source.splitlines()
    return {
        node.name: "\n".join(
            lines[
                min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1 : node.end_lineno
            ]
        )
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef)
    }


FILES = sorted(path.stem for path in DATA.glob("*.json"))
CLAIMED = [(file, name, test) for file, names in CLAIMS.items() for name, test in names.items()]


@pytest.mark.parametrize("file", FILES)
def test_the_answers_are_what_was_recorded(file: str) -> None:
    digest = hashlib.sha256((DATA / f"{file}.json").read_bytes()).hexdigest()
    assert digest.startswith(DIGESTS[file])
    assert DIGESTS.keys() == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_every_group_is_claimed(file: str) -> None:
    others = {f"bench_headline.{name}" for name in MEASURED} | LATER_MEMINI
    unclaimed = others if file == "memini_rerank" else NOT_IN_THE_PROGRAM.get(file, set())
    assert set(groups(content_of(file))) == CLAIMS[file].keys() | unclaimed


@pytest.mark.parametrize(
    ("file", "name", "test"), CLAIMED, ids=[f"{file}: {name}" for file, name, _ in CLAIMED]
)
def test_the_claiming_test_reads_its_group(file: str, name: str, test: str) -> None:
    module, _, function = test.partition("::")
    source = source_of(module)
    assert function.startswith("test_")
    text = functions_of(module)[function]
    group = group_of(file, name)
    assert group, "a group without a case asserts nothing"
    assert re.search(rf'"{file}(?:\.json)?"', source), "the module does not read the file"
    read = [f'"{name.removeprefix("clamps.").rpartition(".")[2]}"']
    if name.startswith("clamps."):
        read = [f'"{name.removeprefix("clamps.")}"']
    elif name == "cases":
        read.append(f'cases("{file}")')
    assert any(part in text for part in read), "the test does not read the group"
    for release in set(releases(group)):
        forms = {release, release.replace("_", "."), release.replace(".", "_")}
        assert any(form in source for form in forms), f"the module says nothing of {release}"


def test_no_test_of_known_answers_leaves_out_cases_by_number() -> None:
    """A slice of a group would go on passing when the cases behind it are lost."""
    for module in {test.partition("::")[0] for _, _, test in CLAIMED}:
        assert not re.search(r"load\([^)]*\)(?:\[[^\]]*\])+\[\d*:", source_of(module))
