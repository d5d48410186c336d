"""How each remote embedding service is asked for vectors, and how its answers are read.

Nothing here opens a connection. The shapes are those of OpenClaw's providers (OPENCLAW.md,
sections 4 and 10); keys are kept out of every `repr`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from memtui.embedding.provider import Role
from memtui.embedding.services import (
    Address,
    Model,
    Service,
    Shape,
    Templates,
    templates_of,
    wire_model,
)
from memtui.model import Failure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Values: TypeAlias = "NDArray[np.float64]"
"""Vectors as a service gives them: shape (dimensions,) or (n, dimensions), float64."""

_SMALLEST_LENGTH: Final = 1e-10
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_OPENCLAW_FAMILIES: Final = ("qwen3-embedding", "nomic-embed-text", "mxbai-embed-large")
"""The models before whose queries OpenClaw puts something."""
_PLAIN: Final = frozenset({"mistral", "lmstudio"})
"""Services of OpenAI's shape that OpenClaw sends neither an input type nor dimensions."""
JSON: Final = "application/json"


# --- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """One request; what follows a `?` and the headers may be secret, so no `repr` shows them."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


def json_request(
    url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Request:
    """Make a request that sends JSON."""
    own = {"content-type": JSON, "accept": JSON}
    return Request("POST", url, own | dict(headers or {}), as_json(body))


def as_json(value: Any) -> bytes:
    """Write JSON without spaces, ASCII alone: a lone surrogate of a text stays valid JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def embed_request(
    service: Service,
    address: Address,
    model: str,
    texts: Sequence[str],
    role: Role,
    dimensions: int | None = None,
) -> Request:
    """Make the request for the vectors of texts, which have their prefixes already; without a key.

    `dimensions` only where fewer than the model's own are wanted. A query is one text.
    """
    path, body = _path(service, model), embedding_body(service, model, texts, role, dimensions)
    if service.shape is Shape.GEMINI and role is Role.QUERY:
        del body["model"]
    elif service.shape is Shape.GEMINI:
        path = _path(service, model, "batchEmbedContents")
        bodies = [embedding_body(service, model, [text], role, dimensions) for text in texts]
        body = {"requests": bodies}
    return json_request(address.joined(path), body)


def embedding_body(
    service: Service, model: str, texts: Sequence[str], role: Role, dimensions: int | None = None
) -> dict[str, Any]:
    """Return the body that asks for texts; for Gemini of the first of them."""
    if service.shape is Shape.GEMINI:
        content = {"parts": [{"text": texts[0] if texts else ""}]}
        body: dict[str, Any] = {"model": f"models/{model}", "content": content}
        if service.models.get(model, Model()).templates == Templates():
            body["taskType"] = f"RETRIEVAL_{role.value.upper()}"
    else:
        body = {"model": model, "input": list(texts)}
        if service.says_format:
            body["encoding_format"] = "float"
        if kind := service.input_type if role is Role.QUERY else service.document_type:
            body["input_type"] = kind
    if dimensions is not None:
        body[service.dimensions_field] = dimensions
    return body


def query_request(
    service: Service,
    address: Address,
    model: str,
    query: str,
    *,
    headers: Mapping[str, str],
    dimensions: int | None = None,
    input_type: str = "",
) -> Request:
    """Make OpenClaw's own request for a query; `dimensions` only where they are asked for."""
    name = wire_model(service, model, address)
    body: dict[str, Any]
    if service.shape is Shape.GEMINI:
        text = service.models.get(name, Model()).templates.query + query
        shorter = dimensions if name.startswith("gemini-embedding") else None
        body = embedding_body(service, name, [text], Role.QUERY, shorter)
        del body["model"]
    elif service.shape is Shape.OLLAMA:
        body = {"model": name, "input": query_prefix(service, name) + query}
    else:
        body = {"model": name, "input": [query]}
        if dimensions is not None and service.name not in _PLAIN | {"voyage"}:
            body["dimensions"] = dimensions
        if kind := service.input_type or (input_type if service.name not in _PLAIN else ""):
            body["input_type"] = kind
    return json_request(address.joined(_path(service, name)), body, headers)


def _path(service: Service, model: str, call: str = "embedContent") -> str:
    if service.shape is Shape.GEMINI:
        # Quoted whole: the model's name may come from an index and must not lead to another path.
        return f"/models/{quote(model, safe='')}:{call}"
    return "/api/embed" if service.shape is Shape.OLLAMA else "/embeddings"


def query_prefix(service: Service, model: str) -> str:
    """Return what OpenClaw puts before a query: of Ollama alone, and for three families."""
    if service.shape is not Shape.OLLAMA:
        return ""
    name = model.strip().lower().rpartition("/")[2]
    return templates_of(name).query if name.startswith(_OPENCLAW_FAMILIES) else ""


def embeds_alike(service: Service, model: str, query_type: str, document_type: str) -> bool:
    """Return whether a query and a note of the same text get the same vector from OpenClaw."""
    if service.input_type or service.shape is Shape.GEMINI:
        return False
    return not query_prefix(service, model) and query_type == document_type


def request_headers(
    service: Service, key: str, configured: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the key and what is configured as headers, names in lower case; that goes first.

    Raises `ValueError`, which never repeats a value, for what cannot be sent.
    """
    headers: dict[str, str] = {}
    if key:
        if not sendable(key):
            raise ValueError("its key holds characters that cannot be sent")
        is_gemini = service.shape is Shape.GEMINI
        headers = {"x-goog-api-key": key} if is_gemini else {"authorization": f"Bearer {key}"}
    for name, value in (configured or {}).items():
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
    """Return whether a text can be the value of a header."""
    return value.isascii() and value.isprintable()


# --- answers ----------------------------------------------------------------------------------


class Answered(NamedTuple):
    """The vectors and the token count of an answer."""

    vectors: Values
    """One row for each text, in the order of the texts."""
    tokens: int | None
    """What the service counts; `None` where it does not say."""


class WrongAnswer(ValueError):
    """An answer that cannot be used; its text says what it holds, and never repeats any of it."""

    def __init__(self, words: str, failure: Failure = Failure.BAD_ANSWER) -> None:
        super().__init__(words)
        self.failure = failure


def value_in(answer: object, path: str) -> Any:
    """Return what stands at a dotted path in parsed JSON; `None` where it is not there."""
    for name in path.split("."):
        answer = answer.get(name) if isinstance(answer, Mapping) else None
    return answer


_TOKEN_COUNTS: Final = (
    *("usage.total_tokens", "usage.prompt_tokens"),
    *("usageMetadata.promptTokenCount", "prompt_eval_count"),
)


def vectors_in(
    service: Service, answer: object, count: int, dimensions: int | None = None
) -> Answered:
    """Take the vectors of so many texts out of a parsed answer, in the order of the texts.

    All-zero vectors are vectors. Raises `WrongAnswer`: `dimensions_differ` for a vector of
    another length than the others or than `dimensions`, else `bad_answer`, which a number that
    is not finite is, too.
    """
    import numpy as np

    listed = _listed(service, answer, count)
    if len(listed) != count:
        raise WrongAnswer(f"the answer holds {len(listed)} vectors for {count} texts")
    rows = [_numbers(one) for one in listed]
    if not all(np.isfinite(row).all() for row in rows):
        raise WrongAnswer("a vector in the answer holds a number that is not finite")
    lengths = sorted({row.size for row in rows})
    if len(lengths) > 1 or (dimensions is not None and lengths not in ([dimensions], [])):
        *first, last = map(str, lengths)
        words = f"{', '.join(first)} and {last}" if first else last
        expected = f", not of {dimensions}" if dimensions is not None else ""
        words = f"the answer holds vectors of {words} dimensions{expected}"
        raise WrongAnswer(words, Failure.DIMENSIONS_DIFFER)
    counts = (value_in(answer, path) for path in _TOKEN_COUNTS)
    # More tokens than any request takes could not be priced.
    tokens = next((n for n in counts if type(n) is int and 0 <= n < 10**12), None)
    return Answered(np.array(rows, dtype=np.float64), tokens)


def vector_in(service: Service, answer: object) -> Values:
    """Take the vector of one text out of a parsed answer, finite or not; raises `WrongAnswer`."""
    listed = _listed(service, answer, 1)
    if len(listed) > 1:
        raise WrongAnswer(f"the answer holds {len(listed)} vectors for one text")
    return _numbers(listed[0] if listed else None)


def _listed(service: Service, answer: object, count: int) -> list[object]:
    """Return what stands where the vectors should be, in the order of the texts."""
    if service.shape is Shape.GEMINI and value_in(answer, "embedding") is not None:
        return [value_in(answer, "embedding.values")]
    entries = value_in(answer, "data" if service.shape is Shape.OPENAI else "embeddings")
    if not isinstance(entries, list):
        return []
    if service.shape is Shape.OLLAMA:
        return entries
    if service.shape is Shape.GEMINI:
        return [value_in(entry, "values") for entry in entries]
    if len(entries) == count > 1:
        # Each entry says by its `index` which text it belongs to, and each text must have one.
        pairs = [(value_in(entry, "index"), entry) for entry in entries]
        by_index = {index: entry for index, entry in pairs if type(index) is int}
        if set(by_index) != set(range(count)):
            raise WrongAnswer("the answer does not say which vector belongs to which text")
        entries = [by_index[index] for index in range(count)]
    return [value_in(entry, "embedding") for entry in entries]


def _numbers(value: object) -> Values:
    import numpy as np

    if not isinstance(value, list) or not value:
        raise WrongAnswer("the answer holds no vector")
    if not set(map(type, value)) <= {int, float}:
        raise WrongAnswer("the vector in the answer holds what is not a number")
    try:
        return np.array(value, dtype=np.float64)
    except OverflowError:
        raise WrongAnswer("the vector in the answer holds a number that is too large") from None


def normalised(vector: Values) -> Values:
    """Set non-finite numbers to 0 and the length to 1; one shorter than 1e-10 stays as it is.

    Takes and returns float64 of shape (dimensions,). Sums in the order of the numbers, as
    OpenClaw does, so that the last bit agrees (OPENCLAW.md, section 4).
    """
    import numpy as np

    clean = np.where(np.isfinite(vector), vector, 0.0)
    with np.errstate(over="ignore"):
        squares = np.cumsum(clean * clean)
        length = math.sqrt(float(squares[-1])) if squares.size else 0.0
        return clean if length < _SMALLEST_LENGTH else clean / length
