"""What retrieval asks of an open SQLite connection, which belongs to the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_BINDING = "apsw"
_RELEASE = "RELEASE memtui_snapshot"


class Rows(Protocol):
    """The rows of one statement; a cursor that is not read to its end keeps its snapshot open."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def close(self, force: bool = False) -> None: ...


class Connection(Protocol):
    """The part of `apsw.Connection` that is used here, with values of any type."""

    def execute(self, statements: str, bindings: Any = None, /) -> Rows: ...
    def interrupt(self) -> None: ...
    def create_scalar_function(
        self,
        name: str,
        function: Callable[..., Any] | None,
        arguments: int = -1,
        /,
        *,
        deterministic: bool = False,
    ) -> None: ...
    def register_fts5_function(self, name: str, function: Callable[..., Any]) -> None: ...


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
        try:
            connection.execute(_RELEASE)
        except Exception as error:
            if not is_database_error(error):
                raise
            # An interruption may hit this very statement; a snapshot that stayed open would show
            # the same moment to every later search.
            connection.execute(_RELEASE)


def register_fts5(connection: Connection, name: str, function: Callable[..., Any]) -> None:
    """Make an auxiliary function known to FTS5, which keeps every registration until the end."""
    listed = "SELECT 1 FROM pragma_function_list WHERE name = ?"
    if not connection.execute(listed, (name,)).fetchall():
        connection.register_fts5_function(name, function)
