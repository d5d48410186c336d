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
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from memtui.errors import MemtuiError
from memtui.model import Hit, Ranked
from memtui.model.inquiry import Passages
from memtui.report.documents import FileStates, drop_entry, hit_entry, search_entry
from memtui.report.explanation import Explained, flags_of, report_of
from memtui.report.json_text import document_text, plain
from memtui.report.layout import (
    UNICODE_MARKS,
    Bar,
    Layout,
    Line,
    Report,
    Row,
    Section,
    Span,
    Tone,
    text_of,
)
from memtui.report.words import SHORT, cells_of
from memtui.text.sanitize import safe, safe_line

_BINARY: Final = getattr(os, "O_BINARY", 0)


class Format(StrEnum):
    """What an explanation can be written as."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SVG = "svg"


ENDINGS: Final[Mapping[Format, str]] = {
    Format.TEXT: ".txt",
    Format.JSON: ".json",
    Format.MARKDOWN: ".md",
    Format.SVG: ".svg",
}
"""The ending of a file of each format."""


class ExportFailed(MemtuiError):
    """A file that is there already, or that cannot be written."""

    code = "export"


def exported(
    explained: Explained, format_: Format, *, dark: bool = True, ascii_only: bool = False
) -> str:
    """Return an explanation as a whole document; text and JSON hold every number exactly."""
    match format_:
        case Format.TEXT:
            return text_of(report_of(explained), ascii_only=ascii_only)
        case Format.JSON:
            return document_text(explanation_document(explained)) + "\n"
        case Format.MARKDOWN:
            return markdown_of(report_of(explained))
        case Format.SVG:
            return svg_of(report_of(explained, spell=SHORT), dark=dark)


def unexplained_document(ranked: Ranked, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Return the document of a search that is explained, and nothing of any chunk yet."""
    nothing = ("place", "first_failure", "chunk_id", "citation", "hit", "drop", "terms", "similar")
    return {
        **search_entry(ranked),
        "shown": False,
        **dict.fromkeys((*nothing, "needs", "word_changes", "passages")),
        **{name: [] for name in ("trace", "ranks", "least_changes", "without_change")},
        **{name: {} for name in ("leg_ranks", "leg_ranks_of_all", "without")},
        "warnings": warnings,
    }


