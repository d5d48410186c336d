"""Turns with their credentials masked, whole or cut, without masking all of a huge text."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from memtui.memory.transcripts.base import parse_record
from memtui.model.conversations import Turn, TurnKind
from memtui.text.redact import redact, redact_name, redact_value
from memtui.text.sanitize import safe_line

SHOWN: Final = 2_000
"""Characters of a text that are held."""
_LEAST_WINDOW: Final = 4096
"""Characters that are looked at, at least: no credential is as long as what is left over."""
_PRIVATE_KEY: Final = "private key-----"


class Beginning(NamedTuple):
    """The beginning of a masked text."""

    text: str
    size: int
    """Characters of the whole; of a huge text before masking."""


def masked(turn: Turn) -> Turn:
    """The turn with its whole text masked."""
    text = masked_text(turn)
    tool, call_id = _name(turn.tool), redact_name(turn.call_id)
    return replace(turn, text=text, size=len(text), tool=tool, call_id=call_id)


def masked_text(turn: Turn) -> str:
    """The whole text of a turn, masked; arguments by the names that they have, too."""
    if turn.kind is TurnKind.TOOL_CALL:
        try:
            value = parse_record(turn.text)
        except ValueError:
            # Arguments in a language of the tool's own are a text like any other.
            return redact(turn.text)
        return json.dumps(redact_value(value), ensure_ascii=False)
    return redact(turn.text)


def cut(turn: Turn, shown: int = SHOWN) -> Turn:
    """The turn with the beginning of its masked text; `size` is the whole's."""
    if turn.kind is TurnKind.MALFORMED:
        return turn
    if turn.kind is TurnKind.TOOL_CALL:
        text = masked_text(turn)
        found = Beginning(text[:shown], len(text))
    else:
        found = beginning(turn.text, shown)
    tool, call_id = _name(turn.tool), redact_name(turn.call_id)
    names_stay = tool == turn.tool and call_id == turn.call_id
    if names_stay and found.size == turn.size and found.text == turn.text:
        # Most turns stay as they are: nothing is masked, and nothing cut off.
        return turn
    return replace(turn, text=found.text, size=found.size, tool=tool, call_id=call_id)


def beginning(text: str, shown: int = SHOWN) -> Beginning:
    """The first characters of a masked text; the whole of one that is no longer.

    What is looked at ends far behind what is shown, so that no credential is seen by half. A
    private key is masked up to its end, however far that is.
    """
    size = max(_LEAST_WINDOW, 4 * shown)
    if len(text) > size:
        window = redact(text[:size])
        if len(window) > size // 2 and _PRIVATE_KEY not in window.lower():
            return Beginning(window[:shown], len(text))
    whole = redact(text)
    return Beginning(whole[:shown], len(whole))


def one_line(text: str, shown: int) -> str:
    """The beginning of a masked text on one line that a terminal can be shown."""
    line = " ".join(safe_line(beginning(text, 8 * shown).text).split())
    return line if len(line) <= shown else line[: shown - 1].rstrip() + "…"


@lru_cache(maxsize=512)
def _name(tool: str) -> str:
    return redact_name(tool)
