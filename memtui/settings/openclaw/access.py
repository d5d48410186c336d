"""Keys, headers and addresses of embedding services in an OpenClaw configuration.

`read_config` keeps no secret. This reads them at the moment of a call and keeps none of them
either: what it returns shows no secret in its `repr` and is dropped after the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from memtui.settings.openclaw.document import Includes, Unreadable, filled, parse
from memtui.settings.openclaw.read import agent_id
from memtui.settings.openclaw.schema import NEW_LAYOUT, Layout, OpenClawConfig

_PROVIDER_IDS: Final = {"gemini": "google"}
"""Where `models.providers` names a service otherwise."""
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
        self._path: Path | None = config.path
        self._layout: Layout | None = config.layout
        self._agent = agent_id(agent)
        self._env = env

    def read(self, provider: str) -> RemoteAccess:
        """Read what the agent uses for a provider; never raises for what the file holds."""
        if self._path is None:
            return RemoteAccess()
        try:
            document = _document(self._path)
        except Unreadable as error:
            return RemoteAccess(problems={"file": str(error)})
        reading = SecretReading(self._env)
        key: Any = None
        headers: Any = None
        for remote in self._remotes(document):
            key = remote.get("apiKey") or key
            headers = remote.get("headers") or headers
        named = _provider(document, provider_id(provider))
        return RemoteAccess(
            api_key=reading.secret("api_key", "remote.apiKey", key),
            headers=reading.headers("headers", "remote.headers", headers),
            provider_base_url=reading.text(
                "provider_base_url", "models.providers baseUrl", named.get("baseUrl")
            ),
            provider_api_key=reading.secret(
                "provider_api_key", "models.providers apiKey", named.get("apiKey")
            ),
            provider_headers=reading.headers(
                "provider_headers", "models.providers headers", named.get("headers")
            ),
            problems=reading.problems,
        )

    def _remotes(self, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """The `remote` tables, the weakest first."""
        if self._layout is None:
            return
        new = self._layout == NEW_LAYOUT
        own = ("memory", "search") if new else ("memorySearch",)
        yield _table(document, *self._layout.split("."), "remote")
        for entry in _entries(document):
            if agent_id(entry[0]) == self._agent:
                yield _table(entry[1], *own, "remote")
                return


def provider_id(name: str) -> str:
    """What OpenClaw calls a provider where it speaks of models: `google` for `gemini`."""
    return _PROVIDER_IDS.get(name, name)


def _document(path: Path) -> Mapping[str, Any]:
    """Raises `Unreadable`, also for an include that cannot be used: it may say where a key goes."""
    includes = Includes(path)
    document = includes.resolved(parse(path), (path,), deep=False)
    if not isinstance(document, dict):
        return {}
    for name in _SECTIONS:
        if name in document:
            document[name] = includes.resolved(document[name], (path,))
    if includes.problems:
        raise Unreadable(includes.problems[0])
    return document


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    agents = _table(document, "agents")
    listed = agents.get("list")
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict):
            yield item.get("id"), item
    yield from _table(agents, "entries").items()
    yield from ((name, item) for name, item in agents.items() if name not in ("list", "entries"))


def _provider(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    for id_, content in _table(document, "models", "providers").items():
        if str(id_).strip().lower() == name and isinstance(content, dict):
            return content
    return {}


def _table(content: Any, *steps: str) -> Mapping[str, Any]:
    for step in steps:
        content = content.get(step) if isinstance(content, Mapping) else None
    return content if isinstance(content, Mapping) else {}


class SecretReading:
    """Reads values that may name variables, and notes by field what cannot be read."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.problems: dict[str, str] = {}

    def text(self, field_name: str, place: str, value: Any) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            self.problems[field_name] = f"{place} must be a text"
            return ""
        try:
            return filled(value, self._env).strip()
        except ValueError as error:
            self.problems[field_name] = f"{place} {error}"
            return ""

    def secret(self, field_name: str, place: str, value: Any) -> str:
        """A text, the name of a variable, or a reference to one; other stores are not asked."""
        if not isinstance(value, Mapping):
            found = self.text(field_name, place, value)
            named = _VARIABLE_NAME.fullmatch(found)
            return self._variable(field_name, place, found) if named else found
        name = value.get("id")
        if value.get("source") == "env" and isinstance(name, str):
            return self._variable(field_name, place, name)
        self.problems[field_name] = f"{place} refers to a store that is not read here"
        return ""

    def headers(self, field_name: str, place: str, value: Any) -> dict[str, str]:
        if not isinstance(value, Mapping):
            return {}
        read = {
            str(name): self.secret(field_name, f"a value of {place}", text)
            for name, text in value.items()
        }
        return {name: text for name, text in read.items() if text}

    def _variable(self, field_name: str, place: str, name: str) -> str:
        value = self._env.get(name, "").strip()
        if not value:
            shown = name if _VARIABLE_NAME.fullmatch(name) else "a variable"
            self.problems[field_name] = f"{place} names {shown}, which is not set here"
        return value
