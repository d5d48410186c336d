"""The keyword leg against SQLite's own BM25, in seven languages, while typing and filtered."""

from __future__ import annotations

import random
from datetime import date, datetime
from unittest.mock import Mock

import pytest

from memtui.index.database import Interrupted, open_database
from memtui.retrieval.connection import snapshot
from memtui.retrieval.keyword import KeywordLeg
from memtui.retrieval.leg_detail import explain_keyword
from memtui.retrieval.marks import match_spans
from memtui.retrieval.query import filtered_rows, parse_query
from tests.support.known import cases, load
from tests.support.rows import IndexFile


@pytest.mark.parametrize(("query", "found"), load("reading")["languages"])
def test_every_language_finds_its_note(index: IndexFile, query: str, found: str) -> None:
    index.add_all(load("reading")["notes in many languages"])
    assert index.text_of(index.ask(query).hits[0].rowid) == found


def test_a_quoted_phrase_is_required_and_other_words_only_rank(index: IndexFile) -> None:
    index.add_all(
        ["rate limit of the router", "limit the rate of the router", "router", "the rate limit"]
    )
    hits, state = index.ask('"rate limit" router')
    assert [hit.rowid for hit in hits] == [1, 4]
    assert hits[0].terms == ("rate limit", "router")
    assert state.facts["required"] == '"rate limit"'
    assert [hit.rowid for hit in index.ask('"rate limit"').hits] == [4, 1]
    assert [hit.rowid for hit in index.ask('"rate limit" the').hits] == [4, 1]
    unfit = 'fits -rate and "rate limit" together (each alone fits some)'
    told = dict.fromkeys(('"rate limit" -rate', '"rate limit" the -rate'), unfit)
    for query, fits in {**told, '"no such" "none"': 'holds "no such" or "none"'}.items():
        assert index.ask(query).state.detail == f"no chunk {fits}"
    assert index.ask("-limit").state.facts == {"passing": 1}


def test_phrases_in_scripts_without_spaces(index: IndexFile) -> None:
    index.add_all(["我们的东京会议记录", "会议在东京", "การประชุมวันจันทร์", "plan 东京 trip"])
    assert [hit.rowid for hit in index.ask('"东京会议"').hits] == [1]
    assert [hit.rowid for hit in index.ask('"ประชุมวัน"').hits] == [3]
    assert [hit.rowid for hit in index.ask('"plan 东京 trip"').hits] == [4]


@pytest.mark.parametrize(("typed", "found"), load("reading")["typed beginnings"])
def test_while_typing_no_letter_loses_the_word(
    index: IndexFile, typed: str, found: list[int]
) -> None:
    texts_there = (
        "deployed it; a deployment; running late; the bus; business; memories; garden; con"
    )
    index.add_all(texts_there.split("; "))
    hits, _ = index.ask(typed, typing=True)
    assert sorted(hit.rowid for hit in hits) == found


@pytest.mark.parametrize(("query", "found"), load("reading")["stars"])
def test_a_star_finds_exactly_the_words_that_begin_so(
    index: IndexFile, query: str, found: list[int]
) -> None:
    texts_there = "con mèo; run and note; running confetti; the bus; notes; Điều này; con config"
    index.add_all(texts_there.split("; "))
    hits, state = index.ask(query)
    assert sorted(hit.rowid for hit in hits) == found
    parsed, match = parse_query(query), str(state.facts["match"])
    for rowid in range(1, 8):
        explained = explain_keyword(index.connection, parsed, rowid, match=match)
        assert explained.found == (rowid in found)
    assert all(match_spans(index.text_of(hit.rowid), hit.terms) for hit in hits)
    typed = index.ask(query.removesuffix("*"), typing=True)
    assert {hit.rowid for hit in typed.hits} >= set(found)


@pytest.mark.parametrize(("word", "text"), load("reading")["typed words"])
def test_every_beginning_of_a_word_finds_it_while_typing(
    index: IndexFile, word: str, text: str
) -> None:
    index.add_all([text])
    for end in range(3, len(word) + 1):
        hits, _ = index.ask(word[:end], typing=True)
        assert [hit.rowid for hit in hits] == [1], word[:end]
        shown = hits[0].terms[0]
        assert shown.rstrip("*") == word[:end]
        assert match_spans(text, hits[0].terms)


def test_an_interrupted_search_keeps_no_snapshot(index: IndexFile) -> None:
    index.add_all("router vendor" for _ in range(500))
    leg = KeywordLeg(index.connection)
    index.connection.set_progress_handler(lambda: True, 1)
    with pytest.raises(Interrupted):
        leg.search(parse_query("router"), 10, None)
    index.connection.set_progress_handler(None)
    assert not index.connection.in_transaction
    # The first query, and the end of the snapshot the first time.
    index.connection.exec_trace = Mock(side_effect=[True, Interrupted, Interrupted, True])
    with pytest.raises(Interrupted):
        leg.search(parse_query("router"), 10, None)
    index.connection.exec_trace = None
    assert not index.connection.in_transaction
    assert len(leg.search(parse_query("router"), 10, None).hits) == 10


