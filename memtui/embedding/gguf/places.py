"""Where the model file of the provider `gguf` is found."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memtui.embedding.choice import EmbeddingChoice
from memtui.settings.openclaw import MemorySearchConfig, read_config

MODELS_FOLDER: Final = Path(".node-llama-cpp", "models")
"""Below the home folder: where node-llama-cpp, which OpenClaw loads models with, keeps them."""

DEFAULT_MODELS: Final = (
    "hf:ggml-org/embeddinggemma-300m-qat-q8_0-GGUF/embeddinggemma-300m-qat-Q8_0.gguf",
    "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf",
)
"""OpenClaw's own models (OPENCLAW.md, section 10): today's, and that of its first releases."""

_URI = re.compile(r"(?:hf|huggingface):(?://)?|(?:hf|huggingface)\.co/")
_QUANTISATION: Final = "Q4_K_M"
"""What node-llama-cpp takes of a model when its address names no file."""


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where the model file is."""

    path: Path | None
    """`None` where none was found; a file that is named may be missing all the same."""
    origin: str
    """Who named it, for people."""


def find_model(
    choice: EmbeddingChoice,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> ModelPlace:
    """Find the model file: the configured one, else OpenClaw's configured or own one.

    A name may be a path, `~` at its start being the home folder, or an address as OpenClaw's
    configuration has it (`hf:USER/MODEL/FILE.gguf`); that is looked for among the files which
    node-llama-cpp has fetched, and never fetched here.
    """
    env = os.environ if env is None else env
    home = Path(os.path.expanduser("~")) if home is None else home
    path: Path | None = _expanded(choice.model_path, home) if choice.model_path else None
    if path is not None and path.is_absolute():
        return ModelPlace(path, "embedding.model_path")
    search = read_config(env, home).default_agent.search
    folders = _folders(search, home)
    if choice.model_path:
        return ModelPlace(_named(choice.model_path, folders, home), "embedding.model_path")
    if search.local_model_path:
        path = _named(search.local_model_path, folders, home)
        return ModelPlace(path, "OpenClaw's configuration")
    for model in DEFAULT_MODELS:
        path = _fetched(model, folders)
        if path is not None:
            return ModelPlace(path, "OpenClaw's default model")
    return ModelPlace(None, "OpenClaw's default model")


def file_names(address: str) -> tuple[str, ...]:
    """The names that node-llama-cpp gives the file of an `hf:` address; none for anything else.

    `hf_USER_FILE`, with the model between where the file is not named after it; without a file
    in the address, the model's name with its quantisation.
    """
    found = _URI.match(address)
    if found is None:
        return ()
    user, _, rest = address[found.end() :].partition("/")
    model, _, file = rest.partition("/")
    model, _, tag = model.partition(":")
    if not user or not model:
        return ()
    stem = re.sub(r"-gguf$", "", model, flags=re.IGNORECASE)
    if not file:
        kind = tag or _QUANTISATION
        return (f"hf_{user}_{stem}.{kind}.gguf", f"hf_{user}_{stem}.gguf")
    name = file.partition("#")[0].rpartition("/")[2]
    if stem != model and name.lower().startswith(stem.lower()):
        return (f"hf_{user}_{name}",)
    return (f"hf_{user}_{model}_{name}",)


def _folders(search: MemorySearchConfig, home: Path) -> tuple[Path, ...]:
    own = search.local_model_cache_dir
    usual = home / MODELS_FOLDER
    return (_expanded(own, home), usual) if own else (usual,)


def _named(name: str, folders: tuple[Path, ...], home: Path) -> Path | None:
    if _URI.match(name):
        return _fetched(name, folders)
    path = _expanded(name, home)
    if path.is_absolute() or os.path.lexists(path):
        return path
    beside = (folder / path for folder in folders)
    return next((place for place in beside if os.path.lexists(place)), path)


def _fetched(address: str, folders: tuple[Path, ...]) -> Path | None:
    places = (folder / name for folder in folders for name in file_names(address))
    return next((place for place in places if os.path.isfile(place)), None)


def _expanded(name: str, home: Path) -> Path:
    name = name.strip().replace("\0", "")
    if name == "~" or name.startswith(("~/", "~\\")):
        return home / name[2:]
    return Path(name)
