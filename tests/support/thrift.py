"""What a test run would pay for again and again, paid for once: no test is another one for it."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

_MEMORY = Path("/dev/shm")
_ROOM = 4 * 2**30
"""Bytes that have to be free in memory: a run needs a fraction of it at a time."""
_YOUNG_OBJECTS = 300_000


def keep_compiled() -> None:
    """Write compiled modules, whatever the environment says.

    Otherwise every test process, and every program that a test starts, compiles all of them.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def work_in_memory() -> None:
    """Put temporary files into memory where there is room: a disk is waited for at every commit.

    Not where `TMPDIR` says another place, nor where programs cannot be run from.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    facts = os.statvfs(_MEMORY)
    if facts.f_flag & os.ST_NOEXEC or facts.f_bavail * facts.f_frsize < _ROOM:
        return
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None


def collect_seldom() -> None:
    """Look for garbage after so many new objects; an application alone makes thousands."""
    gc.set_threshold(_YOUNG_OBJECTS, 5, 5)


def multiply_on_one_core() -> None:
    """Multiply matrices on one thread, as the program does: the other cores have tests to run."""
    import numpy as np

    threadpool_limits(1, user_api="blas")
    assert np, "what is not loaded has no threads to limit"


_parse_rules = Stylesheet._parse_rules
_by_variables: dict[frozenset[tuple[str, str]], dict[tuple[Any, ...], list[RuleSet]]] = {}


def _parse_rules_once(
    self: Stylesheet,
    css: str,
    read_from: tuple[str, str],
    is_default_rules: bool = False,
    tie_breaker: int = 0,
    scope: str = "",
) -> list[RuleSet]:
    parsed = _by_variables.setdefault(frozenset(self._variables.items()), {})
    key = (css, read_from, is_default_rules, tie_breaker, scope)
    rules = parsed.get(key)
    if rules is None:
        rules = _parse_rules(self, css, read_from, is_default_rules, tie_breaker, scope)
        if not any(rule.errors for rule in rules):
            parsed[key] = rules
    return rules


def parse_once() -> None:
    """Let every application of this process share what is parsed."""
    Stylesheet._parse_rules = _parse_rules_once  # type: ignore[method-assign]
    # A rule's own hash is its identity as well, told by a function in Python: tens of thousands
    # of calls for each application.
    RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]
