"""The chunk screen at work: asking is stopped and begun again, other machines, errors, any text."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from memtui.bus import FileIndexed
from memtui.engine.browse import Browse
from memtui.errors import MemtuiError
from memtui.model import Chunk, Reason
from memtui.model.browsing import AnsweredQuery, ChunkTerm, Neighbour, Neighbours
from memtui.report.chunk_record import (
    neighbour_sections,
    queries_section,
    record_section,
    terms_section,
)
from memtui.text.sanitize import HOSTILE
from memtui.tui.screens.chunk import chunk_near
from memtui.tui.widgets.lists import rows_of
from tests.support.hostile import ALL, ATTACKS
from tests.support.known import cases
from tests.support.small_memory import NOW, SmallMemory, write_notes
from tests.tui.harness import Running, held_history, running, settle

PATH = "memory/topics/garden.md"
QUERIES = ("tomatoes", "guest portal")


async def open_chunk(run: Running) -> Chunk:
    """Show the chunk of a note, with two queries in the history."""
    run.app.search_screen.notes.queries = QUERIES
    chunk: Chunk = run.engine.browse.chunks_of(PATH)[0]
    run.app.open_chunk(chunk.id)
    return chunk


async def test_asking_the_queries_can_be_stopped_and_begun_again(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, asked = held_history(monkeypatch)
    async with running(memory.open, size=(120, 40)) as run:
        await open_chunk(run)
        await run.until(lambda: "asking 1 of 2 · r stop" in run.text)
        await run.pilot.press("r")
        await run.until(lambda: asked == [QUERIES, ()])
        await run.until(lambda: "r ask the 2 queries of the history" in run.text)
        await run.pilot.press("r")
        await run.until(lambda: "asking 1 of 2" in run.text)
        goes_on.set()
        await run.until(lambda: "#1  12.500  tomatoes" in run.text)
        assert asked == [QUERIES, (), QUERIES]
        run.engine.bus.publish(FileIndexed())
        await run.until(lambda: "before the last change · r ask again" in run.text)
        await run.press("escape")
        goes_on.clear()
        await open_chunk(run)
        await run.until(lambda: "asking 1 of 2" in run.text)
        await run.pilot.press("escape")
        await run.until(lambda: asked.count(()) == 2)
        # Nothing is sent away unasked.
        status = run.engine.index.status()
        provider = replace(status.provider, remote=True, address="api.example.org")
        distant = replace(status, provider=provider)
        monkeypatch.setattr(type(run.engine.index), "status", lambda index: distant)
        await open_chunk(run)
        await run.until(lambda: "r ask the 2 queries (sends them to api.exa" in run.text)
        assert asked.count(QUERIES) == 3


async def test_what_cannot_be_read_is_said_and_what_was_read_stays(
    memory: SmallMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(memory.open) as run:
        chunk = await open_chunk(run)
        await run.until(lambda: "Queries 1  tab next" in run.text)
        fail = Mock(side_effect=MemtuiError("the index cannot be read: rebuild it"))
        with monkeypatch.context() as patch:
            patch.setattr(Browse, "chunk_record", fail)
            run.engine.bus.publish(FileIndexed())
            await run.until(lambda: "cannot be read: the index cannot" in run.text)
            assert "Tomatoes" in run.text
        await run.press("p", "escape")
        with monkeypatch.context() as patch:
            patch.setattr(Browse, "neighbours", fail)
            run.app.open_chunk(chunk.id)
            await run.until(lambda: "cannot be read: the index cannot" in run.text)
            await run.until(lambda: "Queries 1" in run.text)
            assert "Tomatoes" in run.text
            assert "cannot be read: the index cannot" in run.text, "after the queries, too"
        await run.press("escape")
        assert run.app.search_screen.state.pins.keys() == {chunk.id}
        run.app.open_chunk("no-such-chunk")
        await run.until(lambda: "no such chunk in the index · esc back" in run.text)
        await run.press("D", "e", "p", "y", "Y", "r", "o", "tab", "tab", "enter", "escape")
        assert run.app.screen is run.app.search_screen
        # Filters alone are no query that might find it.
        run.app.search_screen.notes.queries = ("path:MEMORY.md", "zzzz")
        run.app.open_chunk(chunk.id)
        await settle(run.app, run.pilot)
        assert f"of {chunk.citation} " in run.text
        await run.press("tab", "tab", "tab", shows="none of 1 query with words")
        await run.press("p", "Y")
        assert not run.app.search_screen.state.pins
        assert run.app.clipboard == chunk.text


async def test_no_credential_is_shown_beside_those_like_it(memory: SmallMemory) -> None:
    line = "The crane takes sk-proj-n5kWnMy9QzR7tYvX2cB4dF6gEny at night.\n"
    write_notes(memory.root, {"memory/one.md": line, "memory/two.md": line})
    async with running(memory.open, size=(160, 50)) as run:
        run.engine.index.sync()
        await settle(run.app, run.pilot)
        run.app.open_chunk(run.engine.browse.chunks_of("memory/two.md")[0].id)
        for keys in ((), ("tab", "D"), ("escape", "Y")):
            await run.press(*keys)
            assert "crane takes" in run.text
            assert "n5kwnmy9" not in (run.text + run.app.clipboard).lower()


def test_hostile_texts_at_any_width(memory: SmallMemory) -> None:
    with memory.open() as engine:
        chunk = engine.browse.chunks_of(PATH)[0]
        record = engine.browse.chunk_record(chunk.id)
    assert record is not None
    evil = replace(chunk, path=ALL, text=ALL, model=ALL, source=ALL, project_keys=ATTACKS[:3])
    terms = tuple(ChunkTerm(text, 1, 1) for text in ATTACKS)
    record = replace(record, chunk=evil, terms=terms, provider=ALL, dimensions=None, norm=None)
    one = Neighbour(evil, 0.5, ATTACKS)
    alike = Neighbours((), Reason.NO_VECTORS, (one,), (one,))
    known = record_section(record, NOW)
    unknown = replace(record, vector_state=Reason.NO_VECTORS, changed=None, importance=None)
    words = {row.cells for row in record_section(unknown).rows}
    assert words >= {("vector", "none: no vectors yet"), ("changed", "not known")}
    by_file = replace(
        record, chunk=replace(chunk, day=None, day_from=Reason.FILE_TIME), changed=NOW
    )
    dates = {row.cells for row in record_section(by_file, NOW).rows}
    assert ("date", "2026-02-20  today, from the file time") in dates
    answered = [AnsweredQuery(text, 1, 0.5) for text in ATTACKS]
    sections = [
        known,
        terms_section("", terms, 9),
        *neighbour_sections(alike, ATTACKS),
        queries_section("queries", answered),
    ]
    rows = [row for one in sections for row in rows_of(one, ["id"] * len(one.rows))]
    drawn = [row.draw(width).plain for row in rows for width in (1, 40, 120)]
    assert any("no vectors yet" in text for text in drawn)
    assert not any(HOSTILE.search(text.replace("\n", "")) for text in drawn)


def of_lines(start: int, end: int) -> Chunk:
    return Chunk(f"{start}", "a.md", "memory", start, end, "x", "hash", "minilm")


@pytest.mark.parametrize(("chunks", "nearest"), cases("interface", "chunks nearest to lines"))
def test_what_stands_at_the_lines_of_a_chunk_that_is_gone(
    chunks: list[tuple[int, int]], nearest: tuple[int, int]
) -> None:
    there = chunk_near([of_lines(*lines) for lines in chunks], of_lines(10, 20))
    assert there == of_lines(*nearest)
