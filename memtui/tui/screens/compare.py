"""Two rankings of one search side by side, or the arithmetic of two of its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen

from memtui.model import Drop, Hit, Ranked, Ranking
from memtui.ranking.trace import Difference, compare_settings, difference, find
from memtui.report.arithmetic import place
from memtui.report.explanation import verdict_words
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.options import UiOptions
from memtui.tui.parameters import needs_search
from memtui.tui.present.comparison import (
    NAMES,
    Look,
    comparison_lines,
    setting_lines,
    two_results,
)
from memtui.tui.screens.common import TALL, after_refresh, close
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.line_view import Draw, TextBlock
from memtui.tui.widgets.result_rows import query_terms, shown_score

if TYPE_CHECKING:
    from memtui.engine import Engine

CONFIGURED, CURRENT = "configured", "current"
_SETTING_LINES = 2
_MOST_LINES = 3
"""Lines of a row where there is room."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two rankings; without a list while it is searched for, or where that failed."""

    name: str
    ranking: Ranking
    ranked: Ranked | None = None
    error: str = ""

    @property
    def ids(self) -> list[str]:
        """The chunks of its list."""
        return [hit.chunk.id for hit in self.ranked.hits] if self.ranked is not None else []

    def find(self, chunk_id: str | None) -> Hit | Drop | None:
        """Return a chunk as its list has it; `None` for one that is no candidate."""
        if self.ranked is None or chunk_id is None or chunk_id not in self.ranked.pool.chunks:
            return None
        return find(self.ranked, chunk_id)


class Comparison:
    """Two rankings of one pool, the chunk that is looked at, and two pinned ones."""

    def __init__(
        self,
        engine: Engine,
        ranked: Ranked,
        ranking: Ranking,
        options: UiOptions,
        *,
        pinned: tuple[str, ...] = (),
        chosen: str | None = None,
        typing: bool = True,
    ) -> None:
        self.ranked, self.ranking = ranked, ranking
        self.pinned: tuple[str, ...] = pinned if len(pinned) == 2 else ()
        self.chosen, self.active = chosen, 1
        self.note = ""
        self._engine, self._options, self._typing = engine, options, typing
        first, second = CONFIGURED, CURRENT
        if options.ranking == ranking:
            self.note = "Nothing differs from the configured ranking: beside it, another profile."
            first, second = CURRENT, self._other_profile()
        self.sides = [Side(name, self.choices[name]) for name in (first, second)]

    @property
    def choices(self) -> Mapping[str, Ranking]:
        """Every ranking that a side can show, by name: configured, current, then the named ones."""
        named = {CONFIGURED: self._options.ranking, CURRENT: self.ranking}
        return {**named, **self._options.profiles}

    def _other_profile(self) -> str:
        """Return the profile after the current one that ranks otherwise."""
        profiles, current = self._options.profiles, self.ranking
        names = list(profiles)
        at = names.index(current.profile) if current.profile in profiles else -1
        following = names[at + 1 :] + names[: at + 1]
        return next((one for one in following if profiles[one] != current), CONFIGURED)

    @property
    def difference(self) -> Difference:
        """What differs between the lists."""
        first, second = self.sides
        return difference(first.ranked, second.ranked)

    def rank_side(self, which: int, side: Side) -> Side:
        """Show a ranking on a side; without a list where that takes candidates to search for."""
        pool = self.ranked.pool
        if side.ranking == self.ranking:
            side = replace(side, ranked=self.ranked)
        elif not needs_search(pool, self.ranking, side.ranking):
            side = replace(side, ranked=self._engine.search.rerank(pool, side.ranking))
        self.sides[which] = side
        return side

    def search_side(self, side: Side) -> Ranked:
        """Search by the ranking of a side; waits for the engine."""
        ask = self._engine.search.ask
        return ask(self.ranked.pool.query, ranking=side.ranking, typing=self._typing)

    def next_side(self, which: int, step: int) -> Side:
        """Return the next ranking that a side can show."""
        names = list(self.choices)
        name = names[(names.index(self.sides[which].name) + step) % len(names)]
        self.note = ""
        return Side(name, self.choices[name])

    def move(self, step: int) -> None:
        """Go to the next or the previous result of the active side."""
        ids = self.sides[self.active].ids
        if ids:
            at = ids.index(self.chosen) + step if self.chosen in ids else 0
            self.chosen = ids[min(max(at, 0), len(ids) - 1)]

    def settings_lines(self, width: int, glyphs: Glyphs) -> list[Content]:
        """Draw the parameters that differ, and what could not be searched."""
        first, second = self.sides
        differing = compare_settings(first.ranking, second.ranking)
        notes = [self.note] if self.note else []
        notes += [
            f"{name} could not search: {safe_line(side.error)}"
            for name, side in zip(NAMES, self.sides, strict=True)
            if side.error
        ]
        return [
            *(fmt.fit(Content.styled(one, "$state-warn"), width) for one in notes),
            *setting_lines(
                [one for one in differing if one.name != "profile"], width, _SETTING_LINES, glyphs
            ),
        ]

    def heads(self, look: Look) -> Content:
        """Draw name, profile and state of the sides over their columns, the active one reversed."""
        heads = []
        for which, (letter, side) in enumerate(zip(NAMES, self.sides, strict=True)):
            style = "bold reverse" if which == look.active else "bold"
            profile = side.ranking.profile if side.name in (CONFIGURED, CURRENT) else ""
            state = (
                "could not search"
                if side.error
                else ""
                if side.ranked is not None
                else "searching…"
            )
            head = Content.assemble(
                (f" {letter} ", f"$primary {style}"),
                (f" {safe_line(side.name)}", "bold"),
                (f"  {safe_line(profile)}" if profile else "", fmt.MUTED),
                (f"  {state}" if state else "", "$state-warn"),
            )
            heads.append(head.truncate(look.column, ellipsis=True, pad=True))
        return heads[0] + Content(" " * look.gutter) + heads[1]

    def counts(self) -> str:
        """Return how much differs."""
        if any(side.ranked is None for side in self.sides):
            return ""
        changes = self.difference
        counts = f"moved {len(changes.moved)}, in {len(changes.entered)}, out {len(changes.left)}"
        return counts if changes else "the same list"

    def detail(self) -> list[Content]:
        """Draw the chosen chunk: its place, and its rank and score on both sides."""
        scored = [side.find(self.chosen) for side in self.sides]
        chunk = next((one.chunk for one in scored if one is not None), None)
        if chunk is None:
            return []
        parts = []
        for name, side, one in zip(NAMES, self.sides, scored, strict=True):
            words = "not a candidate"
            if isinstance(one, Hit):
                words = f"#{one.rank}  {fmt.score(shown_score(one))}"
            elif one is not None and side.ranked is not None:
                words = verdict_words(side.ranked, one)
            parts.append(Content.assemble((f"{name} ", "$primary bold"), words))
        return [Content.styled(place(chunk), "bold"), Content("   ").join(parts)]

    def result_lines(self, width: int, glyphs: Glyphs) -> list[Content]:
        """Draw the two pinned results step by step."""
        here = Side(CURRENT, self.ranking, self.ranked)
        first, second = (here.find(chunk_id) for chunk_id in self.pinned)
        if first is None or second is None:
            return [
                Content("A pinned chunk is not among the candidates of this search."),
                Content("x says why; tab compares two rankings."),
            ]
        return two_results(self.ranked, first, second, width, glyphs)


