"""The batch interface of the Gemini API: a file up, an operation of it, a file down.

https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api
(`models.asyncBatchEmbedContent`, `EmbedContentBatch`), lines of `key` and `request` as in
https://developers.googleblog.com/gemini-batch-api-now-supports-embeddings-and-openai-compatibility.
Files of at most 2 GB; done within 24 h; given up, and its files deleted, after 48 h. The operation
tells its state as `BATCH_STATE_...` under `metadata`; Google's client libraries name the same
states `JOB_STATE_...`, and OpenClaw waits for SUCCEEDED, COMPLETED or DONE (OPENCLAW.md, section
10): all are known here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from memtui.embedding.batch.calls import (
    JSON,
    JSONL,
    Call,
    Part,
    Target,
    as_json,
    delete,
    get,
    multipart,
    post,
)
from memtui.embedding.batch.files import OWN_MOST_BYTES
from memtui.embedding.batch.protocol import (
    Limits,
    Line,
    Polled,
    State,
    count_in,
    field,
    id_in,
    is_id,
)
from memtui.embedding.protocols import Role, gemini_body

_DAY: Final = 24 * 3600.0
_NOT_FOUND: Final = 404
_STATES: Final[Mapping[str, State]] = {
    "UNSPECIFIED": State.WAITING,
    "PENDING": State.WAITING,
    "QUEUED": State.WAITING,
    "RUNNING": State.WAITING,
    "PAUSED": State.WAITING,
    "UPDATING": State.WAITING,
    "CANCELLING": State.WAITING,
    "SUCCEEDED": State.DONE,
    "PARTIALLY_SUCCEEDED": State.DONE,
    "COMPLETED": State.DONE,
    "DONE": State.DONE,
    "FAILED": State.FAILED,
    "EXPIRED": State.EXPIRED,
    "CANCELLED": State.CANCELLED,
}
_OUTPUTS: Final = (
    ("response", "responsesFile"),
    ("output", "responsesFile"),
    ("metadata", "output", "responsesFile"),
    ("dest", "fileName"),
)


class GeminiBatches:
    """Gemini's batch interface."""

    name = "gemini"
    limits = Limits(min(OWN_MOST_BYTES, 2 * 10**9), window=_DAY, kept=2 * _DAY)

    def __init__(self, target: Target) -> None:
        self._target = target

    def line(self, text_hash: str, text: str) -> bytes:
        """The line of the input file that asks for one text."""
        target = self._target
        request = {"model": f"models/{target.model}"} | gemini_body(
            target.service, target.model, target.document(text), Role.DOCUMENT, target.dimensions
        )
        return as_json({"key": text_hash, "request": request}) + b"\n"

    def upload(self, data: bytes) -> Call:
        """Send an input file: `POST /upload/{version}/files`, what it is and its content."""
        about = as_json({"file": {"displayName": "memtui.jsonl", "mimeType": JSONL}})
        kind, body = multipart(
            (Part((("content-type", JSON),), about), Part((("content-type", JSONL),), data)),
            "related",
        )
        headers = {**self._target.headers, "accept": JSON, "content-type": kind}
        url = self._beside("upload", "/files", {"uploadType": "multipart"})
        return Call("POST", url, headers, body)

    def uploaded(self, answer: object) -> str:
        """The name of the file that was sent, like `files/abc`."""
        return id_in(answer, "file", "name")

    def create(self, input_file: str) -> Call:
        """Start a batch of an input file, under a name by which it can be found again."""
        batch = {"displayName": _title(input_file), "inputConfig": {"fileName": input_file}}
        path = f"/models/{quote(self._target.model, safe='')}:asyncBatchEmbedContent"
        return post(self._target, path, {"batch": batch})

    def created(self, answer: object) -> str:
        """The name of the operation, like `batches/abc`."""
        return id_in(answer, "name")

    def listing(self) -> Call:
        """Ask for the latest operations."""
        return get(self._target, "/batches", {"pageSize": "100"})

    def found(self, answer: object, input_file: str) -> str:
        """The name of the operation of an input file; empty where there is none."""
        listed = field(answer, "operations")
        for entry in listed if isinstance(listed, list) else ():
            if field(entry, "metadata", "displayName") == _title(input_file):
                return id_in(entry, "name")
        return ""

    def poll(self, batch: str) -> Call:
        """Ask how an operation is."""
        return get(self._target, f"/{quote(batch, safe='/')}")

    def polled(self, answer: object) -> Polled:
        """How the operation is."""
        output = next(
            (
                found
                for names in _OUTPUTS
                if isinstance(found := field(answer, *names), str) and is_id(found)
            ),
            "",
        )
        stats = field(answer, "metadata", "batchStats") or field(answer, "batchStats")
        return Polled(_state(answer, output), output, count_in(stats, "successfulRequestCount"))

    def result(self, output: str) -> Call:
        """Fetch a file of results: `GET /download/{version}/{file}:download?alt=media`."""
        path = f"/{quote(output, safe='/')}:download"
        url = self._beside("download", path, {"alt": "media"})
        return Call("GET", url, {**self._target.headers, "accept": JSON})

    def delete(self, file: str) -> Call:
        """Delete a file by its name."""
        # Whatever the name says, nothing but a file is deleted.
        return delete(self._target, f"/files/{quote(file.removeprefix('files/'), safe='')}")

    def read(self, record: object) -> Line | None:
        """Take apart one line: key and, under response, an answer of `embedContent`."""
        text_hash = field(record, "key")
        if not isinstance(text_hash, str):
            return None
        answer = field(record, "response")
        refused = field(record, "error") is not None or field(answer, "error") is not None
        return Line(text_hash, None if refused else answer)

    def closes(self, status: int) -> bool:
        """A 404 of the call says that the model or key has no batches."""
        return status == _NOT_FOUND

    def _beside(self, what: str, path: str, query: Mapping[str, str]) -> str:
        """An address of the upload and download services, which stand before the version."""
        parts = urlsplit(self._target.address.url)
        before, _, version = parts.path.rstrip("/").rpartition("/")
        base = f"{before}/{what}/{version}" if version else f"/{what}"
        own = f"{parts.query}&" if parts.query else ""
        return urlunsplit((parts.scheme, parts.netloc, base + path, own + urlencode(query), ""))


def _state(answer: object, output: str) -> State:
    told = field(answer, "metadata", "state") or field(answer, "state")
    if field(answer, "error") is not None:
        return State.FAILED
    if isinstance(told, str):
        word = told.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        if word not in _STATES:
            raise ValueError("it tells no state that is known")
        return _STATES[word]
    if field(answer, "done") is True:
        return State.DONE if output else State.FAILED
    if isinstance(field(answer, "name"), str):
        return State.WAITING
    raise ValueError("it is no operation")


def _title(input_file: str) -> str:
    return f"memtui-{hashlib.sha256(input_file.encode()).hexdigest()[:16]}"
