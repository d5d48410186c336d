"""One request of a batch interface as bytes: address, headers, body; nothing here sends it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from memtui.embedding.limits import whole
from memtui.embedding.payloads import Role, embedding_body, gemini_body
from memtui.embedding.services import Address, Service

JSON: Final = "application/json"
JSONL: Final = "application/jsonl"


@dataclass(frozen=True, slots=True)
class Call:
    """A request; what follows a `?` and the headers may be secret, so no `repr` shows them."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A model at a service, and how documents are embedded by it."""

    service: Service
    address: Address
    model: str
    """As the service knows it."""
    headers: Mapping[str, str] = field(repr=False)
    """The key and what else goes with every request; no content type."""
    dimensions: int | None = None
    """How many numbers are asked for; `None`: as many as the model gives."""
    prefix: str = ""
    """Put before every text."""

    def document(self, text: str) -> str:
        """What is sent for a text, as it is inline."""
        return self.prefix + whole(text)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart body: its header lines and its content."""

    headers: Sequence[tuple[str, str]]
    content: bytes = field(repr=False)


def at(target: Target, path: str, query: Mapping[str, str] | None = None) -> str:
    """The address of a path below the base address, whose own query stays."""
    parts = urlsplit(target.address.url)
    pairs = [*parse_qsl(parts.query, keep_blank_values=True), *(query or {}).items()]
    base = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, base + path, urlencode(pairs), ""))


def get(target: Target, path: str, query: Mapping[str, str] | None = None) -> Call:
    """A request for what is at a path."""
    return Call("GET", at(target, path, query), {**target.headers, "accept": JSON})


def delete(target: Target, path: str) -> Call:
    """A request that deletes what is at a path."""
    return Call("DELETE", at(target, path), {**target.headers, "accept": JSON})


def post(target: Target, path: str, body: Mapping[str, Any]) -> Call:
    """A request that sends JSON to a path."""
    headers = {**target.headers, "accept": JSON, "content-type": JSON}
    return Call("POST", at(target, path), headers, as_json(body))


def as_json(value: Any) -> bytes:
    """JSON without spaces, ASCII alone: a lone surrogate of a text stays valid JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def multipart(parts: Sequence[Part], kind: str = "form-data") -> tuple[str, bytes]:
    """Build a multipart body (RFC 2046): its content type and its bytes.

    The boundary is a hash of the parts, so the same parts give the same bytes, and no part can
    hold it.
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        digest.update(part.content)
    boundary = f"memtui-{digest.hexdigest()}"
    pieces: list[bytes] = []
    for part in parts:
        headers = "".join(f"{name}: {value}\r\n" for name, value in part.headers)
        pieces += [f"--{boundary}\r\n{headers}\r\n".encode("ascii"), part.content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode("ascii"))
    # Joined once: a content is as large as memory should hold it twice.
    return f'multipart/{kind}; boundary="{boundary}"', b"".join(pieces)


def form_file(purpose: str, filename: str, data: bytes) -> tuple[str, bytes]:
    """The form that OpenAI, Voyage and Mistral take a file by: content type and body."""
    return multipart(
        (
            Part((("content-disposition", 'form-data; name="purpose"'),), purpose.encode("ascii")),
            Part(
                (
                    (
                        "content-disposition",
                        f'form-data; name="file"; filename="{filename}"',
                    ),
                    ("content-type", JSONL),
                ),
                data,
            ),
        )
    )


MOST_TEXTS: Final = 50_000
"""Of one batch: what OpenAI allows, and what OpenClaw sends to every service."""
AT_ONCE: Final = 2
"""Batches of one run that are under way at the same time."""

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}")


class State(StrEnum):
    """How a batch is."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Polled:
    """What a service says of a batch."""

    state: State
    output: str = ""
    """Where its results are; empty where there are none (yet)."""
    completed: int = 0
    """Texts that are embedded so far."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file of results."""

    text_hash: str
    answer: object
    """What the service answers to that text inline, unchecked; `None` where it refused it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a service takes, and how long it keeps what."""

    most_bytes: int
    """Of one input file."""
    window: float
    """Seconds within which a batch ends."""
    kept: float
    """Seconds after which a batch is not asked for any more."""
    most_texts: int = MOST_TEXTS
    first_poll: float = 2.0
    """Seconds before a batch is asked for first; later it is asked for more rarely."""


