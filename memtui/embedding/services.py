"""Which remote embedding services there are, where each is asked, and which models it has."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from memtui.embedding.limits import BATCH_BYTES
from memtui.text.sanitize import safe_line


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
    summary: str = ""
    """A few words for people; empty where it only serves other programs' indexes."""
    default_model: str = ""
    """The model that is taken where none is named (OPENCLAW.md, section 10)."""
    dimensions: Mapping[str, int] = field(default_factory=dict)
    """By model, what the documents say a vector has when no number is asked for."""
    one_length: tuple[str, ...] = ()
    """Models that give no other number and refuse a request that asks for one."""


_OTHER_HOST_TEXTS: Final = 32

# Requests hold less than the services take (OpenAI 2048 texts and 300,000 tokens, Voyage 1000
# and 120,000, Gemini 100, Mistral 256 and 16,384), so that an answer stays small and a failed
# request loses little; OpenClaw's 8000 bytes would need eight times the requests of an account
# that may send few a minute. Voyage lets an account without a card send 10,000 tokens a minute.
# Ollama computes on this machine and gains nothing from more.
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
            says_format=True,
            request_bytes=64_000,
            request_texts=100,
            summary="OpenAI, or any server that speaks as it does (embedding.base_url)",
            default_model="text-embedding-3-small",
            dimensions={
                "text-embedding-3-small": 1536,
                "text-embedding-3-large": 3072,
                "text-embedding-ada-002": 1536,
            },
            one_length=("text-embedding-ada-002",),
        ),
        Service("openai-compatible", Shape.OPENAI, "", prefixes=("openai-compatible/",)),
        Service(
            "mistral",
            Shape.OPENAI,
            "https://api.mistral.ai/v1",
            ("MISTRAL_API_KEY",),
            True,
            ("mistral/",),
            dimensions_field="output_dimension",
            says_format=True,
            request_bytes=16_000,
            request_texts=100,
            summary="Mistral AI",
            default_model="mistral-embed",
            dimensions={"mistral-embed": 1024, "codestral-embed": 1536},
            one_length=("mistral-embed",),
        ),
        Service(
            "voyage",
            Shape.OPENAI,
            "https://api.voyageai.com/v1",
            ("VOYAGE_API_KEY",),
            True,
            ("voyage/",),
            input_type="query",
            document_type="document",
            dimensions_field="output_dimension",
            request_bytes=24_000,
            request_texts=100,
            summary="Voyage AI",
            default_model="voyage-4-large",
            dimensions={
                "voyage-4-large": 1024,
                "voyage-4": 1024,
                "voyage-4-lite": 1024,
                "voyage-3.5": 1024,
                "voyage-3.5-lite": 1024,
                "voyage-3-large": 1024,
                "voyage-3": 1024,
                "voyage-3-lite": 512,
                "voyage-code-3": 1024,
            },
            one_length=("voyage-3", "voyage-3-lite"),
        ),
        Service(
            "gemini",
            Shape.GEMINI,
            "https://generativelanguage.googleapis.com/v1beta",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            True,
            ("models/", "gemini/", "google/"),
            dimensions_field="outputDimensionality",
            request_bytes=64_000,
            request_texts=100,
            summary="Google Gemini",
            default_model="gemini-embedding-001",
            dimensions={
                "gemini-embedding-001": 3072,
                "gemini-embedding-2": 3072,
                "text-embedding-004": 768,
            },
            one_length=("text-embedding-004",),
        ),
        Service(
            "ollama",
            Shape.OLLAMA,
            "http://127.0.0.1:11434",
            prefixes=("ollama/",),
            cut=("/v1",),
            summary="Ollama, on this machine unless embedding.base_url says otherwise",
            default_model="nomic-embed-text",
            dimensions={
                "nomic-embed-text": 768,
                "mxbai-embed-large": 1024,
                "all-minilm": 384,
                "bge-m3": 1024,
                "embeddinggemma": 768,
                "snowflake-arctic-embed2": 1024,
            },
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
        host = safe_line(f"[{self.host}]" if ":" in self.host else self.host)
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """Scheme, host, port and path: what makes two addresses the same service."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{self.shown}{parts.path.rstrip('/')}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, so that no text leaves it."""
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


def wants_templates(service: Service, address: Address) -> bool:
    """Whether a model's prefixes are ours to put: a host of open models adds none by itself."""
    return service.shape is Shape.OLLAMA or (service.name == "openai" and not address.is_own)


def request_limits(service: Service, address: Address) -> tuple[int, int]:
    """How many bytes of text and how many texts go in one request.

    Another host than the service's own gets no more than text-embeddings-inference takes by
    default (32 texts) and OpenClaw sends (8000 bytes).
    """
    if address.is_own or service.shape is Shape.OLLAMA:
        return service.request_bytes, service.request_texts
    return min(service.request_bytes, BATCH_BYTES), min(service.request_texts, _OTHER_HOST_TEXTS)
