"""Sections of a report as lines of styled text: tones become styles, extents become bars."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace
from textual.content import Content

from memtui.model import Ranked, Stage
from memtui.model.inquiry import Passages
from memtui.report.arithmetic import ScoreStep
from memtui.report.layout import Extent, Layout, Line, Section, Span, Tone
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt, glyphs

STYLES: Mapping[Tone, str] = {
    **{tone: f"${tone}" for tone in Tone},
    **{Tone.PLAIN: "", Tone.MUTED: fmt.MUTED, Tone.HEADING: "bold $primary"},
}
INDENT = 2
"""Cells before the rows of a section, in which one is marked."""
_TRACK = "on $foreground 6%"
_BAR_SHARE, _BAR_LIMITS = 0.28, (8, 40)
_MOST_CHARACTERS = 6_000


def sign_of(kind: str, name: str) -> tuple[str, str]:
    """Return the sign of a state, a part or a change, and its style."""
    sign, tone = glyphs.SIGNS[kind][name]
    return sign, STYLES[Tone(tone)]


def error_line(error: str) -> Content:
    return Content.styled(f"{glyphs.ERROR} {safe_line(error)}", "$state-error")


def bar_glyph(tone: Tone) -> str:
    return next((sign for sign, one in glyphs.SIGNS["bar"].values() if one == tone), glyphs.VECTOR)


def step_glyph(step: ScoreStep) -> str:
    """The character that stands for a step of the arithmetic in every bar and list."""
    if step.kind in (Stage.FUSION, Stage.CONTEXT) and not step.feature:
        return "="
    if step.kind in (Stage.DEDUP, Stage.MIN_SCORE, Stage.CUT):
        return glyphs.DOWN if step.failed else "-"
    return bar_glyph(step.tone)


def heading(title: str, width: int, note: str = "") -> Content:
    """A line that begins a section: its title, a note, and a rule to the right edge."""
    head = Content.assemble((title, "bold $primary"), "  " if note else "", (note, fmt.MUTED))
    room = width - head.cell_length - 1
    if room < 1:
        return fmt.fit(head, width)
    return Content.assemble(head, " ", (glyphs.RULE * room, "$foreground 25%"))


def section_rows(
    section: Section, width: int, chosen: int | None = None
) -> list[tuple[int | None, Content]]:
    """A section in lines of `width` cells, each with the row it is a part of; one is marked."""
    bars = max(_BAR_LIMITS[0], min(_BAR_LIMITS[1], int(width * _BAR_SHARE)))

    def clean(text: str) -> str:
        return glyphs.spell_arrows(safe_line(text))

    layout = Layout(clean, max(1, width), False, bars, INDENT, True)
    title = safe_line(section.title[:1].upper() + section.title[1:])
    rest = layout.section(replace(section, title="", pending="", problem=""))
    rows: list[tuple[int | None, Content]] = []
    if title:
        rows.append((None, heading(title, width)))
    rows += [(line.row, _drawn(line, width, line.row == chosen)) for line in rest]
    if section.pending:
        rows.append((None, Content.styled(f"… {section.pending}", fmt.MUTED)))
    if section.problem:
        why = error_line(section.problem).wrap(max(8, width))
        rows += [(None, line) for line in why]
    return rows


def _drawn(line: Line, width: int, is_chosen: bool) -> Content:
    parts = []
    for span in line.spans:
        if span.extent is not None:
            parts.append(_bar(span, span.extent))
        else:
            style = f"bold {STYLES[span.tone]}" if span.strong else STYLES[span.tone]
            parts.append(Content.styled(span.text, style))
    content = Content("").join(parts)
    # A space behind the last word may be one cell too far.
    content = fmt.fit(content.rstrip() if content.cell_length > width else content, width)
    if line.row is None or not is_chosen:
        return content
    marked = Content.styled(f"{glyphs.MARKER} ", "bold $primary") + content[INDENT:]
    return fmt.fit(marked, width, pad=True).stylize_before("on $foreground 12%")


def _bar(span: Span, extent: Extent) -> Content:
    low, high, width = extent.low, extent.high, len(span.text) - 2
    # Something is shown of whatever there is.
    start = min(round(low * width), width - 1 if high > low else width)
    cells = max(round(high * width) - start, int(high > low))
    filled = (bar_glyph(span.tone) * cells, STYLES[span.tone])
    track = Content.assemble(" " * start, filled, " " * (width - start - cells))
    return track.stylize_before(_TRACK) + "  "


def text_lines(text: str, ranked: Ranked, passages: Passages | None, width: int) -> list[Content]:
    """The text as the index holds it: query words bold, the nearest passages underlined."""
    terms = {term: None for hits in ranked.pool.hits.values() for hit in hits for term in hit.terms}
    cut = text[:_MOST_CHARACTERS]
    content = Content(safe(cut).replace("\t", " "))
    shown = passages.found if passages is not None and passages.text == text else ()
    for passage in shown:
        content = content.stylize("underline", passage.start, min(passage.end, len(cut)))
    for start, end in match_spans(safe(cut), tuple(terms)):
        content = content.stylize("bold $mark", start, end)
    note = "query words bold" + (", nearest passages underlined" if shown else "")
    lines = [heading("Text as indexed", width, note)]
    for line in content.split("\n", allow_blank=True):
        if line or len(lines) > 1:
            lines += line.wrap(max(8, width)) if line else [Content("")]
    if len(text) > _MOST_CHARACTERS:
        rest = fmt.count(len(text) - _MOST_CHARACTERS, "more character")
        lines.append(Content.styled(f"… {rest}", fmt.MUTED))
    return lines
