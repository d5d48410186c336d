"""The embedding service that made an index, asked for a query as its agent would ask it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from memtui.embedding.payloads import (
    RETRY_PAUSE,
    TIMEOUT,
    Request,
    embeds_alike,
    normalised,
    query_request,
    vector_in,
)
from memtui.embedding.services import SERVICES, Address, Service, Shape, address_of
from memtui.errors import ProviderError
from memtui.model.status import Identity
from memtui.settings.openclaw import MemorySearchConfig
from memtui.settings.openclaw.releases import default_model
from memtui.settings.openclaw.secrets import RemoteAccess
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float64]"
"""One vector: shape (dimensions,), float64, of any length."""

_AUTO: Final = "auto"
_NO_SERVICE: Final = frozenset({"local", "github-copilot", "bedrock", "amazon-bedrock"})
_CHOSEN_BY_AUTO: Final = _NO_SERVICE | {"openai", "gemini", "voyage", "mistral"}
"""Every other provider is only used where it is named."""
_SHOWN: Final = 80
_COMPATIBLE: Final = SERVICES["openai-compatible"]
# 2026.2, the only release that writes no sources, stores what these answer as it is.
_ONCE_AS_RETURNED: Final = frozenset({"openai", "gemini", "voyage"})
_OF_REMOTE: Final = ("file", "api_key", "headers")
_OF_PROVIDER: Final = ("provider_api_key", "provider_headers")
_CONFIGURED_KEY: Final = "the key in the agent's configuration"


class RemoteSource(Protocol):
    """Reads what the agent's configuration keeps secret, each time anew."""

    def read(self, provider: str) -> RemoteAccess:
        """Keys, headers and the address for a provider."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the service of an index is, and which part of the configuration is meant for it."""

    service: Service
    address: Address
    is_configured: bool
    """Whether `remote` of the configuration is meant for it, not only its fallback."""
    is_provider_address: bool
    """Whether the address is the one of `models.providers`, or the service's own."""
    has_key: bool
    """Whether a key was found that may be sent there; it is read again for each call."""


