"""The vectors of queries that a file gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from memtui.errors import SettingsError
from memtui.settings.files import UnreadableJson, read_json
from memtui.text.ecmascript import trim
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values: TypeAlias = "NDArray[np.float64]"
"""One vector: shape (dimensions,), float64."""

MAX_BYTES: Final = 256 * 2**20
_SHOWN: Final = 60
_FORMS: Final = 'it must hold {"vectors": {query: [numbers]}}, or one list of numbers'


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """Vectors by query, and the one for every other query, from one file."""

    path: Path
    by_query: Mapping[str, Values] = field(repr=False)
    for_all: Values | None = field(default=None, repr=False)

    def of(self, query: str) -> Values | None:
        """The vector of a query, as it is written or without the blanks around it."""
        found = self.by_query.get(query)
        if found is None:
            found = self.by_query.get(trim(query))
        return self.for_all if found is None else found


def load_given(path: Path) -> GivenVectors:
    """Read a JSON file of query vectors, compressed with gzip or not.

    Takes `{"vectors": {query: [..]}}`, `{query: [..]}`, `{"query": .., "vector": [..]}`, a list
    of those, and a bare list of numbers, which holds for whatever is asked. A vector may be all
    zero: that is what some models make of some queries. Raises `SettingsError` of one line that
    says what is wrong, where, and what the file must hold.
    """
    document = _document(path)
    if isinstance(document, Mapping) and isinstance(document.get("vectors"), Mapping):
        return GivenVectors(path, _by_query(path, document["vectors"]))
    if isinstance(document, Mapping) and isinstance(document.get("query"), str):
        return GivenVectors(path, _pairs(path, [document]))
    if isinstance(document, Mapping) and document:
        return GivenVectors(path, _by_query(path, document))
    if isinstance(document, list) and document:
        if all(isinstance(item, Mapping) for item in document):
            return GivenVectors(path, _pairs(path, document))
        return GivenVectors(path, {}, _vector(path, "its list", document))
    raise _bad(path, "it holds no vector")


def _document(path: Path) -> Any:
    try:
        return read_json(path, MAX_BYTES)
    except UnreadableJson as error:
        raise _bad(path, error.what, error.line) from None


def _by_query(path: Path, table: Mapping[str, Any]) -> dict[str, Values]:
    return {query: _vector(path, _name(query), numbers) for query, numbers in table.items()}


def _pairs(path: Path, items: list[Any]) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for item in items:
        query = item.get("query")
        if not isinstance(query, str):
            raise _bad(path, 'an entry has no text as its "query"')
        found[query] = _vector(path, _name(query), item.get("vector"))
    return found


def _vector(path: Path, name: str, numbers: object) -> Values:
    import numpy as np

    if not isinstance(numbers, list) or not numbers:
        raise _bad(path, f"{name} has no list of numbers")
    if not set(map(type, numbers)) <= {int, float}:
        raise _bad(path, f"{name} has something in its list that is not a number")
    try:
        vector = np.array(numbers, dtype=np.float64)
    except OverflowError:
        raise _bad(path, f"{name} has a number that is too large") from None
    if not np.isfinite(vector).all():
        raise _bad(path, f"{name} has a number that is not finite")
    return vector


def _name(query: str) -> str:
    line = safe_line(query)
    return f'"{line}"' if len(line) <= _SHOWN else f'"{line[:_SHOWN]}…"'


def _bad(path: Path, what: str, line: int | None = None) -> SettingsError:
    place = safe_line(str(path)) + (f":{line}" if line else "")
    return SettingsError(f"cannot use the query vectors in {place}: {what}", hint=_FORMS)
