"""An engine with conversations for the tests of the sessions screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from memtui.errors import Cancelled, MemtuiError
from memtui.model import Chunk, Ranking, Reason, SkippedFile
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    Recalled,
    RecallRow,
    Replayed,
    TranscriptKind,
    TranscriptSource,
    Turn,
    TurnKind,
)
from tests.tui.samples import SampleEngine

HOSTILE = "\x1b]2;PWNED\x1b\\ [/] [x] \u202egnitset\u202c [@click=app.quit]hi[/] \x9b31m 管理画面"
START = datetime(2026, 2, 10, 9, 12, tzinfo=UTC)
MAIN = "sessions/main/3f9a.jsonl"
CODE = "sessions/claude-code/-home-mika-nas/77aa.jsonl"
ROWS = "sessions/main/8e1d.jsonl"
CUT = 400
"""Characters of a long text that are held."""


def listing(path: str, title: str, hours: float = 0.0, **changes: object) -> ConversationListing:
    """A conversation that begins so many hours after the first one."""
    begun = START + timedelta(hours=hours)
    made = ConversationListing(
        path=path,
        place=f"/home/mika/.openclaw/{path}",
        kind=TranscriptKind.OPENCLAW,
        agent="main",
        size=48_000,
        changed=begun + timedelta(hours=1),
        title=title,
        model="gpt-5.2",
        started=begun,
        ended=begun + timedelta(minutes=65),
        turns=12,
        calls=0,
        chunks=4,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


LISTINGS = (
    listing(MAIN, "Why does the router drop VLAN 20 after the firmware update?", 0, calls=2),
    listing(
        CODE,
        f"Back up the NAS {HOSTILE}",
        30,
        kind=TranscriptKind.CLAUDE_CODE,
        agent="-home-mika-nas",
        model="claude-opus-4",
        turns=None,
        calls=None,
        chunks=None,
        state=Reason.DISABLED,
        detail="claude-code is not opted in: O chooses it",
    ),
    listing(
        ROWS, "", 50, session="8e1d", turns=3, malformed=2, state=Reason.MALFORMED_LINES, size=900
    ),
    listing(
        "sessions/main/9c.jsonl.deleted.2026-02-09",
        "Old plans",
        -30,
        state=Reason.ARCHIVE_NOT_READ,
        chunks=None,
    ),
)


def turn(line: int, kind: TurnKind, role: str, text: str, **changes: object) -> Turn:
    """A turn a minute after the one before."""
    made = Turn(
        line, kind, role, text[:CUT], len(text), int(START.timestamp() * 1000) + 60_000 * line
    )
    return replace(made, **changes)  # type: ignore[arg-type]


LONG = "A long answer about the trunk port. " * 60 + "The word needle is near its end."
RESULT = '{"results": [' + '{"path": "memory/2026-02-10.md", "score": 0.8}, ' * 20 + "]}"
TEXTS: tuple[tuple[Turn, str], ...] = tuple(
    (made, text)
    for line, kind, role, text, changes in (
        (2, TurnKind.MESSAGE, "user", "Why does the router drop VLAN 20?", {}),
        (3, TurnKind.THINKING, "assistant", "The trunk port may not be tagged.", {}),
        (
            3, TurnKind.TOOL_CALL, "assistant", '{"query": "router VLAN"}',
            {"tool": "memory_search", "call_id": "c1"},
        ),
        (
            4, TurnKind.TOOL_RESULT, "tool", RESULT,
            {"tool": "memory_search", "call_id": "c1"},
        ),
        (5, TurnKind.MESSAGE, "assistant", LONG, {}),
        (6, TurnKind.MESSAGE, "user", "HEARTBEAT", {"left_out": "heartbeat_prompt"}),
        (7, TurnKind.MALFORMED, "system", "{broken", {"timestamp_ms": 0}),
        (8, TurnKind.MESSAGE, "user", f"Token ‹redacted› and {HOSTILE}\n\n\tindented", {}),
        (9, TurnKind.TOOL_RESULT, "tool", "exit 1", {"tool": "exec", "is_error": True}),
        (10, TurnKind.COMPACTION, "system", "Summary: VLAN 20 needs a tagged port.", {}),
        (11, TurnKind.MESSAGE, "assistant", "The needle was the firmware.", {}),
        (12, TurnKind.RESET, "system", "", {}),
        (13, TurnKind.MESSAGE, "user", "Thanks", {"timestamp_ms": 10**18}),
    )
    for made in (turn(line, kind, role, text, **changes),)
)  # fmt: skip


@dataclass
class SampleConversation:
    """A conversation held in memory; `reads` counts what would read the file."""

    listing: ConversationListing
    texts: Sequence[tuple[Turn, str]] = TEXTS
    malformed: Sequence[tuple[int, str]] = ((7, f"unterminated {HOSTILE}"),)
    reads: list[str] = field(default_factory=list)
    turns: Sequence[Turn] = field(init=False)

    def __post_init__(self) -> None:
        self.turns = [made for made, _ in self.texts]

    def whole(self, at: int) -> Turn:
        """A turn with all of its text."""
        self.reads.append(f"whole {at}")
        made, text = self.texts[at]
        return replace(made, text=text)

    def find(self, text: str, *, cancelled: Callable[[], bool] = lambda: False) -> Sequence[int]:
        """The turns with a text."""
        self.reads.append(f"find {text}")
        wanted = text.casefold()
        return [at for at, (_, held) in enumerate(self.texts) if wanted in held.casefold()]


def call(line: int, query: str, returned: Sequence[str] | None, path: str = MAIN) -> MemoryCall:
    """A search of the memory."""
    results = None
    if returned is not None:
        results = tuple(Recalled(found, 1, 9, 0.9 - at / 10) for at, found in enumerate(returned))
    problem = "" if results is not None else "the answer is not recorded"
    asked = START + timedelta(minutes=line)
    kind = TranscriptKind.OPENCLAW
    return MemoryCall(
        path, line, kind, "memory_search", query, asked, returned=results, problem=problem
    )


CALLS = (
    call(3, f"router VLAN {HOSTILE}", ("memory/network.md", "MEMORY.md")),
    call(9, "firmware update", ("memory/2026-02-10.md",)),
    call(11, "tagged port", None),
)
SOURCES = (
    TranscriptSource(
        "openclaw:main",
        TranscriptKind.OPENCLAW,
        "/home/mika/.openclaw/agents/main/sessions",
        True,
        found=3,
        size=97_000,
        indexed=2,
        chunks=8,
        messages=40,
        left_out={"heartbeat_prompt": 7, "no_text": 2},
        malformed=2,
        skipped=(
            SkippedFile(
                "sessions/main/9c.jsonl.deleted.2026-02-09", Reason.ARCHIVE_NOT_READ, HOSTILE
            ),
        ),
        detail="What you and main said in 3 conversations, credentials masked.",
    ),
    TranscriptSource(
        "claude-code",
        TranscriptKind.CLAUDE_CODE,
        "/home/mika/.claude/projects",
        False,
        found=1,
        size=48_000,
        detail="1 conversation about this folder would be indexed.",
    ),
    TranscriptSource("codex", TranscriptKind.CODEX, "", False, detail="Nothing to index."),
)


def chunk(start: int, end: int, path: str = MAIN) -> Chunk:
    """A chunk of a transcript."""
    return Chunk(f"chunk-{start}", path, "sessions", start, end, "User: text", "hash", "minilm")


@dataclass
class ConversationEngine(SampleEngine):
    """The sample engine with conversations."""

    listings_of: Sequence[ConversationListing] = LISTINGS
    texts: Sequence[tuple[Turn, str]] = TEXTS
    chunks: Sequence[Chunk] = (chunk(2, 5), chunk(8, 11))
    asked_calls: Sequence[MemoryCall] = CALLS
    places: Sequence[TranscriptSource] = SOURCES
    fails: str = ""
    """What every look at conversations fails with; empty: it does not."""
    unwilling: str = ""
    """Why no choice of sources is gone by; empty: it is."""
    used: list[tuple[str, ...]] = field(default_factory=list)
    opened: list[SampleConversation] = field(default_factory=list)

    def listed_conversations(self) -> Sequence[ConversationListing]:
        """The conversations of the sample."""
        if self.fails:
            raise MemtuiError(self.fails)
        return sorted(self.listings_of, key=lambda each: each.changed, reverse=True)

    def count_conversations(
        self,
        listings: Sequence[ConversationListing],
        counted: Callable[[ConversationListing], None],
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Count at once."""
        self.calls.append(f"count {len(listings)}")
        for each in listings:
            if cancelled():
                raise Cancelled
            counted(replace(each, turns=7, calls=1))

    def conversation(
        self, path: str, *, cancelled: Callable[[], bool] = lambda: False
    ) -> SampleConversation:
        """A conversation of the sample."""
        found = next((each for each in self.listings_of if each.path == path), None)
        if found is None or self.fails:
            raise MemtuiError(self.fails or f"{path}: there is no such conversation")
        self.calls.append(f"conversation {path}")
        self.opened.append(SampleConversation(replace(found, turns=7, calls=1), self.texts))
        return self.opened[-1]

    def chunks_of(self, path: str) -> Sequence[Chunk]:
        """The chunks of the first conversation."""
        return [each for each in self.chunks if each.path == path]

    def transcript_sources(self) -> Sequence[TranscriptSource]:
        """The places of the sample."""
        if self.fails:
            raise MemtuiError(self.fails)
        return self.places

    def use_transcripts(self, names: Sequence[str]) -> None:
        """Note the names."""
        if self.unwilling:
            raise MemtuiError(self.unwilling)
        self.used.append(tuple(names))

    def memory_calls(
        self,
        paths: Sequence[str] | None = None,
        *,
        found: Callable[[Sequence[MemoryCall]], None] = lambda calls: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Sequence[MemoryCall]:
        """The searches of the sample."""
        calls = [each for each in self.asked_calls if paths is None or each.path in paths]
        found(calls)
        return calls

    def replay(self, call: MemoryCall, *, ranking: Ranking | None = None) -> Replayed:
        """The first search comes back otherwise, the second the same."""
        self.calls.append(f"replay {call.line}")
        if call.line == 3:
            return Replayed(
                call,
                (
                    RecallRow("MEMORY.md", 1, 9, RecallChange.MOVED, 2, 1, 0.8, 0.91),
                    RecallRow("memory/2026-02-12.md", 4, 8, RecallChange.ENTERED, None, 2, None, 0.7),
                    RecallRow(
                        f"memory/{HOSTILE}.md", 1, 9, RecallChange.LEFT, 1, None, 0.9, None,
                        Reason.BELOW_MIN_SCORE,
                    ),
                ),
            )  # fmt: skip
        rows = tuple(
            RecallRow(each.path, 1, 9, RecallChange.SAME, at, at, each.score, each.score)
            for at, each in enumerate(call.returned or (), 1)
        )
        return Replayed(call, rows)
