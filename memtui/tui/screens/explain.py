"""The explain screen: the whole arithmetic of one result or near miss."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from memtui.model import Drop, Hit, Leg, LegStatus, Ranked, Stage
from memtui.ranking.trace import Explanation, explain, stage_score
from memtui.text.sanitize import safe, safe_line
from memtui.tui import format as fmt
from memtui.tui.arithmetic import (
    LEGS,
    axis,
    date_note,
    decay_curve,
    mmr_penalty,
    steps_of,
)
from memtui.tui.glyphs import UNICODE, Glyphs
from memtui.tui.verdicts import counterfactuals, place, verdict
from memtui.tui.widgets.facts import Fact, Facts, fact_lines
from memtui.tui.widgets.waterfall import Waterfall, waterfall_lines

COPY_WIDTH = 96
_LABEL = 13
_EXCERPT_LINES = 12
_SHARED_WORDS = 14
_SENT = (
    ("MATCH sent", "match"),
    ("substrings", "substrings"),
    ("boosted by", "keywords"),
    ("stop words", "stop_words"),
    ("pruned", "pruned"),
    ("tokenizer", "tokenizer"),
)
"""What the keyword leg tells about a query, with its label."""


class ExplainScreen(ModalScreen[str]):
    """Explains one chunk of a result list; its result is the chunk that was looked at last."""

    CSS_PATH = "explain.tcss"
    BINDING_GROUP_TITLE = "Explain"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,n", "step(1)", "next result", id="explain.next"),
        Binding("k,p", "step(-1)", "previous result", id="explain.previous"),
        Binding("y", "copy", "copy as text", id="explain.copy"),
        Binding("ctrl+s", "app.save_svg", "screenshot", id="explain.screenshot"),
        Binding("escape,x,q,f4", "close", "back", id="explain.close"),
    ]

    def __init__(self, ranked: Ranked, chunk_id: str, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__()
        self.ranked = ranked
        self.glyphs = glyphs
        self._ids = [hit.chunk.id for hit in ranked.hits]
        self._ids += [drop.chunk.id for drop in ranked.drops]
        self._place = self._ids.index(chunk_id)

    @property
    def chunk_id(self) -> str:
        """The chunk that is explained."""
        return self._ids[self._place]

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="explain-box"):
            yield Static(id="explain-verdict", markup=False)
            yield Waterfall(glyphs=self.glyphs, id="explain-waterfall")
            yield Facts(label_width=_LABEL, id="explain-facts")
            yield Static(id="explain-text", markup=False)

    def on_mount(self) -> None:
        """Show the first explanation."""
        box = self.query_one("#explain-box", VerticalScroll)
        box.border_subtitle = Content("j/k other results  y copy  ^s svg  esc back")
        box.focus()
        self._show()

    def action_step(self, steps: int) -> None:
        """Go to the next or the previous chunk, near misses after the results."""
        place = min(max(self._place + steps, 0), len(self._ids) - 1)
        if place != self._place:
            self._place = place
            self._show()

    def action_copy(self) -> None:
        """Copy the explanation as plain text."""
        self.app.copy_to_clipboard(explanation_text(self.ranked, self.chunk_id, self.glyphs))
        self.notify("Explanation copied as text.", markup=False)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss(self.chunk_id)

    def _show(self) -> None:
        explanation = explain(self.ranked, self.chunk_id)
        scored = explanation.scored
        box = self.query_one("#explain-box", VerticalScroll)
        box.border_title = title(self.ranked, scored)
        self.query_one("#explain-verdict", Static).update(verdict_line(self.ranked, explanation))
        steps = steps_of(self.ranked, scored)
        self.query_one(Waterfall).show(steps, axis(self.ranked))
        self.query_one(Facts).show(facts_of(self.ranked, explanation))
        self.query_one("#explain-text", Static).update(excerpt(scored))
        box.scroll_home(animate=False)


def title(ranked: Ranked, scored: Hit | Drop) -> Content:
    """The chunk's place, and its rank or that it is not shown."""
    where = f"{scored.rank} of {len(ranked.hits)}" if isinstance(scored, Hit) else "not shown"
    return Content.assemble("Explain  ", (place(scored.chunk), "bold"), f"  {where}")


def verdict_line(ranked: Ranked, explanation: Explanation) -> Content:
    """The verdict in one or two sentences."""
    scored = explanation.scored
    shown = isinstance(scored, Hit)
    others = counterfactuals(explanation.without, explanation.rank)
    return Content.assemble(
        (verdict(ranked, scored) + ".", f"bold ${'state-ok' if shown else 'state-warn'}"),
        f"  {others}" if others else "",
    )


