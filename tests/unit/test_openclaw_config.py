"""OpenClaw's configuration: where it is, both layouts, clamps, secrets, and what breaks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from memtui.settings.openclaw import (
    NEW_LAYOUT,
    OLD_LAYOUT,
    AgentConfig,
    MemorySearchConfig,
    OpenClawConfig,
    agent_id,
    candidate_count,
    effective,
    expected_identity,
    known_release,
    normalised_weights,
    provider_key,
    read_config,
    release_of,
    release_of_version,
    scope_hash,
)
from memtui.text.sanitize import HOSTILE

DATA = Path(__file__).parents[1] / "data"
KNOWN: dict[str, Any] = json.loads((DATA / "config_and_output.json").read_text(encoding="utf-8"))
CHUNKING: dict[str, Any] = json.loads((DATA / "chunking.json").read_text(encoding="utf-8"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw").mkdir()
    return tmp_path


def _write(home: Path, text: str, name: str = ".openclaw/openclaw.json") -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _read(home: Path, document: Any, env: dict[str, str] | None = None) -> OpenClawConfig:
    text = document if isinstance(document, str) else json.dumps(document)
    _write(home, text)
    return read_config(env or {}, home)


def _search(home: Path, defaults: Any, agent: Any = None) -> MemorySearchConfig:
    """Memory search of one agent; every value must be a good one."""
    document: dict[str, Any] = {"agents": {"defaults": {"memorySearch": defaults}}}
    if agent is not None:
        document["agents"]["list"] = [{"id": "main", "memorySearch": agent}]
    config = _read(home, document)
    assert config.problems == ()
    return config.default_agent.search


# --- the known answers ------------------------------------------------------------------------


@pytest.mark.parametrize("case", KNOWN["weights"], ids=str)
def test_weights_are_clamped_and_divided_by_their_sum(home: Path, case: dict[str, Any]) -> None:
    vector, text = case["in"]
    assert normalised_weights(vector, text) == tuple(case["out"])
    search = _search(home, {"query": {"hybrid": {"vectorWeight": vector, "textWeight": text}}})
    assert [search.vector_weight, search.text_weight] == case["out"]


@pytest.mark.parametrize("case", KNOWN["candidate_count"], ids=str)
def test_candidate_count(case: dict[str, Any]) -> None:
    assert candidate_count(case["maxResults"], case["multiplier"]) == case["out"]


@pytest.mark.parametrize(
    ("key", "name", "field"),
    [
        ("minScore", "query.minScore", "min_score"),
        ("candidateMultiplier", "query.hybrid.candidateMultiplier", "candidate_multiplier"),
        ("mmr.lambda", "query.hybrid.mmr.lambda", "mmr_lambda"),
    ],
)
def test_values_are_clamped_to_their_range(home: Path, key: str, name: str, field: str) -> None:
    low, high = KNOWN["clamps"][key]
    for value, expected in ((low - 3, low), (high + 3, high), (low, low), (high, high)):
        assert getattr(_search(home, _nested(name, value)), field) == expected


def test_weight_clamps_are_the_known_ones(home: Path) -> None:
    assert KNOWN["clamps"]["vectorWeight"] == KNOWN["clamps"]["textWeight"] == [0, 1]
    search = _search(home, {"query": {"hybrid": {"vectorWeight": 7, "textWeight": 1}}})
    assert (search.vector_weight, search.text_weight) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("written", "days"), [("0.4", 1), ("-3", 1), ("14.9", 14), ("NaN", 30), ("Infinity", 30)]
)
def test_half_life_is_rounded_down_and_at_least_a_day(home: Path, written: str, days: int) -> None:
    assert KNOWN["clamps"]["halfLifeDays"] == "max(1, floor(x)), non-finite -> 30"
    config = _read(
        home,
        "{agents: {defaults: {memorySearch: {query: {hybrid: {temporalDecay: {halfLifeDays: "
        + written
        + "}}}}}}}",
    )
    assert config.problems == ()
    assert config.default_agent.search.half_life_days == days


@pytest.mark.parametrize(
    ("tokens", "overlap", "expected"),
    [(0, 5, (1, 0)), (-4, 0, (1, 0)), (100, 100, (100, 99)), (100, -1, (100, 0)), (1, 9, (1, 0))],
)
def test_chunk_sizes(home: Path, tokens: int, overlap: int, expected: tuple[int, int]) -> None:
    assert KNOWN["clamps"]["chunking.tokens"] == "max(1,x)"
    assert KNOWN["clamps"]["chunking.overlap"] == "0..tokens-1"
    search = _search(home, {"chunking": {"tokens": tokens, "overlap": overlap}})
    assert (search.chunk_tokens, search.chunk_overlap) == expected


def test_cache_entries(home: Path) -> None:
    assert KNOWN["clamps"]["cache.maxEntries"] == "max(1,floor(x)) or unset"
    assert _search(home, {}).cache_max_entries is None
    assert _search(home, {"cache": {"maxEntries": 0}}).cache_max_entries == 1
    assert _search(home, {"cache": {"maxEntries": 7.9}}).cache_max_entries == 7


@pytest.mark.parametrize("case", KNOWN["merge_defaults_and_agent"], ids=str)
def test_an_agents_values_go_over_the_defaults(home: Path, case: dict[str, Any]) -> None:
    if "defaults" in case:
        search = _search(home, case["defaults"], case["agent"])
        assert case["out"] == {
            "tokens": search.chunk_tokens,
            "overlap": search.chunk_overlap,
            "maxResults": search.max_results,
            "minScore": search.min_score,
        }
    elif "sources" in case:
        search = _search(
            home,
            {
                "sources": case["sources"],
                "experimental": {"sessionMemory": case["sessionMemory"]},
            },
        )
        assert list(search.sources) == case["out"]
    else:
        search = _search(
            home,
            {"extraPaths": case["defaults_extraPaths"]},
            {"extraPaths": case["agent_extraPaths"]},
        )
        assert list(search.extra_paths) == case["out"]


@pytest.mark.parametrize("case", CHUNKING["provider_key_examples"], ids=str)
def test_provider_key(case: dict[str, str]) -> None:
    assert provider_key(json.loads(case["json"])) == case["sha256"]


def test_scope_hash() -> None:
    case = CHUNKING["scope_hash_example"]
    data = json.loads(case["json"])
    given = data["multimodal"]
    assert (
        scope_hash(
            data["extraPaths"],
            multimodal=given["enabled"],
            modalities=given["modalities"],
            max_file_bytes=given["maxFileBytes"],
        )
        == case["sha256"]
    )


# --- finding it -------------------------------------------------------------------------------


def test_without_a_file_everything_is_a_default(tmp_path: Path) -> None:
    config = read_config({}, tmp_path)
    assert config.path is None
    assert config.layout is None
    assert config.problems == ()
    assert not config.broken
    (agent,) = config.agents
    assert agent.name == "main"
    assert agent.search == MemorySearchConfig()
    assert agent.workspace == tmp_path / ".openclaw" / "workspace"


@pytest.mark.parametrize(
    ("name", "env"),
    [
        (".openclaw/openclaw.json", {}),
        (".clawdbot/clawdbot.json", {}),
        (".moltbot/openclaw.json", {}),
        ("elsewhere/openclaw.json", {"OPENCLAW_STATE_DIR": "~/elsewhere"}),
        ("my.json5", {"OPENCLAW_CONFIG_PATH": "~/my.json5"}),
        ("other/.openclaw/openclaw.json", {"OPENCLAW_HOME": "HOME/other"}),
    ],
)
def test_places_of_the_file(tmp_path: Path, name: str, env: dict[str, str]) -> None:
    path = _write(tmp_path, "{memory: {citations: 'off'}}", name)
    env = {key: value.replace("HOME", str(tmp_path)) for key, value in env.items()}
    config = read_config(env, tmp_path)
    assert config.path == path
    assert config.default_agent.search.citations == "off"


def test_a_named_file_and_a_named_state_folder_are_the_only_ones(home: Path) -> None:
    _write(home, "{memory: {citations: 'on'}}")
    assert read_config({"OPENCLAW_CONFIG_PATH": str(home / "none.json")}, home).path is None
    chosen = home / "chosen"
    chosen.mkdir()
    env = {"OPENCLAW_CONFIG_PATH": str(home / ".openclaw" / "openclaw.json")}
    assert read_config(env, home, state_dir=chosen).path is None
    path = _write(home, "{}", "chosen/openclaw.json")
    assert read_config(env, home, state_dir=chosen).path == path


# --- reading it -------------------------------------------------------------------------------


def test_json5_in_the_older_layout(home: Path) -> None:
    config = _read(
        home,
        """// how the agents are
        {
          meta: { lastTouchedVersion: '2026.4.26' },
          agents: {
            defaults: {
              workspace: "~/notes",
              memorySearch: {
                provider: 'openai', model: "openai/text-embedding-3-large",
                query: { maxResults: 8, hybrid: { mmr: { enabled: true, lambda: .5, }, }, },
                store: { path: "~/mem/{agentId}.sqlite", fts: { tokenizer: "trigram" } },
              },
            },
            list: [
              { id: "main" },
              { id: "Work Bot", default: true, workspace: "~/work",
                memorySearch: { query: { minScore: +0.2 } } },
            ],
          },
          memory: { citations: "on" },
        }""",
    )
    assert config.problems == ()
    assert config.layout == OLD_LAYOUT
    assert [agent.name for agent in config.agents] == ["main", "work-bot"]
    main, work = config.agents
    assert config.default_agent is work
    assert work.workspace == home / "work"
    assert main.workspace == home / "notes" / "main"
    assert (work.search.max_results, work.search.min_score) == (8, 0.2)
    assert (work.search.mmr_enabled, work.search.mmr_lambda) == (True, 0.5)
    assert work.search.store_path == str(home / "mem" / "work-bot.sqlite")
    assert work.search.tokenizer == "trigram"
    assert work.search.citations == "on"
    assert work.search.set_keys == {
        "provider",
        "model",
        "query.maxResults",
        "query.minScore",
        "query.hybrid.mmr.enabled",
        "query.hybrid.mmr.lambda",
        "store.path",
        "store.fts.tokenizer",
    }
    assert "query.minScore" not in main.search.set_keys
    assert release_of(config)[0] == "2026.4"
    assert config.agent("new").search.store_path == str(Path("~/mem/new.sqlite"))


def test_the_newer_layout(home: Path) -> None:
    config = _read(
        home,
        {
            "memory": {"search": {"provider": "gemini", "query": {"maxResults": 9}}},
            "agents": {
                "entries": {
                    "main": {"memory": {"search": {"query": {"minScore": 0.1}}}},
                    "family": {"workspace": "/srv/family"},
                },
                "lab": {"memory": {"search": {"enabled": False}}},
            },
        },
    )
    assert config.layout == NEW_LAYOUT
    assert config.problems == ()
    main, family, lab = config.agents
    assert (main.search.max_results, main.search.min_score) == (9, 0.1)
    assert (family.search.max_results, family.search.min_score) == (9, 0.35)
    assert family.workspace == Path("/srv/family").absolute()
    assert (lab.name, lab.search.enabled) == ("lab", False)
    assert release_of(config) == ("2026.9", "its keys are under memory.search")


def test_of_both_layouts_the_newer_is_read(home: Path) -> None:
    config = _read(
        home,
        {
            "memory": {"search": {"query": {"maxResults": 3}}},
            "agents": {"defaults": {"memorySearch": {"query": {"maxResults": 4}}}},
        },
    )
    assert config.default_agent.search.max_results == 3
    assert config.problems == (
        "both memorySearch and memory.search are written: memory.search is read",
    )


def test_null_is_not_a_value(home: Path) -> None:
    search = _search(home, {"query": {"maxResults": 9}}, {"query": {"maxResults": None}})
    assert search.max_results == 9
    assert _search(home, {"query": None, "provider": None}).set_keys == frozenset()


def test_secrets_are_not_kept(home: Path) -> None:
    secret = "sk-THISISSECRET"
    search = _search(
        home,
        {
            "remote": {
                "apiKey": {"source": "env", "id": secret},
                "headers": {"X-Team": secret, "Authorization": f"Bearer {secret}"},
                "baseUrl": "https://example.test/v1",
            }
        },
        {"remote": {"apiKey": secret}},
    )
    assert search.remote_api_key_set
    assert search.remote_headers == ("authorization", "x-team")
    assert search.remote_base_url == "https://example.test/v1"
    assert secret not in repr(search)


def test_a_broken_file_does_not_quote_its_secrets(home: Path) -> None:
    config = _read(home, '{memory: {search: {remote: {apiKey: "sk-SECRET" "x"}}}}')
    assert config.broken
    assert "SECRET" not in repr(config)


def test_variables_are_filled_in_where_there_is_no_secret(home: Path) -> None:
    config = _read(
        home,
        {
            "agents": {
                "defaults": {
                    "workspace": "${NOTES}/ws",
                    "memorySearch": {
                        "model": "$${KEPT}",
                        "extraPaths": ["${NOTES}/extra", " plain "],
                        "remote": {"baseUrl": "${BASE}", "apiKey": "${MISSING_KEY}"},
                        "local": {"modelPath": "${NOT_SET}/model.gguf"},
                    },
                }
            }
        },
        {"NOTES": str(home / "n"), "BASE": "http://localhost:1/v1"},
    )
    agent = config.default_agent
    assert agent.workspace == home / "n" / "ws"
    assert agent.search.extra_paths == (f"{home / 'n'}/extra", "plain")
    assert agent.search.remote_base_url == "http://localhost:1/v1"
    assert agent.search.model == "${KEPT}"
    assert agent.search.local_model_path == ""
    assert config.problems == (
        "agents.defaults.memorySearch.local.modelPath: names ${NOT_SET}, which is not set here; "
        "the default is used",
    )


def test_extra_paths_with_a_pattern(home: Path) -> None:
    config = _read(
        home,
        {"memory": {"search": {"extraPaths": ["docs", {"path": "~/big", "pattern": "**/*.md"}]}}},
    )
    search = config.default_agent.search
    assert search.extra_paths == ("docs", "~/big")
    assert search.extra_path_patterns == (("~/big", "**/*.md"),)
    assert effective(search, "2026.9").search.extra_path_patterns == search.extra_path_patterns


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("enabled", "yes"),
        ("provider", 3),
        ("provider", " "),
        ("sources", "memory"),
        ("sources", ["memory", ["x"]]),
        ("extraPaths", [1]),
        ("query.maxResults", 0),
        ("query.maxResults", 6.5),
        ("query.maxResults", True),
        ("query.minScore", "0.2"),
        ("query.minScore", math.nan),
        ("query.hybrid", []),
        ("query.hybrid.mmr.lambda", "high"),
        ("chunking.tokens", math.inf),
        ("store.fts.tokenizer", "porter"),
        ("remote.headers", ["x"]),
        ("remote", "https://example.test"),
        ("multimodal.modalities", ["video"]),
        ("sync.intervalMinutes", -1),
    ],
)
def test_a_wrong_value_is_named_and_the_default_used(home: Path, key: str, value: Any) -> None:
    config = _read(home, {"agents": {"defaults": {"memorySearch": _nested(key, value)}}})
    (problem,) = config.problems
    assert problem.startswith(f"agents.defaults.memorySearch.{key}: ")
    assert "\n" not in problem
    assert HOSTILE.search(problem) is None
    found = config.default_agent.search
    assert found == _with_keys(MemorySearchConfig(), found)


def test_a_number_with_thousands_of_digits_is_a_wrong_value(home: Path) -> None:
    config = _read(home, "{memory: {search: {query: {maxResults: 0x" + "f" * 9000 + "}}}}")
    assert config.problems == (
        "memory.search.query.maxResults: must be a whole number, not a number that large; "
        "the default is used",
    )


@pytest.mark.parametrize(
    "document",
    [
        {"agents": []},
        {"agents": {"list": {}}},
        {"agents": {"list": [3]}},
        {"agents": {"entries": [1]}},
        {"agents": {"defaults": {"memorySearch": []}}},
        {"agents": {"defaults": {"workspace": 4}}},
        {"memory": {"search": "on"}},
        {"memory": {"citations": "sometimes"}},
    ],
)
def test_a_wrong_shape_is_one_problem(home: Path, document: dict[str, Any]) -> None:
    config = _read(home, document)
    assert len(config.problems) == 1
    assert config.agents[0].name == "main"


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("{\n  a: 1\n  b: 2}", 3, 3),
        ("{a: '😀😀',\n  b: tru}", 2, 6),
        ("{a: 1}\n\n x", 3, 2),
        ("", 1, 1),
        ("{\n a: [1,,2]}", 2, 8),
        ("\ufeff{\n /* never closed", 2, 3),
    ],
)
def test_broken_json5_is_one_line_with_its_place(
    home: Path, text: str, line: int, column: int
) -> None:
    config = _read(home, text)
    assert config.broken
    (problem,) = config.problems
    assert problem.startswith(f"{config.path}:{line}:{column}: broken JSON5: ")
    assert config.default_agent.search == MemorySearchConfig()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe{}", ":1: not UTF-8"),
        (b"{\n'a': '\x00'}", ":2: holds a NUL character"),
        (b" " * (2 * 2**20 + 1), "larger than 2097152 bytes"),
        (b"[" * 5000, "broken JSON5: maximum nesting level exceeded"),
        (b"{a: 1" + b"0" * 9000 + b"}", ":1:5: broken JSON5: unclosed NumericLiteral"),
        (b"[]", "must be an object"),
    ],
    ids=["utf-16", "nul", "large", "deep", "digits", "list"],
)
def test_files_that_are_no_configuration(home: Path, data: bytes, said: str) -> None:
    (home / ".openclaw" / "openclaw.json").write_bytes(data)
    config = read_config({}, home)
    assert config.broken
    assert len(config.problems) == 1
    assert said in config.problems[0]


def test_a_folder_in_its_place(home: Path) -> None:
    (home / ".openclaw" / "openclaw.json").mkdir()
    config = read_config({}, home)
    assert config.broken
    assert "cannot be read" in config.problems[0]


# --- includes ---------------------------------------------------------------------------------


def test_includes_are_put_in_their_place(home: Path) -> None:
    _write(home, "{memorySearch: {query: {maxResults: 3, minScore: 0.5}}}", ".openclaw/a.json5")
    _write(home, "{$include: './deep/c.json5', list: [{id: 'x'}]}", ".openclaw/b.json5")
    _write(home, "{list: [{id: 'w'}]}", ".openclaw/deep/c.json5")
    config = _read(
        home,
        """{agents: {$include: ["b.json5"], defaults: {$include: "./a.json5",
            memorySearch: {query: {maxResults: 4}}}}, channels: {$include: "none.json"}}""",
    )
    assert config.problems == ()
    assert [agent.name for agent in config.agents] == ["w", "x"]
    assert config.agents[0].search.max_results == 4
    assert config.agents[0].search.min_score == 0.5


def test_an_include_is_relative_to_its_own_file(home: Path) -> None:
    _write(home, "{query: {maxResults: 3}}", ".openclaw/deep/search.json5")
    _write(home, "{memory: {search: {$include: 'search.json5'}}}", ".openclaw/deep/root.json5")
    config = _read(home, {"$include": "deep/root.json5"})
    assert config.problems == ()
    assert config.default_agent.search.max_results == 3


@pytest.mark.parametrize(
    ("included", "said"),
    [
        ("../outside.json", "leads out of the folder"),
        ("openclaw.json", "includes itself"),
        ("missing.json", "cannot be read"),
        ("broken.json", "broken JSON5"),
        (3, "must be a path or a list of paths"),
        ("a\0b", "leads out of the folder"),
    ],
)
def test_an_include_that_cannot_be_used_is_left_out(home: Path, included: Any, said: str) -> None:
    _write(home, "{", ".openclaw/broken.json")
    _write(home, "{query: {maxResults: 9}}", "outside.json")
    config = _read(home, {"memory": {"search": {"$include": included, "query": {"minScore": 0.1}}}})
    (problem,) = config.problems
    assert said in problem
    assert config.default_agent.search.min_score == 0.1
    assert config.default_agent.search.max_results == 6


def test_includes_that_multiply_come_to_an_end(home: Path) -> None:
    for level in range(12):
        names = json.dumps([f"l{level + 1}.json"] * 9)
        _write(home, f'{{"x": {{"$include": {names}}}}}', f".openclaw/l{level}.json")
    config = _read(home, {"memory": {"$include": "l0.json"}})
    assert not config.broken
    assert config.problems


# --- releases ---------------------------------------------------------------------------------


def test_2026_9_has_fixed_most_of_it(home: Path) -> None:
    config = _read(
        home,
        {
            "memory": {
                "search": {
                    "query": {
                        "maxResults": 9,
                        "minScore": 0.1,
                        "hybrid": {"vectorWeight": 0.1, "mmr": {"enabled": False}},
                    },
                    "chunking": {"tokens": 100},
                    "cache": {"enabled": False, "maxEntries": 5},
                }
            }
        },
    )
    held = effective(config.default_agent.search, "openclaw-2026.9")
    assert (held.search.max_results, held.search.min_score) == (9, 0.1)
    assert (held.search.vector_weight, held.search.text_weight) == (0.7, 0.3)
    assert held.search.mmr_enabled
    assert held.search.decay_enabled
    assert held.search.half_life_days == 30
    assert (held.search.chunk_tokens, held.search.chunk_overlap) == (400, 80)
    assert (held.search.cache_enabled, held.search.cache_max_entries) == (False, 50_000)
    assert (held.search.provider, held.search.model) == ("openai", "text-embedding-3-small")
    assert set(held.ignored) == {
        "query.hybrid.vectorWeight",
        "query.hybrid.mmr.enabled",
        "chunking.tokens",
        "cache.maxEntries",
    }


def test_older_releases_take_the_rest(home: Path) -> None:
    search = _search(
        home,
        {
            "provider": "gemini",
            "model": "models/gemini-embedding-001",
            "store": {"fts": {"tokenizer": "trigram"}, "path": "/tmp/x.sqlite"},
            "query": {"hybrid": {"mmr": {"enabled": True}}},
        },
    )
    oldest, middle, last = (effective(search, name) for name in ("2026.2", "2026.4", "2026.7"))
    assert oldest.ignored == ("store.fts.tokenizer",)
    assert middle.ignored == ()
    assert last.ignored == ("store.path",)
    assert (oldest.search.tokenizer, middle.search.tokenizer) == ("unicode61", "trigram")
    assert middle.search.mmr_enabled
    assert middle.search.model == "gemini-embedding-001"
    assert effective(MemorySearchConfig(), "2026.4").search.provider == "auto"
    assert effective(MemorySearchConfig(), "2026.7").search.provider == "openai"


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("2026.2.17", "2026.2"),
        ("2026.3.2", "2026.2"),
        ("2026.3.13", "2026.4"),
        ("2026.5.7", "2026.4"),
        ("2026.6.11", "2026.7"),
        ("2026.7.1-2", "2026.7"),
        ("2026.8.1", "2026.9"),
        ("v2027.1", "2026.9"),
        ("2025.12.1", "2026.2"),
        ("newest", None),
        ("", None),
    ],
)
def test_the_release_of_a_version(version: str, release: str | None) -> None:
    assert release_of_version(version) == release


def test_the_layout_wins_over_a_version_that_does_not_have_it() -> None:
    def told(layout: Any, version: str) -> str:
        return release_of(OpenClawConfig(layout=layout, version=version))[0]

    assert told(OLD_LAYOUT, "") == "2026.7"
    assert told(OLD_LAYOUT, "2026.9.6") == "2026.7"
    assert told(NEW_LAYOUT, "2026.4.1") == "2026.9"
    assert told(None, "2026.4.1") == "2026.4"
    assert told(None, "") == "2026.9"


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2026\.5"):
        known_release("2026.5")


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("main", "main"),
        ("Work Bot!", "work-bot"),
        (" Ops_1 ", "ops_1"),
        ("日本", "main"),
        (None, "main"),
        ("x" * 80, "x" * 64),
    ],
)
def test_agent_ids(name: str | None, normalised: str) -> None:
    assert agent_id(name) == normalised


def test_workspaces(home: Path) -> None:
    document = {"agents": {"list": [{"id": "a"}, {"id": "b"}]}}
    first, second = _read(home, document).agents
    assert first.workspace == home / ".openclaw" / "workspace"
    assert second.workspace == home / ".openclaw" / "workspace-b"
    (first, _) = _read(home, document, {"OPENCLAW_PROFILE": "dev"}).agents
    assert first.workspace == home / ".openclaw" / "workspace-dev"
    document["agents"]["defaults"] = {"workspace": "~/w"}  # type: ignore[assignment]
    first, second = _read(home, document).agents
    assert (first.workspace, second.workspace) == (home / "w", home / "w" / "b")
    (home / ".openclaw" / "workspace-b").mkdir()
    assert _read(home, document).agents[1].workspace == home / ".openclaw" / "workspace-b"


# --- what an index should say -----------------------------------------------------------------

REAL_SCOPE = "e861c1d291b583b9f4bf96233b72b9e6984cc92320671a0805e1063946e4b1a1"
"""The scope hash in indexes that 2026.4.26, 2026.7.1 and 2026.9.6 made with default settings."""


@pytest.mark.parametrize("release", ["2026.4", "2026.7", "2026.9"])
def test_expected_identity_is_that_of_a_real_index(release: str) -> None:
    provider = "openai-compatible" if release == "2026.9" else "openai"
    search = MemorySearchConfig(provider=provider, model="text-embedding-3-small")
    identity = expected_identity(search, Path("/w"), release)
    assert (identity.model, identity.provider) == ("text-embedding-3-small", provider)
    assert identity.sources == ("memory",)
    assert identity.scope_hash == REAL_SCOPE
    assert (identity.chunk_tokens, identity.chunk_overlap) == (400, 80)
    assert identity.fts_tokenizer == "unicode61"
    newest = release == "2026.9"
    assert identity.chunking_version == (5 if newest else None)
    assert identity.provenance_version == (1 if newest else None)
    assert identity.provider_key is None
    assert identity.vector_dims is None


def test_expected_identity_says_what_it_cannot_know() -> None:
    unknown = expected_identity(MemorySearchConfig(), None, "2026.4")
    assert (unknown.provider, unknown.model) == (None, None)
    assert expected_identity(MemorySearchConfig(), None, "2026.7").provider == "openai"
    oldest = expected_identity(MemorySearchConfig(provider="openai"), None, "2026.2")
    assert (oldest.sources, oldest.scope_hash, oldest.fts_tokenizer) == (None, None, None)
    local = MemorySearchConfig(provider="local", local_model_path="/m.gguf")
    assert expected_identity(local, None, "2026.4").model is None
    relative = MemorySearchConfig(extra_paths=("docs",))
    assert expected_identity(relative, None, "2026.4").scope_hash is None
    assert expected_identity(relative, Path("/w"), "2026.4").scope_hash is not None
    home = MemorySearchConfig(extra_paths=("~/docs",))
    assert expected_identity(home, Path("/w"), "2026.9").scope_hash is None
    assert expected_identity(home, Path("/w"), "2026.9", home=Path("/h")).scope_hash is not None


def test_keyword_only_identity() -> None:
    identity = expected_identity(MemorySearchConfig(provider="none"), None, "2026.7")
    assert (identity.provider, identity.model) == ("none", "fts-only")
    assert identity.provider_key == CHUNKING["provider_key_examples"][0]["sha256"]


def test_scope_of_extra_paths(tmp_path: Path) -> None:
    search = MemorySearchConfig(extra_paths=("b", "/A", "b/../b"))
    paths = sorted(["/A" if path == "/A" else str(tmp_path / path) for path in ("b", "/A")])

    def of(extra: list[Any]) -> str:
        return scope_hash(extra, multimodal=False, modalities=(), max_file_bytes=10 * 2**20)

    assert expected_identity(search, tmp_path, "2026.4").scope_hash == of(paths)
    assert expected_identity(search, tmp_path, "2026.9").scope_hash is None
    plain = MemorySearchConfig(extra_paths=("/b", "/a"))
    assert expected_identity(plain, None, "2026.9").scope_hash == of(["/a", "/b"])
    nested = MemorySearchConfig(extra_paths=("/a", "/a/b"))
    assert expected_identity(nested, None, "2026.9").scope_hash is None
    narrowed = MemorySearchConfig(extra_paths=("/a",), extra_path_patterns=(("/a", "*.md"),))
    expected = of([{"path": "/a", "pattern": "*.md"}])
    assert expected_identity(narrowed, None, "2026.9").scope_hash == expected


def test_an_agent_is_a_value() -> None:
    assert AgentConfig("a") == AgentConfig("a", None, MemorySearchConfig())


def _nested(dotted: str, value: Any) -> dict[str, Any]:
    for part in reversed(dotted.split(".")):
        value = {part: value}
    found: dict[str, Any] = value
    return found


def _with_keys(base: MemorySearchConfig, other: MemorySearchConfig) -> MemorySearchConfig:
    from dataclasses import replace

    return replace(base, set_keys=other.set_keys)
