"""The arithmetic of results below a list: what each leg was asked, and every step of a score."""

from __future__ import annotations

from memtui.cli.output import Output
from memtui.model import Ranked
from memtui.ranking.trace import explain
from memtui.report import words
from memtui.report.arithmetic import arithmetic_section, place_of
from memtui.report.explanation import legs_section, ranks_section, verdict_words
from memtui.report.layout import Layout, Section


def print_searched(output: Output, ranked: Ranked) -> None:
    """Print what each leg of an agent's search was asked, as its program asks it."""
    _print(output, legs_section(ranked))


def print_waterfall(output: Output, ranked: Ranked, chunk_id: str) -> None:
    """Print the verdict on one chunk of the pool, raw values, contributions and every stage."""
    told = explain(ranked, chunk_id)
    output.line(output.styled(output.clean(place_of(ranked, chunk_id)), 1))
    output.line(output.clean(f"  {verdict_words(ranked, told.scored, spell=words.EXACT)}"))
    _print(output, arithmetic_section(ranked, told, words.EXACT))
    _print(output, ranks_section(ranked, told, {}, words.EXACT))


def _print(output: Output, section: Section) -> None:
    lines = Layout(output.clean, output.wrap_width()).section(section)
    for line in lines:
        output.line(line.text)
