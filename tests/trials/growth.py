"""Every regular expression of the package, and texts that are hard for it.

They are found twice: in the source, where `re` is called, and in the modules, where what was
compiled is held. A call whose pattern is neither a constant nor held by its module has to be given
an example in `MADE_AT_RUN_TIME`; without one the trial fails.
"""

from __future__ import annotations

import ast
import importlib
import io
import pkgutil
import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from functools import cache
from itertools import pairwise, permutations
from pathlib import Path
from time import perf_counter, thread_time
from types import FrameType, ModuleType
from typing import Any, Final

import memtui
from memtui.embedding.services import _families
from memtui.memory import chunking
from memtui.memory.care.lines import note_lines
from memtui.memory.care.links import NoteNames, broken_links
from memtui.memory.care.patterns import load_patterns
from memtui.memory.care.rules import credentials, dated_facts, long_lines
from memtui.memory.documents import front_matter
from memtui.memory.paths import name_filter
from memtui.memory.transcripts.generated import normalise, wrap
from memtui.memory.transcripts.stream import raw_lines
from memtui.model import Document, SourceFile
from memtui.retrieval.marks import match_spans, snippet
from memtui.retrieval.passages import sentences
from memtui.retrieval.query import FileFilter, Filters, parse_query
from memtui.settings.files import parse_config
from memtui.settings.toml import key_lines
from memtui.text.redact import Rule, openclaw_redact, redact
from memtui.text.sanitize import safe
from memtui.text.tokens import index_text
from memtui.tui.highlight import code_pieces, display_line
from memtui.tui.screens.browse.markdown import headings
from tests.trials.frame import Case, Options

