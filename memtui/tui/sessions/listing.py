"""The list of conversations: what a filter lets through, in which order, and how a row looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from memtui.model import Chunk, Drop, Hit, Ranked, Reason
from memtui.model.conversations import ConversationListing
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.sessions import words
from memtui.tui.widgets.row_list import Row

if TYPE_CHECKING:
    from memtui.retrieval.query import Filters

SORTS = ("newest", "longest", "most results", "most searches")
SOURCE = "sessions"
"""The name that the index gives to every transcript."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_UNREADABLE = frozenset({Reason.NOT_A_TRANSCRIPT, Reason.UNREADABLE, Reason.VANISHED})
"""Nobody will ever count the turns of such a one."""
AGENT_SHOWN = 18
_SHORT = 44
"""Below so many cells a row says only what sets a conversation apart."""
_LONG = 70
"""From so many cells on a row says everything, and its title still has room."""


class Found(NamedTuple):
    """How much of an answer lies in one file."""

    results: int = 0
    """Chunks in the list of results."""
    others: int = 0
    """Candidates that the list does not show; they need not hold any word of the query."""

    @property
    def told(self) -> str:
        """`2 results  +3 not shown`; empty without either."""
        results = fmt.counted(self.results, "result") if self.results else ""
        others = f"+{fmt.count(self.others)} not shown" if self.others else ""
        return "  ".join(filter(None, (results, others)))


NOTHING = Found()


def found_of(ranked: Ranked | None) -> Mapping[str, Found]:
    """How many results, and how many other candidates, of an answer lie in each file."""
    if ranked is None:
        return {}
    candidates = Counter(chunk.path for chunk in ranked.pool.chunks.values())
    results = Counter(hit.chunk.path for hit in ranked.hits)
    return {
        path: Found(results[path], max(0, candidates[path] - results[path]))
        for path in candidates | results
    }


def best_chunk(ranked: Ranked | None, path: str) -> Chunk | None:
    """The best candidate of an answer in a file; `None` where there is none."""
    if ranked is None:
        return None
    scored: tuple[Hit | Drop, ...] = (*ranked.hits, *ranked.drops)
    return next((each.chunk for each in scored if each.chunk.path == path), None)


def filtered(
    listings: Sequence[ConversationListing], text: str
) -> tuple[list[ConversationListing], tuple[str, ...]]:
    """The conversations that a filter lets through, and what of it could not be understood."""
    if not text.strip():
        return list(listings), ()
    # Imported late: an empty filter needs none of it.
    from memtui.retrieval.query import parse_query, word_pieces

    query = parse_query(text, typing=True)
    spans = word_pieces(text)
    wanted = [text[start:end].strip('"').casefold() for start, end in spans]
    fits = _filter(query.filters)
    return [
        listing
        for listing in listings
        if fits(listing) and all(word in _words_of(listing) for word in wanted)
    ], query.problems


def _words_of(listing: ConversationListing) -> str:
    program = words.PROGRAMS[listing.kind]
    badge = words.badge(listing)
    said = (listing.title, listing.agent, listing.model, program, listing.path, badge)
    return "\n".join(said).casefold()


def _filter(filters: Filters) -> Callable[[ConversationListing], bool]:
    """Whether a conversation is of the wanted files, sources and days."""
    from memtui.retrieval.filters import FileFilter

    sources = {source.casefold() for source in filters.sources}
    of_files = FileFilter(replace(filters, sources=()))

    def fits(listing: ConversationListing) -> bool:
        day = words.local(words.began(listing)).date()
        own = {SOURCE, listing.kind.value, listing.agent.casefold()}
        return (not sources or bool(sources & own)) and of_files.fits(
            path=listing.path, source=SOURCE, day=day, mtime_ns=0
        )

    return fits


def in_order(
    listings: Sequence[ConversationListing], sort: str, found: Mapping[str, Found]
) -> list[ConversationListing]:
    """The conversations in one of `SORTS`; those that are equal stay newest first.

    The newest is the one in which something was said last.
    """
    newest = sorted(listings, key=words.latest, reverse=True)
    match sort:
        case "longest":
            return sorted(newest, key=lambda each: -_seconds(each))
        case "most results":
            return sorted(newest, key=lambda each: found.get(each.path, NOTHING), reverse=True)
        case "most searches":
            return sorted(newest, key=lambda each: -(each.calls or 0))
        case _:
            return newest


