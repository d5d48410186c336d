"""Keys, headers and addresses of embedding services in an OpenClaw configuration.

`read_config` keeps no secret. This reads them at the moment of a call and keeps none of them
either: what it returns shows no secret in its `repr` and is dropped after the call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memtui.settings.files import read_bytes
from memtui.settings.openclaw.read import (
    Unreadable,
    agent_id,
    agents_in,
    config_file,
    deep,
    filled,
    parse,
    read_sections,
    state_dir_of,
    steps_of,
)
from memtui.settings.openclaw.schema import DEFAULT_AGENT, OpenClawConfig

_PROVIDER_IDS: Final = {"gemini": "google"}
"""What OpenClaw calls a service where it speaks of models, if that is another name."""
_SECTIONS: Final = ("agents", "memory", "models")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """How the agent reaches a service; of `remote` and of `models.providers`, kept apart."""

    api_key: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    provider_base_url: str = field(default="", repr=False)
    provider_api_key: str = field(default="", repr=False)
    provider_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    problems: Mapping[str, str] = field(default_factory=dict)
    """One line, without any value, for a field that cannot be read; `file` for the whole file."""


class AgentRemote:
    """Reads one agent's configuration file anew at each call, and holds nothing of it."""

    def __init__(self, config: OpenClawConfig, agent: str, env: Mapping[str, str]) -> None:
        self._path, self._layout = config.path, config.layout
        self._agent = agent_id(agent)
        self._env = env

    def read(self, provider: str) -> RemoteAccess:
        """Read what the agent uses for a provider; never raises for what the file holds."""
        if self._path is None:
            return RemoteAccess()
        try:
            document, problems = read_sections(self._path, _SECTIONS)
            if problems:
                # An include that cannot be used may say where a key goes.
                raise Unreadable(problems[0])
        except Unreadable as error:
            return RemoteAccess(problems={"file": str(error)})
        key = headers = None
        for remote in self._remotes(document):
            key = deep(remote, "apiKey") or key
            headers = deep(remote, "headers") or headers
        named: Mapping[str, Any] = {}
        for name, content in _table(document, "models", "providers").items():
            if _folded(name) == provider_id(provider) and isinstance(content, dict):
                named = named or content
        reading, place = SecretReading(self._env), "models.providers"
        url, provider_key = named.get("baseUrl"), named.get("apiKey")
        return RemoteAccess(
            api_key=reading.secret("api_key", "remote.apiKey", key),
            headers=reading.headers("headers", "remote.headers", headers),
            provider_base_url=reading.text("provider_base_url", f"{place} baseUrl", url),
            provider_api_key=reading.secret("provider_api_key", f"{place} apiKey", provider_key),
            provider_headers=reading.headers(
                "provider_headers", f"{place} headers", named.get("headers")
            ),
            problems=reading.problems,
        )

    def _remotes(self, document: Any) -> Iterator[Any]:
        """Yield the `remote` tables, the weakest first."""
        if self._layout is not None:
            yield deep(document, *self._layout.split("."), "remote")
            for agent in agents_in(document, []):
                if agent.name == self._agent:
                    yield deep(agent.content, *steps_of(self._layout), "remote")


def provider_id(name: str) -> str:
    """Return what OpenClaw calls a provider where it speaks of models: `google` for `gemini`."""
    return _PROVIDER_IDS.get(name, name)


def _table(content: Any, *steps: str) -> Mapping[str, Any]:
    table = deep(content, *steps)
    return table if isinstance(table, Mapping) else {}


def _folded(name: Any) -> str:
    return name.strip().lower() if isinstance(name, str) else ""


class SecretReading:
    """Reads values that may name variables, and notes by field what cannot be read."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.problems: dict[str, str] = {}

    def text(self, field_name: str, place: str, value: Any) -> str:
        if value is None:
            return ""
        try:
            if not isinstance(value, str):
                raise ValueError("must be a text")
            return filled(value, self._env).strip()
        except ValueError as error:
            self.problems[field_name] = f"{place} {error}"
            return ""

    def secret(self, field_name: str, place: str, value: Any) -> str:
        """Read a text, the name of a variable, or a reference to one; no other store is asked."""
        if not isinstance(value, Mapping):
            name = self.text(field_name, place, value)
            if not _VARIABLE_NAME.fullmatch(name):
                return name
        elif value.get("source") == "env" and isinstance(value.get("id"), str):
            name = value["id"]
        else:
            self.problems[field_name] = f"{place} refers to a store that is not read here"
            return ""
        key = self._env.get(name, "").strip()
        if not key:
            shown = name if _VARIABLE_NAME.fullmatch(name) else "a variable"
            self.problems[field_name] = f"{place} names {shown}, which is not set here"
        return key

    def headers(self, field_name: str, place: str, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            return {}
        place = f"a value of {place}"
        read = {str(name): self.secret(field_name, place, text) for name, text in value.items()}
        return {name: text for name, text in read.items() if text}


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
    """Yield the keys for a provider in the profiles of an agent; never raises for what files hold.

    In the order that the files give (`order`), else as they stand there. `env` has the variables
    that a key may name.
    """
    profiles: dict[str, Any] = {}
    orders: dict[str, Any] = {}
    for name in dict.fromkeys((DEFAULT_AGENT, agent)):
        path = state / "agents" / name / "agent" / AUTH_PROFILES
        try:
            store = parse(path) if os.path.lexists(path) else {}
        except Unreadable as error:
            yield ProfileKey("", str(error))
            continue
        profiles |= _table(store, "profiles")
        orders |= _table(store, "order")
    names = {provider, provider_id(provider)}
    ids = next((ids for key, ids in orders.items() if _folded(key) in names), None)
    for profile_id in dict.fromkeys(map(str, ids)) if isinstance(ids, list) and ids else profiles:
        profile = profiles.get(profile_id)
        if not isinstance(profile, Mapping) or _folded(profile.get("provider")) not in names:
            continue
        # The program takes `mode` and `apiKey`, which its configuration has, for their own names.
        if profile.get("type", profile.get("mode")) == _API_KEY:
            reading = SecretReading(env)
            written = profile.get("keyRef") or profile.get("key", profile.get("apiKey"))
            value = reading.secret("key", "the key of a profile", written)
            problem = reading.problems.get("key", "")
            if value or problem:
                yield ProfileKey(value, problem)


DOTENV: Final = ".env"

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")
# Looked for where blanks begin alone: a line of blanks takes no time that grows with its square.
_COMMENT = re.compile(r"(?<!\s)\s+#.*")


def own_variables(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the variables that OpenClaw would add to `env`, without those that are set there.

    Those of `.env` in its state folder come before those of `env` in its configuration. A file
    that cannot be read gives none.
    """
    variables: dict[str, str] = {}
    path = config_file(env, home)
    # What is wrong with the file is said by whoever reads the rest of it.
    with suppress(Unreadable):
        block = None if path is None else deep(read_sections(path, ("env",))[0], "env")
        variables = {**_texts(block), **_texts(deep(block, "vars"))}
    with suppress(OSError, ValueError):
        text = read_bytes(state_dir_of(env, home) / DOTENV).decode("utf-8-sig")
        for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
            value = match[2].strip()
            quoted = _QUOTED.fullmatch(value)
            variables[match[1]] = quoted[2] if quoted else _COMMENT.sub("", value)
    return {name: value for name, value in variables.items() if value and not env.get(name)}


def _texts(block: Any) -> dict[str, str]:
    if not isinstance(block, Mapping):
        return {}
    return {str(name): value.strip() for name, value in block.items() if isinstance(value, str)}
