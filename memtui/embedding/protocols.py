"""How each remote embedding service is asked for one vector: address, headers, body, answer.

Nothing here opens a connection. The shapes are those of OpenClaw's providers (OPENCLAW.md,
sections 4 and 10); keys are kept out of every `repr`.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values: TypeAlias = "NDArray[np.float64]"
"""One vector as a service gives it: shape (dimensions,), float64."""

TIMEOUT: Final = 10.0
"""Seconds for a query, its second try included."""
RETRY_PAUSE: Final = 0.5
"""Seconds before the second try when the answer does not say."""

_SMALLEST_LENGTH: Final = 1e-10
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_QUERY_TEMPLATES: Final = (
    (
        "qwen3-embedding",
        "Instruct: Given a user query, retrieve relevant memory notes and documents\nQuery:",
    ),
    ("nomic-embed-text", "search_query: "),
    ("mxbai-embed-large", "Represent this sentence for searching relevant passages: "),
)
_GEMINI_PREFIXED: Final = "gemini-embedding-2"
_GEMINI_QUERY: Final = "task: search result | query: "


class Shape(StrEnum):
    """The form of requests and answers."""

    OPENAI = "openai"
    GEMINI = "gemini"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of embedding service: where it is, how it is asked, which variables hold its key."""

    name: str
    shape: Shape
    base_url: str
    """Its own address; empty when one must be configured."""
    key_variables: tuple[str, ...] = ()
    """Environment variables, the first that is set counts."""
    needs_key: bool = False
    prefixes: tuple[str, ...] = ()
    """What a configured model may begin with and the service does not know."""
    input_type: str = ""
    """What a query is always sent as."""
    cut: tuple[str, ...] = ()
    """Endings of a configured path that are dropped."""
    ending: str = ""
    """What the path then ends with."""


SERVICES: Final[Mapping[str, Service]] = {
    service.name: service
    for service in (
        Service(
            "openai",
            Shape.OPENAI,
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            True,
            ("openai/",),
        ),
        Service("openai-compatible", Shape.OPENAI, "", prefixes=("openai-compatible/",)),
        Service(
            "mistral",
            Shape.OPENAI,
            "https://api.mistral.ai/v1",
            ("MISTRAL_API_KEY",),
            True,
            ("mistral/",),
        ),
        Service(
            "voyage",
            Shape.OPENAI,
            "https://api.voyageai.com/v1",
            ("VOYAGE_API_KEY",),
            True,
            ("voyage/",),
            input_type="query",
        ),
        Service(
            "gemini",
            Shape.GEMINI,
            "https://generativelanguage.googleapis.com/v1beta",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            True,
            ("models/", "gemini/", "google/"),
        ),
        Service(
            "ollama",
            Shape.OLLAMA,
            "http://127.0.0.1:11434",
            prefixes=("ollama/",),
            cut=("/v1",),
        ),
        Service(
            "lmstudio",
            Shape.OPENAI,
            "http://127.0.0.1:1234/v1",
            prefixes=("lmstudio/",),
            cut=("/api/v1", "/v1"),
            ending="/v1",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is asked."""

    url: str = field(repr=False)
    """The base address; what follows a `?` may be secret, so it is never shown."""
    host: str
    port: int | None
    is_own: bool
    """Whether it is the host that the service has by itself."""

    @property
    def shown(self) -> str:
        """Host and port, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, so that no text leaves it."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class Request:
    """One request for one vector; the key is in `headers`, which no `repr` shows."""

    address: Address
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)


def address_of(service: Service, configured: str = "") -> Address:
    """Work out the base address: the configured one tidied up as OpenClaw does, else its own.

    Raises `ValueError`, which never repeats the address, when it is none of http or https.
    """
    text = configured.strip() or service.base_url
    if not text:
        raise ValueError("no base URL is configured for it")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("its base URL is not an address") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("its base URL is not an http or https address")
    if parts.username is not None or parts.password is not None:
        raise ValueError("its base URL holds a user name, which OpenClaw refuses as well")
    own = urlsplit(service.base_url).hostname == host
    path = _base_path(service, parts.path.rstrip("/"), own)
    url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return Address(url, host, port, own)


def _base_path(service: Service, path: str, own: bool) -> str:
    if service.shape is Shape.GEMINI:
        path = path.partition("/openai")[0].rstrip("/")
        return path or ("/v1beta" if own else "")
    for ending in service.cut:
        if path.endswith(ending):
            path = path.removesuffix(ending)
            break
    return path.rstrip("/") + service.ending


def wire_model(service: Service, model: str, address: Address) -> str:
    """The model as the service knows it, without a prefix that only OpenClaw knows.

    At another host than OpenAI's a name like `openai/x` is that host's own, and stays.
    """
    name = model.strip()
    if service.name == "openai" and not address.is_own:
        return name
    for prefix in service.prefixes:
        name = name.removeprefix(prefix)
    return name


def query_request(
    service: Service,
    address: Address,
    model: str,
    query: str,
    *,
    key: str = "",
    headers: Mapping[str, str] | None = None,
    dimensions: int | None = None,
    input_type: str = "",
) -> Request:
    """Make the request for the vector of a query; `dimensions` only where they are asked for.

    Configured headers go over those that come with the service. Raises `ValueError`, which never
    repeats a value, when the key or a header cannot be sent.
    """
    name = wire_model(service, model, address)
    if service.shape is Shape.GEMINI:
        path, body = _gemini(name, query, dimensions)
    elif service.shape is Shape.OLLAMA:
        path, body = "/api/embed", {"model": name, "input": query_prefix(service, name) + query}
    else:
        path, body = "/embeddings", {"model": name, "input": [query]}
        if dimensions is not None and service.name not in ("mistral", "voyage", "lmstudio"):
            body["dimensions"] = dimensions
        kind = service.input_type or (input_type if service.name not in _PLAIN else "")
        if kind:
            body["input_type"] = kind
    parts = urlsplit(address.url)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path + path, parts.query, ""))
    return Request(address, url, _headers(service, key, headers or {}), body)


