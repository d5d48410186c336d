"""The command line, run inside the test in a home folder of its own."""

from __future__ import annotations

import copy
import functools
import io
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from memtui.__main__ import open_interface
from memtui.cli.main import run
from memtui.embedding.packaged import MODELS, REGISTRATIONS
from memtui.embedding.provider import LocalProvider
from memtui.settings.schema import EmbeddingSettings

KEY_VARIABLES = (
    *("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "VOYAGE_API_KEY", "MISTRAL_API_KEY"),
)
FOREIGN = ("MEMTUI_", "OPENCLAW_", "DBUS_SESSION", "PYTHON_KEYRING", "HTTP", "http", "ALL_PROXY")


class Answer:
    """What a run of the command line gave."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == 1
        return document

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.document["error"]
        assert set(error) == {"code", "message", "hint", "exit_code"}
        assert error["exit_code"] == self.code
        assert self.err.strip() == ""
        return error


Run = Callable[..., Answer]


class Opened:
    """Stands for the terminal interface and remembers what it was opened on."""

    def __init__(self) -> None:
        self.calls: list[tuple[Path | None, bool]] = []
        self.choose: list[bool] = []
        self.indexes: list[str] = []
        """Of agents, which are closed again."""

    def __call__(
        self,
        workspace: Any,
        loaded: Any,
        *,
        demo: bool = False,
        choose: bool = False,
        foreign: Any = None,
    ) -> int:
        self.calls.append((workspace.root if workspace is not None else None, demo))
        self.choose.append(choose)
        if foreign is not None:
            with foreign:
                self.indexes.append(foreign.index.status().index_dir)
        return 0


def own_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make `folder` the home folder, with nothing of the machine's in the environment.

    What reads the file of a model in a package reads it once for all of them.
    """
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name in KEY_VARIABLES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    for kind in ("CONFIG", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder / kind.lower()))
    monkeypatch.setattr("memtui.embedding.packaged.REGISTRATIONS", READ_ONCE)
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    return folder


def command_line(capsys: pytest.CaptureFixture[str], opened: Opened | None = None) -> Run:
    """Run memtui with arguments, and give what came of it."""

    def call(*arguments: str) -> Answer:
        code = run(arguments, opened or Opened())
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return call


@functools.cache
def _loaded(name: str, choice: EmbeddingSettings) -> LocalProvider:
    return MODELS[name].create(choice)


def _read_once(name: str, choice: EmbeddingSettings) -> LocalProvider:
    MODELS[name].identity(choice)
    same = EmbeddingSettings(threads=choice.threads, dimensions=choice.dimensions)
    model = copy.copy(_loaded(name, same))
    model.close = lambda: None  # type: ignore[method-assign]
    return model


READ_ONCE = {
    name: replace(registration, create=functools.partial(_read_once, name))
    for name, registration in REGISTRATIONS.items()
}
"""The models in packages, which stay open: their files are read once for all calls."""


def _as_of_a_process() -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True
    )


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")


def call(
    arguments: Sequence[str], *, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Call the program with arguments in an environment and a folder; what came of it."""
    out, err = _as_of_a_process(), _as_of_a_process()
    with (
        patch.dict(os.environ, environment, clear=True),
        patch("memtui.embedding.packaged.REGISTRATIONS", READ_ONCE),
        open(os.devnull, encoding="utf-8") as nothing,
        patch("sys.stdin", nothing),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = _exit_code(arguments)
    return subprocess.CompletedProcess(list(arguments), code, _text(out), _text(err))


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        return run(arguments, open_interface)
    except SystemExit as ended:  # what completes words for a shell ends the process
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
