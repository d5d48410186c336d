"""Credentials that OpenClaw lets through: masked before anything is kept or shown."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace

import pytest

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
    redact_value,
)
from tests.support.known import load

SECRET = "abcdef1234567890abcdef"
UPPER = "ABCDEFGHIJ234567"
MORE = [
    f"AKIA{UPPER}",
    f"ASIA{UPPER}",
    f"eyJ{SECRET}.{SECRET}.{SECRET}",
    f"ghs_{SECRET}",
    f"glpat-{SECRET}",
    f"hf_{SECRET}",
    f"r8_{SECRET}",
    f"xai-{SECRET}",
    f"tvly-{SECRET}",
    f"ya29.{SECRET}",
    f"GOCSPX-{SECRET}",
    f"dop_v1_{SECRET}{SECRET}",
    f"shpat_{SECRET}",
    f"sk_live_{SECRET}",
    f"rk_test_{SECRET}",
    f"whsec_{SECRET}",
    f"SG.{SECRET}.{SECRET}",
    f"pypi-{SECRET}{SECRET}",
    f"dckr_pat_{SECRET}",
    f"lin_api_{SECRET}",
    f"ntn_{SECRET}",
    f"hvs.{SECRET}",
    f"AGE-SECRET-KEY-1{SECRET.upper()}",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}{SECRET}\n{SECRET}",
    f"postgres://me:{SECRET}@host/db",
    f"https://:{SECRET}@host/",
    f"Authorization: Basic {SECRET}==",
    f"x-api-key: {SECRET}",
    f"'api-key': '{SECRET}'",
    f"password: {SECRET}",
    f"the password is {SECRET}",
    f"my access token is `{SECRET}`",
    f"aws_secret_access_key = {SECRET}",
    f"secret_key={SECRET}",
    f'"db_password": "{SECRET}"',
    f'{{\\"refresh_token\\": \\"{SECRET}\\"}}',
    f'"awsSecretAccessKey":"{SECRET}"',
]


@pytest.mark.parametrize("text", MORE, ids=lambda text: text[:24])
def test_more_shapes_of_credentials(text: str) -> None:
    masked = redact(f"say {text} now")
    assert SECRET[6:-4].lower() not in masked.lower()
    assert UPPER[3:-4] not in masked
    assert masked.startswith("say ")
    assert masked.endswith(" now")


@pytest.mark.parametrize("case", load("sessions")["redaction_2026_4_26"], ids=str)
def test_what_openclaw_masks_is_masked_the_same(case: dict[str, str]) -> None:
    assert redact(case["input"]) == openclaw_redact(case["input"]) == case["output"]


@pytest.mark.parametrize(
    "text",
    [
        "the password: what is it?",
        "the access key is on page 12",
        "api key is in my vault",
        "eyJust a word and eyJ.a.b",
        "see http://host:8080/a@b and me@host.test",
        "Basic training of the model",
        "hf_short sk_live_x glpat-1",
        "a shopping list: shpat",
        "max_tokens: 4096",
        '"max_tokens": 4096, "tokens": "many"',
        "AKIA is a prefix; akiabcdefghijklmnop",
    ],
)
def test_more_prose_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [*MORE, f"?token={SECRET}&x=1", f"API_KEY={SECRET}"])
def test_masking_twice_keeps_what_masking_once_kept(text: str) -> None:
    once = redact(text)
    assert redact(once) in (once, once.replace("abcdef…cdef", MASK))


def test_every_rule_is_reached() -> None:
    """What a rule needs is in every text that it matches, or the rule would never be tried."""
    for rule in (*NAMED, *TOKENS):
        if rule in OPENCLAW_2026_4 or rule in OPENCLAW_2026_4_TOKENS:
            continue
        matched = [text for text in MORE if rule.pattern.search(text)]
        assert matched, rule.pattern.pattern
        for text in matched:
            assert any(part in text.lower() for part in rule.needs), rule.pattern.pattern
        assert all(rule.needs)


PARTS = [
    *("eyJ", "eyJ-", "eyJaaaaaaaa.", "://a:", "://a:b", "Basic ", "password: ", "password is "),
    *(
        "api-key: ",
        '"a_token',
        '"token\\":\\"',
        "glpat-",
        "-----BEGIN PRIVATE KEY-----",
        "key key ",
    ),
    *("a_", "AKIA", "SG.", "xoxe.", "secret key is ", "access key:        ", '\\"', "sk_live_"),
]


@pytest.mark.parametrize("part", PARTS)
def test_time_grows_with_the_text(part: str) -> None:
    """A pattern that looks again from every place would take hours for this."""
    text = part * (200_000 // len(part))
    begun = time.process_time()
    redact(text)
    assert time.process_time() - begun < 5


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        *((name, True) for name in ("apiKey", "api_key", "X-Auth-Token", "DB_PASSWORD", "secret")),
        *((name, True) for name in ("Authorization", "privateKey", "credentials", "passphrase")),
        *((name, False) for name in ("max_tokens", "key", "sessionKey", "tokens", "passage", "")),
    ],
)
def test_names_of_credentials(name: str, is_secret: bool) -> None:
    assert is_secret_name(name) is is_secret


def test_values_are_masked_by_the_names_of_their_keys() -> None:
    value = {
        "query": f"with glpat-{SECRET}",
        "apiKey": "short",
        "token": SECRET,
        "password": 1234,
        "secret": None,
        "nested": [{"clientSecret": {"a": "b"}}, True, 0.5],
        "env": [{"name": "GH_TOKEN", "value": "v"}, {"name": "HOME", "value": "/me"}],
        f"hf_{SECRET}": "key",
        "token_count": 7,
    }
    assert redact_value(value) == {
        "query": "with glpat-…cdef",
        "apiKey": MASK,
        "token": "abcdef…cdef",
        "password": MASK,
        "secret": None,
        "nested": [{"clientSecret": MASK}, True, 0.5],
        "env": [{"name": "GH_TOKEN", "value": MASK}, {"name": "HOME", "value": "/me"}],
        "hf_abc…cdef": "key",
        "token_count": 7,
    }


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
    parts = [
        *('"apiKey"', "PASSWORD", "token", "password is", "my api key", "Authorization", "Bearer"),
        *(":", "=", " ", "\n", '"', "\\", "?", "&key", "--secret", "bot", "123456", "://me", "@h"),
        *(
            SECRET,
            "ghp_",
            "sk-",
            "AKIA",
            "eyJ",
            ".",
            "hf_",
            "1",
            "x-api-key",
            "Basic",
            ",",
            "ſ",
            "K",
        ),
    ]
    tried = [replace(rule, needs=("",), also=("",)) for rule in NAMED]
    tokens = [replace(rule, needs=("",), also=("",)) for rule in TOKENS]
    hits = 0
    for _ in range(4000):
        text = "".join(draw.choice(parts) for _ in range(draw.randrange(1, 9)))
        slow = redact(text, tried, tokens)
        assert redact(text) == slow
        hits += slow != text
    assert hits > 100
