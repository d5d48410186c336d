"""Searches of a memory in a transcript: the calls of tools that are some, and their answers.

No list can know every tool. A call counts when its name says both that it searches and that what
it searches is a memory, or the server it belongs to is one, and its arguments hold a query.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from memtui.data import read_table
from memtui.memory.transcripts import records
from memtui.memory.transcripts.generated import Dropped
from memtui.model.conversations import MemoryCall, Recalled, TranscriptKind, Turn, TurnKind
from memtui.text.ecmascript import well_formed
from memtui.text.redact import redact, redact_name, redact_value

_TOOLS: Final = read_table("memory_tools.toml")
_NAME_WORDS: Final = {group: frozenset(words) for group, words in _TOOLS["name"].items()}
_QUERIES: Final[list[str]] = _TOOLS["call"]["query"]
_FIELDS: Final[dict[str, list[str]]] = _TOOLS["answer"]
_PATTERNS: Final = {name: re.compile(text) for name, text in _TOOLS["patterns"].items()}
_LONGEST_NAME: Final = 200


def is_memory_search(tool: str, arguments: Mapping[str, Any] | str) -> str | None:
    """Return the query of a call that searches a memory; `None` for every other call.

    `tool` is the whole name as the program writes it (`memory_search`, `mcp__server__tool`,
    `server__tool`, `server.tool`); arguments may be the text of a JSON object.
    """
    if not tool or len(tool) > _LONGEST_NAME:
        return None
    parts = _PATTERNS["server_ends"].match(tool)
    own = _words(parts["tool"] if parts else tool)
    server = _words(parts["server"].removeprefix("mcp__")) if parts else frozenset()
    every, keeper, groups = own | server, server or own, _NAME_WORDS
    if not own & groups["verbs"] or own & groups["others"] or every & groups["machines"]:
        return None
    usual = groups["keepers"] | groups["beside_keepers"] | groups["verbs"]
    names_memory = bool(every & groups["memories"]) or own == {"recall"}
    if not names_memory and not (keeper & groups["keepers"] and keeper <= usual):
        return None
    call_arguments = records.parsed_arguments(arguments)
    values = map(call_arguments.get, _QUERIES) if isinstance(call_arguments, dict) else ()
    return next(filter(None, map(_query, values)), None)


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _PATTERNS["words"].findall(name))


def _query(value: object) -> str:
    """A query, or several joined by spaces: of texts, or of objects that hold one each."""
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    parts = [item.get("query") if isinstance(item, dict) else item for item in values]
    return " ".join(part for part in parts if isinstance(part, str) and part.strip())


MOST_RESULTS: Final = 1000
SNIPPET: Final = 300
"""Characters of a snippet that are kept: very many are."""
_PROBLEM: Final = 200

_ELSEWHERE: Final = "<persisted-output>"
_OF_BLOCK: Final = frozenset({"type", "text", "annotations", "_meta"})
_NO_LIST: Final = "the answer holds no list of results"

Answer = tuple[tuple[Recalled, ...] | None, str]
"""The results, best first, `None` when they cannot be told; and in one line why not."""


def read_answer(text: str, *, is_error: bool) -> Answer:
    """Read an answer in one of the known JSON shapes; credentials in it are masked."""
    if is_error:
        return (None, _failed(text))
    start = text.lstrip()
    is_taken_out = not start or _PATTERNS["taken_out"].match(start)
    if is_taken_out or not start.startswith(("{", "[")):
        if _PATTERNS["nothing"].match(start):
            return ((), "")
        if is_taken_out:
            return (None, "the answer was taken out of the transcript")
        if start.startswith(_ELSEWHERE):
            return (None, "the answer is in a file beside the transcript")
        return (None, "the answer is text")
    try:
        values = records.parse_several(start)
    except ValueError:
        # Cut by the program that kept it, or text that only begins like JSON.
        return (None, "the answer is cut, or no JSON")
    # A server may give every result as a text of its own.
    value = values[0] if len(values) == 1 else values
    inner = _inner_text(value)
    return _results(value) if inner is None else read_answer(inner, is_error=is_error)


def _inner_text(value: object) -> str | None:
    """Return the text that a server wrapped: blocks of text, or a text as the only result."""
    if isinstance(value, dict):
        if value.keys() == {"result"} and isinstance(value["result"], str):
            return value["result"]
        if value.get("isError") is True or any(name in value for name in _FIELDS["list"]):
            return None
        value = value.get("content")
    if not isinstance(value, list) or not value:
        return None
    blocks = [item for item in value if isinstance(item, dict) and item.keys() <= _OF_BLOCK]
    texts = records.message_texts(blocks, ("text", "input_text"))
    return "\n".join(texts) if len(texts) == len(value) else None


def _results(value: object) -> Answer:
    listed = value
    if isinstance(value, dict):
        error = records.text_in(value, "error", "error_message")
        if error or value.get("isError") is True or value.get("disabled") is True:
            return (None, _failed(error or records.text_in(value, "message", "warning")))
        fields = [value[name] for name in _FIELDS["list"] if name in value]
        listed = next((one for one in fields if isinstance(one, list)), None)
        if listed is None:
            inner = next((one for one in fields if isinstance(one, dict)), None)
            return _results(inner) if inner else (None, _NO_LIST)
    if not isinstance(listed, list):
        return (None, _NO_LIST)
    rows = [_recalled(item) for item in listed[:MOST_RESULTS]]
    if not all(rows):
        return (None, "the results are of an unknown shape")
    return (tuple(row for row in rows if row), "")


def _recalled(item: object) -> Recalled | None:
    """Read one result; `None` for what neither names a place nor says anything."""
    if isinstance(item, str) and item.strip():
        return Recalled("", 0, 0, None, redact(well_formed(item))[:SNIPPET])
    if not isinstance(item, dict):
        return None
    nested = [item[name] for name in _FIELDS["nested"] if isinstance(item.get(name), dict)]
    places = [item, *nested]
    path, snippet = _first_text(places, "path"), _first_text(places, "snippet")
    start, end = _first_line(places, "start"), _first_line(places, "end")
    cited = _PATTERNS["cited"].match(path)
    if cited is None and not start:
        cited = _PATTERNS["cited"].match(_first_text(places, "citation"))
    if cited is not None:
        path = path if path and "#L" not in path else cited["path"]
        start = start or int(cited["start"])
        end = end or int(cited["end"] or cited["start"])
    if not start and (header := _PATTERNS["header"].match(snippet)):
        start = int(header[1])
        end = start + max(1, int(header[2])) - 1
    end = max(start, end) if start else 0
    if not path and not snippet:
        return None
    numbers = (place.get(name) for place in places for name in _FIELDS["score"])
    score = next(
        (float(one) for one in numbers if type(one) in (int, float) and abs(one) < 1e300), None
    )
    path, snippet = redact(well_formed(path)), redact(well_formed(snippet))[:SNIPPET]
    return Recalled(path, start, end, score, snippet)


def _first_text(places: Sequence[records.Record], field: str) -> str:
    values = (place.get(name) for name in _FIELDS[field] for place in places)
    return next((value for value in values if isinstance(value, str) and value.strip()), "")


def _first_line(places: Sequence[records.Record], field: str) -> int:
    values = (place.get(name) for place in places for name in _FIELDS[field])
    return next((one for one in values if type(one) is int and 0 < one < 10**9), 0)


def _failed(text: str) -> str:
    line = " ".join(redact(well_formed(text[: 8 * _PROBLEM])).split())[:_PROBLEM]
    return f"the tool failed: {line}" if line else "the tool failed"


LONGEST_QUERY: Final = 10_000
"""Characters of a query that are kept, and of every other argument."""
UNANSWERED: Final = "no answer is recorded"

_WAITING: Final = 64
"""Calls of one id that wait for answers; one before them will get none."""

_Asked = tuple[str, int | None]
"""A tool with the place among the searches of the memory, `None` for another call."""


class CallCollector:
    """Collects the searches of a memory in a transcript, in the order in which they were asked.

    A call that a program recorded twice, as when it resumes a session, is collected once; one of
    the same id that asks for something else, or at another time, is one of its own.
    """

    def __init__(self, path: str, kind: TranscriptKind) -> None:
        """`path` is the transcript's, as the index stores it."""
        self._path, self._kind = path, kind
        self.calls: list[MemoryCall] = []
        """The searches so far; credentials are masked."""
        # By the id of a search; some programs use an id again and again.
        self._waiting: dict[str, deque[_Asked]] = {}
        """The calls without an answer, in their order."""
        self._last: dict[str, _Asked] = {}
        """The call that was answered last."""
        self._times: dict[tuple[str, str, str], set[int]] = {}
        """The times of calls of each tool, by the id, the tool and the arguments."""

    def add(self, turn: Turn) -> None:
        """Take in the next turn, whose text is whole and not masked."""
        call_id, is_repeated = turn.call_id, turn.left_out == Dropped.DUPLICATE
        waiting = self._waiting.get(call_id)
        if turn.kind is TurnKind.TOOL_CALL:
            query = is_memory_search(turn.tool, turn.text)
            if query is None:
                if waiting is not None:
                    waiting.append((turn.tool, None))
                return
            if call_id:
                if is_repeated and waiting is not None:
                    return
                at = turn.timestamp_ms
                times = self._times.setdefault((call_id, turn.tool, turn.text), set())
                is_copy = at in times or 0 in times or (not at and bool(times))
                times.add(at)
                if is_copy:
                    return
            if waiting is None:
                waiting = self._waiting[call_id] = deque(maxlen=_WAITING)
            waiting.append((turn.tool, len(self.calls)))
            arguments = records.parsed_arguments(turn.text)
            call = MemoryCall(
                path=self._path,
                line=turn.line,
                kind=self._kind,
                tool=redact_name(turn.tool),
                query=redact(well_formed(query))[:LONGEST_QUERY],
                asked=records.turn_time(turn.timestamp_ms),
                arguments=_others(arguments if isinstance(arguments, dict) else {}),
                problem=UNANSWERED,
            )
            self.calls.append(call)
        elif turn.kind is TurnKind.TOOL_RESULT and waiting is not None:
            # What is told again for the screen may call the same tool otherwise.
            named = "" if is_repeated else turn.tool
            call_of = next((one for one in waiting if named in ("", one[0])), None)
            if call_of is not None:
                waiting.remove(call_of)
                self._last[call_id] = call_of
            tool, place = self._last.get(call_id, ("", None))
            if place is None or named not in ("", tool):
                return
            returned, problem = read_answer(turn.text, is_error=turn.is_error)
            # Told twice: the one that can be read is kept.
            is_better = returned is not None and self.calls[place].returned is None
            if call_of is not None or is_better:
                self.calls[place] = replace(
                    self.calls[place], returned=returned, answer_line=turn.line, problem=problem
                )


def _others(arguments: Mapping[str, Any]) -> dict[str, float | int | str | bool]:
    """Return the arguments beside the query that are single values which JSON can hold."""
    query = next((name for name in _QUERIES if _query(arguments.get(name))), "")
    others = {
        well_formed(name): well_formed(value) if isinstance(value, str) else value
        for name, value in arguments.items()
        # `1E400` in a transcript is read as infinity.
        if (isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)))
        and name != query
    }
    return {
        name: value[:LONGEST_QUERY] if isinstance(value, str) else value
        for name, value in cast("dict[str, Any]", redact_value(others)).items()
    }
