"""Search results for people: rows with bars, or sentences."""

from __future__ import annotations

from collections.abc import Mapping

from memtui.cli import bars
from memtui.cli.output import Output
from memtui.model import Hit, LegState, LegStatus, Ranked
from memtui.model.status import FileState
from memtui.ranking.trace import movement
from memtui.report import words
from memtui.report.documents import Excerpt, FileStates, excerpt_of

_BOLD, _DIM, _UNDERLINE = 1, 2, 4
_NO_STATES: FileStates = {}


def print_rows(
    output: Output, ranked: Ranked, *, ascii_only: bool, states: FileStates = _NO_STATES
) -> None:
    """Two lines a result: rank, movement, effective score, bar, place, age; then the excerpt.

    `states` marks the results whose file is not what was indexed.
    """
    glyphs = bars.ASCII if ascii_only or not output.unicode else bars.UNICODE
    full = bars.full_length(ranked)
    for hit in ranked.hits:
        head = (
            f"{hit.rank:>2} {_arrow(movement(hit), glyphs):<4}{words.score(hit.effective):>6}"
            f"  {bars.bar(hit, full, glyphs)}  "
        )
        place = output.clean(f"{hit.chunk.path}:{hit.chunk.start_line}")
        age = words.age_of(hit.chunk, ranked.ranking.decay.dates, ranked.trace.now)
        mark = _mark(hit, states, "  ")
        output.line(f"{head}{output.styled(place, _BOLD)}  {words.short_age(age)}{mark}")
        indent = " " * 8
        shown = _marked(output, excerpt_of(hit, output.width() - len(indent)))
        output.line(f"{indent}{shown}")


def print_sentences(output: Output, ranked: Ranked, states: FileStates = _NO_STATES) -> None:
    """One paragraph a result, meaning in words alone: for screen readers."""
    for hit in ranked.hits:
        age = words.age_of(hit.chunk, ranked.ranking.decay.dates, ranked.trace.now)
        moved = movement(hit)
        mark = _mark(hit, states, ", ")
        way = f", up {moved}" if moved > 0 else f", down {-moved}" if moved < 0 else ""
        output.line(
            output.clean(
                f"Rank {hit.rank}, score {words.score(hit.effective)}{way}, "
                f"{hit.chunk.path} line {hit.chunk.start_line}, {words.long_age(age)}{mark}."
            )
        )
        output.line(output.clean(excerpt_of(hit, 300).text))
        output.line()


def summary(ranked: Ranked) -> str:
    """One line about the whole search: how many of how many, the legs, the time."""
    pool = ranked.pool
    legs = ", ".join(f"{leg} {words.leg_words(state)}" for leg, state in pool.states.items())
    found = f"{len(ranked.hits)} of {words.count(len(pool.chunks), 'candidate')}"
    return f"{found} in {words.duration(pool.elapsed_ms / 1000)}; {legs}"


def leg_warnings(states: Mapping[object, LegState]) -> list[str]:
    """One line for every leg that should have answered and did not."""
    return [
        f"{leg} search {words.leg_words(state)}"
        for leg, state in states.items()
        if state.status is LegStatus.FAILED
    ]


def _mark(hit: Hit, states: FileStates, before: str) -> str:
    """What to say of a result whose file is not what was indexed."""
    state = states.get(hit.chunk.path, FileState.CURRENT)
    return "" if state is FileState.CURRENT else f"{before}{words.FILE_STATE_WORDS[state]}"


def _arrow(places: int, glyphs: bars.Glyphs) -> str:
    if not places:
        return "="
    return f"{glyphs.up if places > 0 else glyphs.down}{abs(places)}"


def _marked(output: Output, excerpt: Excerpt) -> str:
    text = output.clean(excerpt.text)
    if not output.colour or len(text) != len(excerpt.text):
        return text
    parts, end = [], 0
    for start, stop in excerpt.spans:
        if start < end:
            continue
        parts += [text[end:start], output.styled(text[start:stop], _BOLD, _UNDERLINE)]
        end = stop
    return "".join(parts) + text[end:]
