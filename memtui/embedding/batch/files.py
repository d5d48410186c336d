"""The batch interfaces of OpenAI, Voyage and Mistral: a file up, a batch of it, a file down.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from memtui.embedding.batch.calls import (
    JSON,
    Call,
    Target,
    as_json,
    at,
    delete,
    form_file,
    get,
    post,
)
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
from memtui.embedding.protocols import Role, embedding_body

_ENDPOINT: Final = "/v1/embeddings"
_FILENAME: Final = "memtui.jsonl"
_MEGABYTE: Final = 10**6
_HOUR: Final = 3600.0
_DAY: Final = 24 * _HOUR
# The input file is held as a whole, and made and hashed between two looks at a stop.
OWN_MOST_BYTES: Final = 32 * _MEGABYTE

_STATES: Final[Mapping[str, State]] = {
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
        listed = field(answer, "data")
        for entry in listed if isinstance(listed, list) else ():
            if self._is_of(entry, input_file):
                return id_in(entry, "id")
        return ""

    def poll(self, batch: str) -> Call:
        """Ask how a batch is."""
        return get(self._target, f"{self._batches}/{quote(batch, safe='')}")

    def polled(self, answer: object) -> Polled:
        """How the batch is."""
        status = field(answer, "status")
        if not isinstance(status, str) or status not in _STATES:
            raise ValueError("it tells no status that is known")
        output = field(answer, self._output)
        return Polled(
            _STATES[status],
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
        text_hash = field(record, "custom_id")
        if not isinstance(text_hash, str):
            return None
        status = field(record, "response", "status_code")
        refused = field(record, "error") is not None or status not in (None, 200)
        return Line(text_hash, None if refused else field(record, "response", "body"))

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
        return bool(field(entry, "input_file_id") == input_file)


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
        files = field(entry, "input_files")
        return isinstance(files, list) and input_file in files
