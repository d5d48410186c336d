"""Two rankings of one search side by side, or the arithmetic of two of its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen

from memtui.engine import Engine
from memtui.model import Drop, Hit, Leg, Ranked, Ranking, Stage
from memtui.ranking.pipeline import difference, needs_search
from memtui.ranking.trace import better, compare_settings, deciding_step, find
from memtui.report.arithmetic import ScoreStep, axis, place, score_steps
from memtui.report.explanation import value_words, verdict_words
from memtui.report.words import PARAMETER_WORDS, leg_name, step_name
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui import glyphs
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings, next_of
from memtui.tui.present import STYLES, step_glyph
from memtui.tui.screens.common import TALL, after_refresh, close
from memtui.tui.widgets.chart import Canvas
from memtui.tui.widgets.key_bar import KeyBar
from memtui.tui.widgets.lists import Draw, TextBlock
from memtui.tui.widgets.result_rows import cached_snippet, moved_mark, place_text
from memtui.tui.widgets.screen_bar import ScreenBar

if TYPE_CHECKING:
    from memtui.tui.screens.search.search_screen import SearchScreen

CONFIGURED, CURRENT = "configured", "current"
_SETTING_LINES = 2
_MOST_LINES = 3
"""Lines of a row where there is room."""
NAMES = ("A", "B")
"""The sides, left and right."""
_SCORED = 20
"""Cells of a list from which on it shows scores."""
_SLACK = 24
"""Characters that a part of a text is asked for beyond the room, which is then filled."""
_WORD, _VALUE, _RANK = 13, 8, 5
_DIFFERENCE = 9
_TAIL = 3
"""Cells of the mark of the step that decides."""
_TEXT_LINES = 14
_FORMULA = 24
_WIDE = 110
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
        """The chunks of its list."""
        return list(self.ranked.ranks) if self.ranked is not None else []


class CompareScreen(Screen[str | None]):
    """Left A, right B; its result is the chunk that Enter was pressed on."""

    CSS_PATH = "compare.tcss"
    BINDING_GROUP_TITLE = "Compare"
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
        """The chunk that is looked at."""
        self.active = 1
        """The side that the keys move in: 0 or 1."""
        self._typing = not search.is_foreign or search.state.finished_text != search.state.text
        self._shows_results = bool(self.pinned)
        self._note, names = "", [CONFIGURED, CURRENT]
        options = search.options
        if options.ranking == self.ranking:
            self._note = "Nothing differs from the configured ranking: beside it, another profile."
            others = (name for name, one in options.profiles.items() if one != self.ranking)
            names = [CURRENT, next(others, CONFIGURED)]
        self.sides = [Side(name, self.choices[name]) for name in names]

    @property
    def choices(self) -> Mapping[str, Ranking]:
        """Every ranking that a side can show, by name: configured, current, then the named ones."""
        options = self.search.options
        return {CONFIGURED: options.ranking, CURRENT: self.ranking, **options.profiles}

    def follow_list(self, ranked: Ranked, ranking: Ranking) -> None:
        """Go on with another answer of the same search, or with another present ranking."""
        if (ranked.pool, ranking) != (self.ranked.pool, self.ranking):
            self.ranked, self.ranking = ranked, ranking
            if self.is_mounted:
                self.sides = [self._ranked_side(side.name) for side in self.sides]
                self._show()

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
                self._show()

        in_background(
            self,
            lambda: search.ask(pool.query, ranking=side.ranking, typing=self._typing),
            answered,
            lambda error: answered(None, error),
        )
        return side

    def _show(self) -> None:
        results, (first, second) = self._shows_results, self.sides
        self.set_class(results, "-results")
        counts = ""
        if not results and first.ranked is not None and second.ranked is not None:
            changes = difference(first.ranked, second.ranked)
            moved, entered, left = map(len, (changes.moved, changes.entered, changes.left))
            counts = f"moved {moved}, in {entered}, out {left}" if changes else "the same list"
        box, query = self.query_one("#compare-box"), safe_line(self.ranked.pool.query)
        what = "two results" if results else "two rankings"
        box.border_title = Content.assemble(f"Compare {what}   ", (query, fmt.MUTED))
        box.border_subtitle = counts
        rows = max([1, *(len(side.ids) for side in self.sides)])
        room = self.size.height - 10 - (3 if self.size.height >= TALL else 0)
        lines = min(max(room // rows, 1), _MOST_LINES)
        answers = (first.ranked, second.ranked)
        terms, braille = self.search.state.terms, not self.search.options.ascii_only

        def lists(width: int) -> list[Content]:
            return comparison_lines(
                answers, width, lines, self.chosen, self.active, terms, braille=braille
            )

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
            height, seen = scroll.size.height, scroll.scroll_offset.y
            if not seen <= top <= seen + height - lines:
                scroll.scroll_to(y=max(top - height // 2, 0), animate=False)
        self.refresh_bindings()

    def _settings_lines(self, width: int) -> list[Content]:
        """Write what differs, in two lines; what has no room there is counted."""
        notes = [self._note] if self._note else []
        for name, side in zip(NAMES, self.sides, strict=True):
            notes += [f"{name} could not search: {safe_line(side.error)}"] if side.error else []
        lines = [fmt.fit(Content.styled(note, "$state-warn"), width) for note in notes]
        words = []
        different = compare_settings(*(side.ranking for side in self.sides))
        for key, (first, second) in different.items():
            name = PARAMETER_WORDS.get(key, key.replace(".", " ").replace("_", " "))
            if key == "stages":
                words.append(Content.styled("other steps", "bold"))
            elif key != "profile":
                change = f"{value_words(first)}→", (value_words(second), "bold")
                words.append(Content.assemble((f"{name} ", fmt.MUTED), *change))
        rows: list[list[Content]] = [[]]
        for word in words or [Content.styled("the same parameters", fmt.MUTED)]:
            if rows[-1] and Content("   ").join([*rows[-1], word]).cell_length > width:
                rows.append([])
            rows[-1].append(word)
        lines += [fmt.fit(Content("   ").join(row), width) for row in rows[:_SETTING_LINES]]
        if more := sum(map(len, rows[_SETTING_LINES:])):
            shown, room = rows[_SETTING_LINES - 1], width - len("  +99 more")
            while len(shown) > 1 and Content("   ").join(shown).cell_length > room:
                shown.pop()
                more += 1
            rest = Content.styled(f"  +{more} more", fmt.MUTED)
            lines[-1] = fmt.fit(Content("   ").join(shown), width - rest.cell_length) + rest
        return lines

    def _heads(self, width: int) -> list[Content]:
        (column, gutter), heads = columns(width - 1), []
        for which, (letter, side) in enumerate(zip(NAMES, self.sides, strict=True)):
            style = "bold reverse" if which == self.active else "bold"
            profile = side.ranking.profile if side.name in (CONFIGURED, CURRENT) else ""
            searching = "searching…" if side.ranked is None else ""
            state = "could not search" if side.error else searching
            head = Content.assemble(
                (f" {letter} ", f"$primary {style}"),
                (f" {safe_line(side.name)}", "bold"),
                (f"  {safe_line(profile)}" if profile else "", fmt.MUTED),
                (f"  {state}" if state else "", "$state-warn"),
            )
            heads.append(fmt.fit(head, column, pad=True))
        return [Content(" " * gutter).join(heads)]

    def _detail(self, width: int) -> list[Content]:
        parts, chunk = [], None
        for name, side in zip(NAMES, self.sides, strict=True):
            words = "not a candidate"
            if side.ranked is not None and (one := _scored(side.ranked, self.chosen)) is not None:
                chunk, words = one.chunk, verdict_words(side.ranked, one)
                if isinstance(one, Hit):
                    words = f"#{one.rank}  {fmt.score(one.effective)}"
            parts.append(Content.assemble((f"{name} ", "$primary bold"), words))
        if chunk is None:
            return []
        return [Content.styled(place(chunk), "bold"), Content("   ").join(parts)]

    def _result_lines(self, width: int) -> list[Content]:
        first, second = (_scored(self.ranked, chunk_id) for chunk_id in self.pinned)
        if first is None or second is None:
            return [
                Content("A pinned chunk is not among the candidates of this search."),
                Content("x says why; tab compares two rankings."),
            ]
        return two_results(self.ranked, first, second, width)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only with two pinned chunks there is another comparison; it has no sides to cycle."""
        if action == "mode":
            return bool(self.pinned)
        return action not in ("profile", "side", "move") or not self._shows_results

    def action_profile(self) -> None:
        name = next_of(self.choices, self.sides[self.active].name)
        self._note, self.sides[self.active] = "", self._ranked_side(name)
        self._show()

    def action_swap(self) -> None:
        if self._shows_results:
            self.pinned = self.pinned[::-1]
        else:
            self.sides.reverse()
        self._show()

    def action_side(self, which: int) -> None:
        """Move in the list of a side, from the same chunk where it has it."""
        self.active = which
        ids = self.sides[which].ids
        if self.chosen not in ids:
            self.chosen = next(iter(ids), self.chosen)
        self._show()

    def action_move(self, step: int) -> None:
        if ids := self.sides[self.active].ids:
            at = ids.index(self.chosen) + step if self.chosen in ids else 0
            self.chosen = ids[min(max(at, 0), len(ids) - 1)]
            self._show()

    def action_mode(self) -> None:
        self._shows_results = not self._shows_results
        self.query_one("#compare-scroll").scroll_home(animate=False)
        self._show()

    def action_choose(self) -> None:
        close(self, self.pinned[0] if self._shows_results else self.chosen)

    def action_explain(self) -> None:
        """Open the whole arithmetic of the chosen result by the list of the active side.

        Of two pinned results the first that is no candidate is explained, else A.
        """
        side, chunk_id = self.sides[self.active], self.chosen
        if self._shows_results:
            side = Side(CURRENT, self.ranking, self.ranked)
            outside = (pin for pin in self.pinned if pin not in self.ranked.pool.chunks)
            chunk_id = next(outside, self.pinned[0])
        if side.ranked is not None and chunk_id is not None:
            self.search.notes.explain_in(side.ranked, chunk_id, side.ranking)


