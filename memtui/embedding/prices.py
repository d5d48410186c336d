"""What embedding services charge, as their documents say: prices of a million tokens.

A price that no document states is not guessed: it is `None`, which is unknown and not free.
Prices change; each has the day of its document, which people are shown beside every sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice

MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ListPrice:
    """What a million tokens cost, and since when."""

    per_million_tokens: float
    """In `currency`; 0 is free of charge."""
    currency: str = ""
    """ISO 4217, like `USD`; empty for the user's own price, whose currency nobody told."""
    as_of: str = ""
    """The day (or month) of the document, `YYYY-MM-DD` or `YYYY-MM`; empty where none counts."""
    batch_factor: float = 1.0
    """What the price is multiplied by for the batch interface."""


FREE: Final = ListPrice(0.0)
"""The price of what is computed on machines of the user."""

# Half of the price, as the guides say (https://platform.openai.com/docs/guides/batch,
# https://ai.google.dev/gemini-api/docs/batch-api, https://docs.mistral.ai/capabilities/batch);
# Voyage's own takes 33 % off (https://docs.voyageai.com/docs/batch-inference).
_BATCH_FACTORS: Final = {"openai": 0.5, "gemini": 0.5, "mistral": 0.5, "voyage": 0.67}
_UNCHARGED: Final = frozenset({"minilm", "use-multilingual", "wordllama", "gguf", "ollama"})

# Where a page carries no day, the date is the month in which a copy of it was read; pages that
# are not the service's own repeat its list.
PRICES: Final[Mapping[tuple[str, str], ListPrice]] = {
    (service, model): ListPrice(price, "USD", as_of, _BATCH_FACTORS[service])
    for service, model, price, as_of in (
        # https://developers.openai.com/api/docs/models/text-embedding-3-large
        ("openai", "text-embedding-3-small", 0.02, "2026-11"),
        ("openai", "text-embedding-3-large", 0.13, "2026-11"),
        # https://developers.googleblog.com/gemini-batch-api-now-supports-embeddings-and-openai-
        # compatibility, https://embeddingcost.com/google
        ("gemini", "gemini-embedding-001", 0.15, "2025-09-10"),
        ("gemini", "gemini-embedding-2-preview", 0.20, "2026-04"),
        # https://usagepricing.com/blueprint/voyage-ai
        ("voyage", "voyage-4-large", 0.12, "2026-11"),
        ("voyage", "voyage-4", 0.06, "2026-11"),
        ("voyage", "voyage-4-lite", 0.02, "2026-11"),
        # https://hivebook.wiki/wiki/voyage-ai-embeddings-rerankers-for-rag
        ("voyage", "voyage-3-large", 0.18, "2026-05"),
        ("voyage", "voyage-3.5", 0.06, "2026-05"),
        ("voyage", "voyage-3.5-lite", 0.02, "2026-05"),
        ("voyage", "voyage-code-3", 0.18, "2026-05"),
        # https://docs.voyageai.com/pricing
        ("voyage", "voyage-3", 0.06, "2026-11"),
        ("voyage", "voyage-3-lite", 0.02, "2026-11"),
        ("voyage", "voyage-finance-2", 0.12, "2026-11"),
        ("voyage", "voyage-law-2", 0.12, "2026-11"),
        # https://opencode.ai/data/mistral/mistral-embed
        ("mistral", "mistral-embed", 0.10, "2026-11"),
    )
}
"""By provider and model, without the free tokens that a service may give an account."""


def list_price(provider: str, model: str) -> ListPrice | None:
    """What the service itself charges for a model; `None` where no document says.

    `FREE` for what runs on machines of the user: the local models, and `ollama`. `model` is
    the service's own name of it, without a prefix such as `openai/`.
    """
    if provider in _UNCHARGED:
        return FREE
    return PRICES.get((provider, model))


def price_of(choice: EmbeddingChoice, provider: str, model: str) -> ListPrice | None:
    """What the user pays: the price in the settings, else the list price; `None`: unknown.

    A list price counts only at the service's own host: who answers at another `base_url` charges
    what nobody here knows, and this machine nothing.
    """
    if choice.price is not None:
        return ListPrice(choice.price, batch_factor=_BATCH_FACTORS.get(provider, 1.0))
    if choice.base_url and provider not in _UNCHARGED:
        return _price_at(choice.base_url, provider, model)
    return list_price(provider, model)


def _price_at(base_url: str, provider: str, model: str) -> ListPrice | None:
    from memtui.embedding.services import SERVICES, address_of

    if provider not in SERVICES:
        return list_price(provider, model)
    try:
        address = address_of(SERVICES[provider], base_url)
    except ValueError:
        return None
    if address.is_own:
        return list_price(provider, model)
    return FREE if address.is_loopback else None


def cost(tokens: int, price: ListPrice, *, batch: bool = False) -> float:
    """What so many tokens cost in the price's currency, inline or by the batch interface."""
    factor = price.batch_factor if batch else 1.0
    return tokens * price.per_million_tokens * factor / MILLION
