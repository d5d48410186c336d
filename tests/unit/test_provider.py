"""Choosing a provider, saving it, saying honestly which one answers, and cleaning what it gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec.structs import replace

from memtui.embedding.provider import clean_vectors, one_line
from memtui.embedding.registry import registration_of, resolve
from memtui.embedding.services import FREE, SERVICES, Templates, price_of, templates_of
from memtui.engine.ports import RebuildCost
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure, Leg, LegState, LegStatus, ProviderState, Reason
from memtui.report.status import cost_words, price_words, vectors_note
from memtui.settings.load import SettingsFiles
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.write import plan_provider
from tests.support.embedding import known_providers, provider_identity, registered_hashed
from tests.support.known import cases, load


def test_none_is_keyword_search_by_wish() -> None:
    assert resolve(EmbeddingSettings(provider="none")) is None
    assert provider_identity(EmbeddingSettings(provider="none")) is None


def test_auto_never_takes_what_was_only_registered() -> None:
    absent = Mock(side_effect=ProviderError("not there", failure=Failure.NOT_INSTALLED))
    made = replace(registration_of("minilm"), check=absent)
    with known_providers(made), registered_hashed():
        assert resolve(EmbeddingSettings()) is made


def test_clean_vectors_keeps_directions_and_drops_what_is_none() -> None:
    raw = np.array([[3.0, 4.0], [np.nan, -2.0], [np.inf, -np.inf], [1e-11, 0.0], [1e300, 1e300]])
    half = np.sqrt(0.5)
    expected = [[0.6, 0.8], [0.0, -1.0], [0.0, 0.0], [0.0, 0.0], [half, half]]
    cleaned = clean_vectors(raw)
    assert cleaned.dtype == np.float32
    np.testing.assert_allclose(cleaned, expected, atol=1e-7)
    assert np.isnan(raw[1, 0])


@pytest.mark.parametrize(("model", "query", "document"), cases("services", "families"))
def test_families(model: str, query: str, document: str) -> None:
    assert templates_of(model) == Templates(query, document)


# OpenClaw knows three families, and its indexes were asked without any other prefix.
@pytest.mark.parametrize(("model", "prefix"), cases("services", "prefixes of openclaw"))
def test_openclaw_puts_less_before_a_query(model: str, prefix: str) -> None:
    assert SERVICES["ollama"].query_prefix(model) == prefix
    assert SERVICES["openai"].query_prefix(model) == ""


PLAIN = EmbeddingSettings()
SMALL = price_of(PLAIN, "openai", "text-embedding-3-small")


PRICED = [
    (service.name, name)
    for service in SERVICES.values()
    for name, model in service.models.items()
    if model.price is not None
]


@pytest.mark.parametrize(("provider", "model"), PRICED)
def test_every_price_has_its_date(provider: str, model: str) -> None:
    price = price_of(PLAIN, provider, model)
    assert price is not None
    assert price[:2] == (SERVICES[provider].models[model].price, "USD")
    assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", price[2])
    assert SERVICES[provider].batch_factor < 1.0


def test_unknown_is_not_free() -> None:
    assert price_of(PLAIN, "openai", "text-embedding-9") is None
    assert price_of(PLAIN, "nobody", "") is None
    for name in ("minilm", "use-multilingual", "wordllama", "gguf", "ollama"):
        assert price_of(PLAIN, name, "any") is FREE
    assert FREE[0] == 0


def test_a_price_in_the_settings_comes_first() -> None:
    own = price_of(EmbeddingSettings(price=0.5), "openai", "text-embedding-3-small")
    assert own == (0.5, "", "")
    assert price_of(EmbeddingSettings(price=0.0), "voyage", "x") is not None
    assert price_of(EmbeddingSettings(), "openai", "text-embedding-3-small") == SMALL


def test_another_host_has_prices_of_its_own() -> None:
    assert price_of(EmbeddingSettings(base_url="http://127.0.0.1:1234/v1"), "openai", "x") is FREE
    assert price_of(EmbeddingSettings(base_url="ftp://x"), "openai", "x") is None
    elsewhere = EmbeddingSettings(base_url="https://proxy.example/v1")
    assert price_of(elsewhere, "openai", "text-embedding-3-small") is None
    assert price_of(EmbeddingSettings(base_url="http://box:11434"), "ollama", "x") is FREE


@pytest.mark.parametrize(("price", "words"), load("services")["sums"])
def test_sums_in_words(price: float | None, words: str) -> None:
    assert price_words(price, "USD", "2026-11") == words


def test_the_users_own_price_has_no_currency_and_no_date() -> None:
    assert price_words(2.0) == "about 2.00"


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


@pytest.mark.parametrize(("cost", "told"), cases("services", "costs in words"))
def test_a_cost_in_words(cost: list[Any], told: str) -> None:
    assert cost_words(RebuildCost(*cost)) == told


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def files_of(file: Path, root: Path | None = None, **env: str) -> SettingsFiles:
    """The settings of these places alone."""
    return SettingsFiles({"MEMTUI_CONFIG": str(file), **env}, root)


def test_keys_of_one_provider_go_and_stronger_ones_are_told(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    (root / ".memtui.toml").write_text('[embedding]\nprovider = "gguf"\n')
    old = 'model="m"\ndimensions=3\nbase_url="https://h"\nkey_env="K"\nkey_command="c"\nprice=1\n'
    file.write_text(f'[embedding]\n{old}query_prefix="q"\ndocument_prefix="d"\n')
    env = {"MEMTUI_EMBEDDING__BASE_URL": "https://secret.example"}
    plan = plan_provider(files_of(file, root, **env), "minilm", is_other=True)
    assert plan.after == '[embedding]\nprovider = "minilm"\n'
    told = "\n".join(plan.notes)
    assert 'gives "gguf" and wins over this file' in told
    assert "embedding.base_url: $MEMTUI_EMBEDDING__BASE_URL gives it" in told
    assert "secret.example" not in told


def test_a_name_that_is_none_and_a_broken_file_are_refused(file: Path) -> None:
    file.write_text("")
    with pytest.raises(SettingsError):
        plan_provider(files_of(file), "No Such!", is_other=True)
    file.write_text("[embedding")
    with pytest.raises(SettingsError):
        plan_provider(files_of(file), "minilm", is_other=True)


def test_a_library_that_found_no_memory_is_said_so_in_a_few_words() -> None:
    advice = "\n\nIMPORTANT: PLEASE READ THIS FOR ADVICE\n\nOriginal error was: "
    error = ImportError(f"{advice}libopenblas.so: failed to map segment from shared object\n")
    assert one_line(error) == "there is not enough memory"
    assert one_line(ValueError("a\nb")) == "a b"
