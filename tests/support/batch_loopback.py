"""A real HTTP server on this machine that speaks the batch interfaces of four services."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.loopback import Answer, LoopbackServer, as_json, serving

BASE_PATH = {"openai": "/v1", "voyage": "/v1", "mistral": "/v1", "gemini": "/v1beta"}
DONE = {
    "openai": "completed",
    "voyage": "completed",
    "mistral": "SUCCESS",
    "gemini": "BATCH_STATE_SUCCEEDED",
}
WAITING = {
    "openai": "in_progress",
    "voyage": "validating",
    "mistral": "RUNNING",
    "gemini": "BATCH_STATE_RUNNING",
}
DIMENSIONS = 8
TOKENS = 3
"""What every answer says that its text took."""


def numbers_of(text: str) -> list[float]:
    """The vector that the server gives for a text, before it is made of length 1."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 128 - 1 for byte in digest[:DIMENSIONS]]


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
        return self.url + BASE_PATH[self.service]

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
        base = BASE_PATH[self.service]
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
            self.deleted.append(path.removeprefix(f"{BASE_PATH[self.service]}/"))
            return as_json({})
        return self._embed(json.loads(body)) if step == "inline" else Answer(b"", 404)

    def _embed(self, body: dict[str, Any]) -> Answer:
        if self.service == "gemini":
            texts = [entry["content"]["parts"][0]["text"] for entry in body["requests"]]
            return as_json({"embeddings": [{"values": numbers_of(text)} for text in texts]})
        entries = [
            {"index": index, "embedding": numbers_of(text)}
            for index, text in enumerate(body["input"])
        ]
        return as_json({"data": entries, "usage": {"total_tokens": TOKENS}})

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
        job = self.jobs.get(path.removeprefix(BASE_PATH[self.service] + "/"))
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
