"""Writing the provider into the user's settings, and showing a settings file without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from memtui.errors import SettingsError
from memtui.settings.load import SettingsFiles
from memtui.settings.write import plan_provider

SET = """\
[embedding]
provider = "mistral"  # since May
model = "mistral-embed"  # the only one
key_env = "MY_KEY"
threads = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def files_of(file: Path, root: Path | None = None, **env: str) -> SettingsFiles:
    """The settings of these places alone."""
    return SettingsFiles({"MEMTUI_CONFIG": str(file), **env}, root)


def test_stronger_sources_are_told_without_their_values(file: Path, tmp_path: Path) -> None:
    root = tmp_path / "notes"
    root.mkdir()
    (root / ".memtui.toml").write_text('[embedding]\nprovider = "wordllama"\n')
    file.write_text("")
    env = {"MEMTUI_EMBEDDING__BASE_URL": "https://secret.example"}
    plan = plan_provider(files_of(file, root, **env), "minilm", is_other=True)
    assert plan.after == '[embedding]\nprovider = "minilm"\n'
    told = "\n".join(plan.notes)
    assert 'gives "wordllama" and wins over this file' in told
    assert "embedding.base_url: $MEMTUI_EMBEDDING__BASE_URL gives it" in told
    assert "secret.example" not in told


def test_a_name_that_is_none_and_a_broken_file_are_refused(file: Path) -> None:
    file.write_text("")
    with pytest.raises(SettingsError):
        plan_provider(files_of(file), "No Such!", is_other=True)
    file.write_text("[embedding")
    with pytest.raises(SettingsError):
        plan_provider(files_of(file), "minilm", is_other=True)