class CompareScreen(Screen[str | None]):
    """Left A, right B; its result is the chunk that Enter was pressed on."""

    CSS_PATH = "compare.tcss"
    BINDING_GROUP_TITLE = "Compare"
    BINDINGS: ClassVar[list[BindingType]] = bindings("compare")

    def __init__(
        self,
        comparison: Comparison,
        *,
        glyphs: Glyphs,
        explain: Callable[[Ranked, str, Ranking], None],
    ) -> None:
        super().__init__()
        self.comparison, self.glyphs = comparison, glyphs
        self._explain = explain
        self._shows_results = bool(comparison.pinned)

    def follow(self, ranked: Ranked, ranking: Ranking) -> None:
        """Go on with another answer of the same search, or with another present ranking."""
        comparing = self.comparison
        if (ranked.pool, ranking) != (comparing.ranked.pool, comparing.ranking):
            comparing.ranked, comparing.ranking = ranked, ranking
            for which, side in enumerate(comparing.sides):
                self._take(which, Side(side.name, comparing.choices.get(side.name, ranking)))
            self._show()

    def compose(self) -> ComposeResult:
        yield TextBlock(id="compare-settings")
        with Vertical(id="compare-box"):
            yield TextBlock(id="compare-sides")
            with VerticalScroll(id="compare-scroll", can_focus=False):
                yield TextBlock(id="compare-lists")
        yield TextBlock(id="compare-detail")
        yield KeyBar()

    def on_mount(self) -> None:
        """Rank or search both sides."""
        for which, side in enumerate(self.comparison.sides):
            self._take(which, side)
        ids = self.comparison.sides[1].ids
        if self.comparison.chosen not in ids:
            self.comparison.chosen = next(iter(ids), None)
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        """Draw rows of another height."""
        after_refresh(self, self._show)

    def _take(self, which: int, side: Side) -> None:
        """Rank or search for one side."""
        shown = self.comparison.rank_side(which, side)
        if shown.ranked is not None:
            return

        def answered(ranked: Ranked | None, error: str = "") -> None:
            # Unless the side shows something else by now.
            if self.comparison.sides[which] is shown:
                self.comparison.sides[which] = replace(shown, ranked=ranked, error=error)
                self._show()

        in_background(
            self,
            lambda: self.comparison.search_side(shown),
            answered,
            lambda error: answered(None, error),
            group="compare",
            description="search for a comparison",
        )

    # --- drawing --------------------------------------------------------------------------------

    def _show(self) -> None:
        comparing, glyphs, results = self.comparison, self.glyphs, self._shows_results
        self.set_class(results, "-results")
        box, query = self.query_one("#compare-box"), safe_line(comparing.ranked.pool.query)
        what = "two results" if results else "two rankings"
        box.border_title = Content.assemble(f"Compare {what}   ", (query, fmt.MUTED))
        box.border_subtitle = "" if results else comparing.counts()
        rows = max([1, *(len(side.ids) for side in comparing.sides)])
        room = self.size.height - 9 - (3 if self.size.height >= TALL else 0)
        lines = min(max(room // rows, 1), _MOST_LINES)
        terms, changes = query_terms(comparing.ranked), comparing.difference

        def look(width: int) -> Look:
            return Look(width, lines, glyphs, comparing.chosen, comparing.active, terms)

        def lists(width: int) -> list[Content]:
            if results:
                return comparing.result_lines(width, glyphs)
            first, second = (side.ranked for side in comparing.sides)
            return comparison_lines(first, second, changes, look(width))

        draws: dict[str, Draw] = {
            "settings": lambda width: comparing.settings_lines(width, glyphs),
            "sides": lambda width: [comparing.heads(look(width - 1))],
            "lists": lists,
            "detail": lambda width: comparing.detail(),
        }
        for name, draw in draws.items():
            self.query_one(f"#compare-{name}", TextBlock).show(draw)
        ids = comparing.sides[comparing.active].ids
        if not results and comparing.chosen in ids:
            scroll, top = self.query_one("#compare-scroll"), ids.index(comparing.chosen) * lines
            height, seen = scroll.size.height, scroll.scroll_offset.y
            if not seen <= top <= seen + height - lines:
                scroll.scroll_to(y=max(top - height // 2, 0), animate=False)
        self.refresh_bindings()

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only with two pinned chunks there is another comparison; it has no sides to cycle."""
        if action == "mode":
            return bool(self.comparison.pinned)
        if action in ("cycle", "side", "move"):
            return not self._shows_results
        return True

    def action_cycle(self, which: int, step: int) -> None:
        """Show the next ranking on a side."""
        self._take(which, self.comparison.next_side(which, step))
        self._show()

    def action_swap(self) -> None:
        """Exchange the sides."""
        comparing = self.comparison
        if self._shows_results:
            comparing.pinned = comparing.pinned[::-1]
        else:
            comparing.sides.reverse()
            for which, side in enumerate(comparing.sides):
                if side.ranked is None and not side.error:
                    self._take(which, replace(side))
        self._show()

    def action_side(self, which: int) -> None:
        """Move in the list of a side, from the same chunk where it has it."""
        comparing = self.comparison
        comparing.active = which
        ids = comparing.sides[which].ids
        if comparing.chosen not in ids:
            comparing.chosen = next(iter(ids), comparing.chosen)
        self._show()

    def action_move(self, step: int) -> None:
        """Go to the next or the previous result of the active side."""
        self.comparison.move(step)
        self._show()

    def action_mode(self) -> None:
        """Compare two rankings, or the two pinned results."""
        self._shows_results = not self._shows_results
        self.query_one("#compare-scroll").scroll_home(animate=False)
        self._show()

    def action_choose(self) -> None:
        """Go to the chosen result in the list."""
        comparing = self.comparison
        close(self, comparing.pinned[0] if self._shows_results else comparing.chosen)

    def action_explain(self) -> None:
        """Open the whole arithmetic of the chosen result by the list of the active side.

        Of two pinned results the first that is no candidate is explained, else A.
        """
        comparing = self.comparison
        side, chunk_id = comparing.sides[comparing.active], comparing.chosen
        if self._shows_results:
            side = Side(CURRENT, comparing.ranking, comparing.ranked)
            pool = comparing.ranked.pool.chunks
            chunk_id = next((pin for pin in comparing.pinned if pin not in pool), None)
            chunk_id = chunk_id or comparing.pinned[0]
        if side.ranked is not None and chunk_id is not None:
            self._explain(side.ranked, chunk_id, side.ranking)
