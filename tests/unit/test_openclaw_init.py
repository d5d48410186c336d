"""`memtui config init --from-openclaw`: memtui's configuration from OpenClaw's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memtui.cli.main import run
from memtui.engine import Engine
from memtui.memory.workspace import Found
from memtui.ranking.profiles import profile
from memtui.settings.load import Loaded, load_settings
from memtui.settings.openclaw.convert import to_settings
from memtui.settings.openclaw.schema import AgentConfig, MemorySearchConfig
from memtui.text.sanitize import HOSTILE

Run = Callable[..., tuple[int, str, str]]


def _never(
    workspace: Found | None,
    loaded: Loaded,
    *,
    demo: bool = False,
    choose: bool = False,
    foreign: Engine | None = None,
) -> int:
    raise AssertionError("opens nothing")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("MEMTUI_", "OPENCLAW_", "CLAWDBOT_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("MEMTUI_CONFIG", str(tmp_path / "memtui.toml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".openclaw").mkdir()
    return tmp_path


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(("config", "init", *arguments), _never)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def _write(home: Path, document: dict[str, Any], folder: str = ".openclaw") -> None:
    (home / folder).mkdir(exist_ok=True)
    (home / folder / "openclaw.json").write_text(json.dumps(document), encoding="utf-8")


def _loaded(home: Path) -> Loaded:
    loaded = load_settings(env={"MEMTUI_CONFIG": str(home / "memtui.toml")})
    assert loaded.warnings == ()
    return loaded


OLD = {
    "meta": {"lastTouchedVersion": "2026.4.26"},
    "agents": {
        "defaults": {
            "memorySearch": {
                "provider": "openai",
                "extraPaths": ["~/café 😀", 'a"\\b', "\u202etext\x7f"],
                "chunking": {"tokens": 10, "overlap": 12},
                "query": {
                    "maxResults": 500,
                    "minScore": 0.2,
                    "hybrid": {
                        "vectorWeight": 0.9,
                        "textWeight": 0.3,
                        "candidateMultiplier": 7,
                        "mmr": {"enabled": True, "lambda": 0.4},
                        "temporalDecay": {"enabled": True, "halfLifeDays": 14},
                    },
                },
                "sync": {"watch": False, "watchDebounceMs": 3000, "intervalMinutes": 5},
                "store": {"fts": {"tokenizer": "trigram"}},
            }
        },
        "list": [
            {"id": "main"},
            {"id": "work", "memorySearch": {"query": {"maxResults": 9}, "provider": "none"}},
        ],
    },
}


def test_the_older_layout(memtui: Run, home: Path) -> None:
    _write(home, OLD)
    code, out, err = memtui("--from-openclaw")
    assert code == 0
    assert "for OpenClaw 2026.4: the configuration was last written by 2026.4.26" in out
    text = (home / "memtui.toml").read_text(encoding="utf-8")
    assert HOSTILE.search(text) is None
    settings = _loaded(home).settings
    ranking = settings.ranking
    assert ranking.profile == "openclaw-2026.4"
    assert (ranking.k, ranking.min_score, ranking.candidate_multiplier) == (200, 0.2, 7)
    assert (ranking.vector_weight, ranking.keyword_weight) == pytest.approx((0.75, 0.25))
    assert (ranking.mmr.enabled, ranking.mmr.lambda_) == (True, 0.4)
    assert (ranking.decay.enabled, ranking.decay.half_life_days) == (True, 14)
    assert (settings.chunking.tokens, settings.chunking.overlap) == (16, 9)
    assert settings.memory.extra_paths == ("~/café 😀", 'a"\\b', "\u202etext\x7f")
    assert (settings.index.watch, settings.index.debounce_seconds) == (False, 3)
    assert "k = 200  # agents.defaults.memorySearch: query.maxResults\n" in text
    assert 'profile = "openclaw-2026.4"  # the release\n' in text
    for said in (
        "query.maxResults 500: 200 is as far as memtui goes",
        "chunking.tokens 10: 16 is as far as memtui goes",
        "provider openai text-embedding-3-small",
        "no counterpart: store.fts.tokenizer, sync.intervalMinutes",
        "of agent main; --agent takes work as well",
    ):
        assert said in err
    assert all(line.startswith("memtui: ") for line in err.splitlines())


def test_one_agent(memtui: Run, home: Path) -> None:
    _write(home, OLD)
    code, out, err = memtui("--from-openclaw", "--agent", "Work", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["agent"] == "work"
    assert document["release"] == "2026.4"
    assert document["settings"]["ranking.k"] == 9
    assert document["settings"]["embedding.provider"] == "none"
    assert document["from"] == str(home / ".openclaw" / "openclaw.json")
    assert document["problems"] == []
    assert document["not_taken_over"]
    assert _loaded(home).settings.embedding.provider == "none"


def test_the_newer_layout_keeps_what_the_release_has_fixed(memtui: Run, home: Path) -> None:
    _write(
        home,
        {
            "memory": {
                "search": {
                    "query": {"maxResults": 8, "hybrid": {"vectorWeight": 0.1}},
                    "extraPaths": [{"path": "docs/", "pattern": "**/*.md"}],
                }
            }
        },
        "elsewhere",
    )
    code, _, err = memtui("--from-openclaw", "--state-dir", "elsewhere")
    assert code == 0
    assert "query.hybrid.vectorWeight: has no effect in OpenClaw 2026.9" in err
    settings = _loaded(home).settings
    assert settings.memory.extra_paths == ("docs/**/*.md",)
    base = profile("openclaw-2026.9")
    applied = settings.ranking.apply(base)
    assert (applied.k, applied.vector_weight, applied.mmr, applied.decay) == (
        8,
        0.7,
        base.mmr,
        base.decay,
    )


@pytest.mark.parametrize("release", ["2026.2", "2026.4", "2026.7", "2026.9"])
def test_a_configuration_without_values_is_the_profile(release: str) -> None:
    from memtui.settings.keys import nested
    from memtui.settings.schema import Settings

    conversion = to_settings(AgentConfig("main"), release)
    settings = Settings.parse(nested(conversion.settings))
    base = profile(f"openclaw-{release}")
    assert settings.ranking.apply(base) == base


def test_what_has_no_counterpart_is_said() -> None:
    search = MemorySearchConfig(
        enabled=False,
        hybrid_enabled=False,
        sources=("memory", "sessions"),
        session_memory=True,
        set_keys=frozenset(
            {
                "query.hybrid.enabled",
                "query.hybrid.vectorWeight",
                "sources",
                "experimental.sessionMemory",
            }
        ),
    )
    conversion = to_settings(AgentConfig("main", None, search), "2026.4")
    assert conversion.settings["ranking.vector_weight"] == 1.0
    assert conversion.settings["ranking.keyword_weight"] == 0.0
    assert conversion.cannot == (
        "query.hybrid.enabled false: memtui asks both legs; the vector leg has all the weight",
        "provider auto: memtui's own index keeps memtui's provider",
        "enabled false: memtui searches all the same",
        "sources sessions: memtui's own index has no transcripts",
        "no counterpart: experimental.sessionMemory",
    )


def test_a_file_that_is_there_stays(memtui: Run, home: Path) -> None:
    _write(home, OLD)
    (home / "memtui.toml").write_text("# mine\n")
    code, _, err = memtui("--from-openclaw")
    assert code == 2
    assert "is there already" in err
    assert (home / "memtui.toml").read_text() == "# mine\n"
    assert memtui("--from-openclaw", "--force")[0] == 0
    assert "openclaw-2026.4" in (home / "memtui.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from-openclaw", "--agent", "wrok"), "no agent wrok"),
        (("--from-openclaw", "--state-dir", "nowhere"), "no OpenClaw configuration"),
        (("--agent", "main"), "need --from-openclaw"),
        (("--state-dir", "x"), "need --from-openclaw"),
    ],
)
def test_what_cannot_be_done_writes_nothing(
    memtui: Run, home: Path, arguments: tuple[str, ...], said: str
) -> None:
    _write(home, OLD)
    code, out, err = memtui(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert not (home / "memtui.toml").exists()


def test_a_broken_configuration_writes_nothing(memtui: Run, home: Path) -> None:
    (home / ".openclaw" / "openclaw.json").write_text("{\n  agents: }")
    code, out, _ = memtui("--from-openclaw", "--json")
    assert code == 2
    assert "openclaw.json:2:11: broken JSON5" in json.loads(out)["error"]["message"]
    assert not (home / "memtui.toml").exists()
