"""Credentials that a release's list let through in a chunk: masked where the chunk is shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memtui.memory.chunking import Packer
from memtui.memory.transcripts.generated import normalise, wrap
from memtui.text.redact import openclaw_redact, redact_spoken
from tests.support.examples import examples
from tests.unit.test_redact_more import MORE, SECRET, UPPER

AWS = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"User: it is {AWS}.", "User: it is AKIAIO…MPLE."),
        ("User: plain\nAssistant: words", "User: plain\nAssistant: words"),
        ("Assistant: ssh://bob:hunter2@host", "Assistant: ssh://bob:***@host"),
        ('User: {"password": "***"left"}', 'User: {"password": "***"***"}'),
        ('User: {"password": "***", "a": "b"}', 'User: {"password": "***", "a": "b"}'),
        ("User: KEY=abcdef…wxyz", "User: KEY=abcdef…wxyz"),
        ("DNN7EXAMPLE is the end\nUser: hi", "*** is the end\nUser: hi"),
        ("no digit\nUser: hi", "no digit\nUser: hi"),
        ("User: my password is\nAssistant: hunter22", "User: my password is\nAssistant: hunter22"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert redact_spoken(text) == shown


@pytest.mark.parametrize("said", ["the password is hunter22 ok", f"take {AWS} and go"])
@pytest.mark.parametrize("before", range(770, 801, 5))
def test_a_credential_that_the_wrapping_tears(said: str, before: int) -> None:
    text = "w" * 300 + " " + "v" * (before - 301) + f" {said} and so on, and on"
    lines = [f"User: {piece}" for piece in wrap(text)]
    assert len(lines) == 2
    shown = redact_spoken("\n".join(lines))
    assert len(shown.split("\n")) == 2
    assert "hunter22" not in shown
    assert AWS[6:16] not in shown


def test_a_token_longer_than_a_line_is_masked_on_every_line() -> None:
    token = "eyJ" + "a1" * 450 + "." + "b2" * 500
    shown = redact_spoken("\n".join(f"User: {piece}" for piece in wrap(token)))
    assert shown == "User: eyJa1a…b2b2\nUser: ***\nUser: ***"


@pytest.mark.parametrize("text", MORE, ids=lambda text: text[:24])
def test_nothing_is_left_that_the_wide_list_masks(text: str) -> None:
    shown = redact_spoken(f"User: say {openclaw_redact(normalise(text))} now")
    assert SECRET[6:-4].lower() not in shown.lower()
    assert UPPER[3:-4] not in shown
    assert shown.startswith("User: say ")
    assert shown.endswith(" now")


@settings(max_examples=examples(30))
@given(st.text(alphabet='ab1 \n":{}=\\@/\U0001f600', max_size=200))
def test_lines_stay_lines(text: str) -> None:
    whole = f"User: {text} password: hunter22 {AWS} ssh://a:b@c"
    shown = redact_spoken(whole)
    assert shown.count("\n") == whole.count("\n")
    assert AWS not in shown


def test_chunks_of_a_long_line_show_no_credential() -> None:
    said = " ".join(f"word{number} {AWS} more" for number in range(200))
    packer = Packer(100, 20)
    spans = [
        span
        for number, piece in enumerate(wrap(said), 1)
        for span in packer.feed(number, f"User: {piece}")
    ]
    shown = [redact_spoken(span.text) for span in (*spans, *packer.finish())]
    assert len(shown) > 10
    assert AWS not in json.dumps(shown)
