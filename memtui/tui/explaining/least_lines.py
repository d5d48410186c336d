"""The least changes and the word changes that bring a chunk into the list, as rows to choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len
from textual.content import Content

from memtui.model import Fusion, Reason
from memtui.model.inquiry import WordChange
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.explaining.findings import Findings, Part
from memtui.tui.explaining.lines import hanging, heading, pending, problem
from memtui.tui.glyphs import Glyphs

if TYPE_CHECKING:
    from memtui.engine.least import LeastChanges
    from memtui.ranking.counterfactual import Change, NoChange

Choice: TypeAlias = "Change | WordChange"
"""Something that can be applied."""

RESERVED, WORDS_RESERVED = 8, 5
"""Lines that changes and words take at least, so that what follows stays where it is when they are
found."""
MOST_WORDS = 8
"""More word changes than this are counted and not drawn."""
_NAME, _RANK, _COST = 19, 6, 18
_MOVE_LIMITS = (14, 36)
_NARROW = 72
_HOW = "each alone, the least first  tab ↑↓ choose  a applies"
PARAMETER_WORDS: Mapping[str, str] = {
    "vector_weight": "vector weight",
    "fusion": "fusion method",
    "rrf_k": "RRF constant",
    "decay.enabled": "temporal decay",
    "decay.half_life_days": "half-life",
    "decay.floor": "decay floor",
    "rerank.enabled": "composite rerank",
    "dedup": "duplicate removal",
    "min_score": "minimum score",
    "mmr.enabled": "MMR",
    "mmr.lambda": "MMR λ",
    "k": "results k",
    "candidate_multiplier": "candidates × k",
}
"""The settings key of a parameter in words."""
_UNITS: Mapping[str, str] = {"decay.half_life_days": " d"}


@dataclass(frozen=True, slots=True)
class LeastLine:
    """A line; `choice` is the place of what it offers among the choices, `None` for the others."""

    content: Content
    choice: int | None = None


def choices(findings: Findings) -> tuple[Choice, ...]:
    """Everything that can be applied, in the order of the lines."""
    changes = findings.least.found.changes if findings.least is not None else ()
    words = findings.words.changes[:MOST_WORDS] if findings.words is not None else ()
    return (*changes, *words)


def least_lines(
    findings: Findings, chosen: int | None, width: int, glyphs: Glyphs
) -> list[LeastLine]:
    """Least changes, cheapest first, what cannot do it and why, then the words."""
    lines = [LeastLine(line) for line in _least_head(findings, width, glyphs)]
    known = 0
    if findings.least is not None:
        known = len(findings.least.found.changes)
        lines += _changes(findings.least, chosen, width, glyphs)
    lines = _padded(lines, RESERVED)
    lines.append(LeastLine(Content("")))
    return lines + _padded(list(_words(findings, known, chosen, width, glyphs)), WORDS_RESERVED)


def _padded(lines: list[LeastLine], count: int) -> list[LeastLine]:
    return lines + [LeastLine(Content(""))] * max(0, count - len(lines))


def applied_words(choice: Choice, glyphs: Glyphs) -> str:
    """What a choice does, for the title: `half-life 30 → 48 d`."""
    if isinstance(choice, WordChange):
        return word_words(choice)
    return f"{_parameter(choice.parameter.value)} {_moved(choice, glyphs.arrow)}"


def word_words(change: WordChange) -> str:
    """The words that a query gains and loses: `+ "omada" − "old"`."""
    added = [f'+ "{safe_line(word)}"' for word in change.added]
    removed = [f'{fmt.MINUS} "{safe_line(word)}"' for word in change.removed]
    return " ".join([*added, *removed])


def value_words(value: object, old: object = None) -> str:
    """A value of a parameter; with so many digits that it differs from the old one."""
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return fmt.FUSION_WORDS[Fusion(value)] if value in list(Fusion) else safe_line(value)
    if not isinstance(value, int | float):
        return safe_line(str(value))
    for decimals in (2, 4, 6, 9):
        text = fmt.short_number(value, decimals)
        if abs(float(text.replace(fmt.MINUS, "-")) - value) <= 1e-3 * abs(value) and (
            not isinstance(old, int | float) or text != fmt.short_number(old, decimals)
        ):
            return text
    return repr(value)


def _least_head(findings: Findings, width: int, glyphs: Glyphs) -> list[Content]:
    note = "each alone, the least first" if width < _NARROW else _HOW
    title = heading("Least changes", width, glyphs, note)
    if (told := findings.problems.get(Part.LEAST)) is not None:
        return [title, *problem(glyphs, told, width)]
    if findings.least is None:
        return [title, pending(glyphs, "trying every parameter")]
    return [title]


def _changes(
    least: LeastChanges, chosen: int | None, width: int, glyphs: Glyphs
) -> Iterator[LeastLine]:
    found = least.found
    if found.changes:
        yield LeastLine(_columns_head(width))
    else:
        none = "no single parameter brings it into the list"
        yield LeastLine(Content.styled(f"  {none}", "$state-warn"))
    for place, change in enumerate(found.changes):
        yield LeastLine(_change(change, place == chosen, width, glyphs), place)
    for line in _needs(least, width):
        yield LeastLine(line)
    for line in _without(found.without, width):
        yield LeastLine(line)


def _columns_head(width: int) -> Content:
    name, move = _widths(width)
    text = f"  {'parameter':<{name}}{'from, to':<{move}}{'rank':<{_RANK}}cost"
    return fmt.fit(Content.styled(text, fmt.MUTED), width)


def _change(change: Change, is_chosen: bool, width: int, glyphs: Glyphs) -> Content:
    name, move = _widths(width)
    moved = _moved(change, glyphs.arrow)
    line = Content.assemble(
        _marker(is_chosen, glyphs),
        Content.styled(_parameter(change.parameter.value), "bold" if is_chosen else "").truncate(
            name, ellipsis=True, pad=True
        ),
        Content(moved).truncate(move, ellipsis=True, pad=True),
        (f"{fmt.rank(change.rank_after):<{_RANK}}", "bold $state-ok"),
        (cost_words(change), fmt.MUTED),
    )
    return _chosen(line, is_chosen, width)


def cost_words(change: Change) -> str:
    """What a change costs: a switch, or the part of the parameter's range that it crosses."""
    if isinstance(change.new, str):
        return "another method"
    if change.new is None or isinstance(change.new, bool) or change.old is None:
        return "a switch"
    share = 100 * change.cost
    percent = fmt.short_number(share, 0 if share >= 10 else 1)
    return f"{percent if float(percent) else '<0.1'} % of its range"


