"""Finds the memory folder to open, and names it in the data directory."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from glob import glob
from pathlib import Path

from msgspec import Struct

from memtui.data import DEMO_PRESENT
from memtui.errors import WorkspaceNotFound
from memtui.memory.discover import PROJECT_FILES, is_memory, is_project
from memtui.memory.paths import written
from memtui.settings.containment import is_inside

_DEMO_HINT = "name a folder (of a command with `--root FOLDER`), or try `memtui demo`"
_ROOT_VARIABLE = "MEMTUI_ROOT"
_SLUG_CHARS = 40
_DIGEST_CHARS = 12


class Found(Struct, frozen=True):
    """The folder to open, absolute, and how it was found, as a phrase for a status line."""

    root: Path
    how: str


def home_folder() -> Path:
    """Return the user's home folder; the top folder for one who has none."""
    with suppress(RuntimeError):
        return Path.home()
    return Path(os.sep)


def find_workspace(
    folder: str | None, *, env: Mapping[str, str], cwd: Path, home: Path, root: str | None = None
) -> Found:
    """Choose the memory folder.

    In this order: the `folder` argument, `root` (the value of `--root`), `$MEMTUI_ROOT`, the
    current folder if it holds a memory, the OpenClaw workspace, the current folder if it is a
    project of Claude Code or Codex. What is named must exist; the others are only looked at.
    Raises `WorkspaceNotFound`, which lists the places.
    """
    named = (
        (folder, "the folder argument"),
        (root, "--root"),
        (env.get(_ROOT_VARIABLE) or None, f"${_ROOT_VARIABLE}"),
    )
    for value, how in named:
        if value is None:
            continue
        path = Path(os.path.abspath(cwd / _expanded(value, home)))
        if os.path.isdir(path):
            return Found(path, how)
        if os.path.exists(path):
            hint = f"name the folder that holds it: {_shown(path.parent)}"
            if path.suffix == ".sqlite":
                hint = f"an index of OpenClaw is opened with `memtui --index {_shown(path)}`"
            raise WorkspaceNotFound(f"{_shown(path)} is a file, no folder (from {how})", hint=hint)
        raise WorkspaceNotFound(f"no folder {_shown(path)} (from {how})", hint=_DEMO_HINT)
    marks = ", ".join(("MEMORY.md", "memory/", *PROJECT_FILES))
    looked_at = [f"{_shown(cwd)} (none of {marks} in it)"]
    if is_memory(cwd):
        return Found(Path(os.path.abspath(cwd)), "the current folder")
    at_home = home / ".openclaw"
    places = [(at_home / "workspace", "the OpenClaw workspace")]
    if state := env.get("OPENCLAW_STATE_DIR"):
        places.insert(0, (Path(_expanded(state, home)) / "workspace", "$OPENCLAW_STATE_DIR"))
    if workspace := env.get("OPENCLAW_WORKSPACE"):
        places.insert(0, (Path(_expanded(workspace, home)), "$OPENCLAW_WORKSPACE"))
    for place, how in places:
        if os.path.isdir(cwd / place):
            return Found(Path(os.path.abspath(cwd / place)), how)
        looked_at.append(_shown(place))
    # Unlike `Path.glob`, this passes over a folder that cannot be read.
    names = sorted(glob("workspace-*", root_dir=at_home))
    several = [at_home / name for name in names if os.path.isdir(at_home / name)]
    if len(several) == 1:
        return Found(Path(os.path.abspath(several[0])), "the OpenClaw workspace")
    # Of a home or top folder all that it holds would be read.
    if is_project(cwd) and not is_inside(str(home), str(cwd)):
        return Found(Path(os.path.abspath(cwd)), "the project in the current folder")
    if several:
        looked_at.append(f"{len(several)} OpenClaw workspaces: {', '.join(map(_shown, several))}")
    raise WorkspaceNotFound(
        "no memory folder found; looked at: " + "; ".join(looked_at),
        hint=beside_words(cwd, env, home) or _DEMO_HINT,
    )


def beside_words(root: Path, env: Mapping[str, str], home: Path) -> str:
    """Say what opens the notes that Claude Code keeps of a project elsewhere; empty for none.

    Nothing outside of a folder that was named or found is read until the user names it.
    """
    base = Path(_expanded(env.get("CLAUDE_CONFIG_DIR", "").strip() or "~/.claude", home))
    notes = base / "projects" / claude_project(root) / "memory"
    if not os.path.isdir(notes):
        return ""
    return f"`memtui {shlex.quote(str(notes))}` opens what Claude Code noted about this folder"


def claude_project(root: Path) -> str:
    """Return the name that Claude Code gives to the project in a folder."""
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.abspath(root))


def workspace_id(root: Path) -> str:
    """Name a workspace: its folder's name in plain letters, and 12 hex digits of its place."""
    real = os.path.realpath(root)
    plain = unicodedata.normalize("NFKD", os.path.basename(real)).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:_SLUG_CHARS].rstrip("-")
    digest = hashlib.sha256(written(real).encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{slug or 'memory'}-{digest}"


def _expanded(value: str, home: Path) -> str:
    if value == "~" or value.startswith(("~/", f"~{os.sep}")):
        return str(home) + value[1:]
    return os.path.expanduser(value)


def _shown(path: Path) -> str:
    return written(str(path))


def demo_clock() -> Callable[[], datetime]:
    """A clock that starts at the end of the story and then runs like any other."""
    offset = DEMO_PRESENT - datetime.now(UTC)
    return lambda: datetime.now(UTC) + offset
