"""The features of passages against a literal reading of their definitions, on made notes."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memtui.engine import Engine
from memtui.engine.ports import SearchRequest
from memtui.model import FEATURES, Context, Evidence, PassageFeatures, Ranking, Stage
from memtui.ranking.context import context_weights, ranked_passages
from memtui.ranking.trace import best_passage
from memtui.retrieval.maxsim import QueryWord, max_similarities
from memtui.retrieval.passages import PIECE_UNIT
from memtui.text.tokens import STOP_WORDS
from tests.counterfactuals import open_demo
from tests.support.small_memory import words_alone

WORDS = "fox lamp red dog moon cup boat hat".split()
NAMES = "Ann Bob".split()
ON = Ranking(context=Context(enabled=True))


def made_notes(seed: int) -> dict[str, list[str]]:
    dice = random.Random(seed)
    notes = {}
    for day in range(1, 7):
        lines = []
        for _ in range(dice.randint(1, 9)):
            said = " ".join(dice.choices(WORDS, k=dice.randint(1, 6)))
            end = dice.choice([".", ".", "?", " yesterday."])
            speaker = f"{dice.choice(NAMES)}: " if day % 2 else "- "
            lines.append(f"{speaker}{said}{end}")
        notes[f"memory/2026-01-0{day}.md"] = lines
    return notes


NOTES = made_notes(20)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with words_alone(
        tmp_path_factory.mktemp("memory"), {path: "\n".join(lines) for path, lines in NOTES.items()}
    ) as opened:
        yield opened


def words_of(line: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", line.lower())


def literal(query: str, path: str, at: int) -> dict[str, float]:
    """The features of one line, each as its definition says."""
    asked = [word for word in dict.fromkeys(words_of(query)) if word not in STOP_WORDS]
    every = [word for lines in NOTES.values() for line in lines for word in words_of(line)]
    n = len(every) / 20
    rarity = {}
    for word in asked:
        m = min(every.count(word), n)
        rarity[word] = math.log(1 + (n - m + 0.5) / (m + 0.5))
    total, lines = sum(rarity.values()), NOTES[path]

    def bm25(text: str, length: float) -> float:
        counts = {word: words_of(text).count(word) for word in asked}
        return sum(rarity[word] * c / (c + 1.2 * length) for word, c in counts.items()) / total

    def keyword(place: int) -> float:
        if not 0 <= place < len(lines):
            return 0.0
        return bm25(lines[place], 0.8 + 0.2 * len(words_of(lines[place])) / 20)

    def cover(places: range) -> float:
        held = {
            word for place in places if 0 <= place < len(lines) for word in words_of(lines[place])
        }
        return sum(rarity[word] for word in asked if word in held) / total

    line, is_said = lines[at], ":" in lines[at]
    return {
        "keyword": keyword(at),
        "cover": cover(range(at, at + 1)),
        "near_cover": cover(range(at - 1, at + 2)),
        "two_away": (keyword(at - 2) + keyword(at + 2)) / 2,
        "word_pieces": 0.0,
        "near_word_pieces": 0.0,
        "reply": keyword(at - 1) if is_said and at and lines[at - 1].endswith("?") else 0.0,
        "speaker": float(is_said and line.split(":")[0].lower() in words_of(query)),
        "time": float(is_said and query.startswith("when") and "yesterday" in line),
        "question": float(is_said and line.endswith("?")),
        "date": is_said * (float(path[7:17] in query) or 0.5 * ("2026" in query)),
    }


QUERIES = st.builds(
    lambda start, words, end: f"{start}{' '.join(words)}{end}",
    st.sampled_from(["", "when did Ann ", "Bob "]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
    st.sampled_from(["", " on 2026-01-03", " in January 2026"]),
)


@settings(deadline=None, max_examples=60)
@given(QUERIES)
def test_features_are_what_their_definitions_say(engine: Engine, query: str) -> None:
    pool = engine.search.pool_of(SearchRequest(query, ON))
    assert pool.passages.keys() == pool.chunks.keys()
    for chunk_id, passages in pool.passages.items():
        chunk = pool.chunks[chunk_id]
        for at, passage in enumerate(passages):
            assert all(0 <= value <= 1 for value in passage.values)
            own = dict(zip(FEATURES[1:], passage.values, strict=True))
            assert own == pytest.approx(literal(query, chunk.path, at)), (query, chunk.path, at)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=4),
    st.lists(st.floats(0, 9), min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_the_similarity_of_passages_is_what_its_definition_says(
    chunks: list[list[int]], rarities: list[float], seed: int
) -> None:
    """The numbers of chunks are those of the pieces that each of their passages has."""
    dice = np.random.default_rng(seed)

    def units(count: int) -> NDArray[np.float32]:
        rows = dice.normal(size=(count, 4))
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: NDArray[np.float32] = np.rint(rows / lengths * PIECE_UNIT).astype(np.float32)
        return unit / np.float32(PIECE_UNIT)

    query = units(len(rarities))
    made = [[np.rint(units(n) * PIECE_UNIT).astype(np.int8) for n in counts] for counts in chunks]

    def literal(passages: Iterable[NDArray[np.int8]]) -> float:
        pieces = [piece / PIECE_UNIT for each in passages for piece in each.astype(float)]
        nearest = [max([0.0, *(min(float(word @ one), 1.0) for one in pieces)]) for word in query]
        return sum(weight / total * near for weight, near in zip(rarities, nearest, strict=True))

    total = sum(rarities) or 1.0
    words = [
        QueryWord("", rarity / total, query[at : at + 1]) for at, rarity in enumerate(rarities)
    ]
    measured = max_similarities(words, dict(enumerate(made)))
    assert measured == {
        chunk: [
            pytest.approx((literal([here]), literal(passages[max(0, at - 2) : at + 3])))
            for at, here in enumerate(passages)
        ]
        for chunk, passages in enumerate(made)
    }


def test_word_pieces_weigh_the_same_whatever_was_asked_before(indexed_demo: Path) -> None:
    """No chunk holds the one word of the query that is looked up; the others are in many."""
    asked = SearchRequest("what is the kimchi for", ON)
    with open_demo(indexed_demo) as fresh, open_demo(indexed_demo) as used:
        used.search.ask("router config")
        first, later = fresh.search.pool_of(asked), used.search.pool_of(asked)
    assert first.evidence is Evidence.WORD_PIECES
    assert first.passages == later.passages


@settings(deadline=None, max_examples=60)
@given(
    QUERIES,
    st.lists(st.none() | st.floats(-20, 20), min_size=len(FEATURES), max_size=len(FEATURES)),
)
def test_a_chunk_scores_its_best_passage_and_the_shares_sum_to_it(
    engine: Engine, query: str, weights: list[float | None]
) -> None:
    ranking = Ranking(k=50, context=Context(True, *weights))
    ranked = engine.search.ask(query, ranking=ranking)
    used = context_weights(ranking, ranked.pool.evidence)
    assert [hit.rank for hit in ranked.hits] == list(range(1, len(ranked.hits) + 1))
    for hit in ranked.hits:
        stage = next(stage for stage in hit.stages if stage.stage is Stage.CONTEXT)
        score = 0.0
        for name in FEATURES:
            score += float(str(stage.numbers.get(name, 0.0)))
        assert stage.after == score
        by_score = ranked_passages(ranked, hit)
        assert by_score[0][0] == score == max(value for value, _ in by_score)
        place = best_passage(hit)
        best = by_score[0][1]
        assert place == (best.start, best.end)
        assert isinstance(best, PassageFeatures)
        values = hit.stages[0].after, *best.values
        exact = sum(weight * value for weight, value in zip(used, values, strict=True))
        assert score == pytest.approx(exact)
