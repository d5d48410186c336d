"""Credentials in text: the known answers of OpenClaw 2026.4.26, and what must not leak or stall."""

from __future__ import annotations

import builtins
import inspect
import json
import os
import pydoc_data.topics
import random
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memtui.data import DEMO_ROOT
from memtui.memory.chunking import Packer
from memtui.memory.transcripts.generated import normalise, wrap
from memtui.text.redact import (
    MASK,
    NAMED,
    OPENCLAW_2026_4,
    OPENCLAW_2026_4_TOKENS,
    TOKENS,
    is_secret_name,
    openclaw_redact,
    redact,
    redact_name,
    redact_spoken,
    redact_value,
)
from tests.support.credential_list import (
    KNOWN,
    SECOND,
    THIRD,
    Credential,
    credentials_of,
    lookalikes_of,
)
from tests.support.dice import examples
from tests.support.known import DATA, load

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

SECRET = "abcdef1234567890abcdef"
UPPER = "ABCDEFGHIJ234567"
TEXTS: dict[str, list[str]] = {
    group: [text.replace("{SECRET}", SECRET) for text in texts]
    for group, texts in load("credentials").items()
}
MORE = TEXTS["more"]
RULES: dict[str, Any] = json.loads(json.dumps(load("transcript_rules")).replace("{SECRET}", SECRET))


@pytest.mark.parametrize("text", [*TEXTS["of_openclaw"], *MORE], ids=lambda text: text[:24])
def test_shapes_of_credentials(text: str) -> None:
    shown = [redact(f"User: say {text} now")]
    if text in MORE:
        # Nothing is left that the wide list masks.
        shown.append(redact_spoken(f"User: say {openclaw_redact(normalise(text))} now"))
    for masked in shown:
        assert SECRET[6:-4].lower() not in masked.lower()
        assert UPPER[3:-4] not in masked
        assert masked.startswith("User: say ")
        assert masked.endswith(" now")


@pytest.mark.parametrize("one", credentials_of(KNOWN), ids=lambda one: one.service)
def test_the_known_forms_of_credentials_are_masked(one: Credential) -> None:
    assert not one.leaks_into(redact(one.text))
    # As a conversation has it, in an index with the text of a release.
    assert not one.leaks_into(redact_spoken(f"User: {openclaw_redact(normalise(one.text))}"))
    assert not one.leaks_into(str(redact_value({"command": one.text})))
    # A secret that ends a string takes no part of the string's end.
    assert json.loads(redact(json.dumps([json.dumps([one.text])])))


@pytest.mark.parametrize("text", [*TEXTS["prose"], *lookalikes_of(KNOWN)])
def test_what_looks_like_a_credential_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", [SECOND, THIRD])
def test_the_readme_tells_what_share_of_a_list_is_masked(name: str) -> None:
    listed, alike = credentials_of(name), lookalikes_of(name)
    masked = sum(not one.leaks_into(redact(one.text)) for one in listed)
    wrong = sum(redact(text) != text for text in alike)
    assert masked >= 0.95 * len(listed)
    assert f"{masked} of {len(listed)}" in README
    assert f"{wrong} of {len(alike)}" in README


def technical_lines() -> list[str]:
    """The first 10,000 lines of the prose that every Python has."""
    documented = [*vars(os).values(), *vars(builtins).values(), *vars(ssl).values()]
    texts = [*pydoc_data.topics.topics.values(), *(inspect.getdoc(one) or "" for one in documented)]
    return [line for text in texts for line in text.splitlines() if line.strip()][:10_000]


@pytest.mark.parametrize("of", ["demo", "sample", "technical prose"])
def test_ordinary_text_is_hardly_ever_masked(of: str) -> None:
    folder = {"demo": DEMO_ROOT, "sample": DATA / "openclaw" / "workspace"}.get(of)
    notes = folder.rglob("*.md") if folder is not None else ()
    lines = [line for note in notes for line in note.read_text("utf-8").splitlines()]
    lines = lines or technical_lines()
    wrong = [line for line in lines if redact(line) != line]
    assert len(wrong) <= 0.02 * len(lines), wrong
    assert of != "technical prose" or len(lines) == 10_000


