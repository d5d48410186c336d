"""The requests of four batch interfaces, byte by byte, and what their answers are taken for."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding.batch.protocols import (
    Line,
    OpenAiBatches,
    Polled,
    State,
    Target,
    batch_protocol,
    multipart,
)
from memtui.embedding.batch.run import lines
from memtui.embedding.services import SERVICES, address_of

NAMES = ("openai", "voyage", "mistral", "gemini")
HASH = "ab" * 32
TEXT = 'über "x"\n\ud800'
WRITTEN = r"note: \u00fcber \"x\"\n\ufffd"


def protocol(name: str, *, base_url: str = "", dimensions: int | None = None) -> OpenAiBatches:
    service = SERVICES[name]
    address = address_of(service, base_url)
    return batch_protocol(name, Target(service, address, "model-1", dimensions, "note: "))


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
    line = protocol(name, dimensions=256).line(HASH, TEXT)
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
        "https://generativelanguage.googleapis.com/v1beta/models/model-1:asyncBatchEmbedContent",
        '{"batch":{"displayName":"memtui-c2bb3ccfff6a5dec","inputConfig":{"fileName":"file-1"}}}',
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_creations(name: str) -> None:
    call = protocol(name, dimensions=256).create("file-1")
    url, body = CREATIONS[name]
    assert (call.method, call.url, call.body.decode("ascii")) == ("POST", url, body)
    assert call.headers["content-type"] == "application/json"


@pytest.mark.parametrize("name", ["openai", "voyage", "mistral"])
def test_the_upload_is_a_form(name: str) -> None:
    data = b'{"custom_id":"1"}\n'
    call = protocol(name).upload(data)
    boundary = "memtui-" + hashlib.blake2b(b"batch" + data, digest_size=20).hexdigest()
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


def test_geminis_upload_is_two_parts_at_another_place() -> None:
    call = protocol("gemini").upload(b"{}\n")
    about = b'{"file":{"displayName":"memtui.jsonl","mimeType":"application/jsonl"}}'
    boundary = "memtui-" + hashlib.blake2b(about + b"{}\n", digest_size=20).hexdigest()
    assert call.url == (
        "https://generativelanguage.googleapis.com/upload/v1beta/files?uploadType=multipart"
    )
    assert call.headers["content-type"] == f'multipart/related; boundary="{boundary}"'
    assert call.body == (
        f"--{boundary}\r\ncontent-type: application/json\r\n\r\n".encode()
        + about
        + f"\r\n--{boundary}\r\ncontent-type: application/jsonl\r\n\r\n{{}}\n".encode()
        + f"\r\n--{boundary}--\r\n".encode()
    )


GETS = {
    "openai": ("/batches/b%2F1", "/files/f%2F1/content", "/batches?limit=100"),
    "voyage": ("/batches/b%2F1", "/files/f%2F1/content", "/batches?limit=100"),
    "mistral": ("/batch/jobs/b%2F1", "/files/f%2F1/content", "/batch/jobs?page=0&page_size=100"),
}


def test_what_is_deleted() -> None:
    for name in GETS:
        call = protocol(name).delete("f/1")
        assert (call.method, call.url) == ("DELETE", f"{SERVICES[name].base_url}/files/f%2F1")
    call = protocol("gemini").delete("files/f1")
    assert call.url == "https://generativelanguage.googleapis.com/v1beta/files/f1"


@pytest.mark.parametrize("name", GETS)
def test_what_is_asked_for(name: str) -> None:
    spoken, base = protocol(name), SERVICES[name].base_url
    calls = spoken.poll("b/1"), spoken.result("f/1"), spoken.listing()
    assert [call.url for call in calls] == [base + path for path in GETS[name]]
    assert {call.method for call in calls} == {"GET"}


def test_what_is_asked_for_of_gemini() -> None:
    spoken, host = protocol("gemini"), "https://generativelanguage.googleapis.com"
    calls = spoken.poll("batches/b1"), spoken.result("files/f1"), spoken.listing()
    assert [call.url for call in calls] == [
        f"{host}/v1beta/batches/b1",
        f"{host}/download/v1beta/files/f1:download?alt=media",
        f"{host}/v1beta/batches?pageSize=100",
    ]


def test_a_configured_address_keeps_its_path_and_query() -> None:
    spoken = protocol("openai", base_url="https://host/a/v1?tenant=t%26u")
    assert spoken.poll("b1").url == "https://host/a/v1/batches/b1?tenant=t%26u"
    assert spoken.listing().url == "https://host/a/v1/batches?tenant=t%26u&limit=100"
    assert spoken.upload(b"").url == "https://host/a/v1/files?tenant=t%26u"
    gemini = protocol("gemini", base_url="https://host/a/v1beta?tenant=t")
    assert gemini.upload(b"").url == (
        "https://host/a/upload/v1beta/files?tenant=t&uploadType=multipart"
    )
    assert "tenant" not in repr(spoken.poll("b1"))


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
    (
        "gemini",
        {
            "name": "batches/1",
            "metadata": {
                "state": "BATCH_STATE_RUNNING",
                "batchStats": {"successfulRequestCount": "12"},
            },
        },
        Polled(State.WAITING, completed=12),
    ),
    (
        "gemini",
        {
            "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": {"responsesFile": "files/1"}},
            "done": True,
        },
        Polled(State.DONE, "files/1"),
    ),
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
    assert protocol(name).polled(answer) == polled


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", [None, [], {}, "completed", {"status": "new"}, {"state": "NEW"}])
def test_states_that_are_none(name: str, answer: Any) -> None:
    with pytest.raises(ValueError, match=r"it (tells|is) no"):
        protocol(name).polled(answer)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("found", ["", "../etc", "a//b", "/a", "a b", "a\n", "x" * 300, 7, None])
def test_ids_that_could_lead_elsewhere_are_refused(name: str, found: object) -> None:
    spoken = protocol(name)
    with pytest.raises(ValueError, match="it names no"):
        spoken.created({"id": found, "name": found})
    with pytest.raises(ValueError, match="it names no"):
        spoken.uploaded({"id": found, "file": {"name": found}})


LISTED: dict[str, Any] = {
    "openai": {"data": [{}, {"id": "b-2", "input_file_id": "f-2"}]},
    "voyage": {
        "data": [{"id": "b-1", "input_file_id": "f-1"}, {"id": "b-2", "input_file_id": "f-2"}]
    },
    "mistral": {"data": [{"id": "b-2", "input_files": ["f-0", "f-2"]}], "total": 1},
    "gemini": {
        "operations": [
            {"name": "batches/1", "metadata": {"displayName": "other"}},
            {
                "name": "b-2",
                "metadata": {"displayName": f"memtui-{hashlib.sha256(b'f-2').hexdigest()[:16]}"},
            },
        ]
    },
}


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_found_by_its_file(name: str) -> None:
    spoken = protocol(name)
    assert spoken.found(LISTED[name], "f-2") == "b-2"
    assert spoken.found(LISTED[name], "f-3") == ""
    assert spoken.found({"data": None}, "f-2") == spoken.found(None, "f-2") == ""


RESULTS: list[tuple[str, Any, Line | None]] = [
    (
        "openai",
        {"custom_id": HASH, "response": {"status_code": 200, "body": {"data": 1}}, "error": None},
        Line(HASH, {"data": 1}),
    ),
    ("openai", {"custom_id": HASH, "response": {"status_code": 400, "body": {}}}, Line(HASH, None)),
    ("voyage", {"custom_id": HASH, "response": None, "error": {"code": 1}}, Line(HASH, None)),
    ("mistral", {"id": "batch-1", "response": {"body": {}}}, None),
    ("gemini", {"key": HASH, "response": {"embedding": {}}}, Line(HASH, {"embedding": {}})),
    ("gemini", {"key": HASH, "error": {"code": 3}}, Line(HASH, None)),
    ("gemini", {"key": HASH, "response": {"error": {"code": 3}}}, Line(HASH, None)),
    ("gemini", {"custom_id": HASH}, None),
    ("gemini", [], None),
    ("openai", None, None),
]


@pytest.mark.parametrize(("name", "record", "line"), RESULTS, ids=str)
def test_lines_of_results(name: str, record: Any, line: Line | None) -> None:
    assert protocol(name).read(record) == line


def test_only_gemini_says_with_404_that_there_are_no_batches() -> None:
    assert [name for name in NAMES if protocol(name).closes(404)] == ["gemini"]
    assert not protocol("gemini").closes(400)


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


def test_every_input_line_is_json() -> None:
    for name in NAMES:
        assert HASH in json.loads(protocol(name).line(HASH, TEXT)).values()
