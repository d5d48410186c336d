"""One request of a batch interface as bytes: address, headers, body; nothing here sends it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from memtui.embedding.limits import whole
from memtui.embedding.services import Address, Service

JSON: Final = "application/json"
JSONL: Final = "application/jsonl"


@dataclass(frozen=True, slots=True)
class Call:
    """A request; what follows a `?` and the headers may be secret, so no `repr` shows them."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """A model at a service, and how documents are embedded by it."""

    service: Service
    address: Address
    model: str
    """As the service knows it."""
    headers: Mapping[str, str] = field(repr=False)
    """The key and what else goes with every request; no content type."""
    dimensions: int | None = None
    """How many numbers are asked for; `None`: as many as the model gives."""
    prefix: str = ""
    """Put before every text."""

    def document(self, text: str) -> str:
        """What is sent for a text, as it is inline."""
        return self.prefix + whole(text)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart body: its header lines and its content."""

    headers: Sequence[tuple[str, str]]
    content: bytes = field(repr=False)


def at(target: Target, path: str, query: Mapping[str, str] | None = None) -> str:
    """The address of a path below the base address, whose own query stays."""
    parts = urlsplit(target.address.url)
    pairs = [*parse_qsl(parts.query, keep_blank_values=True), *(query or {}).items()]
    base = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, base + path, urlencode(pairs), ""))


def get(target: Target, path: str, query: Mapping[str, str] | None = None) -> Call:
    """A request for what is at a path."""
    return Call("GET", at(target, path, query), {**target.headers, "accept": JSON})


def delete(target: Target, path: str) -> Call:
    """A request that deletes what is at a path."""
    return Call("DELETE", at(target, path), {**target.headers, "accept": JSON})


def post(target: Target, path: str, body: Mapping[str, Any]) -> Call:
    """A request that sends JSON to a path."""
    headers = {**target.headers, "accept": JSON, "content-type": JSON}
    return Call("POST", at(target, path), headers, as_json(body))


def as_json(value: Any) -> bytes:
    """JSON without spaces, ASCII alone: a lone surrogate of a text stays valid JSON."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def multipart(parts: Sequence[Part], kind: str = "form-data") -> tuple[str, bytes]:
    """Build a multipart body (RFC 2046): its content type and its bytes.

    The boundary is a hash of the parts, so the same parts give the same bytes, and no part can
    hold it.
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        digest.update(part.content)
    boundary = f"memtui-{digest.hexdigest()}"
    pieces: list[bytes] = []
    for part in parts:
        headers = "".join(f"{name}: {value}\r\n" for name, value in part.headers)
        pieces += [f"--{boundary}\r\n{headers}\r\n".encode("ascii"), part.content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode("ascii"))
    # Joined once: a content is as large as memory should hold it twice.
    return f'multipart/{kind}; boundary="{boundary}"', b"".join(pieces)


def form_file(purpose: str, filename: str, data: bytes) -> tuple[str, bytes]:
    """The form that OpenAI, Voyage and Mistral take a file by: content type and body."""
    return multipart(
        (
            Part((("content-disposition", 'form-data; name="purpose"'),), purpose.encode("ascii")),
            Part(
                (
                    (
                        "content-disposition",
                        f'form-data; name="file"; filename="{filename}"',
                    ),
                    ("content-type", JSONL),
                ),
                data,
            ),
        )
    )
