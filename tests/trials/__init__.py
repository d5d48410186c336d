"""Long trials of what memtui promises when processes die, disks fill and texts are hostile.

`python -m tests.trials NAME` runs one; the default tests run a small seeded part of each.
"""
