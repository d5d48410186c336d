"""Naming a file or a line: the prompt, its completion, and what it opens."""

from __future__ import annotations

import pytest

from memtui.model.inquiry import Place
from memtui.tui.commands import MemtuiCommands
from memtui.tui.screens.explain import ExplainScreen
from memtui.tui.screens.place_prompt import SHOWN, NoPlace, PlacePrompt, completions, read_place
from tests.tui.harness import Running, running, until
from tests.tui.inquiry_samples import InquiringEngine

PATHS = ("MEMORY.md", "memory/2026-02-10.md", "memory/network.md", "notes/odd:12", "家/网络.md")


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("memory/network.md", Place("memory/network.md")),
        (" memory/network.md:14 ", Place("memory/network.md", 14)),
        ("memory/network.md#L14-L20", Place("memory/network.md", 14)),
        ("notes/odd:12", Place("notes/odd:12")),
        ("家/网络.md:3", Place("家/网络.md", 3)),
        ("not there.txt", Place("not there.txt")),
    ],
)
def test_a_place_is_read_as_people_write_it(typed: str, place: Place) -> None:
    assert read_place(typed, PATHS) == place


@pytest.mark.parametrize("typed", ["", "   ", "memory/network.md:0"])
def test_what_names_no_place_gets_one_line(typed: str) -> None:
    with pytest.raises(NoPlace) as told:
        read_place(typed, PATHS)
    assert "\n" not in str(told.value)
    assert str(told.value)


def test_paths_that_begin_so_come_first_and_any_part_is_found() -> None:
    assert completions("mem", PATHS) == ["MEMORY.md", "memory/2026-02-10.md", "memory/network.md"]
    assert completions("net", PATHS) == ["memory/network.md"]
    assert completions("02-10", PATHS) == ["memory/2026-02-10.md"]
    assert completions("memory/network.md:7", PATHS) == ["memory/network.md"]
    assert completions("网", PATHS) == ["家/网络.md"]
    assert len(completions("", [f"{n}.md" for n in range(80)])) == SHOWN


async def _prompt(run: Running) -> PlacePrompt:
    await until(run.pilot, lambda: isinstance(run.app.screen, PlacePrompt))
    screen = run.app.screen
    assert isinstance(screen, PlacePrompt)
    await run.app.workers.wait_for_complete()
    await run.pilot.pause()
    return screen


async def _type(run: Running, text: str) -> None:
    run.app.screen.query_one("#place").value = text  # type: ignore[attr-defined]
    await run.pilot.pause()


async def test_a_place_is_traced_in_an_answer_alone() -> None:
    async with running(InquiringEngine, size=(80, 24)) as run:
        names = {command.name for command in MemtuiCommands(run.app.search_screen).commands()}
        assert {"trace a file or a line…", "pin the selected chunk"} <= names
        await run.pilot.press("escape", "t")
        await run.pilot.pause()
        assert run.app.screen is run.app.search_screen
        assert run.toasts[-1].startswith("Nothing asked yet: type a query first")


async def test_from_the_preview_the_first_visible_line_is_named() -> None:
    async with running(InquiringEngine, size=(80, 24)) as run:
        await run.search()
        search = run.app.search_screen
        await run.pilot.press("escape", "enter")
        await until(run.pilot, lambda: search.preview.has_focus and search.notes.source is not None)
        line = search.preview.first_visible_line
        await run.pilot.press("t")
        screen = await _prompt(run)
        assert line > 1
        assert screen.query_one("#place").value == f"memory/2026-02-10.md:{line}"  # type: ignore[attr-defined]


async def test_a_path_can_be_typed_when_the_paths_cannot_be_read() -> None:
    def engine(bus: object) -> InquiringEngine:
        return InquiringEngine(bus, failing={"paths"})  # type: ignore[arg-type]

    async with running(engine, size=(80, 24)) as run:
        await run.search()
        await run.pilot.press("escape", "t")
        await until(run.pilot, lambda: isinstance(run.app.screen, PlacePrompt))
        await until(run.pilot, lambda: any("no paths today" in told for told in run.toasts))
        await _type(run, "MEMORY.md")
        await run.pilot.press("enter")
        await until(run.pilot, lambda: isinstance(run.app.screen, ExplainScreen))
