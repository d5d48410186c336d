"""A small part of the trial with hostile notes: one screen and two commands, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trust.terminal import commands, environment, prepare, scenes, wrong_in, wrong_in_output


def test_hostile_notes_reach_a_screen_and_a_command_as_text(tmp_path: Path) -> None:
    root, env = prepare(tmp_path), environment(tmp_path)
    outcomes = [*scenes(root, env, ())]
    outcomes += commands(root, env, ("search",), ends=("terminal",))
    assert [line for one in outcomes for line in one.failed] == []
    assert sum(one.tried for one in outcomes) > 4_000


@pytest.mark.parametrize(
    "data",
    [
        b"\x1b]2;PWNED\x1b\\",
        b"\x1b]52;c;cHduZWQ=\x07",
        b"\x1b[6n\x1bc",
        "\x9b31m".encode(),
        b"\x9b31m",
        b"a\x08b",
        "\u202e".encode(),
        b"\x1b[?1049",
        b"\xff",
    ],
)
def test_what_no_screen_may_write_is_told(data: bytes) -> None:
    assert wrong_in(b"\x1b[?25l\x1b[1;1H\x1b[38;2;1;2;3mtext" + data)
    assert wrong_in_output(b"text\n" + data, colours=True)


def test_what_textual_writes_is_nothing_to_tell() -> None:
    stream = (
        b"\x1b[?1049h\x1b[?1000h\x1b[?2026$p\x1b[>1u\x1b]22;default\x07\x1b[2;3H\x1b[1;31mhi\x1b[0m"
    )
    assert wrong_in(stream) == []
    assert wrong_in_output(b"\x1b[1mhi\x1b[0m\n\tok\r\n", colours=True) == []
