"""What embedding services charge, as their documents say: prices of a million tokens.

A price that no document states is not guessed: it is `None`, which is unknown and not free.
Prices change; each has the day of its document, which people are shown beside every sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memtui.embedding.services import SERVICES, address_of
from memtui.settings.schema import EmbeddingSettings

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
_UNCHARGED: Final = frozenset({"minilm", "use-multilingual", "wordllama", "gguf", "ollama"})


def list_price(provider: str, model: str) -> ListPrice | None:
    """What the service itself charges for a model; `None` where no document says.

    `FREE` for what runs on machines of the user: the local models, and `ollama`. `model` is
    the service's own name of it, without a prefix such as `openai/`.
    """
    if provider in _UNCHARGED:
        return FREE
    service = SERVICES.get(provider)
    row = service.models.get(model) if service is not None else None
    if service is None or row is None or row.price is None:
        return None
    return ListPrice(row.price, "USD", row.as_of, service.batch_factor)


def price_of(choice: EmbeddingSettings, provider: str, model: str) -> ListPrice | None:
    """What the user pays: the price in the settings, else the list price; `None`: unknown.

    A list price counts only at the service's own host: who answers at another `base_url` charges
    what nobody here knows, and this machine nothing.
    """
    service = SERVICES.get(provider)
    if choice.price is not None:
        factor = service.batch_factor if service is not None else 1.0
        return ListPrice(choice.price, batch_factor=factor)
    if choice.base_url and service is not None and provider not in _UNCHARGED:
        try:
            address = address_of(service, choice.base_url)
        except ValueError:
            return None
        if not address.is_own:
            return FREE if address.is_loopback else None
    return list_price(provider, model)


def cost_of(tokens: int, price: ListPrice, *, batch: bool = False) -> float:
    """What so many tokens cost in the price's currency, inline or by the batch interface."""
    factor = price.batch_factor if batch else 1.0
    return tokens * price.per_million_tokens * factor / MILLION
