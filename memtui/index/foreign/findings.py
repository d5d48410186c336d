"""Findings about an OpenClaw index: their codes and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from memtui.model.status import AgentGets, Finding, Severity, Truth
from memtui.settings.openclaw import known_release
from memtui.text.sanitize import safe_line

MAX_NAMES: Final = 200
PAUSING_RELEASES: Final = frozenset({"2026.7", "2026.9"})
"""Whose search returns nothing while the index does not fit the configuration."""

_I, _W, _E = Severity.INFO, Severity.WARNING, Severity.ERROR


class Code(StrEnum):
    """The stable name of a finding, and how much it matters where nothing else is said."""

    severity: Severity

    def __new__(cls, name: str, severity: Severity) -> Code:
        """Make a member that is its name."""
        code = str.__new__(cls, name)
        code._value_ = name
        code.severity = severity
        return code

    DAMAGED = "damaged", _E
    PART_UNREADABLE = "part_unreadable", _E
    DATABASE_REPLACED = "database_replaced", _W
    DATABASE_NOT_WRITABLE = "database_not_writable", _I
    OTHER_DATABASE_READ = "other_database_read", _W
    BOTH_GENERATIONS = "both_generations", _I
    SCHEMA_NEWER = "schema_newer", _W
    LOCK_FILE = "lock_file", _W
    SHADOW_FILE = "shadow_file", _W
    TEMPORARY_FILE = "temporary_file", _W
    BACKUP_FILE = "backup_file", _W
    LOG_BESIDE = "log_beside", _I

    IDENTITY_MISSING = "identity_missing", _E
    IDENTITY_UNREADABLE = "identity_unreadable", _E
    IDENTITY_MISMATCH = "identity_mismatch", _E
    IDENTITY_OUTDATED = "identity_outdated", _W
    IDENTITY_NEWER = "identity_newer", _E
    KEYWORD_ONLY_SERVED = "keyword_only_served", _W
    KEYWORD_ONLY_INDEX = "keyword_only_index", _E
    FALLBACK_LATCHED = "fallback_latched", _W
    MODEL_DIFFERS = "model_differs", _W
    DIMENSIONS_DIFFER = "dimensions_differ", _E
    TOKENIZER_DIFFERS = "tokenizer_differs", _W

    INDEX_EMPTY = "index_empty", _W
    MIXED_MODELS = "mixed_models", _E
    MIXED_DIMENSIONS = "mixed_dimensions", _E
    CHUNKS_WITHOUT_VECTOR = "chunks_without_vector", _W
    VECTORS_DAMAGED = "vectors_damaged", _W
    CHUNKS_WITHOUT_FILE = "chunks_without_file", _W
    FILES_WITHOUT_CHUNKS = "files_without_chunks", _W
    FTS_ABSENT = "fts_absent", _W
    FTS_MISSING = "fts_missing", _W
    FTS_ORPHANS = "fts_orphans", _W
    FTS_DUPLICATES = "fts_duplicates", _W
    PATHS_MISSING = "paths_missing", _W
    VEC_ABSENT = "vec_absent", _W
    VEC_UNREADABLE = "vec_unreadable", _I
    VEC_INCOMPLETE = "vec_incomplete", _W
    VEC_MISSING = "vec_missing", _W
    VEC_ORPHANS = "vec_orphans", _W
    VEC_DIFFERS = "vec_differs", _W
    VECTORS_COMPARED = "vectors_compared", _I
    TOKENIZER_IN_USE = "tokenizer_in_use", _I
    CACHE_ROWS = "cache_rows", _I
    CJK_WORDS = "cjk_words", _I

    WORKSPACE_UNKNOWN = "workspace_unknown", _I
    WORKSPACE_MISSING = "workspace_missing", _W
    FILES_STALE = "files_stale", _W
    FILES_ORPHANED = "files_orphaned", _W
    FILES_NEVER_INDEXED = "files_never_indexed", _W
    FILES_UNREADABLE = "files_unreadable", _W
    LINKS_SKIPPED = "links_skipped", _I
    MEMORY_LINKED = "memory_linked", _W
    ROOT_FILE_SKIPPED = "root_file_skipped", _I
    EXTRA_PATH_LINK = "extra_path_link", _W
    EXTRA_PATH_MISSING = "extra_path_missing", _W
    EXTRA_PATH_TILDE = "extra_path_tilde", _W
    EXTRA_PATH_SKIPPED = "extra_path_skipped", _W

    SESSIONS_UNKNOWN = "sessions_unknown", _I
    SESSIONS_DISABLED = "sessions_disabled", _I
    SESSIONS_NEVER_INDEXED = "sessions_never_indexed", _W
    SESSIONS_STALE = "sessions_stale", _W
    SESSIONS_PENDING = "sessions_pending", _I
    SESSIONS_ORPHANED = "sessions_orphaned", _W
    SESSIONS_UNREGISTERED = "sessions_unregistered", _I

    CONFIGURATION_UNREADABLE = "configuration_unreadable", _W
    CONFIGURATION_PROBLEMS = "configuration_problems", _W
    SEARCH_DISABLED = "search_disabled", _W
    QMD_BACKEND = "qmd_backend", _W
    KEYWORD_HITS_DROPPED = "keyword_hits_dropped", _I


_PAUSED_BY: Final = frozenset(
    {Code.IDENTITY_MISSING, Code.IDENTITY_UNREADABLE, Code.IDENTITY_MISMATCH}
)
_GETS: Final[Mapping[Code, AgentGets | None]] = {
    Code.CONFIGURATION_UNREADABLE: None,
    Code.SEARCH_DISABLED: "nothing",
    Code.QMD_BACKEND: "other",
    Code.OTHER_DATABASE_READ: "other",
    Code.IDENTITY_MISSING: "nothing",
    Code.IDENTITY_UNREADABLE: "nothing",
    Code.IDENTITY_MISMATCH: "nothing",
    Code.IDENTITY_NEWER: None,
    Code.KEYWORD_ONLY_SERVED: "keywords",
}
"""What counts first comes first."""


def finding(
    code: Code,
    message: str,
    names: Iterable[str] = (),
    *,
    count: int | None = None,
    severity: Severity | None = None,
) -> Finding:
    """Make a finding, safe to show; `count` is that of `names` when it is not given.

    Names beyond `MAX_NAMES` are counted and left out.
    """
    every = tuple(names)
    return Finding(
        code=code.value,
        severity=severity or code.severity,
        message=safe_line(message),
        names=tuple(safe_line(name) for name in every[:MAX_NAMES]),
        count=len(every) if count is None else count,
    )


def agent_gets(truth: Truth, release: str) -> tuple[AgentGets | None, str]:
    """What the agent's own search returns, and the code that keeps it from the same as here.

    `None` where that is not known: the configuration cannot be read, or the index is newer than
    memtui. Raises `ValueError` for a release without a profile.
    """
    pausing = known_release(release) in PAUSING_RELEASES
    found = {finding.code for finding in truth.findings}
    for code, gets in _GETS.items():
        if code.value in found and (pausing or code not in _PAUSED_BY):
            return gets, code.value
    return "same", ""


def of_things(
    code: Code, things: Iterable[str], noun: str = "", text: str = "", **options: Any
) -> list[Finding]:
    """Make the finding about some things by name, counted where they have a noun; none for none.

    Without a noun, `text` says where the names go: `{names}`.
    """
    names = tuple(things)
    if not names:
        return []
    message = text.format(names=listed(names))
    if noun:
        message = f"{counted(len(names), noun)} {text}: {listed(names)}"
    return [finding(code, message, names, **options)]


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a number of things: `1 chunk`, `1,204 chunks`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], shown: int = 3) -> str:
    """Write the first names of a list, and how many more there are."""
    every = tuple(names)
    more = f" and {len(every) - shown:,} more" if len(every) > shown else ""
    return safe_line(", ".join(every[:shown]) + more)
