"""Every regular expression of the package, and texts that are hard for it.

A module holds what it compiled when it was imported; the rest stands where its source calls `re`. A call whose pattern is neither a constant nor held by its module has to be given
an example in `MADE_AT_RUN_TIME`; without one the trial fails.
"""

from __future__ import annotations

import ast
import importlib
import io
import pkgutil
import re
import re._compiler as _compiler  # type: ignore[import-not-found]
import re._parser as _parser  # type: ignore[import-not-found]
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import date
from functools import cache
from itertools import islice, pairwise, permutations
from pathlib import Path
from time import perf_counter, thread_time
from types import FrameType, ModuleType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

import memtui
from memtui.data import read_table
from memtui.index.foreign.consistency import catalogue
from memtui.memory import chunking
from memtui.memory.care.rules import (
    NoteNames,
    broken_links,
    credentials,
    dated_facts,
    links_in,
    load_patterns,
    long_lines,
    note_lines,
)
from memtui.memory.documents import front_matter
from memtui.memory.passages import passages
from memtui.memory.paths import name_filter
from memtui.memory.transcripts.generated import normalise, wrap
from memtui.memory.transcripts.stream import raw_lines
from memtui.model import Document, SourceFile
from memtui.retrieval.marks import match_spans, snippet
from memtui.retrieval.query import parse_query, path_pattern
from memtui.settings.files import SettingsProblems, parse_config
from memtui.settings.toml import key_lines
from memtui.text.redact import Rule, openclaw_redact, redact
from memtui.text.sanitize import safe
from memtui.text.tokens import index_text
from memtui.tui.highlight import code_pieces, display_line
from memtui.tui.screens.browse.markdown import headings
from tests.trials.frame import Case, Fact, Options

_CALLS: Final = frozenset(
    {"compile", "sub", "subn", "match", "search", "split", "findall", "finditer", "fullmatch"}
)
_BUILDERS: Final = frozenset({"_rule", "_scale", "_pattern"})
"""Functions whose patterns are all held by the modules that call them while they are imported."""
_MOST_PUMPS: Final = 240
_NEAR_MISSES: Final = ("", "\x01", "!", "a", "\n")
_COMMON_PARTS: Final = ("a", " ", "\n", "0", "-", "_ ", '"')
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": "0",
    "CATEGORY_SPACE": " ",
    "CATEGORY_WORD": "a",
    "CATEGORY_NOT_DIGIT": "x",
    "CATEGORY_NOT_SPACE": "x",
    "CATEGORY_NOT_WORD": "-",
}
FIRST: Final = 512
LAST: Final = 1 << 15
"""Characters of the smallest and of the largest input."""
QUICK_SECONDS: Final = 0.012
"""What takes less than this for the largest input is linear: the square of it would take seconds."""
ENOUGH_SECONDS: Final = 0.05
STEEP: Final = 3.0
"""Twice the input takes twice the time when it is linear, and four times for its square."""
TRIES: Final = 3
MOST_SECONDS: Final = 32
_GLOBS: Final = (
    *("*a*b*a*", "**/*.md", "a/**/b/*/c", "*[ab]?*[!x]*", "*?*?*?*a", "**/a/**/b/**/a/x"),
    *("**/**/**/**/x", "*/**/a/**/a/**"),
)
BOUNDED: Final[Mapping[str, str]] = {
    "memtui.retrieval.passages._LAST_WORD": "is given the 16 characters before a full stop"
}
"""Patterns that are only tried on texts of a few characters, and why."""
MADE_AT_RUN_TIME: Final[Mapping[str, tuple[str, Callable[[], Iterable[re.Pattern[str]]]]]] = {
    "memtui.embedding.http:refusal": (
        "search",
        lambda: [
            re.compile(row["pattern"], re.IGNORECASE | re.ASCII)
            for row in read_table("service_failures.toml")["said"]
        ],
    ),
    "memtui.embedding.services:templates_of": (
        "search",
        lambda: [
            re.compile(rf"(?<![a-z0-9]){family['name']}")
            for family in read_table("model_families.toml")["family"]
        ],
    ),
    "memtui.index.foreign.audit:leftover_code": (
        "fullmatch",
        lambda: [
            re.compile(finding["file_name"].format("a\\.sqlite"), re.DOTALL)
            for finding in catalogue().values()
            if "file_name" in finding
        ],
    ),
    # Is given texts that end with the end of a tag, so that every beginning has one.
    "memtui.memory.transcripts.claude_code:_part_turn": ("sub", lambda: []),
    "memtui.memory.chunking:weight_classes": ("finditer", lambda: chunking.weight_classes()[:1]),
    "memtui.memory.care.rules:load_patterns": ("search", lambda: load_patterns("secrets").values()),
    "memtui.memory.paths:name_filter": ("match", lambda: [name_filter(_GLOBS)]),
    "memtui.ranking.stages:chunk_day": (
        "search",
        lambda: [
            re.compile(names["dated"], re.ASCII)
            for names in read_table("dates.toml").values()
            if "dated" in names
        ],
    ),
    "memtui.retrieval.query:path_pattern": ("search", lambda: list(map(path_pattern, _GLOBS))),
    "memtui.text.languages:stemmed_by": ("search", lambda: [re.compile("[\U0010f700-\U0010f71f]")]),
    "memtui.tui.screens.sessions.turn_view:marks": (
        "finditer",
        lambda: [re.compile(re.escape(text), re.IGNORECASE) for text in ("aa", "aab")],
    ),
}
"""Of a function that compiles what it is given: `module:function` -> its use, and examples."""
COMPILED_WHEN_USED: Final = frozenset({"memtui.text.redact"})
"""Modules that hand on `re.compile` itself; the patterns are those of every `Rule` that is held."""


