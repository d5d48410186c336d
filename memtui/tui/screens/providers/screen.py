"""The embedding providers: which can work, where each sends text, and going over to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen

from memtui.embedding.registry import EMBEDDED_DEFAULT
from memtui.model.status import ProbeResult, ProviderListing
from memtui.report import providers as words
from memtui.report.providers import price_words
from memtui.tui import format as fmt
from memtui.tui.background import in_background
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs, glyphs
from memtui.tui.options import UiOptions
from memtui.tui.screens.base import BaseScreen
from memtui.tui.screens.providers.rows import (
    Probe,
    found_line,
    header_line,
    provider_facts,
    provider_row,
)
from memtui.tui.screens.providers.switch import Chosen, choice_named, worth_asking
from memtui.tui.widgets.line_view import Fact, Facts, TextBlock
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.ports import RebuildCost

T = TypeVar("T")

TITLE = "Embedding provider"
FIRST_TITLE = "Who makes the vectors?"
KEPT = "Keeping minilm sends nothing anywhere; F9 asks again at any time."
_KEYS = "enter switch…  t try  esc back"
_FIRST_KEYS = "enter switch…  t try  esc keep minilm"
_KEEP_KEYS = "enter keep minilm on this machine  t try"
_LABEL = 9


class ProvidersScreen(BaseScreen[Chosen | None], ModalScreen[Chosen | None]):
    """Every provider with its state. Returns the one to go over to; `None` keeps the present one.

    With `found` it is the question of a first run, and keeping the embedded model the answer that
    is chosen to begin with.
    """

    CSS_PATH = "providers.tcss"
    BINDING_GROUP_TITLE = TITLE
    BINDINGS: ClassVar[list[BindingType]] = bindings("providers")

    def __init__(
        self,
        engine: Engine,
        options: UiOptions,
        *,
        listings: Sequence[ProviderListing] | None = None,
        choose: str = "",
        is_first_run: bool = False,
    ) -> None:
        """`listings` are shown as they are, else looked for; `choose` is a name."""
        super().__init__()
        self._engine = engine
        self._options = options
        self._glyphs = glyphs(options.glyphs)
        self._given = listings
        self._choose = choose
        self._is_first_run = is_first_run
        self.listings: tuple[ProviderListing, ...] = ()
        """What is shown."""
        self._probes: dict[str, Probe] = {}
        self._error = ""
        self._note = ""
        self._is_busy = False

    def compose(self) -> ComposeResult:
        """What is asked, the columns, the list, and what there is to know of the chosen one."""
        with Vertical(id="providers-box", classes="provider-box"):
            yield TextBlock(id="providers-intro")
            yield TextBlock(id="providers-columns")
            yield RowList(id="providers-list", marker=self._glyphs.marker)
            with VerticalScroll(id="providers-scroll", can_focus=False):
                yield Facts(label_width=_LABEL, id="providers-facts")

    def on_mount(self) -> None:
        """List what is known, or look for it."""
        title = FIRST_TITLE if self._is_first_run else TITLE
        self.query_one("#providers-box").border_title = Content(title)
        self.query_one("#providers-columns", TextBlock).show(lambda width: [header_line(width)])
        self._list.focus()
        if self._given is None:
            self._draw()
            self._ask(self._engine.providers.available, self._listed)
        else:
            self._take(self._given)

    @property
    def _list(self) -> RowList:
        return self.query_one("#providers-list", RowList)

    @property
    def chosen(self) -> ProviderListing | None:
        """The provider of the chosen row."""
        return self._named(self._list.chosen_id)

    def _named(self, name: str | None) -> ProviderListing | None:
        return next((each for each in self.listings if each.name == name), None)

    # --- the list -------------------------------------------------------------------------------

    def _ask(self, work: Callable[[], T], then: Callable[[T | None, str], object]) -> None:
        """Ask the engine in the background; `then` gets what came of it, or a problem."""

        def outcome() -> tuple[T | None, str]:
            try:
                return work(), ""
            except Exception as error:
                # Whatever a provider's library does is told in one line.
                return None, str(error) or type(error).__name__

        in_background(
            self,
            outcome,
            lambda came: then(*came),
            group=then.__name__,
            description="ask about the providers",
        )

    def _listed(self, listings: Sequence[ProviderListing] | None, problem: str) -> None:
        self._error = problem
        self._take(listings or ())

    def _take(self, listings: Sequence[ProviderListing]) -> None:
        self.listings = tuple(listings)
        first = EMBEDDED_DEFAULT if self._is_first_run else self._choose
        keep = first or next((each.name for each in listings if each.is_actual), None)
        self._show_rows(keep)
        self._draw()

    def show_provider(self, name: str) -> None:
        """Go to the row of a provider; without such a row it stays where it is."""
        self._choose = name
        self._list.choose(name)
        self._draw()

    def _show_rows(self, keep: str | None) -> None:
        self._list.set_rows(
            [provider_row(e, self._probes.get(e.name), self._glyphs) for e in self.listings], keep
        )

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Tell what there is to know of another provider."""
        message.stop()
        self._note = ""
        self._draw()

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Go over to the provider, after its price is known and agreed to."""
        message.stop()
        listing = self._named(message.row_id)
        if listing is None or self._is_busy:
            return
        if self._is_first_run and listing.name == EMBEDDED_DEFAULT:
            self.dismiss(None)
        elif listing.is_actual and listing.is_requested:
            self._tell(f"{listing.name} is in use already")
        elif not listing.works:
            self._tell(f"{listing.name} cannot be used yet: see what is missing")
        else:
            self._is_busy = True
            self._tell(f"what {listing.name} would cost{self._glyphs.ellipsis}")
            self._price(listing)

    # --- drawing --------------------------------------------------------------------------------

    def _draw(self) -> None:
        self.query_one("#providers-intro", TextBlock).show(self._intro)
        listing = self.chosen
        facts = self.query_one("#providers-facts", Facts)
        if listing is not None:
            probe = self._probes.get(listing.name)
            facts.show_facts(provider_facts(listing, probe, self._glyphs, self._failed(listing)))
        elif self._error:
            told = f"{self._glyphs.error} {words.brief(self._error)}"
            facts.show_facts([("", Content.styled(told, "$state-error"))])
        else:
            looking = f"looking at the providers{self._glyphs.ellipsis}"
            facts.show_facts([("", Content.styled(looking, fmt.MUTED))])
        self.query_one("#providers-scroll").scroll_home(animate=False)
        self._draw_keys()
        self.call_after_refresh(self._fit)

    def _failed(self, listing: ProviderListing) -> str:
        """Why the provider that was asked for does not answer."""
        state = self._engine.index.status().provider
        fails = listing.is_requested and not listing.is_actual and state.failure is not None
        return words.detail_of(state) if fails else ""

    def _draw_keys(self) -> None:
        keys = _KEYS
        if self._is_first_run:
            listing = self.chosen
            keeps = listing is None or listing.name == EMBEDDED_DEFAULT
            keys = _KEEP_KEYS if keeps else _FIRST_KEYS
        note = (f"{words.brief(self._note)}   ", "$state-warn bold") if self._note else ""
        self.query_one("#providers-box").border_subtitle = Content.assemble(note, keys)

    def _tell(self, note: str) -> None:
        self._note = note
        self._draw_keys()

    def _intro(self, width: int) -> list[Content]:
        if not self._is_first_run or width <= 0:
            return []
        found = found_line(worth_asking(self.listings))
        kept = Content.styled(KEPT, fmt.MUTED)
        return [*found.wrap(width), *kept.wrap(width), Content("")]

    def on_resize(self, event: events.Resize) -> None:
        """Give what there is to know of a provider the room that there is."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Let the facts be as high as they are, and scroll where that is too much."""
        scroll = self.query_one("#providers-scroll", VerticalScroll)
        box = self.query_one("#providers-box")
        others = [child for child in box.children if child.display and child is not scroll]
        # Two lines for the border.
        room = self.size.height - 2 - sum(child.outer_size.height for child in others)
        scroll.styles.max_height = max(2, room)

    # --- trying ---------------------------------------------------------------------------------

    def action_try(self) -> None:
        """Ask the chosen provider for the vector of one word: the only way that it is asked."""
        listing = self.chosen
        if listing is not None and not isinstance(self._probes.get(listing.name), str):
            whom = words.place_words(listing.address) if listing.address else listing.name
            self._probes[listing.name] = f"asking {whom}{self._glyphs.ellipsis}"
            self._draw()
            self._try(listing.name)

    def _try(self, name: str) -> None:
        def ask() -> ProbeResult:
            choice, _ = choice_named(self._options.embedding, name)
            return self._engine.providers.probe(choice)

        def tried(result: ProbeResult | None, problem: str) -> None:
            self._probes[name] = result or ProbeResult(name, False, problem)
            self._show_rows(self._list.chosen_id)
            self._draw()

        self._ask(ask, tried)

    # --- going over -----------------------------------------------------------------------------

    def _price(self, listing: ProviderListing) -> None:
        """Look what going over would cost, then ask whether it is worth that."""

        def ask() -> tuple[Chosen, RebuildCost]:
            choice, is_other = choice_named(self._options.embedding, listing.name)
            return Chosen(choice, is_other), self._engine.providers.cost(choice)

        def priced(answer: tuple[Chosen, RebuildCost] | None, problem: str) -> None:
            self._is_busy = False
            self._tell(problem)
            if answer is None:
                return
            chosen, cost = answer
            present = next((each.name for each in self.listings if each.is_actual), "")
            can_write = self._options.files is not None
            self.app.push_screen(
                ConfirmProvider(listing, cost, present, self._glyphs, can_write=can_write),
                partial(self._answered, chosen),
            )

        self._ask(ask, priced)

    def _answered(self, chosen: Chosen, answer: Answer | None) -> None:
        if answer is Answer.SESSION:
            self.dismiss(chosen)
        elif answer is Answer.WRITE:
            # Imported late: most people never write a settings file here.
            from memtui.tui.screens.write import WriteDialog, write_provider

            assert self._options.files is not None
            writing = write_provider(self._options.files, chosen)
            self.app.push_screen(WriteDialog(writing, self._glyphs), self._written)

    def _written(self, chosen: Chosen | None) -> None:
        if chosen is not None:
            self.dismiss(chosen)


