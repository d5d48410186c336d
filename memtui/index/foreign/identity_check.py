"""What an index was made with, against what its agent's configuration asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memtui.index.foreign.findings import PAUSING_RELEASES, Code, finding
from memtui.index.foreign.rows import StoredIdentity
from memtui.model.status import Finding, Identity, IdentityField, IndexGeneration, Severity
from memtui.settings.openclaw import (
    MemorySearchConfig,
    effective,
    expected_identity,
    known_release,
)
from memtui.settings.openclaw.releases import (
    CHUNKING_VERSION,
    KEYWORD_ONLY_MODEL,
    NO_PROVIDER,
    PROVENANCE_VERSION,
)

_KEYS: Final = {
    "model": "model",
    "provider": "provider",
    "provider_key": "providerKey",
    "sources": "sources",
    "scope_hash": "scopeHash",
    "chunk_tokens": "chunkTokens",
    "chunk_overlap": "chunkOverlap",
    "vector_dims": "vectorDims",
    "fts_tokenizer": "ftsTokenizer",
    "chunking_version": "chunkingVersion",
    "provenance_version": "provenanceVersion",
}
_MUST_BE_WRITTEN: Final = frozenset({"model", "provider", "chunkTokens", "chunkOverlap"})
_VERSIONS: Final = {
    "chunkingVersion": CHUNKING_VERSION,
    "provenanceVersion": PROVENANCE_VERSION,
}
_UNKNOWN: Final = {
    "model": "the provider chooses its model, or a local file names it",
    "provider": "the program chooses the first provider that has a key",
    "providerKey": "made of an address that only the program knows",
    "sources": "this release does not write it",
    "scopeHash": "depends on places or an order that are not known here",
    "vectorDims": "the model decides it",
    "ftsTokenizer": "this release does not write it",
    "chunkingVersion": "this release does not write it",
    "provenanceVersion": "this release does not write it",
}
_FIRST_VERSIONED: Final = "2026.9"
_PAUSED: Final = "its search is paused and returns nothing until openclaw memory index --force"
_REBUILT: Final = "the next sync builds the index anew; until then it answers from the old one"


@dataclass(frozen=True, slots=True)
class Counted:
    """What the rows themselves say: lengths of vectors, and the keyword table's tokenizer."""

    dimensions: tuple[int, ...] = ()
    tokenizer: str | None = None


def identity_fields(
    stored: StoredIdentity,
    search: MemorySearchConfig | None,
    workspace: Path | None,
    release: str,
    generation: IndexGeneration,
    counted: Counted,
    *,
    home: Path | None = None,
) -> tuple[IdentityField, ...]:
    """Set what is stored beside what is expected, in the order of the program's own record.

    Without a configuration nothing is expected but what the rows themselves say.
    """
    expected = Identity()
    if search is not None:
        expected = expected_identity(search, workspace, release, home=home)
    fields = []
    for attribute, key in _KEYS.items():
        kept, asked = getattr(stored.identity, attribute), getattr(expected, attribute)
        note = "" if search is not None else "no configuration is known"
        if key in _VERSIONS and generation is not IndexGeneration.AGENT_BLOB:
            # 2026.8 writes other versions into the older tables.
            asked, note = None, _UNKNOWN[key]
        elif key == "vectorDims":
            asked, note = _expected_dims(search, release, counted)
        elif asked is None and search is not None:
            note = _UNKNOWN.get(key, "cannot be known here")
        fields.append(_field(key, kept, asked, note, present=stored.present))
    return tuple(fields)


def _expected_dims(
    search: MemorySearchConfig | None, release: str, counted: Counted
) -> tuple[int | None, str]:
    asked = effective(search, release).search.output_dimensionality if search else None
    if asked is not None:
        return asked, "outputDimensionality of the configuration"
    if len(counted.dimensions) == 1:
        return counted.dimensions[0], "the length of the stored vectors"
    return None, "the model decides it"


def _field(key: str, kept: object, asked: object, note: str, *, present: bool) -> IdentityField:
    stored, expected = _written(kept), _written(asked)
    if not present:
        return IdentityField(key, None, expected, None, "the index has no metadata")
    if key == "ftsTokenizer" and stored is None:
        stored, note = "unicode61", note or "not written, which means unicode61"
    agrees: bool | None = None
    if expected is not None and stored is not None:
        agrees = stored == expected
    elif expected is not None and (key in _MUST_BE_WRITTEN or key in _VERSIONS):
        agrees, note = False, "not written in the index"
    elif expected is not None:
        note = "not written in the index"
    return IdentityField(key, stored, expected, agrees, note)


def _written(value: object) -> str | None:
    if value is None:
        return None
    return ", ".join(sorted(value)) if isinstance(value, tuple) else str(value)


