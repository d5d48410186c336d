"""Tiny embedding models in llama.cpp's file format, with seeded random weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Value = str | int | float | bool | Sequence[str] | Sequence[int] | Sequence[float]
Tensors = Mapping[str, NDArray[np.float32]]

DIMENSIONS = 32
CONTEXT = 64
HEADS = 2
_INNER = 64
_ALIGNMENT = 32
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_WORDS = """
    the of to and is in on we with keep note notes backup backups disk monday tuesday coffee
    router network home office budget meeting project server nightly copies copied saved drive
    write read open garden bread bake oven train ticket paris
"""


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Tensors) -> Path:
    """Write a GGUF file of version 3 with float32 tensors."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        parts += [_text(key), _value(value)]
    offset = 0
    for name, tensor in tensors.items():
        # ggml counts dimensions from the fastest one on.
        shape = tensor.shape[::-1]
        parts.append(_text(name) + struct.pack("<I", len(shape)))
        parts.append(struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", 0, offset))
        offset += -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
    head = b"".join(parts)
    data = [_padded(head)] + [_padded(tensor.tobytes()) for tensor in tensors.values()]
    path.write_bytes(b"".join(data))
    return path


def tiny_bert(
    path: Path,
    *,
    seed: int = 1,
    name: str = "Tiny Bert",
    changed: Mapping[str, Value] = MappingProxyType({}),
) -> Path:
    """An encoder of one layer with a WordPiece vocabulary that pools by the mean.

    `changed` are values of the architecture's metadata (`pooling_type`, `context_length`).
    """
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = [f"▁{word}" for word in _WORDS.split()] + [f"▁{letter}" for letter in _LETTERS]
    tokens = special + pieces + list(_LETTERS)
    kinds = [_CONTROL, _UNKNOWN, _CONTROL, _CONTROL] + [_NORMAL] * (len(tokens) - len(special))
    own: dict[str, Value] = {
        **_shape("bert"),
        "bert.attention.layer_norm_epsilon": 1e-12,
        "bert.attention.causal": False,
        "bert.pooling_type": 1,
        **{f"bert.{key}": value for key, value in changed.items()},
    }
    vocabulary: dict[str, Value] = {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.token_type_count": 2,
    }
    context = own["bert.context_length"]
    assert isinstance(context, int)
    metadata = _general("bert", name) | own | vocabulary
    return write_gguf(path, metadata, _bert_tensors(seed, len(tokens), context))


def tiny_llama(
    path: Path,
    *,
    seed: int = 1,
    name: str = "Tiny Llama",
    changed: Mapping[str, Value] = MappingProxyType({}),
) -> Path:
    """A decoder of one layer with a SentencePiece vocabulary, which does not say how it pools."""
    special = ["<unk>", "<s>", "</s>"]
    octets = [f"<0x{octet:02X}>" for octet in range(256)]
    pieces = ["▁", *_LETTERS, *(f"▁{letter}" for letter in _LETTERS)]
    tokens = special + octets + pieces
    kinds = [_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * 256 + [_NORMAL] * len(pieces)
    own: dict[str, Value] = {
        **_shape("llama"),
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": DIMENSIONS // HEADS,
        **{f"llama.{key}": value for key, value in changed.items()},
    }
    vocabulary: dict[str, Value] = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(place) for place in range(len(tokens))],
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_eos_token": True,
    }
    metadata = _general("llama", name) | own | vocabulary
    return write_gguf(path, metadata, _llama_tensors(seed, len(tokens)))


def _general(architecture: str, name: str) -> dict[str, Value]:
    return {
        "general.architecture": architecture,
        "general.name": name,
        "general.file_type": 0,
    }


def _shape(architecture: str) -> dict[str, Value]:
    return {
        f"{architecture}.context_length": CONTEXT,
        f"{architecture}.embedding_length": DIMENSIONS,
        f"{architecture}.block_count": 1,
        f"{architecture}.feed_forward_length": _INNER,
        f"{architecture}.attention.head_count": HEADS,
    }


def _bert_tensors(seed: int, vocabulary: int, context: int) -> dict[str, NDArray[np.float32]]:
    made = _Weights(seed)
    tensors = {
        "token_embd.weight": made.matrix(vocabulary, DIMENSIONS),
        "token_types.weight": made.matrix(2, DIMENSIONS),
        "position_embd.weight": made.matrix(context, DIMENSIONS),
        **made.norm("token_embd_norm", bias=True),
    }
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors |= made.layer(f"blk.0.{part}", DIMENSIONS, DIMENSIONS)
    tensors |= made.norm("blk.0.attn_output_norm", bias=True)
    tensors |= made.layer("blk.0.ffn_up", _INNER, DIMENSIONS)
    tensors |= made.layer("blk.0.ffn_down", DIMENSIONS, _INNER)
    return tensors | made.norm("blk.0.layer_output_norm", bias=True)


def _llama_tensors(seed: int, vocabulary: int) -> dict[str, NDArray[np.float32]]:
    made = _Weights(seed)
    tensors = {"token_embd.weight": made.matrix(vocabulary, DIMENSIONS), **made.norm("output_norm")}
    tensors |= made.norm("blk.0.attn_norm") | made.norm("blk.0.ffn_norm")
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors[f"blk.0.{part}.weight"] = made.matrix(DIMENSIONS, DIMENSIONS)
    for part in ("ffn_gate", "ffn_up"):
        tensors[f"blk.0.{part}.weight"] = made.matrix(_INNER, DIMENSIONS)
    tensors["blk.0.ffn_down.weight"] = made.matrix(DIMENSIONS, _INNER)
    return tensors


class _Weights:
    """Random numbers of one seed, as tensors by name."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def matrix(self, rows: int, columns: int) -> NDArray[np.float32]:
        return self._random.standard_normal((rows, columns)).astype(np.float32) / np.float32(4)

    def layer(self, name: str, rows: int, columns: int) -> dict[str, NDArray[np.float32]]:
        bias = np.zeros(rows, dtype=np.float32)
        return {f"{name}.weight": self.matrix(rows, columns), f"{name}.bias": bias}

    def norm(self, name: str, *, bias: bool = False) -> dict[str, NDArray[np.float32]]:
        made = {f"{name}.weight": np.ones(DIMENSIONS, dtype=np.float32)}
        if bias:
            made[f"{name}.bias"] = np.zeros(DIMENSIONS, dtype=np.float32)
        return made


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", _BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", _UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", _FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    return struct.pack("<I", _ARRAY) + _items(value)


def _items(values: Sequence[str] | Sequence[int] | Sequence[float]) -> bytes:
    head = struct.pack("<Q", len(values))
    if isinstance(values[0], str):
        return struct.pack("<I", _STRING) + head + b"".join(_text(str(one)) for one in values)
    kind, form = (_INT32, "i") if isinstance(values[0], int) else (_FLOAT32, "f")
    return struct.pack("<I", kind) + head + struct.pack(f"<{len(values)}{form}", *values)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)
