"""The remote embedding services: where each is asked, its models, their prefixes and prices.

A price that no document states is not guessed: it is `None`, which is unknown and not free.
Prices change; each has the day of its document, which people are shown beside every sum.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from memtui.data import read_table
from memtui.embedding.provider import BATCH_BYTES
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line


class Shape(StrEnum):
    """The form of requests and answers."""

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
    """The known facts about one model of a service."""

    dimensions: int | None = None
    one_length: bool = False
    input_bytes: int | None = None
    templates: Templates = Templates()
    price: float | None = None
    as_of: str = ""


class BatchForm(Struct, frozen=True):
    """How the batch interface of a service is spoken to."""

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


SERVICES: Final[Mapping[str, Service]] = {
    name: msgspec.convert({"name": name, **row}, Service)
    for name, row in read_table("services.toml").items()
}
_OTHER_HOST_TEXTS: Final = 32


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


# --- where a service is asked -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """The address at which a service is asked."""

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

    def joined(self, path: str, query: Mapping[str, str] | None = None, beside: str = "") -> str:
        """Return the URL of a path below the base address; what follows the `?` stays.

        `beside` is a folder before the last part of the base address, as Google has them.
        """
        parts = urlsplit(self.url)
        base = parts.path.rstrip("/")
        if beside:
            before, _, version = base.rpartition("/")
            base = f"{before}/{beside}/{version}" if version else f"/{beside}"
        parameters = "&".join(filter(None, (parts.query, urlencode(query or {}))))
        return urlunsplit((parts.scheme, parts.netloc, base + path, parameters, ""))


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
    is_own = urlsplit(service.base_url).hostname == host
    path = parts.path.rstrip("/")
    if service.shape is Shape.GEMINI:
        path = path.partition("/openai")[0].rstrip("/") or ("/v1beta" if is_own else "")
    else:
        ending = next(filter(path.endswith, service.cut), "")
        path = path.removesuffix(ending).rstrip("/") + service.ending
    url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return Address(url, host, port, is_own)


def wire_model(service: Service, model: str, address: Address) -> str:
    """Return the model as the service knows it, without a prefix that only OpenClaw knows.

    At another host than OpenAI's a name like `openai/x` is that host's own, and stays.
    """
    name = model.strip()
    if service.name == "openai" and not address.is_own:
        return name
    for prefix in service.prefixes:
        name = name.removeprefix(prefix)
    return name


def request_limits(service: Service, address: Address) -> tuple[int, int]:
    """Return how many bytes of text and how many texts go in one request.

    Another host than the service's own gets no more than text-embeddings-inference takes by
    default (32 texts) and OpenClaw sends (8000 bytes).
    """
    if address.is_own or service.shape is Shape.OLLAMA:
        return service.request_bytes, service.request_texts
    return min(service.request_bytes, BATCH_BYTES), min(service.request_texts, _OTHER_HOST_TEXTS)


# --- prices -----------------------------------------------------------------------------------


_UNCHARGED: Final = frozenset({"minilm", "use-multilingual", "wordllama", "gguf", "ollama"})
FREE: Final = (0.0, "", "")
"""The price of what is computed on machines of the user."""


def price_of(choice: EmbeddingSettings, provider: str, model: str) -> tuple[float, str, str] | None:
    """Return the price of a million tokens, its currency (ISO 4217) and the day it is of.

    The price in the settings, whose currency nobody told, comes before the list price; `None` is
    unknown. What runs on machines of the user is `FREE`. A list price counts only at the service's
    own host: who answers at another `base_url` charges what nobody here knows, and this machine
    nothing. `model` is the service's own name of it, without a prefix such as `openai/`.
    """
    service = SERVICES.get(provider)
    if choice.price is not None:
        return choice.price, "", ""
    if provider in _UNCHARGED:
        return FREE
    if service is None:
        return None
    try:
        address = address_of(service, choice.base_url or "")
    except ValueError:
        return None
    if not address.is_own:
        return FREE if address.is_loopback else None
    row = service.models.get(model, Model())
    return None if row.price is None else (row.price, "USD", row.as_of)
