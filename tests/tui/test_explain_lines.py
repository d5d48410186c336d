"""What the explain screen says, drawn from values: trace, terms, changes, passages."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from textual.content import Content

from memtui.engine.least import LeastChanges
from memtui.model import Drop, Leg, Reason, Stage
from memtui.model.inquiry import (
    Inquiry,
    KeywordExplanation,
    Outcome,
    Passages,
    Place,
    Station,
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
from memtui.tui.explaining.findings import Findings, Part
from memtui.tui.explaining.least_lines import RESERVED, choices, least_lines, value_words
from memtui.tui.explaining.page import page_of, page_text
from memtui.tui.explaining.passage_lines import passage_lines, text_lines
from memtui.tui.explaining.term_table import keyword_lines
from memtui.tui.explaining.trace_lines import trace_lines
from memtui.tui.explaining.wording import STEP_WORDS, failure_words, step_words
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs
from memtui.tui.verdicts import place
from tests.tui.inquiry_samples import make_passages, make_terms
from tests.tui.reader_samples import HOSTILE, RANKING, ranked
from tests.tui.samples import CHUNKS, make_ranked

WIDTHS = (40, 60, 76, 108, 160)


def _text(lines: list[Content]) -> str:
    return "\n".join(line.plain.rstrip() for line in lines)


def _lost() -> Drop:
    result = ranked(replace(RANKING, k=3))
    return next(drop for drop in result.drops if drop.stage is Stage.CUT)


# --- trace --------------------------------------------------------------------------------------


def _inquiry(*steps: TraceStep, rank: int | None = None) -> Inquiry:
    return Inquiry("router config", Place("memory/a.md", 3), None, steps, rank)


def test_the_trace_has_one_line_a_step_and_the_first_failure_is_bold() -> None:
    steps = (
        TraceStep(Station.DISCOVERED, Outcome.PASSED),
        TraceStep(Station.KEYWORD_LEG, Outcome.MISSED, Reason.TERM_MISSING, words=("omada",)),
        TraceStep(Station.VECTOR_LEG, Outcome.PASSED, numbers={"cosine": 0.41234}),
        TraceStep(
            Station.VECTOR_POOL,
            Outcome.LOST,
            Reason.OUTSIDE_CANDIDATES,
            {"limit": 24},
            rank=31,
            of=214,
        ),
    )
    inquiry = _inquiry(*steps)
    lines = trace_lines(make_ranked(), None, inquiry, 100, UNICODE)
    assert [line.plain[0] for line in lines] == ["✓", "✗", "✓", "✗"]
    assert "a required word is missing  omada" in lines[1].plain
    assert "cos 0.412" in lines[2].plain
    assert re.search(r"vector pool +#31 of 214 +beyond the first 24", lines[3].plain)
    bold = ["bold $state-error" in {str(span.style) for span in line.spans} for line in lines]
    assert bold == [False, False, False, True]
    assert inquiry.first_failure is not None
    assert failure_words(inquiry.first_failure) == "vector pool: #31 of 214, beyond the first 24"


def test_what_was_not_asked_has_a_dash_and_ascii_is_ascii() -> None:
    steps = [
        TraceStep(Station.DISCOVERED, Outcome.PASSED),
        TraceStep(Station.VECTOR_LEG, Outcome.SKIPPED, Reason.DISABLED),
        TraceStep(Station.INDEXED, Outcome.LOST, Reason.NOT_YET_INDEXED, other="memory/a.md"),
    ]
    lines = trace_lines(make_ranked(), None, _inquiry(*steps), 80, ASCII)
    assert [line.plain[0] for line in lines] == ["+", "-", "X"]
    assert _text(lines).isascii()
    lines = trace_lines(make_ranked(), None, _inquiry(*steps), 80, UNICODE)
    assert lines[1].plain.startswith("–")


def test_a_reason_that_its_detail_begins_with_is_told_once() -> None:
    other = "not reproducible here: needs openai/m"
    step = TraceStep(Station.VECTOR_LEG, Outcome.SKIPPED, Reason.NOT_REPRODUCIBLE, other=other)
    assert step_words(step) == other
    assert failure_words(step) == f"vector leg: {other}"


def test_a_near_miss_is_traced_by_the_ranking_before_the_engine_answers() -> None:
    result = ranked(replace(RANKING, k=3))
    drop = _lost()
    known = trace_lines(result, drop, None, 100, UNICODE)
    waiting = trace_lines(result, drop, None, 100, UNICODE, waiting=True)
    assert "rank 4 > k 3" in known[-1].plain
    assert [line.plain for line in waiting[-len(known) :]] == [line.plain for line in known]
    ahead = [line.plain for line in waiting[: len(waiting) - len(known)]]
    assert ahead == [
        f"… {STEP_WORDS[station]}"
        for station in (
            Station.DISCOVERED,
            Station.INDEXED,
            Station.KEYWORD_LEG,
            Station.VECTOR_LEG,
        )
    ]


def test_every_station_and_stage_has_a_name() -> None:
    assert set(STEP_WORDS) == {*Station, *Stage}
    assert len(set(STEP_WORDS.values())) == len(STEP_WORDS)
    assert max(map(len, STEP_WORDS.values())) <= 15


# --- terms --------------------------------------------------------------------------------------


def test_every_term_has_its_numbers_and_they_sum_to_bm25() -> None:
    text = _text(keyword_lines(make_terms(), 90, UNICODE))
    assert re.search(r"✓ routers +2 +9/214 +3\.250 +3\.5000 +▒+", text)
    assert re.search(r"✗ config +0 +4/214 +4\.100 +0\.0000", text)
    assert "bm25 −3.500000 = −sum of the shares" in text
    assert "length 42 tokens, 61.2 on average" in text
    assert '"routers" OR "config"' in text
    assert "porter unicode61" in text
    assert "routers → router" in text
    assert "the, of" in text
    assert "home  not looked up: in 180 chunks, this one too" in text
    assert "ER605  as a substring: in the chunk" in text
    assert re.search(r"in no chunk +zzz", text)


def test_a_chunk_that_the_leg_does_not_find_says_so() -> None:
    text = _text(keyword_lines(make_terms(held=False), 90, UNICODE))
    assert "the keyword leg does not find this chunk" in text
    assert re.search(r"missing +omada", text)
    assert "bm25" not in text


def test_keywords_of_a_release_are_told_one_by_one() -> None:
    own = replace(make_terms(), asked="config")
    terms = replace(make_terms(held=False), sent=False, keywords=(own,))
    text = _text(keyword_lines(terms, 90, UNICODE))
    assert "not sent: its keywords are asked one by one" in text
    assert "keyword  config" in text


# --- changes ------------------------------------------------------------------------------------

CHANGES = (
    Change(Parameter.HALF_LIFE, 30.0, 48.25, 0.05, True, 6, ChangeKind.RAISE),
    Change(Parameter.FUSION, "relative_score", "rrf", 1.0, True, 2, ChangeKind.CHOOSE),
    Change(Parameter.MMR, True, False, 1.0, True, 1, ChangeKind.TURN_OFF),
)
FOUND = LeastChanges(
    Counterfactuals(
        "c",
        CHANGES,
        (
            NoChange(Parameter.K, NoChangeReason.NO_VALUE),
            NoChange(Parameter.RRF_K, NoChangeReason.NOT_USED),
        ),
    ),
    Needed(31, 24, 8, 6),
)
WORDS = WordChanges(
    (
        WordChange("router config omada", ("omada",), (), 3),
        WordChange("router", (), ("config",), 5),
    ),
    12,
)


def _lines(findings: Findings, chosen: int | None = 0, width: int = 100) -> list[str]:
    return [line.content.plain for line in least_lines(findings, chosen, width, UNICODE)]


def test_changes_and_words_are_listed_with_their_rank_and_cost() -> None:
    findings = Findings(least=FOUND, words=WORDS)
    text = "\n".join(_lines(findings))
    assert re.search(r"› half-life +30 → 48.25 d +#6 +5 % of its range", text)
    assert re.search(r"fusion method +relative score → reciprocal rank +#2 +another method", text)
    assert re.search(r"MMR +on → off +#1 +a switch", text)
    assert "it takes 31 candidates of each leg to reach it; this search took 24" in text
    assert "k 8 or candidates × k 6" in text
    assert "no value does it: results k" in text
    assert "not used by this profile: RRF constant" in text
    assert re.search(r'\+ "omada" +→ rank #3 +router config omada', text)
    assert re.search(r'− "config" +→ rank #5 +router$', text, re.MULTILINE)
    assert "12 changed queries tried" in text
    assert choices(findings) == (*CHANGES, *WORDS.changes)
    chosen = [line for line in _lines(findings, chosen=3) if line.startswith("› ")]
    assert [line[:12] for line in chosen] == ['› + "omada" ']


def test_lines_are_reserved_while_changes_are_looked_for() -> None:
    waiting = Findings(due=frozenset({Part.LEAST, Part.WORDS}))
    there = replace(waiting, least=replace(FOUND, needs=None), due=frozenset({Part.WORDS}))
    before, after = _lines(waiting), _lines(there)
    words = next(n for n, line in enumerate(before) if line.startswith("Words of the query"))
    assert words == RESERVED + 1
    assert next(n for n, line in enumerate(after) if line.startswith("Words")) == words
    none = Findings(words=WordChanges((), 4))
    assert len(_lines(none)) == len(before)
    assert any(line.startswith("… trying every parameter") for line in before)


def test_a_failed_part_is_told_in_its_place() -> None:
    failed = Findings().failed(Part.LEAST, "the index\nis gone").failed(Part.WORDS, "too slow")
    text = "\n".join(_lines(failed))
    assert "✗ the index is gone" in text
    assert "✗ too slow" in text


def test_nothing_to_change_is_said() -> None:
    none = Findings(
        least=LeastChanges(Counterfactuals("c", (), ()), None),
        words=WordChanges((), 0, Reason.EMPTY_QUERY),
    )
    text = "\n".join(_lines(none))
    assert "no single parameter brings it into the list" in text
    assert "nothing to try: the query is empty" in text
    words = WordChanges((), 7, Reason.PROVIDER_FAILED)
    failed = "\n".join(_lines(replace(none, words=words)))
    assert "7 changed queries tried" in failed
    assert "not known: provider failed while trying" in failed


@pytest.mark.parametrize(
    ("value", "old", "written"),
    [
        (0.35, 0.21, "0.35"),
        (0.3500004, 0.35, "0.3500004"),
        (0.0001234, 0.0, "0.0001"),
        (True, False, "on"),
        (None, 0.3, "off"),
        (8, 6, "8"),
    ],
)
def test_a_value_is_written_so_that_it_differs_from_the_old_one(
    value: object, old: object, written: str
) -> None:
    assert value_words(value, old).startswith(written)


# --- passages -----------------------------------------------------------------------------------


def test_passages_are_listed_and_underlined_in_the_text() -> None:
    chunk = CHUNKS[0]
    passages = make_passages(chunk)
    listed = passage_lines(passages, 80, UNICODE)
    assert listed[0].plain.startswith("  1 cos 0.620  Configured Omada router: VLAN 20")
    assert max(line.cell_length for line in listed) <= 80
    drawn = text_lines(chunk.text, ("router",), passages, 200)
    first = passages.found[0]
    underlined = {
        drawn[0].plain[span.start : span.end]
        for span in drawn[0].spans
        if span.style == "underline"
    }
    assert chunk.text[first.start : first.end] in underlined
    marked = {drawn[0].plain[s.start : s.end] for s in drawn[0].spans if "mark" in str(s.style)}
    assert marked == {"router"}


def test_passages_of_another_text_mark_nothing() -> None:
    other = make_passages(CHUNKS[1])
    drawn = text_lines(CHUNKS[0].text, (), other, 80)
    assert not any(span.style == "underline" for line in drawn for span in line.spans)
    none = passage_lines(Passages("", (), Reason.PROVIDER_FAILED), 80, UNICODE)
    assert "provider failed" in none[0].plain


# --- the whole page -----------------------------------------------------------------------------


def _findings(result_terms: KeywordExplanation) -> Findings:
    inquiry = Inquiry(
        "q",
        Place("a.md"),
        CHUNKS[0],
        (TraceStep(Stage.CUT, Outcome.LOST, Reason.CUT_AT_K, {"k": 3}, 9, 10),),
        None,
        result_terms,
    )
    return Findings(inquiry, make_passages(CHUNKS[0]), FOUND, WORDS)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_section_fits_its_width(glyphs: Glyphs) -> None:
    result = make_ranked()
    for drop in result.drops[:2]:
        page = page_of(result, drop.chunk.id, glyphs, _findings(make_terms()))
        for width in WIDTHS:
            for section in (page.trace, page.least, page.keyword, page.vector, page.text):
                for line in section(width):
                    assert line.cell_length <= width, (section, width, line.plain)


def test_the_copied_text_tells_every_section() -> None:
    result = make_ranked()
    drop = result.drops[0]
    text = page_text(page_of(result, drop.chunk.id, UNICODE, _findings(make_terms())))
    for words in ("NOT SHOWN", "Trace", "Least changes", "Words of", "Keyword leg", "Vector leg"):
        assert words in text
    assert place(drop.chunk) in text


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
    words = WordChanges((WordChange(attack, (attack,), (attack,), 1),), 1)
    step = TraceStep(Station.DISCOVERED, Outcome.LOST, Reason.UNREADABLE, other=attack)
    inquiry = Inquiry(attack, Place(attack), None, (step,), None)
    lines = [
        *keyword_lines(hostile, 90, UNICODE),
        *(line.content for line in least_lines(Findings(words=words), 0, 90, UNICODE)),
        *trace_lines(make_ranked(), None, inquiry, 90, UNICODE),
        page_of(make_ranked(), Place(attack), UNICODE, Findings(inquiry)).title(),
    ]
    text = "".join(line.plain for line in lines)
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", text
    )
    assert Leg.KEYWORD in make_ranked().pool.states
