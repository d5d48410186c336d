"""What of the package reads texts that others wrote, and what is hard to read for it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from itertools import permutations
from pathlib import Path
from typing import Final

from memtui.memory.care.lines import note_lines
from memtui.memory.care.links import NoteNames, broken_links
from memtui.memory.care.rules import credentials, dated_facts, long_lines
from memtui.memory.chunking import chunk_text
from memtui.memory.dates import front_matter
from memtui.memory.transcripts.generated import normalise, wrap
from memtui.memory.transcripts.stream import raw_lines
from memtui.model import Document, SourceFile
from memtui.retrieval.matches import match_spans, snippet
from memtui.retrieval.passages import sentences
from memtui.retrieval.query import parse_query
from memtui.settings.files import parse_config
from memtui.settings.toml import key_lines
from memtui.text.redact import openclaw_redact, redact
from memtui.text.sanitize import safe
from memtui.text.tokens import index_text
from memtui.tui.browsing.outline import headings
from memtui.tui.highlight import display_line, markdown_pieces
from tests.trust.growth_measure import LAST, Pump

_SIGNS: Final = (
    *("a", " ", "\n", "-", "#", "`", "*", "_", "[", "]", "(", ")", "<", ">", "|", "\\", '"', "'"),
    *("你", "\u0301", "😀", "{", "}", ".", "/", ":", "=", "0", "!", "~", "\t", "&"),
    *("![", "](", "[[", "**", "```\n", "> ", "- ", "1. ", "---\n", "2026-11-22 ", "http://a "),
    *("password: ", '"token":"', "-----BEGIN PRIVATE KEY-----", "sk-", "since ", "<!--", "<a "),
)
_QUERY_SIGNS: Final = ('"', "a", " ", "path:", "*", "東", "(", "after:", "\u0301", "ữ")
_TOML_SIGNS: Final = ("a", ".", "=", "[", "]", "{", "}", '"', "'", "#", "\n", ",", "a=1\n", "[a]\n")


@dataclass(frozen=True, slots=True)
class Scanner:
    """One function of the package; `most` characters are the largest input that is tried."""

    name: str
    work: Callable[[str], object]
    signs: tuple[str, ...] = _SIGNS
    most: int = LAST

    def pumps(self) -> list[Pump]:
        """Repetitions of every sign, of every two, and of each behind another."""
        singles = [Pump(one) for one in self.signs]
        pairs = [Pump(one + two) for one, two in permutations(self.signs, 2)]
        behind = [Pump(one, two, "\nx") for one, two in permutations(self.signs[:34], 2)]
        return singles + pairs + behind


def _document(text: str) -> Document:
    file = SourceFile("a.md", Path("/m/a.md"), "memory", len(text), 0, 0)
    return Document(file, text, "0" * 64, None, None, None)


_TODAY: Final = date(2026, 11, 22)
_NAMES: Final = NoteNames()

SCANNERS: Final = (
    Scanner("sanitizing", safe),
    Scanner("masking", redact),
    Scanner("masking as OpenClaw", openclaw_redact),
    Scanner("chunking", lambda text: chunk_text(text, per_entry=True)),
    Scanner("text of the index", index_text),
    Scanner("front matter", front_matter),
    Scanner("sentences", sentences),
    Scanner("marks", lambda text: match_spans(text, ("a*", "exact phrase", "東京"))),
    Scanner("snippet", lambda text: snippet(text, ("a", "東"), 80)),
    Scanner("lines of a note", note_lines),
    Scanner("dated facts", lambda text: list(dated_facts(_document(text), _TODAY))),
    Scanner("links", lambda text: list(broken_links(_document(text), _NAMES))),
    Scanner("credentials", lambda text: list(credentials(_document(text)))),
    Scanner("long lines", lambda text: list(long_lines(_document(text), 400))),
    Scanner("headings", lambda text: headings(text.split("\n"))),
    Scanner("a line that is shown", display_line),
    Scanner("Markdown colours", markdown_pieces, most=1 << 13),
    Scanner("a query", parse_query, _QUERY_SIGNS, most=4000),
    Scanner("configuration", lambda text: parse_config(Path("a.toml"), text.encode()), _TOML_SIGNS),
    Scanner("lines of keys", lambda text: key_lines('a = "' + text.replace('"', "") + '"\n')
            if "\n" not in text and "\\" not in text else None, _TOML_SIGNS),
    Scanner("folding", lambda text: list(wrap(normalise(text)))),
    Scanner("lines of a file", lambda text: list(raw_lines(io.BytesIO(text.encode()), limit=99))),
)  # fmt: skip
