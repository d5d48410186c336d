"""Rules over the notes: credentials, links that lead nowhere, dated facts, length, first words.

A rule looks at the lines of a note by what they are, after CommonMark
(https://spec.commonmark.org/0.31.2/), as far as whole lines go: fenced and indented code, headings
of both kinds, HTML comments; front matter and tables besides. Linear in the text. The patterns,
and words in some languages, are in `data/care.toml`.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from memtui.data import read_table
from memtui.memory.care.duplicates import words_of
from memtui.memory.chunking import size_estimate
from memtui.memory.discover import ROOT_FILES, SUFFIXES
from memtui.memory.documents import front_matter, split_lines
from memtui.memory.paths import fold_path
from memtui.model import Document, SourceFile
from memtui.model.browsing import CareFinding, CarePlace, CareRule
from memtui.text.redact import credentials_in, mask, redact

_DATA: Final[dict[str, Any]] = read_table("care.toml")
_MONTHS: Final[dict[str, int]] = {
    name: number for number, names in enumerate(_DATA["months"], start=1) for name in names
}
"""The numbers of months by their names in some languages, lower case."""


def load_patterns(table: str) -> dict[str, re.Pattern[str]]:
    """Compile the patterns of a table of `data/care.toml`, by their names."""
    rows: dict[str, list[str]] = dict(_DATA[table])
    ignore_case = rows.pop("ignore_case", [])
    months = "|".join(sorted(_MONTHS, key=len, reverse=True))
    return {
        name: re.compile(
            "".join(pieces).replace("<months>", months),
            re.IGNORECASE if name in ignore_case else re.NOFLAG,
        )
        for name, pieces in rows.items()
    }


_SECRETS: Final = load_patterns("secrets")
_DATES: Final = load_patterns("dates")
_FACTS: Final = load_patterns("facts")
_LINKS: Final = load_patterns("links")
_LINES: Final = load_patterns("lines")


class LineKind(StrEnum):
    FRONT_MATTER = "front_matter"
    CODE = "code"
    HEADING = "heading"
    TABLE = "table"
    BLANK = "blank"
    """Nothing, a rule, the underline of a heading, or a comment alone."""
    TEXT = "text"


class NoteLine(NamedTuple):
    """A line of a note, 1-based; `text` without what stands in HTML comments."""

    number: int
    text: str
    kind: LineKind
    section: str = ""
    """The headings above it, outermost first, each after a blank."""


@lru_cache(maxsize=1)
def note_lines(text: str) -> tuple[NoteLine, ...]:
    """Return each line of a note with its kind; those of the last note are cached."""
    lines, matter_end = split_lines(text), front_matter(text).end_line
    result = [
        NoteLine(number, line, LineKind.FRONT_MATTER)
        for number, line in enumerate(lines[:matter_end], start=1)
    ]
    fence, headings = "", [(0, "")]
    in_comment = in_list = False
    after_blank = True
    for number, raw in enumerate(lines[matter_end:], start=matter_end + 1):
        line, kind = raw, LineKind.CODE
        opened = None if in_comment else _LINES["fence"].match(raw)
        if fence:
            mark = raw.strip(" \t>")
            if len(mark) >= len(fence) and not mark.strip(fence[0]):
                fence = ""
        elif opened is not None:
            fence = opened[1]
        else:
            whole = "<!-- " + raw if in_comment else raw
            comments = _LINES["comment"].findall(whole)
            in_comment = bool(comments) and not comments[-1].endswith("-->")
            line = _blanked(_LINES["comment"], whole)[len(whole) - len(raw) :]
            below = lines[number] if number < len(lines) else ""
            is_underline = _LINES["underline"].fullmatch(line) and number > 1 and not after_blank
            if not line.strip() or _LINES["rule"].fullmatch(line) or is_underline:
                kind = LineKind.BLANK
            elif after_blank and not in_list and _LINES["indented"].match(line):
                kind = LineKind.CODE
            elif heading := _heading(line, below if after_blank else ""):
                headings = [one for one in headings if one[0] < heading[0]] + [heading]
                in_list, kind = False, LineKind.HEADING
            else:
                in_list = _LINES["item"].match(line) is not None or (in_list and line[0] in " \t")
                is_table = line.lstrip().startswith("|") and line.count("|") > 1
                kind = LineKind.TABLE if is_table else LineKind.TEXT
        after_blank = kind is LineKind.BLANK or (kind is LineKind.CODE and after_blank)
        section = " ".join(title for _, title in headings[1:])
        result.append(NoteLine(number, line, kind, section))
    return tuple(result)


def _heading(line: str, below: str) -> tuple[int, str] | None:
    if mark := _LINES["heading"].match(line):
        return mark[0].count("#"), line[mark.end() :].strip().rstrip("#").strip()
    if _LINES["underline"].fullmatch(below) and not _LINES["item"].match(line):
        return (1 if "=" in below else 2), line.strip()
    return None


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: " " * len(match[0]), text)


def without_code(text: str) -> str:
    """Blank the code spans of a line, length kept; linear, whatever backticks it has."""
    closing: dict[int, int] = {}
    next_ends: dict[int, int] = {}
    runs = [(len(run[1]), *run.span(2)) for run in _LINES["backticks"].finditer(text)]
    for _, start, end in reversed(runs):
        # A span ends at the next run of the same length.
        if end - start in next_ends:
            closing[start] = next_ends[end - start]
        next_ends[end - start] = end
    pieces, at = [], 0
    for backslashes, start, _ in runs:
        if start >= at and start in closing and backslashes % 2 == 0:
            pieces += [text[at:start], " " * (closing[start] - start)]
            at = closing[start]
    return "".join([*pieces, text[at:]])


_SHOWN: Final = 400
"""Characters of a place that are shown."""
_AHEAD: Final = 4


def shown(text: str, limit: int = _SHOWN) -> str:
    """Return the beginning of a text, masked before it is cut: half a token has no shape."""
    return redact(text[: _AHEAD * limit])[:limit]


def _finding(
    rule: CareRule,
    file: SourceFile,
    at: tuple[int, int] | int,
    text: str,
    message: str,
    /,
    **numbers: int | str,
) -> CareFinding:
    """Return a finding about a line or some lines of a note, 1-based, with their text."""
    first, last = (at, at) if isinstance(at, int) else at
    place = CarePlace(file.path, first, last, shown(text))
    return CareFinding(rule, place, message, numbers=numbers)


_BLOCK_LINES: Final = 4


def credentials(document: Document) -> Iterator[CareFinding]:
    """Yield the lines of a note that hold what is masked as a credential, one finding a line.

    Code is checked, too: that is where they are pasted. The text of a finding is masked.
    """
    tokens: dict[int, list[str]] = defaultdict(list)
    for at, token in credentials_in(document.text):
        tokens[at].append(token)
    lines = split_lines(document.text)
    for at, line in enumerate(lines):
        if _SECRETS["block_start"].search(line):
            below = lines[at : at + 1 + _BLOCK_LINES]
            if not any(_SECRETS["block_body"].search(one) for one in below):
                continue
            text, kind = line.strip(), "a private key"
        elif at in tokens:
            # One that goes on below is no credential by its first line alone.
            text = line
            for token in tokens[at]:
                text = text.replace(token.split("\n")[0], mask(token))
            masks = ", ".join(dict.fromkeys(map(mask, tokens[at])))
            kind = f"a credential ({masks})"
        else:
            continue
        yield _finding(CareRule.CREDENTIAL, document.file, at + 1, text, f"looks like {kind}")


_LONGEST_LINKED_LINE: Final = 50_000
_LONGEST_NAME: Final = 200


class WrittenLink(NamedTuple):
    """A link as it stands in a line, from one character to another."""

    start: int
    end: int
    target: str
    """The address in round brackets, or the name in double ones, without a title."""
    heading: str = ""
    """The heading behind the name in double brackets."""
    is_wiki: bool = False
    is_image: bool = False
    """True if what it leads to is to be shown in its place."""
    title: str = ""
    """The words that are shown in place of a name in double brackets."""


class Link(NamedTuple):
    """A link to a note, or what looks like one."""

    file: SourceFile
    line: int
    text: str
    """The whole line."""
    target: str
    """A path, or what stands between double brackets."""
    is_wiki: bool


class NoteNames:
    """The targets of links: the notes by path, by name, by title and by alias."""

    def __init__(self, on_disk: Callable[[str, str], bool] = lambda folder, target: False) -> None:
        """`on_disk(folder, target)`: whether a file is there; `folder` is the note's own."""
        self._on_disk = on_disk
        self._paths: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.left_out: dict[str, str] = {}
        """The reasons why files are not read, by path."""

    def add_path(self, path: str) -> None:
        """Add a path, as the index stores it; it need not be indexed."""
        folded = fold_path(path)
        self._paths[folded] = path
        parts = _bare(folded).split("/")
        # The note and every folder above it, each by any end of its path.
        for end in range(1, len(parts) + 1):
            place = path if end == len(parts) else f"{'/'.join(path.split('/')[:end])}/"
            for start in range(end):
                self._name("/".join(parts[start:end]), place)

    def _name(self, name: str, place: str) -> None:
        """Let a name lead to a place, to a note rather than to a folder."""
        if self._names.get(slug := _slug(name), "/").endswith("/"):
            self._names[slug] = place

    def add(self, document: Document) -> None:
        """Add a document with its title and the aliases of its front matter."""
        self.add_path(document.file.path)
        without_text = {LineKind.FRONT_MATTER, LineKind.BLANK}
        lines = (line for line in note_lines(document.text) if line.kind not in without_text)
        first = next(lines, None)
        title = first.text.strip("# ") if first and first.kind is LineKind.HEADING else ""
        for name in filter(None, (*front_matter(document.text).names, title)):
            self._name(name, document.file.path)

    def place_of(self, path: str, target: str, *, is_wiki: bool) -> str:
        """Return the note that a link in a note leads to, or a folder with a `/` behind it.

        A wikilink may be a name, title or alias. Empty for a link that leads to neither.
        """
        folder = posixpath.dirname(path)
        written = f"{target}.md" if is_wiki else target
        from_root = written.lstrip("/")
        for tried in (posixpath.join(folder, from_root), from_root, written):
            if place := self._paths.get(fold_path(posixpath.normpath(tried))):
                return place
        return self._names.get(_slug(_bare(fold_path(target))), "") if is_wiki else ""

    def leads(self, path: str, target: str, *, is_wiki: bool) -> bool:
        """Return whether a link in a note leads to a note, a folder, or another file."""
        if self.place_of(path, target, is_wiki=is_wiki):
            return True
        is_name = is_wiki and _LINKS["extension"].search(target) is None
        return self._on_disk(posixpath.dirname(path), f"{target}.md" if is_name else target)


