"""After any sequence of file operations, one sync makes the index what a fresh one would be."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.engine import Engine
from memtui.model import Decay, Fusion, Leg, Mmr, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.settings.schema import ChunkingSettings
from tests.support.dice import examples
from tests.support.embedding import registered_hashed
from tests.support.indexing import Workspace
from tests.support.small_memory import SETTINGS, SmallMemory

NOTES = ("MEMORY.md", "memory/a.md", "memory/2026-02-10.md", "memory/x/b.md")
# Folders stand here once, notes thrice.
PATHS = (*(NOTES * 3), "b.md", "x/c.md", "memory", "memory/x", "x")
LINES = ["alpha", "bravo garden", "# Head", "", "- item", "路由器の設定"]
CONTENTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=60).map(str.encode),
    st.lists(st.sampled_from(LINES), max_size=12).map(lambda lines: "\n".join(lines).encode()),
    st.integers(1, 200).map(lambda count: b"a line of a longer note about the garden\n" * count),
    st.integers(1, 3).map(lambda count: b"x" * count * 2000),
    st.binary(max_size=40),
)
# What changes most stands here several times.
ACTIONS = (
    *("write", "write", "write", "append", "append", "rewrite unseen", "touch", "move", "move"),
    *("remove", "folder", "link", "pipe", "sync", "sync", "sync", "rebuild"),
)


class Step(NamedTuple):
    """Something that is done to a folder of notes, or to its index."""

    action: str
    path: str
    other: str
    content: bytes


STEPS = st.builds(
    Step, st.sampled_from(ACTIONS), st.sampled_from(PATHS), st.sampled_from(PATHS), CONTENTS
)


def take(step: Step, workspace: Workspace) -> None:
    """Do one step; what is impossible at a place is left out."""
    place = workspace.root / step.path
    is_file = place.is_file() and not place.is_symlink()
    with suppress(OSError, shutil.Error):
        match step.action:
            # A pipe would wait for a reader.
            case "write" if is_file or not os.path.lexists(place):
                workspace.write(step.path, step.content)
            case "append" if is_file:
                place.write_bytes(place.read_bytes() + step.content)
            case "rewrite unseen" if is_file:
                state = place.stat()
                with place.open("r+b") as stream:
                    content = stream.read()
                    stream.seek(0)
                    stream.write(bytes(byte ^ 1 for byte in content))
                os.utime(place, ns=(state.st_atime_ns, state.st_mtime_ns))
            case "touch" if is_file:
                os.utime(place)
            case "move":
                os.replace(place, workspace.root / step.other)
            case "remove" if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            case "remove":
                place.unlink()
            case "folder":
                place.mkdir(parents=True, exist_ok=True)
            case "link":
                place.symlink_to(workspace.root / step.other)
            case "pipe":
                os.mkfifo(place)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=16, max_size=30))
def test_a_sync_equals_a_fresh_index(steps: list[Step]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Workspace(Path(folder) / "notes", Path(folder) / "index")) as workspace,
    ):
        for step in steps:
            take(step, workspace)
            if step.action == "sync":
                workspace.sync()
            elif step.action == "rebuild":
                workspace.rebuild()
        workspace.sync()
        assert workspace.contents() == workspace.fresh(Path(folder) / "fresh")
        stats = workspace.sync().stats
        changes = (stats.files_added, stats.files_changed, stats.files_removed)
        assert changes == (0, 0, 0)
        assert stats.chunks_written == 0


PLACES = ("MEMORY.md", "b.md", *(f"memory/{name}.md" for name in ("a", "2026-02-10", "x/b", "Z")))
LINE = "alpha water the garden at dawn and close the gate\n"
TEXTS = ("alpha garden\n", "bravo garden\n", LINE, LINE * 200, "bravo " + LINE * 150)
EDITS = st.tuples(
    st.sampled_from(("write", "write", "copy", "copy", "swap", "move", "remove", "undo", "sync")),
    st.sampled_from(PLACES),
    st.sampled_from(PLACES),
    st.sampled_from(TEXTS),
)
QUERIES = ("garden", "alpha gate", "bravo", '"the garden" alpha', "gate path:memory/", "gard")
FEW = Ranking(k=2, candidate_multiplier=1, min_candidates=1)
RANKINGS = (
    *PROFILES.values(),
    FEW,
    replace(FEW, k=4, fusion=Fusion.RRF, dedup=True),
    Ranking(k=3, mmr=Mmr(enabled=True), decay=Decay(enabled=True)),
)


def edit(engine: Engine, action: str, path: str, other: str, text: str) -> None:
    """Change a note, as people do; what is impossible is left out."""
    one, two = engine.root / path, engine.root / other
    before = one.read_text() if one.exists() else None
    two.parent.mkdir(parents=True, exist_ok=True)
    if action == "sync":
        engine.index.sync(wait=True)
    elif action == "write" or before is None:
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_text(text)
    elif action == "swap" and two.exists():
        one.write_text(two.read_text())
        two.write_text(before)
    elif action in ("copy", "swap"):
        two.write_text(before)
    elif action == "undo":
        one.write_text(text)
        engine.index.sync(wait=True)
        one.write_text(before)
    elif action == "move":
        one.replace(two)
    else:
        one.unlink()


def lists(engine: Engine) -> Iterator[object]:
    """Everything that has an order: what legs find, ranked in every way, its rank, neighbours."""
    for query in QUERIES:
        ranked = engine.search.ask(query, ranking=FEW, typing=query == "gard")
        yield query, (pool := ranked.pool).hits
        for leg, sign in ((Leg.KEYWORD, 1), (Leg.VECTOR, -1)):
            best = [(hit.raw * sign, pool.chunks[hit.chunk_id]) for hit in pool.hits[leg]]
            places = [(raw, chunk.path, chunk.start_line) for raw, chunk in best]
            assert places == sorted(places)
        for ranking in RANKINGS:
            again = engine.search.rerank(pool, ranking)
            hits = [(hit.chunk.id, hit.score, hit.effective) for hit in again.hits]
            yield ranking, hits, [(drop.chunk.id, drop.stage, drop.score) for drop in again.drops]
        for chunk_id in [hit.chunk_id for leg in Leg for hit in pool.hits[leg][-1:]]:
            yield engine.explain.inquire(ranked, chunk_id).leg_places
            yield engine.browse.neighbours(chunk_id, 3)


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EDITS, min_size=8, max_size=20))
def test_a_list_does_not_tell_how_the_index_came_about(edits: list[tuple[str, ...]]) -> None:
    small = replace(SETTINGS, chunking=ChunkingSettings(tokens=64, overlap=0))
    with tempfile.TemporaryDirectory() as folder, registered_hashed():
        memory = SmallMemory(Path(folder) / "notes", Path(folder) / "data", small)
        memory.root.mkdir()
        with memory.open() as grown:
            for one in edits:
                edit(grown, *one)
            grown.index.sync(wait=True)
            found = list(lists(grown))
        with SmallMemory(memory.root, Path(folder) / "fresh", small).open() as fresh:
            fresh.index.sync(wait=True)
            assert found == list(lists(fresh))
