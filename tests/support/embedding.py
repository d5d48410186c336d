"""A light embedding provider for tests: deterministic, fast, and able to fail on demand."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest

from memtui.embedding.provider import (
    Provider,
    ProviderIdentity,
    Vector,
    Vectors,
    WordPieces,
    clean_vectors,
    settings_fingerprint,
)
from memtui.embedding.registry import Registration, resolve
from memtui.errors import IsCancelled, ProviderError, never, stop_if
from memtui.model import Usage
from memtui.settings.schema import PROVIDERS, EmbeddingSettings

HASHED = "hashed"


class HashedProvider(Provider):
    """Embeds a text as its hashed bag of character trigrams: texts alike have vectors alike.

    `fail_next` calls raise `ProviderError`; `answer` is `normal`, `zero` (all-zero vectors) or
    `nan` (non-finite numbers in every vector before cleaning); `readable` decides the script
    guard. `calls`, `texts` count the calls and the texts that were embedded, `cut` those that word
    pieces were made of, which are its words; `before_cut` is called before each.
    """

    dimensions: int

    def __init__(
        self,
        *,
        model: str = "hashed-trigrams",
        dimensions: int = 64,
        batch_size: int = 16,
        fail_next: int = 0,
        answer: str = "normal",
        readable: Callable[[str], bool] | None = None,
        word_pieces: bool | None = None,
        piece_chunks: int = 50_000,
    ) -> None:
        fingerprint = settings_fingerprint(
            {"provider": HASHED, "model": model, "dimensions": dimensions}
        )
        self.identity = ProviderIdentity(
            HASHED, model, dimensions, fingerprint, None, word_pieces, piece_chunks
        )
        self.dimensions = dimensions
        self.batch_size = batch_size
        self.fail_next = fail_next
        self.answer = answer
        self.readable = readable
        self.closed = False
        self.calls = 0
        self.texts = 0
        self.cut = 0
        self.before_cut: Callable[[], object] = lambda: None
        self._lock = threading.Lock()

    def embed_query(self, text: str, *, cancelled: IsCancelled = never) -> Vector:
        """Embed one text; shape (dimensions,)."""
        self._begin(1)
        return clean_vectors(self._raw(text))

    def embed_documents(self, texts: Sequence[str], *, cancelled: IsCancelled = never) -> Vectors:
        """Embed texts in their order; shape (n, dimensions)."""
        self._begin(len(texts))
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            stop_if(cancelled)
            rows[row] = self._raw(text)
        return clean_vectors(rows)

    def word_pieces(
        self, text: str, starts: Sequence[int], *, cancelled: IsCancelled = never
    ) -> list[WordPieces] | None:
        """Make each word a piece; its vector is one of the 32 axes."""
        if self.identity.word_pieces is None:
            return None
        self.before_cut()
        stop_if(cancelled)
        self.cut += 1
        bounds = pairwise([0, *starts[1:], len(text)][: len(starts) + 1])
        parts = [text[start:end].split() for start, end in bounds]
        axes = np.eye(32, dtype=np.float32)
        return [WordPieces(words, axes[[len(word) % 32 for word in words]]) for words in parts]

    def reads(self, text: str) -> bool:
        """Whether the script guard lets `text` through."""
        return True if self.readable is None else self.readable(text)

    def usage(self) -> Usage:
        """Count a text as one token."""
        return Usage(self.calls, self.texts, self.texts)

    def close(self) -> None:
        self.closed = True

    def _begin(self, texts: int) -> None:
        with self._lock:
            if self.closed:
                raise ProviderError("the hashed provider is closed")
            self.calls += 1
            if self.fail_next > 0:
                self.fail_next -= 1
                raise ProviderError("the hashed provider was told to fail")
            self.texts += texts

    def _raw(self, text: str) -> Vector:
        row = np.zeros(self.dimensions, dtype=np.float32)
        if self.answer == "zero":
            return row
        folded = f" {' '.join(text.lower().split())} "
        for start in range(len(folded) - 2):
            bucket = zlib.crc32(folded[start : start + 3].encode("utf-8", "replace"))
            row[bucket % self.dimensions] += 1.0 if bucket & 0x80000000 else -1.0
        if self.answer == "nan":
            row[0], row[1] = np.nan, np.inf
        return row


REGISTRATIONS: dict[str, Registration] = {}


@contextmanager
def known_providers(*made: Registration) -> Iterator[None]:
    """Make providers known by their names, for as long as the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        for one in made:
            patch.setitem(REGISTRATIONS, one.name, one)
            patch.setitem(PROVIDERS, one.name, __name__)
        yield


@contextmanager
def registered_hashed(provider: HashedProvider | None = None) -> Iterator[HashedProvider]:
    """Make `EmbeddingSettings(provider="hashed")` give `provider`, for as long as the block runs."""
    shared = provider or HashedProvider()
    with registered_provider(shared):
        yield shared


@contextmanager
def registered_provider(provider: Provider) -> Iterator[None]:
    """Make its name give `provider`, which no engine closes, for as long as the block runs."""
    made = Registration(
        name=provider.identity.name,
        create=lambda choice: provider,
        check=lambda choice: "made for tests",
        identity=lambda choice: provider.identity,
        reads=provider.reads,
    )
    with patch.object(provider, "close", lambda: None), known_providers(made):
        yield


def created(choice: EmbeddingSettings) -> Provider:
    """Make the provider of a choice that is not `none`; raises what it raises."""
    registration = resolve(choice)
    assert registration is not None
    return registration.create(choice)


def provider_identity(choice: EmbeddingSettings) -> ProviderIdentity | None:
    """Tell what the chosen provider would be, without loading it; `None` for keyword only."""
    registration = resolve(choice)
    return None if registration is None else registration.identity(choice)


def failure(choice: EmbeddingSettings) -> tuple[str, str, str]:
    """Expect the provider to fail; return what it says."""
    with pytest.raises(ProviderError) as caught:
        created(choice)
    assert "\n" not in str(caught.value)
    return str(caught.value), caught.value.hint, caught.value.failure


def check_alone_and_together(provider: Provider, texts: Sequence[str]) -> None:
    """Compare the vectors of texts with those of each alone, and in the other order."""
    together = provider.embed_documents(texts)
    backwards = provider.embed_documents(texts[::-1])[::-1]
    alone = np.stack([provider.embed_query(text) for text in texts])
    np.testing.assert_array_equal(together, backwards)
    np.testing.assert_array_equal(together, alone)
