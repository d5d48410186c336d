"""The rules of care: how precise each is on planted notes, and that they take any text."""

from __future__ import annotations

import calendar
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memtui.errors import Cancelled
from memtui.memory.care.duplicates import (
    FEWEST_WORDS,
    cut,
    likeness,
    near_duplicates,
    without_forms,
    words_of,
)
from memtui.memory.care.rules import (
    LineKind,
    NoteNames,
    broken_links,
    credentials,
    dated_facts,
    empty_file,
    first_words,
    links_in,
    long_file,
    long_lines,
    note_lines,
    without_code,
)
from memtui.memory.documents import day_of_path, front_matter, split_lines
from memtui.model import Document, SourceFile
from memtui.model.browsing import CareFinding, CareRule
from memtui.retrieval.query import NO_FILTERS, parse_query
from memtui.text.redact import redact
from tests.support.credential_list import KNOWN, Credential, credentials_of
from tests.support.embedding import registered_hashed
from tests.support.known import load
from tests.support.small_memory import make_small_memory

CASES: dict[str, Any] = load("care_notes")
_HEAD = "# A topic\n\nWords that say what this note is about, so that it is not empty.\n\n"
_SENTENCE = "The pump in the cellar starts when the water in the shaft is higher than the float."


@dataclass(frozen=True, slots=True)
class PlantedNote:
    """A note and the faults that are in it: rule and line."""

    path: str
    text: str
    faults: frozenset[tuple[CareRule, int]] = frozenset()


def planted_notes() -> list[PlantedNote]:
    """Return every note, planted or sound."""
    notes = [PlantedNote(path, text) for path, text in CASES["context"].items()]
    for name, cases in CASES["faults"].items():
        for number, case in enumerate(cases):
            text = f"{_HEAD}{case}\n"
            fault = CareRule(name), text.count("\n")
            notes.append(PlantedNote(f"memory/{name}-{number}.md", text, frozenset({fault})))
    for number, case in enumerate([*CASES["sound"], *CASES["known_false"]]):
        notes.append(PlantedNote(f"memory/sound-{number}.md", f"{_HEAD}{case}\n"))
    for number, text in enumerate(CASES["full"]):
        notes.append(PlantedNote(f"memory/full-{number}.md", text))
    empty, long = frozenset({(CareRule.EMPTY_FILE, 1)}), frozenset({(CareRule.LONG_FILE, 1)})
    for number, text in enumerate(CASES["empty"]):
        notes.append(PlantedNote(f"memory/empty-{number}.md", text, empty))
    paragraph = "\n\n".join([_SENTENCE] * 60) + "\n"
    return [
        *notes,
        PlantedNote("memory/long.md", paragraph * 22, long),
        PlantedNote("MEMORY.md", paragraph * 5, long),
        PlantedNote("memory/rather-long.md", paragraph * 10),
    ]


CREDENTIALS = CASES["faults"]["credential"]
TODAY = date(2026, 11, 20)
LEAST_PRECISION = 0.9
NOT_OF_THE_TEXT = {CareRule.NEAR_DUPLICATE, CareRule.UNREACHABLE, CareRule.NO_TEXT}


def document(path: str, text: str) -> Document:
    file = SourceFile(path, f"/nowhere/{path}", "memory", len(text), 0, 0)
    return Document(file, text, "", day_of_path(path) or front_matter(text).day, None, None)


def found_in(notes: Iterable[PlantedNote]) -> list[CareFinding]:
    documents = [document(note.path, note.text) for note in notes]
    there = ("outside/there.md", "photo.jpg", "drawing.excalidraw")
    names = NoteNames(lambda folder, target: target.endswith(there))
    for one in documents:
        names.add(one)
    findings: list[CareFinding] = []
    for one in documents:
        findings += [*empty_file(one), *long_file(one)]
        findings += [*long_lines(one, 400), *dated_facts(one, TODAY)]
        findings += [*broken_links(links_in(one), names), *credentials(one)]
    return findings