_CALLS: Final = frozenset(
    {"compile", "sub", "subn", "match", "search", "split", "findall", "finditer", "fullmatch"}
)
_MOST_PUMPS: Final = 60
_NEAR_MISSES: Final = ("", "\x01", "!", "a", "\n")
_GLOBS: Final = (
    *("*a*b*a*", "**/*.md", "a/**/b/*/c", "*[ab]?*[!x]*", "*?*?*?*a", "**/a/**/b/**/a/x"),
    *("**/**/**/**/x", "*/**/a/**/a/**"),
)
BOUNDED: Final[Mapping[str, str]] = {
    "memtui.retrieval.passages._LAST_WORD": "is given the 16 characters before a full stop",
}
"""Patterns that are only tried on texts of a few characters, and why."""
MADE_AT_RUN_TIME: Final[Mapping[str, tuple[str, Callable[[], Iterable[re.Pattern[str]]]]]] = {
    "memtui.embedding.services:templates_of": (
        "search",
        lambda: [re.compile(rf"(?<![a-z0-9]){family['name']}") for family in _families()],
    ),
    "memtui.memory.chunking:_patterns": ("finditer", lambda: chunking._patterns()[:2]),
    "memtui.memory.care.patterns:load_patterns": (
        "search",
        lambda: load_patterns("secrets").values(),
    ),
    "memtui.memory.paths:name_filter": ("match", lambda: [name_filter(_GLOBS)]),
    "memtui.retrieval.query:__init__": (
        "match",
        lambda: FileFilter(Filters(path_globs=_GLOBS))._globs,
    ),
    "memtui.tui.screens.sessions.turn_view:__init__": (
        "finditer",
        lambda: [re.compile(re.escape(text), re.IGNORECASE) for text in ("aa", "aab")],
    ),
}
"""Of a function that compiles what it is given: `module:function` -> its use, and examples."""
COMPILED_WHEN_USED: Final = frozenset({"memtui.text.redact"})
"""Modules that hand on `re.compile` itself; the patterns are those of every `Rule` that is held."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A pattern, where it stands, and how it is used."""

    place: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    """How it is used; empty: in any way."""


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of the package that can be imported here."""
    names = [one.name for one in pkgutil.walk_packages(memtui.__path__, "memtui.")]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def expressions() -> tuple[list[Expression], list[str]]:
    """Every pattern of the package once, and the calls whose pattern is not known."""
    found: dict[tuple[str, int], Expression] = {}
    unknown: list[str] = []
    for module in modules():
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        if re.search(r"^\s*import re$", source, re.MULTILINE) is None:
            continue
        tree = ast.parse(source)
        used = _methods(tree)
        held = list(_held(module))
        if _hands_on(tree) and module.__name__ not in COMPILED_WHEN_USED:
            unknown.append(f"{module.__name__}: hands on a function of re")
        for name, pattern in held:
            methods = frozenset(used.get(name, ()))
            _add(found, Expression(f"{module.__name__}.{name}", pattern, methods))
        for call, function in _calls(tree):
            place = f"{module.__name__}:{call.lineno}"
            given = MADE_AT_RUN_TIME.get(f"{module.__name__}:{function}")
            for pattern in _of_call(call, module, function, bool(held), unknown, place):
                if isinstance(pattern.pattern, str):
                    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
                    if method == "compile" and (pattern.pattern, pattern.flags) in found:
                        continue
                    methods = frozenset({given[0]} if given else {method} - {"compile"})
                    _add(found, Expression(place, pattern, methods))
    return [one for one in found.values() if one.place not in BOUNDED], unknown


def _add(found: dict[tuple[str, int], Expression], one: Expression) -> None:
    """A pattern that is at several places is used in the ways of all of them."""
    key = (one.pattern.pattern, one.pattern.flags)
    known = found.get(key)
    if known is not None:
        either = known.methods | one.methods if known.methods and one.methods else frozenset()
        one = replace(known, methods=either)
    found[key] = one


def _methods(tree: ast.Module) -> dict[str, set[str]]:
    """What is called on each name of a module, such as `match` on `_WORD`."""
    used: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
    passed = {
        node.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for node in call.args
        if isinstance(node, ast.Name)
    }
    # What is handed on may be used in any way.
    return {name: methods for name, methods in used.items() if name not in passed}


def _held(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, value in vars(module).items():
        if not name.startswith("__"):
            for pattern in _patterns_in(value, 4):
                if isinstance(pattern.pattern, str):
                    yield name, pattern


def _patterns_in(value: Any, depth: int) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth == 0 or isinstance(value, str | bytes | type | ModuleType):
        return
    elif isinstance(value, Mapping):
        for item in [*value.keys(), *value.values()]:
            yield from _patterns_in(item, depth - 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _patterns_in(item, depth - 1)
    elif isinstance(value, Rule):
        yield value.pattern
    elif is_dataclass(value):
        for field in fields(value):
            yield from _patterns_in(getattr(value, field.name, None), depth - 1)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call of `re`, with the name of the function around it."""

    def inside(node: ast.AST, function: str) -> Iterator[tuple[ast.Call, str]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call) and _is_of_re(node.func):
            yield node, function
        for child in ast.iter_child_nodes(node):
            yield from inside(child, function)

    yield from inside(tree, "")


def _is_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in _CALLS
    )


def _hands_on(tree: ast.Module) -> bool:
    """Tell whether a function of `re` is passed somewhere, so that its patterns are not seen."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(_is_of_re(node) and id(node) not in called for node in ast.walk(tree))


def _of_call(
    call: ast.Call,
    module: ModuleType,
    function: str,
    holds: bool,
    unknown: list[str],
    place: str,
) -> list[re.Pattern[str]]:
    """The patterns of one call; what is compiled for the module's own use is held by it."""
    given = MADE_AT_RUN_TIME.get(f"{module.__name__}:{function}")
    if given is not None and not isinstance(call.args[0], ast.Constant):
        return list(given[1]())
    try:
        pattern, flags = _value(call.args[0], module), 0
        for extra in [*call.args[1:], *(keyword.value for keyword in call.keywords)]:
            value = _value(extra, module, otherwise=0)
            flags |= value if isinstance(value, re.RegexFlag) else 0
    except NameError:
        # In a comprehension of a module, or in a function that the module calls for itself.
        if not (holds and (not function or function in _BUILDERS)):
            unknown.append(f"{place}: the pattern is made at run time: {ast.unparse(call)[:80]}")
        return []
    return [re.compile(pattern, flags)] if isinstance(pattern, str) else []


_BUILDERS: Final = frozenset({"_rule", "_scale", "_pattern"})
"""Functions whose patterns are all held by the modules that call them while they are imported."""


