"""Asking the system's keyring for a key, where the package `keyring` is installed."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from memtui.errors import Cancelled

SERVICE: Final = "memtui"
"""The name of the service in the keyring; the user name is that of the provider."""
TIME_LIMIT: Final = 5.0
"""Seconds that the keyring may take: a locked one may wait for its owner."""

_LOOK_EVERY: Final = 0.05
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
    name: str, *, cancelled: Callable[[], bool] | None = None, limit: float = TIME_LIMIT
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
