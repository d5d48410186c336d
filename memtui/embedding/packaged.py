"""Models whose weights come inside a Python package, and what all local models share."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memtui.embedding.registry import Availability
from memtui.errors import ProviderError, SettingsError
from memtui.model import Failure
from memtui.settings.schema import EmbeddingSettings
from memtui.text.sanitize import safe_line

_MOST_REASON = 300


def package_folder(module: str, package: str, hint: str) -> Path:
    """The folder of an installed package, found without importing it; raises `ProviderError`."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        message = f"the package {package} is not installed"
        raise ProviderError(message, hint=hint, failure=Failure.NOT_INSTALLED)
    return Path(spec.origin).parent


def missing_package(packages: Iterable[tuple[str, str]], hint: str) -> Availability | None:
    """The first of `(module, package)` that is not installed, looked for without importing."""
    for module, package in packages:
        if importlib.util.find_spec(module) is None:
            missing = f"the package {package} is not installed"
            return Availability(False, missing, hint, Failure.NOT_INSTALLED)
    return None


def check_file(path: Path, sha256: str, hint: str) -> None:
    """Compare a file of a model with the released one; raises `ProviderError`."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"cannot read the model {safe_line(str(path))}: {reason}"
        raise ProviderError(message, hint=hint, failure=Failure.NO_FILE) from error
    if digest != sha256:
        what = "is damaged or another one: its sha256 is not the released one"
        message = f"the model {safe_line(str(path))} {what}"
        raise ProviderError(message, hint=hint, failure=Failure.BROKEN_FILE)


def check_model(choice: EmbeddingSettings, name: str, model: str) -> None:
    """Raise `SettingsError` for another model than the one that a provider has."""
    if choice.model not in (None, model):
        message = f'the provider "{name}" has no model "{choice.model}"'
        raise SettingsError(message, hint=f'it has "{model}"')


def default_threads(most: int) -> int:
    """As many threads as this process may use cores, at most `most`."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        cores = os.cpu_count() or 1
    return min(most, cores)


def encodable(text: str) -> str:
    """A text with every lone surrogate, which no library takes, replaced by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


@contextmanager
def loading(name: str, package: str, hint: str) -> Iterator[None]:
    """Turn what a library raises while it loads into a `ProviderError` of one line."""
    try:
        yield
    except ImportError as error:
        message = f"the package {package} cannot be loaded: {_one_line(error)}"
        raise ProviderError(message, hint=hint, failure=Failure.NOT_INSTALLED) from error
    except Exception as error:  # libraries raise what they like
        raise ProviderError(f"the {name} model cannot be loaded: {_one_line(error)}") from error


@contextmanager
def running(name: str) -> Iterator[None]:
    """Turn what a model raises while it runs into a `ProviderError` of one line."""
    try:
        yield
    except Exception as error:  # libraries raise what they like
        raise ProviderError(f"the {name} model failed: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    """What an error of a library says, on one line that is safe to show."""
    return safe_line(" ".join(str(error).split()))[:_MOST_REASON] or type(error).__name__
