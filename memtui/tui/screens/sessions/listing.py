"""The list of conversations: what a filter lets through, in which order, and how rows look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from textual.content import Content

from memtui.model import Chunk, Drop, Hit, Ranked, Reason
from memtui.model.conversations import ConversationListing, TranscriptKind, TranscriptSource
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.sessions.pane import aside, error_line
from memtui.tui.widgets.line_view import Fact
from memtui.tui.widgets.row_list import Row

if TYPE_CHECKING:
    from memtui.retrieval.query import Filters

SORTS = ("newest", "longest", "most results", "most searches")
PROGRAMS: Mapping[TranscriptKind, str] = {
    TranscriptKind.OPENCLAW: "OpenClaw",
    TranscriptKind.CLAUDE_CODE: "Claude Code",
    TranscriptKind.CODEX: "Codex",
}
_BADGES: Mapping[Reason, str] = {
    Reason.OK: "",
    Reason.DISABLED: "not indexed",
    Reason.NOT_YET_INDEXED: "waits for its turn",
    Reason.MALFORMED_LINES: "partly indexed",
    Reason.LINE_TOO_LONG: "partly indexed",
    Reason.GENERATED_RUN: "generated run",
    Reason.ARCHIVE_NOT_READ: "archive",
    Reason.STALE: "changed since it was indexed",
}
_SOURCE = "sessions"
"""The name that the index gives to every transcript."""
_UNREADABLE = frozenset({Reason.NOT_A_TRANSCRIPT, Reason.UNREADABLE, Reason.VANISHED})
"""Nobody will ever count the turns of such a one."""
_AGENT_CELLS = 18
_SHORT = 44
"""Below so many cells a row says only what sets a conversation apart."""
_LONG = 70
"""From so many cells on a row says everything, and its title still has room."""


class Matches(NamedTuple):
    """How much of an answer lies in one file."""

    results: int = 0
    """Chunks in the list of results."""
    others: int = 0
    """Candidates that the list does not show; they need not hold any word of the query."""

    @property
    def words(self) -> str:
        """`2 results  +3 not shown`; empty without either."""
        results = fmt.counted(self.results, "result") if self.results else ""
        others = f"+{fmt.count(self.others)} not shown" if self.others else ""
        return "  ".join(filter(None, (results, others)))


def matches_by_path(ranked: Ranked | None) -> Mapping[str, Matches]:
    """Return how many results, and how many other candidates, of an answer lie in each file."""
    if ranked is None:
        return {}
    candidates = Counter(chunk.path for chunk in ranked.pool.chunks.values())
    results = Counter(hit.chunk.path for hit in ranked.hits)
    return {
        path: Matches(results[path], max(0, candidates[path] - results[path]))
        for path in candidates | results
    }


def best_chunk(ranked: Ranked | None, path: str) -> Chunk | None:
    """Return the best candidate of an answer in a file; `None` where there is none."""
    if ranked is None:
        return None
    scored: tuple[Hit | Drop, ...] = (*ranked.hits, *ranked.drops)
    return next((each.chunk for each in scored if each.chunk.path == path), None)


class ConversationList:
    """The conversations that were found, how many of them were counted, and their order."""

    def __init__(self) -> None:
        self.listings: dict[str, ConversationListing] = {}
        """Every conversation by its path."""
        self.sources: tuple[TranscriptSource, ...] = ()
        self.sort = SORTS[0]
        self.error = ""
        self.is_loaded = False
        """Whether the transcripts were looked for."""
        self.is_counting = False

    def take(
        self, listings: Sequence[ConversationListing], sources: Sequence[TranscriptSource]
    ) -> list[ConversationListing]:
        """Replace what was found before; return the conversations that are still to be counted."""
        known = self.listings
        self.listings = {each.path: _with_counts(each, known.get(each.path)) for each in listings}
        self.sources = tuple(sources)
        uncounted = [each for each in self.listings.values() if each.turns is None]
        self.is_counting = self.is_counting or bool(uncounted)
        return uncounted

    def take_counts(self, listings: Sequence[ConversationListing], *, is_all: bool) -> None:
        """Fill in what was counted."""
        self.listings.update({one.path: one for one in listings if one.path in self.listings})
        self.is_counting = not is_all

    def sort_by_next(self) -> None:
        """Choose the next order."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]

    def shown(
        self, text: str, matches: Mapping[str, Matches]
    ) -> tuple[list[ConversationListing], tuple[str, ...]]:
        """Return what a filter lets through, in order, and what of it could not be understood."""
        fitting, problems = filtered(tuple(self.listings.values()), text)
        return in_order(fitting, self.sort, matches), problems

    def title(self, shown: int) -> str:
        """Say how many conversations there are, and how many of them are shown."""
        total = len(self.listings)
        number = fmt.count(total) if shown == total else f"{fmt.count(shown)}/{fmt.count(total)}"
        return f"Conversations  {number}"

    def subtitle(self) -> str:
        """Name the order; while turns are counted, say how far that is."""
        done = sum(1 for each in self.listings.values() if each.turns is not None)
        counting = f"counting {fmt.count(done)}/{fmt.count(len(self.listings))}  "
        return f"{counting if self.is_counting else ''}{self.sort}"

    def note(self) -> str:
        """Say how many conversations are not indexed; empty when all are."""
        count = sum(1 for each in self.listings.values() if each.chunks is None)
        return f"{fmt.count(count)} not indexed  O sources" if count else ""

    def empty_lines(self, text: str, glyphs: Glyphs) -> list[Content]:
        """Say why there is nothing to see: an error, a filter, or no transcripts."""
        if self.error:
            return [error_line(self.error, glyphs)]
        if not self.is_loaded:
            return [aside(f"looking for conversations{glyphs.ellipsis}")]
        if self.listings:
            return [
                Content(f"No conversation has {safe_line(text)!r}."),
                aside("esc  leaves the filter, and then clears it"),
            ]
        places = [
            (source.name, fmt.home_relative(source.folder) if source.folder else "no such folder")
            for source in self.sources
        ]
        return [
            Content("No conversations found."),
            Content(""),
            *(aside(f"{safe_line(name)}: {place}") for name, place in places),
            Content(""),
            Content("O  chooses which transcripts are indexed"),
        ]


