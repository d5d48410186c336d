"""The word pieces of BERT's uncased models: text in, vocabulary ids out.

Written here because the libraries that do it bring a model hub client along, or are a first
release; the rules are those of Devlin et al., "BERT" (2019), and of its published tokenizer.
"""

from __future__ import annotations

import gzip
import string
import unicodedata
from collections.abc import Sequence
from importlib import resources

from memtui.errors import ProviderError

MAX_IDS = 256
"""The most ids a text becomes, `[CLS]` and `[SEP]` among them."""
MAX_CHARACTERS = 65_536
"""How much of a text is looked at; 254 words of the longest kind need 25,654 characters."""

_MAX_WORD = 100
_FOLD_ENTRIES = 16_384

# The blocks that BERT splits into single characters; kana and Hangul are words to it.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),  # the start that the model was tokenized with
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Splits text into the pieces of one vocabulary; usable from any thread.

    `vocabulary` lists the pieces in the order of their ids, by default those of all-MiniLM-L6-v2,
    read from the package. A note that spells `[CLS]` out gets the ids of its letters: text from
    outside never becomes a control id. Raises `ProviderError` for an unusable vocabulary.
    """

    def __init__(self, vocabulary: Sequence[str] | None = None) -> None:
        if vocabulary is None:
            file = resources.files("memtui.data").joinpath("minilm-vocab.txt.gz")
            try:
                text = gzip.decompress(file.read_bytes()).decode("utf-8")
            except (OSError, EOFError, ValueError) as error:
                raise ProviderError(f"cannot read the vocabulary of the model: {error}") from error
            vocabulary = text.removesuffix("\n").split("\n")
        ids = {piece: number for number, piece in enumerate(vocabulary)}
        try:
            self._unknown, self._cls, self._sep = ids["[UNK]"], ids["[CLS]"], ids["[SEP]"]
        except KeyError as error:
            raise ProviderError(f"the vocabulary lacks {error}") from error
        self._heads = {piece: number for piece, number in ids.items() if piece[:2] != "##"}
        self._tails = {piece[2:]: number for piece, number in ids.items() if piece[:2] == "##"}
        self._longest = max(map(len, ids))

    def encode(self, text: str, max_ids: int = MAX_IDS) -> list[int]:
        """Turn text into 2 to `max_ids` ids, from `[CLS]` to `[SEP]`; what is over is cut off.

        Of each word the longest known piece is taken, again and again; a word with a gap is
        `[UNK]` alone.
        """
        ids = [self._cls]
        for word in text[:MAX_CHARACTERS].translate(_FOLD).split():
            word_ids: list[int] = []
            start, pieces = 0, self._heads
            while start < len(word):
                end = min(len(word), start + self._longest)
                while end > start and word[start:end] not in pieces:
                    end -= 1
                if end == start or len(word) > _MAX_WORD:
                    word_ids = [self._unknown]
                    break
                word_ids.append(pieces[word[start:end]])
                start, pieces = end, self._tails
            ids += word_ids
            if len(ids) >= max_ids - 1:
                break
        return [*ids[: max_ids - 1], self._sep]


class _Fold(dict[int, str]):
    """What each character becomes, worked out once: small letters without accents, blanks, nothing.

    Punctuation and ideographs become words of their own.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if char in "\t\n\r" or category[0] == "Z":
            folded = " "
        elif char == "\ufffd" or category in ("Cc", "Cf", "Co", "Cs"):
            folded = ""
        else:
            folded = "".join(
                f" {part} " if part in string.punctuation or kind[0] == "P" else part.lower()
                for part in unicodedata.normalize("NFD", char)
                if (kind := unicodedata.category(part)) != "Mn"
            )
        if any(first <= code <= last for first, last in _IDEOGRAPHS):
            folded = f" {folded} "
        if len(self) < _FOLD_ENTRIES:
            self[code] = folded
        return folded


_FOLD = _Fold()
