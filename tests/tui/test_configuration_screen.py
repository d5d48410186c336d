"""Copying the parameters as a piece of an agent's configuration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtui.model import Ranking
from memtui.ranking.profiles import profile
from memtui.settings.openclaw import fragment
from memtui.tui.screens.configuration import ConfigurationScreen, release_for
from tests.tui.foreign_samples import ForeignSample
from tests.tui.harness import resize, running, settle

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.mark.parametrize(
    ("profiles", "release"),
    [
        ((), "2026.9"),
        (("memtui", "openclaw-2026.4"), "2026.4"),
        (("openclaw-2026.2", "openclaw-2026.9"), "2026.2"),
        (("openclaw-1999.1", "memini"), "2026.9"),
    ],
)
def test_the_release_of_the_first_profile_that_has_one(
    profiles: tuple[str, ...], release: str
) -> None:
    assert release_for(profiles) == release


async def test_a_native_index_copies_for_the_newest_release() -> None:
    async with running(size=SIZES[0]) as run:
        await run.search()
        await run.pilot.press("escape", "m")
        for size in SIZES:
            await resize(run.pilot, size)
            await run.pilot.press("C")
            await settle(run.app, run.pilot)
            screen = run.app.screen
            assert isinstance(screen, ConfigurationScreen)
            expected = fragment(run.app.search_screen.ranking, "2026.9")
            assert run.app.clipboard == expected.text
            assert "For OpenClaw 2026.9" in run.text
            assert "maxResults: 6," in run.text
            assert "copied   y copy" in run.text
            assert "This release cannot take:" in run.text
            await run.pilot.press("end")
            await settle(run.app, run.pilot)
            assert expected.cannot[-1][:40] in run.text
            await run.pilot.press("left", "left", "y")
            assert screen.release == "2026.4"
            assert run.app.clipboard == fragment(run.app.search_screen.ranking, "2026.4").text
            await run.pilot.press("right", "right", "right", "left", "left", "left", "left", "left")
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


def test_every_profile_can_be_written_for_every_release() -> None:
    for release in ("2026.2", "2026.4", "2026.7", "2026.9"):
        assert fragment(Ranking(), release).text.startswith("// OpenClaw")
