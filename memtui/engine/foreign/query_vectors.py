"""The vector of a query for an index that another program made.

It comes from the provider and model that made the vectors of the index, or not at all: vectors of
two models are never compared, so memtui's own model is not asked.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from memtui.embedding import services
from memtui.errors import Cancelled, IsCancelled, ProviderError, never
from memtui.model import Failure, Reason
from memtui.model.status import Identity
from memtui.retrieval.openclaw.candidates import Vector, is_zero
from memtui.settings.files import in_words, read_json
from memtui.settings.openclaw.read import RemoteAccess
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL, NO_PROVIDER, default_model
from memtui.settings.openclaw.schema import MemorySearchConfig
from memtui.text.ecmascript import trim
from memtui.text.sanitize import counted, safe_line

TIMEOUT: Final = 10.0
"""Seconds for a query about another program's index, its second try included."""
_REMEMBERED: Final = 256
_SHOWN: Final = 80
_NO_SERVICE: Final = frozenset({"local", "github-copilot", "bedrock", "amazon-bedrock"})
_CHOSEN_BY_AUTO: Final = _NO_SERVICE | {"openai", "gemini", "voyage", "mistral"}
"""Every other provider is only used where it is named."""
_COMPATIBLE: Final = services.SERVICES["openai-compatible"]
# 2026.2, the only release that writes no sources, stores what these answer as it is.
_ONCE_AS_RETURNED: Final = frozenset({"openai", "gemini", "voyage"})


class QueryVector(Struct, frozen=True):
    """The vector of a query: float64, shape (dimensions,), as the agent's provider gives it."""

    values: Vector
    origin: Literal["file", "provider", "cache"]
    detail: str = ""
    """One line that says where it is from."""


class NoVector(Struct, frozen=True):
    """The reason why a query has no vector, as a code and in one line for people."""

    reason: Reason
    detail: str


