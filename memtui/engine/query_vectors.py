"""The vector of a query for an index that another program made.

It comes from the provider and model that made the vectors of the index, or not at all: vectors of
two models are never compared, so memtui's own model is not asked.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from memtui.embedding.payloads import RETRY_PAUSE, TIMEOUT
from memtui.engine.agent_provider import AgentProvider, RemoteSource, Vector, needs_key, no_key
from memtui.engine.given_vectors import GivenVectors, load_given
from memtui.errors import Cancelled, ProviderError
from memtui.model import Reason
from memtui.model.status import Identity
from memtui.settings.openclaw import MemorySearchConfig
from memtui.settings.openclaw.releases import KEYWORD_ONLY_MODEL, NO_PROVIDER
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line

__all__ = [
    "GivenVectors",
    "NoVector",
    "QueryVector",
    "QueryVectors",
    "RemoteSource",
    "Vector",
    "load_given",
]

_REMEMBERED: Final = 256
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The vector of a query: float64, shape (dimensions,), as the agent's provider gives it."""

    values: Vector
    origin: Literal["file", "provider", "cache"]
    detail: str = ""
    """One line that says where it is from."""
    exact: bool = True
    """False for a vector made for a note of the same text, where the model tells the two apart."""


@dataclass(frozen=True, slots=True)
class NoVector:
    """Why there is no vector for a query."""

    reason: Reason
    detail: str
    """One line for people, `why` included."""
    why: str = ""
    """The second part of `detail` by itself."""


class QueryVectors:
    """Finds the vector of a query: in a given file, from the provider, in the index's cache.

    `identity` is what the index says it was made with, `config` what its agent is configured for
    (`None`: not known, so no provider is asked), `read_cache` gives the vector stored in the index
    for the sha256 (hex) of a text. Of `env` only the key variables of the provider are read;
    `remote` adds the keys and headers of the agent's configuration. A provider that is not on
    this machine is asked only when the user has finished the query. To be called from one
    thread, which runs no event loop; `close` may come from any.
    """

    def __init__(
        self,
        identity: Identity,
        config: MemorySearchConfig | None,
        *,
        given: GivenVectors | None,
        env: Mapping[str, str],
        read_cache: Callable[[str], Vector | None],
        remote: RemoteSource | None = None,
        timeout: float = TIMEOUT,
        pause: float = RETRY_PAUSE,
    ) -> None:
        self._given = given
        self._read_cache = read_cache
        self._provider = identity.provider or ""
        self._model = identity.model or ""
        self._dimensions = identity.vector_dims
        self._asked = AgentProvider(
            identity, config, env=env, remote=remote, timeout=timeout, pause=pause
        )
        self._answers: OrderedDict[tuple[str, str], Vector] = OrderedDict()
        self._closed = threading.Event()

    def find(
        self, query: str, *, typing: bool, cancelled: Callable[[], bool]
    ) -> QueryVector | NoVector:
        """Find the vector of `query`; `typing`: the user has not finished it.

        The agent asks without the blanks around a query, and so does this. Raises `Cancelled`
        within 0.2 s once `cancelled()` or closed, and what `read_cache` raises.
        """
        if self._closed.is_set() or cancelled():
            raise Cancelled
        if self._provider == NO_PROVIDER or self._model == KEYWORD_ONLY_MODEL:
            return NoVector(Reason.NO_VECTORS, "the index was made for keyword search alone")
        if self._given is not None:
            given = self._given.of(query)
            if given is not None:
                return self._checked(QueryVector(given, "file", safe_line(str(self._given.path))))
        query = trim(query)
        if not self._provider or not self._model:
            why = "the index does not say which model made its vectors"
            return NoVector(Reason.NOT_REPRODUCIBLE, f"not reproducible here: {why}", why)
        try:
            asked = self._from_provider(query, typing, cancelled)
        except ProviderError as error:
            asked = self._not_reproducible(error.message)
        if isinstance(asked, QueryVector) or asked.reason is Reason.ZERO_QUERY_VECTOR:
            return asked
        return self._from_cache(query) or asked

    def close(self) -> None:
        """Stop a call that runs; later ones raise `Cancelled`."""
        self._closed.set()

    @property
    def _needed(self) -> str:
        return f"{safe_line(self._provider)[:_SHOWN]}/{safe_line(self._model)[:_SHOWN]}"

    def _from_provider(
        self, query: str, typing: bool, cancelled: Callable[[], bool]
    ) -> QueryVector | NoVector:
        target = self._asked.target()
        host = safe_line(target.address.shown)
        values = self._answers.get((self._model, query))
        if values is None:
            if typing and not target.address.is_loopback:
                if needs_key(target) and not target.has_key:
                    raise ProviderError(no_key(target))
                why = f"press Enter to ask {host}"
                return NoVector(Reason.PENDING, f"needs {self._needed}; {why}", why)
            values = self._asked.ask(query, lambda: self._closed.is_set() or cancelled())
        self._remember(query, values)
        return self._checked(QueryVector(values, "provider", f"{self._needed} at {host}"))

    def _remember(self, query: str, values: Vector) -> None:
        key = (self._model, query)
        self._answers[key] = values
        self._answers.move_to_end(key)
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)

    def _from_cache(self, query: str) -> QueryVector | None:
        values = self._read_cache(hashlib.sha256(query.encode("utf-8", "replace")).hexdigest())
        if values is None:
            return None
        exact = self._asked.embeds_alike()
        detail = "the embedding cache of the index"
        if not exact:
            detail += ", made for a note: scores may differ from the agent's"
        found = self._checked(QueryVector(values, "cache", detail, exact))
        return found if isinstance(found, QueryVector) else None

    def _checked(self, found: QueryVector) -> QueryVector | NoVector:
        size = found.values.size
        if self._dimensions is not None and size != self._dimensions:
            why = f"{size} numbers from {found.detail}, the index has {self._dimensions}"
            return NoVector(Reason.DIMENSIONS_DIFFER, f"the query vector does not fit: {why}", why)
        if not found.values.any():
            why = f"the query vector from {found.detail} is all zero"
            return NoVector(Reason.ZERO_QUERY_VECTOR, why, why)
        return found

    def _not_reproducible(self, reason: str) -> NoVector:
        why = safe_line(reason)
        if self._given is not None:
            why += "; the given file does not hold this query"
        detail = f"not reproducible here: needs {self._needed}; {why}"
        return NoVector(Reason.NOT_REPRODUCIBLE, detail, why)
