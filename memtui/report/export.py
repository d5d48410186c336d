"""An explanation in each format that it can leave the program in, and files of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from memtui.errors import MemtuiError
from memtui.model import Hit, Ranked
from memtui.model.inquiry import Passages
from memtui.report.documents import FileStates, drop_entry, hit_entry, search_entry
from memtui.report.explanation import Explained, flags_of, report_of
from memtui.report.formats import markdown_of, svg_of
from memtui.report.json_text import document_text, plain
from memtui.report.layout import text_of
from memtui.report.words import SHORT

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
