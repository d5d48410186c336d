"""The list of conversations: what a filter lets through, in which order, and how rows look."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from msgspec.structs import replace
from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget

from memtui.engine import Engine
from memtui.model import CONVERSATIONS, Ranked, Reason
from memtui.model.conversations import ConversationListing, TranscriptSource
from memtui.report.conversations import length_words, seconds_of
from memtui.report.words import WORDS, ending
from memtui.retrieval.query import parse_query, word_pieces
from memtui.text.redact import redact_path
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import cancellation, in_background, tell
from memtui.tui.bindings import next_of
from memtui.tui.place_actions import app_of
from memtui.tui.present import error_line
from memtui.tui.screens.common import Timers
from memtui.tui.widgets.lists import Fact, Row, RowList, TextBlock, fact_lines
from memtui.tui.widgets.query_bar import QueryBar

if TYPE_CHECKING:
    from memtui.tui.screens.sessions.sessions_screen import SessionsScreen

_NEVER_COUNTED = frozenset(
    {Reason.NOT_A_TRANSCRIPT, Reason.UNREADABLE, Reason.VANISHED, Reason.TOO_LARGE}
)
RELOAD_SECONDS = 0.5
BATCH_SECONDS = 0.25
"""Seconds between two updates while files come in one by one."""
AGENT_CELLS = 18
_SHORT = 44
"""Below so many cells a row says only what sets a conversation apart."""
_LONG = 70
"""From so many cells on a row says everything, and its title still has room."""


class Pane(Vertical):
    """A part of the sessions screen with workers of its own."""

    def __init__(self, *children: Widget, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(*children, id=id)
        self.delayed = Timers(self)

    @property
    def sessions(self) -> SessionsScreen:
        return cast("SessionsScreen", self.screen)

    @property
    def engine(self) -> Engine:
        return self.sessions.engine

    @property
    def ranked(self) -> Ranked | None:
        """The present answer of the search screen."""
        return app_of(self.screen).search_screen.state.ranked

    def show_soon(self, show: Callable[[], None]) -> None:
        """Draw a moment later: what comes in one by one is drawn a few times a second."""
        if not self.delayed.is_running("show"):
            self.delayed.start("show", BATCH_SECONDS, show)


def aside(text: str) -> Content:
    """Draw something said in passing."""
    return Content.styled(text, fmt.MUTED)


class ListPane(Pane):
    """Conversations, newest first or in another order, and what there is to know of one."""

    rows = query_one("#conversations", RowList)

    def __init__(self) -> None:
        rows = RowList(id="conversations", opens="read")
        super().__init__(rows, TextBlock(id="conversation-facts"), id="sessions-list")
        self.listings: dict[str, ConversationListing] = {}
        """Every conversation by its path."""
        self.sort_name = next(iter(SORTS))
        self.is_loaded = False
        """True if the transcripts were looked for."""
        self.has_sources = True
        """True if there are places of transcripts, or it is not known yet."""
        self._load_seconds = 0.0
        self._message: Sequence[Content] = [aside("looking for conversations…")]
        """A message in place of the conversations."""
        self._is_chosen = False
        """True once the user chose a conversation: until then the first row is the chosen one."""

    @property
    def chosen_path(self) -> str:
        """The path of the chosen conversation; empty without one."""
        return self.rows.chosen_id or ""

    @property
    def lists_any(self) -> bool:
        """True if there are conversations, or it is not known yet."""
        return bool(self.listings) or not self.is_loaded

    def load(self) -> None:
        """Look for conversations, then go on counting what takes reading."""
        began, engine, reader = time.monotonic(), self.engine, self.sessions.reader

        def work() -> tuple[Sequence[ConversationListing], Sequence[TranscriptSource]]:
            return engine.conversations.listings(), engine.conversations.sources()

        def take(reading: tuple[Sequence[ConversationListing], Sequence[TranscriptSource]]) -> None:
            listings, sources = reading
            self._load_seconds = time.monotonic() - began
            self.is_loaded, self.has_sources = True, bool(sources)
            self.listings = {each.path: each for each in listings}
            lines = [safe_line(f"{each.name}: {each.folder or each.detail}") for each in sources]
            hint = Content("O  choose which transcripts are indexed" if sources else "")
            title, blank, words = Content("No conversations found."), Content(""), WORDS["opted"]
            self._message = [title, blank, *map(aside, lines or [words["none"]]), blank, hint]
            self.show()
            self.sessions.refresh_bindings()
            reader.follow(self.listings.get(reader.path))
            in_background(
                self,
                lambda: engine.conversations.count(
                    listings,
                    lambda listing: self.call_later(take_counted, listing),
                    cancelled=cancellation(),
                ),
                lambda nothing: None,
                "count the turns of the conversations",
                group="conversations",
            )

        def take_counted(listing: ConversationListing) -> None:
            if listing.path in self.listings:
                self.listings[listing.path] = listing
                self.show_soon(self.show)

        def failed(error: str) -> None:
            # What was listed before stays.
            self.is_loaded, self._message = True, [error_line(error)]
            self.show()
            if self.listings:
                tell(self.sessions, f"cannot list the conversations: {error}", error=True)

        in_background(self, work, take, failed, group="conversations")

    def catch_up(self) -> None:
        """Look again, some time after the last look: something changed since.

        Bursts of changes become one look, behind another screen none: it looks when it is shown.
        """

        def load_again() -> None:
            self.load()
            self.sessions.searches.replay_changed()

        self.sessions.searches.replayed_with = None
        if self.is_mounted and self.screen.is_current and not self.delayed.is_running("load"):
            # A look at thousands of transcripts takes its time from whoever indexes them.
            self.delayed.start("load", max(RELOAD_SECONDS, 5 * self._load_seconds), load_again)

    def show(self) -> None:
        """Draw the list, the chosen row as it was."""
        widget, sessions, total = self.rows, self.sessions, len(self.listings)
        matches, listings = matches_by_path(self.ranked), self.listings.values()
        text = sessions.filter_input.value
        fitting, problems = filtered(listings, text)
        lines = 1 if sessions.is_small else 2
        rows = [
            listing_row(each, matches.get(each.path, Matches()), lines=lines)
            for each in in_order(fitting, self.sort_name, matches)
        ]
        if rows:
            chosen = widget.chosen_id if self._is_chosen else None
            widget.set_rows(rows, keep=chosen or sessions.reader.path or None)
        elif listings:
            nothing = Content(f"No title has {safe_line(text)!r}; Search reads what is indexed.")
            widget.show_message([nothing, aside("esc  leave the filter, then clear it")])
        else:
            widget.show_message(self._message)
        part = f"{fmt.count(len(rows))}/" if len(rows) != total else ""
        widget.border_title = Content(f"Conversations  {part}{fmt.count(total)}")
        waiting = sum(each.turns is None and each.state not in _NEVER_COUNTED for each in listings)
        counting = f"counting {fmt.count(total - waiting)}/{fmt.count(total)}  " if waiting else ""
        needs = "" if matches or self.sort_name != "most results" else " (search first)"
        widget.border_subtitle = Content(f"{counting}{self.sort_name}{needs}")
        unindexed = (each for each in listings if not each.chunks)
        left = Counter(WORDS["left"].get(each.state, badge(each)) for each in unindexed)
        parts = [f"{fmt.count(number)} {why}" for why, number in left.most_common()]
        whys = ", ".join(parts if len(left) > 1 else left)
        note = aside(f"{fmt.count(left.total())} not indexed: {whys}" if left else "")
        if problems:
            note = Content.styled(safe_line(problems[0]), "$state-warn")
        sessions.query_one("#sessions-filter-bar", QueryBar).show_note(note)
        sessions.reader.show_title()
        self.show_facts()

    def sort(self) -> None:
        self.sort_name = next_of(SORTS, self.sort_name)
        self.show()

    def move(self, step: int) -> None:
        """Move the choice while the filter is typed."""
        if self.sessions.filter_input.has_focus:
            self.rows.action_move(step)

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        self._is_chosen |= message.by_user

    @on(RowList.Chosen)
    def show_facts(self) -> None:
        """Show what there is to know of the chosen conversation."""
        listing = self.listings.get(self.chosen_path)
        matches = matches_by_path(self.ranked).get(self.chosen_path, Matches())
        facts = listing_facts(listing, matches) if listing is not None else ()
        self.query_one(TextBlock).show(lambda width: fact_lines(facts, width, 7))


class Matches(NamedTuple):
    """The part of an answer that lies in one file."""

    results: int = 0
    """Chunks in the list of results."""
    others: int = 0
    """Candidates that the list does not show; they need not hold any word of the query."""

    def words(self, others: str, separator: str) -> Content:
        """Say how much of each there is; empty for nothing."""
        results = fmt.count(self.results, "result") if self.results else ""
        parts = filter(None, (results, others if self.others else ""))
        return Content.styled(separator.join(parts), "$mark" if self.results else fmt.MUTED)


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


def filtered(
    listings: Iterable[ConversationListing], text: str
) -> tuple[list[ConversationListing], tuple[str, ...]]:
    """Return what words and the filters of a query let through, and what was not understood."""
    query = parse_query(text, typing=True)
    words = [text[start:end].strip('"*').casefold() for start, end in word_pieces(text)]
    without = [word.removesuffix("*").casefold() for word in query.filters.excluded]
    sources = {source.casefold() for source in query.filters.sources}
    of_files = replace(query.filters, sources=())

    def fits(one: ConversationListing) -> bool:
        parts = (one.title, one.agent, one.model, WORDS["program"][one.kind], one.path, badge(one))
        searched = "\n".join(parts).casefold()
        own = {CONVERSATIONS, one.kind.value, one.agent.casefold()}
        day = local(one.started or one.changed).date()
        return (
            (not sources or bool(sources & own))
            and of_files.fits(path=one.path, source=CONVERSATIONS, day=day, mtime_ns=0)
            and all(word in searched for word in words)
            and not any(word in searched for word in without)
        )

    return [listing for listing in listings if fits(listing)], (*query.problems, *query.unlisted)


SORTS: Mapping[str, Callable[[ConversationListing, Matches], Any]] = {
    "newest": lambda each, matches: 0,
    "longest": lambda each, matches: seconds_of(each),
    "most results": lambda each, matches: matches,
    "most searches": lambda each, matches: each.calls or 0,
}
"""The orders of the list: the largest first, then the one in which something was said last."""


def in_order(
    listings: Sequence[ConversationListing], sort: str, matches: Mapping[str, Matches]
) -> list[ConversationListing]:
    """Return the conversations in one of `SORTS`; those that are equal stay newest first."""
    newest = sorted(listings, key=lambda each: each.ended or each.changed, reverse=True)
    return sorted(
        newest, key=lambda each: SORTS[sort](each, matches.get(each.path, Matches())), reverse=True
    )


def listing_row(listing: ConversationListing, matches: Matches, *, lines: int) -> Row:
    """Draw a conversation on one line, or on two: when and what about, then the numbers."""

    def draw(width: int) -> Content:
        title = Content.styled(
            safe_line(listing.title) or "(nothing said)", "" if listing.title else fmt.MUTED
        )
        has_others = width >= _LONG or not matches.results
        answer = matches.words(
            f"+{fmt.count(matches.others)} not shown" if has_others else "", "  "
        )
        when = days(listing, width)
        room = width - len(when) - 2 - (answer.cell_length + 2 if answer else 0)
        named = title.truncate(max(1, room), ellipsis=True, pad=bool(answer))
        first = Content.assemble((when, fmt.MUTED), "  ", named, "  " if answer else "", answer)
        if lines < 2:
            return first
        turns = "" if listing.state in _NEVER_COUNTED else "counting"
        if listing.turns is not None:
            turns = fmt.count(listing.turns, "turn")
        agent = listing.agent or WORDS["program"][listing.kind]
        parts = (
            # Of a long name the end, which tells projects apart.
            (ending(agent, AGENT_CELLS), ""),
            (turns, fmt.MUTED),
            (fmt.count(listing.calls, "search", "searches") if listing.calls else "", ""),
            (badge(listing), "$state-warn"),
            (length_words(listing), fmt.MUTED),
            (fmt.size_words(listing.size), fmt.MUTED),
            (listing.model, fmt.MUTED),
        )
        numbers = Content("  ").join(
            Content.styled(safe_line(part), style) for part, style in parts if part
        )
        return first + "\n  " + numbers

    return Row(listing.path, draw, lines)


def listing_facts(listing: ConversationListing, matches: Matches) -> list[Fact]:
    """Return what there is to know of a conversation, the most important first."""
    counted = [
        "" if listing.turns is None else fmt.count(listing.turns, "turn"),
        "" if listing.calls is None else fmt.count(listing.calls, "search", "searches"),
        length_words(listing),
        fmt.size_words(listing.size),
    ]
    session = f"  session {listing.session}" if listing.session else ""
    place = fmt.home_relative(redact_path(listing.place)) + session
    program = f"{WORDS['program'][listing.kind]}  {listing.agent}  {listing.model}"
    others = fmt.count(matches.others, "candidate") + ' among "Not shown"'
    facts = [
        ("index", Content.styled(index_state(listing), "$state-warn" if badge(listing) else "")),
        ("found", matches.words(others, ", ")),
        ("holds", Content(safe_line("  ".join(filter(None, counted))))),
        ("agent", Content(safe_line(program))),
        ("file", Content(safe_line(place))),
    ]
    return [fact for fact in facts if fact[1] or fact[0] != "found"]


def badge(listing: ConversationListing) -> str:
    """Say how much of a conversation the index has, in a word or two; empty when it is all."""
    return WORDS["badge"].get(listing.state, fmt.reason_words(listing.state))


def index_state(listing: ConversationListing) -> str:
    """Say how much of a conversation the index has, in one line."""
    state, detail = badge(listing) or "indexed", safe_line(listing.detail)
    broken = 0 if detail.endswith("left out") else listing.malformed
    if state in detail or listing.state is Reason.DISABLED:
        state = detail
    chunks = fmt.count(listing.chunks, "chunk") if listing.chunks else ""
    parts = (state, chunks, fmt.count(broken, "broken line") if broken else "", detail)
    return ", ".join(dict.fromkeys(filter(None, parts)))


def days(listing: ConversationListing, width: int) -> str:
    """Say when it was started, and the day of the last turn where that is another one.

    Where a time is not known it is that of the file. `2026-02-10 09:12 to 02-13`, in a row of less
    than 44 cells `02-10 to 02-13`.
    """
    first, last = listing.started or listing.changed, listing.ended or listing.changed
    when, until = day_and_time(first), day_and_time(last)
    start = when[5:10] if width < _SHORT else when
    if last <= first or until[:10] == when[:10]:
        return start
    is_same_year = width < _SHORT or until[:4] == when[:4]
    return f"{start} to {until[5 if is_same_year else 0 : 10]}"


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
