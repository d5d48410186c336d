"""Requested and actual provider, why they differ, and where text goes: bar, index, list."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from memtui.bus import Bus
from memtui.model import (
    ErrorRecord,
    Failure,
    IndexState,
    IndexStatus,
    LegState,
    LegStatus,
    ProviderState,
    Reason,
    SyncStats,
    Usage,
)
from memtui.report import providers as words
from memtui.report.words import FAILURE_WORDS
from memtui.tui.format import REASON_WORDS
from memtui.tui.glyphs import ASCII, UNICODE, Glyphs
from memtui.tui.screens.index import index_facts
from memtui.tui.widgets.index_status import status_segments
from tests.tui.harness import Running, resize, running, settle, until
from tests.tui.samples import NOW, STATUS, SampleCost, SampleEngine, make_pool

OPENAI = ProviderState(
    "openai", "openai", "text-embedding-3-small", 1536, remote=True, address="api.openai.com"
)
FALLEN = ProviderState(
    "openai", "minilm", "all-MiniLM-L6-v2-int8", 384, Reason.FALLBACK,
    "openai: the key is refused; minilm answers instead (check $OPENAI_API_KEY)",
    failure=Failure.KEY_REFUSED, hint="check $OPENAI_API_KEY",
)  # fmt: skip
FAILED = replace(FALLEN, actual=None, state=Reason.PROVIDER_FAILED)


def with_provider(provider: ProviderState) -> IndexStatus:
    """The sample's status with another provider."""
    return replace(STATUS, provider=provider)


def bar_of(run: Running) -> str:
    """The line of the status bar."""
    return run.text.splitlines()[-2].strip()


async def test_the_bar_says_where_text_goes_whatever_else_there_is_to_say() -> None:
    def make(bus: Bus) -> SampleEngine:
        return SampleEngine(bus, current=with_provider(OPENAI))

    async with running(make) as run:
        goes = "openai/text-embedding-3-small 1536d → api.openai.com"
        assert bar_of(run) == f"● ready  {goes}"
        await resize(run.pilot, (120, 40))
        assert f"{goes}  142 files" in bar_of(run)
        assert "cache 93 %" in bar_of(run)
        await resize(run.pilot, (80, 24))
        degraded = replace(with_provider(OPENAI), state=IndexState.ERROR)
        run.engine.current = replace(
            degraded, errors=(ErrorRecord(NOW, "index", "a long error " * 9),)
        )
        run.app.search_screen.index.refresh_status()
        await settle(run.app, run.pilot)
        assert bar_of(run).startswith("✗ error: a long error")
        assert bar_of(run).endswith("openai → api.openai.com")
        run.engine.current = with_provider(replace(OPENAI, address=""))
        run.app.search_screen.index.refresh_status()
        await settle(run.app, run.pilot)
        assert "→ a host not known yet" in bar_of(run)


def test_a_fallback_is_named_with_its_reason_in_both_glyph_sets() -> None:
    assert "! openai → minilm: key refused" in _line(FALLEN)
    assert "! openai > minilm: key refused" in _line(FALLEN, ASCII)
    assert "→" not in _line(replace(OPENAI, remote=False, address=""))
    assert "ollama/m → 127.0.0.1:11434" in _line(
        ProviderState("ollama", "ollama", "m", None, address="127.0.0.1:11434")
    )


def _line(provider: ProviderState, glyphs: Glyphs = UNICODE) -> str:
    segments = status_segments(with_provider(provider), glyphs)
    return "  ".join(segment.plain for segment in segments)


def test_the_index_screen_tells_reason_next_step_place_and_what_was_spent() -> None:
    stats = SyncStats(
        True, NOW - timedelta(hours=1), 3.0, 142, 0, 0, 0, 0, 1284, 84, 1200,
        Usage(12, 84, 33_600, estimated=True),
    )  # fmt: skip
    status = replace(with_provider(FALLEN), last_sync=stats, usage=stats.usage)
    facts = {label: value.plain for label, value in index_facts(status, NOW, ASCII) if label}
    assert facts["provider"].startswith("openai > minilm (local)  openai: the key is refused;")
    assert "OPENAI_API_KEY" not in facts["provider"]
    assert facts["next"] == "check $OPENAI_API_KEY"
    assert facts["text"] == "stays in this program"
    assert facts["spent"] == "12 requests, 84 texts, ~33 600 tokens"
    assert facts["cache"].startswith("93 % hits")
    sent = {label: value.plain for label, value in index_facts(with_provider(OPENAI), NOW)}
    assert sent["text"] == "goes to api.openai.com"
    assert "next" not in sent
    assert "spent" not in sent


