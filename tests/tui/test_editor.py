"""The editor's argument list."""

from __future__ import annotations

import pytest

from memtui.tui.place_actions import editor_arguments, editor_command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("vim", ["vim", "+12", "note.md"]),
        ("/usr/bin/nano", ["/usr/bin/nano", "+12", "note.md"]),
        ("emacsclient -nw", ["emacsclient", "-nw", "+12", "note.md"]),
        ("hx", ["hx", "note.md:12"]),
        ("code --wait", ["code", "--wait", "-g", "note.md:12"]),
        ("cursor", ["cursor", "-g", "note.md:12"]),
        ("subl -w", ["subl", "-w", "note.md:12"]),
        ("kate", ["kate", "--line", "12", "note.md"]),
        ("notepad.exe", ["notepad.exe", "note.md"]),
    ],
)
def test_each_editor_gets_the_line_in_its_own_syntax(command: str, expected: list[str]) -> None:
    assert editor_arguments(editor_command(command, {}), "note.md", 12) == expected


def test_a_name_is_one_argument_whatever_it_holds() -> None:
    name = "a b; rm -rf $HOME `x` 'q'.md"
    assert editor_arguments(["vi"], name, 1)[-1] == name


def test_settings_come_before_visual_and_visual_before_editor() -> None:
    environment = {"VISUAL": "nano", "EDITOR": "ed"}
    assert editor_command("hx", environment) == ["hx"]
    assert editor_command(None, environment) == ["nano"]
    assert editor_command(None, {"EDITOR": "ed", "VISUAL": " "}) == ["ed"]


def test_open_quotes_are_refused() -> None:
    with pytest.raises(ValueError, match="quotation"):
        editor_command('vi "', {})
