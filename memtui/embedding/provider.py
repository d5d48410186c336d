"""What an embedding provider is, which ones there are, and how one is chosen."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from memtui.errors import ProviderError, SettingsError
from memtui.model import ProviderState, Reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"
"""One embedding: shape (dimensions,), float32, of length 1 or all zero."""

Vectors: TypeAlias = "NDArray[np.float32]"
"""Embeddings: shape (n, dimensions), float32, every row of length 1 or all zero."""

AUTO = "auto"
NONE = "none"
EMBEDDED_DEFAULT = "minilm"

# In the order in which `auto` tries them: each is a module here with a `REGISTRATION`.
_BUILTIN = ("minilm",)

_SMALLEST_LENGTH = 1e-10


class ProviderIdentity(NamedTuple):
    """What makes vectors comparable: two indexes may be compared only when this is equal."""

    name: str
    model: str
    dimensions: int | None
    """`None` while only a first answer of the provider can tell."""
    fingerprint: str
    """sha256 hex of the settings that change a vector; holds no secret."""


class Provider(Protocol):
    """Something that turns text into vectors of one length; usable from any thread."""

    @property
    def name(self) -> str:
        """The name it is configured by."""

    @property
    def model(self) -> str:
        """The id of the model, as the chunk ids hold it."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""

    @property
    def fingerprint(self) -> str:
        """sha256 hex of the settings that change a vector; holds no secret."""

    @property
    def remote(self) -> bool:
        """Whether text leaves this machine."""

    @property
    def batch_size(self) -> int:
        """How many texts a caller best hands to one `embed_documents`."""

    def embed_query(self, text: str) -> Vector:
        """Embed a query; all zero when the model sees nothing in it. Raises `ProviderError`."""

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; raises `ProviderError`, or `Cancelled` once asked to stop."""

    def reads(self, text: str) -> bool:
        """Whether the model knows the script of `text`, so that its vector means something."""

    def close(self) -> None:
        """Let go of the model or connection; later calls raise `ProviderError`."""


@dataclass(frozen=True, slots=True)
class EmbeddingChoice:
    """Which provider is wanted, and its settings."""

    provider: str = AUTO
    model: str | None = None
    """`None` is the provider's own default."""
    threads: int = 0
    """Threads of a local model; 0 lets the provider decide."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Settings that only one provider knows."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A provider that can be chosen by name, without its libraries being loaded."""

    name: str
    remote: bool
    create: Callable[[EmbeddingChoice], Provider]
    """Load it, ready to embed; raises `ProviderError`."""
    available: Callable[[EmbeddingChoice], bool]
    """Whether `auto` may choose it: a cheap look, which loads and asks nothing."""
    identity: Callable[[EmbeddingChoice], ProviderIdentity]
    """What `create` would give, without loading it."""


_registered: dict[str, Registration] = {}


def register(registration: Registration) -> None:
    """Make a provider known under its name; a later one of the same name takes its place."""
    _registered[registration.name] = registration


def unregister(name: str) -> None:
    """Forget a provider that was registered."""
    _registered.pop(name, None)


def provider_names() -> tuple[str, ...]:
    """Every name that a setting may hold, `auto` and `none` among them."""
    return (AUTO, *dict.fromkeys((*_BUILTIN, *_registered)), NONE)


def provider_identity(choice: EmbeddingChoice) -> ProviderIdentity | None:
    """Tell what the chosen provider would be, without loading it; `None` for keyword only.

    Raises `SettingsError` for a name or model that does not exist.
    """
    registration = _choose(choice)
    return None if registration is None else registration.identity(choice)


def identity_of(provider: Provider) -> ProviderIdentity:
    """Tell the identity of a provider that is loaded."""
    return ProviderIdentity(
        provider.name, provider.model, provider.dimensions, provider.fingerprint
    )


def create_provider(choice: EmbeddingChoice) -> tuple[Provider | None, ProviderState]:
    """Load the chosen provider, and say which one answers and why.

    Without a provider (`none`, or one that cannot be loaded) the search goes on by keyword.
    Raises `SettingsError` for a name or model that does not exist, nothing else.
    """
    registration = _choose(choice)
    if registration is None:
        detail = "keyword search only, as configured"
        return None, ProviderState(choice.provider, None, None, None, Reason.DISABLED, detail)
    try:
        provider = registration.create(choice)
    except SettingsError:
        raise
    except Exception as error:
        # Its libraries may raise anything while they load; that must not end the keyword search.
        kind = "" if isinstance(error, ProviderError) else f"{type(error).__name__}: "
        return None, _failed(choice, registration, f"{kind}{error}")
    state = ProviderState(
        requested=choice.provider,
        actual=provider.name,
        model=provider.model,
        dimensions=provider.dimensions,
        remote=provider.remote,
    )
    return provider, state


def clean_vectors(vectors: NDArray[Any]) -> Vectors:
    """Make vectors comparable: float32, non-finite numbers 0, every row of length 1.

    Takes and returns shape (dimensions,) or (n, dimensions); the input is left as it is.
    A row shorter than 1e-10 becomes zero, which says that it has no direction.
    """
    import numpy as np

    numbers = np.asarray(vectors, dtype=np.float64)
    numbers = np.where(np.isfinite(numbers), numbers, 0.0)
    if not numbers.size:
        return numbers.astype(np.float32)
    # Scaled by the largest number first, so that squares of huge values cannot overflow.
    largest = np.abs(numbers).max(axis=-1, keepdims=True)
    scaled = numbers / np.where(largest > 0.0, largest, 1.0)
    lengths = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    at_least_one = np.maximum(lengths, 1.0)
    visible = largest >= _SMALLEST_LENGTH / at_least_one
    unit = np.where(visible, scaled / at_least_one, 0.0)
    return unit.astype(np.float32)


def settings_fingerprint(settings: Mapping[str, str | int | float | bool | None]) -> str:
    """Hash the settings that change a vector (never a secret) as sha256 hex of sorted JSON."""
    text = json.dumps(dict(settings), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _choose(choice: EmbeddingChoice) -> Registration | None:
    if choice.provider == NONE:
        return None
    if choice.provider != AUTO:
        return _registration(choice.provider)
    for name in _BUILTIN:
        registration = _registration(name)
        if registration.available(choice):
            return registration
    # It cannot be loaded either, and its error is the one that says what is missing.
    return _registration(EMBEDDED_DEFAULT)


def _registration(name: str) -> Registration:
    if name in _registered:
        return _registered[name]
    if name in _BUILTIN:
        registration: Registration = importlib.import_module(
            f"memtui.embedding.{name}"
        ).REGISTRATION
        return registration
    valid = provider_names()
    nearest = difflib.get_close_matches(name.lower(), valid, n=1, cutoff=0.4)
    meant = f'did you mean "{nearest[0]}"? ' if nearest else ""
    raise SettingsError(
        f'no embedding provider is named "{name}"', hint=f"{meant}valid: {', '.join(valid)}"
    )


def _failed(choice: EmbeddingChoice, registration: Registration, detail: str) -> ProviderState:
    identity = registration.identity(choice)
    return ProviderState(
        requested=choice.provider,
        actual=None,
        model=identity.model,
        dimensions=identity.dimensions,
        state=Reason.PROVIDER_FAILED,
        detail=detail,
        remote=registration.remote,
    )
