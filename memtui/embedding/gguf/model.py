"""A GGUF model in memory, run by llama.cpp on the processor; in a process of its own.

It speaks to llama.cpp's C interface through `llama_cpp`, not to that package's class `Llama`: that
one cuts off the last token of a long text, which some models put the meaning of the text in, and
makes room for the scores of a whole vocabulary, which embedding does not need.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memtui.embedding.gguf.worker import CHARACTERS_A_TOKEN
from memtui.errors import ProviderError
from memtui.model import Failure
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

INSTALL: Final = "install it with: pip install 'memtui[gguf]'"

_POOLING_NONE, _POOLING_MEAN, _POOLING_LAST = 0, 1, 3
_ERROR_LEVEL: Final = 4
_MOST_REASON: Final = 200

_said: list[str] = []
"""The errors that llama.cpp has logged since it was last told to do something."""
_callbacks: list[Any] = []
"""The function that llama.cpp logs to, which must outlive every model."""


class LlamaModel:
    """One model and the one place in which it works, until the process ends."""

    def __init__(self, path: Path, *, context_length: int, threads: int) -> None:
        """Load a model; raises `ProviderError`.

        `context_length` is the most tokens of a text, at most what the model was trained for.
        """
        self._library: Any = _library()
        self._path = path
        self._load()
        self._open_context(context_length, threads)
        self._prepare_batch()

    def embed(self, text: str) -> tuple[NDArray[Any], int]:
        """The vector of a text, not yet of length 1, and how many tokens the text was.

        Of a text of more tokens than fit, the first ones count, and the last one where the model
        ends every text with it. Raises `ProviderError`.
        """
        import numpy as np

        library = self._library
        count = self._fill(text)
        if not count:
            return np.zeros(self.dimensions, dtype=np.float32), 0
        if self._memory:
            library.llama_memory_clear(self._memory, True)
        _said.clear()
        self._batch.n_tokens = count
        run = library.llama_decode if self._memory else library.llama_encode
        if run(self._context, self._batch):
            raise self._failed("could not run")
        found = library.llama_get_embeddings_seq(self._context, 0)
        if not found:
            raise self._failed("gave no vector")
        return np.ctypeslib.as_array(found, (self.dimensions,)).copy(), count

    def _load(self) -> None:
        library = self._library
        _said.clear()
        wanted = library.llama_model_default_params()
        # The same vectors on every machine, and the processor is what everybody has.
        wanted.n_gpu_layers = 0
        self._model: Any = library.llama_model_load_from_file(os.fsencode(self._path), wanted)
        if not self._model:
            raise self._failed("cannot be loaded", Failure.BROKEN_FILE)
        self._vocabulary = library.llama_model_get_vocab(self._model)
        if not library.llama_vocab_n_tokens(self._vocabulary):
            raise self._failed("has no vocabulary", Failure.BROKEN_FILE)
        self.dimensions = int(library.llama_model_n_embd_out(self._model))

    def _open_context(self, context_length: int, threads: int) -> None:
        library = self._library
        length = max(1, min(context_length, int(library.llama_model_n_ctx_train(self._model))))
        wanted = library.llama_context_default_params()
        # A text is one batch: an encoder must see all of it at once.
        wanted.n_ctx = wanted.n_batch = wanted.n_ubatch = length
        wanted.n_seq_max = 1
        wanted.n_threads = wanted.n_threads_batch = threads
        wanted.embeddings = True
        wanted.no_perf = True
        wanted.flash_attn_type = library.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._context: Any = self._new_context(wanted)
        if library.llama_pooling_type(self._context) == _POOLING_NONE:
            library.llama_free(self._context)
            wanted.pooling_type = _POOLING_LAST if self._looks_back() else _POOLING_MEAN
            self._context = self._new_context(wanted)
        self._length = length
        self._memory = library.llama_get_memory(self._context)

    def _new_context(self, wanted: Any) -> Any:
        context = self._library.llama_init_from_model(self._model, wanted)
        if not context:
            raise self._failed("cannot be run")
        return context

    def _looks_back(self) -> bool:
        """Whether a token sees only those before it, so that the last one has seen them all."""
        kind = self._metadata("general.architecture")
        return self._metadata(f"{kind}.attention.causal") != "false"

    def _metadata(self, key: str) -> str:
        room = ctypes.create_string_buffer(64)
        self._library.llama_model_meta_val_str(self._model, key.encode(), room, len(room))
        return room.value.decode("utf-8", "replace")

    def _prepare_batch(self) -> None:
        """Fill in once what is the same for every text: places, one sequence, every output."""
        import numpy as np

        library = self._library
        self._batch: Any = library.llama_batch_init(self._length, 0, 1)
        shape = (self._length,)
        self._ids = np.ctypeslib.as_array(self._batch.token, shape)
        np.ctypeslib.as_array(self._batch.pos, shape)[:] = np.arange(self._length)
        np.ctypeslib.as_array(self._batch.n_seq_id, shape)[:] = 1
        np.ctypeslib.as_array(self._batch.logits, shape)[:] = 1
        for place in range(self._length):
            self._batch.seq_id[place][0] = 0
        self._most_characters = CHARACTERS_A_TOKEN * self._length
        # No text has more tokens than bytes, but for a few that a model puts around every text.
        self._room = (library.llama_token * (4 * self._most_characters + 16))()
        self._found = np.ctypeslib.as_array(self._room)
        self._has_end = bool(
            library.llama_vocab_get_add_eos(self._vocabulary)
            or library.llama_vocab_get_add_sep(self._vocabulary)
        )

    def _fill(self, text: str) -> int:
        """Put the tokens of a text into the batch; how many they are."""
        data = text[: self._most_characters].encode("utf-8", "replace")
        # Control tokens that are spelled out in a text are text: nobody commands the model.
        count = int(
            self._library.llama_tokenize(
                self._vocabulary, data, len(data), self._room, len(self._room), True, False
            )
        )
        if count < 0:
            raise self._failed("could not read the text")
        kept = min(count, self._length)
        self._ids[:kept] = self._found[:kept]
        if kept < count and self._has_end:
            self._ids[kept - 1] = self._found[count - 1]
        return kept

    def _failed(self, what: str, failure: Failure = Failure.MODEL_FAILED) -> ProviderError:
        # The first says what is wrong, those after it that something is.
        said = safe_line(" ".join(_said[0].split()))[:_MOST_REASON] if _said else ""
        reason = f": {said}" if said else ""
        message = f"the model {safe_line(str(self._path))} {what}{reason}"
        return ProviderError(message, hint=_HINTS[failure], failure=failure)


_HINTS: Final = {
    Failure.BROKEN_FILE: "download it again, or update llama-cpp-python",
    Failure.MODEL_FAILED: "is there enough free memory for it?",
}


def _library() -> Any:
    """Import llama.cpp and keep its log for messages."""
    try:
        import llama_cpp
    except Exception as error:  # a library that does not load raises what it likes
        reason = safe_line(" ".join(str(error).split()))[:_MOST_REASON]
        message = f"llama-cpp-python cannot be loaded: {reason}"
        raise ProviderError(message, hint=INSTALL, failure=Failure.NOT_INSTALLED) from error
    library: Any = llama_cpp
    if not _callbacks:
        callback = library.llama_log_callback(_keep)
        library.llama_log_set(callback, ctypes.c_void_p(0))
        _callbacks.append(callback)
        library.llama_backend_init()
    return library


def _keep(level: int, text: bytes | None, _: object) -> None:
    if level == _ERROR_LEVEL and text:
        _said.append(text.decode("utf-8", "replace"))
