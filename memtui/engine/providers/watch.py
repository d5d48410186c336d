"""A provider whose calls are watched: who owns it hears how each of them ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from memtui.embedding.bisect_rejected import TextsRefused, is_refusal, told_apart
from memtui.embedding.provider import Provider, Vector, Vectors
from memtui.errors import Cancelled, ProviderError
from memtui.index.job import PROBE_TEXT
from memtui.model import Failure, Usage
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.batch.protocols import BatchService

T = TypeVar("T")
Report = Callable[[ProviderError | None], None]
"""Told of each call that ended: the error, or `None` for an answer."""


class WatchedProvider:
    """Passes everything on to `inner`; any error but `Cancelled` leaves as `ProviderError`.

    An answer with fewer or more vectors than texts, or of other dimensions than `dimensions`, is
    a failure. `closing` stops every call, whatever its caller says.
    """

    def __init__(
        self,
        inner: Provider,
        report: Report,
        closing: Callable[[], bool],
        dimensions: int | None = None,
    ) -> None:
        self.inner = inner
        self._report = report
        self._closing = closing
        self._expected = dimensions

    @property
    def name(self) -> str:
        """The name it is configured by."""
        return self.inner.name

    @property
    def model(self) -> str:
        """The id of the model."""
        return self.inner.model

    @property
    def dimensions(self) -> int | None:
        """How many numbers a vector has; `None` until the first answer tells."""
        return self.inner.dimensions or self._expected

    @property
    def fingerprint(self) -> str:
        """The settings that change a vector."""
        return self.inner.fingerprint

    @property
    def address(self) -> str:
        """The host that text is sent to."""
        return self.inner.address

    @property
    def remote(self) -> bool:
        """Whether text leaves this machine."""
        return self.inner.remote

    @property
    def batch_size(self) -> int:
        """How many texts a caller best hands over at once."""
        return self.inner.batch_size

    def embed_query(self, text: str, *, cancelled: Callable[[], bool] | None = None) -> Vector:
        """Embed a query; raises `ProviderError` or `Cancelled`."""

        def ask() -> Vector:
            vector = self.inner.embed_query(text, cancelled=self._either(cancelled))
            self._check(vector.shape, vector.shape[:-1])
            return vector

        return self._watched(ask)

    def embed_documents(
        self, texts: Sequence[str], *, cancelled: Callable[[], bool] | None = None
    ) -> Vectors:
        """Embed texts in their order; raises `ProviderError` or `Cancelled`.

        `TextsRefused` where the service refuses some of them and answers all the same.
        """

        def once(some: Sequence[str]) -> Vectors:
            vectors = self.inner.embed_documents(some, cancelled=self._either(cancelled))
            self._check(vectors.shape, (len(some),))
            return vectors

        def ask() -> Vectors:
            try:
                return once(texts)
            except ProviderError as error:
                if not is_refusal(error):
                    raise
                raise told_apart(once, texts, error, PROBE_TEXT) from error

        return self._watched(ask)

    def reads(self, text: str) -> bool:
        """Whether the model knows the script of `text`."""
        return self.inner.reads(text)

    def usage(self) -> Usage:
        """What it was asked for so far."""
        return self.inner.usage()

    def batches(self, cancelled: Callable[[], bool]) -> BatchService | None:
        """The batch interface; what it is asked for is not watched."""
        return self.inner.batches(self._either(cancelled))

    def close(self) -> None:
        """Let go of the model or connection."""
        self.inner.close()

    def _either(self, cancelled: Callable[[], bool] | None) -> Callable[[], bool]:
        return lambda: self._closing() or (cancelled is not None and cancelled())

    def _watched(self, ask: Callable[[], T]) -> T:
        try:
            answer = ask()
        except Cancelled:
            raise
        except TextsRefused:
            self._report(None)
            raise
        except Exception as error:
            failed = as_provider_error(error)
            if self._closing():
                raise Cancelled from error
            self._report(failed)
            raise failed from error
        self._report(None)
        return answer

    def _check(self, shape: tuple[int, ...], count: tuple[int, ...]) -> None:
        if shape[:-1] != count:
            message = f"{self.name} answered {_rows(shape[:-1])} for {_rows(count)}"
            raise ProviderError(message, failure=Failure.BAD_ANSWER)
        if self._expected is not None and shape[-1] != self._expected:
            message = f"{self.name} gave vectors of {shape[-1]} numbers, not of {self._expected}"
            hint = "another model answers than before; check the model and the dimensions"
            raise ProviderError(message, hint=hint, failure=Failure.DIMENSIONS_DIFFER)


def as_provider_error(error: Exception) -> ProviderError:
    """The error itself, or one that says which error of a library it was."""
    if isinstance(error, ProviderError):
        return error
    text = safe_line(" ".join(str(error).split()))[:300]
    kind = type(error).__name__
    return ProviderError(f"{kind}: {text}" if text else kind, failure=Failure.MODEL_FAILED)


def _rows(count: tuple[int, ...]) -> str:
    number = count[0] if count else 1
    return f"{number} {'vector' if number == 1 else 'vectors'}"
