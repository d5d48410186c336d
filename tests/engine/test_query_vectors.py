"""The vector of a query for an index of another program: file, provider, cache, or why not."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec import convert
from msgspec.structs import replace

from memtui.engine.foreign.query_vectors import NoVector, QueryVector, QueryVectors, load_given
from memtui.errors import Cancelled, SettingsError
from memtui.model import Reason
from memtui.model.status import Identity
from memtui.settings.openclaw.read import RemoteAccess, read_config, read_remote
from memtui.settings.openclaw.schema import MemorySearchConfig
from tests.support.embedding_services import (
    Answer,
    EmbeddingServer,
    embedding_server,
    fixed,
    giving,
    hanging,
)
from tests.support.known import cases

KEY = "sk-SECRET-of-the-environment-5e1f"
OTHER_KEY = "sk-SECRET-of-the-configuration-77aa"
SECRETS = (KEY, OTHER_KEY, "SECRET")
KEYS = {"OPENAI_API_KEY": KEY, "GEMINI_API_KEY": KEY, "VOYAGE_API_KEY": KEY, "MISTRAL_API_KEY": KEY}
VECTOR = [3.0, 0.0, 4.0]
GIVE = "give --query-vectors FILE"
MADE_WITH = Identity(
    model="text-embedding-3-small", provider="openai", vector_dims=3, sources=("memory",)
)


def never() -> bool:
    return False


@pytest.fixture(autouse=True)
def quiet_secrets(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """No key in any log of any test, the ones of the HTTP library among them."""
    caplog.set_level(logging.DEBUG)
    yield
    out, err = capfd.readouterr()
    logged = "".join(map(str, map(vars, caplog.get_records("call"))))
    text = logged + out + err
    assert not any(secret in text for secret in SECRETS)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server(giving(VECTOR), stays=True) as running:
        yield running


KEYED = {"openai", "mistral", "voyage"}


def configured(server: EmbeddingServer, base: str = "/v1", **more: Any) -> MemorySearchConfig:
    return MemorySearchConfig(remote_base_url=server.url + base, **more)


def finder(
    config: MemorySearchConfig | None, identity: Identity = MADE_WITH, **changes: Any
) -> QueryVectors:
    """Find by a provider alone that has its key in the environment, but for what is changed."""
    empty: dict[str, Any] = {"from_file": None, "read_cache": lambda digest: None}
    access = {"env": KEYS, "read_access": lambda provider: RemoteAccess(), "timeout": 5.0}
    return QueryVectors(identity, config, **{**empty, **access, **changes})


def find(vectors: QueryVectors, query: str = "router", *, typing: bool = False) -> Any:
    found = vectors.find(query, typing=typing, cancelled=never)
    assert not any(secret in repr(found) for secret in SECRETS)
    return found


@pytest.mark.parametrize(
    ("provider", "model", "base", "path", "text"), cases("query_vectors", "protocols")
)
def test_each_protocol(
    server: EmbeddingServer, provider: str, model: str, base: str, path: str, text: Any
) -> None:
    """What a body holds beside the text is told by the matrix of all providers."""
    identity = replace(MADE_WITH, provider=provider, model=model)
    config = configured(server, base, provider=provider, model=model)
    found = find(finder(config, identity), " router ")
    assert isinstance(found, QueryVector)
    assert found.values.dtype == np.float64
    assert found.values.tolist() == [0.6, 0.0, 0.8]
    assert (found.origin, found.detail) == ("provider", f"{provider}/{model} at {server.host}")
    (seen,) = server.seen
    assert seen.path == path
    if provider == "gemini":
        assert seen.body["content"] == {"parts": [{"text": text}]}
        assert "model" not in seen.body
        assert seen.headers["x-goog-api-key"] == KEY
    else:
        assert seen.body["input"] == text
        assert seen.body["model"] == (model.partition("/")[2] or model)
        key = seen.headers.get("authorization")
        assert key == (f"Bearer {KEY}" if provider in KEYED else None)


def test_options_of_the_configuration_are_sent(server: EmbeddingServer) -> None:
    types = {"input_type": "any", "query_input_type": "search"}
    find(finder(configured(server, output_dimensionality=3, **types)))
    assert server.seen[0].body["dimensions"] == 3
    assert server.seen[0].body["input_type"] == "search"
    # Dimensions that the index does not have are not asked for.
    assert isinstance(find(finder(configured(server, output_dimensionality=512))), QueryVector)
    assert "dimensions" not in server.seen[1].body
    made = replace(MADE_WITH, provider="gemini", model="gemini-embedding-001")
    find(finder(configured(server, output_dimensionality=3), made))
    assert server.seen[2].body["outputDimensionality"] == 3


def test_ollama_is_cut_here(server: EmbeddingServer) -> None:
    server.faults = [giving([3.0, 4.0, 12.0, 84.0])]
    made = replace(MADE_WITH, provider="ollama", model="all-minilm", vector_dims=2)
    config = configured(server, "", provider="ollama", model="all-minilm", output_dimensionality=2)
    found = find(finder(config, made))
    assert found.values.tolist() == [0.6, 0.8]


def test_the_oldest_release_stores_vectors_as_returned(server: EmbeddingServer) -> None:
    oldest = replace(MADE_WITH, sources=None)
    assert find(finder(configured(server), oldest)).values.tolist() == VECTOR
    server.faults = [fixed(Answer(b'{"data": [{"embedding": [NaN, 1, 2]}]}'))]
    found = find(finder(configured(server), oldest))
    assert found.reason is Reason.NOT_REPRODUCIBLE
    assert "not finite" in found.detail


def test_answers_are_remembered(server: EmbeddingServer) -> None:
    vectors = finder(configured(server))
    first, second = find(vectors), find(vectors, typing=True)
    assert first.values is second.values
    assert len(server.seen) == 1
    find(vectors, "another")
    assert len(server.seen) == 2


@pytest.mark.parametrize(("base", "host"), cases("query_vectors", "other_hosts"))
def test_text_leaves_the_machine_only_when_it_is_finished(base: str, host: str) -> None:
    found = find(finder(MemorySearchConfig(remote_base_url=base)), typing=True)
    assert found == NoVector(
        Reason.PENDING, f"needs openai/text-embedding-3-small; press Enter to ask {host}"
    )


def test_a_key_of_the_environment_goes_to_no_other_host(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, server.url)
    config = MemorySearchConfig(remote_base_url="http://embeddings.example/v1")
    assert isinstance(find(finder(config)), QueryVector)
    assert "authorization" not in server.seen[0].headers


@pytest.mark.parametrize("typing", [True, False])
def test_without_a_key_the_host_is_not_asked(typing: bool) -> None:
    found = find(finder(MemorySearchConfig(), env={}), typing=typing)
    told = "the query has no vector of openai/text-embedding-3-small; no key in OPENAI_API_KEY"
    assert found == NoVector(Reason.NOT_REPRODUCIBLE, f"{told}; set the key or {GIVE}")
    gemini = replace(MADE_WITH, provider="gemini", model="gemini-embedding-001")
    found = find(finder(MemorySearchConfig(), gemini, env={}), typing=typing)
    assert f"; no key in GEMINI_API_KEY or GOOGLE_API_KEY; set the key or {GIVE}" in found.detail


@pytest.mark.parametrize(("config", "identity", "why"), cases("query_vectors", "unasked"))
def test_no_provider_to_ask(
    config: dict[str, Any] | None, identity: dict[str, Any], why: str
) -> None:
    search = None if config is None else convert(config, MemorySearchConfig)
    found = find(finder(search, replace(MADE_WITH, **identity)))
    assert found.reason is Reason.NOT_REPRODUCIBLE
    assert found.detail.endswith(f"; {why}; {GIVE}")


@pytest.mark.parametrize(("provider", "stored", "written"), cases("query_vectors", "same_models"))
def test_a_model_is_the_same_under_its_other_names(
    server: EmbeddingServer, provider: str, stored: str, written: str
) -> None:
    """Without a model the provider's default counts, where it is known."""
    made = replace(MADE_WITH, provider=provider, model=stored)
    config = configured(server, provider=provider, model=written)
    assert isinstance(find(finder(config, made)), QueryVector)