def _value(node: ast.expr, module: ModuleType, otherwise: Any = None) -> Any:
    code = compile(ast.Expression(node), str(module.__file__), "eval")
    try:
        return eval(code, vars(module))
    except NameError:
        if otherwise is None:
            raise
        return otherwise


# --- hard texts -----------------------------------------------------------------------------------


def pumps_of(pattern: re.Pattern[str]) -> list[Pump]:
    """Families of texts that nearly match, made of the pattern's own parts."""
    tree = re._parser.parse(pattern.pattern, pattern.flags)  # type: ignore[attr-defined]
    parts: dict[str, None] = {}
    beginnings: dict[str, None] = {"": None}
    for before, body in _repeats(list(tree), ""):
        parts.setdefault(body)
        beginnings.setdefault(before)
    for piece in _pieces(list(tree)):
        parts.setdefault(piece)
    whole = _example(list(tree))
    parts.setdefault(whole)
    for common in ("a", " ", "\n", "0", "-", "_ ", '"'):
        parts.setdefault(common)
    found: list[Pump] = []
    for begin in list(beginnings)[:4]:
        for part in [one for one in parts if one][:12]:
            found += [Pump(part, begin, after) for after in _NEAR_MISSES]
    pairs = [one for one in parts if one][:5]
    found += [Pump(one + two, "", "\x01") for one in pairs for two in pairs if one != two]
    return found[: _MOST_PUMPS * 4]


def _repeats(items: Iterable[Any], before: str) -> Iterator[tuple[str, str]]:
    """What is repeated in a pattern, each with an example of what stands before it."""
    for operation, value in items:
        name = str(operation)
        if "REPEAT" in name:
            body = list(value[2])
            yield before, _example(body)
            yield from _repeats(body, before)
        for inner in _inner(name, value):
            yield from _repeats(inner, before)
        before += _example([(operation, value)])


def _inner(name: str, value: Any) -> list[list[Any]]:
    if name == "SUBPATTERN":
        return [list(value[3])]
    if name == "BRANCH":
        return [list(option) for option in value[1]]
    if name in ("ASSERT", "ASSERT_NOT"):
        return [list(value[1])]
    return [list(value)] if name == "ATOMIC_GROUP" else []


def _pieces(items: Iterable[Any]) -> Iterator[str]:
    """An example of every part of a pattern, and of every option of its choices."""
    for operation, value in items:
        yield _example([(operation, value)])
        name = str(operation)
        if name == "IN":
            yield from list(_members(value))[:6]
        if "REPEAT" in name:
            yield from _pieces(list(value[2]))
        for inner in _inner(name, value):
            yield _example(inner)
            yield from _pieces(inner)


_CATEGORIES: Final = {
    "CATEGORY_DIGIT": "0",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_DIGIT": "x",
    "CATEGORY_NOT_SPACE": "x",
    "CATEGORY_NOT_WORD": "-",
}


def _example(items: Iterable[Any]) -> str:
    """A short text that the items of a pattern match, but for what looks around."""
    text = ""
    for operation, value in items:
        name = str(operation)
        if name == "LITERAL":
            text += chr(value)
        elif name in ("ANY", "NOT_LITERAL"):
            text += "x" if name == "ANY" or value != ord("x") else "y"
        elif name == "IN":
            text += next(_members(value), "x")
        elif "REPEAT" in name:
            text += _example(list(value[2])) * max(1, min(int(value[0]), 300))
        elif name in ("SUBPATTERN", "ATOMIC_GROUP"):
            text += _example(_inner(name, value)[0])
        elif name == "BRANCH":
            text += _example(list(value[1][0]))
    return text


def _members(value: Any) -> Iterator[str]:
    """Characters of a set; of one that is negated, some that are not in it."""
    items = [(str(operation), inner) for operation, inner in value]
    if items and items[0][0] == "NEGATE":
        inside = re.compile(_source(items[1:]))
        yield from (one for one in 'xa 0-"\\\n' if not inside.match(one))
        return
    for name, inner in items:
        if name == "LITERAL":
            yield chr(inner)
        elif name == "RANGE":
            yield chr(inner[0])
            yield chr(inner[1])
        elif name == "CATEGORY":
            yield _CATEGORIES.get(str(inner), "x")