class BatchProtocol(Protocol):
    """Requests and answers of one service's batch interface; does no input or output.

    The parsers take an answer's JSON and raise `ValueError`, whose text repeats nothing of the
    answer, for one that is not as documented.
    """

    name: str
    """The service, as it is configured."""
    limits: Limits

    def line(self, text_hash: str, text: str) -> bytes:
        """The line of the input file that asks for one text; ends with a line feed."""

    def upload(self, data: bytes) -> Call:
        """Send an input file."""

    def uploaded(self, answer: object) -> str:
        """The id of the file that was sent."""

    def create(self, input_file: str) -> Call:
        """Start a batch of an input file."""

    def created(self, answer: object) -> str:
        """The id of the batch that was started."""

    def listing(self) -> Call:
        """Ask for the latest batches."""

    def found(self, answer: object, input_file: str) -> str:
        """The id of the batch of an input file among the latest; empty where there is none."""

    def poll(self, batch: str) -> Call:
        """Ask how a batch is."""

    def polled(self, answer: object) -> Polled:
        """How the batch is."""

    def result(self, output: str) -> Call:
        """Fetch a file of results, JSON by line."""

    def delete(self, file: str) -> Call:
        """Delete an input file or a file of results."""

    def read(self, record: object) -> Line | None:
        """Take apart one line of the results; `None` for one that names no text."""

    def closes(self, status: int) -> bool:
        """Whether this status of an answer to `create` says that there is no such interface."""


def value_in(answer: object, *names: str) -> Any:
    """What is under the names, one in the other; `None` where it is not there."""
    for name in names:
        if not isinstance(answer, Mapping):
            return None
        answer = answer.get(name)
    return answer


def id_in(answer: object, *names: str) -> str:
    """An id of an answer; raises `ValueError` for one that could lead to another path."""
    found = value_in(answer, *names)
    if not isinstance(found, str) or not is_id(found):
        raise ValueError(f"it names no {names[-1]}")
    return found


def is_id(text: str) -> bool:
    """Whether a text can be an id in a path."""
    return _ID.fullmatch(text) is not None and ".." not in text and "//" not in text


def count_in(answer: object, *names: str) -> int:
    """A count of an answer, 0 where there is none; Google writes them as text."""
    found = value_in(answer, *names)
    if isinstance(found, str) and found.isdecimal() and len(found) < 12:
        return int(found)
    return found if type(found) is int and 0 <= found < 10**12 else 0


_ENDPOINT: Final = "/v1/embeddings"
_FILENAME: Final = "memtui.jsonl"
_MEGABYTE: Final = 10**6
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
# The input file is held as a whole, and made and hashed between two looks at a stop.
OWN_MOST_BYTES: Final = 32 * _MEGABYTE

_FILE_STATES: Final[Mapping[str, State]] = {
    "validating": State.WAITING,
    "in_progress": State.WAITING,
    "finalizing": State.WAITING,
    "cancelling": State.WAITING,
    "completed": State.DONE,
    "failed": State.FAILED,
    "expired": State.EXPIRED,
    "cancelled": State.CANCELLED,
    # Mistral's
    "QUEUED": State.WAITING,
    "RUNNING": State.WAITING,
    "CANCELLATION_REQUESTED": State.WAITING,
    "SUCCESS": State.DONE,
    "FAILED": State.FAILED,
    "TIMEOUT_EXCEEDED": State.EXPIRED,
    "CANCELLED": State.CANCELLED,
}


class OpenAiBatches:
    """OpenAI's batch interface."""

    name = "openai"
    limits = Limits(min(OWN_MOST_BYTES, 200 * _MEGABYTE), window=_DAY, kept=30 * _DAY)
    _batches = "/batches"
    _output = "output_file_id"
    _completed: tuple[str, ...] = ("request_counts", "completed")

    def __init__(self, target: Target) -> None:
        self._target = target

    def line(self, text_hash: str, text: str) -> bytes:
        """The line of the input file that asks for one text."""
        record = {"custom_id": text_hash, "method": "POST", "url": _ENDPOINT}
        return as_json({**record, "body": self._body(text)}) + b"\n"

    def upload(self, data: bytes) -> Call:
        """Send an input file: `POST /files` as a form, purpose `batch`."""
        kind, body = form_file("batch", _FILENAME, data)
        headers = {**self._target.headers, "accept": JSON, "content-type": kind}
        return Call("POST", at(self._target, "/files"), headers, body)

    def uploaded(self, answer: object) -> str:
        """The id of the file that was sent."""
        return id_in(answer, "id")

    def create(self, input_file: str) -> Call:
        """Start a batch of an input file."""
        return post(self._target, self._batches, self._creation(input_file))

    def created(self, answer: object) -> str:
        """The id of the batch that was started."""
        return id_in(answer, "id")

    def listing(self) -> Call:
        """Ask for the latest batches."""
        return get(self._target, self._batches, {"limit": "100"})

    def found(self, answer: object, input_file: str) -> str:
        """The id of the batch of an input file among the latest; empty where there is none."""
        listed = value_in(answer, "data")
        for entry in listed if isinstance(listed, list) else ():
            if self._is_of(entry, input_file):
                return id_in(entry, "id")
        return ""

    def poll(self, batch: str) -> Call:
        """Ask how a batch is."""
        return get(self._target, f"{self._batches}/{quote(batch, safe='')}")

    def polled(self, answer: object) -> Polled:
        """How the batch is."""
        status = value_in(answer, "status")
        if not isinstance(status, str) or status not in _FILE_STATES:
            raise ValueError("it tells no status that is known")
        output = value_in(answer, self._output)
        return Polled(
            _FILE_STATES[status],
            output if isinstance(output, str) and is_id(output) else "",
            count_in(answer, *self._completed),
        )

    def result(self, output: str) -> Call:
        """Fetch a file of results."""
        return get(self._target, f"/files/{quote(output, safe='')}/content")

    def delete(self, file: str) -> Call:
        """Delete a file."""
        return delete(self._target, f"/files/{quote(file, safe='')}")

    def read(self, record: object) -> Line | None:
        """Take apart one line: custom_id and, under response.body, an answer of `/embeddings`."""
        text_hash = value_in(record, "custom_id")
        if not isinstance(text_hash, str):
            return None
        status = value_in(record, "response", "status_code")
        refused = value_in(record, "error") is not None or status not in (None, 200)
        return Line(text_hash, None if refused else value_in(record, "response", "body"))

    def closes(self, status: int) -> bool:
        """Never: a 404 is one failure like others, as the address may be any service's."""
        return False

    def _body(self, *texts: str) -> dict[str, Any]:
        """The body of an inline request for the texts, so that the vectors are the same."""
        target = self._target
        prefixed = [target.document(text) for text in texts]
        return embedding_body(
            target.service, target.model, prefixed, Role.DOCUMENT, target.dimensions
        )

    def _creation(self, input_file: str) -> dict[str, Any]:
        return {
            "input_file_id": input_file,
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": {"source": "memtui"},
        }

    def _is_of(self, entry: object, input_file: str) -> bool:
        return bool(value_in(entry, "input_file_id") == input_file)


