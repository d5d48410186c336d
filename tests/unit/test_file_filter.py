"""The filters of a query on one file: the same answers as the index gives for its rows."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.retrieval.filters import RowFilter, fits, local_day
from memtui.retrieval.query import Filters, parse_query

NOON = int(datetime(2026, 3, 4, 12).timestamp() * 1e9)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", True),
        ("path:network", True),
        ("path:NETWORK path:nowhere", True),
        ("path:*.md", True),
        ("path:home/*.md", True),
        ("path:network.md*", True),
        ("path:ome/net*", False),
        ("path:recipes", False),
        ("source:Memory", True),
        ("source:sessions", False),
        ("after:2026-03-04", True),
        ("after:2026-03-05", False),
        ("before:2026-03-04", False),
        ("before:2026-03-05 path:home", True),
    ],
)
def test_known_answers(query: str, expected: bool) -> None:
    filters = parse_query(query).filters
    path, source = "memory/home/network.md", "memory"
    assert fits(filters, path=path, source=source, day=None, mtime_ns=NOON) is expected
    of_day = date(2026, 3, 4)
    assert fits(filters, path=path, source=source, day=of_day, mtime_ns=0) is expected
    assert fits(filters, path=path, source=source, day="2026-03-04", mtime_ns=0) is expected


def test_a_time_outside_the_calendar_is_before_or_after_everything() -> None:
    assert local_day(2**63 - 1) >= date(2262, 1, 1)
    assert local_day(10**30) == date.max
    assert local_day(-(10**30)) == date.min


paths = st.sampled_from(
    ["MEMORY.md", "memory/a.md", "memory/Ä/b.md", "../x/memory/a.md", "s/1.jsonl"]
)
globs = st.sampled_from(["a", "memory/*", "*.md", "ä/", "[ab].md", "x/mem", "?.jsonl"])
days = st.dates(date(2026, 1, 1), date(2026, 1, 9))


@given(
    files=st.lists(
        st.tuples(paths, st.sampled_from(["memory", "sessions"]), st.none() | days),
        min_size=1,
        max_size=8,
    ),
    filters=st.builds(
        Filters,
        st.lists(st.sampled_from(["memory", "Sessions"]), max_size=1).map(tuple),
        st.lists(globs, max_size=2).map(tuple),
        st.none() | days,
        st.none() | days,
    ),
)
def test_a_file_fits_when_its_rows_do(
    files: list[tuple[str, str, date | None]], filters: Filters
) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE files(id INTEGER PRIMARY KEY, path, source, day, mtime_ns)")
    connection.execute("CREATE TABLE chunks(id INTEGER PRIMARY KEY, file_id)")
    for number, (path, source, day) in enumerate(files):
        shown = day.isoformat() if day else None
        connection.execute(
            "INSERT INTO files VALUES(?, ?, ?, ?, ?)", (number, path, source, shown, NOON)
        )
        connection.execute("INSERT INTO chunks VALUES(?, ?)", (number, number))
    query = parse_query("x")
    allowed = RowFilter(connection).allowed(
        type(query)(query.raw, query.text, query.terms, (), filters)
    )
    expected = [
        number
        for number, (path, source, day) in enumerate(files)
        if fits(filters, path=path, source=source, day=day, mtime_ns=NOON)
    ]
    found = list(range(len(files))) if allowed is None else allowed.rowids.tolist()
    assert found == expected


def test_a_screen_needs_neither_numpy_nor_a_database_for_it() -> None:
    code = "import sys, memtui.retrieval.filters; print(*{'numpy', 'apsw'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
