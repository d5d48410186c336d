"""The report of one place of one search: what became of it, its numbers, and what would change it.

`memtui explain`, its exports and the explain screen show the sections that are made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memtui.model import Chunk, Drop, Fusion, Hit, Leg, LegStatus, Ranked, Ranking, Reason, Stage
from memtui.model.inquiry import (
    FoundBy,
    Inquiry,
    KeywordExplanation,
    LegPlace,
    Outcome,
    Passages,
    Place,
    Station,
    TraceStep,
    WordChange,
    WordChanges,
)
from memtui.ranking.counterfactual.change import Change, Counterfactuals, Parameter, apply
from memtui.ranking.trace import Explanation, explain, stage_score
from memtui.report import words
from memtui.report.arithmetic import (
    LEGS,
    ScoreStep,
    arithmetic_section,
    place,
    place_of,
    score_steps,
)
from memtui.report.layout import Column, Extent, Mark, Report, Row, Section, SectionId, Tone
from memtui.report.words import EXACT, MINUS, SHORT, Spell
from memtui.text.sanitize import safe_line, size_words

EXCERPT_LINES = 12
OFF = "off"
"""As a minimum score: none at all, whatever the profile says."""

_FACTS = (Column("name"), Column("what"))
_FACT_WORDS: Mapping[str, str] = {
    "match": "MATCH",
    "keywords": "one by one",
    "query_vector_from": "from",
}
_OUTCOMES: Mapping[Outcome, tuple[Mark, Tone, str]] = {
    Outcome.PASSED: (Mark.PASSED, Tone.OK, ""),
    Outcome.PUSHED_OUT: (Mark.FAILED, Tone.WARN, "pushed beyond k"),
    Outcome.MISSED: (Mark.FAILED, Tone.WARN, "missed"),
    Outcome.LOST: (Mark.FAILED, Tone.ERROR, "lost"),
    Outcome.SKIPPED: (Mark.NOT_ASKED, Tone.MUTED, "skipped"),
}
_LEG_TONES = {Leg.VECTOR: Tone.VECTOR, Leg.KEYWORD: Tone.KEYWORD}
_HELD = {True: Mark.PASSED, False: Mark.FAILED}
_NO_ROW = "no row in the full-text table"


class Part(StrEnum):
    """A part of an explanation, in the order of finding out."""

    INQUIRY = "inquiry"
    PASSAGES = "passages"
    LEAST = "least"
    WORDS = "words"


Subject: TypeAlias = str | Place
"""A chunk by its id, or a file or a line by its name."""


class Explained(Struct, frozen=True, dict=True):
    """One place of one result list, and what is known of it; a part is `None` where it is not."""

    ranked: Ranked
    ranking: Ranking
    """The ranking that `ranked` was asked with: least changes are changes of it."""
    inquiry: Inquiry | None = None
    least: Counterfactuals | None = None
    words: WordChanges | None = None
    passages: Passages | None = None
    subject: Subject = ""
    """The subject, where no inquiry tells it."""
    problems: Mapping[Part, str] = {}
    """The reason why a part could not be found out."""
    due: frozenset[Part] = frozenset()
    """The parts that are still being looked for."""

    @property
    def chunk(self) -> Chunk | None:
        """The chunk, where there is one and it is known."""
        if self.inquiry is not None and self.inquiry.chunk is not None:
            return self.inquiry.chunk
        chunks = self.ranked.pool.chunks
        return chunks.get(self.subject) if isinstance(self.subject, str) else None

    @cached_property
    def explanation(self) -> Explanation | None:
        """The explanation by the ranking; `None` for a chunk that is not in the pool."""
        chunk = self.chunk
        if chunk is None or chunk.id not in self.ranked.pool.chunks:
            return None
        return explain(self.ranked, chunk.id)

    @property
    def scored(self) -> Hit | Drop | None:
        """The result or the near miss; `None` for a chunk that is not in the pool."""
        return self.explanation.scored if self.explanation is not None else None

    @property
    def shown(self) -> bool:
        """True if it is in the list."""
        if self.scored is not None:
            return isinstance(self.scored, Hit)
        return self.inquiry is not None and self.inquiry.shown

    @property
    def title(self) -> str:
        """The citation of the chunk, else the place as it was asked for."""
        if self.inquiry is not None:
            return self.inquiry.citation
        if self.chunk is not None:
            return place(self.chunk)
        return str(self.subject) if isinstance(self.subject, Place) else "a chunk"


def report_of(explained: Explained, *, spell: Spell = EXACT) -> Report:
    """Build the report; `spell` writes its scores, by default so that they can be read back."""
    ranked, inquiry, explanation = explained.ranked, explained.inquiry, explained.explanation
    chunk = explained.chunk
    places = inquiry.leg_places if inquiry is not None else {}
    sections: list[Section] = []

    def add(section: Section, part: Part, doing: str) -> None:
        """Add a section with what is still being looked for, or why it could not be found out."""
        pending = doing if part in explained.due else ""
        problem = explained.problems.get(part, "")
        sections.append(replace(section, pending=pending, problem=problem))

    if inquiry is not None or not explained.shown:
        add(_trace_section(explained, spell), Part.INQUIRY, "")
    if explanation is not None:
        sections.append(arithmetic_section(ranked, explanation, spell))
    sections.append(ranks_section(ranked, explanation, places, spell))
    if inquiry is not None and chunk is not None:
        sections += _term_sections(ranked, chunk.id, inquiry.terms, spell)
    elif Part.INQUIRY in explained.due:
        sections.append(Section(SectionId.TERMS, "terms", pending="the terms"))
    if not explained.shown:
        add(_changes_section(explained, places), Part.LEAST, "trying every parameter")
        add(_words_section(explained.words), Part.WORDS, "trying words of its text")
    passages = _passages_section(explained.passages, spell)
    add(passages, Part.PASSAGES, "comparing sentence by sentence")
    sections.append(legs_section(ranked))
    if chunk is not None:
        lines = chunk.text.rstrip("\n").split("\n")
        left = len(lines) - EXCERPT_LINES
        missing = f"{words.count(left, 'line')} more" if left > 0 else ""
        quoted = "\n".join(lines[:EXCERPT_LINES])
        sections.append(Section(SectionId.EXCERPT, "text", quoted=quoted, missing=missing))
    return Report(
        explained.title,
        ranked.pool.query,
        verdict_words(ranked, explained.scored, inquiry, spell) or "not known yet",
        explained.shown,
        tuple(
            one
            for one in sections
            if any((one.rows, one.notes, one.quoted, one.pending, one.problem))
        ),
    )


# --- whether it is shown ------------------------------------------------------------------------


def verdict_words(
    ranked: Ranked, scored: Hit | Drop | None, inquiry: Inquiry | None = None, spell: Spell = SHORT
) -> str:
    """Return the rank of a place, or what lost it first; empty until that is known."""
    failure = inquiry.first_failure if inquiry is not None else None
    if isinstance(scored, Hit):
        effective = f", effective {spell(scored.effective)}"
        return f"SHOWN at rank {scored.rank}, score {spell(scored.score)}{effective}"
    if scored is not None:
        verdict = f"NOT SHOWN: {drop_words(scored, ranked, spell)}"
        if failure is None or failure.outcome is not Outcome.PUSHED_OUT:
            return verdict
        return f"{verdict}; first {failure_words(failure)}"
    if inquiry is None:
        return ""
    if inquiry.rank is not None:
        return f"SHOWN at rank {inquiry.rank}"
    return f"NOT SHOWN: {failure_words(failure)}" if failure is not None else "NOT SHOWN"


def drop_words(drop: Drop, ranked: Ranked | None = None, spell: Spell = SHORT) -> str:
    """Return why a candidate is not in the list, with the numbers that were compared."""
    numbers = drop.numbers
    match drop.reason:
        case Reason.OUTSIDE_CANDIDATES:
            ranks = [f"{leg} #{numbers[f'{leg}_rank']}" for leg in Leg if f"{leg}_rank" in numbers]
            rank_words = f" ({', '.join(ranks)})" if ranks else ""
            return f"outside the first {numbers['candidates']} of each leg{rank_words}"
        case Reason.BELOW_MIN_SCORE:
            decay = stage_score(drop, Stage.DECAY)
            operand = decay.operand if decay is not None else None
            after = f" after decay × {spell(operand)}" if operand not in (None, 1) else ""
            return f"{spell(drop.score)} < minimum {spell.number(numbers['min_score'])}{after}"
        case Reason.CUT_AT_K:
            return f"rank {drop.stages[-1].rank} > k {numbers['k']}"
        case Reason.DUPLICATE_TEXT if ranked is not None:
            return f"same text as {place_of(ranked, numbers['duplicate_of'])}"
    return words.reason_words(drop.reason)


def failure_words(step: TraceStep, *, brief: bool = False) -> str:
    """The first failure in one phrase: `keyword leg: a required word is missing, omada`.

    `brief` for one narrow line: `vector pool: #31 of 214 > 24`.
    """
    name, is_pool = words.step_name(step.at), step.at in (Station.KEYWORD_POOL, Station.VECTOR_POOL)
    rank = _rank_words(step) if is_pool else ""
    if brief and rank:
        return f"{name}: {rank} > {step.numbers.get('limit')}"
    if step.outcome is Outcome.PUSHED_OUT:
        by = f" by {safe_line(step.other)}" if step.other else ""
        return f"pushed down to {words.rank(step.rank)} in {name}{by}"
    why = ", ".join(filter(None, (rank, *_step_words(step, SHORT)))) or "lost here"
    return why if step.at in (Station.DISCOVERED, Station.INDEXED) else f"{name}: {why}"


# --- the trace ----------------------------------------------------------------------------------


def _trace_section(explained: Explained, spell: Spell) -> Section:
    """One line for each station and stage; the first failure is the strong one."""
    inquiry, scored, rows = explained.inquiry, explained.scored, []
    if inquiry is None and Part.INQUIRY in explained.due:
        # Each station has its line already, so that little moves when they are known.
        rows = [Row((words.step_name(one), "", "…"), tone=Tone.MUTED) for one in Station]
    elif inquiry is not None:
        scores = score_steps(explained.ranked, scored, spell) if scored is not None else ()
        by_stage: dict[Leg | Stage | Station, ScoreStep] = {one.kind: one for one in scores}
        for step in inquiry.steps:
            mark, tone, outcome = _OUTCOMES[step.outcome]
            score, other = by_stage.get(step.at), safe_line(step.other)
            if score is None or score.value is None:
                why = list(_step_words(step, spell))
            else:
                why = [spell(score.value), score.formula, score.note]
                if step.outcome is Outcome.PUSHED_OUT and other and other not in score.note:
                    why.append(f"behind {other}")
            what = ": ".join(filter(None, (outcome, "  ".join(filter(None, why)))))
            cells = (words.step_name(step.at), _rank_words(step), what)
            rows.append(Row(cells, mark, tone, step is inquiry.first_failure))
    columns = (Column("station"), Column("rank"), Column("what"))
    return Section(SectionId.TRACE, "trace", columns, tuple(rows))


def _rank_words(step: TraceStep) -> str:
    """The rank of a step: `#31 of 214`."""
    if step.rank is None:
        return ""
    return words.rank(step.rank) + (f" of {words.count(step.of)}" if step.of else "")


def _step_words(step: TraceStep, spell: Spell) -> Iterator[str]:
    """Yield the reason of a step, the words that matter, and what was compared; some are empty."""
    other, numbers = safe_line(step.other), step.numbers
    is_leg = step.at in (Station.KEYWORD_LEG, Station.VECTOR_LEG)
    why = words.reason_words(step.reason)
    is_repeated = is_leg and step.other.startswith(why)
    if step.reason not in (Reason.OK, Reason.OUTSIDE_CANDIDATES) and not is_repeated:
        yield why
    yield safe_line(", ".join(step.words))
    match step.at:
        case Station.DISCOVERED:
            yield "" if why in other.casefold() else other
            for name, before in (("bytes", ""), ("limit_bytes", "limit ")):
                if isinstance(size := numbers.get(name), int):
                    yield before + size_words(size)
        case Station.INDEXED if numbers.get("start_line") is not None:
            yield f"lines {numbers['start_line']} to {numbers.get('end_line')}"
        case Station.INDEXED if numbers.get("last_line") is not None:
            yield f"line {numbers.get('line')}, the chunks end at line {numbers['last_line']}"
        case Station.KEYWORD_POOL | Station.VECTOR_POOL:
            within = "within" if step.outcome is Outcome.PASSED else "beyond"
            yield f"{within} the first {numbers['limit']}" if numbers.get("limit") else ""
            for name in ("bm25_rank", "cosine_rank"):
                yield f"#{numbers[name]} by {name[:-5]}" if numbers.get(name) else ""
        case _:
            yield other
            units = {"bm25": "bm25 ", "cosine": "cos "} if is_leg else {"after": ""}
            for name, unit in units.items():
                if isinstance(value := numbers.get(name), int | float):
                    yield unit + spell(value)


# --- legs and ranks -----------------------------------------------------------------------------


def legs_section(ranked: Ranked) -> Section:
    """The mode of the search, then how each leg answered and what it searched for."""
    mode = ranked.pool.search_mode
    about = f"{mode.value}: {words.MODE_WORDS[mode]}, profile {ranked.ranking.profile}"
    rows = [Row(("mode", about))]
    for leg in LEGS:
        if (state := ranked.pool.states.get(leg)) is None:
            continue
        answer = words.leg_words(state)
        if state.status is LegStatus.OK:
            answer += f", {words.count(len(ranked.pool.hits.get(leg, ())), 'hit')}"
        rows.append(Row((leg.value, answer), tone=_LEG_TONES[leg]))
        for name, value in state.facts.items():
            if value not in {None, ""}:
                label = _FACT_WORDS.get(name, name.replace("_", " "))
                rows.append(Row((f"  {label}", str(value)), tone=Tone.MUTED))
    return Section(SectionId.LEGS, "what was searched", _FACTS, tuple(rows))


def ranks_section(
    ranked: Ranked, explanation: Explanation | None, places: Mapping[Leg, LegPlace], spell: Spell
) -> Section:
    """The rank through all stages, among all chunks of each leg, and without a stage."""
    rows = []
    if explanation is not None:
        scored = explanation.scored
        if scored.legs:
            legs = ", ".join(f"{leg} #{part.position + 1}" for leg, part in scored.legs.items())
            rows.append(Row(("by leg", legs)))
        if scored.stages:
            moves = " → ".join(
                f"{words.STAGE_WORDS[one.stage]} #{one.rank}" for one in scored.stages
            )
            spark = words.sparkline([one.rank for one in scored.stages])
            rows.append(Row(("by stage", f"{moves}  {spark}".rstrip())))
        for name, rank in explanation.without.items():
            stage = "MMR" if name == "mmr" else name
            rows.append(Row((f"without {stage}", "not shown" if rank is None else f"rank {rank}")))
    for leg in LEGS:
        if leg in places:
            standing = places[leg]
            at = f"no rank: {words.reason_words(standing.reason)}"
            if standing.rank is not None:
                query = standing.asked if standing.asked != ranked.pool.query.strip() else ""
                by = f" by the keyword {query}" if query else ""
                raw = f", {spell(standing.rank.raw)}" if standing.rank.raw is not None else ""
                at = f"#{standing.rank.position + 1} of {words.count(standing.rank.total)}{by}{raw}"
            rows.append(Row((f"{leg.value}, of all", at), tone=_LEG_TONES[leg]))
    return Section(SectionId.RANKS, "ranks", _FACTS, tuple(rows))


# --- the keyword leg, term by term --------------------------------------------------------------


def _term_sections(
    ranked: Ranked, chunk_id: str, terms: KeywordExplanation | None, spell: Spell
) -> Iterator[Section]:
    """Yield the terms of the MATCH expression, then those of each keyword searched by itself."""
    if terms is None:
        yield Section(SectionId.TERMS, "terms", notes=(_NO_ROW,))
        return
    notes = [words.FOUND_BY_WORDS[terms.found_by]] if terms.found_by is not FoundBy.MATCH else []
    hits = ranked.pool.hits.get(Leg.KEYWORD, ())
    hit = next((hit for hit in hits if hit.chunk_id == chunk_id), None)
    scores = [one.score for one in (terms, *terms.keywords)]
    if hit is not None and hit.has_body and hit.score is None and hit.raw not in scores:
        notes.append("the index changed since the search: these numbers are of now")
    yield _terms_section(terms, "terms", spell, *notes)
    for keyword in terms.keywords:
        yield _terms_section(keyword, f"keyword {keyword.asked}", spell)


def _terms_section(terms: KeywordExplanation, title: str, spell: Spell, *last: str) -> Section:
    numbers = (Column(name, right=True) for name in ("tf", "df", "idf", "share"))
    columns = (Column("term"), *numbers, Column("as"))
    rows: list[Row] = []
    for term in terms.terms:
        is_single = len(term.phrases) == 1
        if not is_single:
            cells = (term.text, "", "", "", spell(term.share), "together")
            rows.append(Row(cells, _HELD[term.held], Tone.KEYWORD))
        for phrase in term.phrases:
            text = term.text if is_single else f"  {phrase.match}"
            if not phrase.tokens:
                cells = (text, "-", "-", "-", "-", "the tokenizer leaves nothing of it")
                rows.append(Row(cells, Mark.FAILED, Tone.MUTED))
                continue
            stems = " ".join(phrase.tokens)
            counts = (str(phrase.tf), f"{phrase.df} of {terms.rows}", spell.number(phrase.idf))
            cells = (text, *counts, spell(phrase.share), stems if stems != text.strip() else "")
            tone = Tone.KEYWORD if phrase.tf else Tone.MUTED
            extent = Extent(0.0, phrase.share) if phrase.share > 0 else None
            rows.append(Row(cells, _HELD[phrase.tf > 0], tone, extent=extent))
    for substring in terms.substrings:
        presence = "in the chunk" if substring.held else "not in the chunk"
        cells = (substring.text, "", "", "", "", f"as a substring: {presence}, no share")
        rows.append(Row(cells, _HELD[substring.held], Tone.KEYWORD))
    notes = (*_term_notes(terms, spell), *last)
    top = max((term.share for term in terms.terms), default=0.0)
    return Section(SectionId.TERMS, title, columns, tuple(rows), notes, axis=top or None)


def _term_notes(terms: KeywordExplanation, spell: Spell) -> Iterator[str]:
    """Yield what was searched for, the numbers of BM25, and the words that were left out."""
    unsent = "" if terms.sent else " (not sent: its keywords are asked one by one)"
    yield f"MATCH {terms.match or 'nothing'}{unsent}"
    yield f"tokenizer {terms.tokenizer}"
    if not terms.indexed:
        yield _NO_ROW
    elif terms.terms:
        average = spell.number(terms.average_length)
        yield f"length {words.count(terms.length, 'token')}, {average} on average"
    if terms.score is not None:
        yield f"bm25 {spell(terms.score)}, minus the sum of the shares"
    if terms.missing:
        yield f"the chunk lacks what is required: {', '.join(terms.missing)}"
    if terms.nowhere:
        yield f"in no chunk at all: {', '.join(terms.nowhere)}"
    for word in terms.pruned:
        presence = "the chunk has it" if word.held else "the chunk does not have it"
        yield f"{word.text} was not looked up: in {words.count(word.df, 'chunk')} ({presence})"
    if terms.stop_words:
        yield f"stop words, not looked up: {', '.join(terms.stop_words)}"
    if terms.dropped:
        yield f"the tokenizer leaves nothing of: {', '.join(terms.dropped)}"


# --- what would bring it in ---------------------------------------------------------------------


def _changes_section(explained: Explained, places: Mapping[Leg, LegPlace]) -> Section:
    """Return each change, the cheapest first, then the parameters that cannot do it."""
    section = Section(SectionId.LEAST_CHANGES, "least changes")
    if (least := explained.least) is None:
        return section
    columns = (
        *(Column("parameter"), Column("change"), Column("rank", right=True), Column("cost")),
        Column("options", optional=True),
    )
    rows, notes = [], []
    for change in least.changes:
        parameter, moved = words.PARAMETER_WORDS[change.parameter.value], _moved(change)
        cost = "a switch"
        if isinstance(change.new, str):
            cost = "another method"
        elif not (change.new is None or isinstance(change.new, bool) or change.old is None):
            percent = words.short_number(100 * change.cost, 0 if change.cost >= 0.1 else 1)
            cost = f"{percent if 100 * change.cost >= 0.05 else '<0.1'} % of its range"
        options = flags_of(explained.ranking, change)
        cells = (parameter, moved, words.rank(change.rank_after), cost, options)
        rows.append(Row(cells, tone=Tone.OK if change is least.cheapest else Tone.PLAIN))
    needs = least.needs
    if explained.explanation is None and needs is None:
        uncounted = any(standing.reason is Reason.TOO_MANY for standing in places.values())
        so = "how deep a search must go is not known" if uncounted else "no parameter brings it in"
        notes = [f"no leg ranks it: {so}"]
    elif explained.explanation is None and needs is not None:
        takes = f"a new search has to take {needs.candidates} candidates of each leg"
        ways = [f"k {needs.k}"] if needs.k is not None else []
        if needs.candidate_multiplier is not None:
            ways.append(f"candidates × k {needs.candidate_multiplier}")
        how = "no k and no multiplier of the candidates takes so many"
        if needs.candidates <= needs.taken:
            how = "so many are taken: the leg's own merge of keywords and paths left it out"
        elif ways:
            how = f"{' or '.join(ways)} takes so many; what then shows it is listed, nothing else"
        notes = [f"{takes}, this one took {needs.taken}", how]
    notes.append(
        "each alone brings it into the list; the cost is the part of the range crossed"
        if rows
        else "no single parameter brings it into the list"
    )
    for reason in dict.fromkeys(one.reason for one in least.without):
        named = [one.parameter.value for one in least.without if one.reason is reason]
        notes.append(f"{reason}: {', '.join(words.PARAMETER_WORDS[name] for name in named)}")
    return replace(section, columns=columns, rows=tuple(rows), notes=tuple(notes))


def change_words(change: Change | WordChange) -> str:
    """Return a change in words: `half-life 30 → 48 d`, `+omada -old`."""
    if isinstance(change, WordChange):
        added = [f"+{safe_line(word)}" for word in change.added]
        return " ".join([*added, *(f"{MINUS}{safe_line(word)}" for word in change.removed)])
    return f"{words.PARAMETER_WORDS[change.parameter.value]} {_moved(change)}"


def flags_of(ranking: Ranking, change: Change) -> str:
    """The options that make a change of `ranking`, as they are typed: `--min-score 0.25`."""
    name, new = change.parameter.value, change.new
    if change.parameter is Parameter.VECTOR_WEIGHT:
        changed = apply(ranking, change.parameter, new)
        return f"--weights {changed.vector_weight!r},{changed.keyword_weight!r}"
    flag = words.FLAGS[name]
    if isinstance(flag, list):
        return flag[new is True]
    return f"{flag} {OFF if new is None else new}"


def value_words(value: object, other: object = None) -> str:
    """A value of a parameter; with so many digits that it differs from the other one."""
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return words.FUSION_WORDS[Fusion(value)] if value in list(Fusion) else safe_line(value)
    if not isinstance(value, int | float):
        return safe_line(str(value))
    for decimals in (2, 4, 6, 9):
        text = words.short_number(value, decimals)
        near = abs(float(text.replace(MINUS, "-")) - value) <= 1e-3 * abs(value)
        if near and text != words.short_number(other, decimals):
            return text
    return repr(value)


def _moved(change: Change) -> str:
    unit = " d" if change.parameter is Parameter.HALF_LIFE else ""
    old, new = value_words(change.old, change.new), value_words(change.new, change.old)
    return f"{old} → {new}{unit}"


def _words_section(changes: WordChanges | None) -> Section:
    """The queries that show the chunk, each searched for, and how many were tried."""
    section = Section(SectionId.WORD_CHANGES, "other words")
    if changes is None:
        return section
    tried = words.count(changes.tried, "changed query", "changed queries")
    note = f"no word that was tried brings it into the list ({tried})"
    if changes.reason is not Reason.OK:
        why = words.reason_words(changes.reason)
        note = f"not known: {why} while trying" if changes.tried else f"not tried: {why}"
    elif changes.changes:
        note = f"each was searched: {tried} tried"
    columns = (Column("words"), Column("rank", right=True), Column("query"))
    rows = tuple(
        Row((change_words(change), words.rank(change.rank_after), change.query))
        for change in changes.changes
    )
    return replace(section, columns=columns, rows=rows, notes=(note,))


def _passages_section(passages: Passages | None, spell: Spell) -> Section:
    """The passages nearest to the query, marked as what they are: an illustration."""
    section = Section(SectionId.PASSAGES, "nearest passages")
    if passages is None:
        return section
    model = f" by {passages.model}" if passages.model else ""
    note = f"an illustration{model}: the vector of the whole chunk ranks, not these"
    if not passages.found:
        why = words.reason_words(passages.reason) if passages.reason is not Reason.OK else "none"
        note = f"no passages: {why}"
    rows = tuple(
        Row((spell(passage.cosine), " ".join(passages.text[passage.start : passage.end].split())))
        for passage in passages.found
    )
    columns = (Column("cosine", right=True), Column("passage"))
    return replace(section, columns=columns, rows=rows, notes=(note,))