def _with_counts(
    listing: ConversationListing, before: ConversationListing | None
) -> ConversationListing:
    """Keep what was counted before until it is counted anew, unless the file changed."""
    if before is None or listing.turns is not None:
        return listing
    if (before.size, before.changed) != (listing.size, listing.changed):
        return listing
    return replace(
        listing,
        title=listing.title or before.title,
        model=listing.model or before.model,
        started=listing.started or before.started,
        ended=listing.ended or before.ended,
        turns=before.turns,
        calls=before.calls,
        malformed=before.malformed,
    )


def filtered(
    listings: Sequence[ConversationListing], text: str
) -> tuple[list[ConversationListing], tuple[str, ...]]:
    """Return what a filter lets through, and what of it could not be understood."""
    if not text.strip():
        return list(listings), ()
    # Imported late: an empty filter needs none of it.
    from memtui.retrieval.query import parse_query, word_pieces

    query = parse_query(text, typing=True)
    words = [text[start:end].strip('"').casefold() for start, end in word_pieces(text)]
    fits = _filter(query.filters)
    return [
        listing
        for listing in listings
        if fits(listing) and all(word in _searched_text(listing) for word in words)
    ], query.problems


def _searched_text(listing: ConversationListing) -> str:
    parts = (listing.title, listing.agent, listing.model, PROGRAMS[listing.kind], listing.path)
    return "\n".join((*parts, badge(listing))).casefold()