MEANWHILE = "The present index answers until the new one is ready."


class Answer(StrEnum):
    """What is done; the value is the id of its row."""

    KEEP = "keep"
    SESSION = "session"
    WRITE = "write"


class ConfirmProvider(BaseScreen[Answer], ModalScreen[Answer]):
    """Asks before the index is built anew with another provider, naming what that costs."""

    CSS_PATH = "providers.tcss"
    BINDING_GROUP_TITLE = "Another provider"
    BINDINGS: ClassVar[list[BindingType]] = bindings("confirm_provider")

    def __init__(
        self,
        listing: ProviderListing,
        cost: RebuildCost,
        present: str,
        glyphs: Glyphs,
        *,
        can_write: bool,
    ) -> None:
        """`present` answers now, empty for none; without `can_write` there are no settings."""
        super().__init__()
        self._listing = listing
        self._cost = cost
        self._present = present
        self._glyphs = glyphs
        self._can_write = can_write

    def compose(self) -> ComposeResult:
        """The price over the three answers."""
        with Vertical(id="confirm-provider-box", classes="provider-box"):
            yield Facts(label_width=8, id="confirm-provider-facts")
            yield RowList(id="confirm-provider-list", marker=self._glyphs.marker)

    def on_mount(self) -> None:
        """Let Enter keep what there is: the harmless answer."""
        box = self.query_one("#confirm-provider-box")
        name = words.brief(self._listing.name)
        box.border_title = Content.assemble("Switch to ", (name, "bold"), "?")
        box.border_subtitle = Content("enter answer  esc keep")
        self.query_one(Facts).show_facts(self.facts())
        rows = self.query_one(RowList)
        rows.set_rows([_row(answer, text, key) for answer, text, key in self._answers()])
        rows.focus()

    def _answers(self) -> list[tuple[Answer, str, str]]:
        kept = words.brief(self._present)
        answers = [
            (Answer.KEEP, f"keep {kept}" if kept else "keep searching by keyword", "esc"),
            (Answer.SESSION, "switch for this session", "s"),
        ]
        if self._can_write:
            answers.append((Answer.WRITE, "switch and write to the settings", "w"))
        return answers

    def facts(self) -> list[Fact]:
        """The price, and where text would go."""
        listing, cost = self._listing, self._cost
        model = words.model_words(cost.model or listing.model, listing.dimensions)
        facts: list[Fact] = [("model", Content(model or "the provider's own"))]
        facts += cost_facts(cost)
        address = cost.address or listing.address
        is_sent = bool(address) or cost.remote or listing.remote
        place = words.place_words(address, remote=is_sent)
        if not is_sent:
            facts.append(("text", Content("stays in this program")))
        elif words.is_on_this_machine(address):
            facts.append(("text", Content(f"is sent to {place}, a program on this machine")))
        else:
            warning = Content.assemble(
                (f"{self._glyphs.degraded} note text is sent to ", "$state-warn"),
                (place, "$state-warn bold"),
            )
            facts.append(("text", warning))
        return [*facts, ("", Content.styled(MEANWHILE, fmt.MUTED))]

    @on(RowList.Chosen)
    def row_chosen(self, message: RowList.Chosen) -> None:
        """Keep the choice in this screen."""
        message.stop()

    @on(RowList.Opened)
    def row_opened(self, message: RowList.Opened) -> None:
        """Answer by the chosen row."""
        message.stop()
        self.dismiss(Answer(message.row_id))

    def action_answer(self, answer: str) -> None:
        """Answer by key."""
        if answer != Answer.WRITE or self._can_write:
            self.dismiss(Answer(answer))

    def on_resize(self, event: events.Resize) -> None:
        """Draw the rows for the new width."""
        self.call_after_refresh(self.query_one(RowList).redraw)


