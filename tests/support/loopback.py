"""A real HTTP server on this machine that speaks what embedding services speak."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

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
    """Answers with `answers`, one after the other; the last one stays."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = [Answer()]
        self.seen: list[Seen] = []
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
        """Answer a request."""
        return self.take(Seen(path, headers, json.loads(body or b"null")))

    def take(self, seen: Seen) -> Answer:
        """Note a request and choose its answer."""
        with self._lock:
            self.seen.append(seen)
            self.arrived.set()
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


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
def loopback(*answers: Answer) -> Iterator[LoopbackServer]:
    """Run a server for as long as the block runs."""
    server = LoopbackServer()
    if answers:
        server.answers = list(answers)
    with serving(server):
        yield server


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


def openai_answer(vector: Sequence[Any], **more: Any) -> Answer:
    """Answer as OpenAI, Mistral, Voyage and LM Studio do."""
    entry = {"object": "embedding", "index": 0, "embedding": list(vector)}
    return as_json({"object": "list", "data": [entry], "model": "m"}, **more)


def gemini_answer(vector: Sequence[Any], **more: Any) -> Answer:
    """Answer as Gemini's `embedContent` does."""
    return as_json({"embedding": {"values": list(vector)}}, **more)


def ollama_answer(vector: Sequence[Any], **more: Any) -> Answer:
    """Answer as Ollama's `/api/embed` does."""
    return as_json({"model": "m", "embeddings": [list(vector)]}, **more)
