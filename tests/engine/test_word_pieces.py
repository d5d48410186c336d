"""The word pieces that an index keeps beside the vectors: made once, cached, switched off."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import fsum
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from msgspec.structs import replace

from memtui.bus import Bus, SearchReady
from memtui.engine import Engine
from memtui.errors import ProviderError
from memtui.index.database import Recipe
from memtui.index.generations import LiveIndex
from memtui.index.index_rows import counts
from memtui.index.pieces import AT_ONCE
from memtui.memory.passages import passages
from memtui.model import FEATURES, Context, Evidence, Leg, LegStatus, Ranking, Reason
from memtui.model.inquiry import WordMatch
from memtui.report.explanation import Explained
from memtui.report.export import Format, exported
from memtui.retrieval.passages import fetch_pieces
from tests.support.command_line import command_line, own_home
from tests.support.embedding import HashedProvider, registered_hashed
from tests.support.indexing import EventQueue, Workspace
from tests.support.small_memory import make_small_memory, write_notes

NOTE = "# Trunk\n\nThe uplink carries a trunk. VLAN 20 is for cameras.\n\n- a spare port\n"

QUERIES = "router config", "camera vlan"
WAIT = 20


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "notes", tmp_path / "index", HashedProvider(word_pieces=True))
    made.write("a.md", NOTE)
    made.write("b.md", "Bravo.\n")
    made.write("c.md", "...\n")
    yield made
    made.close()


def switch(workspace: Workspace, *, on: bool) -> None:
    identity = dataclasses.replace(workspace.provider.identity, word_pieces=on)
    workspace.recipe = Recipe(identity)


def kept(workspace: Workspace) -> dict[str, list[list[int]]]:
    """The numbers of the words' letters, by the text of the chunk, for each passage."""
    live = LiveIndex(workspace.folder)
    connection = live.connection()
    texts = {
        int(str(row)): str(text) for row, text in connection.execute("SELECT id, text FROM chunks")
    }
    made = fetch_pieces(connection, {row: len(passages(text)) for row, text in texts.items()})
    told = counts(connection)
    size = connection.execute("SELECT sum(length(pieces)) FROM pieces").get
    assert (told["pieces"], told["piece_bytes"]) == (len(made), size or 0)
    live.close()
    return {
        texts[row]: [np.nonzero(rows)[1].tolist() for rows in parts] for row, parts in made.items()
    }


def test_each_passage_keeps_its_pieces(workspace: Workspace) -> None:
    workspace.sync()
    assert kept(workspace) == {
        NOTE: [[1, 5, 3, 6, 7, 1, 6], [4, 2, 2, 3, 8, 1], [1, 5, 4]],
        "Bravo.\n": [[6]],
        "...\n": [],
    }
    # A changed note takes its own with it.
    workspace.write("b.md", "Bravo bravo.\n")
    workspace.sync()
    assert kept(workspace)["Bravo bravo.\n"] == [[5, 6]]
    assert len(kept(workspace)) == 3


def test_they_are_made_once(workspace: Workspace) -> None:
    workspace.sync()
    before, cut = kept(workspace), workspace.provider.cut
    for on in (False, True):
        switch(workspace, on=on)
        workspace.sync()
        assert kept(workspace) == (before if on else {})
    workspace.rebuild()
    assert (kept(workspace), workspace.provider.cut) == (before, cut)


def test_vectors_of_a_cache_without_pieces_get_them(workspace: Workspace) -> None:
    switch(workspace, on=False)
    workspace.sync()
    calls = workspace.provider.calls
    switch(workspace, on=True)
    workspace.rebuild()
    assert len(kept(workspace)) == 3
    assert workspace.provider.calls == calls


def test_a_large_index_keeps_none(workspace: Workspace) -> None:
    workspace.sync()
    workspace.recipe = Recipe(dataclasses.replace(workspace.provider.identity, piece_chunks=3))
    workspace.sync()
    assert len(kept(workspace)) == 3
    workspace.write("d.md", "Delta.\n")
    workspace.sync()
    assert kept(workspace) == {}


def test_pieces_of_other_passages_are_made_anew(workspace: Workspace) -> None:
    """The cache may hold those of another version's passages, or damaged ones."""
    workspace.sync()
    before, identity = kept(workspace), workspace.provider.identity
    hashes = [
        str(row[0])
        for row in LiveIndex(workspace.folder).connection().execute("SELECT hash FROM chunks")
    ]
    cached = workspace.cache.get_pieces(identity, hashes)
    workspace.cache.put_pieces(identity, {name: one[:-1] + b"!" for name, one in cached.items()})
    cut = workspace.provider.cut
    workspace.rebuild()
    assert kept(workspace) == before
    assert workspace.provider.cut == cut + 3


def test_the_shares_of_words_add_up_to_that_of_the_passage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "hippopotomonstrosesquippedaliophobia"
    notes = {
        "memory/net.md": "# Net\n\nRestart the router after a storm.\n",
        "memory/网络.md": f"The router in the café is the 路由器, not a {long}.\n",
        "memory/hostile.md": f"🦊\x1b[31m {'a,b;' * 80} router 🦊\n",
    }
    root, call = own_home(tmp_path, monkeypatch) / "notes", command_line(capsys)
    write_notes(root, notes)
    call("index", "--root", str(root))
    nearest = {}
    for rank in "123":
        asked = [
            "explain",
            f"restart?! {long} 器, 🦊 router router",
            "--root",
            str(root),
            "--rank",
            rank,
        ]
        hit, text = call(*asked, "--json").document["hit"], call(*asked).out
        table, total = hit["passage"]["words"], 0.0
        for one in table:
            total += one["share"]
            assert one["share"] == one["weight"] * one["cosine"]
        assert 11 * total == hit["passage"]["shares"]["word_pieces"]
        shown = re.findall(r" → .+ (\d\.\d{3})  \d\.\d{3} × ", text)
        assert len(shown) == len(table)
        assert f"word by word: {sum(map(float, shown)):.3f} together\n" in text
        nearest[hit["path"]] = {one["word"]: one["nearest"] for one in table}
    words = ["restart", long, "器", "router"]
    assert [*map(list, nearest.values())] == [words] * 3
    assert nearest["memory/网络.md"][long] == [long]
    assert nearest["memory/网络.md"]["器"] == ["器"]
    assert nearest["memory/net.md"]["restart"] == ["Restart"]
    # What stands behind the 254 pieces that are kept is near to nothing.
    assert "router" not in nearest["memory/hostile.md"]["router"]


