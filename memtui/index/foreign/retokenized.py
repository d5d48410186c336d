"""The same rows under another tokenizer: keyword tables in memory beside an index."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from memtui.index.foreign.layout import Layout

if TYPE_CHECKING:
    from memtui.index.database import Connection

_TABLE: Final = "memtui_retokenized"
_PATHS: Final = "memtui_retokenized_paths"
_TOKENIZE: Final = {
    "unicode61": "unicode61",
    "trigram": "trigram case_sensitive 0",
}


def retokenized(connection: Connection, layout: Layout, tokenizer: str) -> Layout:
    """Build a keyword table of the index's chunks with `tokenizer`, in this connection's memory.

    The rows go in by rowid, as the program's own rebuild has them. Nothing of the file changes;
    the table goes with the connection. Returns the layout that searches it. Raises `ValueError`
    for a tokenizer that no release offers.
    """
    if tokenizer not in _TOKENIZE:
        raise ValueError(f"{tokenizer!r} is no tokenizer of the agent's program")
    source = "source" if layout.chunks_have_source else "'memory'"
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_TABLE} USING fts5("
        "text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, "
        f"start_line UNINDEXED, end_line UNINDEXED, tokenize = '{_TOKENIZE[tokenizer]}')"
    )
    connection.execute(f"DELETE FROM temp.{_TABLE}")
    connection.execute(
        f"INSERT INTO temp.{_TABLE}(rowid, text, id, path, source, model, start_line, end_line) "
        f"SELECT rowid, text, id, path, {source}, model, start_line, end_line "
        f"FROM {layout.chunks} ORDER BY rowid"
    )
    paths = _retokenized_paths(connection, layout, tokenizer) if layout.paths_fts else None
    return replace(layout, fts=_TABLE, paths_fts=paths, fts_has_source=True, tokenizer=tokenizer)


def _retokenized_paths(connection: Connection, layout: Layout, tokenizer: str) -> str:
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_PATHS} USING fts5("
        f"path, source UNINDEXED, tokenize = '{_TOKENIZE[tokenizer]}')"
    )
    connection.execute(f"DELETE FROM temp.{_PATHS}")
    connection.execute(
        f"INSERT INTO temp.{_PATHS}(rowid, path, source) "
        f"SELECT rowid, path, source FROM {layout.files} ORDER BY rowid"
    )
    return _PATHS
