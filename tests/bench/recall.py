"""Whether one-bit codes and rescoring find what an exact scan finds, on vectors of real text.

The embedded model makes the vectors: of the sentences of the data sets that `MEMTUI_BENCH_DATA`
names (see `texts`), else of the paragraphs in this repository. A larger index is filled up with
neighbours of these vectors, each turned away from its own by noise, which makes tight clusters: the
hard case for codes. Such rows are told apart in the note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.provider import Provider, Vectors
from memtui.embedding.registry import create_provider
from memtui.retrieval.vector_view import VectorView, ViewBuilder, nearest
from tests.bench.limits import Judged, Limit
from tests.bench.measure import MILLISECONDS, Measurement, Plan, Series
from tests.bench.texts import data_folder, data_sets, own_paragraphs

TOP = 24
QUERIES = 200
_AIM = 0.99
_MOST_TEXTS = 20_000
_TURNED = (0.3, 0.9)
"""Length of the noise that is added to a vector of length 1: a cosine of 0.96 to 0.74 to it."""
_BLOCK = 10_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_SHORTEST = 30


def measure_recall(plan: Plan) -> Iterator[Measurement]:
    """Recall of the 24 nearest rows of coded views, with as many rows rescored as in use."""
    provider, state = create_provider(EmbeddingChoice("minilm"))
    if provider is None:
        yield Measurement(f"recall@{TOP}", Series(), note=state.detail)
        return
    try:
        real, asked, source = _real_vectors(provider, plan.place)
    finally:
        provider.close()
    for size in sorted({len(real), *plan.sizes}):
        coded = _view(real, size)
        shares, took = Series(), Series()
        for query in asked:
            began = perf_counter()
            found = nearest(coded, query, TOP)
            took.wall.append((perf_counter() - began) * MILLISECONDS)
            shares.wall.append(_share(coded, query, found))
        mean = Series([sum(shares.wall) / len(shares.wall)])
        of_text = min(size, len(real))
        yield Measurement(
            f"recall@{TOP} of codes, {size:,}", mean, "", aim=f">= {_AIM}",
            note=f"{of_text:,} vectors of {source}, {size - of_text:,} turned away from them; "
            f"worst of {len(asked)} questions {min(shares.wall):.3f}",
            limit=Limit(_AIM, Judged.P50, at_least=True), size=size,
        )  # fmt: skip
        yield Measurement(f"  search of codes, {size:,}", took, size=size)


def _real_vectors(provider: Provider, place: Path) -> tuple[Vectors, Vectors, str]:
    folder = data_folder()
    if folder is None:
        texts, source = own_paragraphs(), "paragraphs of this repository"
        questions = [_SENTENCE.split(text)[0] for text in texts[:: max(1, len(texts) // QUERIES)]]
    else:
        sets = list(data_sets(folder))
        documents = [text for data in sets for text in data.documents.values()]
        pieces = [piece for text in documents for piece in _SENTENCE.split(text)]
        texts = [piece for piece in dict.fromkeys(pieces) if len(piece) >= _SHORTEST]
        source = "sentences of the data sets"
        questions = [question.text for data in sets for question in data.questions]
    chance = np.random.default_rng(3)
    some = [texts[at] for at in chance.permutation(len(texts))[:_MOST_TEXTS]]
    questions = [questions[at] for at in chance.permutation(len(questions))[:QUERIES]]
    return (
        _embedded(provider, some, place / f"recall-texts-{folder is None}.npy"),
        _embedded(provider, questions, place / f"recall-questions-{folder is None}.npy"),
        source,
    )


def _embedded(provider: Provider, texts: Sequence[str], kept: Path) -> Vectors:
    """Embed texts that the model reads, or take their vectors from where they were kept."""
    if kept.exists():
        known: Vectors = np.load(kept)
        return known
    readable = [text for text in texts if provider.reads(text)]
    size = provider.batch_size
    parts = [
        provider.embed_documents(readable[first : first + size])
        for first in range(0, len(readable), size)
    ]
    vectors: Vectors = np.concatenate(parts).astype(np.float32)
    vectors = vectors[np.linalg.norm(vectors, axis=1) > 0.5]
    np.save(kept, vectors)
    return vectors


def _view(real: Vectors, size: int) -> VectorView:
    """A coded view of `size` rows, the real vectors first."""
    builder = ViewBuilder(size, real.shape[1], exact_limit=0)
    chance = np.random.default_rng(4)
    first = real[:size]
    builder.append(np.arange(1, len(first) + 1), first)
    done = len(first)
    while done < size:
        count = min(_BLOCK, size - done)
        rows = real[chance.integers(0, len(real), count)]
        lengths = chance.uniform(*_TURNED, (count, 1)) / np.sqrt(real.shape[1])
        noise = chance.standard_normal(rows.shape) * lengths
        turned = rows + noise.astype(np.float32)
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)
        builder.append(np.arange(done + 1, done + count + 1), turned)
        done += count
    return builder.finish()


def _share(view: VectorView, query: NDArray[np.float32], found: list[tuple[int, float]]) -> float:
    """The share of the truly nearest rows that was found; rows as near as the last count too."""
    products = view.matrix @ query
    last = np.partition(products, len(products) - TOP)[-TOP] if len(products) > TOP else -1.0
    good = sum(products[row - 1] >= last - 1e-6 for row, _ in found)
    return float(good) / min(TOP, view.count)
