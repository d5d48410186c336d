"""The batches that are under way at a service, kept in a file so that a restart finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import msgspec

from memtui.embedding.batch.protocols import MOST_TEXTS, is_id
from memtui.embedding.provider import ProviderIdentity
from memtui.settings.storage import StateFolder, sync_folder

_VERSION: Final = 1
_MOST_BYTES: Final = 2**20


class Ticket(msgspec.Struct, frozen=True):
    """A batch at a service, or an input file there whose batch may have been started.

    Holds no text and no key: the results name the texts by their hashes.
    """

    service: str
    address: str
    """Host and port; nothing of a path or query."""
    provider: str
    model: str
    fingerprint: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{1,128}\Z")]
    input_file: str
    batch: str
    """Empty while it is not known whether the batch was started."""
    texts: Annotated[int, msgspec.Meta(ge=0, le=MOST_TEXTS)]
    """How many texts it was asked for."""
    submitted_at: float
    """Seconds since 1970."""
    expires_at: float
    """After that the service has forgotten it."""
    attempt: int = 1
    """2 for texts whose first batch did not end in time."""

    @property
    def owner(self) -> tuple[str, ...]:
        """Whose batch it is: the service, and the provider that its vectors are for."""
        return (self.service, self.address, self.provider, self.model, self.fingerprint)


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
        tickets = self._read()
        alive = [ticket for ticket in tickets if ticket.expires_at > now]
        if len(alive) < len(tickets):
            self._write(alive)
        owner = (service, address, identity.name, identity.model, identity.fingerprint)
        mine = [ticket for ticket in alive if ticket.owner == owner]
        return tuple(sorted(mine, key=lambda ticket: ticket.submitted_at))

    def put(self, ticket: Ticket) -> None:
        """Add a ticket, in place of an earlier one of its input file; raises `OSError`."""
        self._write([*self._without(ticket), ticket])

    def remove(self, ticket: Ticket) -> None:
        """Forget a ticket; raises `OSError`."""
        self._write(self._without(ticket))

    def _without(self, ticket: Ticket) -> list[Ticket]:
        same = (ticket.owner, ticket.input_file)
        return [other for other in self._read() if (other.owner, other.input_file) != same]

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
        value = {"version": _VERSION, "batches": msgspec.to_builtins(tickets)}
        StateFolder(self._path.parent).write_json(self._path.name, value)
        # Only then may a batch be started: one that is forgotten is paid for twice.
        sync_folder(self._path.parent)


def _ticket(entry: object) -> Ticket | None:
    """A ticket of a file that anybody may have written; `None` for what is none."""
    try:
        ticket = msgspec.convert(entry, Ticket)
    except msgspec.ValidationError:
        return None
    is_sound = is_id(ticket.input_file) and (not ticket.batch or is_id(ticket.batch))
    return ticket if is_sound else None
