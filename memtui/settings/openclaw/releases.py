"""What a release makes of a configuration: keys it does not know, values it has fixed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

from memtui.model.status import Identity
from memtui.settings.openclaw.document import expanded
from memtui.settings.openclaw.schema import (
    KEYS,
    NEW_LAYOUT,
    OLD_LAYOUT,
    Layout,
    MemorySearchConfig,
    OpenClawConfig,
)

Release = Literal["2026.2", "2026.4", "2026.7", "2026.9"]
RELEASES: Final[tuple[Release, ...]] = ("2026.2", "2026.4", "2026.7", "2026.9")
"""The releases that rankings have profiles for."""

_PREFIX: Final = "openclaw-"
_VERSION = re.compile(r"v?(\d{4})\.(\d{1,3})(?:\.(\d{1,5}))?")

_DEFAULT_MODELS: Final = {
    "openai": "text-embedding-3-small",
    "gemini": "gemini-embedding-001",
    "voyage": "voyage-4-large",
    "mistral": "mistral-embed",
    "ollama": "nomic-embed-text",
}
_MODEL_PREFIXES: Final = {
    "openai": ("openai/",),
    "voyage": ("voyage/",),
    "mistral": ("mistral/",),
    "gemini": ("models/", "gemini/", "google/"),
}

_UNKNOWN_TO_OLDEST: Final = (
    "store.fts.tokenizer",
    "multimodal",
    "outputDimensionality",
    "inputType",
    "queryInputType",
    "documentInputType",
    "sync.sessions.postCompactionForce",
    "rememberAcrossConversations",
)
_NOT_IN: Final[dict[Release, tuple[str, ...]]] = {
    "2026.2": _UNKNOWN_TO_OLDEST,
    "2026.4": ("rememberAcrossConversations",),
    "2026.7": ("rememberAcrossConversations", "store.path"),
    "2026.9": ("chunking", "query.hybrid", "cache.maxEntries", "store.path", "sync"),
}
"""Keys and whole tables that have no effect in a release."""

_FIXED_2026_9: Final[dict[str, Any]] = {
    "mmr_enabled": True,
    "decay_enabled": True,
    "cache_max_entries": 50_000,
}


@dataclass(frozen=True, slots=True)
class Effective:
    """A configuration as a release acts on it, and the written keys that it takes no notice of."""

    search: MemorySearchConfig
    ignored: tuple[str, ...]


def effective(config: MemorySearchConfig, release: str) -> Effective:
    """Put the values that hold in `release` in the place of those that are written.

    Provider `auto` (also: none written) is `openai` from 2026.6 on, and the model is the
    provider's default where none is written and the provider is known. Raises `ValueError` for a
    release without a profile.
    """
    known = known_release(release)
    left_out = {key.field: key.name for key in KEYS if has_no_effect(key.name, known)}
    base = MemorySearchConfig()
    values = {field: getattr(base, field) for field in left_out}
    if known == "2026.9":
        values |= _FIXED_2026_9
    else:
        values["extra_path_patterns"] = ()
    if not (config.session_memory or known == "2026.9"):
        values["sources"] = tuple(s for s in config.sources if s != "sessions") or base.sources
    provider = config.provider
    if provider == "auto" and known in {"2026.7", "2026.9"}:
        provider = "openai"
    model = plain_model(provider, config.model) or default_model(provider)
    ignored = tuple(name for name in left_out.values() if name in config.set_keys)
    return Effective(replace(config, **values, provider=provider, model=model), ignored)


def has_no_effect(key: str, release: str) -> bool:
    """Whether a release takes no notice of a dotted key."""
    return any(
        key == name or key.startswith(f"{name}.") for name in _NOT_IN[known_release(release)]
    )


def default_model(provider: str) -> str:
    """The model of a provider when none is written; empty where memtui cannot know it."""
    return _DEFAULT_MODELS.get(provider, "")


def plain_model(provider: str, model: str) -> str:
    """A model's name without the provider in front of it, as the index stores it."""
    for prefix in _MODEL_PREFIXES.get(provider, ()):
        if model.startswith(prefix):
            return model.removeprefix(prefix)
    return model


def known_release(release: str) -> Release:
    """One of `RELEASES` for its name or that of its profile; raises `ValueError` for any other."""
    name = release.removeprefix(_PREFIX)
    if name not in RELEASES:
        raise ValueError(f"unknown OpenClaw release {release!r}: one of {', '.join(RELEASES)}")
    return name


def release_of_version(version: str) -> Release | None:
    """The release whose rules a version follows: `2026.4.26` has those of 2026.4.

    Versions before 2026.3.13 follow 2026.2, up to 2026.5 2026.4, up to 2026.7 2026.7, later ones
    2026.9. `None` for what is no version.
    """
    found = _VERSION.match(version.strip())
    if found is None:
        return None
    number = (int(found[1]), int(found[2]), int(found[3] or 0))
    bounds: tuple[tuple[tuple[int, int, int], Release], ...] = (
        ((2026, 3, 13), "2026.2"),
        ((2026, 6, 0), "2026.4"),
        ((2026, 8, 0), "2026.7"),
    )
    return next((release for bound, release in bounds if number < bound), "2026.9")


