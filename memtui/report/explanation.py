"""The report of one place of one search: what became of it, its numbers, and what would change it.

`memtui explain`, its exports and the explain screen show the sections that are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memtui.engine import Engine
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
    WordTable,
)
from memtui.model.rankings import MinScoreRule
from memtui.ranking.counterfactual.change import (
    FEATURE_OF,
    Change,
    Counterfactuals,
    NoChangeReason,
    Parameter,
    apply,
)
from memtui.ranking.pipeline import for_mode, needs_search, rank, runs
from memtui.ranking.stages import taken_hits
from memtui.ranking.strength import strength
from memtui.ranking.trace import Explanation, cited_lines, compare_settings, explain, stage_score
from memtui.report import arithmetic, words
from memtui.report.layout import Column, Extent, Mark, Report, Row, Section, SectionId, Tone
from memtui.report.words import MINUS
from memtui.text.sanitize import safe_line, size_words

EXCERPT_LINES = 12
IDLE = ", no effect: ranks without "

_FACTS = (Column("name"), Column("what"))
_HELD = {True: Mark.PASSED, False: Mark.FAILED}
_NO_ROW = "no row in the full-text table"


class Part(StrEnum):
    """A part of an explanation, in the order of finding out."""

    INQUIRY = "inquiry"
    MATCHES = "matches"
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
    matches: WordTable | None = None
    subject: Subject = ""
    """The subject, where no inquiry tells it."""
    problems: Mapping[Part, str] = {}
    """The reason why a part could not be found out."""
    due: frozenset[Part] = frozenset()
    """The parts that are still being looked for."""
    configured: Ranking | None = None
    """The ranking that a reset goes back to."""

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

    @cached_property
    def configured_rank(self) -> int | None:
        """The rank by the configured ranking, where the pool tells it and another one ranks."""
        pool, chunk, configured = self.ranked.pool, self.chunk, self.configured
        if configured in (None, self.ranking) or needs_search(pool, self.ranking, configured):
            return None
        reset = rank(pool, for_mode(configured, pool.search_mode), now=self.ranked.trace.now)
        return reset.ranks.get(chunk.id) if chunk is not None else None

    @property
    def shown(self) -> bool:
        return isinstance(self.scored, Hit)

    @property
    def title(self) -> str:
        """The citation of the chunk, else the place as it was asked for."""
        if self.inquiry is not None:
            return self.inquiry.citation
        if self.chunk is not None:
            return arithmetic.place(self.chunk)
        return str(self.subject) if isinstance(self.subject, Place) else "a chunk"


def find_part(
    engine: Engine, explained: Explained, part: Part, progress: Callable[[str], None]
) -> Explained:
    """Find a part out, and add it; `progress` is told in words what is tried, and may raise."""
    explain, what_if, ranked = engine.explain, engine.what_if, explained.ranked
    chunk, inquiry, subject = explained.chunk, explained.inquiry, explained.subject
    answer: object = None
    if part is Part.INQUIRY and isinstance(subject, Place):
        answer = explain.inquire_at(ranked, subject)
    elif part is Part.INQUIRY and isinstance(subject, str):
        answer = explain.inquire(ranked, subject)
    elif chunk is not None and part is Part.MATCHES:
        answer = explain.word_matches(ranked, chunk.id)
    elif chunk is not None and part is Part.PASSAGES:
        answer = explain.passages(ranked, chunk.id)
    elif chunk is not None and not explained.shown and part is Part.LEAST:
        answer = what_if.least_changes(
            ranked,
            explained.ranking,
            chunk.id,
            inquiry.leg_places if inquiry is not None else {},
            progress=lambda parameter: progress(f"looking for the least change of {parameter}"),
        )
    elif chunk is not None and not explained.shown:
        answer = what_if.word_changes(
            ranked,
            explained.ranking,
            chunk,
            inquiry.terms if inquiry is not None else None,
            inquiry.filters if inquiry is not None else (),
            progress=lambda query: progress(f"trying {query}"),
        )
    return replace(explained, **{part.value: answer}, due=explained.due - {part})


def report_of(explained: Explained) -> Report:
    """Build the report: everything that people read of an explanation."""
    ranked, inquiry, explanation = explained.ranked, explained.inquiry, explained.explanation
    chunk, shown, due = explained.chunk, explained.shown, explained.due
    places = inquiry.leg_places if inquiry is not None else {}

    def part(name: Part, section: Section, doing: str = "") -> Section:
        """Return a section with what is still being looked for, or why it is not known."""
        problem = explained.problems.get(name, "")
        return replace(section, pending=doing if name in due else "", problem=problem)

    sections: list[Section] = []
    if inquiry is not None or not shown:
        sections.append(part(Part.INQUIRY, _trace_section(explained)))
    if explanation is not None:
        sections.append(arithmetic.arithmetic_section(ranked, explanation))
        sections.append(arithmetic.shares_section(ranked, explanation.scored))
        table = arithmetic.matches_section(ranked, explanation.scored, explained.matches)
        sections.append(part(Part.MATCHES, table, "comparing word by word"))
    sections.append(ranks_section(ranked, explanation, places))
    if inquiry is not None and chunk is not None and ranked.pool.is_scored:
        sections += _term_sections(ranked, chunk.id, inquiry.terms)
    elif Part.INQUIRY in due:
        sections.append(Section(SectionId.TERMS, "terms", pending="the terms"))
    if not shown:
        changes, other_words = _changes_section(explained, places), _words_section(explained)
        sections.append(part(Part.LEAST, changes, "trying every parameter"))
        sections.append(part(Part.WORDS, other_words, "trying words of its text"))
    passages = _passages_section(explained.passages)
    sections.append(part(Part.PASSAGES, passages, "comparing sentence by sentence"))
    sections.append(legs_section(ranked))
    if chunk is not None:
        # A result is its best passage: the text begins at its line.
        first = cited_lines(explained.scored)[0] if explained.scored else chunk.start_line
        title = "text" if first == chunk.start_line else f"text from line {first}"
        lines = chunk.text.rstrip("\n").split("\n")[first - chunk.start_line :]
        left = len(lines) - EXCERPT_LINES
        missing = f"{words.count(left, 'line')} more" if left > 0 else ""
        quoted = "\n".join(lines[:EXCERPT_LINES])
        sections.append(Section(SectionId.EXCERPT, title, quoted=quoted, missing=missing))
    verdict = verdict_words(ranked, explained.scored, inquiry) or "not known yet"
    filled = tuple(
        one for one in sections if one.rows or one.notes or one.quoted or one.pending or one.problem
    )
    return Report(explained.title, ranked.pool.query, verdict, shown, filled)


def verdict_words(ranked: Ranked, scored: Hit | Drop | None, inquiry: Inquiry | None = None) -> str:
    """Return the rank of a place, or what lost it first; empty until that is known."""
    if isinstance(scored, Hit):
        shown, before = words.score(scored.effective), words.score(scored.score)
        ranked_by = f" ({before} before MMR)" if before != shown else ""
        match = words.STRENGTH_MATCHES[strength(ranked, scored)]
        score = f"score {shown}{ranked_by}", arithmetic.relative_words(ranked)
        if not ranked.pool.is_scored:
            score = "by date: filters alone do not rank", ""
        verdict = ", ".join(filter(None, (f"SHOWN at rank {scored.rank}", *score)))
        return "; ".join(filter(None, (verdict, match, words.aside_words(ranked, scored))))
    if scored is not None:
        return f"NOT SHOWN: {drop_words(scored, ranked)}"
    if inquiry is None:
        return ""
    failure = inquiry.first_failure
    return f"NOT SHOWN: {failure_words(failure)}" if failure is not None else "NOT SHOWN"


def _push_words(drop: Drop, k: int) -> str:
    """Return the stages that moved a near miss down since it was within k; empty if it never was.

    `: decay #2 → #47, MMR → #54`.
    """
    within = [number for number, stage in enumerate(drop.stages) if stage.rank <= k]
    stages = drop.stages[within[-1] :] if within else ()
    down = [after for before, after in pairwise(stages) if after.rank > before.rank]
    moves = ", ".join(f"{words.step_name(one.stage)} → {words.rank(one.rank)}" for one in down)
    return moves and ": " + moves.replace(" →", f" {words.rank(stages[0].rank)} →", 1)


def drop_words(drop: Drop, ranked: Ranked) -> str:
    """Return why a candidate is not in the list, with the numbers that were compared."""
    numbers = drop.numbers
    match drop.reason:
        case Reason.OUTSIDE_CANDIDATES:
            by_leg = {words.LEG_WORDS[leg]: numbers.get(f"{leg}_rank") for leg in Leg}
            ranks = [f"{leg} #{rank}" for leg, rank in by_leg.items() if rank is not None]
            rank_words = f" ({', '.join(ranks)})" if ranks else ""
            return f"outside the first {numbers['candidates']} of each match{rank_words}"
        case Reason.BELOW_MIN_SCORE:
            decay = stage_score(drop, Stage.DECAY)
            operand = decay.operand if decay is not None else None
            after = f" after decay × {words.score(operand)}" if operand not in (None, 1) else ""
            minimum = words.short_number(numbers["min_score"])
            compared = arithmetic.compared_score(drop.score, drop.effective)
            is_barred = ranked.ranking.min_score_rule is MinScoreRule.FILL and len(drop.legs) > 1
            rule = " (meaning found it: cannot fill the list)" if is_barred else ""
            return f"{compared} < minimum {minimum}{rule}{after}"
        case Reason.CUT_AT_K:
            results = words.count(ranked.ranking.k, "result")
            pushed = _push_words(drop, ranked.ranking.k)
            return f"rank {drop.stages[-1].rank} > {results}{pushed}"
        case Reason.DUPLICATE_TEXT:
            return f"same text as {arithmetic.place_of(ranked, numbers['duplicate_of'])}"
    return words.reason_words(drop.reason)


def failure_words(step: TraceStep, *, brief: bool = False) -> str:
    """The first failure in one phrase: `keyword match: required and missing: omada`.

    `brief` for one narrow line: `meaning rank: #31 of 214 > 24`.
    """
    name, is_pool = words.step_name(step.at), step.at in (Station.KEYWORD_POOL, Station.VECTOR_POOL)
    rank = _rank_words(step) if is_pool else ""
    if brief and rank:
        return f"{name}: {rank} > {step.numbers.get('limit')}"
    if left_out := _left_out_words(step):
        return left_out
    why = ", ".join(filter(None, (rank, *_step_words(step)))) or "lost here"
    return why if step.at in (Station.DISCOVERED, Station.INDEXED) else f"{name}: {why}"


def _left_out_words(step: TraceStep) -> str:
    """Words for what keeps a chunk out of all searches, `left out by after:2026-09-01`, or none."""
    is_quote = step.reason is Reason.TERM_MISSING and step.at is Station.VECTOR_LEG
    named = [f'"{word}"' for word in step.words] if is_quote else step.words
    is_left_out = named and (is_quote or step.reason is Reason.FILTERED)
    return f"left out by {safe_line(', '.join(named))}" if is_left_out else ""


def _trace_section(explained: Explained) -> Section:
    """One line for each station and stage; the first failure is the strong one."""
    inquiry, scored, rows = explained.inquiry, explained.scored, []
    if inquiry is None and Part.INQUIRY in explained.due:
        # Each station has its line already, so that little moves when they are known.
        rows = [Row((words.step_name(one), "", "…"), tone=Tone.MUTED) for one in Station]
    elif inquiry is not None:
        scores = arithmetic.score_steps(explained.ranked, scored) if scored is not None else ()
        by_stage = {one.kind.value: one for one in scores if isinstance(one.kind, Stage)}
        by_date = () if explained.ranked.pool.is_scored else (Station.KEYWORD_POOL, Stage.FUSION)
        for step in inquiry.steps:
            if step.at in by_date and step.outcome is Outcome.PASSED:
                continue
            is_pushed = step.outcome is Outcome.PUSHED_OUT
            is_back = is_pushed and step is not inquiry.first_failure
            outcome, mark, tone = words.OUTCOME_WORDS["back" if is_back else step.outcome]
            score, other = by_stage.get(step.at.value), safe_line(step.other)
            if step.at is Stage.CUT and isinstance(scored, Hit) and not by_date:
                why = [words.score(scored.effective)]
            elif score is None or score.value is None:
                # What a stage leaves as it is was told before.
                why = _step_words(replace(step, numbers={}) if isinstance(step.at, Stage) else step)
            else:
                why = [words.score(score.value), score.formula, score.note]
                if is_pushed and other and other not in score.note:
                    why.append(f"behind {other}")
            fate = ": ".join(filter(None, (outcome, "  ".join(filter(None, why)))))
            cells = (words.step_name(step.at), _rank_words(step), fate)
            rows.append(Row(cells, Mark(mark), Tone(tone), step is inquiry.first_failure))
    columns = (Column("station"), Column("rank"), Column("what"))
    return Section(SectionId.TRACE, "trace", columns, tuple(rows))


def _rank_words(step: TraceStep) -> str:
    """The rank of a step: `#31 of 214`."""
    if step.rank is None:
        return ""
    return words.rank(step.rank) + (f" of {words.count(step.of)}" if step.of else "")


def _step_words(step: TraceStep) -> list[str]:
    """Return the reason of a step, the words that matter, and what was compared."""
    if left_out := _left_out_words(step):
        return [left_out]
    other, numbers = safe_line(step.other), step.numbers
    at_station = words.WORDS["station_reason"].get(f"{step.at} {step.outcome} {step.reason}")
    why = at_station or words.reason_words(step.reason)
    is_said = step.at is Station.DISCOVERED and (at_station or why in other.casefold())
    if is_said or {"start_line", "chunks"} & set(numbers):
        other = ""
    is_leg = step.at in (Station.KEYWORD_LEG, Station.VECTOR_LEG)
    is_repeated = is_leg and step.other.startswith(why)
    # `no text: 1 NUL byte` says more than `no text in UTF-8 or UTF-16`.
    is_repeated |= bool(other) and why.startswith(f"{other.partition(':')[0]} ")
    if step.reason in (Reason.OK, Reason.OUTSIDE_CANDIDATES) or is_repeated:
        why = ""
    write: Mapping[str, Callable[[Any], str]] = {
        **dict.fromkeys(("bytes", "limit_bytes"), size_words),
        **dict.fromkeys(("bm25", "cosine", "after"), words.score),
    }
    values = {key: write.get(key, str)(one) for key, one in numbers.items() if one is not None}
    values["within"] = "within" if step.outcome is Outcome.PASSED else "beyond"
    if "start_line" in values or "line" not in values:
        values.pop("last_line", None)
    templates = words.WORDS["compared"].items()
    compared = (text.format_map(values) for name, text in templates if name in values)
    named = safe_line(", ".join(step.words))
    if why and named and step.outcome is Outcome.MISSED:
        why, named = f"{why}: {named}", ""
    return list(filter(None, (why, named, other, *compared)))


def legs_section(ranked: Ranked) -> Section:
    """The mode of the search, then how each leg answered and what it searched for."""
    mode = ranked.pool.search_mode
    about = f"{words.WORDS['mode'][mode]}, profile {ranked.ranking.profile}"
    leg_hits, total = taken_hits(ranked.pool, ranked.ranking), ranked.pool.total
    candidates = len({hit.chunk_id for hits in leg_hits.values() for hit in hits})
    first = f"the first {words.count(ranked.ranking.candidates)} of each search"
    more = f", of {words.count(total)} that were found" if total > candidates else ""
    pool = f"{words.count(candidates, 'candidate')}: {first}{more}"
    rows = [Row(("mode", about)), Row(("pool", pool))]
    for leg in Leg:
        state = ranked.pool.states[leg]
        answer = words.leg_words(state)
        if state.status is LegStatus.OK:
            answer += f", {words.count(len(ranked.pool.hits[leg]), 'hit')}"
        rows.append(Row((words.leg_name(leg), answer), tone=arithmetic.TONES[leg]))
        for name, value in state.facts.items():
            if value not in {None, ""}:
                label = words.WORDS["fact"].get(name, name.replace("_", " "))
                rows.append(Row((f"  {label}", str(value)), tone=Tone.MUTED))
    return Section(SectionId.LEGS, "what was searched", _FACTS, tuple(rows))


def ranks_section(
    ranked: Ranked, explanation: Explanation | None, places: Mapping[Leg, LegPlace]
) -> Section:
    """The rank through all stages, among all chunks of each leg, and without a stage."""
    rows = []
    if explanation is not None and ranked.pool.is_scored:
        legs, stages = explanation.scored.legs, explanation.scored.stages
        if match_words := words.strength_words(ranked, explanation.scored):
            rows.append(Row(("strength", match_words)))
        if legs:
            ranks = (f"{words.LEG_WORDS[leg]} #{part.position + 1}" for leg, part in legs.items())
            rows.append(Row(("by search", ", ".join(ranks))))
        if stages:
            moves = " → ".join(f"{words.WORDS['stage'][one.stage]} #{one.rank}" for one in stages)
            rows.append(Row(("by stage", moves)))
        for name, rank in explanation.without.items():
            shown = "not shown" if rank is None else f"rank {rank}"
            rows.append(Row((f"without {words.WORDS['stage'][name]}", shown)))
    for leg in Leg:
        if (standing := places.get(leg)) is None:
            continue
        at, leg_rank = f"no rank: {words.reason_words(standing.reason)}", standing.rank
        if leg_rank is not None:
            is_keyword = standing.asked not in ("", ranked.pool.query.strip())
            by = f" by the keyword {standing.asked}" if is_keyword else ""
            raw = f", {words.score(leg_rank.raw)}" if leg_rank.raw is not None else ""
            at = f"#{leg_rank.position + 1} of {words.count(leg_rank.total)}{by}{raw}"
        rows.append(Row((f"{words.LEG_WORDS[leg]}, of all", at), tone=arithmetic.TONES[leg]))
    return Section(SectionId.RANKS, "ranks", _FACTS, tuple(rows))


def _term_sections(
    ranked: Ranked, chunk_id: str, terms: KeywordExplanation | None
) -> Iterator[Section]:
    """Yield the terms of the `MATCH` expression, then those of each keyword searched by itself."""
    if terms is None:
        yield Section(SectionId.TERMS, "terms", notes=(_NO_ROW,))
        return
    last = [words.WORDS["found_by"][terms.found_by]] if terms.found_by is not FoundBy.MATCH else []
    hits = ranked.pool.hits[Leg.KEYWORD]
    hit = next((hit for hit in hits if hit.chunk_id == chunk_id and terms.terms), None)
    scores = [one.score for one in (terms, *terms.keywords)]
    if hit is not None and hit.has_body and hit.score is None and hit.raw not in scores:
        last.append(arithmetic.CHANGED)
    numbers = (Column(name, right=True) for name in ("tf", "df", "idf", "share"))
    columns = (Column("term"), *numbers, Column("as"))
    for one in (terms, *terms.keywords):
        title = "terms" if one is terms else f"keyword {one.asked}"
        notes = (*_term_notes(one), *(last if one is terms else ()))
        top = max((term.share for term in one.terms), default=0.0)
        rows = tuple(_term_rows(one))
        yield Section(SectionId.TERMS, title, columns, rows, notes, axis=top or None)


def _term_rows(terms: KeywordExplanation) -> Iterator[Row]:
    """Yield each term with its share of the score, below it its phrases; then the substrings."""
    of = f" of {words.count(terms.rows)}"
    for term in terms.terms:
        is_single = len(term.phrases) == 1
        if not is_single:
            cells = (term.text, "", "", "", words.score(term.share), "together")
            yield Row(cells, _HELD[term.held], Tone.KEYWORD)
        for phrase in term.phrases:
            text, stems = term.text if is_single else f"  {phrase.match}", " ".join(phrase.tokens)
            numbers = (words.short_number(phrase.idf), words.score(phrase.share))
            counts = words.count(phrase.tf), words.count(phrase.df, after=of)
            cells = (text, *counts, *numbers, stems if stems != text.strip() else "")
            if not phrase.tokens:
                cells = (text, "-", "-", "-", "-", "the tokenizer leaves nothing of it")
            tone = Tone.KEYWORD if phrase.tf else Tone.MUTED
            extent = Extent(0.0, phrase.share) if phrase.share > 0 else None
            yield Row(cells, _HELD[phrase.tf > 0], tone, extent=extent)
    for substring in terms.substrings:
        presence = "in the chunk" if substring.held else "not in the chunk"
        cells = (substring.text, "", "", "", "", f"as a substring: {presence}, no share")
        yield Row(cells, _HELD[substring.held], Tone.KEYWORD)


def _term_notes(terms: KeywordExplanation) -> Iterator[str]:
    """Yield what was searched for, the numbers of BM25, and the words that were left out."""
    unsent = "" if terms.sent else " (not sent: its keywords are asked one by one)"
    yield f"searched for {terms.match or 'nothing'}{unsent}"
    yield f"tokenizer {terms.tokenizer}"
    if not terms.indexed:
        yield _NO_ROW
    elif terms.terms:
        average = words.short_number(terms.average_length)
        yield f"length {words.count(terms.length, 'token')}, {average} on average"
    if terms.score is not None:
        yield f"bm25 {words.score(terms.score)}, minus the sum of the shares"
    phrases = [(term.text, one.df) for term in terms.terms for one in term.phrases]
    if common := dict.fromkeys(text for text, df in phrases if 2 * df >= terms.rows):
        yield f"in half of the chunks or more, which counts as good as 0: {', '.join(common)}"
    if terms.missing:
        yield f"the chunk does not hold {', '.join(terms.missing)} (required)"
    if terms.nowhere:
        yield f"in no chunk at all: {', '.join(terms.nowhere)}"
    for word in terms.pruned:
        presence = "the chunk has it" if word.held else "the chunk does not have it"
        yield f"{word.text} was not looked up: in {words.count(word.df, 'chunk')} ({presence})"
    if terms.stop_words:
        yield f"stop words, not looked up: {', '.join(terms.stop_words)}"
    if terms.dropped:
        yield f"the tokenizer leaves nothing of: {', '.join(terms.dropped)}"


def _changes_section(explained: Explained, places: Mapping[Leg, LegPlace]) -> Section:
    """Return each change, the cheapest first, then the parameters that cannot do it."""
    section, rows, notes = Section(SectionId.LEAST_CHANGES, "least changes"), [], []
    if (least := explained.least) is None:
        return section
    failure = explained.inquiry.first_failure if explained.inquiry is not None else None
    if failure is not None and (left_out := _left_out_words(failure)):
        return replace(section, notes=(f"no parameter brings in what is {left_out}",))
    ranks = [stage.rank for stage in explained.scored.stages] if explained.scored else []
    for change in least.changes:
        parameter = words.PARAMETER_WORDS[change.parameter.value].removeprefix(words.WEIGHT)
        cost, percent = "on/off", 100 * change.cost
        if isinstance(change.new, str):
            cost = "method"
        elif not (change.new is None or isinstance(change.new, bool) or change.old is None):
            share = words.short_number(percent, 0 if change.cost >= 0.1 else 1)
            cost = f"{share if percent >= 0.05 else '<0.1'} %"
        if change.parameter is Parameter.K and change.rank_after not in ranks[-1:]:
            depth = apply(explained.ranking, change.parameter, change.new).candidates
            notes.append(
                f"with {change.new} results each search gives {words.count(depth, 'candidate')}, "
                f"among which it is {words.rank(change.rank_after)}"
            )
        rank, options = words.rank(change.rank_after), flags_of(explained.ranking, change)
        tone = Tone.OK if change is least.cheapest else Tone.PLAIN
        rows.append(Row((parameter, _moved(change), rank, cost, options), tone=tone))
    if explained.explanation is None:
        if (needs := least.needs) is None:
            uncounted = any(standing.reason is Reason.TOO_MANY for standing in places.values())
            why = ": how deep a search must go is not known" if uncounted else ""
            for leg, state in explained.ranked.pool.states.items():
                fate = f"did not run: {words.leg_words(state)}"
                fate = f"does not find it{why}" if state.status is LegStatus.OK else fate
                notes.append(f"the {words.LEG_WORDS[leg]} search {fate}")
        else:
            depths = {"results": needs.k, "candidates per result": needs.candidate_multiplier}
            ways = " or ".join(f"{n} {name}" for name, n in depths.items() if n is not None)
            how = "no number of results or of candidates per result makes it one"
            if needs.candidates <= needs.taken:
                how = "the merge of keywords and paths left it out"
            elif ways:
                how = f"{ways} would make it one, but not bring it into the list"
            best = f"its best rank in a search is {words.rank(needs.candidates)}"
            notes.append(f"it is no candidate: {best}, and each gives {needs.taken}; {how}")
    if (reset := explained.configured_rank) is not None:
        notes.append(f"reset, every parameter as configured: {words.rank(reset)}")
    tried = [one for one in least.without if one.reason is NoChangeReason.NO_VALUE]
    other = "no other parameter" if rows else "no single parameter"
    if rows:
        notes.append("each alone brings it into the list; cost: how far across its allowed range")
    if tried:
        notes.append(f"{other} does it alone ({words.count(len(tried))} tried)")
    unused = {one.parameter for one in least.without if one.reason is NoChangeReason.NOT_USED}
    without: dict[str, dict[str, None]] = {}
    for one in (one for one in least.without if one not in tried):
        name = words.PARAMETER_WORDS[one.parameter.value].removeprefix(words.WEIGHT)
        if one.parameter in FEATURE_OF and Parameter.CHUNK in unused:
            name = "weights of passages in context"
        without.setdefault(words.WORDS["no_change"][one.reason], {})[name] = None
    notes += [f"{reason}: {', '.join(names)}" for reason, names in without.items()]
    columns = (
        *(Column("parameter"), Column("change"), Column("rank", right=True), Column("cost")),
        Column("on the command line", optional=True),
    )
    return replace(section, columns=columns, rows=tuple(rows), notes=tuple(notes))


def change_words(change: Change | WordChange) -> str:
    """Return a change in words: `half-life 30 → 48 d`, `without tag:home +omada -old`."""
    if isinstance(change, WordChange):
        parts = [f"without {safe_line(', '.join(change.filters))}"] if change.filters else []
        parts += [f"+{safe_line(word)}" for word in change.added]
        return " ".join([*parts, *(f"{MINUS}{safe_line(word)}" for word in change.removed)])
    return f"{words.PARAMETER_WORDS[change.parameter.value]} {_moved(change)}"


def flags_of(ranking: Ranking, change: Change) -> str:
    """The options that make a change of `ranking`, as they are typed: `--min-score 0.25`."""
    name, new = change.parameter.value, change.new
    if change.parameter is Parameter.VECTOR_WEIGHT:
        changed = apply(ranking, change.parameter, new)
        return f"--weights {changed.vector_weight:.15g},{changed.keyword_weight:.15g}"
    if change.parameter in FEATURE_OF:
        return f"--context-weight {name.removeprefix('context.')}={new:.15g}"
    flag = words.FLAGS[name]
    if isinstance(flag, list):
        return flag[new is True]
    # A minimum score that is off: none at all, whatever the profile says.
    value = "off" if new is None else f"{new:.15g}" if isinstance(new, float) else new
    return f"{flag} {value}"


def differences(first: Ranking, second: Ranking) -> list[tuple[str, str, str]]:
    """Return the name and both values of each parameter in which two rankings differ.

    What tells most comes first, what changes nothing last, with the reason behind its value.
    """
    order, differing = [*words.PARAMETER_WORDS], compare_settings(first, second)
    differing.pop("profile", None)
    used = {stage for stage in Stage for one in (first, second) if runs(one, stage)}
    unused: dict[str, str] = {one: words.step_name(one) for one in Stage if one not in used}
    if Fusion.RRF not in (first.fusion, second.fusion):
        unused["rrf_k"] = words.WORDS["fusion"][Fusion.RRF]

    def written(key: str, value: object) -> str:
        if key == "stages":
            return ", ".join(words.step_name(Stage(stage)) for stage in str(value).split(", "))
        if isinstance(value, float) and key.startswith("context."):
            return words.exact(value)
        return value_words(value) or "none"

    rows = []
    for key in sorted(differing, key=lambda key: (key.split(".")[0] in unused, order.index(key))):
        was, now = (written(key, value) for value in differing[key])
        method = unused.get(key.split(".")[0])
        idle = f"{IDLE}{method}" if method else ""
        rows.append((words.PARAMETER_WORDS[key], was, now + idle))
    return rows


def value_words(value: object) -> str:
    """A value of a parameter, with as many decimals as it has."""
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    if not isinstance(value, int | float):
        return words.VALUE_WORDS.get(str(value), safe_line(str(value)))
    return words.short_number(value, 9)


def _moved(change: Change) -> str:
    unit = " d" if change.parameter is Parameter.HALF_LIFE else ""
    return f"{value_words(change.old)} → {value_words(change.new)}{unit}"


def _words_section(explained: Explained) -> Section:
    """The queries that show the chunk, each searched for, and how many were tried."""
    columns = (Column("words"), Column("rank", right=True), Column("query"))
    section, k = Section(SectionId.WORD_CHANGES, "other words"), explained.ranking.k
    if (changes := explained.words) is None:
        return section
    tried = words.count(changes.tried, "changed query", "changed queries")
    note = f"no word that was tried brings it into the list ({tried})"
    if changes.reason is not Reason.OK:
        why = words.WORDS["changed_query"].get(changes.reason, words.reason_words(changes.reason))
        note = f"not known: {why} while trying" if changes.tried else f"not tried: {why}"
    elif changes.changes:
        note = f"each was searched: {tried} tried"
    rows, title = [], section.title
    for one in changes.changes:
        if one.filters:
            title = f"{section.title}, {change_words(replace(one, added=(), removed=()))}"
        changed = change_words(replace(one, filters=())) or "no other change"
        rank = words.rank(one.rank_after) + f" > {k}" * (one.rank_after > k)
        rows.append(Row((changed, rank, one.query)))
    return replace(section, title=title, columns=columns, rows=tuple(rows), notes=(note,))


def _passages_section(passages: Passages | None) -> Section:
    """The passages nearest to the query, marked as what they are: an illustration."""
    columns = (Column("cosine", right=True), Column("passage"))
    section = Section(SectionId.PASSAGES, "nearest passages")
    if passages is None:
        return section
    model = f" by {passages.model}" if passages.model else ""
    note = f"an illustration{model}: the vector of the whole chunk ranks, not these"
    if not passages.found:
        why = words.reason_words(passages.reason) if passages.reason is not Reason.OK else "none"
        note = f"no passages: {why}"
    quoted = ((one.cosine, passages.text[one.start : one.end].split()) for one in passages.found)
    rows = tuple(Row((words.score(cosine), " ".join(text))) for cosine, text in quoted)
    return replace(section, columns=columns, rows=rows, notes=(note,))