def test_every_rule_of_the_notes_is_precise_on_planted_notes() -> None:
    notes = planted_notes()
    planted = {(rule, note.path, line) for note in notes for rule, line in note.faults}
    findings = found_in(notes)
    reported = {(one.rule, one.place.path, one.place.start_line) for one in findings}
    # The line may say "since" or "until" of it.
    dated = [one.message for one in findings if one.rule is CareRule.DATED_FACT]
    assert all(one.startswith("dated ") for one in dated)
    assert {rule for rule, _, _ in planted} == set(CareRule) - NOT_OF_THE_TEXT
    assert planted - reported == set()
    notes_by_path = {note.path: note.text for note in notes}
    wrong = [notes_by_path[path].splitlines()[line - 1] for _, path, line in reported - planted]
    assert sorted(wrong) == sorted(CASES["known_false"])


def test_no_credential_is_in_what_a_finding_says_or_shows() -> None:
    secrets = [
        *("sk-Zk81QpX0vT7mWb42LdYc", "ghp_Zk81QpX0vT7mWb42LdYc", "AKIAQ7RZT2MWX9KLD3PV"),
        *("t9#Lq2!vRz8m", "9fK2mQ7xZ1vL8pR4", "q8Zt61xPwL03RmNv7Ks2"),
    ]
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{'MIIEpAIBAAKCAQEA7xT2' * 3}\n" * 4
    text = "\n".join([*CREDENTIALS, block, "-----END RSA PRIVATE KEY-----"])
    findings = list(credentials(document("memory/keys.md", text)))
    assert len(findings) == len(CREDENTIALS) + 1
    output = "\n".join(f"{one.message} {one.place.text}" for one in findings)
    assert not [secret for secret in secrets if secret in output]
    assert "MIIEpAIBAAKCAQEA7xT2" not in output
    # The file with such a line in its beginning, found by another rule, is shown masked, too.
    (long,) = long_file(document("MEMORY.md", f"{CREDENTIALS[0]}\n" + "A word or two. " * 3000))
    assert "Zk81QpX0vT7mWb42LdYc" not in long.place.text


@pytest.mark.parametrize("one", credentials_of(KNOWN), ids=lambda one: one.service)
def test_what_a_chunk_masks_is_named_and_is_masked_where_it_is_named(one: Credential) -> None:
    text = f"# Keys\n\n{one.text}\n"
    assert redact(text) != text
    findings = list(credentials(document("memory/keys.md", text)))
    assert findings
    assert not one.leaks_into("\n".join(f"{each.message} {each.place.text}" for each in findings))


def test_a_private_key_of_a_manual_without_a_body_is_none() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n"
    assert not list(credentials(document("memory/manual.md", text)))


def test_lines_are_told_apart_as_commonmark_does() -> None:
    text = "---\nday: x\n---\n# A\ntext `x`\n\n    code\n\n- item\n\n      deep\n\n```py\n# no\n```\nB\n=\n| a | b |\n"
    kinds = [line.kind for line in note_lines(text)]
    front, code, head, table, blank, body = LineKind
    assert kinds == [
        *(front, front, front, head, body, blank, code, blank, body, blank, body, blank),
        *(code, code, code, head, blank, table),
    ]
    assert [line.section for line in note_lines("# A\nx\n## B\ny\n# C\nz")] == [
        *("A", "A", "A B", "A B", "C", "C")
    ]


@pytest.mark.parametrize(("text", "left"), load("reading")["code spans"])
def test_code_spans_close_at_a_run_of_the_same_length(text: str, left: str) -> None:
    assert without_code(text) == left


def test_the_first_words_mean_nothing_in_the_query_language() -> None:
    text = '---\ntitle: x\n---\n# path:memory "Router" setup\n\n```\ncode\n```\n- after:2026-01-01 the VLAN of\n'
    assert (
        first_words(document("memory/a.md", text))
        == "path memory Router setup after 2026 01 01 the VLAN"
    )
    assert first_words(document("memory/b.md", "# One\n")) == ""


def test_every_month_dates_a_fact_by_its_name_and_its_short_name() -> None:
    names = [*calendar.month_name[1:], *calendar.month_abbr[1:]]
    text = "\n".join(f"As of {name} 2026 the fee is five." for name in names)
    facts = list(dated_facts(document("memory/fees.md", text), date(2027, 1, 1)))
    assert [one.numbers["day"] for one in facts] == [f"{name} 2026" for name in names]


SYLLABLES = ("ra", "to", "mi", "ve", "so", "lun", "ka", "dor", "pin", "tes", "wol", "zem")


