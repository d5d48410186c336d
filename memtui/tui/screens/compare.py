"""Two rankings of one search side by side, or the arithmetic of two of its results."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen

from memtui.engine import Engine
from memtui.memory.documents import day_of_path
from memtui.model import Drop, Hit, Leg, Ranked, Ranking, Stage
from memtui.ranking.context import with_weights
from memtui.ranking.pipeline import difference, needs_search
from memtui.ranking.trace import better, cited_lines, deciding_step, find_in
from memtui.report import words
from memtui.report.arithmetic import ScoreStep, axis, cited, place, score_steps
from memtui.report.explanation import differences, verdict_words
from memtui.text.sanitize import safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.present import STYLES, step_glyph
from memtui.tui.screens.choosers import choose_profile
from memtui.tui.screens.common import TALL, after_refresh
from memtui.tui.screens.dialogs import DetailScreen
from memtui.tui.widgets.bars import KeyBar, ScreenBar, draw_key
from memtui.tui.widgets.chart import Canvas
from memtui.tui.widgets.lists import Draw, TextBlock
from memtui.tui.widgets.parameter_panes import effect
from memtui.tui.widgets.result_rows import SLACK, cached_snippet, moved_mark, place_text

if TYPE_CHECKING:
    from memtui.tui.screens.search.search_screen import SearchScreen

CONFIGURED, CURRENT = "configured", "current"
_SETTING_LINES = 4
_GUIDE = "A line joins the same result in both lists."
_MOST_LINES = 3
"""Lines of a row where there is room."""
_TAKE = ("×", fmt.MINUS)
NAMES = ("A", "B")
"""The sides, left and right."""
_SCORED = 20
"""Cells of a list from which on it shows scores."""
_WORD, _VALUE, _RANK = 13, 8, 5
_SAME = "the same parameters"
_NAME = 38
"""Cells of the longest name of a parameter."""
_DIFFERENCE = 9
_TAIL = 3
"""Cells of the mark of the step that decides."""
_TEXT_LINES = 14
_FORMULA, _BAR = 24, 4
_GUTTERS = ((150, 30), (96, 20), (48, 12), (0, 6))
"""Cells between the lists, by the least width."""

Scored = Hit | Drop


class Side(Struct, frozen=True):
    """One of the two rankings; without a list while it is searched for, or where that failed."""

    name: str
    ranking: Ranking
    ranked: Ranked | None = None
    error: str = ""

    @property
    def ids(self) -> list[str]:
        return list(self.ranked.ranks) if self.ranked is not None else []


class CompareScreen(Screen[None]):
    """Two lists, left A, right B, with a cursor in one of them; or two pinned chunks."""

    CSS_PATH = "compare.tcss"
    BINDINGS = bindings("compare")

    def __init__(self, search: SearchScreen, engine: Engine, ranked: Ranked) -> None:
        """Compare the list of a search screen with that of another ranking, or two pinned chunks.

        A search for other candidates asks no service that the query itself was not sent to.
        """
        super().__init__()
        self.search, self.ranked, self.ranking = search, ranked, search.state.ranking
        self._engine = engine
        self.pinned = tuple(search.state.pins) if len(search.state.pins) == 2 else ()
        self.chosen = search.state.selected_id
        """The chunk of the row that the cursor stands on."""
        self._typing = not search.foreign or search.state.finished_text != search.state.text
        self._shows_results = bool(self.pinned)
        names = [CONFIGURED, CURRENT]
        if search.options.ranking == self.ranking:
            others = (name for name, one in self.choices.items() if one != self.ranking)
            names = [CURRENT, next(others, CONFIGURED)]
        outside = (at for at, one in enumerate(self.pinned) if one not in ranked.pool.chunks)
        self.active = next(outside, 0) if self.pinned else names.index(CURRENT)
        """The side of the cursor, 0 or 1; to begin with that of the list on the search screen."""
        self.sides = [Side(name, self.choices[name]) for name in names]

    @property
    def choices(self) -> Mapping[str, Ranking]:
        """Every ranking that a side can show, by name: configured, current, then the named ones."""
        configured = {CONFIGURED: self.search.options.ranking}
        return {**configured, CURRENT: self.ranking, **self.search.rankings.named()}

    def follow_list(self, ranked: Ranked, ranking: Ranking) -> None:
        """Go on with another answer of the same search, or with another present ranking."""
        if (ranked.pool, ranking) != (self.ranked.pool, self.ranking):
            self.ranked, self.ranking = ranked, ranking
            if self.is_mounted:
                self.sides = [self._ranked_side(side.name) for side in self.sides]
                self.action_side(self.active)

    def compose(self) -> ComposeResult:
        yield ScreenBar()
        yield TextBlock(id="compare-settings")
        with Vertical(id="compare-box"):
            yield TextBlock(id="compare-sides")
            with VerticalScroll(id="compare-scroll", can_focus=False):
                yield TextBlock(id="compare-lists")
        yield TextBlock(id="compare-detail")
        yield KeyBar()

    def on_mount(self) -> None:
        self.sides = [self._ranked_side(side.name) for side in self.sides]
        self.action_side(self.active)

    def on_resize(self, event: events.Resize) -> None:
        after_refresh(self, self._show)

    def _ranked_side(self, name: str) -> Side:
        """Return a side with its list; where it takes other candidates, search for that first."""
        pool, search = self.ranked.pool, self._engine.search
        side = Side(name, self.choices.get(name, self.ranking))
        if side.ranking == self.ranking:
            return replace(side, ranked=self.ranked)
        if not needs_search(pool, self.ranking, side.ranking):
            return replace(side, ranked=search.rerank(pool, side.ranking))

        def answered(ranked: Ranked | None, error: str = "") -> None:
            # Unless the side shows something else by now.
            if (which := next((at for at, one in enumerate(self.sides) if one is side), -1)) >= 0:
                self.sides[which] = replace(side, ranked=ranked, error=error)
                self.action_side(self.active)

        in_background(
            self,
            lambda: search.ask(pool.query, ranking=side.ranking, typing=self._typing),
            answered,
            lambda error: answered(None, error),
        )
        return side

    def _show(self) -> None:
        results, answers = self._shows_results, [side.ranked for side in self.sides]
        self.set_class(results, "-results")
        box, query = self.query_one("#compare-box"), safe_line(self.ranked.pool.query)
        subject = "two results" if results else "two rankings"
        box.border_title = Content.assemble(f"Compare {subject}   ", (query, fmt.MUTED))
        first, second = answers
        box.border_subtitle = ""
        if not results and first is not None and second is not None:
            box.border_subtitle = f"from A to B: {effect(difference(first, second))}"
        rows = max([1, *(len(side.ids) for side in self.sides)])
        room = self.size.height - 10 - (3 if self.size.height >= TALL else 0)
        lines = min(max(room // rows, 1), _MOST_LINES)
        terms = self.search.state.terms

        def lists(width: int) -> list[Content]:
            return comparison_lines(answers, width, lines, self.chosen, self.active, terms)

        draws: dict[str, Draw] = {
            "settings": self._settings_lines,
            "sides": self._heads,
            "lists": self._result_lines if results else lists,
            "detail": self._detail,
        }
        for name, draw in draws.items():
            self.query_one(f"#compare-{name}", TextBlock).show(draw)
        ids = self.sides[self.active].ids
        if not results and self.chosen in ids:
            scroll, top = self.query_one("#compare-scroll"), ids.index(self.chosen) * lines
            height, offset = scroll.size.height, scroll.scroll_offset.y
            if not offset <= top <= offset + height - lines:
                scroll.scroll_to(y=max(top - height // 2, 0), animate=False)
        self.refresh_bindings()

    def _settings_lines(self, width: int) -> list[Content]:
        """Write what the sides are and what differs, in four lines; what has no room is counted."""
        abouts, changes = list[Content](), list[Content]()
        stages = {stage for side in self.sides for stage in side.ranking.stages}
        for name, side in zip(NAMES, self.sides, strict=True):
            about = words.PROFILE_WORDS.get(side.name, "your own")
            if side.name == CURRENT and self.search.options.ranking == self.ranking:
                about = "as configured, nothing changed"
            if side.error:
                about = f"could not search: {side.error}"
            style = "$state-warn" if side.error else ""
            abouts.append(Content.styled(safe_line(f"{name} {about}"), style))
            if Stage.CONTEXT in stages - {*side.ranking.stages}:
                changes.append(Content.styled(f"{name} {words.WITHOUT_CONTEXT}", "bold"))
        for name, was, now in self._differing():
            changes.append(Content.assemble((f"{name} ", fmt.MUTED), f"{was}→", (now, "bold")))
        guide = draw_key("P", f"another profile for {NAMES[self.active]}")
        lines = [*fmt.flowing(abouts, width), Content.assemble((_GUIDE, fmt.MUTED), "   ", guide)]
        parts, shown = changes or [Content.styled(_SAME, fmt.MUTED)], len(changes)
        while len(rows := fmt.flowing(parts, width)) > _SETTING_LINES - len(lines) and shown > 1:
            shown -= 1
            more = Content.styled(f"{len(changes) - shown} more: press ", fmt.MUTED)
            parts = [*changes[:shown], more + draw_key("comma")]
        return [fmt.fit(line, width) for line in (*lines, *rows)]

    def _differing(self) -> list[tuple[str, str, str]]:
        evidence = self.ranked.pool.evidence
        return differences(*(with_weights(side.ranking, evidence) for side in self.sides))

    def _heads(self, width: int) -> list[Content]:
        (column, gutter), heads = columns(width - 1), []
        for which, (letter, side) in enumerate(zip(NAMES, self.sides, strict=True)):
            profile = f", profile {side.ranking.profile}" * (side.name in (CONFIGURED, CURRENT))
            searching = "searching…" if side.ranked is None and not side.error else ""
            head = "  ".join(filter(None, (f" {letter}", side.name + profile, searching)))
            style = "$primary bold reverse" if which == self.active else "$primary bold"
            heads.append(fmt.fit(Content.styled(safe_line(head), style), column, pad=True))
        names = f"{'place   score  # ':>{column}}{'':{gutter}}  # move  score  place"
        return [Content(" " * gutter).join(heads), fmt.fit(Content.styled(names, fmt.MUTED), width)]

    def _detail(self, width: int) -> list[Content]:
        parts, where = [], Content("")
        for which, (name, side) in enumerate(zip(NAMES, self.sides, strict=True)):
            standing = "not a candidate"
            if side.ranked is not None and (one := find_in(side.ranked, self.chosen)) is not None:
                standing = _standing(side.ranked, one)
                if which == self.active or not where:
                    where = Content.styled(cited(one), "bold")
            parts.append(Content.assemble((f"{name} ", "$primary bold"), standing))
        return [where, Content("   ").join(parts)] if where else []

    def _result_lines(self, width: int) -> list[Content]:
        first, second = (find_in(self.ranked, chunk_id) for chunk_id in self.pinned)
        if first is not None and second is not None:
            return two_results(self.ranked, first, second, width, self.active)
        pins = [self.search.state.pins[chunk_id] for chunk_id in self.pinned]
        lines = [
            Content.assemble((f"{name} {place(pin.chunk)}  ", "bold"), pin.standing(self.ranked))
            for name, pin in zip(NAMES, pins, strict=True)
        ]
        lines += [Content(f"x says why of {NAMES[self.active]}; tab compares two rankings.")]
        return [part for line in lines for part in line.wrap(width)]

    def worded(self, binding: Binding) -> Binding:
        others = "rankings" if self._shows_results else "pins"
        if self.pinned and binding.action == "next_part":
            return dataclasses.replace(binding, description=others)
        hides = {"swap": not self._shows_results, "differences": bool(self.pinned)}
        return dataclasses.replace(binding, show=binding.show and not hides.get(binding.action))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Two pinned chunks have no profiles; from a side leads only the key to the other one."""
        if action == "side":
            return parameters[0] != self.active
        if action == "read":
            return find_in(*self._row()) is not None
        return action not in ("profile", "differences") or not self._shows_results

    def action_profile(self) -> None:
        """Choose another ranking for the list of the cursor."""
        which, side = self.active, self.sides[self.active]

        def chosen(name: str | None) -> None:
            if name is not None:
                self.sides[which] = self._ranked_side(name)
                self.action_side(which)

        shown = self.choices, side.ranking, side.ranked, side.name
        self.app.push_screen(choose_profile(self._engine, *shown, f"list {NAMES[which]}"), chosen)

    def action_differences(self) -> None:
        """Show every parameter in which the rankings differ."""
        lines = [
            Content.assemble((f"{name:<{_NAME}} {was} → ", fmt.MUTED), (now, "bold"))
            for name, was, now in self._differing()
        ]
        first, second = (side.name for side in self.sides)
        title = f"What differs: A {first} → B {second}"
        self.app.push_screen(DetailScreen(title, lines or [Content(_SAME)]))

    def action_swap(self) -> None:
        if self._shows_results:
            self.pinned = self.pinned[::-1]
        else:
            self.sides.reverse()
        self.action_side(1 - self.active)

    def action_side(self, which: int) -> None:
        """Move in the list of a side, from the same chunk where it has it."""
        self.active = which
        ids = self.sides[which].ids
        if self.chosen not in ids:
            self.chosen = next(iter(ids), self.chosen)
        self._show()

    def action_next_part(self) -> None:
        """Go on to the pinned chunks or back to the rankings; without two to the other list."""
        self._shows_results = bool(self.pinned) and not self._shows_results
        self.query_one("#compare-scroll").scroll_home(animate=False)
        self.action_side(self.active if self.pinned else 1 - self.active)

    def action_move(self, step: int) -> None:
        """Choose another row of the list; between two results there are none, the text scrolls."""
        if self._shows_results:
            scroll = self.query_one("#compare-scroll")
            scroll.scroll_relative(y=step, animate=False, immediate=True)
        elif ids := self.sides[self.active].ids:
            at = ids.index(self.chosen) + step if self.chosen in ids else 0
            self.chosen = ids[min(max(at, 0), len(ids) - 1)]
            self._show()

    def _row(self) -> tuple[Ranked | None, str | None]:
        """Return the list and the chunk of the cursor; that of two pinned chunks is one."""
        if self._shows_results:
            return self.ranked, self.pinned[self.active]
        return self.sides[self.active].ranked, self.chosen

    def action_read(self) -> None:
        """Read the note of the chosen row at the line that it is cited by."""
        if (one := find_in(*self._row())) is not None:
            self.search.notes.read_chunk(one.chunk, *cited_lines(one))

    def action_explain(self) -> None:
        """Open the whole arithmetic of the chosen row by the ranking of its list."""
        ranked, chunk_id = self._row()
        if ranked is not None and chunk_id is not None:
            ranking = self.ranking if self._shows_results else self.sides[self.active].ranking
            self.search.notes.explain_in(ranked, chunk_id, ranking)


