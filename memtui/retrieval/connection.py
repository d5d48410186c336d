"""The use of an open SQLite connection by retrieval; it belongs to the calling thread."""

from __future__ import annotations

import functools
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from memtui.data import read_table
from memtui.text.languages import stems
from memtui.text.tokens import FTS5_TOKENIZE, fold_text

if TYPE_CHECKING:
    import apsw

Connection: TypeAlias = "apsw.Connection"
"""Rows are listed before anything else: a cursor that is not read to its end keeps its snapshot
open."""


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Let all queries of the block see the same commit; keep it short.

    Until it ends, a program that writes cannot empty its log. Inside another one the block is a
    part of that.
    """
    import apsw

    if connection.in_transaction:
        yield
        return
    try:
        connection.execute("BEGIN")
        yield
    finally:
        # SQLite may already have ended it on its own (I/O error).
        if connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except apsw.InterruptError:
                # A snapshot that stayed open would show the same moment to every later search.
                connection.execute("ROLLBACK")


def is_refusal(error: BaseException) -> bool:
    """Tell whether SQLite refused a statement, rather than being stopped or failed by the file.

    That is its general error: a MATCH that is none, an expression that is too deep, a `k` that is
    too large.
    """
    import apsw

    return isinstance(error, apsw.SQLError)


def damaged(description: str) -> Exception:
    """Return the error of a row that is not as it was written, as SQLite tells of one."""
    import apsw

    return apsw.CorruptError(description)


def vector_checksum(rowid: int, vector: bytes) -> int:
    """Return the checksum that stands beside the vector of a chunk."""
    return zlib.crc32(vector, rowid & 0xFFFFFFFF)


def whole_vector(width: int, rowid: int, vector: Any, checksum: Any = -1) -> bytes:
    """Return the vector in a row of `vectors`; raises what SQLite raises for one that changed.

    An index of an older schema, which answers until it is built anew, has no checksums.
    """
    is_whole = type(vector) is bytes and len(vector) == width
    if is_whole and checksum in (-1, vector_checksum(rowid, vector)):
        return bytes(vector)
    raise damaged(f"the vector of chunk {rowid} is not the one that was written")


def register_fts5(connection: Connection, name: str, function: Callable[..., Any]) -> None:
    """Make an auxiliary function known to FTS5, which keeps every registration until the end."""
    listed = "SELECT 1 FROM pragma_function_list WHERE name = ?"
    if not connection.execute(listed, (name,)).fetchall():
        connection.register_fts5_function(name, function)


FOLDING = FTS5_TOKENIZE.removeprefix("porter ")
"""The tokenizer of the index without its stemmer, which comes first and hands on to the rest."""

_FOR_A_QUERY = 1  # FTS5_TOKENIZE_QUERY in fts5.h

_SQL = read_table("queries.toml")["words"]
_SUFFIXES = read_table("english.toml")["suffixes"].split()
_SHORTEST_BASE = 3


@functools.cache
def _options(tokenize: str) -> tuple[str, list[str]]:
    name, *arguments = shlex.split(tokenize)
    return name, arguments


@functools.cache
def _tokenizer(options: str) -> Callable[..., list[Any]]:
    import apsw

    tokenizer = apsw.Connection("").fts5_tokenizer(*_options(options))
    return cast("Callable[..., list[Any]]", tokenizer)


def tokens(text: str, tokenizer: str = FTS5_TOKENIZE) -> list[str]:
    """Return the tokens of a query by a table's `tokenize` option; raises what SQLite raises."""
    encoded = text.encode("utf-8", "replace")
    without = {"include_offsets": False, "include_colocated": False}
    return _tokenizer(tokenizer)(encoded, _FOR_A_QUERY, None, **without)


def token_places(encoded: bytes, tokenizer: str = FTS5_TOKENIZE) -> list[tuple[int, int, str]]:
    """Return the tokens of a text in UTF-8, each with its first byte and the one behind it."""
    return _tokenizer(tokenizer)(encoded, _FOR_A_QUERY, None, include_colocated=False)


def query_tokens(
    connection: Connection, text: str, tokenizer: str = FTS5_TOKENIZE
) -> list[tuple[str, ...]]:
    """Return the tokens of a query by a connection, each followed by its synonyms."""
    tokenize: Callable[..., Any] = connection.fts5_tokenizer(*_options(tokenizer))
    encoded = text.encode("utf-8", "replace")
    return [tuple(forms) for _, _, *forms in tokenize(encoded, _FOR_A_QUERY, None)]


def find_stems(connection: Connection) -> None:
    """Let each word of a query find its stems as well; before anything else is read.

    The stems are those by the languages that the index has texts in. FTS5 takes them for synonyms:
    a word and its stems are one term with one document frequency.
    """
    languages: dict[int, list[str]] = {}

    def tokenizer(connection: Connection, _: list[str]) -> Callable[..., Any]:
        def tokenize(encoded: bytes, reason: int, _: object) -> Iterable[tuple[int | str, ...]]:
            places = token_places(encoded)
            if not reason & _FOR_A_QUERY:
                return places
            version = connection.data_version()
            if version not in languages:
                languages.clear()
                rows = connection.execute(_SQL["languages"]).fetchall()
                languages[version] = [str(language) for (language,) in rows]
            return [
                (start, end, token, *_stems(encoded[start:end], languages[version]))
                for start, end, token in places
            ]

        return tokenize

    connection.register_fts5_tokenizer(FTS5_TOKENIZE.partition(" ")[0], tokenizer)


def _stems(encoded: bytes, languages: Iterable[str]) -> list[str]:
    word = encoded.decode("utf-8", "replace").lower()
    return tokens(" ".join(chain.from_iterable(stems(word, one) for one in languages)), FOLDING)


def completions(beginning: str) -> tuple[str, ...]:
    """Finish a suffix that is begun, where the finished word has a stem of its own.

    `runni` becomes `running`, since its stem `run` does not begin with what is typed and no
    prefix finds it. `beginning` is folded: lower case without diacritics.
    """
    finished = [
        base + suffix
        for suffix in _SUFFIXES
        for length in range(1, len(suffix))
        if beginning.endswith(suffix[:length])
        and len(base := beginning[:-length]) >= _SHORTEST_BASE
    ]
    words: dict[str, str] = {}
    for word, stem in zip(finished, tokens(" ".join(finished)), strict=False):
        words.setdefault(stem, word)
    return tuple(word for stem, word in words.items() if not stem.startswith(beginning))


def begun_words(text: str, beginning: str) -> set[str]:
    """Return the words of a text that begin so, folded as `beginning` is."""
    if text.isascii() and beginning not in text.lower():
        return set()
    return {word for word in tokens(fold_text(text), FOLDING) if word.startswith(beginning)}


def word_with_stem(stem: str) -> str | None:
    """Find a word that FTS5 reduces to `stem`, since a query can only name words.

    A stem is often its own stem; `deploy`, the stem of `deployment`, is not.
    """
    words = [stem + end for end in ("", *_SUFFIXES)]
    stems = zip(words, tokens(" ".join(words)), strict=False)
    return next((word for word, own in stems if own == stem), None)
