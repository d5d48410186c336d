"""`memtui status` of an agent's index: what it really holds, against what it should hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from memtui.cli.foreign import open_foreign_session
from memtui.cli.invocation import Invocation
from memtui.model import IndexStatus
from memtui.model.status import FileState, FileTruth, ForeignStatus, IdentityField, Truth
from memtui.report import words
from memtui.report.documents import plain

SHOWN_FILES = 20
"""So many changed files are named to people; `--json` has all."""
_UNKNOWN = "?"


def run_foreign_status(invocation: Invocation) -> int:
    """Examine an agent's index and print the findings; 0 whatever they are.

    Raises `IndexMissing`, `IndexUnusable` (exit code 3) when it cannot be read.
    """
    output = invocation.output()
    with open_foreign_session(invocation, examine=False) as session:
        output.progress("comparing the index with its files, and with itself")
        session.engine.index.refresh_status()
        output.progress("")
        status = session.engine.index.status()
        warnings = session.loaded.warnings
    if invocation.json:
        document: dict[str, Any] = plain(status)
        document["warnings"] = [*warnings, *status.warnings]
        output.document(document)
        return 0
    for warning in warnings:
        output.note(f"memtui: {warning}")
    for line in foreign_status_lines(status):
        output.line(output.clean(line))
    return 0


def foreign_status_lines(status: IndexStatus) -> Iterator[str]:
    """The state in lines: which index it is, what it says of itself, what is wrong with it."""
    foreign = status.foreign
    if foreign is None:
        return
    yield f"state     {status.state.value.replace('_', ' ')}"
    yield from _which(status, foreign)
    truth = foreign.truth
    if truth is None:
        return
    yield f"integrity {truth.integrity}"
    yield f"vectors   {truth.vector_state}"
    yield f"reads     {truth.database_read}"
    yield from _identity(truth)
    yield from _files(truth)
    for coverage in truth.coverage:
        total = _UNKNOWN if coverage.on_disk is None else f"{coverage.on_disk:,}"
        yield (
            f"coverage  {coverage.source}: {coverage.indexed:,} indexed of {total} on disk, "
            f"{words.count(coverage.chunks, 'chunk')}"
        )
    for share in truth.models:
        size = f"{share.dimensions} dimensions" if share.dimensions else "no vector"
        yield f"model     {share.model or _UNKNOWN}, {size}: {words.count(share.chunks, 'chunk')}"
    for leftover in truth.leftovers:
        yield f"leftover  {leftover}"
    for finding in truth.findings:
        yield f"{finding.severity.value:<10}{finding.code}: {finding.message}"


def _which(status: IndexStatus, foreign: ForeignStatus) -> Iterator[str]:
    yield f"agent     {foreign.agent or 'not known'}"
    yield f"index     {status.index_dir}"
    yield f"          generation {foreign.generation.value}, opened {foreign.opened}"
    yield f"memory    {status.root or 'the workspace is not known: --root FOLDER names it'}"
    yield f"profile   {foreign.profile}: {foreign.chosen_because}"
    yield f"program   {foreign.app_version or 'its version is not written in the index'}"
    yield f"queries   {_queries(status, foreign)}"
    yield (
        f"holds     {words.count(status.files, 'file')}, {words.count(status.chunks, 'chunk')}, "
        f"{words.count(status.vectors, 'row')} in the vector table"
    )
    yield f"tokenizer {status.tokenizer or 'none'}"


def _queries(status: IndexStatus, foreign: ForeignStatus) -> str:
    if status.provider.actual == "none" or status.provider.model == "fts-only":
        return "by keywords alone: the index has no vectors"
    return f"need vectors of {foreign.query_vectors}"


def _identity(truth: Truth) -> Iterator[str]:
    width = max((words.cells_of(field.name) for field in truth.identity), default=0)
    for field in truth.identity:
        yield f"identity  {words.padded(field.name, width)}  {_field(field)}"


def _field(field: IdentityField) -> str:
    stored = "not stored" if field.stored is None else field.stored
    note = f" ({field.note})" if field.note else ""
    if field.agrees:
        return f"{stored}, as expected{note}"
    if field.agrees is None:
        expected = "" if field.expected is None else f", expected {field.expected}"
        return f"{stored}{expected}, not compared{note}"
    return f"DIFFERS: {stored}, expected {field.expected}{note}"


def _files(truth: Truth) -> Iterator[str]:
    counts = Counter(file.state for file in truth.files)
    listed = [
        f"{counts[state]:,} {state.value.replace('_', ' ')}" for state in FileState if counts[state]
    ]
    yield f"files     {', '.join(listed) or 'not compared'}"
    drifted = truth.drifted
    for file in drifted[:SHOWN_FILES]:
        yield f"  {file.state.value.replace('_', ' '):<14}{_file(file)}"
    if len(drifted) > SHOWN_FILES:
        yield f"  … and {len(drifted) - SHOWN_FILES:,} more: --json names all"


def _file(file: FileTruth) -> str:
    return f"{file.path}: {file.reason}" if file.reason else file.path
