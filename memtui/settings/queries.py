"""The queries that were asked of a memory before, as the terminal interface wrote them down."""

from __future__ import annotations

from typing import Final

from memtui.settings.state import StateFolder

MOST: Final = 500


def history_name(workspace: str) -> str:
    """The file's name in the state folder, by the id of the workspace."""
    return f"history-{workspace}.json"


def queries_in(folder: StateFolder, workspace: str) -> list[str]:
    """The queries of a workspace, newest first; what is missing or no query is left out."""
    value = folder.read_json(history_name(workspace))
    queries = value if isinstance(value, list) else []
    return [query for query in queries if isinstance(query, str) and query.strip()][:MOST]
