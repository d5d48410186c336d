"""Settings as they may be shown: without anything that is, or may be, a key.

The settings hold no key by design, but people paste them: into `key_env`, into the command that
should print one, into an address.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from typing import Any, Final

from memtui.settings.toml import statements, toml_value
from memtui.text.redact import MASK, OPENCLAW_2026_4, OPENCLAW_2026_4_TOKENS, Rule, redact
from memtui.text.sanitize import safe_line

KEY_COMMAND: Final = "embedding.key_command"
KEY_VARIABLE: Final = "embedding.key_env"

_ALIKE: Final = "(?![A-Za-z]+\\b)(?![a-z0-9]+\\b)(?![A-Z0-9]+\\b)"
# Of services whose keys have no prefix of their own, such as Mistral's 32 letters and digits.
_RANDOM: Final = Rule(rf"\b{_ALIKE}([A-Za-z0-9]{{24,}})\b", tuple("0123456789"), re.ASCII)
_TOKENS: Final = (*OPENCLAW_2026_4_TOKENS, Rule(r"\b(pa-[A-Z0-9_-]{20,})\b", ("pa-",)), _RANDOM)
_WORD: Final = re.compile(r"[^\s\"']+")
_END: Final = re.compile(r"[/?#]")
_QUERY: Final = re.compile(r"[?#]")
_PORT: Final = re.compile(r"[^:]*(?::\d*)?|\[.*")
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")
_WORD_SHOWN: Final = 80
_LONG_NAME: Final = 16


def shown_value(key: str, value: Any) -> Any:
    """The value of a dotted key without what is secret in it; other than texts stay as they are."""
    if isinstance(value, dict):
        return {name: shown_value(f"{key}.{name}", item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown_value(key, item) for item in value]
    if not isinstance(value, str):
        return value
    shown = {KEY_COMMAND: shown_command, KEY_VARIABLE: shown_variable}.get(key, masked_text)
    return shown(value)


def masked_text(text: str) -> str:
    """A text in which everything that looks like a key is masked, in addresses user and query."""
    without_secrets = _WORD.sub(_addresses_shown, text)
    return redact(without_secrets, OPENCLAW_2026_4, _TOKENS, masked=lambda token: MASK)


def _addresses_shown(word: re.Match[str]) -> str:
    """Addresses without users and queries; in time that grows with their length."""
    scheme, *addresses = word[0].split("://")
    shown = [scheme]
    for address in addresses:
        host = _END.split(address, maxsplit=1)[0]
        # A password that nobody has escaped holds anything: what is no port may be one.
        user = host if _PORT.fullmatch(host) else address
        before, at, _ = user.rpartition("@")
        hidden = MASK + address[len(before) :] if at else address
        place, *query = _QUERY.split(hidden, maxsplit=1)
        shown.append(f"{place}?{MASK}" if query else place)
    return "://".join(shown)


def shown_command(command: str) -> str:
    """A command by its first word alone: what is given to it may be secret."""
    try:
        words = shlex.split(command)
    except ValueError:
        return "…"
    if not words:
        return ""
    # A word such as TOKEN=... would be a secret, and no program.
    first = "" if "=" in words[0] else masked_text(safe_line(words[0]))[:_WORD_SHOWN]
    if _HEX.fullmatch(first):
        first = MASK
    return " ".join(filter(None, (first, "…" if len(words) > 1 or not first else "")))


def shown_variable(name: str) -> str:
    """The name of a variable; masked when it looks as if the key itself stood there."""
    has_digit = any(character.isdigit() for character in name)
    is_constant = name == name.upper() and "_" in name
    looks_random = len(name) >= _LONG_NAME and has_digit and not is_constant
    plain = name.replace("_", "")
    return name if plain.isascii() and plain.isalnum() and not looks_random else MASK


HIDDEN: Final = "…"
_TOOL: Final = ("tool", "memtui")
_COMMENTED: Final = re.compile(
    rf"^(?P<head>[ \t]*#.*?\b{KEY_COMMAND.rpartition('.')[2]}\s*=\s*)(?P<value>.*)"
)


def shown_text(text: str) -> str:
    """A TOML document in which every text is as `shown_value` shows it, comments among them.

    The lines stay lines, but for a secret of several. A text that is not TOML is not shown at all.
    """
    try:
        tomllib.loads(text)
    except ValueError:
        return HIDDEN if text else ""
    for one in reversed(list(statements(text))):
        if one.is_header:
            continue
        value: Any = tomllib.loads(f"x = {text[one.value_start : one.end]}")["x"]
        path = one.path[len(_TOOL) :] if one.path[: len(_TOOL)] == _TOOL else one.path
        masked_value = shown_value(".".join(path), value)
        if masked_value != value:
            text = text[: one.value_start] + toml_value(masked_value) + text[one.end :]
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _COMMENTED.match(line)
        if match is not None and match["value"].strip() not in {"", '""', "''"}:
            lines[number] = match["head"] + toml_value(HIDDEN)
        else:
            before, mark, comment = line.partition("#")
            lines[number] = before + mark + masked_text(comment)
    return "\n".join(lines)
