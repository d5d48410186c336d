"""Rules of the house that no type checker or linter knows."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import memtui
from tests.support.interrupted import run_python
from tests.support.known import load

PACKAGE = Path(memtui.__file__).parent
TESTS = sorted((PACKAGE.parent / "tests").rglob("*.py"))
SLEEPS = re.compile(r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))")
OTHER_SQLITE = re.compile(r"^(import|from) sqlite3\b", re.MULTILINE)
SKIPS = re.compile(r"pytest\.(mark\.)?(skip|xfail)\b")

SUMS = {"memtui": (55_890, 260), "tests": (44_910, 200)}
"""The most lines and files, counted with blanks, comments and docstrings."""
ROOMS = {
    "memtui": (400, 5),
    "memtui/model": (1_780, 8),
    "memtui/text": (780, 7),
    "memtui/ranking": (1_500, 9),
    "memtui/ranking/counterfactual": (1_850, 6),
    "memtui/memory": (1_340, 8),
    "memtui/memory/transcripts": (1_850, 10),
    "memtui/memory/care": (810, 4),
    "memtui/settings": (2_260, 9),
    "memtui/settings/openclaw": (1_300, 5),
    "memtui/embedding": (3_910, 13),
    "memtui/retrieval": (2_410, 12),
    "memtui/retrieval/openclaw": (1_050, 6),
    "memtui/index": (3_360, 12),
    "memtui/index/transcripts": (1_220, 6),
    "memtui/index/foreign": (2_290, 8),
    "memtui/engine": (7_570, 24),
    "memtui/report": (2_930, 11),
    "memtui/cli": (3_010, 14),
    "memtui/tui": (14_270, 55),
}
"""The budget of each room in lines and files, without the rooms inside it that have their own."""
TOLERANCE = 1.1
"""A room may go a tenth over its budget where another goes under; the sums may not."""
CLASS_METHODS, CLASS_LINES, CLASS_DEPTH = 40, 500, 2
PLAIN_ROOTS = {"MemtuiError", "Table"}
"""Bases that do nothing: what is an error at all, and a table of settings; no level of their own."""
SMALL_MODULE_LINES = 80
VAGUE = {"What", "Whether", "Where", "How", "Why", "When", "Who", "Which"}
CAPABILITIES = """
search explain browse chunk care index sessions conversations transcripts providers profiles
config agents openclaw status doctor verify schema document export passages
"""
"""Names that mean the same in every room: one capability, seen from another layer."""


@cache
def sources() -> tuple[tuple[Path, str, ast.Module], ...]:
    """Every module: its path in the package, its text, its syntax tree."""
    return tuple(
        (path.relative_to(PACKAGE), text := path.read_text(encoding="utf-8"), ast.parse(text))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of every module by its dotted name."""
    return {
        ".".join(["memtui", *path.with_suffix("").parts]).removesuffix(".__init__"): tree
        for path, _, tree in sources()
    }


@cache
def imports(tree: ast.Module) -> frozenset[str]:
    """Return each module and imported name; those for the type checker alone do not count."""
    names = set[str]()
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        if not isinstance(node, ast.expr):
            waiting += ast.iter_child_nodes(node)
    return frozenset(names)


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Every module of memtui with the modules of memtui that it imports."""
    trees = modules()
    return {name: (imports(tree) & trees.keys()) - {name} for name, tree in trees.items()}


def room_of(path: Path) -> str:
    """The innermost room with a budget of its own that holds a file."""
    return next(str(parent) for parent in path.parents if str(parent) in ROOMS)


def test_the_house_and_its_rooms_stay_within_their_sums() -> None:
    top = PACKAGE.parent
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path in [*PACKAGE.rglob("*.py"), *TESTS]:
        lines = path.read_text("utf-8").count("\n")
        place = path.relative_to(top)
        kinds = [f"sum of {place.parts[0]}"]
        if place.parts[0] == "memtui":
            kinds.append(room_of(place))
        for kind in kinds:
            sums[kind][0] += lines
            sums[kind][1] += 1
    ceilings = {f"sum of {name}": most for name, most in SUMS.items()}
    for room, budget in ROOMS.items():
        ceilings[room] = int(budget[0] * TOLERANCE), int(budget[1] * TOLERANCE)
    over = [
        f"{room}: {lines} lines in {files} files, at most {ceilings[room]}"
        for room, (lines, files) in sorted(sums.items())
        if lines > ceilings[room][0] or files > ceilings[room][1]
    ]
    assert over == []


def large_classes() -> Iterator[str]:
    """Yield classes that have too many methods or lines, or bases too deep inside memtui."""
    classes = {
        node.name: node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }

    @cache
    def line(name: str) -> list[ast.ClassDef]:
        node = classes[name]
        bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
        above = [each for base in bases if base in classes and base != name for each in line(base)]
        return [node, *above]

    @cache
    def depth(name: str) -> int:
        bases = [ast.unparse(base).partition("[")[0] for base in classes[name].bases]
        levels = 0 if name in PLAIN_ROOTS else 1
        return levels + max(
            (depth(base) for base in bases if base in classes and base != name), default=0
        )

    for name in classes:
        closure = {node.name: node for node in line(name)}.values()
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        methods = {one.name for node in closure for one in node.body if isinstance(one, functions)}
        lines = sum((node.end_lineno or 0) - node.lineno + 1 for node in closure)
        if len(methods) > CLASS_METHODS or lines > CLASS_LINES or depth(name) > CLASS_DEPTH:
            yield f"{name}: {len(methods)} methods, {lines} lines, {depth(name)} deep"


def protocols() -> Iterator[str]:
    """Yield protocols, which describe a class again."""
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
                if bases & {"Protocol", "typing.Protocol"}:
                    yield f"{module}.{node.name}"


def lonely_modules() -> Iterator[str]:
    """Yield small modules that one other module imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module, others in arrows().items():
        for other in others:
            importers[other].add(module)
    for path, text, _ in sources():
        module = ".".join(["memtui", *path.with_suffix("").parts])
        if len(importers[module]) == 1 and text.count("\n") <= SMALL_MODULE_LINES:
            yield module


