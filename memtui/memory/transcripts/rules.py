"""How OpenClaw's releases turn a session into lines, as values: one for each profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class TranscriptRules:
    """The rules of one release (OPENCLAW.md section 8)."""

    profile: str
    lists_every_jsonl: bool = False
    """Takes every `.jsonl` file, and nothing else."""
    reads_archives: bool = True
    """Indexes conversations that were reset or deleted; else they are listed with no text."""
    stores_agent: bool = False
    """Has the agent's name in the stored path."""
    drops_generated: bool = True
    """Leaves out what the program wrote into the conversation, and wraps long lines."""
    drops_whole_turns: bool = False
    """Leaves out heartbeats and recalled memory with all that answers them."""
    cuts_at_reset: bool = False
    """No chunk holds lines from both sides of the last reset of a conversation."""
    checks_dates: bool = True
    """A time that no JavaScript date can hold counts as unknown."""
    hashes_lines: bool = True
    """The hash covers the line map and the times beside the text."""
    masks_more: bool = True
    """Masks what the release masks and more; else exactly what it masks."""

    @property
    def redaction(self) -> str:
        """The list of credentials that are masked: `wide` or `openclaw`."""
        return "wide" if self.masks_more else "openclaw"


RULES: Mapping[str, TranscriptRules] = MappingProxyType(
    {
        rules.profile: rules
        for rules in (
            TranscriptRules(
                "openclaw-2026.2",
                lists_every_jsonl=True,
                reads_archives=False,
                drops_generated=False,
                checks_dates=False,
                hashes_lines=False,
            ),
            TranscriptRules("openclaw-2026.4", reads_archives=False, checks_dates=False),
            TranscriptRules("openclaw-2026.7"),
            TranscriptRules(
                "openclaw-2026.9", stores_agent=True, drops_whole_turns=True, cuts_at_reset=True
            ),
        )
    }
)
