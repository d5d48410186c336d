"""The batches that are under way at a service, kept in a file so that a restart finds them."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from memtui.embedding.batch.protocols import MOST_TEXTS, is_id
from memtui.embedding.provider import ProviderIdentity
from memtui.settings.storage import sync_folder

_VERSION: Final = 1
_MOST_BYTES: Final = 2**20
_HEX: Final = re.compile(r"[0-9a-f]{1,128}")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A batch at a service, or an input file there whose batch may have been started.

    Holds no text and no key: the results name the texts by their hashes.
    """

    service: str
    address: str
    """Host and port; nothing of a path or query."""
    provider: str
    model: str
    fingerprint: str
    input_file: str
    batch: str
    """Empty while it is not known whether the batch was started."""
    texts: int
    """How many texts it was asked for."""
    submitted_at: float
    """Seconds since 1970."""
    expires_at: float
    """After that the service has forgotten it."""
    attempt: int = 1
    """2 for texts whose first batch did not end in time."""


class BatchStore:
    """Reads and replaces the file as a whole; a damaged one counts as empty.

    One that cannot be read is not taken for empty, which would be to pay for its batches again.
    For one writer: the caller holds the lock of the index. The file is readable for its owner
    only, and gone when nothing is under way.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def under_way(
        self, service: str, address: str, identity: ProviderIdentity, now: float
    ) -> tuple[Ticket, ...]:
        """The batches of an identity at a service, oldest first; forgets what has expired.

        Raises `OSError`.
        """
        every = self._read()
        if len(alive := [ticket for ticket in every if ticket.expires_at > now]) < len(every):
            self._write(alive)
        wanted = (service, address, identity.name, identity.model, identity.fingerprint)
        mine = [ticket for ticket in alive if _key(ticket) == wanted]
        return tuple(sorted(mine, key=lambda ticket: ticket.submitted_at))

    def put(self, ticket: Ticket) -> None:
        """Add a ticket, in place of an earlier one of its input file; raises `OSError`."""
        self._write([*self._without(ticket), ticket])

    def remove(self, ticket: Ticket) -> None:
        """Forget a ticket; raises `OSError`."""
        self._write(self._without(ticket))

    def _without(self, ticket: Ticket) -> list[Ticket]:
        same = (_key(ticket), ticket.input_file)
        return [other for other in self._read() if (_key(other), other.input_file) != same]

    def _read(self) -> list[Ticket]:
        try:
            with self._path.open("rb") as file:
                data = json.loads(file.read(_MOST_BYTES))
        except (FileNotFoundError, ValueError, RecursionError):
            return []
        listed = data.get("batches") if isinstance(data, dict) else None
        if not isinstance(listed, list) or data.get("version") != _VERSION:
            return []
        return [ticket for entry in listed if (ticket := _ticket(entry)) is not None]

    def _write(self, tickets: list[Ticket]) -> None:
        if not tickets:
            self._path.unlink(missing_ok=True)
            return
        value = {"version": _VERSION, "batches": [asdict(ticket) for ticket in tickets]}
        new = self._path.with_name(f"{self._path.name}.tmp")
        try:
            descriptor = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(value, indent=1).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
            # Only then may a batch be started: one that is forgotten is paid for twice.
            sync_folder(self._path.parent)
        except BaseException:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise


def _key(ticket: Ticket) -> tuple[str, str, str, str, str]:
    return (ticket.service, ticket.address, ticket.provider, ticket.model, ticket.fingerprint)


def _ticket(entry: Any) -> Ticket | None:
    """A ticket of a file that anybody may have written; `None` for what is none."""
    if not isinstance(entry, dict):
        return None
    values: dict[str, Any] = {spec.name: entry.get(spec.name) for spec in fields(Ticket)}
    numbers = ("texts", "submitted_at", "expires_at", "attempt")
    for name, value in values.items():
        right = type(value) in (int, float) if name in numbers else isinstance(value, str)
        if not right:
            return None
    ticket = Ticket(**values)
    ids = [ticket.input_file, *([ticket.batch] if ticket.batch else [])]
    counted = type(ticket.texts) is int and 0 <= ticket.texts <= MOST_TEXTS
    sound = counted and _HEX.fullmatch(ticket.fingerprint) and all(map(is_id, ids))
    return ticket if sound else None
