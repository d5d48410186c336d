"""What an index was made with, against what its agent's configuration asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memtui.index.foreign.findings import PAUSING_RELEASES, Code, counted, finding, listed
from memtui.index.foreign.rows import StoredIdentity
from memtui.model.status import Finding, Identity, IdentityField, IndexGeneration, Severity
from memtui.settings.openclaw import (
    MemorySearchConfig,
    OpenClawConfig,
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
_NOT_WRITTEN: Final = "this release does not write it"
_UNKNOWN: Final = {
    "model": "the provider chooses its model, or a local file names it",
    "provider": "the program chooses the first provider that has a key",
    "providerKey": "made of an address that only the program knows",
    "sources": _NOT_WRITTEN,
    "scopeHash": "depends on places or an order that are not known here",
    "vectorDims": "the model decides it",
    "ftsTokenizer": _NOT_WRITTEN,
    "chunkingVersion": _NOT_WRITTEN,
    "provenanceVersion": _NOT_WRITTEN,
}
_CONFIGURED_DIMS: Final = "outputDimensionality of the configuration"
_FIRST_VERSIONED: Final = "2026.9"
_QMD_UNTIL: Final = frozenset({"2026.4", "2026.7"})
_PAUSED: Final = "its search is paused and returns nothing until openclaw memory index --force"
_REBUILT: Final = "the next sync builds the index anew; until then it answers from the old one"


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What the rows themselves say: lengths of vectors, and the keyword table's tokenizer."""

    dimensions: tuple[int, ...] = ()
    tokenizer: str | None = None


