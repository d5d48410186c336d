"""Searches of a memory in a transcript: the calls of tools that are some, and their answers.

No list can know every tool. A call counts when its name says both that it searches and that what
it searches is a memory, or the server it belongs to is one, and its arguments hold a query.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from memtui.memory.transcripts.generated import Dropped
from memtui.memory.transcripts.records import (
    moment,
    parse_several,
    parsed_arguments,
    text_in,
    whole,
)
from memtui.model.conversations import MemoryCall, Recalled, TranscriptKind, Turn, TurnKind
from memtui.text.redact import redact, redact_name, redact_value

T = TypeVar("T")

_VERBS: Final = frozenset(
    {"search", "vsearch", "query", "recall", "find", "retrieve", "lookup", "searching"}
)
_MEMORIES: Final = frozenset(
    {
        *("memory", "memories", "mem", "mem0", "openmemory", "supermemory", "memento"),
        *("memtui", "qmd", "obsidian", "zep", "letta", "graphiti", "cognee", "memgpt", "memini"),
        *("hindsight", "honcho", "byterover"),
    }
)
"""In the name of a tool or of its server."""
_MACHINES: Final = frozenset(
    {
        *("profiler", "heap", "leak", "leaks", "usage", "gdb", "lldb", "ghidra", "ida", "radare2"),
        *("debugger", "process", "ram", "kernel", "cheat", "cheatengine", "x64dbg", "windbg"),
    }
)
"""With one of these a memory is that of a computer."""
_KEEPERS: Final = frozenset(
    {"notes", "note", "knowledge", "kb", "vault", "journal", "conversation", "conversations"}
)
"""In the name of a server, or of a tool that belongs to none: elsewhere they mean other things."""
_WITH_KEEPERS: Final = frozenset(
    {
        *("mcp", "server", "plugin", "api", "local", "my", "user", "personal", "private", "daily"),
        *("base", "graph", "rag", "archive", "store", "index", "manager", "agent", "md"),
        *("markdown", "apple", "bear", "joplin", "logseq", "second", "brain", "past", "history"),
        *("hybrid", "semantic", "vector", "full", "text", "fulltext", "keyword", "simple", "deep"),
        *("all", "in", "the", "by", "for", "from", "of", "get", "list", "claude", "codex"),
    }
)
"""Beside a keeper; every other word says whose they are: `release-notes`, `slack_conversations`."""
_OTHERS: Final = frozenset(
    {
        # what is searched is something else
        *("web", "internet", "code", "grep", "file", "files", "symbol", "symbols", "tool", "tools"),
        *("documentation", "docs", "api", "library", "libraries", "image", "images"),
        *("secret", "secrets"),
        # the memory is written
        *("add", "create", "update", "delete", "remove", "write", "save", "store", "insert"),
        *("set", "put", "edit", "append", "replace", "move", "rename", "forget", "clear"),
    }
)
_QUERIES: Final = (
    *("query", "q", "search_query", "searchQuery", "queries", "question", "search", "text"),
    *("searches", "search_text", "term", "terms", "keywords", "informationToGet"),
)
"""What tools call their query, the most usual first."""
_SERVER_ENDS: Final = re.compile(r"(?P<server>.+)(?:__|[./:])(?P<tool>[^./:]+?)\Z", re.DOTALL)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
_LONGEST_NAME: Final = 200


def is_memory_search(tool: str, arguments: Mapping[str, Any] | str) -> str | None:
    """Return the query of a call that searches a memory; `None` for every other call.

    `tool` is the whole name as the program writes it (`memory_search`, `mcp__server__tool`,
    `server__tool`, `server.tool`); arguments may be the text of a JSON object.
    """
    if not _searches_memory(tool):
        return None
    given = parsed_arguments(arguments)
    if not isinstance(given, dict):
        return None
    return next((text for name in _QUERIES if (text := _query(given.get(name)))), None)


def _searches_memory(name: str) -> bool:
    if not name or len(name) > _LONGEST_NAME:
        return False
    parts = _SERVER_ENDS.match(name)
    tool = _words(parts["tool"] if parts else name)
    server = _words(parts["server"].removeprefix("mcp__")) if parts else frozenset()
    if not tool & _VERBS or tool & _OTHERS or (tool | server) & _MACHINES:
        return False
    if (tool | server) & _MEMORIES or tool == {"recall"}:
        return True
    keeper = server or tool
    return bool(keeper & _KEEPERS) and keeper <= _KEEPERS | _WITH_KEEPERS | _VERBS


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(name))


def _query(value: object) -> str:
    """A query, or several joined by spaces: of texts, or of objects that hold one each."""
    if isinstance(value, str):
        return value if value.strip() else ""
    if not isinstance(value, list):
        return ""
    parts = [item.get("query") if isinstance(item, dict) else item for item in value]
    return " ".join(part for part in parts if isinstance(part, str) and part.strip())


MOST_RESULTS: Final = 1000
SNIPPET: Final = 2000
"""Characters of a snippet that are kept."""
_PROBLEM: Final = 200

_LISTS: Final = (
    *("results", "matches", "hits", "memories", "notes", "documents", "items", "search_results"),
    *("entities", "facts", "data", "result"),
)
_PATHS: Final = (
    *("path", "file_path", "filePath", "relPath", "rel_path", "file", "filename", "fileName"),
    *("permalink", "uri", "url", "docid", "id", "uuid", "name", "title"),
)
_STARTS: Final = ("startLine", "start_line", "lineStart", "line_start", "line", "fromLine", "start")
_ENDS: Final = ("endLine", "end_line", "lineEnd", "line_end", "toLine", "end")
_SCORES: Final = ("score", "similarity", "relevance", "relevance_score", "rank_score")
_SNIPPETS: Final = (
    *("snippet", "text", "content", "excerpt", "memory", "matched_chunk", "chunk", "body"),
    *("summary", "fact", "observation", "description"),
)
_NESTED: Final = ("metadata", "document", "note", "item", "entity", "payload")
_CITED: Final = re.compile(
    r"(?P<path>.*?)#L(?P<start>\d{1,9})(?:-L?(?P<end>\d{1,9}))?\Z", re.DOTALL
)
_HEADER: Final = re.compile(r"@@ -(\d{1,9}),(\d{1,9})")
"""QMD writes the first line and the number of lines before a snippet."""
_NOTHING: Final = re.compile(
    r"\W*(?:no|0) (?:relevant |matching |stored )?"
    r"(?:results?|matches|memories|notes|documents|hits)(?: (?:were )?found)?\b.{0,200}\Z",
    re.IGNORECASE | re.DOTALL,
)
_TAKEN_OUT: Final = re.compile(
    r"\s*[\[<(][^\n]{0,200}\b(?:cleared|removed|omitted|stripped|pruned|elided)\b[^\n]{0,200}[\])>]\s*\Z",
    re.IGNORECASE,
)
_ELSEWHERE: Final = "<persisted-output>"
_OF_BLOCK: Final = frozenset({"type", "text", "annotations", "_meta"})
_NO_LIST: Final = "the answer holds no list of results"


class Answer(NamedTuple):
    """What an answer says."""

    returned: tuple[Recalled, ...] | None
    """Best first; `None` when it cannot be told."""
    problem: str
    """One line: why not; empty when it can."""


def read_answer(text: str, *, is_error: bool) -> Answer:
    """Read an answer in one of the known JSON shapes; credentials in it are masked."""
    if is_error:
        return Answer(None, _failed(text))
    if not text.strip():
        return Answer(None, "the answer was taken out of the transcript")
    start = text.lstrip()
    if not start.startswith(("{", "[")) or _TAKEN_OUT.match(start):
        return _free_text(start)
    try:
        values = parse_several(start)
    except ValueError:
        # Cut by the program that kept it, or text that only begins like JSON.
        return Answer(None, "the answer is cut, or no JSON")
    # A server may give every result as a text of its own.
    value = values[0] if len(values) == 1 else values
    inner = _inner_text(value)
    return _results(value) if inner is None else read_answer(inner, is_error=is_error)


def _inner_text(value: object) -> str | None:
    """What a server wrapped as it came: blocks of text, or a text as the only result."""
    if isinstance(value, dict):
        if value.keys() == {"result"} and isinstance(value["result"], str):
            return value["result"]
        if value.get("isError") is True or any(name in value for name in _LISTS):
            return None
        value = value.get("content")
    if not isinstance(value, list) or not value:
        return None
    texts = [
        item["text"]
        for item in value
        if isinstance(item, dict)
        and item.keys() <= _OF_BLOCK
        and item.get("type") in ("text", "input_text")
        and isinstance(item.get("text"), str)
    ]
    return "\n".join(texts) if len(texts) == len(value) else None


def _free_text(text: str) -> Answer:
    if _NOTHING.match(text):
        return Answer((), "")
    if _TAKEN_OUT.match(text):
        return Answer(None, "the answer was taken out of the transcript")
    if text.startswith(_ELSEWHERE):
        return Answer(None, "the answer is in a file beside the transcript")
    return Answer(None, "the answer is text")


def _results(value: object) -> Answer:
    listed = value
    if isinstance(value, dict):
        error = text_in(value, "error", "error_message")
        if error or value.get("isError") is True or value.get("disabled") is True:
            return Answer(None, _failed(error or text_in(value, "message", "warning")))
        listed = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
        if listed is None:
            inner = next(
                (value[name] for name in _LISTS if isinstance(value.get(name), dict)), None
            )
            return _results(inner) if inner else Answer(None, _NO_LIST)
    if not isinstance(listed, list):
        return Answer(None, _NO_LIST)
    rows = [_recalled(item) for item in listed[:MOST_RESULTS]]
    if not all(rows):
        return Answer(None, "the results are of an unknown shape")
    return Answer(tuple(row for row in rows if row), "")


def _recalled(item: object) -> Recalled | None:
    if isinstance(item, str) and item.strip():
        return Recalled("", 0, 0, None, redact(whole(item))[:SNIPPET])
    if not isinstance(item, dict):
        return None
    places = [item, *(item[name] for name in _NESTED if isinstance(item.get(name), dict))]
    path, start, end = _place(places)
    snippet = _first_text(places, _SNIPPETS)
    if not path and not snippet:
        return None
    score = next(
        (s for place in places for name in _SCORES if (s := _number(place.get(name))) is not None),
        None,
    )
    return Recalled(redact(whole(path)), start, end, score, redact(whole(snippet))[:SNIPPET])


def _place(places: list[dict[str, Any]]) -> tuple[str, int, int]:
    path = _first_text(places, _PATHS)
    start = _first_line(places, _STARTS)
    end = _first_line(places, _ENDS)
    cited = _CITED.match(path) or (
        None if start else _CITED.match(_first_text(places, ("citation",)))
    )
    if cited is not None:
        path = path if path and "#L" not in path else cited["path"]
        start = start or int(cited["start"])
        end = end or int(cited["end"] or cited["start"])
    header = None if start else _HEADER.match(_first_text(places, _SNIPPETS))
    if header is not None:
        start = int(header[1])
        end = start + max(1, int(header[2])) - 1
    return path, start, max(start, end) if start else 0


def _first_text(places: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    for name in names:
        for place in places:
            value = place.get(name)
            if isinstance(value, str) and value.strip():
                return value
    return ""


def _first_line(places: list[dict[str, Any]], names: tuple[str, ...]) -> int:
    for place in places:
        for name in names:
            value = place.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
                return value
    return 0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    number = float(value) if abs(value) < 1e300 else None
    return number if number is not None and number == number else None


def _failed(text: str) -> str:
    line = " ".join(redact(whole(text[: 8 * _PROBLEM])).split())[:_PROBLEM]
    return f"the tool failed: {line}" if line else "the tool failed"


__all__ = ["CallCollector", "is_memory_search"]

LONGEST_QUERY: Final = 10_000
"""Characters of a query that are kept, and of every other argument."""
UNANSWERED: Final = "no answer is recorded"

_EARLY: Final = 16
"""Answers that are held until their call comes."""
_EARLY_CHARACTERS: Final = 1 << 18
"""The longest of them."""
_CALLS_KNOWN: Final = 4096
"""Calls of other tools whose answers are told by their ids."""
_WAITING: Final = 64
"""Calls of one id that wait for answers; one before them will get none."""


class _Waiting(NamedTuple):
    """A call whose answer may still come."""

    tool: str
    place: int | None
    """Of a search of the memory its place among them; `None` for another tool."""


@dataclass(slots=True)
class _OneId:
    """The calls that have one id, in their order; some programs use an id again and again."""

    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=_WAITING))
    """Those without an answer."""
    last: _Waiting | None = None
    """The search that was answered last; `None` after another tool's answer."""
    times: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    """When something was asked of a tool."""

    def is_copy(self, turn: Turn) -> bool:
        """Return whether a call was recorded before; it is remembered."""
        if turn.left_out == Dropped.DUPLICATE and self.times:
            return True
        times = self.times.setdefault((turn.tool, turn.text), set())
        known = turn.timestamp_ms in times or 0 in times or (not turn.timestamp_ms and bool(times))
        times.add(turn.timestamp_ms)
        return known

    def answered_by(self, turn: Turn) -> tuple[int | None, bool]:
        """Return the place of the search that a result answers, and whether it is told again.

        The place is `None` where nothing is answered, or a call of another tool.
        """
        # What is told again for the screen may call the same tool otherwise.
        named = "" if turn.left_out == Dropped.DUPLICATE else turn.tool
        for one in self.waiting:
            if named in ("", one.tool):
                self.waiting.remove(one)
                self.last = one if one.place is not None else None
                return one.place, False
        if self.last is not None and named in ("", self.last.tool):
            return self.last.place, True
        return None, True