class Expression(Struct, frozen=True):
    """A pattern, where it stands, and how it is used."""

    place: str
    pattern: re.Pattern[str]
    methods: frozenset[str]
    """How it is used; empty: in any way."""

    @property
    def key(self) -> tuple[str, int]:
        """What makes two patterns the same."""
        return self.pattern.pattern, self.pattern.flags

    def work(self) -> Callable[[str], object]:
        """Return what is done with it: tried at one place, or looked for everywhere."""
        pattern = self.pattern
        if self.methods == {"fullmatch"}:
            return pattern.fullmatch
        if self.methods == {"match"}:
            return pattern.match
        if self.methods and self.methods <= {"match", "fullmatch"}:
            return lambda text: (pattern.match(text), pattern.fullmatch(text))
        return lambda text: sum(1 for _ in pattern.finditer(text))


@cache
def modules() -> tuple[ModuleType, ...]:
    """Every module of the package that can be imported here."""
    names = [one.name for one in pkgutil.walk_packages(memtui.__path__, "memtui.")]
    return tuple(importlib.import_module(name) for name in names if not name.endswith("__main__"))


def expressions() -> tuple[list[Expression], list[str]]:
    """Every pattern of the package once, and the calls whose pattern is not known."""
    uses: dict[tuple[str, int], list[Expression]] = {}
    unknown: list[str] = []
    for module in modules():
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        if re.search(r"^\s*import re$", source, re.MULTILINE) is None:
            continue
        tree = ast.parse(source)
        methods = _methods(tree)
        held = [
            Expression(f"{module.__name__}.{name}", pattern, frozenset(methods.get(name, ())))
            for name, value in _values(module)
            for pattern in _patterns_in(value, 4)
        ]
        for one in held:
            uses.setdefault(one.key, []).append(one)
        called = set()
        for call, function in _calls(tree):
            called.add(id(call.func))
            assert isinstance(call.func, ast.Attribute)
            place = f"{module.__name__}:{call.lineno}"
            example = MADE_AT_RUN_TIME.get(f"{module.__name__}:{function}")
            is_compiled = call.func.attr == "compile"
            ways = frozenset() if is_compiled else frozenset({call.func.attr})
            if example is not None and not isinstance(call.args[0], ast.Constant):
                ways, patterns = frozenset({example[0]}), list(example[1]())
            elif (pattern := _pattern_of(call, module)) is not None:
                patterns = [pattern]
            else:
                # In a comprehension of a module, or in a function that the module calls for itself.
                if not held or (function and function not in _BUILDERS):
                    made = ast.unparse(call)[:80]
                    unknown.append(f"{place}: the pattern is made at run time: {made}")
                continue
            for one in (Expression(place, pattern, ways) for pattern in patterns):
                if not (is_compiled and one.key in uses):
                    uses.setdefault(one.key, []).append(one)
        hands_on = any(_is_of_re(node) and id(node) not in called for node in ast.walk(tree))
        if hands_on and module.__name__ not in COMPILED_WHEN_USED:
            unknown.append(f"{module.__name__}: hands on a function of re")
    joined = []
    for same in uses.values():
        # A pattern that is at several places is used in the ways of all of them.
        ways = frozenset().union(*(one.methods for one in same))
        methods_of_all = ways if all(one.methods for one in same) else frozenset()
        joined.append(replace(same[0], methods=methods_of_all))
    return [
        one for one in joined if one.place not in BOUNDED and isinstance(one.pattern.pattern, str)
    ], unknown


