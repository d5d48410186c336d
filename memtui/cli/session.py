"""An engine for one command: the memory, its settings, its ranking and its index together."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memtui.bus import Bus, SyncFailed, SyncFinished
from memtui.cli.common_options import VECTORS_NEED_AN_AGENT, Invocation
from memtui.engine import Engine
from memtui.errors import IndexMissing, MemtuiError, SettingsError, WriterLocked
from memtui.memory.workspace import Found
from memtui.model import IndexState, IndexStatus, Ranking, SyncStats
from memtui.report.status import state_detail
from memtui.report.words import WORDS
from memtui.settings.load import Loaded, SettingsFiles, Source, values_in
from memtui.settings.openclaw.releases import RELEASES
from memtui.settings.schema import RankingSettings, Settings, nested

if TYPE_CHECKING:
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.index.foreign.agents import ForeignTarget


class Session(Struct, frozen=True):
    """An open engine, and what it was opened with; it is closed at the end of `with`."""

    workspace: Found
    loaded: Loaded
    engine: Engine
    ranking: Ranking
    chosen: RankingSettings
    """The changes of the named ranking by settings and options."""
    is_foreign: bool = False
    """True if the index is an agent's own."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *details: object) -> None:
        self.engine.close()

    def warnings(self) -> list[str]:
        """Return what was ignored: of the configuration, and of the profile."""
        return [*self.loaded.warnings, *self.loaded.settings.unused(self.chosen, self.ranking)]

    def no_index(self) -> IndexMissing:
        """Return the error of a command that needs an index where there is none."""
        message = f"{self.workspace.root} has no index yet"
        return IndexMissing(message, hint="`memtui index` makes one")

    def current_status(self) -> IndexStatus:
        """Return the state of the index as it is now, compared with the files."""
        if self.is_foreign:
            # Its examination began when it was opened, beside the search.
            self.engine.wait_idle(TIMEOUT_MAX)
        else:
            self.engine.index.refresh_status()
        return self.engine.index.status()


def open_session(
    invocation: Invocation,
    *,
    write: bool = False,
    watch: bool = False,
    warm: bool = False,
    bus: Bus | None = None,
) -> Session:
    """Open memtui's own index of the workspace; the demo has a folder and a clock of its own.

    With `warm` the model is loaded meanwhile.
    """
    workspace = invocation.workspace()
    files = SettingsFiles(invocation.env, workspace.root, invocation.flags)
    loaded, now, demo = files.load(), invocation.now, invocation.demo
    settings = loaded.settings
    opened = partial(Engine.open, workspace.root, settings, bus=bus, now=now, files=files)
    engine = opened(write=write, watch=watch, warm=warm, demo=demo)
    return Session(workspace, loaded, engine, settings.configured_ranking(), settings.ranking)


def open_reading(invocation: Invocation, *, warm: bool = False) -> Session:
    """Open the index of the agent that `--agent` or `--index` names, else memtui's own.

    The demo is indexed first when it is not, or without vectors. Of any other memory without an
    index a search (`warm`) indexes the words first, as vectors take much longer.
    """
    if invocation.foreign:
        return open_agent(invocation)
    if invocation.query_vectors is not None:
        raise SettingsError(VECTORS_NEED_AN_AGENT)
    with ExitStack() as opened:
        session = opened.enter_context(open_session(invocation, warm=warm))
        is_new = (invocation.demo or warm) and session.engine.index.stamp() is None
        if invocation.demo and not is_new:
            status = session.current_status()
            has_no_vectors = status.state is IndexState.STALE and not status.vectors
            # Another process may be making them.
            is_new = has_no_vectors and status.writer == "none"
        if not is_new:
            opened.pop_all()
            return session
    output, root = invocation.output(), session.workspace.root
    flags = {} if invocation.demo else {"embedding.provider": "none"}
    words_of = "the demo" if invocation.demo else f"the words of {root}"
    output.note(f"memtui: indexing {words_of}, this once")
    with open_session(invocation.with_options(flags=flags), write=True) as writing:
        try:
            writing.engine.index.require_writer()
            run_sync(writing)
        except WriterLocked:
            # The other memtui is about to make the index.
            end = time.monotonic() + 10
            while writing.engine.index.stamp() is None:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
    return open_session(invocation, warm=warm)


