"""Finding the key of a service, in the places that the settings name and in its usual ones.

A key is found for one address: what the settings name is meant for the configured address, what
just lies there (the service's own variables, OpenClaw's configuration) for the service's own.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from memtui.embedding.provider import CHECK_SECONDS
from memtui.embedding.services import Address, Service, sendable
from memtui.errors import IsCancelled, never, stop_if
from memtui.settings.openclaw import read as openclaw
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.shown import KEY_COMMAND, shown_command, shown_variable
from memtui.text.sanitize import safe_line

KEYRING: Final = "the keyring"
AGENT_CONFIG: Final = "OpenClaw's configuration"


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key, or why there is none; the value is in no `repr` and in no other field."""

    value: str = field(default="", repr=False)
    """Empty when there is none, and of a place that a look does not open."""
    origin: str = ""
    """Its origin, for people, or a configured place that is only opened for use; empty: no key."""
    problem: str = ""
    """One line when a place cannot be read, holds what is no key, or one for another address."""


def find_key(
    service: Service,
    address: Address,
    choice: EmbeddingSettings,
    env: Mapping[str, str] | None = None,
    *,
    cancelled: IsCancelled = never,
    only_look: bool = False,
) -> FoundKey:
    """Find the key to send to an address; `env` is that of the process unless given.

    In this order: `key_env`, `key_command` (up to 10 s), the keyring (up to 5 s), the variables
    of the service, OpenClaw's configuration. Where `key_env` or `key_command` is set, nothing
    else is looked at. Never raises but for `Cancelled`.

    With `only_look` no command is run and no keyring asked: a configured command counts as a place
    that holds a key, and so does the keyring of a desktop, after every other place, for a provider
    that is chosen by name, as only asking tells whether it does.
    """
    env = os.environ if env is None else env
    if choice.key_env or choice.key_command:
        name, command = choice.key_env or "", choice.key_command or ""
        origin = f"the variable {shown_variable(name)} (embedding.key_env)"
        if value := env.get(name, "").strip():
            return _checked(FoundKey(value, origin))
        if not command:
            return FoundKey(problem=f"{origin} is not set")
        try:
            value = "" if only_look else key_of_command(command, env, cancelled=cancelled)
            return _checked(FoundKey(value, KEY_COMMAND))
        except ValueError as error:
            return FoundKey(problem=f"{KEY_COMMAND} ({shown_command(command)}) {error}")
    places = _usual_places(service, address, choice, env, cancelled, only_look)
    problem = ""
    for key in map(_checked, places):
        if key.origin:
            return key
        problem = problem or key.problem
    return FoundKey(problem=problem)


def _checked(key: FoundKey) -> FoundKey:
    if sendable(key.value):
        return key
    return FoundKey(problem=f"{key.origin} holds characters that cannot be sent as a key")


_PROVIDERS: Final = "models.providers apiKey"


def _usual_places(
    service: Service,
    address: Address,
    choice: EmbeddingSettings,
    env: Mapping[str, str],
    cancelled: IsCancelled,
    only_look: bool,
) -> Iterator[FoundKey]:
    """Yield what each place holds that the settings do not name, in the order of `find_key`.

    OpenClaw has keys for its default agent in its configuration, in the agent's
    `auth-profiles.json`, and in the variables that it reads for itself. Where the configuration
    cannot be read, nobody knows where a profile's key may go, so the profiles are left alone. The
    files are read anew at each call and nothing of them is kept.
    """

    def meant_for(value: str, origin: str, base_url: str = "") -> FoundKey:
        """Return a key that is meant for `base_url` alone, else for the service's own host."""
        # Its own host is asked by an encrypted connection alone.
        is_meant = address.is_loopback and not base_url
        with suppress(ValueError):
            is_meant = is_meant or _origin(service.address(base_url)) == _origin(address)
        if is_meant:
            return FoundKey(value, origin)
        host = urlsplit(base_url or service.base_url).hostname or "its own address"
        words = f"the key in {origin} is sent to {safe_line(host)} over https alone"
        if host != address.host:
            words = (
                f"the key in {origin} is meant for {safe_line(host)} and not sent to "
                f"{safe_line(address.shown)}; embedding.key_env names one that is"
            )
        return FoundKey(problem=words)

    def of_agent(secret: openclaw.Secret, place: str, base_url: str = "") -> Iterator[FoundKey]:
        """Yield the key of a place of OpenClaw's, or what is wrong with it, if there is either."""
        origin = f"{AGENT_CONFIG} ({place})" if place else AGENT_CONFIG
        if secret.problem:
            yield FoundKey(problem=f"{origin}: {secret.problem}")
        elif secret.value:
            yield meant_for(secret.value, origin, base_url)

    if choice.keyring and not only_look:
        try:
            if value := key_of_keyring(service.name, cancelled=cancelled):
                yield FoundKey(value, KEYRING)
        except ValueError as error:
            yield FoundKey(problem=f"{KEYRING} {error}")
    for name in service.key_variables:
        if value := env.get(name, "").strip():
            yield meant_for(value, name)
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    config = openclaw.read_config(env, home) if choice.agent_keys else None
    own = openclaw.own_variables(env, home) if choice.agent_keys else {}
    if config is not None and config.broken:
        yield from of_agent(openclaw.Secret(problem=config.problems[0]), "")
    elif config is not None:
        # A variable that is set and empty counts as not set.
        agent, variables = config.default_agent, {**env, **own}
        search = agent.search
        access = openclaw.read_remote(config, agent.name, variables, service.name)
        provider_url = access.provider_base_url.value
        # Its `auto` asks OpenAI with the one key that is configured for any.
        is_first = search.provider == "auto" and service.name == "openai"
        if search.provider == service.name or is_first:
            base_url, secret = search.remote_base_url, access.api_key
            if not base_url and "remote.baseUrl" in search.set_keys:
                secret = openclaw.Secret(problem="remote.baseUrl cannot be read")
            yield from of_agent(secret, "remote.apiKey", base_url or provider_url)
        if unknown := access.problem or access.provider_base_url.problem:
            yield from of_agent(openclaw.Secret(problem=unknown), _PROVIDERS)
        else:
            for profile in openclaw.profile_keys(
                service.name, agent.name, openclaw.state_dir_of(env, home), variables
            ):
                yield from of_agent(profile, openclaw.AUTH_PROFILES, provider_url)
            yield from of_agent(access.provider_api_key, _PROVIDERS, provider_url)
    for name in service.key_variables:
        if name in own:
            yield from of_agent(openclaw.Secret(own[name]), name)
    is_named = choice.provider == service.name and choice.keyring
    if only_look and is_named and may_hold_a_key(env):
        yield FoundKey(origin=f"{KEYRING}, if it holds one")