def _scored(ranked: Ranked, chunk_id: str | None) -> Scored | None:
    """Return a chunk as a list has it; `None` for one that is no candidate."""
    return find(ranked, chunk_id) if chunk_id in ranked.pool.chunks and chunk_id else None


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
    *,
    braille: bool = True,
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
        if hit is None:
            return [fmt.fit(line, column, pad=True) for line in lines]
        is_chosen, is_active = hit.chunk.id == chosen, side == active
        style = f"{'$primary' if is_active else '$foreground'} bold"
        marker = (glyphs.MARKER if is_chosen else " ", style)
        score = f"{fmt.score(hit.effective):>{7 - side}}" if column >= _SCORED else ""
        rank = (f"{hit.rank:>{3 - side}}", "bold")
        mark, style = moved_mark(before.get(hit.chunk.id), hit.rank)
        moved = (f"{mark or '=':<4}", style or fmt.MUTED)
        tail = (rank, " ", moved, score, "  ") if side else (score, rank, " ")
        room = max(column - Content.assemble(*tail).cell_length - 1, 1)
        where = place_text(hit.chunk.path, hit.chunk.start_line, room)
        gap = " " * max(room - where.cell_length, 0)
        parts = (*tail, where) if side else (gap, where, *tail)
        lines[0] = Content.assemble(marker, *parts)
        if height > 1:
            indent, end = (8, 0) if side else (2, 3)
            room = max(column - indent - end, 4)
            text = cached_snippet(hit.chunk.text, terms, room + _SLACK).text
            shown = fmt.fit(Content(" ".join(safe_line(text).split())), room)
            lines[1] = " " * indent + shown.stylize(fmt.MUTED)
        background = f"on $foreground {12 if is_active else 7}%" if is_chosen else ""
        padded = [fmt.fit(line, column, pad=True) for line in lines]
        return [line.stylize_before(background) for line in padded[:2]] + padded[2:]

    left, right = (ranked.hits if ranked is not None else () for ranked in sides)
    rows = max(len(left), len(right), 1)
    canvas = Canvas(gutter, rows * height, braille)
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


