"""Style sheets parsed once for all applications of a test process.

An application parses its own style sheet and those of its widgets as it starts: a third of the
processor's time of most tests of a screen. Rules are not changed once they are parsed, and they
depend on nothing but the source, where it stands, and the theme's variables.
"""

from __future__ import annotations

from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

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
