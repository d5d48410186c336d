"""An explanation in each format that it can leave the program in, and files of it.

No text of a note can break out of one. In Markdown what was found in notes, paths, queries and
answers stands in code spans and fenced blocks: there neither HTML nor links, mentions or emphasis
mean anything (GFM 0.29, sections 4.5 and 6.3). A picture is text on a grid of cells, and bars, in
memtui's colours. Nothing is fetched: the fonts are those of the reader, and every word has its own
place, so that columns hold whatever the font.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from memtui.data import read_table
from memtui.errors import MemtuiError, SettingsError
from memtui.model import Drop, Hit
from memtui.ranking.counterfactual.change import Counterfactuals
from memtui.report import json_text
from memtui.report.explanation import Explained, flags_of, report_of
from memtui.report.layout import UNICODE_MARKS, Layout, Report, Section, Span, Tone, text_of
from memtui.report.words import cells_of
from memtui.settings.files import cause_of, write_new, written_beside
from memtui.text.sanitize import safe, safe_line


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SVG = "svg"


class ExportFailed(MemtuiError):
    """A file that is there already, or that cannot be written."""

    code = "export"


def exported(
    explained: Explained, format_: Format, *, dark: bool = True, ascii_only: bool = False
) -> str:
    """Return an explanation as a whole document; JSON alone has every digit of a number."""
    match format_:
        case Format.TEXT:
            return text_of(report_of(explained), ascii_only=ascii_only)
        case Format.JSON:
            return json_text.document_text(explanation_document(explained)) + "\n"
        case Format.MARKDOWN:
            return markdown_of(report_of(explained))
        case Format.SVG:
            return svg_of(report_of(explained), dark=dark)


def explanation_document(
    explained: Explained,
    *,
    states: json_text.FileStates | None = None,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the document of one place; `states` as for `hit_entry`.

    Every key is always there: null or empty for what nobody looked for or a place has not.
    """
    inquiry, explanation, passages = explained.inquiry, explained.explanation, explained.passages
    least, scored = explained.least or Counterfactuals(), explained.scored
    chunk = inquiry.chunk if inquiry is not None else None
    stages = scored.stages if scored is not None else ()
    legs = scored.legs if scored is not None else {}
    hit = json_text.hit_entry(explained.ranked, scored, states) if isinstance(scored, Hit) else None
    drop = json_text.drop_entry(explained.ranked, scored) if isinstance(scored, Drop) else None
    if passage := (hit or drop or {}).get("passage"):
        table = explained.matches
        is_known = isinstance(table, tuple)
        passage |= {"words": table if is_known else (), "no_words": None if is_known else table}
    return {
        **json_text.search_entry(explained.ranked),
        "shown": inquiry is not None and inquiry.shown,
        "place": inquiry and inquiry.place,
        "citation": inquiry and inquiry.citation,
        "chunk_id": chunk and chunk.id,
        "trace": inquiry.steps if inquiry is not None else (),
        "first_failure": inquiry and inquiry.first_failure,
        "terms": inquiry and inquiry.terms,
        "leg_ranks_of_all": inquiry.leg_places if inquiry is not None else {},
        "hit": hit,
        "drop": drop,
        "ranks": [{"stage": one.stage, "rank": one.rank} for one in stages],
        "leg_ranks": {leg: part.position + 1 for leg, part in legs.items()},
        "without": explanation.without if explanation is not None else {},
        "similar": explanation and explanation.similar,
        "least_changes": [
            {**json_text.plain(change), "flags": flags_of(explained.ranking, change)}
            for change in least.changes
        ],
        "without_change": least.without,
        "needs": least.needs,
        "word_changes": explained.words,
        "passages": passages
        and {
            **json_text.plain(passages),
            # `start` and `end` count characters of the whole `text`.
            "found": [
                {**json_text.plain(one), "text": passages.text[one.start : one.end]}
                for one in passages.found
            ],
        },
        "warnings": warnings,
    }


