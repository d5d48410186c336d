"""Small transcripts of every program, as bytes, and the homes they lie in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import zstandard

from memtui.index.transcripts.discovery import TranscriptHomes, TranscriptScope
from memtui.memory.transcripts.formats import TranscriptReader, format_of, index_lines
from memtui.memory.transcripts.openclaw_files import RULES, TranscriptRules
from memtui.memory.transcripts.records import ReadState
from memtui.model.conversations import TranscriptKind
from tests.support.known import DATA

AT = "2026-10-01T10:00:{:02d}.000Z"
LIMIT = 8_000
"""Bytes of a line; the huge ones of the planted transcripts are longer."""
WORDS = (
    *("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "harbor", "indigo"),
    *("juniper", "kelp", "lantern", "meadow", "nettle", "ochre", "pebble", "quartz", "ripple"),
    *("saffron", "thicket", "umber", "velvet", "willow", "yarrow", "zephyr"),
)
SECRET = "sk-proj-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
"""Shaped like a key, and nobody's."""


def planted(kind: TranscriptKind) -> tuple[bytes, dict[str, Any]]:
    """A damaged transcript of a program, and what reading it must give by the rules of 2026.9.

    In it are cut, huge, repeated and foreign records, bytes that are no UTF-8, NULs, wrong times,
    blank lines and a last line without its end. In the files a `§` parts what looks like a
    credential, as the repository holds none.
    """
    folder = DATA / "transcripts"
    data = (folder / f"{kind}.jsonl").read_bytes().replace("§".encode(), b"")
    answers = (folder / "answers.json").read_text("utf-8").replace("§", "")
    return data, json.loads(answers)[kind]


def line(record: object) -> bytes:
    """A record as a line of a transcript."""
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def said(role: str, text: object, second: int = 0, **fields: Any) -> bytes:
    """A message of an OpenClaw session."""
    message = {"role": role, "content": text, **fields}
    return line({"type": "message", "timestamp": AT.format(second % 60), "message": message})


def append(file: Path, data: bytes) -> None:
    """Let a file grow, as its program does while it runs."""
    with file.open("ab") as stream:
        stream.write(data)


def began(session: str = "s1") -> bytes:
    """The first record of an OpenClaw session."""
    return line({"type": "session", "version": 3, "id": session, "timestamp": AT.format(0)})


def dreaming() -> bytes:
    """A record that shows a whole OpenClaw session to be a dreaming run."""
    data = {"runId": "dreaming-narrative-7"}
    return line({"type": "custom", "customType": "openclaw:bootstrap-context:full", "data": data})


def reset() -> bytes:
    """The record of a conversation that was begun anew."""
    return line({"type": "reset", "id": "r1", "timestamp": AT.format(1), "reason": "new"})


def asked(query: str, call: str = "c1", **others: float) -> bytes:
    """A search of the memory in an OpenClaw session, with others of its parameters."""
    arguments = {"query": query, **others}
    block = {"type": "toolCall", "id": call, "name": "memory_search", "arguments": arguments}
    message = {"role": "assistant", "content": [block]}
    return line({"type": "message", "timestamp": AT.format(2), "message": message})


def answered(*places: str | tuple[str, int, int, float], call: str = "c1") -> bytes:
    """What the memory answered to a search in an OpenClaw session: paths, or lines and scores."""
    whole = [(one, 1, 1, 0.9) if isinstance(one, str) else one for one in places]
    keys = ("path", "startLine", "endLine", "score")
    found = [dict(zip(keys, place, strict=True)) for place in whole]
    content = [{"type": "text", "text": json.dumps({"results": found})}]
    message = {"role": "toolResult", "toolCallId": call, "toolName": "memory_search"}
    return line({"type": "message", "message": {**message, "content": content}})


def claude(role: str, text: str, number: int = 0, project: str = "/home/me/garden") -> bytes:
    """A message of a Claude Code transcript."""
    return line(
        {
            "type": role,
            "uuid": f"u{number}",
            "sessionId": "c-1",
            "cwd": project,
            "timestamp": AT.format(number % 60),
            "message": {"role": role, "content": [{"type": "text", "text": text}]},
        }
    )


def codex(role: str, text: str, second: int = 0) -> bytes:
    """A message of a Codex rollout."""
    kind = "input_text" if role == "user" else "output_text"
    item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return line({"timestamp": AT.format(second), "type": "response_item", "payload": item})