def _source(items: Iterable[tuple[str, Any]]) -> str:
    written = ""
    for name, inner in items:
        if name == "LITERAL":
            written += re.escape(chr(inner))
        elif name == "RANGE":
            written += f"{re.escape(chr(inner[0]))}-{re.escape(chr(inner[1]))}"
        elif name == "CATEGORY":
            kind = str(inner).rsplit("_", 1)[-1][0].lower()
            written += f"\\{kind.upper() if 'NOT' in str(inner) else kind}"
    return f"[{written}]" if written else "(?!)"


FIRST: Final = 512
LAST: Final = 1 << 15
"""Characters of the largest input."""
QUICK_SECONDS: Final = 0.012
"""What takes less than this for the largest input is linear: the square of it would take seconds."""
ENOUGH_SECONDS: Final = 0.05
STEEP: Final = 3.0
"""Twice the input takes twice the time when it is linear, and four times for its square."""
_TIMES: Final = 3
_MOST_SECONDS: Final = 8


class TooLong(Exception):
    """Work that was stopped."""


@dataclass(frozen=True, slots=True)
class Pump:
    """A family of inputs: `before`, then `part` again and again, then `after`."""

    part: str
    before: str = ""
    after: str = ""

    def text(self, size: int) -> str:
        """The input of about so many characters."""
        return self.before + self.part * max(1, size // len(self.part)) + self.after

    def shown(self) -> str:
        """The family in one line, as Python."""
        return f"{self.before[:40]!a} + {self.part[:40]!a} * n + {self.after[:40]!a}"


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise `TooLong` in the block after so many seconds; main thread only."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def steepness(
    work: Callable[[str], object], pump: Pump, *, last: int = LAST
) -> tuple[float, float, int] | None:
    """What a doubling costs at the end, the seconds there and the size; `None` when it is linear.

    Raises nothing: what does not come to an end has a cost of infinity.
    """
    try:
        with stopped_after(_MOST_SECONDS * 4):
            return _steepness(work, pump, last)
    except TooLong:
        return float("inf"), float("inf"), 0


