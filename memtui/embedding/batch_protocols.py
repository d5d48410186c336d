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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from memtui.embedding.limits import whole
from memtui.embedding.payloads import Request, as_json, embedding_body, gemini_body
from memtui.embedding.provider import ProviderIdentity, Role, UsageMeter

if TYPE_CHECKING:
    from memtui.embedding.remote import Connection, Plan

JSON: Final = "application/json"
JSONL: Final = "application/jsonl"
MOST_TEXTS: Final = 50_000
"""Of one batch: what OpenAI allows, and what OpenClaw sends to every service."""
MOST_BYTES: Final = 32_000_000
"""Of one input file, which is held as a whole, and made and hashed between two looks at a stop;
every service takes more (OpenAI the least, 200 MB)."""

ID_PATTERN: Final = r"(?!.*(?:\.\.|//))[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}"
"""What an id may look like that becomes part of a path."""
_ENDPOINT: Final = "/v1/embeddings"
_FILENAME: Final = "memtui.jsonl"
_SOURCE: Final = {"source": "memtui"}
_DAY: Final = 24 * 3600.0

Ask: TypeAlias = "Callable[[Request], Awaitable[object]]"
"""Sends a request and returns the JSON of a success."""


class State(StrEnum):
    """How a batch is."""

    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


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


@dataclass(frozen=True, slots=True)
class Polled:
    """What a service says of a batch."""

    state: State
    output: str = ""
    """Where its results are; empty where there are none (yet)."""
    completed: int = 0
    """Texts that are embedded so far."""


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


def is_id(text: object) -> bool:
    """Return whether a value can be an id in a path."""
    return isinstance(text, str) and re.fullmatch(ID_PATTERN, text) is not None


def _value_in(answer: object, *names: str) -> Any:
    """Return what is under the names, one in the other; `None` where it is not there."""
    for name in names:
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return answer


def _list_in(answer: object, name: str) -> list[Any]:
    value = _value_in(answer, name)
    return value if isinstance(value, list) else []


def _text_in(answer: object, name: str) -> str:
    value = _value_in(answer, name)
    return value if isinstance(value, str) else ""


def _id_in(answer: object, *names: str) -> str:
    """An id of an answer; raises `ValueError` for one that could lead to another path."""
    value = _value_in(answer, *names)
    if not is_id(value):
        raise ValueError(f"it names no {names[-1]}")
    return str(value)


def _count_in(answer: object, *names: str) -> int:
    """A count of an answer, 0 where there is none; Google writes them as text."""
    value = str(_value_in(answer, *names))
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 12 else 0


