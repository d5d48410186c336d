"""The keyword leg against a literal BM25 and in seven languages."""

from __future__ import annotations

import math
import random
import shlex
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import apsw
import pytest

from memtui.errors import Cancelled
from memtui.model import LegStatus, Reason
from memtui.retrieval.filters import RowFilter
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.legs import LegAnswer
from memtui.retrieval.marks import match_spans
from memtui.retrieval.query import parse_query
from memtui.text.tokens import FTS5_TOKENIZE, index_text
from tests.support.rows import IndexFile

WORDS = [
    "router", "vendor", "invoice", "deploy", "cache", "token", "budget", "garden", "train",
    "kitchen", "config", "limit",
]  # fmt: skip


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexFile]:
    made = IndexFile(tmp_path)
    yield made
    made.connection.close()


def ask(index: IndexFile, text: str, *, limit: int = 50, typing: bool = False) -> LegAnswer:
    query = parse_query(text, typing=typing)
    allowed = RowFilter(index.connection).allowed(query)
    return KeywordLeg(index.connection).search(query, limit, allowed)


def texts(index: IndexFile, answer: LegAnswer) -> list[str]:
    return [index.text_of(hit.rowid) for hit in answer.hits]


def tokens(index: IndexFile, text: str) -> list[str]:
    name, *options = shlex.split(FTS5_TOKENIZE)
    tokenizer = index.connection.fts5_tokenizer(name, options)
    found = tokenizer(
        index_text(text).encode(),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return [str(token) for token in found]


def bm25(index: IndexFile, documents: list[str], words: list[str]) -> dict[int, float]:
    """BM25 as SQLite defines it: k1 1.2, b 0.75, idf at least 1e-6, negated."""
    rows = [tokens(index, document) for document in documents]
    average = sum(map(len, rows)) / len(rows)
    scores: dict[int, float] = {}
    for word in words:
        (stem,) = tokens(index, word)
        holding = sum(stem in row for row in rows)
        idf = math.log((len(rows) - holding + 0.5) / (holding + 0.5))
        idf = idf if idf > 0 else 1e-6
        for place, row in enumerate(rows):
            count = row.count(stem)
            if count:
                length = 1 - 0.75 + 0.75 * len(row) / average
                part = idf * count * (1.2 + 1) / (count + 1.2 * length)
                scores[place + 1] = scores.get(place + 1, 0.0) - part
    return scores


@pytest.mark.parametrize("seed", range(5))
def test_scores_and_order_are_literal_bm25(index: IndexFile, seed: int) -> None:
    chance = random.Random(seed)
    documents = [
        " ".join(chance.choices(WORDS, k=chance.randint(3, 40))).replace("deploy", "deployed")
        for _ in range(80)
    ]
    index.add_all(documents)
    words = chance.sample(WORDS, 4)
    hits, state = ask(index, " ".join(words), limit=200)
    expected = bm25(index, documents, words)
    assert state.status is LegStatus.OK
    assert {hit.rowid for hit in hits} == set(expected)
    assert all(hit.raw == pytest.approx(expected[hit.rowid], abs=1e-9) for hit in hits)
    assert [(hit.raw, hit.rowid) for hit in hits] == sorted((hit.raw, hit.rowid) for hit in hits)
    best, _ = ask(index, " ".join(words), limit=7)
    assert best == hits[:7]


def test_hits_name_the_words_they_hold_as_the_query_spells_them(index: IndexFile) -> None:
    index.add_all(["Vendors of routers", "a router", "deployment"])
    hits, _ = ask(index, "Vendor routers deployments")
    assert {hit.rowid: hit.terms for hit in hits} == {
        1: ("Vendor", "routers"),
        2: ("routers",),
        3: ("deployments",),
    }


def test_stop_words_are_left_out_and_named(index: IndexFile) -> None:
    index.add_all(["what is the plan", "the garden"])
    answer = ask(index, "what is the garden")
    assert texts(index, answer) == ["the garden"]
    assert answer.state.facts["stop_words"] == "what is the"
    assert answer.state.facts["match"] == '"garden"'


def test_only_stop_words_are_searched_and_that_is_said(index: IndexFile) -> None:
    index.add_all(["to be or not", "garden"])
    hits, state = ask(index, "to be")
    assert [hit.rowid for hit in hits] == [1]
    assert (state.status, state.reason) == (LegStatus.OK, Reason.ONLY_STOP_WORDS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", Reason.EMPTY_QUERY), ("path:x", Reason.EMPTY_QUERY), ("?! 😀", Reason.NO_TERMS)],
)
def test_nothing_to_search_is_a_reason(index: IndexFile, text: str, reason: Reason) -> None:
    hits, state = ask(index, text)
    assert hits == ()
    assert (state.status, state.reason) == (LegStatus.SKIPPED, reason)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("发票", "供应商的发票已付清"),
        ("供应商什么时候付清", "供应商的发票已付清"),
        ("税", "税务申报截止日期"),
        ("会議の予定", "来週の会議は東京です"),
        ("라우터 설정", "라우터 설정을 바꿨다"),
        ("설정", "라우터 설정을 바꿨다"),
        ("ประชุม", "การประชุมวันจันทร์"),
        ("hoa don", "Hóa đơn đã thanh toán"),
        ("hóa đơn", "Hóa đơn đã thanh toán"),
        ("GROSSE", "die große Straße in Zürich: grosse"),
        ("zurich", "die große Straße in Zürich: grosse"),
    ],
)
def test_every_language_finds_its_note(index: IndexFile, query: str, found: str) -> None:
    index.add_all(
        [
            "供应商的发票已付清",
            "税务申报截止日期",
            "来週の会議は東京です",
            "라우터 설정을 바꿨다",
            "การประชุมวันจันทร์",
            "Hóa đơn đã thanh toán",
            "die große Straße in Zürich: grosse",
            "the garden fence",
        ]
    )
    assert texts(index, ask(index, query))[0] == found


