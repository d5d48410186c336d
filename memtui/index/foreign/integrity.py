"""SQLite's own check of a foreign database, as far as its size allows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memtui.index.database import DatabaseError
from memtui.index.foreign.findings import Code, finding
from memtui.index.foreign.opening import Opened
from memtui.model.status import Finding

MAX_BYTES: Final = 256 * 2**20
"""Larger databases are checked only when that is asked for; about 1 s."""
_UNKNOWN_MODULE: Final = "no such module"


@dataclass(frozen=True, slots=True)
class Integrity:
    """`ok`, the first thing that is wrong, or why nothing was checked."""

    text: str
    findings: tuple[Finding, ...] = ()


def check_integrity(opened: Opened, *, deep: bool) -> Integrity:
    """Run `quick_check` over the whole file, or, beyond `MAX_BYTES`, over two small tables.

    The search index of FTS5 is part of the check.
    """
    stamp = opened.fingerprint.database
    size = stamp.size if stamp is not None else 0
    if deep or size <= MAX_BYTES:
        wrong = _quick_check(opened, None)
        checked = "ok"
    else:
        layout = opened.layout
        wrong = _quick_check(opened, layout.meta) or _quick_check(opened, layout.files)
        checked = f"{layout.meta} and {layout.files} ok; not run on all of {size:,} bytes"
    if wrong is None:
        return Integrity(checked)
    text = f"{opened.path} is damaged: {wrong}; openclaw memory index --force builds it again"
    return Integrity(wrong, (finding(Code.DAMAGED, text, [wrong]),))


def _quick_check(opened: Opened, table: str | None) -> str | None:
    pragma = "PRAGMA quick_check(1)" if table is None else f"PRAGMA quick_check({table})"
    try:
        first = str(opened.connection.execute(pragma).fetchall()[0][0])
    except DatabaseError as error:
        if _UNKNOWN_MODULE not in str(error):
            raise
        # Tables of extensions that are not loaded here are none of SQLite's business.
        return None
    return None if first == "ok" else first.replace("\n", " ")
