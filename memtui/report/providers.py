"""Embedding providers in words: who makes the vectors, why, where text goes, at what cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from memtui.engine.ports import RebuildCost
from memtui.model import (
    IndexState,
    IndexStatus,
    Leg,
    LegState,
    LegStatus,
    ProviderListing,
    ProviderState,
    Reason,
    Usage,
)
from memtui.report import words
from memtui.report.layout import Column, Row, Section, Tone
from memtui.report.words import FAILURE_WORDS
from memtui.text.sanitize import safe_line

HERE: Final = "this program"
"""Where text goes that is sent nowhere."""
NOT_KNOWN: Final = "a host not known yet"
LONGEST: Final = 400
"""So many characters of a text from outside are shown at most."""
_SMALLEST_PRICE: Final = 0.0001


def brief(text: str) -> str:
    """Return a text from outside as one line of at most 400 characters."""
    line = safe_line(text[: 2 * LONGEST])
    return line if len(line) <= LONGEST else line[:LONGEST] + "…"


# --- where text goes ------------------------------------------------------------------------------


def place_words(address: str, *, remote: bool = False) -> str:
    """Return where text goes: `this program`, or a host."""
    return brief(address) or (NOT_KNOWN if remote else HERE)


def text_words(address: str, *, remote: bool) -> str:
    """Return where embedded text goes: `stays in this program`, `goes to api.openai.com`."""
    if not address and not remote:
        return f"stays in {HERE}"
    here = "" if remote else ", on this machine"
    return f"goes to {place_words(address, remote=remote)}{here}"


def sent_words(cost: RebuildCost) -> str:
    """Return how much has to be embedded, and where: `~33 k tokens to api.openai.com`."""
    place = place_words(cost.address, remote=cost.remote)
    to = "in" if place == HERE else "to"
    return f"~{words.rounded(cost.tokens_estimate)} tokens {to} {place}"


# --- which one answers, and why -------------------------------------------------------------------


def provider_summary(provider: ProviderState) -> str:
    """Return who was asked for, who answers, and with which model, in one line."""
    if provider.actual is None:
        return f"none, keyword search alone ({provider.detail or provider.state})"
    requested = f" (asked for: {provider.requested})"
    before = f"{provider.requested} -> " if is_fallback(provider) else ""
    after = "" if before or provider.requested == provider.actual else requested
    length = "" if provider.dimensions is None else f", {provider.dimensions} dimensions"
    return f"{before}{provider.actual}, {provider.model}{after}{length}"


def why(provider: ProviderState) -> str:
    """Return how the requested provider failed, in as few words as there are."""
    if provider.failure is not None:
        return FAILURE_WORDS[provider.failure]
    return brief(provider.cause) or words.reason_words(provider.state)


def is_fallback(provider: ProviderState) -> bool:
    """Return whether another provider answers because the requested one failed."""
    return provider.state is Reason.FALLBACK and bool(provider.actual)


def fallback_note(provider: ProviderState) -> str:
    """Return who makes the vectors instead of whom, and why, in one line."""
    actual, requested = brief(provider.actual or ""), brief(provider.requested)
    return f"vectors by {actual}, not {requested}: {why(provider)}"


def vectors_note(
    legs: Mapping[Leg, LegState], provider: ProviderState | None, *, full: bool = False
) -> str:
    """What a list should say of its vectors when another provider made them; else nothing.

    Nothing either where the leg itself says that it did not answer. `full` tells what to do, too.
    """
    vector = legs.get(Leg.VECTOR)
    if provider is None or provider.actual is None:
        return ""
    if vector is not None and vector.reason is Reason.NO_VECTORS:
        actual = brief(provider.actual)
        return f"vectors: none ({brief(vector.detail)}); `memtui index` makes those of {actual}"
    if vector is not None and vector.status is not LegStatus.OK:
        return ""
    maker = vector.facts.get("provider") if vector is not None else None
    if isinstance(maker, str) and maker != provider.actual:
        return f"vectors by {brief(maker)} until those by {brief(provider.actual)} are there"
    if provider.state is not Reason.FALLBACK:
        return ""
    because = f"vectors by {brief(provider.actual)}, because {brief(provider.detail)}"
    return because if full else fallback_note(provider)


def provider_change(status: IndexStatus) -> str:
    """Return what differs between the live index and the provider it is just built anew for.

    `index is for minilm, settings say openai`; empty while nothing differs, or nothing is built.
    """
    provider = status.provider
    if status.state is not IndexState.INDEXING or provider.state is not Reason.OK:
        return ""
    requested = f"{provider.actual}/{provider.model}" if provider.actual and provider.model else ""
    if not status.made_by or not requested or status.made_by == requested:
        return ""
    made_by, _, model = status.made_by.partition("/")
    if made_by != provider.actual:
        return f"index is for {brief(made_by)}, settings say {brief(provider.actual or '')}"
    return f"index is for {brief(model)}, settings say {brief(provider.model or '')}"


def listing_words(listing: ProviderListing) -> str:
    """Return the state of a provider, as far as a check tells: `ready`, `no key`.

    Whether a service works is only known once it was asked.
    """
    if listing.failure is not None:
        return FAILURE_WORDS[listing.failure]
    ready = "untried" if listing.is_service else "ready"
    return ready if listing.works else "not ready"


def providers_section(listings: Sequence[ProviderListing], requested: str) -> Section:
    """Return the providers as a table; below each its part just now, and what it has or lacks."""
    columns = (
        Column("PROVIDER", width=17),
        Column("STATE", width=14),
        Column("MODEL", width=27),
        Column("DIMS", right=True, width=6),
        Column("TEXT GOES TO"),
    )
    rows = []
    for listing in listings:
        name = words.padded(listing.name, 16)
        model = words.padded(words.ending(listing.model, 26) if listing.model else "-", 26)
        dimensions = "-" if listing.dimensions is None else str(listing.dimensions)
        address = listing.address or ("a service" if listing.remote else HERE)
        rows.append(Row((name, listing_words(listing), model, dimensions, address)))
        is_auto = requested != listing.name
        roles = {
            f"requested ({requested})" if is_auto else "requested": listing.is_requested,
            "in use": listing.is_actual,
            "fallback": listing.is_fallback,
        }
        role = ", ".join(word for word, is_it in roles.items() if is_it)
        hint = f" ({listing.hint})" if listing.hint else ""
        detail = f"{f'{role}: ' if role else ''}{listing.detail}{hint}"
        rows.append(Row(("", detail), tone=Tone.MUTED))
    return Section("providers", "embedding providers", columns, tuple(rows))


def model_words(model: str | None, dimensions: int | None) -> str:
    """Return a model with its dimensions: `text-embedding-3-small  1536 d`."""
    length = f"{dimensions} d" if dimensions else ""
    return "  ".join(filter(None, (brief(model or ""), length)))


# --- how much -------------------------------------------------------------------------------------


def usage_words(usage: Usage) -> str:
    """Return how much was asked of a provider; `~` before tokens counted by length."""
    about = "~" if usage.estimated else ""
    return (
        f"{words.count(usage.requests, 'request')}, {words.count(usage.texts, 'text')}, "
        f"{about}{words.count(usage.tokens, 'token')}"
    )


def cost_words(cost: RebuildCost) -> str:
    """Return what embedding everything that is not in the cache takes."""
    tokens = f"~{words.count(cost.tokens_estimate, 'token')} to embed"
    if cost.tokens_estimate and cost.price != 0:
        tokens += f", {price_words(cost.price, cost.currency, cost.as_of)}"
    if not cost.chunks:
        return tokens
    cached = f"{words.count(cost.cached, 'vector')} from the cache"
    return f"{words.count(cost.chunks, 'chunk')}, {cached}, {tokens}"


def price_words(price: float | None, currency: str = "", as_of: str = "") -> str:
    """Return a sum in words: `about 0.03 USD (list price of 2026-11)`, `price not known`.

    `None` is unknown, which is not free. `currency` is empty for the user's own price, `as_of`
    (the day or month of the price list) for all but list prices.
    """
    if price is None:
        return "price not known"
    if not price:
        return "nothing is charged"
    if price < _SMALLEST_PRICE:
        about = f"less than {_SMALLEST_PRICE}"
    else:
        about = f"about {price:,.2f}" if price >= 0.01 else f"about {price:.4f}"
    listed = f" (list price of {as_of})" if as_of else ""
    return f"{about} {currency}".rstrip() + listed
