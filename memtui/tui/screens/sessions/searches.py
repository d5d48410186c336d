"""The searches that the agent asked of its memory: finding them, and asking them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from textual import on
from textual.containers import Container, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from memtui.model import EPOCH, Ranking
from memtui.model.conversations import MemoryCall, RecallChange, RecallRow, Replayed, TurnKind
from memtui.report.conversations import agents_order, replay_verdict, row_note, scale_words
from memtui.report.status import place_words
from memtui.report.words import WORDS, ending, leg_note
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import cancellation, in_background
from memtui.tui.place_actions import app_of, query_address
from memtui.tui.present import error_line, sign_of
from memtui.tui.screens.common import HUGE
from memtui.tui.screens.sessions.listing import AGENT_CELLS, Pane, aside, day_and_time
from memtui.tui.screens.sessions.turn_view import turn_of
from memtui.tui.widgets.bars import draw_key
from memtui.tui.widgets.lists import Row, RowList
from memtui.tui.widgets.result_rows import place_text

_QUERY_SHOWN = 500
_CHANGE = 12
_RANKS = 10


class SearchesPane(Pane):
    """The searches of the agent in its memory, in one conversation or in all, then and now."""

    calls_list = query_one("#memory-calls", RowList)
    comparison = query_one("#comparison", RowList)

    def __init__(self) -> None:
        calls = RowList(id="memory-calls", opens="search")
        then_and_now = RowList(id="comparison", opens="search")
        right = Vertical(Static(id="searches-query", markup=False), then_and_now, id="then-and-now")
        super().__init__(Container(calls, right, id="searches-body"), id="sessions-searches")
        self.calls: dict[str, MemoryCall] = {}
        """The searches by a key that tells them apart, newest first."""
        self.replays: dict[str, Replayed] = {}
        """Their results now, by id."""
        self.is_all = False
        """True if the searches of every conversation are listed."""
        self.replayed_with: Ranking | None = None
        """`None` until everything is asked again, also after the index or the ranking changed."""
        self._this = ""
        """The path of the conversation that is meant by this one."""
        self._of: str | None = None
        """Whose searches are listed: a path, empty for all, `None` before the first."""
        self._is_complete = False
        self._compared_key: str | None = None
        self._message: Sequence[Content] = [aside("No conversation is chosen.")]
        """A message in place of the searches."""

    @property
    def is_shown(self) -> bool:
        """True if there is a place where the searches are listed."""
        screen = self.sessions
        return screen.pane == "searches" or (screen.size.width >= HUGE and not screen.is_small)

    @property
    def chosen(self) -> MemoryCall | None:
        return self.calls.get(self.calls_list.chosen_id or "")

    def show_calls(self) -> None:
        """List the searches of this conversation; again: of every one, and of this one."""
        self.is_all = self.sessions.pane == "searches" and not self.is_all
        self.sessions.show_pane("searches")

    def show_turn(self) -> None:
        """Show the turn in which the chosen search was asked."""
        if (call := self.chosen) is not None:
            choose = partial(turn_of, line=call.line, kind=TurnKind.TOOL_CALL)
            self.sessions.reader.read(call.path, choose)
            self.sessions.before = "searches"
            self.sessions.show_pane("reader")

    def show_place(self) -> None:
        """Show the chosen place of the memory on the browse screen."""
        replayed = self.replays.get(self.calls_list.chosen_id or "")
        at = self.comparison.chosen_id
        if replayed is not None and at is not None:
            row = replayed.rows[int(at)]
            place = row.path, max(1, row.start_line), row.chunk_id or None
            app_of(self.screen).open_place(*place)

    def list_calls(self, of: str = "", *, is_grown: bool = False) -> None:
        """List the searches of a conversation, where there is a place for them.

        Without `of` of the one that was meant last. What is listed already is looked for again
        where the conversation is grown.
        """
        if is_grown and of != self._this:
            return
        self._this = of or self._this or self.sessions.conversations.chosen_path
        path = "" if self.is_all else self._this
        engine = self.engine
        if not self.is_shown or not (path or self.is_all):
            return
        if path == self._of and not is_grown:
            if self.replayed_with is None and self._is_complete:
                self.replay_all()
            return
        # What is listed stays until everything is found again.
        if path != self._of:
            self._of, self.calls, self.replays, self._is_complete = path, {}, {}, False
            self._message = [aside("looking for searches…")]
            self.show()
        so_far: list[MemoryCall] = []

        def show_some() -> None:
            if path == self._of and not self._is_complete:
                self.calls = _by_key(so_far)
            self.show()

        def take_some(calls: Sequence[MemoryCall]) -> None:
            so_far.extend(calls)
            self.show_soon(show_some)

        def take_all(calls: Sequence[MemoryCall], error: str = "") -> None:
            whose = "any conversation" if self.is_all else "this conversation"
            other = "this conversation alone" if self.is_all else "every conversation"
            only = aside("Only calls of a memory tool count, not those of Grep or Read.")
            nothing = [Content(f"No search of the memory in {whose}."), only, draw_key("A", other)]
            self._message = [error_line(error)] if error else nothing
            self.calls, self._is_complete = _by_key(calls), True
            self.show()
            self.replay_all()

        in_background(
            self,
            lambda: engine.conversations.memory_calls(
                [path] if path else None,
                receive=lambda calls: self.call_later(take_some, calls),
                cancelled=cancellation(),
            ),
            take_all,
            partial(take_all, ()),
            group="calls",
        )

    def replay_all(self) -> None:
        """Ask everything again, unless that sends queries to another machine."""
        if not self.calls:
            return
        if query_address(self.engine):
            self.replayed_with = app_of(self.screen).search_screen.state.ranking
            self.workers.cancel_group(self, "replay")
            # What came back with other parameters, or of another index, is not what comes back now.
            self.replays = {}
        else:
            self._replay(dict(self.calls), group="replay")
        self.show()

    def replay_chosen(self) -> None:
        if (key := self.calls_list.chosen_id) in self.calls:
            self._replay({key: self.calls[key]}, group=f"replay {key}")

    def replay_changed(self) -> None:
        """Ask again what is listed when the index or the parameters changed."""
        self.replayed_with = None
        if self._is_complete and self.is_shown:
            self.replay_all()

    def _replay(self, waiting: dict[str, MemoryCall], *, group: str) -> None:
        engine = self.engine
        ranking = self.replayed_with = app_of(self.screen).search_screen.state.ranking

        def work() -> None:
            cancelled = cancellation()
            while waiting and not cancelled():
                # What somebody looks at comes first.
                chosen = self.calls_list.chosen_id or ""
                key = chosen if chosen in waiting else next(iter(waiting))
                call = waiting.pop(key)
                try:
                    replayed = engine.conversations.replay(call, ranking=ranking)
                except Exception as error:
                    # Whatever the index does is told in the place of the comparison.
                    replayed = Replayed(call, (), safe_line(str(error) or type(error).__name__))
                if not cancelled():
                    self.call_later(take, key, replayed)

        def take(key: str, replayed: Replayed) -> None:
            if key in self.calls:
                self.replays[key] = replayed
                self.show_soon(self.show)

        in_background(self, work, lambda nothing: None, "ask the memory again", group=group)

    def show(self) -> None:
        """Draw the searches and the chosen one, then and now."""
        widget, where = self.calls_list, "all conversations" if self.is_all else "this conversation"
        rows = [call_row(key, call, self.replays.get(key)) for key, call in self.calls.items()]
        if rows:
            widget.set_rows(rows, keep=widget.chosen_id)
        else:
            widget.show_message(self._message)
        number = f"  {fmt.count(len(rows))}" if rows else ""
        widget.border_title = draw_key("A", f"Agent searches, {where}{number}")
        calls = [call for call in self.calls.values() if not call.is_elsewhere]
        comparable = sum(call.returned is not None for call in calls)
        widget.border_subtitle = Content(same_words(self.replays.values(), comparable))
        self._show_comparison()

    @on(RowList.Chosen, "#memory-calls")
    def _show_comparison(self) -> None:
        replayed = self.replays.get(self.calls_list.chosen_id or "")
        call, widget = self.chosen, self.comparison
        query_line = self.query_one("#searches-query", Static)
        query_line.display = call is not None
        widget.border_title, widget.border_subtitle = Content("Then and now"), Content("")
        if call is None:
            widget.show_message(())
            return
        query, search = safe_line(call.query), app_of(self.screen).search_screen
        shown = query if len(query) <= _QUERY_SHOWN else query[:_QUERY_SHOWN] + "…"
        asides = safe_line("  ".join(filter(None, (call.tool, arguments_words(call)))))
        if replayed is not None and replayed.rows and call.returned is not None:
            notes = [leg_note(leg, state) for leg, state in replayed.failed.items()]
            notes.append(scale_words(search.foreign, search.state.ranking))
            asides = "\n".join([asides, *filter(None, notes)])
        query_line.update(Content.assemble((shown, "bold"), (f"  {asides}", fmt.MUTED)))
        widget.border_subtitle = Content(then_words(call))
        if replayed is None:
            address = query_address(self.engine)
            goes = f"ask again: the query goes to {place_words(address, remote=True)}"
            widget.show_message([draw_key("r", goes) if address else aside("asking again…")])
        elif replayed.problem:
            widget.show_message([error_line(replayed.problem)])
        elif not replayed.rows:
            then = "Nothing came back then" if call.returned is not None else "Results not recorded"
            widget.show_message([aside(f"{then}, and nothing comes back now.")])
        else:
            scores = "what the agent got → your list now"
            widget.border_title = Content.assemble("Then and now  ", (scores, fmt.MUTED))
            is_same = self.calls_list.chosen_id == self._compared_key
            self._compared_key = self.calls_list.chosen_id
            widget.set_rows(comparison_rows(replayed), widget.chosen_id if is_same else None)

    @on(RowList.Opened)
    def row_opened(self) -> None:
        if (call := self.chosen) is not None:
            app_of(self.screen).run_query(safe_line(call.query))
            if call.arguments:
                others = safe_line(arguments_words(call))
                note = f"asked with your parameters, not with {others}"
                app_of(self.screen).search_screen.rankings.note(note)


def arguments_words(call: MemoryCall) -> str:
    """Return what a search was asked with beside its words: `maxResults 5  minScore 0.3`."""
    return "  ".join(f"{name} {value}" for name, value in call.arguments.items())


def _by_key(calls: Iterable[MemoryCall]) -> dict[str, MemoryCall]:
    """Return calls by what tells them apart wherever they are in the list, newest first."""
    numbers: Counter[str] = Counter()
    keyed = {}
    for call in sorted(calls, key=lambda call: call.asked or EPOCH, reverse=True):
        name = f"{call.line}:{call.path}:{call.tool}:{call.query}"
        numbers[name] += 1
        keyed[f"{numbers[name]}:{name}"] = call
    return keyed


def call_row(key: str, call: MemoryCall, replayed: Replayed | None) -> Row:
    """Draw a search on two lines: what was asked, then what became of it, where, when, by what."""

    def draw(width: int) -> Content:
        moment = day_and_time(call.asked) if call.asked is not None else f"line {call.line}"
        words = filter(None, (ending(call.agent, AGENT_CELLS), moment, call.tool))
        asides = [Content.styled(safe_line(text), fmt.MUTED) for text in words]
        outcome = Content.styled(*outcome_words(call, replayed))
        # A problem is as long as it likes, and the same for most of the list.
        has_problem = replayed is not None and replayed.problem
        parts = [*asides, outcome] if has_problem else [outcome, *asides]
        return Content(safe_line(call.query) or "(nothing)") + "\n  " + Content("  ").join(parts)

    return Row(key, draw, 2)


def outcome_words(call: MemoryCall, replayed: Replayed | None) -> tuple[str, str]:
    """Say what became of the results of a search; return the words and their style."""
    if replayed is None:
        return then_words(call), fmt.MUTED
    styles = {"same": "$state-ok", "changed": "$state-warn", "failed": "$state-warn"}
    words = replayed.problem or replay_verdict(replayed)
    return safe_line(words), styles.get(replayed.verdict, fmt.MUTED)


def then_words(call: MemoryCall) -> str:
    """Say how many results came back when it was asked, or why that is not known."""
    if call.returned is None:
        return ": ".join(filter(None, ("results not recorded", safe_line(call.problem))))
    of = ", of another memory" if call.is_elsewhere else ""
    return f"{fmt.count(len(call.returned), 'result')} at the time{of}"


def same_words(replays: Iterable[Replayed], total: int) -> str:
    """Say how many searches come back the same; empty while nothing is compared."""
    comparable = [one for one in replays if one.verdict in ("same", "changed")]
    if not comparable:
        return ""
    same = sum(one.is_same for one in comparable)
    searches = fmt.count(len(comparable), "search", "searches")
    more = "" if len(comparable) >= total else f" so far, {fmt.count(total)} in all"
    return f"unchanged: {fmt.count(same)} of {searches}{more}"


def comparison_rows(replayed: Replayed) -> list[Row]:
    """Draw two lines for each place: its change, ranks and name, then its scores and why it left.

    Where it was not recorded what came back then, nothing is said to be new.
    """
    is_known = replayed.call.returned is not None

    def row(at: int, one: RecallRow) -> Row:
        sign, style = sign_of("recall", one.change)
        change, then = f"{sign} {WORDS['recall'][one.change]}", fmt.rank(one.rank_then)
        if one.change is RecallChange.MOVED:
            gained = (one.rank_then or 0) - (one.rank_now or 0)
            change = f"{glyphs.UP if gained > 0 else glyphs.DOWN}{abs(gained)} moved"
        if not is_known:
            change, then = "now", "?"
        ranks = f"{then} → {fmt.rank(one.rank_now)}"
        scores = f"{fmt.score(one.score_then)} → {fmt.score(one.score_now)}"
        why = f"  {row_note(replayed, one)}"

        def draw(width: int) -> Content:
            return Content.assemble(
                (f"{change:<{_CHANGE}}", style if is_known else fmt.MUTED),
                f"{ranks:<{_RANKS}}",
                place_text(one.path, one.start_line or None, width - _CHANGE - _RANKS),
                (f"\n{' ' * _CHANGE}{scores}", fmt.MUTED),
                (why, "$state-warn"),
            )

        return Row(str(at), draw, 2)

    in_order = sorted(enumerate(replayed.rows), key=lambda each: agents_order(each[1]))
    return [row(at, one) for at, one in in_order]
