"""Counting what a provider is asked for, from any thread."""

from __future__ import annotations

import threading

from memtui.model import Usage

CHARACTERS_A_TOKEN = 4


class UsageMeter:
    """Adds up requests, texts and tokens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._usage = Usage()

    def add(self, *, texts: int, tokens: int, requests: int = 1, estimated: bool = False) -> None:
        """Add what was asked for; `estimated`: the tokens were counted by their length."""
        with self._lock:
            known = self._usage
            self._usage = Usage(
                known.requests + requests,
                known.texts + texts,
                known.tokens + tokens,
                known.estimated or estimated,
            )

    def read(self) -> Usage:
        """Tell the sums."""
        with self._lock:
            return self._usage


def estimated_tokens(characters: int) -> int:
    """Tokens of so many characters, four a token, at least one where there is any."""
    return -(-characters // CHARACTERS_A_TOKEN)
