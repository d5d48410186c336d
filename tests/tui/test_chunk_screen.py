"""The chunk screen: what the index holds about one chunk, what is like it, what it answers."""

from __future__ import annotations

from typing import cast

from memtui.tui.screens.chunk.screen import SECTIONS, ChunkScreen
from memtui.tui.screens.dialogs import SideScreen
from memtui.tui.screens.help import help_groups
from tests.tui.care_samples import FIRST, SECOND, CareSample
from tests.tui.harness import Running, press, resize, running, settle

SIZES = [(80, 24), (120, 40), (200, 60)]
QUERIES = ("router vlan", "dns", "guest portal", "mtu")


def _engine(run: Running) -> CareSample:
    return cast("CareSample", run.engine)


async def _open(run: Running, chunk_id: str = FIRST.id) -> ChunkScreen:
    run.app.search_screen.notes.history.extend(QUERIES)
    run.app.open_chunk(chunk_id)
    await settle(run.app, run.pilot)
    return cast("ChunkScreen", run.app.screen)


async def _press(run: Running, *keys: str) -> str:
    await press(run.pilot, *keys)
    await settle(run.app, run.pilot)
    return run.text


async def _parts(run: Running) -> str:
    """Everything, part after part."""
    texts = [run.text]
    for _ in SECTIONS:
        texts.append(await _press(run, "tab"))
    return "\n".join(texts)


EVERYTHING = (
    "memory/2026-02-10.md#L12-L31",
    f"id          {FIRST.id[:32]}",
    f"text hash   {FIRST.hash[:32]}",
    "25 tokens, 24 terms, 150 characters, 20",
    "demo  by minilm",
    "384 dimensions, norm 1.0000",
    "2026-02-10  3 d ago, from the file name",
    "importance  0.7",
    "2 d ago",
    "memory  row 7",
    "13   - [x] backup config",
    "Terms  24",
    "vlan            2      4/1 284",
    "Near-duplicates  1",
    "By vector  9",
    "By shared words  9",
    "memory/2026-02-09.md:4",
    "shared 20, 30, backup",
    "Queries that it answers  2",
    "#1  0.900  router vlan",
    "#2  0.800  guest portal",
    "of 4 queries",
)


async def test_everything_can_be_seen_at_every_size() -> None:
    async with running(CareSample, size=SIZES[0]) as run:
        screen = await _open(run)
        text = await _parts(run)
        for part in (screen.like, screen.terms):
            part.focus()
            text += await _press(run, "G") + await _press(run, "pageup", "pageup")
        for words in EVERYTHING:
            assert words in text, words
        screen.like.focus()
        await press(run.pilot, "g")
        await resize(run.pilot, SIZES[1])
        for words in (*EVERYTHING[:12], "By vector  9", *EVERYTHING[-3:]):
            assert words in run.text, words
        await resize(run.pilot, SIZES[2])
        for words in EVERYTHING:
            assert words in run.text, words
        assert _engine(run).asked_queries == [QUERIES], "the queries are asked once"


async def _sort_terms(run: Running, screen: ChunkScreen) -> None:
    """Go through the orders of the terms, and from the last term into the text."""
    screen.terms.focus()
    firsts = {}
    for _ in range(4):
        subtitle = str(screen.terms.border_subtitle)
        firsts[subtitle.partition(" · ")[0]] = [row.id for row in screen.terms.rows[1:3]]
        await _press(run, "o")
    assert firsts == {
        "rarest first": ["12h", "dhcp"],
        "most frequent first": ["router", "config"],
        "by count first": ["vlan", "12h"],
        "by name first": ["12h", "13"] if "13" in firsts else ["12h", "20"],
    }
    await _press(run, "G", "enter")
    assert screen.text.has_focus
    assert "Configured Omada router" in run.text


def _show_no_answers(screen: ChunkScreen) -> None:
    """What the list says of queries when there is none to ask again."""
    assert str(screen.answers.border_subtitle) == "of 4 queries · ⏎ asks it"
    answered, screen.queries.answered = screen.queries.answered, ()
    screen.show_queries()
    assert str(screen.answers.border_subtitle) == "of 4 queries"
    assert str(screen.answers.border_title) == "Queries that it answers"
    screen.queries.answered = answered
    screen.show_queries()


async def test_terms_are_sorted_and_keys_lead_on_and_back() -> None:
    async with running(CareSample, size=(120, 40)) as run:
        screen = await _open(run)
        await _sort_terms(run, screen)
        _show_no_answers(screen)
        screen.like.focus()
        await _press(run, "d")
        assert any(isinstance(one, SideScreen) for one in run.app.screen_stack)
        assert "memory/2026-02-10.md#L12-L31" in run.text
        assert "memory/2026-02-09.md#L4-L22" in run.text
        await _press(run, "escape", "enter")
        other = cast("ChunkScreen", run.app.screen)
        assert other.lookup.chunk_id == SECOND.id
        assert "again after firmware" in run.text
        await _press(run, "escape")
        assert run.app.screen is screen
        await _press(run, "p")
        assert run.app.search_screen.pinned == (FIRST.id,)
        await _press(run, "y")
        assert run.app.clipboard == "memory/2026-02-10.md#L12-L31"
        await _press(run, "Y", "e")
        assert run.app.clipboard == FIRST.text
        assert "/home/ann/memory/memory/2026-02-10.md:12" in run.toasts[-1]
        screen.answers.focus()
        await _press(run, "j", "enter")
        assert len(run.app.screen_stack) == 1
        assert run.app.search_screen.query_input.value == "guest portal"


async def test_it_is_reached_from_a_result_and_from_its_explanation() -> None:
    async with running(CareSample, size=(120, 40)) as run:
        await run.search()
        await press(run.pilot, "down", "escape")
        chosen = run.app.search_screen.selected_id
        lines = [line for group in help_groups(run.app.screen, None) for line in group.lines]
        assert [line.binding.description for line in lines if "K" in line.keys] == ["chunk"]
        await _press(run, "K")
        assert cast("ChunkScreen", run.app.screen).lookup.chunk_id == chosen
        await _press(run, "escape", "x")
        explain = run.app.screen
        await _press(run, "K")
        assert cast("ChunkScreen", run.app.screen).lookup.chunk_id == chosen
        await _press(run, "escape")
        assert run.app.screen is explain
