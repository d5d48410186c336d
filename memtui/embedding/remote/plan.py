"""What a choice means for one service: address, model, prefixes, dimensions, fingerprint.

Nothing here loads a library or opens a connection, so that an identity is told at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.keys import FoundKey, find_key, has_key
from memtui.embedding.limits import BATCH_BYTES, KNOWN_LIMITS, byte_size, input_limit
from memtui.embedding.payloads import gemini_templates, is_gemini_prefixed
from memtui.embedding.provider import ProviderIdentity, settings_fingerprint
from memtui.embedding.registry import Availability, Registration
from memtui.embedding.services import (
    SERVICES,
    Address,
    Service,
    Shape,
    address_of,
    wants_templates,
    wire_model,
)
from memtui.embedding.templates import Templates, templates_of
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure
from memtui.settings.shown import masked_text

if TYPE_CHECKING:
    from memtui.embedding.remote.provider import RemoteProvider


DEFAULT_MODELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "openai": "text-embedding-3-small",
        "gemini": "gemini-embedding-001",
        "voyage": "voyage-4-large",
        "mistral": "mistral-embed",
        "ollama": "nomic-embed-text",
    }
)
"""By service (OPENCLAW.md, section 10)."""

KNOWN_DIMENSIONS: Final[Mapping[tuple[str, str], int]] = MappingProxyType(
    {
        ("openai", "text-embedding-3-small"): 1536,
        ("openai", "text-embedding-3-large"): 3072,
        ("openai", "text-embedding-ada-002"): 1536,
        ("gemini", "gemini-embedding-001"): 3072,
        ("gemini", "gemini-embedding-2"): 3072,
        ("gemini", "text-embedding-004"): 768,
        ("voyage", "voyage-4-large"): 1024,
        ("voyage", "voyage-4"): 1024,
        ("voyage", "voyage-4-lite"): 1024,
        ("voyage", "voyage-3.5"): 1024,
        ("voyage", "voyage-3.5-lite"): 1024,
        ("voyage", "voyage-3-large"): 1024,
        ("voyage", "voyage-3"): 1024,
        ("voyage", "voyage-3-lite"): 512,
        ("voyage", "voyage-code-3"): 1024,
        ("mistral", "mistral-embed"): 1024,
        ("mistral", "codestral-embed"): 1536,
        ("ollama", "nomic-embed-text"): 768,
        ("ollama", "mxbai-embed-large"): 1024,
        ("ollama", "all-minilm"): 384,
        ("ollama", "bge-m3"): 1024,
        ("ollama", "embeddinggemma"): 768,
        ("ollama", "snowflake-arctic-embed2"): 1024,
    }
)
"""By service and model: what the documents say a vector has when no number is asked for."""

_ONE_LENGTH: Final = frozenset(
    {
        ("openai", "text-embedding-ada-002"),
        ("gemini", "text-embedding-004"),
        ("voyage", "voyage-3"),
        ("voyage", "voyage-3-lite"),
        ("mistral", "mistral-embed"),
    }
)
"""The models that give no other number and refuse a request that asks for one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one service is asked for one model; holds no key."""

    service: Service
    address: Address
    model: str
    """As the service knows it."""
    templates: Templates
    dimensions: int | None
    """Numbers a vector has; `None` until the first answer tells."""
    asked_dimensions: int | None
    """What is asked for, where it is not what the model gives by itself."""
    fingerprint: str
    input_bytes: int
    """The most UTF-8 bytes of one text, without its prefix."""
    choice: EmbeddingChoice = field(repr=False)

    @property
    def identity(self) -> ProviderIdentity:
        """What makes its vectors comparable."""
        return ProviderIdentity(
            self.service.name, self.model, self.dimensions, self.fingerprint, self.input_bytes
        )

    @property
    def needs_key(self) -> bool:
        """Whether it is not asked without a key.

        The service's own host refuses that, another may not; but where the settings name a place
        for the key, one is meant to be there.
        """
        keys = self.choice.keys
        is_named = bool(keys.variable or keys.command)
        return is_named or (self.service.needs_key and self.address.is_own)


def plan_of(name: str, choice: EmbeddingChoice) -> Plan:
    """Work out how a service is asked; raises `SettingsError` for what it cannot do."""
    service = SERVICES[name]
    try:
        address = address_of(service, choice.base_url)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}", hint="check embedding.base_url") from None
    model = wire_model(service, choice.model or DEFAULT_MODELS[name], address)
    if not model:
        raise SettingsError(f"{name}: no model is named", hint="check embedding.model")
    if masked_text(model) != model:
        # It would stand in every list, in the index, and in what is sent to another host.
        hint = "embedding.key_env or embedding.key_command says where the key is"
        raise SettingsError(f"{name}: embedding.model looks like a key", hint=hint)
    templates = _templates(service, address, model, choice)
    known = _known_dimensions(service, address, model)
    asked = choice.dimensions if choice.dimensions != known else None
    if asked is not None and (name, model) in _ONE_LENGTH and address.is_own:
        words = f"{name}: {model} gives {known} dimensions and no other number"
        raise SettingsError(words, hint="leave embedding.dimensions empty")
    longest = input_limit(name, model, known=KNOWN_LIMITS, hard_cap=BATCH_BYTES)
    longest_prefix = max(byte_size(templates.query), byte_size(templates.document))
    return Plan(
        service=service,
        address=address,
        model=model,
        templates=templates,
        dimensions=choice.dimensions or known,
        asked_dimensions=asked,
        fingerprint=_fingerprint(service, address, model, templates, asked),
        input_bytes=max(1, longest - longest_prefix),
        choice=choice,
    )


def _templates(
    service: Service, address: Address, model: str, choice: EmbeddingChoice
) -> Templates:
    if service.shape is Shape.GEMINI:
        usual = gemini_templates(model)
    else:
        usual = templates_of(model) if wants_templates(service, address) else Templates()
    query, document = choice.query_prefix, choice.document_prefix
    return Templates(
        usual.query if query is None else query,
        usual.document if document is None else document,
    )


def _known_dimensions(service: Service, address: Address, model: str) -> int | None:
    if service.shape is Shape.OLLAMA:
        return KNOWN_DIMENSIONS.get((service.name, model.removesuffix(":latest")))
    # Another host may give the same name to a model of its own.
    return KNOWN_DIMENSIONS.get((service.name, model)) if address.is_own else None


def _fingerprint(
    service: Service, address: Address, model: str, templates: Templates, asked: int | None
) -> str:
    at_home = address.is_own or (service.shape is Shape.OLLAMA and address.is_loopback)
    typed = service.shape is Shape.GEMINI and not is_gemini_prefixed(model)
    return settings_fingerprint(
        {
            "provider": service.name,
            "model": model,
            "dimensions": asked,
            "query_prefix": templates.query,
            "document_prefix": templates.document,
            "query_type": "RETRIEVAL_QUERY" if typed else service.input_type,
            "document_type": "RETRIEVAL_DOCUMENT" if typed else service.document_type,
            "address": None if at_home else address.place,
        }
    )


Stopped = Callable[[], bool]

_LOOK: Final = 0.02


class KeyHolder:
    """Keeps the key of a provider in memory and nowhere else; usable from any thread."""

    def __init__(
        self,
        plan: Plan,
        *,
        find: Callable[..., FoundKey] = find_key,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._plan = plan
        self._find = find
        self._env = env
        self._lock = threading.Lock()
        self._found: FoundKey | None = None

    def current(self, stopped: Stopped, *, refused: FoundKey | None = None) -> FoundKey:
        """The key to send, without a value where none is needed and none is there.

        With `refused`, which the service did not take, it is looked for once more. Raises
        `ProviderError` (`no_key`) where one is needed, and `Cancelled`; what is wrong at a place
        where a key might just lie keeps nobody from a server that needs none.
        """
        while not self._lock.acquire(timeout=_LOOK):
            if stopped():
                raise Cancelled
        try:
            if self._found is None or self._found is refused:
                self._found = self._find(
                    self._plan.service,
                    self._plan.address,
                    self._plan.choice,
                    self._env,
                    cancelled=stopped,
                )
            found = self._found
            if not found.value and self._plan.needs_key:
                # Whoever sets the key meanwhile shall not have to start again.
                self._found = None
        finally:
            self._lock.release()
        if not found.value and self._plan.needs_key:
            raise missing_key(self._plan, found)
        return found


def look_for_key(plan: Plan, env: Mapping[str, str] | None = None) -> FoundKey:
    """Look whether a key is there, without opening the place that holds it."""
    return has_key(plan.service, plan.address, plan.choice, os.environ if env is None else env)


def missing_key(plan: Plan, found: FoundKey) -> ProviderError:
    """The failure of a service that wants a key when none was found."""
    why = found.problem or found.withheld or f"no key for {plan.service.name} was found"
    return ProviderError(why, hint=key_hint(plan), failure=Failure.NO_KEY)


def key_hint(plan: Plan) -> str:
    """What to do for a key."""
    names = " or ".join(plan.service.key_variables)
    usual = f"set {names}, or " if names else "set "
    return f"{usual}embedding.key_env or embedding.key_command"


_SUMMARIES: Final = {
    "openai": "OpenAI, or any server that speaks as it does (embedding.base_url)",
    "gemini": "Google Gemini",
    "voyage": "Voyage AI",
    "mistral": "Mistral AI",
    "ollama": "Ollama, on this machine unless embedding.base_url says otherwise",
}


def create(name: str, choice: EmbeddingChoice) -> RemoteProvider:
    """Make the provider; no connection is opened yet.

    Raises `SettingsError` for settings that the service cannot follow, and `ProviderError`
    (`no_key`) where it wants a key and none is found.
    """
    from memtui.embedding.remote.http import ServiceClient
    from memtui.embedding.remote.pacing import Pacer, Sender
    from memtui.embedding.remote.provider import Connection, RemoteProvider

    plan = plan_of(name, choice)
    found = look_for_key(plan)
    if plan.needs_key and not found.is_there:
        raise missing_key(plan, found)
    traffic = choice.traffic
    client = ServiceClient(plan.address, concurrency=traffic.concurrency, ca_file=traffic.ca_file)
    pacer = Pacer(traffic.requests_per_minute, traffic.tokens_per_minute)
    return RemoteProvider(Connection(plan, client, KeyHolder(plan)), Sender(pacer))


def look(name: str, choice: EmbeddingChoice) -> Availability:
    """Whether the settings and the key are there; asks nobody."""
    try:
        plan = plan_of(name, choice)
    except SettingsError as error:
        return Availability(False, error.message, error.hint, Failure.BAD_SETTING)
    found = look_for_key(plan)
    if plan.needs_key and not found.is_there:
        missing = missing_key(plan, found)
        return Availability(False, missing.message, missing.hint, Failure.NO_KEY)
    return Availability(True, _what_is_there(plan, found.origin))


def identity(name: str, choice: EmbeddingChoice) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` as it does."""
    return plan_of(name, choice).identity


def _what_is_there(plan: Plan, origin: str) -> str:
    host = plan.address.shown
    return f"key of {origin}, for {host}" if origin else f"without a key, at {host}"


REGISTRATIONS: Final[Mapping[str, Registration]] = {
    name: Registration(
        name=name,
        remote=name != "ollama",
        create=partial(create, name),
        look=partial(look, name),
        identity=partial(identity, name),
        summary=summary,
    )
    for name, summary in _SUMMARIES.items()
}
