"""Every way in which a service can fail, for every service: right vectors, or a named failure."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from memtui.embedding.remote.provider import RemoteProvider
from memtui.errors import ProviderError
from memtui.model import Failure
from tests.support.embedding_services import (
    cut,
    embedding_server,
    fixed,
    holding,
    key_in,
    right,
    rows_of,
    status,
    texts_in,
    zeros,
)
from tests.support.loopback import HTML, Answer, Seen
from tests.support.remote_embedding import (
    KEY,
    PROVIDERS,
    Clock,
    choice_at,
    impatient,
    remote_provider,
)
from tests.support.service_cases import CASES, NAN, SHORT, Case, always, no_model, oversize

TEXTS = ["the router is in the hall", "국밥을 먹었다", "the gate code changed"]


@pytest.fixture(autouse=True)
def quiet_secrets(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """No key in any log or output of any test, those of the HTTP library among them."""
    caplog.set_level(logging.DEBUG)
    yield
    out, err = capfd.readouterr()
    logged = "".join(map(str, map(vars, caplog.get_records("call"))))
    assert "SECRET" not in logged + out + err


MATRIX = [
    pytest.param(case, provider, id=f"{provider}-{case.name}")
    for case in CASES
    for provider in case.only
]


def expected(provider: RemoteProvider) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    prefix = provider.plan.templates.document
    return rows_of([prefix + text for text in TEXTS])


def assert_no_key(provider: RemoteProvider, error: BaseException) -> None:
    parts = (provider, provider.plan, provider.connection, provider.sender)
    said = [*map(repr, parts), str(error), repr(error), repr(vars(error))]
    said += traceback.format_exception(error)
    assert KEY not in "".join(said)
    assert "SECRET" not in "".join(said)


@pytest.mark.parametrize(("case", "name"), MATRIX)
def test_documents(case: Case, name: str) -> None:
    # What waits in vain may have given up before its request arrived, on a machine with much to do.
    for times in (1, 5, 25) if case.failure is Failure.TIMEOUT else (1,):
        seen = embed_documents(case, name, times * case.seconds)
        if len(seen) == case.requests:
            break
    assert len(seen) == case.requests
    assert {key_in(one) for one in seen} == {KEY}


def embed_documents(case: Case, name: str, seconds: float) -> list[Seen]:
    """Embed with so much time for each answer; the requests that arrived."""
    clock = Clock()
    with embedding_server(case.fault(name), stays=case.stays) as server:
        choice = impatient(choice_at(name, server), case.seconds)
        with remote_provider(choice, clock=clock) as provider:
            if case.failure is None:
                found = provider.embed_documents(TEXTS)
                np.testing.assert_array_equal(found, expected(provider))
                assert provider.dimensions == found.shape[1]
            else:
                with pytest.raises(ProviderError) as caught:
                    provider.embed_documents(TEXTS)
                error = caught.value
                assert error.failure is case.failure
                assert server.host in error.message
                assert "\n" not in str(error)
                assert error.hint
                assert_no_key(provider, error)
            assert provider.usage().requests == case.requests
    assert clock.pauses == list(case.pauses)
    return server.seen


@pytest.mark.parametrize("name", PROVIDERS)
def test_zeros_are_vectors_of_what_the_model_does_not_see(name: str) -> None:
    with (
        embedding_server(zeros, stays=True) as server,
        remote_provider(choice_at(name, server)) as it,
    ):
        assert not it.embed_documents(TEXTS).any()
        assert not it.embed_query("router").any()
        assert it.usage().requests == 2


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(name: str, code: int) -> None:
    with embedding_server() as other, embedding_server() as server:
        elsewhere = f"http://localhost:{other.server_address[1]}/v1/embeddings"
        server.faults, server.stays = [status(code, location=elsewhere)], True
        with remote_provider(choice_at(name, server)) as provider:
            asks: list[Callable[[], object]] = [
                lambda: provider.embed_documents(TEXTS),
                lambda: provider.embed_query("router"),
            ]
            for ask in asks:
                with pytest.raises(ProviderError) as caught:
                    ask()
                assert caught.value.failure is Failure.REDIRECTED
                assert "localhost" not in str(caught.value)
                assert_no_key(provider, caught.value)
        assert len(server.seen) == 2
        assert not other.seen


QUERY_CASES = [
    Case("429", always(status(429)), 2, pauses=(5.0,)),
    Case("429-stays", always(status(429)), 2, Failure.RATE_LIMITED, True, (5.0,)),
    Case("429-retry-after", always(status(429, retry_after="9")), 1, Failure.RATE_LIMITED, True),
    Case("500-stays", always(status(500)), 3, Failure.SERVICE_DOWN, True, SHORT),
    Case("404", no_model, 1, Failure.NO_MODEL, True),
    Case("nan", always(holding(NAN)), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("html", always(fixed(Answer(HTML))), 3, Failure.BAD_ANSWER, True, SHORT),
    Case("cut", always(cut), 2, pauses=(0.5,)),
    Case("oversize", oversize, 1, Failure.TOO_LARGE, True),
]


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("case", QUERY_CASES, ids=lambda case: case.name)
def test_queries(case: Case, name: str) -> None:
    clock = Clock()
    with (
        embedding_server(case.fault(name), stays=case.stays) as server,
        remote_provider(impatient(choice_at(name, server), 60.0), clock=clock) as provider,
    ):
        if case.failure is None:
            sent = provider.plan.templates.query + "router"
            np.testing.assert_array_equal(provider.embed_query("router"), rows_of([sent])[0])
        else:
            with pytest.raises(ProviderError) as caught:
                provider.embed_query("router")
            assert caught.value.failure is case.failure
        assert len(server.seen) == case.requests
    assert clock.pauses == list(case.pauses)
    assert sum(clock.pauses) <= 8.0


def test_halves_go_down_to_single_texts() -> None:
    """A server that takes one text a request gets them all, each once, in order."""

    def one_text(seen: Seen) -> Answer:
        return right(seen) if len(texts_in(seen)) == 1 else status(413)(seen)

    texts = [f"note {number}" for number in range(7)]
    with embedding_server(one_text, stays=True) as server:
        choice = impatient(choice_at("openai", server), 5.0, concurrency=1)
        with remote_provider(choice) as provider:
            np.testing.assert_array_equal(provider.embed_documents(texts), rows_of(texts))
        alone = [texts_in(seen)[0] for seen in server.seen if len(texts_in(seen)) == 1]
        assert alone == texts
