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
from textual.widgets import Static

from memtui.model import Drop, Hit, Ranked, Ranking
from memtui.ranking.trace import ListComparison, compare_lists, compare_settings, find
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
    side_heads,
    two_results,
)
from memtui.tui.screens.base import BaseScreen
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.result_rows import query_terms, shown_score

if TYPE_CHECKING:
    from memtui.engine import Engine


_SETTING_LINES = 2
MOST_LINES = 6
"""Lines of a row where there is room."""


class CompareScreen(BaseScreen[str | None]):
    """Left A, right B; its result is the chunk that Enter was pressed on."""

    CSS_PATH = "compare.tcss"
    BINDING_GROUP_TITLE = "Compare"
    BINDINGS: ClassVar[list[BindingType]] = bindings("compare")

    def __init__(
        self,
        engine: Engine,
        ranked: Ranked,
        ranking: Ranking,
        options: UiOptions,
        *,
        glyphs: Glyphs,
        explain: Callable[[Ranked, str, Ranking], None],
        pinned: tuple[str, ...] = (),
        chosen: str | None = None,
        typing: bool = True,
    ) -> None:
        """`ranking` is what `ranked` was asked with; `typing` as for `Engine.search`."""
        super().__init__()
        self.engine, self.options, self.glyphs = engine, options, glyphs
        self._ranked, self._ranking = ranked, ranking
        self._explain, self._typing = explain, typing
        self._pinned: tuple[str, ...] = pinned if len(pinned) == 2 else ()
        self._chosen = chosen
        self._active = 1
        self._results = bool(self._pinned)
        self._said = ""
        names = first_names(options.ranking, ranking, options.profiles)
        if options.ranking == ranking:
            self._said = "Nothing differs from the configured ranking: beside it, another profile."
        self._sides = [Side(name, self.choices[name]) for name in names]

    @property
    def choices(self) -> Mapping[str, Ranking]:
        """The rankings that a side can show, by name."""
        return choices(self.options.ranking, self._ranking, self.options.profiles)

    @property
    def sides(self) -> tuple[Side, ...]:
        """A and B."""
        return tuple(self._sides)

    @property
    def comparison(self) -> ListComparison:
        """What differs between the lists."""
        first, second = (side.ranked.hits if side.ranked else () for side in self._sides)
        return compare_lists(first, second)

    def follow(self, ranked: Ranked, ranking: Ranking) -> None:
        """Go on with another answer of the same search, or with another present ranking."""
        if (ranked.pool, ranking) == (self._ranked.pool, self._ranking):
            return
        self._ranked, self._ranking = ranked, ranking
        for which in (0, 1):
            name = self._sides[which].name
            self._take(which, Side(name, self.choices.get(name, ranking)))
        self._show()

    # --- building -------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Static(id="compare-settings", markup=False)
        with Vertical(id="compare-box"):
            yield Static(id="compare-sides", markup=False)
            with VerticalScroll(id="compare-scroll", can_focus=False):
                yield Static(id="compare-lists", markup=False)
        yield Static(id="compare-detail", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        """Rank or search both sides."""
        for which in (0, 1):
            self._take(which, self._sides[which])
        if self._chosen not in self._ids(self._active):
            self._chosen = next(iter(self._ids(self._active)), None)
        self.call_after_refresh(self._show)

    def on_resize(self, event: events.Resize) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self._show)

    # --- lists ----------------------------------------------------------------------------------

    def _take(self, which: int, side: Side) -> None:
        """Rank the candidates for one side, or search where it takes others."""
        if side.ranking == self._ranking:
            self._sides[which] = replace(side, ranked=self._ranked)
        elif needs_search(self._ranked.pool, self._ranking, side.ranking):
            self._sides[which] = side
            self._search(which, side)
        else:
            ranked = self.engine.search.rerank(self._ranked.pool, side.ranking)
            self._sides[which] = replace(side, ranked=ranked)

    def _search(self, which: int, side: Side) -> None:
        query, ask = self._ranked.pool.query, self.engine.search.ask

        def search() -> Side:
            try:
                ranked = ask(query, ranking=side.ranking, typing=self._typing)
            except Exception as error:
                # Whatever a search can fail with is told in the side's place.
                return replace(side, error=f"{type(error).__name__}: {error}")
            return replace(side, ranked=ranked)

        in_background(
            self,
            search,
            lambda answered: self._take_answer(which, side, answered),
            group="compare",
            description="search for a comparison",
        )

    def _take_answer(self, which: int, asked: Side, answered: Side) -> None:
        """Show what was searched, unless the side shows something else by now."""
        if self._sides[which] is not asked:
            return
        self._sides[which] = answered
        self._show()

    # --- drawing --------------------------------------------------------------------------------

    def _show(self) -> None:
        if not self.is_attached or not self.query("#compare-lists"):
            return
        self.set_class(self._results, "-results")
        box = self.query_one("#compare-box")
        query = safe_line(self._ranked.pool.query)
        what = "two results" if self._results else "two rankings"
        box.border_title = Content.assemble(f"Compare {what}   ", (query, fmt.MUTED))
        if self._results:
            box.border_subtitle = Content("")
            self._show_results()
        else:
            self._show_lists()
        self.refresh_bindings()

    def _show_lists(self) -> None:
        first, second = self._sides
        width = max(self.query_one("#compare-scroll").scrollable_content_region.width, 1)
        look = self._look(width)
        found = self.comparison
        self.query_one("#compare-settings", Static).update(self._settings(width))
        self.query_one("#compare-sides", Static).update(self._heads(look))
        lines = comparison_lines(first.ranked, second.ranked, found, look)
        self.query_one("#compare-lists", Static).update(Content("\n").join(lines))
        self.query_one("#compare-box").border_subtitle = self._counts(found)
        self.query_one("#compare-detail", Static).update(self._detail())
        self._scroll_to_chosen(look)

    def _look(self, width: int) -> Look:
        rows = max([1, *(len(side.ranked.hits) for side in self._sides if side.ranked)])
        room = self.size.height - 9 - (3 if self.size.height >= 30 else 0)
        lines = min(max(room // rows, 1), MOST_LINES)
        terms = query_terms(self._ranked)
        return Look(width, lines, self.glyphs, self._chosen, self._active, terms)

    def _settings(self, width: int) -> Content:
        found = compare_settings(self._sides[0].ranking, self._sides[1].ranking)
        found = tuple(one for one in found if one.name != "profile")
        lines = setting_lines(found, width, _SETTING_LINES, self.glyphs)
        said = [self._said] if self._said else []
        for name, side in zip(NAMES, self._sides, strict=True):
            if side.error:
                said.append(f"{name} could not search: {safe_line(side.error)}")
        lines[:0] = [fmt.fit(Content.styled(one, "$state-warn"), width) for one in said]
        return Content("\n").join(lines)

    def _heads(self, look: Look) -> Content:
        """The names of the sides over their columns."""
        heads = []
        for side in self._sides:
            state = "could not search" if side.error else ""
            if side.ranked is None and not side.error:
                state = "searching…"
            profile = side.ranking.profile if side.name in (CONFIGURED, CURRENT) else ""
            heads.append((side.name, profile, state))
        return side_heads(heads, look)

    def _counts(self, found: ListComparison) -> Content:
        if any(side.ranked is None for side in self._sides):
            return Content("")
        if found.same:
            return Content("the same list")
        return Content(f"moved {found.moved}, in {found.entered}, out {found.left}")

    def _detail(self) -> Content:
        """The chosen chunk: its place, and its rank and score on both sides."""
        scored = [self._scored(which) for which in (0, 1)]
        chunk = next((one.chunk for one in scored if one is not None), None)
        if chunk is None:
            return Content("")
        parts = []
        for name, side, one in zip(NAMES, self._sides, scored, strict=True):
            assert side.ranked is not None or one is None
            if one is None or side.ranked is None:
                told = "not a candidate"
            elif isinstance(one, Hit):
                told = f"#{one.rank}  {fmt.score(shown_score(one))}"
            else:
                told = verdict_words(side.ranked, one)
            parts.append(Content.assemble((f"{name} ", "$primary bold"), told))
        return Content("\n").join(
            [Content.styled(place(chunk), "bold"), Content("   ").join(parts)]
        )

    def _scored(self, which: int) -> Hit | Drop | None:
        ranked = self._sides[which].ranked
        chosen = self._chosen
        known = ranked is not None and chosen in ranked.pool.chunks
        return find(ranked, chosen) if ranked and chosen and known else None

    def _scroll_to_chosen(self, look: Look) -> None:
        ids = self._ids(self._active)
        if self._chosen in ids:
            top = ids.index(self._chosen) * look.lines
            scroll = self.query_one("#compare-scroll")
            height = scroll.size.height
            if not scroll.scroll_offset.y <= top <= scroll.scroll_offset.y + height - look.lines:
                scroll.scroll_to(y=max(top - height // 2, 0), animate=False)

    def _show_results(self) -> None:
        width = max(self.query_one("#compare-scroll").scrollable_content_region.width, 1)
        found = [self._pinned_result(chunk_id) for chunk_id in self._pinned]
        first, second = found
        if first is None or second is None:
            lines = [Content("A pinned chunk is not among the candidates of this search."),
                     Content("x says why; tab compares two rankings.")]  # fmt: skip
        else:
            lines = two_results(self._ranked, first, second, width, self.glyphs)
        self.query_one("#compare-lists", Static).update(Content("\n").join(lines))

    def _pinned_result(self, chunk_id: str) -> Hit | Drop | None:
        return find(self._ranked, chunk_id) if chunk_id in self._ranked.pool.chunks else None

    # --- keys -----------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only with two pinned chunks there is another comparison; it has no sides to cycle."""
        if action == "mode":
            return bool(self._pinned)
        if action in ("cycle", "side", "move"):
            return not self._results
        return True

    def _ids(self, which: int) -> list[str]:
        ranked = self._sides[which].ranked
        return [hit.chunk.id for hit in ranked.hits] if ranked is not None else []

    def action_cycle(self, which: int, step: int) -> None:
        """Show the next ranking on a side."""
        names = list(self.choices)
        at = (names.index(self._sides[which].name) + step) % len(names)
        self._said = ""
        self._take(which, Side(names[at], self.choices[names[at]]))
        self._show()

    def action_swap(self) -> None:
        """Exchange the sides."""
        if self._results:
            self._pinned = self._pinned[::-1]
        else:
            self._swap_sides()
        self._show()

    def _swap_sides(self) -> None:
        self._sides.reverse()
        for which, side in enumerate(self._sides):
            if side.ranked is None and not side.error:
                self._take(which, replace(side))

    def action_side(self, which: int) -> None:
        """Move in the list of a side, from the same chunk where it has it."""
        self._active = which
        if self._chosen not in self._ids(which):
            self._chosen = next(iter(self._ids(which)), self._chosen)
        self._show()

    def action_move(self, step: int) -> None:
        """Go to the next or the previous result of the active side."""
        ids = self._ids(self._active)
        if ids:
            at = ids.index(self._chosen) + step if self._chosen in ids else 0
            self._chosen = ids[min(max(at, 0), len(ids) - 1)]
            self._show()

    def action_mode(self) -> None:
        """Compare two rankings, or the two pinned results."""
        self._results = not self._results
        self.query_one("#compare-scroll").scroll_home(animate=False)
        self._show()

    def action_choose(self) -> None:
        """Go to the chosen result in the list."""
        self.dismiss(self._pinned[0] if self._results else self._chosen)

    def action_explain(self) -> None:
        """Open the whole arithmetic of the chosen result by the list of the active side.

        Of two pinned results the first that is no candidate is explained, else A.
        """
        side, chunk_id = self._sides[self._active], self._chosen
        if self._results:
            side = Side(CURRENT, self._ranking, self._ranked)
            pool = self._ranked.pool.chunks
            chunk_id = next((pin for pin in self._pinned if pin not in pool), self._pinned[0])
        if side.ranked is not None and chunk_id is not None:
            self._explain(side.ranked, chunk_id, side.ranking)


CONFIGURED, CURRENT = "configured", "current"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two rankings; without a list while it is searched for, or where that failed."""

    name: str
    ranking: Ranking
    ranked: Ranked | None = None
    error: str = ""


def choices(
    configured: Ranking, current: Ranking, profiles: Mapping[str, Ranking]
) -> Mapping[str, Ranking]:
    """Every ranking that a side can show, by name: configured, current, then the named ones."""
    return {CONFIGURED: configured, CURRENT: current, **profiles}


def first_names(
    configured: Ranking, current: Ranking, profiles: Mapping[str, Ranking]
) -> tuple[str, str]:
    """Configured and current; where they are one, the current ranking and the next profile."""
    if configured != current:
        return CONFIGURED, CURRENT
    names = list(profiles)
    at = names.index(current.profile) if current.profile in profiles else -1
    following = names[at + 1 :] + names[: at + 1]
    return CURRENT, next((one for one in following if profiles[one] != current), CONFIGURED)
