"""Which errors of SQLite a release takes for an empty answer."""

from __future__ import annotations

from memtui.retrieval.connection import is_database_error

_REFUSAL = "SQLError"


def is_refusal(error: BaseException) -> bool:
    """Tell whether SQLite refused a statement, rather than being stopped or failed by the file.

    That is its general error: a MATCH that is none, an expression that is too deep, a `k` that is
    too large.
    """
    named = any(kind.__name__ == _REFUSAL for kind in type(error).__mro__)
    return named and is_database_error(error)
