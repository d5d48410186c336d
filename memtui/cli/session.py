"""An engine for one command: the memory, its settings, its ranking and its index together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memtui.cli.invocation import VECTORS_NEED_AN_AGENT, Invocation
from memtui.engine import Engine
from memtui.errors import IndexMissing, SettingsError
from memtui.memory.workspace import Found, demo_clock
from memtui.model import IndexState, IndexStatus, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.files import demo_data_dir
from memtui.settings.keys import nested
from memtui.settings.load import flag_layer
from memtui.settings.schema import Settings

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.index.foreign.discovery import ForeignTarget
    from memtui.settings import Loaded
    from memtui.settings.schema import RankingSettings

EXAMINATION_SECONDS = 0.5
"""So long a search of an agent's index waits to be told which files changed."""


@dataclass(frozen=True, slots=True)
class Session:
    """An open engine, and what it was opened with."""

    workspace: Found
    loaded: Loaded
    engine: Engine
    base: Ranking
    """What `chosen` changes."""
    chosen: RankingSettings

    @property
    def is_foreign(self) -> bool:
        """Whether the index is an agent's own."""
        return self.engine.index.status().foreign is not None

    def ranking(self) -> Ranking:
        """Return the ranking to start from with everything that is set on top."""
        return self.chosen.apply(self.base)

    def status(self) -> IndexStatus:
        """Return the state of the index as it is now, compared with the files."""
        if self.is_foreign:
            # Its examination began when it was opened, beside the search.
            self.engine.wait_idle(EXAMINATION_SECONDS)
        else:
            self.engine.index.refresh_status()
        return self.engine.index.status()

    def warnings(self, ranking: Ranking) -> list[str]:
        """Return what was ignored: of the configuration, and of the profile."""
        lost = self.chosen.without_effect(ranking)
        return [
            *self.loaded.warnings,
            *(f"{key} has no effect: profile {ranking.profile} has no such stage" for key in lost),
        ]

    def no_index(self) -> IndexMissing:
        """Return the error of a command that needs an index where there is none."""
        message = f"{self.workspace.root} has no index yet"
        return IndexMissing(message, hint="`memtui index` makes one")


@contextmanager
def open_session(
    invocation: Invocation,
    *,
    write: bool = False,
    watch: bool = False,
    warm: bool = False,
    bus: Bus | None = None,
) -> Iterator[Session]:
    """Open memtui's own index of the workspace; the demo has a folder and a clock of its own.

    With `warm` the model is loaded meanwhile.
    """
    workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    options: dict[str, Any] = {"write": write, "watch": watch, "warm": warm, "bus": bus}
    options["now"] = _clock(invocation.now)
    if invocation.demo:
        from memtui.index.transcripts.scope import demo_homes

        options |= {"data_dir": demo_data_dir(), "homes": demo_homes()}
        options["now"] = options["now"] or demo_clock()
    settings = loaded.settings
    base = settings.base_ranking(PROFILES)
    with Engine.open(workspace.root, settings, **options) as engine:
        yield Session(workspace, loaded, engine, base, settings.ranking)


@contextmanager
def open_reading(invocation: Invocation, *, warm: bool = False) -> Iterator[Session]:
    """Open the index of the agent that `--agent` or `--index` names, else memtui's own.

    The demo is indexed first when it is not. Any other workspace without an index is left
    without: a search does no hidden work.
    """
    if invocation.foreign:
        with open_agent(invocation) as session:
            yield session
        return
    if invocation.query_vectors is not None:
        raise SettingsError(VECTORS_NEED_AN_AGENT)
    with open_session(invocation, warm=warm) as session:
        if not invocation.demo or session.status().state is not IndexState.NO_INDEX:
            yield session
            return
    invocation.output().note("memtui: indexing the demo, this once")
    with open_session(invocation, write=True) as writing:
        writing.engine.index.require_writer()
        writing.engine.index.sync(wait=True)
    with open_session(invocation) as session:
        yield session