def test_an_index_without_vectors_or_without_identity(server: EmbeddingServer) -> None:
    keyword_only = Identity(model="fts-only", provider="none")
    assert find(finder(configured(server), keyword_only)).reason is Reason.NO_VECTORS
    found = find(finder(configured(server), Identity()))
    assert found.detail.endswith(f"index does not say which model made its vectors; {GIVE}")
    assert not server.seen


def test_a_fallback_is_asked_at_its_own_address(server: EmbeddingServer, tmp_path: Path) -> None:
    """What is configured as `remote` is the first provider's, and no other gets its key."""
    remote = agent_remote(
        tmp_path,
        {"remote": {"apiKey": OTHER_KEY}},
        models={"mistral": {"baseUrl": f"{server.url}/v1"}},
    )
    config = MemorySearchConfig(
        provider="openai", fallback="mistral", remote_base_url="http://127.0.0.1:1/v1"
    )
    made = replace(MADE_WITH, provider="mistral", model="mistral-embed")
    assert isinstance(find(finder(config, made, read_access=remote)), QueryVector)
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("status", "pause", "times"), [(429, "0", 2), (503, "0", 2), (503, "3", 1)]
)
def test_a_service_that_is_busy_is_asked_once_more(
    server: EmbeddingServer, status: int, pause: str, times: int
) -> None:
    server.faults = [fixed(Answer(status=status, headers={"retry-after": pause}))]
    assert f"HTTP {status}" in find(finder(configured(server))).detail
    assert len(server.seen) == times
    server.faults = [fixed(Answer(b"<html>"))]
    assert "a web page" in find(finder(configured(server))).detail
    assert len(server.seen) == times + 1


