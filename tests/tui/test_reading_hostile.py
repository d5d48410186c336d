"""Hostile text in every place of the reading widgets, screens and dialogs."""

from __future__ import annotations

import pytest
from textual.containers import Vertical
from textual.widget import Widget

from memtui.report.explanation import Explained, report_of
from memtui.report.layout import text_of
from memtui.text.sanitize import HOSTILE as NEVER
from memtui.tui.widgets.preview import Preview
from memtui.tui.widgets.why_panel import WhyPanel
from tests.tui.reader_samples import (
    HOSTILE,
    ReaderApp,
    Source,
    chunk,
    everything,
    hostile_ranked,
    screen_text,
)

ATTACKS = (*HOSTILE, "".join(HOSTILE))


def _preview(attack: str) -> Widget:
    preview = Preview()
    source = Source(
        f"memory/{attack}.md", [attack, f"{attack} router", "```py", attack], "changed", attack
    )
    preview.show(source, chunk(f"memory/{attack}.md", 1, 2, attack), [attack, "router"])
    return preview


def _why(attack: str) -> Widget:
    panel = WhyPanel()
    result = hostile_ranked()
    panel.explain(result, result.hits[2].chunk.id)
    return panel


def _assert_clean(text: str) -> None:
    assert not NEVER.search(text.replace("\n", "")), NEVER.findall(text)


def test_copied_text_is_clean() -> None:
    result = hostile_ranked()
    for scored in everything(result):
        _assert_clean(
            text_of(report_of(Explained(result, result.ranking, subject=scored.chunk.id)))
        )


async def test_selected_text_is_clean() -> None:
    app = ReaderApp()
    preview = _preview(ATTACKS[-1])
    assert isinstance(preview, Preview)
    async with app.run_test(size=(80, 20)) as pilot:
        await app.mount(preview)
        await pilot.pause()
        preview.text_select_all()
        await pilot.pause()
        _assert_clean(app.screen.get_selected_text() or "")
        _assert_clean(screen_text(app))


async def test_without_colour_meaning_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    preview = _preview("note")
    app = ReaderApp(Vertical(preview, _why("")))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "▌" in text
        for glyph in "█▒◇╌":
            assert glyph in text
        colours = {
            segment.style.color.triplet
            for strip in app.screen._compositor.render_strips()
            for segment in strip
            if segment.style and segment.style.color and segment.style.color.triplet
        }
        assert all(len(set(colour)) == 1 for colour in colours)