class AgentProvider:
    """Asks the provider and model of one index; `ProviderError` says in one line why it cannot.

    `timeout` and `pause` are in seconds, as `memtui.embedding.remote.provider.ask_once` has them.
    """

    def __init__(
        self,
        identity: Identity,
        config: MemorySearchConfig | None,
        *,
        env: Mapping[str, str],
        remote: RemoteSource | None = None,
        timeout: float = TIMEOUT,
        pause: float = RETRY_PAUSE,
    ) -> None:
        self._identity = identity
        self._known = config is not None
        self._config = config or MemorySearchConfig()
        self._env = env
        self._remote = remote
        self._timeout = timeout
        self._pause = pause
        self._name = identity.provider or ""
        self._model = identity.model or ""
        self._found: Target | None = None

    def target(self) -> Target:
        """Where it is asked; worked out once, and again after a failure."""
        if self._found is None:
            self._found = self._find()
        return self._found

    def ask(self, query: str, stopped: Callable[[], bool]) -> Vector:
        """Ask for the vector of a query; raises `Cancelled` within 0.2 s once `stopped()`."""
        from memtui.embedding.remote.provider import ask_once

        target = self.target()
        access = self._access()
        key, key_name = self._credentials(target, access)
        try:
            answer = ask_once(
                self._request(target, access, query, key),
                target.address,
                stopped=stopped,
                key_name=key_name,
                timeout=self._timeout,
                pause=self._pause,
            )
            return self._clean(target, vector_in(target.service, answer))
        except ValueError as error:
            raise ProviderError(str(error)) from None

    def embeds_alike(self) -> bool:
        """Whether the vector of a note is also that of a query with the same text."""
        config = self._config
        return embeds_alike(
            SERVICES.get(self._name, _COMPATIBLE),
            self._model,
            config.query_input_type or config.input_type,
            config.document_input_type or config.input_type,
        )

    def _find(self) -> Target:
        config = self._config
        is_configured = self._agent_asks_it()
        if self._name in _NO_SERVICE:
            raise ProviderError(f"memtui cannot ask {self._name}")
        base = config.remote_base_url if is_configured else ""
        if is_configured and not base and "remote.baseUrl" in config.set_keys:
            raise ProviderError("remote.baseUrl of the agent is empty or cannot be read")
        access = self._access()
        is_provider_address = not base
        if is_provider_address:
            _refuse(access, ("file", "provider_base_url"))
            base = access.provider_base_url
        service = SERVICES.get(self._name)
        if service is None and not base:
            raise ProviderError(f"memtui cannot ask {self._name}")
        if service is None:
            service = replace(_COMPATIBLE, prefixes=(f"{self._name}/",))
        try:
            address = address_of(service, base)
        except ValueError as error:
            raise ProviderError(str(error)) from None
        target = Target(service, address, is_configured, is_provider_address, False)
        has_key = self._key(target, access)[0] or "authorization" in _headers(target, access)
        return replace(target, has_key=bool(has_key))

    def _agent_asks_it(self) -> bool:
        """Whether the agent asks provider and model first, not only when another one fails.

        Raises `ProviderError` where it asks neither way: no query goes where the agent sends none.
        """
        config, name = self._config, self._name
        if not self._known:
            _refuse(self._access(), ("file",))
            raise ProviderError("no configuration of the agent names it")
        if not config.enabled:
            raise ProviderError("memory search is switched off for the agent")
        automatic = config.provider == _AUTO and name in _CHOSEN_BY_AUTO
        is_configured = automatic or config.provider == name
        if is_configured:
            provider, model = name, config.model or default_model(name)
        elif config.fallback == name:
            provider, model = name, default_model(name)
        else:
            provider, model = config.provider, config.model or default_model(config.provider)
        is_same = not model or _plain(name, model) == _plain(name, self._model)
        if provider != name or not is_same:
            other = "/".join(safe_line(part)[:_SHOWN] for part in (provider, model) if part)
            raise ProviderError(f"the agent is configured for {other}")
        return is_configured

    def _access(self) -> RemoteAccess:
        return self._remote.read(self._name) if self._remote is not None else RemoteAccess()

    def _credentials(self, target: Target, access: RemoteAccess) -> tuple[str, str]:
        """The key and what a message calls it, both empty where none is wanted."""
        if target.is_configured:
            _refuse(access, _OF_REMOTE)
        key, name = self._key(target, access)
        if not key and target.is_provider_address:
            _refuse(access, _OF_PROVIDER)
        if not key and needs_key(target) and "authorization" not in _headers(target, access):
            raise ProviderError(no_key(target))
        return key, name

    def _key(self, target: Target, access: RemoteAccess) -> tuple[str, str]:
        """The key for a service; one of the environment goes to its own host or this machine."""
        if target.is_configured and access.api_key:
            return access.api_key, _CONFIGURED_KEY
        if target.is_provider_address and access.provider_api_key:
            return access.provider_api_key, _CONFIGURED_KEY
        if target.address.is_own or target.address.is_loopback:
            for name in target.service.key_variables:
                if self._env.get(name, "").strip():
                    return self._env[name].strip(), f"the key in {name}"
        return "", ""

    def _request(self, target: Target, access: RemoteAccess, query: str, key: str) -> Request:
        config = self._config
        return query_request(
            target.service,
            target.address,
            self._model,
            query,
            key=key,
            headers=_headers(target, access),
            dimensions=self._dimensions(target),
            input_type=config.query_input_type or config.input_type,
        )

    def _dimensions(self, target: Target) -> int | None:
        """The configured number of dimensions, where the index was made with it."""
        wanted = self._config.output_dimensionality if target.is_configured else None
        return wanted if self._identity.vector_dims in (None, wanted) else None

    def _clean(self, target: Target, values: Vector) -> Vector:
        import numpy as np

        if target.service.shape is Shape.OLLAMA:
            values = values[: self._dimensions(target)]
        if self._identity.sources is not None or self._name not in _ONCE_AS_RETURNED:
            return normalised(values)
        if not np.isfinite(values).all():
            raise ValueError("the vector in the answer holds a number that is not finite")
        return values


def _plain(provider: str, model: str) -> str:
    """A model's name without what only OpenClaw puts in front of it."""
    service = SERVICES.get(provider)
    for prefix in service.prefixes if service is not None else (f"{provider}/",):
        model = model.removeprefix(prefix)
    return model


def needs_key(target: Target) -> bool:
    """Whether the service refuses whoever has no key: its own host does, another may not."""
    return target.service.needs_key and target.address.is_own


def no_key(target: Target) -> str:
    """What is missing where a key is needed."""
    return f"no key in {' or '.join(target.service.key_variables)}"


def _headers(target: Target, access: RemoteAccess) -> dict[str, str]:
    """The configured headers, names in lower case."""
    headers = dict(access.provider_headers) if target.is_provider_address else {}
    if target.is_configured:
        headers |= access.headers
    return {name.strip().lower(): value for name, value in headers.items()}


def _refuse(access: RemoteAccess, fields: tuple[str, ...]) -> None:
    for name in fields:
        if name in access.problems:
            raise ProviderError(access.problems[name])
