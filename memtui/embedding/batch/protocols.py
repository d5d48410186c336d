"""The batch interfaces of four services: a file up, a batch of it, a file down.

OpenAI: https://platform.openai.com/docs/guides/batch and its API reference of `files` and
`batches`: JSON lines of custom_id, method, url and body; at most 50,000 inputs and 200 MB; done
within 24 h, or `expired` with what was done by then in the output file.
Voyage: https://docs.voyageai.com/docs/batch-inference: the same, but lines of custom_id and body
(the input alone), everything else once in `request_params`; at most 100,000 inputs and 1 GB, 12 h;
files are kept 30 days.
Mistral: https://docs.mistral.ai/capabilities/batch and https://docs.mistral.ai/api/endpoint/batch:
jobs at `/batch/jobs` of `input_files` and one model, statuses in capitals, `output_file`. OpenClaw
(OPENCLAW.md, section 10) names the shape of OpenAI for every service; where a service's own
documents differ they are followed.
Gemini: https://ai.google.dev/gemini-api/docs/batch-api and https://ai.google.dev/api/batch-api
(`models.asyncBatchEmbedContent`, `EmbedContentBatch`), lines of `key` and `request` as in
https://developers.googleblog.com/gemini-batch-api-now-supports-embeddings-and-openai-compatibility.
Files of at most 2 GB; done within 24 h; given up, and its files deleted, after 48 h. The operation
tells its state as `BATCH_STATE_...` under `metadata`; Google's client libraries name the same
states `JOB_STATE_...`, and OpenClaw waits for SUCCEEDED, COMPLETED or DONE (OPENCLAW.md, section
10): all are known here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from memtui.embedding.limits import byte_size, whole
from memtui.embedding.payloads import Request, as_json, embedding_body, gemini_body
from memtui.embedding.provider import ProviderIdentity, Role, UsageMeter
from memtui.embedding.services import Address, Service

if TYPE_CHECKING:
    from memtui.embedding.remote.provider import Connection, RemoteProvider

JSON: Final = "application/json"
JSONL: Final = "application/jsonl"
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


@dataclass(frozen=True, slots=True)
class Target:
    """A model at a service, and how documents are embedded by it."""

    service: Service
    address: Address
    model: str
    """As the service knows it."""
    dimensions: int | None = None
    """How many numbers are asked for; `None`: as many as the model gives."""
    prefix: str = ""
    """Put before every text."""

    def document(self, text: str) -> str:
        """What is sent for a text, as it is inline."""
        return self.prefix + whole(text)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Request:
        """A request for what is at a path."""
        return Request("GET", self.at(path, query), {"accept": JSON})

    def post(self, path: str, body: Mapping[str, Any]) -> Request:
        """A request that sends JSON to a path."""
        headers = {"accept": JSON, "content-type": JSON}
        return Request("POST", self.at(path), headers, as_json(body))

    def at(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """The address of a path below the base address, whose own query stays."""
        parts = urlsplit(self.address.url)
        pairs = [*parse_qsl(parts.query, keep_blank_values=True), *(query or {}).items()]
        base = parts.path.rstrip("/")
        return urlunsplit((parts.scheme, parts.netloc, base + path, urlencode(pairs), ""))


def multipart(
    parts: Sequence[tuple[Mapping[str, str], bytes]], kind: str = "form-data"
) -> tuple[str, bytes]:
    """Build a multipart body (RFC 2046) of headers and contents: its content type and its bytes.

    The boundary is a hash of the parts, so the same parts give the same bytes, and no part can
    hold it.
    """
    digest = hashlib.blake2b(digest_size=20)
    for _, content in parts:
        digest.update(content)
    boundary = f"memtui-{digest.hexdigest()}"
    pieces: list[bytes] = []
    for headers, content in parts:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        pieces += [f"--{boundary}\r\n{head}\r\n".encode("ascii"), content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode("ascii"))
    # Joined once: a content is as large as memory should hold it twice.
    return f'multipart/{kind}; boundary="{boundary}"', b"".join(pieces)


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

_STATES: Final = {
    word: state
    for state, words in {
        State.WAITING: "validating in_progress finalizing cancelling queued running "
        "cancellation_requested unspecified pending paused updating",
        State.DONE: "completed success succeeded partially_succeeded done",
        State.FAILED: "failed",
        State.EXPIRED: "expired timeout_exceeded",
        State.CANCELLED: "cancelled",
    }.items()
    for word in words.split()
}
"""By the words of all services, in small letters."""


class OpenAiBatches:
    """OpenAI's batch interface, and what the others have in common with it.

    Makes requests and reads answers; does no input or output. The parsers take an answer's JSON
    and raise `ValueError`, whose text repeats nothing of the answer, for one that is not as
    documented.
    """

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

    def upload(self, data: bytes) -> Request:
        """Send an input file: `POST /files` as a form, purpose `batch`."""
        kind, body = multipart(
            [
                ({"content-disposition": 'form-data; name="purpose"'}, b"batch"),
                (
                    {
                        "content-disposition": f'form-data; name="file"; filename="{_FILENAME}"',
                        "content-type": JSONL,
                    },
                    data,
                ),
            ]
        )
        headers = {"accept": JSON, "content-type": kind}
        return Request("POST", self._target.at("/files"), headers, body)

    def uploaded(self, answer: object) -> str:
        """The id of the file that was sent."""
        return id_in(answer, "id")

    def create(self, input_file: str) -> Request:
        """Start a batch of an input file."""
        return self._target.post(self._batches, self._creation(input_file))

    def created(self, answer: object) -> str:
        """The id of the batch that was started."""
        return id_in(answer, "id")

    def listing(self) -> Request:
        """Ask for the latest batches."""
        return self._target.get(self._batches, {"limit": "100"})

    def found(self, answer: object, input_file: str) -> str:
        """The id of the batch of an input file among the latest; empty where there is none."""
        listed = value_in(answer, "data")
        for entry in listed if isinstance(listed, list) else ():
            if self._is_of(entry, input_file):
                return id_in(entry, "id")
        return ""

    def poll(self, batch: str) -> Request:
        """Ask how a batch is."""
        return self._target.get(f"{self._batches}/{quote(batch, safe='')}")

    def polled(self, answer: object) -> Polled:
        """How the batch is."""
        status = value_in(answer, "status")
        if not isinstance(status, str) or status.lower() not in _STATES:
            raise ValueError("it tells no status that is known")
        output = value_in(answer, self._output)
        return Polled(
            _STATES[status.lower()],
            output if isinstance(output, str) and is_id(output) else "",
            count_in(answer, *self._completed),
        )

    def result(self, output: str) -> Request:
        """Fetch a file of results."""
        return self._target.get(f"/files/{quote(output, safe='')}/content")

    def delete(self, file: str) -> Request:
        """Delete a file."""
        return Request(
            "DELETE", self._target.at(f"/files/{quote(file, safe='')}"), {"accept": JSON}
        )

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
        body = self._body(text)
        del body["model"]
        return as_json({"custom_id": text_hash, "body": body}) + b"\n"

    def listing(self) -> Request:
        return self._target.get(self._batches, {"page": "0", "page_size": "100"})

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
_OUTPUTS: Final = (
    ("response", "responsesFile"),
    ("output", "responsesFile"),
    ("metadata", "output", "responsesFile"),
    ("dest", "fileName"),
)


class GeminiBatches(OpenAiBatches):
    """Gemini's batch interface."""

    name = "gemini"
    limits = Limits(min(OWN_MOST_BYTES, 2 * 10**9), window=_DAY, kept=2 * _DAY)

    def line(self, text_hash: str, text: str) -> bytes:
        target = self._target
        request = {"model": f"models/{target.model}"} | gemini_body(
            target.service, target.model, target.document(text), Role.DOCUMENT, target.dimensions
        )
        return as_json({"key": text_hash, "request": request}) + b"\n"

    def upload(self, data: bytes) -> Request:
        about = as_json({"file": {"displayName": "memtui.jsonl", "mimeType": JSONL}})
        kind, body = multipart(
            [({"content-type": JSON}, about), ({"content-type": JSONL}, data)], "related"
        )
        headers = {"accept": JSON, "content-type": kind}
        url = self._beside("upload", "/files", {"uploadType": "multipart"})
        return Request("POST", url, headers, body)

    def uploaded(self, answer: object) -> str:
        return id_in(answer, "file", "name")

    def create(self, input_file: str) -> Request:
        batch = {"displayName": _title(input_file), "inputConfig": {"fileName": input_file}}
        path = f"/models/{quote(self._target.model, safe='')}:asyncBatchEmbedContent"
        return self._target.post(path, {"batch": batch})

    def created(self, answer: object) -> str:
        return id_in(answer, "name")

    def listing(self) -> Request:
        return self._target.get("/batches", {"pageSize": "100"})

    def found(self, answer: object, input_file: str) -> str:
        listed = value_in(answer, "operations")
        for entry in listed if isinstance(listed, list) else ():
            if value_in(entry, "metadata", "displayName") == _title(input_file):
                return id_in(entry, "name")
        return ""

    def poll(self, batch: str) -> Request:
        return self._target.get(f"/{quote(batch, safe='/')}")

    def polled(self, answer: object) -> Polled:
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

    def result(self, output: str) -> Request:
        path = f"/{quote(output, safe='/')}:download"
        url = self._beside("download", path, {"alt": "media"})
        return Request("GET", url, {"accept": JSON})

    def delete(self, file: str) -> Request:
        # Whatever the name says, nothing but a file is deleted.
        return super().delete(file.removeprefix("files/"))

    def read(self, record: object) -> Line | None:
        text_hash = value_in(record, "key")
        if not isinstance(text_hash, str):
            return None
        answer = value_in(record, "response")
        refused = value_in(record, "error") is not None or value_in(answer, "error") is not None
        return Line(text_hash, None if refused else answer)

    def closes(self, status: int) -> bool:
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
        word = told.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_").lower()
        if word not in _STATES:
            raise ValueError("it tells no state that is known")
        return _STATES[word]
    if value_in(answer, "done") is True:
        return State.DONE if output else State.FAILED
    if isinstance(value_in(answer, "name"), str):
        return State.WAITING
    raise ValueError("it is no operation")


