"""The conversations of one agent, over its program's own index; nothing of either is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from memtui.engine.conversations.door import Conversations
from memtui.engine.conversations.library import Indexed, of_agent, of_database
from memtui.errors import IndexUnusable
from memtui.index.foreign.sessions import SOURCE
from memtui.index.transcripts.scope import TranscriptHomes, TranscriptScope
from memtui.memory.transcripts.openclaw_files import RULES
from memtui.model.conversations import TranscriptKind
from memtui.retrieval.openclaw.stored import readable, text_of

if TYPE_CHECKING:
    from memtui.engine.foreign.facts import ForeignFacts
    from memtui.index.foreign.opening import Opened
    from memtui.index.transcripts.discovery import Located

T = TypeVar("T")


class ForeignConversing(Conversations):
    """Conversations of the agent whose index it is; a part of `ForeignMachine`."""

    facts: ForeignFacts
    _programs = (TranscriptKind.OPENCLAW,)

    if TYPE_CHECKING:

        def _read(self, function: Callable[[Opened], T]) -> T:
            """Read the index on the engine thread."""

    def _listen_to(self, facts: ForeignFacts) -> None:
        """Know the agent's own transcripts, by the rules of the index's release."""
        target, sources = facts.target, facts.scope.sources
        is_on = sources is None or SOURCE in sources
        self._transcripts = TranscriptScope(
            target.workspace or target.database.parent,
            TranscriptHomes(openclaw=target.state_dir),
            (TranscriptKind.OPENCLAW,) if is_on else (),
            rules=RULES[facts.choice.profile],
        )

    def _locate(self, scope: TranscriptScope) -> Sequence[Located]:
        target = self.facts.target
        if target.state_dir is not None and target.agent is not None:
            return of_agent(scope, target.agent)
        if not scope.rules.stores_agent:
            # Nothing tells where the agent keeps its files.
            return ()
        return of_database(scope, target.database, self._read(_agent_in_paths))

    def use_transcripts(self, names: Sequence[str]) -> None:
        """Refuse: what is indexed is decided by the agent's own configuration."""
        raise IndexUnusable(
            "this index belongs to the agent's program: memtui only reads it",
            hint="memory.search.sources of its configuration decides what is indexed",
        )

    def _indexed_transcripts(self) -> Mapping[str, Indexed]:
        return self._read(_chunks_by_path)


def _chunks_by_path(opened: Opened) -> dict[str, Indexed]:
    """How many chunks each transcript has in the index."""
    layout, column = opened.layout, readable("path")
    if not layout.chunks_have_source:
        return {}
    found = opened.connection.execute(
        f"SELECT {column}, count(*) FROM {layout.chunks} WHERE source = ? GROUP BY path", (SOURCE,)
    ).fetchall()
    listed: dict[str, Indexed] = {}
    if layout.files_have_source:
        held = opened.connection.execute(
            f"SELECT {column} FROM {layout.files} WHERE source = ?", (SOURCE,)
        ).fetchall()
        listed = {text_of(path) or "": Indexed(0) for (path,) in held}
    return listed | {text_of(path) or "": Indexed(int(str(count))) for path, count in found}


def _agent_in_paths(opened: Opened) -> str:
    """The agent that stored paths name, `sessions/<agent>/<file>`; empty when none does."""
    parts = next(iter(_chunks_by_path(opened)), "").split("/")
    return parts[1] if len(parts) == 3 else ""
