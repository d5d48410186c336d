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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from memtui.embedding.payloads import sendable
from memtui.embedding.services import address_of
from memtui.errors import Cancelled
from memtui.settings.shown import shown_command, shown_variable
from memtui.text.sanitize import safe_line

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice, KeyPlaces
    from memtui.embedding.services import Address, Service
    from memtui.settings.openclaw import MemorySearchConfig
    from memtui.settings.openclaw.secrets import RemoteAccess


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


COMMAND_SECONDS: Final = 10.0
"""Seconds that the command may take."""
MAX_OUTPUT: Final = 64 * 1024
"""Bytes that it may print."""

_LOOK_EVERY: Final = 0.05


def key_of_command(
    command: str,
    env: Mapping[str, str],
    *,
    cancelled: Callable[[], bool] | None = None,
    limit: float = COMMAND_SECONDS,
) -> str:
    """Run a command without a shell and return the first line that it prints, blanks dropped.

    It has no input, and what it says on stderr is not shown. What it leaves running, such as an
    agent that keeps a passphrase, goes on after a success and is not waited for.

    Raises `ValueError`, in one line without any of its output, when it cannot be started, fails,
    prints nothing, prints more than `MAX_OUTPUT` bytes or takes longer than `limit` seconds;
    `Cancelled` within 0.1 s.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        raise ValueError("has a quote that does not end") from None
    if not words:
        raise ValueError("is empty")
    try:
        process = _start(words, env)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else None
        raise ValueError(f"cannot be started: {why or 'it is no command'}") from None
    try:
        output = _output(process, cancelled, limit)
        code = process.wait()
        if code:
            how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
            raise ValueError(how)
        line = next(filter(None, map(str.strip, output.decode("utf-8", "replace").split("\n"))), "")
        if not line:
            raise ValueError("prints nothing")
        return line
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()


def _start(words: list[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    # In a session of its own it cannot write on the terminal, and ends with what it started.
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(env),
        start_new_session=os.name == "posix",
    )


def _output(
    process: subprocess.Popen[bytes], cancelled: Callable[[], bool] | None, limit: float
) -> bytes:
    """Wait for a process to end, or for its output to; what it printed itself."""
    deadline = time.monotonic() + limit
    has_ended = False
    while True:
        try:
            output, _ = process.communicate(timeout=_LOOK_EVERY)
            return _short(output)
        except subprocess.TimeoutExpired as late:
            output = _short(late.output or b"")
        if has_ended:
            # What it has left running holds the pipe, and is not waited for.
            return output
        # Once it has ended, all that it printed itself is there to be read in one more look.
        has_ended = process.poll() is not None
        if cancelled is not None and cancelled():
            raise Cancelled
        if time.monotonic() > deadline:
            raise ValueError(f"took longer than {limit:g} s")


def _short(output: bytes) -> bytes:
    if len(output) > MAX_OUTPUT:
        raise ValueError(f"prints more than {MAX_OUTPUT} bytes")
    return output


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it has started, where that still runs."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            # The group is there as long as one of it is, even when its first has ended.
            os.killpg(process.pid, signal.SIGKILL)
        elif process.poll() is None:
            process.kill()
    process.wait()


SERVICE: Final = "memtui"
"""The name of the service in the keyring; the user name is that of the provider."""
KEYRING_SECONDS: Final = 5.0
"""Seconds that the keyring may take: a locked one may wait for its owner."""


_SIGNS: Final = ("DBUS_SESSION_BUS_ADDRESS", "PYTHON_KEYRING_BACKEND")


def is_installed() -> bool:
    """Whether there is a package that can ask; loads nothing."""
    return importlib.util.find_spec("keyring") is not None


def may_hold_a_key(env: Mapping[str, str]) -> bool:
    """Whether a keyring of the system is likely behind the package; loads and asks nothing."""
    if not is_installed():
        return False
    # On Linux the keyrings of the desktops answer on the session's bus; others are chosen.
    is_chosen = importlib.util.find_spec("keyrings") is not None or _is_configured(env)
    return sys.platform != "linux" or is_chosen or any(map(env.get, _SIGNS))


def _is_configured(env: Mapping[str, str]) -> bool:
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    folder = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    return (folder / "python_keyring" / "keyringrc.cfg").is_file()


@dataclass(slots=True)
class _Asking:
    """One question to the keyring, and what came of it."""

    name: str
    key: str = field(default="", repr=False)
    problem: str = ""
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        try:
            self.key = _password(self.name)
        except Exception as error:
            # Backends raise what they like; the text of it may hold anything.
            self.problem = f"could not be asked: {type(error).__name__}"
        finally:
            self.done.set()


_lock = threading.Lock()
_open: dict[str, _Asking] = {}
"""By provider, the questions that are still without an answer."""


def key_of_keyring(
    name: str, *, cancelled: Callable[[], bool] | None = None, limit: float = KEYRING_SECONDS
) -> str:
    """The key that the keyring holds for a provider, empty when it holds none or there is none.

    Raises `ValueError`, in one line without any value, when it cannot be asked or takes longer
    than `limit` seconds, and `Cancelled` within 0.1 s. A question without an answer is not asked
    a second time.
    """
    with _lock:
        asking = _open.get(name)
        if asking is None or asking.done.is_set():
            asking = _open[name] = _Asking(name)
            threading.Thread(target=asking.run, name="memtui-keyring", daemon=True).start()
    deadline = time.monotonic() + limit
    while not asking.done.wait(min(_LOOK_EVERY, limit)):
        if cancelled is not None and cancelled():
            raise Cancelled
        if time.monotonic() >= deadline:
            raise ValueError(f"did not answer within {limit:g} s; it may be locked")
    with _lock:
        _open.pop(name, None)
    if asking.problem:
        raise ValueError(asking.problem)
    return asking.key


def _password(name: str) -> str:
    import keyring
    from keyring.errors import NoKeyringError

    try:
        return (keyring.get_password(SERVICE, name) or "").strip()
    except NoKeyringError:
        # The package without a keyring of the system behind it: there is none to hold a key.
        return ""
