"""Findings about an OpenClaw index; their codes and words are in `openclaw-findings.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from memtui.data import read_table
from memtui.model.status import AgentGets, Finding, Severity, Truth
from memtui.settings.openclaw.releases import known_release
from memtui.text.sanitize import counted, safe_line

MAX_NAMES: Final = 200
PAUSING_RELEASES: Final = frozenset({"2026.7", "2026.9"})
"""Whose search returns nothing while the index does not fit the configuration."""

_PAUSED_BY: Final = frozenset({"identity_missing", "identity_unreadable", "identity_mismatch"})
_GETS: Final[Mapping[str, AgentGets | None]] = {
    "configuration_unreadable": None,
    "search_disabled": "nothing",
    "qmd_backend": "other",
    "other_database_read": "other",
    "identity_missing": "nothing",
    "identity_unreadable": "nothing",
    "identity_mismatch": "nothing",
    "identity_newer": None,
    "keyword_only_served": "keywords",
}
"""What counts first comes first."""


catalogue: Final = partial(read_table, "openclaw-findings.toml")
"""Read severity, words and query of every finding, by its code."""


class Findings:
    """Collects the findings of one examination, in order."""

    def __init__(self) -> None:
        self.items: list[Finding] = []

    def add(
        self,
        code: str,
        names: Iterable[str] = (),
        *,
        form: str = "text",
        count: int | None = None,
        severity: Severity | None = None,
        **values: Any,
    ) -> None:
        """Add one finding, safe to show; nothing where its words are about things and none is.

        `form` names the words where a code has several, `values` what they mention. `count` is
        that of `names` when it is not given; names beyond `MAX_NAMES` are counted and left out.
        """
        entry, every = catalogue()[code], tuple(names)
        words = entry[form]
        if not every and count is None and ("{things}" in words or "{names}" in words):
            return
        count = len(every) if count is None else count
        things = counted(count, entry.get("noun", ""), entry.get("plural", ""))
        message = words.format(things=things, names=listed(every), **values)
        self.items.append(
            Finding(
                code=code,
                severity=severity or Severity(entry["severity"]),
                message=safe_line(message),
                names=tuple(safe_line(name) for name in every[:MAX_NAMES]),
                count=count,
            )
        )


def agent_gets(truth: Truth, release: str) -> tuple[AgentGets | None, str]:
    """Return what the agent's own search returns, and the code that keeps it from the same as here.

    `None` where that is not known: the configuration cannot be read, or the index is newer than
    memtui. Raises `ValueError` for a release without a profile.
    """
    pausing = known_release(release) in PAUSING_RELEASES
    codes = {finding.code for finding in truth.findings}
    for code, gets in _GETS.items():
        if code in codes and (pausing or code not in _PAUSED_BY):
            return gets, code
    return "same", ""


def listed(names: Iterable[str], shown: int = 3) -> str:
    """Write the first names of a list, and how many more there are."""
    every = tuple(names)
    more = f" and {len(every) - shown:,} more" if len(every) > shown else ""
    return safe_line(", ".join(every[:shown]) + more)
