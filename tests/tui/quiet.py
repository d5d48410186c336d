"""An engine's other half for tests that are about search: nothing to browse, no conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from memtui.engine.engine import Engine
from memtui.engine.what_if import LeastChanges, WordsToTry, find_changes, word_changes
from memtui.model import Ranking, Reason
from memtui.model.browsing import CareReport, Neighbours
from memtui.model.conversations import MemoryCall, Replayed
from memtui.model.inquiry import WordChanges

_OWN_NAMES = {
    "search": {},
    "explain": {},
    "browse": {"files": "memory_files"},
    "conversations": {
        "listings": "listed_conversations",
        "count": "count_conversations",
        "read": "conversation",
        "sources": "transcript_sources",
        "use_sources": "use_transcripts",
    },
    "providers": {
        "available": "listed_providers",
        "cost": "provider_cost",
        "switch": "switch_provider",
        "probe": "probe_provider",
    },
    "index": {"hold": "hold_indexing"},
}
"""What a fake engine calls the methods of the services, where not by the same name."""


_ANSWERS: Mapping[str, Any] = {
    "file_of": None,
    "chunk_record": None,
    "neighbours": Neighbours((), Reason.NO_VECTORS, (), ()),
    "recalled": {},
    "care": CareReport((), {}),
    "words_to_try": WordsToTry(()),
}
"""What is answered where a fake engine has no method of that name; else an empty tuple."""


class _Service:
    def __init__(self, engine: object, names: Mapping[str, str]) -> None:
        self._engine = engine
        self._names = names

    def __getattr__(self, name: str) -> Any:
        own = self._names.get(name, name)
        return getattr(self._engine, own, lambda *of, **options: _ANSWERS.get(own, ()))


def with_services(engine: object) -> None:
    """Give a fake engine the six services of a real one: its own methods."""
    for service, names in _OWN_NAMES.items():
        object.__setattr__(engine, service, _Service(engine, names))


class NothingToBrowse(Engine):
    """A memory without files and without conversations."""

    def __new__(cls, *args: object, **options: object) -> Self:
        made = object.__new__(cls)
        with_services(made)
        return made

    def __init__(self) -> None:
        return None

    def least_changes(self, *of: Any, **options: Any) -> LeastChanges:
        chunks = self.index.status().chunks
        return find_changes(self.search.ask, *of, chunks=chunks, **options)

    def word_changes(self, *of: Any, **options: Any) -> WordChanges:
        return word_changes(self.search.ask, self.explain.words_to_try, *of, **options)

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        return Replayed(call, ())
