"""Embedding providers in words: who makes the vectors, why, at what cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from memtui.model import Leg, LegState, LegStatus, ProviderListing, ProviderState, Reason, Usage
from memtui.report import words
from memtui.report.cost import price_words

if TYPE_CHECKING:
    from memtui.engine.source import RebuildCost


def provider_summary(provider: ProviderState) -> str:
    """Who was asked for, who answers, with which model: one line."""
    if provider.actual is None:
        return f"none, keyword search alone ({provider.detail or provider.state})"
    model = f"{provider.actual}, {provider.model}"
    if provider.state is Reason.FALLBACK:
        model = f"{provider.requested} -> {model}"
    elif provider.requested != provider.actual:
        model = f"{model} (asked for: {provider.requested})"
    length = "" if provider.dimensions is None else f", {provider.dimensions} dimensions"
    return f"{model}{length}"


def provider_lines(provider: ProviderState) -> Iterator[tuple[str, str]]:
    """What else there is to know of it, each with a label."""
    if provider.actual is not None and provider.detail:
        yield "why", without_hint(provider)
    if provider.failure is not None:
        yield "failure", provider.failure.value.replace("_", " ")
    if provider.hint:
        yield "next step", provider.hint
    if provider.actual is not None:
        yield "text", text_words(provider.address, remote=provider.remote)


def text_words(address: str, *, remote: bool) -> str:
    """Where the text goes that is embedded."""
    if address:
        return f"goes to {address}"
    return "goes to a service" if remote else "stays in this program"


def without_hint(provider: ProviderState) -> str:
    """Why the provider is what it is, without the next step that its detail may end with."""
    return provider.detail.removesuffix(f" ({provider.hint})") if provider.hint else provider.detail


def vectors_warning(provider: ProviderState, legs: Mapping[Leg, LegState]) -> str | None:
    """What a list of results says when its vectors are not those of the requested provider.

    `None` when they are, and when the leg itself says that it failed.
    """
    vector, actual = legs.get(Leg.VECTOR), provider.actual
    if actual is None:
        return None
    if vector is not None and vector.reason is Reason.NO_VECTORS:
        return f"vectors: none ({vector.detail}); `memtui index` makes those of {actual}"
    if vector is not None and vector.status is not LegStatus.OK:
        return None
    maker = vector.facts.get("provider") if vector is not None else None
    if provider.state is Reason.FALLBACK and maker in (None, actual):
        return f"vectors: {actual}, because {provider.detail}"
    if isinstance(maker, str) and maker != actual:
        return f"vectors: {maker}, until those of {actual} are made (`memtui index`)"
    return None


def listing_words(listing: ProviderListing) -> str:
    """How a provider of a list stands, as far as a look can tell: `ready`, `untried`, `no key`.

    Whether a service works is only known once it was asked.
    """
    if listing.failure is not None:
        return listing.failure.value.replace("_", " ")
    if not listing.works:
        return "not ready"
    return "untried" if listing.remote or listing.address else "ready"


def usage_words(usage: Usage) -> str:
    """What a provider was asked for; `~` before tokens that were counted by their length."""
    about = "~" if usage.estimated else ""
    return (
        f"{words.count(usage.requests, 'request')}, {words.count(usage.texts, 'text')}, "
        f"{about}{words.count(usage.tokens, 'token')}"
    )


def cache_words(hits: int, misses: int) -> str:
    """How often the vector of a text was known already."""
    asked = hits + misses
    if not asked:
        return "not asked yet"
    return f"{100 * hits / asked:.0f} % known ({hits} of {words.count(asked, 'vector')})"


def cost_words(cost: RebuildCost) -> str:
    """What embedding everything that is not in the cache takes."""
    if not cost.chunks:
        return f"~{words.count(cost.tokens_estimate, 'token')} to embed{_price(cost)}"
    return (
        f"{words.count(cost.chunks, 'chunk')}, "
        f"{words.count(cost.cached, 'vector')} from the cache, "
        f"~{words.count(cost.tokens_estimate, 'token')} to embed{_price(cost)}"
    )


def _price(cost: RebuildCost) -> str:
    if not cost.tokens_estimate or cost.price == 0:
        return ""
    return f", {price_words(cost.price, cost.currency, cost.as_of)}"
