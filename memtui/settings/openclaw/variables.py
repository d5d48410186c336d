"""Environment variables that OpenClaw reads for itself: of its `.env` file and its configuration.

They hold keys: they are read at the moment of a call and never kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from memtui.settings.files import read_bytes
from memtui.settings.openclaw.document import Includes, Unreadable, parse
from memtui.settings.openclaw.places import config_file, state_dir_of

DOTENV: Final = ".env"

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")
# Looked for where blanks begin alone: a line of blanks takes no time that grows with its square.
_COMMENT = re.compile(r"(?<!\s)\s+#.*")


def own_variables(env: Mapping[str, str], home: Path) -> dict[str, str]:
    """The variables that OpenClaw would add to `env`; what is set there already is not among them.

    Those of `.env` in its state folder come before those of `env` in its configuration. A file
    that cannot be read gives none.
    """
    found = {**_of_config(env, home), **_of_dotenv(state_dir_of(env, home) / DOTENV)}
    return {name: value for name, value in found.items() if value and not env.get(name)}


def _of_config(env: Mapping[str, str], home: Path) -> dict[str, str]:
    path = config_file(env, home)
    if path is None:
        return {}
    try:
        includes = Includes(path)
        document = includes.resolved(parse(path), (path,), deep=False)
        block = includes.resolved(document["env"], (path,))
        return {**_texts(block), **_texts(block.get("vars"))}
    except (Unreadable, LookupError, TypeError, AttributeError):
        # What is wrong with the file is said by whoever reads the rest of it.
        return {}


def _texts(block: Any) -> dict[str, str]:
    if not isinstance(block, Mapping):
        return {}
    return {str(name): value.strip() for name, value in block.items() if isinstance(value, str)}


def _of_dotenv(path: Path) -> dict[str, str]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except (OSError, ValueError):
        return {}
    matches = filter(None, map(_LINE.fullmatch, text.splitlines()))
    return {match[1]: _value(match[2].strip()) for match in matches}


def _value(text: str) -> str:
    """A value as it is written: in quotes, or up to a comment."""
    quoted = _QUOTED.fullmatch(text)
    return quoted[2] if quoted else _COMMENT.sub("", text)
