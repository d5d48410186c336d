"""Measurements of memtui beside what bounds it, as ratios of one run: `python -m tests.bench`.

Figures are printed and never asserted: a machine that is busy makes every time longer, but what
is compared is measured in turns, so that the ratios stay.
"""
