"""Reading an OpenClaw index: which one is meant, how it is opened, how it is ranked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtui.cli.invocation import Invocation
from memtui.cli.searching import standing_still
from memtui.cli.session import Session
from memtui.errors import SettingsError
from memtui.memory.workspace import Found
from memtui.model import Ranking

if TYPE_CHECKING:
    from memtui.bus import Bus
    from memtui.engine import Engine
    from memtui.engine.foreign import ForeignTarget
    from memtui.engine.foreign.query_vectors import GivenVectors
    from memtui.settings.schema import RankingSettings

PROFILE = "ranking.profile"


@dataclass(frozen=True, slots=True)
class ForeignOpening:
    """What an agent's index is opened with."""

    target: ForeignTarget
    chosen: RankingSettings
    """What the command line changes of the ranking; no configuration of memtui's own is in it."""
    named: Ranking | None = None
    """The profile that was asked for; `None`: the index and the agent's configuration decide."""
    starts_from: str | None = None
    """The built-in profile that it starts from."""
    given: GivenVectors | None = None

    def open(
        self,
        env: Mapping[str, str],
        *,
        bus: Bus | None = None,
        now: Callable[[], datetime] | None = None,
        examine: bool = True,
    ) -> Engine:
        """Open the engine; raises `IndexMissing`, `IndexUnusable`."""
        from memtui.engine import Engine
        from memtui.retrieval.openclaw.release import RELEASES

        return Engine.open_agent(
            self.target,
            bus=bus,
            now=now,
            given=self.given,
            env=env,
            profile=self.starts_from if self.starts_from in RELEASES else None,
            examine=examine,
        )

    def base(self, engine: Engine) -> Ranking:
        """What the command line changes: the agent's ranking, or that of another program.

        A profile of an OpenClaw release searches as that release does with the agent's
        configuration, an own one that starts from a release as that release with its own numbers;
        any other one ranks what the index's own release finds.
        """
        from memtui.retrieval.openclaw.release import RELEASES

        if self.named is None or self.named.profile in RELEASES:
            return engine.ranking
        return self.named

    def workspace(self) -> Found:
        """The folder of the notes, else that of the index."""
        target = self.target
        if target.workspace is not None:
            return Found(target.workspace, f"the workspace of agent {target.agent}")
        return Found(target.database.parent, "the folder of the index")


def foreign_opening(invocation: Invocation) -> ForeignOpening:
    """Find what `--agent` or `--index` names.

    Raises `IndexMissing` when it is not there, `SettingsError` for options that cannot be used.
    """
    from memtui.engine.foreign import find_target
    from memtui.engine.foreign.query_vectors import load_given

    given = None
    if invocation.query_vectors is not None:
        given = load_given(_path(invocation, invocation.query_vectors))
    target = find_target(
        agent=invocation.agent,
        index=None if invocation.index is None else _path(invocation, invocation.index),
        workspace=invocation.workspace().root if invocation.root else None,
        env=invocation.env,
        home=invocation.home(),
    )
    chosen, profile = _flags_alone(invocation.flags or {})
    if profile is None:
        return ForeignOpening(target, chosen, given=given)
    from memtui.ranking.profiles import PROFILES

    settings = invocation.settings(None).settings
    own = settings.profiles.get(profile)
    return ForeignOpening(
        target,
        chosen,
        settings.base_ranking(PROFILES),
        profile if own is None else own.profile,
        given,
    )


@contextmanager
def open_foreign_session(
    invocation: Invocation, *, now: datetime | None = None, examine: bool = True
) -> Iterator[Session]:
    """Open the engine over an agent's index; with `examine` it is compared with the files."""
    loaded = invocation.settings(None)
    opening = foreign_opening(invocation)
    clock = None if now is None else partial(standing_still, now)
    engine = opening.open(invocation.env, now=clock, examine=examine)
    try:
        yield Session(opening.workspace(), loaded, engine, opening.base(engine), opening.chosen)
    finally:
        engine.close()


def refuse_foreign(invocation: Invocation, *, rebuild: bool) -> None:
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


def _flags_alone(flags: Mapping[str, Any]) -> tuple[RankingSettings, str | None]:
    """What options say about the ranking, without any other layer; and the profile they name."""
    from memtui.settings.keys import nested
    from memtui.settings.load import flag_layer
    from memtui.settings.schema import Settings

    layer, _ = flag_layer(flags)
    settings = Settings.parse(nested(layer.values))
    return settings.ranking, layer.values.get(PROFILE)


def _path(invocation: Invocation, text: str) -> Path:
    return invocation.here() / os.path.expanduser(text)
