"""Which remote embedding services there are, where each is asked, its models, and their prices.

A price that no document states is not guessed: it is `None`, which is unknown and not free.
Prices change; each has the day of its document, which people are shown beside every sum.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import msgspec

from memtui.embedding.limits import BATCH_BYTES
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line


class Shape(StrEnum):
    """The form of requests and answers."""

    OPENAI = "openai"
    GEMINI = "gemini"
    OLLAMA = "ollama"


@dataclass(frozen=True, slots=True)
class Model:
    """What is known of one model of a service."""

    dimensions: int | None = None
    """Numbers that a vector has when no number is asked for, as the documents say."""
    one_length: bool = False
    """Whether it gives no other number and refuses a request that asks for one."""
    input_bytes: int | None = None
    """The most UTF-8 bytes of one text."""
    price: float | None = None
    """USD for a million tokens; `None` where no document says."""
    as_of: str = ""
    """The day (or month) of that document, `YYYY-MM-DD` or `YYYY-MM`."""


@dataclass(frozen=True, slots=True)
class Service:
    """A kind of embedding service: where it is, how it is asked, which variables hold its key."""

    name: str
    shape: Shape
    base_url: str = ""
    """Its own address; empty when one must be configured."""
    summary: str = ""
    """A few words for people; empty where it only serves other programs' indexes."""
    key_variables: tuple[str, ...] = ()
    """Environment variables, the first that is set counts."""
    needs_key: bool = False
    prefixes: tuple[str, ...] = ()
    """What a configured model may begin with and the service does not know."""
    input_type: str = ""
    """What a query is always sent as."""
    document_type: str = ""
    """What a document is always sent as."""
    dimensions_field: str = "dimensions"
    """How the number of dimensions is asked for."""
    says_format: bool = False
    """Whether it is told that vectors come as numbers; others know no such field."""
    cut: tuple[str, ...] = ()
    """Endings of a configured path that are dropped."""
    ending: str = ""
    """What the path then ends with."""
    request_bytes: int = BATCH_BYTES
    """How much text goes in one request, by its own address; a byte counts as a token."""
    request_texts: int = 32
    """How many texts go in one request, by its own address."""
    batch_factor: float = 1.0
    """What a price is multiplied by for the batch interface."""
    default_model: str = ""
    """The model that is taken where none is named (OPENCLAW.md, section 10)."""
    models: Mapping[str, Model] = field(default_factory=dict)
    """Those of which something is known."""


_TABLE: Final = resources.files("memtui.data").joinpath("services.toml")
SERVICES: Final[Mapping[str, Service]] = {
    name: msgspec.convert({"name": name, **row}, Service)
    for name, row in tomllib.loads(_TABLE.read_text("utf-8")).items()
}
_OTHER_HOST_TEXTS: Final = 32


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
        host = safe_line(f"[{self.host}]" if ":" in self.host else self.host)
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """Scheme, host, port and path: what makes two addresses the same service."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{self.shown}{parts.path.rstrip('/')}"

    @property
    def is_loopback(self) -> bool:
        """Return whether it is this machine, so that no text leaves it."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def joined(self, path: str) -> str:
        """The URL of a path below the base address; what follows the `?` stays."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path + path, parts.query, ""))


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


def request_limits(service: Service, address: Address) -> tuple[int, int]:
    """How many bytes of text and how many texts go in one request.

    Another host than the service's own gets no more than text-embeddings-inference takes by
    default (32 texts) and OpenClaw sends (8000 bytes).
    """
    if address.is_own or service.shape is Shape.OLLAMA:
        return service.request_bytes, service.request_texts
    return min(service.request_bytes, BATCH_BYTES), min(service.request_texts, _OTHER_HOST_TEXTS)


MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ListPrice:
    """What a million tokens cost, and since when."""

    per_million_tokens: float
    """In `currency`; 0 is free of charge."""
    currency: str = ""
    """ISO 4217, like `USD`; empty for the user's own price, whose currency nobody told."""
    as_of: str = ""
    """The day (or month) of the document, `YYYY-MM-DD` or `YYYY-MM`; empty where none counts."""
    batch_factor: float = 1.0
    """What the price is multiplied by for the batch interface."""


FREE: Final = ListPrice(0.0)
"""The price of what is computed on machines of the user."""
_UNCHARGED: Final = frozenset({"minilm", "use-multilingual", "wordllama", "gguf", "ollama"})


def price_of(choice: EmbeddingSettings, provider: str, model: str) -> ListPrice | None:
    """Return what the user pays: the price in the settings, else the list price; `None`: unknown.

    What runs on machines of the user is `FREE`. A list price counts only at the service's own
    host: who answers at another `base_url` charges what nobody here knows, and this machine
    nothing. `model` is the service's own name of it, without a prefix such as `openai/`.
    """
    service = SERVICES.get(provider)
    if choice.price is not None:
        factor = service.batch_factor if service is not None else 1.0
        return ListPrice(choice.price, batch_factor=factor)
    if provider in _UNCHARGED:
        return FREE
    row = service.models.get(model) if service is not None else None
    if service is not None and choice.base_url:
        try:
            address = address_of(service, choice.base_url)
        except ValueError:
            return None
        if not address.is_own:
            return FREE if address.is_loopback else None
    if service is None or row is None or row.price is None:
        return None
    return ListPrice(row.price, "USD", row.as_of, service.batch_factor)


def cost_of(tokens: int, price: ListPrice, *, batch: bool = False) -> float:
    """Return what so many tokens cost in the price's currency, inline or by the batch interface."""
    factor = price.batch_factor if batch else 1.0
    return tokens * price.per_million_tokens * factor / MILLION