def _steepness(
    work: Callable[[str], object], pump: Pump, last: int
) -> tuple[float, float, int] | None:
    size = FIRST
    while size < last:
        taken = _seconds(work, pump.text(size), 1)
        if taken > ENOUGH_SECONDS:
            break
        size *= 4 if taken < ENOUGH_SECONDS / 40 else 2
    size = min(size, last)
    if _seconds(work, pump.text(size), 1) < QUICK_SECONDS:
        return None
    times = [_seconds(work, pump.text(size // part), _TIMES) for part in (4, 2, 1)]
    costs = [after / max(before, 1e-6) for before, after in pairwise(times)]
    if min(costs) < STEEP or times[-1] < QUICK_SECONDS:
        return None
    return min(costs), times[-1], size


def _seconds(work: Callable[[str], object], text: str, times: int) -> float:
    """The least CPU time of some tries."""
    best = float("inf")
    for _ in range(times):
        started = thread_time()
        work(text)
        best = min(best, thread_time() - started)
    return best


def worst(
    work: Callable[[str], object], pumps: Sequence[Pump], *, last: int = LAST
) -> tuple[int, list[str]]:
    """How many families were tried, and a line for the first that is steep."""
    for number, pump in enumerate(pumps, start=1):
        found = steepness(work, pump, last=last)
        if found is not None and (found := steepness(work, pump, last=last)) is not None:
            cost, seconds, size = found
            told = f"x{cost:.1f} a doubling, {seconds * 1000:.0f} ms at {size:,} characters"
            return number, [f"{told}: {pump.shown()}"]
    return len(pumps), []


_SIGNS: Final = (
    *("a", " ", "\n", "-", "#", "`", "*", "_", "[", "]", "(", ")", "<", ">", "|", "\\", '"', "'"),
    *("你", "\u0301", "😀", "{", "}", ".", "/", ":", "=", "0", "!", "~", "\t", "&"),
    *("![", "](", "[[", "**", "```\n", "> ", "- ", "1. ", "---\n", "2026-11-22 ", "http://a "),
    *("password: ", '"token":"', "-----BEGIN PRIVATE KEY-----", "sk-", "since ", "<!--", "<a "),
)
_QUERY_SIGNS: Final = ('"', "a", " ", "path:", "*", "東", "(", "after:", "\u0301", "ữ")
_TOML_SIGNS: Final = ("a", ".", "=", "[", "]", "{", "}", '"', "'", "#", "\n", ",", "a=1\n", "[a]\n")


@dataclass(frozen=True, slots=True)
class Scanner:
    """One function of the package; `most` characters are the largest input that is tried."""

    name: str
    work: Callable[[str], object]
    signs: tuple[str, ...] = _SIGNS
    most: int = LAST

    def pumps(self) -> list[Pump]:
        """Repetitions of every sign, of every two, and of each behind another."""
        singles = [Pump(one) for one in self.signs]
        pairs = [Pump(one + two) for one, two in permutations(self.signs, 2)]
        behind = [Pump(one, two, "\nx") for one, two in permutations(self.signs[:34], 2)]
        return singles + pairs + behind


def _document(text: str) -> Document:
    file = SourceFile("a.md", Path("/m/a.md"), "memory", len(text), 0, 0)
    return Document(file, text, "0" * 64, None, None, None)


_TODAY: Final = date(2026, 11, 22)
_NAMES: Final = NoteNames()

SCANNERS: Final = (
    Scanner("sanitizing", safe),
    Scanner("masking", redact),
    Scanner("masking as OpenClaw", openclaw_redact),
    Scanner("chunking", lambda text: list(chunking.chunk_text(text, per_entry=True))),
    Scanner("text of the index", index_text),
    Scanner("front matter", front_matter),
    Scanner("sentences", sentences),
    Scanner("marks", lambda text: match_spans(text, ("a*", "exact phrase", "東京"))),
    Scanner("snippet", lambda text: snippet(text, ("a", "東"), 80)),
    Scanner("lines of a note", note_lines),
    Scanner("dated facts", lambda text: list(dated_facts(_document(text), _TODAY))),
    Scanner("links", lambda text: list(broken_links(_document(text), _NAMES))),
    Scanner("credentials", lambda text: list(credentials(_document(text)))),
    Scanner("long lines", lambda text: list(long_lines(_document(text), 400))),
    Scanner("headings", lambda text: headings(text.split("\n"))),
    Scanner("a line that is shown", display_line),
    Scanner("Markdown colours", lambda text: code_pieces([text], "markdown"), most=1 << 13),
    Scanner("a query", parse_query, _QUERY_SIGNS, most=4000),
    Scanner("configuration", lambda text: parse_config(Path("a.toml"), text.encode()), _TOML_SIGNS),
    Scanner("lines of keys", lambda text: key_lines('a = "' + text.replace('"', "") + '"\n')
            if "\n" not in text and "\\" not in text else None, _TOML_SIGNS),
    Scanner("folding", lambda text: list(wrap(normalise(text)))),
    Scanner("lines of a file", lambda text: list(raw_lines(io.BytesIO(text.encode()), limit=99))),
)  # fmt: skip


def run(options: Options) -> Iterator[Case]:
    """The patterns, then the scanners, one outcome each."""
    started = perf_counter()
    found, unknown = expressions()
    tried, failed = 0, list(unknown)
    for one in found:
        count, lines = try_expression(one, every=1)
        tried += count
        failed += [f"{one.place} {one.pattern.pattern[:60]!a}: {line}" for line in lines]
    facts = {"patterns": len(found), "seconds": round(perf_counter() - started)}
    yield Case("growth of regular expressions", failed, facts, tried)
    started = perf_counter()
    tried, failed = 0, []
    for scanner in SCANNERS:
        count, lines = try_scanner(scanner, every=1)
        tried += count
        failed += [f"{scanner.name}: {line}" for line in lines]
    facts = {"scanners": len(SCANNERS), "seconds": round(perf_counter() - started)}
    yield Case("growth of scanners", failed, facts, tried)


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
