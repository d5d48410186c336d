"""The quality of rankings on sets of questions whose answers are known, from a folder of data."""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, product
from math import log2
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct, field, toml
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.engine.engine import Engine
from memtui.engine.ports import SearchRequest
from memtui.index.transcripts.discovery import TranscriptHomes
from memtui.model import (
    FEATURES,
    CandidatePool,
    Chunk,
    Context,
    Hit,
    Ranked,
    Ranking,
    SearchMode,
    Stage,
)
from memtui.ranking.context import ranked_passages
from memtui.ranking.pipeline import for_mode, rank, runs
from memtui.ranking.profiles import PROFILES
from memtui.settings.schema import EmbeddingSettings, Settings
from tests.bench.frame import SECONDS, Measurement, Plan, Series, timed
from tests.bench.search import NOW
from tests.support.small_memory import write_notes

METRICS = ("R@1", "R@5", "R@10", "MRR@10", "nDCG@10")
DEPTH = 10
RESAMPLED = 1000
SETTINGS = Settings(embedding=EmbeddingSettings(provider="minilm", fallback="none"))

_MEMTUI = PROFILES["memtui"]
RANKINGS: Mapping[str, Ranking] = {
    "default": _MEMTUI,
    "without context": replace(_MEMTUI, context=Context(enabled=False)),
    **{
        f"without {name}": replace(_MEMTUI, context=replace(Context(), **{name: 0.0}))
        for name in FEATURES
    },
    "keyword match alone": for_mode(_MEMTUI, SearchMode.KEYWORD_ONLY),
    "meaning match alone": for_mode(_MEMTUI, SearchMode.VECTOR_ONLY),
    "memini": PROFILES["memini"],
    "openclaw-2026.4": PROFILES["openclaw-2026.4"],
}
"""The rankings that are compared, by name; each ranks the same pools."""


Unit = Literal["file", "chunk", "passage"]
"""A kind of result that is judged."""


class QuestionSet(Struct, frozen=True):
    """A set of questions; `quality.toml` tells what its fields say."""

    texts: str
    questions: str
    note: str
    judged: dict[str, Unit]
    answers: str = ""


SETS = toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, QuestionSet])


class Evidence(Struct, frozen=True):
    """A place that answers a question, in characters of a note, the end exclusive."""

    path: str
    start: int
    end: int


class Question(Struct, frozen=True):
    """A question, what it is resampled with, and the places of which each answers it."""

    text: str
    group: str
    evidence: tuple[Evidence, ...]


class Memory(Struct, frozen=True):
    """Notes by path, and the questions about them."""

    notes: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


def read_set(data: Path, one: QuestionSet) -> Mapping[str, Memory]:
    """Read the memories of a set: one for each conversation, else one in all.

    The evidence is a question's answer where the data tells its place, and then articles are
    resampled; else it is whole texts. Questions that nothing answers are left out.
    """
    memories: dict[str, Memory] = defaultdict(Memory)
    places: dict[str, Evidence] = {}
    answers = {row["id"]: row for row in read_rows(data, one.answers)} if one.answers else {}
    articles = {row["doc"]: row["article"] for row in answers.values()}
    for row in read_rows(data, one.texts):
        notes, text, between = memories[row.get("conv", "all")].notes, row["text"], "\n\n"
        if "speaker" in row:
            text, between = f"{row['speaker']}: {' '.join(text.split())}", "\n"
        name = row["id"].rpartition("/")[2].replace(":", "-")
        note = one.note.format(name=name, article=articles.get(row["id"]), **row)
        path = f"memory/{note}.md"
        before = notes[path] + between if path in notes else ""
        notes[path] = before + text
        places[row["id"]] = Evidence(path, len(before), len(notes[path]))
    for row in read_rows(data, one.questions):
        group, evidence = row["id"], [places[text] for text in row.get("ev", row.get("rel", ()))]
        if answer := answers.get(row["id"]):
            place = places[answer["doc"]]
            start, end = place.start + answer["start"], place.start + answer["end"]
            group, evidence = answer["article"], [Evidence(place.path, start, end)]
        if evidence:
            question = Question(row["q"], group, tuple(evidence))
            memories[row.get("conv", "all")].questions.append(question)
    return memories


