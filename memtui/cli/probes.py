"""`memtui status --deep`: what every part says when it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memtui.cli.session import Session
from memtui.embedding.choice import choice_of
from memtui.engine.doctor.checks import Grade, answer_words, database_checks
from memtui.engine.providers.service import probe
from memtui.errors import MemtuiError
from memtui.index.generations import IndexFolder


@dataclass(frozen=True, slots=True)
class Probe:
    """What one part said."""

    name: str
    works: bool
    detail: str
    hint: str = ""


def probe_all(session: Session) -> tuple[Probe, ...]:
    """Embed a word, load sqlite-vec, query the full-text index, check the database file."""
    folder = IndexFolder(Path(session.engine.index.status().index_dir))
    of_index = (
        Probe(check.name, check.grade is not Grade.PROBLEM, check.detail, check.hint)
        for check in database_checks(folder)
    )
    return (_probe_provider(session), *of_index)


def _probe_provider(session: Session) -> Probe:
    try:
        result = probe(choice_of(session.loaded.settings.embedding))
    except MemtuiError as error:
        return Probe("provider", False, error.message, error.hint)
    model = f"{result.name} {result.model}: " if result.model else ""
    said = answer_words(result) if result.works else result.detail
    return Probe("provider", result.works, f"{model}{said}", result.hint)
