"""The command palette: every action of the screen, ranking presets and profiles, themes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from textual.app import App
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from memtui.data import read_table
from memtui.model import Fusion, Ranking
from memtui.report.words import PROFILE_WORDS, WORDS
from memtui.settings.schema import with_values
from memtui.text.sanitize import safe_line
from memtui.tui import fmt
from memtui.tui.background import tell
from memtui.tui.bindings import bindings, key_name, keyed_actions
from memtui.tui.place_actions import app_of
from memtui.tui.widgets.bars import draw_key
from memtui.tui.widgets.lists import RowList

_STEPS = frozenset({"up", "down", "tab", "shift+tab", "escape"})
"""Keys of steps that nobody looks for in a palette before typing."""


class Command(Struct, frozen=True):
    """A line of the palette; `help` and `name` are constants of this program."""

    name: str
    help: str
    run: Callable[[], Any]
    keys: tuple[str, ...] = ()
    discover: bool = True
    """True if it is listed before anything is typed."""

    def draw(self, name: Content) -> Content:
        keys = " ".join(self.keys)
        return Content.assemble(name, "  " if keys else "", (keys, f"{fmt.MUTED} not bold"))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class MemtuiCommands(Provider):
    """Offers everything the application can do."""

    async def startup(self) -> None:
        """Name the keys of the palette in place of those of the screen below it."""
        keys = (draw_key(*one) for one in read_table("palette.toml")["keys"].items())
        await self.app.screen.mount(Static(Content("  ").join(keys), classes="keys"))

    async def discover(self) -> Hits:
        for one in self.commands():
            if one.discover:
                title = one.draw(Content(one.name))
                yield DiscoveryHit(title, one.run, text=one.name, help=one.help or None)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        beginnings = _words(query)

        def has_words(text: str) -> bool:
            words = _words(text)
            return all(any(word.startswith(one) for word in words) for one in beginnings)

        for one in self.commands():
            by_name = matcher.match(one.name)
            # Words go before letters: those of a name, the shortest first, then those of the help.
            if beginnings and has_words(one.name):
                # Of themes those that are made for this program.
                score = 3 + len(query) / len(one.name) + ("memtui-" in one.name) / 2
            elif beginnings and has_words(f"{one.name} {one.help}"):
                score = 2.0
            else:
                score = by_name / (1 + by_name)
            if score > 0:
                title = one.draw(matcher.highlight(one.name) if by_name else Content(one.name))
                yield Hit(score, title, one.run, text=one.name, help=one.help or None)

    def commands(self) -> Iterator[Command]:
        """Every command that can be given now: actions, the ranking, providers, themes."""
        from memtui.settings.schema import PROVIDERS

        app = app_of(self.screen)
        # Textual's own have no id; what the key bar names comes first.
        own = [one for one in keyed_actions(self.screen) if one.enabled and one.binding.id]
        for keyed in sorted(own, key=lambda one: not one.binding.show):
            opens_row = "enter" in keyed.keys and isinstance(keyed.node, RowList)
            if isinstance(keyed.node, App | Screen) or opens_row:
                binding = keyed.binding
                yield Command(
                    binding.description,
                    binding.tooltip,
                    partial(self.app.run_action, binding.action, keyed.node),
                    tuple(dict.fromkeys(map(key_name, keyed.keys))),
                    discover=_STEPS.isdisjoint(keyed.keys),
                )
        search = app.search_screen
        table = read_table("palette.toml")
        for where, ids in table["elsewhere"].items():
            for one in bindings(where) if where != self.screen.name else ():
                if isinstance(one, Binding) and one.id in ids:
                    run = partial(app.run_elsewhere, where, one.action)
                    name, keys = f"{where}: {one.description}", (key_name(one.key),)
                    yield Command(name, one.tooltip, run, keys, discover=False)
        for operator, about in table["operators"].items():
            text = f"{search.state.text} {operator}".lstrip()
            write = partial(search.search.set_query, text, typing=True)
            yield Command(f"query: {operator}", about, write, ("/",), discover=False)

        def change(name: str, ranking: Ranking) -> None:
            """Say what was chosen where the search screen does not show it."""
            search.rankings.change(ranking)
            if self.screen is not search:
                tell(app, f"Search ranks by {safe_line(name)} now.")

        for name, preset in table["presets"].items():
            name, ranking = f"preset: {name}", with_values(app.options.ranking, preset["change"])
            yield Command(name, preset["help"], partial(change, name, ranking))
        for fusion in Fusion:
            name = f"fusion: {WORDS['fusion'][fusion]}"
            run = partial(change, name, replace(search.state.ranking, fusion=fusion))
            yield Command(name, table["fusion"][fusion], run, discover=False)
        for profile, ranking in app.options.profiles.items():
            about = PROFILE_WORDS.get(profile, "a profile of your own")
            name = f"profile: {profile}"
            yield Command(name, about, partial(change, name, ranking))
        about = "what it would cost, and where text would go"
        for name in PROVIDERS:
            choose = partial(app.memories.choose_provider, name)
            yield Command(f"provider: {name}", about, choose, discover=False)
        about = "every search in a conversation, then and now"
        yield Command("agent searches", about, app.action_show_asked)
        if app.memories.agents is not None:
            agents = app.memories.choose_agent
            yield Command("open an agent's index…", "the agents of this machine", agents)
        yield Command("theme", "choose other colours", self.app.search_themes)
        for name in sorted(self.app.available_themes):
            shade = "dark" if self.app.available_themes[name].dark else "light"
            run = partial(setattr, self.app, "theme", name)
            yield Command(f"theme: {name}", f"{shade} colours", run, discover=False)