def codex_began() -> bytes:
    """The first record of a Codex rollout."""
    meta = {"id": "0199-x", "cwd": "/home/me/garden", "originator": "codex_cli_rs"}
    return line({"timestamp": AT.format(0), "type": "session_meta", "payload": meta})


class IndexLines:
    """The lines that the index has of records, made one after the other."""

    def __init__(
        self,
        kind: TranscriptKind,
        name: str = "a.jsonl",
        rules: TranscriptRules = RULES["openclaw-2026.9"],
        state: ReadState | None = None,
    ) -> None:
        form = format_of(kind)
        self.state = state or ReadState()
        self.made = index_lines(form, name, rules, self.state)
        self.reader = TranscriptReader(form, name, self.made)

    @property
    def run(self) -> str | None:
        """What the whole transcript is, when nobody speaks in it."""
        return self.state.run

    def add(self, record: dict[str, Any], number: int) -> list[str]:
        """The lines of the next record; none once the whole is void."""
        turns = self.reader.turns_of(record, number)
        lines = self.made.add(record, number, turns)
        return [] if self.run else lines


EVENTS = (
    "CREATE TABLE IF NOT EXISTS transcript_events(session_id, seq, event_json, event_zstd, created_at,"
    " PRIMARY KEY(session_id, seq))"
)


