"""The care screen at work: a look that is stopped, remembered, or fails; many findings; any text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from memtui.bus import FileIndexed
from memtui.engine.browse import Browse
from memtui.errors import Cancelled, MemtuiError
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.settings.schema import Settings, UiSettings
from memtui.text.sanitize import HOSTILE
from memtui.tui.options import UiOptions
from memtui.tui.screens.browse.browse_screen import BrowseScreen
from memtui.tui.screens.care import CareScreen, care_rows
from memtui.tui.side_by_side import MOST_CHARACTERS
from tests.support.hostile import ALL, ATTACKS
from tests.support.small_memory import SmallMemory
from tests.tui.harness import all_lines, dark, press, resize, running, settle

Looks = Callable[[Callable[..., CareReport]], None]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Puts another look in the place of the engine's."""
    return lambda look: monkeypatch.setattr(Browse, "care", look)


async def test_a_look_can_be_stopped_and_is_remembered(memory: SmallMemory, looks: Looks) -> None:
    real, stopped, calls = Browse.care, threading.Event(), []
    steps = [(61, 100)]

    def held(browse: Browse, *, cancelled: Any, progressed: Any) -> CareReport:
        for step in steps:
            progressed(*step)
        while not cancelled():
            stopped.wait(0.01)
        raise Cancelled

    def counted(browse: Browse, **options: Any) -> CareReport:
        calls.append("care")
        return real(browse, **options)

    looks(held)
    async with running(memory.open, options=dark(memory={"demo": ""})) as run:
        run.app.action_show_screen("care")
        await run.until(lambda: "61 %  esc stop" in run.text and run.text.count("esc stop") == 2)
        await run.press("escape")
        assert "stopped · r rescan" in run.text
        steps.clear()
        await press(run.pilot, "r")
        await run.until(lambda: "checking" in run.text)
        assert "61 %" not in run.text, "how far the look before was"
        await run.press("escape")
        looks(counted)
        await run.press("r")
        await run.press("right_square_bracket", "n")
        finding = run.screen(CareScreen).finding
        assert finding is not None
        assert finding.rule is CareRule.BROKEN_LINK
        report = run.screen(CareScreen).report
        assert report is not None
        worded = replace(finding, message="worded anew")
        findings = [worded if one == finding else one for one in report.findings]
        turned = replace(report, findings=tuple(findings[::-1]))
        looks(lambda browse, **options: turned)
        await run.press("r")
        assert run.screen(CareScreen).finding == worded, "at another place"
        assert run.toasts[-1].startswith("checked again: ")
        await run.press("escape")
        run.app.action_show_screen("care")
        await settle(run.app, run.pilot)
        assert run.screen(CareScreen).finding == worded, "it is chosen again"
        assert calls == ["care"], "nothing changed: it is remembered"
        run.engine.bus.publish(FileIndexed())
        await run.until(lambda: "checked before the last change" in run.text)
        await run.press("escape")
        looks(Mock(side_effect=MemtuiError("the index cannot be read: `memtui index`")))
        run.app.action_show_screen("care")
        await run.until(lambda: "cannot be read: `memtui index --demo`" in run.text)


@pytest.mark.parametrize("leave", ["escape", "q"])
async def test_enter_reads_the_place_of_a_finding_and_leads_back_with_browse_as_it_was(
    memory: SmallMemory, leave: str
) -> None:
    (memory.root / "memory/blob.md").write_bytes(b"\0")
    async with running(memory.open, size=(100, 30)) as run:
        await run.press("escape", "2", "slash", *"mai", "enter", "tab")
        before = run.text
        await run.press("4", shows="3 findings by 3 rules, 6 rules passed")
        assert "⏎ read  e edit" in run.text
        screen = run.screen(CareScreen)
        await run.press("slash", *"nothing-holds-this")
        assert "0 of 3 findings" in run.text
        await run.press("enter", "escape")
        assert run.app.screen is screen, "the filter goes first"
        finding = screen.finding
        assert finding is not None
        await run.press("enter")
        reader = run.screen(BrowseScreen)
        assert (reader.is_alone, reader.reader.path) == (True, finding.place.path)
        await run.press(leave)
        assert run.app.screen is screen
        assert screen.finding == finding
        await run.press(leave)
        assert run.text == before


def test_thousands_of_findings_are_filtered_by_their_words() -> None:
    place = CarePlace("memory/a.md", 4, 4, "x")
    findings = (
        *(
            CareFinding(CareRule.LONG_LINE, CarePlace(f"memory/n{n:04}.md", 1, 1, "x"), "long")
            for n in range(5_000)
        ),
        CareFinding(CareRule.NEAR_DUPLICATE, place, "twice", CarePlace("memory/b.md", 1, 9, "x")),
    )
    twice = findings[0]
    rows = care_rows(CareReport((twice, twice), {}), "n0000")
    assert len({row.id for row in rows}) == len(rows) == 3, "two findings at one place"
    assert rows[0].draw(20).plain == "! Long lines  2  no…"
    report = CareReport(findings, {CareRule.LONG_LINE: 7}, {CareRule.UNREACHABLE: "no vectors"})

    def shown(words: str) -> list[str]:
        return [row.draw(70).plain.rstrip() for row in care_rows(report, words)]

    everything = shown("")
    assert len(everything) == 5_001 + len(CareRule)
    assert everything[0] == "! Near-duplicates  1" + "nothing to check".rjust(50)
    assert everything[1] == "  memory/a.md:4  =  memory/b.md:1"
    assert everything[2].startswith("! Long lines  the first 5,000 ")
    assert everything[5_003].startswith("– Unreachable files  not applied: no vectors")
    assert "– Empty files  nothing to check" in everything
    assert shown("n123 memory")[0].startswith("! Long lines  10 of the first 5,000")
    assert shown("n1239 LONG")[1:] == ["  memory/n1239.md:1  long  x"]
    assert [line[:15] for line in shown("B.md")] == ["! Near-duplicat", "  memory/a.md:4"]
    assert len(shown("broken")) == 1, "a rule that is named stays"
    assert shown("nowhere") == []


async def test_hostile_and_endless_texts_at_any_size(memory: SmallMemory, looks: Looks) -> None:
    endless = CarePlace("memory/long.md", 1, 9, "word " * 400_000 + "\nend" * 9_000)
    findings = [
        CareFinding(
            CareRule.NEAR_DUPLICATE,
            *(CarePlace(text, 1, 2, f"{text}\n{text}", text), text, CarePlace(text, 3, 3, text)),
        )
        for text in (*ATTACKS, ALL)
    ]
    findings += [
        CareFinding(CareRule.LONG_LINE, endless, "too long"),
        CareFinding(CareRule.NEAR_DUPLICATE, endless, "twice", endless),
    ]
    skipped = {CareRule.UNREACHABLE: ALL, CareRule.EMPTY_FILE: ATTACKS[3]}
    looks(lambda browse, **options: CareReport(tuple(findings), {}, skipped))
    options = UiOptions(Settings(ui=UiSettings(theme="memtui-light", glyphs="ascii")))
    async with running(memory.open, size=(1, 1), options=options) as run:
        run.app.action_show_screen("care")
        await settle(run.app, run.pilot)
        screen = run.screen(CareScreen)
        for size in ((1, 1), (40, 10), (100, 30)):
            await resize(run.pilot, size)
            await press(run.pilot, "g", "j", "tab", "G", "tab")
            for _ in findings:
                assert not HOSTILE.search(run.text.replace("\n", ""))
                await press(run.pilot, "j")
        assert len(all_lines(screen.detail)) < 12 * MOST_CHARACTERS
