"""The pictures in `screenshots/` show the program as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.screenshots import FOLDER, PICTURES, Picture, Stage, differs
from tests.support.recorded_model import recorded_model

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SHOWN = tuple(picture for picture in PICTURES if f"screenshots/{picture.name}.svg" in README)
"""Those of the README; `python -m tests.screenshots --check` compares every one."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        with recorded_model() as model:
            yield Stage(home, model)


@pytest.mark.parametrize("picture", SHOWN, ids=[picture.name for picture in SHOWN])
async def test_a_picture_matches_the_program(picture: Picture, stage: Stage) -> None:
    svg, _ = await stage.take(picture)
    assert not differs(picture, svg), "run `python -m tests.screenshots`, look at what changed"


def test_every_picture_is_there_in_both_forms_and_none_is_left_over() -> None:
    names = {picture.name for picture in PICTURES}
    assert {path.stem for path in FOLDER.glob("*.svg")} == names
    assert {path.stem for path in FOLDER.glob("*.png")} == names


def test_no_picture_tells_where_it_was_made() -> None:
    for path in FOLDER.glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert str(Path.home()) not in text or Path.home() == Path("/")
        assert "/tmp/" not in text
        assert "site-packages" not in text