def test_an_index_without_pieces_says_why_there_is_no_table(tmp_path: Path) -> None:
    made = HashedProvider(word_pieces=False)
    with registered_hashed(made), make_small_memory(tmp_path).open() as opened:
        opened.index.sync(wait=True)
        ranked = opened.search.ask("router")
        chunk = ranked.hits[0].chunk.id
        table = opened.explain.word_matches(ranked, chunk)
        explained = Explained(ranked, ranked.ranking, subject=chunk, matches=table)
        assert "no table: the index has no word pieces\n" in exported(explained, Format.TEXT)
        waits = replace(explained, matches=Reason.NO_VECTOR)
        mean = "no table: no vector: it counts as the others do on average\n"
        assert mean in exported(waits, Format.TEXT)
        pieces = WordMatch("config", ("box", "in"), 1.0, 0.5, 0.5)
        text = exported(replace(explained, matches=(pieces,)), Format.TEXT)
        assert "config: read in pieces, each beside its nearest word; " in text


@contextmanager
def opened(folder: Path, most: int = 3) -> Iterator[tuple[Engine, HashedProvider, EventQueue]]:
    bus, provider = Bus(), HashedProvider(word_pieces=True, piece_chunks=most)
    with registered_hashed(provider), make_small_memory(folder).open(bus) as engine:
        engine.index.sync(wait=True)
        yield engine, provider, EventQueue(bus, SearchReady)


def answers(events: EventQueue) -> Iterator[SearchReady]:
    """The answers by both legs as they come, up to the first whole one."""
    while isinstance(event := events.get(WAIT), SearchReady):
        if all(leg.status is LegStatus.OK for leg in event.ranked.pool.states.values()):
            yield event
        if event.complete:
            return


def test_a_large_index_ranks_by_pieces_that_a_query_has_made(tmp_path: Path) -> None:
    with opened(tmp_path / "small", most=50_000) as (engine, _, _):
        wanted = [engine.search.ask(query).hits for query in QUERIES]
    with opened(tmp_path / "large") as (engine, made, events):
        without = Ranking(context=Context(enabled=False))
        for ranking, typing in ((None, True), (without, False)):
            asked = engine.search.ask(QUERIES[0], ranking=ranking, typing=typing)
            assert (asked.pool.evidence, made.cut) == (Evidence.VECTORS, 0)
        engine.search.submit(QUERIES[0], typing=False)
        first, last = (event.ranked for event in answers(events))
        assert (first.pool.evidence, last.pool.pieces_due) == (Evidence.VECTORS, 0)
        assert first.pool.pieces_due == made.cut - 1 > AT_ONCE
        table = engine.explain.word_matches(last, last.hits[0].chunk.id)
        assert isinstance(table, tuple)
        share = last.hits[0].stages[1].numbers["word_pieces"]
        assert share == 11 * sum(one.share for one in table)
        cut = made.cut
        again = engine.search.ask(QUERIES[0]).hits
        assert made.cut == cut + 1, "the words of the query are all that is new"
        assert [again, engine.search.ask(QUERIES[1]).hits] == wanted


def test_the_next_query_stops_the_making_of_pieces(tmp_path: Path) -> None:
    with opened(tmp_path) as (engine, made, events):
        made.before_cut = lambda: engine.search.submit("camera", typing=True)
        stopped = engine.search.submit(QUERIES[0], typing=False)
        seen = [(event.sequence, event.complete) for event in answers(events)]
        assert (seen, made.cut) == ([(stopped, False), (stopped + 1, True)], 0)


def test_a_model_that_makes_no_pieces_leaves_the_first_answer(tmp_path: Path) -> None:
    with opened(tmp_path) as (engine, made, _):
        made.before_cut = Mock(side_effect=ProviderError("no room"))
        pool = engine.search.ask(QUERIES[0]).pool
        state = pool.states[Leg.VECTOR]
        assert (pool.evidence, state.status) == (Evidence.VECTORS, LegStatus.OK)
        assert (state.reason, state.detail) == (Reason.NO_PIECES, "without word pieces: no room")


def test_a_chunk_that_the_model_does_not_read_counts_as_the_others_on_average(
    tmp_path: Path,
) -> None:
    memory = make_small_memory(tmp_path)
    write_notes(memory.root, {"memory/鯨.md": "鯨 router\n"})
    made = HashedProvider(word_pieces=True, readable=lambda text: "鯨" not in text)
    with registered_hashed(made), memory.open() as opened:
        opened.index.sync(wait=True)
        pool = opened.search.ask("router").pool
    near = FEATURES.index("word_pieces") - 1
    read, unread = list[tuple[float, ...]](), list[tuple[float, ...]]()
    for chunk, of_chunk in pool.passages.items():
        side = unread if "鯨" in pool.chunks[chunk].text else read
        side += (one.values[near : near + 2] for one in of_chunk)
    mean = tuple(fsum(column) / len(read) for column in zip(*read, strict=True))
    assert unread == [mean]
    assert max(read) > mean