def written_links(line: str) -> list[WrittenLink]:
    """Return the links of a line of text, without those in code; wikilinks last."""
    text = without_code(line[:_LONGEST_LINKED_LINE])
    text = _blanked(_LINKS["html_code"], text)
    matches = [*_LINKS["link"].finditer(text)]
    matches += filter(None, [_LINKS["definition"].match(text)])
    links = [
        WrittenLink(*match.span(), match["target"], is_image=bool(match.groupdict().get("image")))
        for match in matches
    ]
    for match in _LINKS["wikilink"].finditer(_blanked(_LINKS["address"], text)):
        is_image = text[: match.start()].endswith("!")
        links.append(
            WrittenLink(
                *match.span(),
                match["target"],
                match["heading"] or "",
                is_wiki=True,
                is_image=is_image,
                title=match["title"] or "",
            )
        )
    return links


def links_in(document: Document) -> Iterator[Link]:
    """Yield the links of a note to notes; each target once a line.

    Only links to Markdown files, wikilinks, and files that double brackets show in their place
    count. Code, comments, other images, URLs, anchors of the same note, citations such as `[[1]]`,
    other files and what is a placeholder are passed over.
    """
    unlinked = frozenset({LineKind.CODE, LineKind.FRONT_MATTER, LineKind.BLANK})
    for line in note_lines(document.text):
        if "[" not in line.text or line.kind in unlinked:
            continue
        targets = [(note_of(link), link.is_wiki) for link in written_links(line.text)]
        for target, is_wiki in dict.fromkeys(targets):
            if target:
                yield Link(document.file, line.number, line.text, target, is_wiki)


