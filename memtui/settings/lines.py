"""The line that each key of a TOML document stands on."""

from __future__ import annotations

from memtui.settings.toml_layout import Path, read_layout


def key_lines(text: str) -> dict[Path, int]:
    """The 1-based line of every key and table header, by its path.

    A table that only its keys or its sub-tables speak of is on the line of the first of them. The
    text is one that `tomllib` has read; when its values are nested too deeply, no line is known:
    this is about better messages, never about what is in the file.
    """
    try:
        layout = read_layout(text)
    except RecursionError:
        return {}
    places = [(section.start, section.path) for section in layout.sections[1:]]
    places += [(pair.start, pair.path) for pair in layout.pairs()]
    lines: dict[Path, int] = {}
    line, counted = 1, 0
    for place, path in sorted(places):
        line += text.count("\n", counted, place)
        counted = place
        for length in range(len(path), 0, -1):
            lines.setdefault(path[:length], line)
    return lines
