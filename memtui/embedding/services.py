"""The remote embedding services: where each is, how it is asked and read, what it costs.

Nothing here opens a connection. The shapes are those of OpenClaw's providers (OPENCLAW.md,
sections 4 and 10); keys are kept out of every `repr`. A price that no document states is not
guessed: it is `None`, which is unknown and not free. Prices change; each has the day of its
document, which people are shown beside every sum.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from memtui.data import read_table
from memtui.embedding.provider import BATCH_BYTES, Role, Values
from memtui.errors import ProviderError
from memtui.model import Failure
from memtui.settings.files import value_in
from memtui.settings.schema import MOST_DIMENSIONS, EmbeddingSettings
from memtui.text.sanitize import safe_line

_PLAIN: Final = frozenset({"mistral", "lmstudio"})
"""Services of OpenAI's shape that OpenClaw sends neither an input type nor dimensions."""
JSON: Final = "application/json"
JSON_HEADERS: Final = {"content-type": JSON, "accept": JSON}


class Shape(StrEnum):
    OPENAI = "openai"
    GEMINI = "gemini"
    OLLAMA = "ollama"


class Templates(Struct, frozen=True):
    """The prefixes that a model expects before a query and a document; either may be empty."""

    query: str = ""
    document: str = ""

    def overridden(self, choice: EmbeddingSettings) -> Templates:
        """Return the same, but for the prefixes that the settings give."""
        return Templates(
            self.query if choice.query_prefix is None else choice.query_prefix,
            self.document if choice.document_prefix is None else choice.document_prefix,
        )


# `data/services.toml` says what the fields of the following three mean.


class Model(Struct, frozen=True):
    dimensions: int | None = None
    one_length: bool = False
    input_bytes: int | None = None
    templates: Templates = Templates()
    price: float | None = None
    as_of: str = ""


class BatchForm(Struct, frozen=True):
    line: Mapping[str, Any]
    creation: Mapping[str, Any]
    window_hours: float = 24
    retention_days: float = 30
    path: str = "/batches"
    creation_path: str = ""
    listing: Mapping[str, str] = MappingProxyType({"limit": "100"})
    entries: str = "data"
    file_of_entry: tuple[str, ...] = ("input_files", "input_file_id")
    uploaded: str = "id"
    created: str = "id"
    state: tuple[str, ...] = ("status",)
    output: tuple[str, ...] = ("output_file_id",)
    completed: tuple[str, ...] = ("request_counts.completed",)
    key: str = "custom_id"
    answer: str = "response.body"
    is_google: bool = False


