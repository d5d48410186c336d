"""The actions that keys can be bound to: their ids, their keys by default, what they do.

The terminal interface builds its bindings with these ids (a test keeps the two alike); the
settings check `[keymap]` against them, and `memtui help keys` prints them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Action:
    """Something a key does.

    A key is a printed character or a name such as `enter`, `f2`, `ctrl+y`. Keys that are not
    characters work while a query is typed, too.
    """

    id: str
    keys: tuple[str, ...]
    description: str


ACTIONS: Final[tuple[Action, ...]] = (
    Action("query.focus", ("/",), "edit the query"),
    Action("query.history", ("ctrl+r",), "queries asked before"),
    Action("result.next", ("down", "ctrl+n"), "next result"),
    Action("result.previous", ("up",), "previous result"),
    Action("list.next", ("j",), "next row of a list"),
    Action("list.previous", ("k",), "previous row of a list"),
    Action("list.first", ("g",), "first row of a list"),
    Action("list.last", ("G",), "last row of a list"),
    Action("leave", ("escape",), "from the query to the list; close what is open"),
    Action("explain", ("x", "f4"), "the whole arithmetic of a result"),
    Action("near_misses.toggle", ("n",), "candidates that are not shown, and why"),
    Action("sort.cycle", ("o",), "list by rank, vector, keyword or date"),
    Action("result.edit", ("e", "ctrl+o"), "open the note in the editor, at its line"),
    Action("result.cite", ("y", "ctrl+y"), "copy path#L12-L31"),
    Action("result.copy", ("Y",), "copy the text"),
    Action("mmr.toggle", ("m", "f2"), "MMR on or off"),
    Action("decay.toggle", ("d", "f3"), "temporal decay on or off"),
    Action("lambda.down", ("[", "f6"), "lambda - 0.05: more variety"),
    Action("lambda.up", ("]", "shift+f6"), "lambda + 0.05: more relevance"),
    Action("half_life.down", ("{",), "shorter half-life: old notes lose faster"),
    Action("half_life.up", ("}",), "longer half-life: old notes lose slower"),
    Action("weight.down", ("<",), "vector weight - 0.05: words count more"),
    Action("weight.up", (">",), "vector weight + 0.05: meaning counts more"),
    Action("k.down", ("-",), "fewer results"),
    Action("k.up", ("+", "="), "more results"),
    Action("fusion.cycle", ("F",), "weighted sum, relative score, RRF"),
    Action("parameters.reset", ("0",), "parameters as configured"),
    Action("parameters.undo", ("u",), "parameters as before the last change"),
    Action("parameters.redo", ("U",), "parameters that undo took back"),
    Action("parameters.write", ("w",), "save the parameters to the settings (shows them first)"),
    Action("parameters.toggle", ("T",), "show or hide the parameter panel"),
    Action("profile.cycle", ("P",), "the next named ranking"),
    Action("pin.toggle", ("p", "f7"), "follow a chunk through every query"),
    Action("trace", ("t",), "why a file or a line is shown or not"),
    Action("chunk.show", ("K",), "everything that the index holds about a chunk"),
    Action("compare", ("c",), "two rankings, or two chunks, side by side"),
    Action("sweep", ("S",), "rank against one parameter, as a chart"),
    Action("parameters.copy", ("C",), "copy the parameters as an agent's configuration"),
    Action("index.sync", ("r", "f5"), "index what changed"),
    Action("index.rebuild", ("R",), "index everything again (asks first)"),
    Action("preview.cycle", ("v", "ctrl+l"), "preview right, below or off"),
    Action("preview.difference", ("D", "f8"), "what changed since a note was indexed"),
    Action("pane.next", ("tab",), "next pane"),
    Action("pane.previous", ("shift+tab",), "previous pane"),
    Action("screen.search", ("1",), "search screen"),
    Action("screen.browse", ("2", "b"), "browse screen; from a result to its place"),
    Action("screen.sessions", ("3", "s"), "sessions screen; from a result to its turn"),
    Action("screen.index", ("4", "i"), "index screen"),
    Action("provider.choose", ("E", "f9"), "embedding providers, and going over to another"),
    Action("screenshot", ("ctrl+s",), "save the screen as SVG"),
    Action("help", ("?", "f1"), "every key of this pane"),
    Action("interrupt", ("ctrl+c",), "copy the selection, else stop what runs, else quit"),
    Action("quit", ("q",), "quit"),
    Action("quit.anywhere", ("ctrl+q",), "quit, also from a dialog or while typing"),
)

ACTION_IDS: Final = frozenset(action.id for action in ACTIONS)
