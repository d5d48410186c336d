"""The output of QMD, and how answers cite their sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memtui.model.documents import citation
from memtui.retrieval.openclaw.citations import decorated, shows_citations
from memtui.retrieval.openclaw.qmd import MAX_OUTPUT, QmdOutputError, line_range, parse_output

DATA = Path(__file__).parents[1] / "data"
KNOWN: dict[str, Any] = json.loads((DATA / "config_and_output.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", KNOWN["qmd_parse"], ids=str)
def test_output(case: dict[str, Any]) -> None:
    if case.get("error"):
        with pytest.raises(QmdOutputError):
            parse_output(case["stdout"], case.get("stderr", ""))
        return
    hits = parse_output(case["stdout"], case.get("stderr", ""))
    assert len(hits) == len(case["results"])
    for hit, expected in zip(hits, case["results"], strict=True):
        assert {name: getattr(hit, name) for name in expected} == expected


@pytest.mark.parametrize("case", KNOWN["qmd_snippet_lines"], ids=str)
def test_lines_of_a_snippet(case: dict[str, Any]) -> None:
    if case["header"] is None:
        snippet = "\n".join(["x"] * case["snippet_lines"])
    else:
        snippet = f"{case['header']}\nthree\nlines\nhere"
    assert line_range(snippet) == (case["startLine"], case["endLine"])


def test_given_lines_win_over_the_header() -> None:
    (hit,) = parse_output('[{"snippet": "@@ -5,3 @@\\nx", "start_line": 9, "end_line": 12}]')
    assert (hit.start_line, hit.end_line) == (9, 12)
    (hit,) = parse_output('[{"snippet": "@@ -5,3 @@\\nx", "line": 20}]')
    assert (hit.start_line, hit.end_line) == (20, 22)


@pytest.mark.parametrize(
    "stdout",
    ["", "{}", "[1, 2]", "[[[[" * 5000, '[{"a": 1}', "x" * (MAX_OUTPUT + 1), "[" * 200_000],
    ids=lambda text: text[:8],
)
def test_output_without_results(stdout: str) -> None:
    with pytest.raises(QmdOutputError):
        parse_output(stdout)


def test_values_of_other_types_are_left_out() -> None:
    (hit,) = parse_output('[{"docid": 3, "score": 1e999, "line": -4, "end_line": "x", "file": []}]')
    assert (hit.docid, hit.score, hit.file, hit.start_line, hit.end_line) == ("", None, "", 1, 1)


@pytest.mark.parametrize("case", KNOWN["citations"], ids=str)
def test_citation(case: dict[str, Any]) -> None:
    assert citation(case["path"], case["start"], case["end"]) == case["citation"]


@pytest.mark.parametrize("case", KNOWN["citation_mode"], ids=str)
def test_citation_mode(case: dict[str, Any]) -> None:
    assert shows_citations(case["mode"], case["session"]) is case["shown"]


def test_decorated_snippet() -> None:
    assert KNOWN["decorated_snippet"] == 'trim(snippet) + blank line + "Source: " + citation'
    assert decorated("  text \n", "MEMORY.md#L5") == "text\n\nSource: MEMORY.md#L5"
