"""Conversations and replayed searches in words, for people: lists, turns, what has changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from memtui.memory.transcripts.records import turn_time
from memtui.model import Ranking, Reason
from memtui.model.conversations import (
    ConversationListing,
    RecallChange,
    RecallRow,
    Replayed,
    TranscriptSource,
    Turn,
    TurnKind,
)
from memtui.model.status import ForeignStatus
from memtui.report import words
from memtui.text.sanitize import size_words

SIGNS: Final = "then: the agent's answer, now: today's; = same, ~ moved, + new, - gone, . absent"
_HEADINGS: Final = f"{'rank':>10}{'score':>15}", "  then  now    then     now  place"
_INDENT: Final = "    "
_NUMBER: Final = 6
_FOLDED: Final = frozenset(
    {TurnKind.TOOL_CALL, TurnKind.TOOL_RESULT, TurnKind.THINKING, TurnKind.OTHER}
)
_FOLDED_TEXT: Final = 60
WAITS: Final = frozenset({Reason.NOT_YET_INDEXED, Reason.STALE})
"""The reasons of transcripts that the next index run takes in."""


def scale_words(foreign: ForeignStatus | None, ranking: Ranking) -> str:
    """Say that the agent scored otherwise; empty where an index is searched as its agent does."""
    is_same = foreign is not None and foreign.profile == ranking.profile
    return "" if is_same else "Two scales: then the agent's score, now memtui's: compare the ranks"


def minute_words(when: datetime | None) -> str:
    """A time to the minute, UTC; dashes for one that is not known."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}" if when is not None else "----------------"


def listing_lines(listing: ConversationListing, width: int) -> Iterator[str]:
    """A conversation of a list: when, how much and whose; its path and state; what it is about."""
    counts = (listing.turns, "turn", "turns"), (listing.calls, "search", "searches")
    turns, calls = (
        f"? {several}" if number is None else words.count(number, one, several)
        for number, one, several in counts
    )
    facts = (
        minute_words(listing.started or listing.changed),
        ", lasting ".join(filter(None, (size_words(listing.size), length_words(listing)))),
        turns,
        calls,
        # The state says of one without chunks that it is not indexed, and why.
        "" if listing.chunks is None else words.count(listing.chunks, "chunk"),
        listing.agent or listing.kind.value,
        listing.model,
    )
    yield _fitted("  ".join(filter(None, facts)), width)
    yield _fitted(_INDENT + words.ending(listing.path, width - len(_INDENT)), width)
    if listing.title:
        yield _fitted(_INDENT + listing.title, width)
    if listing.state is not Reason.OK:
        detail = listing.detail or words.reason_words(listing.state)
        yield _fitted(f"{_INDENT}! {detail}", width)


def seconds_of(listing: ConversationListing) -> float:
    """From the first to the last turn; -1 when that is not known."""
    if listing.started is None or listing.ended is None:
        return -1.0
    return (listing.ended - listing.started).total_seconds()


def length_words(listing: ConversationListing) -> str:
    """Return the length of a conversation, from first to last turn; empty when not known."""
    seconds = seconds_of(listing)
    if seconds < 0:
        return ""
    return f"{seconds // words.DAY:.0f} d" if seconds >= 2 * words.DAY else words.duration(seconds)


def turn_lines(turn: Turn, *, full: bool, width: int) -> Iterator[str]:
    """A turn: who says it and what; what tools do, folded to one line with its size."""
    number = f"{turn.line:>{_NUMBER}}  "
    when = turn_time(turn.timestamp_ms)
    head = f"{number}{f'{when:%H:%M}' if when is not None else '':<5}  "
    is_whole = turn.kind is TurnKind.MESSAGE or (full and turn.kind in _FOLDED)
    if is_whole:
        label = turn.role.capitalize()
        if turn.kind is TurnKind.THINKING:
            label += ", thinking"
        elif turn.kind is TurnKind.TOOL_CALL:
            label += f" calls {turn.tool}"
        elif turn.kind is TurnKind.TOOL_RESULT:
            label = f"{turn.tool or label} {'fails' if turn.is_error else 'answers'}"
        aside = f"  (not indexed: {words.left_out_words(turn.left_out)})" if turn.left_out else ""
        yield _fitted(f"{head}{label}{aside}", width)
    else:
        yield _fitted(head + _folded(turn), width)
    if is_whole or (turn.kind is TurnKind.COMPACTION and turn.text):
        indent = " " * len(number)
        for line in turn.text.split("\n"):
            yield from words.wrapped(line, width, indent)
        if turn.size > len(turn.text):
            yield f"{indent}… {turn.size - len(turn.text)} more characters: --full"


def _folded(turn: Turn) -> str:
    text = " ".join(turn.text[: 8 * _FOLDED_TEXT].split())
    line = words.WORDS["folded"][turn.kind].format(
        tool=turn.tool or "tool",
        failed=" failed" if turn.is_error else "",
        length=words.count(turn.size, "character"),
        size=size_words(turn.size),
        text=text if len(text) <= _FOLDED_TEXT else f"{text[: _FOLDED_TEXT - 1]}…",
    )
    return line.rstrip()


