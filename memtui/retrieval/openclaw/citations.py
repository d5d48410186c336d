"""Whether and how OpenClaw's answers say where they come from (`tools.citations.ts`)."""

from __future__ import annotations

from typing import Final

_PUBLIC: Final = frozenset({"channel", "group"})


def shows_citations(mode: str, session: str | None) -> bool:
    """Whether an answer cites its sources.

    `mode` is `memory.citations` (on, off or auto); auto hides them in a session whose key has a
    part `channel` or `group`, and shows them when there is no session.
    """
    if mode != "auto":
        return mode == "on"
    return _PUBLIC.isdisjoint((session or "").lower().split(":"))


def decorated(snippet: str, citation: str) -> str:
    """A snippet as the agent is given it: trimmed, a blank line, its source."""
    return f"{snippet.strip()}\n\nSource: {citation}"