class VoyageBatches(OpenAiBatches):
    """Voyage's batch interface: what is the same for every text is told once."""

    name = "voyage"
    limits = Limits(min(OWN_MOST_BYTES, 1000 * _MEGABYTE), window=_DAY / 2, kept=30 * _DAY)

    def line(self, text_hash: str, text: str) -> bytes:
        """The line of the input file that asks for one text."""
        body = {"input": self._body(text)["input"]}
        return as_json({"custom_id": text_hash, "body": body}) + b"\n"

    def _creation(self, input_file: str) -> dict[str, Any]:
        shared = self._body()
        del shared["input"]
        return {
            "input_file_id": input_file,
            "endpoint": _ENDPOINT,
            "completion_window": "12h",
            "request_params": shared,
            "metadata": {"source": "memtui"},
        }


class MistralBatches(OpenAiBatches):
    """Mistral's batch interface: jobs of one model each."""

    name = "mistral"
    limits = Limits(min(OWN_MOST_BYTES, 500 * _MEGABYTE), window=_DAY, kept=7 * _DAY)
    _batches = "/batch/jobs"
    _output = "output_file"
    _completed = ("succeeded_requests",)

    def line(self, text_hash: str, text: str) -> bytes:
        """The line of the input file that asks for one text; the job names the model."""
        body = self._body(text)
        del body["model"]
        return as_json({"custom_id": text_hash, "body": body}) + b"\n"

    def listing(self) -> Call:
        """Ask for the latest jobs."""
        return get(self._target, self._batches, {"page": "0", "page_size": "100"})

    def _creation(self, input_file: str) -> dict[str, Any]:
        return {
            "input_files": [input_file],
            "endpoint": _ENDPOINT,
            "model": self._target.model,
            "timeout_hours": 24,
            "metadata": {"source": "memtui"},
        }

    def _is_of(self, entry: object, input_file: str) -> bool:
        files = value_in(entry, "input_files")
        return isinstance(files, list) and input_file in files


_NOT_FOUND: Final = 404
_OPERATION_STATES: Final[Mapping[str, State]] = {
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
        listed = value_in(answer, "operations")
        for entry in listed if isinstance(listed, list) else ():
            if value_in(entry, "metadata", "displayName") == _title(input_file):
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
                if isinstance(found := value_in(answer, *names), str) and is_id(found)
            ),
            "",
        )
        stats = value_in(answer, "metadata", "batchStats") or value_in(answer, "batchStats")
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
        text_hash = value_in(record, "key")
        if not isinstance(text_hash, str):
            return None
        answer = value_in(record, "response")
        refused = value_in(record, "error") is not None or value_in(answer, "error") is not None
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
    told = value_in(answer, "metadata", "state") or value_in(answer, "state")
    if value_in(answer, "error") is not None:
        return State.FAILED
    if isinstance(told, str):
        word = told.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        if word not in _OPERATION_STATES:
            raise ValueError("it tells no state that is known")
        return _OPERATION_STATES[word]
    if value_in(answer, "done") is True:
        return State.DONE if output else State.FAILED
    if isinstance(value_in(answer, "name"), str):
        return State.WAITING
    raise ValueError("it is no operation")


def _title(input_file: str) -> str:
    return f"memtui-{hashlib.sha256(input_file.encode()).hexdigest()[:16]}"
