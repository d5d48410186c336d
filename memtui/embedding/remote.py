"""The embedding provider that asks a service, or a server of the user's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memtui.embedding import http, provider, services
from memtui.embedding.api_keys import FoundKey, find_key
from memtui.embedding.registry import Registration
from memtui.errors import IsCancelled, ProviderError, SettingsError, never
from memtui.model import Failure, Usage
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.shown import masked_text
from memtui.text.ecmascript import well_formed
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch import BatchInterface

_MOST_SPARE: Final = 1024
"""Vectors of calls that failed which are kept, so that they are not paid for again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The way in which one service is asked for one model; holds no key."""

    service: services.Service
    address: services.Address
    identity: provider.ProviderIdentity
    """The identity of its vectors; the model is named as the service knows it."""
    templates: services.Templates
    asked_dimensions: int | None
    """The length that is asked for, where it is not what the model gives by itself."""
    input_bytes: int
    """The most UTF-8 bytes of one text, without its prefix."""
    choice: EmbeddingSettings = field(repr=False)

    @property
    def key_hint(self) -> str:
        names = " or ".join(self.service.key_variables)
        return f"set {f'{names}, or ' if names else ''}embedding.key_env or embedding.key_command"

    def require(self, key: FoundKey) -> FoundKey:
        """Return a key; raises `ProviderError` (`no_key`) where one is needed and is not there.

        The service's own host refuses who has none, another may not; but where the settings name
        a place for the key, one is meant to be there. Raises it (`bad_setting`), too, for a key
        that would cross a network unencrypted, unless the settings allow that.
        """
        is_named = bool(self.choice.key_env or self.choice.key_command)
        if not key.origin and (is_named or (self.service.needs_key and self.address.is_own)):
            why = key.problem or f"no key for {self.service.name} was found"
            raise ProviderError(why, hint=self.key_hint, failure=Failure.NO_KEY)
        # Only asking tells whether a keyring holds one.
        if key.value or (key.origin and is_named):
            lifted = self.choice.allow_insecure
            self.address.require_encryption(f"the key of {key.origin}", is_lifted=lifted)
        return key


def plan_of(name: str, choice: EmbeddingSettings) -> Plan:
    """Work out, without asking it, how a service is asked; raises `SettingsError`."""
    service = services.SERVICES[name]
    try:
        address = service.address(choice.base_url or "")
    except ValueError as error:
        raise SettingsError(f"{name}: {error}", hint="check embedding.base_url") from None
    model = service.wire_model(choice.model or service.default_model, address)
    if not model:
        raise SettingsError(f"{name}: no model is named", hint="check embedding.model")
    if masked_text(model) != model:
        # It would stand in every list, in the index, and in what is sent to another host.
        hint = "embedding.key_env or embedding.key_command says where the key is"
        raise SettingsError(f"{name}: embedding.model looks like a key", hint=hint)
    listed = service.models.get(model, services.Model())
    # Elsewhere a name may mean another model.
    facts = listed if address.is_own else services.Model()
    templates = listed.templates
    if service.shape is services.Shape.OLLAMA:
        facts = service.models.get(model.removesuffix(":latest"), services.Model())
    if service.shape is services.Shape.OLLAMA or (name == "openai" and not address.is_own):
        # A host of open models puts no prefix before a text by itself.
        templates = services.templates_of(model)
    is_typed = service.shape is services.Shape.GEMINI and templates == services.Templates()
    templates = templates.overridden(choice)
    asked_dimensions = choice.dimensions if choice.dimensions != facts.dimensions else None
    if asked_dimensions is not None and facts.one_length:
        words = f"{name}: {model} gives {facts.dimensions} dimensions and no other number"
        raise SettingsError(words, hint="leave embedding.dimensions empty")
    longest = min(listed.input_bytes or provider.DEFAULT_LIMIT, provider.BATCH_BYTES)
    longest_prefix = max(
        provider.byte_size(templates.query), provider.byte_size(templates.document)
    )
    input_bytes = max(1, longest - longest_prefix)
    is_at_home = address.is_own or (service.shape is services.Shape.OLLAMA and address.is_loopback)
    # Scheme, host, port and path: what makes two addresses the same service.
    parts = urlsplit(address.url)
    place = f"{parts.scheme}://{address.shown}{parts.path.rstrip('/')}"
    fingerprint = provider.settings_fingerprint(
        {
            "provider": name,
            "model": model,
            "dimensions": asked_dimensions,
            "query_prefix": templates.query,
            "document_prefix": templates.document,
            "query_type": "RETRIEVAL_QUERY" if is_typed else service.input_type,
            "document_type": "RETRIEVAL_DOCUMENT" if is_typed else service.document_type,
            "address": None if is_at_home else place,
        }
    )
    dimensions = choice.dimensions or facts.dimensions
    identity = provider.ProviderIdentity(name, model, dimensions, fingerprint, input_bytes)
    return Plan(service, address, identity, templates, asked_dimensions, input_bytes, choice)


class RemoteProvider(provider.Provider):
    """Embeds by a service, in requests as large and as many at once as it and the user allow.

    Usable from any thread; a query waits for no place among the requests for documents. Failed
    requests are tried again, those that are too large in halves; every wait ends within 0.1 s of
    a cancellation. What was answered in a call that failed is not asked for again. A text longer
    than `plan.input_bytes` is not sent. The key is in memory and nowhere else.
    """

    def __init__(
        self, plan: Plan, pacer: http.Pacer | None = None, find: Callable[..., FoundKey] = find_key
    ) -> None:
        choice = plan.choice
        self.plan = plan
        self.identity, self.dimensions = plan.identity, plan.identity.dimensions
        self.address = plan.address.shown
        self.remote = not plan.address.is_loopback
        self.client = http.ServiceClient(plan.address, choice.ca_file or "")
        self.pacer = pacer or http.Pacer(choice.requests_per_minute, choice.tokens_per_minute)
        service = plan.service
        self._request_bytes, self._request_texts = service.request_bytes, service.request_texts
        if not plan.address.is_own and service.shape is not services.Shape.OLLAMA:
            # What text-embeddings-inference takes by default, and what OpenClaw sends.
            self._request_texts = min(self._request_texts, 32)
            self._request_bytes = min(self._request_bytes, provider.BATCH_BYTES)
        # A chunk of the usual 400 tokens has 1600 bytes.
        fitting = min(self._request_texts, max(1, self._request_bytes // 1600))
        self.batch_size = fitting * choice.concurrency
        """As many texts of the usual length as all requests at once hold."""
        # What follows is used in the thread of the event loop alone.
        self._find = find
        self._looking = asyncio.Lock()
        self._key: FoundKey | None = None
        self._places = asyncio.Semaphore(choice.concurrency)
        self._spare: dict[str, provider.Values] = {}
        """Vectors that were paid for in a call that failed before its end."""

    def embed_query(self, text: str, *, cancelled: IsCancelled = never) -> provider.Vector:
        # Of one that is longer than an input may be, the beginning is what is looked for.
        beginning = well_formed(provider.split_input(text, self.plan.input_bytes)[0])
        made: dict[str, provider.Values] = {}
        prefixed = [self.plan.templates.query + beginning]
        self.client.run(self._embed(prefixed, provider.Role.QUERY, made), cancelled)
        return provider.clean_vectors(made[prefixed[0]])

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: IsCancelled = never
    ) -> provider.Vectors:
        import numpy as np

        limit = self.plan.input_bytes
        if (longest := max(map(provider.byte_size, texts), default=0)) > limit:
            words = f"a text of {longest} bytes is longer than the {limit} of one input"
            raise ProviderError(words, failure=Failure.TOO_LARGE)
        prefix = self.plan.templates.document
        # A blank text, which services refuse, is a vector of zeros.
        prefixed = {at: prefix + well_formed(text) for at, text in enumerate(texts) if text.strip()}
        made: Mapping[str, provider.Values] = {}
        if prefixed:
            made = self.client.run(self._made(dict.fromkeys(prefixed.values())), cancelled)
        if texts and self.dimensions is None:
            words = "blank texts alone do not tell how many numbers a vector has"
            raise ProviderError(words, failure=Failure.BAD_REQUEST)
        rows = np.zeros((len(texts), self.dimensions or 0))
        for at, text in prefixed.items():
            rows[at] = made[text]
        return provider.clean_vectors(rows)

    def batches(self, cancelled: IsCancelled) -> BatchInterface | None:
        from memtui.embedding.batch import BatchInterface

        form = self.plan.service.batch
        if not self.plan.choice.batch or form is None:
            return None
        self.client.run(self._current_key(), cancelled)
        return BatchInterface(self, form)

    def close(self) -> None:
        self.client.close()

    async def ask(self, request: services.Request, timeout: float) -> object:
        """Return the JSON of a success; a refused key is looked for once more.

        Raises what `ServiceClient.exchange` raises, and `ProviderError` (`no_key`).
        """
        key = await self._current_key()
        try:
            return await self._ask_with(key, request, timeout)
        except http.ServiceError as error:
            if error.failure is not Failure.KEY_REFUSED:
                raise
            renewed = key
            # What the service said of the first key is what is told.
            with suppress(ProviderError):
                renewed = await self._current_key(refused=key)
            if renewed.value == key.value:
                raise
        return await self._ask_with(renewed, request, timeout)

    async def _ask_with(self, key: FoundKey, request: services.Request, timeout: float) -> object:
        keyed, context = self._keyed(request, key)
        reply = await self.client.exchange(keyed, timeout)
        self.pacer.learn(reply.headers)
        return http.json_in(reply, context)

    def download(
        self, request: services.Request, timeout: float, stopped: IsCancelled
    ) -> Iterator[bytes]:
        """Give the body of a success as it comes in, however large."""
        key = self.client.run(self._current_key(), stopped)
        keyed, context = self._keyed(request, key)
        return self.client.download(keyed, context, timeout=timeout, cancelled=stopped)

    async def _current_key(self, *, refused: FoundKey | None = None) -> FoundKey:
        """Return the key to send, another one than the service has `refused`.

        Raises as `Plan.require` does: what is wrong at a place where a key might just lie keeps
        nobody from a server that needs none.
        """
        plan = self.plan
        async with self._looking:
            if self._key is None or self._key is refused:
                stopping = threading.Event()
                look = partial(self._find, plan.service, plan.address, plan.choice)
                try:
                    key = await asyncio.to_thread(look, cancelled=stopping.is_set)
                finally:
                    # Where nobody waits for it any more, a command that prints a key ends.
                    stopping.set()
                # Whoever sets the key after a failure shall not have to start again.
                self._key = None
                self._key = plan.require(key)
            return self._key

    def _keyed(
        self, request: services.Request, key: FoundKey
    ) -> tuple[services.Request, http.RequestContext]:
        """Return a request with a key, and who is asked with which for the words of a failure."""
        service = self.plan.service
        keyed = replace(request, headers={**request.headers, **service.headers(key.value)})
        name = f"the key of {key.origin}" if key.value else ""
        pull = f"get it with: ollama pull {safe_line(self.identity.model)}"
        hint = pull if service.shape is services.Shape.OLLAMA else ""
        return keyed, http.RequestContext(self.plan.address, name, self.plan.key_hint, hint)

    async def _made(self, texts: Iterable[str]) -> dict[str, provider.Values]:
        """Return the vector of each text; those of an earlier call that failed are used."""
        made = {text: self._spare.pop(text) for text in texts if text in self._spare}
        # A request that alone holds more than a minute's tokens is refused for ever.
        most = min(self._request_bytes, self.pacer.most_tokens or 10**9)
        count = self._request_texts

        async def embed(batch: Sequence[str]) -> None:
            async with self._places:
                await self._embed(batch, provider.Role.DOCUMENT, made)

        try:
            async with asyncio.TaskGroup() as group:
                for batch in provider.batches(
                    (text for text in texts if text not in made), provider.byte_size, most
                ):
                    for start in range(0, len(batch), count):
                        group.create_task(embed(batch[start : start + count]))
        except BaseException as error:
            self._spare |= made
            for text in list(self._spare)[:-_MOST_SPARE]:
                del self._spare[text]
            # The first failure has stopped the others.
            raise error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error from None
        return made

    async def _embed(
        self, texts: Sequence[str], role: provider.Role, made: dict[str, provider.Values]
    ) -> None:
        """Put the vectors of texts in `made` by one request, or halves where it is too large."""
        plan, tokens = self.plan, provider.estimated_tokens(sum(map(len, texts)))
        request = plan.service.request(
            plan.address, plan.identity.model, texts, role, plan.asked_dimensions
        )

        async def attempt(timeout: float) -> services.Answered:
            self.count(Usage(requests=1))
            answer = await self.ask(request, timeout)
            try:
                return plan.service.vectors_in(answer, len(texts), self.dimensions)
            except services.WrongAnswer as error:
                words = f"{plan.address.shown}: {error}"
                raise http.ServiceError(words, error.failure) from None

        is_query, choice = role is provider.Role.QUERY, plan.choice
        timeout = choice.query_timeout if is_query else choice.batch_timeout
        try:
            answered = await self.pacer.send(attempt, timeout, tokens=tokens, is_awaited=is_query)
        except http.ServiceError as error:
            if len(texts) < 2 or not error.is_splittable:
                raise
            middle = (len(texts) + 1) // 2
            await self._embed(texts[:middle], role, made)
            await self._embed(texts[middle:], role, made)
            return
        self.dimensions = self.dimensions or int(answered.vectors.shape[1])
        used = tokens if answered.tokens is None else answered.tokens
        self.pacer.settle(tokens, used)
        self.count(Usage(0, len(texts), used, answered.tokens is None))
        # At once, so that a later failure loses none.
        made.update(zip(texts, answered.vectors, strict=True))


def ask_once(
    request: services.Request, context: http.RequestContext, *, stopped: IsCancelled, timeout: float
) -> object:
    """Send a request about another program's index and return its parsed JSON answer.

    Tries a second time on 429 and 5xx after half a second, or as long as the answer asks for unless
    that is more than 2 s. Raises `Cancelled` within 0.2 s once `stopped()`, and
    `ProviderError` of one line that holds neither keys nor text of the answer. Not to be called
    from a thread that runs an event loop.
    """
    client = http.ServiceClient(context.address)
    pacer = http.Pacer(tries=(http.ONCE_MORE, http.ONCE_MORE))

    async def attempt(seconds: float) -> object:
        try:
            return http.json_in(await client.exchange(request, seconds), context)
        except http.ServiceError as error:
            error.is_passing = error.is_passing and error.status > 0
            raise

    try:
        return client.run(pacer.send(attempt, timeout, is_awaited=True), stopped)
    except http.ServiceError as error:
        # The hints name settings of memtui, and the index that is asked for is an agent's.
        if error.failure is Failure.TIMEOUT:
            error = http.no_answer(context.address, timeout)
        raise ProviderError(error.message, failure=error.failure) from None
    finally:
        client.close()


def _registration(service: services.Service) -> Registration:
    name = service.name

    def check(choice: EmbeddingSettings) -> str:
        plan = plan_of(name, choice)
        key = plan.require(find_key(plan.service, plan.address, choice, only_look=True))
        host = f"{plan.address.shown}{', unencrypted' if plan.address.is_in_clear else ''}"
        return f"key of {key.origin}, for {host}" if key.origin else f"without a key, at {host}"

    def create(choice: EmbeddingSettings) -> RemoteProvider:
        check(choice)
        return RemoteProvider(plan_of(name, choice))

    def destination(choice: EmbeddingSettings) -> tuple[str, bool]:
        try:
            address = service.address(choice.base_url or "")
        except ValueError:
            # `check` says what is wrong with the address.
            return "", service.shape is not services.Shape.OLLAMA
        return address.shown, not address.is_loopback

    return Registration(
        name,
        create,
        check,
        lambda choice: plan_of(name, choice).identity,
        service.summary,
        destination,
    )


REGISTRATIONS: Final = {
    service.name: _registration(service)
    for service in services.SERVICES.values()
    if service.summary
}
