"""The settings of conversation transcripts, the second source of the index."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from memtui.settings.section import Field, Section

SOURCES_KEY: Final = "transcripts.sources"
SOURCES_ARE: Final = (
    "each must be openclaw, openclaw:AGENT, claude-code, claude-code:PROJECT or codex; files and "
    "folders belong to transcripts.paths"
)
"""What a source that is none of these is told."""


class Redaction(StrEnum):
    """Which credentials the index has masked in OpenClaw's conversations."""

    AUTO = "auto"
    """As the configured profile: exactly the release's list under `openclaw-*`, else the wide."""
    WIDE = "wide"
    OPENCLAW = "openclaw"


_SOURCE: Final = r"^(?:openclaw(?::[^:/\\]+)?|claude-code(?::[^:]+)?|codex)$"


class TranscriptSettings(Section):
    """Whose conversations are indexed beside the notes; none unless they are named."""

    sources: Annotated[tuple[Annotated[str, Field(pattern=_SOURCE)], ...], Field(strict=False)] = (
        Field(
            default=(),
            description="Conversations to index: openclaw, openclaw:AGENT, claude-code, "
            "claude-code:PROJECT (a glob) or codex. Credentials are masked; empty: none.",
        )
    )
    paths: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="More transcripts: files, folders or globs; whose they are is told by what "
        "they hold.",
    )
    delta_bytes: int = Field(
        default=100_000,
        le=2**40,
        description="Bytes by which a transcript grows before it is indexed again; 0: any.",
    )
    delta_messages: int = Field(
        default=50,
        le=10**9,
        description="Lines by which a transcript grows before it is indexed again; 0: any.",
    )
    debounce_seconds: float = Field(
        default=5.0, ge=0.1, le=3600, description="Time between two looks at the transcripts."
    )
    redaction: Redaction = Field(
        default=Redaction.AUTO,
        strict=False,
        description="Credentials that the index masks in OpenClaw's conversations: wide, openclaw "
        "(what the release masks, no more), auto: openclaw with a ranking.profile openclaw-*. "
        "What is shown is always masked by the wide list.",
    )
    max_line_bytes: int = Field(
        default=16 * 2**20,
        ge=1024,
        le=2**30,
        description="Longer lines of a transcript are left out, and counted.",
    )
