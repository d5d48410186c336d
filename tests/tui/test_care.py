"""The care screen on a real small memory: findings, the way to their places, stopping, hostile text."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from memtui.bus import Bus, FileIndexed
from memtui.engine import Engine
from memtui.engine.browse import Browse
from memtui.errors import Cancelled, MemtuiError
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens import care_findings
from memtui.tui.screens.care import CareScreen
from memtui.tui.screens.chunk import ChunkScreen
from memtui.tui.side_by_side import MOST_CHARACTERS
from tests.support.embedding import registered_hashed
from tests.support.hostile import ALL, ATTACKS
from tests.support.small_memory import make_small_memory
from tests.tui.harness import press, resize, screen_text, settle, until

BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SECRET = "AKIAQ7RZT2MWX9KLD3PV"
TWINS = "memory/2026-01-21.md", "memory/2026-01-22.md"


@dataclass
class Care:
    """The running care screen."""

    app: MemtuiApp
    pilot: Pilot[Any]
    engine: Engine

    @property
    def text(self) -> str:
        return screen_text(self.app)

    @property
    def screen(self) -> CareScreen:
        return cast("CareScreen", self.app.screen)

    @property
    def toasts(self) -> list[str]:
        return [one.message for one in self.app._notifications]

    async def open(self) -> CareScreen:
        self.app.action_show_care()
        await settle(self.app, self.pilot)
        return self.screen

    async def press(self, *keys: str) -> str:
        await press(self.pilot, *keys)
        await settle(self.app, self.pilot)
        return self.text

    def choose(self, rule: CareRule) -> CareFinding:
        """Choose the first finding of a rule."""
        report = self.screen.report
        assert report is not None
        at = next(at for at, one in enumerate(report.findings) if one.rule is rule)
        self.screen.findings.choose(str(at))
        return report.findings[at]


@asynccontextmanager
async def running(
    folder: Path, *, size: tuple[int, int] = (120, 40), options: UiOptions | None = None
) -> AsyncIterator[Care]:
    memory = make_small_memory(folder)
    (memory.root / "memory/keys.md").write_text(f"# Keys\n\naws_access_key_id = {SECRET}\n")
    (memory.root / "memory/empty.md").write_text("\n")
    engines: list[Engine] = []

    def open_engine(bus: Bus) -> Engine:
        engines.append(memory.open(bus))
        return engines[0]

    app = MemtuiApp(open_engine, options or UiOptions(theme="memtui-dark", root=memory.root))
    with registered_hashed():
        async with app.run_test(size=size, notifications=True) as pilot:
            await until(pilot, lambda: bool(engines) and app.engine is engines[0])
            await settle(app, pilot)
            yield Care(app, pilot, engines[0])
        app.memories.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., CareReport]], None]:
    """Puts another look in the place of the engine's."""
    return lambda look: monkeypatch.setattr(Browse, "care", look)


async def test_findings_and_their_texts_are_there_at_every_size(tmp_path: Path) -> None:
    async with running(tmp_path, size=(80, 24)) as care:
        await care.open()
        for size in ((80, 24), (120, 40), (200, 60)):
            await resize(care.pilot, size)
            text = await care.press("g")
            assert "4 findings by 4 of 8 rules" in text
            assert "Chunks that say nearly the same" in text, "the heading tells the rule"
            twins = care.choose(CareRule.NEAR_DUPLICATE)
            both = await care.press()
            assert f"{TWINS[0]}:1  =  {TWINS[1]}:1" in both
            assert twins.message[:40] in both
            assert any(line.count("# Move") == 2 for line in both.split("\n")), "side by side"
            care.choose(CareRule.CREDENTIAL)
            seen = await care.press() + await care.press("G")
            assert "aws_access_key_id" in seen
            assert SECRET not in seen
            for words in ("! Broken links  1", "! Credentials  1", "✓ Long lines  none"):
                assert words in text + both + seen, (size, words)


async def test_keys_lead_to_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as care:
        screen = await care.open()
        places: list[tuple[object, ...]] = []
        monkeypatch.setattr(care.app, "open_place", lambda *place: places.append(place))
        twins = care.choose(CareRule.NEAR_DUPLICATE)
        assert twins.other is not None
        await care.press("enter", "o")
        for place, toast in zip((twins.place, twins.other), care.toasts[-2:], strict=True):
            assert f"{care.engine.root / place.path}:1" in toast
        await care.press("y", "b")
        assert care.app.clipboard.startswith(f"{twins.place.path}#L1")
        assert places == [(twins.place.path, 1, twins.place.chunk_id)]
        await care.press("K")
        assert cast("ChunkScreen", care.app.screen).lookup.chunk_id == twins.place.chunk_id
        await care.press("escape", "n")
        assert screen.finding is None
        told = set(care.toasts)
        await care.press("e", "o", "y", "K")
        assert (set(care.toasts) <= told, care.app.screen) == (True, screen), "it has no place"
        link = care.choose(CareRule.BROKEN_LINK)
        assert (link.other, screen.check_action("edit_other", ())) == (None, None)
        await care.press("N")
        assert screen.findings.chosen_id == "rule:broken_link"
        await care.press("N", "enter")
        assert screen.finding is not None
        care.choose(CareRule.BROKEN_LINK)
        await care.press("K")
        assert isinstance(care.app.screen, ChunkScreen), "by its line"


