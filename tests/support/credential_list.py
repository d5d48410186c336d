"""The lists of credentials: texts with made-up secrets, and lines that look similar."""

from __future__ import annotations

import random
import re
import string
import uuid
from dataclasses import dataclass

from memtui.text.redact import SHORTEST_HINTED
from tests.support.known import load

KNOWN, SECOND, THIRD = "credentials_known", "credentials_second", "credentials_third"
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
    """One text, and the secret in it."""

    service: str
    text: str
    secret: str

    def leaks_into(self, masked: str) -> bool:
        """Return whether a masked text shows more of the secret than its first six and last four."""
        if len(self.secret) < SHORTEST_HINTED:
            return self.secret in masked
        hidden = self.secret[6:-4]
        return any(hidden[at : at + 8] in masked for at in range(max(1, len(hidden) - 7)))


def _fill(shape: str, seed: str) -> str:
    """Return a shape with the characters that it asks for, the same ones for one seed."""
    dice = random.Random(seed)

    def made(match: re.Match[str]) -> str:
        if match[1] == "uuid":
            return str(uuid.UUID(int=dice.getrandbits(128), version=4))
        return "".join(dice.choices(_ALPHABETS[match[1]], k=int(match[2])))

    return _SHAPE.sub(made, shape)


def credentials_of(name: str) -> list[Credential]:
    """Return the credentials of a list, each in its text."""
    credentials = []
    for row in load(name)["credential"]:
        secret = _fill(row["secret"], row["text"])
        text = row["text"].replace("§", secret)
        credentials.append(Credential(row["service"], text, secret))
    return credentials


def lookalikes_of(name: str) -> list[str]:
    """Return the lines of a list that hold no secret."""
    rows = load(name)["lookalike"]
    texts = [row if isinstance(row, str) else row["text"] for row in rows]
    return [_fill(text, text) for text in texts]
