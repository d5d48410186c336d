"""What the agent asked its memory: how a search and what became of its results are put on rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from textual.content import Content

from memtui.model import citation
from memtui.model.conversations import (
    MemoryCall,
    RecallChange,
    RecallRow,
    Replayed,
    TranscriptKind,
    TranscriptSource,
)
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.sessions import words
from memtui.tui.widgets.row_list import Row

_STYLES = {
    RecallChange.SAME: fmt.MUTED,
    RecallChange.MOVED: "",
    RecallChange.ENTERED: "$state-ok",
    RecallChange.LEFT: "$state-warn",
}
QUERY_SHOWN = 500
_CHANGE = 10
_RANKS = 10


def call_row(key: str, call: MemoryCall, replayed: Replayed | None, glyphs: Glyphs) -> Row:
    """A search on two lines: what was asked, then when, by which tool, and what became of it."""

    def draw(width: int) -> Content:
        asked = words.day_and_time(call.asked) if call.asked is not None else f"line {call.line}"
        outcome, style = outcome_words(call, replayed, glyphs)
        parts = [(outcome, style), (asked, fmt.MUTED), (tool_name(call), fmt.MUTED)]
        if replayed is not None and replayed.problem:
            # It is as long as it likes, and the same for most of the list.
            parts = [*parts[1:], parts[0]]
        second = Content("  ").join(Content.styled(text, style) for text, style in parts if text)
        query = fmt.fit(Content(safe_line(call.query) or "(nothing)"), width)
        return Content("\n").join((query, fmt.fit("  " + second, width)))

    return Row(key, draw, 2)


def tool_name(call: MemoryCall) -> str:
    """The tool, without the server that it is of where that is part of its name."""
    return safe_line(call.tool)


def fact_query(call: MemoryCall) -> Content:
    """The whole query with what else it was asked with."""
    query = safe_line(call.query)
    shown = query if len(query) <= QUERY_SHOWN else query[:QUERY_SHOWN] + "…"
    others = "  ".join(f"{name} {value}" for name, value in call.arguments.items())
    told = "  ".join(part for part in (tool_name(call), safe_line(others)) if part)
    return Content.assemble((shown, "bold"), (f"  {told}", fmt.MUTED))


def outcome_words(call: MemoryCall, replayed: Replayed | None, glyphs: Glyphs) -> tuple[str, str]:
    """What became of the results of a search, and the style of it."""
    if replayed is None:
        return then_words(call), fmt.MUTED
    if replayed.problem:
        return safe_line(replayed.problem), "$state-warn"
    if call.returned is None:
        return f"{then_words(call)}, {fmt.count(_now(replayed.rows))} now", fmt.MUTED
    if replayed.is_same:
        return f"{glyphs.same} the same {fmt.count(len(call.returned))}", "$state-ok"
    counts = Counter(row.change for row in replayed.rows)
    parts = [
        f"{fmt.count(counts[change])} {change.value}"
        for change in (RecallChange.MOVED, RecallChange.ENTERED, RecallChange.LEFT)
        if counts[change]
    ]
    return ", ".join(parts), "$state-warn"


def then_words(call: MemoryCall) -> str:
    """How many results came back when it was asked."""
    if call.returned is None:
        return "results not recorded"
    return f"{fmt.counted(len(call.returned), 'result')} then"


def _now(rows: Iterable[RecallRow]) -> int:
    return sum(1 for row in rows if row.rank_now is not None)


def is_comparable(replayed: Replayed) -> bool:
    """Whether it is known what came back then and what comes back now."""
    return replayed.call.returned is not None and not replayed.problem


def same_words(replays: Iterable[Replayed], total: int) -> str:
    """How many searches come back the same; empty while nothing is compared."""
    known = [each for each in replays if is_comparable(each)]
    if not known:
        return ""
    same = sum(1 for each in known if each.is_same)
    more = "" if len(known) >= total else f" of {fmt.count(total)} searches so far"
    return f"{fmt.count(same)} of {fmt.count(len(known))} come back the same{more}"


def silent_kinds(sources: Sequence[TranscriptSource], kind: TranscriptKind | None) -> str:
    """The kinds of transcripts that do not say what tools were asked, in one line."""
    silent = dict.fromkeys(
        words.PROGRAMS[source.kind]
        for source in sources
        if source.kind is not None
        and not source.records_calls
        and (kind is None or source.kind is kind)
        and (source.found or kind is not None)
    )
    names = ", ".join(silent)
    return f"{names}: its transcripts do not record what tools were asked" if names else ""


# --- then and now -------------------------------------------------------------------------------


def comparison_rows(replayed: Replayed, glyphs: Glyphs) -> list[Row]:
    """Two lines for each place: its change, ranks and name, then its scores and why it left."""
    is_known = replayed.call.returned is not None
    return [_comparison_row(str(at), row, glyphs, is_known) for at, row in enumerate(replayed.rows)]


def _comparison_row(key: str, row: RecallRow, glyphs: Glyphs, is_known: bool) -> Row:
    """`is_known`: what came back then was recorded; without that nothing is said to be new."""

    def draw(width: int) -> Content:
        then = fmt.rank(row.rank_then) if is_known else "?"
        ranks = f"{then} {glyphs.arrow} {fmt.rank(row.rank_now)}"
        change = change_words(row, glyphs) if is_known else "now"
        first = Content.assemble(
            (f"{change:<{_CHANGE}}", _STYLES[row.change] if is_known else fmt.MUTED),
            f"{ranks:<{_RANKS}}",
            safe_line(_where(row)),
        )
        second = Content.assemble(
            (" " * _CHANGE + _scores(row, glyphs), fmt.MUTED),
            (f"  {fmt.reason_words(row.why)}" if row.why is not None else "", "$state-warn"),
        )
        return Content("\n").join((fmt.fit(first, width), fmt.fit(second, width)))

    return Row(key, draw, 2)


def change_words(row: RecallRow, glyphs: Glyphs) -> str:
    """What became of a place, in a word with its sign."""
    if row.change is RecallChange.SAME:
        return f"{glyphs.same} same"
    if row.change is RecallChange.ENTERED:
        return f"{glyphs.new} entered"
    if row.change is RecallChange.LEFT:
        return f"{glyphs.skipped} left"
    gained = (row.rank_then or 0) - (row.rank_now or 0)
    return f"{glyphs.up if gained > 0 else glyphs.down}{abs(gained)} moved"


def _scores(row: RecallRow, glyphs: Glyphs) -> str:
    then = fmt.NOTHING if row.score_then is None else fmt.score(row.score_then)
    now = fmt.NOTHING if row.score_now is None else fmt.score(row.score_now)
    return f"{then} {glyphs.arrow} {now}"


def _where(row: RecallRow) -> str:
    return citation(row.path, row.start_line, row.end_line) if row.start_line else row.path
