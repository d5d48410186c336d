"""The state of an index and of its provider in words and sections, wherever it is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from memtui.engine.ports import RebuildCost
from memtui.model import (
    IndexState,
    IndexStatus,
    Leg,
    LegState,
    LegStatus,
    ProviderListing,
    ProviderState,
    Reason,
    SkippedFile,
    SyncStats,
    Usage,
)
from memtui.model.status import FileState, Finding, ForeignStatus, Truth
from memtui.report import words
from memtui.report.layout import LABELLED, Column, Row, Section, Tone
from memtui.text.sanitize import listed, safe_line, size_words

HERE: Final = "this computer"
"""The destination of text that is sent nowhere."""
LOOKS_FOR: Final = words.WORDS["notes_folder"]["looks_for"]
SHOWN_FILES: Final = 20
"""So many changed files are named to people; `--json` has all."""


def brief(text: str) -> str:
    """Return a text from outside as one line of at most 400 characters."""
    line = safe_line(text[:800])
    return line if len(line) <= 400 else line[:400] + "…"


def place_words(address: str, *, remote: bool = False) -> str:
    """Return where text goes: `this computer`, or a host."""
    return brief(address) or ("a host not known yet" if remote else HERE)


def sent_words(cost: RebuildCost) -> str:
    """Return how much has to be embedded, and where: `~33 k tokens to api.openai.com`."""
    place = place_words(cost.address, remote=cost.remote)
    to = "on" if place == HERE else "to"
    return f"~{words.rounded(cost.tokens_estimate)} tokens {to} {place}"


def withheld_words(withheld: Sequence[SkippedFile]) -> str:
    """Return which chunks are not sent because they hold a credential, and what sends them."""
    named = listed([brief(chunk.path) for chunk in withheld], SHOWN_FILES)
    counted = words.count(len(withheld), "chunk", after=" with a credential")
    return f"{counted}: {named} (embedding.send_credentials sends them)"


def unread_words(status: IndexStatus) -> str:
    """Return how many chunks have no vector because of their script, and which model reads more."""
    counted = words.count(status.unread, "chunk", after=" in a script")
    maker, _, model = status.made_by.partition("/")
    text = f"{counted} that {model or 'the model'} does not read: found by words"
    reads_more = "use-multilingual"
    is_other = reads_more not in (maker, status.provider.actual)
    return f"{text} (the provider {reads_more} reads sixteen languages)" if is_other else text


def provider_summary(provider: ProviderState, whose: str) -> str:
    """Return who was asked for and who answers, in one line."""
    if provider.actual is None:
        return f"none, keyword search alone ({provider.detail or provider.state})"
    requested = words.WORDS["requested"][whose].format(provider.requested)
    before = f"{provider.requested} -> " if is_fallback(provider) else ""
    after = "" if before or provider.requested == provider.actual else requested
    return f"{before}{provider.actual} makes the vectors{after}"


def why(provider: ProviderState) -> str:
    """Return how the requested provider failed, in as few words as there are."""
    if provider.failure is not None:
        return words.WORDS["failure"][provider.failure]
    return brief(provider.cause) or words.reason_words(provider.state)


def is_fallback(provider: ProviderState) -> bool:
    """Return whether another provider answers because the requested one failed."""
    return provider.state is Reason.FALLBACK and bool(provider.actual)


def fallback_note(provider: ProviderState) -> str:
    """Return who makes the vectors instead of whom, and why, in one line."""
    actual, requested = brief(provider.actual or ""), brief(provider.requested)
    return f"vectors by {actual}, not {requested}: {why(provider)}"


def vectors_note(
    legs: Mapping[Leg, LegState], provider: ProviderState | None, *, full: bool = False
) -> str:
    """Return a note for a list whose vectors another provider made; else nothing.

    Nothing either where the leg itself says that it did not answer. `full` tells what to do, too.
    """
    vector = legs.get(Leg.VECTOR)
    if provider is None or provider.actual is None:
        return ""
    if vector is not None and vector.reason is Reason.NO_VECTORS:
        actual = brief(provider.actual)
        return f"vectors: none ({brief(vector.detail)}); `memtui index` makes those of {actual}"
    if vector is not None and vector.status is not LegStatus.OK:
        return ""
    maker = vector.facts.get("provider") if vector is not None else None
    if isinstance(maker, str) and maker != provider.actual:
        return f"vectors by {brief(maker)} until those by {brief(provider.actual)} are there"
    if provider.state is not Reason.FALLBACK:
        return ""
    because = f"vectors by {brief(provider.actual)}, because {brief(provider.detail)}"
    return because if full else fallback_note(provider)


def provider_change(status: IndexStatus) -> str:
    """Return what differs between the live index and the provider it is to be built anew for.

    `index is for minilm, openai is chosen`; empty while nothing differs.
    """
    provider = status.provider
    is_open = status.state in (IndexState.INDEXING, IndexState.STALE)
    if not is_open or not provider.differs_from(status.made_by):
        return ""
    made_by, _, model = status.made_by.partition("/")
    indexed, chosen = made_by, provider.actual
    if made_by == provider.actual:
        indexed, chosen = model, provider.model
    return f"index is for {brief(indexed)}, {brief(chosen or '')} is chosen"


def listing_words(listing: ProviderListing) -> str:
    """Return the state of a provider, as far as a check tells: `ready`, `no key`.

    Whether a service works is only known once it was asked.
    """
    if listing.failure is not None:
        return words.WORDS["failure"][listing.failure]
    ready = "untried" if listing.remote or listing.address else "ready"
    return ready if listing.works else "not ready"


def providers_section(listings: Sequence[ProviderListing], requested: str, cells: int) -> Section:
    """Return the providers, models in so many cells; below each its part, what it has or lacks."""
    columns = (
        Column("PROVIDER", width=17),
        Column("STATE", width=14),
        Column("MODEL", width=33),
        Column("DIMS", right=True, width=6),
        Column("TEXT GOES TO"),
    )
    rows = []
    for listing in listings:
        name = words.padded(listing.name, 16)
        model = words.ending(listing.model or "-", cells)
        dimensions = "-" if listing.dimensions is None else str(listing.dimensions)
        address = listing.address or ("a service" if listing.remote else HERE)
        rows.append(Row((name, listing_words(listing), model, dimensions, address)))
        is_auto = requested != listing.name
        roles = {
            f"requested ({requested})" if is_auto else "requested": listing.is_requested,
            "in use": listing.is_actual,
            "fallback": listing.is_fallback,
        }
        role = ", ".join(word for word, is_it in roles.items() if is_it)
        hint = f" ({listing.hint})" if listing.hint else ""
        detail = f"{f'{role}: ' if role else ''}{listing.detail}{hint}"
        rows.append(Row(("", detail), tone=Tone.MUTED))
    return Section("providers", "embedding providers", columns, tuple(rows))


def model_words(model: str | None, dimensions: int | None) -> str:
    """Return a model with its dimensions: `text-embedding-3-small  1536 d`."""
    length = f"{dimensions} d" if dimensions else ""
    return "  ".join(filter(None, (brief(model or ""), length)))


def usage_words(usage: Usage) -> str:
    """Return how much was asked of a provider; `~` before tokens counted by length."""
    about = "~" if usage.estimated else ""
    parts = words.count(usage.requests, "request"), words.count(usage.texts, "text")
    return ", ".join((*parts, about + words.count(usage.tokens, "token")))


def cost_words(cost: RebuildCost) -> str:
    """Return what embedding everything that is not in the cache takes."""
    tokens = f"~{words.count(cost.tokens_estimate, 'token')} to embed"
    if cost.tokens_estimate and cost.price != 0:
        tokens += f", {price_words(cost.price, cost.currency, cost.as_of)}"
    if not cost.chunks:
        return tokens
    cached = f"{words.count(cost.cached, 'vector')} from the cache"
    return f"{words.count(cost.chunks, 'chunk')}, {cached}, {tokens}"


def price_words(price: float | None, currency: str = "", as_of: str = "") -> str:
    """Return a sum in words: `about 0.03 USD (list price of 2026-11)`, `price not known`.

    `None` is unknown, which is not free. `currency` is empty for the user's own price, `as_of`
    (the day or month of the price list) for all but list prices.
    """
    if price is None:
        return "price not known"
    if not price:
        return "nothing is charged"
    about = f"about {price:,.2f}" if price >= 0.01 else f"about {price:.4f}"
    if price < 0.0001:
        about = "less than 0.0001"
    return f"{about} {currency}".rstrip() + (f" (list price of {as_of})" if as_of else "")


def tone_of(state: str) -> Tone:
    """Return the tone of the state of an index, its files or vectors, or of a severity."""
    return Tone(words.WORDS["tone"].get(str(state), Tone.WARN))


def status_sections(status: IndexStatus, now: datetime | None = None) -> Iterator[Section]:
    """Yield what there is to know of an index: its facts, then what is waiting or wrong.

    With `now`, times are told as ages.
    """
    foreign = status.foreign
    if foreign is not None:
        yield _section("index", _agent_rows(status, foreign))
        yield _section("technical", _agent_technical_rows(status, foreign))
        if foreign.truth is not None:
            yield from _truth_sections(foreign.truth)
        return
    yield _section("index", _index_rows(status, now))
    leaving = {path: f"to be taken out: {path} ({why})" for path, why in status.removals.items()}
    pending = [leaving.get(path, path) for path in status.pending]
    skipped = [f"{file.path}: {skipped_words(file)}" for file in status.skipped]
    errors = [f"{time_words(one.at, now)} {one.where}: {one.message}" for one in status.errors]
    for name, label, texts, tone in (
        ("pending", "waiting", pending, Tone.PLAIN),
        ("skipped", "skipped", skipped, Tone.PLAIN),
        ("errors", "error", errors, Tone.ERROR),
        ("warnings", "warning", status.warnings, Tone.WARN),
    ):
        if texts:
            yield _section(name, (Row((label, text), tone=tone) for text in texts))
    yield _section("technical", _technical_rows(status))


def _section(name: str, rows: Iterable[Row]) -> Section:
    return Section(name, name, LABELLED, tuple(rows))


def _index_rows(status: IndexStatus, now: datetime | None) -> Iterator[Row]:
    state, provider, watcher = state_words(status.state), status.provider, status.watcher
    whose = "other" if status.has_other_writer else "command" if now is None else "screen"
    # What degraded it stands beside the provider.
    if status.state is not IndexState.DEGRADED and (detail := brief(state_detail(status))):
        state += f" ({detail})"
    yield Row(("state", state), tone=tone_of(status.state))
    yield Row(("memory", status.root))
    by_words = status.unread + len(status.withheld)
    only = f" ({words.count(by_words)} found by words only)" if by_words else ""
    yield Row(("holds", held_words(status, "vector", only)))
    if status.conversations:
        runs = {name: f" ({words.WORDS['sources'][run]})" for name, run in status.for_run.items()}
        counts = [
            f"{one.source}{runs.get(one.source, '')} {words.count(one.files, 'conversation')}"
            for one in status.conversations
        ]
        keys = words.WORDS["sources"]["screen"] * (whose == "screen")
        yield Row(("sources", ", ".join(counts) + keys))
    if status.has_other_writer:
        keeps = words.WORDS["writer"]["command" if now is None else "screen"]
        yield Row(("kept by", keeps.format(status.writer)), tone=Tone.WARN)
    tone = Tone.WARN if provider.actual is None or is_fallback(provider) else Tone.PLAIN
    summary = provider_change(status) or provider_summary(provider, whose)
    yield Row(("provider", summary), tone=tone)
    if provider.actual is not None and provider.detail:
        yield Row(("why", brief(provider.cause)))
    if provider.failure is not None:
        yield Row(("failure", words.WORDS["failure"][provider.failure]))
    if provider.hint:
        yield Row(("next step", provider.hint))
    if provider.actual is not None:
        place = place_words(provider.address, remote=provider.remote)
        here = "" if provider.remote else ", on this machine"
        yield Row(("text", f"stays on {HERE}" if place == HERE else f"goes to {place}{here}"))
    if status.unread:
        yield Row(("not read", unread_words(status)), tone=Tone.WARN)
    if status.withheld:
        yield Row(("not sent", withheld_words(status.withheld)), tone=Tone.WARN)
    detail = f" ({watcher.detail})" if watcher.detail else ""
    event = watcher.last_event if now is not None else None
    event_age = f", last event {words.ago(event, now)}" if event is not None else ""
    follows = words.WORDS["watcher"]["other" if status.has_other_writer else watcher.mode]
    yield Row(("changes", f"{follows}{detail}{event_age}"))
    if status.last_sync is not None:
        yield Row(("last sync", last_sync_words(status.last_sync, now)))
    if status.usage.requests and provider.remote:
        yield Row(("usage", usage_words(status.usage)))


def _technical_rows(status: IndexStatus) -> Iterator[Row]:
    provider = status.provider
    yield Row(("index", status.index_dir))
    if not status.generation:
        return
    yield Row(("generation", f"{words.count(status.generation)} (the number in its file's name)"))
    if provider.actual is not None:
        stored = f", index: {brief(status.made_by)}" if provider_change(status) else ""
        yield Row(("model", model_words(provider.model, provider.dimensions) + stored))
    if provider.actual is not None and status.vectors:
        backend = status.vector_backend
        yield Row(("vectors", words.WORDS["backend"].get(backend, backend)))
    if status.pieces:
        pieces = f"{words.count(status.pieces, 'chunk')}, {size_words(status.piece_bytes)}"
        pieces = f"word pieces of {pieces} (a vector for each word, to compare word by word)"
        yield Row(("pieces", pieces))
    yield Row(("tokenizer", status.tokenizer))
    if (stats := status.last_sync) is not None:
        written = words.count(stats.chunks_written, "chunk", after=" written")
        hits = words.count(stats.cache_hits, "cache hit")
        yield Row(("synced", f"{written}, {words.count(stats.chunks_embedded)} embedded, {hits}"))


def state_words(state: IndexState | FileState) -> str:
    """Return a state as words: `no index`."""
    return state.value.replace("_", " ")


def state_detail(status: IndexStatus) -> str:
    """Return what a state means just now: `2 files waiting`; empty where there is no more to say.

    The text is as it was found.
    """
    foreign, provider, progress = status.foreign, status.provider, status.progress
    if foreign is not None and foreign.examining:
        return "checking…"
    match status.state:
        case IndexState.INDEXING if progress is not None:
            left = f", {words.duration(progress.eta)} left" if progress.eta is not None else ""
            done = f"{words.count(progress.done)} of {words.count(progress.total)}"
            return f"{done} {progress.phase}{left}"
        case IndexState.STALE if change := provider_change(status):
            return change
        case IndexState.STALE if foreign is not None:
            return words.count(status.pending_count, "file", after=" drifted")
        case IndexState.STALE:
            lacking = status.without_vector if provider.model is not None else 0
            nouns = "chunk waits for a vector", "chunks wait for vectors"
            waiting = {
                words.count(status.pending_count, "file", after=" waiting"): status.pending_count,
                f"{words.count(len(status.removals))} of them to be taken out": status.removals,
                words.count(lacking, *nouns): lacking > 0,
            }
            return ", ".join(text for text, is_so in waiting.items() if is_so)
        case IndexState.NO_INDEX if status.pending_count:
            return words.count(status.pending_count, "file", after=" to read")
        case IndexState.DEGRADED if foreign is not None:
            findings = foreign.truth.findings if foreign.truth is not None else ()
            return finding_title(findings[0]).lower() if findings else ""
        case IndexState.DEGRADED if is_fallback(provider):
            return fallback_note(provider)
        case IndexState.DEGRADED:
            return f"keyword only: {provider.detail or words.reason_words(provider.state)}"
        case IndexState.ERROR if status.errors:
            return status.errors[-1].message
        case IndexState.READY | IndexState.NO_INDEX if foreign is None and not status.files:
            return f"no notes; {LOOKS_FOR}"
        case _:
            return ""


def present_errors(status: IndexStatus) -> int:
    """Return how many errors came since the last sync began: those before it are history."""
    stats = status.last_sync
    began = stats.finished_at - timedelta(seconds=stats.seconds) if stats is not None else None
    return sum(began is None or error.at >= began for error in status.errors)


def held_words(status: IndexStatus, vector: str, after: str = "") -> str:
    """Return how much the index holds: `2 files, 7 chunks, 7 vectors`."""
    counts = {"file": status.files, "chunk": status.chunks, vector: status.vectors}
    return ", ".join(words.count(number, noun) for noun, number in counts.items()) + after


def agent_gets_words(foreign: ForeignStatus | None) -> str:
    """Return what the agent gets in place of what is shown here; empty while that is the same."""
    if foreign is None or foreign.agent_gets in (None, "same"):
        return ""
    gets = words.WORDS["agent_gets"]
    return gets.get(foreign.agent_gets_because or "", gets["paused"])


def finding_title(finding: Finding) -> str:
    """Return the code of a finding as words: `Mixed models`."""
    return finding.code.replace("_", " ").capitalize()


def skipped_words(file: SkippedFile) -> str:
    return file.detail or words.reason_words(file.reason)


def time_words(when: datetime, now: datetime | None) -> str:
    """Return an age where there is a clock to count it from, else the time itself."""
    return f"{when:%Y-%m-%d %H:%M:%S}" if now is None else words.ago(when, now)


def changes_words(stats: SyncStats) -> str:
    """Say what a sync did with files, else how many vectors it made: `1 added, 2 changed`."""
    counts = {word: getattr(stats, f"files_{word}") for word in ("added", "changed", "removed")}
    parts = [f"{words.count(number)} {word}" for word, number in counts.items() if number]
    vectors = words.count(stats.chunks_embedded, "vector") if stats.chunks_embedded else ""
    return ", ".join(parts) or vectors or "no change"


def last_sync_words(stats: SyncStats, now: datetime | None = None) -> str:
    """Return when the last sync of this process ended, and how long it took; with ages what it did.

    `3 s ago: 1 added, 2 changed, 41 ms`.
    """
    did = f": {'rebuild, ' if stats.rebuild else ''}{changes_words(stats)}" if now else ""
    return f"{time_words(stats.finished_at, now)}{did}, {words.duration(stats.seconds)}"


def _agent_rows(status: IndexStatus, foreign: ForeignStatus) -> Iterator[Row]:
    given = f"{foreign.given_vectors}; each must be" if foreign.given_vectors else "need vectors"
    queries = f"{given} of {foreign.query_vectors}"
    if status.provider.actual == "none" or status.provider.model == "fts-only":
        queries = "by keywords alone: the index has no vectors"
    yield Row(("state", state_words(status.state)), tone=tone_of(status.state))
    yield Row(("agent", foreign.agent or "not known"))
    yield Row(("memory", status.root or "the workspace is not known: --root FOLDER names it"))
    yield Row(("profile", f"{foreign.profile}: {foreign.chosen_because}"))
    yield Row(("queries", queries))
    yield Row(("holds", held_words(status, "row", " in the vector table")))


def _agent_technical_rows(status: IndexStatus, foreign: ForeignStatus) -> Iterator[Row]:
    yield Row(("index", status.index_dir))
    yield Row(("", f"{words.WORDS['generation'][foreign.generation]}, read-only"))
    yield Row(("program", foreign.app_version or "its version is not written in the index"))
    yield Row(("tokenizer", status.tokenizer or "none"))
    if (truth := foreign.truth) is not None:
        whole = Tone.OK if truth.integrity == "ok" else Tone.ERROR
        yield Row(("integrity", truth.integrity), tone=whole)
        yield Row(("vectors", truth.vector_state), tone=tone_of(truth.vector_state))
        yield Row(("reads", truth.database_read))


def _truth_sections(truth: Truth) -> Iterator[Section]:
    """Yield what the index says of itself, its files and vectors, and what is wrong with it."""
    width = max((words.cells_of(field.name) for field in truth.identity), default=0)
    tones = {True: Tone.OK, False: Tone.ERROR, None: Tone.MUTED}
    identity = []
    for field in truth.identity:
        text = "not stored" if field.stored is None else field.stored
        expected = "" if field.expected is None else f", expected {field.expected}"
        if field.agrees is None:
            text += f"{expected}, not compared"
        else:
            text = f"{text}, as expected" if field.agrees else f"DIFFERS: {text}{expected}"
        note = f" ({field.note})" if field.note else ""
        label = words.padded(field.name, width)
        identity.append(Row(("identity", f"{label}  {text}{note}"), tone=tones[field.agrees]))
    yield _section("identity", identity)

    counts = Counter(file.state for file in truth.files)
    listed = [f"{counts[state]:,} {state_words(state)}" for state in FileState if counts[state]]
    yield _section("files", [Row(("files", ", ".join(listed) or "not compared"))])
    drifted = []
    for file in truth.drifted[:SHOWN_FILES]:
        reason = f": {file.reason}" if file.reason else ""
        cells = (f"  {state_words(file.state)}", f"{file.path}{reason}")
        drifted.append(Row(cells, tone=tone_of(file.state)))
    left = len(truth.drifted) - SHOWN_FILES
    more = (f"  … and {left:,} more: --json names all",) if left > 0 else ()
    columns = (Column("state", width=16), Column("file"))
    yield Section("drifted", "drifted", columns, tuple(drifted), more)

    coverage = []
    for source in truth.coverage:
        total = "?" if source.on_disk is None else f"{source.on_disk:,}"
        chunks = words.count(source.chunks, "chunk")
        text = f"{source.source}: {source.indexed:,} indexed of {total} on disk, {chunks}"
        complete = source.on_disk in (None, source.indexed)
        coverage.append(Row(("coverage", text), tone=Tone.PLAIN if complete else Tone.WARN))
    for share in truth.models:
        size = f"{share.dimensions} dimensions" if share.dimensions else "no vector"
        text = f"{share.model or '?'}, {size}: {words.count(share.chunks, 'chunk')}"
        coverage.append(Row(("model", text), tone=Tone.PLAIN if share.dimensions else Tone.WARN))
    yield _section("coverage", coverage)

    yield _section("leftovers", [Row(("leftover", text)) for text in truth.leftovers])
    findings = (
        Row(
            (finding.severity.value, f"{finding_title(finding)}: {finding.message}"),
            tone=tone_of(finding.severity),
            names=finding.names,
            count=max(finding.count, len(finding.names)),
        )
        for finding in truth.findings
    )
    yield _section("findings", findings)
