"""Writing parameters into the settings: where to, what would change, and how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import Ranking
from memtui.tui.differences import Mark, difference
from memtui.tui.highlight import display_line
from memtui.tui.options import built_in_rankings

if TYPE_CHECKING:
    from memtui.settings.write import Plan, SettingsFiles

CONTEXT = 2
"""Lines around a change: what explains a key in the sample."""
_STYLES = {
    Mark.HUNK: "bold $accent",
    Mark.SAME: "$foreground 60%",
    Mark.REMOVED: "$state-error",
    Mark.ADDED: "$state-ok",
}


class Where(StrEnum):
    """What the parameters are written to."""

    USER = "my settings"
    PROJECT = "this folder's"
    PROFILE = "a profile"


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and every named ranking as the files now have it."""

    plan: Plan
    where: Where
    profiles: Mapping[str, Ranking]


def paths_of(files: SettingsFiles) -> dict[Where, Path]:
    """The file of every place; reads files, raises `SettingsError`."""
    from memtui.settings.load import Source
    from memtui.settings.write import target_of

    found = files.gather()
    places = {Source.USER: Where.USER, Source.PROJECT: Where.PROJECT}
    return {places[source]: target_of(found, source, files.root).path for source in files.sources}


def make_plan(files: SettingsFiles, ranking: Ranking, where: Where, name: str) -> Plan:
    """What writing would change; reads files, raises `SettingsError`."""
    from memtui.settings.load import Source
    from memtui.settings.write import plan_profile, plan_ranking

    built_in = built_in_rankings()
    if where is Where.PROFILE:
        return plan_profile(files, Source.USER, name, ranking, built_in)
    source = Source.PROJECT if where is Where.PROJECT else Source.USER
    return plan_ranking(files, source, ranking, built_in)


def name_error(name: str) -> str:
    """Why a profile cannot have this name; empty when it can."""
    from memtui.settings.keys import NAME_RULE, name_problem

    if not name:
        return f"type a name: {NAME_RULE}"
    wrong = name_problem(name)
    return f"{name}: {wrong}" if wrong else ""


def drawn_difference(before: str, after: str) -> Content:
    """The hunks that make one settings file of another, each line with its mark.

    Commands that print keys and the secret parts of addresses are left out.
    """
    from memtui.settings.shown import shown_text

    rows = []
    for line in difference(_lines(shown_text(before)), _lines(shown_text(after)), CONTEXT):
        mark = "" if line.mark is Mark.HUNK else f"{line.mark.value} "
        rows.append(Content.styled(mark + display_line(line.text), _STYLES[line.mark]))
    return Content("\n").join(rows)


def _lines(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]
