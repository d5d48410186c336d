"""Credentials in text: the known answers of OpenClaw 2026.4.26, and what must not leak or stall."""

from __future__ import annotations

import pytest

from memtui.text.redact import OPENCLAW_2026_4, OPENCLAW_2026_4_TOKENS, redact
from tests.support.known import load

SECRET = "abcdef1234567890abcdef"


@pytest.mark.parametrize("case", load("sessions")["redaction_2026_4_26"], ids=str)
def test_known_redactions(case: dict[str, str]) -> None:
    assert redact(case["input"]) == case["output"]


@pytest.mark.parametrize(
    "text",
    [
        f"API_TOKEN: {SECRET}",
        f"MY_SECRET = '{SECRET}'",
        f'{{"apiKey": "{SECRET}"}}',
        f'{{"ACCESSTOKEN":"{SECRET}"}}',
        f"--api-key {SECRET}",
        f'--hook_token "{SECRET}"',
        f"authorization=bearer {SECRET}",
        f"Bearer\u00a0{SECRET}",
        f"/x?hook-token={SECRET}&a=b",
        f"a=1&signature={SECRET}#top",
        f"client_secret={SECRET}",
        f"x; app-secret={SECRET}",
        f"sk-{SECRET}",
        f"xoxb-{SECRET}",
        f"xapp-{SECRET}",
        f"gsk_{SECRET}",
        f"pplx-{SECRET}",
        f"/bot123456789:{SECRET}/send",
        f"id 123456789:{SECRET}",
    ],
)
def test_shapes_of_credentials(text: str) -> None:
    masked = redact(f"say {text} now")
    assert SECRET not in masked
    assert SECRET[6:-4] not in masked
    assert masked.startswith("say ")
    assert masked.endswith(" now")


@pytest.mark.parametrize(
    "text",
    [
        'Unrecognized key: "llm" in the file',
        "the token budget is 4000: enough",
        "sk-short and ghp_short",
        "a task-list-of-many-things",
        "12345:abcdefghijklmnopqrstuvwxyz",
        "日本のパスワード",
        "",
    ],
)
def test_prose_stays(text: str) -> None:
    assert redact(text) == text


def test_a_secret_that_repeats_its_name_is_masked_where_it_stands() -> None:
    assert redact("password=password") == "password=***"
    assert redact("TOKEN=TOKEN") == "TOKEN=***"


def test_private_keys() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    assert redact(f"a {begin} MIIE {end} b") == "a *** b"
    assert redact(f"{begin}\nMIIE\n{end}\n{begin}\r\nMIIF\r\n{end}") == (
        f"{begin}\n…redacted…\n{end}\n{begin}\n…redacted…\n{end}"
    )
    assert redact(f"{begin}\nMIIE") == f"{begin}\nMIIE"


def test_every_rule_is_reached() -> None:
    """What a rule needs is in every text that it matches, or the rule would never be tried."""
    texts = [case["input"] for case in load("sessions")["redaction_2026_4_26"]]
    texts += [f"{name}{SECRET}" for name in ("sk-", "xoxb-", "xapp-", "gsk_", "pplx-")]
    texts += [f'"token": "{SECRET}"', f"--token {SECRET}", f"1234567:{SECRET}"]
    for rule in (*OPENCLAW_2026_4, *OPENCLAW_2026_4_TOKENS):
        matched = [text for text in texts if rule.pattern.search(text)]
        assert matched, rule.pattern.pattern
        for text in matched:
            assert any(part in text.lower() for part in rule.needs)


@pytest.mark.parametrize(
    "part",
    ["-----BEGIN PRIVATE KEY-----", "KEY_", "--token ", "sk-", "123456789", '"token":', "KEY='a"],
)
def test_long_lines_take_time_in_proportion(part: str) -> None:
    """A pattern that looks again from every place would take hours for this."""
    redact(part * (1_000_000 // len(part)))


def test_rules_can_be_added() -> None:
    assert redact("abc", named=(), tokens=()) == "abc"
    assert redact(f"sk-{SECRET}", tokens=()) == f"sk-{SECRET}"
