"""Every way in which an embedding service can fail, and what becomes of three texts then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memtui.model import Failure
from tests.support.embedding_services import (
    NO_MODEL,
    OVERSIZE,
    Fault,
    broken_off,
    cut,
    fewer,
    fixed,
    gzipped,
    hanging,
    holding,
    repeated_key,
    shuffled,
    slow,
    status,
    uneven,
)
from tests.support.loopback import HTML, Answer
from tests.support.remote_embedding import PROVIDERS

FaultOf = Callable[[str], Fault]


@dataclass(frozen=True)
class Case:
    """A fault, whether it stays, how it ends and after how many requests for three texts."""

    name: str
    fault: FaultOf
    requests: int
    failure: Failure | None = None
    stays: bool = False
    pauses: tuple[float, ...] = ()
    seconds: float = 5.0
    only: tuple[str, ...] = PROVIDERS


def always(fault: Fault) -> FaultOf:
    """The same fault for every provider."""
    return lambda provider: fault


def oversize(provider: str) -> Fault:
    """A 400 for input that is too long, in the words of the provider."""
    return status(400, OVERSIZE[provider])


def no_model(provider: str) -> Fault:
    """The refusal of a model that is not there, in the words of the provider."""
    return status(404 if provider in ("openai", "gemini", "ollama") else 400, NO_MODEL[provider])


INDEXED = ("openai", "voyage", "mistral")
NAN, INF = float("nan"), float("inf")
SHORT, LONG = (0.5, 1.0), (5.0, 10.0, 20.0, 40.0)
CASES = [
    Case("success", always(gzipped), 1),
    Case("400-oversize", oversize, 3),
    Case("400-oversize-stays", oversize, 3, Failure.TOO_LARGE, True),
    Case("413", always(status(413)), 3, Failure.TOO_LARGE, True),
    Case("400", always(status(400)), 1, Failure.BAD_REQUEST, True),
    Case("401", always(repeated_key(401)), 1, Failure.KEY_REFUSED, True),
    Case("403", always(repeated_key(403)), 1, Failure.FORBIDDEN, True),
    Case("404", no_model, 1, Failure.NO_MODEL, True),
    Case("429", always(status(429)), 2, pauses=(5.0,)),
    Case("429-retry-after", always(status(429, retry_after="7")), 2, pauses=(7.0,)),
    Case(
        "429-date",
        always(status(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")),
        2,
        pauses=(0.0,),
    ),
    Case("429-tomorrow", always(status(429, retry_after="86400")), 1, Failure.RATE_LIMITED, True),
    Case("429-stays", always(status(429)), 5, Failure.RATE_LIMITED, True, LONG),
    Case("500", always(status(500)), 2, pauses=(0.5,)),
    Case("500-stays", always(status(500)), 3, Failure.SERVICE_DOWN, True, SHORT),
    Case("503", always(status(503)), 2, pauses=(0.5,)),
    Case("503-retry-after", always(status(503, retry_after="3")), 2, pauses=(3.0,)),
    Case("slow", always(slow(0.05)), 1, seconds=2.0),
    Case("hanging", always(hanging), 3, Failure.TIMEOUT, True, SHORT, seconds=0.06),
    Case("cut", always(cut), 2, pauses=(0.5,)),
    Case("cut-stays", always(cut), 9, Failure.CUT, True, 3 * SHORT),
    Case("dimensions", always(uneven), 1, Failure.DIMENSIONS_DIFFER, True),
    Case("fewer", always(fewer), 2, pauses=(0.5,)),
    Case("fewer-stays", always(fewer), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("shuffled", always(shuffled), 1, only=INDEXED),
    Case("nan", always(holding(NAN)), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("infinity", always(holding(INF)), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("not-json", always(fixed(Answer(b"hello"))), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("broken-off", always(broken_off), 2, pauses=(0.5,)),
    Case("html", always(fixed(Answer(HTML))), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("html-502", always(fixed(Answer(HTML, 502))), 3, Failure.SERVICE_DOWN, True, SHORT),
    Case(
        "no-gzip",
        always(fixed(Answer(b"x", headers={"content-encoding": "gzip"}))),
        3,
        Failure.BAD_ANSWER,
        True,
        SHORT,
    ),
]