def stale_warning(status: IndexStatus) -> str | None:
    """Return what to say when files changed after they were indexed."""
    if status.pending_count == 0:
        return None
    named = ", ".join(status.pending[:3]) + (", …" if status.pending_count > 3 else "")
    changed = f"{status.pending_count} changed {'file' if status.pending_count == 1 else 'files'}"
    command = "memtui index" if status.foreign is None else "openclaw memory index"
    return f"the index is stale: {changed} ({named}); `{command}` takes them in"


def _clock(moment: datetime | None) -> Callable[[], datetime] | None:
    """Return a clock that stands still at a moment."""
    return None if moment is None else lambda: moment


@dataclass(frozen=True, slots=True)
class AgentOpening:
    """What an agent's index is opened with."""

    target: ForeignTarget
    chosen: RankingSettings
    """What the command line changes of the ranking; no configuration of memtui's own is in it."""
    given: GivenVectors | None
    release: str | None = None
    """The profile of an OpenClaw release by which it is searched; `None`: the index decides."""
    ranking: Ranking | None = None
    """The named ranking to start from; `None`: that of the agent."""

    def open(self, invocation: Invocation, *, examine: bool = True) -> Engine:
        """Open the engine; raises `IndexMissing`, `IndexUnusable`."""
        return Engine.open_agent(
            self.target,
            now=_clock(invocation.now),
            given=self.given,
            env=invocation.env,
            profile=self.release,
            examine=examine,
        )

    def workspace(self) -> Found:
        """Return the folder of the notes, else that of the index."""
        target = self.target
        if target.workspace is not None:
            return Found(target.workspace, f"the workspace of agent {target.agent}")
        return Found(target.database.parent, "the folder of the index")


def agent_opening(invocation: Invocation) -> AgentOpening:
    """Find what `--agent` or `--index` names.

    A profile of an OpenClaw release searches as that release does with the agent's configuration,
    an own one that starts from a release as that release with its own numbers; any other one ranks
    what the index's own release finds.

    Raises `IndexMissing` when it is not there, `SettingsError` for options that cannot be used.
    """
    from memtui.engine.foreign.query_vectors import load_given
    from memtui.index.foreign.discovery import find_target
    from memtui.retrieval.openclaw.release import RELEASES

    vectors, index = invocation.query_vectors, invocation.index
    given = None if vectors is None else load_given(invocation.path(vectors))
    target = find_target(
        agent=invocation.agent,
        index=None if index is None else invocation.path(index),
        workspace=invocation.workspace().root if invocation.root else None,
        env=invocation.env,
        home=invocation.home(),
    )
    # What options say about the ranking, without any other layer.
    layer, _ = flag_layer(invocation.flags or {})
    chosen = Settings.parse(nested(layer.values)).ranking
    name = layer.values.get("ranking.profile")
    if name is None:
        return AgentOpening(target, chosen, given)
    settings = invocation.settings(None).settings
    own = settings.profiles.get(name)
    start = name if own is None else own.profile
    ranking = settings.base_ranking(PROFILES)
    return AgentOpening(
        target,
        chosen,
        given,
        start if start in RELEASES else None,
        None if ranking.profile in RELEASES else ranking,
    )


@contextmanager
def open_agent(invocation: Invocation, *, examine: bool = True) -> Iterator[Session]:
    """Open the engine over an agent's index; with `examine` it is compared with the files."""
    loaded = invocation.settings(None)
    opening = agent_opening(invocation)
    with opening.open(invocation, examine=examine) as engine:
        base = opening.ranking or engine.ranking
        yield Session(opening.workspace(), loaded, engine, base, opening.chosen)


def refuse_agent(invocation: Invocation, *, rebuild: bool) -> None:
    """Raise `SettingsError` when an agent's index is named where memtui would write."""
    if not invocation.foreign:
        return
    verb = "rebuild" if rebuild else "update"
    agent = f" --agent {invocation.agent}" if invocation.agent is not None else ""
    force = " --force" if rebuild else ""
    raise SettingsError(
        f"memtui does not {verb} this index: it belongs to OpenClaw and is only read",
        hint=f"`openclaw memory index{agent}{force}` does",
    )