@dataclass(eq=False, repr=False)
class QueryVectors:
    """Finds the vector of a query: in a given file, from the provider, in the index's cache.

    A provider that is not on this machine is asked only when the user has finished the query. To
    be called from one thread, which runs no event loop; `close` may come from any.
    """

    identity: Identity
    """The origin that the index states."""
    config: MemorySearchConfig | None
    """The configuration of its agent; `None`: not known, so no provider is asked."""
    from_file: GivenVectors | None
    env: Mapping[str, str]
    """Of which only the key variables of the provider are read."""
    read_cache: Callable[[str], Vector | None]
    """Return the vector stored in the index for the sha256 (hex) of a text."""
    read_access: Callable[[str], RemoteAccess] = lambda provider: RemoteAccess()
    """Return the keys and headers that the agent's configuration has for a provider."""
    allow_insecure: bool = False
    """True if a key may cross a network unencrypted."""
    timeout: float = TIMEOUT
    """In seconds, as `memtui.embedding.remote.ask_once` has it."""
    _answers: dict[str, Vector] = field(init=False, default_factory=dict)
    _closed: threading.Event = field(init=False, default_factory=threading.Event)

    def find(
        self, query: str, *, typing: bool, cancelled: IsCancelled = never
    ) -> QueryVector | NoVector:
        """Find the vector of `query`; `typing`: the user has not finished it.

        The agent asks without the blanks around a query, and so does this. Raises `Cancelled`
        within 0.2 s once `cancelled()` or closed, and what `read_cache` raises.
        """
        if self._closed.is_set() or cancelled():
            raise Cancelled
        name, model = self.identity.provider or "", self.identity.model or ""
        if name == NO_PROVIDER or model == KEYWORD_ONLY_MODEL:
            return NoVector(Reason.NO_VECTORS, "the index was made for keyword search alone")
        if self.from_file is not None and (values := self.from_file.of(query)) is not None:
            return self._checked(QueryVector(values, "file", safe_line(str(self.from_file.path))))
        query, todo = trim(query), "give --query-vectors FILE"
        if self.from_file is not None:
            todo = f"add the query's vector to {safe_line(self.from_file.path.name)}"
        if not name or not model:
            why = "the index does not say which model made its vectors"
            return NoVector(Reason.NOT_REPRODUCIBLE, f"the query has no vector; {why}; {todo}")
        try:
            answer = self._from_provider(name, model, query, typing, cancelled)
        except (ProviderError, ValueError) as error:
            # `ValueError`: what cannot be sent, or an answer without a vector.
            if isinstance(error, ProviderError) and error.failure is Failure.NO_KEY:
                todo = f"set the key or {todo}"
            why = f"{_shown(name, model)}; {safe_line(str(error))}; {todo}"
            answer = NoVector(Reason.NOT_REPRODUCIBLE, f"the query has no vector of {why}")
        if isinstance(answer, QueryVector) or answer.reason is Reason.ZERO_QUERY_VECTOR:
            return answer
        values = self.read_cache(hashlib.sha256(query.encode("utf-8", "replace")).hexdigest())
        if values is None:
            return answer
        detail = "the embedding cache of the index"
        config = self.config or MemorySearchConfig()
        query_type = config.query_input_type or config.input_type
        document_type = config.document_input_type or config.input_type
        service = services.SERVICES.get(name, _COMPATIBLE)
        if not service.embeds_alike(model, query_type, document_type):
            detail += ", made for a note: scores may differ from the agent's"
        cached = self._checked(QueryVector(values, "cache", detail))
        return cached if isinstance(cached, QueryVector) else answer

    def address(self) -> str:
        """Return the other machine that a query may be sent to; empty where none can be asked."""
        if self.from_file is not None and self.from_file.for_all is not None:
            return ""
        with suppress(ProviderError, ValueError):
            address = self._target(self.identity.provider or "", self.identity.model or "")[1]
            return "" if address.is_loopback else address.shown
        return ""

    def close(self) -> None:
        """Stop a call that runs; later ones raise `Cancelled`."""
        self._closed.set()

    def _checked(self, vector: QueryVector) -> QueryVector | NoVector:
        size, dimensions = vector.values.size, self.identity.vector_dims
        if dimensions is not None and size != dimensions:
            why = f"{size} numbers from {vector.detail}, the index has {dimensions}"
            return NoVector(Reason.DIMENSIONS_DIFFER, f"the query vector does not fit: {why}")
        if is_zero(vector.values):
            how = "zero or not finite in single precision" if vector.values.any() else "all zero"
            detail = f"the query vector from {vector.detail} is {how}"
            return NoVector(Reason.ZERO_QUERY_VECTOR, detail)
        return vector

    def _from_provider(
        self, name: str, model: str, query: str, typing: bool, cancelled: IsCancelled
    ) -> QueryVector | NoVector:
        config = self.config or MemorySearchConfig()
        service, address, dimensions, key_name, headers = self._target(name, model)
        made_by = _shown(name, model)
        host = safe_line(address.shown)
        values = self._answers.get(query)
        if values is None:
            if typing and not address.is_loopback:
                return NoVector(Reason.PENDING, f"needs {made_by}; press Enter to ask {host}")
            from memtui.embedding.http import RequestContext
            from memtui.embedding.remote import ask_once

            input_type = config.query_input_type or config.input_type
            request = service.query_request(
                address, model, query, headers=headers, dimensions=dimensions, input_type=input_type
            )
            answer = ask_once(
                request,
                RequestContext(address, key_name),
                stopped=lambda: self._closed.is_set() or cancelled(),
                timeout=self.timeout,
            )
            (values,) = service.vectors_in(answer, 1, finite=False).vectors
            if service.shape is services.Shape.OLLAMA:
                values = values[:dimensions]
            if self.identity.sources is not None or name not in _ONCE_AS_RETURNED:
                values = services.normalised(values)
            elif not np.isfinite(values).all():
                raise ProviderError("the vector in the answer holds a number that is not finite")
            if len(self._answers) >= _REMEMBERED:
                self._answers.clear()
            self._answers[query] = values
        return self._checked(QueryVector(values, "provider", f"{made_by} at {host}"))

    def _target(
        self, name: str, model: str
    ) -> tuple[services.Service, services.Address, int | None, str, Mapping[str, str]]:
        """Find out where it is asked; the configuration is read anew and no secret is kept.

        Returns the service, its address, how many dimensions are asked for (`None`: as many as the
        model gives), what a message calls the key (empty without one), and the headers, lower case,
        the key among them.
        """
        config = self.config
        access = self.read_access(name)
        if config is None:
            raise ProviderError(access.problem or "no configuration of an agent is known")
        if not config.enabled:
            raise ProviderError("memory search is switched off for the agent")
        # Asked first, and not only when another one fails; asked neither way, no query goes out.
        automatic = config.provider == "auto" and name in _CHOSEN_BY_AUTO
        is_configured = automatic or config.provider == name
        is_fallback = not is_configured and config.fallback == name
        provider = name if is_configured or is_fallback else config.provider
        due = ("" if is_fallback else config.model) or default_model(provider)
        if provider != name or (due and _plain(name, due) != _plain(name, model)):
            raise ProviderError(f"the agent is configured for {_shown(provider, due)}")
        base = config.remote_base_url if is_configured else ""
        if is_configured and not base and "remote.baseUrl" in config.set_keys:
            raise ProviderError("remote.baseUrl of the agent is empty or cannot be read")
        # Whether the address is the one of `models.providers`, or the service's own.
        is_provider_address = not base
        if is_provider_address:
            _refuse(access.problem, access.provider_base_url.problem)
            base = access.provider_base_url.value
        service = services.SERVICES.get(name)
        if name in _NO_SERVICE or (service is None and not base):
            raise ProviderError(f"memtui cannot ask {name}")
        if service is None:
            service = replace(_COMPATIBLE, prefixes=(f"{name}/",))
        address = service.address(base)
        headers = dict(access.provider_headers.value) if is_provider_address else {}
        key = ""
        key_name = "the key in the agent's configuration"
        if is_configured:
            _refuse(access.problem, access.api_key.problem, access.headers.problem)
            headers |= access.headers.value
            key = access.api_key.value
        if not key and is_provider_address:
            key = access.provider_api_key.value
        if not key and (address.is_own or address.is_loopback):
            # One of the environment goes to its own host or this machine.
            keys = ((each, self.env.get(each, "").strip()) for each in service.key_variables)
            variable, key = next((pair for pair in keys if pair[1]), ("", ""))
            key_name = f"the key in {variable}"
        if not key and is_provider_address:
            _refuse(access.provider_api_key.problem, access.provider_headers.problem)
        headers = service.headers(key, headers)
        # A header that is configured may be a key, whatever its name.
        if headers:
            secret = key_name if key else "headers in the agent's configuration"
            address.require_encryption(secret, is_lifted=self.allow_insecure)
        # Its own host refuses who has none, another may not.
        if not key and service.needs_key and address.is_own and "authorization" not in headers:
            why = f"no key in {' or '.join(service.key_variables)}"
            raise ProviderError(why, failure=Failure.NO_KEY)
        # Only asked for where the index was made with it.
        dimensions = config.output_dimensionality if is_configured else None
        if self.identity.vector_dims not in (None, dimensions):
            dimensions = None
        return service, address, dimensions, key_name if key else "", headers


