"""What the results pane says when there is no list to show: never an empty box."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from memtui.model import (
    IndexState,
    IndexStatus,
    Leg,
    LegState,
    LegStatus,
    Ranked,
    Reason,
    Stage,
)
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import Glyphs


class ResultsMessage(Static, can_focus=True):
    """A few lines in place of the list."""

    def __init__(self) -> None:
        super().__init__(id="results-message", markup=False)

    def on_mount(self) -> None:
        """Name the pane as the list is named."""
        self.border_title = Content("Results")

    def show(self, content: Content) -> None:
        """Show these lines."""
        self.update(content, layout=self.styles.auto_dimensions)


_DIM = "$foreground 60%"


def nothing_found(ranked: Ranked, glyphs: Glyphs) -> Content:
    """Say what was searched, what was nearest, and what might help."""
    lines = [
        Content.assemble(
            ("Nothing found for ", "bold"), (safe_line(ranked.pool.query), "$primary")
        ),
        Content(""),
    ]
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        state = ranked.pool.states.get(leg)
        if state is not None:
            glyph = glyphs.vector if leg is Leg.VECTOR else glyphs.keyword
            lines.append(_leg_line(leg, glyph, state, len(ranked.pool.hits.get(leg, ()))))
    below = [drop for drop in ranked.drops if drop.stage is Stage.MIN_SCORE]
    minimum = ranked.ranking.min_score
    lines.append(Content(""))
    if not below:
        lines.append(Content.styled("Fewer or other words may help.", _DIM))
    elif minimum is not None:
        count = fmt.counted(len(below), "candidate")
        lines.append(
            Content(f"{count} below the minimum score {minimum:.2f}: ") + _keys(("n", "shows them"))
        )
    if below and ranked.ranking.decay.enabled:
        lines.append(_keys(("d", "turns decay off")))
    return Content("\n").join(lines)


def searching_not_possible(error: str) -> Content:
    """Say that a search failed."""
    return _message("✗ the search failed", "$state-error", "", safe(error))


def opening(root: str) -> Content:
    """Say what is being opened."""
    return _message("opening…", "", "", Content.styled(fmt.home_relative(root), _DIM))


def engine_failed(error: str) -> Content:
    """Say why there is no engine."""
    keys = _keys(("r", "tries again"), ("q", "quits"))
    return _message("✗ cannot open this memory", "$state-error", "", safe(error), "", keys)


def empty_memory(status: IndexStatus) -> Content:
    """Say how the index is when there is nothing in it to show."""
    root = Content.styled(fmt.home_relative(status.root), _DIM)
    is_foreign = status.foreign is not None
    match status.state:
        case IndexState.INDEXING:
            step = status.progress
            done = (
                f"{step.phase}: {fmt.count(step.done)} of {fmt.count(step.total)}" if step else ""
            )
            hint = Content.styled("Type now: words are found as they come in.", _DIM)
            title = "◐ indexing for the first time"
            return _message(title, "$state-warn", "", done or "", root, "", hint)
        case IndexState.ERROR:
            error = safe(status.errors[-1].message if status.errors else "unknown")
            mend = "openclaw memory index --force builds it again"
            how = Content(mend) if is_foreign else _keys(("R", "builds it again"))
            title = "✗ the index cannot be used"
            return _message(title, "$state-error", "", error, root, "", how)
        case IndexState.NO_INDEX:
            how = _keys(("r", "(F5) indexes this folder"))
            return _message("○ no index yet", "$state-warn", "", root, "", how)
        case _ if is_foreign:
            folder = fmt.home_relative(status.index_dir)
            how = _keys(("i", "shows what it should hold"))
            return _message("The index holds no chunks", "", "", folder, "", how)
        case _:
            places = "memtui looks for MEMORY.md, memory/**/*.md, or any Markdown."
            return _message("No notes here", "", "", root, "", Content.styled(places, _DIM))


def _message(title: str, style: str, *lines: str | Content) -> Content:
    """A title above lines."""
    texts = (line if isinstance(line, Content) else Content(line) for line in lines)
    return Content("\n").join([Content.styled(title, f"{style} bold".strip()), *texts])


def _keys(*keys: tuple[str, str]) -> Content:
    """Say what keys do."""
    parts = [Content.assemble((key, "$primary bold"), f" {does}") for key, does in keys]
    return Content("   ").join(parts)


def _leg_line(leg: Leg, glyph: str, state: LegState, candidates: int) -> Content:
    if state.status is LegStatus.OK:
        text = f"{fmt.counted(candidates, 'candidate')} in {fmt.duration(state.elapsed_ms / 1e3)}"
    else:
        why = fmt.leg_reason(state) if state.reason is not Reason.OK else ""
        detail = safe_line(state.detail)
        more = f" ({detail})" if detail and detail not in why else ""
        text = f"{state.status.value}: {why}{more}"
    return Content.assemble((f"{glyph} {leg.value:<8}", fmt.LEG_STYLES[leg]), f" {text}")
