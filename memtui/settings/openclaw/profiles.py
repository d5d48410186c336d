"""Keys in the `auth-profiles.json` of OpenClaw's agents (`src/agents/auth-profiles/`).

Each agent has one in its folder of the state folder; what the main agent has counts for all, the
agent's own first. Only profiles of the type `api_key` hold a key of a service; tokens and OAuth
logins are those of chat accounts. Like the configuration, the files are read at the moment of a
call and nothing of them is kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memtui.settings.openclaw.access import SecretReading, provider_id
from memtui.settings.openclaw.document import Unreadable, parse
from memtui.settings.openclaw.schema import DEFAULT_AGENT

AUTH_PROFILES: Final = "auth-profiles.json"
_API_KEY: Final = "api_key"


@dataclass(frozen=True, slots=True)
class ProfileKey:
    """The key of one profile, or why it cannot be read; the value is in no `repr`."""

    value: str = field(repr=False)
    problem: str = ""
    """One line, without any value."""


def profile_keys(
    provider: str, agent: str, state: Path, env: Mapping[str, str]
) -> Iterator[ProfileKey]:
    """The keys for a provider in the profiles of an agent; never raises for what files hold.

    In the order that the files give (`order`), else as they stand there. `env` has the variables
    that a key may name.
    """
    profiles: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    for name in dict.fromkeys((DEFAULT_AGENT, agent)):
        try:
            store = _store(state / "agents" / name / "agent" / AUTH_PROFILES)
        except Unreadable as error:
            yield ProfileKey("", str(error))
            continue
        profiles |= _table(store, "profiles")
        orders |= _table(store, "order")
    names = {provider, provider_id(provider)}
    ids = next((ids for key, ids in orders.items() if _folded(key) in names), None)
    for profile_id in dict.fromkeys(map(str, ids)) if isinstance(ids, list) and ids else profiles:
        profile = profiles.get(profile_id)
        if isinstance(profile, Mapping) and _folded(profile.get("provider")) in names:
            yield from _key(profile, env)


def _store(path: Path) -> Any:
    return parse(path) if os.path.lexists(path) else {}


def _table(store: Any, name: str) -> Mapping[str, Any]:
    found = store.get(name) if isinstance(store, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _key(profile: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[ProfileKey]:
    # The program takes `mode` and `apiKey`, which its configuration has, for their own names.
    if profile.get("type", profile.get("mode")) != _API_KEY:
        return
    reading = SecretReading(env)
    written = profile.get("keyRef") or profile.get("key", profile.get("apiKey"))
    value = reading.secret("key", "the key of a profile", written)
    problem = reading.problems.get("key", "")
    if value or problem:
        yield ProfileKey(value, problem)


def _folded(name: Any) -> str:
    return name.strip().lower() if isinstance(name, str) else ""
