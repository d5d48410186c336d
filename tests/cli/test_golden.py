"""Every recorded command line answers as it was recorded, and none tells a key of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.golden import CASES, compare, recorded_answers, run_group
from tests.support import command_line
from tests.support.recorded_model import recorded_model
from tests.tui import golden


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", CASES)
def test_command_lines_answer_as_recorded(group: str) -> None:
    with recorded_model():
        answers = run_group(group)
    wrong = dict(compare(group, answers, recorded_answers(group)))
    report = [f"{line}\n    " + "\n    ".join(found[:4]) for line, found in wrong.items()]
    assert not wrong, f"{len(wrong)} of {len(CASES[group])} differ:\n" + "\n".join(report[:10])
    # `trust` shows what somebody else wrote, as it is.
    others = [one for case, one in zip(CASES[group], answers, strict=True) if case[0] != "trust"]
    assert "SECRET" not in json.dumps(others)


def people_read() -> Iterator[tuple[str, str]]:
    """Yield every line of the recorded screens and of the recorded text of commands."""
    for path in golden.FOLDER.glob("*.txt"):
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("| "):
                yield path.name, line
    for group, cases in CASES.items():
        for case, answer in zip(cases, recorded_answers(group), strict=True):
            texts = (answer.get(name, "") for name in ("out", "err") if "--jsonl" not in case)
            for text in texts:
                for line in text.splitlines() if isinstance(text, str) else ():
                    yield " ".join(case), line


def test_no_word_of_the_programs_inside_is_read_by_people() -> None:
    """What a pattern of `inside_words.txt` finds has a plain word instead."""
    file = Path(__file__).parents[1] / "data" / "inside_words.txt"
    inside = re.compile("|".join(file.read_text("utf-8").splitlines()))
    assert [(where, line) for where, line in people_read() if inside.search(line)] == []


@pytest.mark.parametrize("group", [[], ["config"], ["profiles"], ["sessions"]])
def test_help_cuts_no_sentence_at_80_columns(group: list[str], tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "COLUMNS": "80"}
    told = command_line.call([*group, "--help"], environment=environment, folder=tmp_path).stdout
    commands = told.partition("Commands:")[2].splitlines()
    assert len(commands) > 2
    assert [line for line in commands if line.endswith("...")] == []