def cost_facts(cost: RebuildCost) -> list[Fact]:
    """What has to be embedded, and what that takes."""
    if not cost.chunks:
        return [("index", Content("nothing is indexed yet"))]
    missing = cost.chunks - cost.cached
    if missing <= 0:
        cached = f"all {fmt.counted(cost.chunks, 'vector')} are in the cache"
        return [("index", Content(cached)), ("cost", Content.styled("nothing", "$state-ok"))]
    chunks = Content.assemble(
        (fmt.counted(missing, "chunk"), "bold"),
        f" of {fmt.count(cost.chunks)} to embed;"
        f" {fmt.percent(cost.cached, cost.chunks)} in the cache",
    )
    return [("index", chunks), ("cost", Content.styled(price_line(cost), "bold"))]


def price_line(cost: RebuildCost) -> str:
    """Tokens and price: `~33 k tokens, about 0.0007 USD`; a local model has no price."""
    tokens = f"~{fmt.rounded(cost.tokens_estimate)} tokens"
    if not cost.remote and not cost.address:
        return f"{tokens} on this machine, nothing is charged"
    return f"{tokens}, {price_words(cost.price, cost.currency)}"


def _row(answer: Answer, text: str, key: str) -> Row:
    def draw(width: int) -> Content:
        room = max(width - len(key) - 1, 1)
        told = Content(text).truncate(room, ellipsis=True, pad=True)
        return fmt.fit(Content.assemble(told, " ", (key, fmt.MUTED)), width)

    return Row(answer.value, draw)
