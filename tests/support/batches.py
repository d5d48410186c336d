"""A server that speaks the batch interfaces of four services, and runs of batches at it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
from msgspec.structs import replace

from memtui.embedding.batch import BatchInterface, BatchRun, BatchStore
from memtui.embedding.provider import ProviderIdentity, clean_vectors
from memtui.embedding.remote import RemoteProvider, plan_of
from memtui.index.embedding_cache import EmbeddingCache
from memtui.model import Usage
from memtui.settings.schema import EmbeddingSettings
from tests.support.embedding_services import (
    SERVICE_PATHS,
    Answer,
    Clock,
    Keys,
    LoopbackServer,
    Seen,
    as_json,
    pacer_by,
    right,
    serving,
    vector_of,
)

NAMES = ("openai", "voyage", "mistral", "gemini")
WAITING, DONE, FAILED, EXPIRED = (
    dict(zip(NAMES, words.split(), strict=True))
    for words in (
        "in_progress validating RUNNING BATCH_STATE_RUNNING",
        "completed completed SUCCESS BATCH_STATE_SUCCEEDED",
        "failed failed FAILED BATCH_STATE_FAILED",
        "expired expired TIMEOUT_EXCEEDED JOB_STATE_EXPIRED",
    )
)
DIMENSIONS = 8
TOKENS = 3
"""What every answer says that its text took."""


def numbers_of(text: str) -> list[float]:
    """The vector that the server gives for a text, before it is made of length 1."""
    return vector_of(text, DIMENSIONS)


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A request as it arrived; header names in lower case."""

    step: str
    """`upload`, `create`, `list`, `poll`, `download`, `delete`, or `inline` for one without a batch."""
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Job:
    """A batch that was started."""

    name: str
    input_file: str
    body: dict[str, Any]
    states: deque[str] = field(default_factory=deque)


