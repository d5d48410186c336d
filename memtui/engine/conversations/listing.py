"""A transcript as a list shows it: from the index, else from what was read of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from memtui.engine.conversations.finding import WHOLE, Indexed, Transcript, project_of
from memtui.engine.conversations.tally import Counted, moment
from memtui.model import Reason
from memtui.model.conversations import ConversationListing, TranscriptKind

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a transcript beside its stat."""

    indexed: Indexed | None = None
    counted: Counted | None = None
    """All of it was read."""
    begun: Counted | None = None
    """Its beginning was read."""
    trouble: tuple[Reason, str] | None = None
    """Why it could not be read."""


def listing_of(found: Transcript, known: Known) -> ConversationListing:
    """Put together what is known; what nobody has counted is `None`."""
    file, place, indexed = found.file, found.place, known.indexed
    facts = indexed.facts if indexed is not None else None
    is_current = indexed is not None and indexed.is_current(file)
    read = known.counted or known.begun
    state, detail = _state(found, known)
    listing = ConversationListing(
        path=file.path,
        place=str(file.absolute),
        kind=_kind(found, known),
        agent=place.agent or project_of(file),
        size=file.size,
        changed=_changed(file.mtime_ns),
        session=file.session,
        chunks=indexed.chunks if indexed is not None else None,
        state=state,
        detail=detail,
    )
    if facts is not None and facts.kind is not None:
        listing = replace(
            listing,
            agent=facts.agent or listing.agent,
            title=facts.title,
            model=facts.model,
            started=moment(facts.started_ms),
            malformed=facts.malformed,
        )
        if is_current and known.counted is None:
            return replace(
                listing, ended=moment(facts.ended_ms), turns=facts.turns, calls=facts.calls
            )
    return listing if read is None else _as_read(listing, read, is_whole=read is known.counted)


def _as_read(listing: ConversationListing, read: Counted, *, is_whole: bool) -> ConversationListing:
    """The same with what reading the file told."""
    listing = replace(
        listing,
        agent=listing.agent or read.agent,
        title=read.title or listing.title,
        model=read.model or listing.model,
        started=moment(read.started_ms) or listing.started,
    )
    if not is_whole:
        return listing
    return replace(
        listing,
        ended=moment(read.ended_ms),
        turns=read.messages,
        calls=len(read.calls),
        malformed=read.malformed,
    )


def _kind(found: Transcript, known: Known) -> TranscriptKind:
    facts = known.indexed.facts if known.indexed is not None else None
    if facts is not None and facts.kind is not None:
        return facts.kind
    read = known.counted or known.begun
    if read is not None:
        return read.kind
    return TranscriptKind(found.file.kind) if found.file.kind else TranscriptKind.OPENCLAW


def _state(found: Transcript, known: Known) -> tuple[Reason, str]:
    """Why a transcript is not indexed, or not wholly, and one line about it."""
    indexed, counted = known.indexed, known.counted
    if known.trouble is not None:
        return known.trouble
    said = _of_content(counted)
    if indexed is None:
        if not found.is_opted_in:
            return Reason.DISABLED, "; ".join(filter(None, (_not_opted_in(found), said[1])))
        if said[0] not in WHOLE:
            return said
        return Reason.NOT_YET_INDEXED, "; ".join(filter(None, ("not indexed yet", said[1])))
    if not indexed.is_current(found.file):
        return Reason.STALE, "changed since it was indexed"
    facts = indexed.facts
    if facts is not None and facts.reason is not Reason.OK:
        return facts.reason, facts.detail
    return (Reason.OK, "") if facts is not None else said


def _of_content(counted: Counted | None) -> tuple[Reason, str]:
    """What reading all of a transcript told about its state."""
    if counted is None:
        return Reason.OK, ""
    if counted.unreadable:
        return Reason.UNREADABLE, f"cannot be read to its end: {counted.unreadable}"
    if counted.run:
        return Reason.GENERATED_RUN, f"the program's talk with itself: {counted.run}"
    if not counted.messages:
        return Reason.NO_MESSAGES, "nobody says anything in it"
    if counted.malformed:
        lines = "line is" if counted.malformed == 1 else "lines are"
        return Reason.MALFORMED_LINES, f"{counted.malformed} {lines} no record"
    return Reason.OK, ""


def _not_opted_in(found: Transcript) -> str:
    return f"not opted in: {source_name(found)}"


def source_name(found: Transcript) -> str:
    """What a transcript is opted in by."""
    project = project_of(found.file)
    return f"{found.place.name}:{project}" if project else found.place.name


def newest_first(listings: Sequence[ConversationListing]) -> list[ConversationListing]:
    """By the time that a conversation began, else by when its file changed."""
    by_path = sorted(listings, key=lambda listing: listing.path)
    return sorted(by_path, key=lambda listing: listing.started or listing.changed, reverse=True)


def _changed(mtime_ns: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=mtime_ns // 1000)
    except OverflowError:
        # A file's time may lie outside the calendar.
        return _EPOCH
