"""The texts that are still to be sent, and the input files that they are sent in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from memtui.embedding.batch.service import BatchService


class Outbox:
    """Hands out input files while what is left is worth a batch."""

    def __init__(
        self, service: BatchService, texts: Mapping[str, str], check: Callable[[], None]
    ) -> None:
        self.attempt = 1
        """Of what was taken last; 2 where texts of it come from a batch that ended too late."""
        self.is_filled = False
        self._service = service
        self._texts = texts
        self._check = check
        self._rest: list[str] = []
        """Hashes, the next last."""
        self._again: set[str] = set()
        """Hashes that were in a batch before."""
        self._is_second = False

    def fill(self, missing: set[str]) -> None:
        """Take in the texts that are missing."""
        self._rest += [text_hash for text_hash in self._texts if text_hash in missing][::-1]
        self.is_filled = True
        if self._is_second:
            self._again |= missing

    def put_back(self, hashes: Iterable[str]) -> None:
        """Take in texts for their second attempt, however few they are."""
        self._is_second = True
        if self.is_filled:
            again = list(hashes)
            self._rest += again
            self._again.update(again)

    @property
    def is_worth_a_batch(self) -> bool:
        """Whether what is left should be sent."""
        enough = len(self._rest) >= self._service.minimum or self._is_second
        return bool(self._rest) and enough

    def take(self) -> tuple[tuple[str, ...], bytes]:
        """Write down as many texts as one batch holds: their hashes, and the input file.

        Texts that the service does not take are passed over, perhaps all.
        """
        self._is_second = False
        limits, protocol = self._service.protocol.limits, self._service.protocol
        members: list[str] = []
        data = bytearray()
        while self._rest and len(members) < limits.most_texts:
            self._check()
            text_hash = self._rest[-1]
            text = self._texts[text_hash]
            line = protocol.line(text_hash, text) if self._service.takes(text) else b""
            if members and len(data) + len(line) > limits.most_bytes:
                break
            self._rest.pop()
            if line:
                data += line
                members.append(text_hash)
        self.attempt = 1 if self._again.isdisjoint(members) else 2
        return tuple(members), bytes(data)
