"""The sample configuration, generated from the schema so that it cannot drift from it."""

from __future__ import annotations

import textwrap
import tomllib
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, Final

from memtui.model import Ranking
from memtui.settings.actions import ACTIONS
from memtui.settings.keys import leaves
from memtui.settings.load import PROTECTED
from memtui.settings.ranking_keys import values_of
from memtui.settings.toml import toml_value

_HEADER: Final = """\
# memtui: configuration.
#
# Every key is here with its default, behind a `#`. Take the `#` away to change one.
# A flag wins over $MEMTUI_* (such as $MEMTUI_RANKING__MMR__LAMBDA), that over a workspace's
# .memtui.toml or [tool.memtui] in its pyproject.toml, that over this file.
# `memtui config show` tells what is in force and why, `memtui config validate` what is wrong.
"""
_DESCRIPTIONS: Final = Path(__file__).parents[1] / "data" / "settings.toml"
_NEEDS_TRUST: Final = "A workspace's own file may not set this until you trust it."
_NEEDS_TRUST_WHEN: Final = {
    "embedding.provider": "A workspace's own file may not choose a remote one until you trust it.",
    "memory.extra_paths": "A workspace's own file may name places outside only if you trust it.",
    "transcripts.paths": "A workspace's own file may name places outside only if you trust it.",
}
_PROFILE_NOTE: Final = "# Keys that stay commented come from the profile; the values are memtui's."
_OWN_PROFILE: Final = """
# A ranking with a name of your own, for `profile` above, --profile and P: a-z, 0-9, . _ -; it takes
# the keys of [ranking], and its own `profile` is the built-in one that it starts from. A
# workspace's profile takes the place of yours of the same name. `memtui profiles` lists them.
#[profiles.recent-heavy]
#profile = "memtui"
#k = 8
#decay.enabled = true
#decay.half_life_days = 14
"""


def sample_config() -> str:
    """A TOML document with every key as a comment: explanation, then `# key = default`."""
    descriptions = tomllib.loads(_DESCRIPTIONS.read_text("utf-8"))
    parts = [_HEADER]
    table = ""
    for leaf in leaves().values():
        section, _, name = leaf.key.rpartition(".")
        if section != table:
            if table.startswith("ranking") and not section.startswith("ranking"):
                parts.append(_OWN_PROFILE)
            table = section
            parts.append(f"\n[{section}]\n")
            if section == "ranking":
                parts.append(f"{_PROFILE_NOTE}\n")
        parts.append(f"\n# {reduce(getitem, leaf.key.split('.'), descriptions)}\n")
        if leaf.key in PROTECTED:
            parts.append(f"# {_NEEDS_TRUST_WHEN.get(leaf.key, _NEEDS_TRUST)}\n")
        parts.append(f"#{name} = {_folded(toml_value(default_of(leaf.key)))}\n")
    parts.append("\n# Keys of the actions, separated by commas; empty: no key.\n")
    for action in ACTIONS:
        keys = toml_value(",".join(action.keys))
        parts.append(f"#{toml_value(action.id)} = {keys}  # {action.help}\n")
    return "".join(parts)


def _folded(value: str) -> str:
    """A long array on several lines, each behind a comment mark."""
    if len(value) <= 80:
        return value
    rows = textwrap.wrap(value[1:-1], 80, break_long_words=False, break_on_hyphens=False)
    return "[\n" + "".join(f"#\t{row}\n" for row in rows) + "#]"


def default_of(key: str) -> Any:
    """The default of a key; for a ranking value that is not set, that of profile `memtui`."""
    default = leaves()[key].default
    if default is not None or not key.startswith("ranking."):
        return default
    return values_of(Ranking()).get(key.removeprefix("ranking."))
