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
from tests.support.batches import NAMES
from tests.support.known import cases, load

KNOWN: dict[str, Any] = load("services")
HASH = "ab" * 32
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


@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_for_a_new_batch(name: str) -> None:
    spoken = Spoken(name, {"id": "b-1", "name": "b-1"}, dimensions=256)
    line = spoken.it.line(HASH, 'über "x"\n\ud800').decode("ascii")
    assert line == KNOWN["batch_lines"][name] % (HASH, r"note: \u00fcber \"x\"\n\ufffd")
    assert spoken.do("create", "file-1") == "b-1"
    request = spoken.request
    url, body = KNOWN["batch_creations"][name]
    assert (request.method, request.url, request.body.decode("ascii")) == ("POST", url, body)
    assert request.headers["content-type"] == "application/json"


def test_uploads_are_two_parts() -> None:
    data = b'{"custom_id":"1"}\n'
    about = b'{"file":{"displayName":"memtui.jsonl","mimeType":"application/jsonl"}}'
    form = (
        'content-disposition: form-data; name="purpose"\r\n\r\nbatch',
        (
            'content-disposition: form-data; name="file"; filename="memtui.jsonl"\r\n'
            "content-type: application/jsonl\r\n\r\n" + data.decode()
        ),
    )
    related = (
        f"content-type: application/json\r\n\r\n{about.decode()}",
        f"content-type: application/jsonl\r\n\r\n{data.decode()}",
    )
    for name in NAMES:
        is_gemini = name == "gemini"
        spoken = Spoken(name, {"id": "f-1", "file": {"name": "f-1"}})
        assert spoken.do("upload", data) == "f-1"
        content = (about if is_gemini else b"batch") + data
        boundary = f"memtui-{hashlib.blake2b(content, digest_size=20).hexdigest()}"
        kind = "related" if is_gemini else "form-data"
        parts = related if is_gemini else form
        assert spoken.request.headers["content-type"] == f'multipart/{kind}; boundary="{boundary}"'
        expected = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts) + f"--{boundary}--\r\n"
        assert spoken.request.body.decode("ascii") == expected
        url = f"{SERVICES[name].base_url}/files"
        if is_gemini:
            url = f"{GOOGLE}/upload/v1beta/files?uploadType=multipart"
        assert (spoken.request.method, spoken.request.url) == ("POST", url)


URLS = {
    "openai": ("/batches/b%2F1", "/files/f%2F1/content", "/batches?limit=100", "/files/f%2F1"),
    "voyage": ("/batches/b%2F1", "/files/f%2F1/content", "/batches?limit=100", "/files/f%2F1"),
    "mistral": (
        *("/batch/jobs/b%2F1", "/files/f%2F1/content", "/batch/jobs?page=0&page_size=100"),
        "/files/f%2F1",
    ),
    "gemini": ("/b/1", "/f/1:download?alt=media", "/batches?pageSize=100", "/files/f%2F1"),
}


@pytest.mark.parametrize("name", URLS)
def test_urls(name: str) -> None:
    spoken, base = Spoken(name, {"status": "failed", "name": "x"}), SERVICES[name].base_url
    spoken.do("poll", "b/1")
    poll = spoken.request
    spoken.do("find", "f-1")
    requests = poll, spoken.it.result("f/1"), spoken.request, spoken.it.deletion("f/1")
    places = [request.url.replace(f"{GOOGLE}/download/v1beta", base) for request in requests]
    assert places == [base + path for path in URLS[name]]
    assert [request.method for request in requests] == ["GET", "GET", "GET", "DELETE"]


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


@pytest.mark.parametrize(("name", "answer", "polled"), cases("services", "batch_states"))
def test_states(name: str, answer: Any, polled: list[Any]) -> None:
    state, output, completed = polled
    assert Spoken(name, answer).do("poll", "b-1") == Polled(State(state), output, completed)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", [None, [], {}, "completed", {"status": "new"}, {"state": "NEW"}])
def test_states_that_are_none(name: str, answer: Any) -> None:
    with pytest.raises(ValueError, match=r"it (tells|is) no"):
        Spoken(name, answer).do("poll", "b-1")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", ["", "../etc", "a//b", "/a", "a b", "a\n", "x" * 300, 7, None])
def test_ids_that_could_lead_elsewhere_are_refused(name: str, odd: object) -> None:
    spoken = Spoken(name, {"id": odd, "name": odd, "file": {"name": odd}})
    for step, argument in (("create", "f-1"), ("upload", b"")):
        with pytest.raises(ValueError, match="it names no"):
            spoken.do(step, argument)


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_found_by_its_file(name: str) -> None:
    spoken = Spoken(name, KNOWN["batch_listed"][name])
    assert spoken.do("find", "f-2") == "b-2"
    assert spoken.do("find", "f-3") == ""
    for spoken.answer in ({"data": None}, None):
        assert spoken.do("find", "f-2") == ""


@pytest.mark.parametrize(("name", "record", "result"), cases("services", "batch_results"))
def test_lines_of_results(name: str, record: Any, result: list[object]) -> None:
    assert Spoken(name).it.read(record) == tuple(result)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4))
def test_no_part_holds_the_boundary(contents: list[bytes]) -> None:
    kind, body = multipart([({"content-type": "x/y"}, content) for content in contents])
    parts = body.split(b"--" + kind.partition('"')[2].rstrip('"').encode())
    assert [part.partition(b"\r\n\r\n")[2][:-2] for part in parts[1:-1]] == contents


@given(st.lists(st.text(st.sampled_from("ab\r ∑")).map(str.encode)), st.integers(1, 7))
def test_lines_are_the_same_however_they_come(texts: list[bytes], size: int) -> None:
    data = b"\n".join(texts)
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    assert list(lines(chunks)) == [text for text in texts if text.strip()]