def test_a_quoted_phrase_is_required_and_other_words_only_rank(index: IndexFile) -> None:
    index.add_all(
        ["rate limit of the router", "limit the rate of the router", "router", "the rate limit"]
    )
    hits, state = ask(index, '"rate limit" router')
    assert [hit.rowid for hit in hits] == [1, 4]
    assert hits[0].terms == ("rate limit", "router")
    assert state.facts["required"] == '"rate limit"'
    assert [hit.rowid for hit in ask(index, '"rate limit"').hits] == [4, 1]
    assert [hit.rowid for hit in ask(index, '"rate limit" the').hits] == [4, 1]


def test_phrases_in_scripts_without_spaces(index: IndexFile) -> None:
    index.add_all(["我们的东京会议记录", "会议在东京", "การประชุมวันจันทร์", "plan 东京 trip"])
    assert [hit.rowid for hit in ask(index, '"东京会议"').hits] == [1]
    assert [hit.rowid for hit in ask(index, '"ประชุมวัน"').hits] == [3]
    assert [hit.rowid for hit in ask(index, '"plan 东京 trip"').hits] == [4]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("dep", {1, 2}),
        ("deplo", {1, 2}),
        ("deploy", {1, 2}),
        ("deploye", {1, 2}),
        ("runn", {3}),
        ("runni", {3}),
        ("runnin", {3}),
        ("running", {3}),
        ("bus", {4, 5}),
        ("busine", {5}),
        ("memor", {6}),
        ("memorie", {6}),
        ("garden dep", {1, 2, 7}),
        ("ga", set()),
    ],
)
def test_while_typing_no_letter_loses_the_word(
    index: IndexFile, typed: str, found: set[int]
) -> None:
    index.add_all(
        ["deployed it", "a deployment", "running late", "the bus", "business", "memories", "garden"]
    )
    hits, _ = ask(index, typed, typing=True)
    assert {hit.rowid for hit in hits} == found


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("điều", "điều này"), ("đường", "Đường sắt"), ("connection", "connections"),
        ("difference", "a difference"), ("operational", "operational costs"),
        ("inaudible", "it was inaudible"),
    ],
)  # fmt: skip
def test_every_beginning_of_a_word_finds_it_while_typing(
    index: IndexFile, word: str, text: str
) -> None:
    index.add_all([text])
    for end in range(3, len(word) + 1):
        hits, _ = ask(index, word[:end], typing=True)
        assert [hit.rowid for hit in hits] == [1], word[:end]
        shown = hits[0].terms[0]
        assert shown.rstrip("*") == word[:end]
        assert match_spans(text, hits[0].terms)


def test_the_beginning_of_a_word_is_named_with_a_star(index: IndexFile) -> None:
    index.add_all(["deployed it"])
    assert ask(index, "deplo", typing=True).hits[0].terms == ("deplo*",)


class TestPruning:
    @pytest.fixture
    def frequent(self, index: IndexFile) -> IndexFile:
        index.add_all(
            f"common often {'half ' * (n % 2)}{'rare' if n == 7 else ''} {'scarce' if n < 3 else ''}"
            for n in range(200)
        )
        return index

    def search(self, index: IndexFile, text: str, limit: int, budget: int) -> LegAnswer:
        return KeywordLeg(index.connection, budget=budget).search(parse_query(text), limit, None)

    def test_frequent_words_are_left_out_and_named(self, frequent: IndexFile) -> None:
        hits, state = self.search(frequent, "common rare often scarce half", 4, budget=120)
        assert state.facts["pruned"] == "common often"
        assert state.facts["match"] == '"rare" OR "scarce" OR "half"'
        assert state.facts["postings"] == 104
        assert hits[0].rowid == 8
        assert hits[0].terms == ("common", "rare", "often", "half")

    def test_the_two_rarest_stay_whatever_they_cost(self, frequent: IndexFile) -> None:
        _, state = self.search(frequent, "common often half", 10, budget=1)
        assert state.facts["match"] == '"common" OR "half"'

    def test_too_few_hits_raise_the_budget(self, frequent: IndexFile) -> None:
        hits, state = self.search(frequent, "rare scarce half", 50, budget=30)
        assert state.facts["pruned"] == ""
        assert len(hits) == 50

    def test_small_indexes_are_never_pruned(self, frequent: IndexFile) -> None:
        answer = KeywordLeg(frequent.connection).search(
            parse_query("common rare often scarce half"), 10, None
        )
        assert answer.state.facts["pruned"] == ""

    def test_a_frequent_beginning_is_searched_as_a_word(self, frequent: IndexFile) -> None:
        leg = KeywordLeg(frequent.connection, budget=150)
        hits, state = leg.search(parse_query("rare com", typing=True), 1, None)
        assert state.facts["match"] == '"rare" OR "com"'
        assert hits[0].rowid == 8

    def test_a_pasted_page_is_cut_to_its_rarest_words(self, index: IndexFile) -> None:
        vocabulary = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(300)]
        index.add_all([" ".join(vocabulary), *vocabulary[:200]])
        hits, state = ask(index, " ".join(vocabulary), limit=1)
        assert str(state.facts["match"]).count(" OR ") == 63
        assert len(str(state.facts["pruned"]).split()) == 300 - 64
        assert len(hits[0].terms) == 300


