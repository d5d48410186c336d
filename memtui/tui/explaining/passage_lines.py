"""The text of a chunk, with the words of the query and the passages nearest to it marked."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from memtui.model import Reason
from memtui.model.inquiry import Passage, Passages
from memtui.retrieval.marks import match_spans
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.explaining.lines import joined
from memtui.tui.glyphs import Glyphs

SHOWN = 3
_MOST_CHARACTERS = 6_000
_NEAREST = "underline"


def passage_lines(passages: Passages, width: int, glyphs: Glyphs) -> list[Content]:
    """The nearest passages, best first, each in one line."""
    if not passages.found:
        why = fmt.reason_words(passages.reason) if passages.reason is not Reason.OK else "no text"
        return [Content.styled(f"  none to show: {why}", fmt.MUTED)]
    lines = []
    for number, passage in enumerate(passages.found[:SHOWN], start=1):
        text = " ".join(safe_line(passages.text[passage.start : passage.end]).split())
        line = Content.assemble(
            (f"  {number} ", "bold $leg-vector"),
            (f"cos {fmt.number(passage.cosine, 3)}  ", fmt.MUTED),
            text,
        )
        lines.append(fmt.fit(line, width))
    return lines


def illustration_note(passages: Passages | None) -> str:
    """Whose model compared them, and that the passages do not rank."""
    model = safe_line(passages.model) if passages is not None and passages.model else ""
    return ", ".join(part for part in ("illustration", model) if part)


def text_lines(
    text: str, terms: Sequence[str], passages: Passages | None, width: int
) -> list[Content]:
    """The text as the index holds it: query words bold, the nearest passages underlined."""
    cut = text[:_MOST_CHARACTERS]
    content = Content(safe(cut).replace("\t", " "))
    for passage in _shown(passages, text):
        content = content.stylize(_NEAREST, passage.start, min(passage.end, len(cut)))
    for start, end in match_spans(safe(cut), tuple(terms)):
        content = content.stylize("bold $mark", start, end)
    lines: list[Content] = []
    for line in content.split("\n", allow_blank=True):
        if line or lines:
            lines += line.wrap(max(8, width)) if line else [Content("")]
    if len(text) > _MOST_CHARACTERS:
        rest = fmt.count(len(text) - _MOST_CHARACTERS)
        lines.append(Content.styled(f"… {rest} more characters", fmt.MUTED))
    return lines


def text_note(passages: Passages | None) -> Content:
    """What the marks in the text mean."""
    parts = [Content.styled("query words bold", fmt.MUTED)]
    if passages is not None and passages.found:
        parts.append(Content.styled("nearest passages underlined", fmt.MUTED))
    return joined(parts, ", ")


def _shown(passages: Passages | None, text: str) -> tuple[Passage, ...]:
    """The passages of this very text."""
    if passages is None or passages.text != text:
        return ()
    return passages.found[:SHOWN]
