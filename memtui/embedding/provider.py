"""What an embedding provider is, and what makes the vectors of two comparable."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from memtui.model import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Vector: TypeAlias = "NDArray[np.float32]"
"""One embedding: shape (dimensions,), float32, of length 1 or all zero."""

Vectors: TypeAlias = "NDArray[np.float32]"
"""Embeddings: shape (n, dimensions), float32, every row of length 1 or all zero."""

_SMALLEST_LENGTH = 1e-10


class ProviderIdentity(NamedTuple):
    """What makes vectors comparable: two indexes may be compared only when this is equal."""

    name: str
    model: str
    dimensions: int | None
    """`None` while only a first answer of the provider can tell."""
    fingerprint: str
    """sha256 hex of the settings that change a vector; holds no secret."""
    input_bytes: int | None = None
    """The most UTF-8 bytes of one input; a longer chunk is split. `None`: never split."""


class Provider(Protocol):
    """Something that turns text into vectors of one length; usable from any thread."""

    @property
    def name(self) -> str:
        """The name it is configured by."""

    @property
    def model(self) -> str:
        """The id of the model, as the chunk ids hold it."""

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; `None` until the first answer tells."""

    @property
    def fingerprint(self) -> str:
        """sha256 hex of the settings that change a vector; holds no secret."""

    @property
    def address(self) -> str:
        """The host that text is sent to, for people; empty when it stays in this program."""

    @property
    def remote(self) -> bool:
        """Whether text leaves this machine."""

    @property
    def batch_size(self) -> int:
        """How many texts a caller best hands to one `embed_documents`."""

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; all zero when the model sees nothing in it.

        Raises `ProviderError`, or `Cancelled` within 0.1 s once asked to stop.
        """

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; raises `ProviderError`, or `Cancelled` once asked to stop."""

    def reads(self, text: str) -> bool:
        """Whether the model knows the script of `text`, so that its vector means something."""

    def usage(self) -> Usage:
        """What it was asked for so far."""

    def close(self) -> None:
        """Let go of the model or connection; later calls raise `ProviderError`."""


class Maker(NamedTuple):
    """Who made vectors: only those of one maker may be compared."""

    name: str
    model: str
    fingerprint: str


def maker_of(identity: ProviderIdentity) -> Maker:
    """Tell whose vectors an identity makes."""
    return Maker(identity.name, identity.model, identity.fingerprint)


def identity_of(provider: Provider) -> ProviderIdentity:
    """Tell the identity of a provider that is loaded."""
    return ProviderIdentity(
        provider.name, provider.model, provider.dimensions, provider.fingerprint
    )


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


CHARACTERS_A_TOKEN = 4


class UsageMeter:
    """Adds up requests, texts and tokens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    def add(self, *, texts: int, tokens: int, requests: int = 1, estimated: bool = False) -> None:
        """Add what was asked for; `estimated`: the tokens were counted by their length."""
        with self._lock:
            known = self._usage
            self._usage = Usage(
                known.requests + requests,
                known.texts + texts,
                known.tokens + tokens,
                known.estimated or estimated,
            )

    def read(self) -> Usage:
        """Tell the sums."""
        with self._lock:
            return self._usage


def estimated_tokens(characters: int) -> int:
    """Tokens of so many characters, four a token, at least one where there is any."""
    return -(-characters // CHARACTERS_A_TOKEN)
