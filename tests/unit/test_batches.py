"""The batch interfaces of four services: what is sent and read, and whole runs of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.embedding.batch import BatchInterface, BatchStore, Polled, Ticket, lines
from memtui.embedding.remote import RemoteProvider, plan_of
from memtui.embedding.services import SERVICES, Request
from memtui.errors import Cancelled
from memtui.model import Usage
from memtui.settings.schema import EmbeddingSettings
from tests.support.batches import (
    EXPIRED,
    FAILED,
    KEY,
    NAMES,
    TOKENS,
    WAITING,
    Bench,
    bench,
    expected,
    make_interface,
    texts_of,
)
from tests.support.embedding_services import Answer
from tests.support.known import cases, load


@pytest.fixture
def name() -> str:
    """The service where a test names none."""
    return "openai"


@pytest.fixture
def here(name: str, tmp_path: Path) -> Iterator[Bench]:
    with bench(name, tmp_path) as made:
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_every_service_gives_the_vectors(here: Bench, name: str, tmp_path: Path) -> None:
    texts = texts_of(5)
    outcome = here.run(texts)
    assert here.vectors(texts) == expected(texts)
    assert here.server.steps()[:5] == ["upload", "create", "poll", "poll", "download"]
    # No text and no vector stays at the service.
    assert here.server.steps()[5:] == ["delete", "delete"]
    sent = next(iter(here.server.files))
    folder = "" if name == "gemini" else "files/"
    assert here.server.deleted == [f"{folder}{sent}", f"{folder}{sent}-out"]
    assert here.told[0] == (f"batch: sending to {name}", 0, 5)
    assert (f"batch: waiting for {name}", 1, 5) in here.told
    assert here.interface.provider.usage().texts == 5
    assert (outcome.done, outcome.note, outcome.waiting) == (5, "", False)
    assert outcome.spent == Usage(1, 5, 5 * TOKENS, False)
    assert not (tmp_path / "batches.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_key_goes_in_a_header_and_nowhere_else(here: Bench, name: str, tmp_path: Path) -> None:
    here.server.states = [WAITING[name]]
    assert here.run(texts_of(3), interrupted=lambda: True).waiting
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert KEY.encode() not in path.read_bytes()
    assert "text 0" not in (tmp_path / "batches.json").read_text()
    assert (tmp_path / "batches.json").stat().st_mode & 0o777 == 0o600
    for call in here.server.calls:
        assert KEY not in call.path + call.query
        assert KEY.encode() not in call.body
        found = call.headers.get("x-goog-api-key") or call.headers["authorization"]
        assert found.removeprefix("Bearer ") == KEY
    assert KEY not in repr((here.interface, here.store.under_way(OWNER, 0)))
    here.server.fail("poll", Answer(KEY.encode(), 401), Answer(KEY.encode(), 401))
    assert KEY not in here.run(texts_of(3)).note


def test_two_batches_are_under_way_at_once(here: Bench) -> None:
    texts = texts_of(7)
    here.limit(most_texts=2)
    outcome = here.run(texts)
    assert here.vectors(texts) == expected(texts)
    assert here.server.steps()[:5] == ["upload", "create", "upload", "create", "poll"]
    assert here.server.steps().count("create") == 4
    under_way = most = 0
    for step in here.server.steps():
        under_way += {"create": 1, "download": -1}.get(step, 0)
        most = max(most, under_way)
    assert most == 2
    assert [len(data.splitlines()) for data in here.server.files.values()] == [2, 2, 2, 1]
    assert outcome.spent.requests == 4


def test_texts_that_no_service_takes_are_left(here: Bench) -> None:
    texts = texts_of(2)
    outcome = here.run(texts | {"b" * 64: " \n", "c" * 64: "x" * 8001})
    assert outcome.done == 2
    assert here.vectors(texts) == expected(texts)
    assert len(here.run({"b" * 64: ""}).note) == 0
    assert here.server.steps().count("upload") == 1


@pytest.mark.parametrize("name", NAMES)
def test_two_batches_that_fail_end_it(here: Bench, name: str, tmp_path: Path) -> None:
    here.server.states, here.server.has_output = [FAILED[name]], False
    here.limit(most_texts=2)
    outcome = here.run(texts_of(10))
    assert here.server.steps().count("create") == 2
    assert outcome.done == 0
    assert "no more batches in this run" in outcome.note
    assert here.vectors(texts_of(10)) == {}
    assert not (tmp_path / "batches.json").exists()


def test_gemini_without_batches_ends_it_at_once(tmp_path: Path) -> None:
    with bench("gemini", tmp_path) as here:
        here.server.fail("create", Answer(b'{"error":{"message":"secret words"}}', 404))
        here.limit(most_texts=2)
        outcome = here.run(texts_of(10))
        assert here.server.steps() == ["upload", "create", "delete"]
        assert "no more batches in this run" in outcome.note
        assert "HTTP 404" in outcome.note
        assert "secret words" not in outcome.note
    assert not (tmp_path / "batches.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_that_takes_too_long_is_left_to_the_caller(
    here: Bench, name: str, tmp_path: Path
) -> None:
    texts = texts_of(4)
    here.server.states, here.server.has_output = [EXPIRED[name]], False
    outcome = here.run(texts)
    here.clock.speed, here.server.states = 2000.0, [WAITING[name]]
    never = here.run(texts)
    for each in (outcome, never):
        assert each.done == 0
        assert "took too long" in each.note
    assert here.server.steps().count("create") == 2
    assert not (tmp_path / "batches.json").exists()


def changed(change: Callable[[str], str]) -> Callable[[list[bytes]], list[bytes]]:
    """Change the first line."""
    return lambda lines: [change(lines[0].decode()).encode(), *lines[1:]]


def numbers_as(numbers: str) -> Callable[[list[bytes]], list[bytes]]:
    """Give other numbers in the first line."""

    def change(line: str) -> str:
        name = "embedding" if '"custom_id"' in line else "values"
        start = line.index("[", line.index(f'"{name}": ['))
        return line[:start] + numbers + line[line.index("]", start) + 1 :]

    return changed(change)


BROKEN = {
    "cut short": changed(lambda line: line[: len(line) // 2]),
    "not JSON": changed(lambda _line: "<html>"),
    "nested": changed(lambda _line: "[" * 50_000),
    "not an object": changed(lambda _line: "[1, 2]"),
    "not UTF-8": lambda lines: [b"\xff\xfe" + lines[0], *lines[1:]],
    "another id": changed(lambda line: line.replace(json.loads(line)[id_of(line)], "0" * 64)),
    "an id that is none": changed(
        lambda line: json.dumps(json.loads(line) | {id_of(line): ["../x"]})
    ),
    "NaN": numbers_as("[NaN, 1, 1, 1, 1, 1, 1, 1]"),
    "infinity": numbers_as("[Infinity, 1, 1, 1, 1, 1, 1, 1]"),
    "too few": numbers_as("[1, 2, 3]"),
    "too many": numbers_as("[1, 2, 3, 4, 5, 6, 7, 8, 9]"),
    "words": numbers_as('["1", 1, 1, 1, 1, 1, 1, 1]'),
    "no numbers": numbers_as("[]"),
}


def id_of(line: str) -> str:
    """What the id of a line is called."""
    return "custom_id" if '"custom_id"' in line else "key"


@pytest.mark.parametrize("name", ["openai", "gemini"])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_line_costs_its_own_text_alone(here: Bench, kind: str) -> None:
    texts = texts_of(3)
    here.server.tamper = BROKEN[kind]
    outcome = here.run(texts)
    stored = here.vectors(texts)
    assert outcome.done == len(stored) == 2
    assert stored.items() <= expected(texts).items()
    assert here.cache.count() == 2


def test_the_number_of_dimensions_is_what_most_vectors_have(tmp_path: Path) -> None:
    texts = texts_of(5)
    with bench("openai", tmp_path, dimensions=None) as here:
        here.server.tamper = numbers_as("[1, 2, 3]")
        outcome = here.run(texts)
        assert outcome.done == 4
        assert here.vectors(texts).items() <= expected(texts).items()


@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
@pytest.mark.parametrize(
    "fault",
    [Answer(b"", 503), Answer(b"", 429), Answer(b"<html>", 200), Answer(b"{}", 200, cut=True)],
    ids=["503", "429", "html", "cut"],
)
def test_what_passes_is_tried_again(here: Bench, step: str, fault: Answer) -> None:
    texts = texts_of(3)
    here.server.fail(step, fault)
    outcome = here.run(texts)
    is_html_file = step == "download" and fault.status == 200 and not fault.cut
    assert outcome.done == (0 if is_html_file else 3)
    assert here.server.steps().count("create") == (2 if step == "create" else 1)
    assert len(here.server.jobs) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_whose_answer_was_lost_is_found_and_not_started_twice(here: Bench) -> None:
    texts = texts_of(3)
    here.server.fail("create", Answer(b"{}", 200, cut=True))
    here.server.acts = True
    assert here.run(texts).done == 3
    assert len(here.server.jobs) == 1
    assert here.server.steps()[:3] == ["upload", "create", "list"]
    assert here.vectors(texts) == expected(texts)


@pytest.mark.parametrize("status", [400, 401, 403, 302])
@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
def test_what_does_not_pass_is_not_tried_again(here: Bench, step: str, status: int) -> None:
    words = b'{"error": {"message": "secret words"}}'
    fault = Answer(words, status, {"location": "http://127.0.0.1:9/elsewhere"})
    here.server.fail(step, *[fault] * 9)
    outcome = here.run(texts_of(3))
    assert outcome.done == 0
    assert here.server.steps().count(step) == 1
    assert f"HTTP {status} from {here.server.host}" in outcome.note
    assert "secret words" not in outcome.note
    assert "\n" not in outcome.note


def test_a_service_that_stays_away_is_not_waited_for_for_ever(here: Bench, tmp_path: Path) -> None:
    texts = texts_of(3)
    silent = [Answer(b"", 503)] * 8
    here.server.fail("poll", *silent, Answer(b"", 503))
    outcome = here.run(texts)
    assert outcome.done == 0
    # The batch is still there: the next run takes what it gives.
    assert (tmp_path / "batches.json").exists()
    # An answer in between, though it knows the batch not, starts the count anew.
    here.server.fail("poll", *silent, Answer(b"", 404), *silent)
    assert here.run(texts).done == 3
    assert len(here.server.jobs) == 1


def test_a_batch_that_the_service_forgot_is_forgotten(here: Bench, tmp_path: Path) -> None:
    here.server.fail("poll", *[Answer(b"", 404)] * 2)
    assert here.run(texts_of(2)).done == 2, "a new batch is not seen at once"
    for step in ("poll", "download"):
        here.server.fail(step, *[Answer(b"", 404)] * 3)
        assert "knows the batch no more" in here.run(texts_of(3)).note
    assert not (tmp_path / "batches.json").exists()


def test_a_file_that_is_no_lines_is_given_up(here: Bench, tmp_path: Path) -> None:
    texts = texts_of(3)
    here.server.tamper = lambda lines: [lines[0], b"x" * (5 * 2**20), lines[1]]
    outcome = here.run(texts)
    assert outcome.done == 1
    assert "longer than a vector can be" in outcome.note
    assert here.vectors(texts).items() <= expected(texts).items()
    assert here.server.steps().count("download") == 1
    assert not (tmp_path / "batches.json").exists()


def test_a_file_that_is_cut_is_fetched_again(here: Bench) -> None:
    texts = texts_of(400)
    faults = Answer(b"", 200, cut=True), Answer(b'{"custom_id": "ab', 200, cut=True)
    here.server.fail("download", *faults)
    outcome = here.run(texts)
    assert (outcome.done, outcome.spent.tokens) == (400, 400 * TOKENS)
    assert here.server.steps().count("download") == 3
    assert here.vectors(texts) == expected(texts)


OWNER = ("api.openai.com", "openai", "model-1", "f" * 64)


def restarted(here: Bench, fingerprint: str = "f" * 64) -> Bench:
    """Another process: nothing but the folder and the server is left."""
    here.interface.provider.close()
    here.interface = make_interface(here.server)
    here.identity = dataclasses.replace(here.identity, fingerprint=fingerprint)
    return here


class Dies:
    """A provider whose process ends after a step."""

    def __init__(self, inner: RemoteProvider, step: str, server: Bench) -> None:
        self.inner, self.step, self.bench = inner, step, server
        self.client = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, *arguments: Any) -> object:
        answer = self.inner.client.run(*arguments)
        self._die()
        return answer

    def download(self, *arguments: Any) -> Iterator[bytes]:
        for piece in self.inner.download(*arguments):
            yield piece[: len(piece) // 2]
            self._die()

    def _die(self) -> None:
        if self.bench.server.steps()[-1] == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
def test_a_process_may_die_at_any_step(here: Bench, step: str) -> None:
    texts = texts_of(30)
    alive = here.interface.provider
    here.interface.provider = cast("RemoteProvider", Dies(alive, step, here))
    with pytest.raises(KeyboardInterrupt):
        here.run(texts)
    here.interface.provider = alive
    partly = here.vectors(texts)
    assert partly.items() <= expected(texts).items()
    assert restarted(here).run(texts).done == 30
    assert here.vectors(texts) == expected(texts)
    assert len(here.server.jobs) == 1


def test_a_few_texts_do_not_wait_for_a_batch_of_before(here: Bench) -> None:
    texts = texts_of(5)
    assert here.run(texts, interrupted=lambda: True).waiting
    few = texts_of(2)
    outcome = restarted(here).run(few, minimum=3)
    assert (outcome.done, outcome.waiting, outcome.note) == (0, False, "")
    # It has ended by the next run, and is taken.
    assert here.run(few, minimum=3).done == 2
    assert here.vectors(few) == expected(few)


def test_another_identity_leaves_a_batch_alone(here: Bench, tmp_path: Path) -> None:
    texts = texts_of(3)
    assert here.run(texts, interrupted=lambda: True).waiting
    stored = (tmp_path / "batches.json").read_bytes()
    other = restarted(here, fingerprint="e" * 64)
    assert other.run(texts, minimum=10).done == 0
    assert (tmp_path / "batches.json").read_bytes() == stored
    assert "poll" not in here.server.steps()
    assert other.run(texts).done == 3
    assert len(here.server.jobs) == 2
    assert (tmp_path / "batches.json").read_bytes() == stored


def test_a_file_whose_batch_was_never_started_is_not_paid_for(here: Bench, tmp_path: Path) -> None:
    before, missing = texts_of(5), texts_of(3, start=9)
    here.server.fail("create", *[Answer(b"", 503)] * 3)
    assert "HTTP 503" in here.run(before).note
    # All of them were embedded without a batch meanwhile; other texts are missing now.
    assert restarted(here).run(missing).done == 3
    (job,) = here.server.jobs.values()
    assert len(here.server.files[job.input_file].splitlines()) == 3
    assert here.server.deleted[0] == f"files/{next(iter(here.server.files))}"
    assert not (tmp_path / "batches.json").exists()


@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
def test_a_stop_ends_a_request_that_hangs(here: Bench, step: str) -> None:
    stop = threading.Event()
    here.server.fail(step, Answer(hang=True))
    ended: list[float] = []

    def work() -> None:
        with pytest.raises(Cancelled):
            here.run(texts_of(2), cancelled=stop.is_set)
        ended.append(time.monotonic())

    thread = threading.Thread(target=work)
    thread.start()
    assert here.server.hanging.wait(10)
    asked = time.monotonic()
    stop.set()
    thread.join(10)
    # A tenth of a second is promised; the rest is for a machine that is busy.
    assert ended[0] - asked < 0.3
    here.server.stopping.set()


def test_an_interruption_leaves_the_batch_and_says_so(here: Bench) -> None:
    outcome = here.run(texts_of(2), interrupted=lambda: here.clock.slept > 1)
    assert (outcome.waiting, outcome.note) == (True, "")
    assert here.clock.slept < 1.2
    assert len(here.store.under_way((here.server.host, *OWNER[1:]), 0)) == 1


def ticket(number: int, **others: object) -> Ticket:
    values: dict[str, object] = {
        "owner": OWNER,
        "input_file": f"file-{number}",
        "batch": "",
        "texts": 10,
        "submitted_at": float(number),
        "expires_at": 1000.0,
    }
    return Ticket(**(values | others))  # type: ignore[arg-type]


def test_the_store_keeps_tickets_apart_and_forgets_what_has_expired(tmp_path: Path) -> None:
    store = BatchStore(tmp_path / "batches.json")
    first, second = ticket(1), ticket(2, batch="batch_2")
    elsewhere, other = ("other", *OWNER[1:]), (*OWNER[:2], "other", OWNER[3])
    rebuilt = (*OWNER[:3], "another fingerprint")
    others = [ticket(3, owner=elsewhere, expires_at=5000.0)]
    others += [ticket(number, owner=owner) for number, owner in ((4, other), (5, rebuilt))]
    for one in (ticket(2), first, *others, second):
        store.put(one)
    assert store.under_way(OWNER, 0.0) == [first, second]
    store.remove(second)
    assert store.under_way(OWNER, 0.0) == [first]
    assert len(json.loads((tmp_path / "batches.json").read_bytes())["batches"]) == 4
    assert store.under_way(OWNER, 1000.0) == []
    assert len(json.loads((tmp_path / "batches.json").read_bytes())["batches"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["batches.json"]


@pytest.mark.parametrize(
    "damage", [*load("services")["damaged lists of batches"], "[" * 100_000], ids=lambda it: it[:40]
)
def test_a_damaged_store_counts_as_empty(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "batches.json"
    path.write_text(damage, "latin-1")
    store = BatchStore(path)
    assert store.under_way(OWNER, 0.0) == []
    store.put(ticket(1))
    assert store.under_way(OWNER, 0.0) == [ticket(1)]


def test_a_foreign_store_has_nothing_but_a_file_deleted(tmp_path: Path) -> None:
    with bench("gemini", tmp_path) as here:
        odd = ticket(
            1,
            owner=(here.server.host, "gemini", *OWNER[2:]),
            input_file="tunedModels/mine",
            batch="batches/none",
            expires_at=1e12,
        )
        here.store.put(odd)
        assert here.run(texts_of(3)).done == 3
        assert here.server.deleted[0] == "files/tunedModels/mine"


def test_a_store_that_names_no_id_leads_nowhere(here: Bench) -> None:
    texts = texts_of(3)
    owner = (here.server.host, *OWNER[1:])
    odd = ticket(1, owner=owner, batch="../../files", expires_at=1e12)
    here.store.put(odd)
    assert here.run(texts).done == 3
    assert here.server.steps()[0] == "upload"
    assert "unknown" not in here.server.steps()


KNOWN: dict[str, Any] = load("services")
HASH = "ab" * 32


class Spoken:
    """The interface of a service, with the request that it made last and an answer to it."""

    def __init__(self, name: str, answer: object = None, **fields: Any) -> None:
        choice = EmbeddingSettings(
            provider=name, model="model-1", document_prefix="note: ", **fields
        )
        self.answer = answer
        form = SERVICES[name].batch
        assert form is not None
        provider = RemoteProvider(plan_of(name, choice))
        provider.ask = self._ask  # type: ignore[method-assign]
        self.it = BatchInterface(provider, form)

    def do(self, step: str, *arguments: object) -> object:
        """Take a step that asks the service."""
        return asyncio.run(getattr(self.it, step)(*arguments))

    async def _ask(self, request: Request, timeout: float) -> object:
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
    assert Spoken(name, answer).do("poll", "b-1") == Polled(state, output, completed)


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
    assert [spoken.do("find", file) for file in ("f-2", "f-3")] == ["b-2", ""]
    for spoken.answer in ({"data": None}, None):
        assert spoken.do("find", "f-2") == ""


@pytest.mark.parametrize(("name", "record", "result"), cases("services", "batch_results"))
def test_lines_of_results(name: str, record: Any, result: list[object]) -> None:
    assert Spoken(name).it.read(record) == tuple(result)


@given(st.lists(st.text(st.sampled_from("ab\r ∑")).map(str.encode)), st.integers(1, 7))
def test_lines_are_the_same_however_they_come(texts: list[bytes], size: int) -> None:
    data = b"\n".join(texts)
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    assert list(lines(chunks)) == [text for text in texts if text.strip()]