_PLAIN: Final = frozenset({"mistral", "lmstudio"})
"""Services of OpenAI's shape that are sent neither an input type nor dimensions."""


def _gemini(model: str, query: str, dimensions: int | None) -> tuple[str, dict[str, Any]]:
    prefixed = model == _GEMINI_PREFIXED
    text = _GEMINI_QUERY + query if prefixed else query
    body: dict[str, Any] = {"content": {"parts": [{"text": text}]}}
    if not prefixed:
        body["taskType"] = "RETRIEVAL_QUERY"
    if dimensions is not None and model.startswith("gemini-embedding"):
        body["outputDimensionality"] = dimensions
    # Quoted whole: the model's name comes from the index and must not lead to another path.
    return f"/models/{quote(model, safe='')}:embedContent", body


def query_prefix(service: Service, model: str) -> str:
    """What is put before a query for models that want one; Ollama's service alone does that."""
    if service.shape is not Shape.OLLAMA:
        return ""
    name = model.strip().lower().rpartition("/")[2]
    return next((text for start, text in _QUERY_TEMPLATES if name.startswith(start)), "")


def embeds_alike(service: Service, model: str, query_type: str, document_type: str) -> bool:
    """Whether a query and a note of the same text get the same vector."""
    if service.input_type or service.shape is Shape.GEMINI:
        return False
    return not query_prefix(service, model) and query_type == document_type


def _headers(service: Service, key: str, configured: Mapping[str, str]) -> dict[str, str]:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if key:
        if not sendable(key):
            raise ValueError("its key holds characters that cannot be sent")
        if service.shape is Shape.GEMINI:
            headers["x-goog-api-key"] = key
        else:
            headers["authorization"] = f"Bearer {key}"
    for name, value in configured.items():
        lower = name.strip().lower()
        if not lower or lower in _OWN_HEADERS:
            continue
        if not (lower.isascii() and lower.replace("-", "").replace("_", "").isalnum()):
            raise ValueError("one of its configured headers has a name that cannot be sent")
        if not sendable(value):
            raise ValueError(f"its configured header {lower} holds what cannot be sent")
        headers[lower] = value.strip()
    return headers


def sendable(value: str) -> bool:
    """Whether a text can be the value of a header."""
    return value.isascii() and value.isprintable()


def vector_in(service: Service, answer: object) -> Values:
    """Take the vector out of a parsed answer, as it is there; raises `ValueError` that says why."""
    import numpy as np

    numbers = _numbers_in(service, answer)
    if not isinstance(numbers, list) or not numbers:
        raise ValueError("the answer holds no vector")
    if not set(map(type, numbers)) <= {int, float}:
        raise ValueError("the vector in the answer holds what is not a number")
    try:
        return np.array(numbers, dtype=np.float64)
    except OverflowError:
        raise ValueError("the vector in the answer holds a number that is too large") from None


def _numbers_in(service: Service, answer: object) -> object:
    if not isinstance(answer, Mapping):
        return None
    if service.shape is Shape.GEMINI:
        found = answer.get("embedding")
        return found.get("values") if isinstance(found, Mapping) else None
    listed = answer.get("embeddings" if service.shape is Shape.OLLAMA else "data")
    if not isinstance(listed, list) or not listed:
        return None
    if len(listed) != 1:
        raise ValueError(f"the answer holds {len(listed)} vectors for one text")
    if service.shape is Shape.OLLAMA:
        return listed[0]
    return listed[0].get("embedding") if isinstance(listed[0], Mapping) else None


def normalised(vector: Values) -> Values:
    """Non-finite numbers 0, then of length 1; a vector shorter than 1e-10 stays as it is.

    Takes and returns float64 of shape (dimensions,). Sums in the order of the numbers, as
    OpenClaw does, so that the last bit agrees (OPENCLAW.md, section 4).
    """
    import numpy as np

    clean = np.where(np.isfinite(vector), vector, 0.0)
    with np.errstate(over="ignore"):
        squares = np.cumsum(clean * clean)
        length = math.sqrt(float(squares[-1])) if squares.size else 0.0
        return clean if length < _SMALLEST_LENGTH else clean / length