def test_a_redirect_to_another_host_gets_nothing(server: EmbeddingServer) -> None:
    with embedding_server(giving(VECTOR), stays=True) as other:
        location = {"location": f"{other.url}/v1/embeddings"}
        for status in (301, 302, 303, 307, 308):
            server.faults = [fixed(Answer(status=status, headers=location))]
            assert "a redirect" in find(finder(configured(server))).detail
        assert not other.seen


def test_closing_ends_a_call_and_all_later_ones(server: EmbeddingServer) -> None:
    server.faults = [hanging]
    vectors = finder(configured(server))

    def close() -> None:
        server.arrived.wait(10)
        vectors.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(Cancelled):
        vectors.find("router", typing=False, cancelled=never)
    closer.join()
    with pytest.raises(Cancelled):
        vectors.find("router", typing=False, cancelled=never)


def agent_remote(
    folder: Path,
    search: Mapping[str, Any],
    *,
    own: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    new: bool = False,
) -> Callable[[str], RemoteAccess]:
    """Write a configuration in either layout, and read the agent `work` of it."""
    if new:
        entry = {"memory": {"search": own or {}}}
        document: dict[str, Any] = {"memory": {"search": search}}
        document["agents"] = {"entries": {"work": entry}}
    else:
        listed = [{"id": "main"}, {"id": "Work", "memorySearch": own or {}}]
        document = {"agents": {"defaults": {"memorySearch": search}, "list": listed}}
    document["models"] = {"providers": models or {}}
    (folder / "openclaw.json").write_text(json.dumps(document), encoding="utf-8")
    config = read_config({}, folder, state_dir=folder)
    return partial(read_remote, config, "work", env or {})


