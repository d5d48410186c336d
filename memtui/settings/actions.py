"""The actions that keys can be bound to: the source of bindings, help and keymap.

They stand in `memtui/data/actions.txt`, one line each: its keys or `none`, the action (`!`: before
the focused widget), its title (`*`: in the key bar, `*2`: at that place there), its help, and the
id by which `[keymap]` can bind other keys to it. From this table come the bindings of every screen
and widget (`memtui.tui.bindings`), the key bar, the help screen, the palette, `memtui help keys`
and what `[keymap]` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from memtui.data import DATA_FOLDER

HIDDEN: Final = 0
"""The place in the key bar of an action that is not shown there."""
_LAST: Final = 99


class Action(Struct, frozen=True):
    """Something a key does.

    A key is a printed character or a name such as `enter`, `f2`, `ctrl+y`. Keys that are not
    characters work while a query is typed, too.
    """

    where: str
    """The screen or widget that has it."""
    keys: tuple[str, ...]
    """Empty for what the palette alone offers until `[keymap]` binds a key to it."""
    run: str
    """The action as Textual runs it: `step_k(-1)`."""
    title: str = ""
    help: str = ""
    id: str = ""
    """By which `[keymap]` binds other keys to it; empty for what is not configurable."""
    bar: int = HIDDEN
    """Its place in the key bar."""
    priority: bool = False
    """True if its keys work before those of the focused widget."""


def _parse(table: str) -> Iterator[Action]:
    where = ""
    for line in re.sub(r"\n +", " ", table.strip()).split("\n"):
        if line.startswith("# "):
            where = line[2:]
            continue
        keys, run, *cells = (cell.strip() for cell in line.split(" | "))
        title, help_, id_ = (*cells, "", "", "")[:3]
        name, star, place = title.partition(" *")
        yield Action(
            where,
            tuple(keys.split(",")) if keys != "none" else (),
            run.removesuffix("!"),
            name,
            help_,
            id_,
            int(place or _LAST) if star else HIDDEN,
            run.endswith("!"),
        )


ALL_ACTIONS: Final = tuple(_parse((DATA_FOLDER / "actions.txt").read_text("utf-8")))
ACTIONS: Final = tuple(action for action in ALL_ACTIONS if action.id)
"""The configurable actions, in the order of `memtui help keys`."""
ACTION_IDS: Final = frozenset(action.id for action in ACTIONS)