def source_state(source: TranscriptSource, table: str, is_chosen: bool | None = None) -> str:
    """Say by a table of words that a source is on, off or waits, or is about to be turned."""
    waiting = sum(file.reason in WAITS for file in source.skipped)
    state = "waiting" if waiting else "on"
    if not source.is_indexed:
        state = "left" if source.indexed else "off"
    if is_chosen not in (None, source.is_indexed):
        state = "turned on" if is_chosen else "turned off"
    elif source.for_run in ("other", "agent"):
        state = source.for_run
    counts = map(words.count, (source.found, source.indexed, waiting))
    is_on = words.WORDS["sources"].get(source.for_run, "on" if source.is_indexed else "off")
    own = " of this memtui" * (source.for_run == "run")
    return words.WORDS[table][state].format(*counts, is_on, own)


def source_words(source: TranscriptSource, searches: str) -> Iterator[tuple[str, str]]:
    """Iterate over what is said of a source, and of searches, with labels; not what is skipped."""
    if source.folder:
        yield "folder", source.folder
        yield "searches", searches
    if source.detail:
        yield "index", source.detail
    if source.is_indexed or source.indexed:
        chunks = words.count(source.chunks, "chunk")
        messages = words.count(source.messages, "message")
        of = f"{words.count(source.indexed)} of {words.count(source.found)} indexed"
        yield "holds", f"{chunks}, {messages}; {of}"
    if source.left_out:
        ordered = sorted(source.left_out.items(), key=lambda item: -item[1])
        left = [f"{words.left_out_words(code)} {words.count(number)}" for code, number in ordered]
        total = words.count(sum(source.left_out.values()), "message")
        yield "left out", f"{total}: {', '.join(left)}"
    if source.malformed:
        verb = "is" if source.malformed == 1 else "are"
        yield "malformed", f"{words.count(source.malformed, 'line')} that {verb} no record"


def source_lines(source: TranscriptSource, width: int) -> Iterator[str]:
    """A source of transcripts: whether it is indexed, how much of it, and what is not and why."""
    yield f"{source.name}  {source_state(source, 'source')}"
    searches = source_state(source, "source_searches")
    labels = {"searches": "searches ", "holds": "holds ", "left out": "left out "}
    lines = [f"{labels.get(label, '')}{text}" for label, text in source_words(source, searches)]
    for skipped in source.skipped:
        why = skipped.detail or words.reason_words(skipped.reason)
        label = "waiting" if skipped.reason in WAITS else "skipped"
        lines.append(f"{label} {skipped.path}: {why}")
    for line in lines:
        yield from words.wrapped(line, width, _INDENT)


def replay_lines(replayed: Replayed, width: int) -> Iterator[str]:
    """A search that was asked again: what was asked, what has changed, place by place."""
    call = replayed.call
    title = minute_words(call.asked), call.agent, call.query
    yield _fitted("  ".join(filter(None, title)), width)
    place = f"{call.path}:{call.line}  {call.tool}"
    yield _fitted(_INDENT + words.ending(place, width - len(_INDENT)), width)
    yield _fitted(f"{_INDENT}{replay_verdict(replayed)}", width)
    yield from (_INDENT + line for line in _HEADINGS if replayed.rows)
    for row in sorted(replayed.rows, key=agents_order):
        then, now = ("." if rank is None else rank for rank in (row.rank_then, row.rank_now))
        both = row.score_then, row.score_now
        scores = "".join(f"  {'' if one is None else words.score(one):>6}" for one in both)
        head = f"{_INDENT}{words.WORDS['recall_sign'][row.change]} {then:>4} {now:>4}{scores}  "
        why = f"  {note}" if (note := row_note(replayed, row)) else ""
        lines = f":{row.start_line}" if row.start_line else ""
        lines += f"-{row.end_line}" if row.end_line > row.start_line else ""
        room = max(20, width - len(head) - words.cells_of(why))
        yield _fitted(f"{head}{words.ending(row.path + lines, room)}{why}", width)


def agents_order(row: RecallRow) -> float:
    """Sort the agent's results first, in its order; those that are new stay as they are."""
    return row.rank_then or math.inf


def row_note(replayed: Replayed, row: RecallRow) -> str:
    """Return why a place left the list, or what to know of it; mostly empty for one that stayed."""
    if row.rank_below is not None:
        shown = replayed.limit or sum(one.rank_now is not None for one in replayed.rows)
        end = "the call asked for" if replayed.limit else "your list ends at"
        return f"now rank {row.rank_below}, {end} {shown}"
    if row.why is not None:
        return words.reason_words(row.why)
    return "(this conversation)" if row.path == replayed.call.path else ""


def replay_verdict(replayed: Replayed) -> str:
    """Return the difference of the answer now to the answer then, on one line."""
    call = replayed.call
    if replayed.problem:
        return f"! {replayed.problem}"
    if call.is_elsewhere:
        return words.VERDICT_WORDS["elsewhere"]
    if call.returned is None:
        why = call.problem or "what came back is not recorded"
        return f"{why}; now {words.count(len(replayed.rows), 'result')}"
    if replayed.is_same:
        results = words.count(len(replayed.rows), "result")
        return f"{results}, unchanged" if replayed.rows else "nothing then, nothing now"
    counts = Counter(row.change for row in replayed.rows)
    numbers = ((counts[change], words.WORDS["recall"][change]) for change in RecallChange)
    return ", ".join(f"{number} {word}" for number, word in numbers if number)


def _fitted(line: str, width: int) -> str:
    return words.padded(line, width).rstrip() if words.cells_of(line) > width else line
