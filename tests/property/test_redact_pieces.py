"""Masking piece by piece gives what masking the whole text at once gives."""

from __future__ import annotations

import random
import threading
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memtui.text.redact as redacting
from memtui.text.redact import NAMED, PIECE, TOKENS, Rule, openclaw_redact, pieces, redact
from tests.support.examples import examples
from tests.support.transcript_corpus import WORDS

BITS = (
    *("the", "gate", "is", "key", "my", "api", "secret", "access", "token", "password", "basic"),
    *("Bearer", "auth", "passphrase", "open", "with", "harbor", "and", "then", "we", "go"),
    *("sk-proj-9f8e7d6c5b4a", "hunter2x", "abcdefghij1234567890", "QWxhZGRpbjpvcGVuIHNlc2FtZQ"),
    *('"password": "one two', '"api_key\\": \\"of many words', '\\"', '"', '"token":"a \\" b', "="),
    *(":", "password:", "API_KEY=", "--token", "Authorization:", "https://me:pass1@x", "?key=1"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\n", "  ", "ghp_" + "a1" * 12),
)
texts = st.lists(st.sampled_from(BITS), max_size=60).map(" ".join)


def whole(text: str, named: tuple[Rule, ...], tokens: tuple[Rule, ...]) -> str:
    return redacting._redacted_piece(text, named, tokens, redacting.mask)


@settings(max_examples=examples(300))
@given(texts, st.integers(1, 40))
def test_pieces_are_masked_as_the_whole_is(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(redacting, "PIECE", piece)
        assert "".join(pieces(text)) == text
        assert redact(text) == whole(text, NAMED, TOKENS)
        expected = whole(text, redacting.OPENCLAW_2026_4, redacting.OPENCLAW_2026_4_TOKENS)
        assert openclaw_redact(text) == expected


def test_a_long_text_comes_in_short_pieces() -> None:
    chosen = random.Random(3)
    text = " ".join(chosen.choices([*WORDS, "my", "token", "is", "it"], k=400_000))
    found = list(pieces(text))
    assert "".join(found) == text
    assert max(map(len, found)) < 2.1 * PIECE
    opened = f'"password": "{text}"'
    assert len(list(pieces(opened))) == 1
    assert redact(opened) == whole(opened, NAMED, TOKENS)
    assert len(redact(opened)) < 40


def test_other_threads_run_while_a_long_text_is_masked() -> None:
    chosen = random.Random(3)
    text = " ".join(chosen.choices([*WORDS, "token", "is", "password"], k=400_000))
    began = perf_counter()
    whole(text[:400_000], NAMED, TOKENS)
    fifth = perf_counter() - began
    longest, last, done = 0.0, perf_counter(), threading.Event()

    def work() -> None:
        redact(text)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.wait(0.001):
        now = perf_counter()
        longest, last = max(longest, now - last), now
    thread.join()
    assert longest < max(0.1, fifth)