def shared_names() -> Iterator[str]:
    """Yield names of modules that stand for different things."""
    names = Counter(path.stem for path, _, _ in sources() if not path.stem.startswith("__"))
    yield from (
        name for name, count in names.items() if count > 1 and name not in CAPABILITIES.split()
    )


def circles() -> Iterator[str]:
    """Yield modules that come back to themselves by imports."""
    graph = arrows()

    def reached_from(module: str) -> set[str]:
        reached: set[str] = set()
        waiting = set(graph[module])
        while waiting:
            reached |= waiting
            waiting = {far for near in waiting for far in graph[near]} - reached
        return reached

    yield from (module for module in graph if module in reached_from(module))


def native_calls() -> Iterator[str]:
    """Yield modules that reach into foreign libraries by ctypes."""
    yield from (module for module, tree in modules().items() if "ctypes" in imports(tree))


@pytest.mark.parametrize(
    "rule",
    [large_classes, protocols, lonely_modules, shared_names, circles, native_calls],
    ids=lambda rule: rule.__name__,
)
def test_shape_has_no_exceptions(rule: Callable[[], Iterator[str]]) -> None:
    assert sorted(rule()) == []


def test_one_module_imports_the_database_binding() -> None:
    """Two SQLite libraries on one file in one process destroy it."""
    wrong: list[str] = []
    for path, _, tree in sources():
        names = {name.partition(".")[0] for name in imports(tree)}
        # A tokenizer is asked of a connection to no file.
        allowed = {Path("index/database.py"), Path("retrieval/connection.py")}
        banned = {"sqlite3"} if path in allowed else {"sqlite3", "apsw"}
        wrong += [f"{path} imports {name}" for name in sorted(names & banned)]
    wrong += [str(path) for path in TESTS if OTHER_SQLITE.search(path.read_text("utf-8"))]
    assert wrong == []


def test_no_toast_or_label_parses_foreign_text_as_markup() -> None:
    wrong: list[str] = []
    for path, _, tree in sources():
        for node in ast.walk(tree) if "tui" in path.parts else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            keywords = {keyword.arg for keyword in node.keywords}
            if node.func.attr == "notify" and not keywords & {"markup", None}:
                wrong.append(f"{path}:{node.lineno}")
    assert wrong == []


def test_docstrings_begin_with_a_verb_or_a_noun_phrase() -> None:
    wrong = [
        f"{path}:{node.lineno} {node.value.value.splitlines()[0]}"
        for path, _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.value.value.partition(" ")[0] in VAGUE
    ]
    assert wrong == []


def test_no_test_sleeps_or_skips() -> None:
    wrong: list[str] = []
    for path in TESTS:
        text = path.read_text("utf-8")
        if path.name == Path(__file__).name:
            continue
        if (SLEEPS.search(text) and "bench" not in path.parts) or SKIPS.search(text):
            wrong.append(str(path))
    assert wrong == []


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    return set(run_python("-c", code, check=True, timeout=60).stdout.split())


@pytest.mark.parametrize(("statement", "banned"), load("imports")["of modules"])
def test_imports_stay_apart(statement: str, banned: list[str]) -> None:
    assert not {*banned} & modules_after(statement)
