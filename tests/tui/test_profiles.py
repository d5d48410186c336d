"""Going through named rankings, and writing the parameters into the settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from memtui.model import Decay, Ranking
from memtui.ranking.profiles import PROFILES
from memtui.report.words import PROFILE_WORDS, WITHOUT_CONTEXT
from memtui.settings.load import Given, SettingsFiles, Source
from memtui.settings.openclaw.releases import fragment
from memtui.settings.schema import sample_config
from memtui.tui.options import UiOptions, options_from
from memtui.tui.screens.dialogs import ConfigurationScreen
from memtui.tui.screens.write_dialog import Where, WriteDialog
from memtui.tui.widgets.lists import RowList
from memtui.tui.widgets.parameter_panes import ParamPanel, changed_values
from tests.support.known import cases
from tests.support.small_memory import SmallMemory
from tests.tui.golden import OWN
from tests.tui.harness import Running, all_lines, dark, resize, running, settle

MakeOptions = Callable[..., UiOptions]


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(OWN)
    return file


@pytest.fixture
def options(user_file: Path, tmp_path: Path) -> MakeOptions:
    root = tmp_path / "notes"
    root.mkdir(exist_ok=True)

    def make(env: dict[str, str] | None = None, glyphs: str = "unicode") -> UiOptions:
        files = SettingsFiles({"MEMTUI_CONFIG": str(user_file), **(env or {})}, root)
        settings = files.load().settings
        return dark(
            glyphs,
            ranking=settings.configured_ranking(),
            profiles=settings.named_rankings(),
            files=files,
            root=root,
        )

    return make


async def _open(run: Running, *keys: str) -> WriteDialog:
    await run.press("escape", *keys, "w")
    screen = run.screen(WriteDialog)
    await run.until(lambda: screen.plan is not None or "✗" in run.text)
    await settle(run.app, run.pilot)
    return screen


async def test_the_workspaces_file_and_what_wins_over_the_users(
    memory: SmallMemory, options: MakeOptions, user_file: Path, tmp_path: Path
) -> None:
    project = tmp_path / "notes" / ".memtui.toml"
    async with running(
        memory.open, options=options({"MEMTUI_RANKING__K": "3"}), size=(120, 40)
    ) as run:
        await run.search()
        screen = await _open(run, "plus", "F", "C")
        assert "vs config: " in str(run.app.search_screen.results.border_subtitle)
        assert "! ranking.k: $MEMTUI_RANKING__K gives 3 and wins over this file" in run.text
        await run.press("tab")
        assert screen.where is Where.PROJECT
        assert ".memtui.toml (new)" in run.text
        assert '+ fusion = "rrf"' in run.text
        await run.press("enter")
        assert project.read_text() == '[ranking]\nk = 4\nfusion = "rrf"\ncontext.enabled = false\n'
        assert user_file.read_text() == OWN
        assert run.app.options.ranking.k == 4
        assert "vs config: " not in str(run.app.search_screen.results.border_subtitle)
        screen = await _open(run)
        await run.press("tab", shows="⏎ close")
        assert "Nothing to write: it is so already." in run.text
        await run.press("enter")
        assert (run.app.screen, run.toasts) == (run.app.search_screen, [])


async def test_a_long_difference_scrolls_and_a_click_chooses(
    memory: SmallMemory, options: MakeOptions, user_file: Path
) -> None:
    user_file.write_text(sample_config())
    async with running(memory.open, options=options(glyphs="ascii"), size=(80, 24)) as run:
        screen = await _open(run, "m", "d", "plus", "F", "less_than_sign", "right_square_bracket")
        assert "enter write" in run.text
        assert "> my settings" in run.text
        await resize(run.pilot, (60, 16))
        box = screen.query_one("#write").region
        assert box.x == (60 - box.width) // 2
        assert box.bottom == 15
        top = run.text
        await run.press("j", "j", "pagedown", "k", "pageup", "pagedown", "pagedown", "pagedown")
        assert run.text != top
        assert "+ enabled = true" in run.text
        await run.pilot.click("#write-places", offset=(6, 2))
        await settle(run.app, run.pilot)
        assert screen.where is Where.PROFILE
        await run.press("escape")
        assert user_file.read_text() == sample_config()


async def test_what_cannot_be_written_is_told(
    memory: SmallMemory, options: MakeOptions, user_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(memory.open, options=options(), size=(120, 40)) as run:
        await _open(run, "m")
        with monkeypatch.context() as patch:
            patch.setattr("os.access", lambda *args: False)
            await run.press("enter", shows="✗ cannot write ")
        assert isinstance(run.app.screen, WriteDialog)
        user_file.write_text("[ranking\n")
        await run.press("tab", "tab", "tab", shows="TOML: Expected")
        await run.press("enter", "escape")
        assert "Write the parameters" not in run.text
        assert user_file.read_text() == "[ranking\n"


async def test_what_comes_after_a_dialog_was_closed_is_passed_over(
    memory: SmallMemory, options: MakeOptions
) -> None:
    async with running(memory.open, options=options()) as run:
        await run.pilot.press("escape", "w")
        dialog = run.screen(WriteDialog)
        await dialog.dismiss(None)
        await settle(run.app, run.pilot)
        assert run.app.screen is run.app.search_screen
        assert (run.toasts, run.app.return_code) == ([], None)


def test_the_demo_and_agents_write_to_the_users_file_alone(user_file: Path, tmp_path: Path) -> None:
    loaded = SettingsFiles(
        flags={"ranking.k": Given(Source.FLAG, "-n", 3)}, env={"MEMTUI_CONFIG": str(user_file)}
    ).load()
    notes = options_from(loaded, tmp_path, demo=False)
    assert list(notes.profiles) == [*PROFILES, "recent-heavy", "old"]
    assert notes.files is not None
    assert (notes.files.root, notes.files.flags) == (
        tmp_path,
        {"ranking.k": Given(Source.FLAG, "-n", 3)},
    )
    for other in (
        options_from(loaded, tmp_path, demo=True),
        options_from(loaded, tmp_path, demo=False, foreign=True),
        options_from(loaded, Path(), demo=False),
    ):
        assert other.files is not None
        assert other.files.root is None
    assert UiOptions().profiles is PROFILES


@pytest.mark.parametrize(("profiles", "release"), cases("interface", "releases of profiles"))
def test_parameters_are_copied_for_the_release_of_the_first_profile_that_has_one(
    profiles: tuple[str, ...], release: str
) -> None:
    assert ConfigurationScreen(Ranking(), profiles).release == release


async def test_the_parameters_are_copied_as_an_agents_configuration(memory: SmallMemory) -> None:
    async with running(memory.open) as run:
        await run.press("escape", "m", "C")
        assert run.app.screen is run.app.search_screen
        await run.press("ctrl+p", *"agent conf", shows="agent configuration…")
        await run.press("enter")
        screen, ranking = run.app.screen, run.app.search_screen.state.ranking
        assert isinstance(screen, ConfigurationScreen)
        assert run.app.clipboard == ""
        await run.press("Y")
        assert run.app.clipboard == fragment(ranking, "2026.9").text
        await run.press("left", "left", "Y")
        assert run.app.clipboard == fragment(ranking, "2026.4").text
        await run.press("right", "right", "right")
        assert str(screen.release) == "2026.9"
        await run.press(*["left"] * 5)
        assert str(screen.release) == "2026.2"


def test_what_a_profile_does_not_use_is_no_change() -> None:
    own, memini = Ranking(), PROFILES["memini"]
    gentle = Decay(enabled=True, half_life_days=14, floor=0.76)
    used = "decay on, half-life 30 d→14 d, floor 0.00→0.76"
    assert changed_values(own, replace(own, decay=gentle)) == used
    assert changed_values(memini, replace(memini, decay=gentle)) == ""


async def test_a_profile_says_what_it_is_and_what_it_would_change(
    memory: SmallMemory, options: MakeOptions
) -> None:
    async with running(memory.open, options=options(), size=(120, 60)) as run:
        await run.search()
        screen = run.app.search_screen
        before = screen.state.ranking
        await run.press("escape", "P")
        words = " ".join(all_lines(run.app.screen.query_one(RowList)).split())
        assert [name for name in PROFILES if PROFILE_WORDS[name] not in words] == []
        named, change = "recent-heavy your own, from memtui", "decay on, half-life 30 d→14 d"
        assert f"{named} {change}, results 6→4: " in words
        without = [name for name in PROFILES if "context" not in PROFILES[name].stages]
        assert words.count(WITHOUT_CONTEXT) == len([*without, "old"]) == 6
        await run.press("escape")
        assert screen.state.ranking == before
        await run.press("P", "G", "k", "enter")
        assert screen.state.ranking == run.app.options.profiles["recent-heavy"]
        assert (screen.state.undoable, len(screen.results.rows)) == ([before], 4)
        await run.press("P", "G", "enter", "C")
        assert screen.state.ranking == run.app.options.profiles["old"]
        assert "old ranks without context: nothing to switch, P chooses another" in run.text
        await run.press("P", "G", "k", "k", "enter", "right_parenthesis")
        assert "memini ranks without MMR: nothing to switch" in run.text
        await run.press("comma", "G")
        panel = all_lines(run.app.screen.query_one(ParamPanel).rows)
        assert re.search("minimum score +not used\n +memini ranks without minimum", panel)
        assert re.search("memini also runs dedup, rerank: +see `memtui", " ".join(panel.split()))
        assert panel.index("fusion method") < panel.index("reset to") < panel.index("half-life")
        assert f"({panel.count('(was ')} changed)" in panel
        await run.press("escape")
        await run.press("P", "G", "enter", "comma", "G")
        panel = all_lines(run.app.screen.query_one(ParamPanel).rows)
        assert re.search(
            r"passages in context +not used \(was on\)\n +old ranks without context", panel
        )
        await run.press("P", "g", "j", "enter", "P")
        words = " ".join(all_lines(run.app.screen.query_one(RowList)).split())
        assert "the same parameters, other rules (a keyword match counts, results below" in words
