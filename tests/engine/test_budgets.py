"""Budgets for what strangers supply: packed transcripts, databases and JSON that cost too much."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import zstandard

from tests.support.command_line import Run, command_line, own_home
from tests.support.conversations import Homes, began, said

PACKED = "s1.jsonl.reset.2026-10-01T10-00-00Z.zst"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in a memory that opts in to the agent's conversations."""
    own_home(tmp_path, monkeypatch)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "openclaw"))
    monkeypatch.setenv("MEMTUI_TRANSCRIPTS__SOURCES", "openclaw")
    Path("MEMORY.md").write_text("# Memory\n", encoding="utf-8")
    return command_line(capsys)


@pytest.mark.parametrize(
    ("piece", "excess"),
    [
        (b"\n", "1,000,000 lines"),
        (b" ", "1,000 times its size and 16,000,000 bytes"),
        (said("user", "hi"), "1,000 times its size and 16,000,000 bytes"),
    ],
)
def test_what_unpacks_to_too_much_is_named_and_not_unpacked_again(
    tmp_path: Path, run: Run, piece: bytes, excess: str
) -> None:
    two_gigabytes = zstandard.compress(piece * (2**26 // len(piece)), 1) * 32
    path = Homes(tmp_path).openclaw(PACKED, two_gigabytes)
    os.utime(path, (1_790_000_000, 1_790_000_000))
    detail = f"unpacks to more than {excess}"
    skipped = [{"path": f"sessions/main/{PACKED}", "reason": "too_large", "detail": detail}]

    def listed() -> tuple[str, str, object]:
        (listing,) = run("sessions", "--json").document["conversations"]
        return listing["state"], listing["detail"], listing["turns"]

    assert listed() == ("too_large", detail, None)
    for _ in range(2):
        assert run("index", "--json").document["skipped"] == skipped
        status = run("status", "--json").document
        assert (status["skipped"], status["pending"]) == (skipped, [])
        assert listed() == ("too_large", detail, None)
    sources = run("sessions", "--coverage", "--json").document["sources"]
    assert [one for source in sources for one in source["skipped"]] == skipped

    path.write_bytes(zstandard.compress(began() + said("user", "hi")))
    assert run("index", "--json").document["skipped"] == []
    assert listed()[0] == "ok"


def test_packed_events_of_a_session_have_the_same_budget(tmp_path: Path, run: Run) -> None:
    Homes(tmp_path).events(*[b'{"a": "%b"}' % (b"a" * 10**7)] * 4, packed=lambda number: True)
    (skipped,) = run("index", "--json").document["skipped"]
    assert skipped["detail"] == "unpacks to more than 1,000 times its size and 16,000,000 bytes"
    status = run("status", "--json").document
    assert (status["skipped"], status["pending"]) == ([skipped], [])
