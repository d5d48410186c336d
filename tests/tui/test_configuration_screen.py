"""Copying the parameters as a piece of an agent's configuration."""

from __future__ import annotations

from dataclasses import replace

from memtui.ranking.profiles import profile
from memtui.settings.openclaw import fragment
from memtui.tui.screens.configuration import ConfigurationScreen, release_for
from tests.tui.foreign_samples import ForeignSample
from tests.tui.harness import running, settle


def test_the_release_of_the_first_profile_that_has_one() -> None:
    assert release_for(()) == "2026.9"
    assert release_for(("memtui", "openclaw-2026.4")) == "2026.4"
    assert release_for(("openclaw-2026.2", "openclaw-2026.9")) == "2026.2"
    assert release_for(("openclaw-1999.1", "memini")) == "2026.9"


async def test_a_native_index_copies_for_the_newest_release() -> None:
    async with running(size=(80, 24)) as run:
        await run.search()
        await run.pilot.press("escape", "m", "C")
        await settle(run.app, run.pilot)
        screen = run.app.screen
        assert isinstance(screen, ConfigurationScreen)
        ranking = run.app.search_screen.ranking
        expected = fragment(ranking, "2026.9")
        assert run.app.clipboard == expected.text
        for words in ("For OpenClaw 2026.9", "maxResults: 6,", "copied   y copy", "cannot take:"):
            assert words in run.text
        await run.pilot.press("end")
        await settle(run.app, run.pilot)
        assert expected.cannot[-1][:40] in run.text
        await run.pilot.press("left", "left", "y")
        assert screen.release == "2026.4"
        assert run.app.clipboard == fragment(ranking, "2026.4").text
        await run.pilot.press("right", "right", "right")
        assert screen.release == "2026.9"
        await run.pilot.press("left", "left", "left", "left", "left")
        assert screen.release == "2026.2"
        await run.pilot.press("j", "k", "escape")
        assert run.app.screen is run.app.search_screen


async def test_a_foreign_index_copies_for_its_own_release() -> None:
    def sample(bus: object) -> ForeignSample:
        made = ForeignSample(bus)  # type: ignore[arg-type]
        assert made.current.foreign is not None
        foreign = replace(made.current.foreign, profile="openclaw-2026.4")
        made.current = replace(made.current, foreign=foreign)
        return made

    async with running(sample, size=(120, 40)) as run:
        run.app.search_screen.rankings.change(replace(profile("openclaw-2026.4"), k=9))
        await run.pilot.press("escape", "C")
        await settle(run.app, run.pilot)
        assert "For OpenClaw 2026.4" in run.text
        assert "maxResults: 9, // default 6" in run.text
        assert "This release takes every parameter." in run.text
