"""What went wrong at a service: one line of our own words, the kind of failure, what to do.

The words of an answer are looked at to tell what it means, and never shown: they may repeat the
key or the text that was sent.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from memtui.embedding.remote.replies import Reply, pause_asked
from memtui.embedding.retry import is_splittable
from memtui.embedding.services import Address
from memtui.errors import ProviderError
from memtui.model import Failure

if TYPE_CHECKING:
    from memtui.embedding.protocols import WrongAnswer

_OVERSIZE: Final = re.compile(
    r"too (?:large|long|many (?:tokens|inputs|texts))|max(?:imum)? (?:input|context|token|allowed)"
    r"|max allowed tokens|context[_ ]length|token limit|at most \d+ requests"
    r"|exceeds? the (?:limit|max|context)|must have less than|reduce the (?:length|number)",
    re.IGNORECASE | re.ASCII,
)
_INPUT_OVERSIZE: Final = re.compile(
    r"(?:input|inputs|request) (?:is |are )?too (?:large|long)|increase the physical batch size",
    re.IGNORECASE,
)
_WRONG_KEY: Final = re.compile(r"API_KEY_INVALID|api key (?:not|is not|expired)", re.IGNORECASE)
_NO_MODEL: Final = re.compile(
    r"(?:invalid|unknown|no such) model|model_not_found"
    r"|\bmodels?\b.{0,120}(?:not (?:found|exist|supported|available)|does not exist)",
    re.IGNORECASE,
)
_NO_QUOTA: Final = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)

_HINTS: Final = {
    Failure.FORBIDDEN: "the key may lack the right to this model: see the service's account page",
    Failure.BAD_REQUEST: "check embedding.model and embedding.dimensions",
    Failure.TOO_LARGE: "use a model that takes longer texts",
    Failure.RATE_LIMITED: "embedding.requests_per_minute and tokens_per_minute slow it down",
    Failure.SERVICE_DOWN: "try again later; a fallback answers meanwhile where one is set",
    Failure.REDIRECTED: "set embedding.base_url to the address it has now",
    Failure.BAD_ANSWER: "check embedding.base_url: another kind of server may answer there",
    Failure.DIMENSIONS_DIFFER: "check embedding.dimensions and embedding.model",
    Failure.TIMEOUT: "embedding.query_timeout and batch_timeout set how long it may take",
    Failure.UNREACHABLE: "check the network, the proxy and embedding.base_url",
    Failure.CUT: "try again; a proxy on the way may limit what passes",
    Failure.BAD_SETTING: "check embedding.base_url, embedding.ca_file and the proxy variables",
}


class ServiceError(ProviderError):
    """A failure at a service; `retry_after` in seconds where it asks for a pause."""

    def __init__(
        self,
        message: str,
        failure: Failure,
        *,
        hint: str | None = None,
        retry_after: float | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(
            message, hint=_HINTS.get(failure, "") if hint is None else hint, failure=failure
        )
        self.kind = failure
        self.retry_after = retry_after
        self.is_final = is_final
        """Whether waiting does not help although failures of this kind pass."""

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.kind.is_passing and not self.is_final

    @property
    def is_splittable(self) -> bool:
        """Whether fewer texts may succeed where these failed."""
        return self.kind in (Failure.TOO_LARGE, Failure.CUT)


@dataclass(frozen=True, slots=True)
class Asked:
    """Who was asked, with what, for the words of a failure; holds no secret."""

    address: Address
    key_name: str = ""
    """What a message calls the key, like `the key of OPENAI_API_KEY`; empty when none went."""
    key_hint: str = ""
    """What to do when a key is missing or refused."""
    model_hint: str = "check embedding.model and embedding.base_url"
    """What to do when there is no such model."""


def refusal(reply: Reply, asked: Asked) -> ServiceError:
    """The failure that an answer other than a success is."""
    said = f"HTTP {reply.status} from {asked.address.shown}"
    failure = failure_in(reply)
    pause = pause_asked(reply) if failure.is_passing else None
    if failure is Failure.RATE_LIMITED and _NO_QUOTA.search(reply.words()):
        hint = "see plan and billing on the service's account page"
        words = f"{said}: the account's quota is used up"
        return ServiceError(words, failure, hint=hint, is_final=True)
    words = f"{said}{_status_words(reply.status, failure, asked, pause)}"
    hints = {Failure.KEY_REFUSED: asked.key_hint, Failure.NO_MODEL: asked.model_hint}
    return ServiceError(words, failure, hint=hints.get(failure), retry_after=pause)


def failure_in(reply: Reply) -> Failure:
    """The kind of failure that an answer tells, by its status and the words in it."""
    status = reply.status
    if status in (400, 422):
        words = reply.words()
        if _OVERSIZE.search(words) or is_splittable(words):
            return Failure.TOO_LARGE
        if _WRONG_KEY.search(words):
            return Failure.KEY_REFUSED
        if _NO_MODEL.search(words):
            return Failure.NO_MODEL
    # llama-server says so with 500, and OpenAI with 429 where a request alone is above the limit.
    if status in (429, 500) and _INPUT_OVERSIZE.search(reply.words()):
        return Failure.TOO_LARGE
    if 300 <= status < 400:
        return Failure.REDIRECTED
    if status >= 500:
        return Failure.SERVICE_DOWN
    if status < 300:
        return Failure.BAD_ANSWER
    return _BY_STATUS.get(status, Failure.BAD_REQUEST)


_BY_STATUS: Final = {
    401: Failure.KEY_REFUSED,
    403: Failure.FORBIDDEN,
    404: Failure.NO_MODEL,
    408: Failure.TIMEOUT,
    413: Failure.TOO_LARGE,
    429: Failure.RATE_LIMITED,
    431: Failure.TOO_LARGE,
}


def _status_words(status: int, failure: Failure, asked: Asked, pause: float | None) -> str:
    if failure is Failure.KEY_REFUSED or status in (401, 403):
        wanted = f"{asked.key_name} is not accepted" if asked.key_name else "it wants a key"
        return f": {wanted}"
    words = _WORDS.get(failure, "the request is not accepted")
    if pause is not None and pause > LONG_PAUSE:
        words += f", again in {pause:.0f} s"
    return f": {words}"


_WORDS: Final = {
    Failure.TOO_LARGE: "the text is too long for it",
    Failure.NO_MODEL: "no such model or path",
    Failure.RATE_LIMITED: "too many requests",
    Failure.SERVICE_DOWN: "the service fails",
    Failure.REDIRECTED: "a redirect, which is not followed",
    Failure.TIMEOUT: "it waited too long",
    Failure.BAD_ANSWER: "not an answer with vectors",
}

LONG_PAUSE: Final = 2.0
"""Seconds: a pause that is longer is told."""


def unparsed(reply: Reply, asked: Asked) -> ServiceError:
    """The failure of an answer that should be JSON and is not."""
    what = "a web page" if reply.data.lstrip()[:1] == b"<" else "what is not JSON"
    return ServiceError(f"{asked.address.shown} answers with {what}", Failure.BAD_ANSWER)


def wrong_answer(error: WrongAnswer, asked: Asked) -> ServiceError:
    """The failure of an answer whose vectors cannot be used."""
    return ServiceError(f"{asked.address.shown}: {error}", error.failure)


def too_much(address: Address, limit: int) -> ServiceError:
    """The failure of an answer of more than `limit` bytes."""
    words = f"{address.shown} answers with more than {limit // 2**20} MiB"
    return ServiceError(words, Failure.BAD_ANSWER)


def no_answer(address: Address, seconds: float) -> ServiceError:
    """The failure of an answer that did not come in time."""
    return ServiceError(f"no answer from {address.shown} in {seconds:g} s", Failure.TIMEOUT)


def unusable(address: Address) -> ServiceError:
    """The failure of an address, a proxy or certificates that cannot be used at all."""
    words = f"cannot ask {address.shown}: its address, or the proxy or certificate settings here"
    return ServiceError(f"{words}, cannot be used", Failure.BAD_SETTING)


def broken(error: Exception, address: Address) -> ServiceError:
    """The failure that an exception of the HTTP library is, none of whose words are taken."""
    import httpx

    shown, causes = address.shown, list(_causes(error))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ServiceError(f"the host {shown} cannot be found", Failure.UNREACHABLE)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        trust = "embedding.ca_file names certificates to trust besides the usual"
        words = f"no trusted TLS connection to {shown}"
        return ServiceError(words, Failure.UNREACHABLE, hint=trust)
    if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        running = "is the server running?" if address.is_loopback else None
        words = f"connection refused at {shown}"
        return ServiceError(words, Failure.UNREACHABLE, hint=running)
    if isinstance(error, httpx.ProxyError):
        return ServiceError(f"the proxy does not connect to {shown}", Failure.UNREACHABLE)
    if isinstance(error, httpx.ConnectError):
        return ServiceError(f"no connection to {shown}", Failure.UNREACHABLE)
    if isinstance(error, httpx.DecodingError):
        words = f"{shown} answers with what cannot be decompressed"
        return ServiceError(words, Failure.BAD_ANSWER)
    if isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        return ServiceError(f"{shown} cut the connection", Failure.CUT)
    return ServiceError(f"cannot ask {shown}: {type(error).__name__}", Failure.BAD_SETTING)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
