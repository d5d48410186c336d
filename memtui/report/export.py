"""An explanation in each format that it can leave the program in, and files of it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from memtui.errors import MemtuiError
from memtui.report.documents import document_text, explanation_document
from memtui.report.explanation import Explained, report_of
from memtui.report.layout import text_of
from memtui.report.markdown import markdown_of
from memtui.report.svg import svg_of
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
    explained: Explained,
    format_: Format,
    *,
    dark: bool = True,
    ascii_only: bool = False,
    warnings: Sequence[str] = (),
) -> str:
    """An explanation as a whole document; text and JSON hold every number to the last digit."""
    match format_:
        case Format.TEXT:
            return text_of(report_of(explained), ascii_only=ascii_only)
        case Format.JSON:
            return document_text(explanation_document(explained, warnings=warnings)) + "\n"
        case Format.MARKDOWN:
            return markdown_of(report_of(explained))
        case Format.SVG:
            return svg_of(report_of(explained, spell=SHORT), dark=dark)


def format_of(path: Path) -> Format:
    """What the ending of a file's name says it holds; text for any other."""
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
