"""The bundled model with its vectors recorded, and one that pauses, for pictures."""

from __future__ import annotations

import hashlib
import lzma
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec import msgpack
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.data import DATA_FOLDER
from memtui.embedding.packaged import MODELS
from memtui.embedding.provider import LocalProvider, Provider, WordPieces
from memtui.embedding.registry import registration_of
from memtui.errors import IsCancelled, ProviderError, never, stop_if
from memtui.model import Usage
from memtui.retrieval.passages import PIECE_UNIT, pack_pieces, unpack_pieces
from memtui.settings.schema import EmbeddingSettings
from memtui.text.tokens import dominant_script
from tests.support.embedding import known_providers

OF_THE_DEMO = DATA_FOLDER / "demo-vectors.npz"
"""The vectors that come with the program."""
VECTORS = Path(__file__).parent.parent / "data" / "vectors.npz"
"""The vectors of every other text and query of pictures and recorded command lines."""
PIECES = VECTORS.with_name("word_pieces.msgpack.xz")
"""Their word pieces, by text and starts: words, and the vectors as an index packs them."""
NOT_RECORDED = ProviderError("not recorded", hint="run `python -m tests.screenshots`")


class Recorded(LocalProvider):
    """The bundled model's own vectors, recorded: the same numbers on every processor.

    With `recording`, the model is asked for what is not recorded, and `save` keeps what it says.
    """

    def __init__(self, *, recording: bool) -> None:
        identity = MODELS["minilm"].identity(EmbeddingSettings())
        reads = partial(dominant_script, scripts=("LATIN ", "FULLWIDTH LATIN "))
        super().__init__(
            identity, self._look_up, batch_size=8, knows=reads, pieces=self._look_up_pieces
        )
        self._model = MODELS["minilm"].create(EmbeddingSettings()) if recording else None
        self._vectors = _read(OF_THE_DEMO) | _read(VECTORS)
        self._pieces: dict[str, list[tuple[list[str], bytes]]]
        self._pieces = msgpack.decode(lzma.decompress(PIECES.read_bytes()))

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
            raise NOT_RECORDED
        return self._vectors[key], 0

    def _look_up_pieces(self, text: str, starts: Sequence[int]) -> list[WordPieces]:
        key = hashlib.sha256(f"{text} {list(starts)}".encode()).hexdigest()
        if self._model is not None and key not in self._pieces:
            made = self._model.word_pieces(text, starts) or []
            self._pieces[key] = [(list(one.words), pack_pieces([one.vectors])) for one in made]
        if key not in self._pieces:
            raise NOT_RECORDED
        return [
            WordPieces(
                words, unpack_pieces(packed, 1)[0].astype(np.float32) / np.float32(PIECE_UNIT)
            )
            for words, packed in self._pieces[key]
        ]

    def save(self) -> None:
        """Write what was recorded, in an order that does not change."""
        hashes = sorted(self._vectors.keys() - _read(OF_THE_DEMO).keys())
        vectors = np.stack([self._vectors[key] for key in hashes])
        np.savez_compressed(VECTORS, hashes=np.array(hashes), vectors=vectors)
        PIECES.write_bytes(lzma.compress(msgpack.encode(self._pieces, order="sorted")))


def _read(path: Path) -> dict[str, NDArray[np.float32]]:
    with np.load(path) as file:
        return dict(zip(file["hashes"].tolist(), file["vectors"], strict=True))


@contextmanager
def stand_in(model: Recorded | Paused) -> Iterator[None]:
    """Put a model in the place of the bundled one."""
    registration = registration_of("minilm")
    with known_providers(replace(registration, create=lambda choice: cast("Provider", model))):
        yield


@contextmanager
def recorded_model(*, recording: bool = False) -> Iterator[Recorded]:
    """Put the recorded vectors in the place of the bundled model."""
    model = Recorded(recording=recording)
    with stand_in(model):
        yield model


class Paused:
    """A model that stops after some texts until it is let go on."""

    def __init__(self, provider: Provider, texts: int) -> None:
        self._provider = provider
        self._left = texts
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def embed_documents(self, texts: Sequence[str], *, cancelled: IsCancelled = never) -> Any:
        """Embed until the texts are used up, then wait."""
        self._left -= len(texts)
        if self._left < 0:
            self.waits.set()
        while self._left < 0 and not self.go_on.wait(0.05):
            stop_if(cancelled)
        return self._provider.embed_documents(texts, cancelled=cancelled)


@contextmanager
def paused_model(model: Recorded, texts: int) -> Iterator[Paused]:
    """Let the recorded model pause after so many texts."""
    made = Paused(cast("Provider", model), texts)
    try:
        with stand_in(made):
            yield made
    finally:
        made.go_on.set()
