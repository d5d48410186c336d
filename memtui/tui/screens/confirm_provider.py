"""What going over to another embedding provider costs, and whether it is done."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from memtui.model.status import ProviderListing
from memtui.report.providers import price_words
from memtui.tui import format as fmt
from memtui.tui import provider_words as words
from memtui.tui.bindings import bindings
from memtui.tui.glyphs import Glyphs
from memtui.tui.screens.base import Modal
from memtui.tui.widgets.facts import Fact, Facts
from memtui.tui.widgets.row_list import Row, RowList

if TYPE_CHECKING:
    from memtui.engine.source import RebuildCost

MEANWHILE = "The present index answers until the new one is ready."
_LABEL = 8


class Answer(StrEnum):
    """What is done; the value is the id of its row."""

    KEEP = "keep"
    SESSION = "session"
    WRITE = "write"


class ConfirmProvider(Modal[Answer]):
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
            yield Facts(label_width=_LABEL, id="confirm-provider-facts")
            yield RowList(id="confirm-provider-list", marker=self._glyphs.marker)

    def on_mount(self) -> None:
        """Let Enter keep what there is: the harmless answer."""
        box = self.query_one("#confirm-provider-box")
        name = words.brief(self._listing.name)
        box.border_title = Content.assemble("Switch to ", (name, "bold"), "?")
        box.border_subtitle = Content("enter answer  esc keep")
        self.query_one(Facts).show(self.facts())
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