class OpenAiBatches:
    """OpenAI's batch interface, and what the others have in common with it.

    What is not as documented in an answer is a `ValueError` whose text repeats nothing of it.
    """

    name = "openai"
    window = _DAY
    """Seconds within which a batch ends."""
    retention = 30 * _DAY
    """Seconds after which a batch is not asked for any more."""
    most_bytes = MOST_BYTES
    most_texts = MOST_TEXTS
    first_poll = 2.0
    """Seconds before a batch is asked for first; later it is asked for more rarely."""
    is_optional = False
    """Whether a 404 to a new batch says that the model or key has no batches."""
    batches_path = "/batches"
    listing_query: Mapping[str, str] = {"limit": "100"}
    output_field = "output_file_id"
    completed_field: tuple[str, ...] = ("request_counts", "completed")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def line(self, text_hash: str, text: str) -> bytes:
        """Return the line of the input file that asks for one text."""
        record = {"custom_id": text_hash, "method": "POST", "url": _ENDPOINT}
        return as_json({**record, "body": self.body(text)}) + b"\n"

    async def upload(self, ask: Ask, data: bytes) -> str:
        """Send an input file as a form; returns its id."""
        disposition = f'form-data; name="file"; filename="{_FILENAME}"'
        kind, body = multipart(
            [
                ({"content-disposition": 'form-data; name="purpose"'}, b"batch"),
                ({"content-disposition": disposition, "content-type": JSONL}, data),
            ]
        )
        return _id_in(await ask(self.request("POST", "/files", body, kind)), "id")

    async def create(self, ask: Ask, input_file: str) -> str:
        """Start a batch of an input file; returns its id."""
        body = as_json(self.creation(input_file))
        return _id_in(await ask(self.request("POST", self.batches_path, body)), "id")

    async def find(self, ask: Ask, input_file: str) -> str:
        """Return the id of the batch of an input file among the latest; empty where none is."""
        answer = await ask(self.request("GET", self.batches_path, query=self.listing_query))
        for entry in _list_in(answer, "data"):
            files = _list_in(entry, "input_files") or [_value_in(entry, "input_file_id")]
            if input_file in files:
                return _id_in(entry, "id")
        return ""

    async def poll(self, ask: Ask, batch: str) -> Polled:
        """Ask how a batch is."""
        answer = await ask(self.request("GET", f"{self.batches_path}/{quote(batch, safe='')}"))
        status = _text_in(answer, "status").lower()
        if status not in _STATES:
            raise ValueError("it tells no status that is known")
        output = _value_in(answer, self.output_field)
        completed = _count_in(answer, *self.completed_field)
        return Polled(_STATES[status], output if is_id(output) else "", completed)

    def result(self, output: str) -> Request:
        """Return the request that fetches a file of results."""
        return self.request("GET", f"/files/{quote(output, safe='')}/content")

    def deletion(self, file: str) -> Request:
        """Return the request that deletes a file."""
        return self.request("DELETE", f"/files/{quote(file, safe='')}")

    def read(self, record: object) -> tuple[str, object]:
        """Take apart one line of results: the hash of a text, and what is answered to it inline.

        The answer is unchecked, and `None` where the text was refused; the hash is empty in a line
        that has none.
        """
        status = _value_in(record, "response", "status_code")
        refused = _value_in(record, "error") is not None or status not in (None, 200)
        answer = None if refused else _value_in(record, "response", "body")
        return _text_in(record, "custom_id"), answer

    def body(self, *texts: str) -> dict[str, Any]:
        """Return the body of an inline request for the texts, so that the vectors are the same."""
        plan = self.plan
        prefixed = [plan.templates.document + whole(text) for text in texts]
        return embedding_body(
            plan.service, plan.model, prefixed, Role.DOCUMENT, plan.asked_dimensions
        )

    def creation(self, input_file: str) -> dict[str, Any]:
        """Return the body of the request for a new batch."""
        return {
            "input_file_id": input_file,
            "endpoint": _ENDPOINT,
            "completion_window": "24h",
            "metadata": _SOURCE,
        }

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Request:
        """Return a request to a path below the base address, whose own query stays."""
        parts = urlsplit(self.plan.address.url)
        pairs = [*parse_qsl(parts.query, keep_blank_values=True), *(query or {}).items()]
        place = parts.path.rstrip("/") + path
        url = urlunsplit((parts.scheme, parts.netloc, place, urlencode(pairs), ""))
        headers = {"accept": JSON, "content-type": kind} if body else {"accept": JSON}
        return Request(method, url, headers, body)


class VoyageBatches(OpenAiBatches):
    """Voyage's batch interface: what is the same for every text is told once."""

    name = "voyage"
    window = _DAY / 2

    def line(self, text_hash: str, text: str) -> bytes:
        body = {"input": self.body(text)["input"]}
        return as_json({"custom_id": text_hash, "body": body}) + b"\n"

    def creation(self, input_file: str) -> dict[str, Any]:
        shared = self.body()
        del shared["input"]
        return {
            "input_file_id": input_file,
            "endpoint": _ENDPOINT,
            "completion_window": "12h",
            "request_params": shared,
            "metadata": _SOURCE,
        }


class MistralBatches(OpenAiBatches):
    """Mistral's batch interface: jobs of one model each."""

    name = "mistral"
    retention = 7 * _DAY
    batches_path = "/batch/jobs"
    listing_query: Mapping[str, str] = {"page": "0", "page_size": "100"}
    output_field = "output_file"
    completed_field = ("succeeded_requests",)

    def line(self, text_hash: str, text: str) -> bytes:
        body = self.body(text)
        del body["model"]
        return as_json({"custom_id": text_hash, "body": body}) + b"\n"

    def creation(self, input_file: str) -> dict[str, Any]:
        return {
            "input_files": [input_file],
            "endpoint": _ENDPOINT,
            "model": self.plan.model,
            "timeout_hours": 24,
            "metadata": _SOURCE,
        }


_OUTPUTS: Final = (
    ("response", "responsesFile"),
    ("output", "responsesFile"),
    ("metadata", "output", "responsesFile"),
    ("dest", "fileName"),
)


