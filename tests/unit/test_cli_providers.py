"""`memtui providers`, and what index, status, search and explain say of the provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from memtui.embedding.registry import register, registration_of
from memtui.engine.ports import RebuildCost
from memtui.model import (
    Failure,
    Leg,
    LegState,
    LegStatus,
    ProviderListing,
    ProviderState,
    Reason,
)
from memtui.report.providers import (
    cost_words,
    vectors_note,
)
from tests.support.command_line import Answer, Run, command_line, own_home, set_up
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.embedding_services import EmbeddingServer, embedding_server, repeated_key

KEY = "sk-SECRET-that-nobody-may-see-0123456789"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def memtui(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


@pytest.fixture
def notes(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = home / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n\nThe router is on VLAN 30.\n")
    monkeypatch.setenv("MEMTUI_ROOT", str(folder))
    return folder


@pytest.fixture
def openai(notes: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    """A service on this machine that is configured, and `hashed` as the fallback."""
    with embedding_server() as server, registered_hashed():
        known = registration_of("hashed")
        register(replace(known, create=lambda choice: HashedProvider()))
        url = f"{server.url}/v1"
        set_up(monkeypatch, provider="openai", base_url=url, model="m", fallback="hashed")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        yield server


def listed(answer: Answer) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in answer.document["providers"]}


# --- the list -----------------------------------------------------------------------------------


def test_the_list_without_a_memory_folder(memtui: Run) -> None:
    answer = memtui("providers", "--json")
    assert answer.code == 0
    found = listed(answer)
    assert list(found) == [
        "minilm",
        "use-multilingual",
        "wordllama",
        "gguf",
        "openai",
        "gemini",
        "voyage",
        "mistral",
        "ollama",
    ]
    assert set(found["minilm"]) == {field.name for field in fields(ProviderListing)}
    assert found["minilm"]["is_requested"]
    assert (found["minilm"]["works"], found["minilm"]["dimensions"]) == (True, 384)
    assert (found["openai"]["works"], found["openai"]["failure"]) == (False, "no_key")
    assert found["openai"]["address"] == "api.openai.com"
    assert answer.document["requested"] == "auto"


@pytest.mark.usefixtures("notes")
def test_a_service_that_nobody_has_asked_is_untried(
    memtui: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    set_up(monkeypatch, provider="openai")
    lines = memtui("providers").out.splitlines()
    states = {line.split()[0]: line.split()[1] for line in lines if not line.startswith(" ")}
    assert (states["openai"], states["ollama"], states["minilm"]) == ("untried", "untried", "ready")
    at = next(number for number, line in enumerate(lines) if line.startswith("openai"))
    assert lines[at + 1].strip() == ("requested, in use: key of OPENAI_API_KEY, for api.openai.com")
    looked = next(line for line in memtui("doctor").out.splitlines() if " requested " in line)
    assert looked.endswith("for api.openai.com; not tried (--probe asks it)")


def test_what_is_set_for_one_provider_is_not_handed_on(
    memtui: Run, openai: EmbeddingServer
) -> None:
    found = listed(memtui("providers", "--json"))
    assert (found["openai"]["model"], found["openai"]["address"]) == ("m", openai.host)
    assert found["openai"]["is_requested"]
    assert found["hashed"]["is_fallback"]
    assert found["voyage"]["address"] == "api.voyageai.com"
    assert found["voyage"]["model"] != "m"
    assert not openai.seen


def test_the_list_for_a_provider_that_does_not_exist(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, provider="opanai")
    answer = memtui("providers", "--json")
    assert answer.code == 2
    assert "openai" in listed(answer)
    assert not any(entry["is_requested"] for entry in answer.document["providers"])
    (warning,) = answer.document["warnings"]
    assert 'no embedding provider is named "opanai"' in warning
    assert "did you mean" in memtui("providers").err


# --- index, status, search ----------------------------------------------------------------------


def test_indexing_with_a_service(
    memtui: Run, notes: Path, openai: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, price=2000.0)
    planned = memtui("index", "--dry-run")
    expected = f"would index 1 file at {openai.host}: ~11 tokens to embed, about 0.02\n"
    assert planned.out.startswith(expected)
    assert memtui("index", "--dry-run", "--json").document["cost"]["tokens_estimate"] == 11
    assert not openai.seen
    first = memtui("index")
    assert first.code == 0
    told = f"embedding by openai m at {openai.host}: 1 file, ~11 tokens to embed, about 0.02"
    assert told in first.err
    assert "1 vector made, 0 from the cache" in first.out
    assert "spent: 1 request, 1 text, " in first.out
    again = memtui("index", "--force")
    assert "1 chunk, 1 vector from the cache, ~0 tokens to embed" in again.err
    assert "0 vectors made, 1 from the cache (100 %)" in again.out
    assert "spent" not in again.out
    dry = memtui("index", "--force", "--dry-run")
    assert dry.out.startswith(f"would index 1 file at {openai.host}: 1 chunk, 1 vector from the")
    assert memtui("index", "--json").document["provider"]["address"] == openai.host
    text = memtui("status").out
    assert "provider  openai, m" in text
    assert f"text      goes to {openai.host}" in text
    assert "SECRET" not in first.out + first.err + again.out + again.err + dry.out + text


def test_a_fallback_is_named_beside_the_results(
    memtui: Run, notes: Path, openai: EmbeddingServer
) -> None:
    openai.faults, openai.stays = [repeated_key(401)], True
    indexed = memtui("index")
    assert indexed.code == 0
    assert "vectors by hashed, because openai: HTTP 401" in indexed.err
    document = memtui("index", "--json").document
    assert document["provider"]["actual"] == "hashed"
    assert document["provider"]["failure"] == "key_refused"
    line = "vectors by hashed, because openai: HTTP 401"
    for command in (("search", "router"), ("explain", "router")):
        answer = memtui(*command)
        assert answer.code == 0
        assert f"memtui: {line}" in answer.err
    document = memtui("search", "router", "--json").document
    assert document["legs"]["vector"]["state"] == "ok"
    assert any(warning.startswith(line) for warning in document["warnings"])
    listings = listed(memtui("providers", "--json"))
    assert listings["hashed"]["is_actual"]
    assert listings["openai"]["failure"] == "key_refused"
    assert listings["openai"]["detail"].startswith("HTTP 401")
    text = memtui("providers").out
    assert "openai           key refused   m " in text
    assert "requested: HTTP 401" in text
    text = memtui("status").out
    assert "provider  openai -> hashed, " in text
    assert "why       openai: HTTP 401" in text
    assert "failure   key refused" in text
    assert "next step set OPENAI_API_KEY" in text
    doctor = memtui("doctor", "--json")
    assert doctor.code == 1
    (made_by,) = (check for check in doctor.document["checks"] if check["name"] == "made by")
    assert made_by["grade"] == "problem"
    assert made_by["detail"].startswith("of hashed, not of openai: openai: HTTP 401")
    (requested,) = (check for check in doctor.document["checks"] if check["name"] == "requested")
    assert (requested["grade"], requested["exit_code"]) == ("problem", 1)
    assert requested["detail"].startswith("openai: HTTP 401")
    explained = memtui("explain", "router", "--json").document
    assert explained["provider_state"] == document["index"]["provider_state"]
    state = document["index"]["provider_state"]
    assert set(state) == {field.name for field in fields(ProviderState)}
    assert (state["requested"], state["actual"]) == ("openai", "hashed")
    assert (state["state"], state["failure"]) == ("fallback", "key_refused")


def test_index_ends_with_4_when_none_takes_over(
    memtui: Run, notes: Path, openai: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, fallback="none")
    openai.faults, openai.stays = [repeated_key(401)], True
    answer = memtui("index")
    assert answer.code == 4
    assert "no vectors were made: openai: HTTP 401" in answer.err
    found = memtui("search", "router")
    assert (found.code, "MEMORY.md" in found.out) == (0, True)
    assert "vectors: none (no vectors yet); `memtui index` makes those of openai" in found.err
    assert memtui("status").code == 0
    deep = memtui("status", "--deep")
    assert "FAILS     provider: openai m: HTTP 401" in deep.out
    openai.faults = []
    assert memtui("index").code == 0


# --- in words -----------------------------------------------------------------------------------

WELL = ProviderState("auto", "minilm", "mini", 384)
FALLBACK = ProviderState(
    "openai",
    "minilm",
    "mini",
    384,
    Reason.FALLBACK,
    "openai: HTTP 401 (set OPENAI_API_KEY)",
    failure=Failure.KEY_REFUSED,
    hint="set OPENAI_API_KEY",
)


@pytest.mark.parametrize(
    ("provider", "maker", "warning"),
    [
        (WELL, "minilm", ""),
        (WELL, None, ""),
        (WELL, "openai", "vectors by openai until those by minilm are there"),
        (FALLBACK, "minilm", f"vectors by minilm, because {FALLBACK.detail}"),
        (FALLBACK, "voyage", "vectors by voyage until those by minilm are there"),
        (replace(FALLBACK, actual=None), None, ""),
    ],
)
def test_what_a_list_says_of_its_vectors(
    provider: ProviderState, maker: str | None, warning: str
) -> None:
    facts = {} if maker is None else {"provider": maker}
    legs = {Leg.VECTOR: LegState(LegStatus.OK, facts=facts)}
    assert vectors_note(legs, provider, full=True) == warning
    waiting = {Leg.VECTOR: LegState(LegStatus.SKIPPED, Reason.NO_VECTORS, "2 chunks wait")}
    told = "vectors: none (2 chunks wait); `memtui index` makes those of minilm"
    assert vectors_note(waiting, WELL, full=True) == told
    failed = {Leg.VECTOR: LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, facts=facts)}
    assert vectors_note(failed, WELL, full=True) == ""
    assert vectors_note(failed, FALLBACK, full=True) == ""
    assert vectors_note({}, FALLBACK, full=True) == f"vectors by minilm, because {FALLBACK.detail}"


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (
            RebuildCost(1, 12, 12, 0, True, None),
            "12 chunks, 12 vectors from the cache, ~0 tokens to embed",
        ),
        (
            RebuildCost(1, 12, 2, 4000, True, 0.00008, "USD"),
            "12 chunks, 2 vectors from the cache, ~4 000 tokens to embed, less than 0.0001 USD",
        ),
        (
            RebuildCost(1, 1, 0, 40, True, None),
            "1 chunk, 0 vectors from the cache, ~40 tokens to embed, price not known",
        ),
        (
            RebuildCost(3, 0, 0, 4000, True, 0.25, "USD"),
            "~4 000 tokens to embed, about 0.25 USD",
        ),
        (
            RebuildCost(1, 1, 0, 40, False, 0.0),
            "1 chunk, 0 vectors from the cache, ~40 tokens to embed",
        ),
    ],
)
def test_a_cost_in_words(cost: RebuildCost, told: str) -> None:
    assert cost_words(cost) == told
