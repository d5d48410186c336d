"""Embedding providers as a service: which there are, what one costs, whether it answers."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from memtui.embedding import registry
from memtui.embedding.provider import PROBE_TEXT, estimated_tokens
from memtui.engine.ports import Index, RebuildCost
from memtui.engine.providers.failover import KEYWORD_ONLY, ProviderFailover, as_provider_error
from memtui.errors import Cancelled, IsCancelled, MemtuiError, SettingsError, never
from memtui.model import ProbeResult, ProviderListing, ProviderState
from memtui.settings.schema import PROVIDERS, EmbeddingSettings, Settings
from memtui.text.sanitize import safe_line


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
        return provider_listings(self._settings.embedding, self._providers)

    def probe(self, choice: EmbeddingSettings) -> ProbeResult:
        """Ask a provider for the vector of one word; loads it beside the one that answers.

        Blocks up to the time limit of a query. What goes wrong is said in the result.
        """
        if self._providers is None:
            raise self._memory.read_only()
        return probe(choice, self._providers.closing.is_set)

    def cost(self, choice: EmbeddingSettings | None = None) -> RebuildCost:
        """Weigh a rebuild with a provider, by default with the one that answers now.

        All zero without an index. Raises `SettingsError` for a name or model there is not.
        """
        if self._providers is None:
            return RebuildCost()
        weighed = self._providers.acting if choice is None else self._providers.watch(choice)
        identity = weighed.identity if weighed.registration is not None else None
        cost, lengths = self._memory.measure(identity, withholds=weighed.withholds)
        if identity is None:
            return replace(cost, price=0.0)
        cost = replace(
            cost,
            tokens_estimate=sum(map(estimated_tokens, lengths)),
            remote=weighed.remote,
            provider=identity.name,
            model=identity.model,
            address=weighed.address,
        )
        is_batch = weighed.choice.batch and len(lengths) >= weighed.choice.batch_minimum
        return _priced(cost, weighed.choice, batch=is_batch)

    def switch(self, choice: EmbeddingSettings) -> None:
        """Go over to another provider for this run, as `ProviderFailover.switch` does."""
        if self._providers is None:
            raise self._memory.read_only()
        self._providers.switch(choice)


def provider_listings(
    embedding: EmbeddingSettings, providers: ProviderFailover | None = None
) -> tuple[ProviderListing, ...]:
    """Return every provider that can be chosen, and who of an open index answers; asks none."""
    requested, fallback, acting = registry.requested_name(embedding), embedding.fallback, None
    if providers is not None:
        requested, acting = providers.primary.identity.name, providers.acting
        second = providers.fallback
        fallback = second.identity.name if second is not None else registry.NONE
    listings = []
    for name in PROVIDERS:
        registration, choice = registry.registration_of(name), registry.choice_for(embedding, name)
        detail = hint = ""
        failure = model = dimensions = None
        try:
            detail = registration.check(choice)
        except MemtuiError as error:
            outage = as_provider_error(error)
            detail, hint, failure = outage.message, outage.hint, outage.failure
        # A name, model or file may be wrong of which the check speaks.
        with suppress(MemtuiError):
            identity = registration.identity(choice)
            model, dimensions = identity.model, identity.dimensions
        is_actual = False
        if acting is not None and acting.identity.name == name and not acting.outage:
            is_actual, model, dimensions = True, acting.identity.model, acting.dimensions
        address, remote = registration.destination(choice)
        listings.append(
            ProviderListing(
                name=name,
                summary=registration.summary,
                remote=remote,
                works=failure is None,
                detail=safe_line(detail),
                hint=hint,
                failure=failure,
                model=model,
                dimensions=dimensions,
                address=address,
                is_requested=name == requested,
                is_actual=is_actual,
                is_fallback=name == fallback and name != requested,
            )
        )
    return tuple(listings)


def probe(choice: EmbeddingSettings, cancelled: IsCancelled = never) -> ProbeResult:
    """Ask a provider for the vector of one word, and let go of it."""
    registration = None
    result = ProbeResult(choice.provider, False, "stopped")
    try:
        registration = registry.resolve(choice)
        if registration is None:
            return replace(result, works=True, detail=KEYWORD_ONLY)
        with closing(registration.create(choice)) as provider:
            name, model = provider.identity.name, provider.identity.model
            result = replace(result, name=name, address=provider.address, model=model)
            began = perf_counter()
            dimensions = len(provider.embed_query(PROBE_TEXT, cancelled=cancelled))
            return replace(
                result,
                works=True,
                detail=f"answers with {dimensions} numbers",
                milliseconds=(perf_counter() - began) * 1000.0,
                dimensions=dimensions,
            )
    except SettingsError as error:
        # A name or model that does not exist.
        return replace(result, detail=safe_line(error.message), hint=safe_line(error.hint))
    except Cancelled:
        return result
    except Exception as error:
        # Whatever its libraries raise is what the probe was to find out.
        outage = as_provider_error(error)
        return replace(
            result,
            detail=outage.message,
            hint=outage.hint,
            failure=outage.failure,
            model=result.model or (registration and registration.identity(choice).model),
        )


def _priced(cost: RebuildCost, choice: EmbeddingSettings, *, batch: bool = False) -> RebuildCost:
    from memtui.embedding.services import SERVICES, price_of

    price = price_of(choice, cost.provider, cost.model)
    if price is None:
        return cost
    a_million, currency, as_of = price
    service = SERVICES.get(cost.provider) if batch else None
    factor = service.batch_factor if service is not None else 1.0
    total = cost.tokens_estimate * a_million * factor / 1_000_000
    return replace(cost, price=total, currency=currency, as_of=as_of)


def first_cost(root: Path, settings: Settings, provider: ProviderState) -> RebuildCost:
    """Estimate the tokens of all notes, four bytes a token, and their price; opens no file.

    Of conversations that are opted in all bytes count, though only what is said is embedded, and
    the overlap of chunks, which is embedded twice, is added as the share that the settings have.
    """
    from memtui.index.transcripts.discovery import transcript_scope_of, with_transcripts
    from memtui.memory.discover import Scope, discover

    notes = discover(Scope(root, settings.memory))
    files = with_transcripts(notes, transcript_scope_of(settings, root)).files
    overlap = 1 + settings.chunking.overlap / settings.chunking.tokens
    tokens = round(sum(estimated_tokens(file.size) for file in files) * overlap)
    name = provider.actual or ""
    cost = RebuildCost(
        len(files),
        tokens_estimate=tokens,
        remote=provider.remote,
        provider=name,
        model=provider.model or "",
        address=provider.address,
    )
    return _priced(cost, registry.choice_for(settings.embedding, name))
