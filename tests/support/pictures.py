"""Pictures that Textual draws: their text, what of it can be compared, and a rendering."""

from __future__ import annotations

import html
import re
import subprocess
from pathlib import Path

from rich.cells import cell_len

CELL = 12.2
"""Width of a cell in the pictures that Textual draws."""


def comparable(lines: list[str]) -> list[str]:
    """Lines of a screen without what differs from run to run.

    Numbers become `#` (durations always differ, also in their unit), what is counted only now and
    then while an index fills may be missing, runs of bar glyphs and of white space become one.
    """
    text = (re.sub(r"-[0-9a-f]{12}\b", "-#", line) for line in lines)
    text = (re.sub(r"[−-]?\d+(?:[.,]\d+)?", "#", line) for line in text)
    text = (re.sub(r"# m?s\b", "# s", line) for line in text)
    text = (re.sub(r"[█▒╌◇━╸─]+", "▒", line) for line in text)
    text = (re.sub(r"\s*#/s\b|# of # +(?=exact)", "", line) for line in text)
    return [re.sub(r"\s+", " ", line).strip() for line in text]


def svg_lines(svg: str) -> list[str]:
    """The lines of text in a picture."""
    rows: dict[int, list[tuple[float, str]]] = {}
    pattern = r'<text[^>]*?x="([\d.]+)"[^>]*?clip-path="url\(#[^)]*?line-(\d+)\)"[^>]*>(.*?)</text>'
    for x, row, content in re.findall(pattern, svg):
        text = html.unescape(re.sub(r"<[^>]+>", "", content)).replace("\xa0", " ")
        rows.setdefault(int(row), []).append((float(x), text))
    return ["".join(text for _, text in sorted(rows[row])) for row in sorted(rows)]


def on_grid(svg: str) -> str:
    """Place every word of a picture on its cell, whatever a renderer makes of spaces."""

    def place(match: re.Match[str]) -> str:
        before, x, between, content = match.groups()
        text = html.unescape(content)
        between = re.sub(r'textLength="[^"]*"', "", between)
        placed = []
        for word in re.finditer(r"\S+", text):
            position = float(x) + CELL * cell_len(text[: word.start()])
            word_text = html.escape(word.group())
            placed.append(f'<text{before}x="{position:g}"{between}>{word_text}</text>')
        return "".join(placed)

    return re.sub(r'<text([^>]*?)x="([\d.]+)"([^>]*clip-path[^>]*)>([^<]*)</text>', place, svg)


def to_png(svg: str, target: Path) -> None:
    """Render a picture with fonts that are installed; needs `rsvg-convert` (librsvg2-bin)."""
    plain = re.sub(r"@font-face\s*{[^}]*}", "", svg)
    plain = re.sub(r"font-family:[^;]*;", "font-family: DejaVu Sans Mono, WenQuanYi;", plain)
    plain = on_grid(plain).replace("font-size: 20px", "font-size: 20.265px")
    command = ["rsvg-convert", "--format=png", f"--output={target}"]
    subprocess.run(command, input=plain.encode(), check=True)
