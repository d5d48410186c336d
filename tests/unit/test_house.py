"""Rules of the house that no type checker or linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import memtui

PACKAGE = Path(memtui.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted((PACKAGE.parent / "tests").rglob("*.py"))
IDS = [str(path.relative_to(PACKAGE)) for path in SOURCES]

MODULE_LINES = 400
FUNCTION_LINES = 60


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


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_one_module_imports_the_database_binding(path: Path) -> None:
    """Two SQLite libraries on one file in one process destroy it."""
    names = {name.partition(".")[0] for name in imported(ast.parse(path.read_text("utf-8")))}
    assert "sqlite3" not in names
    if path != PACKAGE / "index" / "database.py":
        assert "apsw" not in names


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_no_toast_or_label_parses_foreign_text_as_markup(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "notify" and "tui" in path.parts:
            keywords = {keyword.arg for keyword in node.keywords}
            assert "markup" in keywords or None in keywords, f"line {node.lineno}"


@pytest.mark.parametrize("path", TESTS, ids=[path.name for path in TESTS])
def test_no_test_sleeps_or_skips(path: Path) -> None:
    if path.name == Path(__file__).name:
        return
    text = path.read_text("utf-8")
    assert (
        not re.search(r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))", text) or "bench" in path.parts
    )
    assert not re.search(r"pytest\.(mark\.)?(skip|xfail)\b", text)


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
        ("import memtui.engine", {"textual", "rich", "click"}),
        ("import memtui.ranking.pipeline", {"apsw", "textual", "pydantic", "onnxruntime"}),
        ("import memtui.bus", {"numpy", "apsw", "textual", "pydantic"}),
        ("import memtui.tui.app", {"numpy", "apsw", "onnxruntime", "watchdog"}),
    ],
)
def test_imports_stay_apart(statement: str, banned: set[str]) -> None:
    assert not banned & modules_after(statement)
