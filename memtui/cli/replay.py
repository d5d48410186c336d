"""`memtui replay`: what the agent asked its memory, asked again of the present index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.cli.searching import stale_warning
from memtui.cli.session import Session, open_reading
from memtui.cli.sessions import named
from memtui.errors import IndexMissing, SettingsError
from memtui.model import IndexState, Ranking
from memtui.model.conversations import MemoryCall, Replayed
from memtui.report.conversations import coverage_note, replay_lines, searches
from memtui.report.documents import plain

EXIT_OK, EXIT_NOTHING = 0, 1


@dataclass(slots=True)
class _Counts:
    """How the searches fared."""

    found: int = 0
    asked: int = 0
    same: int = 0
    changed: int = 0
    unrecorded: int = 0
    """What came back then is not known."""
    failed: int = 0

    def take(self, replayed: Replayed) -> None:
        self.asked += 1
        match verdict(replayed):
            case "failed":
                self.failed += 1
            case "unrecorded":
                self.unrecorded += 1
            case "same":
                self.same += 1
            case _:
                self.changed += 1


def verdict(replayed: Replayed) -> str:
    """`same`, `changed`, `unrecorded` (what came back then is not known) or `failed`."""
    if replayed.problem:
        return "failed"
    if replayed.call.returned is None:
        return "unrecorded"
    return "same" if replayed.is_same else "changed"


def run_replay(invocation: Invocation, name: str | None, options: Mapping[str, Any]) -> int:
    """Ask every search again and print what has changed; 1 when there is nothing to print."""
    if options["jsonl"] and invocation.json:
        raise SettingsError("--json and --jsonl exclude each other")
    output = invocation.output()
    with open_reading(invocation, options["now"]) as session:
        warnings = _ready(session)
        ranking = session.ranking()
        calls = _calls(session, name, invocation, output)
        sources = session.engine.conversations.sources()
        counts = _Counts(found=len(calls))
        calls = calls[: options["limit"]]
        shown = _shown(session, calls, ranking, counts, options)
        warnings += [*session.warnings(ranking), *coverage_note(sources)]
        if invocation.json:
            replays = [_entry(replayed) for replayed in shown]
            document = {"replays": replays, "counts": plain(counts), "ranking": ranking}
            output.document({**document, "warnings": warnings})
            return EXIT_OK if replays else EXIT_NOTHING
        for warning in warnings:
            output.note(f"memtui: {warning}")
        printed = _print(output, shown, as_records=options["jsonl"])
    if not options["jsonl"]:
        output.note(_summary(counts))
    return EXIT_OK if printed else EXIT_NOTHING


def _ready(session: Session) -> list[str]:
    """What should be known before; raises `IndexMissing` when there is nothing to ask."""
    status = session.status()
    if status.state is IndexState.NO_INDEX:
        message = f"{session.workspace.root} has no index yet"
        raise IndexMissing(message, hint="`memtui index` makes one")
    stale = stale_warning(status)
    return [stale] if stale else []


def _calls(
    session: Session, name: str | None, invocation: Invocation, output: Output
) -> Sequence[MemoryCall]:
    paths = None
    if name is not None:
        paths = [named(session.engine, name, invocation).path]
    found = 0

    def told(calls: Sequence[MemoryCall]) -> None:
        nonlocal found
        found += len(calls)
        output.progress(f"reading conversations: {searches(found)} so far")

    calls = session.engine.conversations.memory_calls(paths, found=told)
    output.progress("")
    return calls


def _shown(
    session: Session,
    calls: Sequence[MemoryCall],
    ranking: Ranking,
    counts: _Counts,
    options: Mapping[str, Any],
) -> Iterator[Replayed]:
    """Ask one after the other; with `--changed` those alone that give something else now."""
    from memtui.engine.conversations.replay import without_limit

    for call in calls:
        asked = without_limit(call) if options["k"] is not None else call
        replayed = replace(session.engine.conversations.replay(asked, ranking=ranking), call=call)
        counts.take(replayed)
        if not options["changed"] or verdict(replayed) == "changed":
            yield replayed


def _print(output: Output, shown: Iterator[Replayed], *, as_records: bool) -> int:
    printed = 0
    for replayed in shown:
        if as_records:
            output.record(_entry(replayed))
        else:
            if printed:
                output.line()
            for line in replay_lines(replayed, output.width()):
                output.line(output.clean(line))
        printed += 1
    return printed


def _entry(replayed: Replayed) -> dict[str, Any]:
    return {"verdict": verdict(replayed), **plain(replayed)}


def _summary(counts: _Counts) -> str:
    if not counts.found:
        return "memtui: no search of the memory is recorded in these conversations"
    named_counts = (
        (counts.changed, "changed"),
        (counts.same, "the same"),
        (counts.unrecorded, "without a record of what came back"),
        (counts.failed, "that could not be asked"),
    )
    parts = [f"{count} {what}" for count, what in named_counts if count]
    return f"{searches(counts.asked)} of {counts.found}: {', '.join(parts)}"