def _filter(filters: Filters) -> Callable[[ConversationListing], bool]:
    """Return whether a conversation is of the files, sources and days asked for."""
    from memtui.retrieval.filters import FileFilter

    sources = {source.casefold() for source in filters.sources}
    of_files = FileFilter(replace(filters, sources=()))

    def fits(listing: ConversationListing) -> bool:
        day = local(began(listing)).date()
        own = {_SOURCE, listing.kind.value, listing.agent.casefold()}
        return (not sources or bool(sources & own)) and of_files.fits(
            path=listing.path, source=_SOURCE, day=day, mtime_ns=0
        )

    return fits


def in_order(
    listings: Sequence[ConversationListing], sort: str, matches: Mapping[str, Matches]
) -> list[ConversationListing]:
    """Return the conversations in one of `SORTS`; those that are equal stay newest first.

    The newest is the one in which something was said last.
    """
    newest = sorted(listings, key=latest, reverse=True)
    match sort:
        case "longest":
            return sorted(newest, key=lambda each: -_seconds(each))
        case "most results":
            return sorted(newest, key=lambda each: matches.get(each.path, Matches()), reverse=True)
        case "most searches":
            return sorted(newest, key=lambda each: -(each.calls or 0))
        case _:
            return newest


# --- rows -----------------------------------------------------------------------------------------


def listing_row(listing: ConversationListing, matches: Matches, *, lines: int) -> Row:
    """Draw a conversation on one line, or on two: when and what about, then the numbers."""

    def draw(width: int) -> Content:
        first = _first_line(listing, matches, width)
        return first if lines < 2 else first + "\n" + _second_line(listing, width)

    return Row(listing.path, draw, lines)


def _first_line(listing: ConversationListing, matches: Matches, width: int) -> Content:
    when = days(listing, width >= _LONG, is_brief=width < _SHORT)
    is_whole = width >= _LONG or not matches.results
    words = matches.words if is_whole else Matches(matches.results).words
    answer = Content.styled(words, "$mark" if matches.results else fmt.MUTED)
    room = width - len(when) - 2 - (answer.cell_length + 2 if words else 0)
    title = safe_line(listing.title) or "(nothing said)"
    named = Content.styled(title, "" if listing.title else fmt.MUTED)
    line = Content.assemble((when, fmt.MUTED), "  ", named.truncate(max(1, room), ellipsis=True))
    if words:
        line += " " * max(2, width - line.cell_length - answer.cell_length) + answer
    return fmt.fit(line, width)


def _second_line(listing: ConversationListing, width: int) -> Content:
    turns = "" if listing.turns is None else fmt.counted(listing.turns, "turn")
    agent = listing.agent
    if len(agent) > _AGENT_CELLS:
        # Of a long name the end, which tells projects apart.
        agent = f"…{agent[1 - _AGENT_CELLS :]}"
    parts = [
        Content.styled(safe_line(part), style)
        for part, style in (
            (badge(listing), "$state-warn"),
            (agent or PROGRAMS[listing.kind], ""),
            (turns or ("" if listing.state in _UNREADABLE else "counting"), fmt.MUTED),
            (f"{fmt.count(listing.calls)} asked" if listing.calls else "", ""),
            (length(listing), fmt.MUTED),
            (fmt.size(listing.size), fmt.MUTED),
            (listing.model, fmt.MUTED),
        )
        if part
    ]
    return fmt.fit("  " + Content("  ").join(parts), width)


