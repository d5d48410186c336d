"""Draws how each recorded cost grows with the size of the index, as PNG and SVG.

`python -m tests.bench.plot` reads tests/bench/recorded.json and writes to screenshots/bench.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.recorded import Entry, load

FOLDER = Path(__file__).parents[2] / "screenshots" / "bench"

_OURS, _THEIRS, _INK, _PAPER, _GRID = "#0f766e", "#b45309", "#1f2933", "#ffffff", "#d9dee3"
_PANEL_WIDTH, _PANEL_HEIGHT, _COLUMNS = 4.6, 3.3, 3
_DOTS_PER_INCH = 110
_ORDER = (
    "hybrid query",
    "keyword leg",
    "vector leg",
    "plain SQL",
    "memory that the chunks take",
    "resident memory",
    "index on disk",
    "start when nothing changed",
    "first result after start",
    "first index",
)
"""What the names of the first panels begin with; the others follow by name."""


@dataclass(frozen=True, slots=True)
class Point:
    """One size: the figure in its unit, its 95th percentile, and the reference beside it."""

    size: int
    ours: float
    high: float
    theirs: float | None


@dataclass(frozen=True, slots=True)
class Curve:
    """A cost at several sizes, smallest first."""

    name: str
    unit: str
    reference: str
    points: tuple[Point, ...]


def curves(entries: Iterable[Entry]) -> list[Curve]:
    """Put the entries that differ only in size together; those of a single size are left out."""
    families: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry["size"] is not None and entry["ours"]["count"] and _is_drawable(entry):
            families[_family(entry)].append(entry)
    return [
        Curve(name, found[0]["unit"], _reference(found), _points(found))
        for name, found in sorted(families.items(), key=_order)
        if len({entry["size"] for entry in found}) > 1
    ]


def draw(found: Sequence[Curve], folder: Path = FOLDER, name: str = "growth") -> list[Path]:
    """Write one picture with a panel for each curve, as PNG and as SVG; which files were written.

    Both axes are logarithmic, so that a straight line of slope one is a cost that doubles when the
    index doubles.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "memtui", "font.size": 9})
    from matplotlib import pyplot

    rows = -(-len(found) // _COLUMNS)
    size = (_PANEL_WIDTH * _COLUMNS, _PANEL_HEIGHT * rows)
    figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=size, squeeze=False, facecolor=_PAPER)
    for panel in axes.flat[len(found) :]:
        panel.set_visible(False)
    for panel, curve in zip(axes.flat, found, strict=False):
        _panel(panel, curve)
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.png", folder / f"{name}.svg"]
    figure.savefig(written[0], dpi=_DOTS_PER_INCH, metadata={"Software": None})
    figure.savefig(written[1], metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return written


def _panel(panel: Any, curve: Curve) -> None:
    sizes = [point.size for point in curve.points]
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(True, which="major", color=_GRID, linewidth=0.7)
    panel.set_axisbelow(True)
    ours = [point.ours for point in curve.points]
    highs = [max(point.high, point.ours) for point in curve.points]
    panel.fill_between(sizes, ours, highs, color=_OURS, alpha=0.15, linewidth=0)
    panel.plot(sizes, ours, "o-", color=_OURS, markersize=4, label="memtui (to p95)")
    theirs = [(point.size, point.theirs) for point in curve.points if point.theirs]
    if theirs:
        places, values = zip(*theirs, strict=True)
        panel.plot(places, values, "s--", color=_THEIRS, markersize=3.5, label=curve.reference)
    panel.set_title(curve.name, color=_INK, fontsize=10, loc="left", fontweight="bold")
    panel.set_ylabel(curve.unit, color=_INK)
    panel.set_xticks(sizes, [_short(size) for size in sizes])
    panel.minorticks_off()
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    panel.legend(fontsize=7.5, frameon=False, loc="best")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _points(entries: Iterable[Entry]) -> tuple[Point, ...]:
    points = {}
    for entry in entries:
        wall: Mapping[str, float] = entry["ours"]["wall"]
        beside = entry["theirs"].get("wall")
        theirs = None if beside is None else beside["p50"]
        points[entry["size"]] = Point(entry["size"], wall["p50"], wall["p95"], theirs)
    return tuple(points[size] for size in sorted(points))


def _is_drawable(entry: Entry) -> bool:
    """Whether a logarithmic axis has a place for it: a small index may take no memory at all."""
    return bool(entry["ours"]["wall"]["p50"] > 0)


def _order(family: tuple[str, list[Entry]]) -> tuple[int, str]:
    name, _ = family
    places = (place for place, start in enumerate(_ORDER) if name.startswith(start))
    return next(places, len(_ORDER)), name


def _family(entry: Entry) -> str:
    return str(entry["name"]).rpartition(", ")[0] or str(entry["name"])


def _reference(entries: Iterable[Entry]) -> str:
    return next((str(entry["reference"]) for entry in entries if entry["reference"]), "")


def _short(size: int) -> str:
    if size % 1_000_000 == 0:
        return f"{size // 1_000_000}M"
    return f"{size // 1000}k" if size % 1000 == 0 else f"{size:,}"


def main() -> int:
    """Draw what was recorded; 1 when nothing was measured at more than one size."""
    found = curves(load().values())
    if not found:
        print("nothing is recorded at two sizes: python -m tests.bench --record", file=sys.stderr)
        return 1
    for path in draw(found):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