def two_results(ranked: Ranked, first: Scored, second: Scored, width: int) -> list[Content]:
    """Draw the steps of both as mirrored bars with values, ranks and the difference of the second.

    The step that made the better one the better one is marked; the last lines say why in words.
    """
    results, decided, half = (first, second), deciding_step(first, second), width // 2 - 1
    steps = [{step.kind: step for step in score_steps(ranked, one)} for one in results]
    heads, texts, formulas = [], [], []
    for name, result, steps_of in zip(NAMES, results, steps, strict=True):
        style = "$state-ok" if isinstance(result, Hit) else "$state-error"
        head = Content.assemble((f"{name}  ", "$primary bold"), (place(result.chunk), "bold"))
        heads.append([head, Content.styled(verdict_words(ranked, result), style)])
        text = " ".join(safe_line(result.chunk.text[: half * _TEXT_LINES]).split())
        texts.append(Content.styled(text, fmt.MUTED).wrap(half - 1)[:_TEXT_LINES])
        if decided in steps_of and (step := steps_of[decided]).formula:
            formulas.append(f"{name}: {step.formula}{f' ({step.brief})' if step.brief else ''}")
    why = Content("Nothing decides between them: neither was a candidate, or they are one.")
    if decided is not None:
        ahead, behind = NAMES if better(first, second) is first else NAMES[::-1]
        what = leg_name(decided) if isinstance(decided, Leg) else step_name(decided)
        why = Content.assemble(
            (f"{ahead} is ahead of {behind}", "bold"),
            ": ",
            (what, "bold $primary"),
            " decides. ",
            ("; ".join(formulas), fmt.MUTED),
        )
    above, below = (
        [
            fmt.fit(left, half, pad=True) + " " * (width - 2 * half) + fmt.fit(right, half)
            for left, right in zip_longest(*halves, fillvalue=Content(""))
        ]
        for halves in (heads, texts)
    )
    outer = _FORMULA if width >= _WIDE else 0
    cells = max((width - _WORD - 2 * (_VALUE + _RANK + outer) - _DIFFERENCE - _TAIL) // 2, 4)
    names_of_columns = (
        f"{'':>{outer}}{'rank':<{_RANK}}{'score':>{_VALUE}}{'':>{cells}}{'':^{_WORD}}"
        f"{'':>{cells}}{'score':>{_VALUE}}{'rank':>{_RANK}}{'':>{outer}}{'B − A':>{_DIFFERENCE}}"
    )
    lines = [Content.styled(names_of_columns, fmt.MUTED)]
    kinds: tuple[Leg | Stage, ...] = (*Leg, *ranked.ranking.stages)
    scale = axis(ranked)
    for kind in kinds:
        pair = [steps_of.get(kind) for steps_of in steps]
        present = [step for step in pair if step is not None]
        if not present:
            continue
        # A step that only keeps or loses a result has no score of its own to compare.
        if isinstance(kind, Stage) and not any(step.sign for step in present):
            pair = [step and replace(step, value=None) for step in pair]
        # The columns subtract as they stand there.
        shown = [step.value if step is not None else None for step in pair]
        one, other = (value if value is None else round(value, 3) for value in shown)
        change, style = fmt.NOTHING, ""
        if one is not None and other is not None:
            change = f"{'+' if other > one else ''}{fmt.score(other - one)}"
            style = "$state-ok" if other > one else "$state-error" if other < one else fmt.MUTED
        line = Content.assemble(
            _side(pair[0], True, cells, outer, scale),
            (f"{step_name(kind):^{_WORD}}", STYLES[present[0].tone]),
            _side(pair[1], False, cells, outer, scale),
            (f"{change:>{_DIFFERENCE}}", style),
        )
        if kind is decided:
            line = Content.assemble(line, (" ◀ ", "$primary"))
            line = fmt.fit(line, width, pad=True).stylize_before("bold on $primary 22%")
        lines.append(fmt.fit(line, width))
    blank_line = [Content("")]
    return [*above, *blank_line, *lines, *blank_line, *why.wrap(width), *blank_line, *below]


def _side(step: ScoreStep | None, mirrored: bool, cells: int, outer: int, scale: float) -> Content:
    """Draw a step of one result from the middle outwards: its bar, value, rank and formula.

    The bar is solid for what is left after the step, then comes what the step took.
    """
    solid_cells = lost_cells = 0
    glyph = style = solid = solid_style = ""
    if step is not None and step.value is not None:
        glyph, style = step_glyph(step), STYLES[step.tone]
        is_leg, takes = isinstance(step.kind, Leg), step.sign in ("×", fmt.MINUS)
        solid, solid_style = (glyph, style) if is_leg else (glyphs.VECTOR, "$foreground 60%")
        before = step.extent.high if step.extent is not None and takes else 0.0
        solid_cells, cells_before = (
            min(cells - 1, round(max(value, 0.0) / scale * (cells - 1)))
            for value in (step.value, before)
        )
        lost_cells = max(0, cells_before - solid_cells)
    number = fmt.NOTHING if step is None or step.value is None else fmt.score(step.value)
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
