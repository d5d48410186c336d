"""Check the recorded command lines, or record them anew.

python -m tests.cli [--update] [GROUP ...]
"""

from __future__ import annotations

import argparse
import sys

from tests.cli.golden import CASES, answers_file, compare, record, recorded_answers, run_group
from tests.support.recorded_model import recorded_model


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cli", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the answers that differ")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(CASES)}")
    given = parser.parse_args()
    changed = 0
    with recorded_model(recording=given.update) as vectors:
        for group in given.groups or CASES:
            changed += check(group, update=given.update)
        if given.update:
            vectors.save()
    print(f"{changed} differences{' recorded' if given.update else ''}")
    return 1 if changed and not given.update else 0


def check(group: str, *, update: bool) -> int:
    """Compare a group's answers with the recorded ones, and say what differs."""
    answers = run_group(group)
    expected = recorded_answers(group) if answers_file(group).exists() else []
    if len(expected) == len(answers):
        changed = dict(compare(group, answers, expected))
        for line, found in changed.items():
            print(line, *found[:8], sep="\n    ")
    else:
        changed = {group: []}
        print(f"{group}: {len(expected)} -> {len(answers)} command lines")
    if update and changed:
        record(group, answers)
    return len(changed)


if __name__ == "__main__":
    sys.exit(main())