def _seconds(listing: ConversationListing) -> float:
    if listing.started is None or listing.ended is None:
        return -1.0
    begun = words.began(listing)
    return (listing.ended.astimezone(UTC) - begun.astimezone(UTC)).total_seconds()


# --- rows ---------------------------------------------------------------------------------------


def listing_row(listing: ConversationListing, found: Found, *, lines: int) -> Row:
    """A conversation on one line, or on two: when and what about, then the numbers."""

    def draw(width: int) -> Content:
        first = _first_line(listing, found, width)
        return first if lines < 2 else first + "\n" + _second_line(listing, width)

    return Row(listing.path, draw, lines)


def _first_line(listing: ConversationListing, found: Found, width: int) -> Content:
    when = words.days(listing, width >= _LONG, is_brief=width < _SHORT)
    told = found.told if width >= _LONG or not found.results else Found(found.results).told
    style = "$mark" if found.results else fmt.MUTED
    answer = Content.styled(told, style) if told else None
    room = width - len(when) - 2 - (answer.cell_length + 2 if answer else 0)
    title = safe_line(listing.title) or "(nothing said)"
    style = "" if listing.title else fmt.MUTED
    named = Content.styled(title, style).truncate(max(1, room), ellipsis=True)
    line = Content.assemble((when, fmt.MUTED), "  ", named)
    if answer is None:
        return fmt.fit(line, width)
    gap = max(2, width - line.cell_length - answer.cell_length)
    return fmt.fit(line + " " * gap + answer, width)


def _second_line(listing: ConversationListing, width: int) -> Content:
    turns = "" if listing.turns is None else fmt.counted(listing.turns, "turn")
    asked = f"{fmt.count(listing.calls)} asked" if listing.calls else ""
    badge = words.badge(listing)
    parts = [
        Content.styled(safe_line(part), style)
        for part, style in (
            (badge, "$state-warn"),
            (_brief(listing.agent) or words.PROGRAMS[listing.kind], ""),
            (turns or ("" if listing.state in _UNREADABLE else "counting"), fmt.MUTED),
            (asked, ""),
            (words.length(listing), fmt.MUTED),
            (fmt.size(listing.size), fmt.MUTED),
            (listing.model, fmt.MUTED),
        )
        if part
    ]
    return fmt.fit("  " + Content("  ").join(parts), width)


def _brief(agent: str) -> str:
    """An agent or project; of a long name the end, which tells projects apart."""
    return agent if len(agent) <= AGENT_SHOWN else f"…{agent[1 - AGENT_SHOWN :]}"


def listing_facts(listing: ConversationListing, found: Found) -> list[tuple[str, Content]]:
    """What there is to know of a conversation, the most important first."""
    style = "$state-warn" if words.badge(listing) else ""
    counted = [] if listing.turns is None else [fmt.counted(listing.turns, "turn")]
    if listing.calls is not None:
        counted.append(fmt.counted(listing.calls, "search", "searches"))
    counted += [words.length(listing), fmt.size(listing.size)]
    whose = f"{words.PROGRAMS[listing.kind]}  {listing.agent}  {listing.model}"
    place = fmt.home_relative(listing.place)
    place += f"  session {listing.session}" if listing.session else ""
    facts = [
        ("index", Content.styled(words.standing(listing), style)),
        ("holds", Content(safe_line("  ".join(part for part in counted if part)))),
        ("of", Content(safe_line(whose))),
        ("file", Content(safe_line(place))),
    ]
    if found.told:
        style = "$mark" if found.results else fmt.MUTED
        facts.insert(1, ("found", Content.styled(_in_answer(found), style)))
    return facts


def _in_answer(found: Found) -> str:
    others = fmt.counted(found.others, "candidate")
    not_shown = f"{others} that the list of results leaves out" if found.others else ""
    results = fmt.counted(found.results, "result") if found.results else ""
    return ", ".join(filter(None, (results, not_shown)))