def test_a_snapshot_that_the_database_has_ended_hides_no_error(index: IndexFile) -> None:
    with snapshot(index.connection):
        # As SQLite does when a file cannot be read: an error of the end would be told instead.
        index.connection.execute("ROLLBACK")


def test_hits_are_in_the_order_of_bm25_and_name_the_words_they_hold(index: IndexFile) -> None:
    chance = random.Random(5)
    words = ["router", "vendor", "invoice", "deployed", "cache", "token", "garden", "the"]
    index.add_all(" ".join(chance.choices(words, k=chance.randint(3, 40))) for _ in range(80))
    sql = (
        "SELECT rowid, bm25(chunks_fts) FROM chunks_fts WHERE chunks_fts MATCH ? "
        "ORDER BY bm25(chunks_fts), rowid"
    )
    rows = index.connection.execute(sql, ('"vendors" OR "invoices"',)).fetchall()
    hits, state = index.ask("the Vendors invoices", limit=200)
    assert [(hit.rowid, hit.raw) for hit in hits] == rows
    for hit in hits:
        text = index.text_of(hit.rowid)
        spelled = {"Vendors": "vendor", "invoices": "invoice"}
        assert hit.terms == tuple(typed for typed, stored in spelled.items() if stored in text)
    assert index.ask("the Vendors invoices", limit=7).hits == hits[:7]
    assert state.facts["stop_words"] == "the"
    # No snapshot stays open: a writer can empty its log.
    assert not index.connection.in_transaction


@pytest.mark.parametrize(
    ("text", "status", "reason", "count"), cases("reading", "states of the keyword match")
)
def test_the_state_says_what_was_searched(
    index: IndexFile, text: str, status: str, reason: str, count: int
) -> None:
    index.add_all(["to be or not", "garden"])
    hits, state = index.ask(text)
    assert (state.status, state.reason, len(hits)) == (status, reason, count)


@pytest.mark.parametrize(
    ("text", "limit", "budget", "match", "pruned"), load("reading")["frequent words"]
)
def test_frequent_words_are_left_out_and_named(
    index: IndexFile, text: str, limit: int, budget: int | None, match: str, pruned: str
) -> None:
    index.add_all(
        f"common often {'half ' * (n % 2)}{'rare' if n == 7 else ''} {'scarce' if n < 3 else ''}"
        for n in range(200)
    )
    query = parse_query(text, typing=text.endswith("com"))
    hits, state = KeywordLeg(index.connection, budget=budget).search(query, limit, None)
    assert (state.facts["match"], state.facts["pruned"]) == (match, pruned)
    if "rare" in text:
        assert hits[0].rowid == 8
        spelled = [word for word in text.split() if word in ("common", "rare", "often", "half")]
        assert list(hits[0].terms) == spelled


def test_a_pasted_page_is_cut_to_its_rarest_words(index: IndexFile) -> None:
    vocabulary = [f"w{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(300)]
    index.add_all([" ".join(vocabulary), *vocabulary[:200]])
    hits, state = index.ask(" ".join(vocabulary), limit=1)
    assert str(state.facts["match"]).count(" OR ") == 63
    assert len(str(state.facts["pruned"]).split()) == 300 - 64
    assert len(hits[0].terms) == 300


@pytest.fixture
def files(index: IndexFile) -> IndexFile:
    march = int(datetime(2026, 3, 15, 12).timestamp() * 1e9)
    index.add_file("memory/Network/router.md", day=date(2026, 1, 5))
    index.add_file("memory/2026-02-10-plan.md", day=date(2026, 2, 10))
    index.add_file("sessions/a.jsonl", source="sessions", mtime_ns=march)
    index.add_file("notes/far.md", mtime_ns=2**62)
    for path in ("memory/Network/router.md", "memory/2026-02-10-plan.md", "sessions/a.jsonl"):
        index.add("the router", path)
    index.add("the router in years to come", "notes/far.md")
    return index


@pytest.mark.parametrize(("filters", "found"), load("reading")["files and filters"])
def test_files_are_chosen_before_hits(files: IndexFile, filters: str, found: list[int]) -> None:
    assert sorted(hit.rowid for hit in files.ask(f"router {filters}").hits) == found


def test_the_limit_counts_allowed_rows_and_these_follow_the_index(files: IndexFile) -> None:
    for number in range(2000):
        files.add("router " * (1 + number % 5), f"memory/{number % 100}.md", number)
    hits, _ = files.ask("router path:memory/77.md", limit=10)
    everything, _ = files.ask("router", limit=3000)
    filters = parse_query("router path:memory/77.md").filters
    inside = filtered_rows(files.connection, filters)
    assert inside is not None
    assert len(inside) == 20
    assert list(hits)[:10] == [hit for hit in everything if hit.rowid in inside][:10]
    new = files.add("another router", "memory/77.md")
    assert filtered_rows(files.connection, filters) == inside | {new}


def test_words_are_counted_again_after_anything_was_removed(index: IndexFile) -> None:
    rows = index.add_all(["router one", "router two", "garden"])
    leg = KeywordLeg(open_database(index.path, readonly=True))
    for left in (2, 1):
        assert [word.postings for word in leg.plan(parse_query("router")).words] == [left]
        index.remove(rows[2 - left])
