"""Every way in which a service can fail, for every service.

Each ends in the right vectors or in a named failure, after the requests and pauses that are meant,
with the key nowhere; and once the service works again, in the vectors of a run without faults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from memtui.errors import ProviderError
from memtui.model import Failure
from tests.support.embedding_services import (
    HTML,
    KEY,
    NO_MODEL,
    OVERSIZE,
    PROVIDERS,
    Answer,
    Clock,
    Fault,
    broken_off,
    choice_at,
    cut,
    embedding_server,
    fewer,
    fixed,
    gzipped,
    hanging,
    holding,
    impatient,
    key_in,
    longer,
    remote_provider,
    repeated_key,
    right,
    rows_of,
    shuffled,
    slow,
    status,
    uneven,
)


@dataclass(frozen=True)
class Case:
    """A fault, how many requests three texts take, how it ends, and the pauses between."""

    fault: Fault
    requests: int
    failure: Failure | None = None
    """With one, the fault stays."""
    pauses: tuple[float, ...] = ()
    seconds: float = 5.0
    only: tuple[str, ...] = PROVIDERS
    by_provider: Callable[[str], Fault] | None = None
    """The fault in the words of each provider."""


def oversize(provider: str) -> Fault:
    return status(400, OVERSIZE[provider])


def no_model(provider: str) -> Fault:
    return status(404 if provider in ("openai", "gemini", "ollama") else 400, NO_MODEL[provider])


SHORT, LONG = (0.5, 1.0), (5.0, 10.0, 20.0, 40.0)
LONG_AGO = "Wed, 21 Oct 2015 07:28:00 GMT"
NO_GZIP = fixed(Answer(b"x", headers={"content-encoding": "gzip"}))
CASES = {
    "success": Case(gzipped, 1),
    "slow": Case(slow, 1, seconds=2.0),
    "shuffled": Case(shuffled, 1, only=("openai", "voyage", "mistral")),
    "400-oversize": Case(right, 3, by_provider=oversize),
    "400-oversize-stays": Case(right, 3, Failure.TOO_LARGE, by_provider=oversize),
    "413": Case(status(413), 3, Failure.TOO_LARGE),
    "400": Case(status(400), 1, Failure.BAD_REQUEST),
    "401": Case(repeated_key(401), 1, Failure.KEY_REFUSED),
    "403": Case(repeated_key(403), 1, Failure.FORBIDDEN),
    "404": Case(right, 1, Failure.NO_MODEL, by_provider=no_model),
    "429": Case(status(429), 2, pauses=(5.0,)),
    "429-retry-after": Case(status(429, retry_after="7"), 2, pauses=(7.0,)),
    "429-date": Case(status(429, retry_after=LONG_AGO), 2, pauses=(0.0,)),
    "429-minutes": Case(status(429, retry_after="61"), 1, Failure.RATE_LIMITED),
    "429-stays": Case(status(429), 5, Failure.RATE_LIMITED, LONG),
    "500": Case(status(500), 2, pauses=(0.5,)),
    "500-stays": Case(status(500), 3, Failure.SERVICE_DOWN, SHORT),
    "503-retry-after": Case(status(503, retry_after="3"), 2, pauses=(3.0,)),
    "hanging": Case(hanging, 3, Failure.TIMEOUT, SHORT, seconds=0.2),
    "cut": Case(cut, 2, pauses=(0.5,)),
    "cut-stays": Case(cut, 9, Failure.CUT, 3 * SHORT),
    "dimensions": Case(uneven, 1, Failure.DIMENSIONS_DIFFER),
    "too-many-dimensions": Case(longer, 1, Failure.DIMENSIONS_DIFFER),
    "fewer": Case(fewer, 2, pauses=(0.5,)),
    "fewer-stays": Case(fewer, 3, Failure.BAD_ANSWER, SHORT),
    "nan": Case(holding(float("nan")), 3, Failure.BAD_ANSWER, SHORT),
    "infinity": Case(holding(float("inf")), 3, Failure.BAD_ANSWER, SHORT),
    "broken-off": Case(broken_off, 2, pauses=(0.5,)),
    "not-json": Case(fixed(Answer(b"hello")), 3, Failure.BAD_ANSWER, SHORT),
    "html-502": Case(fixed(Answer(HTML, 502)), 3, Failure.SERVICE_DOWN, SHORT),
    "no-gzip": Case(NO_GZIP, 3, Failure.BAD_ANSWER, SHORT),
    "redirect": Case(status(307, location="http://localhost:9"), 1, Failure.REDIRECTED),
}
TEXTS = ["the router is in the hall", "the gate code changed", "京都駅から清水寺まで"]


def fault_of(case: Case, provider: str) -> Fault:
    return case.by_provider(provider) if case.by_provider is not None else case.fault


@pytest.mark.parametrize(
    ("name", "provider"), [(name, each) for name, case in CASES.items() for each in case.only]
)
def test_right_vectors_or_a_named_failure(name: str, provider: str) -> None:
    case, clock = CASES[name], Clock()
    stays = case.failure is not None
    with embedding_server(fault_of(case, provider), stays=stays) as server:
        choice = impatient(choice_at(provider, server), case.seconds, concurrency=1)
        with remote_provider(choice, clock=clock) as it:
            if case.failure is None:
                np.testing.assert_array_equal(it.embed_documents(TEXTS), rows_of(TEXTS))
            else:
                with pytest.raises(ProviderError) as caught:
                    it.embed_documents(TEXTS)
                assert caught.value.failure is case.failure
                assert not {"SECRET", "\n"} & set(str(caught.value).split(" "))
                assert KEY not in repr(caught.value)
            assert (len(server.seen), tuple(clock.pauses)) == (case.requests, case.pauses)
            assert {key_in(seen) for seen in server.seen} == {KEY}
            server.faults = []
        # A time so short that a server hangs in it is too short for a busy machine.
        with remote_provider(choice_at(provider, server)) as it:
            np.testing.assert_array_equal(it.embed_documents(TEXTS), rows_of(TEXTS))
