"""What is found out about an index at opening: it does not change while it is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtui.engine.foreign.profile import FTS_ONLY, Choice, choose_profile, configured_mode
from memtui.engine.foreign.retriever import ForeignIndex
from memtui.engine.foreign.target import ForeignTarget
from memtui.engine.query_vectors import GivenVectors, QueryVectors
from memtui.index.foreign import rows
from memtui.index.foreign.discovery import DEFAULT_AGENT
from memtui.index.foreign.opening import Opened
from memtui.index.foreign.rows import cached_vector
from memtui.model import SearchMode
from memtui.model.status import Identity
from memtui.retrieval.openclaw.release import release_of
from memtui.retrieval.openclaw.tables import SearchScope
from memtui.settings.openclaw import effective
from memtui.settings.openclaw.secrets import AgentRemote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.settings.openclaw import MemorySearchConfig


@dataclass(frozen=True, slots=True)
class ForeignFacts:
    """An index, its release, and how its agent searches it."""

    target: ForeignTarget
    choice: Choice
    identity: Identity
    origin: rows.Origin
    search: MemorySearchConfig | None
    """As the release acts on it."""
    mode: SearchMode
    scope: SearchScope

    @property
    def needs(self) -> str:
        """The provider and model that made the vectors."""
        return f"{self.identity.provider or '?'}/{self.identity.model or '?'}"


def read_facts(opened: Opened, target: ForeignTarget, profile: str | None) -> ForeignFacts:
    """Find out about an open index; `profile` replaces the one that is chosen.

    Raises `SettingsError` for a profile that is no release of the agent's program.
    """
    identity = rows.identity(opened.connection, opened.layout).identity
    origin = rows.origin(opened.connection, opened.layout)
    choice = choose_profile(opened.layout, identity, origin, target.config)
    if profile is not None:
        choice = Choice(profile, "it was asked for")
    release_of(choice.profile)
    search = None
    if target.search is not None:
        search = effective(target.search.search, choice.profile).search
    mode = configured_mode(search, identity, has_fts=opened.layout.fts is not None)
    without_provider = mode is SearchMode.KEYWORD_ONLY or identity.model == FTS_ONLY
    sources = identity.sources or (search.sources if search is not None else None)
    scope = SearchScope(None if without_provider else identity.model, sources)
    return ForeignFacts(target, choice, identity, origin, search, mode, scope)


def query_vectors_of(
    index: ForeignIndex,
    facts: ForeignFacts,
    given: GivenVectors | None,
    env: Mapping[str, str],
) -> QueryVectors:
    """Where the vectors of queries come from, for this index.

    No provider is asked unless the agent has a configuration: defaults are nobody's choice.
    """
    target = facts.target
    remote = None
    if target.config is not None:
        remote = AgentRemote(target.config, target.agent or DEFAULT_AGENT, env)

    def cached(digest: str) -> NDArray[np.float64] | None:
        return index.read(
            lambda opened: cached_vector(opened.connection, opened.layout, facts.identity, digest)
        )

    search = facts.search if target.is_configured else None
    return QueryVectors(
        facts.identity, search, given=given, env=env, read_cache=cached, remote=remote
    )
