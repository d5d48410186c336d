"""The command palette: every action of the screen, ranking presets and profiles, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.app import App
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.screen import Screen

from memtui.model import Fusion, Ranking
from memtui.ranking.profiles import PROFILES as BUILT_IN
from memtui.tui import format as fmt
from memtui.tui.bindings import key_label, keyed_actions

if TYPE_CHECKING:
    from memtui.tui.app import MemtuiApp


def keyword_heavy(ranking: Ranking) -> Ranking:
    """Let words decide: vector 0.10, keyword 0.90."""
    return replace(ranking, vector_weight=0.1, keyword_weight=0.9)


def vector_heavy(ranking: Ranking) -> Ranking:
    """Let meaning decide: vector 0.80, keyword 0.20."""
    return replace(ranking, vector_weight=0.8, keyword_weight=0.2)


def recent(ranking: Ranking) -> Ranking:
    """Let age decide: decay with a half-life of 14 days."""
    return replace(
        ranking, decay=replace(ranking.decay, enabled=True, half_life_days=14.0, floor=0.0)
    )


def gentle(ranking: Ranking) -> Ranking:
    """Let age count a little: decay that never takes more than a fifth."""
    return replace(
        ranking, decay=replace(ranking.decay, enabled=True, half_life_days=30.0, floor=0.8)
    )


def diverse(ranking: Ranking) -> Ranking:
    """Let variety decide: MMR with λ 0.50."""
    return replace(ranking, mmr=replace(ranking.mmr, enabled=True, lambda_=0.5))


@dataclass(frozen=True, slots=True)
class Preset:
    """A named change of the configured ranking."""

    name: str
    help: str
    change: Callable[[Ranking], Ranking]


PRESETS: tuple[Preset, ...] = (
    Preset("keyword heavy", "vector 0.10, keyword 0.90", keyword_heavy),
    Preset("meaning heavy", "vector 0.80, keyword 0.20", vector_heavy),
    Preset("recent", "decay on, half-life 14 days", recent),
    Preset("gentle decay", "decay on, never more than a fifth lost", gentle),
    Preset("diverse", "MMR on, λ 0.50", diverse),
    Preset("profile default", "every parameter as configured", lambda ranking: ranking),
)

FUSION_HELP: Mapping[Fusion, str] = {
    Fusion.WEIGHTED_SUM: "scores as they are, weighted",
    Fusion.RELATIVE_SCORE: "each leg scaled to 0..1, weighted",
    Fusion.RRF: "ranks instead of scores",
}

_STEPS = frozenset(map(key_label, ("up", "down", "tab", "shift+tab", "escape")))
"""Keys of steps that nobody looks for in a palette before typing."""


@dataclass(frozen=True, slots=True)
class Command:
    """A line of the palette; `help` and `name` are constants of this program."""

    name: str
    help: str
    run: Callable[[], Any]
    keys: tuple[str, ...] = ()
    discover: bool = True
    """Whether it is listed before anything is typed."""


class MemtuiCommands(Provider):
    """Offers everything the application can do."""

    async def discover(self) -> Hits:
        """List the commands for an empty palette."""
        for command in self.commands():
            if command.discover:
                yield DiscoveryHit(
                    _draw(Content(command.name), command),
                    command.run,
                    text=command.name,
                    help=command.help or None,
                )

    async def search(self, query: str) -> Hits:
        """List the commands that match, by name or by help."""
        matcher = self.matcher(query)
        for command in self.commands():
            by_name, by_help = matcher.match(command.name), matcher.match(command.help)
            score = max(by_name, by_help * 0.7)
            if score > 0:
                name = matcher.highlight(command.name)
                yield Hit(
                    score,
                    _draw(name if by_name else Content(command.name), command),
                    command.run,
                    text=command.name,
                    help=command.help or None,
                )

    def commands(self) -> Iterator[Command]:
        """Every command that can be given now."""
        yield from self._actions()
        if hasattr(self.app, "search_screen"):
            app = cast("MemtuiApp", self.app)
            yield from _inquiries(app)
            yield from self._rankings(app)
            yield from _providers(app)
            yield from _sessions(app)
            if app.memories.agents is not None:
                agents = app.memories.choose_agent
                yield Command("open an agent's index…", "the agents of this machine", agents)
        yield Command("theme", "choose other colours", self.app.search_themes)
        for name in sorted(self.app.available_themes):
            shade = "dark" if self.app.available_themes[name].dark else "light"
            run = partial(setattr, self.app, "theme", name)
            yield Command(f"theme: {name}", f"{shade} colours", run, discover=False)

    def _actions(self) -> Iterator[Command]:
        """The bindings of the screen and of the application, each action once."""
        for keyed in keyed_actions(self.screen):
            if keyed.enabled and isinstance(keyed.node, App | Screen):
                binding = keyed.binding
                yield Command(
                    binding.description,
                    binding.tooltip,
                    partial(self.app.run_action, binding.action, keyed.node),
                    keyed.keys,
                    discover=binding.show or _STEPS.isdisjoint(keyed.keys),
                )

    def _rankings(self, app: MemtuiApp) -> Iterator[Command]:
        change = app.search_screen.rankings.change
        configured = app.options.ranking
        for preset in PRESETS:
            run = partial(change, preset.change(configured))
            yield Command(f"preset: {preset.name}", preset.help, run)
        for fusion in Fusion:
            run = partial(change, replace(app.search_screen.ranking, fusion=fusion))
            name = f"fusion: {fmt.FUSION_WORDS[fusion]}"
            yield Command(name, FUSION_HELP[fusion], run, discover=False)
        built_in = BUILT_IN
        for profile, ranking in app.options.profiles.items():
            told = "rank as this program does" if profile in built_in else "a profile of your own"
            yield Command(f"profile: {profile}", told, partial(change, ranking))


def _inquiries(app: MemtuiApp) -> Iterator[Command]:
    """What is also a key of the search screen, in the words that people search for."""
    trace = app.search_screen.inquiry.trace_place
    told = "PATH or PATH:LINE: why it is shown or not"
    yield Command("trace a file or a line…", told, trace, ("t",), discover=False)
    pin = app.search_screen.inquiry.toggle_pin
    told = "follow it through every query"
    yield Command("pin the selected chunk", told, pin, ("p",), discover=False)


def _sessions(app: MemtuiApp) -> Iterator[Command]:
    """What the sessions screen can be opened for."""
    told = "every search in a conversation, then and now"
    yield Command("what the agent asked its memory", told, app.action_show_asked)


def _providers(app: MemtuiApp) -> Iterator[Command]:
    """The list of the providers, with each of them chosen."""
    from memtui.embedding.registry import AUTO, NONE, provider_names

    told = "what it would cost, and where text would go"
    for name in provider_names():
        if name not in (AUTO, NONE):
            run = partial(app.providers.choose, name)
            yield Command(f"provider: {name}", told, run, discover=False)


def _draw(name: Content, command: Command) -> Content:
    keys = " ".join(command.keys)
    return Content.assemble(name, "  " if keys else "", (keys, f"{fmt.MUTED} not bold"))
