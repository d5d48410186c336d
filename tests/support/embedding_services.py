"""A server on this machine that embeds as OpenAI, Gemini, Voyage, Mistral and Ollama do, and who asks it.

A text's vector is made of its hash, so that each vector of an answer, and their order, can be
checked. The fields of the answers are those that the services were recorded with.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace as changed
from numpy.typing import NDArray

from memtui.embedding.api_keys import FoundKey
from memtui.embedding.http import Pacer
from memtui.embedding.provider import clean_vectors
from memtui.embedding.remote import RemoteProvider, plan_of
from memtui.embedding.services import Address, Service
from memtui.settings.schema import EmbeddingSettings
from tests.support.known import load

HTML = b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: `hang` gives none until the server stops, `cut` ends in the middle.

    It comes after `delay` seconds.
    """

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    cut: bool = False
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


class LoopbackServer(ThreadingHTTPServer):
    """A server that can hang; what it answers is told by its kinds."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.arrived = threading.Event()
        self.stopping = threading.Event()
        self.hanging = threading.Event()
        """Set once a request gets no answer."""
        self._lock = threading.Lock()

    @property
    def host(self) -> str:
        """Address and port, as messages show them."""
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://{self.host}"

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        raise NotImplementedError


Server = TypeVar("Server", bound=LoopbackServer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: a second small one would wait 40 ms for an acknowledgement.
    wbufsize = -1
    server: LoopbackServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._give(self.server.answer(self.command, self.path, headers, body))

    do_GET = do_CONNECT = do_DELETE = do_POST

    def _give(self, answer: Answer) -> None:
        if answer.hang:
            self.server.hanging.set()
            self.server.stopping.wait(30)
            self.close_connection = True
            return
        self.server.stopping.wait(answer.delay)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        extra = 100 if answer.cut else 0
        self.send_header("content-length", str(len(answer.body) + extra))
        self.end_headers()
        self.wfile.write(answer.body)
        self.close_connection = self.close_connection or answer.cut

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay silent."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Run a server of any kind for as long as the block runs."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


def as_json(value: Any, **more: Any) -> Answer:
    """Make an answer of JSON; `more` are fields of the answer."""
    return Answer(json.dumps(value).encode(), **more)


DIMENSIONS = 16
Fault: TypeAlias = Callable[[Seen], Answer]
Rows: TypeAlias = list[list[Any]]

SERVICE_PATHS = {"openai": "/v1", "voyage": "/v1", "mistral": "/v1", "gemini": "/v1beta"}
"""By provider, what its base URL ends with."""

OVERSIZE: dict[str, Any] = load("services")["oversize"]
"""By provider, the body of a 400 for input that is too long."""
NO_MODEL: dict[str, Any] = load("services")["no_model"]
"""By provider, the body for a model that is not there."""


def vector_of(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The numbers that the server gives for a text, as it is sent."""
    numbers: list[float] = []
    block = 0
    while len(numbers) < dimensions:
        digest = hashlib.sha256(f"{block}:{text}".encode("utf-8", "surrogatepass")).digest()
        numbers += [(byte - 127.5) / 128 for byte in digest]
        block += 1
    return numbers[:dimensions]


def rows_of(texts: Sequence[str], dimensions: int = DIMENSIONS) -> NDArray[np.float32]:
    """What a provider makes of the vectors of texts, as they are sent."""
    return clean_vectors(np.array([vector_of(text, dimensions) for text in texts]))


def texts_in(seen: Seen) -> list[str]:
    """The texts of a request, with the prefixes that they were sent with."""
    body = seen.body
    if "requests" in body:
        return [entry["content"]["parts"][0]["text"] for entry in body["requests"]]
    if "content" in body:
        return [body["content"]["parts"][0]["text"]]
    found = body["input"]
    return [found] if isinstance(found, str) else list(found)


def right_rows(seen: Seen) -> Rows:
    """The vectors that a request asks for."""
    body = seen.body["requests"][0] if "requests" in seen.body else seen.body
    names = ("dimensions", "outputDimensionality", "output_dimension")
    wanted = next((body[name] for name in names if name in body), DIMENSIONS)
    return [vector_of(text, wanted) for text in texts_in(seen)]


def answer_of(seen: Seen, rows: Rows, *, backwards: bool = False, **more: Any) -> Answer:
    """The answer with these vectors in the form of the service that a path belongs to."""
    tokens = sum(map(len, texts_in(seen)))
    if seen.path.partition("?")[0].endswith(":embedContent"):
        return as_json({"embedding": {"values": rows[0]}}, **more)
    if seen.path.partition("?")[0].endswith(":batchEmbedContents"):
        return as_json({"embeddings": [{"values": row} for row in rows]}, **more)
    model = seen.body["model"]
    if seen.path.endswith("/api/embed"):
        counts = {"total_duration": 14143917, "load_duration": 1019500, "prompt_eval_count": tokens}
        return as_json({"model": model, "embeddings": rows, **counts}, **more)
    data = [
        {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)
    ][:: -1 if backwards else 1]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return as_json({"object": "list", "data": data, "model": model, "usage": usage}, **more)


