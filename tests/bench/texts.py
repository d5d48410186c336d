"""Texts and questions that people wrote, from a folder of data sets that is not in the repository.

`MEMTUI_BENCH_DATA` names the folder: `NAME_docs.jsonl.gz` of `{id, text}` and
`NAME_queries.jsonl.gz` of `{id, q, rel: {doc id: grade}}`, for conversations `NAME_turns.jsonl.gz`
of `{conv, id, text}` and queries of `{conv, q, ev: [turn ids]}`.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memtui.memory.workspace import demo_root

VARIABLE = "MEMTUI_BENCH_DATA"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the documents that answer it."""

    text: str
    relevant: Mapping[str, float]
    """Grade by the name of the document."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """Documents by name, and questions about them."""

    name: str
    documents: Mapping[str, str]
    questions: tuple[Asked, ...]


def data_folder() -> Path | None:
    """The folder of data sets; `None` where none is named or it is not there."""
    named = os.environ.get(VARIABLE, "")
    return Path(named) if named and Path(named).is_dir() else None


def data_sets(folder: Path) -> Iterator[DataSet]:
    """Read every data set of a folder, by name; a conversation's turns are its documents."""
    for path in sorted(folder.glob("*_queries.jsonl.gz")):
        name = path.name.removesuffix("_queries.jsonl.gz")
        queries = list(_lines(path))
        documents = path.with_name(f"{name}_docs.jsonl.gz")
        if documents.exists():
            texts = {row["id"]: row["text"] for row in _lines(documents)}
            yield DataSet(name, texts, tuple(Asked(row["q"], row["rel"]) for row in queries))
            continue
        turns = list(_lines(path.with_name(f"{name}_turns.jsonl.gz")))
        for conversation in sorted({row["conv"] for row in turns}):
            yield DataSet(
                f"{name} {conversation}",
                {row["id"]: row["text"] for row in turns if row["conv"] == conversation},
                tuple(
                    Asked(row["q"], dict.fromkeys(row["ev"], 1.0))
                    for row in queries
                    if row["conv"] == conversation
                ),
            )


def own_paragraphs() -> list[str]:
    """The paragraphs of the demo notes and of the notes in tests/data, without repetitions."""
    roots = (demo_root(), Path(__file__).parents[1] / "data")
    files = [path for root in roots for path in sorted(root.rglob("*.md"))]
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
    pieces = (piece.strip() for text in texts for piece in text.split("\n\n"))
    return list(dict.fromkeys(piece for piece in pieces if len(piece) >= 40))


def _lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