def format_of(path: Path) -> Format:
    """Return what the ending of a file's name says it holds; text without one.

    Raises `SettingsError` for an ending of something else.
    """
    formats = {"": Format.TEXT, ".txt": Format.TEXT, ".md": Format.MARKDOWN}
    formats |= {f".{format_}": format_ for format_ in Format}
    if (ending := path.suffix.lower()) not in formats:
        endings = ", ".join(filter(None, formats))
        raise SettingsError(f"{path.name}: {ending} is no format", hint=f"there are {endings}")
    return formats[ending]


def save(path: Path, text: str, *, force: bool = False) -> None:
    """Write a whole file, as UTF-8; one that is there is replaced only with `force`, and at once.

    It holds text of notes: nobody but its owner can read it, whatever could before. Raises
    `ExportFailed` when it is there or cannot be written; nothing is left of it then.
    """
    data = text.encode("utf-8", "replace")
    try:
        if path.exists() and not path.is_file():
            raise OSError(None, "not a regular file")
        if not force:
            write_new(path, data)
            return
        # A link stays one: what it leads to is replaced.
        target = Path(os.path.realpath(path))
        with written_beside(target, data) as whole:
            os.replace(whole, target)
    except FileExistsError as error:
        raise ExportFailed(f"{path} is there already", hint="--force replaces it") from error
    except (OSError, ValueError) as error:
        raise ExportFailed(f"cannot write {path}: {cause_of(error)}") from error


_HARMLESS = re.compile(r"(?! |\d+\))(?:[A-Za-z ,;()]|\d|(?<=\d)\.(?=\d))*")
"""Text without any character that means something in Markdown, not even together."""


def markdown_of(report: Report) -> str:
    """Return the report as a document: a heading, the verdict, a table for each section."""
    shown, _, why = report.verdict.partition("SHOWN")
    why = code(why.removeprefix(": ").strip())
    parts = [
        f"## {code(report.title)}",
        f"**{shown}SHOWN**{f' {why}' if why else ''}",
        f"Query: {code(report.query)}",
        *("\n".join(_markdown_lines(section)) for section in report.sections),
    ]
    return "\n\n".join(parts) + "\n"


def _markdown_lines(section: Section) -> Iterator[str]:
    yield f"### {_words_or_code(section.title[:1].upper() + section.title[1:])}"
    if section.rows:
        table = [
            [column.name for column in section.columns],
            ["--:" if column.right else "---" for column in section.columns],
        ]
        for row in section.rows:
            # A bar would end a cell even within code, so that each stands between two spans.
            cells = [
                "&#124;".join(map(_words_or_code, cell.strip().split("|"))) for cell in row.cells
            ]
            table.append([f"**{cells[0]}**", *cells[1:]] if row.strong else cells)
        if any(row.mark is not None for row in section.rows):
            marks = (" " if row.mark is None else UNICODE_MARKS[row.mark] for row in section.rows)
            pairs = zip((" ", ":-:", *marks), table, strict=True)
            table = [[mark, *cells] for mark, cells in pairs]
        yield ""
        yield from (f"| {' | '.join(cells)} |" for cells in table)
    if section.notes:
        yield ""
        yield from (f"- {_words_or_code(note)}" for note in section.notes)
    if section.quoted:
        yield f"\n{fenced(section.quoted)}"
    if section.missing:
        yield f"\n({section.missing})"


def _words_or_code(text: str) -> str:
    return text if _HARMLESS.fullmatch(text) else code(text)


def code(text: str) -> str:
    """Return text from outside as a code span, whatever it holds; nothing for an empty one."""
    text = safe_line(text)
    if not text.strip():
        return ""
    fence = _fence(text, 1)
    is_padded = text.startswith(("`", " ")) or text.endswith(("`", " "))
    return f"{fence} {text} {fence}" if is_padded else f"{fence}{text}{fence}"


def fenced(text: str) -> str:
    """Return lines from outside as a code block."""
    text = safe(text)
    fence = _fence(text, 3)
    return f"{fence}text\n{text}\n{fence}"