async def test_one_pane_at_a_time_where_it_is_small(tmp_path: Path) -> None:
    async with running(tmp_path, size=(50, 14)) as care:
        await care.open()
        message = care.choose(CareRule.NEAR_DUPLICATE).message.partition(" ")[0]
        assert f"{message} " not in await care.press()
        assert message in await care.press("tab")
        assert TWINS[1] in await care.press("G"), "one text below the other"
        assert "Near-duplicates  1" in await care.press("escape")
        await care.press("escape")
        assert len(care.app.screen_stack) == 1


async def test_a_look_can_be_stopped_and_is_remembered(
    tmp_path: Path, looks: Callable[[Callable[..., CareReport]], None]
) -> None:
    real, number, stopped = Browse.care, 0, threading.Event()

    def held(browse: Browse, *, cancelled: Any, progressed: Any) -> CareReport:
        progressed(61, 100)
        while not cancelled():
            stopped.wait(0.01)
        raise Cancelled

    def counted(browse: Browse, **options: Any) -> CareReport:
        nonlocal number
        number += 1
        return real(browse, **options)

    def failing(browse: Browse, **options: Any) -> CareReport:
        raise MemtuiError("the index cannot be read: rebuild it")

    looks(held)
    async with running(tmp_path, size=(80, 24)) as care:
        care.app.action_show_care()
        await until(care.pilot, lambda: "61 %  esc stops" in care.text)
        assert "stopped · r tries again" in await care.press("escape")
        looks(counted)
        assert "4 findings" in await care.press("r")
        finding = care.choose(CareRule.CREDENTIAL)
        await care.press("escape")
        again = await care.open()
        assert (again.finding, number) == (finding, 1), "nothing changed: it is remembered"
        care.engine.bus.publish(FileIndexed("memory/new.md", 1))
        await until(care.pilot, lambda: "looked at before the last change" in care.text)
        await care.press("escape")
        looks(failing)
        await care.open()
        assert "the index cannot be read" in care.text


async def test_thousands_of_findings_are_filtered_and_only_those_in_view_are_drawn(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: Callable[[Callable[..., CareReport]], None],
) -> None:
    drawn: list[CareFinding] = []
    real, look = care_findings.finding_line, Browse.care

    def counted(finding: CareFinding, width: int) -> object:
        drawn.append(finding)
        return real(finding, width)

    many = tuple(
        CareFinding(CareRule.LONG_LINE, CarePlace(f"memory/n{n:04}.md", n + 1, n + 1, "x"), "long")
        for n in range(5000)
    )

    def with_many(browse: Browse, **options: Any) -> CareReport:
        report = look(browse, **options)
        return replace(report, findings=(*report.findings, *many))

    monkeypatch.setattr(care_findings, "finding_line", counted)
    looks(with_many)
    async with running(tmp_path, size=(80, 24)) as care:
        screen = await care.open()
        await care.press(*["pagedown"] * 5)
        assert len(drawn) < 200
        screen.filter_box.value = "n123 memory"
        text = await care.press("slash")
        assert "10 of the first 5 000" in text
        assert "Near-duplicates" not in text
        assert "memory/n1239.md:1240" in await care.press("enter", "end")
        await care.press("slash", "escape")
        assert len(screen.findings.rows) == 5004 + len(CareRule)
        assert screen.finding is many[1239]
        await care.press("slash", *"broken")
        assert [row.id for row in screen.findings.rows[:1]] == ["rule:broken_link"]
        assert len(screen.findings.rows) == 2
        assert "nothing holds these words" in await care.press("x")


async def test_hostile_and_endless_texts_at_any_size(
    tmp_path: Path, looks: Callable[[Callable[..., CareReport]], None]
) -> None:
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
    report = CareReport(tuple(findings), dict.fromkeys(CareRule, 1), skipped)
    looks(lambda browse, **options: report)
    options = UiOptions(theme="memtui-light", glyphs="ascii")
    async with running(tmp_path, size=(1, 1), options=options) as care:
        screen = await care.open()
        for size in ((1, 1), (40, 10)):
            await resize(care.pilot, size)
            await press(care.pilot, "g", "j", "tab", "G", "tab", "n", "G")
            assert not BAD.search(care.text)
        await resize(care.pilot, (100, 30))
        text = await care.press("g", "j")
        assert "- [x] done" in text
        for _ in findings:
            assert not BAD.search(care.text)
            await press(care.pilot, "j")
        assert len(screen.detail.plain) < 12 * MOST_CHARACTERS
