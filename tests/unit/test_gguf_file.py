"""The header of a model file, read strictly, and the places where model files are found."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.gguf.header import GgufHeader, read_header, sample_digest
from memtui.embedding.gguf.places import ModelPlace, file_names, find_model
from memtui.errors import ProviderError
from memtui.model import Failure
from tests.support.gguf_writer import CONTEXT, DIMENSIONS, Value, tiny_bert, tiny_llama, write_gguf

MINIMAL: Mapping[str, Value] = {
    "general.architecture": "bert",
    "bert.context_length": 512,
    "bert.embedding_length": 384,
}
DEFAULT = "hf_ggml-org_embeddinggemma-300m-qat-Q8_0.gguf"
FIRST = "hf_ggml-org_embeddinggemma-300M-Q8_0.gguf"


def refused(path: Path) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read_header(path)
    assert "\n" not in str(caught.value)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_a_header_tells_what_an_embedding_model_is(tmp_path: Path) -> None:
    assert read_header(tiny_bert(tmp_path / "one.gguf")) == GgufHeader(
        "bert", "Tiny Bert", DIMENSIONS, CONTEXT, pooling=1, file_type=0
    )
    assert read_header(tiny_llama(tmp_path / "two.gguf", name="\x1b[2J\nname")) == GgufHeader(
        "llama", "\u241b[2J name", DIMENSIONS, CONTEXT, pooling=None, file_type=0
    )


def test_what_comes_behind_the_vocabulary_is_found_when_it_is_needed(tmp_path: Path) -> None:
    tokens: dict[str, Value] = {
        "tokenizer.ggml.tokens": [f"word{number}" for number in range(5000)],
        "tokenizer.ggml.scores": [0.5] * 5000,
    }
    late = tokens | {"tokenizer.chat_template": "x" * 100_000} | dict(MINIMAL)
    header = read_header(write_gguf(tmp_path / "late.gguf", late, {}))
    assert (header.architecture, header.dimensions, header.context_length) == ("bert", 384, 512)


def test_a_model_may_give_other_dimensions_than_it_works_with(tmp_path: Path) -> None:
    more = dict(MINIMAL) | {"bert.embedding_length_out": 128}
    assert read_header(write_gguf(tmp_path / "out.gguf", more, {})).dimensions == 128


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"general.architecture": ""}, "architecture"),
        ({"bert.embedding_length": 0}, "how long"),
        ({"bert.embedding_length": 1 << 20}, "how long"),
        ({"bert.context_length": 0}, "how long"),
        ({"bert.context_length": 1 << 30}, "how long"),
        ({"bert.embedding_length": [384, 384]}, "how long"),
        ({"general.architecture": "llama"}, "how long"),
    ],
)
def test_a_header_that_does_not_say_enough(
    changed: dict[str, Value], said: str, tmp_path: Path
) -> None:
    error = refused(write_gguf(tmp_path / "model.gguf", dict(MINIMAL) | changed, {}))
    assert error.failure == Failure.BROKEN_FILE
    assert said in error.message


def pair(key: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


HOSTILE = {
    "empty": b"",
    "short": b"GG",
    "web page": b"<!DOCTYPE html>" * 100,
    "version 1": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "big-endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "no pairs": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
    "many pairs": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63),
    "many tensors": b"GGUF" + struct.pack("<IQQ", 3, 2**63, 1),
    "long key": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + b"x" * 1000,
    "long text": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + pair(b"k", 8, struct.pack("<Q", 2**64 - 1)),
    "unknown kind": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair(b"k", 77, b""),
    "long list": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + pair(b"k", 9, struct.pack("<IQ", 4, 2**61)),
    "list of texts": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + pair(b"k", 9, struct.pack("<IQ", 8, 2**20)),
    "list in a list": b"GGUF"
    + struct.pack("<IQQ", 3, 0, 1)
    + pair(b"k", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 9, 1)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused_in_one_line_and_little_memory(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        error = refused(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert error.failure == Failure.BROKEN_FILE
    assert most < 1_000_000


def test_lists_of_more_texts_than_a_vocabulary_are_not_walked(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + pair(b"k", 9, struct.pack("<IQ", 8, 2**21 + 1))
    )
    with path.open("r+b") as file:
        file.truncate(20 << 20)
    assert "its lists are too long" in refused(path).message


def told_or_refused(path: Path, data: bytes) -> bool:
    """Read what `data` says; anything but a header or a `ProviderError` fails the test."""
    path.write_bytes(data)
    refusal: ProviderError | None = None
    try:
        header = read_header(path)
    except ProviderError as error:
        refusal = error
    if refusal is None:
        assert header.dimensions >= 1
        assert header.context_length >= 1
        return True
    assert refusal.failure == Failure.BROKEN_FILE
    assert "\n" not in str(refusal)
    return False


def test_a_header_that_is_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = tiny_bert(tmp_path / "whole.gguf").read_bytes()
    needed = whole.index(b"tokenizer.ggml.model") + len("tokenizer.ggml.model")
    read = [told_or_refused(tmp_path / "cut.gguf", whole[:end]) for end in range(needed)]
    assert not any(read)
    assert told_or_refused(tmp_path / "cut.gguf", whole[:needed])


def test_a_header_with_other_bytes_never_does_anything_else(tmp_path: Path) -> None:
    whole = tiny_bert(tmp_path / "whole.gguf").read_bytes()[:2048]
    chance = random.Random(5)
    read = []
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(4, 700)
            data[place] = chance.choice((0, 1, 8, 9, 0x7F, 0xFF, chance.randrange(256)))
        read.append(told_or_refused(tmp_path / "changed.gguf", bytes(data)))
    assert 30 < sum(read) < 470


def test_what_is_no_readable_file_is_told(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path, said in (
        (tmp_path / "missing.gguf", "No such file"),
        (tmp_path, "not a regular file"),
        (pipe, "not a regular file"),
    ):
        error = refused(path)
        assert error.failure == Failure.NO_FILE
        assert said in error.message
        with pytest.raises(ProviderError):
            sample_digest(path)
    with pytest.raises(ProviderError, match="path cannot be used"):
        read_header(Path("nul\0.gguf"))


def test_a_large_file_is_told_from_samples(tmp_path: Path) -> None:
    path = tiny_bert(tmp_path / "large.gguf")
    with path.open("r+b") as file:
        file.truncate(600 << 20)
        first = sample_digest(path)
        assert sample_digest(path) == first
        assert read_header(path).dimensions == DIMENSIONS
        seen = [first]
        for place in (0, (600 << 20) // 64 * 7, (600 << 20) - 1):
            file.seek(place)
            file.write(b"?")
            file.flush()
            seen.append(sample_digest(path))
        file.truncate((600 << 20) + 1)
        seen.append(sample_digest(path))
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("address", "names"),
    [
        (
            "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf",
            (DEFAULT,),
        ),
        ("hf://ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf", (FIRST,)),
        ("hf.co/CompendiumLabs/bge-small/q8.gguf#main", ("hf_CompendiumLabs_bge-small_q8.gguf",)),
        (
            "huggingface:Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0",
            ("hf_Qwen_Qwen3-Embedding-0.6B.Q8_0.gguf", "hf_Qwen_Qwen3-Embedding-0.6B.gguf"),
        ),
        ("hf:user", ()),
        ("hf:", ()),
        ("/models/one.gguf", ()),
        ("https://example.org/one.gguf", ()),
    ],
)
def test_names_of_fetched_files(address: str, names: tuple[str, ...]) -> None:
    assert file_names(address) == names


def found(home: Path, model_path: str = "") -> ModelPlace:
    return find_model(EmbeddingChoice(provider="gguf", model_path=model_path), {}, home)


def test_the_default_model_is_found_where_openclaw_keeps_it(tmp_path: Path) -> None:
    assert found(tmp_path).path is None
    folder = tmp_path / ".node-llama-cpp" / "models"
    folder.mkdir(parents=True)
    (folder / FIRST).touch()
    assert found(tmp_path).path == folder / FIRST
    (folder / DEFAULT).touch()
    assert found(tmp_path).path == folder / DEFAULT
    assert "OpenClaw" in found(tmp_path).origin


def test_the_model_that_openclaw_is_configured_for_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "hf_someone_own-model.gguf").touch()
    (folder / DEFAULT).touch()
    local = {"modelPath": "hf:someone/own-model-GGUF/own-model.gguf", "modelCacheDir": "~/models"}
    configuration = {"agents": {"defaults": {"memorySearch": {"local": local}}}}
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(configuration))
    place = found(tmp_path)
    assert place == ModelPlace(folder / "hf_someone_own-model.gguf", "OpenClaw's configuration")
    assert found(tmp_path, DEFAULT).path == folder / DEFAULT
    (folder / "hf_someone_own-model.gguf").unlink()
    assert found(tmp_path).path is None


def test_a_configured_file_is_the_only_one(tmp_path: Path) -> None:
    assert found(tmp_path, "~/one.gguf") == ModelPlace(
        tmp_path / "one.gguf", "embedding.model_path"
    )
    assert found(tmp_path, "/models/one.gguf").path == Path("/models/one.gguf")
    assert found(tmp_path, "hf:someone/model-GGUF/model.gguf").path is None
