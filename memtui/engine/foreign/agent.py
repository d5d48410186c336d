"""From `--agent NAME` or `--index FILE` to the database, its agent, configuration and workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.engine.foreign.legs import AgentDatabase
from memtui.engine.foreign.query_vectors import GivenVectors, QueryVectors
from memtui.errors import IndexMissing
from memtui.index.foreign import rows
from memtui.index.foreign.discovery import (
    DEFAULT_AGENT,
    Databases,
    database_of,
    find_agent,
    store_of,
    workspace_of,
)
from memtui.index.foreign.opening import Layout, Opened
from memtui.index.foreign.rows import Origin, cached_vector
from memtui.model import Ranking, SearchMode
from memtui.model.status import Identity, IndexGeneration
from memtui.ranking.profiles import profile
from memtui.retrieval.openclaw.release import release_of
from memtui.retrieval.openclaw.tables import SearchScope
from memtui.settings.openclaw import effective, read_config, release_of_version
from memtui.settings.openclaw.secrets import AgentRemote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memtui.settings.openclaw import AgentConfig, MemorySearchConfig, OpenClawConfig


@dataclass(frozen=True, slots=True)
class ForeignTarget:
    """An index to open and what belongs to it; `None`: not known."""

    database: Path
    agent: str | None = None
    state_dir: Path | None = None
    workspace: Path | None = None
    config: OpenClawConfig | None = None
    search: AgentConfig | None = None
    """Of the configuration; the program's defaults without a file, `None` for a broken one."""
    databases: Databases | None = None
    home: Path | None = None
    """The home folder that `~` stands for in the configuration."""

    @property
    def is_configured(self) -> bool:
        """Whether a configuration could be read: without one, what is expected is not known."""
        config = self.config
        return config is not None and config.path is not None and not config.broken

    @property
    def sessions(self) -> Path | None:
        """Where the agent's transcripts are."""
        if self.state_dir is None or self.agent is None:
            return None
        return self.state_dir / "agents" / self.agent / "sessions"


def find_target(
    *,
    agent: str | None,
    index: Path | None,
    workspace: Path | None,
    env: Mapping[str, str],
    home: Path,
) -> ForeignTarget:
    """Find what `--agent` or `--index` names; `workspace` wins over what is configured.

    Raises `IndexMissing` when there is no such agent or it has no index.
    """
    if index is None:
        name = agent or ""
        target = _completed(None, name, find_agent(name, env, home), env, home)
    else:
        target = _of_file(index, env, home)
        if agent is not None and target.state_dir is not None:
            target = replace(target, agent=agent)
    return replace(target, workspace=workspace) if workspace is not None else target


def _of_file(index: Path, env: Mapping[str, str], home: Path) -> ForeignTarget:
    """The agent and the state folder are told by where the file lies, if it lies as it should."""
    parents = index.absolute().parents
    if parents[0].name == "agent" and len(parents) > 3 and parents[2].name == "agents":
        agent, state_dir = parents[1].name, parents[3]
    elif parents[0].name == "memory" and len(parents) > 1 and _is_state_dir(parents[1]):
        agent, state_dir = index.absolute().stem, parents[1]
    else:
        return ForeignTarget(index)
    return _completed(index, agent, state_dir, env, home)


def _is_state_dir(folder: Path) -> bool:
    names = ("openclaw.json", "clawdbot.json", "agents", "credentials")
    return folder.name.startswith(".") or any((folder / name).exists() for name in names)


def _completed(
    index: Path | None, agent: str, state_dir: Path, env: Mapping[str, str], home: Path
) -> ForeignTarget:
    """What belongs to an agent; without `index`, the one that its program reads."""
    config = read_config(env, home, state_dir=state_dir)
    search = config.agent(agent)
    databases = database_of(state_dir, agent, store_of(search))
    database = index or databases.read
    if database is None:
        hint = "openclaw memory index builds one"
        raise IndexMissing(f"agent {agent!r} has no memory index yet", hint=hint)
    return ForeignTarget(
        database=database,
        agent=agent,
        state_dir=state_dir,
        workspace=workspace_of(state_dir, search),
        config=config,
        search=None if config.broken else search,
        databases=databases,
        home=home,
    )


PREFIX = "openclaw-"
FTS_ONLY = "fts-only"
_NO_PROVIDER = frozenset({"none"})
_PATHS_SINCE = 3
"""The chunking version of 2026.8.1, which searches as 2026.9 does."""

_FITTING = {
    IndexGeneration.SIDECAR: ("2026.2", "2026.4"),
    IndexGeneration.AGENT: ("2026.7", "2026.9"),
    IndexGeneration.AGENT_BLOB: ("2026.9",),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile and how it was chosen, as a phrase."""

    profile: str
    because: str


def choose_profile(
    layout: Layout, identity: Identity, origin: Origin, config: OpenClawConfig | None
) -> Choice:
    """Choose the profile of the release that made an index.

    The tables bound the choice; within it the version that the database or the configuration
    names decides, else what the index records about itself.
    """
    fitting = _FITTING[layout.generation]
    for version, where in (
        (origin.app_version, "the database was written by"),
        (config.version if config else None, "the configuration was written by"),
    ):
        release = release_of_version(version) if version else None
        if release in fitting:
            return Choice(PREFIX + str(release), f"{where} {version}")
    return _by_tables(layout, identity)


def _by_tables(layout: Layout, identity: Identity) -> Choice:
    if layout.generation is IndexGeneration.AGENT_BLOB:
        return Choice("openclaw-2026.9", "vectors are stored as blobs")
    if layout.generation is IndexGeneration.AGENT:
        newer = (identity.chunking_version or 0) >= _PATHS_SINCE or layout.paths_fts is not None
        if newer:
            return Choice("openclaw-2026.9", "the index has a chunking version of 2026.8 or later")
        return Choice("openclaw-2026.7", "the index is inside the agent's database, as text")
    if identity.fts_tokenizer is not None or identity.scope_hash is not None:
        return Choice("openclaw-2026.4", "a file of its own that records its scope or tokenizer")
    return Choice("openclaw-2026.2", "a file of its own that records neither scope nor tokenizer")


def agent_ranking(name: str, search: MemorySearchConfig | None) -> Ranking:
    """The profile with what the agent's configuration sets; `search` is what the release sees."""
    base = profile(name)
    if search is None:
        return base
    return replace(
        base,
        k=search.max_results,
        min_score=search.min_score,
        candidate_multiplier=search.candidate_multiplier,
        vector_weight=search.vector_weight,
        keyword_weight=search.text_weight,
        mmr=replace(base.mmr, enabled=search.mmr_enabled, lambda_=search.mmr_lambda),
        decay=replace(
            base.decay,
            enabled=search.decay_enabled,
            half_life_days=float(search.half_life_days),
        ),
    )


def configured_mode(
    search: MemorySearchConfig | None, identity: Identity, *, has_fts: bool
) -> SearchMode:
    """Which legs the agent searches with: both, keywords without a provider, or vectors alone."""
    provider = search.provider if search is not None else identity.provider
    if identity.model == FTS_ONLY or provider in _NO_PROVIDER:
        return SearchMode.KEYWORD_ONLY
    if not has_fts or (search is not None and not search.hybrid_enabled):
        return SearchMode.VECTOR_ONLY
    return SearchMode.HYBRID


@dataclass(frozen=True, slots=True)
class ForeignFacts:
    """An index, its release, and how its agent searches it."""

    target: ForeignTarget
    choice: Choice
    identity: Identity
    origin: Origin
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
    index: AgentDatabase,
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