class EmbeddingServer(LoopbackServer):
    """Gives the right vectors, but for the requests that `faults` are there for, in turn.

    `stays` makes the last fault the answer to every further request.
    """

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Fault] = []
        self.stays = False
        self.seen: list[Seen] = []

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Note a request and answer it."""
        seen = Seen(path, headers, json.loads(body or b"null"))
        with self._lock:
            self.seen.append(seen)
            self.arrived.set()
            is_last = self.stays and len(self.faults) == 1
            fault = right
            if self.faults:
                fault = self.faults[0] if is_last else self.faults.pop(0)
        return fault(seen)


@contextmanager
def embedding_server(*faults: Fault, stays: bool = False) -> Iterator[EmbeddingServer]:
    """Run a server for as long as the block runs."""
    with serving(EmbeddingServer()) as server:
        server.faults, server.stays = list(faults), stays
        yield server


def altered(change: Callable[[Rows], Rows] = lambda rows: rows, **more: Any) -> Fault:
    """The right answer with other vectors; `more` are fields of the answer."""
    return lambda seen: answer_of(seen, change(right_rows(seen)), **more)


right = altered()
slow = altered(delay=0.05)
cut = altered(cut=True)
shuffled = altered(backwards=True)
fewer = altered(lambda rows: rows[:-1])
uneven = altered(lambda rows: [*rows[:-1], rows[-1][:-1]])


def giving(vector: Sequence[float]) -> Fault:
    """The right answer with the same vector for every text."""
    return altered(lambda rows: [list(vector)] * len(rows))


def holding(number: float) -> Fault:
    """The right answer with another number in the first vector."""
    return altered(lambda rows: [[number, *rows[0][1:]], *rows[1:]])


def longer(seen: Seen) -> Answer:
    """Vectors of more numbers than any model gives."""
    return altered(lambda rows: np.ones((len(rows), 20_000)).tolist())(seen)


def fixed(answer: Answer) -> Fault:
    """The same answer, whatever is asked."""
    return lambda seen: answer


def status(code: int, body: Any = None, **headers: str) -> Fault:
    """An answer with a status; header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return fixed(as_json({} if body is None else body, status=code, headers=named))


def hanging(seen: Seen) -> Answer:
    return Answer(hang=True)


def gzipped(seen: Seen) -> Answer:
    """The right answer, compressed."""
    plain = right(seen)
    return Answer(gzip.compress(plain.body), headers={"content-encoding": "gzip"})


def broken_off(seen: Seen) -> Answer:
    """The first half of the right answer, as if it were the whole."""
    body = right(seen).body
    return Answer(body[: len(body) // 2])


def key_in(seen: Seen) -> str:
    """The key that came with a request."""
    bearer = seen.headers.get("authorization", "").removeprefix("Bearer ")
    return bearer or seen.headers.get("x-goog-api-key", "")


def repeated_key(code: int) -> Fault:
    """A refusal that repeats the key, as services do."""
    return lambda seen: Answer(
        json.dumps({"error": {"message": f"Incorrect API key provided: {key_in(seen)}"}}).encode(),
        code,
    )


PROVIDERS = ("openai", "gemini", "voyage", "mistral", "ollama")
KEY = "sk-SECRET-of-the-environment-91c4"
KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "voyage": "VOYAGE_API_KEY",
    "mistral": "MISTRAL_API_KEY",
}
MODEL = "tiny-embed"
"""A model that no table knows, so that its number of dimensions is learned."""
NO_OTHER_KEYS: dict[str, Any] = {"keyring": False, "agent_keys": False}


@dataclass
class Clock:
    """Time that goes on only when somebody waits or moves it; `pauses` are what was waited."""

    now: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time go on at once."""
        self.pauses.append(seconds)
        self.now += seconds


@dataclass
class Keys:
    """Gives one key after the other; the last one stays."""

    values: list[str] = field(default_factory=lambda: [KEY])
    asked: int = 0

    def find(
        self,
        service: Service,
        address: Address,
        choice: EmbeddingSettings,
        env: Mapping[str, str] | None = None,
        *,
        cancelled: Callable[[], bool] | None = None,
    ) -> FoundKey:
        self.asked += 1
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return FoundKey(value, "OPENAI_API_KEY" if value else "")


def base_url(provider: str, server: EmbeddingServer) -> str:
    """The address of a server as it is configured for a provider."""
    return server.url + SERVICE_PATHS.get(provider, "")


def choice_at(provider: str, server: EmbeddingServer, **fields: Any) -> EmbeddingSettings:
    """The settings for a provider at a server; `fields` are further ones."""
    usual = {
        "base_url": base_url(provider, server),
        "model": MODEL,
        "query_timeout": 5.0,
        "batch_timeout": 5.0,
        "concurrency": 3,
        **NO_OTHER_KEYS,
    }
    return EmbeddingSettings(provider=provider, **{**usual, **fields})


def impatient(choice: EmbeddingSettings, seconds: float, **traffic: Any) -> EmbeddingSettings:
    """The same with other times."""
    return changed(choice, query_timeout=seconds, batch_timeout=seconds, **traffic)


def pacer_by(clock: Clock, choice: EmbeddingSettings) -> Pacer:
    """What sends for a provider, with pauses that pass at once."""
    limits = choice.requests_per_minute, choice.tokens_per_minute
    return Pacer(*limits, clock=clock, sleep=clock.sleep, chance=lambda: 0.0)


@contextmanager
def remote_provider(
    choice: EmbeddingSettings,
    *,
    find: Callable[..., FoundKey] | None = None,
    clock: Clock | None = None,
) -> Iterator[RemoteProvider]:
    """Make a provider whose pauses pass at once, and close it in the end."""
    pacer = pacer_by(clock or Clock(), choice)
    plan = plan_of(choice.provider, choice)
    with closing(RemoteProvider(plan, pacer, find or Keys().find)) as provider:
        yield provider