def run_sync(session: Session, *, rebuild: bool = False) -> list[SyncStats]:
    """Sync or rebuild, and return what each run did; raises `MemtuiError` when the last failed."""
    ends: list[SyncFailed | SyncFinished] = []
    session.engine.bus.subscribe((SyncFailed, SyncFinished), ends.append)
    session.engine.index.sync(rebuild=rebuild, wait=True)
    if not ends:
        raise MemtuiError("nothing was indexed")
    # What ended last decides: a damaged index is a failure first and then built again.
    if isinstance(last := ends[-1], SyncFailed):
        raise MemtuiError(last.error, code="indexing_failed", exit_code=last.exit_code)
    return [event.stats for event in ends if isinstance(event, SyncFinished)]


def stale_warning(status: IndexStatus) -> str:
    """Return what to say when there is no index, or it is not that of the files and settings."""
    writer_note = WORDS["writer"]["stale"].format(status.writer) * status.has_other_writer
    if status.state is IndexState.NO_INDEX:
        return f"there is no index yet: {writer_note or '`memtui index` makes one'}"
    if writer_note or not status.pending_count:
        next_step = writer_note or "`memtui index` brings it up to date"
        return f"the index is stale: {state_detail(status)}; {next_step}"
    named = ", ".join(status.pending[:3]) + (", …" if status.pending_count > 3 else "")
    changed = f"{status.pending_count} changed {'file' if status.pending_count == 1 else 'files'}"
    changed += f", {len(status.removals)} of them gone or no longer chosen" * bool(status.removals)
    way = {0: "in", status.pending_count: "out"}.get(len(status.removals), "in or out")
    command = "memtui index" if status.foreign is None else "openclaw memory index"
    them = "it" if status.pending_count == 1 else "them"
    return f"the index is stale: {changed} ({named}); `{command}` takes {them} {way}"


def agent_target(invocation: Invocation) -> tuple[ForeignTarget, GivenVectors | None]:
    """Find what `--agent` or `--index` names, and read the vectors of queries.

    Raises `IndexMissing` when it is not there, `SettingsError` for options that cannot be used.
    """
    from memtui.engine.foreign.query_vectors import load_given
    from memtui.index.foreign.agents import find_target

    file, index = invocation.query_vectors, invocation.index
    vectors = None if file is None else load_given(invocation.path(file))
    target = find_target(
        agent=invocation.agent,
        index=None if index is None else invocation.path(index),
        workspace=invocation.workspace().root if invocation.root else None,
        env=invocation.env,
        home=invocation.home,
    )
    allowed = invocation.settings(None).settings.embedding.allow_insecure
    return replace(target, allow_insecure=allowed), vectors


def open_agent(invocation: Invocation, *, examine: bool = True) -> Session:
    """Open the index that `--agent` or `--index` names; with `examine` it is compared with files.

    No configuration of memtui's own is in its ranking but what options say. A profile of an
    OpenClaw release searches as that release does with the agent's configuration, an own one that
    starts from a release as that release with its own numbers; any other one ranks what the
    index's own release finds.

    Raises `IndexMissing`, `IndexUnusable` and `SettingsError`.
    """
    loaded = invocation.settings(None)
    target, vectors = agent_target(invocation)
    values = values_in(loaded.layers[Source.FLAG])
    chosen = Settings.parse(nested(values)).ranking
    name = values.get("ranking.profile")
    own = loaded.settings.profiles.get(name or "")
    release = name if own is None else own.profile
    base = None if name is None or name in RELEASES else loaded.settings.base_ranking()
    engine = Engine.open_agent(
        target,
        now=invocation.now,
        vectors=vectors,
        env=invocation.env,
        profile=release if release in RELEASES else None,
        examine=examine,
    )
    workspace = Found(target.database.parent, "the folder of the index")
    if target.workspace is not None:
        workspace = Found(target.workspace, f"the workspace of agent {target.agent}")
    ranking = chosen.apply(base or engine.ranking)
    return Session(workspace, loaded, engine, ranking, chosen, is_foreign=True)


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