class Service(Struct, frozen=True):
    """A kind of embedding service: where it is, how it is asked, which variables hold its key."""

    name: str
    shape: Shape
    base_url: str = ""
    summary: str = ""
    key_variables: tuple[str, ...] = ()
    needs_key: bool = False
    prefixes: tuple[str, ...] = ()
    input_type: str = ""
    document_type: str = ""
    dimensions_field: str = "dimensions"
    says_format: bool = False
    cut: tuple[str, ...] = ()
    ending: str = ""
    request_bytes: int = BATCH_BYTES
    request_texts: int = 32
    batch: BatchForm | None = None
    batch_factor: float = 1.0
    default_model: str = ""
    models: Mapping[str, Model] = {}

    def address(self, configured: str = "") -> Address:
        """Return the base address, tidied up; raises `ValueError`, which never repeats it."""
        text = configured.strip() or self.base_url
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
        is_own = urlsplit(self.base_url).hostname == host
        path = parts.path.rstrip("/")
        if self.shape is Shape.GEMINI:
            path = path.partition("/openai")[0].rstrip("/") or ("/v1beta" if is_own else "")
        else:
            ending = next(filter(path.endswith, self.cut), "")
            path = path.removesuffix(ending).rstrip("/") + self.ending
        url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        return Address(url, host, port, is_own)

    def wire_model(self, model: str, address: Address) -> str:
        """Return the model as the service, or another host than OpenAI's, knows it."""
        name = model.strip()
        if self.name == "openai" and not address.is_own:
            return name
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        return name

    def request(
        self,
        address: Address,
        model: str,
        texts: Sequence[str],
        role: Role,
        dimensions: int | None = None,
    ) -> Request:
        """Make the request for texts; `dimensions` where fewer than the model's are wanted."""
        path, body = self._path(model), self.body(model, texts, role, dimensions)
        if self.shape is Shape.GEMINI and role is Role.QUERY:
            del body["model"]
        elif self.shape is Shape.GEMINI:
            path = self._path(model, "batchEmbedContents")
            bodies = [self.body(model, [text], role, dimensions) for text in texts]
            body = {"requests": bodies}
        return Request("POST", address.joined(path), JSON_HEADERS, as_json(body))

    def body(
        self, model: str, texts: Sequence[str], role: Role, dimensions: int | None = None
    ) -> dict[str, Any]:
        """Return the body that asks for texts; for Gemini of the first of them."""
        if self.shape is Shape.GEMINI:
            content = {"parts": [{"text": texts[0] if texts else ""}]}
            body: dict[str, Any] = {"model": f"models/{model}", "content": content}
            if self.models.get(model, Model()).templates == Templates():
                body["taskType"] = f"RETRIEVAL_{role.value.upper()}"
        else:
            body = {"model": model, "input": list(texts)}
            if self.says_format:
                body["encoding_format"] = "float"
            if kind := self.input_type if role is Role.QUERY else self.document_type:
                body["input_type"] = kind
        if dimensions is not None:
            body[self.dimensions_field] = dimensions
        return body

    def query_request(
        self,
        address: Address,
        model: str,
        query: str,
        *,
        headers: Mapping[str, str],
        dimensions: int | None = None,
        input_type: str = "",
    ) -> Request:
        """Make OpenClaw's own request for a query; `dimensions` only where they are asked for."""
        name = self.wire_model(model, address)
        body: dict[str, Any]
        if self.shape is Shape.GEMINI:
            text = self.models.get(name, Model()).templates.query + query
            shorter = dimensions if name.startswith("gemini-embedding") else None
            body = self.body(name, [text], Role.QUERY, shorter)
            del body["model"]
        elif self.shape is Shape.OLLAMA:
            body = {"model": name, "input": self.query_prefix(name) + query}
        else:
            body = {"model": name, "input": [query]}
            if dimensions is not None and self.name not in _PLAIN | {"voyage"}:
                body["dimensions"] = dimensions
            if kind := self.input_type or (input_type if self.name not in _PLAIN else ""):
                body["input_type"] = kind
        url = address.joined(self._path(name))
        return Request("POST", url, JSON_HEADERS | dict(headers), as_json(body))

    def _path(self, model: str, call: str = "embedContent") -> str:
        if self.shape is Shape.GEMINI:
            # Quoted whole: the name may come from an index and must not lead to another path.
            return f"/models/{quote(model, safe='')}:{call}"
        return "/api/embed" if self.shape is Shape.OLLAMA else "/embeddings"

    def query_prefix(self, model: str) -> str:
        """Return what OpenClaw puts before a query: of Ollama alone, and for three families."""
        if self.shape is not Shape.OLLAMA:
            return ""
        name = model.strip().lower().rpartition("/")[2]
        families = ("qwen3-embedding", "nomic-embed-text", "mxbai-embed-large")
        return templates_of(name).query if name.startswith(families) else ""

    def embeds_alike(self, model: str, query_type: str, document_type: str) -> bool:
        """Return whether a query and a note of the same text get the same vector from OpenClaw."""
        if self.input_type or self.shape is Shape.GEMINI:
            return False
        return not self.query_prefix(model) and query_type == document_type

    def headers(self, key: str, configured: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the headers, lower case; raises `ValueError`, which never repeats a value."""
        headers: dict[str, str] = {}
        if key:
            if not sendable(key):
                raise ValueError("its key holds characters that cannot be sent")
            is_gemini = self.shape is Shape.GEMINI
            headers = {"x-goog-api-key": key} if is_gemini else {"authorization": f"Bearer {key}"}
        for name, value in (configured or {}).items():
            lower = name.strip().lower()
            if lower in ("", "host", "content-length", "transfer-encoding", "connection"):
                continue
            if not (lower.isascii() and lower.replace("-", "").replace("_", "").isalnum()):
                raise ValueError("one of its configured headers has a name that cannot be sent")
            if not sendable(value):
                raise ValueError(f"its configured header {lower} holds what cannot be sent")
            headers[lower] = value.strip()
        return headers

    def vectors_in(
        self, answer: object, count: int, dimensions: int | None = None, *, finite: bool = True
    ) -> Answered:
        """Take the vectors of so many texts out of a parsed answer, in the order of the texts.

        All-zero vectors are vectors. Raises `WrongAnswer`: `dimensions_differ` for a vector of
        another length than the others or than `dimensions`, or of too many numbers, else
        `bad_answer`, which a number that is not finite is, too, where they are to be `finite`.
        """
        import numpy as np

        single = value_in(answer, "embedding") if self.shape is Shape.GEMINI else None
        entries = value_in(answer, "data" if self.shape is Shape.OPENAI else "embeddings")
        listed = [single] if single is not None else entries if isinstance(entries, list) else []
        if self.shape is Shape.OPENAI and len(listed) == count > 1:
            # Each entry says by its `index` which text it belongs to, and each text must have one.
            pairs = [(value_in(entry, "index"), entry) for entry in listed]
            by_index = {index: entry for index, entry in pairs if type(index) is int}
            if set(by_index) != set(range(count)):
                raise WrongAnswer("the answer does not say which vector belongs to which text")
            listed = [by_index[index] for index in range(count)]
        if self.shape is not Shape.OLLAMA:
            name = "embedding" if self.shape is Shape.OPENAI else "values"
            listed = [value_in(entry, name) for entry in listed]
        if len(listed) != count:
            texts = "one text" if count == 1 else f"{count} texts"
            raise WrongAnswer(f"the answer holds {len(listed)} vectors for {texts}")
        try:
            rows = msgspec.convert(listed, list[_Numbers])
        except msgspec.ValidationError:
            words = "the answer holds what is no vector of numbers, or a number that is too large"
            raise WrongAnswer(words) from None
        lengths = sorted(set(map(len, rows)))
        if lengths != [dimensions or lengths[0]]:
            *first, last = map(str, lengths)
            words = f"{', '.join(first)} and {last}" if first else last
            expected = f", not of {dimensions}" if dimensions is not None else ""
            words = f"the answer holds vectors of {words} dimensions{expected}"
            raise WrongAnswer(words, Failure.DIMENSIONS_DIFFER)
        if lengths[-1] > MOST_DIMENSIONS:
            words = f"the answer holds vectors of {lengths[-1]} dimensions, the most are"
            raise WrongAnswer(f"{words} {MOST_DIMENSIONS}", Failure.DIMENSIONS_DIFFER)
        vectors = np.array(rows, dtype=np.float64)
        if finite and not np.isfinite(vectors).all():
            raise WrongAnswer("a vector in the answer holds a number that is not finite")
        paths = ("usage.total_tokens", "usage.prompt_tokens", "usageMetadata.promptTokenCount")
        counts = (value_in(answer, path) for path in (*paths, "prompt_eval_count"))
        # More tokens than any request takes could not be priced.
        tokens = next((n for n in counts if type(n) is int and 0 <= n < 10**12), None)
        return Answered(vectors, tokens)


SERVICES: Final[Mapping[str, Service]] = {
    name: msgspec.convert({"name": name, **row}, Service)
    for name, row in read_table("services.toml").items()
}


def templates_of(model: str) -> Templates:
    """Return the prefixes of a model by its family, none for one that is not known.

    Takes the name as hosts and files spell it: `nomic-embed-text:latest`,
    `text-embedding-nomic-embed-text-v1.5`, `hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0`,
    `embeddinggemma-300m-qat-Q8_0.gguf`.
    """
    name = re.split(r"[/\\]", model.strip())[-1].lower().replace("_", "-")
    for family in read_table("model_families.toml")["family"]:
        if re.search(rf"(?<![a-z0-9]){family['name']}", name):
            return Templates(family["query"], family.get("document", ""))
    return Templates()


@dataclass(frozen=True, slots=True)
class Address:
    url: str = field(repr=False)
    """The base address; what follows a `?` may be secret, so it is never shown."""
    host: str
    port: int | None
    is_own: bool
    """True if it is the host that the service has by itself."""

    @property
    def shown(self) -> str:
        """Host and port, for messages."""
        host = safe_line(f"[{self.host}]" if ":" in self.host else self.host)
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether it is this machine, so that no text leaves it."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_in_clear(self) -> bool:
        """Return whether what is sent to it crosses a network unencrypted."""
        return self.url.startswith("http:") and not self.is_loopback

    def require_encryption(self, secret: str, *, is_lifted: bool) -> None:
        """Raise `ProviderError` for a secret, as messages name it, that would go in clear."""
        if self.is_in_clear and not is_lifted:
            hint = "name an https address, or set embedding.allow_insecure"
            words = f"{secret} would go to {self.shown} unencrypted"
            raise ProviderError(words, hint=hint, failure=Failure.BAD_SETTING)

    def joined(self, path: str, query: Mapping[str, str] | None = None, beside: str = "") -> str:
        """Return the URL of a path; `beside` is a folder before the last part of the base."""
        parts = urlsplit(self.url)
        base = parts.path.rstrip("/")
        if beside:
            before, _, version = base.rpartition("/")
            base = f"{before}/{beside}/{version}" if version else f"/{beside}"
        parameters = "&".join(filter(None, (parts.query, urlencode(query or {}))))
        return urlunsplit((parts.scheme, parts.netloc, base + path, parameters, ""))


@dataclass(frozen=True, slots=True)
class Request:
    """One request; what follows a `?` and the headers may be secret, so no `repr` shows them."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


def as_json(value: Any) -> bytes:
    """Write JSON without spaces, ASCII alone: a lone surrogate of a text stays valid JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def sendable(value: str) -> bool:
    """Return whether a text can be the value of a header."""
    return value.isascii() and value.isprintable()


class Answered(NamedTuple):
    vectors: Values
    """One row for each text, in the order of the texts."""
    tokens: int | None
    """Tokens that the service counts; `None` where it does not say."""


class WrongAnswer(ValueError):
    """An answer that cannot be used; its text says what it holds, and never repeats any of it."""

    def __init__(self, words: str, failure: Failure = Failure.BAD_ANSWER) -> None:
        super().__init__(words)
        self.failure = failure


_Numbers: TypeAlias = Annotated[list[float], msgspec.Meta(min_length=1)]


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
        return clean if length < 1e-10 else clean / length


FREE: Final = (0.0, "", "")
"""The price of what is computed on machines of the user."""


def price_of(choice: EmbeddingSettings, provider: str, model: str) -> tuple[float, str, str] | None:
    """Return the price of a million tokens, its currency (ISO 4217) and the day it is of.

    The price in the settings, whose currency nobody told, comes before the list price, which
    counts at the service's own host alone; `None` is unknown. `model` is the service's name of it.
    """
    service = SERVICES.get(provider)
    if choice.price is not None:
        return choice.price, "", ""
    if provider in ("minilm", "use-multilingual", "wordllama", "gguf", "ollama"):
        return FREE
    if service is None:
        return None
    try:
        address = service.address(choice.base_url or "")
    except ValueError:
        return None
    if not address.is_own:
        return FREE if address.is_loopback else None
    row = service.models.get(model, Model())
    return None if row.price is None else (row.price, "USD", row.as_of)