@pytest.mark.parametrize("new", [False, True])
def test_keys_and_headers_of_the_configuration(
    server: EmbeddingServer, tmp_path: Path, new: bool
) -> None:
    remote = agent_remote(
        tmp_path,
        {"remote": {"apiKey": "of-all", "headers": {"X-Team": "all"}}},
        own={"remote": {"apiKey": "${WORK_KEY}", "headers": {"X-Org": "${ORG}"}}},
        env={"WORK_KEY": OTHER_KEY, "ORG": "o1"},
        new=new,
    )
    assert isinstance(find(finder(configured(server), read_access=remote)), QueryVector)
    headers = server.seen[0].headers
    assert headers["authorization"] == f"Bearer {OTHER_KEY}"
    assert headers["x-org"] == "o1"
    assert "x-team" not in headers


@pytest.mark.parametrize(("search", "unsent"), cases("query_vectors", "sent_encrypted"))
def test_a_key_crosses_no_network_unencrypted_unless_that_is_allowed(
    server: EmbeddingServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    search: dict[str, Any],
    unsent: str,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, server.url)
    remote = agent_remote(tmp_path, search)
    config = MemorySearchConfig(remote_base_url="http://embeddings.example/v1")
    vectors = finder(config, read_access=remote)
    assert f"{unsent} would go to embeddings.example unencrypted" in find(vectors).detail
    # A service's own host by http:// would be given the key of the environment.
    own = MemorySearchConfig(remote_base_url="http://api.openai.com/v1")
    assert "the key in OPENAI_API_KEY would go" in find(finder(own)).detail
    assert not server.seen
    vectors.allow_insecure = True
    assert isinstance(find(vectors), QueryVector)


def test_a_configured_authorization_takes_the_place_of_a_key(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    remote = agent_remote(tmp_path, {"remote": {"headers": {"Authorization": "Basic SECRET"}}})
    find(finder(configured(server), read_access=remote))
    assert server.seen[0].headers["authorization"] == "Basic SECRET"


def test_secrets_are_read_for_each_call_and_kept_nowhere(
    server: EmbeddingServer, tmp_path: Path
) -> None:
    remote = agent_remote(tmp_path, {"remote": {"apiKey": "first-SECRET"}})
    vectors = finder(configured(server), read_access=remote)
    find(vectors, "one")
    agent_remote(tmp_path, {"remote": {"apiKey": "second-SECRET"}})
    find(vectors, "two")
    keys = [seen.headers["authorization"] for seen in server.seen]
    assert keys == ["Bearer first-SECRET", "Bearer second-SECRET"]
    access = remote("openai")
    assert access.api_key.value == "second-SECRET"
    assert "SECRET" not in repr(access)


@pytest.mark.parametrize(("remote", "why"), cases("query_vectors", "unsent"))
def test_keys_and_headers_that_cannot_be_read_or_sent(
    server: EmbeddingServer, tmp_path: Path, remote: Any, why: str
) -> None:
    found = find(finder(configured(server), read_access=agent_remote(tmp_path, {"remote": remote})))
    assert found.detail.endswith(f"; {why}; {GIVE}")
    assert not server.seen


def test_the_address_of_models_providers_counts(server: EmbeddingServer, tmp_path: Path) -> None:
    """Without it the text would go to a host that the agent does not use."""
    own = {"baseUrl": f"{server.url}/v1", "apiKey": OTHER_KEY, "headers": {"X-Own": "1"}}
    remote = agent_remote(tmp_path, {}, models={"openai": own})
    assert isinstance(find(finder(MemorySearchConfig(), read_access=remote)), QueryVector)
    headers = server.seen[0].headers
    assert headers["authorization"] == f"Bearer {OTHER_KEY}"
    assert headers["x-own"] == "1"
    with embedding_server(giving(VECTOR), stays=True) as other:
        find(finder(configured(other), read_access=remote))
        assert other.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert "x-own" not in other.seen[0].headers


def test_the_cache_comes_last(server: EmbeddingServer) -> None:
    read = Mock(return_value=np.array([0.0, 1.0, 0.0]))
    assert find(finder(configured(server), read_cache=read)).origin == "provider"
    read.assert_not_called()
    server.faults = [fixed(Answer(status=404))]
    found = find(finder(configured(server), read_cache=read))
    assert found.origin == "cache"
    read.assert_called_once_with(hashlib.sha256(b"router").hexdigest())
    pending = finder(MemorySearchConfig(), read_cache=read)
    assert find(pending, typing=True).origin == "cache"


@pytest.mark.parametrize(
    ("provider", "model", "more", "exact"), cases("query_vectors", "as_for_a_note")
)
def test_a_cached_vector_of_a_note_is_named_as_such(
    provider: str, model: str, more: dict[str, Any], exact: bool
) -> None:
    made = replace(MADE_WITH, provider=provider, model=model)
    config = MemorySearchConfig(provider="local", **more)
    found = find(finder(config, made, read_cache=lambda digest: np.array(VECTOR)))
    assert ("may differ" in found.detail) is not exact


def write(folder: Path, content: object, name: str = "vectors.json") -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    "content",
    [
        {"dims": 3, "vectors": {"router": VECTOR}},
        {"router": VECTOR, "other": [1, 2]},
        {"query": "router", "vector": VECTOR},
        [{"query": "router", "vector": VECTOR}, {"query": "x", "vector": [1]}],
        VECTOR,
        gzip.compress(json.dumps({"router": VECTOR}).encode(), mtime=0),
        b"\xef\xbb\xbf" + json.dumps({"router": VECTOR}).encode(),
    ],
)
def test_forms_of_the_file(tmp_path: Path, server: EmbeddingServer, content: object) -> None:
    path = write(tmp_path, content)
    found = find(finder(configured(server), from_file=load_given(path)), typing=True)
    assert (found.values.tolist(), found.origin, found.detail) == (VECTOR, "file", str(path))
    assert not server.seen