def _title(input_file: str) -> str:
    return f"memtui-{hashlib.sha256(input_file.encode()).hexdigest()[:16]}"


_INTERFACES: Final = {
    "openai": OpenAiBatches,
    "voyage": VoyageBatches,
    "mistral": MistralBatches,
    "gemini": GeminiBatches,
}


@dataclass(frozen=True, slots=True)
class BatchService:
    """The batch interface of one provider, with one model, ready to be asked."""

    protocol: OpenAiBatches
    connection: Connection
    identity: ProviderIdentity
    """What its vectors are stored under."""
    meter: UsageMeter
    """Counts what was asked for."""
    input_bytes: int
    """The most UTF-8 bytes of one text."""
    minimum: int
    """From how many texts on a batch is worth it."""
    timeout: float
    """Seconds for one request; for a file, without anything coming in."""

    @property
    def place(self) -> str:
        """Host and port, for messages and for the store."""
        return self.connection.plan.address.shown

    def takes(self, text: str) -> bool:
        """Whether a text may be sent: services refuse a blank one, and one that is too long."""
        return bool(text.strip()) and byte_size(text) <= self.input_bytes


def batch_protocol(provider: str, target: Target) -> OpenAiBatches:
    """The batch interface of a provider; raises `KeyError` for one that has none."""
    return _INTERFACES[provider](target)


def open_batches(provider: RemoteProvider, cancelled: Callable[[], bool]) -> BatchService | None:
    """The batch interface of a provider; `None` where none is wanted or the service has none.

    Looks for the key. Raises `ProviderError` where it is missing or cannot be sent, `Cancelled`.
    """
    plan, choice = provider.plan, provider.plan.choice
    name = plan.service.name
    if not choice.batch.enabled or name not in _INTERFACES:
        return None
    provider.connection.check_key(cancelled)
    prefix = plan.templates.document
    target = Target(plan.service, plan.address, plan.model, plan.asked_dimensions, prefix)
    return BatchService(
        protocol=batch_protocol(name, target),
        connection=provider.connection,
        identity=plan.identity._replace(dimensions=provider.dimensions),
        meter=provider.meter,
        input_bytes=plan.input_bytes,
        minimum=choice.batch.minimum,
        timeout=choice.traffic.batch_timeout,
    )
