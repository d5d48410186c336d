"""Which calls of tools are searches of a memory: told by the tool's name and its arguments.

No list can know every tool. A call counts when its name says both that it searches and that what
it searches is a memory, or the server it belongs to is one, and its arguments hold a query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from memtui.memory.transcripts.turns import parsed_arguments

_VERBS: Final = frozenset(
    {"search", "vsearch", "query", "recall", "find", "retrieve", "lookup", "searching"}
)
_MEMORIES: Final = frozenset(
    {
        *("memory", "memories", "mem", "mem0", "openmemory", "supermemory", "memento"),
        *("memtui", "qmd", "obsidian", "zep", "letta", "graphiti", "cognee", "memgpt", "memini"),
        *("hindsight", "honcho", "byterover"),
    }
)
"""In the name of a tool or of its server."""
_MACHINES: Final = frozenset(
    {
        *("profiler", "heap", "leak", "leaks", "usage", "gdb", "lldb", "ghidra", "ida", "radare2"),
        *("debugger", "process", "ram", "kernel", "cheat", "cheatengine", "x64dbg", "windbg"),
    }
)
"""With one of these a memory is that of a computer."""
_KEEPERS: Final = frozenset(
    {"notes", "note", "knowledge", "kb", "vault", "journal", "conversation", "conversations"}
)
"""In the name of a server, or of a tool that belongs to none: elsewhere they mean other things."""
_WITH_KEEPERS: Final = frozenset(
    {
        *("mcp", "server", "plugin", "api", "local", "my", "user", "personal", "private", "daily"),
        *("base", "graph", "rag", "archive", "store", "index", "manager", "agent", "md"),
        *("markdown", "apple", "bear", "joplin", "logseq", "second", "brain", "past", "history"),
        *("hybrid", "semantic", "vector", "full", "text", "fulltext", "keyword", "simple", "deep"),
        *("all", "in", "the", "by", "for", "from", "of", "get", "list", "claude", "codex"),
    }
)
"""Beside a keeper; every other word says whose they are: `release-notes`, `slack_conversations`."""
_OTHERS: Final = frozenset(
    {
        # what is searched is something else
        *("web", "internet", "code", "grep", "file", "files", "symbol", "symbols", "tool", "tools"),
        *("documentation", "docs", "api", "library", "libraries", "image", "images"),
        *("secret", "secrets"),
        # the memory is written
        *("add", "create", "update", "delete", "remove", "write", "save", "store", "insert"),
        *("set", "put", "edit", "append", "replace", "move", "rename", "forget", "clear"),
    }
)
_QUERIES: Final = (
    *("query", "q", "search_query", "searchQuery", "queries", "question", "search", "text"),
    *("searches", "search_text", "term", "terms", "keywords", "informationToGet"),
)
"""What tools call their query, the most usual first."""
_SERVER_ENDS: Final = re.compile(r"(?P<server>.+)(?:__|[./:])(?P<tool>[^./:]+?)\Z", re.DOTALL)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+")
_LONGEST_NAME: Final = 200


def is_memory_search(tool: str, arguments: Mapping[str, Any] | str) -> str | None:
    """The query of a call that searches a memory; `None` for every other call.

    `tool` is the whole name as the program writes it (`memory_search`, `mcp__server__tool`,
    `server__tool`, `server.tool`); arguments may be the text of a JSON object.
    """
    if not _searches_memory(tool):
        return None
    given = parsed_arguments(arguments)
    if not isinstance(given, dict):
        return None
    return next((text for name in _QUERIES if (text := _query(given.get(name)))), None)


def query_name(arguments: Mapping[str, Any]) -> str:
    """The name of the argument that holds the query; empty when none does."""
    return next((name for name in _QUERIES if _query(arguments.get(name))), "")


def _searches_memory(name: str) -> bool:
    if not name or len(name) > _LONGEST_NAME:
        return False
    parts = _SERVER_ENDS.match(name)
    tool = _words(parts["tool"] if parts else name)
    server = _words(parts["server"].removeprefix("mcp__")) if parts else frozenset()
    if not tool & _VERBS or tool & _OTHERS or (tool | server) & _MACHINES:
        return False
    if (tool | server) & _MEMORIES or tool == {"recall"}:
        return True
    keeper = server or tool
    return bool(keeper & _KEEPERS) and keeper <= _KEEPERS | _WITH_KEEPERS | _VERBS


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORDS.findall(name))


def _query(value: object) -> str:
    """A query, or several joined by spaces: of texts, or of objects that hold one each."""
    if isinstance(value, str):
        return value if value.strip() else ""
    if not isinstance(value, list):
        return ""
    parts = [item.get("query") if isinstance(item, dict) else item for item in value]
    return " ".join(part for part in parts if isinstance(part, str) and part.strip())
