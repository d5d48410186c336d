"""Reports of explanations: every number is told, and no text of a note breaks out of a format."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace

from memtui.model import Decay, Drop, Leg, Mmr, Ranking, Reason, Stage
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    KeywordExplanation,
    LegPlace,
    LegRank,
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
from memtui.ranking.counterfactual.change import (
    Change,
    Counterfactuals,
    NoChange,
    NoChangeReason,
    Parameter,
)
from memtui.ranking.pipeline import rank
from memtui.ranking.trace import find
from memtui.report import words
from memtui.report.explanation import Explained, report_of
from memtui.report.export import (
    ExportFailed,
    Format,
    code,
    exported,
    fenced,
    format_of,
    markdown_of,
    save,
)
from memtui.report.layout import Layout, Line, Report, Section, SectionId, text_of
from memtui.text.sanitize import HOSTILE
from memtui.tui import fmt as tui_format
from tests.support.hostile import ALL, ATTACKS
from tests.support.known import load
from tests.support.pools import NOW, chunk, pool

RANKING = Ranking(
    k=2, decay=Decay(enabled=True, half_life_days=30.0), mmr=Mmr(enabled=True, lambda_=0.5)
)
CHANGES = Counterfactuals(
    (
        Change(Parameter.K, 2, 3, 0.005025, 3),
        Change(Parameter.VECTOR_WEIGHT, 0.3, 0.8125, 0.5125, 2),
        Change(Parameter.MIN_SCORE, 0.35, None, 1.0, 2),
    ),
    (
        NoChange(Parameter.LAMBDA, NoChangeReason.NO_VALUE),
        NoChange(Parameter.RRF_K, NoChangeReason.NOT_USED),
    ),
)
BREAKERS: list[str] = load("hostile")["what breaks Markdown and SVG"]
HOSTILES = (*ATTACKS, *BREAKERS, f"{ALL} {' '.join(BREAKERS)}")
each_hostile = pytest.mark.parametrize("text", HOSTILES, ids=range(len(HOSTILES)))
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
SVG = "{http://www.w3.org/2000/svg}"


def explained(text: str = "router vlan", *, has_chunk: bool = True) -> Explained:
    """The explanation of the third of four chunks, all of whose texts are `text`."""
    note = text.encode("utf-8", "replace").decode("utf-8")  # as notes are read
    chunks = [
        chunk(f"c{n}", f"{note} {n}", path=f"{note}/{n}.md", line=n + 1, day=date(2026, 11, 10 + n))
        for n in range(4)
    ]
    vector = [("c0", 0.71), ("c1", 0.613), ("c2", 0.4217), ("c3", 0.3)]
    keyword = [("c1", -6.25), ("c0", -3.5), ("c2", -1.125)]
    ranked = rank(pool(chunks, vector, keyword, query=note), RANKING, now=NOW)
    inquiry = _inquiry(note, chunks[2].id if has_chunk else None, ranked)
    if not has_chunk:
        return Explained(ranked, RANKING, inquiry)
    changes = WordChanges((WordChange(f"{note} more", (note,), (note,), 2),), 17)
    passages = Passages(chunks[2].text, (Passage(0, len(note), 0.8125),), model=note)
    return Explained(ranked, RANKING, inquiry, CHANGES, changes, passages)


def lines_of(report: Report, width: int | None = None) -> list[Line]:
    return list(Layout(width=width).lines(report))


def inquiry_of(example: Explained) -> Inquiry:
    assert example.inquiry is not None
    return example.inquiry


def _inquiry(note: str, chunk_id: str | None, ranked: Any) -> Inquiry:
    steps = [
        TraceStep(Station.DISCOVERED, Outcome.PASSED, numbers={"bytes": 4321}),
        TraceStep(Station.KEYWORD_LEG, Outcome.MISSED, Reason.TERM_MISSING, words=(note, "b")),
    ]
    if chunk_id is None:
        lost = TraceStep(Station.INDEXED, Outcome.LOST, Reason.STALE, other=note)
        return Inquiry(note, Place(f"{note}.md", 7), None, (steps[0], lost), None)
    scored = find(ranked, chunk_id)
    cosine = {"cosine": 0.12345678901234567}
    steps.append(TraceStep(Station.VECTOR_LEG, Outcome.PASSED, Reason.OK, cosine, 3, 99))
    for stage in scored.stages:
        is_lost = isinstance(scored, Drop) and stage.stage is scored.stage
        outcome = Outcome.LOST if is_lost else Outcome.PASSED
        after = {"after": stage.after}
        steps.append(TraceStep(stage.stage, outcome, stage.reason, after, stage.rank, 4))
    phrase = PhraseScore(f'"{note}"', (note,), 3, 5, 1.0986122886681098, 1.4372531)
    terms = KeywordExplanation(
        rowid=3,
        match=f'"{note}"',
        tokenizer=note,
        indexed=True,
        found=True,
        score=-1.4372531,
        terms=(TermScore(note, f'"{note}"', False, True, 1.4372531, (phrase,)),),
        rows=99,
        length=12,
        average_length=31.25,
        pruned=(PrunedTerm(note, 77, True),),
        stop_words=(note,),
        substrings=(SubstringTerm(note, False),),
        missing=(note,),
        found_by=FoundBy.MATCH,
    )
    places = {Leg.VECTOR: LegPlace(LegRank(2, 99, 0.4217)), Leg.KEYWORD: LegPlace(None)}
    shown = next((hit.rank for hit in ranked.hits if hit.chunk.id == chunk_id), None)
    return Inquiry(
        note, Place(f"{note}.md"), ranked.pool.chunks[chunk_id], tuple(steps), shown, terms, places
    )


def test_a_stage_that_pushed_it_beyond_k_is_the_first_failure() -> None:
    example = explained()
    steps = tuple(
        replace(step, outcome=Outcome.PUSHED_OUT, reason=Reason.PUSHED_DOWN)
        if step.at is Stage.DECAY
        else step
        for step in inquiry_of(example).steps
    )
    pushed = replace(example, inquiry=replace(inquiry_of(example), steps=steps))
    lines = lines_of(report_of(pushed))
    assert lines[1].text == "  NOT SHOWN: rank 3 > 2 results"
    (strong,) = (line.text.strip() for line in lines[1:] if line.strong)
    assert strong.startswith("✗ decay")
    assert "pushed out of the list: 0." in strong
    assert any(line.text.startswith("    ✗ list") for line in lines)
    back = text_of(report_of(replace(pushed, inquiry=replace(inquiry_of(pushed), rank=2))))
    assert "beyond the list here, a later stage brings it back: 0." in back


def test_a_place_without_a_chunk_has_a_trace_and_a_verdict() -> None:
    example = explained(has_chunk=False)
    text = text_of(report_of(example), ascii_only=True)
    assert text.startswith(
        "router vlan.md:7\n  NOT SHOWN: changed since it was indexed, router vlan\n"
    )
    assert "    x indexed" in text
    assert "    + discovered" in text
    assert "4.2 KB" in text


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_keep_to_the_width_and_lose_nothing(width: int) -> None:
    for text in ("router vlan", f"備份路由 {'x' * 90} 🏮", HOSTILES[-1]):
        report = report_of(explained(text))
        lines = [line.text for line in lines_of(report, width)]
        assert max(map(words.cells_of, lines)) <= width
        assert _bare(lines) == _bare([line.text for line in lines_of(report)])


def _bare(lines: list[str]) -> list[str]:
    return sorted("".join(lines).replace(" ", ""))


@each_hostile
def test_no_format_lets_a_terminal_command_through(text: str) -> None:
    for has_chunk in (True, False):
        example = explained(text, has_chunk=has_chunk)
        for format_ in Format:
            assert HOSTILE.search(exported(example, format_)) is None, format_


@each_hostile
def test_nothing_breaks_out_of_markdown(text: str) -> None:
    quiet, loud = (_tokens(markdown_of(report_of(explained(one)))) for one in ("router", text))
    assert _kinds(loud) <= _kinds(quiet), "no HTML, no link, no picture, no emphasis of its own"
    assert [t.tag for t in loud if t.type == "heading_open"] == ["h2", *["h3"] * 9]
    for row in _rows(loud):
        assert row in {2, 3, 4, 5, 6, 7}
    texts = [t.content for t in loud if t.type == "text"]
    assert all(re.fullmatch(r"[\w ,;()./|:✓✗–]*", piece) for piece in texts), texts
    assert not re.search(r"www\.|example|someone|tada|@|#\d", "\n".join(texts))


def _tokens(document: str) -> list[Token]:
    tokens = []
    for token in MARKDOWN.parse(document):
        tokens += [token, *(token.children or [])]
    return tokens


def _kinds(tokens: list[Token]) -> set[str]:
    return {token.type for token in tokens} | {"softbreak"}


def _rows(tokens: list[Token]) -> Iterator[int]:
    """The number of cells of every row; all rows of a table have as many as its head."""
    heads = cells = 0
    for token in tokens:
        if token.type == "table_open":
            heads = 0
        elif token.type == "tr_open":
            cells = 0
        elif token.type in {"th_open", "td_open"}:
            cells += 1
        elif token.type == "tr_close":
            heads = heads or cells
            assert cells == heads
            yield cells


@pytest.mark.parametrize("note", ["1) a", "1. a", "    a", "- a", "> a", "2) 3) (b)", "# a"])
def test_a_note_is_one_item_of_a_list_whatever_it_begins_with(note: str) -> None:
    section = Section(SectionId.LEGS, "legs", notes=(note, "plain"))
    tokens = _tokens(markdown_of(Report("a", "b", "SHOWN", True, (section,))))
    texts = [t.content.strip() for t in tokens if t.type in {"text", "code_inline"}]
    assert [note.strip(), "plain"] == texts[-2:]
    kinds = [token.type for token in tokens]
    assert (kinds.count("bullet_list_open"), kinds.count("list_item_open")) == (1, 2)
    assert not {"ordered_list_open", "blockquote_open", "code_block"} & set(kinds)


@given(st.text(alphabet="`|\\<>[]()!*_~#@:&;$ab1 .-\n", max_size=24))
def test_code_spans_and_blocks_hold_any_text(text: str) -> None:
    line = " ".join(text.split("\n"))
    (inline,) = (t for t in MARKDOWN.parse(f"x {code(text)}") if t.type == "inline")
    spans = [t.content for t in inline.children or () if t.type == "code_inline"]
    assert "".join(spans).strip() == line.strip()
    assert {t.type for t in inline.children or ()} <= {"text", "code_inline"}
    (block,) = MARKDOWN.parse(fenced(text))
    assert block.content == f"{text}\n"


@pytest.mark.parametrize("dark", [True, False])
@each_hostile
def test_a_picture_is_well_formed_whatever_the_text(text: str, dark: bool) -> None:
    drawn = exported(explained(text), Format.SVG, dark=dark)
    root = ET.fromstring(drawn)
    kinds = {element.tag for element in root.iter()}
    assert kinds == {f"{SVG}{name}" for name in ("svg", "title", "g", "rect", "path", "text")}
    named = {name for element in root.iter() for name in element.attrib}
    assert not any(name.startswith("on") or "href" in name for name in named)
    width = float(root.attrib["width"])
    for word in root.iter(f"{SVG}text"):
        assert float(word.attrib["x"]) + float(word.attrib.get("textLength", 0)) <= width - 20


def test_a_picture_says_what_the_text_says() -> None:
    example = explained("備份 router")
    root = ET.fromstring(exported(example, Format.SVG))
    drawn = [word.text or "" for word in root.iter(f"{SVG}text")]
    lines = lines_of(report_of(example))
    spoken = {word for line in lines for word in line.text.split()}
    assert spoken <= set(drawn) | {""}
    colour = tui_format.variable_defaults(dark=True)["leg-mmr"]
    bars = [shape for shape in root.iter(f"{SVG}rect") if shape.attrib["fill"] == colour]
    assert len(bars) == 1


def test_a_file_is_written_whole_and_never_over_another(tmp_path: Path) -> None:
    target = tmp_path / "why.svg"
    save(target, "one\n")
    with pytest.raises(ExportFailed, match="is there already") as refused:
        save(target, "two\n")
    assert "--force" in refused.value.hint
    assert target.read_text("utf-8") == "one\n"
    save(target, "two \ud800\n", force=True)
    assert target.read_text("utf-8") == "two ?\n"
    assert [path.name for path in tmp_path.iterdir()] == ["why.svg"]
    names = ("x.TXT", "x.JSON", "x.MD", "x.SVG", "x.Markdown", "README")
    formats = ["text", "json", "markdown", "svg", "markdown", "text"]
    assert [format_of(Path(name)) for name in names] == formats


@pytest.mark.parametrize("name", ["no/such/folder.txt", "folder", "/", "nul\0byte", "x" * 300])
def test_what_cannot_be_written_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    for force in (True, False):
        with pytest.raises(ExportFailed) as failed:
            save(tmp_path / name, "text", force=force)
        assert "\n" not in failed.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    link, target = tmp_path / "link.md", tmp_path / "target.md"
    link.symlink_to(target.name)
    with pytest.raises(ExportFailed, match="is there already"):
        save(link, "one")
    save(link, "one", force=True)
    save(link, "two", force=True)
    assert link.is_symlink()
    assert target.read_text() == "two"
    assert len(list(tmp_path.iterdir())) == 2
