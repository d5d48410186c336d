"""The output of QMD, the search program that OpenClaw could use in the place of its own index."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

MAX_OUTPUT: Final = 4 * 2**20
"""Characters of output that are looked at."""
_MAX_STARTS: Final = 1000
"""Places in the output that are tried as the start of the results."""

_NOTHING = re.compile(
    r"(?:\[[^\]]*\]\s*)?(?:[a-z]+\s*:\s*)*no results found[.!]?\s*", re.IGNORECASE
)
_HEADER = re.compile(r"@@ -(\d{1,9}),(\d{1,9})")


class QmdOutputError(ValueError):
    """Output that holds neither results nor the word that there are none."""


@dataclass(frozen=True, slots=True)
class QmdHit:
    """A result; lines are 1-based and inclusive, what was not given is empty or `None`."""

    docid: str = ""
    score: float | None = None
    file: str = ""
    collection: str = ""
    snippet: str = ""
    start_line: int = 1
    end_line: int = 1


def parse_output(stdout: str, stderr: str = "") -> tuple[QmdHit, ...]:
    """Read the results from what QMD printed with `--json`, log lines around them left aside.

    A line that says only "no results found" means none. Raises `QmdOutputError` when there are no
    results to be found and no such line, and for output of more than `MAX_OUTPUT` characters.
    """
    if len(stdout) > MAX_OUTPUT:
        raise QmdOutputError(f"QMD printed more than {MAX_OUTPUT} characters")
    found = _results(stdout)
    if found is not None:
        return tuple(_hit(item) for item in found)
    if any(_NOTHING.fullmatch(line.strip()) for line in (*_lines(stdout), *_lines(stderr))):
        return ()
    raise QmdOutputError("QMD printed no JSON array of results")


def line_range(snippet: str) -> tuple[int, int]:
    """The lines of a snippet: from its header `@@ -start,count @@`, else from 1 on."""
    header = _HEADER.search(snippet)
    if header is None:
        return 1, max(1, snippet.count("\n") + 1)
    start = int(header[1])
    return start, start + max(1, int(header[2])) - 1


def _lines(text: str) -> list[str]:
    return text[:MAX_OUTPUT].splitlines()


def _results(stdout: str) -> list[dict[str, Any]] | None:
    """The first array of objects in the output; `None` without one."""
    decoder = json.JSONDecoder()
    start = stdout.find("[")
    for _ in range(_MAX_STARTS):
        if start < 0:
            return None
        try:
            value, _end = decoder.raw_decode(stdout, start)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return value
        start = stdout.find("[", start + 1)
    return None


def _hit(item: dict[str, Any]) -> QmdHit:
    snippet = _text(item.get("snippet"))
    start, end = line_range(snippet)
    given = _line(item.get("start_line")) or _line(item.get("line"))
    if given is not None:
        end = max(given, _line(item.get("end_line")) or given + end - start)
        start = given
    return QmdHit(
        _text(item.get("docid")),
        _score(item.get("score")),
        _text(item.get("file")),
        _text(item.get("collection")),
        snippet,
        start,
        end,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        score = float(value)
    except OverflowError:
        return None
    return score if math.isfinite(score) else None


def _line(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < 2**31 else None