class CallCollector:
    """Collects the searches of a memory in a transcript, in the order in which they were asked.

    A call that a program recorded twice, as when it resumes a session, is collected once; one of
    the same id that asks for something else, or at another time, is one of its own.
    """

    def __init__(self, path: str, kind: TranscriptKind) -> None:
        """`path` is the transcript's, as the index stores it."""
        self._path = path
        self._kind = kind
        self._calls: list[MemoryCall] = []
        self._by_id: dict[str, _OneId] = {}
        self._early: dict[str, Turn] = {}
        self._others: dict[str, None] = {}

    def add(self, turn: Turn) -> None:
        """Take in the next turn, whose text is whole and not masked."""
        if turn.kind is TurnKind.TOOL_CALL:
            self._call(turn)
        elif turn.kind is TurnKind.TOOL_RESULT:
            self._result(turn)

    def calls(self) -> list[MemoryCall]:
        """Return the searches so far; credentials are masked."""
        return list(self._calls)

    def _call(self, turn: Turn) -> None:
        query = is_memory_search(turn.tool, turn.text)
        if query is None:
            _keep(self._others, turn.call_id, None, _CALLS_KNOWN)
            if turn.call_id in self._by_id:
                self._by_id[turn.call_id].waiting.append(_Waiting(turn.tool, None))
            return
        known = self._by_id.setdefault(turn.call_id, _OneId())
        if turn.call_id and known.is_copy(turn):
            return
        known.waiting.append(_Waiting(turn.tool, len(self._calls)))
        given = parsed_arguments(turn.text)
        call = MemoryCall(
            path=self._path,
            line=turn.line,
            kind=self._kind,
            tool=redact_name(whole(turn.tool)),
            query=redact(whole(query))[:LONGEST_QUERY],
            asked=moment(turn.timestamp_ms),
            arguments=_others(given if isinstance(given, dict) else {}),
            problem=UNANSWERED,
        )
        self._calls.append(call)
        early = self._early.pop(turn.call_id, None) if turn.call_id else None
        if early is not None:
            self._result(early)

    def _result(self, turn: Turn) -> None:
        known = self._by_id.get(turn.call_id)
        if known is None:
            if turn.call_id not in self._others and turn.size <= _EARLY_CHARACTERS:
                _keep(self._early, turn.call_id, turn, _EARLY)
            return
        place, is_again = known.answered_by(turn)
        # Told twice: the one that can be read is kept.
        if place is None or (is_again and self._calls[place].returned is not None):
            return
        returned, problem = read_answer(turn.text, is_error=turn.is_error)
        if not is_again or returned is not None:
            self._calls[place] = replace(
                self._calls[place], returned=returned, answer_line=turn.line, problem=problem
            )


def _keep(held: dict[str, T], call_id: str, value: T, most: int) -> None:
    """Keep a value by the id of a call; the oldest goes when there are more than `most`."""
    if call_id:
        held[call_id] = value
        if len(held) > most:
            del held[next(iter(held))]


def _others(arguments: Mapping[str, Any]) -> dict[str, float | int | str | bool]:
    """Return the arguments beside the query that are single values which JSON can hold."""
    query = next((name for name in _QUERIES if _query(arguments.get(name))), "")
    masked = redact_value(
        {
            whole(name): whole(value) if isinstance(value, str) else value
            for name, value in arguments.items()
            if isinstance(value, str | int | float)
            and name != query
            # `1E400` in a transcript is read as infinity.
            and not (isinstance(value, float) and not math.isfinite(value))
        }
    )
    items = masked.items() if isinstance(masked, dict) else ()
    return {
        name: value[:LONGEST_QUERY] if isinstance(value, str) else value for name, value in items
    }
