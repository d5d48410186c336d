"""Every scene of `golden/*.txt` shows the screens that are written below its keys."""

from __future__ import annotations

import pytest

from tests.tui.golden import FOLDER, Scene, play, scenes_in

SCENES = [
    pytest.param(scene, id=f"{path.stem}: {scene.name}")
    for path in sorted(FOLDER.glob("*.txt"))
    for scene in scenes_in(path)
]


@pytest.mark.parametrize("scene", SCENES)
async def test_screens(scene: Scene) -> None:
    screens = await play(scene)
    for shown, expected in zip(screens, scene.screens, strict=True):
        assert shown == expected
