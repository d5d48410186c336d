"""Changing keys of a TOML text and nothing else: every other byte stays as it is.

A key that is there gets another value in its place. A new one goes below the last of its table,
or below the line that shows it as a comment. A line with a comment of its own is not taken out but
turned into a comment, so that nothing that a person wrote is lost.

tomlkit cannot do this: it rejects valid documents (a table declared after its sub-tables when
another table stands between them), puts a key of a new sub-table above other dotted keys, which
then belong to it, ends new lines of a CRLF file with LF, puts new keys below the comment of the
next table, drops the comment of a key that is removed, and tells no lines for messages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from memtui.settings.toml_layout import Layout, Pair, Path, Section, read_layout
from memtui.settings.toml_text import toml_key, toml_value


class Removal(Enum):
    """What a change may be instead of a value."""

    REMOVED = "removed"


REMOVED: Final = Removal.REMOVED


class CannotEdit(ValueError):
    """A text that cannot be changed in this way; the message says why."""


def edited(text: str, changes: Mapping[Path, Any]) -> str:
    """The text with other values for these keys; `REMOVED` takes a key out.

    Tables that are missing are made; a key to remove that is not there is no mistake. Raises
    `CannotEdit` when a key is a table or lies below a value, `ValueError` for a text that is not
    TOML, `RecursionError` for values nested too deeply.
    """
    wanted = tomllib.loads(text)
    lines = text
    for path, value in changes.items():
        layout = read_layout(lines)
        if value is REMOVED:
            _take(wanted, path)
            lines = _without(layout, path)
        else:
            _put(wanted, path, tomllib.loads(f"x = {toml_value(value)}")["x"])
            lines = _with(layout, path, toml_value(value))
    return _checked(lines, wanted)


def with_table(text: str, path: Path, values: Mapping[str, Any]) -> str:
    """The text with a new table `[path]` below the last one of its kind, else at the end.

    `values` are by dotted key below the table. Raises as `edited` does, and `CannotEdit` for a
    table that is there already.
    """
    wanted = tomllib.loads(text)
    if _find(wanted, path) is not None:
        raise CannotEdit(f"{toml_key(path)} is there already")
    keys = {(*path, *key.split(".")): value for key, value in values.items()}
    layout = read_layout(text)
    if any(pair.path == path[: len(pair.path)] for pair in layout.pairs()):
        return edited(text, keys)
    _put(wanted, path, {})
    for key, value in keys.items():
        _put(wanted, key, tomllib.loads(f"x = {toml_value(value)}")["x"])
    rows = [f"{key} = {toml_value(value)}" for key, value in values.items()]
    return _checked(_with_section(layout, path, rows), wanted)


def without_table(text: str, path: Path) -> str:
    """The text without a table and everything in it; comments before its header stay.

    Raises as `edited` does, and `CannotEdit` when there is no such table.
    """
    wanted = tomllib.loads(text)
    if not isinstance(_find(wanted, path), dict):
        raise CannotEdit(f"there is no table {toml_key(path)}")
    _take(wanted, path)
    lines = text
    while True:
        layout = read_layout(lines)
        sections = [s for s in layout.sections if s.path and s.path[: len(path)] == path]
        if sections:
            lines = _without_section(layout, sections[-1])
            continue
        pair = next((p for p in layout.pairs() if p.path[: len(path)] == path), None)
        if pair is None:
            return _checked(lines, wanted)
        lines = _without(layout, pair.path)


def _checked(after: str, wanted: dict[str, Any]) -> str:
    """The new text, if it says what it should."""
    try:
        found = tomllib.loads(after)
    except ValueError as error:
        raise CannotEdit(f"would no longer be TOML: {error}") from error
    if not _same(found, wanted):
        raise CannotEdit("would say something else than wanted")
    return after


def _newline(text: str) -> str:
    """The line end that the first line has."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _ends_blank(text: str) -> bool:
    """Whether nothing or an empty line is last."""
    return not text.strip() or text.replace("\r\n", "\n").endswith("\n\n")


# --- what the text should say ---------------------------------------------------------------------


def _find(table: Mapping[str, Any], path: Path) -> Any:
    found: Any = table
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _put(table: dict[str, Any], path: Path, value: Any) -> None:
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise CannotEdit(f"{part} of {toml_key(path)} is no table")
    if isinstance(table.get(path[-1]), dict):
        raise CannotEdit(f"{toml_key(path)} is a table")
    table[path[-1]] = value


def _take(table: dict[str, Any], path: Path) -> None:
    inner = _find(table, path[:-1])
    if isinstance(inner, dict):
        inner.pop(path[-1], None)


