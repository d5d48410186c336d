"""No regular expression takes more than linear time: what the trial judges by, and cases of it.

The trial itself measures times: `python -m tests.trust growth`.
"""

from __future__ import annotations

import re

import pytest

from memtui.embedding.remote.http import duration
from memtui.index.foreign.discovery import _compiled
from memtui.memory.care.masking import is_secret, known_tokens
from memtui.retrieval.filters import fits
from memtui.retrieval.query import Filters
from tests.trust.growth import Pump, expressions, pumps_of


def test_every_call_of_re_is_found_with_its_pattern() -> None:
    found, unknown = expressions()
    assert unknown == []
    assert len(found) > 250
    assert any(one.methods == {"fullmatch"} for one in found)


@pytest.mark.parametrize(
    ("pattern", "hard"),
    [
        (r"(a+)+$", Pump("a", "", "\x01")),
        (r"[a-z]?[a-z]*(?:-[a-z]?[a-z]*)+", Pump("-a", "", "\x01")),
        (r"\s+$", Pump(" ", "", "\x01")),
    ],
)
def test_hard_texts_are_made_of_the_parts_of_a_pattern(pattern: str, hard: Pump) -> None:
    assert hard in pumps_of(re.compile(pattern))


# What follows took minutes, or longer than anybody waits, and ran with no other thread beside it.


def test_words_in_a_row_are_told_from_a_token_at_once() -> None:
    token = "sk-" + "a-" * 2000 + "9x7777"
    assert not is_secret(token)
    assert known_tokens(f"the key is {token}") == []
    assert not is_secret("words-in-a-row-and-Another_one99.x")
    assert is_secret("sk-Qz8vKp3LmWx5TnB2cYd7")
    assert known_tokens("8240917:Qz8vKp3LmWx5TnB2cYd7") == ["8240917:Qz8vKp3LmWx5TnB2cYd7"]


def test_digits_without_an_end_are_no_token_and_no_duration() -> None:
    digits = "0123456789" * 6000
    assert known_tokens(digits) == []
    assert duration(digits + "x") is None
    assert duration("6m0.5s") == 360.5


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("a*b", "x/a/y/b", True),
        ("a*b", "xa/b", False),
        ("*.md", "memory/note.md", True),
        ("memory/*/n?te.md", "deep/memory/x/note.md", True),
        ("[ab]*c", "x/bc", True),
        ("[!a]?", "x/bc", True),
        ("n[*]te", "x/n*te", True),
        ("n[*]te", "x/note", False),
        ("[]*]x*", "y/]x", True),
        ("no[te", "x/no[te", True),
        ("a?c", "b/abc", True),
        ("a?c", "babc", False),
    ],
)
def test_a_glob_finds_the_end_of_a_path_from_a_folder_on(
    glob: str, path: str, expected: bool
) -> None:
    filters = Filters(path_globs=(glob,))
    assert fits(filters, path=path, source="memory", day="2026-11-22", mtime_ns=0) is expected


def test_a_glob_that_nearly_fits_a_long_path_is_tried_in_linear_time() -> None:
    filters = Filters(path_globs=("a*b*c*d",))
    path = "a/b/c/" * 20_000
    assert not fits(filters, path=path, source="memory", day="2026-11-22", mtime_ns=0)


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("**", "a/b", True),
        ("**/a/**/b", "x/a/y/a/b", True),
        ("**/a/**/b", "a/b", True),
        ("**/a/**/b", "b/a", False),
        ("a/**", "a/b/c", True),
        ("a/**", "b/a", False),
        ("**/**/x", "x", True),
        ("*/b*", "a/bc", True),
        ("*/b*", "a/b/c", False),
        ("a/**/b/c/**/d", "a/b/b/c/d", True),
    ],
)
def test_folders_of_any_depth_in_a_glob(glob: str, path: str, expected: bool) -> None:
    assert (_compiled(glob).fullmatch(path) is not None) is expected


def test_many_folders_of_any_depth_are_tried_in_linear_time() -> None:
    glob = "/".join(["**", "a"] * 8) + "/x"
    assert _compiled(glob).fullmatch("a/" * 20_000 + "y") is None