def _origin(address: Address) -> tuple[str, str, int | None]:
    scheme = urlsplit(address.url).scheme
    return scheme, address.host, address.port or {"http": 80, "https": 443}.get(scheme)


MAX_OUTPUT: Final = 64 * 1024
"""Bytes that a command may print."""


def key_of_command(
    command: str, env: Mapping[str, str], *, cancelled: IsCancelled = never, limit: float = 10.0
) -> str:
    """Run a command without a shell and return the first line that it prints, blanks dropped.

    What it leaves running, such as an agent that keeps a passphrase, goes on after a success and
    is not waited for. Raises `ValueError`, in one line without any of its output, when it fails in
    any way or takes longer than `limit` seconds; `Cancelled` within 0.1 s.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        raise ValueError("has a quote that does not end") from None
    if not words:
        raise ValueError("is empty")
    try:
        # In a session of its own it cannot write on the terminal, and ends with what it started.
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise ValueError(f"cannot be started: {why or 'it is no command'}") from None
    deadline, is_whole, has_ended = time.monotonic() + limit, False, False
    try:
        while not is_whole:
            stop_if(cancelled)
            if time.monotonic() > deadline:
                raise ValueError(f"took longer than {limit:g} s")
            try:
                output, _ = process.communicate(timeout=CHECK_SECONDS)
                is_whole = True
            except subprocess.TimeoutExpired as late:
                # What it has left running may hold the pipe still, and is not waited for: once it
                # has ended, all that it printed itself is there to be read in one more look.
                output, is_whole = late.output or b"", has_ended
            has_ended = process.poll() is not None
            if len(output) > MAX_OUTPUT:
                raise ValueError(f"prints more than {MAX_OUTPUT} bytes")
    except BaseException:
        with suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                # The group is there as long as one of it is, even when its first has ended.
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    if code := process.wait():
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise ValueError(how)
    lines = map(str.strip, output.decode("utf-8", "replace").split("\n"))
    if line := next(filter(None, lines), ""):
        return line
    raise ValueError("prints nothing")


_lock = threading.Lock()
_questions: dict[str, Future[str]] = {}
"""By provider, the questions that were still without an answer when last looked at."""


def may_hold_a_key(env: Mapping[str, str]) -> bool:
    """Return whether the package likely has a keyring of the system; loads and asks nothing."""
    if importlib.util.find_spec("keyring") is None:
        return False
    # On Linux the keyrings of the desktops answer on the session's bus; others are chosen.
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    is_configured = (folder / "python_keyring" / "keyringrc.cfg").is_file()
    is_chosen = importlib.util.find_spec("keyrings") is not None or is_configured
    signs = ("DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND")
    return sys.platform != "linux" or is_chosen or any(map(env.get, signs))


def key_of_keyring(name: str, *, cancelled: IsCancelled = never, limit: float = 5.0) -> str:
    """Return the key that the keyring holds for a provider; empty where there is none.

    Raises `ValueError`, in one line without any value, when it cannot be asked or takes longer
    than `limit` seconds, as a locked one may, and `Cancelled` within 0.1 s. A question without an
    answer is not asked a second time.
    """
    if importlib.util.find_spec("keyring") is None:
        return ""

    def ask(question: Future[str]) -> None:
        try:
            import keyring

            question.set_result((keyring.get_password("memtui", name) or "").strip())
        except BaseException as error:
            question.set_exception(error)

    with _lock:
        # One that came after its caller had given up is asked anew: it may be open now.
        if name not in _questions or _questions[name].done():
            _questions[name] = Future()
            # A daemon thread: the program ends although a locked keyring waits for its owner.
            threading.Thread(target=ask, args=(_questions[name],), daemon=True).start()
        question = _questions[name]
    deadline = time.monotonic() + limit
    while not wait([question], min(CHECK_SECONDS, limit)).done:
        stop_if(cancelled)
        if time.monotonic() >= deadline:
            raise ValueError(f"did not answer within {limit:g} s; it may be locked")
    with _lock:
        _questions.pop(name, None)
    if error := question.exception():
        kind = type(error).__name__
        if kind == "NoKeyringError":
            # The package without a keyring of the system behind it: there is none to hold a key.
            return ""
        # Backends raise what they like; the text of it may hold anything.
        raise ValueError(f"could not be asked: {kind}") from None
    return question.result()
