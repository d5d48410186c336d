"""The care screen at work: stopped, remembered, filled with thousands, and with hostile text."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from memtui.bus import Bus, FileIndexed
from memtui.engine import Engine
from memtui.model.browsing import CareFinding, CarePlace, CareReport, CareRule
from memtui.settings import EmbeddingSettings, Settings
from memtui.tui.app import MemtuiApp
from memtui.tui.options import UiOptions
from memtui.tui.screens.care import CareScreen
from memtui.tui.screens.care import findings as care_rows
from memtui.tui.side_by_side import MOST_CHARACTERS
from tests.tui.care_samples import REPORT, CareSample
from tests.tui.harness import Running, press, resize, running, screen_text, settle, until
from tests.tui.reader_samples import HOSTILE
from tests.tui.samples import STATUS

BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _engine(run: Running) -> CareSample:
    return cast("CareSample", run.engine)


async def _open(run: Running) -> CareScreen:
    run.app.action_show_care()
    await settle(run.app, run.pilot)
    return cast("CareScreen", run.app.screen)


async def _press(run: Running, *keys: str) -> str:
    await press(run.pilot, *keys)
    await settle(run.app, run.pilot)
    return run.text


async def test_a_look_can_be_stopped_and_is_remembered() -> None:
    async with running(CareSample, size=(80, 24)) as run:
        engine = _engine(run)
        engine.hold = threading.Event()
        run.app.action_show_care()
        await until(run.pilot, lambda: "61 %  esc stops" in run.text)
        screen = run.app.screen
        await press(run.pilot, "escape")
        await until(run.pilot, lambda: engine.stopped == ["care"])
        assert run.app.screen is screen
        assert "stopped · r tries again" in await _press(run)
        engine.hold.set()
        await _press(run, "r")
        assert "3 findings" in run.text
        await _press(run, "escape")
        assert run.app.screen is not screen
        again = await _open(run)
        assert "3 findings" in run.text
        again.findings.choose("2")
        await _press(run, "escape")
        again = await _open(run)
        assert again.finding is REPORT.findings[2], "and where one was"
        assert engine.looks == 2, "nothing changed: the report is remembered"
        engine.bus.publish(FileIndexed("memory/new.md", 1))
        await until(run.pilot, lambda: "looked at before the last change" in run.text)
        engine.report = replace(REPORT, findings=())
        await _press(run, "r")
        assert "nothing found by 7 rules" in run.text
        await _press(run, "escape")
        engine.bus.publish(FileIndexed("memory/new.md", 2))
        engine.fails = "the index cannot be read: rebuild it"
        await _open(run)
        assert engine.looks == 4, "the index changed: it is looked at again"
        assert "the index cannot be read" in run.text
        await _press(run, "escape")
        remote = replace(STATUS.provider, remote=True, address="api.example.org")
        engine.current = replace(STATUS, provider=remote)
        await _open(run)
        assert engine.looks == 4, "nothing is sent away unasked"


async def test_thousands_of_findings_are_filtered_and_only_those_in_view_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[CareFinding] = []
    real = care_rows.finding_line

    def counted(finding: CareFinding, width: int) -> object:
        drawn.append(finding)
        return real(finding, width)

    monkeypatch.setattr(care_rows, "finding_line", counted)
    many = tuple(
        CareFinding(
            CareRule.LONG_LINE, CarePlace(f"memory/n{n:04}.md", n + 1, n + 1, "x"), "too long"
        )
        for n in range(5000)
    )
    async with running(CareSample, size=(80, 24)) as run:
        _engine(run).report = replace(REPORT, findings=(*REPORT.findings, *many))
        screen = await _open(run)
        await _press(run, *["pagedown"] * 5, "end", *["up"] * 6)
        assert "memory/n4999.md:5000" in run.text
        assert len(drawn) < 200
        screen.filter_box.value = "n123 memory"
        await _press(run, "slash")
        assert "10 of the first 5 000" in run.text
        assert "Near-duplicates" not in run.text
        assert screen.findings.chosen_id is not None
        await _press(run, "enter", "end")
        assert "memory/n1239.md:1240" in run.text
        await _press(run, "slash", "escape")
        assert len(screen.findings.rows) == 5003 + len(CareRule)
        assert screen.finding is many[1239]
        await _press(run, "slash", *"broken")
        assert [row.id for row in screen.findings.rows] == ["rule:broken_link", "1"]
        await _press(run, "x")
        assert "nothing holds these words" in run.text


async def test_hostile_and_endless_texts_at_any_size() -> None:
    findings = tuple(
        CareFinding(
            CareRule.NEAR_DUPLICATE,
            CarePlace(text, 1, 2, text + "\n" + text, text),
            text,
            CarePlace(text, 3, 3, text),
        )
        for text in HOSTILE
    )
    endless = CarePlace("memory/long.md", 1, 9, "word " * 400_000 + "\nend" * 9_000)
    report = CareReport(
        (
            *findings,
            CareFinding(CareRule.LONG_LINE, endless, "too long"),
            CareFinding(CareRule.NEAR_DUPLICATE, endless, "twice", endless),
        ),
        dict.fromkeys(CareRule, 1),
        {CareRule.UNREACHABLE: HOSTILE[5], CareRule.EMPTY_FILE: HOSTILE[1]},
    )
    options = UiOptions(theme="memtui-light", glyphs="ascii")
    async with running(CareSample, size=(1, 1), options=options) as run:
        _engine(run).report = report
        screen = await _open(run)
        for size in [(1, 1), (40, 10)]:
            await resize(run.pilot, size)
            await press(run.pilot, "g", "j", "tab", "G", "tab", "n", "G")
            assert not BAD.search(run.text)
        await resize(run.pilot, (100, 30))
        text = await _press(run, "g", "j")
        for _ in report.findings:
            assert not BAD.search(run.text)
            await press(run.pilot, "j")
        assert "- [x] done" in text
        assert len(screen.detail.plain) < 12 * MOST_CHARACTERS


async def test_a_real_memory_with_planted_faults_shows_no_secret(tmp_path: Path) -> None:
    root, secret = tmp_path / "notes", "AKIAQ7RZT2MWX9KLD3PV"
    (root / "memory").mkdir(parents=True)
    note = root / "memory" / "keys.md"
    note.write_text(f"# Keys\n\naws_access_key_id = {secret}\n\nSee [gone](gone.md).\n")
    (root / "memory" / "empty.md").write_text("\n")
    before = note.read_bytes()
    settings = Settings(embedding=EmbeddingSettings(provider="none"))

    def open_engine(bus: Bus) -> Engine:
        return Engine.open(root, settings, bus=bus, data_dir=tmp_path / "data", watch=False)

    app = MemtuiApp(open_engine, UiOptions(root=root))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.engine is not None)
        assert isinstance(app.engine, Engine)
        app.engine.index.sync()
        await until(pilot, lambda: app.engine is not None and app.engine.index.status().files == 2)
        app.action_show_care()
        await until(pilot, lambda: "findings by" in screen_text(app))
        screen = cast("CareScreen", app.screen)
        seen = screen_text(app)
        for row in screen.findings.rows:
            screen.findings.choose(row.id)
            await pilot.pause()
            seen += screen_text(app)
        for words in ("! Credentials  1", "! Broken links  1", "! Empty files  1"):
            assert words in seen
        assert "aws_access_key_id" in seen
        assert secret not in seen
        await pilot.press("escape")
    app.memories.close()
    assert note.read_bytes() == before
