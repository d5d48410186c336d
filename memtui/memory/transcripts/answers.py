"""What a search of a memory gave back then, out of the answer that a transcript recorded."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from memtui.memory.transcripts.base import parse_several, text_in, whole
from memtui.model.conversations import Recalled
from memtui.text.redact import redact

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
    found = value
    if isinstance(value, dict):
        error = text_in(value, "error", "error_message")
        if error or value.get("isError") is True or value.get("disabled") is True:
            return Answer(None, _failed(error or text_in(value, "message", "warning")))
        found = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
        if found is None:
            inner = next(
                (value[name] for name in _LISTS if isinstance(value.get(name), dict)), None
            )
            return _results(inner) if inner else Answer(None, _NO_LIST)
    if not isinstance(found, list):
        return Answer(None, _NO_LIST)
    rows = [_recalled(item) for item in found[:MOST_RESULTS]]
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
