"""Texts that a provider refused: remembered, so that they are not sent at every sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memtui.embedding.provider import ProviderIdentity
from memtui.errors import ProviderError
from memtui.model import Failure

MOST_TRIES: Final = 3
"""So often a text is sent that is refused each time; then only when the user asks for work."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a text has no vector."""

    message: str
    failure: Failure
    tries: int

    @property
    def is_final(self) -> bool:
        """Whether the text is not sent again."""
        return self.tries >= MOST_TRIES


class RefusedTexts:
    """Refusals by provider and text hash; lives as long as the program, any thread may `clear`."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str, str], Refusal] = {}

    def of(self, identity: ProviderIdentity, text_hash: str) -> Refusal | None:
        """What is known of a text; `None` for one that was not refused."""
        return self._known.get(_key(identity, text_hash))

    def note(self, identity: ProviderIdentity, text_hash: str, error: ProviderError) -> Refusal:
        """Remember that a text was refused once more."""
        known = self.of(identity, text_hash)
        tries = 1 + (known.tries if known is not None else 0)
        refusal = Refusal(str(error), Failure(error.failure), tries)
        self._known[_key(identity, text_hash)] = refusal
        return refusal

    def clear(self) -> None:
        """Forget all of it: the user has asked for work."""
        self._known.clear()


def _key(identity: ProviderIdentity, text_hash: str) -> tuple[str, str, str, str]:
    return identity.name, identity.model, identity.fingerprint, text_hash