def read_rows(data: Path, name: str) -> Iterator[dict[str, Any]]:
    """Read the lines of a file of the data."""
    with gzip.open(data / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


class Asked(Struct, frozen=True):
    """A question that was asked: its candidates, and what should be found of each kind."""

    memory: str
    """The conversation that the question is about."""
    notes: Mapping[str, str]
    question: Question
    pool: CandidatePool
    relevant: Mapping[Unit, frozenset[Hashable]]


def ask(plan: Plan, name: str, also: Sequence[Question] = ()) -> Iterator[Asked]:
    """Index the memories of a set where that was not done; ask each its questions and others."""
    assert plan.data is not None
    deepest = max(map(whole, RANKINGS.values()), key=lambda ranking: ranking.candidates)
    for title, memory in read_set(plan.data, SETS[name]).items():
        place = plan.place / "quality" / name / title
        root = place / "notes"
        write_notes(root, memory.notes)
        with Engine.open(
            root, SETTINGS, now=lambda: NOW, data_dir=place / "index", homes=TranscriptHomes()
        ) as engine:
            took, _ = timed(lambda engine=engine: engine.index.sync(wait=True), SECONDS)  # type: ignore[misc]
            print(f"{name}, {title}: indexed in {took:.1f} s", file=sys.stderr, flush=True)
            chunks = engine.index.read(
                lambda reading: {path: reading.chunks_of(path) for path in reading.paths()}
            )
            for question in (*memory.questions[: plan.limit], *also):
                pool = engine.search.pool_of(SearchRequest(question.text, deepest))
                relevant = _relevant(question, memory.notes, chunks or {})
                yield Asked(title, memory.notes, question, pool, relevant)


def whole(ranking: Ranking) -> Ranking:
    """Return a ranking that lists all candidates of one that lists `DEPTH` results."""
    candidates = replace(ranking, k=DEPTH).candidates
    return replace(ranking, k=2 * candidates, min_candidates=candidates, max_candidates=candidates)


def _relevant(
    question: Question, notes: Mapping[str, str], chunks: Mapping[str, Sequence[Chunk]]
) -> Mapping[Unit, frozenset[Hashable]]:
    lines = {(one.path, notes[one.path].count("\n", 0, one.start) + 1) for one in question.evidence}
    return {
        "file": frozenset(path for path, _ in lines),
        "chunk": frozenset(
            chunk.id
            for path, line in lines
            for chunk in chunks[path]
            if chunk.start_line <= line <= chunk.end_line
        ),
        "passage": frozenset(question.evidence),
    }


def passages(ranked: Ranked, hit: Hit) -> Iterator[tuple[float, int, int]]:
    """Yield score, start and end in its text of a result's passages, best first.

    Of a ranking without context they stand in their order, with the score of the result.
    """
    if runs(ranked.ranking, Stage.CONTEXT):
        scored = ranked_passages(ranked, hit)
    else:
        scored = [(hit.score, one) for one in ranked.pool.passages.get(hit.chunk.id, ())]
    for score, passage in scored:
        yield score, passage.start, passage.end


def results(ranked: Ranked, unit: Unit, asked: Asked) -> list[Hashable]:
    """Return what a list shows of one kind, best first, each once."""
    if unit == "file":
        return list(dict.fromkeys(hit.chunk.path for hit in ranked.hits))
    if unit == "chunk":
        return [hit.chunk.id for hit in ranked.hits]
    shown = [(hit.chunk, *passage) for hit in ranked.hits for passage in passages(ranked, hit)]
    shown.sort(key=itemgetter(1), reverse=True)
    places = (place_of(asked, chunk, start, end) for chunk, _, start, end in shown)
    return list(dict.fromkeys(places))


def place_of(asked: Asked, chunk: Chunk, start: int, end: int) -> Evidence:
    """Return the evidence that a passage of a chunk touches, or its own place in the note."""
    note = asked.notes[chunk.path]
    # From the end: of a long line that was cut, a chunk may hold two pieces as two lines.
    line = max(1, chunk.end_line - chunk.text.count("\n", end))
    at = note.find(chunk.text[start:end], _line_starts(note)[line - 1])
    own = Evidence(chunk.path, at, at + end - start)
    for one in asked.question.evidence:
        if one.path == own.path and one.start < own.end and own.start < one.end:
            return one
    return own


@cache
def _line_starts(text: str) -> Sequence[int]:
    return list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))


def score(results: Sequence[Hashable], relevant: frozenset[Hashable]) -> tuple[float, ...]:
    """Score a list by each of `METRICS`, 0 to 1; of several answers any one counts for R and MRR."""
    ranks = [at for at, one in enumerate(results[:DEPTH], start=1) if one in relevant]
    ideal = range(1, min(len(relevant), DEPTH) + 1)
    gain, most = (sum(1 / log2(at + 1) for at in places) for places in (ranks, ideal))
    first = min(ranks, default=DEPTH + 1)
    recalls = [float(first <= depth) for depth in (1, 5, DEPTH)]
    return *recalls, 1 / first if ranks else 0.0, gain / most


def interval(scores: NDArray[np.float64], groups: Sequence[str]) -> NDArray[np.float64]:
    """Return the mean of each column, and its 95 % interval when the groups are resampled: (3, m)."""
    names, places = np.unique(groups, return_inverse=True)
    sums = np.zeros((len(names), scores.shape[1]))
    np.add.at(sums, places, scores)
    count = len(names)
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), RESAMPLED)
    means = drawn @ sums / (drawn @ np.bincount(places))[:, None]
    return np.vstack([scores.mean(axis=0), np.quantile(means, (0.025, 0.975), axis=0)])


def measure_quality(plan: Plan) -> Iterator[Measurement]:
    """Print a row for each set, kind of result and ranking; measure the time of a question."""
    if plan.data is None or not plan.data.is_dir():
        yield Measurement("quality", Series(), note="not measured: --data names no folder")
        return
    print("in %, with 95 % intervals".ljust(58), *(f"{metric:18}" for metric in METRICS))
    for name in plan.sets or SETS:
        judged = SETS[name].judged
        took, groups = Series(), list[str]()
        scores: dict[tuple[str, str], list[tuple[float, ...]]] = defaultdict(list)
        for asked in ask(plan, name):
            took.wall.append(asked.pool.elapsed_ms)
            groups.append(asked.question.group)
            for title, ranking in RANKINGS.items():
                ranked = rank(asked.pool, whole(ranking), now=NOW)
                for kind, unit in judged.items():
                    of_one = score(results(ranked, unit, asked), asked.relevant[unit])
                    scores[kind, title].append(of_one)
        for kind, title in product(judged, RANKINGS):
            figures = interval(np.array(scores[kind, title]), groups).T * 100
            cells = [f"{mean:5.1f} [{low:.1f} {high:.1f}]" for mean, low, high in figures]
            row = f"{name:18} {kind:10} {title:20} {len(groups):6}"
            print(row.ljust(58), *(f"{cell:18}" for cell in cells), flush=True)
        yield Measurement(f"question of {name}", took)