def _standing(ranked: Ranked, one: Scored) -> str:
    """Return the rank and the score of a result, or why it is not in the list."""
    if isinstance(one, Drop):
        return verdict_words(ranked, one)
    return f"rank {one.rank}, score {words.result_score(ranked, one)}"


def columns(width: int) -> tuple[int, int]:
    """Return the cells of each list, and those between them."""
    gutter = next(cells for least, cells in _GUTTERS if width >= least)
    return max((width - gutter) // 2, 1), gutter


def comparison_lines(
    sides: Sequence[Ranked | None],
    width: int,
    height: int,
    chosen: str | None = None,
    active: int = 1,
    terms: tuple[str, ...] = (),
) -> list[Content]:
    """Draw two lists with lines between the places of each chunk; a missing list is empty.

    A row has `height` lines: the place, then the part of the text that holds `terms`, then a blank
    one. `active` is the side that the keys move in.
    """
    before, after = (ranked.ranks if ranked is not None else {} for ranked in sides)
    column, gutter = columns(width)

    def cells(hit: Hit | None, side: int) -> list[Content]:
        """Draw a row of one list, its rank next to the lines between the lists."""
        lines = [Content("")] * height
        ranked = sides[side]
        if hit is None or ranked is None:
            return [fmt.fit(line, column, pad=True) for line in lines]
        is_chosen, is_active = hit.chunk.id == chosen, side == active
        marker = (glyphs.MARKER if is_chosen and is_active else " ", "$primary bold")
        score = f"{words.result_score(ranked, hit):>{7 - side}}" if column >= _SCORED else ""
        rank = (f"{hit.rank:>{3 - side}}", "bold")
        mark, style = moved_mark(before.get(hit.chunk.id), hit.rank)
        moved = (f"{mark or '=':<4}", style or fmt.MUTED)
        tail = (rank, " ", moved, score, "  ") if side else (score, rank, " ")
        room = max(column - Content.assemble(*tail).cell_length - 1, 1)
        where = place_text(hit.chunk.path, cited_lines(hit)[0], room)
        gap = " " * max(room - where.cell_length, 0)
        parts = (*tail, where) if side else (gap, where, *tail)
        lines[0] = Content.assemble(marker, *parts)
        if height > 1:
            indent, end = (8, 0) if side else (2, 3)
            room = max(column - indent - end, 4)
            text = cached_snippet(words.best_text(hit, room), terms, room + SLACK).text
            shown = fmt.fit(Content(" ".join(safe_line(text).split())), room)
            lines[1] = " " * indent + shown.stylize(fmt.MUTED)
        # The cursor is in one list; in the other one the same chunk is marked, not chosen.
        background = f"on {'$primary 30%' if is_active else '$foreground 7%'}" if is_chosen else ""
        padded = [fmt.fit(line, column, pad=True) for line in lines]
        return [line.stylize_before(background) for line in padded[:2]] + padded[2:]

    left, right = (ranked.hits if ranked is not None else () for ranked in sides)
    canvas = Canvas(gutter, max(len(left), len(right), 1) * height)
    end, flat = gutter * canvas.across - 1, canvas.across
    dash = "╌" * 2
    # Words stand over lines, and the chosen line, which is thicker, over the others.
    for one in sorted(
        {**after, **before}, key=lambda one: (one not in before or one not in after, one == chosen)
    ):
        if one not in after:
            canvas.put(0, (before[one] - 1) * height, f"{dash} out", "$state-error bold")
        elif one not in before:
            canvas.put(gutter - 6, (after[one] - 1) * height, f"new {dash}", "$state-warn bold")
        else:
            is_chosen, gained = one == chosen, before[one] - after[one]
            style = "$state-ok" if gained > 0 else "$state-error" if gained else "$foreground 45%"
            start, stop = (canvas.middle((ranks[one] - 1) * height) for ranks in (before, after))
            points = [(0, start), (flat, start), (end - flat, stop), (end, stop)]
            canvas.path(points, f"{style} bold" if is_chosen else style, is_thick=is_chosen)
    lines: list[Content] = []
    for hit, other in zip_longest(left, right):
        for here, there in zip(cells(hit, 0), cells(other, 1), strict=True):
            lines.append(Content("").join([here, canvas.row(len(lines)), there]))
    return lines


def two_results(
    ranked: Ranked, first: Scored, second: Scored, width: int, active: int = 0
) -> list[Content]:
    """Draw the steps of both as mirrored bars with values, ranks and the difference of the second.

    With the shares of context. What made the better one the better one is marked, and said in
    words above them. `active` is the result that the keys act on.
    """
    results, half = (first, second), width // 2 - 1
    decided, by_share, turns = deciding_step(first, second)
    steps = [_steps_of(ranked, one) for one in results]
    heads, texts = [], []
    for which, (name, result) in enumerate(zip(NAMES, results, strict=True)):
        style = f"$primary bold{' reverse' if which == active else ''}"
        head = Content.assemble((f" {name} ", style), (f" {cited(result)}", "bold"))
        style = "$state-ok" if isinstance(result, Hit) else "$state-error"
        heads.append([head, Content.styled(f" {_standing(ranked, result)}", style)])
        length = half * _TEXT_LINES
        text = cached_snippet(words.best_text(result, length), (), length).text
        texts.append(Content.styled(safe_line(text), fmt.MUTED).wrap(half - 1)[:_TEXT_LINES])
    above, below = (
        [
            fmt.fit(left, half, pad=True) + " " * (width - 2 * half) + fmt.fit(right, half)
            for left, right in zip_longest(*halves, fillvalue=Content(""))
        ]
        for halves in (heads, texts)
    )
    # One that was lost early has not all of them.
    kinds = dict.fromkeys(kind for one in sorted(steps, key=len, reverse=True) for kind in one)
    pairs = {kind: [steps_of.get(kind) for steps_of in steps] for kind in kinds}

    why = Content("Nothing decides between them: neither was a candidate, or they are one.")
    if not ranked.pool.is_scored:
        days = [one.chunk.day or day_of_path(one.chunk.path) or "undated" for one in results]
        why = Content(f"Filters alone: ordered by date, no scores. A {days[0]}, B {days[1]}")
    if decided is not None and pairs:
        ahead, behind = NAMES if better(first, second) is first else NAMES[::-1]
        label = words.leg_name(decided) if isinstance(decided, Leg) else words.step_name(decided)
        formulas = [
            f"{name}: {step.formula}{f' ({step.brief})' if step.brief else ''}"
            for name, step in zip(NAMES, pairs.get((decided, by_share), ()), strict=False)
            if step is not None and step.formula
        ]
        why = Content.assemble(
            (f"{ahead} is ahead of {behind}", "bold"),
            ": " if turns else ". Largest difference: ",
            (words.FEATURE_WORDS.get(by_share, label), "bold $primary"),
            " decides. " if turns else ". ",
            ("; ".join(formulas), fmt.MUTED),
        )
    word = max([_WORD, *(len(step.word) + 2 for pair in pairs.values() for step in pair if step)])
    room = (width - word - 2 * (_VALUE + _RANK) - _DIFFERENCE - _TAIL) // 2
    outer = _FORMULA if room >= _FORMULA + _BAR else 0
    cells = max(room - outer, _BAR)
    names_of_columns = (
        f"{'':>{outer}}{'rank':<{_RANK}}{'score':>{_VALUE}}{'':>{cells}}{'':^{word}}"
        f"{'':>{cells}}{'score':>{_VALUE}}{'rank':>{_RANK}}{'':>{outer}}{'B gains':>{_DIFFERENCE}}"
    )
    lines = [Content.styled(names_of_columns, fmt.MUTED)] if pairs else []
    # What context adds up has another scale than what is before it.
    scales = dict.fromkeys(kinds, axis(ranked))
    if any(feature for _, feature in kinds):
        early = [kind for kind in kinds if kind[0] in (*Leg, Stage.FUSION)]
        values = (step.value or 0.0 for kind in early for step in pairs[kind] if step is not None)
        scales |= dict.fromkeys(early, max(values) or 1.0)
    apart = 0.0
    for (kind, feature), pair in pairs.items():
        present = [step for step in pair if step is not None]
        if feature and not any(step.value for step in present):
            continue
        # A step that only keeps or loses a result has no score of its own to compare.
        if isinstance(kind, Stage) and not any(step.sign for step in present):
            pair = [step and replace(step, value=None) for step in pair]
        # The columns subtract as they stand there; a match that gives nothing beside one counts 0.
        shown = [step.value if step is not None else None for step in pair]
        if isinstance(kind, Leg) and any(shown):
            shown = [value or 0.0 for value in shown]
        one, other = shown
        change, style = fmt.NOTHING, ""
        if one is not None and other is not None:
            before, apart = apart, apart if feature else other - one
            gain = round(other, 3) - round(one, 3)
            if any(step.sign in _TAKE for step in present):
                gain = round(apart - before, 3)
            change = f"{'+' if gain > 0 else ''}{fmt.score(gain)}"
            style = "$state-ok" if gain > 0 else "$state-error" if gain < 0 else fmt.MUTED
        scale = scales[kind, feature]
        line = Content.assemble(
            _side(pair[0], True, cells, outer, scale),
            (f"{present[0].word:^{word}}", STYLES[present[0].tone]),
            _side(pair[1], False, cells, outer, scale),
            (f"{change:>{_DIFFERENCE}}", style),
        )
        if (kind, feature) == (decided, by_share):
            line = Content.assemble(line, (" ◀ ", "$primary"))
            line = fmt.fit(line, width, pad=True).stylize_before("bold on $primary 22%")
        lines.append(fmt.fit(line, width))
    blank_line = [Content("")]
    return [*above, *blank_line, *why.wrap(width), *blank_line, *lines, *blank_line, *below]


def _steps_of(ranked: Ranked, scored: Scored) -> dict[tuple[Leg | Stage, str], ScoreStep]:
    """Return the steps of a score by their kind, before the context its shares by their feature."""
    steps = score_steps(ranked, scored)
    each = (one for step in steps for one in (*step.shares, step))
    return {(one.kind, one.feature): one for one in each}


def _side(step: ScoreStep | None, mirrored: bool, cells: int, outer: int, scale: float) -> Content:
    """Draw a step of one result from the middle outwards: its bar, value, rank and formula.

    The bar is solid for what is left after the step, then comes what the step took.
    """
    solid_cells = lost_cells = 0
    glyph = style = solid = solid_style = ""
    if step is not None and step.value is not None:
        glyph, style = step_glyph(step), STYLES[step.tone]
        is_part = bool(step.feature) or isinstance(step.kind, Leg)
        solid, solid_style = (glyph, style) if is_part else (glyphs.VECTOR, "$foreground 60%")
        before = step.extent.high if step.extent is not None and step.sign in _TAKE else 0.0
        solid_cells, cells_before = (
            min(cells - 1, round(max(value, 0.0) / scale * (cells - 1)))
            for value in (step.value, before)
        )
        lost_cells = max(0, cells_before - solid_cells)
    number = fmt.score(step.value if step is not None else None)
    rank = fmt.rank(step.rank) if step is not None and step.rank else ""
    formula = fmt.fit(Content(step.formula if step else ""), outer - 1, pad=True)
    parts = [
        Content.styled(solid * solid_cells, solid_style),
        Content.styled(glyph * lost_cells, style),
        Content(" " * (cells - solid_cells - lost_cells)),
        Content.styled(f"{number:>{_VALUE}}", "bold"),
        Content.styled(f"{rank:{'<' if mirrored else '>'}{_RANK}}", fmt.MUTED),
        *([Content(" "), formula.stylize(fmt.MUTED)] if outer else []),
    ]
    return Content("").join(reversed(parts) if mirrored else parts)
