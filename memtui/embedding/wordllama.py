"""The provider `wordllama`: one fixed vector a word piece, about a hundred times faster.

Only the files of the package are used, never its code: importing it sends the log of the whole
process to the terminal, and its `load` may fetch from the network and writes to the home folder.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
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
    ProviderIdentity,
    Vector,
    clean_vectors,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration
from memtui.errors import SettingsError
from memtui.settings.schema import EmbeddingSettings
from memtui.text.tokens import dominant_script_latin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

NAME = "wordllama"
MODEL = "l2_supercat_256"
DIMENSIONS: Final = (256, 128, 64)
"""How many numbers a vector may have: the model was trained to be cut to these."""
MAX_CHARACTERS = 16384
"""Of a longer text, the beginning is embedded."""

PACKAGE = "wordllama"
MODULE = "wordllama"
WEIGHTS_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
"""sha256 of the `l2_supercat_256.safetensors` of wordllama 0.4.0.post1."""
VOCABULARY_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
"""sha256 of its `l2_supercat_tokenizer_config.json`."""

_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_VOCABULARY = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_TENSOR = "embedding.weight"
_INSTALL = "install it with: pip install 'memtui[fast]'"
_REINSTALL = "reinstall it with: pip install --force-reinstall wordllama==0.4.0.post1"


class WordLlamaProvider(LocalProvider):
    """Embeds text as the mean of its word pieces' vectors: 256, 128 or 64 numbers, English.

    The same text gives the same vector to the last bit, whatever is embedded beside it. Usable
    from any thread; a query does not wait for documents.
    """

    name = NAME
    dimensions: int
    model = MODEL
    # A tenth of a second of work.
    batch_size = 128

    def __init__(self, table: NDArray[np.float32], tokenizer: Tokenizer) -> None:
        """`table` has a row for each word piece, shape (pieces, dimensions)."""
        super().__init__()
        self.dimensions = int(table.shape[1])
        self.fingerprint = _fingerprint(self.dimensions)
        self._table = table
        self._tokenizer = tokenizer

    def reads(self, text: str) -> bool:
        """Whether the letters of `text` are mostly Latin, the one script the model learnt."""
        return dominant_script_latin(text)

    def _embed(self, text: str, *_: object) -> Vector:
        """The mean of the vectors of a text's word pieces, all zero where it has none."""
        import numpy as np

        clean = encodable(text[:MAX_CHARACTERS])
        ids: list[int] = []
        if clean:
            with running(NAME):
                ids = self._tokenizer.encode(clean, add_special_tokens=False).ids
        self.meter.add(texts=1, tokens=len(ids))
        if not ids:
            return np.zeros(self.dimensions, dtype=np.float32)
        summed: NDArray[np.float32] = self._table.take(ids, axis=0, mode="clip").sum(axis=0)
        return clean_vectors(summed / np.float32(len(ids)))


def create(choice: EmbeddingSettings) -> WordLlamaProvider:
    """Load the table, checked, cut to `choice.dimensions`.

    Raises `ProviderError` when a file is missing or not the released one, and `SettingsError` for
    a model or a number of dimensions it does not have.
    """
    dimensions = identity(choice).dimensions
    folder = package_folder(MODULE, PACKAGE, _INSTALL)
    weights, vocabulary = folder / _WEIGHTS, folder / _VOCABULARY
    check_file(weights, WEIGHTS_SHA256, _REINSTALL)
    check_file(vocabulary, VOCABULARY_SHA256, _REINSTALL)
    with loading(NAME, "tokenizers", _INSTALL):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(vocabulary))
        _keep_no_texts(tokenizer)
        return WordLlamaProvider(_table(weights, dimensions), tokenizer)


def _keep_no_texts(tokenizer: Tokenizer) -> None:
    """Let the tokenizer forget the texts it has cut.

    It would keep the last 10,000 that are short, some 6 MB of queries: this vocabulary cuts no text
    into words first, so that a query is found again only when all of it is asked again. Versions
    before 0.21 cannot be told.
    """
    resize = getattr(tokenizer.model, "_resize_cache", None)
    if resize is not None:
        resize(0)


def look(choice: EmbeddingSettings) -> Availability:
    """Whether the model's package and `tokenizers` are installed, without importing them."""
    packages = [(MODULE, PACKAGE), ("tokenizers", "tokenizers")]
    return missing_package(packages, _INSTALL) or Availability(True, "installed")


def identity(choice: EmbeddingSettings) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` for what it does not have."""
    check_model(choice, NAME, MODEL)
    dimensions = DIMENSIONS[0] if choice.dimensions is None else choice.dimensions
    if dimensions not in DIMENSIONS:
        valid = ", ".join(str(number) for number in DIMENSIONS)
        raise SettingsError(
            f'the provider "{NAME}" cannot give {dimensions} dimensions', hint=f"valid: {valid}"
        )
    return ProviderIdentity(NAME, MODEL, dimensions, _fingerprint(dimensions), DEFAULT_LIMIT)


def _table(path: Path, dimensions: int | None) -> NDArray[np.float32]:
    """Read the one tensor of a safetensors file: length of the header, JSON header, numbers."""
    import numpy as np

    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    start = 8 + length
    described: dict[str, Any] = json.loads(data[8:start])[_TENSOR]
    first, end = described["data_offsets"]
    numbers = np.frombuffer(data[start + first : start + end], dtype="<f2")
    table = numbers.reshape(described["shape"])[:, :dimensions]
    return np.ascontiguousarray(table, dtype=np.float32)


def _fingerprint(dimensions: int | None) -> str:
    return settings_fingerprint(
        {
            "provider": NAME,
            "model": MODEL,
            "weights": WEIGHTS_SHA256,
            "vocabulary": VOCABULARY_SHA256,
            "dimensions": dimensions,
            "max_characters": MAX_CHARACTERS,
        }
    )


SUMMARY = "WordLlama, fixed word vectors, English, on this machine"
REGISTRATIONS = {NAME: Registration(NAME, False, create, look, identity, SUMMARY)}