def _methods(tree: ast.Module) -> dict[str, set[str]]:
    """Return the attributes of each name of a module, such as `match` of `_WORD` or `_WORDS['one']`.

    A name that is an argument somewhere is left out: it may be used in any way.
    """
    used: dict[str, set[str]] = {}
    arguments: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Subscript):
            used.setdefault(ast.unparse(node.value), set()).add(node.attr)
        elif isinstance(node, ast.Call):
            arguments |= set(map(ast.unparse, node.args))
    return {name: methods for name, methods in used.items() if name not in arguments}


def _values(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield what a module holds by the name that its code gives it, of a table each value."""
    for name, value in vars(module).items():
        if isinstance(value, Mapping) and not name.startswith("__"):
            yield name, list(value)
            yield from ((f"{name}[{key!r}]", inner) for key, inner in value.items())
        elif not name.startswith("__"):
            yield name, value


def _patterns_in(value: Any, depth: int) -> Iterator[re.Pattern[str]]:
    inside: Iterable[Any] = ()
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, type) or depth == 0:
        return
    elif isinstance(value, Mapping):
        inside = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inside = value
    elif isinstance(value, Rule):
        inside = [value.pattern]
    elif is_dataclass(value) or isinstance(value, Struct):
        names = (
            [one.name for one in fields(value)] if is_dataclass(value) else value.__struct_fields__
        )
        inside = [getattr(value, name, None) for name in names]
    for item in inside:
        yield from _patterns_in(item, depth - 1)


def _calls(node: ast.AST, function: str = "") -> Iterator[tuple[ast.Call, str]]:
    """Yield every call of `re`, with the name of the function around it."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = node.name
    if isinstance(node, ast.Call) and _is_of_re(node.func):
        yield node, function
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, function)


def _is_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in _CALLS
    )


def _pattern_of(call: ast.Call, module: ModuleType) -> re.Pattern[str] | None:
    """Compile the pattern of a call; `None` when it is made at run time."""

    def value(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), str(module.__file__), "eval"), vars(module))

    flags = 0
    for extra in [*call.args[1:], *(keyword.value for keyword in call.keywords)]:
        # Other arguments, such as the text, may be known only to the function.
        with suppress(NameError):
            flag = value(extra)
            flags |= flag if isinstance(flag, re.RegexFlag) else 0
    try:
        return re.compile(value(call.args[0]), flags)
    except NameError:
        return None


