"""The states of the folders whose notes an index holds, kept in its meta table."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memtui.index.database import number
from memtui.index.schema import write_meta
from memtui.memory.discover import Scope
from memtui.memory.folders import FolderState

if TYPE_CHECKING:
    from memtui.index.database import Connection

KEY = "folders"
_FORM = 1

Folders = Mapping[str, FolderState]


def folders_of(connection: Connection, meta: Mapping[str, str], scope: Scope) -> Folders:
    """The folders that were as the index has them, with their states; none where that is unsure.

    That is where they were noted for another scope, or the index has lost or gained rows since.
    """
    try:
        noted = json.loads(meta.get(KEY, "{}"))
        if noted.get("scope") != _scope_key(scope):
            return {}
        if noted["files"] != number(connection, "SELECT count(*) FROM files"):
            return {}
        return {path: FolderState(*state) for path, state in noted["folders"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # Whatever stands there: every file is compared, and it is written anew.
        return {}


def note_folders(
    connection: Connection, meta: Mapping[str, str], scope: Scope, folders: Folders
) -> None:
    """Note what folders are like, all of whose notes the index holds as they are."""
    noted = {
        "scope": _scope_key(scope),
        "files": number(connection, "SELECT count(*) FROM files"),
        "folders": dict(sorted(folders.items())),
    }
    text = json.dumps(noted, ensure_ascii=False, separators=(",", ":"))
    if text != meta.get(KEY):
        write_meta(connection, {KEY: text})


def forget_folders(connection: Connection) -> None:
    """Note that the index may differ from the folders, because rows are about to change."""
    connection.execute("DELETE FROM meta WHERE key = ?", (KEY,))


def _scope_key(scope: Scope) -> str:
    owner = os.geteuid() if hasattr(os, "geteuid") else -1
    said = (
        _FORM,
        os.path.abspath(scope.root),
        scope.extra_paths,
        scope.ignore,
        scope.max_file_bytes,
        owner,
    )
    return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).hexdigest()
