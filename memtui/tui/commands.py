"""The command palette: every action of the screen, ranking presets and profiles, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from textual.app import App
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from memtui.data import read_table
from memtui.model import Fusion
from memtui.ranking.profiles import PROFILES
from memtui.settings.schema import with_values
from memtui.tui import format as fmt
from memtui.tui.bindings import key_name, keyed_actions
from memtui.tui.place_actions import app_of

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


class MemtuiCommands(Provider):
    """Offers everything the application can do."""

    async def discover(self) -> Hits:
        for one in self.commands():
            if one.discover:
                title = one.draw(Content(one.name))
                yield DiscoveryHit(title, one.run, text=one.name, help=one.help or None)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for one in self.commands():
            by_name, by_help = matcher.match(one.name), matcher.match(one.help)
            score = max(by_name, by_help * 0.7)
            if score > 0:
                title = one.draw(matcher.highlight(one.name) if by_name else Content(one.name))
                yield Hit(score, title, one.run, text=one.name, help=one.help or None)

    def commands(self) -> Iterator[Command]:
        """Every command that can be given now: actions, the ranking, providers, themes."""
        from memtui.embedding.registry import provider_names

        app = app_of(self.screen)
        for keyed in keyed_actions(self.screen):
            if keyed.enabled and isinstance(keyed.node, App | Screen):
                binding = keyed.binding
                yield Command(
                    binding.description,
                    binding.tooltip,
                    partial(self.app.run_action, binding.action, keyed.node),
                    tuple(dict.fromkeys(map(key_name, keyed.keys))),
                    discover=binding.show or _STEPS.isdisjoint(keyed.keys),
                )
        search = app.search_screen
        # Two keys of the search screen in the words that people search for.
        trace, pin = search.notes.trace_place, search.notes.toggle_pin
        about = "PATH or PATH:LINE: why it is shown or not"
        yield Command("trace a file or a line…", about, trace, ("t",), discover=False)
        about = "follow it through every query"
        yield Command("pin the selected chunk", about, pin, ("p",), discover=False)

        change = search.rankings.change
        table = read_table("palette.toml")
        for name, preset in table["presets"].items():
            run = partial(change, with_values(app.options.ranking, preset["change"]))
            yield Command(f"preset: {name}", preset["help"], run)
        for fusion in Fusion:
            run = partial(change, replace(search.state.ranking, fusion=fusion))
            name = f"fusion: {fmt.FUSION_WORDS[fusion]}"
            yield Command(name, table["fusion"][fusion], run, discover=False)
        for profile, ranking in app.options.profiles.items():
            about = "rank as this program does" if profile in PROFILES else "a profile of your own"
            yield Command(f"profile: {profile}", about, partial(change, ranking))
        about = "what it would cost, and where text would go"
        for name in provider_names():
            choose = partial(app.memories.choose_provider, name)
            yield Command(f"provider: {name}", about, choose, discover=False)
        about = "every search in a conversation, then and now"
        yield Command("what the agent asked its memory", about, app.action_show_asked)
        if app.memories.agents is not None:
            agents = app.memories.choose_agent
            yield Command("open an agent's index…", "the agents of this machine", agents)
        yield Command("theme", "choose other colours", self.app.search_themes)
        for name in sorted(self.app.available_themes):
            shade = "dark" if self.app.available_themes[name].dark else "light"
            run = partial(setattr, self.app, "theme", name)
            yield Command(f"theme: {name}", f"{shade} colours", run, discover=False)