class Pump(Struct, frozen=True):
    """A family of inputs: `before`, then `part` again and again, then `after`."""

    part: str
    before: str = ""
    after: str = ""

    def text(self, size: int) -> str:
        """Return the input of about so many characters."""
        return self.before + self.part * max(1, size // len(self.part)) + self.after

    def __str__(self) -> str:
        return f"{self.before[:40]!a} + {self.part[:40]!a} * n + {self.after[:40]!a}"


def pumps_of(pattern: re.Pattern[str]) -> list[Pump]:
    """Make families of texts that nearly match, of the pattern's own parts."""
    tree = list(_parser.parse(pattern.pattern, pattern.flags))
    repeats = list(_repeats(tree, ""))
    beginnings = dict.fromkeys(["", *(before for before, _ in repeats)])
    repeated = (body for _, body in repeats)
    parts = dict.fromkeys([*repeated, *_pieces(tree), _example(tree), *_COMMON_PARTS])
    parts.pop("", None)
    pumps = [
        Pump(part, begin, after)
        for begin in list(beginnings)[:4]
        for part in list(parts)[:12]
        for after in _NEAR_MISSES
    ]
    pairs = permutations(list(parts)[:5], 2)
    return [*pumps, *(Pump(one + two, "", "\x01") for one, two in pairs)][:_MOST_PUMPS]


def _repeats(items: Iterable[Any], before: str) -> Iterator[tuple[str, str]]:
    """Yield what is repeated in a pattern, behind an example of what stands before it."""
    for operation, value in items:
        if "REPEAT" in str(operation):
            yield before, _example(value[2])
            yield from _repeats(value[2], before)
        for part in _parts_of(operation, value):
            yield from _repeats(part, before)
        before += _example([(operation, value)])


def _pieces(items: Iterable[Any]) -> Iterator[str]:
    """Yield an example of every part of a pattern, and of every option of its choices."""
    for operation, value in items:
        yield _example([(operation, value)])
        if str(operation) == "IN":
            yield from islice(_members(value), 6)
        if "REPEAT" in str(operation):
            yield from _pieces(value[2])
        for part in _parts_of(operation, value):
            yield _example(part)
            yield from _pieces(part)


def _parts_of(operation: object, value: Any) -> Sequence[Any]:
    """Return the patterns inside an item that is no repetition."""
    match str(operation):
        case "SUBPATTERN":
            return [value[3]]
        case "BRANCH":
            return list(value[1])
        case "ASSERT" | "ASSERT_NOT":
            return [value[1]]
        case "ATOMIC_GROUP":
            return [value]
    return []


def _example(items: Iterable[Any]) -> str:
    """Return a short text that the items of a pattern match, but for what looks around."""
    text = ""
    for operation, value in items:
        match str(operation):
            case "LITERAL":
                text += chr(value)
            case "ANY":
                text += "x"
            case "NOT_LITERAL":
                text += "y" if value == ord("x") else "x"
            case "IN":
                text += next(_members(value), "x")
            case "SUBPATTERN" | "ATOMIC_GROUP" | "BRANCH":
                text += _example(_parts_of(operation, value)[0])
            case name if "REPEAT" in name:
                text += _example(value[2]) * max(1, min(int(value[0]), 300))
    return text


def _members(items: Sequence[tuple[object, Any]]) -> Iterator[str]:
    """Yield some characters of a set."""
    if str(items[0][0]) == "NEGATE":
        is_in_set = _compiler.compile(_parser.SubPattern(_parser.State(), [(_parser.IN, items)]))
        yield from (one for one in 'xa 0-"\\\n' if is_in_set.match(one))
        return
    for operation, value in items:
        match str(operation):
            case "LITERAL":
                yield chr(value)
            case "RANGE":
                yield from map(chr, value)
            case "CATEGORY":
                yield _CATEGORIES.get(str(value), "x")


def worst(
    work: Callable[[str], object], pumps: Sequence[Pump], *, last: int = LAST
) -> tuple[int, list[str]]:
    """Try families up to the first that is steep twice; their number, and a line for that one."""
    for number, pump in enumerate(pumps, start=1):
        if steepness(work, pump, last) is not None and (line := steepness(work, pump, last)):
            return number, [f"{line}: {pump}"]
    return len(pumps), []


def steepness(work: Callable[[str], object], pump: Pump, last: int) -> str | None:
    """Return what a doubling of the input costs at the end; `None` when it is linear.

    Main thread only: work that does not come to an end is stopped by a signal.
    """

    def seconds(size: int, times: int) -> float:
        """Return the least CPU time of some tries."""
        text, best = pump.text(size), float("inf")
        for _ in range(times):
            started = thread_time()
            work(text)
            best = min(best, thread_time() - started)
        return best

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        size = FIRST
        while size < last and (taken := seconds(size, 1)) <= ENOUGH_SECONDS:
            size *= 4 if taken < ENOUGH_SECONDS / 40 else 2
        size = min(size, last)
        if seconds(size, 1) < QUICK_SECONDS:
            return None
        times = [seconds(size // part, TRIES) for part in (4, 2, 1)]
        cost = min(after / max(first, 1e-6) for first, after in pairwise(times))
        if cost < STEEP or times[-1] < QUICK_SECONDS:
            return None
        return f"x{cost:.1f} a doubling, {times[-1] * 1000:.0f} ms at {size:,} characters"
    except TimeoutError:
        return f"no end within {MOST_SECONDS} s"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_SIGNS: Final = (
    *("a", " ", "\n", "-", "#", "`", "*", "_", "[", "]", "(", ")", "<", ">", "|", "\\", '"', "'"),
    *("你", "\u0301", "😀", "{", "}", ".", "/", ":", "=", "0", "!", "~", "\t", "&"),
    *("![", "](", "[[", "**", "```\n", "> ", "- ", "1. ", "---\n", "2026-11-22 ", "http://a "),
    *("password: ", '"token":"', "-----BEGIN PRIVATE KEY-----", "sk-", "since ", "<!--", "<a "),
)
_QUERY_SIGNS: Final = ('"', "a", " ", "path:", "*", "東", "(", "after:", "\u0301", "ữ")
_TOML_SIGNS: Final = ("a", ".", "=", "[", "]", "{", "}", '"', "'", "#", "\n", ",", "a=1\n", "[a]\n")


class Scanner(Struct, frozen=True):
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
    file = SourceFile("a.md", "/m/a.md", "memory", len(text), 0, 0)
    return Document(file, text, "0" * 64, None, None, None)


def _parse_config(text: str) -> None:
    with suppress(SettingsProblems):
        parse_config(Path("a.toml"), text.encode())


_TODAY: Final = date(2026, 11, 22)
_NAMES: Final = NoteNames()

SCANNERS: Final = (
    Scanner("sanitizing", safe),
    Scanner("masking", redact),
    Scanner("masking as OpenClaw", openclaw_redact),
    Scanner("chunking", lambda text: list(chunking.chunk_text(text, per_entry=True))),
    Scanner("text of the index", index_text),
    Scanner("front matter", front_matter),
    Scanner("passages", passages),
    Scanner("marks", lambda text: match_spans(text, ("a*", "exact phrase", "東京"))),
    Scanner("snippet", lambda text: snippet(text, ("a", "東"), 80)),
    Scanner("lines of a note", note_lines),
    Scanner("dated facts", lambda text: list(dated_facts(_document(text), _TODAY))),
    Scanner("links", lambda text: list(broken_links(links_in(_document(text)), _NAMES))),
    Scanner("credentials", lambda text: list(credentials(_document(text)))),
    Scanner("long lines", lambda text: list(long_lines(_document(text), 400))),
    Scanner("headings", lambda text: headings(text.split("\n"))),
    Scanner("a line that is shown", display_line),
    Scanner("Markdown colours", lambda text: code_pieces([text], "markdown"), most=1 << 13),
    Scanner("a query", parse_query, _QUERY_SIGNS, most=4000),
    Scanner("configuration", _parse_config, _TOML_SIGNS),
    Scanner("lines of keys", lambda text: key_lines('a = "' + text.replace('"', "") + '"\n')
            if "\n" not in text and "\\" not in text else None, _TOML_SIGNS),
    Scanner("folding", lambda text: list(wrap(normalise(text)))),
    Scanner("lines of a file", lambda text: list(raw_lines(io.BytesIO(text.encode()), limit=99))),
)  # fmt: skip


def run(options: Options) -> Iterator[Case]:
    """Try the patterns, then the scanners, one outcome each."""
    patterns, unknown = expressions()
    named_patterns = [
        (f"{one.place} {one.pattern.pattern[:60]!a}", one.work(), pumps_of(one.pattern), LAST)
        for one in patterns
    ]
    facts: dict[str, Fact] = {"patterns": len(patterns)}
    yield _tried("growth of regular expressions", named_patterns, unknown, facts)
    scanners = [(one.name, one.work, one.pumps(), one.most) for one in SCANNERS]
    yield _tried("growth of scanners", scanners, [], {"scanners": len(scanners)})


def _tried(
    name: str,
    subjects: Sequence[tuple[str, Callable[[str], object], Sequence[Pump], int]],
    unknown: Sequence[str],
    facts: Mapping[str, Fact],
) -> Case:
    started = perf_counter()
    tried, failed = 0, list(unknown)
    for subject, work, pumps, last in subjects:
        count, lines = worst(work, pumps, last=last)
        tried += count
        failed += [f"{subject}: {line}" for line in lines]
    return Case(name, failed, {**facts, "seconds": round(perf_counter() - started)}, tried)
