"""Finding the key of a service, in the places that the settings name and in its usual ones.

A key is found for one address: what the settings name is meant for the configured address, what
just lies there (the service's own variables, OpenClaw's configuration) for the service's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memtui.embedding.keys.agent import is_at_home, keys_of_agent
from memtui.embedding.protocols import sendable
from memtui.settings.shown import shown_command, shown_variable
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice, KeyPlaces
    from memtui.embedding.services import Address, Service

KEY_COMMAND: Final = "embedding.key_command"
KEYRING: Final = "the keyring"
AGENT_CONFIG: Final = "OpenClaw's configuration"


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key, or why there is none; the value is in no `repr` and in no other field."""

    value: str = field(default="", repr=False)
    """Empty when there is none, and of a place that a look does not open."""
    origin: str = ""
    """Where it was found, for people; empty when there is none."""
    problem: str = ""
    """One line when a place that was looked at could not be read, or holds what is no key."""
    withheld: str = ""
    """One line when a key is there that is not meant for this address, so that it stays here."""

    @property
    def is_there(self) -> bool:
        """Whether there is a key, or a place that was configured and is only opened for use."""
        return bool(self.origin)


def find_key(
    service: Service,
    address: Address,
    choice: EmbeddingChoice,
    env: Mapping[str, str] | None = None,
    *,
    cancelled: Callable[[], bool] | None = None,
) -> FoundKey:
    """Find the key to send to an address; `env` is that of the process unless given.

    In this order: `key_env`, `key_command` (up to 10 s), the keyring (up to 5 s), the variables
    of the service, OpenClaw's configuration. Where `key_env` or `key_command` is set, nothing
    else is looked at. Never raises but for `Cancelled`.
    """
    env = os.environ if env is None else env
    if choice.keys.variable or choice.keys.command:
        return _configured(choice.keys, env, lambda: _printed(choice.keys.command, env, cancelled))
    in_keyring = _in_keyring(service, choice, cancelled)
    return _first(chain(in_keyring, _lying_there(service, address, choice, env)))


def has_key(
    service: Service,
    address: Address,
    choice: EmbeddingChoice,
    env: Mapping[str, str] | None = None,
) -> FoundKey:
    """Look whether there is a key, without running a command or asking the keyring.

    A configured command counts as a place that holds one. So does the keyring of a desktop, after
    every other place, for a provider that is chosen by name: only asking tells whether it does.
    """
    from memtui.embedding.keys.ring import may_hold_a_key

    env = os.environ if env is None else env
    if choice.keys.variable or choice.keys.command:
        return _configured(choice.keys, env, lambda: FoundKey(origin=KEY_COMMAND))
    found = _first(_lying_there(service, address, choice, env))
    named = choice.provider == service.name and choice.keys.keyring
    if not found.is_there and named and may_hold_a_key(env):
        return FoundKey("", f"{KEYRING}, if it holds one", found.problem, found.withheld)
    return found


def _configured(
    places: KeyPlaces, env: Mapping[str, str], command: Callable[[], FoundKey]
) -> FoundKey:
    """A place that the settings name; that it holds nothing is a problem."""
    if places.variable:
        value = env.get(places.variable, "").strip()
        if value or not places.command:
            origin = f"the variable {shown_variable(places.variable)} (embedding.key_env)"
            return _checked(value, origin) if value else FoundKey(problem=f"{origin} is not set")
    return command()


def _printed(
    command: str, env: Mapping[str, str], cancelled: Callable[[], bool] | None
) -> FoundKey:
    from memtui.embedding.keys.command import key_of_command

    try:
        return _checked(key_of_command(command, env, cancelled=cancelled), KEY_COMMAND)
    except ValueError as error:
        return FoundKey(problem=f"{KEY_COMMAND} ({shown_command(command)}) {error}")


def _checked(value: str, origin: str) -> FoundKey:
    if sendable(value):
        return FoundKey(value, origin)
    return FoundKey(problem=f"{origin} holds characters that cannot be sent as a key")


def _in_keyring(
    service: Service, choice: EmbeddingChoice, cancelled: Callable[[], bool] | None
) -> Iterator[FoundKey]:
    from memtui.embedding.keys.ring import is_installed, key_of_keyring

    if not (choice.keys.keyring and is_installed()):
        return
    try:
        value = key_of_keyring(service.name, cancelled=cancelled)
    except ValueError as error:
        yield FoundKey(problem=f"{KEYRING} {error}")
        return
    if value:
        yield _checked(value, KEYRING)


def _lying_there(
    service: Service, address: Address, choice: EmbeddingChoice, env: Mapping[str, str]
) -> Iterator[FoundKey]:
    """What each of the usual places holds, one after the other."""
    for name in service.key_variables:
        value = env.get(name, "").strip()
        if value and is_at_home(address):
            yield _checked(value, name)
        elif value:
            yield FoundKey(withheld=_withheld(name, service, address))
    if choice.keys.agent_config:
        home = Path(env.get("HOME") or os.path.expanduser("~"))
        yield from _of_agent(service, address, env, home)


def _of_agent(
    service: Service, address: Address, env: Mapping[str, str], home: Path
) -> Iterator[FoundKey]:
    for key in keys_of_agent(service, env, home):
        origin = f"{AGENT_CONFIG} ({key.place})" if key.place else AGENT_CONFIG
        if key.problem:
            yield FoundKey(problem=f"{origin}: {key.problem}")
        elif key.may_go_to(service, address):
            yield _checked(key.value, origin)
        else:
            yield FoundKey(withheld=_withheld(origin, service, address, key.base_url))


def _withheld(origin: str, service: Service, address: Address, meant_for: str = "") -> str:
    host = urlsplit(meant_for or service.base_url).hostname or "its own address"
    if host == address.host:
        return f"the key in {origin} is sent to {safe_line(host)} over https alone"
    return (
        f"the key in {origin} is meant for {safe_line(host)} and not sent to "
        f"{safe_line(address.shown)}; embedding.key_env names one that is"
    )


def _first(looks: Iterator[FoundKey]) -> FoundKey:
    """The first key, with what was wrong at the places before it."""
    problem = withheld = ""
    for look in looks:
        problem, withheld = problem or look.problem, withheld or look.withheld
        if look.is_there:
            return FoundKey(look.value, look.origin, problem)
    return FoundKey(problem=problem, withheld=withheld)
