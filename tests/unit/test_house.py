"""Rules of the house that no type checker or linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import memtui

PACKAGE = Path(memtui.__file__).parent
TESTS = sorted((PACKAGE.parent / "tests").rglob("*.py"))
SLEEPS = re.compile(r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))")
SKIPS = re.compile(r"pytest\.(mark\.)?(skip|xfail)\b")


@cache
def sources() -> tuple[tuple[Path, str, ast.Module], ...]:
    """Every module: its path in the package, its text, its syntax tree."""
    return tuple(
        (path.relative_to(PACKAGE), text := path.read_text(encoding="utf-8"), ast.parse(text))
        for path in sorted(PACKAGE.rglob("*.py"))
    )


def imported(tree: ast.Module) -> set[str]:
    """What a module imports when it runs; imports for the type checker alone do not count."""
    names: set[str] = set()
    typing_only = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def test_one_module_imports_the_database_binding() -> None:
    """Two SQLite libraries on one file in one process destroy it."""
    wrong: list[str] = []
    for path, _, tree in sources():
        names = {name.partition(".")[0] for name in imported(tree)}
        banned = {"sqlite3"} if path == Path("index/database.py") else {"sqlite3", "apsw"}
        wrong += [f"{path} imports {name}" for name in sorted(names & banned)]
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
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("statement", "banned"),
    [
        ("import memtui.cli.main", {"textual", "rich", "numpy", "apsw", "onnxruntime", "pydantic"}),
        ("import memtui.settings", {"numpy", "apsw", "textual", "pydantic"}),
        (
            "import memtui.cli.searching, memtui.cli.search, memtui.engine.once",
            {"numpy", "onnxruntime", "textual", "rich", "httpx", "watchdog"},
        ),
        ("import memtui.engine", {"textual", "rich", "click"}),
        ("import memtui.ranking.pipeline", {"apsw", "textual", "pydantic", "onnxruntime"}),
        ("import memtui.bus", {"numpy", "apsw", "textual", "pydantic"}),
        (
            "import memtui.tui.app",
            {"numpy", "apsw", "onnxruntime", "watchdog", "httpx"},
        ),
        (
            "import memtui.tui.instant",
            {"textual", "rich", "numpy", "apsw", "click", "asyncio", "memtui.model"},
        ),
    ],
)
def test_imports_stay_apart(statement: str, banned: set[str]) -> None:
    assert not banned & modules_after(statement)