def _same(one: Any, other: Any) -> bool:
    """Whether two documents say the same; an empty table says nothing, NaN is NaN."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = {key for key in {*one, *other} if not (_empty(one, key) and _empty(other, key))}
        return all(_same(one.get(key, {}), other.get(key, {})) for key in keys)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))


def _empty(table: Mapping[str, Any], key: str) -> bool:
    held = table.get(key, {})
    return isinstance(held, dict) and all(_empty(held, inner) for inner in held)


# --- setting --------------------------------------------------------------------------------------


def _with(layout: Layout, path: Path, value: str) -> str:
    text = layout.text
    pair = next((pair for pair in layout.pairs() if pair.path == path), None)
    if pair is not None:
        return text[: pair.value_start] + value + text[pair.value_end :]
    for depth in range(len(path) - 1, -1, -1):
        table, rest = path[:depth], path[depth:]
        holder = next((p for p in layout.pairs() if p.path == table), None)
        if holder is not None:
            return _into_inline(text, holder, f"{toml_key(rest)} = {value}")
        section = next((s for s in layout.sections if s.path == table and not s.is_array), None)
        if section is not None and (depth == len(path) - 1 or not depth):
            break
        above = [s for s in layout.sections if len(s.path) < depth]
        dotted = [(s, p) for s in above for p in s.pairs if p.path[:depth] == table]
        if dotted:
            owner, last = dotted[-1]
            line = f"{toml_key(path[len(owner.path) :])} = {value}"
            return _into_section(layout, owner, line, after=last)
        if section is not None:
            break
    if section is not None and len(path) - 1 == len(section.path):
        twin = _twin(layout, section, path[-1])
        return _into_section(layout, section, f"{toml_key(path[-1:])} = {value}", at=twin)
    return _with_section(layout, path[:-1], [f"{toml_key(path[-1:])} = {value}"])


def _into_inline(text: str, holder: Pair, pair: str) -> str:
    if not holder.is_inline:
        raise CannotEdit(f"{toml_key(holder.path)} is no table")
    if holder.within:
        place = holder.within[-1].value_end
        return f"{text[:place]}, {pair}{text[place:]}"
    return f"{text[: holder.value_start]}{{ {pair} }}{text[holder.value_end :]}"


def _into_section(
    layout: Layout, section: Section, line: str, *, after: Pair | None = None, at: int | None = None
) -> str:
    """A line below a pair, at a place, or below the last pair or the header of a section."""
    text = layout.text
    last = after or (section.pairs[-1] if section.pairs else None)
    place = section.body if last is None else layout.line_end(last.value_end)
    begin = section.start if last is None else layout.line_start(last.start)
    indent = text[begin : begin + len(text[begin:]) - len(text[begin:].lstrip(" \t"))]
    return _inserted(text, place if at is None else at, f"{indent if section.path else ''}{line}")


def _inserted(text: str, place: int, line: str) -> str:
    newline = _newline(text)
    missing = newline if place and text[place - 1] != "\n" else ""
    return f"{text[:place]}{missing}{line}{newline}{text[place:]}"


def _twin(layout: Layout, section: Section, name: str) -> int | None:
    """The place below the line that shows a key as a comment, as the sample does."""
    text, at = layout.text, layout.sections.index(section)
    end = layout.sections[at + 1].start if at + 1 < len(layout.sections) else len(text)
    pattern = rf"^[ \t]*#[ \t]?(?P<pair>{re.escape(toml_key((name,)))}[ \t]*=[^\n]*)$"
    for found in re.finditer(pattern, text[section.body : end], re.MULTILINE):
        place = section.body + found.end()
        if any(pair.start < place <= pair.value_end for pair in section.pairs):
            continue
        try:
            tomllib.loads(found["pair"].rstrip("\r"))
        except ValueError:
            continue
        return layout.line_end(place)
    return None


def _with_section(layout: Layout, path: Path, rows: Sequence[str]) -> str:
    """A new section below the last of those most like it, else at the end."""
    text, sections = layout.text, layout.sections
    likeness = [_shared(section.path, path) for section in sections]
    last = max(range(len(sections)), key=lambda at: (likeness[at], at))
    place = len(text)
    if likeness[last] and last + 1 < len(sections):
        section = sections[last]
        earliest = layout.line_end(section.pairs[-1].value_end) if section.pairs else section.body
        place = _above_comments(text, sections[last + 1].start, earliest)
    newline = _newline(text)
    before, after = text[:place], text[place:]
    if before and not before.endswith("\n"):
        before += newline
    if not _ends_blank(before):
        before += newline
    lines = [f"[{toml_key(path)}]", *rows, *([""] if after else [])]
    return before + "".join(line + newline for line in lines) + after


def _shared(one: Path, other: Path) -> int:
    """How many names two ways begin with together."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _above_comments(text: str, place: int, earliest: int) -> int:
    """The begin of the comment lines that stand right above a place."""
    while place > earliest:
        start = text.rfind("\n", 0, place - 1) + 1
        if start < earliest or not text[start:place].lstrip().startswith("#"):
            break
        place = start
    return place


# --- removing -------------------------------------------------------------------------------------


def _without(layout: Layout, path: Path) -> str:
    text = layout.text
    for section in layout.sections:
        for pair in section.pairs:
            if pair.path == path:
                return _without_line(layout, pair)
    for holder in layout.pairs():
        for at, pair in enumerate(holder.within):
            if pair.path != path:
                continue
            if at:
                return text[: holder.within[at - 1].value_end] + text[pair.value_end :]
            following = holder.within[1].start if len(holder.within) > 1 else pair.value_end
            return text[: pair.start] + text[following:]
    return text


def _without_line(layout: Layout, pair: Pair) -> str:
    text = layout.text
    start, end = layout.line_start(pair.start), layout.line_end(pair.value_end)
    lines = text[start:end]
    has_comment = "#" in text[pair.value_end : end]
    value = text[pair.value_start : pair.value_end]
    if has_comment or ("\n" in value and "#" in value):
        commented = "".join(f"#{line}" for line in lines.splitlines(keepends=True))
        return text[:start] + commented + text[end:]
    return text[:start] + text[end:]


def _without_section(layout: Layout, section: Section) -> str:
    text = layout.text
    end = layout.line_end(section.pairs[-1].value_end) if section.pairs else section.body
    before, after = text[: section.start], text[end:]
    if not after and _ends_blank(before):
        return before.removesuffix(_newline(text))
    if _ends_blank(before):
        after = re.sub(r"\A(?:[ \t]*\r?\n)+", "", after)
    return before + after