def note_of(link: WrittenLink) -> str:
    """Return the path or the name of what a link leads to; empty where that is no note."""
    if link.is_wiki:
        return link.target if _is_name(link.target, is_shown=link.is_image) else ""
    target = link.target.strip("<>")
    if not link.target.startswith("<"):
        target = _LINKS["escaped"].sub(r"\1", link.target)
    if link.is_image or _LINKS["scheme"].match(target) or len(target) > _LONGEST_NAME * 5:
        return ""
    target = unquote(re.split("[#?]", target, maxsplit=1)[0]).strip()
    is_note = target.lower().endswith(SUFFIXES) and not _is_placeholder(target)
    return target if is_note else ""


def broken_links(links: Iterable[Link], notes: NoteNames) -> Iterator[CareFinding]:
    """Yield the links that lead nowhere, or to what is left out."""
    for link in links:
        place = notes.place_of(link.file.path, link.target, is_wiki=link.is_wiki)
        why = notes.left_out.get(place)
        if why or not notes.leads(link.file.path, link.target, is_wiki=link.is_wiki):
            target = f"[[{link.target}]]" if link.is_wiki else link.target
            missing = f"{target} is there, but left out: {why}" if why else f"{target} is not there"
            yield _finding(
                CareRule.BROKEN_LINK, link.file, link.line, link.text, missing, target=target
            )


