"""Near-duplicates against a comparison of all pairs, and rules over any text at all."""

from __future__ import annotations

from datetime import date
from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from memtui.memory.care.duplicates import FEWEST_WORDS, cut, likeness, near_duplicates, words_of
from memtui.memory.care.lines import LineKind, note_lines, without_code
from memtui.memory.care.links import NoteNames, broken_links
from memtui.memory.care.rules import (
    credentials,
    dated_facts,
    empty_file,
    first_words,
    long_file,
    long_lines,
)
from memtui.memory.documents import split_lines
from memtui.model import Document, SourceFile
from memtui.retrieval.query import NO_FILTERS, parse_query

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
            changed = list(words)
            for place in draw(st.lists(st.integers(0, len(words) - 1), max_size=3)):
                changed[place] = draw(WORDS)
            texts.append(changed)
    order = draw(st.permutations(texts))
    return [" ".join(words) for words in order]


@given(families())
def test_pairs_are_near_and_connect_all_that_are(texts: list[str]) -> None:
    found = near_duplicates(texts)
    cuts = [cut(text) for text in texts]
    enough = [len(words_of(text)) >= FEWEST_WORDS for text in texts]
    family = list(range(len(texts)))
    for pair in found:
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
    file = SourceFile("memory/a.md", Path("/nowhere/a.md"), "memory", 0, 0, 0)
    document = Document(file, text, "", None, None, None)
    names = NoteNames()
    names.add(document)
    lines = split_lines(text)
    assert [line.number for line in note_lines(text)] == list(range(1, len(lines) + 1))
    found = [*dated_facts(document, date(2026, 11, 20)), *broken_links(document, names)]
    found += [*credentials(document), *long_lines(document, 8)]
    found += [one for one in (empty_file(document), long_file(document)) if one is not None]
    for one in found:
        assert 1 <= one.place.start_line <= one.place.end_line <= max(1, len(lines))
        assert "\n" not in one.message
    kinds = {line.number: line.kind for line in note_lines(text)}
    for one in broken_links(document, names):
        assert kinds[one.place.start_line] not in {LineKind.CODE, LineKind.FRONT_MATTER}
    for line in lines:
        assert len(without_code(line)) == len(line)


@given(ANY)
def test_first_words_are_a_query_of_words_alone(text: str) -> None:
    file = SourceFile("memory/a.md", Path("/nowhere/a.md"), "memory", 0, 0, 0)
    query = parse_query(first_words(Document(file, text, "", None, None, None)))
    assert query.filters == NO_FILTERS
    assert not query.phrases
    assert not query.problems
