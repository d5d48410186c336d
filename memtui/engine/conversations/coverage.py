"""Every source of transcripts: how much was found, how much is indexed, and what is not and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from memtui.engine.conversations.finding import WHOLE, Indexed, Transcript
from memtui.index.transcripts.discovery import Located
from memtui.index.transcripts.places import TranscriptPlace
from memtui.memory.transcripts.formats import format_of
from memtui.model import Reason, SkippedFile
from memtui.model.conversations import TranscriptKind, TranscriptSource
from memtui.text.sizes import size_words

WHAT_IS_INDEXED: Final = (
    "what you and the agent said; no tool output and no thinking, credentials masked"
)
_ABSENT: Final[Mapping[TranscriptKind, str]] = {
    TranscriptKind.OPENCLAW: "no agent of OpenClaw keeps transcripts here",
    TranscriptKind.CLAUDE_CODE: "Claude Code keeps no transcripts here",
    TranscriptKind.CODEX: "Codex keeps no transcripts here",
}


def sources_of(
    found: Sequence[Located],
    transcripts: Mapping[str, Transcript],
    indexed: Mapping[str, Indexed],
    programs: Sequence[TranscriptKind] = tuple(TranscriptKind),
    goes: str = "",
) -> tuple[TranscriptSource, ...]:
    """The places one after the other, then those of the programs that have none.

    `goes` says where the text of what is indexed goes; empty where memtui does not index it.
    """
    sources = [_source(place, transcripts, indexed, goes) for place in found]
    there = {place.place.kind for place in found}
    absent = (kind for kind in programs if kind not in there)
    return (*sources, *(_nowhere(kind) for kind in absent))


def _source(
    found: Located,
    transcripts: Mapping[str, Transcript],
    indexed: Mapping[str, Indexed],
    goes: str,
) -> TranscriptSource:
    place = found.place
    held = {file.path: indexed[file.path] for file in found.files if file.path in indexed}
    facts = [one.facts for one in held.values() if one.facts is not None]
    left_out: Counter[str] = Counter()
    for one in facts:
        left_out.update(one.left_out)
    form = format_of(place.kind) if place.kind is not None else None
    size = sum(file.size for file in found.files)
    return TranscriptSource(
        name=place.name,
        kind=place.kind,
        folder=place.folder,
        is_indexed=place.is_indexed,
        found=len(found.files),
        size=size,
        indexed=len(held),
        chunks=sum(one.chunks for one in held.values()),
        messages=sum(one.messages for one in facts),
        left_out=dict(sorted(left_out.items())),
        malformed=sum(one.malformed for one in facts),
        skipped=tuple(_skipped(found, transcripts, held)),
        records_calls=form is None or form.records_calls,
        detail=_detail(
            place, len(found.files), size, goes, form.calls_note if form is not None else ""
        ),
    )


def _skipped(
    found: Located, transcripts: Mapping[str, Transcript], held: Mapping[str, Indexed]
) -> Iterator[SkippedFile]:
    """What is not indexed, or has no text; not what a source that is not opted in leaves out."""
    yield from found.skipped
    for file in found.files:
        one = held.get(file.path)
        facts = one.facts if one is not None else None
        if facts is not None and facts.reason not in WHOLE:
            yield SkippedFile(file.path, facts.reason, facts.detail)
        elif one is None and found.place.is_indexed:
            if transcripts[file.path].is_opted_in:
                yield SkippedFile(file.path, Reason.NOT_YET_INDEXED, "not indexed yet")
            else:
                yield SkippedFile(file.path, Reason.DISABLED, "its project is not opted in")


def _detail(place: TranscriptPlace, found: int, size: int, goes: str, calls_note: str) -> str:
    many = f"{found} {'conversation' if found == 1 else 'conversations'}"
    verb = "indexed:" if place.is_indexed else "would be indexed:"
    said = f"{many}, {size_words(size)}; {verb} {WHAT_IS_INDEXED}{f'; {goes}' if goes else ''}"
    return f"{said}. {calls_note}." if calls_note else said


def _nowhere(kind: TranscriptKind) -> TranscriptSource:
    form = format_of(kind)
    return TranscriptSource(
        name=kind.value,
        kind=kind,
        folder="",
        is_indexed=False,
        records_calls=form.records_calls,
        detail=_ABSENT[kind],
    )
