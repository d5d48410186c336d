"""The closed sets of names: sources, legs, stages, reasons."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

NOTES, CONVERSATIONS = "memory", "sessions"
"""The sources of files and chunks, in every index."""


class Leg(StrEnum):
    """A way of finding candidates."""

    VECTOR = "vector"
    KEYWORD = "keyword"


class Stage(StrEnum):
    """A step of the ranking pipeline; the order in which they run is `Ranking.stages`."""

    FUSION = "fusion"
    CONTEXT = "context"
    IDENTITY = "identity"
    DECAY = "decay"
    IMPORTANCE = "importance"
    PROJECT = "project"
    TIERS = "tiers"
    RERANK = "rerank"
    DEDUP = "dedup"
    MIN_SCORE = "min_score"
    MMR = "mmr"
    EXACT_PATH = "exact_path"
    CUT = "cut"


class Reason(StrEnum):
    """The closed set of reason codes: why a file, a leg, a chunk or a stage is as it is."""

    OK = "ok"
    # files that are not indexed
    SYMLINK = "symlink"
    IGNORED = "ignored"
    NOT_REGULAR = "not_regular"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    NOT_TEXT = "not_text"
    DUPLICATE_FILE = "duplicate_file"
    OUTSIDE_ROOT = "outside_root"
    VANISHED = "vanished"
    # transcripts that are not, or not wholly, indexed
    NOT_A_TRANSCRIPT = "not_a_transcript"
    NO_MESSAGES = "no_messages"
    GENERATED_RUN = "generated_run"
    ARCHIVE_NOT_READ = "archive_not_read"
    MALFORMED_LINES = "malformed_lines"
    LINE_TOO_LONG = "line_too_long"
    # chunks that are not sent to a service
    HOLDS_CREDENTIAL = "holds_credential"
    # legs that were not asked, or could not answer
    EMPTY_QUERY = "empty_query"
    ONLY_STOP_WORDS = "only_stop_words"
    NO_TERMS = "no_terms"
    ONLY_FILTERS = "only_filters"
    NARROWED = "narrowed"
    PHRASE_RELAXED = "phrase_relaxed"
    QUERY_TOO_SHORT = "query_too_short"
    ZERO_QUERY_VECTOR = "zero_query_vector"
    SCRIPT_NOT_SUPPORTED = "script_not_supported"
    DISABLED = "disabled"
    NO_INDEX = "no_index"
    NO_VECTORS = "no_vectors"
    PENDING = "pending"
    PROVIDER_FAILED = "provider_failed"
    FALLBACK = "fallback"
    DIMENSIONS_DIFFER = "dimensions_differ"
    INDEX_FAILED = "index_failed"
    NOT_REPRODUCIBLE = "not_reproducible"
    NO_PIECES = "no_pieces"
    # where the date of a chunk came from
    FILE_NAME = "file_name"
    FRONT_MATTER = "front_matter"
    FILE_TIME = "file_time"
    EVERGREEN = "evergreen"
    NO_DATE = "no_date"
    # chunks that were dropped
    OUTSIDE_CANDIDATES = "outside_candidates"
    DUPLICATE_TEXT = "duplicate_text"
    BELOW_MIN_SCORE = "below_min_score"
    CUT_AT_K = "cut_at_k"
    OTHER_PROJECT = "other_project"
    # why a leg ranks a chunk nowhere
    NOT_MATCHED = "not_matched"
    PATH_ALONE = "path_alone"
    FILTERED = "filtered"
    NO_VECTOR = "no_vector"
    NOT_INDEXED = "not_indexed"
    TOO_MANY = "too_many"
    # why a place is not a candidate
    NO_FILE = "no_file"
    NOT_A_NOTE = "not_a_note"
    NOT_YET_INDEXED = "not_yet_indexed"
    STALE = "stale"
    NO_CHUNK = "no_chunk"
    NO_CHUNK_AT_LINE = "no_chunk_at_line"
    TERM_MISSING = "term_missing"
    TOKENIZER_DROPS = "tokenizer_drops"
    OTHER_MODEL = "other_model"
    ZERO_VECTOR = "zero_vector"
    PUSHED_DOWN = "pushed_down"
    # what a stage did
    RELAXED = "relaxed"
    FREE_PLACE = "free_place"
    EXACT_PATH = "exact_path"
    SUBSTRING_ONLY = "substring_only"
    REDUNDANT = "redundant"
    FIRST = "first"


class Failure(StrEnum):
    """The closed set of ways in which an embedding provider fails."""

    NOT_INSTALLED = "not_installed"
    NO_FILE = "no_file"
    BROKEN_FILE = "broken_file"
    NO_KEY = "no_key"
    BAD_SETTING = "bad_setting"
    # what a service answers
    KEY_REFUSED = "key_refused"
    FORBIDDEN = "forbidden"
    NO_MODEL = "no_model"
    TOO_LARGE = "too_large"
    BAD_REQUEST = "bad_request"
    RATE_LIMITED = "rate_limited"
    SERVICE_DOWN = "service_down"
    REDIRECTED = "redirected"
    BAD_ANSWER = "bad_answer"
    DIMENSIONS_DIFFER = "dimensions_differ"
    # what happens on the way
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CUT = "cut"
    # the model itself
    MODEL_FAILED = "model_failed"
    CLOSED = "closed"

    @property
    def is_passing(self) -> bool:
        """True if the same request may succeed a little later, with nothing changed here."""
        return self in (
            *(Failure.RATE_LIMITED, Failure.SERVICE_DOWN, Failure.BAD_ANSWER),
            *(Failure.TIMEOUT, Failure.UNREACHABLE, Failure.CUT),
        )


Numbers = Mapping[str, float | int | str | None]
