"""Embedding providers as a service: which there are, what one costs, whether it answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memtui.embedding.provider import PROBE_TEXT, estimated_tokens
from memtui.embedding.registry import (
    AUTO,
    NONE,
    choice_for,
    provider_names,
    registration_of,
    requested_name,
    resolve,
)
from memtui.engine.ports import Index, RebuildCost
from memtui.engine.providers.failover import KEYWORD_ONLY, as_provider_error
from memtui.errors import Cancelled, MemtuiError, ProviderError, SettingsError
from memtui.model import Failure, ProbeResult, ProviderListing, ProviderState
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.settings.schema import Settings


class ProviderService:
    """Lists, probes, weighs and switches embedding providers."""

    def __init__(self, memory: Index, settings: Settings) -> None:
        self._memory = memory
        self._providers = memory.providers
        self._settings = settings

    def available(self) -> tuple[ProviderListing, ...]:
        """Return every provider that can be chosen, in order; quick, loads and asks nothing."""
        if self._providers is None:
            return ()
        primary, fallback = self._providers.primary, self._providers.fallback
        acting = self._providers.acting
        listings = []
        for listing in provider_listings(self._settings.embedding):
            listing = replace(
                listing,
                is_requested=listing.name == primary.name,
                is_fallback=fallback is not None and listing.name == fallback.name,
            )
            if listing.name == acting.name and not acting.outage:
                listing = replace(
                    listing, is_actual=True, model=acting.model, dimensions=acting.dimensions
                )
            listings.append(listing)
        return tuple(listings)

    def probe(self, choice: EmbeddingSettings) -> ProbeResult:
        """Ask a provider for the vector of one word; loads it beside the one that answers.

        Blocks up to the time limit of a query, so not on a thread that draws. Raises
        `SettingsError` for a name or model that does not exist.
        """
        if self._providers is None:
            raise self._memory.read_only()
        return probe(choice, self._providers.closing.is_set)

    def cost(self, choice: EmbeddingSettings | None = None) -> RebuildCost:
        """Weigh a rebuild with a provider, by default with the one that answers now.

        Reads the index and the cache; all zero without an index. Raises `SettingsError` for a name
        or model that does not exist.
        """
        if self._providers is None:
            return RebuildCost(0, 0, 0, 0, False)
        if choice is None:
            acting = self._providers.acting
            choice, identity = acting.choice, acting.identity
            address, remote = acting.address, acting.remote
        else:
            registration = resolve(choice)
            identity = registration.identity(choice) if registration is not None else None
            address, remote = registration.destination(choice) if registration else ("", False)
        files, chunks, cached = self._memory.measure(identity)
        missing = {text_hash: length for text_hash, length in chunks if text_hash not in cached}
        count = sum(1 for text_hash, _ in chunks if text_hash in cached)
        if identity is None:
            return RebuildCost(files, len(chunks), count, 0, False, price=0.0)
        tokens = sum(map(estimated_tokens, missing.values()))
        cost = RebuildCost(files, len(chunks), count, tokens, remote, address=address)
        is_batch = choice.batch and len(missing) >= choice.batch_minimum
        return _priced(cost, choice, identity.name, identity.model, batch=is_batch)

    def switch(self, choice: EmbeddingSettings) -> None:
        """Choose another provider for this run, and make its index while the old one answers.

        Raises `SettingsError` for a name or model that does not exist; nothing is changed then.
        """
        if self._providers is None:
            raise self._memory.read_only()
        self._providers.switch(choice)


def provider_listings(embedding: EmbeddingSettings) -> tuple[ProviderListing, ...]:
    """Return every provider that can be chosen, without an index; loads and asks nothing."""
    requested = requested_name(embedding)
    listings = []
    for name in provider_names():
        if name in (AUTO, NONE):
            continue
        registration, choice = registration_of(name), choice_for(embedding, name)
        detail, identity = "", None
        outage: ProviderError | None = None
        try:
            detail = safe_line(registration.check(choice))
        except MemtuiError as error:
            outage = as_provider_error(error)
        # A name, model or file may be wrong of which the check speaks.
        with suppress(MemtuiError):
            identity = registration.identity(choice)
        address, remote = registration.destination(choice)
        listing = ProviderListing(
            name=name,
            summary=registration.summary,
            remote=remote,
            works=outage is None,
            detail=outage.message if outage else detail,
            hint=outage.hint if outage else "",
            failure=Failure(outage.failure) if outage else None,
            model=identity.model if identity is not None else None,
            dimensions=identity.dimensions if identity is not None else None,
            address=address,
            is_requested=name == requested,
            is_fallback=name == embedding.fallback and name != requested,
        )
        listings.append(listing)
    return tuple(listings)


def probe(choice: EmbeddingSettings, cancelled: Callable[[], bool] | None = None) -> ProbeResult:
    """Ask a provider for the vector of one word, and let go of it.

    Raises `SettingsError` for a name or model that does not exist.
    """
    registration = resolve(choice)
    if registration is None:
        return ProbeResult(choice.provider, True, KEYWORD_ONLY)
    provider = None
    try:
        provider = registration.create(choice)
        began = perf_counter()
        vector = provider.embed_query(PROBE_TEXT, cancelled=cancelled)
        took = (perf_counter() - began) * 1000.0
        dimensions = int(vector.shape[-1])
        return ProbeResult(
            provider.name,
            True,
            f"answers with {dimensions} numbers",
            milliseconds=took,
            dimensions=dimensions,
            address=provider.address,
            model=provider.model,
        )
    except SettingsError:
        raise
    except Cancelled:
        model = provider.model if provider is not None else None
        return ProbeResult(registration.name, False, "stopped", model=model)
    except Exception as error:
        # Whatever its libraries raise is what the probe was to find out.
        outage = as_provider_error(error)
        return ProbeResult(
            provider.name if provider is not None else choice.provider,
            False,
            outage.message,
            outage.hint,
            Failure(outage.failure),
            address=provider.address if provider is not None else "",
            model=(provider or registration.identity(choice)).model,
        )
    finally:
        if provider is not None:
            provider.close()


def _priced(
    cost: RebuildCost, choice: EmbeddingSettings, provider: str, model: str, *, batch: bool = False
) -> RebuildCost:
    """Add who makes the vectors, and what the tokens cost, which nobody may know."""
    from memtui.embedding.services import SERVICES, price_of

    cost = replace(cost, provider=provider, model=model)
    price = price_of(choice, provider, model)
    if price is None:
        return cost
    a_million, currency, as_of = price
    factor = SERVICES[provider].batch_factor if batch and provider in SERVICES else 1.0
    total = cost.tokens_estimate * a_million * factor / 1_000_000
    return replace(cost, price=total, currency=currency, as_of=as_of)


def first_cost(root: Path, settings: Settings, provider: ProviderState) -> RebuildCost:
    """Estimate the tokens of all notes, four bytes a token, and their price; opens no file.

    Of conversations that are opted in all bytes count, though only what is said is embedded. No
    chunk is known yet, and the overlap of chunks, which is embedded twice, is added as the share
    that the settings have.
    """
    from memtui.index.transcripts.discovery import transcript_scope_of, with_transcripts
    from memtui.memory.discover import Scope, discover

    notes = discover(Scope.of(root, settings.memory))
    files = with_transcripts(notes, transcript_scope_of(settings, root)).files
    overlap = 1 + settings.chunking.overlap / settings.chunking.tokens
    tokens = round(sum(estimated_tokens(file.size) for file in files) * overlap)
    name, address = provider.actual or "", provider.address
    cost = RebuildCost(len(files), 0, 0, tokens, provider.remote, address=address)
    return _priced(cost, choice_for(settings.embedding, name), name, provider.model or "")