def layout_of(release: str) -> Layout:
    """Where a release has the keys of memory search."""
    return NEW_LAYOUT if known_release(release) == "2026.9" else OLD_LAYOUT


def release_of(config: OpenClawConfig) -> tuple[Release, str]:
    """The release that a configuration is for, and how that was told, as a phrase.

    The version that wrote the file decides where it has this layout, else the layout: the newer
    one is that of 2026.9, the older one was last that of 2026.7. Without any key, 2026.9.
    """
    written = release_of_version(config.version)
    if written is not None and config.layout in {None, layout_of(written)}:
        return written, f"the configuration was last written by {config.version}"
    if config.layout == OLD_LAYOUT:
        return "2026.7", f"the last release that has its keys under {OLD_LAYOUT}"
    if config.layout == NEW_LAYOUT:
        return "2026.9", f"its keys are under {NEW_LAYOUT}"
    return "2026.9", "the configuration does not tell, so the newest"


KEYWORD_ONLY_MODEL: Final = "fts-only"
NO_PROVIDER: Final = "none"
CHUNKING_VERSION: Final = 5
"""What 2026.9 writes; 2026.8.1 wrote 3, earlier releases nothing."""
PROVENANCE_VERSION: Final = 1

_ANY_ORDER = re.compile(r"[a-z0-9/]*")
"""Paths that every collation sorts alike."""


def provider_key(data: Mapping[str, Any]) -> str:
    """The provider key: sha256 of the JSON of what an adapter calls its cache key data.

    For an adapter without any that is `{provider, model}`, in this order.
    """
    return _digest(data)


def scope_hash(
    extra_paths: Sequence[str | Mapping[str, str]],
    *,
    multimodal: bool,
    modalities: Sequence[str],
    max_file_bytes: int,
) -> str:
    """The scope hash: sha256 of the JSON of the extra paths, sorted, and the multimodal settings.

    `extra_paths` are absolute and in the order of the program, `/` between their parts.
    """
    return _digest(
        {
            "extraPaths": list(extra_paths),
            "multimodal": {
                "enabled": multimodal,
                "modalities": sorted(modalities),
                "maxFileBytes": max_file_bytes,
            },
        }
    )


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def expected_identity(
    search: MemorySearchConfig, workspace: Path | None, release: str, *, home: Path | None = None
) -> Identity:
    """What an index made by `release` with this configuration should say; `None`: cannot be known.

    Not known are the provider that `auto` chooses up to 2026.5, a local model's name, the key of
    a provider whose cache key data holds an address, and the length of vectors. 2026.2 wrote
    neither sources, scope nor tokenizer. Raises `ValueError` for a release without a profile.
    """
    known = known_release(release)
    held = effective(search, known).search
    oldest = known == "2026.2"
    newest = known == "2026.9"
    # A local model is stored under names of its own.
    model = None if held.provider in {"auto", "local"} else held.model or None
    key = scope = None
    if held.provider == NO_PROVIDER:
        model = KEYWORD_ONLY_MODEL
        key = provider_key({"provider": NO_PROVIDER, "model": KEYWORD_ONLY_MODEL})
    paths = None if oldest else _scope_paths(held, workspace, known, home)
    if paths is not None:
        scope = scope_hash(
            paths,
            multimodal=held.multimodal_enabled,
            modalities=held.multimodal_modalities,
            max_file_bytes=held.multimodal_max_file_bytes,
        )
    return Identity(
        model=model,
        provider=None if held.provider == "auto" else held.provider,
        provider_key=key,
        sources=None if oldest else tuple(sorted(held.sources)),
        scope_hash=scope,
        chunk_tokens=held.chunk_tokens,
        chunk_overlap=held.chunk_overlap,
        vector_dims=None,
        fts_tokenizer=None if oldest else held.tokenizer,
        chunking_version=CHUNKING_VERSION if newest else None,
        provenance_version=PROVENANCE_VERSION if newest else None,
    )


def _scope_paths(
    held: MemorySearchConfig, workspace: Path | None, release: Release, home: Path | None
) -> list[str | Mapping[str, str]] | None:
    """Extra paths as they are hashed; `None` where their place or their order cannot be known.

    Up to 2026.7 they are sorted by UTF-16 unit, from 2026.8 on by the rules of a language.
    """
    patterns = dict(held.extra_path_patterns)
    absolute: dict[tuple[str, str], None] = {}
    for path in held.extra_paths:
        if release == "2026.9" and path.startswith("~"):
            if home is None:
                return None
            place = str(expanded(path, home))
        elif not os.path.isabs(path) and workspace is None:
            return None
        else:
            place = os.path.abspath(os.path.join(workspace or "", path))
        absolute[(place.replace("\\", "/"), patterns.get(path, ""))] = None
    ordered = sorted(absolute, key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass"))
    if release == "2026.9" and len(ordered) > 1:
        paths = [path for path, _ in ordered]
        is_plain = not patterns and all(_ANY_ORDER.fullmatch(path) for path in paths)
        if not is_plain or any(later.startswith(path) for path, later in pairwise(paths)):
            return None
    return [{"path": path, "pattern": pattern} if pattern else path for path, pattern in ordered]
