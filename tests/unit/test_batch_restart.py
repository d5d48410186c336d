"""A run that ends anywhere is taken up by the next: the same cache, and nothing sent twice."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from memtui.embedding.batch.protocols import BatchService
from memtui.embedding.batch.store import BatchStore, Ticket
from memtui.embedding.payloads import Request
from memtui.embedding.provider import ProviderIdentity
from memtui.embedding.remote.http import Reply
from memtui.embedding.remote.provider import Connection
from memtui.errors import Cancelled
from tests.support.batch_loopback import WAITING
from tests.support.batches import (
    KEY,
    NAMES,
    Bench,
    after,
    bench,
    expected,
    make_service,
    texts_of,
)
from tests.support.loopback import Answer

IDENTITY = ProviderIdentity("openai", "model-1", 8, "f" * 64)


def at_step(here: Bench, step: str, count: int = 1) -> Callable[[], bool]:
    """Become true once a step was asked for so many times."""
    return lambda: here.server.steps().count(step) >= count


def restarted(here: Bench, fingerprint: str = "f" * 64) -> Bench:
    """Another process: nothing but the folder and the server is left."""
    here.service.connection.client.close()
    here.service = make_service(here.server, fingerprint=fingerprint)
    return here


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
def test_a_run_is_taken_up_after_it_was_stopped(name: str, step: str, tmp_path: Path) -> None:
    texts = texts_of(30)
    with bench(name, tmp_path) as here:
        with pytest.raises(Cancelled):
            here.run(texts, cancelled=at_step(here, step))
        assert KEY not in here.everything()
        asked = len(here.server.seen)
        assert restarted(here).run(texts).done == 30
        assert here.vectors(texts) == expected(texts)
        # Stopped before it was known that the file had arrived, another one may be sent.
        assert len(here.server.files) <= (2 if step == "upload" else 1)
        assert len(here.server.jobs) == 1
        if step in ("poll", "download"):
            assert not {"upload", "create"} & set(here.server.steps()[asked:])
    assert not (tmp_path / "batches.json").exists()


class Dies:
    """A connection whose process ends at a step, before or after the service acted."""

    def __init__(self, service: BatchService, step: str, server: Bench) -> None:
        self.inner, self.step, self.bench = service.connection, step, server

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def exchange(self, request: Request, **options: Any) -> Reply:
        reply = self.inner.exchange(request, **options)
        self._die()
        return reply

    def download(self, request: Request, **options: Any) -> Iterator[bytes]:
        for piece in self.inner.download(request, **options):
            yield piece[: len(piece) // 2]
            self._die()

    def _die(self) -> None:
        if self.bench.server.steps()[-1] == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
def test_a_process_may_die_at_any_step(name: str, step: str, tmp_path: Path) -> None:
    texts = texts_of(30)
    with bench(name, tmp_path) as here:
        alive = here.service
        dying = Dies(alive, step, here)
        here.service = replace(alive, connection=cast("Connection", dying))
        with pytest.raises(KeyboardInterrupt):
            here.run(texts)
        here.service = alive
        partly = here.vectors(texts)
        assert partly.items() <= expected(texts).items()
        assert restarted(here).run(texts).done == 30
        assert here.vectors(texts) == expected(texts)
        assert len(here.server.jobs) == 1


def test_texts_that_are_new_are_sent_after_the_batch_of_before(tmp_path: Path) -> None:
    before, after = texts_of(5), texts_of(8)
    with bench("openai", tmp_path) as here:
        assert here.run(before, interrupted=lambda: True).waiting
        assert restarted(here).run(after).done == 8
        assert here.vectors(after) == expected(after)
        assert [len(data.splitlines()) for data in here.server.files.values()] == [5, 3]


def test_texts_that_are_gone_are_not_stored(tmp_path: Path) -> None:
    before, after = texts_of(5), texts_of(2)
    with bench("openai", tmp_path) as here:
        assert here.run(before, interrupted=lambda: True).waiting
        outcome = restarted(here).run(after)
        assert (outcome.done, outcome.note, here.cache.count()) == (2, "", 2)


def test_a_few_texts_do_not_wait_for_a_batch_of_before(tmp_path: Path) -> None:
    texts = texts_of(5)
    with bench("openai", tmp_path) as here:
        assert here.run(texts, interrupted=lambda: True).waiting
        few = texts_of(2)
        outcome = restarted(here).run(few, minimum=3)
        assert (outcome.done, outcome.waiting, outcome.note) == (0, False, "")
        # It has ended by the next run, and is taken.
        assert here.run(few, minimum=3).done == 2
        assert here.vectors(few) == expected(few)


def test_a_few_texts_do_not_wait_for_a_service_that_is_away(tmp_path: Path) -> None:
    texts = texts_of(5)
    with bench("openai", tmp_path) as here:
        assert here.run(texts, interrupted=lambda: True).waiting
        here.server.fail("poll", *[Answer(b"", 503)] * 9)
        before = here.clock.slept
        outcome = restarted(here).run(texts_of(2), minimum=3)
        assert (outcome.done, outcome.note) == (0, "")
        assert here.clock.slept == before
        here.server.faults.clear()
        assert here.run(texts).done == 5
        assert len(here.server.jobs) == 1


def test_another_identity_leaves_a_batch_alone(tmp_path: Path) -> None:
    texts = texts_of(3)
    with bench("openai", tmp_path) as here:
        assert here.run(texts, interrupted=lambda: True).waiting
        stored = (tmp_path / "batches.json").read_bytes()
        other = restarted(here, fingerprint="e" * 64)
        assert other.run(texts, minimum=10).done == 0
        assert (tmp_path / "batches.json").read_bytes() == stored
        assert "poll" not in here.server.steps()
        assert other.run(texts).done == 3
        assert len(here.server.jobs) == 2
        assert (tmp_path / "batches.json").read_bytes() == stored


def test_a_batch_is_not_asked_for_after_the_service_has_dropped_it(tmp_path: Path) -> None:
    texts = texts_of(3)
    with bench("openai", tmp_path) as here:
        assert here.run(texts, interrupted=lambda: True).waiting
        here.clock.now += 31 * 24 * 3600
        assert here.run(texts).done == 3
        assert len(here.server.jobs) == 2


def test_a_file_whose_batch_was_never_started_is_not_paid_for(tmp_path: Path) -> None:
    before, missing = texts_of(5), texts_of(3, start=9)
    with bench("openai", tmp_path) as here:
        here.server.fail("create", *[Answer(b"", 503)] * 3)
        assert "HTTP 503" in here.run(before).note
        # All of them were embedded without a batch meanwhile; other texts are missing now.
        assert restarted(here).run(missing).done == 3
        (job,) = here.server.jobs.values()
        assert len(here.server.files[job.input_file].splitlines()) == 3
        assert here.server.deleted[0] == f"files/{next(iter(here.server.files))}"
    assert not (tmp_path / "batches.json").exists()


@pytest.mark.parametrize("step", ["upload", "create", "poll", "download"])
def test_a_stop_ends_a_request_that_hangs(step: str, tmp_path: Path) -> None:
    stop = threading.Event()
    with bench("openai", tmp_path) as here:
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


def test_a_stop_ends_the_wait_for_a_poll(tmp_path: Path) -> None:
    with bench("openai", tmp_path) as here:
        here.server.states = [WAITING["openai"]]
        stop_at = here.clock.now + 100.0
        with pytest.raises(Cancelled):
            here.run(texts_of(2), cancelled=lambda: here.clock.now >= stop_at)
        assert here.clock.now - stop_at < 0.1


def test_a_stop_ends_the_writing_of_a_large_input_file(tmp_path: Path) -> None:
    with bench("openai", tmp_path) as here, pytest.raises(Cancelled):
        here.run(texts_of(200), cancelled=after(100))
    assert here.server.seen == []


def test_an_interruption_leaves_the_batch_and_says_so(tmp_path: Path) -> None:
    with bench("openai", tmp_path) as here:
        outcome = here.run(texts_of(2), interrupted=lambda: here.clock.slept > 1)
        assert (outcome.waiting, outcome.failed, outcome.note) == (True, 0, "")
        assert here.clock.slept < 1.2
        assert len(here.store.under_way("openai", here.server.host, IDENTITY, 0)) == 1


# --- the store --------------------------------------------------------------------------------


def ticket(number: int, **others: object) -> Ticket:
    values: dict[str, object] = {
        "service": "openai",
        "address": "api.openai.com",
        "provider": "openai",
        "model": "model-1",
        "fingerprint": "f" * 64,
        "input_file": f"file-{number}",
        "batch": "",
        "texts": 10,
        "submitted_at": float(number),
        "expires_at": 1000.0,
    }
    return Ticket(**(values | others))  # type: ignore[arg-type]


def test_the_store_keeps_tickets_apart(tmp_path: Path) -> None:
    store = BatchStore(tmp_path / "batches.json")
    mine = [ticket(2), ticket(1)]
    for one in [
        *mine,
        ticket(3, address="other"),
        ticket(4, model="other"),
        ticket(5, service="x"),
    ]:
        store.put(one)
    store.put(replace(mine[0], batch="batch_2"))
    found = store.under_way("openai", "api.openai.com", IDENTITY, 0.0)
    assert found == (mine[1], replace(mine[0], batch="batch_2"))
    store.remove(mine[0])
    store.remove(mine[1])
    assert store.under_way("openai", "api.openai.com", IDENTITY, 0.0) == ()
    assert len(json.loads((tmp_path / "batches.json").read_bytes())["batches"]) == 3


def test_the_store_forgets_what_has_expired(tmp_path: Path) -> None:
    store = BatchStore(tmp_path / "batches.json")
    store.put(ticket(1))
    store.put(ticket(2, address="other", expires_at=5000.0))
    assert store.under_way("openai", "api.openai.com", IDENTITY, 1000.0) == ()
    assert len(json.loads((tmp_path / "batches.json").read_bytes())["batches"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["batches.json"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"version": 2, "batches": []}',
        b'{"version": 1, "batches": 3}',
        b'{"version": 1, "batches": [1, {"service": "openai"}]}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_store_counts_as_empty(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "batches.json"
    path.write_bytes(damage)
    store = BatchStore(path)
    assert store.under_way("openai", "api.openai.com", IDENTITY, 0.0) == ()
    store.put(ticket(1))
    assert store.under_way("openai", "api.openai.com", IDENTITY, 0.0) == (ticket(1),)


@pytest.mark.parametrize("texts", [-1, 2.5, 10**9, True])
def test_a_ticket_with_a_number_that_cannot_be_is_none(texts: object, tmp_path: Path) -> None:
    store = BatchStore(tmp_path / "batches.json")
    store.put(ticket(1, texts=texts))
    assert store.under_way("openai", "api.openai.com", IDENTITY, 0.0) == ()


def test_a_store_that_cannot_be_read_is_not_taken_for_empty(tmp_path: Path) -> None:
    (tmp_path / "batches.json").mkdir()
    with bench("openai", tmp_path) as here:
        with pytest.raises(IsADirectoryError):
            here.run(texts_of(3))
        assert here.server.seen == []


def test_a_foreign_store_has_nothing_but_a_file_deleted(tmp_path: Path) -> None:
    with bench("gemini", tmp_path) as here:
        identity = here.service.identity
        odd = ticket(
            1,
            service="gemini",
            address=here.server.host,
            provider=identity.name,
            model=identity.model,
            input_file="tunedModels/mine",
            batch="batches/none",
            expires_at=1e12,
        )
        here.store.put(odd)
        assert here.run(texts_of(3)).done == 3
        assert here.server.deleted[0] == "files/tunedModels/mine"


def test_a_store_that_names_no_id_leads_nowhere(tmp_path: Path) -> None:
    texts = texts_of(3)
    with bench("openai", tmp_path) as here:
        odd = replace(ticket(1), address=here.server.host, batch="../../files", expires_at=1e12)
        here.store.put(odd)
        assert here.run(texts).done == 3
        assert here.server.steps()[0] == "upload"
        assert "unknown" not in here.server.steps()