class GeminiBatches(OpenAiBatches):
    """Gemini's batch interface."""

    name = "gemini"
    retention = 2 * _DAY
    is_optional = True

    def line(self, text_hash: str, text: str) -> bytes:
        plan, prefixed = self.plan, self.plan.templates.document + whole(text)
        body = gemini_body(plan.service, plan.model, prefixed, Role.DOCUMENT, plan.asked_dimensions)
        request = {"model": f"models/{plan.model}"} | body
        return as_json({"key": text_hash, "request": request}) + b"\n"

    async def upload(self, ask: Ask, data: bytes) -> str:
        about = as_json({"file": {"displayName": _FILENAME, "mimeType": JSONL}})
        kind, body = multipart(
            [({"content-type": JSON}, about), ({"content-type": JSONL}, data)], "related"
        )
        url = self._beside("upload", "/files", {"uploadType": "multipart"})
        headers = {"accept": JSON, "content-type": kind}
        return _id_in(await ask(Request("POST", url, headers, body)), "file", "name")

    async def create(self, ask: Ask, input_file: str) -> str:
        batch = {"displayName": _title(input_file), "inputConfig": {"fileName": input_file}}
        path = f"/models/{quote(self.plan.model, safe='')}:asyncBatchEmbedContent"
        return _id_in(await ask(self.request("POST", path, as_json({"batch": batch}))), "name")

    async def find(self, ask: Ask, input_file: str) -> str:
        answer = await ask(self.request("GET", "/batches", query={"pageSize": "100"}))
        for entry in _list_in(answer, "operations"):
            if _value_in(entry, "metadata", "displayName") == _title(input_file):
                return _id_in(entry, "name")
        return ""

    async def poll(self, ask: Ask, batch: str) -> Polled:
        answer = await ask(self.request("GET", f"/{quote(batch, safe='/')}"))
        outputs = (_value_in(answer, *names) for names in _OUTPUTS)
        output = next(filter(is_id, outputs), "")
        stats = _value_in(answer, "metadata", "batchStats") or _value_in(answer, "batchStats")
        return Polled(_state(answer, output), output, _count_in(stats, "successfulRequestCount"))

    def result(self, output: str) -> Request:
        path = f"/{quote(output, safe='/')}:download"
        return Request("GET", self._beside("download", path, {"alt": "media"}), {"accept": JSON})

    def deletion(self, file: str) -> Request:
        # Whatever the name says, nothing but a file is deleted.
        return super().deletion(file.removeprefix("files/"))

    def read(self, record: object) -> tuple[str, object]:
        answer = _value_in(record, "response")
        refused = _value_in(record, "error") is not None or _value_in(answer, "error") is not None
        return _text_in(record, "key"), None if refused else answer

    def _beside(self, what: str, path: str, query: Mapping[str, str]) -> str:
        """Return an address of the upload or download service, which is before the version."""
        parts = urlsplit(self.plan.address.url)
        before, _, version = parts.path.rstrip("/").rpartition("/")
        base = f"{before}/{what}/{version}" if version else f"/{what}"
        own = f"{parts.query}&" if parts.query else ""
        return urlunsplit((parts.scheme, parts.netloc, base + path, own + urlencode(query), ""))


def _state(answer: object, output: str) -> State:
    word = _value_in(answer, "metadata", "state") or _value_in(answer, "state")
    if _value_in(answer, "error") is not None:
        return State.FAILED
    if isinstance(word, str):
        word = word.removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_").lower()
        if word not in _STATES:
            raise ValueError("it tells no state that is known")
        return _STATES[word]
    if _value_in(answer, "done") is True:
        return State.DONE if output else State.FAILED
    if isinstance(_value_in(answer, "name"), str):
        return State.WAITING
    raise ValueError("it is no operation")


def _title(input_file: str) -> str:
    return f"memtui-{hashlib.sha256(input_file.encode()).hexdigest()[:16]}"


INTERFACES: Final = {
    kind.name: kind for kind in (OpenAiBatches, VoyageBatches, MistralBatches, GeminiBatches)
}
"""By service; Ollama has none."""


@dataclass(frozen=True, slots=True)
class BatchService:
    """The batch interface of one provider, with one model, ready to be asked."""

    interface: OpenAiBatches
    connection: Connection
    identity: ProviderIdentity
    """What its vectors are stored under."""
    meter: UsageMeter
    """Counts what was asked for."""
    minimum: int
    """From how many texts on a batch is worth it."""

    @property
    def name(self) -> str:
        """The name of the service."""
        return self.interface.name

    @property
    def place(self) -> str:
        """Host and port, for messages and for the store."""
        return self.connection.plan.address.shown