def test_a_query_that_the_file_does_not_hold(tmp_path: Path, server: EmbeddingServer) -> None:
    given = load_given(write(tmp_path, {" other ": VECTOR}))
    assert find(finder(configured(server), from_file=given)).origin == "provider"
    assert find(finder(None, from_file=given), " other ").origin == "file"
    found = find(finder(None, from_file=given))
    assert found.detail.endswith("; add the query's vector to vectors.json")
    # As JavaScript trims.
    trimmed = load_given(write(tmp_path, {"router": VECTOR}))
    assert trimmed.of("\ufeffrouter\u00a0") is not None
    assert trimmed.of("\x1crouter") is None


def test_given_vectors_that_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path, {"short": [1, 2], "zero": [0, 0, 0], "large": [1e200, 0, 0]})
    vectors = finder(None, from_file=load_given(path))
    assert find(vectors, "short") == NoVector(
        Reason.DIMENSIONS_DIFFER,
        f"the query vector does not fit: 2 numbers from {path}, the index has 3",
    )
    fitting = [load_given(path).describe(dimensions) for dimensions in (1, 2, 3)]
    named = ("vectors of 1 query from vectors.json", "vectors of 2 queries from vectors.json")
    assert fitting == ["", *named]
    # In single precision, in which the program compares, a large number is infinite.
    for query, how in (("zero", "all zero"), ("large", "zero or not finite in single precision")):
        detail = f"the query vector from {path} is {how}"
        assert find(vectors, query) == NoVector(Reason.ZERO_QUERY_VECTOR, detail)


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        *cases("query_vectors", "bad_files"),
        (b"[" * 100_000, "", "broken JSON"),
        (gzip.compress(b"[1, 2]", mtime=0)[:-9], "", "broken gzip"),
        (f'{{"router": [1{"0" * 400}]}}', "", '"router": value 1: Expected `float` <'),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_files_are_one_line(tmp_path: Path, content: object, where: str, what: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(SettingsError) as caught:
        load_given(path)
    line = str(caught.value)
    assert line.startswith(f"cannot use the query vectors in {path}{where}: ")
    assert what in line
    assert "\n" not in line
    assert "\x1b" not in line
