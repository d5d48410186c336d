"""Explanations on screen: sections, the why-panel and the score bar tell the numbers of the trace."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
from textual.content import Content

from memtui.engine.what_if import LeastChanges
from memtui.model import (
    Chunk,
    Decay,
    Fusion,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Ranking,
    Reason,
    Rerank,
    Stage,
)
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    KeywordExplanation,
    Outcome,
    Passage,
    Passages,
    PhraseScore,
    Place,
    PrunedTerm,
    Station,
    SubstringTerm,
    TermScore,
    TraceStep,
    WordChange,
    WordChanges,
)
from memtui.ranking.counterfactual import (
    Change,
    ChangeKind,
    Counterfactuals,
    NoChange,
    NoChangeReason,
    Parameter,
)
from memtui.ranking.counterfactual.change import Needed
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.ranking.trace import find
from memtui.report.arithmetic import bar_parts, bar_scale, part_cells, score_steps
from memtui.report.explanation import (
    Explained,
    Part,
    report_of,
    verdict_words,
)
from memtui.report.layout import Extent
from memtui.report.words import SHORT
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs
from memtui.tui.present.report import bar_cells, score_bar, section_rows, text_lines
from memtui.tui.widgets.why_panel import why_lines
from tests.tui.reader_samples import (
    HOSTILE,
    RANKING,
    everything,
    ranked,
)
from tests.tui.samples import CHUNKS, NOW, make_pool, make_ranked

RANKINGS = [
    *PROFILES.values(),
    RANKING,
    replace(RANKING, fusion=Fusion.RRF),
    replace(RANKING, fusion=Fusion.WEIGHTED_SUM, k=2, min_score=0.3),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.0)),
    replace(RANKING, mmr=Mmr(enabled=True, lambda_=0.3), rerank=Rerank(enabled=True)),
    replace(RANKING, decay=Decay(enabled=True, floor=0.8)),
]
CHANGES = (
    Change(Parameter.HALF_LIFE, 30.0, 48.25, 0.05, True, 6, ChangeKind.RAISE),
    Change(Parameter.FUSION, "relative_score", "rrf", 1.0, True, 2, ChangeKind.CHOOSE),
    Change(Parameter.MMR, True, False, 1.0, True, 1, ChangeKind.TURN_OFF),
)
WITHOUT = (
    NoChange(Parameter.K, NoChangeReason.NO_VALUE),
    NoChange(Parameter.RRF_K, NoChangeReason.NOT_USED),
)
LEAST = LeastChanges(Counterfactuals("c", CHANGES, WITHOUT), Needed(31, 24, 8, 6))
WORDS = WordChanges((WordChange("router omada", ("omada",), ("config",), 3),), 12)


def term(text: str, tf: int, df: int, idf: float, share: float) -> TermScore:
    """A term of one word."""
    phrase = PhraseScore(f'"{text}"', (text.rstrip("s"),), tf, df, idf, share)
    return TermScore(text, phrase.match, False, tf > 0, share, (phrase,))


def make_terms(held: bool = True) -> KeywordExplanation:
    """The keyword leg of a chunk that holds one of two words, or none."""
    router = term("routers", 2, 9, 3.25, 3.5) if held else term("routers", 0, 9, 3.25, 0.0)
    return KeywordExplanation(
        rowid=7,
        match='"routers" OR "config"',
        tokenizer="porter unicode61",
        indexed=True,
        found=held,
        score=-3.5 if held else None,
        terms=(router, term("config", 0, 4, 4.1, 0.0)),
        rows=214,
        length=42,
        average_length=61.25,
        pruned=(PrunedTerm("home", 180, True),),
        stop_words=("the", "of"),
        substrings=(SubstringTerm("ER605", True),),
        missing=() if held else ("omada",),
        nowhere=("zzz",),
        asked="router config",
        found_by=FoundBy.MATCH if held else FoundBy.NOTHING,
    )


def make_passages(chunk: Chunk) -> Passages:
    """The first and the last sentence of a chunk."""
    text = chunk.text
    first = Passage(0, max(1, text.find(";") + 1), 0.62)
    last = Passage(text.rfind(" ") + 1, len(text), 0.41)
    return Passages(text, (first, last), model="sample-model")


def _drawn(explained: Explained, width: int = 100, glyphs: Glyphs = UNICODE) -> list[Content]:
    sections = report_of(explained, spell=SHORT).sections
    return [line for section in sections for _, line in section_rows(section, width, glyphs)]


def _text(explained: Explained, width: int = 100) -> str:
    return "\n".join(line.plain.rstrip() for line in _drawn(explained, width))


def _of(*steps: TraceStep) -> Explained:
    """A place without a chunk, by these steps."""
    result = make_ranked()
    inquiry = Inquiry("router config", Place("memory/a.md", 3), None, steps, None)
    return Explained(result, result.ranking, inquiry, subject=Place("memory/a.md", 3))


def _lost(glyphs_of: Ranking = RANKING) -> Explained:
    """A near miss of which everything is known."""
    result = ranked(replace(glyphs_of, k=3))
    drop = next(drop for drop in result.drops if drop.stage is Stage.CUT)
    step = TraceStep(Stage.CUT, Outcome.LOST, Reason.CUT_AT_K, {"k": 3}, 4, 8)
    inquiry = Inquiry("q", Place("a.md"), drop.chunk, (step,), None, make_terms())
    passages = make_passages(drop.chunk)
    return Explained(result, result.ranking, inquiry, LEAST, WORDS, passages)


# --- sections -----------------------------------------------------------------------------------


def test_what_is_not_known_yet_has_its_lines_and_what_failed_is_told_in_its_place() -> None:
    result = ranked(replace(RANKING, k=3))
    waiting = Explained(
        result, result.ranking, subject=result.drops[0].chunk.id, due=frozenset(Part)
    )
    text = _text(waiting)
    for words in ("discovered", "vector pool", "… trying every parameter", "… the terms"):
        assert words in text
    failed = waiting.failed(Part.LEAST, "the\nindex is gone").failed(Part.INQUIRY, "too slow")
    for words in ("✗ the", "✗ too slow", "… trying words of its text"):
        assert words in _text(failed)
    assert failed.found(Part.WORDS, WORDS).words == WORDS


def test_every_term_change_and_passage_has_its_numbers() -> None:
    text = _text(_lost(), 130)
    for pattern in (
        r"✓ routers +▒+ +2 +9 of 214 +3\.25 +3\.500 +router",
        r"✗ config +0 +4 of 214 +4\.1 +0\.000",
        r"bm25 −3\.500, minus the sum of the shares",
        r"length 42 tokens, 61\.25 on average",
        r"home was not looked up: in 180 chunks \(the chunk has it\)",
        r"ER605 +as a substring: in the chunk",
        r"in no chunk at all: zzz",
        r"half-life +30 → 48\.25 d +#6 +5 % of its range +--half-life 48\.25",
        r"fusion method +relative score → reciprocal rank +#2 +another method",
        r"MMR +on → off +#1 +a switch +--no-mmr",
        r"no value does it: results k",
        r"not used by this profile: RRF constant",
        r"\+omada −config +#3 +router omada",
        r"each was searched: 12 changed queries tried",
        r"by sample-model",
    ):
        assert re.search(pattern, text), pattern


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.profile}-{one.fusion}")
def test_every_line_fits_and_ascii_is_ascii(ranking: Ranking, glyphs: Glyphs) -> None:
    result = ranked(ranking)
    for scored in everything(result):
        explained = Explained(result, ranking, subject=scored.chunk.id)
        for width in (40, 76, 160):
            for line in _drawn(explained, width, glyphs):
                assert line.cell_length <= width, line.plain
                assert glyphs is UNICODE or line.plain.isascii(), line.plain
        for line in why_lines(result, scored.chunk.id, 46, glyphs):
            assert line.cell_length <= 46, line.plain


def test_query_words_and_passages_are_marked_in_the_text() -> None:
    chunk = CHUNKS[0]
    result, passages = make_ranked(), make_passages(chunk)
    drawn = text_lines(chunk.text, result, passages, 200, UNICODE)
    first = passages.found[0]
    marked = {
        (style, line.plain[span.start : span.end])
        for line in drawn[1:]
        for span in line.spans
        for style in ("underline", "mark")
        if style in str(span.style)
    }
    assert ("underline", chunk.text[first.start : first.end]) in marked
    assert ("mark", "router") in marked
    other = text_lines(chunk.text, result, make_passages(CHUNKS[1]), 80, UNICODE)
    assert not any("underline" in str(span.style) for line in other for span in line.spans)


def test_hostile_words_are_made_safe() -> None:
    attack = "".join(HOSTILE)
    terms = make_terms()
    phrase = replace(terms.terms[0].phrases[0], tokens=(attack,))
    hostile = replace(
        terms,
        match=attack,
        tokenizer=attack,
        terms=(replace(terms.terms[0], text=attack, phrases=(phrase,)),),
        stop_words=(attack,),
        missing=(attack,),
    )
    lost = _lost()
    step = TraceStep(Station.DISCOVERED, Outcome.LOST, Reason.UNREADABLE, other=attack)
    assert lost.inquiry is not None
    inquiry = replace(lost.inquiry, query=attack, steps=(step,), terms=hostile)
    changed = WordChanges((WordChange(attack, (attack,), (attack,), 1),), 1)
    text = "".join(line.plain for line in _drawn(replace(lost, inquiry=inquiry, words=changed), 90))
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", text
    )


def test_bars_stay_on_the_axis_and_show_something() -> None:
    cells = {
        (0.0, 1.0): (0, 20),
        (0.0, 2.0): (0, 20),
        (0.999, 1.0): (19, 1),
        (0.5, 0.501): (10, 1),
        (0.4, 0.4): (8, 0),
        (-1.0, 0.0): (0, 0),
    }
    assert {ends: bar_cells(Extent(*ends), 1.0, 20) for ends in cells} == cells


# --- the why-panel ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranking", "words"),
    [
        (replace(RANKING, k=2), "> k 2"),
        (replace(RANKING, min_score=0.3), "< minimum 0.3"),
        (
            replace(RANKING, k=1, candidate_multiplier=1, min_candidates=2),
            "outside the first 2 of each leg (vector #",
        ),
    ],
)
def test_a_near_miss_says_where_it_was_lost(ranking: Ranking, words: str) -> None:
    result = ranked(ranking)
    verdicts = [verdict_words(result, drop) for drop in result.drops]
    assert any(words in text and text.startswith("NOT SHOWN") for text in verdicts)


def test_why_a_leg_says_nothing_of_a_chunk() -> None:
    searched = LegState(LegStatus.OK, facts={"model": "text-embedding-3-small"})
    other = replace(CHUNKS[0], model="ada\x1b[31m-002")
    same = replace(CHUNKS[1], model="text-embedding-3-small")
    found = make_pool(chunks=(other, same, *CHUNKS[2:]), vector=searched)
    found = replace(found, hits={**found.hits, Leg.VECTOR: found.hits[Leg.VECTOR][2:]})
    failed = {**found.states, Leg.VECTOR: LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED)}
    result, broken = (
        rank(one, Ranking(), now=NOW) for one in (found, replace(found, states=failed))
    )
    formulas = [
        score_steps(one, find(one, chunk.id))[0].formula
        for one, chunk in ((result, other), (result, same), (broken, same))
    ]
    assert formulas == [
        "its vector is of another model: ada␛[31m-002",
        "not found by this leg",
        "provider failed",
    ]


# --- the score bar ------------------------------------------------------------------------------


@pytest.mark.parametrize("ranking", RANKINGS, ids=lambda one: f"{one.profile}-{one.fusion}")
def test_the_bar_adds_up_to_the_effective_score_and_the_losses(ranking: Ranking) -> None:
    result = ranked(ranking)
    at_lambda_0 = ranking.mmr.enabled and ranking.mmr.lambda_ == 0
    scale = bar_scale(everything(result))
    for hit in result.hits:
        parts = bar_parts(hit)
        effective = hit.score if at_lambda_0 else hit.effective
        kept = parts["vector"] + parts["keyword"] + parts["gain"]
        assert kept == pytest.approx(max(0.0, effective), abs=1e-9)
        assert min(parts.values()) >= 0
        for glyphs in (UNICODE, ASCII):
            bar = score_bar(hit, 20, scale, glyphs)
            assert bar.cell_length == 20
            counts = Counter(bar.plain)
            cells = dict(part_cells(hit, 20, scale))
            assert counts[glyphs.vector] == cells["vector"]
            assert counts[" "] == 20 - sum(cells.values())