def _is_name(name: str, *, is_shown: bool = False) -> bool:
    """Return whether the inside of double brackets can be the name of a note.

    With `is_shown` of any other file as well.
    """
    if not name or name != name.strip() or len(name) > _LONGEST_NAME:
        # A test of a shell is written with blanks inside the brackets.
        return False
    if name.isdigit() or name.startswith("-") or _is_placeholder(name):
        return False
    extension = _LINKS["extension"].search(name)
    return is_shown or extension is None or extension[0].lower() in SUFFIXES or " " in name


def _is_placeholder(name: str) -> bool:
    is_stand_in = _bare(name.casefold()).strip(" _") in _DATA["stand_ins"]
    return is_stand_in or _LINKS["no_name"].search(name) is not None


def _bare(path: str) -> str:
    return path.removesuffix(next(filter(path.endswith, SUFFIXES), ""))


def _slug(name: str) -> str:
    """Return a name with the blanks and dashes that people mix up made one."""
    return _LINKS["separators"].sub("-", fold_path(name)).strip("-/")


MOST_ENTRIES: Final = 3
"""A section in which more lines begin with a date is a log: its entries are meant to be dated."""

_YEAR = re.compile(r"(?:19|20)\d\d")
_BEFORE: Final = 160
_OLDEST_YEARS: Final = 10
"""Years after which a date is history."""
_LONGEST_DATED_LINE: Final = 4_000


class _Date(NamedTuple):
    """A date of a text: its place, its first day, how it is written, whether it names a day."""

    start: int
    end: int
    day: date
    shown: str
    exact: bool


def dated_facts(document: Document, today: date) -> Iterator[CareFinding]:
    """Yield the lines of an undated note that say how something is, or became, up to today.

    A fact is a line that begins with a day, or says that something holds as of, since or until a
    day or month. Left out: notes with a date of their own, notes and sections that are logs,
    headings, code, tables, quotations, tasks, dates in links and names, dates to come, and what
    stays true (births, purchases, papers).
    """
    path = document.file.path
    if document.day is not None or _FACTS["log"].search(re.sub(r"[/_.-]+", " ", path)):
        return
    lines = [
        line
        for line in note_lines(document.text)
        if line.kind is LineKind.TEXT
        and len(line.text) <= _LONGEST_DATED_LINE
        and not _FACTS["log"].search(line.section)
        and not any(_dates(line.section))
        # A table need not begin with its bar.
        and not (_FACTS["task_or_quote"].match(line.text) or " | " in line.text)
    ]
    entries = Counter(line.section for line in lines if _begins_with_day(line.text))
    for line in lines:
        text = _blanked(_FACTS["elsewhere"], without_code(line.text))
        dates = list(_dates(text))
        if not dates or _FACTS["lasting"].search(text) or any(one.day > today for one in dates):
            continue
        begins = entries[line.section] <= MOST_ENTRIES and _begins_with_day(text)
        for one in dates:
            before = text[max(0, one.start - _BEFORE) : one.start]
            # The date since when, or at which, something holds.
            is_of_a_state = (
                _FACTS["state_before"].search(before)
                or _FACTS["state_after"].match(text, one.end)
                or (_FACTS["in_brackets"].search(before) and _FACTS["now"].search(text))
            )
            is_recent = today.year - one.day.year <= _OLDEST_YEARS
            if is_recent and (is_of_a_state or (one.exact and begins)):
                text, stated = line.text.strip(), f"dated {one.shown}"
                rule, file = CareRule.DATED_FACT, document.file
                yield _finding(rule, file, line.number, text, stated, day=one.shown)
                break


def _begins_with_day(text: str) -> bool:
    start = _FACTS["beginning"].match(text)
    at = start.end() if start is not None else 0
    return any(one.start == at and one.exact for one in _dates(text))


