"""Numbers, times and codes as they are written on screen, parameters, and the editor's command."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from textual.color import Color
from textual.theme import Theme

from memtui.model import (
    Decay,
    Fusion,
    Mmr,
    Numbers,
    Operation,
    Ranking,
    Reason,
    ScoreMapping,
    Stage,
    StageScore,
)
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.report.arithmetic import score_steps
from memtui.report.explanation import verdict_words
from memtui.report.layout import Tone
from memtui.report.words import REASON_WORDS, WORDS, age, duration
from memtui.tui import fmt
from memtui.tui.place_actions import editor_arguments
from memtui.tui.widgets.parameter_panes import stepped
from memtui.tui.widgets.result_rows import RowContext, draw_drop, draw_hit, drop_rows, place_text
from memtui.tui.widgets.why_panel import why_lines
from tests.support.known import cases, load
from tests.support.pools import chunk, pool
from tests.support.small_memory import SmallMemory
from tests.tui.samples import make_ranked

NOW = datetime(2026, 2, 13, 9, 30, tzinfo=UTC)


WRITERS: dict[str, Callable[[Any], str]] = {
    "score": fmt.score,
    "count": fmt.count,
    "rounded": fmt.rounded,
    "duration": duration,
    "age": age,
    "ago": lambda seconds: fmt.ago(NOW - timedelta(seconds=seconds), NOW),
}


@pytest.mark.parametrize(("name", "written"), load("interface")["numbers"].items())
def test_numbers_are_written_the_same_everywhere(name: str, written: list[list[Any]]) -> None:
    assert [[value, WRITERS[name](value)] for value, _ in written] == written


@pytest.mark.parametrize("theme", fmt.THEMES, ids=lambda theme: theme.name)
def test_dim_text_has_contrast_on_a_marked_row(theme: Theme) -> None:
    text, surface = Color.parse(theme.foreground or ""), Color.parse(theme.surface or "")
    row = surface.blend(text, 0.09)
    dim = row.blend(text, int(fmt.DIM[-3:-1]) / 100)
    greys = sorted(one.monochrome.normalized[0] for one in (dim, row))
    dark, bright = (((grey + 0.055) / 1.055) ** 2.4 for grey in greys)
    assert (bright + 0.05) / (dark + 0.05) >= 4.5


def test_a_share_is_a_hundred_only_when_it_is_all() -> None:
    shares = [fmt.percent(part, 1000) for part in (168, 999, 1000)]
    assert shares == ["17 %", "99 %", "100 %"]
    assert fmt.percent(1, 0) == fmt.score(float("nan")) == fmt.NOTHING == "–"


def test_every_code_has_words() -> None:
    assert set(REASON_WORDS) == set(Reason)
    assert set(WORDS["stage"]) == set(Stage)


def test_a_row_says_where_a_result_is_and_how_it_moved(memory: SmallMemory) -> None:
    assert place_text("memory/a.md", 12, 30).plain == "memory/a.md:12"
    assert place_text("memory/2026-04-21.md", 1, 15).plain == "2026-04-21.md:1"
    assert place_text("memory/topics/a.md", 12, 12).plain == "…ics/a.md:12"
    with memory.open() as engine:
        ranked = engine.search.ask("router config", ranking=Ranking(k=2))
    hit, drop = ranked.hits[0], ranked.drops[0]
    look = RowContext(2, 1.0, ranked, moved={})
    gained = {steps: replace(look, moved={hit.chunk.id: steps}) for steps in (-100, -1, 0, 1)}
    heads = [draw_hit(hit, one, 70).plain.split()[1] for one in gained.values()]
    assert heads == ["↓100", "↓1", "=", "↑1"]
    far, low = replace(look, moved={hit.chunk.id: 28}), replace(hit, effective=-0.017)
    assert draw_hit(low, far, 70).plain.split()[1:3] == ["↑28", "−0.017"]
    new = replace(look, entered=frozenset({hit.chunk.id}))
    assert draw_hit(hit, new, 70).plain.split()[1] == "new"
    left = replace(look, left={drop.chunk.id: 2})
    assert "↓ was #2  rank 3 > 2 results" in draw_drop(drop, left, 70).plain
    assert draw_drop(drop, look, 70).plain.split()[:2] == ["3", f"{drop.score:.3f}"]
    last = ranked.drops[-1].chunk.id
    shown = [row.id for row in drop_rows(replace(look, left={last: 2}))]
    assert shown[0] == last, "what has just left the list is first"
    assert len(set(shown)) == len(shown)


def test_a_row_and_its_verdict_say_why_less_than_the_minimum_is_shown_and_more_is_not() -> None:
    chunks = [chunk(name, path=f"{name}.md") for name in ("strong", "both", "free")]
    candidates = pool(chunks, [("strong", 0.9), ("both", 0.3)], [("both", 0.42), ("free", 0.1)])
    ranking = replace(
        PROFILES["openclaw-2026.9"], keyword_mapping=ScoreMapping.GIVEN, mmr=Mmr(), decay=Decay()
    )
    ranked = rank(candidates, ranking, now=NOW)
    reaching, free = ranked.hits
    (drop,) = ranked.drops
    assert [step.tone for step in score_steps(ranked, free)[2:3]] == [Tone.KEYWORD]
    notes = [step.note for step in score_steps(ranked, reaching)]
    assert "1 of 3 reach it, 1 more fills the list" in notes
    assert drop.score > free.score
    rule = "fills the list: below the minimum, found by words alone"
    assert rule in draw_hit(free, RowContext(2, 1.0, ranked), 80).plain
    verdict = verdict_words(ranked, free)
    assert verdict == f"SHOWN at rank 2, score {free.score:.3f}; weak match; {rule}"
    why = f"{drop.score:.3f} < minimum 0.35 (meaning found it: cannot fill the list)"
    assert verdict_words(ranked, drop) == f"NOT SHOWN: {why}"


def test_steps_stay_on_the_grid_and_stop_at_the_ends() -> None:
    ranking = Ranking()
    for _ in range(30):
        ranking = stepped(ranking, "λ", -1)
    assert ranking.mmr.lambda_ == 0.0
    for step in range(1, 21):
        ranking = stepped(ranking, "λ", 1)
        assert ranking.mmr.lambda_ == round(step * 0.05, 2)
    assert stepped(ranking, "λ", 1) == ranking
    heavier = stepped(Ranking(), "meaning", 1)
    assert (heavier.vector_weight, heavier.keyword_weight) == (0.35, 0.65)
    assert stepped(Ranking(), "keyword", -1) == heavier
    assert stepped(Ranking(k=1), "results", -1).k == 1
    assert stepped(Ranking(k=50), "results", 1).k == 50
    steps = {(30, 1): 60, (30, -1): 14, (7, -1): 7, (365, 1): 365, (20, 1): 30, (20, -1): 14}
    for (days, direction), expected in {**steps, (1000, 1): 365}.items():
        ranking = Ranking(decay=Decay(half_life_days=days))
        assert stepped(ranking, "half-life", direction).decay.half_life_days == expected
    fusions = [Ranking(fusion=Fusion.WEIGHTED_SUM)]
    for _ in range(3):
        fusions.append(stepped(fusions[-1], "fusion", 0))
    assert [one.fusion for one in fusions[1:]] == [
        Fusion.RELATIVE_SCORE, Fusion.RRF, Fusion.WEIGHTED_SUM,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "reason", "numbers", "note"), cases("interface", "notes of stages")
)
def test_every_stage_says_what_it_did_in_lines_that_fit(
    stage: str, reason: str, numbers: Numbers, note: str
) -> None:
    ranked = make_ranked()
    told = Stage(stage), 0.5, 0.4, Operation.MULTIPLY, 0.8, 1, Reason(reason), numbers
    done = StageScore(*told)
    hit = replace(ranked.hits[0], stages=(done,))
    step = score_steps(ranked, hit)[-1]
    assert (step.note, step.value) == (note, 0.4)
    if stage in (Stage.IMPORTANCE, Stage.PROJECT):
        assert (step.sign, step.formula) == ("×", "× 0.800")
    shown = replace(ranked, hits=(hit, *ranked.hits[1:]))
    for width in (46, 90):
        lines = why_lines(shown, hit, width)
        assert max(line.cell_length for line in lines) <= width


@pytest.mark.parametrize(("command", "expected"), load("interface")["lines in editors"])
def test_each_editor_gets_the_line_in_its_own_syntax(command: str, expected: list[str]) -> None:
    assert editor_arguments(command, {}, "note.md", 12) == expected


def test_the_editor_is_the_configured_one_and_a_name_is_one_argument() -> None:
    name = "a b; rm -rf $HOME `x` 'q'.md"
    environment = {"VISUAL": "nano", "EDITOR": "ed"}
    assert editor_arguments("hx", environment, "a", 1) == ["hx", "a:1"]
    assert editor_arguments(None, environment, name, 1) == ["nano", "+1", name]
    assert editor_arguments(None, {"EDITOR": "ed", "VISUAL": " "}, "a", 1) == ["ed", "a"]
    with pytest.raises(ValueError, match="quotation"):
        editor_arguments('vi "', {}, name, 1)
