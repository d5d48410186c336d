"""The list of conversations: what a filter lets through, in which order, and how rows look."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from memtui.model import Chunk, Drop, Hit, Ranked, Reason
from memtui.model.conversations import ConversationListing, TranscriptKind, TranscriptSource
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_thread, tell
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.sessions.pane import Batches, Pane, aside, error_line
from memtui.tui.widgets.line_view import Fact, Facts
from memtui.tui.widgets.row_list import Row, RowList

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
RELOAD_SECONDS = 0.5
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


class ListPane(Pane):
    """Conversations, newest first or in another order, and what there is to know of one."""

    rows = query_one("#conversations", RowList)

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(glyphs, id="sessions-list")
        self.listings: dict[str, ConversationListing] = {}
        """Every conversation by its path."""
        self.sort_name = SORTS[0]
        self.is_loaded = False
        """Whether the transcripts were looked for."""
        self.look_seconds = 0.0
        """How long the last look at the transcripts took."""
        self._sources: tuple[TranscriptSource, ...] = ()
        self._error = self._filter = ""
        self._is_counting = self._is_reloading_soon = self._is_behind = False

    @property
    def chosen_path(self) -> str:
        """The path of the chosen conversation; empty without one."""
        return self.rows.chosen_id or ""

    def compose(self) -> ComposeResult:
        """The list, and the facts of the chosen conversation."""
        yield RowList(id="conversations", marker=self.glyphs.marker, opens="read")
        yield Facts(id="conversation-facts", label_width=7)

    # --- finding --------------------------------------------------------------------------------

    def load(self) -> None:
        """Look for conversations."""
        engine = self.engine
        if engine is None:
            return
        began = time.monotonic()
        in_thread(
            self,
            lambda cancelled: (engine.conversations.listings(), engine.conversations.sources()),
            lambda answer: self._take(*answer, seconds=time.monotonic() - began),
            self._not_found,
            description="list the conversations",
            group="conversations",
        )

    def content_changed(self) -> None:
        """Follow a changed index: bursts become one look, behind another screen none."""
        self._is_behind = True
        self.catch_up()

    def catch_up(self) -> None:
        """Look again, some time after the last look, if something changed since."""
        is_due = self._is_behind and not self._is_reloading_soon
        if is_due and self.is_mounted and self.screen.is_current:
            self._is_reloading_soon = True
            # A look at thousands of transcripts takes its time from whoever indexes them.
            self.set_timer(max(RELOAD_SECONDS, 5 * self.look_seconds), self._reload)

    def _reload(self) -> None:
        self._is_reloading_soon = self._is_behind = False
        self.load()
        self.sessions.asked.replay_changed()

    def _not_found(self, error: str) -> None:
        """Say why there is no list; what was found before stays."""
        self.is_loaded, self._error = True, error
        if self.listings:
            tell(self.sessions, f"cannot list the conversations: {error}", error=True)
        else:
            self.show()

    def _take(
        self,
        listings: Sequence[ConversationListing],
        sources: tuple[TranscriptSource, ...],
        *,
        seconds: float,
    ) -> None:
        """Show what there is, and go on counting what takes reading."""
        self.is_loaded, self._error, self.look_seconds = True, "", seconds
        self._sources = sources
        self.listings = {each.path: each for each in listings}
        uncounted = [each for each in listings if each.turns is None]
        self._is_counting = bool(uncounted)
        self.show()
        self.sessions.reader.follow(self.listings.get(self.sessions.reader.path))
        engine = self.engine
        if not uncounted or engine is None:
            return
        counted: Batches[ConversationListing] = Batches(
            lambda batch: self.call_later(self.take_counts, batch)
        )

        def count(cancelled: Callable[[], bool]) -> Sequence[ConversationListing]:
            engine.conversations.count(
                uncounted, lambda listing: counted.add((listing,)), cancelled=cancelled
            )
            return counted.rest()

        def count_ended(listings: Sequence[ConversationListing]) -> None:
            self._is_counting = False
            self.take_counts(listings)

        in_thread(
            self, count, count_ended,
            description="count the turns of the conversations", group="count",
        )  # fmt: skip

    def take_counts(self, listings: Sequence[ConversationListing]) -> None:
        """Fill in what was counted, or what reading a conversation told of it."""
        self.listings.update({one.path: one for one in listings if one.path in self.listings})
        self.show()

    # --- drawing --------------------------------------------------------------------------------

    def show(self, text: str | None = None) -> None:
        """Draw the list, the chosen row as it was; `text` is another filter."""
        self._filter = self._filter if text is None else text
        widget, sessions = self.rows, self.sessions
        matches = matches_by_path(self.ranked)
        fitting, problems = filtered(tuple(self.listings.values()), self._filter)
        shown = in_order(fitting, self.sort_name, matches)
        if shown:
            lines = 1 if sessions.is_small else 2
            rows = [
                listing_row(each, matches.get(each.path, Matches()), lines=lines) for each in shown
            ]
            widget.set_rows(rows, keep=widget.chosen_id or sessions.reader.path)
        else:
            widget.show_message(self._empty_lines())
        self._show_numbers(len(shown), problems)
        self.show_facts()

    def _show_numbers(self, shown: int, problems: Sequence[str]) -> None:
        """Say how many conversations there are, are shown, were counted and are not indexed."""
        total = len(self.listings)
        number = fmt.count(total) if shown == total else f"{fmt.count(shown)}/{fmt.count(total)}"
        self.rows.border_title = Content(f"Conversations  {number}")
        done = sum(1 for each in self.listings.values() if each.turns is not None)
        counting = f"counting {fmt.count(done)}/{fmt.count(total)}  " if self._is_counting else ""
        self.rows.border_subtitle = Content(f"{counting}{self.sort_name}")
        left = sum(1 for each in self.listings.values() if each.chunks is None)
        note = f"{fmt.count(left)} not indexed  O sources" if left else ""
        note, style = (problems[0], "$state-warn") if problems else (note, fmt.MUTED)
        count = self.sessions.query_one("#sessions-count", Static)
        count.update(Content.styled(safe_line(note), style), layout=False)

    def _empty_lines(self) -> list[Content]:
        """Say why there is nothing to see: an error, a filter, or no transcripts."""
        if self._error:
            return [error_line(self._error, self.glyphs)]
        if not self.is_loaded:
            return [aside(f"looking for conversations{self.glyphs.ellipsis}")]
        if self.listings:
            return [
                Content(f"No conversation has {safe_line(self._filter)!r}."),
                aside("esc  leaves the filter, and then clears it"),
            ]
        places = [
            (source.name, fmt.home_relative(source.folder) if source.folder else "no such folder")
            for source in self._sources
        ]
        return [
            Content("No conversations found."),
            Content(""),
            *(aside(f"{safe_line(name)}: {place}") for name, place in places),
            Content(""),
            Content("O  chooses which transcripts are indexed"),
        ]

    def sort(self) -> None:
        """Show the list in the next order."""
        self.sort_name = SORTS[(SORTS.index(self.sort_name) + 1) % len(SORTS)]
        self.show()

    def move(self, step: int) -> None:
        """Move the choice while the filter is typed."""
        if self.sessions.filter_input.has_focus:
            self.rows.action_move(step)

    @on(RowList.Chosen)
    def show_facts(self) -> None:
        """Show what there is to know of the chosen conversation."""
        listing = self.listings.get(self.chosen_path)
        matches = matches_by_path(self.ranked).get(self.chosen_path, Matches())
        facts = listing_facts(listing, matches) if listing is not None else ()
        self.query_one("#conversation-facts", Facts).show_facts(facts)


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
    from memtui.retrieval.query import FileFilter

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
    return (listing.ended - listing.started).total_seconds()


def length(listing: ConversationListing) -> str:
    """Say how long a conversation is, from the first to the last turn; empty when not known."""
    seconds = _seconds(listing)
    if seconds < 0:
        return ""
    return f"{seconds // fmt.DAY:.0f} d" if seconds >= 2 * fmt.DAY else fmt.duration(seconds)


def began(listing: ConversationListing) -> datetime:
    """Return when it was started; when its file changed last where that is not known."""
    return listing.started or listing.changed


def latest(listing: ConversationListing) -> datetime:
    """Return when something was said last; when its file changed where that is not known."""
    return listing.ended or listing.changed


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
        return when.astimezone()
    except (OverflowError, ValueError, OSError):
        # Of the first and the last day of the calendar there is no such time everywhere.
        return when
