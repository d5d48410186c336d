"""The errors that memtui shows to people, each with an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memtui.model import Failure

IsCancelled = Callable[[], bool]
"""Tells whether a result is not wanted any more; asked between steps, on the thread that works."""


class MemtuiError(Exception):
    """Base of every error that ends a command: one line that says what, where and what to do.

    `exit_code` is what the command line returns: 2 usage or configuration, 3 no index or
    wrong model, 4 provider failed without a fallback, 5 locked by another writer.
    `code` is the stable name that `--json` prints. Both may be given for a single error.
    """

    exit_code = 1
    code = "error"

    def __init__(
        self, message: str, *, hint: str = "", code: str | None = None, exit_code: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.code
        self.exit_code = self.exit_code if exit_code is None else exit_code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class SettingsError(MemtuiError):
    """A setting, flag or argument that cannot be used."""

    exit_code = 2
    code = "settings"


class WorkspaceNotFound(MemtuiError):
    """No memory folder at any of the places that were looked at."""

    exit_code = 2
    code = "no_workspace"


class QueryError(MemtuiError):
    """A query that cannot be parsed."""

    exit_code = 2
    code = "query"


class IndexMissing(MemtuiError):
    """There is no index yet, or it belongs to another model."""

    exit_code = 3
    code = "no_index"


class IndexUnusable(MemtuiError):
    """The index is corrupt, of a newer schema, or cannot be read."""

    exit_code = 3
    code = "index_unusable"


class ProviderError(MemtuiError):
    """An embedding provider that failed; `failure` says in which way."""

    exit_code = 4
    code = "provider"

    def __init__(
        self, message: str, *, hint: str = "", failure: Failure = Failure.MODEL_FAILED
    ) -> None:
        super().__init__(message, hint=hint)
        self.failure = failure


class WriterLocked(MemtuiError):
    """Another process is writing to this index."""

    exit_code = 5
    code = "locked"


class OutOfMemory(MemtuiError):
    """The system gave no memory, or no thread, for what was to be done."""

    code = "no_memory"

    def __init__(self) -> None:
        hint = "close other programs, or raise the limit of this one (ulimit -v)"
        super().__init__("there is not enough memory", hint=hint)


_SHORT_OF_MEMORY = (
    *("can't start new thread", "failed to map segment", "cannot allocate memory", "bad_alloc"),
    "out of memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that there is not enough memory, whichever library raised it."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or any(words in message for words in _SHORT_OF_MEMORY)


class Cancelled(Exception):
    """Work that was stopped because something newer superseded it or the user asked."""


def never() -> bool:
    """Stand for `IsCancelled` of work that nobody stops."""
    return False


def stop_if(cancelled: IsCancelled) -> None:
    """Raise `Cancelled` where work is not wanted any more."""
    if cancelled():
        raise Cancelled


@contextmanager
def undone_on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` when the block raises anything at all, and let that pass."""
    try:
        yield
    except BaseException:
        undo()
        raise
