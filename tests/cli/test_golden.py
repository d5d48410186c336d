"""Every recorded command line answers as it was recorded, and none tells a key of one's own."""

from __future__ import annotations

import json

import pytest

from tests.cli.golden import CASES, VECTORS, compare, recorded_answers, run_group
from tests.support.recorded_model import recorded_model


@pytest.mark.timeout(600)
@pytest.mark.parametrize("group", CASES)
def test_command_lines_answer_as_recorded(group: str) -> None:
    with recorded_model(file=VECTORS):
        answers = run_group(group)
    wrong = dict(compare(group, answers, recorded_answers(group)))
    report = [f"{line}\n    " + "\n    ".join(found[:4]) for line, found in wrong.items()]
    assert not wrong, f"{len(wrong)} of {len(CASES[group])} differ:\n" + "\n".join(report[:10])
    # `trust` shows what somebody else wrote, as it is.
    others = [one for case, one in zip(CASES[group], answers, strict=True) if case[0] != "trust"]
    assert "SECRET" not in json.dumps(others)