def _fence(text: str, least: int) -> str:
    """Return more backticks than stand together anywhere in a text."""
    return "`" * max([least, *(len(run) + 1 for run in re.findall("`+", text))])


WIDTH = 112
"""Cells of a line."""
_BARS = 26
_CELL, _LINE, _FONT = 8.4, 20.0, 14.0
_PAD = 28.0
_SHAPES: Final[Mapping[str, str]] = read_table("picture.toml")


def svg_of(report: Report, *, dark: bool = True) -> str:
    """Return the report as an SVG document that is well-formed whatever its texts hold.

    It has the colours of memtui's own themes.
    """
    theme = read_table("themes.toml")[f"memtui-{'dark' if dark else 'light'}"]
    colours = {**theme, **theme["legs"], Tone.MUTED: "#9AA3AE" if dark else "#5A6169"}
    border, box = theme["variables"]["scrollbar"], _SHAPES["box"].format
    lines = list(Layout(safe_line, WIDTH, bars=_BARS).lines(report))
    width, height = 2 * _PAD + WIDTH * _CELL, 2 * _PAD + len(lines) * _LINE
    body: list[str] = []
    name = Span("memtui explain", Tone.MUTED)
    if cells_of(lines[0].text) + len(name.text) + 2 <= WIDTH:
        body.append("".join(_drawn_words(name, WIDTH - len(name.text), 0, colours)))
    for number, line in enumerate(lines):
        top = _PAD + number * _LINE
        if line.heading:
            ends = {"left": _PAD + (cells_of(line.text) + 1) * _CELL, "right": width - _PAD}
            body.append(_SHAPES["rule"].format(**ends, y=top + 0.5 * _LINE, border=border))
        elif line.strong and number:
            size = {"width": (WIDTH - 1.5) * _CELL, "height": _LINE, "radius": 3}
            body.append(box(x=_PAD + 1.5 * _CELL, y=top, **size, fill=theme["panel"]))
        column, drawn = 0, list[str]()
        for span in line.spans:
            if (extent := span.extent) is not None:
                left, across = _PAD + column * _CELL, (cells_of(span.text) - 2) * _CELL
                start = min(left + extent.low * across, left + across - 2)
                length = max(2.0, (extent.high - extent.low) * across)
                bar = {"y": top + 3.5, "height": _LINE - 7, "radius": 2}
                body.append(box(x=left, width=across, fill=theme["panel"], **bar))
                body.append(box(x=start, width=length, fill=colours[span.tone], **bar))
            drawn += _drawn_words(span, column, number, colours)
            column += cells_of(span.text)
        body += drawn
    size = {"width": width, "height": height, "inner_width": width - 1, "inner_height": height - 1}
    return _SHAPES["frame"].format(
        **size,
        label=quoteattr(_xml(f"memtui explain: {report.title}")),
        title=escape(_xml(f"{report.title}: {report.verdict}")),
        background=theme["background"],
        border=border,
        font=_FONT,
        colour=colours[Tone.PLAIN],
        shapes="\n".join(body),
    )


def _drawn_words(span: Span, column: int, number: int, colours: Mapping[str, str]) -> Iterator[str]:
    """Draw each word at its cell; `textLength` holds it to its cells where the font is another."""
    y = _PAD + number * _LINE + 0.5 * (_LINE + _FONT) - 2
    weight = ' font-weight="bold"' if span.strong or span.tone is Tone.HEADING else ""
    for match in re.finditer(r"\S+", span.text):
        x = _PAD + (column + cells_of(span.text[: match.start()])) * _CELL
        cells = cells_of(match[0])
        length = f' textLength="{cells * _CELL:g}"' if cells else ""
        word = {"fill": colours[span.tone], "text": escape(_xml(match[0]))}
        yield _SHAPES["word"].format(x=x, y=y, weight=weight, length=length, **word)


def _xml(text: str) -> str:
    """Return text without the two characters that no XML document may hold."""
    return re.sub("[\ufffe\uffff]", "\ufffd", safe_line(text))
