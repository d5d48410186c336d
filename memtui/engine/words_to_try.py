"""Which words a query could be changed by, and whether changed queries can be searched at all."""

from __future__ import annotations

from dataclasses import dataclass

from memtui.model import Reason

MOST_WORDS = 12


@dataclass(frozen=True, slots=True)
class WordsToTry:
    """What an engine says before words of a query are tried."""

    words: tuple[str, ...]
    """The chunk's most distinctive words that the query lacks, the rarest first."""
    reason: Reason = Reason.OK
    """Why no changed query can be searched as the query itself was: each would ask a service
    (`PENDING`), or its vector is not to be had (`NOT_REPRODUCIBLE`)."""
