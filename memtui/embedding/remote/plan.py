"""What a choice means for one service: address, model, prefixes, dimensions, fingerprint.

Nothing here loads a library or opens a connection, so that an identity is told at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from memtui.embedding.keys import FoundKey, has_key
from memtui.embedding.limits import BATCH_BYTES, DEFAULT_LIMIT, byte_size
from memtui.embedding.payloads import gemini_templates, is_gemini_prefixed
from memtui.embedding.provider import ProviderIdentity, settings_fingerprint
from memtui.embedding.services import (
    SERVICES,
    Address,
    Model,
    Service,
    Shape,
    address_of,
    wants_templates,
    wire_model,
)
from memtui.embedding.templates import Templates, templates_of
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.shown import masked_text


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
    choice: EmbeddingSettings = field(repr=False)

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
        is_named = bool(self.choice.key_env or self.choice.key_command)
        return is_named or (self.service.needs_key and self.address.is_own)

    @property
    def key_hint(self) -> str:
        """What to do for a key."""
        names = " or ".join(self.service.key_variables)
        usual = f"set {names}, or " if names else "set "
        return f"{usual}embedding.key_env or embedding.key_command"

    def missing_key(self, key: FoundKey) -> ProviderError:
        """The failure of a service that wants a key when none was found."""
        why = key.problem or key.withheld or f"no key for {self.service.name} was found"
        return ProviderError(why, hint=self.key_hint, failure=Failure.NO_KEY)

    def look_for_key(self, env: Mapping[str, str] | None = None) -> FoundKey:
        """Look for a key without opening the place that holds it.

        Raises `ProviderError` (`no_key`) where one is needed and there is no such place.
        """
        key = has_key(self.service, self.address, self.choice, os.environ if env is None else env)
        if self.needs_key and not key.is_there:
            raise self.missing_key(key)
        return key


def plan_of(name: str, choice: EmbeddingSettings) -> Plan:
    """Work out how a service is asked; raises `SettingsError` for what it cannot do."""
    service = SERVICES[name]
    try:
        address = address_of(service, choice.base_url or "")
    except ValueError as error:
        raise SettingsError(f"{name}: {error}", hint="check embedding.base_url") from None
    model = wire_model(service, choice.model or service.default_model, address)
    if not model:
        raise SettingsError(f"{name}: no model is named", hint="check embedding.model")
    if masked_text(model) != model:
        # It would stand in every list, in the index, and in what is sent to another host.
        hint = "embedding.key_env or embedding.key_command says where the key is"
        raise SettingsError(f"{name}: embedding.model looks like a key", hint=hint)
    templates = _templates(service, address, model).overridden(choice)
    facts = _model_facts(service, address, model)
    usual = facts.dimensions
    dimensions = choice.dimensions if choice.dimensions != usual else None
    if dimensions is not None and facts.one_length:
        words = f"{name}: {model} gives {usual} dimensions and no other number"
        raise SettingsError(words, hint="leave embedding.dimensions empty")
    limit = service.models.get(model, Model()).input_bytes or DEFAULT_LIMIT
    longest = min(limit, BATCH_BYTES)
    longest_prefix = max(byte_size(templates.query), byte_size(templates.document))
    return Plan(
        service=service,
        address=address,
        model=model,
        templates=templates,
        dimensions=choice.dimensions or usual,
        asked_dimensions=dimensions,
        fingerprint=_fingerprint(service, address, model, templates, dimensions),
        input_bytes=max(1, longest - longest_prefix),
        choice=choice,
    )


def _templates(service: Service, address: Address, model: str) -> Templates:
    if service.shape is Shape.GEMINI:
        return gemini_templates(model)
    return templates_of(model) if wants_templates(service, address) else Templates()


def _model_facts(service: Service, address: Address, model: str) -> Model:
    if service.shape is Shape.OLLAMA:
        return service.models.get(model.removesuffix(":latest"), Model())
    # Another host may give the same name to a model of its own.
    return service.models.get(model, Model()) if address.is_own else Model()


def _fingerprint(
    service: Service, address: Address, model: str, templates: Templates, dimensions: int | None
) -> str:
    at_home = address.is_own or (service.shape is Shape.OLLAMA and address.is_loopback)
    typed = service.shape is Shape.GEMINI and not is_gemini_prefixed(model)
    return settings_fingerprint(
        {
            "provider": service.name,
            "model": model,
            "dimensions": dimensions,
            "query_prefix": templates.query,
            "document_prefix": templates.document,
            "query_type": "RETRIEVAL_QUERY" if typed else service.input_type,
            "document_type": "RETRIEVAL_DOCUMENT" if typed else service.document_type,
            "address": None if at_home else address.place,
        }
    )
