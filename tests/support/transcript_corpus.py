"""Planted transcripts: bytes as three programs write them, damaged, and the answer beside them.

What is expected is put together here from what was planted, never by reading it back. Texts are of
plain words, so that folding, masking and wrapping can be done by hand.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from memtui.model.conversations import TranscriptKind
from tests.support.transcript_records import CodexWriter, Records, Writer, writer_of

START_MS = 1_767_225_600_000
"""2026-01-01."""
LIMIT = 40_000
"""Bytes of a line; a huge line is longer."""
WORDS = (
    *("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "indigo"),
    *("juniper", "kelp", "lantern", "meadow", "nettle", "ochre", "pebble", "quartz", "ripple"),
    *("saffron", "thicket", "umber", "velvet", "willow", "yarrow", "zephyr"),
)
SEARCHES: Mapping[TranscriptKind, tuple[str, ...]] = {
    TranscriptKind.OPENCLAW: ("memory_search", "qmd__query", "openmemory__search_memory"),
    TranscriptKind.CLAUDE_CODE: (
        *("mcp__memory__search_nodes", "mcp__basic-memory__search_notes", "conversation_search"),
        "mcp__plugin_episodic-memory_episodic-memory__search",
    ),
    TranscriptKind.CODEX: ("mcp__mem0__search_memories", "qmd.vsearch", "memtui__search"),
}
OTHER_TOOLS = (
    *("web_search", "Grep", "memory_get", "mcp__memory__add_observations", "ToolSearch"),
    *("mcp__github__search_code", "mcp__filesystem__search_files", "recent_chats", "Bash"),
    *("mcp__memory__create_entities", "memory_store", "mcp__aws-knowledge__search_documentation"),
)


class Damage(StrEnum):
    """What can be wrong with a transcript."""

    CUT = "cut"
    """A record whose end is missing."""
    CUT_END = "cut_end"
    """The last line is half a record, with no line end."""
    BAD_UTF8 = "bad_utf8"
    NULS = "nuls"
    HUGE = "huge"
    """A record of more than `LIMIT` bytes."""
    DUPLICATES = "duplicates"
    """Records that are there twice."""
    CLOCK = "clock"
    """Times that jump, are missing, or are none."""
    MIXED = "mixed"
    """Records of another program, and of another version of this one."""
    BLANKS = "blanks"
    """Blank lines, CR LF, a byte order mark, JSON that is no record."""


@dataclass(frozen=True, slots=True)
class PlantedCall:
    """A search of the memory that is in a transcript."""

    line: int
    tool: str
    query: str
    paths: tuple[str, ...] | None
    """What came back; `None` when it is not recorded or cannot be read."""
    answer_line: int


@dataclass(slots=True)
class Planted:
    """A transcript, and what reading it must give by the rules of OpenClaw 2026.9."""

    kind: TranscriptKind
    name: str
    data: bytes = b""
    lines: list[tuple[int, str, int]] = field(default_factory=list)
    """Of the index: the number of the line of the file, the text, the time in ms."""
    messages: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    too_long: int = 0
    calls: list[PlantedCall] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    """None of them may be in anything that is kept or shown."""


def plant(
    kind: TranscriptKind, seed: int, *, turns: int = 24, damage: Iterable[Damage] = ()
) -> Planted:
    """Plant one transcript; the same seed plants the same one."""
    return _Planter(kind, seed).plant(turns, list(damage))


class _Planter:
    def __init__(self, kind: TranscriptKind, seed: int) -> None:
        self._random = random.Random(f"{kind}-{seed}")
        self._writer: Writer = writer_of(kind)
        self._session = f"00000000-0000-4000-8000-{seed:012d}"
        name = f"rollout-2026-01-01T00-00-00-{self._session}" if kind == "codex" else self._session
        self.planted = Planted(kind, name + self._writer.ending)
        self._at = START_MS
        self._number = 0
        self._ids = 0
        self._end = b"\n"

    def plant(self, turns: int, damage: list[Damage]) -> Planted:
        planted = self.planted
        if Damage.BLANKS in damage:
            self._end = b"\r\n"
            planted.data += b"\xef\xbb\xbf"
        self._write(self._writer.header(self._session, self._at))
        for number in range(turns):
            self._exchange(number)
            if damage:
                getattr(self, f"_{damage[number % len(damage)].value}")()
        if Damage.CUT_END in damage:
            planted.malformed += 1
            planted.data += b'{"type":"message","id":"0000'
        return planted

    # --- what is right --------------------------------------------------------------------

    def _exchange(self, number: int) -> None:
        self._at += 60_000
        self._say("user", self._text())
        if number % 3 == 1:
            records, dropped = self._writer.noise(number // 3, self._at)
            self._write(records)
            self.planted.dropped.update(dropped)
        if number % 3 == 2:
            self._search(number)
        if number % 4 == 0:
            self._ask_another(number)
        if number % 5 == 0:
            self._tell_secret(number)
        if number % 7 == 0:
            self._say_much("assistant")
        self._say("assistant", self._text())

    def _text(self) -> str:
        return " ".join(self._random.choices(WORDS, k=self._random.randint(3, 30)))

    def _say(self, role: str, text: str, shown: str | None = None) -> None:
        """Plant a message that fits into one line."""
        self._expect(role, [text if shown is None else shown])
        self._write(self._writer.said(role, text, self._at))

    def _say_much(self, role: str) -> None:
        """Plant a message of words of nine letters: eighty of them fill a line of 800 units."""
        words = [self._random.choice(WORDS).ljust(9, "x") for _ in range(200)]
        pieces = [" ".join(words[at : at + 80]) for at in range(0, 200, 80)]
        self._expect(role, pieces)
        text = " \n\t".join(" ".join(words[at : at + 7]) for at in range(0, 200, 7))
        self._write(self._writer.said(role, text, self._at))

    def _expect(self, role: str, pieces: Iterable[str]) -> None:
        label = "User" if role == "user" else "Assistant"
        for piece in pieces:
            self.planted.lines.append((self._number + 1, f"{label}: {piece}", self._at))
        self.planted.messages += 1

    def _search(self, number: int) -> None:
        """Plant a search of the memory with one of the answers that there are."""
        tool = self._random.choice(SEARCHES[self.planted.kind])
        query = self._text()
        call_id = self._new_id()
        paths = tuple(f"memory/{word}.md" for word in self._random.sample(WORDS, 3))
        line = self._number + 1
        arguments = {"query": query, "maxResults": 6}
        self._quiet(self._writer.call(tool, arguments, call_id, self._at))
        results = [
            {"path": path, "startLine": 1, "endLine": 9, "score": 0.5, "snippet": "s"}
            for path in paths
        ]
        answer, failed = json.dumps({"results": results, "provider": "local"}), False
        kept: tuple[str, ...] | None = paths
        match number // 3 % 4:
            case 1:
                answer, kept = "Found: a note about " + query, None
            case 2:
                answer, failed, kept = "database is locked", True, None
        if number // 3 % 4 == 3:
            self.planted.calls.append(PlantedCall(line, tool, query, None, 0))
            return
        self.planted.calls.append(PlantedCall(line, tool, query, kept, self._number + 1))
        self._write(self._writer.answer(tool, call_id, answer, self._at, failed=failed))

    def _ask_another(self, number: int) -> None:
        """Plant a call of a tool that searches no memory."""
        tool, call_id = OTHER_TOOLS[number // 4 % len(OTHER_TOOLS)], self._new_id()
        self._quiet(self._writer.call(tool, {"query": "x", "text": "y"}, call_id, self._at))
        self._write(self._writer.answer(tool, call_id, '{"results": []}', self._at, failed=False))

    def _quiet(self, records: Records) -> None:
        """Write an assistant's message that only calls a tool; OpenClaw counts it."""
        if self.planted.kind is TranscriptKind.OPENCLAW:
            self.planted.dropped["no_text"] += 1
        self._write(records)

    def _tell_secret(self, number: int) -> None:
        secret = "".join(self._random.choices("abcdefghjkmnpqrstuvwxyz23456789", k=32))
        masked = f"{secret[:2]}…{secret[-4:]}"
        prefixes = ("ghp_", "AIza", "sk-", "AKIA", "hf_")
        prefix = prefixes[number // 5 % len(prefixes)]
        if prefix == "AKIA":
            secret = secret[:16].upper()
        token = prefix + secret
        masked = f"{token[:6]}…{token[-4:]}"
        self._say("user", f"take {token} for it", f"take {masked} for it")
        call_id = self._new_id()
        given = {"command": f"export KEY_FILE=/k; run {token}", "password": f"pw-{secret}"}
        self._quiet(self._writer.call("Bash", given, call_id, self._at))
        told = f"it is {token} and postgres://me:{secret}@host/db"
        self._write(self._writer.answer("Bash", call_id, told, self._at, failed=False))
        self.planted.secrets += [secret, token]

    def _new_id(self) -> str:
        self._ids += 1
        return f"call_{self._ids:06d}"

    def _write(self, records: Records) -> None:
        for record in records:
            self._raw(json.dumps(record, ensure_ascii=False).encode())

    def _raw(self, data: bytes) -> None:
        self.planted.data += data + self._end
        self._number += 1

    # --- what is wrong --------------------------------------------------------------------

    def _record(self, text: str) -> bytes:
        return json.dumps(self._writer.said("user", text, self._at)[0]).encode()

    def _cut(self) -> None:
        self.planted.malformed += 1
        self._raw(self._record(self._text())[:-9])

    def _cut_end(self) -> None:
        """Done at the end."""

    def _bad_utf8(self) -> None:
        self._expect("user", ["bad � byte"])
        self._raw(self._record("bad BYTE byte").replace(b"BYTE", b"\xff"))

    def _nuls(self) -> None:
        self.planted.malformed += 2
        self._raw(b"\0" * 512)
        self._raw(self._record("a NUL b").replace(b"NUL", b"\0"))

    def _huge(self) -> None:
        self.planted.too_long += 1
        self._raw(self._record("word " * (LIMIT // 4)))

    def _duplicates(self) -> None:
        text = self._text()
        record = self._writer.said("user", text, self._at)[0]
        self._expect("user", [text])
        self._write([record])
        if self.planted.kind is TranscriptKind.CLAUDE_CODE:
            self.planted.dropped["duplicate"] += 1
        else:
            self._expect("user", [text])
        self._write([record])

    def _clock(self) -> None:
        now = self._at
        for at, shown in ((now - 86_400_000 * 400, None), (0, 0)):
            self._at = at if shown is None else shown
            self._say("user", self._text())
        self._at = now
        text = self._text()
        record: dict[str, Any] = self._writer.said("user", text, now)[0] | {"timestamp": "soon"}
        self.planted.lines.append((self._number + 1, f"User: {text}", 0))
        self.planted.messages += 1
        self._write([record])

    def _mixed(self) -> None:
        for kind in TranscriptKind:
            if kind is not self.planted.kind:
                self._write(writer_of(kind).said("user", "of another program", self._at)[:1])
        if isinstance(self._writer, CodexWriter):
            text = self._text()
            self.planted.lines.append((self._number + 1, f"User: {text}", 0))
            self.planted.messages += 1
            self._write(CodexWriter(bare=True).said("user", text, self._at))

    def _blanks(self) -> None:
        for data in (b"", b"  \t", b"[]", b"7", b"null", b'"text"', b"{}"):
            self._raw(data)
