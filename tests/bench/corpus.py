"""A seeded corpus: note prose with a natural word distribution, questions, and clustered vectors.

Function words make up almost half of the text, the others follow Zipf's law, some everywhere and
some only in notes of one topic. A topic has one of five languages: of 25 topics 15 are English, 4
German and 2 each Chinese, Japanese and Korean. Every chunk has a rare number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.bench.languages import LANGUAGES, SHARES, Language

Floats = NDArray[np.float32]
Words = NDArray[np.object_]

VERSION = 2
"""Changes when the same seed gives other text, so that kept corpora are made again."""

CHUNKS_A_FILE = 5
DIMENSIONS = 384
_TOPICS = 200
_TOPIC_WORDS = 300
_GENERAL_WORDS = 6000
_FUNCTION = 96
_WORDS_A_LINE = 14
_BLOCK = 2000
_FIRST_DAY = date(2025, 1, 1)
_DAYS = 690


@dataclass(frozen=True, slots=True)
class Question:
    """A natural question of 4 to 14 words and the vector that stands for it."""

    text: str
    vector: Floats


@dataclass(frozen=True, slots=True)
class Note:
    """A file: its path, its day and its text, cut into pieces of whole lines."""

    path: str
    day: date
    pieces: tuple[str, ...]


class Corpus:
    """Notes, vectors and questions of one seed; the same seed always gives the same."""

    def __init__(self, seed: int = 2) -> None:
        self._seed = seed
        rng = np.random.default_rng(seed)
        self._languages = np.array([SHARES[topic % len(SHARES)] for topic in range(_TOPICS)])
        # Where the words of a language begin, and those of a topic.
        self._first = np.zeros(len(LANGUAGES), dtype=np.int64)
        self._topic_words = np.zeros(_TOPICS, dtype=np.int64)
        words: list[str] = []
        for place, language in enumerate(LANGUAGES):
            topics = np.flatnonzero(self._languages == place)
            self._first[place] = len(words)
            general = len(words) + _FUNCTION + _GENERAL_WORDS
            self._topic_words[topics] = general + np.arange(len(topics)) * _TOPIC_WORDS
            # As many places for every language: few function words come round again.
            words += [language.function[at % len(language.function)] for at in range(_FUNCTION)]
            words += language.invent(rng, _GENERAL_WORDS + len(topics) * _TOPIC_WORDS)
        self._words: Words = np.array(words, dtype=object)
        self._function = _zipf(_FUNCTION, 0.9)
        self._general = _zipf(_GENERAL_WORDS, 1.0)
        self._topic = _zipf(_TOPIC_WORDS, 0.8)
        self._centres = _unit(rng.standard_normal((_TOPICS, DIMENSIONS)))
        self._planes = rng.standard_normal((64, DIMENSIONS)) / np.sqrt(DIMENSIONS)

    def notes(self, chunks: int) -> Iterator[tuple[list[Note], Floats]]:
        """Make notes of `chunks` pieces in all, with one unit vector for each piece, in blocks."""
        rng = np.random.default_rng([self._seed, 1])
        number = 0
        for start in range(0, chunks, _BLOCK):
            count = min(_BLOCK, chunks - start)
            topics = np.repeat(rng.integers(0, _TOPICS, -(-count // CHUNKS_A_FILE)), CHUNKS_A_FILE)[
                :count
            ]
            pieces = self._pieces(rng, topics, number)
            files = range(0, count, CHUNKS_A_FILE)
            notes = [
                self._note(rng, number + first, int(topics[first]), pieces[first:][:CHUNKS_A_FILE])
                for first in files
            ]
            number += count
            yield notes, self._vectors(rng, topics, 0.75)

    def questions(self, count: int) -> list[Question]:
        """Make distinct questions, each about one topic."""
        rng = np.random.default_rng([self._seed, 2])
        topics = rng.integers(0, _TOPICS, count)
        vectors = self._vectors(rng, topics, 0.8)
        return [
            Question(self._question(rng, int(topic)), vector)
            for topic, vector in zip(topics, vectors, strict=True)
        ]

    def write(self, root: Path, files: int, pieces: int = 1) -> list[Path]:
        """Write notes of some pieces each below `root`, with file times of their days."""
        written: list[Path] = []
        for notes, _ in self.notes(files * CHUNKS_A_FILE):
            for note in notes:
                path = root / note.path
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("\n".join(note.pieces[:pieces]) + "\n", encoding="utf-8")
                at = datetime(note.day.year, note.day.month, note.day.day, 12, tzinfo=UTC)
                os.utime(path, (at.timestamp(), at.timestamp()))
                written.append(path)
        return written

    def _pieces(self, rng: np.random.Generator, topics: NDArray[np.int64], first: int) -> list[str]:
        """Write one piece of 90 to 330 words for each topic number."""
        lengths = np.clip(rng.lognormal(5.3, 0.35, len(topics)), 90, 330).astype(np.int64)
        chosen = self._draw(rng, np.repeat(topics, lengths)).tolist()
        texts = []
        end = 0
        for place, length in enumerate(lengths.tolist()):
            words, end = chosen[end : end + length], end + length
            language = LANGUAGES[self._languages[topics[place]]]
            texts.append(_lines(words, first + place, language))
        return texts

    def _draw(self, rng: np.random.Generator, topics: NDArray[np.int64]) -> Words:
        """Draw one word for each topic number."""
        kind, place = rng.random(len(topics)), rng.random(len(topics))
        first = self._first[self._languages[topics]]
        function = first + np.searchsorted(self._function, place)
        general = first + _FUNCTION + np.searchsorted(self._general, place)
        of_topic = self._topic_words[topics] + np.searchsorted(self._topic, place)
        numbers = np.where(kind < 0.45, function, np.where(kind < 0.75, general, of_topic))
        return self._words[numbers]

    def _question(self, rng: np.random.Generator, topic: int) -> str:
        language = LANGUAGES[self._languages[topic]]
        words = language.openings[rng.integers(len(language.openings))].split()
        wanted = max(len(words) + 1, int(rng.integers(4, 15)))
        general = int(self._first[self._languages[topic]]) + _FUNCTION
        while len(words) < wanted:
            kind = rng.random()
            if kind < 0.35 and len(words) + 1 < wanted:
                words.append(language.function[rng.integers(len(language.function))])
            elif kind < 0.6 and len(words) + 1 < wanted:
                # The most general words of a language are seldom what a question is about.
                rank = 20 + int(np.searchsorted(self._general, rng.random()))
                words.append(self._words[general + rank % _GENERAL_WORDS])
            else:
                rank = int(rng.integers(_TOPIC_WORDS // 3))
                words.append(self._words[self._topic_words[topic] + rank])
        return language.separator.join(words[:14])

    def _note(
        self, rng: np.random.Generator, number: int, topic: int, pieces: Sequence[str]
    ) -> Note:
        day = _FIRST_DAY + timedelta(days=int(rng.integers(_DAYS)))
        name = self._words[self._topic_words[topic]]
        path = f"memory/{day.year}/{day.month:02d}/{day.isoformat()}-{number}.md"
        if number % 10 >= 6:
            path = f"memory/topics/{name}/note-{number}.md"
        return Note(path, day, tuple(pieces))

    def _vectors(self, rng: np.random.Generator, topics: NDArray[np.int64], share: float) -> Floats:
        """One unit vector near the centre of each topic, spread in few directions."""
        spread = rng.standard_normal((len(topics), len(self._planes))) @ self._planes
        noise = rng.standard_normal((len(topics), DIMENSIONS)) / np.sqrt(DIMENSIONS)
        vectors = share * self._centres[topics] + 0.08 * spread + 0.25 * noise
        return _unit(vectors).astype(np.float32)


def _lines(words: list[str], number: int, language: Language) -> str:
    """Set words in lines: a heading, sentences, points, and a rare number."""
    lines = [f"## {words[0].capitalize()} {words[1]} NB-{number:06d}"]
    for start in range(0, len(words), _WORDS_A_LINE):
        line = language.separator.join(words[start : start + _WORDS_A_LINE])
        point = start % 5 == 0 and start
        lines.append(f"- {line}" if point else f"{line.capitalize()}{language.stop}")
    return "\n".join(lines)


def _zipf(count: int, exponent: float) -> NDArray[np.float64]:
    """The cumulative distribution of `count` words by rank."""
    weights = 1.0 / np.arange(1, count + 1) ** exponent
    cumulated: NDArray[np.float64] = np.cumsum(weights) / weights.sum()
    cumulated[-1] = 1.0
    return cumulated


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
