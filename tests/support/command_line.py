"""The command line, run inside the test in a home folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memtui.cli.main import run
from memtui.embedding import minilm
from tests.support.in_process import READ_ONCE
from tests.unit.test_cli_commands import Answer, Opened, Run

KEY_VARIABLES = (
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "VOYAGE_API_KEY",
    "MISTRAL_API_KEY",
)
FOREIGN = ("MEMTUI_", "OPENCLAW_", "DBUS_SESSION", "PYTHON_KEYRING", "HTTP", "http", "ALL_PROXY")


def own_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make `folder` the home folder, with nothing of the machine's in the environment.

    What reads the bundled model's file reads it once for all of them.
    """
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name in KEY_VARIABLES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    for kind in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
    for name, function in READ_ONCE.items():
        monkeypatch.setattr(minilm, name, function)
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    return folder


def command_line(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run memtui with arguments, and give what came of it."""

    def call(*arguments: str) -> Answer:
        code = run(arguments, Opened())
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


def set_up(monkeypatch: pytest.MonkeyPatch, **embedding: object) -> None:
    """Set values of `[embedding]` by their environment variables."""
    for key, value in embedding.items():
        monkeypatch.setenv(f"MEMTUI_EMBEDDING__{key.upper()}", str(value))
