"""`memtui doctor`: what is configured, found and answering, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.report import words
from memtui.report.documents import plain

if TYPE_CHECKING:
    from memtui.engine.doctor import Check, Examination

_BOLD, _RED, _YELLOW = 1, 31, 33
_COLOURS = {"problem": _RED, "note": _YELLOW}
_GRADE, _LONGEST_NAME = 7, 26


def run_doctor(invocation: Invocation, *, probe: bool) -> int:
    """Look at everything and print it; the exit code is that of the gravest problem."""
    from memtui.engine.doctor import Surroundings, examine
    from memtui.settings.files import demo_data_dir

    output = invocation.output()

    def tell(line: str) -> None:
        if not invocation.json:
            output.progress(line)

    around = Surroundings(
        invocation.env,
        invocation.home(),
        invocation.flags or {},
        invocation.workspace,
        demo_data_dir() if invocation.demo else None,
    )
    examination = examine(around, probe=probe, tell=tell)
    if invocation.json:
        output.document(doctor_document(examination))
        return examination.exit_code
    output.progress("")
    for area, checks in groupby(examination.checks, lambda check: check.area):
        output.line(output.styled(area.value.upper(), _BOLD))
        _print_checks(output, list(checks))
        output.line()
    _print_settings(output, examination)
    output.line(output.clean(ending_line(examination, probe=probe)))
    return examination.exit_code


def doctor_document(examination: Examination) -> dict[str, Any]:
    """Everything, with the names that the fields have."""
    document: dict[str, Any] = plain(examination)
    return {"exit_code": examination.exit_code, **document}


def _print_checks(output: Output, checks: Sequence[Check]) -> None:
    width = min(_LONGEST_NAME, max(words.cells_of(output.clean(check.name)) for check in checks))
    for check in checks:
        grade = f"{check.grade.value:<{_GRADE}}"
        if check.grade.value in _COLOURS:
            grade = output.styled(grade, _COLOURS[check.grade.value])
        name = words.padded(output.clean(check.name), width)
        output.line(f"  {grade} {name}  {output.clean(check.detail)}")
        if check.hint:
            output.line(f"  {'':<{_GRADE}} {'':<{width}}  -> {output.clean(check.hint)}")


def _print_settings(output: Output, examination: Examination) -> None:
    if not examination.configured:
        return
    from memtui.settings.toml import toml_value

    output.line(output.styled("CONFIGURED", _BOLD))
    width = max(len(item.key) for item in examination.configured)
    for item in examination.configured:
        where = output.styled(output.clean(f"  # {item.source} {item.place}"), 2)
        output.line(f"  {output.clean(f'{item.key:<{width}} = {toml_value(item.value)}')}{where}")
    output.line()


def ending_line(examination: Examination, *, probe: bool) -> str:
    """How many problems there are, and what the exit code says."""
    problems = examination.problems
    if problems:
        first = next(check for check in problems if check.exit_code == examination.exit_code)
        found = words.count(len(problems), "problem")
        return f"{found}; first put right {first.area.value}, {first.name}: {first.detail}"
    return "nothing is wrong" if probe else "nothing is wrong; --probe asks the providers, too"
