"""Every key of the search screen and the application: stable ids, and how keys are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import Binding
from textual.keys import key_to_character

SEARCH_BINDINGS: tuple[Binding, ...] = (
    Binding("slash", "focus_query", "query", id="query.focus", tooltip="Edit the query"),
    Binding("m,f2", "toggle_mmr", "MMR", id="mmr.toggle", tooltip="Variety on or off"),
    Binding("d,f3", "toggle_decay", "decay", id="decay.toggle", tooltip="Age counts, or not"),
    Binding("x,f4", "explain", "explain", id="explain", tooltip="The arithmetic of this rank"),
    Binding(
        "n",
        "toggle_near_misses",
        "not shown",
        show=False,
        id="near_misses.toggle",
        tooltip="Candidates that are not in the list, and why",
    ),
    Binding("r,f5", "sync", "sync", id="index.sync", tooltip="Index what changed"),
    Binding(
        "e,ctrl+o",
        "edit",
        "edit",
        show=False,
        id="result.edit",
        tooltip="Open the note in $EDITOR at this line",
    ),
    Binding(
        "y,ctrl+y",
        "copy_citation",
        "cite",
        show=False,
        id="result.cite",
        tooltip="Copy path#L12-L31",
    ),
    Binding(
        "Y",
        "copy_text",
        "copy text",
        show=False,
        id="result.copy",
        tooltip="Copy the text of this chunk",
    ),
    Binding(
        "R", "rebuild", "rebuild", show=False, id="index.rebuild", tooltip="Index everything again"
    ),
    Binding(
        "left_square_bracket,f6",
        "step_lambda(-1)",
        "λ −0.05",
        show=False,
        id="lambda.down",
        tooltip="More variety",
    ),
    Binding(
        "right_square_bracket,shift+f6",
        "step_lambda(1)",
        "λ +0.05",
        show=False,
        id="lambda.up",
        tooltip="More relevance",
    ),
    Binding(
        "left_curly_bracket",
        "step_half_life(-1)",
        "shorter half-life",
        show=False,
        id="half_life.down",
        tooltip="Old notes lose faster",
    ),
    Binding(
        "right_curly_bracket",
        "step_half_life(1)",
        "longer half-life",
        show=False,
        id="half_life.up",
        tooltip="Old notes lose slower",
    ),
    Binding(
        "less_than_sign",
        "step_vector_weight(-1)",
        "vector weight −0.05",
        show=False,
        id="weight.down",
        tooltip="Words count more",
    ),
    Binding(
        "greater_than_sign",
        "step_vector_weight(1)",
        "vector weight +0.05",
        show=False,
        id="weight.up",
        tooltip="Meaning counts more",
    ),
    Binding("minus", "step_k(-1)", "k −1", show=False, id="k.down", tooltip="Fewer results"),
    Binding("plus,equals_sign", "step_k(1)", "k +1", show=False, id="k.up", tooltip="More results"),
    Binding(
        "F",
        "cycle_fusion",
        "fusion",
        show=False,
        id="fusion.cycle",
        tooltip="Weighted sum, relative score, RRF",
    ),
    Binding(
        "0",
        "reset_parameters",
        "reset",
        show=False,
        id="parameters.reset",
        tooltip="Parameters as configured",
    ),
    Binding(
        "u",
        "undo_ranking",
        "undo",
        show=False,
        id="parameters.undo",
        tooltip="Back to the parameters before the last change",
    ),
    Binding(
        "U",
        "redo_ranking",
        "redo",
        show=False,
        id="parameters.redo",
        tooltip="The parameters that undo took back",
    ),
    Binding(
        "w",
        "write_parameters",
        "write parameters",
        show=False,
        id="parameters.write",
        tooltip="Save these parameters to the settings, after showing the difference",
    ),
    Binding(
        "C",
        "copy_configuration",
        "copy as agent configuration",
        show=False,
        id="parameters.copy",
        tooltip="These parameters as JSON5 for openclaw.json",
    ),
    Binding(
        "P",
        "cycle_profile",
        "profile",
        show=False,
        id="profile.cycle",
        tooltip="The next named ranking",
    ),
    Binding(
        "p,f7",
        "toggle_pin",
        "pin",
        show=False,
        id="pin.toggle",
        tooltip="Follow this chunk through every query, shown or not",
    ),
    Binding(
        "K",
        "app.show_chunk",
        "chunk",
        show=False,
        id="chunk.show",
        tooltip="Everything that the index holds about this chunk, and what is like it",
    ),
    Binding(
        "t",
        "trace_place",
        "trace",
        show=False,
        id="trace",
        tooltip="Why a file or a line, by its name, is shown or not",
    ),
    Binding(
        "c",
        "compare",
        "compare",
        show=False,
        id="compare",
        tooltip="Two rankings, or two chunks, side by side",
    ),
    Binding(
        "S",
        "sweep",
        "sweep",
        show=False,
        id="sweep",
        tooltip="Rank against one parameter, as a chart",
    ),
    Binding(
        "T",
        "toggle_parameters",
        "parameters",
        show=False,
        id="parameters.toggle",
        tooltip="Show or hide the parameter panel",
    ),
    Binding(
        "o",
        "cycle_sort",
        "sort view",
        show=False,
        id="sort.cycle",
        tooltip="Show the list by rank, vector, keyword or date",
    ),
    Binding(
        "v,ctrl+l",
        "cycle_preview",
        "preview",
        show=False,
        id="preview.cycle",
        tooltip="Preview right, below or off",
    ),
    Binding(
        "D,f8",
        "show_difference",
        "difference",
        show=False,
        id="preview.difference",
        tooltip="What changed in this note since it was indexed",
    ),
    Binding(
        "ctrl+r",
        "history",
        "history",
        show=False,
        id="query.history",
        tooltip="Queries asked before",
    ),
    Binding(
        "escape", "leave", "back", show=False, id="leave", tooltip="From the query to the list"
    ),
    Binding("down,ctrl+n", "move(1)", "down", show=False, id="result.next"),
    Binding("up", "move(-1)", "up", show=False, id="result.previous"),
    Binding("tab", "next_pane(1)", "next pane", show=False, id="pane.next"),
    Binding("shift+tab", "next_pane(-1)", "previous pane", show=False, id="pane.previous"),
)
"""Bindings of the search screen."""

LIST_BINDINGS: tuple[Binding, ...] = (
    Binding("j", "cursor_down", "down", show=False, id="list.next"),
    Binding("k", "cursor_up", "up", show=False, id="list.previous"),
    Binding("g", "first", "first", show=False, id="list.first"),
    Binding("G", "last", "last", show=False, id="list.last"),
)
"""Bindings of every list, beside the arrows, Home, End and the page keys."""

APP_BINDINGS: tuple[Binding, ...] = (
    Binding("question_mark,f1", "help", "help", id="help", tooltip="Every key of this pane"),
    Binding("1", "show_search", "search", show=False, id="screen.search"),
    Binding(
        "2,b",
        "show_browse",
        "browse",
        show=False,
        id="screen.browse",
        tooltip="The files of the memory, day by day and chunk by chunk",
    ),
    Binding(
        "3,s",
        "show_sessions",
        "sessions",
        show=False,
        id="screen.sessions",
        tooltip="Conversations, and what the agent asked its memory",
    ),
    Binding(
        "4,i",
        "show_index",
        "index",
        show=False,
        id="screen.index",
        tooltip="Status, sources, queue and errors",
    ),
    Binding(
        "E,f9",
        "choose_provider",
        "embedding provider…",
        show=False,
        id="provider.choose",
        tooltip="Who makes the vectors, where text goes, and another one",
    ),
    Binding(
        "ctrl+s",
        "save_svg",
        "screenshot",
        show=False,
        id="screenshot",
        tooltip="Save this screen as SVG",
    ),
    Binding("q", "quit", "quit", id="quit"),
    Binding(
        "ctrl+q",
        "quit",
        "quit",
        # A dialog hides the keys of the application that have no priority.
        priority=True,
        id="quit.anywhere",
    ),
    Binding(
        "ctrl+c",
        "interrupt",
        "stop",
        show=False,
        priority=True,
        id="interrupt",
        tooltip="Copy the selection, else stop what runs, else quit",
    ),
)
"""Bindings that work on every screen."""

_KEY_NAMES: Mapping[str, str] = {
    "escape": "esc",
    "enter": "⏎",
    "shift+tab": "⇧tab",
    "up": "↑",
    "down": "↓",
    "slash": "/",
    "minus": "-",
    "plus": "+",
    "left": "←",
    "right": "→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "backspace": "⌫",
}
_WORD_KEYS = frozenset({"slash", "minus", "plus", "space", "comma"})


def all_bindings() -> tuple[Binding, ...]:
    """Return every binding that has an id, in the order of the help."""
    return (*SEARCH_BINDINGS, *LIST_BINDINGS, *APP_BINDINGS)


def key_name(key: str) -> str:
    """Write a key the way the footer shows it: `slash` is `/`, `ctrl+q` is `^q`."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    if key.startswith("ctrl+"):
        return "^" + key_name(key.removeprefix("ctrl+"))
    if key.startswith("shift+"):
        return "⇧" + key_name(key.removeprefix("shift+"))
    if key.startswith("alt+"):
        return "alt-" + key_name(key.removeprefix("alt+"))
    if key.startswith("f") and key[1:].isdigit():
        return key.upper()
    character = key_to_character(key) or ""
    return character if character.isprintable() and character.strip() else key


def is_typed(key: str) -> bool:
    """Tell whether a focused input takes this key as text."""
    return len(key_name(key)) == 1 and (len(key) == 1 or "_" in key or key in _WORD_KEYS)


def key_for(keys: Iterable[str], *, typing: bool) -> str | None:
    """Choose the key to name: a character, or while typing the first that is none."""
    characters: list[str] = []
    others: list[str] = []
    for key in keys:
        (characters if is_typed(key) else others).append(key)
    wanted = others if typing else characters + others
    return wanted[0] if wanted else None