async def test_the_list_says_whose_vectors_it_has() -> None:
    def make(bus: Bus) -> SampleEngine:
        return SampleEngine(bus, current=with_provider(FALLEN))

    async with running(make) as run:
        await run.search()
        assert "vectors by minilm, not openai: key refused" in run.text
        run.engine.current = with_provider(OPENAI)
        facts = {"provider": "minilm", "model": "all-MiniLM-L6-v2-int8"}
        run.engine.pool = make_pool(vector=LegState(LegStatus.OK, facts=facts))
        await run.search("router config again")
        assert "vectors by minilm until those by openai are there" in run.text
        run.engine.current = with_provider(FAILED)
        run.engine.pool = make_pool(vector=LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, "x"))
        await run.search("router config now")
        assert "no vector: provider failed" in run.text
        assert "vectors by" not in run.text


async def test_a_remote_model_is_asked_when_a_text_is_finished() -> None:
    def make(bus: Bus) -> SampleEngine:
        return SampleEngine(bus, current=with_provider(OPENAI))

    async with running(make) as run:
        waiting = "asked when you stop typing or press Enter"
        run.engine.pool = make_pool(vector=LegState(LegStatus.PENDING, Reason.PENDING, waiting))
        flow = run.app.search_screen.flow
        await run.pilot.press(*"router")
        await until(run.pilot, lambda: flow.answered == "router")
        assert f"~ vector: {waiting}" in run.text
        await until(run.pilot, lambda: run.engine.finished == ["router"])
        await run.pilot.press(*" vlan", "enter")
        await until(run.pilot, lambda: run.engine.finished == ["router", "router vlan"])
        assert all(text in ("router", "router vlan") for text in run.engine.finished)
    async with running() as run:
        await run.pilot.press(*"router", "enter")
        await run.pilot.pause(0.5)
        assert run.engine.finished == []
        # The remote model takes over while the text is there: nobody types or presses Enter again.
        run.engine.current = with_provider(OPENAI)
        run.engine.pool = make_pool(vector=LegState(LegStatus.PENDING, Reason.PENDING, waiting))
        run.app.search_screen.search.refresh()
        await until(run.pilot, lambda: run.engine.finished == ["router"])


async def test_an_index_of_another_provider_is_told_with_tokens_and_host() -> None:
    async with running() as run:
        screen = run.app.search_screen
        building = replace(
            with_provider(OPENAI), state=IndexState.INDEXING, made_by="minilm/all-MiniLM-L6-v2-int8"
        )
        run.engine.current = building
        for _ in range(2):
            screen.index.refresh_status()
            await settle(run.app, run.pilot)
        told = "index is for minilm, settings say openai: rebuilding, ~34 k tokens in this program"
        assert run.toasts == [told]
        run.app.clear_notifications()
        run.engine.current = replace(building, made_by="openai/text-embedding-3-large")
        screen.index.is_switched = True
        screen.index.refresh_status()
        await settle(run.app, run.pilot)
        assert run.toasts == []
    assert words.sent_words(SampleCost(address="api.openai.com")).endswith("to api.openai.com")
    other = replace(building, made_by="openai/text-embedding-3-large")
    assert words.provider_change(other) == (
        "index is for text-embedding-3-large, settings say text-embedding-3-small"
    )
    for same in (
        replace(building, made_by="openai/text-embedding-3-small"),
        replace(building, state=IndexState.READY),
        replace(building, provider=FALLEN),
        replace(building, made_by=""),
    ):
        assert words.provider_change(same) == ""


@pytest.mark.parametrize(
    ("address", "is_here"),
    [
        ("127.0.0.1:11434", True),
        ("127.9.9.9", True),
        ("localhost:8080", True),
        ("a.localhost", True),
        ("[::1]:11434", True),
        ("192.168.1.2:11434", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("api.openai.com", False),
        ("[2001:db8::1]:80", False),
        ("", False),
    ],
)
def test_only_a_loopback_host_is_this_machine(address: str, is_here: bool) -> None:
    assert words.is_on_this_machine(address) is is_here


def test_every_failure_and_every_reason_has_words() -> None:
    assert set(FAILURE_WORDS) == set(Failure)
    assert set(REASON_WORDS) == set(Reason)
