"""A seeded corpus of notes, and indexes of it of a wanted size.

Note prose has a natural word distribution: function words make up almost half of the text, the
others follow Zipf's law, some everywhere and some only in notes of one topic. A topic has one of
five languages: of 25 topics 15 are English, 4 German and 2 each Chinese, Japanese and Korean. Every
chunk has a rare number. The vectors are clustered by topic, questions have theirs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from memtui.embedding.packaged import MODELS
from memtui.embedding.provider import (
    Provider,
    ProviderIdentity,
    Vector,
    Vectors,
    settings_fingerprint,
)
from memtui.engine import Engine
from memtui.index.database import Connection, Recipe, create, open_database, write_meta
from memtui.index.generations import IndexFolder
from memtui.index.index_rows import write_chunks, write_file, write_vectors
from memtui.memory.workspace import workspace_id
from memtui.model import ChunkSpan, Document, Reason, SourceFile
from memtui.settings.schema import EmbeddingSettings, Settings
from tests.support.embedding import registered_provider

Floats = NDArray[np.float32]
Words = NDArray[np.object_]

VERSION = 3
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


class Question(Struct, frozen=True):
    """A natural question of 4 to 14 words and the vector that stands for it."""

    text: str
    vector: Floats


class Note(Struct, frozen=True):
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
        language = LANGUAGES[int(self._languages[topic])]
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


class Language(Struct, frozen=True):
    """How one language is written; `languages.toml` tells what its fields say."""

    share: int
    function: list[str]
    separator: str
    stop: str
    openings: list[str]
    syllables: list[str] = []
    characters: dict[str, Any] = {}

    def invent(self, rng: np.random.Generator, count: int) -> list[str]:
        """Make distinct words, the frequent ones first."""
        words: dict[str, None] = {}
        make = self._of_syllables if self.syllables else self._of_characters(rng)
        while len(words) < count:
            make(rng, count, words)
        return list(words)[:count]

    def _of_syllables(self, rng: np.random.Generator, count: int, words: dict[str, None]) -> None:
        onsets, vowels, codas, endings = (
            [part.replace("-", "") for part in parts.split()] for parts in self.syllables
        )
        for row in rng.integers(0, 1 << 30, (count, 10)).tolist():
            syllables = 1 + (len(words) > 400) + (row[8] % 4 == 0)
            parts = [
                onsets[row[2 * place] % len(onsets)] + vowels[row[2 * place + 1] % len(vowels)]
                for place in range(syllables)
            ]
            word = "".join(parts) + codas[row[7] % len(codas)]
            words[word + endings[row[9] % len(endings)]] = None

    def _of_characters(
        self, rng: np.random.Generator
    ) -> Callable[[np.random.Generator, int, dict[str, None]], None]:
        """Make words of one to three characters, a few of which are in many words."""
        known = self.characters
        alphabet = rng.permutation(np.arange(known["first"], known["last"]))[: known["count"]]
        kana, particles = known.get("katakana", ""), known.get("particles", "-").split()

        def make(rng: np.random.Generator, count: int, words: dict[str, None]) -> None:
            # A power of an even distribution: the first characters are in many of the words.
            drawn = (rng.random((count, 3)) ** 2 * known["count"]).astype(np.int64).tolist()
            for row, number in zip(drawn, rng.integers(0, 1 << 30, count).tolist(), strict=True):
                length = 2 + (number % 5 == 0) - (number % 11 == 0)
                word = "".join(chr(alphabet[place]) for place in row[:length])
                number //= 64
                word += particles[number % len(particles)].replace("-", "")
                # As borrowed words and verbs end.
                for step in range(bool(kana) * (number % 7 == 0) * (1 + number % 3)):
                    word += kana[(number >> 4 * step) % len(kana)]
                words[word] = None

        return make


LANGUAGES = [
    Language(**{**row, "function": row["function"].split()})
    for row in tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8")).values()
]
SHARES = tuple(place for place, one in enumerate(LANGUAGES) for _ in range(one.share))
"""The place in `LANGUAGES` of each of 25 topics."""

STORED = "bench-stored"
FTS_BULK = {"hashsize": 64 * 2**20, "automerge": 0, "crisismerge": 64}
FTS_NORMAL = {"hashsize": 2**20, "automerge": 4, "crisismerge": 16}
_NOTED = "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, seen_ns = ? WHERE path = ?"


class StoredProvider(Provider):
    """Gives vectors that were made beforehand, so that a query costs no embedding."""

    dimensions = DIMENSIONS
    identity = ProviderIdentity(
        STORED,
        # A chunk is named by its model: these are those of an index by the embedded one, too.
        MODELS["minilm"].identity(EmbeddingSettings()).model,
        DIMENSIONS,
        settings_fingerprint({"provider": STORED, "version": VERSION}),
    )
    batch_size = 64

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self._vectors = vectors

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Look the vector up; a text that is not known has none."""
        return self._vectors.get(text, np.zeros(self.dimensions, dtype=np.float32))

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Look the vectors up."""
        return np.stack([self.embed_query(text) for text in texts])


@contextmanager
def registered(provider: Provider) -> Iterator[Settings]:
    """Make a provider known that no engine closes, and give settings that choose it."""
    with registered_provider(provider):
        yield settings_for(provider.identity.name)


def settings_for(provider: str) -> Settings:
    """Settings with that provider and without a watcher."""
    return Settings.parse({"embedding": {"provider": provider}, "index": {"watch": False}})


class Store(Struct, frozen=True):
    """An index of a corpus: the memory folder it stands for, and where its files are."""

    root: Path
    data: Path
    chunks: int

    @property
    def database(self) -> Path:
        """The file of the live generation."""
        folder = IndexFolder(self.data / workspace_id(self.root))
        generation = folder.current()
        assert generation is not None
        return folder.path(generation)

    def open(self, settings: Settings) -> Engine:
        """Open an engine that only reads."""
        return Engine.open(self.root, settings, data_dir=self.data, write=False)


def store(corpus: Corpus, chunks: int, place: Path) -> Store:
    """Make the index of `chunks` chunks below `place`, or take the one that is there."""
    made = Store(
        place / f"chunks-{chunks}-v{VERSION}", place / f"index-{chunks}-v{VERSION}", chunks
    )
    folder = IndexFolder(made.data / workspace_id(made.root))
    if folder.current() is not None:
        return made
    made.root.mkdir(parents=True, exist_ok=True)
    building = folder.begin()
    connection = open_database(building, bulk=True)
    identity = StoredProvider({}).identity
    recipe = Recipe(identity)
    create(connection)
    write_meta(connection, recipe.meta())
    set_options(connection, FTS_BULK)
    connection.execute("BEGIN IMMEDIATE")
    row = 0
    for notes, vectors in corpus.notes(chunks):
        for note in notes:
            document, spans = _document(note, made.root)
            lines = document.text.count("\n")
            file_id = write_file(connection, document.file, document.hash, lines, 0, document)
            write_chunks(connection, document.file, file_id, spans, recipe.model, {}, lambda: False)
        write_vectors(connection, {row + place: one for place, one in enumerate(vectors, start=1)})
        row += len(vectors)
    connection.execute("COMMIT")
    connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('optimize')")
    set_options(connection, FTS_NORMAL)
    connection.close()
    folder.commit(building)
    return made


def set_options(connection: Connection, options: Mapping[str, int]) -> None:
    """Set options of the full-text table."""
    for name, value in options.items():
        connection.execute("INSERT INTO chunks_fts(chunks_fts, rank) VALUES(?, ?)", (name, value))


def _document(note: Note, root: Path) -> tuple[Document, list[ChunkSpan]]:
    spans = []
    line = 1
    for piece in note.pieces:
        lines = piece.count("\n") + 1
        digest = hashlib.sha256(piece.encode()).hexdigest()
        spans.append(ChunkSpan(line, line + lines - 1, piece, digest))
        line += lines
    text = "\n".join(note.pieces)
    mtime_ns = int(np.datetime64(note.day, "ns").astype(np.int64))
    file = SourceFile(note.path, str(root / note.path), "memory", len(text), mtime_ns, 0)
    digest = hashlib.sha256(text.encode()).hexdigest()
    dated = note.day.isoformat() in note.path
    document = Document(
        file=file,
        text=text,
        hash=digest,
        day=note.day if dated else None,
        day_from=Reason.FILE_NAME if dated else None,
        importance=None,
    )
    return document, spans


def folder(corpus: Corpus, chunks: int, place: Path) -> Store:
    """Make notes of `chunks` chunks below `place` and their index, or take what is there.

    The notes are on disk as the index knows them, so that a sync finds nothing to do. The vectors
    are invented, under the name of the embedded model: a search embeds its query by that.
    """
    made = Store(place / f"notes-{chunks}-v{VERSION}", place / f"noted-{chunks}-v{VERSION}", chunks)
    index = IndexFolder(made.data / workspace_id(made.root))
    if index.current() is not None:
        return made
    bare = store(corpus, chunks, place)
    corpus.write(made.root, chunks // CHUNKS_A_FILE, CHUNKS_A_FILE)
    index.create()
    building = index.begin()
    shutil.copyfile(bare.database, building)
    connection = open_database(building)
    stats = []
    for (path,) in connection.execute("SELECT path FROM files").fetchall():
        found = os.stat(made.root / str(path))
        stats.append((found.st_size, found.st_mtime_ns, found.st_ino, time.time_ns(), str(path)))
    recipe = Recipe(MODELS["minilm"].identity(EmbeddingSettings()))
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_NOTED, stats)
    write_meta(connection, recipe.meta())
    connection.execute("COMMIT")
    connection.close()
    index.commit(building)
    return made


def copy(made: Store, place: Path) -> Store:
    """Copy an index, not its notes, so that it may be written to."""
    taken = replace(made, data=place)
    shutil.copytree(made.data, place)
    return taken