def _widths(width: int) -> tuple[int, int]:
    """Cells of the name, and of both values: as wide as the longest where there is room."""
    low, high = _MOVE_LIMITS
    return _NAME, min(max(low, width - 2 - _NAME - _RANK - _COST), high)


def _parameter(name: str) -> str:
    return PARAMETER_WORDS.get(name, name)


def _moved(change: Change, arrow: str) -> str:
    old, new = value_words(change.old, change.new), value_words(change.new, change.old)
    unit = _UNITS.get(change.parameter.value, "")
    return f"{old} {arrow} {new}{unit}"


def _marker(is_chosen: bool, glyphs: Glyphs) -> Content:
    return Content.styled(f"{glyphs.marker if is_chosen else ' '} ", "bold $primary")


def _chosen(line: Content, is_chosen: bool, width: int) -> Content:
    fitted = fmt.fit(line, width)
    if not is_chosen:
        return fitted
    padded = Content.assemble(fitted, " " * max(0, width - fitted.cell_length))
    return padded.stylize_before("on $foreground 12%")


def _needs(least: LeastChanges, width: int) -> list[Content]:
    """How deep a search has to go for a chunk that no leg brought."""
    needs = least.needs
    if needs is None:
        return []
    told = (
        f"it takes {needs.candidates} candidates of each leg to reach it; "
        f"this search took {needs.taken}"
    )
    ways = [f"k {needs.k}"] if needs.k is not None else []
    if needs.candidate_multiplier is not None:
        ways.append(f"candidates × k {needs.candidate_multiplier}")
    told += f": {' or '.join(ways)}" if ways else ""
    return hanging(Content("  "), Content.styled(told, fmt.MUTED), width)


def _without(without: Sequence[NoChange], width: int) -> list[Content]:
    """The parameters that cannot do it, by the reason."""
    lines: list[Content] = []
    for reason in dict.fromkeys(one.reason for one in without):
        names = [_parameter(one.parameter.value) for one in without if one.reason is reason]
        head = Content.styled(f"  {reason.value}: ", fmt.MUTED)
        lines += hanging(head, Content.styled(", ".join(names), fmt.MUTED), width, indent=4)
    return lines


def _words(
    findings: Findings, known: int, chosen: int | None, width: int, glyphs: Glyphs
) -> Iterator[LeastLine]:
    words = findings.words
    tried = ""
    if words is not None:
        tried = f"{fmt.counted(words.tried, 'changed query', 'changed queries')} tried"
    yield LeastLine(heading("Words of the query", width, glyphs, tried))
    if (told := findings.problems.get(Part.WORDS)) is not None:
        for line in problem(glyphs, told, width):
            yield LeastLine(line)
    elif words is None:
        yield LeastLine(pending(glyphs, "trying words of its text"))
    elif not words.changes:
        why = "no word tried brings it into the list"
        if words.reason is not Reason.OK:
            told = fmt.reason_words(words.reason)
            why = f"not known: {told} while trying" if words.tried else f"nothing to try: {told}"
        yield LeastLine(Content.styled(f"  {why}", "$state-warn"))
    else:
        shown = words.changes[:MOST_WORDS]
        column = min(max(cell_len(word_words(change)) for change in shown), width // 2)
        for place, change in enumerate(shown, start=known):
            yield LeastLine(_word(change, place == chosen, column, width, glyphs), place)
        if (more := len(words.changes) - MOST_WORDS) > 0:
            yield LeastLine(Content.styled(f"  and {more} more", fmt.MUTED))


def _word(change: WordChange, is_chosen: bool, column: int, width: int, glyphs: Glyphs) -> Content:
    line = Content.assemble(
        _marker(is_chosen, glyphs),
        Content.styled(word_words(change), "bold").truncate(column, ellipsis=True, pad=True),
        f"  {glyphs.arrow} rank ",
        (fmt.rank(change.rank_after), "bold $state-ok"),
        ("   " + safe_line(change.query), fmt.MUTED),
    )
    return _chosen(line, is_chosen, width)
