"""Dialogs: their frame, and the small ones that ask, let choose, or show a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.getters import query_one
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget
from textual.widgets import Input, Static

from memtui.data import read_table
from memtui.engine import Engine
from memtui.engine.ports import RebuildCost, SourceText
from memtui.model import Chunk, Ranking
from memtui.report import status as words
from memtui.settings.openclaw.releases import RELEASE_NAMES, fragment
from memtui.text.sanitize import safe, safe_line
from memtui.tui import fmt, glyphs
from memtui.tui.background import in_background, tell
from memtui.tui.bindings import KeyedAction, bindings, is_typed, key_name, keyed_actions, keys_of
from memtui.tui.screens.common import after_refresh, close
from memtui.tui.side_by_side import HUNK, SideText, diff_contents, two_texts, unified_lines
from memtui.tui.widgets.bars import KeyBar
from memtui.tui.widgets.lists import Fact, LineView, Row, RowList, TextBlock, fact_lines
from memtui.tui.widgets.query_bar import SafeInput

WARN = "$state-warn bold"
_KEYS = 18
_MENU = Content.styled("in the menu", fmt.MUTED)
_TABLES = read_table("keys.toml")
_PANES: Mapping[str | None, Mapping[str, str]] = _TABLES["panes"]

HelpGroup = tuple[str, str, list[KeyedAction]]
"""Title, hint and actions of one pane, of the screen or of the application."""


class Dialog(ModalScreen[ScreenResultType]):
    """A box over the dimmed screen below; `dialogs.tcss` has the styles of every dialog."""

    CSS_PATH = Path(__file__).with_name("dialogs.tcss")

    box = query_one(".dialog-box", Widget)
    """The widget with the frame."""
    rows = query_one(RowList)

    def __init_subclass__(cls, *, keys: str = "", **options: Any) -> None:
        """`keys` is its place in the table of actions."""
        if keys:
            cls.BINDINGS = bindings(keys, "dialog")
        super().__init_subclass__(**options)

    def on_compose(self) -> None:
        self.mount(KeyBar())

    def frame(self, title: str | Content, note: str = "", style: str = WARN) -> None:
        """Write the title of the box and, at its lower edge, a note."""
        self.box.border_title = Content("") + title
        self.box.border_subtitle = Content.styled(safe_line(note), style)
        self.refresh_bindings()

    def on_resize(self) -> None:
        after_refresh(self, self.fit_scroll)

    def fit_scroll(self) -> None:
        """Limit the scrolled part to what the other parts leave."""
        room = self.query_one(KeyBar).region.y
        for scroll in self.query("Vertical.dialog-box > VerticalScroll"):
            room -= self.box.gutter.height + scroll.styles.margin.height
            room -= sum(other.outer_size.height for other in scroll.siblings if other.display)
            scroll.styles.max_height = max(2, room)

    def action_move(self, step: int) -> None:
        """Choose another row; where there are none, scroll the text."""
        for rows in self.query(RowList):
            return rows.action_move(step)
        for scroll in self.query(VerticalScroll):
            scroll.scroll_relative(y=step, animate=False, immediate=True)

    def action_close(self) -> None:
        close(self)

    def on_click(self, event: events.Click) -> None:
        """Go back, as Escape does, by a click beside the box."""
        if event.widget is self:
            self.action_close()

    @on(Input.Submitted)
    def _text_submitted(self) -> None:
        self.open_chosen()

    def open_chosen(self) -> None:
        """Take the chosen row: Enter in a text box does so as well."""
        for rows in self.query(RowList):
            rows.action_open()


class Confirm(Dialog[str], keys="confirm"):
    """Asks a question; its result is the id of the answer."""

    def __init__(
        self, title: str, facts: Sequence[Fact], answers: Mapping[str, tuple[str, str]]
    ) -> None:
        """`answers` are words and keys by id; Enter and Escape give `keep`, the harmless one."""
        super().__init__()
        self._title, self._facts, self._answers = title, facts, answers

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog-box", id="confirm"):
            yield TextBlock(id="confirm-facts")
            yield RowList(id="confirm-answers", opens="answer")

    def on_mount(self) -> None:
        self.frame(Content.styled(safe_line(self._title), "bold"))
        self.query_one(TextBlock).show(partial(fact_lines, self._facts, column=8))

        rows = [
            Row(name, partial(fmt.spread, Content(safe_line(text)), Content.styled(key, fmt.MUTED)))
            for name, (text, key) in self._answers.items()
        ]
        self.rows.set_rows(rows, "keep")
        # What it asks may be known only after the terminal lost the focus.
        self.rows.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "answer" or parameters[0] in self._answers

    def action_answer(self, answer: str) -> None:
        close(self, answer)

    def action_close(self) -> None:
        close(self, "keep")

    @on(RowList.Opened)
    def answer_opened(self, message: RowList.Opened) -> None:
        close(self, message.row_id)


def rebuild_facts(cost: RebuildCost) -> list[Fact]:
    """Return what indexing everything again costs, and where text goes."""
    missing = cost.chunks - cost.cached
    if not cost.chunks:
        facts = [("index", Content("nothing is indexed yet"))]
    elif missing <= 0:
        cached = f"all {fmt.count(cost.chunks, 'vector')} are in the cache"
        facts = [("index", Content(cached)), ("cost", Content.styled("nothing", "$state-ok"))]
    else:
        chunks = Content.assemble(
            (fmt.count(missing, "chunk"), "bold"),
            f" of {fmt.count(cost.chunks)} to embed;"
            f" {fmt.percent(cost.cached, cost.chunks)} in the cache",
        )
        tokens, price = f"~{fmt.rounded(cost.tokens_estimate)} tokens", "nothing is charged"
        if cost.remote or cost.address:
            price = words.price_words(cost.price, cost.currency)
        else:
            tokens += " on this machine"
        facts = [("index", chunks), ("cost", Content.styled(f"{tokens}, {price}", "bold"))]
    facts.append(("text", sent_text(cost.address, "note text", remote=cost.remote)))
    if cost.withheld:
        withheld = words.withheld_words(cost.withheld)
        facts.append(("not sent", Content.styled(withheld, "$state-warn")))
    meanwhile = "The present index answers until the new one is ready."
    return [*facts, ("", Content.styled(meanwhile, fmt.MUTED))]


def sent_text(address: str, subject: str, *, remote: bool) -> Content:
    """Return where text goes; a warning names the `subject` that leaves this machine."""
    if not address and not remote:
        return Content(f"stays on {words.HERE}")
    place = (words.place_words(address, remote=True), "bold")
    if not remote:
        return Content.assemble("is sent to ", place, ", a program on this machine")
    warning = f"{glyphs.DEGRADED} {subject} is sent to "
    return Content.assemble(warning, place).stylize_before("$state-warn")


def ask_to_rebuild(screen: Screen[Any], engine: Engine, begun: Callable[[], object]) -> None:
    """Ask before indexing everything again, with the price; `begun` is called once it runs."""

    def confirmed(answer: str | None) -> None:
        if answer == "rebuild":
            engine.index.sync(rebuild=True)
            begun()

    def ask(cost: RebuildCost) -> None:
        status = engine.index.status()
        name = status.provider.actual or status.provider.requested
        files, chunks = fmt.count(cost.files, "file"), fmt.count(status.chunks, "chunk")
        facts = [
            ("read", Content.assemble(f"{files}, and write ", (chunks, "bold"), " again")),
            ("vectors", Content(f"by {words.brief(name)}")),
            *rebuild_facts(cost),
        ]
        answers = {"rebuild": ("rebuild the index", "R"), "keep": ("keep it as it is", "esc")}
        screen.app.push_screen(Confirm("Rebuild the index?", facts, answers), confirmed)

    in_background(screen, engine.providers.cost, ask, "price the rebuild", group="price")


class FirstRunHint(Dialog[None]):
    """The first steps, with keys that work while a query is typed; shown once."""

    CLOSING_KEYS: ClassVar = frozenset({"escape", "enter"})
    """Any key closes it first; one not among these then goes to the screen below."""

    def compose(self) -> ComposeResult:
        lines = [Content(" Type a question: results follow as you type."), Content("")]
        for action, text in _TABLES["first"].items():
            key = next((key for key in keys_of(self, action) if not is_typed(key)), "")
            lines.append(Content.assemble((f" {key_name(key):<7}", "bold $accent"), text))
        with Vertical(classes="dialog-box", id="first-run"):
            yield Static(Content("\n").join(lines), markup=False)

    def on_mount(self) -> None:
        self.frame("To begin with", "press any key to start", fmt.MUTED)

    def on_click(self, event: events.Click) -> None:
        close(self)


class DetailScreen(Dialog[None], keys="detail"):
    """A text in full, as one row of a list stands for it."""

    def __init__(self, title: str, lines: Sequence[Content]) -> None:
        super().__init__()
        self._title, self._text = title, Content("\n").join(lines)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog-box", id="detail"):
            yield Static(self._text, markup=False)

    def on_mount(self) -> None:
        self.frame(safe_line(self._title))


class SideScreen(Dialog[None], keys="side"):
    """The text of a chunk, and beside it that of another one."""

    def __init__(self, first: Chunk, second: Chunk) -> None:
        super().__init__()
        self._chunks = first, second

    def compose(self) -> ComposeResult:
        yield LineView(classes="dialog-box", id="side")

    def on_mount(self) -> None:
        only = ("- only left", "$state-error"), "  ", ("+ only right", "$state-ok")
        self.frame(Content.assemble("Side by side  ", *only, "  ~ words differ"))
        left, right = (SideText(one.citation, one.start_line, one.text) for one in self._chunks)
        self.query_one(LineView).lay_out(lambda width: two_texts(left, right, width))


class DifferenceScreen(Dialog[None], keys="difference"):
    """The indexed text of a note against the file as it is now, as a unified diff."""

    view = query_one(LineView)

    def __init__(self, source: SourceText) -> None:
        super().__init__()
        self._source = source
        self.hunks: list[int] = []
        """The lines that begin a hunk."""

    def compose(self) -> ComposeResult:
        yield LineView(classes="dialog-box", id="difference")

    def on_mount(self) -> None:
        self._show("", [Content.styled("comparing…", fmt.MUTED)])
        source = self._source
        compare = partial(unified_lines, source.lines, source.on_disk or ())
        in_background(self, compare, self._compared, "compare the two versions")

    def _show(self, counts: str, lines: Sequence[Content]) -> None:
        sides = ("- indexed", "$state-error"), "  ", ("+ on disk", "$state-ok")
        title = Content.assemble(*sides, f"  {safe_line(self._source.path)}")
        self.frame(title, counts, fmt.MUTED)

        def draw(width: int) -> list[Content]:
            drawn: list[Content] = []
            self.hunks.clear()
            for line in lines:
                if line.plain.startswith(HUNK):
                    self.hunks.append(len(drawn))
                drawn += fmt.hanging(line, width, 2)
            return drawn

        self.view.lay_out(draw)

    def _compared(self, lines: Sequence[str]) -> None:
        marks = [line[0] for line in lines]
        same = Content.styled("The text is the same: only the file's time changed.", fmt.MUTED)
        counts = f"-{marks.count('-')} +{marks.count('+')} lines"
        changes = fmt.count(marks.count(HUNK), "change")
        self._show(f"{changes}, {counts}", diff_contents(lines) or [same])

    def action_hunk(self, step: int) -> None:
        """Put the next or the previous change at the top; the last ones only into view."""
        top = self.view.scroll_target_y
        beyond = [at for at in self.hunks if (at > top if step > 0 else at < top)]
        if beyond:
            self.view.scroll_to_line(beyond[0 if step > 0 else -1])
        if self.view.scroll_target_y == top:
            tell(self, f"No change {'below' if step > 0 else 'above'} what is shown.")


class ConfigurationScreen(Dialog[None], keys="configuration"):
    """JSON5 to merge into openclaw.json, and what that release cannot say.

    To begin with, for the release of the first of `profiles` that is one of OpenClaw's, else for
    the newest one.
    """

    def __init__(self, ranking: Ranking, profiles: Sequence[str]) -> None:
        super().__init__()
        self._ranking, self.text = ranking, ""
        releases = [name.removeprefix("openclaw-") for name in profiles]
        self.release = next((one for one in releases if one in RELEASE_NAMES), RELEASE_NAMES[-1])

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog-box", id="configuration"):
            yield Static(id="configuration-text", markup=False)
            yield Static(id="configuration-cannot", markup=False)

    def on_mount(self) -> None:
        self._show()

    def _show(self, copied: str = "") -> None:
        made = fragment(self._ranking, self.release)
        self.text = safe(made.text)
        title = Content.assemble("For OpenClaw ", (self.release, "bold"))
        self.frame(title, copied, "$state-ok bold")
        self.query_one("#configuration-text", Static).update(Content(self.text.rstrip("\n")))
        cannot = Content.styled("This release takes every parameter.", "$state-ok")
        if made.cannot:
            head = Content.styled("This release cannot take:", "$state-warn bold")
            lines = (Content.assemble(("! ", "$state-warn"), safe_line(one)) for one in made.cannot)
            cannot = Content("\n").join([head, *lines])
        self.query_one("#configuration-cannot", Static).update(cannot)

    def action_copy(self) -> None:
        self._show("copied")
        self.app.copy_to_clipboard(self.text)

    def action_release(self, step: int) -> None:
        place = RELEASE_NAMES.index(self.release) + step
        if 0 <= place < len(RELEASE_NAMES):
            self.release = RELEASE_NAMES[place]
            self._show()


def help_groups(screen: Screen[object], focused: Widget | None) -> list[HelpGroup]:
    """Return the actions by the place that does them: the focused pane, the screen, the app.

    Those of the library, which edit a line of text, are left out.
    """
    own: dict[DOMNode, list[KeyedAction]] = {focused: []} if focused is not None else {}
    for keyed in keyed_actions(screen):
        # Textual's own bindings have no id.
        if keyed.binding.id:
            own.setdefault(keyed.node, []).append(keyed)
    groups: list[HelpGroup] = []
    for node, lines in own.items():
        kind, title, hint, then = type(node).__name__, *_PANES["App"].values(), ""
        if isinstance(node, Screen):
            title = _TABLES["screens"].get(kind, "This screen")
            hint = _PANES.get(kind, {}).get("hint", "")
            if any(line.typed for line in lines):
                hint = "Grey keys are typed into the box: leave it with esc to use them."
        elif not isinstance(node, App):
            pane = _PANES.get(node.id) or _PANES.get(kind, {})
            title = pane.get("title", "This pane" if node is focused else "Around it")
            hint, then = (pane.get(one, "") if node is focused else "" for one in ("hint", "then"))
        groups.append((title, hint, lines))
        groups += [(one["title"], one["hint"], []) for one in filter(None, [_PANES.get(then)])]
    return groups


class HelpScreen(Dialog[None], keys="help"):
    """The signs and keys of the focused pane, then the keys of the screen and the application."""

    def compose(self) -> ComposeResult:
        # Before there is a filter, with which the help is not offered again.
        below = self.app.screen_stack[-2]
        self.groups = help_groups(below, below.focused)
        with Vertical(classes="dialog-box", id="help"):
            yield SafeInput(placeholder="search the help", id="help-filter", compact=True)
            with VerticalScroll(id="help-scroll", can_focus=False):
                yield TextBlock(id="help-text")

    def on_mount(self) -> None:
        self.frame("Help")
        self._fill()

    @on(Input.Changed)
    def _fill(self) -> None:
        """Draw the groups, only the lines that hold every typed word."""
        typed = self.query_one(Input).value.split()
        # `/` begins a filter elsewhere; alone it is the key.
        words = " ".join(word.removeprefix("/") or word for word in typed)
        lines: list[tuple[int, Content]] = []
        for title, hint, actions in self.groups:
            rows: list[tuple[int, Content]] = []
            for text in glyphs.spell_arrows(hint).splitlines():
                sign, bar, about = text.rpartition(" | ")
                sign = f"  {sign:<{_KEYS - 2}}  " if bar else ""
                rows.append((len(sign), Content.assemble(sign, (about, fmt.MUTED))))
            for line in actions:
                binding = line.binding
                styles: dict[str, str] = {}
                for key in line.keys:
                    styles.setdefault(key_name(key), fmt.MUTED if key in line.typed else "bold")
                keys = Content(" ").join(Content.styled(*one) for one in styles.items()) or _MENU
                aside = f"  {binding.tooltip}" if binding.tooltip else ""
                drawn = Content.assemble(
                    "  ",
                    keys,
                    " " * max(1, _KEYS - keys.cell_length),
                    (binding.description, "" if line.enabled else fmt.MUTED),
                    (aside if line.enabled else f"{aside}  (not now)", fmt.MUTED),
                )
                rows.append((_KEYS + 2, drawn))
            rows = [row for row in rows if fmt.holds_words(row[1].plain, words)]
            if rows:
                lines += [(0, Content.styled(title, "bold $accent")), *rows, (0, Content(""))]
        lines = lines or [(0, Content.styled("nothing here says that", fmt.MUTED))]
        self.query_one(TextBlock).show(
            lambda width: [part for at, line in lines for part in fmt.hanging(line, width, at)]
        )
        self.query_one(VerticalScroll).scroll_home(animate=False)
