"""What an index says it was made with, worked out from a configuration."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from memtui.model.status import Identity
from memtui.settings.openclaw.effective import Release, effective, known_release
from memtui.settings.openclaw.places import expanded
from memtui.settings.openclaw.schema import MemorySearchConfig

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
    keyword_only = held.provider == NO_PROVIDER
    model = KEYWORD_ONLY_MODEL if keyword_only else _model(held)
    return Identity(
        model=model,
        provider=None if held.provider == "auto" else held.provider,
        provider_key=_keyword_only_key() if keyword_only else None,
        sources=None if oldest else tuple(sorted(held.sources)),
        scope_hash=None if oldest else _scope(held, workspace, known, home),
        chunk_tokens=held.chunk_tokens,
        chunk_overlap=held.chunk_overlap,
        vector_dims=None,
        fts_tokenizer=None if oldest else held.tokenizer,
        chunking_version=CHUNKING_VERSION if newest else None,
        provenance_version=PROVENANCE_VERSION if newest else None,
    )


def _model(held: MemorySearchConfig) -> str | None:
    """The model's name as stored; a local model is stored under names of its own."""
    return None if held.provider in {"auto", "local"} else held.model or None


def _keyword_only_key() -> str:
    return provider_key({"provider": NO_PROVIDER, "model": KEYWORD_ONLY_MODEL})


def _scope(
    held: MemorySearchConfig, workspace: Path | None, release: Release, home: Path | None
) -> str | None:
    paths = _scope_paths(held, workspace, release, home)
    if paths is None:
        return None
    return scope_hash(
        paths,
        multimodal=held.multimodal_enabled,
        modalities=held.multimodal_modalities,
        max_file_bytes=held.multimodal_max_file_bytes,
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
    if release == "2026.9" and not _order_is_certain([path for path, _ in ordered], patterns):
        return None
    return [{"path": path, "pattern": pattern} if pattern else path for path, pattern in ordered]


def _order_is_certain(paths: Sequence[str], patterns: Mapping[str, str]) -> bool:
    if len(paths) < 2:
        return True
    plain = not patterns and all(_ANY_ORDER.fullmatch(path) for path in paths)
    return plain and not any(later.startswith(path) for path, later in pairwise(paths))
