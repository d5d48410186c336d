"""Keys of services that an OpenClaw configuration on this machine holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memtui.embedding.services import address_of

if TYPE_CHECKING:
    from memtui.embedding.services import Address, Service
    from memtui.settings.openclaw import MemorySearchConfig
    from memtui.settings.openclaw.secrets import RemoteAccess

FIRST_OF_AUTO: Final = "openai"
"""The service that OpenClaw's `auto` asks with the one key that is configured for any."""

_PROVIDERS: Final = "models.providers apiKey"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AgentKey:
    """A key of OpenClaw's, and where it may go."""

    value: str = field(repr=False)
    place: str
    """Where it stands, for people; holds no value."""
    base_url: str = field(default="", repr=False)
    """The only address that it is meant for; empty: the service's own host."""
    problem: str = ""
    """One line, without any value, when something is there and cannot be read."""

    def may_go_to(self, service: Service, address: Address) -> bool:
        """Whether the key is meant for an address."""
        if not self.base_url:
            return is_at_home(address)
        try:
            return _origin(address_of(service, self.base_url)) == _origin(address)
        except ValueError:
            return False


def is_at_home(address: Address) -> bool:
    """Whether an address is the service's own host, encrypted, or this machine."""
    is_encrypted = urlsplit(address.url).scheme == "https"
    return address.is_loopback or (address.is_own and is_encrypted)


def keys_of_agent(service: Service, env: Mapping[str, str], home: Path) -> Iterator[AgentKey]:
    """The keys for a service that OpenClaw has for its default agent, the nearest first.

    Of its configuration, the agent's `auth-profiles.json`, and the variables that it reads for
    itself. Where the configuration cannot be read, nobody knows where a profile's key may go, so
    the profiles are left alone. Reads the files anew at each call and keeps nothing of them. A
    file that cannot be read is a problem without a value.
    """
    from memtui.settings.openclaw import read_config
    from memtui.settings.openclaw.document import state_dir_of
    from memtui.settings.openclaw.secrets import (
        AUTH_PROFILES,
        AgentRemote,
        own_variables,
        profile_keys,
    )

    own = own_variables(env, home)
    config = read_config(env, home)
    if config.broken:
        yield AgentKey("", "", problem=config.problems[0])
    else:
        agent = config.default_agent
        # A variable that is set and empty counts as not set.
        known = {**env, **own}
        access = AgentRemote(config, agent.name, known).read(service.name)
        yield from _of_search(service, agent.search, access)
        unknown = access.problems.get("file") or access.problems.get("provider_base_url")
        if unknown:
            yield AgentKey("", _PROVIDERS, problem=unknown)
        else:
            for key in profile_keys(service.name, agent.name, state_dir_of(env, home), known):
                yield AgentKey(key.value, AUTH_PROFILES, access.provider_base_url, key.problem)
            yield from _of_provider(access)
    for name in service.key_variables:
        if name in own:
            yield AgentKey(own[name], name)


def _of_search(
    service: Service, search: MemorySearchConfig, access: RemoteAccess
) -> Iterator[AgentKey]:
    if search.provider != service.name and not (
        search.provider == "auto" and service.name == FIRST_OF_AUTO
    ):
        return
    base_url = search.remote_base_url
    if not base_url and "remote.baseUrl" in search.set_keys:
        yield AgentKey("", "remote.apiKey", problem="remote.baseUrl cannot be read")
    elif access.api_key or "api_key" in access.problems:
        yield AgentKey(
            access.api_key,
            "remote.apiKey",
            base_url or access.provider_base_url,
            access.problems.get("api_key", ""),
        )


def _of_provider(access: RemoteAccess) -> Iterator[AgentKey]:
    if access.provider_api_key or "provider_api_key" in access.problems:
        yield AgentKey(
            access.provider_api_key,
            _PROVIDERS,
            access.provider_base_url,
            access.problems.get("provider_api_key", ""),
        )


def _origin(address: Address) -> tuple[str, str, int | None]:
    scheme = urlsplit(address.url).scheme
    return scheme, address.host, address.port or _PORTS.get(scheme)
