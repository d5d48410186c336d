"""What stands within a line of Markdown: emphasis, code, links; every pattern is bounded."""

from __future__ import annotations

import re

from textual.content import Content

from memtui.tui.format import MUTED

_PIECE = re.compile(
    r"`(?P<code>[^`]{1,300})`"
    r"|!\[(?P<alt>[^\]\[]{0,200})\]\([^()\s]{0,400}\)"
    r"|\[\[(?P<wiki>[^\]\[]{1,200})\]\]"
    r"|\[(?P<text>[^\]\[]{1,200})\]\((?P<target>[^()\s]{0,400})(?:\s[^()]{0,200})?\)"
    r"|\*\*(?P<strong>[^*]{1,400})\*\*"
    r"|(?<!\w)__(?P<strong_>[^_]{1,400})__(?!\w)"
    r"|~~(?P<struck>[^~]{1,400})~~"
    r"|\*(?P<emphasis>[^*\s](?:[^*]{0,400}[^*\s])?)\*"
    r"|(?<!\w)_(?P<emphasis_>[^_\s](?:[^_]{0,400}[^_\s])?)_(?!\w)"
    r"|\\(?P<escaped>[\\`*_{}\[\]()#+.!|<>~-])"
)
_STYLES = {
    "code": "$text-secondary",
    "wiki": "$text-accent underline",
    "strong": "bold",
    "strong_": "bold",
    "struck": "strike",
    "emphasis": "italic",
    "emphasis_": "italic",
    "escaped": "",
}


def inline(text: str) -> Content:
    """Draw one line of Markdown, which is already safe to show, without its marks.

    A link is its text, underlined, and where it points to; it cannot be followed. What is left
    open, or longer than the patterns allow, stays as it is written.
    """
    parts: list[tuple[str, str]] = []
    at = 0
    for match in _PIECE.finditer(text):
        parts.append((text[at : match.start()], ""))
        parts += _drawn(match)
        at = match.end()
    parts.append((text[at:], ""))
    return Content.assemble(*(part for part in parts if part[0]))


def _drawn(match: re.Match[str]) -> list[tuple[str, str]]:
    if match["text"] is not None:
        target = match["target"]
        told = f" ({target})" if target and target != match["text"] else ""
        return [(match["text"], "$text-accent underline"), (told, MUTED)]
    if match["alt"] is not None:
        return [(f"[image: {match['alt']}]" if match["alt"] else "[image]", MUTED)]
    name = match.lastgroup or "escaped"
    return [(match[name], _STYLES[name])]