def _dates(text: str) -> Iterator[_Date]:
    if _YEAR.search(text) is None:
        return
    matches = (match for shape in _DATES.values() for match in shape.finditer(text))
    for match in sorted(matches, key=lambda match: match.start()):
        parts = match.groupdict()
        written = parts.get("d") or parts.get("d1") or parts.get("d2")
        month = parts["m"]
        number = int(month) if month.isdigit() else _MONTHS[month.lower()]
        try:
            day = date(int(parts["y"]), number, int(written or 1))
        except ValueError:
            continue
        yield _Date(match.start(), match.end(), day, match[0], written is not None)


LONG_FILE_CHARACTERS: Final = 100_000
LONG_ROOT_CHARACTERS: Final = 20_000
"""Of MEMORY.md and USER.md, which agents put into every prompt: OpenClaw cuts them there."""
MOST_TITLE_WORDS: Final = 6
"""A file of headings alone that says no more than this is empty; a longer title says something."""
_UNBROKEN = re.compile(r"[\x21-\x7e]{120,}")
_CHARACTERS_PER_TOKEN: Final = 4
_ENOUGH: Final = 1_000
"""So many characters of a line tell whether it says anything."""


def replaced_bytes(document: Document) -> Iterator[CareFinding]:
    """Yield the first line of a note in which bytes were replaced, as they are no text."""
    if document.bad_line:
        line = split_lines(document.text)[document.bad_line - 1]
        replaced = "; ".join(document.warnings)
        yield _finding(CareRule.NO_TEXT, document.file, document.bad_line, line, replaced)


def empty_file(document: Document) -> Iterator[CareFinding]:
    """Yield a file in which nothing is said: no word but front matter and a short title."""
    title = 0
    for line in note_lines(document.text):
        words = len(words_of(line.text[:_ENOUGH]))
        if line.kind is LineKind.HEADING:
            title += words
        elif words and line.kind not in {LineKind.FRONT_MATTER, LineKind.BLANK}:
            return
    if title <= MOST_TITLE_WORDS:
        message = "nothing but a title" if title else "nothing is written in it"
        lines = 1, len(split_lines(document.text))
        yield _finding(CareRule.EMPTY_FILE, document.file, lines, document.text.strip(), message)


def long_file(document: Document) -> Iterator[CareFinding]:
    """Yield a file that is better split: it is read as a whole, and each of its chunks competes."""
    is_root = document.file.path in ROOT_FILES
    limit = LONG_ROOT_CHARACTERS if is_root else LONG_FILE_CHARACTERS
    length, last = len(document.text), len(split_lines(document.text))
    if length > limit:
        yield _finding(
            CareRule.LONG_FILE,
            document.file,
            (1, last),
            document.text,
            f"{length:,} characters, over {limit:,}",
            characters=length,
            limit=limit,
            lines=last,
        )


def long_lines(document: Document, chunk_tokens: int) -> Iterator[CareFinding]:
    """Yield lines that are cut in the middle because a chunk of `chunk_tokens` cannot hold them.

    Code, tables and lines that are mostly one unbroken run (base64, URLs, minified text) are left
    out: nobody would wrap them.
    """
    limit = chunk_tokens * _CHARACTERS_PER_TOKEN
    for number, text, kind, _ in note_lines(document.text):
        # A character weighs at most 16.
        if kind is not LineKind.TEXT or len(text) < limit // 16:
            continue
        size = size_estimate(text)
        unbroken = sum(map(len, _UNBROKEN.findall(text)))
        if size > limit and 2 * unbroken <= len(text):
            yield _finding(
                CareRule.LONG_LINE,
                document.file,
                number,
                text,
                f"{len(text):,} characters in one line",
                characters=len(text),
                size=size,
                limit=limit,
            )


WORDS: Final = 10
"""Number of words that are asked for."""
FEWEST: Final = 3
"""A note that begins with fewer words says too little to be asked for by them."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_LONGEST_WORD: Final = 40
_CHARACTERS: Final = 200


def first_words(document: Document) -> str:
    """Return the first words of a note without front matter and code, joined by blanks.

    Empty for a note that says too little. No word of it means anything in the query language.
    """
    words: list[str] = []
    size = 0
    for line in note_lines(document.text):
        if line.kind in {LineKind.FRONT_MATTER, LineKind.CODE, LineKind.BLANK}:
            continue
        for word in _WORD.findall(line.text[: _CHARACTERS * 4]):
            words.append(word[:_LONGEST_WORD])
            size += len(words[-1]) + 1
            if len(words) == WORDS or size > _CHARACTERS:
                return " ".join(words)
    return " ".join(words) if len(words) >= FEWEST else ""
