"""Prices of embedding, and the words for what it costs."""

from __future__ import annotations

import re

import pytest

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.prices import (
    _PRICES,
    FREE,
    ListPrice,
    cost,
    list_price,
    price_of,
)
from memtui.embedding.registry import provider_names
from memtui.report.providers import price_words

SMALL = list_price("openai", "text-embedding-3-small")


def test_every_price_has_its_date() -> None:
    for (provider, model), price in _PRICES.items():
        assert provider in provider_names()
        assert list_price(provider, model) is price
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", price.as_of)
        assert cost(10**6, price) == price.per_million_tokens > 0
        assert cost(10**6, price, batch=True) < cost(10**6, price)


def test_unknown_is_not_free() -> None:
    assert list_price("openai", "text-embedding-9") is None
    assert list_price("nobody", "") is None
    for name in ("minilm", "use-multilingual", "wordllama", "gguf", "ollama"):
        assert list_price(name, "any") is FREE
    assert cost(10**9, FREE) == 0


def test_a_price_in_the_settings_comes_first() -> None:
    own = price_of(EmbeddingChoice(price=0.5), "openai", "text-embedding-3-small")
    assert own == ListPrice(0.5, batch_factor=0.5)
    assert price_of(EmbeddingChoice(price=0.0), "voyage", "x") is not None
    assert price_of(EmbeddingChoice(), "openai", "text-embedding-3-small") == SMALL


def test_the_services_own_host_has_the_list_price() -> None:
    at_home = EmbeddingChoice(base_url="https://api.openai.com/v1")
    assert price_of(at_home, "openai", "text-embedding-3-small") == SMALL


def test_another_host_has_prices_of_its_own() -> None:
    assert price_of(EmbeddingChoice(base_url="http://127.0.0.1:1234/v1"), "openai", "x") is FREE
    assert price_of(EmbeddingChoice(base_url="ftp://x"), "openai", "x") is None
    elsewhere = EmbeddingChoice(base_url="https://proxy.example/v1")
    assert price_of(elsewhere, "openai", "text-embedding-3-small") is None
    assert price_of(EmbeddingChoice(base_url="http://box:11434"), "ollama", "x") is FREE


@pytest.mark.parametrize(
    ("price", "words"),
    [
        (None, "price not known"),
        (0.0, "nothing is charged"),
        (0.00001, "less than 0.0001 USD (list price of 2026-11)"),
        (0.0007, "about 0.0007 USD (list price of 2026-11)"),
        (0.026, "about 0.03 USD (list price of 2026-11)"),
        (1234.5, "about 1,234.50 USD (list price of 2026-11)"),
    ],
)
def test_sums_in_words(price: float | None, words: str) -> None:
    assert price_words(price, "USD", "2026-11") == words


def test_the_users_own_price_has_no_currency_and_no_date() -> None:
    assert price_words(2.0) == "about 2.00"
