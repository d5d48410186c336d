"""How a leg over another program's index came off."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from memtui.index.database import DatabaseError, Interrupted, fault
from memtui.model import LegState, LegStatus, Reason
from memtui.retrieval.openclaw.keyword import KeywordAnswer
from memtui.text.sanitize import safe_line
from memtui.text.tokens import MAX_QUERY_CHARS


def keyword_state(answer: KeywordAnswer, tokenizer: str, started: float) -> LegState:
    """The state of a keyword leg that answered; `started` is of `perf_counter`, in s."""
    facts: dict[str, float | int | str | None] = {
        "match": answer.match or "",
        "substrings": " ".join(answer.substrings),
        "keywords": " ".join(answer.keywords),
        "tokenizer": tokenizer,
    }
    if answer.refusal and not answer.hits:
        return replace(_refused(answer.refusal, started), facts=facts)
    elapsed = (perf_counter() - started) * 1000
    if answer.match is None and not answer.substrings and not answer.keywords:
        detail = "no letter or digit in the query"
        return LegState(LegStatus.SKIPPED, Reason.NO_TERMS, detail, elapsed, facts)
    notes = []
    if answer.shortened:
        notes.append(f"only the first {MAX_QUERY_CHARS} characters of the query are searched")
    if answer.refusal:
        notes.append(f"a part was refused: {safe_line(answer.refusal)}")
    return LegState(LegStatus.OK, Reason.OK, "; ".join(notes), elapsed, facts)


def failed(error: DatabaseError, started: float) -> LegState:
    """The state of a leg that SQLite refuses; raises the error when it is not about the query."""
    if isinstance(error, Interrupted) or fault(error) is not None:
        raise error
    return _refused(str(error), started)


def _refused(reason: str, started: float) -> LegState:
    """The state of a leg that fails softly, as it does in the program."""
    elapsed = (perf_counter() - started) * 1000
    return LegState(LegStatus.FAILED, Reason.INDEX_FAILED, safe_line(reason), elapsed)
