"""The requests of four batch interfaces, byte by byte, and what their answers are taken for."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding.batch import lines
from memtui.embedding.batch_protocols import INTERFACES, OpenAiBatches, Polled, State, multipart
from memtui.embedding.payloads import Request
from memtui.embedding.remote import plan_of
from memtui.embedding.services import SERVICES
from memtui.settings.schema import EmbeddingSettings

NAMES = ("openai", "voyage", "mistral", "gemini")
HASH = "ab" * 32
TEXT = 'über "x"\n\ud800'
WRITTEN = r"note: \u00fcber \"x\"\n\ufffd"
GOOGLE = "https://generativelanguage.googleapis.com"


class Spoken:
    """The interface of a service, with the request that it made last and an answer to it."""

    def __init__(self, name: str, answer: object = None, **fields: Any) -> None:
        choice = EmbeddingSettings(
            provider=name, model="model-1", document_prefix="note: ", **fields
        )
        self.answer = answer
        self.it: OpenAiBatches = INTERFACES[name](plan_of(name, choice))

    def do(self, step: str, *arguments: object) -> object:
        """Take a step that asks the service."""
        return asyncio.run(getattr(self.it, step)(self._ask, *arguments))

    async def _ask(self, request: Request) -> object:
        self.request = request
        return self.answer


INPUT_LINES = {
    "openai": '{"custom_id":"%s","method":"POST","url":"/v1/embeddings","body":'
    '{"model":"model-1","input":["%s"],"encoding_format":"float","dimensions":256}}\n',
    "voyage": '{"custom_id":"%s","body":{"input":["%s"]}}\n',
    "mistral": '{"custom_id":"%s","body":'
    '{"input":["%s"],"encoding_format":"float","output_dimension":256}}\n',
    "gemini": '{"key":"%s","request":{"model":"models/model-1","content":{"parts":[{"text":"%s"}]},'
    '"taskType":"RETRIEVAL_DOCUMENT","outputDimensionality":256}}\n',
}


@pytest.mark.parametrize("name", NAMES)
def test_input_lines(name: str) -> None:
    line = Spoken(name, dimensions=256).it.line(HASH, TEXT)
    assert line.decode("ascii") == INPUT_LINES[name] % (HASH, WRITTEN)


CREATIONS = {
    "openai": (
        "https://api.openai.com/v1/batches",
        '{"input_file_id":"file-1","endpoint":"/v1/embeddings","completion_window":"24h",'
        '"metadata":{"source":"memtui"}}',
    ),
    "voyage": (
        "https://api.voyageai.com/v1/batches",
        '{"input_file_id":"file-1","endpoint":"/v1/embeddings","completion_window":"12h",'
        '"request_params":{"model":"model-1","input_type":"document","output_dimension":256},'
        '"metadata":{"source":"memtui"}}',
    ),
    "mistral": (
        "https://api.mistral.ai/v1/batch/jobs",
        '{"input_files":["file-1"],"endpoint":"/v1/embeddings","model":"model-1",'
        '"timeout_hours":24,"metadata":{"source":"memtui"}}',
    ),
    "gemini": (
        f"{GOOGLE}/v1beta/models/model-1:asyncBatchEmbedContent",
        '{"batch":{"displayName":"memtui-c2bb3ccfff6a5dec","inputConfig":{"fileName":"file-1"}}}',
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_creations(name: str) -> None:
    spoken = Spoken(name, {"id": "b-1", "name": "b-1"}, dimensions=256)
    assert spoken.do("create", "file-1") == "b-1"
    call, (url, body) = spoken.request, CREATIONS[name]
    assert (call.method, call.url, call.body.decode("ascii")) == ("POST", url, body)
    assert call.headers["content-type"] == "application/json"


@pytest.mark.parametrize("name", ["openai", "voyage", "mistral"])
def test_the_upload_is_a_form(name: str) -> None:
    data = b'{"custom_id":"1"}\n'
    spoken = Spoken(name, {"id": "file-1"})
    assert spoken.do("upload", data) == "file-1"
    call, boundary = spoken.request, _boundary(b"batch" + data)
    assert (call.method, call.url) == ("POST", SERVICES[name].base_url + "/files")
    assert call.headers["content-type"] == f'multipart/form-data; boundary="{boundary}"'
    assert call.body.decode("ascii") == (
        f"--{boundary}\r\n"
        'content-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f"--{boundary}\r\n"
        'content-disposition: form-data; name="file"; filename="memtui.jsonl"\r\n'
        'content-type: application/jsonl\r\n\r\n{"custom_id":"1"}\n\r\n'
        f"--{boundary}--\r\n"
    )


def _boundary(content: bytes) -> str:
    return f"memtui-{hashlib.blake2b(content, digest_size=20).hexdigest()}"


def test_geminis_upload_is_two_parts_at_another_place() -> None:
    spoken = Spoken("gemini", {"file": {"name": "files/1"}})
    assert spoken.do("upload", b"{}\n") == "files/1"
    about = b'{"file":{"displayName":"memtui.jsonl","mimeType":"application/jsonl"}}'
    call, boundary = spoken.request, _boundary(about + b"{}\n")
    assert call.url == f"{GOOGLE}/upload/v1beta/files?uploadType=multipart"
    assert call.headers["content-type"] == f'multipart/related; boundary="{boundary}"'
    assert call.body == (
        f"--{boundary}\r\ncontent-type: application/json\r\n\r\n".encode()
        + about
        + f"\r\n--{boundary}\r\ncontent-type: application/jsonl\r\n\r\n{{}}\n".encode()
        + f"\r\n--{boundary}--\r\n".encode()
    )


URLS = {
    "openai": ("/batches/b%2F1", "/files/f%2F1/content", "/batches?limit=100"),
    "voyage": ("/batches/b%2F1", "/files/f%2F1/content", "/batches?limit=100"),
    "mistral": ("/batch/jobs/b%2F1", "/files/f%2F1/content", "/batch/jobs?page=0&page_size=100"),
}


@pytest.mark.parametrize("name", URLS)
def test_urls(name: str) -> None:
    spoken, base = Spoken(name, {"status": "failed"}), SERVICES[name].base_url
    spoken.do("poll", "b/1")
    poll = spoken.request
    spoken.do("find", "f-1")
    calls = poll, spoken.it.result("f/1"), spoken.request
    assert [call.url for call in calls] == [base + path for path in URLS[name]]
    assert {call.method for call in calls} == {"GET"}
    deletion = spoken.it.deletion("f/1")
    assert (deletion.method, deletion.url) == ("DELETE", f"{base}/files/f%2F1")


def test_urls_of_gemini() -> None:
    spoken = Spoken("gemini", {"name": "batches/b1"})
    spoken.do("poll", "batches/b1")
    assert spoken.request.url == f"{GOOGLE}/v1beta/batches/b1"
    spoken.do("find", "files/f1")
    assert spoken.request.url == f"{GOOGLE}/v1beta/batches?pageSize=100"
    result = spoken.it.result("files/f1")
    assert result.url == f"{GOOGLE}/download/v1beta/files/f1:download?alt=media"
    assert spoken.it.deletion("files/f1").url == f"{GOOGLE}/v1beta/files/f1"


def test_a_configured_address_keeps_its_path_and_query() -> None:
    spoken = Spoken("openai", {"id": "f"}, base_url="https://host/a/v1?tenant=t%26u")
    assert spoken.it.result("f").url == "https://host/a/v1/files/f/content?tenant=t%26u"
    spoken.do("find", "f")
    assert spoken.request.url == "https://host/a/v1/batches?tenant=t%26u&limit=100"
    assert "tenant" not in repr(spoken.request)
    gemini = Spoken("gemini", {"file": {"name": "f"}}, base_url="https://host/a/v1beta?tenant=t")
    gemini.do("upload", b"")
    upload = "https://host/a/upload/v1beta/files?tenant=t&uploadType=multipart"
    assert gemini.request.url == upload


RUNNING = {"state": "BATCH_STATE_RUNNING", "batchStats": {"successfulRequestCount": "12"}}
ENDED = {"state": "BATCH_STATE_SUCCEEDED", "output": {"responsesFile": "files/1"}}
STATES: list[tuple[str, Any, Polled]] = [
    ("openai", {"status": "validating"}, Polled(State.WAITING)),
    (
        "openai",
        {"status": "in_progress", "request_counts": {"completed": 7}},
        Polled(State.WAITING, completed=7),
    ),
    ("openai", {"status": "completed", "output_file_id": "f-1"}, Polled(State.DONE, "f-1")),
    ("openai", {"status": "completed", "output_file_id": None}, Polled(State.DONE)),
    ("openai", {"status": "completed", "output_file_id": "../x"}, Polled(State.DONE)),
    ("openai", {"status": "expired", "output_file_id": "f-1"}, Polled(State.EXPIRED, "f-1")),
    ("voyage", {"status": "cancelling"}, Polled(State.WAITING)),
    ("voyage", {"status": "failed"}, Polled(State.FAILED)),
    ("mistral", {"status": "QUEUED"}, Polled(State.WAITING)),
    (
        "mistral",
        {"status": "SUCCESS", "output_file": "f-1", "succeeded_requests": 3},
        Polled(State.DONE, "f-1", 3),
    ),
    ("mistral", {"status": "TIMEOUT_EXCEEDED"}, Polled(State.EXPIRED)),
    ("mistral", {"status": "CANCELLATION_REQUESTED"}, Polled(State.WAITING)),
    ("gemini", {"name": "batches/1"}, Polled(State.WAITING)),
    ("gemini", {"name": "batches/1", "metadata": RUNNING}, Polled(State.WAITING, completed=12)),
    ("gemini", {"metadata": ENDED, "done": True}, Polled(State.DONE, "files/1")),
    (
        "gemini",
        {"state": "JOB_STATE_SUCCEEDED", "dest": {"fileName": "files/2"}},
        Polled(State.DONE, "files/2"),
    ),
    (
        "gemini",
        {"done": True, "response": {"responsesFile": "files/3"}},
        Polled(State.DONE, "files/3"),
    ),
    ("gemini", {"state": "COMPLETED"}, Polled(State.DONE)),
    ("gemini", {"done": True, "error": {"code": 3}}, Polled(State.FAILED)),
    ("gemini", {"metadata": {"state": "BATCH_STATE_EXPIRED"}}, Polled(State.EXPIRED)),
]


@pytest.mark.parametrize(("name", "answer", "polled"), STATES, ids=str)
def test_states(name: str, answer: Any, polled: Polled) -> None:
    assert Spoken(name, answer).do("poll", "b-1") == polled


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", [None, [], {}, "completed", {"status": "new"}, {"state": "NEW"}])
def test_states_that_are_none(name: str, answer: Any) -> None:
    with pytest.raises(ValueError, match=r"it (tells|is) no"):
        Spoken(name, answer).do("poll", "b-1")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", ["", "../etc", "a//b", "/a", "a b", "a\n", "x" * 300, 7, None])
def test_ids_that_could_lead_elsewhere_are_refused(name: str, odd: object) -> None:
    spoken = Spoken(name, {"id": odd, "name": odd, "file": {"name": odd}})
    with pytest.raises(ValueError, match="it names no"):
        spoken.do("create", "f-1")
    with pytest.raises(ValueError, match="it names no"):
        spoken.do("upload", b"")


FIRST, SECOND = {"id": "b-1", "input_file_id": "f-1"}, {"id": "b-2", "input_file_id": "f-2"}
OTHER = {"name": "batches/1", "metadata": {"displayName": "other"}}
TITLED = {"name": "b-2", "metadata": {"displayName": "memtui-b0356098ece57c97"}}
LISTED: dict[str, Any] = {
    "openai": {"data": [{}, SECOND]},
    "voyage": {"data": [FIRST, SECOND]},
    "mistral": {"data": [{"id": "b-2", "input_files": ["f-0", "f-2"]}], "total": 1},
    "gemini": {"operations": [OTHER, TITLED]},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_found_by_its_file(name: str) -> None:
    spoken = Spoken(name, LISTED[name])
    assert spoken.do("find", "f-2") == "b-2"
    assert spoken.do("find", "f-3") == ""
    for spoken.answer in ({"data": None}, None):
        assert spoken.do("find", "f-2") == ""


RESULTS: list[tuple[str, Any, tuple[str, object]]] = [
    (
        "openai",
        {"custom_id": HASH, "response": {"status_code": 200, "body": {"data": 1}}, "error": None},
        (HASH, {"data": 1}),
    ),
    ("openai", {"custom_id": HASH, "response": {"status_code": 400, "body": {}}}, (HASH, None)),
    ("voyage", {"custom_id": HASH, "response": None, "error": {"code": 1}}, (HASH, None)),
    ("mistral", {"id": "batch-1", "response": {"body": {}}}, ("", {})),
    ("gemini", {"key": HASH, "response": {"embedding": {}}}, (HASH, {"embedding": {}})),
    ("gemini", {"key": HASH, "error": {"code": 3}}, (HASH, None)),
    ("gemini", {"key": HASH, "response": {"error": {"code": 3}}}, (HASH, None)),
    ("gemini", {"custom_id": HASH}, ("", None)),
    ("gemini", [], ("", None)),
    ("openai", None, ("", None)),
]


@pytest.mark.parametrize(("name", "record", "result"), RESULTS, ids=str)
def test_lines_of_results(name: str, record: Any, result: tuple[str, object]) -> None:
    assert Spoken(name).it.read(record) == result


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_no_part_holds_the_boundary(contents: list[bytes]) -> None:
    kind, body = multipart([({"content-type": "x/y"}, content) for content in contents])
    boundary = kind.partition('"')[2].rstrip('"').encode()
    parts = body.split(b"--" + boundary)
    assert len(parts) == len(contents) + 2
    assert [part.partition(b"\r\n\r\n")[2][:-2] for part in parts[1:-1]] == contents


@given(st.lists(st.text(st.sampled_from("ab\r ∑")).map(str.encode)), st.integers(1, 7))
def test_lines_are_the_same_however_they_come(texts: list[bytes], size: int) -> None:
    data = b"\n".join(texts)
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    assert list(lines(chunks)) == [text for text in texts if text.strip()]
