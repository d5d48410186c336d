"""The commands that messages suggest, completed so that they can be copied and run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from memtui.data import read_table

COMMANDS: Final[Mapping[str, Mapping[str, Any]]] = read_table("commands.toml")["commands"]
_SUGGESTED: Final = re.compile(r"`memtui ([a-z][^`\n]*)`")
_OF_NO_MEMORY: Final = frozenset(
    ("agents", "completions", "config init", "config path", "demo", "help")
)


def completed(text: str, memory: Mapping[str, str]) -> str:
    """Complete each command of memtui's in backticks with the options that name the memory.

    They are as on the command line that they repeat: `root`, `demo`, `agent` and `index`, each
    with its value, quoted for the shell here. A command gets those that it takes.
    """

    def complete(match: re.Match[str]) -> str:
        words = match[1].split()
        name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
        if name not in COMMANDS or name in _OF_NO_MEMORY:
            return match[0]
        option_names = {"root", *COMMANDS[name].get("on", ())}
        option_names |= {"index"} if "agent" in option_names else set()
        options = [
            " ".join((f"--{option}", *map(shlex.quote, filter(None, (value,)))))
            for option, value in memory.items()
            if option in option_names and f"--{option}" not in words
        ]
        return f"`{' '.join(('memtui', match[1], *options))}`"

    return _SUGGESTED.sub(complete, text)
