"""Notes with planted faults, and look-alikes that are none, from `data/care_notes.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memtui.model.browsing import CareRule

CASES: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "data" / "care_notes.toml").read_text("utf-8")
)
_HEAD = "# A topic\n\nWords that say what this note is about, so that it is not empty.\n\n"
_SENTENCE = "The pump in the cellar starts when the water in the shaft is higher than the float."


@dataclass(frozen=True, slots=True)
class PlantedNote:
    """A note and the faults that are in it: rule and line."""

    path: str
    text: str
    faults: frozenset[tuple[CareRule, int]] = frozenset()


def planted_notes() -> list[PlantedNote]:
    """Return every note, planted or sound."""
    notes = [PlantedNote(path, text) for path, text in CASES["context"].items()]
    for name, cases in CASES["faults"].items():
        for number, case in enumerate(cases):
            text = f"{_HEAD}{case}\n"
            fault = CareRule(name), text.count("\n")
            notes.append(PlantedNote(f"memory/{name}-{number}.md", text, frozenset({fault})))
    for number, case in enumerate(CASES["sound"]):
        notes.append(PlantedNote(f"memory/sound-{number}.md", f"{_HEAD}{case}\n"))
    for number, text in enumerate(CASES["full"]):
        notes.append(PlantedNote(f"memory/full-{number}.md", text))
    empty, long = frozenset({(CareRule.EMPTY_FILE, 1)}), frozenset({(CareRule.LONG_FILE, 1)})
    for number, text in enumerate(CASES["empty"]):
        notes.append(PlantedNote(f"memory/empty-{number}.md", text, empty))
    paragraph = "\n\n".join([_SENTENCE] * 60) + "\n"
    return [
        *notes,
        PlantedNote("memory/long.md", paragraph * 22, long),
        PlantedNote("MEMORY.md", paragraph * 5, long),
        PlantedNote("memory/rather-long.md", paragraph * 10),
    ]