def identity_fields(
    stored: StoredIdentity,
    search: MemorySearchConfig | None,
    workspace: Path | None,
    release: str,
    generation: IndexGeneration,
    facts: RowFacts,
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
        value, wanted = getattr(stored.identity, attribute), getattr(expected, attribute)
        note = "" if search is not None else "no configuration is known"
        if key in _VERSIONS and generation is not IndexGeneration.AGENT_BLOB:
            # 2026.8 writes other versions into the older tables.
            wanted, note = None, _UNKNOWN[key]
        elif key == "vectorDims":
            wanted, note = _expected_dims(search, release, facts)
        elif wanted is None and search is not None:
            note = _UNKNOWN.get(key, "cannot be known here")
        fields.append(_field(key, value, wanted, note, present=stored.present))
    return tuple(fields)


def _expected_dims(
    search: MemorySearchConfig | None, release: str, facts: RowFacts
) -> tuple[int | None, str]:
    wanted = effective(search, release).search.output_dimensionality if search else None
    if wanted is not None:
        return wanted, _CONFIGURED_DIMS
    if len(facts.dimensions) == 1:
        return facts.dimensions[0], "the length of the stored vectors"
    return None, _UNKNOWN["vectorDims"]


def _field(key: str, value: object, wanted: object, note: str, *, present: bool) -> IdentityField:
    stored, expected = _written(value), _written(wanted)
    if not present:
        return IdentityField(key, None, expected, None, "the index has no metadata")
    if key == "ftsTokenizer" and stored is None:
        stored, note = "unicode61", note or "not written, which means unicode61"
    if expected is None:
        return IdentityField(key, stored, expected, None, note)
    if stored is not None:
        return IdentityField(key, stored, expected, stored == expected, note)
    agrees = False if key in _MUST_BE_WRITTEN or key in _VERSIONS else None
    return IdentityField(key, stored, expected, agrees, "not written in the index")


def _written(value: object) -> str | None:
    if value is None:
        return None
    return ", ".join(sorted(value)) if isinstance(value, tuple) else str(value)


def identity_findings(
    stored: StoredIdentity,
    fields: Sequence[IdentityField],
    search: MemorySearchConfig | None,
    release: str,
    facts: RowFacts,
) -> list[Finding]:
    """Say what follows from the identity: a paused search, a rebuild, only keywords."""
    known = known_release(release)
    pausing = known in PAUSING_RELEASES
    consequence = _PAUSED if pausing else _REBUILT
    severity = Severity.ERROR if pausing else Severity.WARNING
    if not stored.present:
        text = f"the index metadata is missing: {consequence}"
        return [finding(Code.IDENTITY_MISSING, text, ["memory_index_meta_v1"], severity=severity)]
    findings = [
        finding(Code.IDENTITY_UNREADABLE, f"{problem}: {consequence}")
        for problem in stored.problems
    ]
    differing = [field for field in fields if field.agrees is False]
    findings += _version_findings(stored.identity, differing, known)
    plain = [field for field in differing if field.name not in {*_VERSIONS, "vectorDims"}]
    plain += [field for field in differing if field.note == _CONFIGURED_DIMS]
    if plain:
        what = ", ".join(
            f"{field.name} {_short(field.stored)}, not {_short(field.expected)}" for field in plain
        )
        text = f"the index was made with another configuration ({what}): {consequence}"
        names = [field.name for field in plain]
        findings.append(finding(Code.IDENTITY_MISMATCH, text, names, severity=severity))
    if search is not None:
        held = effective(search, release).search
        findings += _model_findings(stored.identity, differing, held, severity)
    return findings + _row_findings(stored.identity, facts)


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 40 else f"{text[:12]}…"


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
    names = [field.name for field in differing]
    older = [name for name in names if name in _VERSIONS]
    if not older or release != _FIRST_VERSIONED:
        return []
    if names == ["chunkingVersion"]:
        text = (
            f"chunkingVersion is {versions['chunkingVersion']} and not {CHUNKING_VERSION}: the"
            " program searches keywords only until it has rebuilt the index"
        )
        return [finding(Code.KEYWORD_ONLY_SERVED, text, older)]
    text = f"older than the program: {', '.join(older)}; it rebuilds such an index by itself"
    return [finding(Code.IDENTITY_OUTDATED, text, older)]


def _model_findings(
    stored: Identity,
    differing: Sequence[IdentityField],
    held: MemorySearchConfig,
    severity: Severity,
) -> list[Finding]:
    if stored.model == KEYWORD_ONLY_MODEL:
        return _keyword_only(held, severity)
    if not {field.name for field in differing} & {"model", "provider"}:
        return []
    made = f"{stored.provider}/{stored.model}"
    wanted = f"{held.provider}/{held.model or 'its default'}"
    if stored.provider == held.fallback and stored.provider != held.provider:
        text = f"the index was made with the fallback {made}, the configuration asks for {wanted}:"
        text += " restart the agent when its provider is back, then index anew"
        return [finding(Code.FALLBACK_LATCHED, text, [made, wanted])]
    text = f"the index was made with {made}, the configuration asks for {wanted}"
    if held.fallback == NO_PROVIDER:
        text += " and allows no fallback"
    text += ": scores of two models do not compare"
    return [finding(Code.MODEL_DIFFERS, text, [made, wanted])]


def _keyword_only(held: MemorySearchConfig, severity: Severity) -> list[Finding]:
    if held.provider == NO_PROVIDER:
        return []
    text = f"the index has keywords only (fts-only), the configuration asks for {held.provider}:"
    if held.provider == "auto":
        text += " no provider had a key when it was made"
        return [finding(Code.KEYWORD_ONLY_INDEX, text, severity=Severity.INFO)]
    text += " the provider failed when it was made"
    return [finding(Code.KEYWORD_ONLY_INDEX, text, [held.provider], severity=severity)]


def _row_findings(stored: Identity, facts: RowFacts) -> list[Finding]:
    findings: list[Finding] = []
    dims = stored.vector_dims
    others = [size for size in facts.dimensions if size != dims]
    if dims is not None and others:
        text = f"the index says {dims} dimensions, its vectors have {', '.join(map(str, others))}:"
        text += " the model changed and nobody noticed; index anew"
        findings.append(finding(Code.DIMENSIONS_DIFFER, text, map(str, [dims, *others])))
    written = stored.fts_tokenizer or "unicode61"
    if facts.tokenizer is not None and facts.tokenizer != written:
        text = f"the keyword table cuts words by {facts.tokenizer}, the index says {written}"
        findings.append(finding(Code.TOKENIZER_DIFFERS, text, [facts.tokenizer, written]))
    return findings


# --- the configuration by itself --------------------------------------------------------------


def problem_findings(written: OpenClawConfig | None) -> list[Finding]:
    """Say what of the agent's configuration file cannot be read or used."""
    if written is None or not written.problems:
        return []
    if written.broken:
        text = f"{written.problems[0]}: what the agent is configured for is not known,"
        text += " so the index is not compared with it; put the file right"
        return [finding(Code.CONFIGURATION_UNREADABLE, text, [str(written.path)])]
    entries = counted(len(written.problems), "entry", "entries")
    text = f"{written.path}: {entries} cannot be used as written: {listed(written.problems)}"
    return [finding(Code.CONFIGURATION_PROBLEMS, text, written.problems)]


def configuration_findings(
    search: MemorySearchConfig | None, stored: Identity, release: str, backend: str
) -> list[Finding]:
    """Say what of the configuration keeps this index from answering.

    Hits of the keywords alone are lost up to 2026.4. 2026.2 gives each the text score 1 and has
    no lower minimum. In 2026.4 the lower minimum is the smaller of minScore and the text weight,
    which no text score below 1 reaches.
    """
    known = known_release(release)
    findings: list[Finding] = []
    if backend == "qmd" and known in _QMD_UNTIL:
        text = "memory.backend is qmd: that program answers, and this index only when it fails"
        findings.append(finding(Code.QMD_BACKEND, text, [backend]))
    if search is None:
        return findings
    held = effective(search, release).search
    if not held.enabled:
        text = "memory search is switched off for this agent (enabled: false)"
        findings.append(finding(Code.SEARCH_DISABLED, text))
    vectors = held.provider != NO_PROVIDER and stored.model != KEYWORD_ONLY_MODEL
    if not held.hybrid_enabled or not vectors:
        return findings
    best, least = held.text_weight, held.min_score
    text = f"a hit of the keywords alone scores at most {best:g}"
    if known == "2026.2" and best < least:
        text += f", and minScore is {least:g}: no such hit is ever returned"
    elif known == "2026.4" and 0 < best <= least:
        text += f" * textScore, and minScore is {least:g}: no such hit with a textScore"
        text += " below 1 is ever returned"
    else:
        return findings
    return [*findings, finding(Code.KEYWORD_HITS_DROPPED, f"{text}; lower minScore")]
