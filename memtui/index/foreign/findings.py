"""Findings about an OpenClaw index: their codes, meanings and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from memtui.model.status import AgentGets, Finding, Severity, Truth
from memtui.settings.openclaw import known_release
from memtui.text.sanitize import safe_line

MAX_NAMES: Final = 200
PAUSING_RELEASES: Final = frozenset({"2026.7", "2026.9"})
"""Whose search returns nothing while the index does not fit the configuration."""


class Code(StrEnum):
    """The stable name of a finding; `MEANINGS` says what each one means."""

    DAMAGED = "damaged"
    PART_UNREADABLE = "part_unreadable"
    DATABASE_REPLACED = "database_replaced"
    DATABASE_NOT_WRITABLE = "database_not_writable"
    OTHER_DATABASE_READ = "other_database_read"
    BOTH_GENERATIONS = "both_generations"
    SCHEMA_NEWER = "schema_newer"
    LOCK_FILE = "lock_file"
    SHADOW_FILE = "shadow_file"
    TEMPORARY_FILE = "temporary_file"
    BACKUP_FILE = "backup_file"
    LOG_BESIDE = "log_beside"

    IDENTITY_MISSING = "identity_missing"
    IDENTITY_UNREADABLE = "identity_unreadable"
    IDENTITY_MISMATCH = "identity_mismatch"
    IDENTITY_OUTDATED = "identity_outdated"
    IDENTITY_NEWER = "identity_newer"
    KEYWORD_ONLY_SERVED = "keyword_only_served"
    KEYWORD_ONLY_INDEX = "keyword_only_index"
    FALLBACK_LATCHED = "fallback_latched"
    MODEL_DIFFERS = "model_differs"
    DIMENSIONS_DIFFER = "dimensions_differ"
    TOKENIZER_DIFFERS = "tokenizer_differs"

    INDEX_EMPTY = "index_empty"
    MIXED_MODELS = "mixed_models"
    MIXED_DIMENSIONS = "mixed_dimensions"
    CHUNKS_WITHOUT_VECTOR = "chunks_without_vector"
    VECTORS_DAMAGED = "vectors_damaged"
    CHUNKS_WITHOUT_FILE = "chunks_without_file"
    FILES_WITHOUT_CHUNKS = "files_without_chunks"
    FTS_ABSENT = "fts_absent"
    FTS_MISSING = "fts_missing"
    FTS_ORPHANS = "fts_orphans"
    FTS_DUPLICATES = "fts_duplicates"
    PATHS_MISSING = "paths_missing"
    VEC_ABSENT = "vec_absent"
    VEC_UNREADABLE = "vec_unreadable"
    VEC_INCOMPLETE = "vec_incomplete"
    VEC_MISSING = "vec_missing"
    VEC_ORPHANS = "vec_orphans"
    VEC_DIFFERS = "vec_differs"
    VECTORS_COMPARED = "vectors_compared"
    TOKENIZER_IN_USE = "tokenizer_in_use"
    CACHE_ROWS = "cache_rows"
    CJK_WORDS = "cjk_words"

    WORKSPACE_UNKNOWN = "workspace_unknown"
    WORKSPACE_MISSING = "workspace_missing"
    FILES_STALE = "files_stale"
    FILES_ORPHANED = "files_orphaned"
    FILES_NEVER_INDEXED = "files_never_indexed"
    FILES_UNREADABLE = "files_unreadable"
    LINKS_SKIPPED = "links_skipped"
    MEMORY_LINKED = "memory_linked"
    ROOT_FILE_SKIPPED = "root_file_skipped"
    EXTRA_PATH_LINK = "extra_path_link"
    EXTRA_PATH_MISSING = "extra_path_missing"
    EXTRA_PATH_TILDE = "extra_path_tilde"
    EXTRA_PATH_SKIPPED = "extra_path_skipped"

    SESSIONS_UNKNOWN = "sessions_unknown"
    SESSIONS_DISABLED = "sessions_disabled"
    SESSIONS_NEVER_INDEXED = "sessions_never_indexed"
    SESSIONS_STALE = "sessions_stale"
    SESSIONS_PENDING = "sessions_pending"
    SESSIONS_ORPHANED = "sessions_orphaned"
    SESSIONS_UNREGISTERED = "sessions_unregistered"

    CONFIGURATION_UNREADABLE = "configuration_unreadable"
    CONFIGURATION_PROBLEMS = "configuration_problems"
    SEARCH_DISABLED = "search_disabled"
    QMD_BACKEND = "qmd_backend"
    KEYWORD_HITS_DROPPED = "keyword_hits_dropped"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code means, and how much it matters where nothing else is said."""

    severity: Severity
    text: str