class TestFilters:
    @pytest.fixture
    def files(self, index: IndexFile) -> IndexFile:
        march = int(datetime(2026, 3, 15, 12).timestamp() * 1e9)
        index.add_file("memory/Network/router.md", day=date(2026, 1, 5))
        index.add_file("memory/2026-02-10-plan.md", day=date(2026, 2, 10))
        index.add_file("sessions/a.jsonl", source="sessions", mtime_ns=march)
        index.add_file("notes/far.md", mtime_ns=2**62)
        for path in ("memory/Network/router.md", "memory/2026-02-10-plan.md", "sessions/a.jsonl"):
            index.add("the router", path)
        index.add("the router in years to come", "notes/far.md")
        return index

    @pytest.mark.parametrize(
        ("filters", "found"),
        [
            ("path:network", {1}),
            ("path:NETWORK", {1}),
            ("path:memory/*", {1, 2}),
            ("path:2026-0?-*", {2}),
            ("path:router.md", {1}),
            ("path:*.md", {1, 2, 4}),
            ("path:etwork/*.md", set()),
            ("path:[abc", set()),
            ("source:sessions", {3}),
            ("source:Memory path:plan", {2}),
            ("path:router path:plan", {1, 2}),
            ("after:2026-02-10", {2, 3, 4}),
            ("before:2026-02-10", {1}),
            ("after:2026-03-15 before:2026-03-16", {3}),
            ("before:2026-01-01", set()),
        ],
    )
    def test_files_are_chosen_before_hits(
        self, files: IndexFile, filters: str, found: set[int]
    ) -> None:
        assert {hit.rowid for hit in ask(files, f"router {filters}").hits} == found

    def test_the_limit_counts_allowed_rows_only(self, index: IndexFile) -> None:
        for number in range(2000):
            index.add("router " * (1 + number % 5), f"memory/{number % 100}.md", number)
        hits, _ = ask(index, "router path:memory/77.md", limit=10)
        assert len(hits) == 10
        everything, _ = ask(index, "router", limit=3000)
        wanted = {number + 1 for number in range(77, 2000, 100)}
        assert list(hits) == [hit for hit in everything if hit.rowid in wanted][:10]

    def test_rows_are_looked_up_again_after_a_change(self, files: IndexFile) -> None:
        rows = RowFilter(files.connection)
        query = parse_query("router path:network")
        first = rows.allowed(query)
        assert rows.allowed(query) is first
        files.add("another router", "memory/Network/router.md")
        second = rows.allowed(query)
        assert second is not None
        assert second.rowids.tolist() == [1, 5]

    def test_no_filter_allows_everything(self, files: IndexFile) -> None:
        assert RowFilter(files.connection).allowed(parse_query("router")) is None


def test_a_damaged_index_fails_the_leg_with_the_reason(index: IndexFile) -> None:
    index.add_all(["router"])
    index.connection.execute("DROP TABLE chunks_fts_data")
    hits, state = ask(index, "router")
    assert hits == ()
    assert (state.status, state.reason) == (LegStatus.FAILED, Reason.INDEX_FAILED)
    assert state.detail


@pytest.mark.parametrize("superseded", [True, False])
def test_an_interrupted_search_is_cancelled_when_it_was_superseded(
    index: IndexFile, superseded: bool
) -> None:
    index.add_all("router vendor" for _ in range(500))
    leg = KeywordLeg(index.connection)
    index.connection.set_progress_handler(lambda: True, 1)
    if superseded:
        with pytest.raises(Cancelled):
            leg.search(parse_query("router"), 10, None, cancelled=lambda: True)
    else:
        _, state = leg.search(parse_query("router"), 10, None, cancelled=lambda: False)
        assert (state.status, state.reason) == (LegStatus.FAILED, Reason.INDEX_FAILED)
    index.connection.set_progress_handler(None)
    assert len(leg.search(parse_query("router"), 10, None).hits) == 10


def test_the_reader_keeps_no_snapshot_open(index: IndexFile) -> None:
    index.add_all(["router"] * 600)
    ask(index, "router path:memory", limit=5)
    assert not index.connection.in_transaction
    index.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