def paragraph(seed: int, length: int = 40) -> list[str]:
    """Words that no other seed has in this order."""
    chosen = Random(seed)
    return ["".join(chosen.choices(SYLLABLES, k=2)) for _ in range(length)]


def changed(words: list[str], *places: int) -> list[str]:
    """The same with other words at some places."""
    return ["another" if n in places else word for n, word in enumerate(words)]


def test_near_duplicates_are_precise_on_planted_chunks() -> None:
    texts = [" ".join(paragraph(seed)) for seed in range(60)]
    planted: set[tuple[int, int]] = set()

    def plant(of: int, text: str) -> None:
        planted.add((of, len(texts)))
        texts.append(text)

    for seed in range(12):
        words = paragraph(seed)
        if seed % 3 == 0:
            plant(seed, " ".join(changed(words, 11)))
        elif seed % 3 == 1:
            plant(seed, f"# A heading\n\n- {', '.join(words).capitalize()}.\n")
        else:
            plant(seed, " ".join(changed([*words, "and", "so", "on"], 5, 30)))
    # Look-alikes: records of one kind, one opening, the same words in another order, small talk.
    for number in range(20, 32):
        texts.append(
            f"Invoice 2026-0{number} to Meier and sons, {number * 37} euros, paid on day {number} by card"
        )
    for seed in range(40, 52):
        texts.append(" ".join([*paragraph(12)[:10], *paragraph(seed + 100)]))
    texts += [" ".join(reversed(paragraph(seed))) for seed in range(20, 30)]
    texts += ["nothing to report today"] * 5
    pairs = near_duplicates(texts)
    right = sum((pair.first, pair.second) in planted for pair in pairs)
    print(f"near_duplicate: precision {right / len(pairs):.2f}, recall {right / len(planted):.2f}")
    assert right / len(pairs) >= LEAST_PRECISION, [
        pair for pair in pairs if pair[:2] not in planted
    ]
    assert right / len(planted) >= LEAST_PRECISION


def test_what_was_begun_from_one_template_is_no_duplicate() -> None:
    task = "- [ ] water the plants\n- [x] take out the bins and the paper\n- [ ] check the mail\n"
    meeting = (
        "Attendees: Tom, Mai, Jonas\nPlace: the small room\nAgenda: last week, numbers, next\n"
    )
    texts = [f"# Week {n}\n\n{task}- [ ] call home on Sunday\n" for n in range(1, 9)]
    texts += [f"# Meeting {n}\n\n{meeting}\n{' '.join(paragraph(n, 9))}\n" for n in range(8)]
    texts += [
        f"# Day\n\nMood:\nSlept:\nWeather:\nWhat went well today:\n{n} good" for n in range(8)
    ]
    assert near_duplicates(texts)
    assert not near_duplicates(without_forms(texts))
    bodies = [" ".join(paragraph(seed)) for seed in (1, 2, 1)]
    copies = [f"# Copy {n}\n\n{task}\n{text}\n" for n, text in enumerate(bodies)]
    assert [pair[:2] for pair in near_duplicates(without_forms(copies))] == [(0, 2)]
    with pytest.raises(Cancelled):
        without_forms(copies, lambda: True)


def test_a_family_of_equal_texts_is_connected_and_not_all_pairs() -> None:
    text = " ".join(paragraph(1))
    pairs = near_duplicates([text] * 500)
    assert len(pairs) == 499
    assert {pair.second for pair in pairs} == set(range(1, 500))
    near = [" ".join(changed(paragraph(1, 60), n)) for n in range(200)]
    assert 50 <= len(near_duplicates(near)) <= 2 * len(near)


def test_pieces_that_overlap_are_no_duplicates_and_a_run_can_be_stopped() -> None:
    texts = [" ".join(paragraph(1))] * 2
    assert not near_duplicates(texts, apart=lambda first, second: False)
    with pytest.raises(Cancelled):
        near_duplicates(texts, cancelled=lambda: True)


def test_a_link_to_what_is_left_out_says_why(tmp_path: Path) -> None:
    memory = make_small_memory(tmp_path)
    (memory.root / "plan.md").write_text("# Plan\n")
    (memory.root / "memory/links.md").write_text("[the plan](../plan.md), [[plan]]\n")
    with registered_hashed(), memory.open() as engine:
        findings = engine.browse.care().findings
    messages = [one.message for one in findings if "left out: only" in one.message]
    assert [one.split()[0] for one in messages] == ["../plan.md", "[[plan]]"]


