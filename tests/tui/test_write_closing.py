"""A dialog that writes settings may be closed before what it looked for is found."""

from __future__ import annotations

from pathlib import Path

from memtui.settings.load import SettingsFiles
from memtui.tui.options import UiOptions
from memtui.tui.screens.write import Planned, Refused, WriteParameters
from tests.tui.harness import running, settle


async def test_what_comes_after_a_dialog_was_closed_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[ranking]\nk = 5\n")
    files = SettingsFiles({"MEMTUI_CONFIG": str(file)}, None)
    async with running(options=UiOptions(theme="memtui-dark", files=files)) as run:
        await run.pilot.press("escape", "w")
        dialog = run.app.screen
        assert isinstance(dialog, WriteParameters)
        await dialog.dismiss(None)
        assert not dialog.is_open
        assert not dialog.fit()
        dialog.draw_places()
        dialog.planned(Planned(dialog.subject, None, "too late"))
        dialog.refused(Refused("too late", was_changed=True))
        await settle(run.app, run.pilot)
        assert run.app.return_code is None
