"""The conversations that come with the sample memory."""

from __future__ import annotations

from memtui.index.transcripts.scope import TranscriptHomes
from memtui.memory.workspace import demo_root


def demo_homes() -> TranscriptHomes:
    """Where the sample memory's conversations are: nothing of this machine is looked at."""
    folder = demo_root().with_name("demo_sessions")
    return TranscriptHomes(folder / "openclaw", folder / "claude", folder / "codex")
