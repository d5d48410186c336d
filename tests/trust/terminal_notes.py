"""A folder of notes and conversations with hostile names and contents."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from memtui.model.conversations import TranscriptKind
from tests.support.hostile import ATTACKS
from tests.support.transcript_records import writer_of

MARKER: Final = "PWNED"
SEQUENCES: Final = (
    f"\x1b]2;{MARKER}\x1b\\",
    f"\x1b]0;{MARKER}\x07",
    f"\x1b]8;;http://{MARKER}/\x1b\\link\x1b]8;;\x1b\\",
    f"\x1b]52;c;{MARKER}\x07",
    f"\x1b[31m{MARKER}\x1b[2J\x1b[H\x1b[6n\x1b[?1049l",
    f"\x1bP+q{MARKER}\x1b\\",
    f"\x1b_{MARKER}\x1b\\\x1b^{MARKER}\x1b\\\x1bc",
    f"\x9b31m{MARKER}\x9d2;{MARKER}\x9c\x90{MARKER}\x9c",
    f"\u202e{MARKER}\u2066 \u2028 \u2029 \u200b \u200d\ufeff",
    f"{MARKER}\r\x08\x0b\x0c\x00\x7f\x07\x0e\x0f",
    "e" + "\u0301" * 400,
    "👩‍👩‍👧‍👦" * 30 + "家族" * 30,
    "[@click=app.quit]hi[/] [/] [/foo] $leg {0} %s",
    "a" * 5000,
)
WORD: Final = "heron"
"""In every note, so that one query finds them all."""
_DAY = 1_795_000_000_000


def make_notes(root: Path) -> int:
    """Write the folder; the number of notes."""
    memory = root / "memory"
    memory.mkdir(parents=True)
    texts = [*SEQUENCES, *ATTACKS]
    for number, text in enumerate(texts):
        day = f"2026-11-{1 + number % 20:02d}"
        body = f"# {WORD} {text}\n\n- {text} {WORD} note {number}\n\n```sh\n{text}\n```\n\n[{text}]({text})\n"
        name = text.replace("/", "_").replace("\0", "")[:60]
        data = body.encode("utf-8", "surrogatepass")
        with suppress(OSError, UnicodeEncodeError):
            _write(memory, f"{day}-{name}.md", data)
        _write(memory, f"{day}-{number}.md", data + b"\xff\xfe \x80 not UTF-8\n")
    _write(memory, b"line\nbreak-\x1b]2;PWNED\x07-\xff.md", f"{WORD} in a name\n".encode())
    (root / "MEMORY.md").write_text(f"# Memory\n\n- {WORD} \x1b]2;{MARKER}\x07\n", encoding="utf-8")
    return sum(1 for _ in memory.iterdir())


def _write(folder: Path, name: str | bytes, data: bytes) -> None:
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    with open(os.path.join(os.fsencode(folder), raw[:240]), "wb") as file:
        file.write(data)


def make_sessions(folder: Path) -> None:
    """Write a conversation of each program whose every text is hostile."""
    folder.mkdir(parents=True)
    for kind in TranscriptKind:
        writer = writer_of(kind)
        records = writer.header(f"s-{MARKER}\x1b]2;x\x07", _DAY)
        for number, text in enumerate(SEQUENCES):
            at = _DAY + number * 60_000
            records = records + writer.said("user", f"{WORD} {text}", at)
            records = records + writer.said("assistant", f"{text} {WORD}", at)
            call = writer.call("memory_search", {"query": text, text: text}, f"c{number}", at)
            answer = writer.answer("memory_search", f"c{number}", text, at, failed=number % 2 == 0)
            records = records + call + answer
        lines = "".join(json.dumps(record) + "\n" for record in records)
        name = (
            f"rollout-{kind.value}.jsonl" if kind is TranscriptKind.CODEX else f"{kind.value}.jsonl"
        )
        (folder / name).write_text(lines, encoding="utf-8")
