"""What retrieval needs of an open SQLite connection, so that it depends on no binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_BINDING = "apsw"
_RELEASE = "RELEASE memtui_snapshot"


class Rows(Protocol):
    """The rows of one statement, read as they are asked for."""

    def __iter__(self) -> Iterator[Any]:
        """Read row by row."""

    def fetchall(self) -> list[Any]:
        """Read what is left; a cursor that is not read to its end keeps its snapshot open."""

    def close(self, force: bool = False) -> None:
        """Stop reading and let go of the snapshot."""


class Connection(Protocol):
    """An open connection that belongs to the calling thread."""

    def execute(self, statements: str, bindings: Any = None, /) -> Rows:
        """Run SQL."""

    def interrupt(self) -> None:
        """Stop what runs on this connection; may be called from any thread."""

    def create_scalar_function(
        self,
        name: str,
        function: Callable[..., Any] | None,
        arguments: int = -1,
        /,
        *,
        deterministic: bool = False,
    ) -> None:
        """Make a Python function known to SQL."""

    def register_fts5_function(self, name: str, function: Callable[..., Any]) -> None:
        """Make a Python function known to FTS5 as an auxiliary function (ranking, highlighting)."""

    def fts5_tokenizer(self, name: str, args: list[str] | None = None) -> Callable[..., Any]:
        """Give an FTS5 tokenizer: (UTF-8 bytes, flags, locale) to a list of tokens."""


def is_database_error(error: BaseException) -> bool:
    """Tell whether an exception came out of SQLite rather than out of this program."""
    return any(kind.__module__.partition(".")[0] == _BINDING for kind in type(error).__mro__)


def is_interruption(error: BaseException) -> bool:
    """Tell whether a statement ended because another thread called `interrupt`."""
    return is_database_error(error) and type(error).__name__ == "InterruptError"


@contextmanager
def snapshot(connection: Connection) -> Iterator[None]:
    """Let all statements of the block see one state of the database, whatever is committed."""
    connection.execute("SAVEPOINT memtui_snapshot")
    try:
        yield
    finally:
        _release(connection)


def _release(connection: Connection) -> None:
    try:
        connection.execute(_RELEASE)
    except Exception as error:
        if not is_database_error(error):
            raise
        # An interruption may hit this very statement; a snapshot that stayed open would show
        # the same moment to every later search.
        connection.execute(_RELEASE)