def identity_findings(
    stored: StoredIdentity,
    fields: Sequence[IdentityField],
    search: MemorySearchConfig | None,
    release: str,
    counted: Counted,
) -> list[Finding]:
    """Say what follows from the identity: a paused search, a rebuild, only keywords."""
    known = known_release(release)
    pausing = known in PAUSING_RELEASES
    if not stored.present:
        text = f"the index metadata is missing: {_PAUSED if pausing else _REBUILT}"
        severity = Severity.ERROR if pausing else Severity.WARNING
        return [finding(Code.IDENTITY_MISSING, text, ["memory_index_meta_v1"], severity=severity)]
    found = [
        finding(Code.IDENTITY_UNREADABLE, f"{problem}: {_PAUSED if pausing else _REBUILT}")
        for problem in stored.problems
    ]
    differing = [field for field in fields if field.agrees is False]
    found += _version_findings(stored.identity, differing, known)
    found += _mismatch(differing, pausing)
    found += _model_findings(stored.identity, differing, search, release, pausing)
    return found + _row_findings(stored.identity, counted)


def _version_findings(
    stored: Identity, differing: Sequence[IdentityField], release: str
) -> list[Finding]:
    versions = {
        "chunkingVersion": stored.chunking_version,
        "provenanceVersion": stored.provenance_version,
    }
    newer = [key for key, value in versions.items() if value and value > _VERSIONS[key]]
    if newer:
        text = "the index was made by a newer program than memtui knows, and an older one refuses"
        text += " it: " + ", ".join(f"{key} {versions[key]}" for key in newer)
        return [finding(Code.IDENTITY_NEWER, text, newer)]
    older = [field.name for field in differing if field.name in _VERSIONS]
    if not older or release != _FIRST_VERSIONED:
        return []
    others = [field for field in differing if field.name not in _VERSIONS]
    if older == ["chunkingVersion"] and not others:
        text = (
            f"chunkingVersion is {versions['chunkingVersion']} and not {CHUNKING_VERSION}: the"
            " program searches keywords only until it has rebuilt the index"
        )
        return [finding(Code.KEYWORD_ONLY_SERVED, text, older)]
    text = f"older than the program: {', '.join(older)}; it rebuilds such an index by itself"
    return [finding(Code.IDENTITY_OUTDATED, text, older)]


def _mismatch(differing: Sequence[IdentityField], pausing: bool) -> list[Finding]:
    plain = [field for field in differing if field.name not in {*_VERSIONS, "vectorDims"}]
    plain += [field for field in differing if field.name == "vectorDims" and _asked_for(field)]
    if not plain:
        return []
    what = ", ".join(f"{field.name} {_brief(field)}" for field in plain)
    text = f"the index was made with another configuration ({what}):"
    severity = Severity.ERROR if pausing else Severity.WARNING
    consequence = _PAUSED if pausing else _REBUILT
    names = [field.name for field in plain]
    return [finding(Code.IDENTITY_MISMATCH, f"{text} {consequence}", names, severity=severity)]


def _asked_for(field: IdentityField) -> bool:
    return field.note.startswith("outputDimensionality")


def _brief(field: IdentityField) -> str:
    return f"{_short(field.stored)}, not {_short(field.expected)}"


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 40 else f"{text[:12]}…"


def _model_findings(
    stored: Identity,
    differing: Sequence[IdentityField],
    search: MemorySearchConfig | None,
    release: str,
    pausing: bool,
) -> list[Finding]:
    if search is None:
        return []
    held = effective(search, release).search
    if stored.model == KEYWORD_ONLY_MODEL:
        return _keyword_only(held, pausing)
    if not {field.name for field in differing} & {"model", "provider"}:
        return []
    made = f"{stored.provider}/{stored.model}"
    asked = f"{held.provider}/{held.model or 'its default'}"
    names = [made, asked]
    if stored.provider == held.fallback and stored.provider != held.provider:
        text = f"the index was made with the fallback {made}, the configuration asks for {asked}:"
        text += " restart the agent when its provider is back, then index anew"
        return [finding(Code.FALLBACK_LATCHED, text, names)]
    text = f"the index was made with {made}, the configuration asks for {asked}"
    if held.fallback == NO_PROVIDER:
        text += " and allows no fallback"
    return [finding(Code.MODEL_DIFFERS, f"{text}: scores of two models do not compare", names)]


def _keyword_only(held: MemorySearchConfig, pausing: bool) -> list[Finding]:
    if held.provider == NO_PROVIDER:
        return []
    text = f"the index has keywords only (fts-only), the configuration asks for {held.provider}:"
    if held.provider == "auto":
        text += " no provider had a key when it was made"
        return [finding(Code.KEYWORD_ONLY_INDEX, text, severity=Severity.INFO)]
    text += " the provider failed when it was made"
    severity = Severity.ERROR if pausing else Severity.WARNING
    return [finding(Code.KEYWORD_ONLY_INDEX, text, [held.provider], severity=severity)]


def _row_findings(stored: Identity, counted: Counted) -> list[Finding]:
    found: list[Finding] = []
    dims = stored.vector_dims
    others = [size for size in counted.dimensions if size != dims]
    if dims is not None and others:
        text = f"the index says {dims} dimensions, its vectors have {', '.join(map(str, others))}:"
        text += " the model changed and nobody noticed; index anew"
        found.append(finding(Code.DIMENSIONS_DIFFER, text, map(str, [dims, *others])))
    written = stored.fts_tokenizer or "unicode61"
    if counted.tokenizer is not None and counted.tokenizer != written:
        text = f"the keyword table cuts words by {counted.tokenizer}, the index says {written}"
        found.append(finding(Code.TOKENIZER_DIFFERS, text, [counted.tokenizer, written]))
    return found
