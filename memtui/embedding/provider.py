"""The interface of an embedding provider, and what makes the vectors of two comparable."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from memtui import errors
from memtui.errors import IsCancelled, never
from memtui.model import Failure, Usage
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.embedding.batch import BatchInterface

Item = TypeVar("Item")
CHECK_SECONDS: Final = 0.05
"""Between two looks at whether one who waits was cancelled."""

Vector: TypeAlias = "NDArray[np.float32]"
"""One embedding: shape (dimensions,), float32, of length 1 or all zero."""

Vectors: TypeAlias = "NDArray[np.float32]"
"""Embeddings: shape (n, dimensions), float32, every row of length 1 or all zero."""

Values: TypeAlias = "NDArray[np.float64]"
"""Vectors as a service gives them: shape (dimensions,) or (n, dimensions), float64."""

_counting = threading.Lock()


class Role(StrEnum):
    QUERY = "query"
    DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class ProviderIdentity:
    """The provider and settings behind vectors: only those of equal identities are comparable."""

    name: str
    model: str
    """The id of the model, as the chunk ids hold it."""
    dimensions: int | None = field(compare=False)
    """`None` while only a first answer of the provider can tell."""
    fingerprint: str
    """sha256 hex of the settings that change a vector; holds no secret."""
    input_bytes: int | None = field(default=None, compare=False)
    """The most UTF-8 bytes of one input; a longer chunk is split. `None`: never split."""
    word_pieces: bool | None = field(default=None, compare=False)
    """True if the vectors of word pieces are wanted; `None` for a model that gives none."""
    piece_chunks: int = field(default=50_000, compare=False)
    """An index of more chunks keeps no word pieces: those are made when a query needs them."""


class WordPieces(NamedTuple):
    """The pieces that a model takes a text for."""

    words: list[str]
    """The word of each, as the text spells it."""
    vectors: Vectors
    """The vector of each in its context, shape (n, 32)."""


class BatchOutcome(NamedTuple):
    made: bool = False
    """True if there are vectors in the cache now that were missing."""
    spent: Usage = Usage()
    """The usage that the service counted."""
    note: str = ""
    """One line for people when something went wrong; empty when nothing did."""
    waiting: bool = False
    """True if it was interrupted with a batch still under way."""


class Provider:
    """Something that turns text into vectors of one length; usable from any thread."""

    identity: ProviderIdentity
    dimensions: int | None = None
    """Length of a vector; `None` until the first answer tells."""
    batch_size: int
    """Number of texts that a caller best hands to one `embed_documents`."""
    address: str = ""
    """The host that text is sent to, for people; empty when it stays in this program."""
    remote: bool = False
    """True if text leaves this machine."""
    _usage = Usage()

    @property
    def withholds(self) -> bool:
        """Return whether it is not sent the texts that hold a credential."""
        return False

    def embed_query(self, text: str, *, cancelled: IsCancelled = never) -> Vector:
        """Embed a query; raises `ProviderError`, or `Cancelled` within 0.1 s once asked to stop."""
        raise NotImplementedError

    def embed_documents(self, texts: Sequence[str], *, cancelled: IsCancelled = never) -> Vectors:
        """Embed texts in their order; raises `ProviderError`, or `Cancelled` once asked to stop."""
        raise NotImplementedError

    def word_pieces(
        self, text: str, starts: Sequence[int], *, cancelled: IsCancelled = never
    ) -> list[WordPieces] | None:
        """Return the word pieces of each stretch of a text, at most 254 of each.

        A stretch goes from its start, the first from 0, up to the next one's; a query is one. A
        text that was just embedded takes no second run of the model for what that read. `None` for
        a model that gives none. Raises as `embed_query` does.
        """
        return None

    def reads(self, text: str) -> bool:
        """Return whether the model, as far as it says, knows the script of `text`."""
        return True

    def usage(self) -> Usage:
        """Return how much was asked of it so far."""
        return self._usage

    def count(self, usage: Usage) -> None:
        """Add what was asked of it."""
        with _counting:
            self._usage = self._usage.plus(usage)

    def batches(self, cancelled: IsCancelled) -> BatchInterface | None:
        """Return the batch interface, if one is wanted and there is one; may look for a key."""
        return None

    def close(self) -> None:
        """Let go of the model or connection; later calls raise `ProviderError`."""


def clean_vectors(vectors: NDArray[Any]) -> Vectors:
    """Make vectors comparable: float32, non-finite numbers 0, every row of length 1.

    Takes and returns shape (dimensions,) or (n, dimensions); the input is left as it is.
    A row shorter than 1e-10 becomes zero, which says that it has no direction.
    """
    import numpy as np

    numbers = np.asarray(vectors, dtype=np.float64)
    numbers = np.where(np.isfinite(numbers), numbers, 0.0)
    if not numbers.size:
        return numbers.astype(np.float32)
    # Scaled by the largest number first, so that squares of huge values cannot overflow.
    largest = np.abs(numbers).max(axis=-1, keepdims=True)
    scaled = numbers / np.where(largest > 0.0, largest, 1.0)
    lengths = np.sqrt((scaled * scaled).sum(axis=-1, keepdims=True))
    at_least_one = np.maximum(lengths, 1.0)
    visible = largest >= 1e-10 / at_least_one
    return np.where(visible, scaled / at_least_one, 0.0).astype(np.float32)


def settings_fingerprint(settings: Mapping[str, str | int | float | bool | None]) -> str:
    """Hash the settings that change a vector (never a secret) as sha256 hex of sorted JSON."""
    text = json.dumps(dict(settings), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


CHARACTERS_A_TOKEN: Final = 4


def estimated_tokens(characters: int) -> int:
    """Tokens of so many characters, four a token, at least one where there is any."""
    return -(-characters // CHARACTERS_A_TOKEN)


@dataclass(eq=False)
class LocalProvider(Provider):
    """A provider on this machine: one text at a time, the same bits for each.

    A text runs through the model alone, so that its vector does not depend on its neighbours, in
    the order of asking: a query waits for one document at most, and who is cancelled does not wait.
    `embed` returns a vector and the tokens, `estimated` by length; `free` lets go of the model.
    """

    identity: ProviderIdentity
    embed: Callable[[str, Role], tuple[Vector, int]]
    batch_size: int
    estimated: bool = False
    knows: Callable[[str], bool] = lambda text: True
    free: Callable[[], None] = lambda: None
    pieces: Callable[[str, Sequence[int]], list[WordPieces]] | None = None

    def __post_init__(self) -> None:
        self.dimensions = self.identity.dimensions
        self.closed = False
        self._queue = ThreadPoolExecutor(1, "memtui-model")

    def embed_query(
        self, text: str, *, cancelled: IsCancelled = never, role: Role = Role.QUERY
    ) -> Vector:
        """Embed a query, or one text as `role`; shape (dimensions,)."""
        vector, tokens = self._ask(cancelled, partial(self.embed, text, role))
        self.count(Usage(1, 1, tokens, self.estimated))
        return vector

    def _ask(self, cancelled: IsCancelled, run: Callable[[], Item]) -> Item:
        name = self.identity.name
        errors.stop_if(cancelled)
        if self.closed:
            raise errors.ProviderError(f"the {name} provider is closed", failure=Failure.CLOSED)
        try:
            answer = self._queue.submit(run)
            with errors.undone_on_error(answer.cancel):
                while not wait([answer], CHECK_SECONDS).done:
                    errors.stop_if(cancelled)
            return answer.result()
        except (errors.Cancelled, errors.ProviderError):
            raise
        except Exception as error:  # libraries raise what they like, and so does a closed queue
            raise errors.ProviderError(f"the {name} model failed: {one_line(error)}") from error

    def embed_documents(self, texts: Sequence[str], *, cancelled: IsCancelled = never) -> Vectors:
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions or 0), dtype=np.float32)
        for row, text in enumerate(texts):
            rows[row] = self.embed_query(text, cancelled=cancelled, role=Role.DOCUMENT)
        return rows

    def word_pieces(
        self, text: str, starts: Sequence[int], *, cancelled: IsCancelled = never
    ) -> list[WordPieces] | None:
        if self.pieces is None:
            return None
        return self._ask(cancelled, partial(self.pieces, text, starts))

    def reads(self, text: str) -> bool:
        return self.knows(text)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.free()
            self._queue.shutdown(wait=False)


def one_line(error: Exception) -> str:
    """Return what an error of a library says, on one line that is safe to show."""
    if errors.is_out_of_memory(error):
        return errors.OutOfMemory().message
    return safe_line(" ".join(str(error).split()))[:300] or type(error).__name__


PROBE_TEXT: Final = "memory"
"""The text that a provider is asked for to see whether it answers."""
MOST_FAILURES: Final = 3
"""So many failed calls in a row, each after its own retries, and a provider is given up."""
OF_THE_SERVICE: Final = frozenset(one for one in Failure if one.is_passing) - {Failure.BAD_ANSWER}
"""Failures that hardly a text can be the cause of."""
REFUSALS: Final = frozenset({Failure.TOO_LARGE, Failure.BAD_REQUEST})
"""Failures that a text may be the cause of, and the others of its call are not."""


class TextsRefused(errors.ProviderError):
    """Some texts of a call were refused, the others embedded; both by their place in the call."""

    def __init__(
        self, made: Mapping[int, Vector], refused: Mapping[int, errors.ProviderError]
    ) -> None:
        first = refused[min(refused)]
        super().__init__(first.message, hint=first.hint, failure=first.failure)
        self.made = made
        self.refused = refused


def is_for_good(failure: Failure) -> bool:
    """Return whether another text would fail as well, now and a little later."""
    return not failure.is_passing and failure not in REFUSALS | {Failure.MODEL_FAILED}


def bisect_rejected(
    embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str], error: errors.ProviderError
) -> TextsRefused:
    """Embed the halves of a call that failed by `error`, and their halves where those fail, too.

    Raises `error` when a harmless text is refused as well, and so none of these is to blame.
    """
    try:
        embed([PROBE_TEXT])
    except errors.ProviderError:
        raise error from None
    made: dict[int, Vector] = {}
    refused: dict[int, errors.ProviderError] = {}
    failed = [(range(len(texts)), error)]
    for places, why in failed:
        middle = (len(places) + 1) // 2
        if len(places) == 1:
            refused[places[0]] = why
            continue
        for half in (places[:middle], places[middle:]):
            try:
                made.update(zip(half, embed([texts[place] for place in half]), strict=True))
            except errors.ProviderError as again:
                if again.failure not in REFUSALS:
                    raise
                failed.append((half, again))
    return TextsRefused(made, refused)


# Of one input and of one request, in UTF-8 bytes:
# OpenClaw counts a byte as a token (OPENCLAW.md section 3): more is never sent than a model takes.
DEFAULT_LIMIT: Final = 8192
LOCAL_LIMIT: Final = 2048
"""For a model that runs in the program itself and declares no limit."""
BATCH_BYTES: Final = 8000
"""Of one request, and of one input when an index is made."""


def byte_size(text: str) -> int:
    """UTF-8 bytes of a text; a lone surrogate counts three, as the character that replaces it."""
    return len(text.encode("utf-8", "surrogatepass"))


def split_input(text: str, limit: int) -> list[str]:
    """Cut text into parts of at most `limit` UTF-8 bytes, never inside a character.

    The parts joined are the text; a character of more than `limit` bytes is a part by itself.
    """
    if byte_size(text) <= limit:
        return [text]
    return ["".join(part) for part in batches(text, byte_size, limit)]


def batches(
    items: Iterable[Item], size: Callable[[Item], int], limit: int = BATCH_BYTES
) -> Iterator[list[Item]]:
    """Fill batches of at most `limit` with items, in order, each as full as it can be.

    An item that is larger than a batch goes alone. Gives a batch as soon as it is full.
    """
    batch: list[Item] = []
    used = 0
    for item in items:
        needed = size(item)
        if batch and used + needed > limit:
            yield batch
            batch, used = [], 0
        batch.append(item)
        used += needed
    if batch:
        yield batch