def _shown(provider: str, model: str) -> str:
    return "/".join(safe_line(part)[:_SHOWN] for part in (provider, model) if part)


def _plain(provider: str, model: str) -> str:
    """Return a model's name without what only OpenClaw puts in front of it."""
    service = services.SERVICES.get(provider)
    for prefix in service.prefixes if service is not None else (f"{provider}/",):
        model = model.removeprefix(prefix)
    return model


def _refuse(*problems: str) -> None:
    if problem := next(filter(None, problems), ""):
        raise ProviderError(problem)


MAX_BYTES: Final = 256 * 2**20
_SHOWN_QUERY: Final = 60
_FORM: Final = 'it must hold {"vectors": {query: [numbers]}}, or one list of numbers'
Number: TypeAlias = Annotated[float, Meta(gt=-1e300, lt=1e300)]
"""A finite one: JSON as Python reads it has others too."""


class GivenVectors(Struct, frozen=True):
    """Vectors by query, and the one for every other query, from one file."""

    path: Path
    by_query: Mapping[str, Vector]
    for_all: Vector | None = None

    def describe(self, dimensions: int | None) -> str:
        """Say which queries have a vector of so many dimensions here; empty where none has."""
        vectors = [one for one in (*self.by_query.values(), self.for_all) if one is not None]
        fitting = sum(dimensions in (None, one.size) for one in vectors)
        queries = counted(fitting, "query", "queries") if self.for_all is None else "every query"
        return f"vectors of {queries} from {safe_line(self.path.name)}" if fitting else ""

    def of(self, query: str) -> Vector | None:
        """The vector of a query, as it is written or without the blanks around it."""
        written = (one for one in (query, trim(query)) if one in self.by_query)
        return next(map(self.by_query.__getitem__, written), self.for_all)


def load_given(path: Path) -> GivenVectors:
    """Read a JSON file of query vectors, compressed with gzip or not.

    Takes `{"vectors": {query: [..]}}`, `{query: [..]}`, `{"query": .., "vector": [..]}`, a list
    of those, and a bare list of numbers, which holds for whatever is asked. A vector may be all
    zero: that is what some models make of some queries. Raises `SettingsError` of one line that
    says what is wrong, where, and what the file must hold.
    """

    def vector(numbers: object) -> Vector:
        values = msgspec.convert(numbers, Annotated[list[Number], Meta(min_length=1)])
        return np.array(values, dtype=np.float64)

    def parse(document: Any) -> GivenVectors:
        if not isinstance(document, dict | list) or not document:
            raise ValueError("it holds no vector")
        if isinstance(document, dict) and isinstance(document.get("query"), str):
            document = [document]
        if isinstance(document, list) and any(isinstance(item, dict) for item in document):
            entries = msgspec.convert(document, list[_Entry])
            document = {entry.query: entry.vector for entry in entries}
        if isinstance(document, list):
            return GivenVectors(path, {}, vector(document))
        inner = document.get("vectors")
        by_query: dict[str, Vector] = {}
        for query, numbers in (inner if isinstance(inner, dict) else document).items():
            try:
                by_query[query] = vector(numbers)
            except msgspec.ValidationError as error:
                line = safe_line(query)
                shown = line if len(line) <= _SHOWN_QUERY else f"{line[:_SHOWN_QUERY]}…"
                raise ValueError(f'"{shown}": {in_words(error)}') from None
        return GivenVectors(path, by_query)

    return read_json(path, "query vectors", _FORM, parse, MAX_BYTES)


class _Entry(Struct, frozen=True):
    query: str
    vector: Any
