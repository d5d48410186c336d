"""Time against size: no regular expression and no scanner takes more than linear time.

Every pattern of the package is run on texts made of its own parts, doubled; every scanner of text
that others wrote on repetitions of the signs that mean something to it. CPU time is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from time import perf_counter

from tests.trust.growth_measure import LAST, Pump, worst
from tests.trust.growth_patterns import Expression, expressions, pumps_of
from tests.trust.growth_scanners import SCANNERS, Scanner
from tests.trust.report import Options, Outcome

REPEAT = "python -m tests.trust growth"


def run(options: Options) -> Iterator[Outcome]:
    """The patterns, then the scanners, one outcome each."""
    started = perf_counter()
    found, unknown = expressions()
    tried, failed = 0, list(unknown)
    for one in found:
        count, lines = try_expression(one, every=1)
        tried += count
        failed += [f"{one.place} {one.pattern.pattern[:60]!a}: {line}" for line in lines]
    facts = {"patterns": len(found), "seconds": round(perf_counter() - started)}
    yield Outcome("growth of regular expressions", tried, tuple(failed), facts, REPEAT)
    started = perf_counter()
    tried, failed = 0, []
    for scanner in SCANNERS:
        count, lines = try_scanner(scanner, every=1)
        tried += count
        failed += [f"{scanner.name}: {line}" for line in lines]
    facts = {"scanners": len(SCANNERS), "seconds": round(perf_counter() - started)}
    yield Outcome("growth of scanners", tried, tuple(failed), facts, REPEAT)


def try_expression(one: Expression, *, every: int, last: int = LAST) -> tuple[int, list[str]]:
    """Run a pattern on every so manieth of its hard texts."""
    return worst(_work(one), _some(pumps_of(one.pattern), every), last=last)


def try_scanner(scanner: Scanner, *, every: int, last: int = LAST) -> tuple[int, list[str]]:
    """Run a scanner on every so manieth of its hard texts."""
    return worst(scanner.work, _some(scanner.pumps(), every), last=min(last, scanner.most))


def _some(pumps: list[Pump], every: int) -> list[Pump]:
    return pumps[::every]


def _work(one: Expression) -> Callable[[str], object]:
    """What is done with a pattern: tried at one place, or looked for everywhere."""
    pattern: re.Pattern[str] = one.pattern
    if one.methods == {"fullmatch"}:
        return pattern.fullmatch
    if one.methods == {"match"}:
        return pattern.match
    if one.methods and one.methods <= {"match", "fullmatch"}:
        return lambda text: (pattern.match(text), pattern.fullmatch(text))
    return lambda text: sum(1 for _ in pattern.finditer(text))