_I, _W, _E = Severity.INFO, Severity.WARNING, Severity.ERROR

MEANINGS: Final[Mapping[Code, Meaning]] = MappingProxyType(
    {
        Code.DAMAGED: Meaning(_E, "SQLite finds the database file damaged"),
        Code.PART_UNREADABLE: Meaning(_E, "one table cannot be read, the others can"),
        Code.DATABASE_REPLACED: Meaning(_W, "the file was exchanged while it was open here"),
        Code.DATABASE_NOT_WRITABLE: Meaning(_I, "this user may read the index and not write it"),
        Code.OTHER_DATABASE_READ: Meaning(_W, "the program reads another database than this one"),
        Code.BOTH_GENERATIONS: Meaning(_I, "an index of an older generation is left over"),
        Code.SCHEMA_NEWER: Meaning(_W, "the agent's database is newer than memtui knows"),
        Code.LOCK_FILE: Meaning(_W, "a reindex lock file lies beside the database"),
        Code.SHADOW_FILE: Meaning(_W, "a rebuild was cut off and left its shadow file"),
        Code.TEMPORARY_FILE: Meaning(_W, "a full reindex was cut off and left its new file"),
        Code.BACKUP_FILE: Meaning(_W, "a full reindex left the index from before it"),
        Code.LOG_BESIDE: Meaning(_I, "the database is open somewhere, or was not closed"),
        Code.IDENTITY_MISSING: Meaning(_E, "the index does not say what it was made with"),
        Code.IDENTITY_UNREADABLE: Meaning(_E, "what the index was made with cannot be read"),
        Code.IDENTITY_MISMATCH: Meaning(_E, "the index was made with another configuration"),
        Code.IDENTITY_OUTDATED: Meaning(_W, "the index was made by an older program"),
        Code.IDENTITY_NEWER: Meaning(_E, "the index was made by a newer program"),
        Code.KEYWORD_ONLY_SERVED: Meaning(_W, "only keywords are searched until a rebuild"),
        Code.KEYWORD_ONLY_INDEX: Meaning(_E, "the index has no vectors, the configuration asks"),
        Code.FALLBACK_LATCHED: Meaning(_W, "the index was made with the fallback provider"),
        Code.MODEL_DIFFERS: Meaning(_W, "the index was made with another model or provider"),
        Code.DIMENSIONS_DIFFER: Meaning(_E, "vectors have another length than the index says"),
        Code.TOKENIZER_DIFFERS: Meaning(_W, "the keyword table has another tokenizer than stated"),
        Code.INDEX_EMPTY: Meaning(_W, "the index holds no chunk"),
        Code.MIXED_MODELS: Meaning(_E, "chunks of several models are in one index"),
        Code.MIXED_DIMENSIONS: Meaning(_E, "vectors of several lengths are in one index"),
        Code.CHUNKS_WITHOUT_VECTOR: Meaning(_W, "some chunks have no vector, others have"),
        Code.VECTORS_DAMAGED: Meaning(_W, "stored vectors that cannot be used"),
        Code.CHUNKS_WITHOUT_FILE: Meaning(_W, "chunks of files that the index does not list"),
        Code.FILES_WITHOUT_CHUNKS: Meaning(_W, "listed files with text and without a chunk"),
        Code.FTS_ABSENT: Meaning(_W, "there is no keyword table"),
        Code.FTS_MISSING: Meaning(_W, "chunks that no keyword can find"),
        Code.FTS_ORPHANS: Meaning(_W, "keyword rows whose chunk is gone"),
        Code.FTS_DUPLICATES: Meaning(_W, "chunks with several keyword rows"),
        Code.PATHS_MISSING: Meaning(_W, "files that the path search does not know"),
        Code.VEC_ABSENT: Meaning(_W, "there are vectors and no vector table"),
        Code.VEC_UNREADABLE: Meaning(_I, "the vector table cannot be read here"),
        Code.VEC_INCOMPLETE: Meaning(_W, "the program marked its vector table as incomplete"),
        Code.VEC_MISSING: Meaning(_W, "chunks whose vector is not in the vector table"),
        Code.VEC_ORPHANS: Meaning(_W, "rows of the vector table whose chunk is gone"),
        Code.VEC_DIFFERS: Meaning(_W, "the vector table holds other numbers than the chunks"),
        Code.VECTORS_COMPARED: Meaning(_I, "how many vectors of both tables were compared"),
        Code.TOKENIZER_IN_USE: Meaning(_I, "how the keyword table cuts text into words"),
        Code.CACHE_ROWS: Meaning(_I, "how many vectors the embedding cache holds"),
        Code.CJK_WORDS: Meaning(_I, "East Asian text that keywords rarely find"),
        Code.WORKSPACE_UNKNOWN: Meaning(_I, "the notes were not compared: no workspace is known"),
        Code.WORKSPACE_MISSING: Meaning(_W, "the workspace is not there"),
        Code.FILES_STALE: Meaning(_W, "files that changed since they were indexed"),
        Code.FILES_ORPHANED: Meaning(_W, "indexed files that are no longer part of the memory"),
        Code.FILES_NEVER_INDEXED: Meaning(_W, "files of the memory that are not in the index"),
        Code.FILES_UNREADABLE: Meaning(_W, "files of the memory that cannot be read"),
        Code.LINKS_SKIPPED: Meaning(_I, "links that the program leaves out"),
        Code.MEMORY_LINKED: Meaning(_W, "the memory itself is a link, and left out"),
        Code.ROOT_FILE_SKIPPED: Meaning(_I, "a root file that this release does not index"),
        Code.EXTRA_PATH_LINK: Meaning(_W, "an extra path that is a link, and contributes nothing"),
        Code.EXTRA_PATH_MISSING: Meaning(_W, "an extra path that leads nowhere"),
        Code.EXTRA_PATH_TILDE: Meaning(_W, "an extra path whose ~ this release does not expand"),
        Code.EXTRA_PATH_SKIPPED: Meaning(_W, "an extra path that is no Markdown file or folder"),
        Code.SESSIONS_UNKNOWN: Meaning(_I, "the transcripts cannot be counted here"),
        Code.SESSIONS_DISABLED: Meaning(_I, "there are transcripts, and they are not a source"),
        Code.SESSIONS_NEVER_INDEXED: Meaning(_W, "transcripts that are not in the index"),
        Code.SESSIONS_STALE: Meaning(_W, "transcripts that grew since they were indexed"),
        Code.SESSIONS_PENDING: Meaning(_I, "recent transcripts below the limit for a sync"),
        Code.SESSIONS_ORPHANED: Meaning(_W, "indexed transcripts that are gone"),
        Code.SESSIONS_UNREGISTERED: Meaning(_I, "transcripts that sessions.json does not list"),
        Code.CONFIGURATION_UNREADABLE: Meaning(_W, "the agent's configuration cannot be read"),
        Code.CONFIGURATION_PROBLEMS: Meaning(_W, "parts of the configuration cannot be used"),
        Code.SEARCH_DISABLED: Meaning(_W, "memory search is switched off for this agent"),
        Code.QMD_BACKEND: Meaning(_W, "another program answers, not this index"),
        Code.KEYWORD_HITS_DROPPED: Meaning(_I, "the minimum score drops keyword-only hits"),
    }
)

_PAUSED_BY: Final = frozenset(
    {Code.IDENTITY_MISSING, Code.IDENTITY_UNREADABLE, Code.IDENTITY_MISMATCH}
)
_GETS: Final[Mapping[Code, AgentGets | None]] = MappingProxyType(
    {
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
)
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
        severity=severity or MEANINGS[code].severity,
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


def counted(count: int, noun: str, plural: str = "") -> str:
    """Write a number of things: `1 chunk`, `1,204 chunks`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Iterable[str], shown: int = 3) -> str:
    """Write the first names of a list, and how many more there are."""
    every = tuple(names)
    more = f" and {len(every) - shown:,} more" if len(every) > shown else ""
    return safe_line(", ".join(every[:shown]) + more)