def test_a_look_stops_wherever_it_is_and_asks_the_index_once_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = make_small_memory(tmp_path)
    with registered_hashed(), memory.open() as engine:
        path_of = Mock(wraps=engine.index.files.path_of)
        monkeypatch.setattr(engine.index.files, "path_of", path_of)
        report = engine.browse.care()
        assert [one.numbers["target"] for one in report.findings if one.rule == "broken_link"]
        arguments = [call.args for call in path_of.call_args_list]
        assert sorted(set(arguments)) == sorted(arguments)
        for times in (0, 3, 12, 20, 40):
            left = iter(range(times))
            with pytest.raises(Cancelled):
                engine.browse.care(cancelled=lambda left=left: next(left, None) is None)  # type: ignore[misc]


WORDS = st.sampled_from(
    ["ash", "birch", "cedar", "elm", "fir", "holly", "oak", "3", "41", "京", "都"]
)
TEXTS = st.lists(WORDS, min_size=5, max_size=40)


@st.composite
def families(draw: st.DrawFn) -> list[str]:
    """Texts, and texts that come from one of them by a few changes."""
    texts: list[list[str]] = []
    for _ in range(draw(st.integers(1, 5))):
        words = draw(TEXTS)
        texts.append(words)
        for _ in range(draw(st.integers(0, 3))):
            other = list(words)
            for place in draw(st.lists(st.integers(0, len(words) - 1), max_size=3)):
                other[place] = draw(WORDS)
            texts.append(other)
    order = draw(st.permutations(texts))
    return [" ".join(words) for words in order]


@given(families())
def test_pairs_are_near_and_connect_all_that_are(texts: list[str]) -> None:
    pairs = near_duplicates(texts)
    cuts = [cut(text) for text in texts]
    enough = [len(words_of(text)) >= FEWEST_WORDS for text in texts]
    family = list(range(len(texts)))
    for pair in pairs:
        assert pair.first < pair.second
        assert likeness(cuts[pair.first], cuts[pair.second]) == pair.score
        assert enough[pair.first]
        assert enough[pair.second]
        old, new = family[pair.second], family[pair.first]
        family = [new if one == old else one for one in family]
    for first, second in combinations(range(len(texts)), 2):
        score = likeness(cuts[first], cuts[second])
        # Below that a bucket may miss a pair, with a chance of one in a hundred.
        if score is not None and score >= 0.8 and enough[first] and enough[second]:
            assert family[first] == family[second], (texts[first], texts[second])


MARKUP = st.sampled_from(
    [
        *"#`~[]()<>!|-*_\\ \n\t:.=",
        *("```", "[[", "]]", "](", "a.md", "<!--", "-->", "---\n", "2026-03-04", "since "),
        *("May 2026", "sk-abcdefgh12345678", "KEY=", "word ", "京都", "\r\n"),
    ]
)
ANY = st.lists(MARKUP | st.characters(codec="utf-8"), max_size=60).map("".join)


@given(ANY)
def test_every_rule_takes_any_text_and_points_into_it(text: str) -> None:
    note = document("memory/a.md", text)
    names = NoteNames()
    names.add(note)
    lines = split_lines(text)
    assert [line.number for line in note_lines(text)] == list(range(1, len(lines) + 1))
    findings = [*dated_facts(note, TODAY), *broken_links(links_in(note), names)]
    findings += [*credentials(note), *long_lines(note, 8)]
    findings += [*empty_file(note), *long_file(note)]
    for one in findings:
        assert 1 <= one.place.start_line <= one.place.end_line <= max(1, len(lines))
        assert "\n" not in one.message
    kinds = {line.number: line.kind for line in note_lines(text)}
    for one in broken_links(links_in(note), names):
        assert kinds[one.place.start_line] not in {LineKind.CODE, LineKind.FRONT_MATTER}
    for line in lines:
        assert len(without_code(line)) == len(line)


@given(ANY)
def test_first_words_are_a_query_of_words_alone(text: str) -> None:
    query = parse_query(first_words(document("memory/a.md", text)))
    assert query.filters == NO_FILTERS
    assert not query.phrases
    assert not query.problems