class BatchServer(LoopbackServer):
    """Keeps files and batches; `states` are what a batch is at its polls, the last one stays.

    `faults` are answers that come first at a step instead of the right one, `None` lets one
    pass; with `acts` true the request still has its effect, as when only the answer is lost.
    `tamper` changes the lines of results.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service
        self.states = [WAITING[service], DONE[service]]
        self.has_output = True
        self.faults: dict[str, deque[Answer | None]] = {}
        self.acts = False
        self.inline = False
        """Whether it embeds texts at once, too; one that does not has no such path."""
        self.tamper: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
        self.calls: list[SeenCall] = []
        self.files: dict[str, bytes] = {}
        self.deleted: list[str] = []
        """The names of files as they were deleted; `files` keeps what was sent."""
        self.jobs: dict[str, Job] = {}

    @property
    def base_url(self) -> str:
        """The base address of the service."""
        return self.url + SERVICE_PATHS[self.service]

    def steps(self) -> list[str]:
        """The steps in the order in which they were asked for."""
        return [call.step for call in self.calls]

    def fail(self, step: str, *answers: Answer | None) -> None:
        """Answer so at a step, one after the other."""
        self.faults[step] = deque(answers)

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Note a request and answer it."""
        parts = urlsplit(target)
        path = unquote(parts.path)
        step = "delete" if method == "DELETE" else self._step(method, path)
        with self._lock:
            self.calls.append(SeenCall(step, method, path, parts.query, headers, body))
            waiting = self.faults.get(step)
            fault = waiting.popleft() if waiting else None
            if fault is not None and not self.acts:
                return fault
            right = self._right(step, path, headers, body)
            return right if fault is None else fault

    def _step(self, method: str, path: str) -> str:
        base = SERVICE_PATHS[self.service]
        jobs = f"{base}/batch/jobs" if self.service == "mistral" else f"{base}/batches"
        if self.service == "gemini":
            if path == f"/upload{base}/files":
                return "upload"
            if path.startswith(f"/download{base}/files/") and path.endswith(":download"):
                return "download"
            if method == "POST" and path.endswith(":asyncBatchEmbedContent"):
                return "create"
        elif (method, path) == ("POST", f"{base}/files"):
            return "upload"
        elif path.startswith(f"{base}/files/") and path.endswith("/content"):
            return "download"
        elif (method, path) == ("POST", jobs):
            return "create"
        if self.inline and path.endswith(("/embeddings", ":batchEmbedContents")):
            return "inline"
        if (method, path) == ("GET", jobs):
            return "list"
        return "poll" if method == "GET" and path.startswith(f"{jobs}/") else "unknown"

    def _right(self, step: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if step == "upload":
            return self._upload(headers, body)
        if step == "create":
            return self._create(path, json.loads(body))
        if step == "list":
            listed = [self._told(job, DONE[self.service]) for job in self.jobs.values()]
            return as_json({"operations" if self.service == "gemini" else "data": listed})
        if step == "poll":
            return self._poll(path)
        if step == "download":
            return self._download(path)
        if step == "delete":
            self.deleted.append(path.removeprefix(f"{SERVICE_PATHS[self.service]}/"))
            return as_json({})
        return (
            right(Seen(path, headers, json.loads(body))) if step == "inline" else Answer(b"", 404)
        )

    def _upload(self, headers: Mapping[str, str], body: bytes) -> Answer:
        message = message_from_bytes(
            b"content-type: " + headers["content-type"].encode() + b"\r\n\r\n" + body
        )
        parts: Any = message.get_payload()
        first, second = parts
        content: bytes = second.get_payload(decode=True)
        number = len(self.files) + 1
        if self.service == "gemini":
            assert json.loads(first.get_payload())["file"]["mimeType"] == "application/jsonl"
            name = f"files/in-{number}"
        else:
            assert first.get_param("name", header="content-disposition") == "purpose"
            assert first.get_payload() == "batch"
            assert second.get_filename()
            name = f"file-in-{number}"
        self.files[name] = content
        answer = {"id": name, "object": "file", "purpose": "batch"}
        return as_json({"file": {"name": name}} if self.service == "gemini" else answer)

    def _create(self, path: str, body: dict[str, Any]) -> Answer:
        if self.service == "gemini":
            name, input_file = "batches/", body["batch"]["inputConfig"]["fileName"]
        elif self.service == "mistral":
            name, (input_file,) = "job-", body["input_files"]
        else:
            name, input_file = "batch_", body["input_file_id"]
        if input_file not in self.files:
            return Answer(b'{"error":"no such file"}', 400)
        job = Job(f"{name}{len(self.jobs) + 1}", input_file, body, deque(self.states))
        self.jobs[job.name] = job
        return as_json(self._told(job, WAITING[self.service]))

    def _poll(self, path: str) -> Answer:
        job = self.jobs.get(path.removeprefix(SERVICE_PATHS[self.service] + "/"))
        job = job or self.jobs.get(path.rpartition("/")[2])
        if job is None:
            return Answer(b"", 404)
        state = job.states.popleft() if len(job.states) > 1 else job.states[0]
        return as_json(self._told(job, state))

    def _told(self, job: Job, state: str) -> dict[str, Any]:
        name = f"{job.input_file}-out"
        output = name if self.has_output and state != WAITING[self.service] else None
        if self.service == "gemini":
            title = job.body["batch"]["displayName"]
            stats = {"requestCount": "9", "successfulRequestCount": "1"}
            metadata = {"state": state, "displayName": title, "batchStats": stats}
            ended = {"done": True, "response": {"responsesFile": output}} if output else {}
            return {"name": job.name, "metadata": metadata, **ended}
        told: dict[str, Any] = {"id": job.name, "status": state}
        if self.service == "mistral":
            files = {"input_files": [job.input_file], "output_file": output}
            return told | files | {"succeeded_requests": 1}
        files = {"input_file_id": job.input_file, "output_file_id": output}
        return told | files | {"request_counts": {"total": 9, "completed": 1, "failed": 0}}

    def _download(self, path: str) -> Answer:
        name = next((name for name in self.files if f"{name}-out" in path), None)
        if name is None:
            return Answer(b"", 404)
        made = [self._result(json.loads(line)) for line in self.files[name].splitlines()]
        return Answer(b"".join(line + b"\n" for line in self.tamper(made[::-1])))

    def _result(self, asked: dict[str, Any]) -> bytes:
        """The line for one request; lines come in another order than the requests."""
        if self.service == "gemini":
            text = asked["request"]["content"]["parts"][0]["text"]
            usage = {"promptTokenCount": TOKENS}
            answer = {"embedding": {"values": numbers_of(text)}, "usageMetadata": usage}
            return json.dumps({"key": asked["key"], "response": answer}).encode()
        given = asked["body"]["input"]
        (text,) = given if isinstance(given, list) else [given]
        entry = {"object": "embedding", "index": 0, "embedding": numbers_of(text)}
        body = {"object": "list", "data": [entry], "usage": {"total_tokens": TOKENS}}
        response = {"status_code": 200, "body": body}
        return json.dumps(
            {"custom_id": asked["custom_id"], "response": response, "error": None}
        ).encode()


@contextmanager
def batch_server(service: str) -> Iterator[BatchServer]:
    """Run a server for as long as the block runs."""
    with serving(BatchServer(service)) as server:
        yield server


KEY = "sk-batch-secret-5521"
PREFIX = "note: "


def texts_of(count: int, start: int = 0) -> dict[str, str]:
    """Texts by hash."""
    texts = [f"text {number} über ∑" for number in range(start, start + count)]
    return {hashlib.sha256(text.encode()).hexdigest(): text for text in texts}


@dataclass(slots=True)
class FakeClock:
    """Seconds since 1970 that pass when somebody sleeps, `speed` times as fast."""

    now: float = 1_790_000_000.0
    speed: float = 1.0
    slept: float = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds * self.speed
        self.slept += seconds


def make_interface(server: BatchServer, dimensions: int | None = DIMENSIONS) -> BatchInterface:
    """The batch interface of the service that a server speaks for."""
    choice = EmbeddingSettings(
        provider=server.service,
        model="model-1",
        base_url=server.base_url,
        dimensions=dimensions,
        document_prefix=PREFIX,
        batch_timeout=5.0,
        batch=True,
    )
    pacer = pacer_by(Clock(), choice)
    provider = RemoteProvider(plan_of(server.service, choice), pacer, Keys([KEY]).find)
    interface = provider.batches(bool)
    assert interface is not None
    return interface


class Ran(NamedTuple):
    """What came of a run, and how many of its texts have a vector now."""

    spent: Usage
    note: str
    waiting: bool
    done: int


@dataclass(slots=True)
class Bench:
    """Everything that a run needs, and what it said."""

    server: BatchServer
    interface: BatchInterface
    identity: ProviderIdentity
    folder: Path
    cache: EmbeddingCache
    clock: FakeClock = field(default_factory=FakeClock)
    told: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def store(self) -> BatchStore:
        """The store, as a new process opens it."""
        return BatchStore(self.folder / "batches.json")

    def run(self, texts: dict[str, str], **options: Any) -> Ran:
        """Run batches for texts, without waiting."""
        given: dict[str, Any] = {"clock": self.clock, "sleep": self.clock.sleep}
        provider = self.interface.provider
        choice = replace(provider.plan.choice, batch_minimum=options.pop("minimum", 1))
        provider.plan = dataclasses.replace(provider.plan, choice=choice)
        run = BatchRun(
            self.interface,
            self.identity,
            texts,
            texts.__getitem__,
            self.store,
            self.cache,
            progress=lambda *told: self.told.append(told),
            **(given | options),
        )
        outcome = run.run()
        done = len(self.vectors(texts))
        return Ran(outcome.spent, outcome.note, outcome.waiting, done)

    def limit(self, **limits: Any) -> None:
        """Let the service take less than it does."""
        vars(self.interface).update(limits)

    def vectors(self, texts: dict[str, str]) -> dict[str, list[float]]:
        """What the cache holds for texts."""
        found = self.cache.get_many(self.identity, texts)
        return {text_hash: vector.tolist() for text_hash, vector in found.items()}


def expected(texts: dict[str, str]) -> dict[str, list[float]]:
    """The vectors that the cache should hold, bit for bit."""
    return {
        text_hash: clean_vectors(np.array(numbers_of(PREFIX + text))).tolist()
        for text_hash, text in texts.items()
    }


@contextmanager
def bench(name: str, folder: Path, **options: Any) -> Iterator[Bench]:
    """A server, a service and an empty cache for as long as the block runs."""
    with batch_server(name) as server:
        interface = make_interface(server, **options)
        identity = dataclasses.replace(interface.provider.plan.identity, fingerprint="f" * 64)
        with closing(interface.provider), closing(EmbeddingCache(folder / "cache.db")) as cache:
            yield Bench(server, interface, identity, folder, cache)
