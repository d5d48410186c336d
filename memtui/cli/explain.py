"""`memtui explain`: why one place is in a list or not, and what would bring it in."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memtui.cli.documents import file_states
from memtui.cli.invocation import Invocation
from memtui.cli.least import least_changes_of, word_changes_of
from memtui.cli.output import Output
from memtui.cli.search import EXIT_NOTHING, EXIT_OK, search
from memtui.cli.session import Session, open_reading
from memtui.errors import QueryError, SettingsError
from memtui.model import Ranked, Reason
from memtui.model.inquiry import Inquiry
from memtui.report import words
from memtui.report.documents import document_text, explanation_document, search_entry
from memtui.report.explanation import Explained, report_of
from memtui.report.export import Format, exported, format_of, save
from memtui.report.layout import Layout

_BOLD = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """What an explanation is written as, and where to; without a path to stdout."""

    format: Format
    path: Path | None
    force: bool


def run_explain(invocation: Invocation, query: str, options: Mapping[str, Any]) -> int:
    """Explain one place; 1 when there is no such result, or no such file."""
    asked = _asked(invocation, options)
    with open_reading(invocation, options["now"]) as session:
        ranked, warnings = search(session, query)
        output = invocation.output(raw=options["raw"])
        inquiry = _inquiry(session, ranked, options)
        if inquiry is None:
            found = words.count(len(ranked.hits), "result")
            missing = f"there is no rank {options['rank'] or 1}: the search has {found}"
            _nothing(output, asked, ranked, missing, warnings)
            return EXIT_NOTHING
        explained = _explained(session, ranked, inquiry, options, output)
        if asked.format is not Format.JSON:
            for warning in warnings:
                output.note(f"memtui: {warning}")
        _deliver(output, asked, session, explained, warnings)
    first = inquiry.first_failure
    is_there = inquiry.chunk is not None or first is None or first.reason is not Reason.NO_FILE
    return EXIT_OK if is_there else EXIT_NOTHING


def _asked(invocation: Invocation, options: Mapping[str, Any]) -> Asked:
    """Raises `SettingsError` for options that contradict each other."""
    chosen, given = options["format"], options["output"]
    if invocation.json and chosen not in {None, Format.JSON}:
        raise SettingsError(f"--json and --format {chosen} exclude each other")
    path = None
    if given is not None and given != "-":
        path = invocation.here() / os.path.expanduser(given)
    if options["force"] and path is None:
        raise SettingsError("--force needs --output FILE")
    if invocation.json:
        format_ = Format.JSON
    elif chosen is not None:
        format_ = Format(chosen)
    else:
        format_ = Format.TEXT if path is None else format_of(path)
    return Asked(format_, path, options["force"])


def _inquiry(session: Session, ranked: Ranked, options: Mapping[str, Any]) -> Inquiry | None:
    """What is known of the place that was named; `None` for a rank without a result."""
    if options["chunk"] is None:
        rank = options["rank"] or 1
        if rank > len(ranked.hits):
            return None
        return session.engine.explain.inquire(ranked, ranked.hits[rank - 1].chunk.id)
    from memtui.engine.places import parse_place

    place = parse_place(options["chunk"])
    if not place.path.strip() or place.line == 0:
        hint = "PATH, PATH:12 or PATH#L12; the first line is 1"
        raise QueryError(f"--chunk {options['chunk']!r} is not a place", hint=hint)
    return session.engine.explain.inquire_at(ranked, place)


def _explained(
    session: Session,
    ranked: Ranked,
    inquiry: Inquiry,
    options: Mapping[str, Any],
    output: Output,
) -> Explained:
    chunk, least, changes, passages = inquiry.chunk, None, None, None
    if chunk is not None:
        least = least_changes_of(session, ranked, chunk, inquiry, output)
        if options["words"] and not inquiry.shown:
            changes = word_changes_of(session, ranked, chunk, inquiry, output)
        if options["passages"]:
            passages = session.engine.explain.passages(ranked, chunk.id)
    return Explained(ranked, session.ranking(), inquiry, least, changes, passages)


def _deliver(
    output: Output, asked: Asked, session: Session, explained: Explained, warnings: Sequence[str]
) -> None:
    ui = session.loaded.settings.ui
    ascii_only = ui.glyphs == "ascii"
    if asked.path is None and asked.format is Format.TEXT:
        _print(output, explained, ascii_only)
        return
    if asked.format is Format.JSON:
        text = _json(session, explained, warnings)
    else:
        dark = _is_dark(ui.theme, output)
        text = exported(explained, asked.format, dark=dark, ascii_only=ascii_only)
    _write(output, asked, text)


def _print(output: Output, explained: Explained, ascii_only: bool) -> None:
    layout = Layout(output.clean, output.wrap_width(), ascii_only or not output.unicode)
    for line in layout.lines(report_of(explained)):
        output.line(output.styled(line.text, _BOLD) if line.strong else line.text)


def _json(session: Session, explained: Explained, warnings: Sequence[str]) -> str:
    status = session.engine.index.status()
    document = explanation_document(explained, states=file_states(status), warnings=warnings)
    document["provider_state"] = status.provider
    missing = _missing(explained)
    return document_text({**document, **({"missing": missing} if missing else {})}) + "\n"


def _missing(explained: Explained) -> str:
    """Why a place is not even a candidate, in words."""
    inquiry, pool = explained.inquiry, explained.ranked.pool
    assert inquiry is not None
    if inquiry.chunk is None:
        return f"the index holds no chunk at {inquiry.place}"
    if explained.explanation is None:
        return f"no leg found {inquiry.citation} among its first {pool.limit}"
    return ""


def _nothing(
    output: Output, asked: Asked, ranked: Ranked, missing: str, warnings: Sequence[str]
) -> None:
    """Say that there is nothing to explain; no file is written."""
    if asked.format is Format.JSON:
        output.document({**search_entry(ranked, warnings), "missing": missing})
        return
    for warning in warnings:
        output.note(f"memtui: {warning}")
    output.note(f"memtui: {missing}")


def _write(output: Output, asked: Asked, text: str) -> None:
    if asked.path is None:
        output.whole(text)
        return
    save(asked.path, text, force=asked.force)
    output.note(f"memtui: wrote {output.clean(str(asked.path))}")


def _is_dark(theme: str, output: Output) -> bool:
    """Whether pictures are dark: as the screen is, or would be."""
    if theme == "auto":
        return not output.light_background
    return "light" not in theme