class Homes:
    """The homes of all three programs below one folder."""

    def __init__(self, folder: Path) -> None:
        self._clock = count(1_790_000_000_000)
        """Milliseconds at which events are written."""
        self.folder = folder
        self.homes = TranscriptHomes(folder / "openclaw", folder / "claude", folder / "codex")

    def openclaw(self, name: str, parts: Iterable[bytes] | bytes, agent: str = "main") -> Path:
        """Write a session of an agent."""
        return self.write(f"openclaw/agents/{agent}/sessions/{name}", parts)

    def claude(self, name: str, parts: Iterable[bytes] | bytes, project: str = "-garden") -> Path:
        """Write a transcript of a project."""
        return self.write(f"claude/projects/{project}/{name}", parts)

    def codex(self, name: str, parts: Iterable[bytes] | bytes, day: str = "2026/10/01") -> Path:
        """Write a rollout."""
        return self.write(f"codex/sessions/{day}/{name}", parts)

    def events(
        self,
        *events: bytes,
        start: int = 1,
        packed: Callable[[int], bool] = lambda number: False,
        agent: str = "main",
        session: str = "s9",
    ) -> Path:
        """Write events of a session into the database of an agent, some of them packed."""
        database = self.folder / f"openclaw/agents/{agent}/agent/openclaw-agent.sqlite"
        database.parent.mkdir(parents=True, exist_ok=True)
        pack = zstandard.ZstdCompressor().compress
        with closing(apsw.Connection(str(database))) as connection:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
            connection.execute(EVENTS)
            for number, event in enumerate(events, start):
                body = event.removesuffix(b"\n")
                texts = (
                    (None, pack(body))
                    if packed(number)
                    else (body.decode("utf-8", "replace"), None)
                )
                row = (session, number, *texts, next(self._clock))
                connection.execute("REPLACE INTO transcript_events VALUES(?, ?, ?, ?, ?)", row)
        return database

    def plant(self, kind: TranscriptKind, data: bytes | None = None) -> str:
        """Write the planted transcript of a program where it would; return its stored path."""
        whole, answers = planted(kind)
        data, name = whole if data is None else data, answers["name"]
        match kind:
            case TranscriptKind.OPENCLAW:
                self.openclaw(name, data)
                return f"sessions/main/{name}"
            case TranscriptKind.CLAUDE_CODE:
                self.claude(name, data)
                return f"claude-code/-garden/{name}"
            case TranscriptKind.CODEX:
                self.codex(name, data)
                return f"codex/2026/10/01/{name}"

    def write(self, path: str, parts: Iterable[bytes] | bytes) -> Path:
        """Write a file below the homes, with its folders."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(parts if isinstance(parts, bytes) else b"".join(parts))
        return target

    def scope(self, root: Path, *sources: str, **fields: Any) -> TranscriptScope:
        """The scope of a memory with some sources."""
        return TranscriptScope(root, self.homes, sources, **fields)


ATTACK = "\x1b]2;PWNED\x1b\\ [/] [x] \u202egnitset\u202c [@click=app.quit]hi[/] \x9b31m 管理画面"
LONG = "A long answer about the trunk port. " * 60 + "The word needle is near its end."


def talk(folder: Path) -> Homes:
    """Two conversations, the first with every kind of entry; what was asked was answered, too."""
    homes = Homes(folder)
    lines = [
        began(),
        said("user", f"Why does the router drop VLAN 20? The key is {SECRET}", 1),
        asked("router networks", "c1"),
        answered("memory/gone.md", "MEMORY.md", call="c1"),
        said("assistant", LONG, 3),
        said("user", "System: [2026-10-01] heartbeat", 4),
        b'{"type": "mess\xff\n',
        said("user", f"It says {ATTACK}\n\n\tindented", 5),
        line({"type": "compaction", "id": "k", "summary": "VLAN 20 needs a tagged port."}),
        asked("tomatoes", "c2"),
        answered("memory/topics/garden.md", call="c2"),
        asked("tagged port", "c3"),
        reset(),
        said("assistant", "The needle was the firmware.", 9),
    ]
    homes.openclaw("s1.jsonl", lines)
    homes.claude("c1.jsonl", [claude("user", f"Back up the NAS {ATTACK}")])
    return homes


def every_condition(folder: Path) -> Homes:
    """Transcripts of all programs in every condition: planted, void, cut, packed, copied, in rows."""
    homes = Homes(folder)
    for kind in TranscriptKind:
        homes.plant(kind)
    pack, uuid = zstandard.ZstdCompressor().compress, f"{'0' * 8}-0000-4000-8000-{'0' * 12}"
    packed = pack(said("user", "packed away") * 3)
    gate = [began(), said("user", "where is\nthe gate"), asked("gate", "c1")]
    gate += [answered("MEMORY.md", "memory/gone.md", call="c1"), asked("router", "c2")]
    gate += [answered("memory/2026-10-01.md", call="c2"), asked("tea", "c3")]
    gate += [reset(), said("assistant", "in the shed", 9)]
    for name, parts in {
        "gate.jsonl": gate,
        "dream.jsonl": [began(), dreaming(), said("user", "a dream")],
        "cron.jsonl": [began(), said("user", "the nightly backup"), asked("backup")],
        "quiet.jsonl": [began()],
        "cut.jsonl": [began(), said("user", "hello"), b'{"type":\n'],
        "none.jsonl": [b"not a record\n" * 3],
        "empty.jsonl": [],
        "old.jsonl.reset.2026-10-01T10-00-00Z": [began(), said("user", "put away")],
        "old.jsonl.deleted.2026-10-01T10-00-00Z.zst": [packed],
        "cut.jsonl.deleted.2026-10-01T10-00-00Z.zst": [packed[:-4]],
        "bad.jsonl.reset.2026-10-01T10-00-00Z.zst": [packed[:4], b" not packed"],
        f"x.checkpoint.{uuid}.jsonl": [began()],
        "x.trajectory.jsonl": [b"{}\n"],
        "x.jsonl.bak.2026-10-01T10-00-00Z": [began()],
        "sessions.json": [b'{"agent:main:cron:backup:run:1": {"sessionId": "cron"}}'],
    }.items():
        homes.openclaw(name, parts)
    linked = homes.openclaw("link.jsonl", b"")
    linked.unlink()
    linked.symlink_to(linked.with_name("gate.jsonl"))
    events = [said("user", "first event"), b'{"pretty":\n 1}', asked("shed"), b"x" * 2 * LIMIT]
    homes.events(*events, start=0, packed=lambda number: number % 2 == 0, agent="rows")
    # Of what its database holds the files beside it are older; archives are not in it.
    for name in ("s9.jsonl", "s8.jsonl.reset.2026-10-01T10-00-00Z"):
        homes.openclaw(name, [began(), said("user", "beside the rows")], agent="rows")
    homes.claude("b.jsonl", [claude("user", "the pond", 2)], project="-pond")
    homes.claude("c/subagents/agent-1.jsonl", [claude("user", "of an agent", 3)])
    homes.write("codex/archived_sessions/rollout-o.jsonl", [codex_began(), codex("user", "peas")])
    homes.write("logs/any.jsonl", [codex_began(), codex("user", "mint")])
    homes.write("logs/x.jsonl", b'{"level": "info"}\n')
    # Most of its first records tell whose it is.
    homes.write("logs/mixed.jsonl", [said("user", "leek")] * 4 + [codex("user", "dill")] * 6)
    # Lists show the newest first.
    for number, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, (1_793_000_000 + number,) * 2, follow_symlinks=False)
    return homes
