"""The embedding providers: which can work, where each sends text, and going over to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content

from memtui.embedding.registry import AUTO_REMOTE, EMBEDDED_DEFAULT, choice_for, requested_name
from memtui.engine import Engine
from memtui.engine.ports import RebuildCost
from memtui.model import Failure, ProbeResult, ProviderListing
from memtui.report import status as words
from memtui.report.words import WORDS, duration, ending
from memtui.settings.schema import EmbeddingSettings
from memtui.settings.write import plan_provider
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background
from memtui.tui.options import UiOptions
from memtui.tui.present import error_line
from memtui.tui.screens.common import close
from memtui.tui.screens.dialogs import Confirm, Dialog, rebuild_facts, sent_text
from memtui.tui.screens.write_dialog import Where, WriteDialog, Written
from memtui.tui.widgets.index_status import place_style
from memtui.tui.widgets.lists import Fact, Row, RowList, TextBlock, fact_lines
from memtui.tui.widgets.result_rows import message

TITLE = "Embedding provider"
FIRST_TITLE = "Who makes the vectors?"
_KEEP = "keep minilm"
_HEADS = ("", "provider", "state", "model", "  dims", "text goes to")
_LABEL = 9
_ROOMY = 94
"""From so many cells of a row on there is room for dimensions and for any host."""
_MISSING = frozenset({Failure.NOT_INSTALLED, Failure.NO_FILE, Failure.NO_KEY})
"""Failures that are no fault: something is just not there."""


Chosen = tuple[EmbeddingSettings, Written | None]
"""A provider that was chosen, and where it was written; `None`: it is for this session."""


def worth_asking(listings: Sequence[ProviderListing]) -> tuple[ProviderListing, ...]:
    """Return the services whose key, and the model file, that were found beside `minilm`.

    A package that is only installed is no reason to ask. Empty when the settings lead to another
    provider, too.
    """
    if not any(each.name == EMBEDDED_DEFAULT and each.is_requested for each in listings):
        return ()
    return tuple(each for each in listings if each.works and each.name in ("gguf", *AUTO_REMOTE))


class ProvidersScreen(Dialog[Chosen | None], keys="providers"):
    """Every provider with its state. Returns the one to go over to; `None` keeps the present one.

    In a first run it is a question, and keeping the embedded model the answer that is chosen to
    begin with.
    """

    def __init__(
        self, engine: Engine, options: UiOptions, choose: str = "", *, is_first_run: bool = False
    ) -> None:
        """`choose` is the name of a provider."""
        super().__init__()
        self._engine = engine
        self._options = options
        self._choose = choose
        self._is_first_run = is_first_run
        self.listings: Sequence[ProviderListing] = ()
        self._message = Content("")
        """Stands where there are none."""
        self._probes: dict[str, ProbeResult] = {}
        self._trying: set[str] = set()
        """The providers that are asked for the vector of a word."""
        self._is_busy = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box", id="providers"):
            yield TextBlock(id="providers-intro")
            yield TextBlock(id="providers-columns")
            yield RowList(id="providers-list")
            with VerticalScroll(id="providers-scroll", can_focus=False):
                yield TextBlock(id="providers-facts")

    def on_mount(self) -> None:
        heads = [(name, fmt.MUTED) for name in _HEADS]
        # Above the rows, whose marker has two cells.
        self.query_one("#providers-columns", TextBlock).show(
            lambda width: [table_line(heads, width - 2).pad_left(2)]
        )
        self._message = Content.styled("looking at the providers…", fmt.MUTED)
        self.rows.focus()
        self._show()

        def failed(error: str) -> None:
            self._message = error_line(words.brief(error))
            self._show()

        in_background(self, self._engine.providers.available, self._take, failed)

    @property
    def chosen(self) -> ProviderListing | None:
        name = self.rows.chosen_id
        return next((each for each in self.listings if each.name == name), None)

    def _take(self, listings: Sequence[ProviderListing]) -> None:
        self.listings = listings
        first = EMBEDDED_DEFAULT if self._is_first_run else self._choose
        self._show_rows(first or next((each.name for each in listings if each.is_actual), None))
        if self._is_first_run:
            names = [words.brief(each.name) for each in worth_asking(listings)]
            last = f" and {names.pop()}" if len(names) > 1 else ""
            intro = message("found_providers", names=", ".join(names) + last)
            self.query_one("#providers-intro", TextBlock).show(intro.wrap)

    def show_provider(self, name: str) -> None:
        """Go to the row of a provider; without such a row it stays where it is."""
        self._choose = name
        self.rows.choose(name)

    def _show_rows(self, keep: str | None) -> None:
        rows = [
            Row(each.name, partial(provider_line, each, self._probes.get(each.name)))
            for each in self.listings
        ]
        self.rows.set_rows(rows, keep)
        self._show()

    def _show(self, note: str = "") -> None:
        listing, facts = self.chosen, [("", self._message)]
        if listing is not None:
            # Why the provider that was asked for does not answer.
            state = self._engine.index.status().provider
            fails = listing.is_requested and not listing.is_actual and state.failure is not None
            cause = words.brief(state.cause) if fails else ""
            facts = provider_facts(listing, self._probes.get(listing.name), cause)
            if not note and listing.name in self._trying:
                note = f"asking {listing.address or listing.name}…"
        block = self.query_one("#providers-facts", TextBlock)
        block.show(partial(fact_lines, facts, column=_LABEL))
        self.query_one(VerticalScroll).scroll_home(animate=False)
        keeps = self._is_first_run and (listing is None or listing.name == EMBEDDED_DEFAULT)
        is_in_use = listing is not None and listing.is_actual and listing.is_requested
        can_switch = listing is not None and listing.works and not is_in_use
        self.rows.opens = _KEEP if keeps else "switch…" if can_switch else ""
        self.frame(FIRST_TITLE if self._is_first_run else TITLE, words.brief(note))
        self.on_resize()

    def worded(self, binding: Binding) -> Binding:
        is_answer = self._is_first_run and binding.action == "close"
        return replace(binding, description=_KEEP) if is_answer else binding

    @on(RowList.Chosen)
    def _row_chosen(self) -> None:
        self._show()

    def action_try(self) -> None:
        """Ask the chosen provider for the vector of one word: the only way that it is asked."""
        listing = self.chosen
        if listing is None or listing.name in self._trying:
            return
        choice = choice_for(self._options.settings.embedding, listing.name)
        self._trying.add(listing.name)
        self._show()

        def tried(result: ProbeResult) -> None:
            self._trying.remove(listing.name)
            self._probes[listing.name] = result
            self._show_rows(self.rows.chosen_id)

        in_background(
            self,
            partial(self._engine.providers.probe, choice),
            tried,
            lambda error: tried(ProbeResult(listing.name, False, error)),
        )

    @on(RowList.Opened)
    def _row_opened(self) -> None:
        """Go over to the provider, after its price is known and agreed to."""
        listing = self.chosen
        if listing is None or self._is_busy:
            return
        if self._is_first_run and listing.name == EMBEDDED_DEFAULT:
            close(self)
        elif listing.is_actual and listing.is_requested:
            self._show(f"{listing.name} is in use already")
        elif not listing.works:
            self._show(f"{listing.name} cannot be used yet: see what is missing")
        else:
            self._is_busy = True
            self._show(f"what {listing.name} would cost…")
            choice = choice_for(self._options.settings.embedding, listing.name)

            def priced(cost: RebuildCost | None, error: str = "") -> None:
                self._is_busy = False
                self._show(error)
                if cost is not None:
                    self._confirm(listing, choice, cost)

            price, failed = partial(self._engine.providers.cost, choice), partial(priced, None)
            in_background(self, price, priced, failed)

    def _confirm(
        self, listing: ProviderListing, choice: EmbeddingSettings, cost: RebuildCost
    ) -> None:
        """Ask before the index is built anew with another provider, naming what that costs."""
        files, configured = self._options.files, self._options.settings.embedding
        present = words.brief(next((each.name for each in self.listings if each.is_actual), ""))
        answers = {
            "keep": (f"keep {present}" if present else "keep searching by keyword", "esc"),
            "session": ("apply for this session", "a"),
        }
        if files is not None:
            answers["write"] = ("apply and write to the settings", "w")
        model = words.model_words(cost.model or listing.model, listing.dimensions)
        when = "other" if self._engine.index.status().has_other_writer else "now"
        when += "_back" * (listing.name == requested_name(configured))
        facts = [
            ("model", Content(model or "the provider's own")),
            *rebuild_facts(cost),
            ("on disk", Content(WORDS["rebuilt"][when])),
        ]

        def answered(answer: str | None) -> None:
            if answer == "session":
                close(self, (choice, None))
            elif answer == "write" and files is not None:
                is_other = requested_name(configured) != listing.name
                plan = partial(plan_provider, files, choice.provider, is_other=is_other)
                plans = {Where.USER: lambda name: plan()}
                note = "No key is ever written."
                dialog = WriteDialog("Write the provider", files, plans, note=note)
                self.app.push_screen(dialog, written)

        def written(result: Written | None) -> None:
            if result is not None:
                # The settings may say more about the provider: that counts from now on, too.
                saved = result.settings.embedding
                close(self, (saved if saved.provider == choice.provider else choice, result))

        title = f"Switch to {words.brief(listing.name)}?"
        self.app.push_screen(Confirm(title, facts, answers), answered)


def listing_state(
    listing: ProviderListing, probe: ProbeResult | None = None
) -> tuple[str, str, str]:
    """Return glyph, words and style of how a provider stands; `probe` is the result of a try."""
    state = words.listing_words(listing)
    if probe is not None and not listing.is_actual:
        if probe.works:
            return glyphs.PASSED, "answers", "$state-ok"
        failed = WORDS["failure"][probe.failure] if probe.failure is not None else "failed"
        return glyphs.ERROR, failed, "$state-error"
    if listing.is_actual and (listing.is_requested or not listing.is_fallback):
        return glyphs.READY, "in use", "$state-ok"
    if listing.is_actual:
        return glyphs.DEGRADED, "fallback", "$state-warn"
    if listing.failure is not None and listing.failure not in _MISSING:
        return glyphs.ERROR, state, "$state-error"
    if listing.works and listing.is_requested:
        return glyphs.DEGRADED, "asked for", "$state-warn"
    if listing.works:
        return ("?", state, "") if state == "untried" else (glyphs.PASSED, state, "$state-ok")
    return glyphs.NO_INDEX, state, fmt.MUTED


def table_line(cells: Sequence[tuple[str, str]], width: int) -> Content:
    """Draw glyph, name, state, model, dimensions and place, each with its style, in columns.

    The model has what room the others leave; the dimensions have theirs in a wide table.
    """
    dimensions, place = (6, 34) if width >= _ROOMY else (0, 17)
    columns = [1, 16, 13, 0, dimensions, place]
    columns[3] = max(width - sum(columns) - (5 if dimensions else 4), 4)
    *others, (place_name, style) = cells
    line = Content(" ").join(
        Content.styled(text, style).truncate(room, ellipsis=True, pad=True)
        for (text, style), room in (
            *zip(others, columns[:-1], strict=True),
            ((ending(place_name, place, "…"), style), place),
        )
        if room
    )
    return fmt.fit(line.rstrip(), width)


def provider_line(listing: ProviderListing, probe: ProbeResult | None, width: int) -> Content:
    """Draw one line: state, name, model, where text goes."""
    glyph, state, style = listing_state(listing, probe)
    is_there = listing.works or listing.is_actual or listing.is_requested
    place = place_style(listing.address, remote=listing.remote)
    cells = (
        (glyph, style),
        (words.brief(listing.name), "bold" if is_there else fmt.MUTED),
        (state, style),
        (words.brief(listing.model or fmt.NOTHING), "" if is_there else fmt.MUTED),
        (f"{listing.dimensions:>4} d" if listing.dimensions else "", fmt.MUTED),
        (
            words.place_words(listing.address, remote=listing.remote),
            place if is_there else fmt.MUTED,
        ),
    )
    return table_line(cells, width)


def provider_facts(
    listing: ProviderListing, probe: ProbeResult | None, failed: str = ""
) -> list[Fact]:
    """Return what there is to know of a provider; `failed` is why another answers instead."""
    model = words.model_words(listing.model, listing.dimensions)
    about = Content.assemble(
        (words.brief(listing.name), "bold"),
        f"  {words.brief(listing.summary)}" if listing.summary else "",
        (f"  {model}" if model else "", fmt.MUTED),
    )
    whose = "the text of your notes and queries"
    text = sent_text(listing.address, whose, remote=listing.remote)
    label, detail = "missing", words.brief(listing.detail) or "not known"
    glyph, _, style = listing_state(listing)
    if listing.works:
        label, detail = "found", words.brief(listing.detail) or "everything it needs"
        glyph, style = glyphs.PASSED, "$state-ok"
    facts = [("about", about), ("text", text)]
    if probe is None or probe.works or not listing.works:
        facts.append((label, Content.assemble((f"{glyph} ", style), detail)))
    if failed:
        facts.append(("failed", error_line(failed)))
    if listing.hint and not listing.works:
        facts.append(("next", Content.styled(words.brief(listing.hint), "bold")))
    if probe is None and listing.works:
        asks = words.place_words(listing.address, remote=listing.remote)
        does = "load the model" if asks == words.HERE else f"send one test word to {asks}"
        facts.append(("check", Content.assemble(("r", "$primary bold"), (f" {does}", fmt.MUTED))))
    elif probe is not None and probe.works:
        model = words.model_words(probe.model, probe.dimensions)
        # A word may be looked up in less than the shortest time that is written as a number.
        took = duration(max(1.0, probe.milliseconds or 0.0) / 1e3)
        answer = f"answers in {took}  {model}".rstrip()
        facts.append(("tried", Content.styled(f"{glyphs.PASSED} {answer}", "$state-ok")))
    elif probe is not None:
        detail, hint = words.brief(probe.detail), words.brief(probe.hint)
        # The hint may end the detail already.
        aside = f"  {hint}" if hint and hint not in detail else ""
        facts.append(("tried", error_line(detail) + aside))
    return facts
