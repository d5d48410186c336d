"""The rows of the search screen: results, near misses, recent notes; or what is said instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial

from msgspec import Struct
from textual.content import Content

from memtui.data import read_table
from memtui.engine.ports import RecentFile
from memtui.model import (
    Drop,
    Hit,
    IndexState,
    IndexStatus,
    Leg,
    LegStatus,
    Operation,
    Ranked,
    Reason,
    Stage,
)
from memtui.ranking.trace import cited_lines
from memtui.report import words
from memtui.report.arithmetic import TONES, part_cells
from memtui.report.explanation import drop_words
from memtui.report.status import LOOKS_FOR, state_detail
from memtui.retrieval.marks import snippet
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.bindings import key_while_typing
from memtui.tui.present import sign_of
from memtui.tui.widgets.bars import run_on_click
from memtui.tui.widgets.lists import Row

QUERY, FILE = "query:", "file:"
"""The beginnings of row ids while the query is empty: queries asked and notes changed last."""
SHOWN_QUERIES = 5
SORTS = ("rank", *words.LEG_WORDS.values(), "date")
INDENT = 7
"""Cells before the score: rank, pin, movement."""
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)", re.MULTILINE)
_PLACE, _AGO = 40, 12
_AGE = 4
"""Cells of an age at least: `13 d`."""
_STRENGTH_FROM, _BAR_FROM = 56, 44
"""Cells of a row with room for the strength of a match beside its place, and for the bar."""
SLACK = 24
"""Characters that a snippet is asked for beyond the room, which is then filled to the edge."""
_MESSAGES = read_table("messages.toml")
cached_snippet = lru_cache(maxsize=256)(snippet)
"""Every change of a parameter draws the same texts again: about 0.5 ms each."""


def sorted_hits(ranked: Ranked, sort: str) -> list[Hit]:
    """Return the hits in an order for looking: by date the undated last, `rank` is their own."""

    def place(hit: Hit) -> tuple[bool, float]:
        if sort == "date":
            day = hit.chunk.day
            return day is None, -(day.toordinal() if day else hit.chunk.mtime_ns)
        part = next((part for leg, part in hit.legs.items() if words.LEG_WORDS[leg] == sort), None)
        return part is None, part.position if part else 0

    return list(ranked.hits) if sort == "rank" else sorted(ranked.hits, key=place)


def query_terms(ranked: Ranked) -> tuple[str, ...]:
    """Return every query term that some candidate holds, as the query spells it."""
    hits = (hit for leg_hits in ranked.pool.hits.values() for hit in leg_hits)
    return tuple(dict.fromkeys(term for hit in hits for term in hit.terms))


def drop_rows(context: RowContext) -> list[Row]:
    """Return rows of the near misses: what has just left the list, then the others by rank."""
    drops = sorted(context.ranked.drops, key=lambda drop: drop.chunk.id not in context.left)
    lines = min(context.lines, 2)
    return [Row(drop.chunk.id, partial(draw_drop, drop, context), lines) for drop in drops]


def start_rows(
    queries: Sequence[str], files: Sequence[RecentFile], now: Callable[[], datetime]
) -> tuple[Row, ...]:
    """Return rows with ids `query:…` and `file:…`."""

    def draw(subject: Content, aside: str, since: datetime | None, width: int) -> Content:
        tail = fmt.ago(since, now()) if since is not None else "asked"
        line = Content.assemble(subject, "  " if aside else "", (aside, fmt.MUTED))
        return fmt.spread(line, Content.styled(f" {tail:>{_AGO}}", fmt.MUTED), width)

    rows = [
        Row(QUERY + query, partial(draw, Content(safe_line(query)), "", None))
        for query in queries[:SHOWN_QUERIES]
    ]
    for file in files:
        heading = _HEADING.search(file.beginning)
        place = Content("conversation") if file.title else place_text(file.path, None, _PLACE)
        title = safe_line(file.title or (heading[1] if heading is not None else ""))
        rows.append(Row(FILE + file.path, partial(draw, place, title, file.mtime)))
    return tuple(rows)


# A row may be drawn wider than the list, which cuts what is too long.
class RowContext(Struct, frozen=True):
    """The values that the rows of one list share."""

    lines: int
    """1, 2 or 4 lines a row."""
    scale: float
    """The score that fills a bar; 0 for a list without scores."""
    ranked: Ranked
    terms: tuple[str, ...] = ()
    moved: Mapping[str, int] | None = None
    """Places gained against the list before, while a change is being shown."""
    entered: frozenset[str] = frozenset()
    left: Mapping[str, int] = {}
    """Former ranks of the chunks that left the list, while a change is being shown."""
    pinned: frozenset[str] = frozenset()
    """Chunks that are followed through every query."""


def moved_mark(was: int | None, now: int | None) -> tuple[str, str]:
    """Return how a rank changed, `↑2`, `new` or `out`, and its style; nothing for no change."""
    if was == now:
        return "", ""
    if was is None:
        return "new", "$state-warn bold"
    if now is None:
        return "out", "$state-error bold"
    arrow, style = (glyphs.UP, "$state-ok") if now < was else (glyphs.DOWN, "$state-error")
    return f"{arrow}{abs(was - now)}", f"{style} bold"


def draw_hit(hit: Hit, context: RowContext, width: int) -> Content:
    """Write a result: rank, movement, effective score, bar, place, age; then the text.

    The text is the part that matches best, matched terms underlined.
    """
    chunk = hit.chunk
    emphasis, up, down, steps = "", glyphs.GAINED, glyphs.LOST, hit.gained
    if context.moved is not None:
        emphasis, up, down = "reverse ", glyphs.UP, glyphs.DOWN
        steps = context.moved.get(chunk.id, 0)
    if chunk.id in context.entered:
        moved = "new", "$state-warn bold"
    elif steps:
        style = "$state-ok" if steps > 0 else "$state-error"
        moved = f"{up if steps > 0 else down}{abs(steps)}", emphasis + style
    else:
        moved = "=", fmt.MUTED
    head = _head(hit, context, width, (f"{hit.rank:>2}", "bold"), moved)
    if context.lines == 1:
        return head
    lines = 1 if context.lines == 2 else 2
    room = max(width - INDENT - 1, 4)
    length = room * lines + SLACK
    part = cached_snippet(words.best_text(hit, length), context.terms, length)
    text = Content(safe_line(part.text))
    for start, end in part.spans:
        text = text.stylize("$mark underline", start, end)
    if aside := words.aside_words(context.ranked, hit):
        text = Content.assemble((f"{aside}  ", "$state-warn"), text)
    text = _strength_below(hit, context, width) + text
    wrapped = text.wrap(room) if lines > 1 else [text]
    # The last line goes on with what follows, so that cutting it leaves an ellipsis.
    last = Content(" ").join(wrapped[lines - 1 : lines + 1])
    shown = [*wrapped[: lines - 1], last, *[Content("")] * lines][:lines]
    rows = [Content.assemble(" " * INDENT, line.truncate(room, ellipsis=True)) for line in shown]
    if context.lines == 4:
        named = _numbers(hit, named=True)
        fits = named.cell_length <= width
        numbers = named if fits else _numbers(hit, named=False)
        rows.append(numbers if context.scale else Content(""))
    return Content("\n").join([head, *rows])


def draw_drop(drop: Drop, context: RowContext, width: int) -> Content:
    """Write a near miss: where it stood, its score, and why it is not shown."""
    place = drop.stages[-1].rank if drop.stages else None
    rank = (f"{place:>2}" if place else f" {fmt.NOTHING}", fmt.MUTED)
    was = context.left.get(drop.chunk.id)
    moved = ("", "") if was is None else ("out", "reverse $state-error")
    head = _head(drop, context, width, rank, moved)
    if context.lines == 1:
        return head
    former = f"{glyphs.DOWN} was #{was}  " if was is not None else ""
    why = Content.assemble(
        " " * INDENT,
        _strength_below(drop, context, width),
        (former, "$state-error bold"),
        (drop_words(drop, context.ranked), "$state-warn"),
        "  ",
        (" ".join(safe_line(words.best_text(drop, 400)[:400]).split()), fmt.MUTED),
    )
    return Content("\n").join([head, why])


def _strength_below(scored: Hit | Drop, context: RowContext, width: int) -> Content:
    """Write the strength of a match that has no room beside its place."""
    strength = words.match_words(context.ranked, scored) if width < _STRENGTH_FROM else ""
    return Content.styled(f"{strength}  " if strength else "", fmt.MUTED)


def _head(
    scored: Hit | Drop,
    context: RowContext,
    width: int,
    rank: tuple[str, str],
    moved: tuple[str, str],
) -> Content:
    """Write the first line of a row: rank, pin, movement, score, bar, place, strength and age."""
    ranked, chunk = context.ranked, scored.chunk
    line, _ = cited_lines(scored)
    # 12 to 20 cells of bar, less in a narrow row.
    cells = min((width + 1) // 5, 20) if width >= 60 else (width + 1) // 6
    pin = (glyphs.PIN if chunk.id in context.pinned else " ", "bold $primary")
    pieces: list[Content | str | tuple[str, str]] = [rank, pin, moved]
    worth = words.result_score(ranked, scored)
    # A long movement and a long score do not run into one another, and all stand in a column.
    gap = " " * max(4 - len(moved[0]), len(worth) - 5)
    pieces += [gap, (f"{worth:>6}", "bold")]
    used = INDENT + len(rank[0]) + len(moved[0]) + len(gap)
    if context.lines > 1 and width >= _BAR_FROM:
        # Exactly so many cells; a score of the context's scale fills them.
        parts = part_cells(scored, cells, context.scale) if context.scale else ()
        looks = ((*sign_of("bar", name), count) for name, count in parts)
        bar = Content.assemble(*((sign * count, style) for sign, style, count in looks))
        explain = run_on_click(f"screen.part('notes', 'explain', ({chunk.id!r},))")
        bar = bar.pad_right(cells - bar.cell_length).stylize(explain)
        pieces += [" ", bar]
        used += 1 + cells
    age = words.age_words(ranked, chunk)
    if width >= _STRENGTH_FROM:
        age = f"{words.match_words(ranked, scored):<7}  {age:>{_AGE}}"
    room = width - used - 3 - max(_AGE, len(age))
    if room >= 8:
        place = place_text(chunk.path, line, room)
        gap = " " * (width - used - 2 - place.cell_length - len(age))
        pieces += ["  ", place, gap, (age, fmt.MUTED)]
    elif (left := width - used - 1) > 1:
        pieces += [" ", place_text(chunk.path, line, left)]
    return Content.assemble(*pieces)


def place_text(path: str, line: int | None, width: int) -> Content:
    """Write `folder/name.md:12` in at most `width` cells, cut from the left."""
    folder, slash, name = safe_line(path).rpartition("/")
    tail = "" if line is None else f":{line}"
    text = Content.assemble((folder + slash, fmt.MUTED), (name, "$primary"), (tail, fmt.MUTED))
    if text.cell_length <= width:
        return text
    if width - 1 <= text[len(folder + slash) :].cell_length <= width:
        # An ellipsis would take the beginning of the name.
        return text[len(folder + slash) :]
    while len(text) > 1 and text.cell_length > max(width - 1, 1):
        text = text[1:]
    return fmt.fit(Content.assemble(("…", fmt.MUTED), text), width)


def _numbers(hit: Hit, *, named: bool) -> Content:
    """Write the numbers of legs and stages for a row of four lines, legs by name or by sign."""
    parts: list[Content] = []
    for leg, glyph in ((Leg.VECTOR, glyphs.VECTOR), (Leg.KEYWORD, glyphs.KEYWORD)):
        name = (f"{glyph} {words.LEG_WORDS[leg]} " if named else f"{glyph} ", f"$leg-{leg}")
        sum_ = ""
        rank = fmt.NOTHING
        if (part := hit.legs.get(leg)) is not None:
            sum_ = f"{part.weight:.2f}×{fmt.score(part.mapped)}={fmt.score(part.contribution)} "
            rank = fmt.rank(part.position + 1)
        parts.append(Content.assemble(name, sum_, (rank, fmt.MUTED)))
    for stage in hit.stages:
        operand = stage.operand
        if stage.stage is Stage.DECAY and operand is not None:
            sign, number = (f"{glyphs.DECAY} ", "$leg-decay"), f"×{fmt.score(operand)}"
        elif stage.stage is Stage.MMR and stage.operation is Operation.SUBTRACT and operand:
            sign, number = (f"{glyphs.MMR} ", "$leg-mmr"), fmt.score(-operand)
        elif stage.stage is Stage.CONTEXT:
            sign, number = ("= context ", fmt.MUTED), fmt.score(stage.after)
        elif stage.stage not in TONES and operand not in (None, stage.before):
            word = f"{glyphs.RERANK} {words.WORDS['stage'][stage.stage]} "
            sign, number = (word, "$leg-rerank"), fmt.score(stage.after)
        else:
            continue
        parts.append(Content.assemble(sign, number))
    return Content(" " * INDENT) + Content("  ").join(parts)


def message_row(message: Content) -> Row:
    """Return a row that cannot be chosen: a few lines in place of the list, as high as they are."""

    def draw(width: int) -> Content:
        lines = message.split("\n", allow_blank=True)
        wrapped = [part for line in lines for part in line.wrap(max(1, width - 3)) or [line]]
        lines = [Content(""), *(Content("  ") + line for line in wrapped), Content("")]
        return Content("\n").join(lines)

    return Row("", draw, lines=0, is_heading=True)


def message(name: str, keymap: Mapping[str, str] = {}, **values: str) -> Content:
    """Return what is said in place of the list, by its name in `messages.toml`."""

    def key(match: re.Match[str]) -> str:
        name = match[1].replace(".", "_")
        values[name] = key_while_typing(match[1], keymap)
        return f"[bold $primary]${name}[/]"

    markup = re.sub(r"<([\w.]+)>", key, _MESSAGES[name])
    return Content.from_markup(markup, **values)


def nothing_found(ranked: Ranked, status: IndexStatus | None, keymap: Mapping[str, str]) -> Content:
    """Say what was searched, what was nearest, and what might help."""
    if status is not None and not status.chunks:
        return empty_memory(status, keymap)
    lines = [message("nothing", query=safe_line(ranked.pool.query))]
    for leg, glyph in ((Leg.VECTOR, glyphs.VECTOR), (Leg.KEYWORD, glyphs.KEYWORD)):
        state = ranked.pool.states[leg]
        text = safe_line(words.leg_words(state))
        if state.status is LegStatus.OK:
            hits = fmt.count(len(ranked.pool.hits[leg]), "hit")
            text = f"{hits} in {words.duration(state.elapsed_ms / 1e3)}"
        head = (f"{glyph} {words.leg_name(leg):<13}", f"$leg-{leg}")
        lines.append(Content.assemble(head, f" {text}"))
    reasons = {state.reason for state in ranked.pool.states.values()}
    advice = "other_filter" if Reason.FILTERED in reasons else "other_words"
    if is_below := any(drop.stage is Stage.MIN_SCORE for drop in ranked.drops):
        advice = "below"
    lines.append(message(advice, keymap, why=safe_line(words.nothing_words(ranked))))
    if is_below and ranked.ranking.decay.enabled:
        lines.append(message("decay", keymap))
    if status is not None and status.state is IndexState.INDEXING and status.progress is not None:
        lines.append(message("more_to_come", done=state_detail(status)))
    return Content("\n").join(lines)


def empty_memory(status: IndexStatus, keymap: Mapping[str, str]) -> Content:
    """Say how the index is when there is nothing in it to show, or not yet."""
    own = (IndexState.INDEXING, IndexState.ERROR, IndexState.NO_INDEX)
    empty = "waiting" if status.pending_count and status.foreign is None else "empty"
    name = status.state.value if status.state in own else "opening" if status.chunks else empty
    if f"foreign_{name}" in _MESSAGES and status.foreign is not None:
        name = f"foreign_{name}"
    return message(
        name,
        keymap,
        root=fmt.home_relative(status.root),
        folder=fmt.home_relative(status.index_dir),
        error=safe(status.errors[-1].message if status.errors else "unknown"),
        done=state_detail(status),
        looks_for=LOOKS_FOR,
    )