def facts_of(ranked: Ranked, explanation: Explanation) -> list[Fact]:
    """Everything about a chunk that is not a bar."""
    scored = explanation.scored
    facts: list[Fact] = [("query", Content(safe_line(ranked.pool.query)))]
    facts += _rank_facts(explanation)
    facts += _formula_facts(scored)
    if explanation.similar is not None:
        similar = explanation.similar
        ordered = sorted(similar.shared, key=lambda word: (word[:1].isdigit(), word))
        words = [safe_line(word) for word in ordered[:_SHARED_WORDS]]
        more = len(similar.shared) - len(words)
        tail = f" and {fmt.count(more)} more" if more > 0 else ""
        facts.append(
            (
                "most similar",
                Content(f"{safe_line(similar.citation)}  {fmt.number(similar.similarity)} Jaccard"),
            )
        )
        facts.append(("", Content.styled(f"shared: {', '.join(words)}{tail}", fmt.MUTED)))
    facts += _keyword_facts(ranked, scored)
    facts += [_leg_fact(ranked, leg) for leg in LEGS]
    return facts


def _rank_facts(explanation: Explanation) -> list[Fact]:
    """The rank in each leg, then after every stage that can move a chunk."""
    shown = isinstance(explanation.scored, Hit)
    stages = [pair for pair in explanation.ranks if not (shown and pair[0] is Stage.CUT)]
    legs = Content("  ").join(_rank(leg, rank) for leg, rank in explanation.leg_ranks.items())
    after = [_rank(fmt.STAGE_WORDS[stage], rank) for stage, rank in stages]
    path = Content.styled("  →  ", fmt.MUTED).join([*([legs] if legs else []), *after])
    spark = fmt.sparkline([rank for _, rank in stages])
    if spark:
        path = Content.assemble(path, "   ", (spark, "$accent"))
    return [("ranks", path)] if path else []


def _rank(word: str, rank: int) -> Content:
    return Content.assemble(f"{word} ", (fmt.rank(rank), "bold"))


def _formula_facts(scored: Hit | Drop) -> list[Fact]:
    facts: list[Fact] = []
    decay = stage_score(scored, Stage.DECAY)
    if decay is not None:
        facts.append(("date", Content(safe_line(date_note(decay)))))
        if decay.numbers.get("age_days") is not None:
            factor = fmt.score(decay.operand if decay.operand is not None else 1.0)
            facts.append(("decay", Content(f"{factor} = {decay_curve(decay)}")))
    mmr = stage_score(scored, Stage.MMR)
    if mmr is not None and mmr.numbers.get("similar_to") is not None and mmr.operand is not None:
        facts.append(("mmr", Content(f"{fmt.score(mmr.operand)} = {mmr_penalty(mmr)}")))
    return facts


def _keyword_facts(ranked: Ranked, scored: Hit | Drop) -> list[Fact]:
    facts: list[Fact] = []
    part = scored.legs.get(Leg.KEYWORD)
    if part is not None and part.terms:
        facts.append(("words found", Content(safe_line(", ".join(part.terms)))))
    state = ranked.pool.states.get(Leg.KEYWORD)
    for label, key in _SENT:
        value = state.facts.get(key) if state is not None else None
        if value:
            facts.append((label, Content(safe_line(str(value)))))
    return facts


def _leg_fact(ranked: Ranked, leg: Leg) -> Fact:
    label = f"{leg.value} leg"
    state = ranked.pool.states.get(leg)
    if state is None:
        return label, Content.styled("not asked", fmt.MUTED)
    parts = [f"{fmt.LEG_STATUS_GLYPHS[state.status]} {state.status.value}"]
    if state.status is not LegStatus.OK:
        parts.append(fmt.leg_reason(state))
    if state.detail and safe_line(state.detail) not in parts:
        parts.append(safe_line(state.detail))
    parts.append(fmt.counted(len(ranked.pool.hits.get(leg, ())), "hit"))
    if state.status is LegStatus.OK:
        parts.append(fmt.duration(state.elapsed_ms / 1000))
    parts += [
        safe_line(str(state.facts[name]))
        for name in ("backend", "provider", "model", "query_vector_from")
        if state.facts.get(name)
    ]
    head, *rest = parts
    return label, Content.assemble(
        (head, fmt.LEG_STATUS_STYLES[state.status]), *(f"  {part}" for part in rest)
    )


def excerpt(scored: Hit | Drop) -> Content:
    """The first lines of the chunk as the index holds it."""
    lines = scored.chunk.text.split("\n", _EXCERPT_LINES)
    shown = [safe(line[:400]) for line in lines[:_EXCERPT_LINES]]
    if len(lines) > _EXCERPT_LINES:
        shown.append("…")
    return Content("\n".join(shown))


def explanation_text(ranked: Ranked, chunk_id: str, glyphs: Glyphs = UNICODE) -> str:
    """The explanation as plain text, for a message or a bug report."""
    explanation = explain(ranked, chunk_id)
    scored = explanation.scored
    steps = steps_of(ranked, scored)
    lines = [title(ranked, scored), verdict_line(ranked, explanation), Content("")]
    lines += waterfall_lines(steps, axis(ranked), COPY_WIDTH, glyphs)
    lines.append(Content(""))
    lines += fact_lines(facts_of(ranked, explanation), COPY_WIDTH, _LABEL)
    return "\n".join(line.plain.rstrip() for line in lines) + "\n"