def listing_facts(listing: ConversationListing, matches: Matches) -> list[Fact]:
    """Return what there is to know of a conversation, the most important first."""
    counted = [] if listing.turns is None else [fmt.counted(listing.turns, "turn")]
    if listing.calls is not None:
        counted.append(fmt.counted(listing.calls, "search", "searches"))
    counted += [length(listing), fmt.size(listing.size)]
    program = f"{PROGRAMS[listing.kind]}  {listing.agent}  {listing.model}"
    place = fmt.home_relative(listing.place)
    place += f"  session {listing.session}" if listing.session else ""
    facts = [
        ("index", Content.styled(index_state(listing), "$state-warn" if badge(listing) else "")),
        ("holds", Content(safe_line("  ".join(filter(None, counted))))),
        ("of", Content(safe_line(program))),
        ("file", Content(safe_line(place))),
    ]
    results = fmt.counted(matches.results, "result") if matches.results else ""
    others = fmt.counted(matches.others, "candidate") + " that the list of results leaves out"
    words = ", ".join(filter(None, (results, others if matches.others else "")))
    if words:
        style = "$mark" if matches.results else fmt.MUTED
        facts.insert(1, ("found", Content.styled(words, style)))
    return facts


# --- words ----------------------------------------------------------------------------------------


def badge(listing: ConversationListing) -> str:
    """Say how much of a conversation the index has, in a word or two; empty when it is all."""
    if listing.state is Reason.OK and listing.chunks is None:
        return "not indexed"
    return _BADGES.get(listing.state, fmt.reason_words(listing.state))


def index_state(listing: ConversationListing) -> str:
    """Say how much of a conversation the index has, in one line."""
    parts = [badge(listing) or "indexed"]
    if listing.chunks:
        parts.append(fmt.counted(listing.chunks, "chunk"))
    if listing.malformed:
        parts.append(f"{fmt.counted(listing.malformed, 'line')} malformed")
    if listing.detail:
        parts.append(safe_line(listing.detail))
    elif listing.state not in (Reason.OK, Reason.MALFORMED_LINES):
        parts.append(fmt.reason_words(listing.state))
    return ", ".join(dict.fromkeys(parts))


def _seconds(listing: ConversationListing) -> float:
    """Return the seconds from the first to the last turn; -1 when that is not known."""
    if listing.started is None or listing.ended is None:
        return -1.0
    ended, started = _aware(listing.ended), _aware(listing.started)
    return (ended.astimezone(UTC) - started.astimezone(UTC)).total_seconds()


def length(listing: ConversationListing) -> str:
    """Say how long a conversation is, from the first to the last turn; empty when not known."""
    seconds = _seconds(listing)
    if seconds < 0:
        return ""
    return f"{seconds // fmt.DAY:.0f} d" if seconds >= 2 * fmt.DAY else fmt.duration(seconds)


def began(listing: ConversationListing) -> datetime:
    """Return when it was started; when its file changed last where that is not known."""
    return _aware(listing.started or listing.changed)


def latest(listing: ConversationListing) -> datetime:
    """Return when something was said last; when its file changed where that is not known."""
    return _aware(listing.ended or listing.changed)


def days(listing: ConversationListing, is_long: bool = True, *, is_brief: bool = False) -> str:
    """Say when it was started, and the day of the last turn where that is another one.

    Long `2026-02-10 09:12 to 02-13`, else `2026-02-10 to 02-13`, brief `02-10 to 02-13`.
    """
    first, last = began(listing), latest(listing)
    when, until = day_and_time(first), day_and_time(last)
    start = when[5:10] if is_brief else when
    if last <= first or until[:10] == when[:10]:
        return start
    if not (is_long or is_brief):
        start = when[:10]
    is_same_year = is_brief or until[:4] == when[:4]
    return f"{start} to {until[5:10] if is_same_year else until[:10]}"


def day_and_time(when: datetime) -> str:
    """Write `2026-02-10 09:12`, in the time of this machine."""
    return f"{local(when):%Y-%m-%d %H:%M}"


def local(when: datetime) -> datetime:
    """Return a time in this machine's zone; as it is where that is beyond the calendar."""
    try:
        return _aware(when).astimezone()
    except (OverflowError, ValueError, OSError):
        # Of the first and the last day of the calendar there is no such time everywhere.
        return when


def _aware(when: datetime) -> datetime:
    return when.astimezone() if when.tzinfo is None else when
