"""The second list of credentials: texts with made-up secrets, and lines that look similar."""

from __future__ import annotations

import random
import re
import string
import tomllib
import uuid
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).parents[1] / "data" / "credentials_second.toml"
_ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "url": string.ascii_letters + string.digits + "-_",
    "base64": string.ascii_letters + string.digits + "+/",
    "base32": string.ascii_uppercase + "234567",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "bech32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_SHAPE = re.compile(rf"<(uuid|{'|'.join(_ALPHABETS)}) (\d+)>")


@dataclass(frozen=True, slots=True)
class Credential:
    """One text of a service's documentation, and the secret in it."""

    service: str
    place: str
    text: str
    secret: str


def _fill(shape: str, seed: str) -> str:
    """Return a shape with the characters that it asks for, the same ones for one seed."""
    dice = random.Random(seed)

    def made(match: re.Match[str]) -> str:
        if match[1] == "uuid":
            return str(uuid.UUID(int=dice.getrandbits(128), version=4))
        return "".join(dice.choices(_ALPHABETS[match[1]], k=int(match[2])))

    return _SHAPE.sub(made, shape)


def documented_credentials() -> list[Credential]:
    """Return the credentials of the list, each in its text."""
    credentials = []
    for row in tomllib.loads(LIST.read_text(encoding="utf-8"))["credential"]:
        secret = _fill(row["secret"], row["text"])
        text = row["text"].replace("§", secret)
        credentials.append(Credential(row["service"], row["place"], text, secret))
    return credentials


def lookalikes() -> list[str]:
    """Return the lines of the list that hold no secret."""
    rows = tomllib.loads(LIST.read_text(encoding="utf-8"))["lookalike"]
    return [_fill(row["text"], row["text"]) for row in rows]
