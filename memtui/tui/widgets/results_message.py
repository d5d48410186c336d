"""What the results pane says when there is no list to show: never an empty box."""

from __future__ import annotations

from collections.abc import Sequence

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
from memtui.tui.format import home_relative


class ResultsMessage(Static, can_focus=True):
    """A few lines in place of the list."""

    DEFAULT_CSS = """
    ResultsMessage {
        height: 1fr;
        padding: 1 2;
        border: round $foreground 25%;
        border-title-color: $text-muted;
        color: $foreground;
        overflow-y: hidden;
        &:focus { border: round $primary; border-title-color: $primary; }
    }
    """

    def __init__(self) -> None:
        super().__init__(id="results-message", markup=False)

    def on_mount(self) -> None:
        """Name the pane as the list is named."""
        self.border_title = Content("Results")

    def show(self, content: Content) -> None:
        """Show these lines."""
        self.update(content, layout=self.styles.auto_dimensions)


def nothing_found(ranked: Ranked) -> Content:
    """Say what was searched, what was nearest, and what might help."""
    lines: list[str | Content] = [
        Content.assemble(
            ("Nothing found for ", "bold"), (safe_line(ranked.pool.query), "$primary")
        ),
        "",
    ]
    for leg in (Leg.VECTOR, Leg.KEYWORD):
        state = ranked.pool.states.get(leg)
        if state is not None:
            lines.append(_leg_line(leg, state, len(ranked.pool.hits.get(leg, ()))))
    below = [drop for drop in ranked.drops if drop.stage is Stage.MIN_SCORE]
    minimum = ranked.ranking.min_score
    if below and minimum is not None:
        lines += [
            "",
            Content.assemble(
                f"{fmt.counted(len(below), 'candidate')} below the minimum score {minimum:.2f}: ",
                ("n", "$primary bold"),
                " shows them",
            ),
        ]
    if ranked.ranking.decay.enabled and below:
        lines.append(Content.assemble(("d", "$primary bold"), " turns decay off"))
    if not below:
        lines += ["", Content.styled("Fewer or other words may help.", "$foreground 60%")]
    return _join(lines)


def searching_not_possible(error: str) -> Content:
    """Say that a search failed."""
    return _join(
        [
            Content.styled("✗ the search failed", "$state-error bold"),
            "",
            Content(safe(error)),
        ]
    )


def opening(root: str) -> Content:
    """Say what is being opened."""
    return _join(
        [
            Content.styled("opening…", "bold"),
            "",
            Content.styled(home_relative(root), "$foreground 60%"),
        ]
    )


def engine_failed(error: str) -> Content:
    """Say why there is no engine."""
    return _join(
        [
            Content.styled("✗ cannot open this memory", "$state-error bold"),
            "",
            Content(safe(error)),
            "",
            Content.assemble(
                ("r", "$primary bold"), " tries again   ", ("q", "$primary bold"), " quits"
            ),
        ]
    )


def empty_memory(status: IndexStatus) -> Content:
    """Say how the index is when there is nothing in it to show."""
    root = Content.styled(home_relative(status.root), "$foreground 60%")
    match status.state:
        case IndexState.INDEXING:
            progress = status.progress
            how_far = (
                f"{progress.phase}: {fmt.count(progress.done)} of {fmt.count(progress.total)}"
                if progress
                else ""
            )
            return _join(
                [
                    Content.styled("◐ indexing for the first time", "$state-warn bold"),
                    "",
                    Content(how_far),
                    root,
                    "",
                    Content.styled("Type now: words are found as they come in.", "$foreground 60%"),
                ]
            )
        case IndexState.ERROR:
            error = status.errors[-1].message if status.errors else "unknown"
            return _join(
                [
                    Content.styled("✗ the index cannot be used", "$state-error bold"),
                    "",
                    Content(safe(error)),
                    root,
                    "",
                    _how_to_mend(status),
                ]
            )
        case IndexState.NO_INDEX:
            return _join(
                [
                    Content.styled("○ no index yet", "$state-warn bold"),
                    "",
                    root,
                    "",
                    Content.assemble(("r", "$primary bold"), " (F5) indexes this folder"),
                ]
            )
        case _ if status.foreign is not None:
            return _empty_index(status)
        case _:
            return _join(
                [
                    Content.styled("No notes here", "bold"),
                    "",
                    root,
                    "",
                    Content.styled(
                        "memtui looks for MEMORY.md, memory/**/*.md, or any Markdown.",
                        "$foreground 60%",
                    ),
                ]
            )


def _empty_index(status: IndexStatus) -> Content:
    """Another program's index without a chunk."""
    return _join(
        [
            Content.styled("The index holds no chunks", "bold"),
            "",
            Content(home_relative(status.index_dir)),
            "",
            Content.assemble(("i", "$primary bold"), " shows what it should hold"),
        ]
    )


def _how_to_mend(status: IndexStatus) -> Content:
    if status.foreign is not None:
        return Content("openclaw memory index --force builds it again")
    return Content.assemble(("R", "$primary bold"), " builds it again")


def _leg_line(leg: Leg, state: LegState, found: int) -> Content:
    glyph, style = fmt.LEG_GLYPHS[leg], fmt.LEG_STYLES[leg]
    if state.status is LegStatus.OK:
        text = f"{fmt.counted(found, 'candidate')} in {fmt.duration(state.elapsed_ms / 1e3)}"
    else:
        why = fmt.leg_reason(state) if state.reason is not Reason.OK else ""
        told = not state.detail or safe_line(state.detail) in why
        detail = "" if told else f" ({safe_line(state.detail)})"
        text = f"{state.status.value}: {why}{detail}"
    return Content.assemble((f"{glyph} {leg.value:<8}", style), f" {text}")


def _join(lines: Sequence[str | Content]) -> Content:
    return Content("\n").join(
        line if isinstance(line, Content) else Content(line) for line in lines
    )
