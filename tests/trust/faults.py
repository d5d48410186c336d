"""Faults of disks, files, events and clocks: named on screen, nothing lost, no restart needed.

Each fault is real, made in namespaces of the trial's own: small file systems that are filled,
made read-only or unmounted, permissions that bind (the right to pass over them is given up),
limits of the kernel. Only the clock is handed in, because moving it would move everybody's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.trust.report import Options, Outcome

REPEAT = "python -m tests.trust faults"
_NAMESPACES = ("unshare", "--user", "--map-root-user", "--mount", "--propagation", "private")
_RIGHTS = "-dac_override,-dac_read_search"
_SHOWN = 2000


def run(options: Options) -> Iterator[Outcome]:
    """Play every fault once; raises RuntimeError where the system has no namespaces for users."""
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        raise RuntimeError("faults are made in namespaces: this takes unshare and setpriv")
    command = (
        *_NAMESPACES,
        *("setpriv", "--bounding-set", _RIGHTS, "--inh-caps", _RIGHTS, "--"),
        *(sys.executable, "-m", "tests.trust.faults_child", os.fspath(options.place)),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield _outcome(json.loads(line))
    if child.returncode:
        raise RuntimeError(f"the faults ended with {child.returncode}: {' '.join(command[:5])} …")


def _outcome(found: dict[str, object]) -> Outcome:
    wrong, facts = found["wrong"], found["facts"]
    assert isinstance(wrong, list)
    assert isinstance(facts, dict)
    return Outcome(
        f"faults, {found['name']}",
        1,
        tuple(str(line)[:_SHOWN] for line in wrong),
        {**facts, "seconds": str(found["seconds"])},
        REPEAT,
    )
