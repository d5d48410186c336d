"""Looking at the embedding providers, and asking those that may be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.embedding.choice import AUTO, NONE
from memtui.embedding.registry import provider_names, registration_of
from memtui.engine.doctor.checks import (
    EXIT_OTHER,
    EXIT_PROVIDER,
    EXIT_SETTINGS,
    Area,
    Check,
    fine,
    note,
    problem,
)
from memtui.engine.doctor.index import why
from memtui.engine.providers.choices import choice_for, requested_name
from memtui.engine.providers.choosing import listing_of, probe
from memtui.errors import MemtuiError
from memtui.model import Failure, ProbeResult, ProviderListing, ProviderState
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.engine.engine import Engine
    from memtui.settings import EmbeddingSettings

_AREA = Area.PROVIDERS


def provider_listings(embedding: EmbeddingSettings) -> tuple[ProviderListing, ...]:
    """Every provider that can be chosen, without an index; loads and asks nothing."""
    requested = requested_name(embedding)
    return tuple(
        replace(
            _listed(embedding, name),
            is_requested=name == requested,
            is_fallback=name == embedding.fallback and name != requested,
        )
        for name in provider_names()
        if name not in (AUTO, NONE)
    )


def _listed(embedding: EmbeddingSettings, name: str) -> ProviderListing:
    choice = choice_for(embedding, name)
    try:
        return listing_of(registration_of(name), choice)
    except ImportError as error:
        detail = f"its part of memtui cannot be loaded: {safe_line(str(error))}"
        hint = "install memtui again"
        return ProviderListing(name, "", False, False, detail, hint, Failure.NOT_INSTALLED)


def listed_by(engine: Engine) -> tuple[ProviderListing, ...]:
    """The providers of a memory, with the one that answers for the index that is live.

    The requested one with how it failed, where it did when it was last asked. Raises
    `IndexUnusable` when there is an index that cannot be read.
    """
    engine.index.refresh_status()
    state = engine.index.status().provider
    return tuple(
        _as_last_asked(replace(listing, is_actual=listing.name == state.actual), state)
        for listing in engine.providers.available()
    )


def _as_last_asked(listing: ProviderListing, state: ProviderState) -> ProviderListing:
    if state.failure is None or not (listing.is_requested and listing.works):
        return listing
    detail = why(state).removeprefix(f"{listing.name}: ")
    return replace(listing, detail=detail, hint=state.hint, failure=state.failure)


def may_be_asked(listing: ProviderListing) -> bool:
    """Whether a probe is what the user chose: a service only where it is configured."""
    chosen = listing.is_requested or listing.is_actual or listing.is_fallback
    return listing.works and (chosen or not is_service(listing))


def is_service(listing: ProviderListing) -> bool:
    """Whether another program computes the vectors, on this machine or elsewhere."""
    return listing.remote or bool(listing.address)


def probes_of(
    listings: Sequence[ProviderListing],
    embedding: EmbeddingSettings,
    tell: Callable[[str], None],
) -> Iterator[ProbeResult]:
    """Embed one word with each provider that may be asked; `tell` hears which one is next."""
    for listing in listings:
        if not may_be_asked(listing):
            continue
        where = f" at {listing.address}" if listing.address else ""
        tell(f"asking {listing.name}{where}")
        try:
            yield probe(choice_for(embedding, listing.name))
        except MemtuiError as error:
            yield ProbeResult(listing.name, False, safe_line(error.message), safe_line(error.hint))


def provider_checks(
    embedding: EmbeddingSettings,
    listings: Sequence[ProviderListing],
    probes: Sequence[ProbeResult],
) -> Iterator[Check]:
    """The requested provider, the fallback, and what the probes found."""
    asked = {result.name: result for result in probes}
    by_name = {listing.name: listing for listing in listings}
    requested = requested_name(embedding)
    chosen, second = by_name.get(requested), by_name.get(embedding.fallback)
    falls_back = second is not None and second is not chosen and _answers(second, asked)
    if embedding.provider == NONE:
        yield fine(_AREA, "requested", "none: keyword search alone, as configured")
    elif chosen is None:
        yield _unknown("embedding.provider", embedding.provider)
    else:
        code = EXIT_OTHER if falls_back else EXIT_PROVIDER
        asked_for = AUTO if embedding.provider == AUTO else ""
        yield _judged("requested", chosen, asked.get(chosen.name), code, asked_for)
    if embedding.provider != NONE:
        yield from _second(embedding, second, chosen, asked)
    named = {requested, embedding.fallback}
    for result in probes:
        if result.name not in named:
            yield _probed(result)


def _second(
    embedding: EmbeddingSettings,
    second: ProviderListing | None,
    chosen: ProviderListing | None,
    asked: dict[str, ProbeResult],
) -> Iterator[Check]:
    if embedding.fallback == NONE:
        yield fine(_AREA, "fallback", "none: without the provider, keyword search alone")
    elif second is None and embedding.fallback != AUTO:
        yield _unknown("embedding.fallback", embedding.fallback)
    elif second is not None and second is not chosen:
        yield _judged("fallback", second, asked.get(second.name), EXIT_OTHER)


def _answers(listing: ProviderListing, asked: dict[str, ProbeResult]) -> bool:
    result = asked.get(listing.name)
    if result is not None:
        return result.works
    return listing.works and listing.failure is None


def _unknown(key: str, name: str) -> Check:
    hint = "`memtui providers` lists them"
    return problem(_AREA, key, f"no embedding provider is named {name}", hint, EXIT_SETTINGS)


def _judged(
    role: str,
    listing: ProviderListing,
    result: ProbeResult | None,
    code: int,
    asked_for: str = "",
) -> Check:
    name = f"{listing.name} ({asked_for})" if asked_for else listing.name
    if not listing.works or (result is None and listing.failure is not None):
        return problem(_AREA, role, f"{name}: {listing.detail}", listing.hint, code)
    if result is None:
        # A look cannot tell whether a service answers, or takes the key.
        untried = "; not tried (--probe asks it)" if is_service(listing) else ""
        return fine(_AREA, role, f"{name}: {listing.detail}{untried}")
    if not result.works:
        return problem(_AREA, role, f"{name}: {result.detail}", result.hint, code)
    return fine(_AREA, role, f"{name}: {answer_words(result)}")


def _probed(result: ProbeResult) -> Check:
    if result.works:
        return fine(_AREA, result.name, answer_words(result))
    return note(_AREA, result.name, result.detail, result.hint)


def answer_words(result: ProbeResult) -> str:
    """What a provider answered, how fast, and from where."""
    took = "" if result.milliseconds is None else f" in {result.milliseconds:.1f} ms"
    where = f" from {result.address}" if result.address else ""
    return f"{result.detail}{took}{where}"
