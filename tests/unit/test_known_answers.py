"""The files of known answers are what was recorded, and every group of them is read by a test."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.known import DATA, load

TESTS = Path(__file__).parent.parent
DIGESTS: dict[str, str] = load("known_answers")["digests"]
UNREAD: dict[str, list[str]] = load("known_answers")["unread"]
PROSE = ("topic", "upstream", "reading", "note", "rule", "formula", "quality", "salience", "recipe")
RELEASE = re.compile(r"20\d\d[._]\d{1,2}(?:[._]\d{1,2})?")


@cache
def readers(file: str) -> str:
    """The text of every test module that reads a file."""
    texts = (path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    return "\n".join(text for text in texts if re.search(rf'"{file}(?:\.json)?"', text))


def releases(value: object) -> Iterator[str]:
    """The releases that the keys of a group state, as they are written."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from RELEASE.findall(key)
            yield from releases(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from releases(inner)


@pytest.mark.parametrize("file", DIGESTS)
def test_every_group_of_answers_is_as_recorded_and_read_by_a_test(file: str) -> None:
    content = (DATA / f"{file}.json").read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith(DIGESTS[file])
    source = readers(file)
    assert source, "no test reads the file"
    groups: dict[str, Any] = json.loads(content)
    for name, group in groups.items():
        if name in UNREAD.get(file, ()) or (isinstance(group, str) and name in (*PROSE, "now")):
            continue
        assert f'"{name}"' in source or (name == "cases" and f'cases("{file}")' in source), name
        for release in {*releases(group)} - {*UNREAD.get(file, ())}:
            forms = {release, release.replace("_", "."), release.replace(".", "_")}
            assert any(form in source for form in forms), f"{name}: nothing of {release}"


def test_no_test_of_known_answers_leaves_out_cases_by_number() -> None:
    """A slice of a group would go on passing when the cases behind it are lost."""
    for file in DIGESTS:
        assert not re.search(r"load\([^)]*\)(?:\[[^\]]*\])+\[\d*:", readers(file))
