"""OpenClaw's configuration: where it is, both layouts, clamps, secrets, and what breaks.

And a ranking copied as configuration, which means the same when it is read again.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import asdict, replace

from memtui.model import DateRule, Decay, Fusion, Mmr, Ranking, Rerank
from memtui.model.rankings import SearchMode
from memtui.ranking.profiles import PROFILES
from memtui.settings.openclaw.read import agent_id, own_variables, profile_keys, read_config
from memtui.settings.openclaw.releases import (
    RELEASE_NAMES,
    effective,
    expected_identity,
    fragment,
    ignored_keys,
    json_digest,
    release_named,
    release_of,
    release_of_version,
    to_settings,
)
from memtui.settings.openclaw.schema import (
    AgentConfig,
    MemorySearchConfig,
    OpenClawConfig,
    candidate_count,
    normalised_weights,
)
from memtui.settings.schema import Settings, nested
from memtui.text.sanitize import HOSTILE
from tests.support.known import cases, load

KNOWN: dict[str, Any] = load("config_and_output")
CHUNKING: dict[str, Any] = load("chunking")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".openclaw").mkdir()
    return tmp_path


def _write(home: Path, text: str, name: str = ".openclaw/openclaw.json") -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def _read(home: Path, document: Any) -> OpenClawConfig:
    text = document if isinstance(document, str) else json.dumps(document)
    _write(home, text)
    return read_config({}, home)


def _search(home: Path, defaults: Any, agent: Any = None) -> MemorySearchConfig:
    """Memory search of one agent; every value must be a good one."""
    document: dict[str, Any] = {"agents": {"defaults": {"memorySearch": defaults}}}
    if agent is not None:
        document["agents"]["list"] = [{"id": "main", "memorySearch": agent}]
    config = _read(home, document)
    assert config.problems == ()
    return config.default_agent.search


def _fields(search: MemorySearchConfig) -> dict[str, Any]:
    """What a configuration says other than the default, as JSON."""
    default = MemorySearchConfig()
    changed = {
        name: getattr(search, name)
        for name in search.__struct_fields__
        if getattr(search, name) != getattr(default, name)
    }
    return json.loads(json.dumps(changed, default=sorted))  # type: ignore[no-any-return]


def _document(config: OpenClawConfig, home: Path) -> dict[str, Any]:
    document = {
        "path": config.path and str(config.path),
        "layout": config.layout,
        "broken": config.broken,
        "problems": list(config.problems),
        "version": config.version,
        "backend": config.backend,
        "release": list(release_of(config)),
        "defaults": _fields(config.defaults),
        "agents": [
            {
                "name": agent.name,
                "workspace": agent.workspace and str(agent.workspace),
                "is_default": agent.is_default,
                "search": _fields(agent.search),
            }
            for agent in config.agents
        ],
    }
    return json.loads(json.dumps(document).replace(str(home), "HOME"))  # type: ignore[no-any-return]


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
        memory = {"sessionMemory": case["sessionMemory"]}
        search = _search(home, {"sources": case["sources"], "experimental": memory})
        assert list(search.sources) == case["out"]
    else:
        paths = ({"extraPaths": case[f"{of}_extraPaths"]} for of in ("defaults", "agent"))
        assert list(_search(home, *paths).extra_paths) == case["out"]


@pytest.mark.parametrize("case", cases("openclaw_configs"))
def test_what_files_say(tmp_path: Path, case: dict[str, Any]) -> None:
    for name, text in case["files"].items():
        if text is None:
            (tmp_path / name).mkdir(parents=True)
        else:
            _write(tmp_path, text.replace("HOME", str(tmp_path)), name)
    env = {name: value.replace("HOME", str(tmp_path)) for name, value in case["env"].items()}
    config = read_config(env, tmp_path)
    assert _document(config, tmp_path) == case["config"]
    for problem in config.problems:
        assert "\n" not in problem
        assert HOSTILE.search(problem) is None


def test_clamps_are_the_known_ones(home: Path) -> None:
    clamps = KNOWN["clamps"]
    for name, key in (("minScore", "min_score"), ("hybrid.candidateMultiplier", "candidate_multiplier"),
                      ("hybrid.mmr.lambda", "mmr_lambda")):  # fmt: skip
        low, high = clamps[name.removeprefix("hybrid.")]
        for value, expected in ((low - 3, low), (high + 3, high)):
            query: Any = value
            for part in reversed(name.split(".")):
                query = {part: query}
            assert getattr(_search(home, {"query": query}), key) == expected
    for case in KNOWN["weights"]:
        assert normalised_weights(*case["in"]) == tuple(case["out"])


@pytest.mark.parametrize("case", KNOWN["candidate_count"], ids=str)
def test_candidate_count(case: dict[str, Any]) -> None:
    assert candidate_count(case["maxResults"], case["multiplier"]) == case["out"]


def test_hashes_are_those_of_the_program() -> None:
    for case in CHUNKING["provider_key_examples"]:
        assert json_digest(json.loads(case["json"])) == case["sha256"]
    search = MemorySearchConfig(multimodal_max_file_bytes=0)
    identity = expected_identity(search, None, "2026.9")
    assert identity.scope_hash == CHUNKING["scope_hash_example"]["sha256"]


def test_a_named_file_and_a_named_state_folder_are_the_only_ones(home: Path) -> None:
    _write(home, "{memory: {citations: 'on'}}")
    assert read_config({"OPENCLAW_CONFIG_PATH": str(home / "none.json")}, home).path is None
    chosen = home / "chosen"
    chosen.mkdir()
    env = {"OPENCLAW_CONFIG_PATH": str(home / ".openclaw" / "openclaw.json")}
    assert read_config(env, home, state_dir=chosen).path is None
    path = _write(home, "{}", "chosen/openclaw.json")
    assert read_config(env, home, state_dir=chosen).path == path


def test_a_profile_s_reference_comes_before_a_key_that_was_left(tmp_path: Path) -> None:
    profile = {"provider": "OpenAI", "type": "api_key", "key": "left"}
    referring = {**profile, "keyRef": {"source": "env", "id": "K"}}
    store = {"profiles": {"a": profile, "b": referring}, "order": {"openai": ["b", "a"]}}
    _write(tmp_path, json.dumps(store), "agents/main/agent/auth-profiles.json")
    keys = profile_keys("openai", "main", tmp_path, {"K": "named"})
    assert [(key.value, key.problem) for key in keys] == [("named", ""), ("left", "")]


def test_variables_of_the_program_fill_those_that_are_not_set(home: Path) -> None:
    _write(home, "{env: {A: 'config', B: ' config ', C: 1, vars: {D: 'vars', E: 'vars'}}}")
    _write(home, "export A='one # two' # three\nF=four # five\nE=\n# G=6\n", ".openclaw/.env")
    assert own_variables({"D": "", "F": "set"}, home) == {
        "A": "one # two",
        "B": "config",
        "D": "vars",
    }
    _write(home, "{")
    assert own_variables({}, home) == {"A": "one # two", "F": "four"}


def test_texts_are_read_without_the_blanks_around_them(home: Path) -> None:
    assert _search(home, {"provider": " openai\t"}).provider == "openai"


def test_a_number_with_thousands_of_digits_is_a_wrong_value(home: Path) -> None:
    config = _read(home, "{memory: {search: {query: {maxResults: 0x" + "f" * 9000 + "}}}}")
    assert config.problems == (
        "memory.search.query.maxResults: must be a whole number from 1, not a number that large; "
        "the default is used",
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xfe{}", ":1: not UTF-8"),
        (b" " * (2 * 2**20 + 1), "larger than 2097152 bytes"),
        (b"[" * 5000, "broken JSON5: maximum nesting level exceeded"),
        (b"{a: 1" + b"0" * 9000 + b"}", ":1:5: broken JSON5: unclosed NumericLiteral"),
        (b"[]", "must be an object"),
    ],
    ids=["utf-16", "large", "deep", "digits", "list"],
)
def test_files_that_are_no_configuration(home: Path, data: bytes, said: str) -> None:
    (home / ".openclaw" / "openclaw.json").write_bytes(data)
    config = read_config({}, home)
    assert config.broken
    assert len(config.problems) == 1
    assert said in config.problems[0]


def test_includes_that_multiply_come_to_an_end(home: Path) -> None:
    for level in range(12):
        names = json.dumps([f"l{level + 1}.json"] * 9)
        _write(home, f'{{"x": {{"$include": {names}}}}}', f".openclaw/l{level}.json")
    config = _read(home, {"memory": {"$include": "l0.json"}})
    assert not config.broken
    assert config.problems


@pytest.mark.parametrize(("version", "release"), load("agents")["releases of versions"])
def test_the_release_of_a_version(version: str, release: str | None) -> None:
    one = release_of_version(version)
    assert (one.name if one is not None else None) == release


@pytest.mark.parametrize(("layout", "version", "release"), load("agents")["layouts"])
def test_the_layout_wins_over_a_version_that_does_not_have_it(
    layout: Any, version: str, release: str
) -> None:
    assert release_of(OpenClawConfig(layout=layout, version=version))[0] == release


@pytest.mark.parametrize(("name", "normalised"), load("agents")["agent ids"])
def test_agent_ids(name: str | None, normalised: str) -> None:
    assert agent_id(name) == normalised


@pytest.mark.parametrize("release", RELEASE_NAMES)
def test_a_configuration_without_values_is_the_profile(release: str) -> None:
    settings = to_settings(AgentConfig("main"), release).settings
    applied = Settings.parse(nested(settings)).ranking.apply(PROFILES[f"openclaw-{release}"])
    assert applied == PROFILES[f"openclaw-{release}"]


@pytest.mark.parametrize("case", load("openclaw_releases"), ids=lambda case: case["release"])
def test_what_a_release_makes_of_a_configuration(case: dict[str, Any]) -> None:
    """And what an index that it made should say; the scope hash is that of real indexes."""
    written = {name: _frozen(value) for name, value in case["config"].items()}
    search = MemorySearchConfig(**written)
    release = case["release"]
    expected = _fields(effective(search, release))
    expected.pop("set_keys", None)
    assert (expected, list(ignored_keys(search, release))) == (case["effective"], case["ignored"])
    places: dict[str, tuple[Path | None, Path | None]] = {
        "nowhere": (None, None),
        "in /w": (Path("/w"), None),
        "in /w of /h": (Path("/w"), Path("/h")),
    }
    for name, (workspace, home) in places.items():
        identity = asdict(expected_identity(search, workspace, case["release"], home=home))
        read = {identity.pop("present"), *identity.pop("problems")}
        told = {key: value for key, value in identity.items() if value is not None}
        assert read == {True}
        assert json.loads(json.dumps(told)) == case["identity"][name], name


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


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


def _read_text(text: str) -> OpenClawConfig:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "openclaw.json").write_text(text, encoding="utf-8")
        return read_config({}, Path(folder), state_dir=Path(folder))


@given(RANKINGS, st.sampled_from(RELEASE_NAMES))
def test_a_fragment_read_again_is_the_ranking(ranking: Ranking, release: str) -> None:
    written = fragment(ranking, release)
    config = _read_text(written.text)
    assert config.problems == ()
    assert config.layout == release_named(release).layout
    assert all(line and "\n" not in line for line in written.cannot)
    assert ignored_keys(config.default_agent.search, release) == ()
    search = effective(config.default_agent.search, release)
    assert search.max_results == min(200, ranking.k)
    assert search.min_score == (ranking.min_score or 0.0)
    if release == "2026.9":
        assert search == replace(
            effective(MemorySearchConfig(), release),
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
    taken_over = to_settings(config.default_agent, release).settings
    assert taken_over["ranking.decay.half_life_days"] == search.half_life_days


@pytest.mark.parametrize("release", RELEASE_NAMES)
def test_the_profile_of_a_release_can_be_said_whole(release: str) -> None:
    written = fragment(PROFILES[f"openclaw-{release}"], release)
    assert written.cannot == ()
    assert "// default" not in written.text
    assert _read_text(written.text).default_agent.search.set_keys


@pytest.mark.parametrize("case", load("openclaw_fragments"), ids=lambda case: str(case["changes"]))
def test_what_a_person_would_paste_and_what_a_release_cannot_take(case: dict[str, Any]) -> None:
    types = get_type_hints(Ranking)
    changes = {name: convert(value, types[name]) for name, value in case["changes"].items()}
    written = fragment(replace(PROFILES[f"openclaw-{case['release']}"], **changes), case["release"])
    assert written.text.split("\n") == case["text"]
    assert list(written.cannot) == case["cannot"]
