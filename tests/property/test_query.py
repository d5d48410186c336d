"""No query, however hostile, breaks parsing or FTS5."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memtui.model import LegStatus
from memtui.retrieval.filters import RowFilter
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.query import parse_query
from tests.support.rows import IndexFile

PIECES = st.sampled_from(
    [
        '"', "“", "'", "(", ")", "*", ":", "^", "+", "-", "{", "}", ",", ";", "\\", "\x00", "\n", "\ud800",
        "AND", "OR", "NOT", "NEAR", "NEAR(", "text:", "rowid:", "chunks_fts", "--", "/*", "%", "_", "[",
        "path:", "source:", "after:", "before:", "after:2026-01-01", "path:[z-a]*", "path:**", "path:?",
        "the", "running", "vendor", "東京", "การ", "đường", "हिन्दी", "😀", "\u0301", "\u200d", "ß", "İ", " ", "  ",
    ]
)  # fmt: skip
QUERIES = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map("".join))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexFile]:
    folder: Path = tmp_path_factory.mktemp("queries")
    made = IndexFile(folder)
    made.add_all(["the vendor was running", "東京の会議", "การประชุม", "đường sắt", "हिन्दी text"])
    yield made
    made.connection.close()


@given(text=QUERIES, typing=st.booleans())
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_query_is_answered(index: IndexFile, text: str, typing: bool) -> None:
    query = parse_query(text, typing=typing)
    assert query.raw == text
    allowed = RowFilter(index.connection).allowed(query)
    hits, state = KeywordLeg(index.connection).search(query, 10, allowed)
    assert state.status in (LegStatus.OK, LegStatus.SKIPPED), state.detail
    assert [hit.raw for hit in hits] == sorted(hit.raw for hit in hits)
    if allowed is not None:
        assert {hit.rowid for hit in hits} <= set(allowed.rowids.tolist())


@given(text=QUERIES)
@settings(max_examples=200)
def test_typing_changes_only_the_last_word_and_the_problems(text: str) -> None:
    done, typing = parse_query(text), parse_query(text, typing=True)
    assert (done.text, done.phrases, done.filters) == (typing.text, typing.phrases, typing.filters)
    assert set(typing.problems) <= set(done.problems)


@given(text=QUERIES)
@settings(max_examples=200)
def test_what_is_embedded_can_be_parsed_again_and_encoded(text: str) -> None:
    query = parse_query(text)
    query.text.encode()
    assert query.text == " ".join(query.text.split())
