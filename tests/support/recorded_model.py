"""The bundled model with its vectors recorded, and one that pauses, for pictures."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.embedding.packaged import MODELS
from memtui.embedding.provider import LocalProvider, Provider
from memtui.embedding.registry import registered, registration_of
from memtui.errors import Cancelled, ProviderError
from memtui.model import Usage
from memtui.settings.schema import EmbeddingSettings
from memtui.text.tokens import dominant_script

VECTORS = Path(__file__).parent.parent / "data" / "demo-vectors.npz"


class Recorded(LocalProvider):
    """The bundled model's own vectors, recorded: the same numbers on every processor.

    With `recording`, the model is asked and what it says is kept for `save`; with `adding`, only
    for texts that the file does not hold.
    """

    def __init__(self, *, recording: bool, file: Path = VECTORS, adding: bool = False) -> None:
        identity = MODELS["minilm"].identity(EmbeddingSettings())
        reads = partial(dominant_script, scripts=("LATIN ", "FULLWIDTH LATIN "))
        super().__init__(identity, self._look_up, batch_size=8, reads=reads)
        self._model = MODELS["minilm"].create(EmbeddingSettings()) if recording else None
        self._file = file
        self._vectors: dict[str, NDArray[np.float32]] = {}
        if adding or not recording:
            with np.load(file) as stored:
                self._vectors = dict(zip(stored["hashes"].tolist(), stored["vectors"], strict=True))

    def usage(self) -> Usage:
        """Nothing is asked of a model."""
        return Usage()

    def close(self) -> None:
        """Stay open: one serves every engine that is opened."""

    def _look_up(self, text: str, *_: object) -> tuple[NDArray[np.float32], int]:
        key = hashlib.sha256(text.encode()).hexdigest()
        if self._model is not None and key not in self._vectors:
            self._vectors[key] = self._model.embed_query(text)
        if key not in self._vectors:
            raise ProviderError("not recorded", hint="run `python -m tests.screenshots`")
        return self._vectors[key], 0

    def save(self) -> None:
        """Write what was recorded, in an order that does not change."""
        hashes = sorted(self._vectors)
        vectors = np.stack([self._vectors[key] for key in hashes])
        np.savez_compressed(self._file, hashes=np.array(hashes), vectors=vectors)


def stand_in(model: Recorded | Paused) -> None:
    """Put a model in the place of the bundled one."""
    registration = registration_of("minilm")
    registered["minilm"] = replace(registration, create=lambda choice: cast("Provider", model))


@contextmanager
def recorded_model(
    *, recording: bool = False, file: Path = VECTORS, adding: bool = False
) -> Iterator[Recorded]:
    """Put the recorded vectors in the place of the bundled model."""
    model = Recorded(recording=recording, file=file, adding=adding)
    stand_in(model)
    try:
        yield model
    finally:
        registered.pop("minilm", None)


class Paused:
    """A model that stops after some texts until it is let go on."""

    def __init__(self, provider: Provider, texts: int) -> None:
        self._provider = provider
        self._left = texts
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Any:
        """Embed until the texts are used up, then wait."""
        self._left -= len(texts)
        if self._left < 0:
            self.waits.set()
        while self._left < 0 and not self.go_on.wait(0.05):
            if cancelled is not None and cancelled():
                raise Cancelled
        return self._provider.embed_documents(texts, cancelled=cancelled)


@contextmanager
def paused_model(model: Recorded, texts: int) -> Iterator[Paused]:
    """Let the recorded model pause after so many texts."""
    made = Paused(cast("Provider", model), texts)
    stand_in(made)
    try:
        yield made
    finally:
        made.go_on.set()
        stand_in(model)
