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
"""OpenClaw's name of a service where it speaks of models, if that is another."""
_SECTIONS: Final = ("agents", "memory", "models")
_VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text, or headers by name, or why it cannot be read; the value is in no `repr`."""

    value: Any = field(default="", repr=False)
    problem: str = ""
    """One line, without any value."""


@dataclass(frozen=True, slots=True)
class RemoteAccess:
    """The agent's access to a service; of `remote` and of `models.providers`, kept apart."""

    api_key: Secret = Secret()
    headers: Secret = Secret({})
    provider_base_url: Secret = Secret()
    provider_api_key: Secret = Secret()
    provider_headers: Secret = Secret({})
    problem: str = ""
    """The reason why the whole file cannot be read."""


def read_remote(
    config: OpenClawConfig, agent: str, env: Mapping[str, str], provider: str
) -> RemoteAccess:
    """Read what an agent uses for a provider, from its file; never raises for what that holds."""
    if config.path is None:
        return RemoteAccess()
    try:
        document, problems = read_sections(config.path, _SECTIONS)
        if problems:
            # An include that cannot be used may say where a key goes.
            raise Unreadable(problems[0])
    except Unreadable as error:
        return RemoteAccess(problem=str(error))
    tables: list[Any] = []
    if config.layout is not None:
        # The strongest first.
        own = (one.content for one in agents_in(document, []) if one.name == agent_id(agent))
        tables += [deep(content, *steps_of(config.layout), "remote") for content in own]
        tables.append(deep(document, *config.layout.split("."), "remote"))
    key, headers = (
        next(filter(None, (deep(table, name) for table in tables)), None)
        for name in ("apiKey", "headers")
    )
    named = (
        content
        for name, content in _table(document, "models", "providers").items()
        if _folded(name) == provider_id(provider) and isinstance(content, dict)
    )
    shared, place = next(filter(None, named), {}), "models.providers"
    return RemoteAccess(
        api_key=_read_secret("remote.apiKey", key, env),
        headers=_read_headers("remote.headers", headers, env),
        provider_base_url=_read_text(f"{place} baseUrl", shared.get("baseUrl"), env),
        provider_api_key=_read_secret(f"{place} apiKey", shared.get("apiKey"), env),
        provider_headers=_read_headers(f"{place} headers", shared.get("headers"), env),
    )


def provider_id(name: str) -> str:
    """Return what OpenClaw calls a provider where it speaks of models: `google` for `gemini`."""
    return _PROVIDER_IDS.get(name, name)


def _table(content: Any, *steps: str) -> Mapping[str, Any]:
    table = deep(content, *steps)
    return table if isinstance(table, Mapping) else {}


def _folded(name: Any) -> str:
    return name.strip().lower() if isinstance(name, str) else ""


def _read_text(place: str, value: Any, env: Mapping[str, str]) -> Secret:
    try:
        if not isinstance(value, str | None):
            raise ValueError("must be a text")
        return Secret(filled(value or "", env).strip())
    except ValueError as error:
        return Secret(problem=f"{place} {error}")


def _read_secret(place: str, value: Any, env: Mapping[str, str]) -> Secret:
    """Read a text, the name of a variable, or a reference to one; no other store is asked."""
    if isinstance(value, Mapping):
        name = value.get("id") if value.get("source") == "env" else None
        if not isinstance(name, str):
            return Secret(problem=f"{place} refers to a store that is not read here")
    else:
        text = _read_text(place, value, env)
        name = text.value
        if not _VARIABLE_NAME.fullmatch(name):
            return text
    key = env.get(name, "").strip()
    shown = name if _VARIABLE_NAME.fullmatch(name) else "a variable"
    return Secret(key, "" if key else f"{place} names {shown}, which is not set here")


def _read_headers(place: str, value: Any, env: Mapping[str, str]) -> Secret:
    headers = value if isinstance(value, Mapping) else {}
    read = {str(name): _read_secret(f"a value of {place}", headers[name], env) for name in headers}
    problem = next((one.problem for one in read.values() if one.problem), "")
    return Secret({name: one.value for name, one in read.items() if one.value}, problem)


AUTH_PROFILES: Final = "auth-profiles.json"
_API_KEY: Final = "api_key"


def profile_keys(
    provider: str, agent: str, state: Path, env: Mapping[str, str]
) -> Iterator[Secret]:
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
            yield Secret(problem=str(error))
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
            written = profile.get("keyRef") or profile.get("key", profile.get("apiKey"))
            yield _read_secret("the key of a profile", written, env)


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
        block = _table(read_sections(path, ("env",))[0], "env") if path is not None else {}
        texts = (pair for table in (block, _table(block, "vars")) for pair in table.items())
        variables = {str(name): text.strip() for name, text in texts if isinstance(text, str)}
    with suppress(OSError, ValueError):
        text = read_bytes(state_dir_of(env, home) / DOTENV).decode("utf-8-sig")
        for match in filter(None, map(_LINE.fullmatch, text.splitlines())):
            value = match[2].strip()
            quoted = _QUOTED.fullmatch(value)
            variables[match[1]] = quoted[2] if quoted else _COMMENT.sub("", value)
    return {name: value for name, value in variables.items() if value and not env.get(name)}
