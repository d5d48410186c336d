"""Asking a batch interface step by step: what fails in passing is tried again, nothing twice."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from memtui.embedding.batch.calls import Call
from memtui.embedding.batch.protocol import Polled
from memtui.embedding.batch.service import BatchService
from memtui.embedding.remote.failures import ServiceError, refusal, unparsed
from memtui.embedding.remote.replies import Reply
from memtui.embedding.retry import Schedule, retried
from memtui.errors import Cancelled
from memtui.model import Failure

T = TypeVar("T")

SCHEDULE: Final = Schedule(attempts=3, base_ms=300, longest_ms=2000)
"""Of one request, as OpenClaw's (OPENCLAW.md, section 10)."""
_LONGEST_ASKED_MS: Final = 60_000
_SLICE: Final = 0.05
"""Seconds: how long a wait goes on after it was to stop."""
_SLOWEST_LINE: Final = 100_000
"""Bytes a second."""
_QUICK: Final = 10.0
"""Seconds for a request that nothing depends on."""
_NOT_FOUND: Final = 404


class NoInterface(ServiceError):
    """The service says that it has no batches for this model or key."""


class Asker:
    """The steps of a batch at one service; every wait ends within 0.1 s once `cancelled`.

    All of them raise `Cancelled`, and `ServiceError` whose words hold nothing of an answer.
    """

    def __init__(
        self,
        service: BatchService,
        *,
        cancelled: Callable[[], bool],
        sleep: Callable[[float], None],
    ) -> None:
        self._service = service
        self._protocol = service.protocol
        self._cancelled = cancelled
        self._sleep = sleep

    def check(self) -> None:
        """Raise `Cancelled` once it is asked to stop."""
        if self._cancelled():
            raise Cancelled

    def wait(self, seconds: float, interrupted: Callable[[], bool] | None = None) -> bool:
        """Wait; whether the time passed without `interrupted` having become true."""
        left = seconds
        while left > 0:
            self.check()
            if interrupted is not None and interrupted():
                return False
            self._sleep(min(_SLICE, left))
            left -= _SLICE
        return True

    def upload(self, data: bytes) -> str:
        """Send an input file; its id."""
        return self._asked(lambda: self._protocol.upload(data), self._protocol.uploaded)

    def start(self, input_file: str) -> str:
        """Start the batch of an input file; its id.

        Where an answer does not come, or makes no sense, the batch may have been started all
        the same: it is looked for before it is started again. Raises `NoInterface`.
        """
        asked = False

        def run() -> str:
            nonlocal asked
            if asked and (found := self.find(input_file)):
                return found
            asked = True
            reply = self._send(self._protocol.create(input_file))
            if self._protocol.closes(reply.status):
                error = refusal(reply, self._service.asked)
                raise NoInterface(error.message, error.kind, hint=error.hint)
            return self._parsed(reply, self._protocol.created)

        return self.tried(run)

    def find(self, input_file: str) -> str:
        """The batch of an input file, where it was started; empty where it was not.

        A service that cannot list its batches has none to find.
        """
        try:
            return self._asked(
                self._protocol.listing, lambda answer: self._protocol.found(answer, input_file)
            )
        except ServiceError as error:
            if error.is_passing:
                raise
            return ""

    def poll(self, batch: str) -> Polled | None:
        """How a batch is; `None` when the service knows it no more."""
        reply = self._send(self._protocol.poll(batch))
        if reply.status == _NOT_FOUND:
            return None
        return self._parsed(reply, self._protocol.polled)

    def download(self, output: str) -> Iterator[bytes]:
        """A file of results as it comes in."""
        return self._service.transport.download(
            self._protocol.result(output),
            timeout=self._service.timeout,
            cancelled=self._cancelled,
        )

    def delete(self, *files: str) -> None:
        """Delete files whose content is needed no more, so that no text stays at the service.

        One that cannot be deleted is left: the service drops it by itself some day.
        """
        for file in filter(None, files):
            try:
                self._send(self._protocol.delete(file), _QUICK)
            except ServiceError:
                return

    def tried(self, run: Callable[[], T]) -> T:
        """Run it, and again where it fails in passing."""
        return retried(run, wait=self._pause, pause_after=_pause_after)

    def _asked(self, call: Callable[[], Call], parse: Callable[[object], T]) -> T:
        return self.tried(lambda: self._parsed(self._send(call()), parse))

    def _pause(self, milliseconds: int) -> None:
        self.wait(milliseconds / 1000)

    def _send(self, call: Call, most: float = math.inf) -> Reply:
        self.check()
        # A file takes as long as a slow line needs for it.
        timeout = min(most, self._service.timeout + len(call.body) / _SLOWEST_LINE)
        return self._service.transport.send(call, timeout=timeout, cancelled=self._cancelled)

    def _parsed(self, reply: Reply, parse: Callable[[object], T]) -> T:
        if not 200 <= reply.status < 300:
            raise refusal(reply, self._service.asked)
        try:
            answer: object = json.loads(reply.data)
        except (ValueError, RecursionError):
            raise unparsed(reply, self._service.asked) from None
        try:
            return parse(answer)
        except ValueError as error:
            words = f"{self._service.asked.address.shown} answers with no batch: {error}"
            raise ServiceError(words, Failure.BAD_ANSWER) from None


def _pause_after(error: Exception, failures: int) -> int | None:
    """The pause in ms, longer where the service asks for it within reason; `None` to give up."""
    pause = SCHEDULE.pause(failures)
    if pause is None or not isinstance(error, ServiceError) or not error.is_passing:
        return None
    return max(pause, min(_LONGEST_ASKED_MS, int(1000 * (error.retry_after or 0.0))))