def explanation_document(
    explained: Explained, *, states: FileStates | None = None, warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the document of one place; `states` as for `hit_entry`.

    Every key is always there: null or empty for what nobody looked for or a place has not.
    """
    inquiry, least, explanation = explained.inquiry, explained.least, explained.explanation
    assert inquiry is not None, "only what the engine was asked about is written"
    document = {
        **unexplained_document(explained.ranked, warnings),
        "shown": inquiry.shown,
        "place": inquiry.place,
        "citation": inquiry.citation,
        "trace": inquiry.steps,
        "first_failure": inquiry.first_failure,
        "word_changes": explained.words,
        "passages": None if explained.passages is None else _passages(explained.passages),
    }
    if inquiry.chunk is None:
        return document
    document |= {
        "chunk_id": inquiry.chunk.id,
        "terms": inquiry.terms,
        "leg_ranks_of_all": inquiry.leg_places,
    }
    if least is not None:
        document |= {
            "least_changes": [
                {**plain(change), "flags": flags_of(explained.ranking, change)}
                for change in least.found.changes
            ],
            "without_change": least.found.without,
            "needs": least.needs,
        }
    if explanation is not None:
        scored = explanation.scored
        if isinstance(scored, Hit):
            document["hit"] = hit_entry(scored, states)
        else:
            document["drop"] = drop_entry(scored)
        document |= {
            "ranks": [{"stage": stage, "rank": rank} for stage, rank in explanation.ranks],
            "leg_ranks": explanation.leg_ranks,
            "without": explanation.without,
            "similar": explanation.similar,
        }
    return document


def _passages(passages: Passages) -> dict[str, Any]:
    """The passages with their text; `start` and `end` count characters of the whole `text`."""
    return {
        **plain(passages),
        "found": [
            {**plain(one), "text": passages.text[one.start : one.end]} for one in passages.found
        ],
    }


def format_of(path: Path) -> Format:
    """Return what the ending of a file's name says it holds; text for any other."""
    ending = {".markdown": ".md"}.get(path.suffix.lower(), path.suffix.lower())
    return next((format_ for format_, own in ENDINGS.items() if own == ending), Format.TEXT)


def save(path: Path, text: str, *, force: bool = False, mode: int = 0o666) -> None:
    """Write a whole file at once, as UTF-8; one that is there is replaced only with `force`.

    A new file gets `mode`, less what the umask takes. Raises `ExportFailed` when it is there or
    cannot be written; nothing is left of it then.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError(None, "not a regular file")
        # A link stays one: what it leads to is replaced.
        _write(Path(os.path.realpath(path)) if force else path, text, force, mode)
    except FileExistsError as error:
        raise ExportFailed(f"{path} is there already", hint="--force replaces it") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ExportFailed(f"cannot write {path}: {reason}") from error


def _write(path: Path, text: str, force: bool, mode: int) -> None:
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        if not force:
            try:
                os.link(temporary, path)
                return
            except FileExistsError:
                raise
            except OSError:
                # A file system without links: the name is taken first, then the file replaces it.
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        try:
            os.replace(temporary, path)
        except OSError:
            if not force:
                path.unlink(missing_ok=True)
            raise
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink()


# --- Markdown ----------------------------------------------------------------------------------

_HARMLESS = re.compile(r"(?! |\d+\))(?:[A-Za-z ,;()]|\d|(?<=\d)\.(?=\d))*")
"""Text without any character that means something in Markdown, not even together."""
_TICKS = re.compile("`+")
_PIPE = "&#124;"


def markdown_of(report: Report) -> str:
    """The report as a document of its own: a heading, the verdict, a table for each section."""
    parts = [f"## {code(report.title)}", _verdict(report), f"Query: {code(report.query)}"]
    parts += ["\n".join(_section(section)) for section in report.sections]
    return "\n\n".join(parts) + "\n"


def code(text: str) -> str:
    """Text from outside as a code span, whatever it holds; nothing for an empty one."""
    text = safe_line(text)
    if not text.strip():
        return ""
    fence = "`" * _longer_than_any(text, 0)
    is_padded = text.startswith(("`", " ")) or text.endswith(("`", " "))
    return f"{fence} {text} {fence}" if is_padded else f"{fence}{text}{fence}"


def fenced(text: str) -> str:
    """Lines from outside as a code block."""
    text = safe(text)
    fence = "`" * _longer_than_any(text, 2)
    return f"{fence}text\n{text}\n{fence}"


def _longer_than_any(text: str, least: int) -> int:
    return max([least, *(len(run) for run in _TICKS.findall(text))]) + 1


def _verdict(report: Report) -> str:
    shown, _, why = report.verdict.partition("SHOWN")
    return f"**{shown}SHOWN**{_phrase(why)}"


def _phrase(text: str) -> str:
    bare = text.removeprefix(": ").strip()
    return f" {code(bare)}" if bare else ""


def _section(section: Section) -> Iterator[str]:
    yield f"### {_words_or_code(section.title[:1].upper() + section.title[1:])}"
    if section.rows:
        marked = any(row.mark is not None for row in section.rows)
        heads = [column.name for column in section.columns]
        yield ""
        yield _table_row([*([" "] if marked else []), *heads])
        aligned = ["--:" if column.right else "---" for column in section.columns]
        yield _table_row([*([":-:"] if marked else []), *aligned])
        for row in section.rows:
            yield _table_row([*([_mark(row)] if marked else []), *_cells(row)])
    if section.notes:
        yield ""
        for note in section.notes:
            yield f"- {_words_or_code(note)}"
    if section.quoted:
        yield f"\n{fenced(section.quoted)}"
    if section.missing:
        yield f"\n({section.missing})"


def _table_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _mark(row: Row) -> str:
    return UNICODE_MARKS[row.mark] if row.mark is not None else " "


def _cells(row: Row) -> Iterator[str]:
    for place, cell in enumerate(row.cells):
        text = _in_table(cell)
        yield f"**{text}**" if row.strong and place == 0 else text


def _in_table(text: str) -> str:
    """A cell: a bar would end it even within code, so that each stands between two spans."""
    return _PIPE.join(_words_or_code(part) for part in text.strip().split("|"))


def _words_or_code(text: str) -> str:
    return text if _HARMLESS.fullmatch(text) else code(text)


# --- a picture ---------------------------------------------------------------------------------

WIDTH = 112
"""Cells of a line."""
_BARS = 26
_CELL, _LINE, _FONT = 8.4, 20.0, 14.0
_PAD = 28.0
_FONTS = (
    "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
)
_NOT_IN_XML = re.compile("[\ufffe\uffff]")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of a picture."""

    background: str
    panel: str
    border: str
    track: str
    tones: Mapping[Tone, str]


DARK = Colours(
    background="#0E1116",
    panel="#1A2028",
    border="#2A323D",
    track="#1A2028",
    tones={
        Tone.PLAIN: "#DDE3EA",
        Tone.MUTED: "#9AA3AE",
        Tone.HEADING: "#7FD6C2",
        Tone.OK: "#4FC58F",
        Tone.WARN: "#E8C547",
        Tone.ERROR: "#F2785C",
        Tone.VECTOR: "#56B4E9",
        Tone.KEYWORD: "#E69F00",
        Tone.DECAY: "#8A8A8A",
        Tone.MMR: "#CC79A7",
        Tone.RERANK: "#B9A5F5",
    },
)
LIGHT = Colours(
    background="#FAFAF7",
    panel="#E9E9E2",
    border="#C9CEC8",
    track="#E9E9E2",
    tones={
        Tone.PLAIN: "#1C2126",
        Tone.MUTED: "#5A6169",
        Tone.HEADING: "#00695C",
        Tone.OK: "#00694C",
        Tone.WARN: "#6B5500",
        Tone.ERROR: "#A63F00",
        Tone.VECTOR: "#0072B2",
        Tone.KEYWORD: "#8F4A00",
        Tone.DECAY: "#5F5F5F",
        Tone.MMR: "#A0457A",
        Tone.RERANK: "#5B46B5",
    },
)
"""Both as the themes of the screen have them."""


def svg_of(report: Report, *, dark: bool = True) -> str:
    """The report as an SVG document that is well-formed whatever its texts hold."""
    colours = DARK if dark else LIGHT
    lines = list(Layout(safe_line, WIDTH, bars=_BARS).lines(report))
    width = 2 * _PAD + WIDTH * _CELL
    height = 2 * _PAD + len(lines) * _LINE
    body = "\n".join(
        part for number, line in enumerate(lines) for part in _drawn(line, number, colours)
    )
    title = quoteattr(_xml(f"memtui explain: {report.title}"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label={title} '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f"<title>{_text(report.title)}: {_text(report.verdict)}</title>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="10" '
        f'fill="{colours.background}" stroke="{colours.border}"/>\n'
        f'<g font-family="{_FONTS}" font-size="{_FONT:g}" fill="{colours.tones[Tone.PLAIN]}">\n'
        f"{_brand(lines[0], colours)}\n{body}\n</g>\n</svg>\n"
    )


def _brand(title: Line, colours: Colours) -> str:
    """The program's name beside the title, where there is room."""
    name = "memtui explain"
    if cells_of(title.text) + len(name) + 2 > WIDTH:
        return ""
    span = Span(name, Tone.MUTED)
    return "".join(_words(span, WIDTH - len(name), _PAD + _baseline(0), colours))


def _baseline(number: int) -> float:
    return number * _LINE + 0.5 * (_LINE + _FONT) - 2


def _drawn(line: Line, number: int, colours: Colours) -> Iterator[str]:
    top = _PAD + number * _LINE
    if line.heading:
        left = _PAD + (cells_of(line.text) + 1) * _CELL
        right, middle = _PAD + WIDTH * _CELL, top + 0.5 * _LINE
        yield (
            f'<path d="M{left:g} {middle:g}H{right:g}" stroke="{colours.border}" stroke-width="1"/>'
        )
    elif line.strong and number:
        yield (
            f'<rect x="{_PAD + 1.5 * _CELL:g}" y="{top:g}" width="{(WIDTH - 1.5) * _CELL:g}" '
            f'height="{_LINE:g}" rx="3" fill="{colours.panel}"/>'
        )
    if line.bar is not None:
        yield from _bar(line.bar, top, colours)
    column = 0
    for span in line.spans:
        yield from _words(span, column, _PAD + _baseline(number), colours)
        column += cells_of(span.text)


def _bar(bar: Bar, top: float, colours: Colours) -> Iterator[str]:
    left, width = _PAD + bar.column * _CELL, bar.width * _CELL
    y, height = top + 3.5, _LINE - 7
    start = left + bar.extent.low * width
    length = max(2.0, (bar.extent.high - bar.extent.low) * width)
    yield (
        f'<rect x="{left:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" '
        f'fill="{colours.track}"/>'
    )
    yield (
        f'<rect x="{min(start, left + width - 2):g}" y="{y:g}" width="{length:g}" '
        f'height="{height:g}" rx="2" fill="{colours.tones[bar.tone]}"/>'
    )


def _words(span: Span, column: int, y: float, colours: Colours) -> Iterator[str]:
    """Each word at its cell; `textLength` holds it to its cells where the font is another."""
    weight = ' font-weight="bold"' if span.strong or span.tone is Tone.HEADING else ""
    for found in _WORD.finditer(span.text):
        word = found[0]
        x = _PAD + (column + cells_of(span.text[: found.start()])) * _CELL
        cells = cells_of(word)
        length = f' textLength="{cells * _CELL:g}"' if cells else ""
        yield (
            f'<text x="{x:g}" y="{y:g}" fill="{colours.tones[span.tone]}"{weight}{length}>'
            f"{_text(word)}</text>"
        )


def _text(text: str) -> str:
    return escape(_xml(safe_line(text)))


def _xml(text: str) -> str:
    """Text without the two characters that no XML document may hold and no terminal minds."""
    return _NOT_IN_XML.sub("\ufffd", safe_line(text))