def test_every_rule_is_reached() -> None:
    """What a rule needs is in every text that it matches, or the rule would never be tried."""
    texts = [case["input"] for case in load("sessions")["redaction_2026_4_26"]]
    texts += [*TEXTS["of_openclaw"], *MORE, f'"token": "{SECRET}"', f"1234567:{SECRET}"]
    texts += [one.text for name in (KNOWN, SECOND, THIRD) for one in credentials_of(name)]
    for rule in (*NAMED, *TOKENS, *OPENCLAW_2026_4, *OPENCLAW_2026_4_TOKENS):
        matched = [text for text in texts if rule.pattern.search(text)]
        assert matched, rule.pattern.pattern
        for text in matched:
            assert any(part in text.lower() for part in rule.needs), rule.pattern.pattern


def test_a_secret_that_repeats_its_name_is_masked_where_it_stands() -> None:
    assert redact("password=password") == "password=***"
    assert redact("SECRET=SECRET") == "SECRET=***"


def test_private_keys() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    assert redact(f"a {begin} MIIE {end} b") == "a *** b"
    assert redact(f"{begin}\nMIIE\n{end}\n{begin}\r\nMIIF\r\n{end}") == (
        f"{begin}\n…redacted…\n{end}\n{begin}\n…redacted…\n{end}"
    )
    assert redact(f"{begin}\nMIIE") == f"{begin}\nMIIE"


def test_rules_can_be_added() -> None:
    assert redact("abc", named=(), tokens=()) == "abc"
    assert redact(f"sk-{SECRET}", tokens=()) == f"sk-{SECRET}"


@pytest.mark.parametrize("case", load("sessions")["redaction_2026_4_26"], ids=str)
def test_what_openclaw_masks_is_masked_the_same(case: dict[str, str]) -> None:
    assert redact(case["input"]) == openclaw_redact(case["input"]) == case["output"]


@pytest.mark.parametrize("text", [*MORE, f"?token={SECRET}&x=1", f"API_KEY={SECRET}"])
def test_masking_twice_keeps_what_masking_once_kept(text: str) -> None:
    once = redact(text)
    assert redact(once) in (once, once.replace("abcdef…cdef", MASK))


@pytest.mark.parametrize("part", TEXTS["parts"])
def test_time_grows_with_the_text(part: str) -> None:
    """A pattern that looks again from every place would take hours for this."""
    text = part * (200_000 // len(part))
    begun = time.process_time()
    redact(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(("name", "is_secret"), RULES["names of credentials"])
def test_names_of_credentials(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_values_are_masked_by_the_names_of_their_keys() -> None:
    value, masked = RULES["a value with credentials, and masked"]
    assert redact_value(value) == masked


def test_what_is_nested_too_deeply_is_masked_whole() -> None:
    value: object = f"glpat-{SECRET}"
    for _ in range(5000):
        value = [value]
    assert SECRET not in str(redact_value([value]))


@pytest.mark.parametrize("depth", [1, 2])
def test_a_quote_within_a_value_does_not_end_it(depth: int) -> None:
    text: object = {"password": 'first"second\\third\nfourth', "next": "stays"}
    for _ in range(depth):
        text = json.dumps(text)
    masked = redact(str(text))
    assert "second" not in masked
    assert "third" not in masked
    assert "stays" in masked


def test_names_of_tools() -> None:
    key = "sk-proj-9f8e7d6c5b4a39281706f5e4d3c2b1a0"
    assert redact_name(f"mcp__{key}__search") == "mcp__sk-pro…b1a0__search"
    assert redact_name("mcp__memory__search_nodes") == "mcp__memory__search_nodes"
    assert redact_name(key) == "sk-pro…b1a0"


def test_what_no_rule_is_tried_on_holds_nothing() -> None:
    """What a text needs for a rule to be tried is in everything that the rule matches."""
    draw = random.Random(7)
    parts = RULES["pieces of credentials"]
    tried = [replace(rule, needs=("",), begins=False) for rule in NAMED]
    tokens = [replace(rule, needs=("",), begins=False) for rule in TOKENS]
    hits = 0
    for _ in range(4000):
        text = "".join(draw.choice(parts) for _ in range(draw.randrange(1, 9)))
        slow = redact(text, tried, tokens)
        assert redact(text) == slow
        hits += slow != text
    assert hits > 100


AWS = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.parametrize(("text", "shown"), RULES["masked where it is shown"])
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
    spans = packer.pack(enumerate((f"User: {piece}" for piece in wrap(said)), 1))
    shown = [redact_spoken(span.text) for span in (*spans, *packer.finish())]
    assert len(shown) > 10
    assert AWS not in json.dumps(shown)
