"""Embedding providers as a service: which there are, what one costs, whether it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from memtui.embedding.choice import AUTO, NONE
from memtui.embedding.provider import PROBE_TEXT, ProviderIdentity, estimated_tokens
from memtui.embedding.registry import (
    provider_identity,
    provider_names,
    registration_of,
    resolve,
)
from memtui.embedding.services import cost_of, price_of
from memtui.engine.providers.slot import (
    KEYWORD_ONLY,
    SentTo,
    as_provider_error,
    choice_for,
    sent_to,
)
from memtui.engine.source import RebuildCost
from memtui.errors import Cancelled, IndexUnusable, MemtuiError, SettingsError
from memtui.model import Failure, ProbeResult, ProviderListing, ProviderState
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.registry import Registration
    from memtui.engine.ports import Index
    from memtui.settings import Settings

NOT_OURS = "this index belongs to the agent's program: memtui only reads it"


class ProviderService:
    """Lists, probes, weighs and switches embedding providers."""

    def __init__(self, memory: Index, settings: Settings) -> None:
        self._memory = memory
        self._holder = memory.providers
        self._settings = settings

    def available(self) -> tuple[ProviderListing, ...]:
        """Return every provider that can be chosen, in order; quick, loads and asks nothing."""
        holder = self._holder
        if holder is None:
            return ()
        chosen, actual, fallback = holder.listed()
        state = holder.state()
        listings = []
        for name in provider_names():
            if name in (AUTO, NONE):
                continue
            listing = listing_of(registration_of(name), choice_for(self._settings.embedding, name))
            if name == actual:
                listing = replace(listing, model=state.model, dimensions=state.dimensions)
            listings.append(
                replace(
                    listing,
                    is_requested=name == chosen,
                    is_actual=name == actual,
                    is_fallback=name == fallback,
                )
            )
        return tuple(listings)

    def probe(self, choice: EmbeddingSettings) -> ProbeResult:
        """Ask a provider for the vector of one word; loads it beside the one that answers.

        Blocks up to the time limit of a query, so not on a thread that draws. Raises
        `SettingsError` for a name or model that does not exist.
        """
        if self._holder is None:
            raise IndexUnusable("another program's index: its own provider is used there")
        return probe(choice, self._holder.is_closing)

    def cost(self, choice: EmbeddingSettings) -> RebuildCost:
        """What a rebuild with a provider would take; reads the index and the cache.

        All zero without an index. Raises `SettingsError` for a name or model that does not exist.
        """
        if self._holder is None:
            return RebuildCost(0, 0, 0, 0, False)
        identity = provider_identity(choice)
        registration = resolve(choice)
        place = sent_to(registration, choice) if registration is not None else SentTo("", False)
        return self._cost(choice, identity, place)

    def rebuild_cost(self) -> RebuildCost:
        """What `rebuild` would take; reads the index and the cache, all zero without an index."""
        if self._holder is None:
            return RebuildCost(0, 0, 0, 0, False)
        state, identity = self._holder.state(), self._holder.identity
        choice = self._holder.answering
        place = SentTo(state.address, state.remote)
        return self._cost(choice, identity, place)

    def switch(self, choice: EmbeddingSettings) -> None:
        """Choose another provider for this run, and make its index while the old one answers.

        Raises `SettingsError` for a name or model that does not exist; nothing is changed then.
        """
        if self._holder is None:
            raise IndexUnusable(NOT_OURS, hint="openclaw memory index --force builds it again")
        self._holder.switch(choice)

    def _cost(
        self, choice: EmbeddingSettings, identity: ProviderIdentity | None, place: SentTo
    ) -> RebuildCost:
        files, chunks, cached = self._memory.measure(identity)
        missing = {text_hash: length for text_hash, length in chunks if text_hash not in cached}
        count = sum(1 for text_hash, _ in chunks if text_hash in cached)
        if identity is None:
            return RebuildCost(files, len(chunks), count, 0, False, price=0.0)
        tokens = sum(estimated_tokens(length) for length in missing.values())
        cost = RebuildCost(
            files,
            len(chunks),
            count,
            tokens,
            place.remote,
            provider=identity.name,
            model=identity.model,
            address=place.address,
        )
        return _priced(cost, choice, batch=choice.batch and len(missing) >= choice.batch_minimum)


def listing_of(registration: Registration, choice: EmbeddingSettings) -> ProviderListing:
    """What a look tells of a provider; loads and asks nothing."""
    seen = registration.look(choice)
    identity = _identity(registration, choice)
    place = sent_to(registration, choice)
    return ProviderListing(
        name=registration.name,
        summary=registration.summary,
        remote=place.remote,
        works=seen.works,
        detail=safe_line(seen.detail),
        hint=safe_line(seen.hint),
        failure=seen.failure,
        model=identity.model if identity is not None else None,
        dimensions=identity.dimensions if identity is not None else None,
        address=place.address,
    )


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
        identity = provider or registration.identity(choice)
        return ProbeResult(
            provider.name if provider is not None else choice.provider,
            False,
            outage.message,
            outage.hint,
            Failure(outage.failure),
            address=provider.address if provider is not None else "",
            model=identity.model,
        )
    finally:
        if provider is not None:
            provider.close()


def _identity(registration: Registration, choice: EmbeddingSettings) -> ProviderIdentity | None:
    try:
        return registration.identity(choice)
    except MemtuiError:
        # A name, model or file that its `look` speaks of.
        return None


def _priced(cost: RebuildCost, choice: EmbeddingSettings, *, batch: bool = False) -> RebuildCost:
    """The same with what its tokens cost, which nobody may know."""
    price = price_of(choice, cost.provider, cost.model)
    if price is None:
        return replace(cost, price=None)
    total = cost_of(cost.tokens_estimate, price, batch=batch)
    return replace(cost, price=total, currency=price.currency, as_of=price.as_of)


def first_cost(root: Path, settings: Settings, provider: ProviderState) -> RebuildCost:
    """Estimate the tokens of all notes, four bytes a token, and their price.

    Of conversations that are opted in all bytes count, though only what is said is embedded.

    No chunk is known yet, and the overlap of chunks, which is embedded twice, is added as the
    share that the settings have. Opens no file.
    """
    from memtui.index.transcripts.discovery import with_transcripts
    from memtui.index.transcripts.scope import transcript_scope_of
    from memtui.memory.discover import Scope, discover

    notes = discover(Scope.of(root, settings.memory))
    files = with_transcripts(notes, transcript_scope_of(settings, root)).files
    chunking = settings.chunking
    overlap = 1 + chunking.overlap / chunking.tokens
    tokens = round(sum(estimated_tokens(file.size) for file in files) * overlap)
    name, model = provider.actual or "", provider.model or ""
    cost = RebuildCost(
        len(files),
        0,
        0,
        tokens,
        provider.remote,
        provider=name,
        model=model,
        address=provider.address,
    )
    return _priced(cost, choice_for(settings.embedding, name))
