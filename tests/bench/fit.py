"""The constants of context and of strength, fitted to questions with known answers.

Prints the weights of features in quarters, and what they find in the folds that they were not
fitted to; or, of the strength of a match, its constants, and how much of what is strong or none.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.model import FEATURES, Context, Evidence, Ranking, SearchMode
from memtui.ranking.context import context_weights
from memtui.ranking.pipeline import for_mode, rank
from memtui.ranking.strength import absolute_numbers
from tests.bench import quality
from tests.bench.frame import Plan
from tests.bench.quality import Asked, Question, Unit
from tests.bench.search import NOW
from tests.support.known import DATA

Floats = NDArray[np.float64]

DIALOGUE, PROSE = "locomo", "xquad-en-articles"
UNREAD: Final = ("jsquad", "xquad-th")
"""Notes of a paragraph in languages that are ranked by words alone."""
FOLDS: Final = 5
FITTED: Final = 120
"""Passages of a question that weights are fitted to: the best so far, and its answers."""
STEP: Final = 0.05
"""Thresholds are multiples of it."""
OF_DIALOGUE = FEATURES[FEATURES.index("reply") :]
ENOUGH: Mapping[Evidence, tuple[str, ...]] = {
    Evidence.WORDS: ("chunk", "cover", "near_cover", "two_away"),
    Evidence.VECTORS: ("chunk", "cover", "near_cover", "two_away"),
    Evidence.WORD_PIECES: (*("chunk", "keyword", "near_cover", "word_pieces", "near_word_pieces"),),
}
"""The smallest choices within 0.3 of the best MRR."""
ABSOLUTE: Mapping[Evidence, tuple[str, ...]] = {
    Evidence.WORDS: ("near_cover",),
    Evidence.VECTORS: ("near_cover", "vector"),
    Evidence.WORD_PIECES: ("near_cover", "vector"),
}
"""The features that tell an answer from the best of what is none."""
ANSWERED, TAKEN_OUT = "answer found first", "answer taken out"


class Sample(Struct, frozen=True):
    """A question that was asked: its passages, and what each measures, a row of `FEATURES`."""

    fold: int
    values: Floats
    places: Sequence[quality.Evidence]
    is_answer: NDArray[np.bool_]
    asked: Mapping[Unit, frozenset[object]]

    def best_rows(self, weights: Floats) -> NDArray[np.intp]:
        """Return the rows by their weighted sums, greatest first."""
        return np.argsort(-(self.values @ weights), kind="stable")

    def scored(self, weights: Floats, unit: Unit) -> tuple[float, ...]:
        """Score the list of passages, or of files, in this order."""
        best = [self.places[row] for row in self.best_rows(weights)]
        names = (place.path if unit == "file" else place for place in best)
        return quality.score([*dict.fromkeys(names)], self.asked[unit])


def as_held(asked: Asked, evidence: Evidence, name: str) -> tuple[Asked, Ranking]:
    """Return what an index that holds no more answers to a question, and how it ranks that."""
    ranking = quality.RANKINGS[name]
    if evidence is Evidence.WORDS:
        ranking = for_mode(ranking, SearchMode.KEYWORD_ONLY)
    return replace(asked, pool=replace(asked.pool, evidence=evidence)), ranking


def sample_of(asked: Asked, evidence: Evidence, fold: int) -> Sample:
    """Take what passages measure out of the answer to a question."""
    asked, ranking = as_held(asked, evidence, "without context")
    each = [
        (quality.place_of(asked, hit.chunk, one.start, one.end), hit.stages[0].after, one.values)
        for hit in rank(asked.pool, quality.whole(ranking), now=NOW).hits
        for one in asked.pool.passages[hit.chunk.id]
    ]
    places = [place for place, *_ in each]
    values = np.array([[fused, *of_passage] for _, fused, of_passage in each])
    is_answer = np.array([place in asked.relevant["passage"] for place in places], bool)
    return Sample(fold, values.reshape(-1, len(FEATURES)), places, is_answer, asked.relevant)


def fit_weights(
    samples: Sequence[Sample], names: Sequence[str], fixed: Floats, present: Floats
) -> Floats:
    """Fit the weights of some features, in quarters; the others stay as they are in `fixed`.

    The least sum over questions of -log of the share of their answers in the softmax of weighted
    sums, and half the squares of the weights, by Newton's method. `present` weights choose rows.
    """
    values, answers, lengths = list[Floats](), list[NDArray[np.bool_]](), list[int]()
    for one in samples:
        if one.is_answer.any():
            rows = np.union1d(one.best_rows(present)[:FITTED], np.flatnonzero(one.is_answer))
            values.append(one.values[rows])
            answers.append(one.is_answer[rows])
            lengths.append(len(rows))
    every, right = np.concatenate(values), np.concatenate(answers)
    firsts, owners = np.cumsum([0, *lengths[:-1]]), np.repeat(np.arange(len(lengths)), lengths)
    columns = [FEATURES.index(name) for name in names]
    chosen = every[:, columns]

    def softmax(weights: Floats, among: NDArray[np.bool_]) -> tuple[Floats, float]:
        sums = np.where(among, every @ weights, -np.inf)
        most = np.maximum.reduceat(sums, firsts)
        parts = np.exp(sums - most[owners])
        totals = np.add.reduceat(parts, firsts)
        return parts / totals[owners], float(np.sum(most + np.log(totals)))

    def loss(weights: Floats) -> float:
        logs = [softmax(weights, among)[1] for among in (right | True, right)]
        return logs[0] - logs[1] + float(np.sum(weights[columns] ** 2)) / 2

    weights, step = fixed.copy(), np.zeros(len(FEATURES))
    step[columns] = 1.0
    while np.abs(step).max() > 1e-3:
        of_all, of_right = (softmax(weights, among)[0] for among in (right | True, right))
        means = np.add.reduceat(of_all[:, None] * chosen, firsts)
        curve = (of_all[:, None] * chosen).T @ chosen - means.T @ means + np.eye(len(columns))
        step[columns] = np.linalg.solve(curve, (of_right - of_all) @ chosen - weights[columns])
        while loss(weights + step) > loss(weights):
            step /= 2
        weights = weights + step
    return np.round(weights * 4) / 4


def fit_row(
    evidence: Evidence, samples: Mapping[str, Sequence[Sample]], special: Sequence[str]
) -> str:
    """Return what weights find in folds that they were not fitted to, and those fitted to all.

    Those of special features are fitted to dialogue alone while the general ones stay as they are
    for both: fitted to dialogue, these find less in prose.
    """
    present = np.array(context_weights(Ranking(context=Context()), evidence))
    dialogue, prose = samples[DIALOGUE], samples[PROSE]

    def fitted(left_out: int | None) -> Floats:
        every, spoken = (
            [one for name in names for one in samples[name] if one.fold != left_out]
            for names in (samples, [DIALOGUE])
        )
        weights = fit_weights(every, ENOUGH[evidence], np.zeros(len(FEATURES)), present)
        return fit_weights(spoken, special, weights, present) if special else weights

    def found(samples: Sequence[Sample], unit: Unit) -> str:
        scores = [one.scored(by_fold[one.fold], unit) for one in samples]
        return " ".join(f"{figure:5.1%}" for figure in np.mean(scores, axis=0)[:4])

    by_fold = [fitted(fold) for fold in range(FOLDS)]
    weights = zip(FEATURES, fitted(None), strict=True)
    named = ", ".join(f"{name} = {weight:g}" for name, weight in weights if weight)
    cells = found(dialogue, "passage"), found(dialogue, "file"), found(prose, "passage")
    return " | ".join((f"{evidence:11}", *cells, named))


def draw_nonsense(data: Path, name: str) -> list[Question]:
    """Make queries that nothing in a set answers: noise, another language, and random words."""
    drawn = random.Random(name)
    other = quality.SETS[PROSE if name == DIALOGUE else DIALOGUE].texts
    texts = " ".join(row["text"] for row in quality.read_rows(data, other))
    typed = ["".join(drawn.choices(ascii_lowercase, k=drawn.randint(3, 10))) for _ in range(400)]
    noise = (DATA / "nonsense_queries.txt").read_text("utf-8").splitlines()
    asked = [row["q"] for row in quality.read_rows(data, "xquad_vi_queries")]
    words = re.findall(r"\w+", texts)
    kinds = {
        "noise": [*noise, *(" ".join(drawn.sample(typed, drawn.randint(1, 4))) for _ in noise)],
        "another language": drawn.sample(asked, 100),
        "words at random": [" ".join(drawn.sample(words, drawn.randint(2, 6))) for _ in range(100)],
    }
    return [Question(text, kind, ()) for kind, texts in kinds.items() for text in texts]


def best_matches(asked: Asked, evidence: Evidence) -> Iterator[tuple[str, list[float]]]:
    """Yield what the first result measures: with the answer where it is that, and without it."""
    asked, ranking = as_held(asked, evidence, "default")
    answers = asked.relevant["chunk"]
    kept = {
        leg: [hit for hit in hits if hit.chunk_id not in answers]
        for leg, hits in asked.pool.hits.items()
    }
    left = {
        leg: tuple(replace(hit, position=at) for at, hit in enumerate(hits))
        for leg, hits in kept.items()
    }
    for kind, hits in (
        (ANSWERED, asked.pool.hits),
        (TAKEN_OUT if answers else asked.question.group, left),
    ):
        ranked = rank(replace(asked.pool, hits=hits), ranking, now=NOW)
        numbers = absolute_numbers(ranked, ranked.hits[0]) if ranked.hits else {}
        if kind != ANSWERED or answers & {hit.chunk.id for hit in ranked.hits[:1]}:
            yield kind, [numbers.get(name, 0.0) for name in ABSOLUTE[evidence]]


def fit_logistic(positive: Floats, negative: Floats) -> Floats:
    """Return the weights, in quarters, of the logistic regression that tells rows apart."""
    rows = np.vstack([positive, negative])
    rows = np.hstack([rows, np.ones((len(rows), 1))])
    is_positive = np.arange(len(rows)) < len(positive)
    weights = np.zeros(rows.shape[1])
    for _ in range(30):
        likely = 1 / (1 + np.exp(-rows @ weights))
        curve = (rows * (likely * (1 - likely))[:, None]).T @ rows + np.eye(len(weights))
        weights += np.linalg.solve(curve, rows.T @ (is_positive - likely) - weights)
    return np.round(weights[:-1] * 4) / 4


def thresholds(answered: Floats, unanswered: Floats) -> tuple[float, float]:
    """Return the greatest sum that at most 2 % of answers are below, and the least strong one.

    At most a tenth of what has no answer reaches that; both are multiples of `STEP`.
    """
    weak = np.sort(answered)[int(len(answered) * 0.02)]
    strong = np.sort(unanswered)[::-1][int(len(unanswered) * 0.1)]
    return float(np.floor(weak / STEP) * STEP), float((np.floor(strong / STEP) + 1) * STEP)


def strength_rows(evidence: Evidence, best: Mapping[tuple[str, str], Floats]) -> Iterator[str]:
    """Yield the constants of strength, and how much of each set and kind is strong, and none."""

    def of(*kinds: str) -> Floats:
        return np.vstack([rows for (_, kind), rows in best.items() if kind in kinds])

    others = {kind for _, kind in best} - {ANSWERED}
    weights = fit_logistic(of(ANSWERED), of(*others))
    weak, strong = thresholds(of(ANSWERED) @ weights, of(TAKEN_OUT) @ weights)
    constants = zip(ABSOLUTE[evidence], weights, strict=True)
    named = ", ".join(f"{name} = {weight:g}" for name, weight in constants)
    yield f"{evidence}: {named}; weak = {weak:.2f}, strong = {strong:.2f}"
    for (name, kind), rows in sorted(best.items()):
        sums = rows @ weights
        shares = f"{np.mean(sums >= strong):6.1%} strong {np.mean(sums < weak):6.1%} none"
        yield f"  {name:18} {kind:20} {len(sums):5} {shares}"


def main(arguments: Sequence[str]) -> int:
    """Ask the questions of the sets and print what is fitted to them for each evidence."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fit", description=__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", required=True, help="the questions")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the indexes there")
    parser.add_argument("--strength", action="store_true", help="fit the strength of a match")
    options = parser.parse_args(arguments)
    samples: dict[Evidence, dict[str, list[Sample]]] = defaultdict(lambda: defaultdict(list))
    best: dict[Evidence, dict[tuple[str, str], list[list[float]]]] = defaultdict(dict)
    every = list(Evidence)
    with tempfile.TemporaryDirectory(prefix="memtui-fit-") as temporary:
        plan = Plan((), (options.keep or Path(temporary)).resolve(), data=options.data)
        for name in (DIALOGUE, PROSE) if options.strength else (DIALOGUE, PROSE, *UNREAD):
            folds: dict[str, int] = {}
            nonsense = draw_nonsense(options.data, name) if options.strength else ()
            for asked in quality.ask(plan, name, nonsense):
                whose = asked.question.group if asked.memory == "all" else asked.memory
                fold = folds.setdefault(whose, len(folds)) % FOLDS
                most = Evidence.WORDS if name in UNREAD else asked.pool.evidence
                for evidence in every[every.index(most) :]:
                    if not options.strength:
                        samples[evidence][name].append(sample_of(asked, evidence, fold))
                        continue
                    for kind, row in best_matches(asked, evidence):
                        best[evidence].setdefault((name, kind), []).append(row)
    for evidence, sets in samples.items():
        for special in ((), OF_DIALOGUE):
            print(fit_row(evidence, sets, special), flush=True)
    for evidence, found in best.items():
        rows = {key: np.array(each) for key, each in found.items()}
        print(*strength_rows(evidence, rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
