"""Which providers there are, what one costs, whether it answers, and what a change means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from memtui.bus import StatusChanged
from memtui.embedding.choice import AUTO, NONE, EmbeddingChoice
from memtui.embedding.provider import ProviderIdentity
from memtui.embedding.registry import (
    create_provider,
    provider_identity,
    provider_names,
    registration_of,
    resolve,
    state_of,
)
from memtui.engine.providers.choices import SentTo, choice_for, sent_to
from memtui.engine.providers.provider_marker import told_state
from memtui.engine.providers.slot import Outage, as_provider_error
from memtui.engine.reading import chunk_lengths, cost_of, file_count
from memtui.engine.source import RebuildCost
from memtui.errors import Cancelled, IndexMissing, IndexUnusable, MemtuiError
from memtui.index.database import mapped_errors
from memtui.index.job import PROBE_TEXT
from memtui.index.schema import Recipe
from memtui.model import ProbeResult, ProviderListing, ProviderState, Reason
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from threading import Lock

    from memtui.bus import Bus, Event
    from memtui.embedding.cache import EmbeddingCache
    from memtui.embedding.registry import Registration
    from memtui.engine.providers.failover import ProviderHolder
    from memtui.engine.providers.provider_marker import NotedProvider
    from memtui.engine.retriever import Retriever
    from memtui.engine.searching import SearchLoop
    from memtui.index.generations import IndexFolder
    from memtui.index.indexer import Indexer
    from memtui.settings import Settings


class Providing:
    """Lists, probes, weighs and switches embedding providers; a part of `Engine`."""

    settings: Settings
    _loop: SearchLoop
    _retriever: Retriever
    _holder: ProviderHolder
    _cache: EmbeddingCache
    _folder: IndexFolder
    _indexer: Indexer
    _changing: Lock
    _noted: NotedProvider
    _noted_state: ProviderState | None
    bus: Bus

    def providers(self) -> tuple[ProviderListing, ...]:
        """Every provider that can be chosen, in order; quick, loads and asks nothing."""
        chosen, actual, fallback = self._holder.listed()
        state = self._holder.state()
        found = []
        for name in provider_names():
            if name in (AUTO, NONE):
                continue
            listing = listing_of(registration_of(name), choice_for(self.settings.embedding, name))
            if name == actual:
                listing = replace(listing, model=state.model, dimensions=state.dimensions)
            found.append(
                replace(
                    listing,
                    is_requested=name == chosen,
                    is_actual=name == actual,
                    is_fallback=name == fallback,
                )
            )
        return tuple(found)

    def probe_provider(self, choice: EmbeddingChoice) -> ProbeResult:
        """Ask a provider for the vector of one word; loads it beside the one that answers.

        Blocks up to the time limit of a query, so not on a thread that draws. Raises
        `SettingsError` for a name or model that does not exist.
        """
        return probe(choice, self._holder.is_closing)

    def provider_cost(self, choice: EmbeddingChoice) -> RebuildCost:
        """What a rebuild with a provider would take; reads the index and the cache.

        All zero without an index. Raises `SettingsError` for a name or model that does not exist.
        """
        identity = provider_identity(choice)
        registration = resolve(choice)
        place = sent_to(registration, choice) if registration is not None else SentTo("", False)
        return self._loop.call(lambda: self._cost(choice, identity, place)).result()

    def rebuild_cost(self) -> RebuildCost:
        """What `rebuild` would take; reads the index and the cache, all zero without an index."""
        state, identity = self._holder.state(), self._holder.identity
        choice = self._holder.answering
        place = SentTo(state.address, state.remote)
        return self._loop.call(lambda: self._cost(choice, identity, place)).result()

    def switch_provider(self, choice: EmbeddingChoice) -> None:
        """Choose another provider for this run, and make its index while the old one answers.

        Raises `SettingsError` for a name or model that does not exist; nothing is changed then.
        """
        self._holder.switch(choice)

    # --- what follows from a change -------------------------------------------------------

    def _recipe(self) -> Recipe:
        chunking = self.settings.chunking
        return Recipe(self._holder.identity, chunking.tokens, chunking.overlap)

    def _provider_changed(self) -> None:
        """Another provider answers, or the chosen one does again; from any thread."""
        with self._changing:
            # Of two changes at once the later one is what counts.
            self._indexer.use(self._recipe())
        # Who only searches must not be made to index.
        if self._indexer.has_run and self._holder.state().state is not Reason.PROVIDER_FAILED:
            self._indexer.sync()
        self.bus.publish(StatusChanged())

    def _provider_state(self) -> ProviderState:
        """How the provider is; where nothing was tried yet, what the last index run found."""
        followed = "" if self._indexer.is_writer else self._retriever.made_by
        return told_state(
            self._holder.state(),
            self._noted_state,
            is_untried=self._holder.is_untried,
            followed=followed,
        )

    def _note_provider(self, event: Event) -> None:
        """Tell other programs who made the index, on the thread that did; or hear it from them."""
        if not self._indexer.is_writer:
            self._noted_state = self._noted.read()
            return
        if self._holder.is_untried:
            return
        try:
            self._noted.note(self._holder.state(lasting=True))
        except OSError as error:
            self._indexer.record("provider", f"cannot be noted: {error.strerror}")

    def _cost(
        self, choice: EmbeddingChoice, identity: ProviderIdentity | None, place: SentTo
    ) -> RebuildCost:
        limit = identity.input_bytes if identity is not None else None
        try:
            chunks = self._retriever.read(lambda connection: chunk_lengths(connection, limit))
            files = self._retriever.read(file_count)
        except (IndexMissing, IndexUnusable):
            # What cannot be read has no known cost, and a rebuild is its cure.
            chunks, files = [], 0
        known: dict[str, Any] = {}
        if identity is not None:
            with mapped_errors(self._folder.cache_path):
                known = self._cache.get_many(identity, [text_hash for text_hash, _ in chunks])
        cost = cost_of(chunks, known, files=files, identity=identity, choice=choice)
        return replace(cost, remote=place.remote, address=place.address)


def listing_of(registration: Registration, choice: EmbeddingChoice) -> ProviderListing:
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


def probe(choice: EmbeddingChoice, cancelled: Callable[[], bool] | None = None) -> ProbeResult:
    """Ask a provider for the vector of one word, and let go of it.

    Raises `SettingsError` for a name or model that does not exist.
    """
    provider, state = create_provider(choice)
    if provider is None:
        outage = Outage.of_state(state)
        if state.model is None:
            return ProbeResult(choice.provider, True, state.detail)
        name = state.requested
        return ProbeResult(
            name, False, outage.message, outage.hint, outage.failure, model=state.model
        )
    try:
        began = perf_counter()
        vector = provider.embed_query(PROBE_TEXT, cancelled=cancelled)
        took = (perf_counter() - began) * 1000.0
    except Cancelled:
        return ProbeResult(provider.name, False, "stopped", model=provider.model)
    except Exception as error:
        # Whatever its libraries raise is what the probe was to find out.
        outage = Outage.of(as_provider_error(error))
        return ProbeResult(
            provider.name,
            False,
            outage.message,
            outage.hint,
            outage.failure,
            address=provider.address,
            model=provider.model,
        )
    finally:
        state = state_of(choice, provider)
        provider.close()
    dimensions = int(vector.shape[-1])
    detail = f"answers with {dimensions} numbers"
    return ProbeResult(
        provider.name,
        True,
        detail,
        milliseconds=took,
        dimensions=dimensions,
        address=state.address,
        model=state.model,
    )


def _identity(registration: Registration, choice: EmbeddingChoice) -> ProviderIdentity | None:
    try:
        return registration.identity(choice)
    except MemtuiError:
        # A name, model or file that its `look` speaks of.
        return None
