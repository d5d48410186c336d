"""The program called in this process, as a process of its own would be.

A start costs most of a second of a processor's time, nearly all of it for imports. What is about
processes, streams, signals or start itself has to be tested with processes.
"""

from __future__ import annotations

import copy
import functools
import io
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest

from memtui.__main__ import open_interface
from memtui.cli.main import run
from memtui.embedding.packaged import MODELS, REGISTRATIONS
from memtui.embedding.provider import LocalProvider
from memtui.settings.schema import EmbeddingSettings

_loaded = functools.cache(MODELS["minilm"].create)


def bundled_model(choice: EmbeddingSettings) -> LocalProvider:
    """Make the bundled model; its file, which is the same for every call, is read once."""
    MODELS["minilm"].identity(choice)
    return copy.copy(_loaded(EmbeddingSettings(threads=choice.threads)))


READ_ONCE = replace(REGISTRATIONS["minilm"], create=bundled_model)


def _as_of_a_process() -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True
    )


def _text(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8", "surrogateescape")


@contextmanager
def _surroundings(environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, open(os.devnull, encoding="utf-8") as nothing:
        for name in set(os.environ) - set(environment):
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setitem(REGISTRATIONS, "minilm", READ_ONCE)
        patch.setattr("sys.stdin", nothing)
        patch.chdir(folder)
        yield


def call(
    arguments: Sequence[str], *, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Call the program with arguments in an environment and a folder; what came of it."""
    out, err = _as_of_a_process(), _as_of_a_process()
    with _surroundings(environment, folder), redirect_stdout(out), redirect_stderr(err):
        code = _exit_code(arguments)
    return subprocess.CompletedProcess(list(arguments), code, _text(out), _text(err))


def _exit_code(arguments: Sequence[str]) -> int:
    try:
        return run(arguments, open_interface)
    except SystemExit as ended:  # what completes words for a shell ends the process
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
