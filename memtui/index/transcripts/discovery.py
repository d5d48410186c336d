"""Finds the transcripts that are indexed: none of them is opened."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from memtui.data import DEMO_ROOT
from memtui.errors import IndexMissing, IndexUnusable, IsCancelled, never
from memtui.index.database import DatabaseError
from memtui.index.foreign.opening import Fingerprint, fingerprint_of
from memtui.index.index_rows import RACY_NS
from memtui.index.transcripts.reading import EventSession, sessions_in
from memtui.memory.discover import INT64_MAX, Discovery, FileSearch
from memtui.memory.documents import reason_of
from memtui.memory.paths import first_link, link_target, message_of, unwritten, written
from memtui.memory.transcripts import openclaw_files
from memtui.memory.transcripts.generated import WRITTEN
from memtui.memory.transcripts.stream import MAX_LINE_BYTES
from memtui.memory.workspace import claude_project
from memtui.model import CONVERSATIONS, Reason, SkippedFile, SourceFile
from memtui.model.conversations import TranscriptKind, covers
from memtui.settings.containment import absolute_setting
from memtui.settings.openclaw.read import expanded, state_dir_of
from memtui.settings.schema import Settings
from memtui.text.redact import redact_path
from memtui.text.sanitize import safe_line

NEWEST_RULES: Final = "openclaw-2026.9"
AGENTS: Final = "agents"
SESSIONS: Final = "sessions"
EVENTS_DATABASE: Final = Path("agent", "openclaw-agent.sqlite")
PROJECTS: Final = "projects"
ARCHIVED: Final = "archived_sessions"
_MARK = ".jsonl"
_PASSED_OVER: Final[Mapping[str, str]] = WRITTEN["openclaw"]["passed_over"]


class TranscriptHomes(Struct, frozen=True):
    """The folders in which the programs keep their transcripts; they need not exist."""

    openclaw: Path | None = None
    """OpenClaw's state folder, with `agents/*/sessions` in it; `None`: not looked at."""
    claude_code: Path | None = None
    """Claude Code's configuration folder, with `projects/*` in it."""
    codex: Path | None = None
    """Codex's home folder, with `sessions` and `archived_sessions` in it."""
    is_sample: bool = False
    """True if nothing else is read: no path of the settings, no agent or project named there."""

    def of(self, kind: TranscriptKind) -> Path | None:
        folder: Path | None = getattr(self, kind.name.lower())
        return folder


def homes_of(env: Mapping[str, str], home: Path) -> TranscriptHomes:
    """Find the programs' folders as they do: by their environment variables, else below `home`."""
    claude_code = env.get("CLAUDE_CONFIG_DIR", "").strip() or "~/.claude"
    codex = env.get("CODEX_HOME", "").strip() or "~/.codex"
    return TranscriptHomes(
        state_dir_of(env, home), expanded(claude_code, home), expanded(codex, home)
    )


def demo_homes() -> TranscriptHomes:
    """Return the folders of the sample memory's conversations: none of this machine."""
    folder = DEMO_ROOT.with_name("demo_sessions")
    return TranscriptHomes(folder / "openclaw", folder / "claude", folder / "codex", is_sample=True)


class TranscriptScope(Struct, frozen=True):
    """The transcripts that are opted in, and the rules by which they are read."""

    root: Path
    """The memory folder: what `paths` are relative to."""
    homes: TranscriptHomes = TranscriptHomes()
    sources: tuple[str, ...] = ()
    """`openclaw`, `openclaw:AGENT`, `claude-code`, `claude-code:GLOB` and `codex`."""
    paths: tuple[str, ...] = ()
    """Files, folders and globs."""
    rules: openclaw_files.TranscriptRules = openclaw_files.RULES[NEWEST_RULES]
    max_line_bytes: int = MAX_LINE_BYTES
    off_paths: tuple[str, ...] = ()
    """Paths of the settings that are off for this run."""

    @property
    def is_empty(self) -> bool:
        return not (self.sources or self.paths)

    @property
    def recipe(self) -> str:
        """The values that decide, besides the files, what is read of them."""
        redaction = "" if self.rules.masks_more else ":openclaw"
        return f"{self.rules.profile}:{self.max_line_bytes}{redaction}"

    def opts_in(self, place: str) -> bool:
        """Tell whether a place such as `openclaw:AGENT` or `codex` is opted in by its name."""
        return any(covers(source, place) for source in self.sources)


def transcript_scope_of(
    settings: Settings,
    root: Path,
    *,
    homes: TranscriptHomes | None = None,
    env: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> TranscriptScope:
    """Return the scope of the settings; `homes` stands in for what `env` and `home` say."""
    chosen = settings.transcripts
    if homes is None:
        # Where there is no home folder, `~` stays and names nothing.
        user = home or Path(os.path.expanduser("~"))
        homes = homes_of(os.environ if env is None else env, user)
    return TranscriptScope(
        root,
        homes,
        tuple(one for one in chosen.sources if ":" not in one or not homes.is_sample),
        tuple(path for path in chosen.paths if path.strip() and not homes.is_sample),
        rules_of(settings),
        chosen.max_line_bytes,
    )


def rules_of(settings: Settings) -> openclaw_files.TranscriptRules:
    """Return the rules of the release that the configured profile stands for; else the newest ones.

    Credentials are masked by `transcripts.redaction`.
    """
    name = settings.ranking.profile
    own = settings.profiles.get(name)
    rules = openclaw_files.RULES.get(own.profile if own is not None else name)
    chosen = settings.transcripts.redaction
    is_exact = chosen == "openclaw" or (chosen == "auto" and rules is not None)
    return replace(rules or openclaw_files.RULES[NEWEST_RULES], masks_more=not is_exact)


class TranscriptPlace(Struct, frozen=True):
    """A folder, file or glob in which transcripts are looked for, and what was found in it."""

    name: str
    """Its name in the settings: `openclaw:main`, `claude-code:PROJECT`, `codex`, or a path."""
    kind: TranscriptKind | None
    folder: str
    """Absolute; of a glob the pattern."""
    is_indexed: bool
    agent: str = ""
    database: str = ""
    """The database of an agent's newer transcripts; empty when there is no such file."""
    files: tuple[SourceFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    unread: tuple[str, ...] = ()
    """Beginnings of stored paths below which nothing could be listed."""
    is_elsewhere: bool = False
    """True for a project of Claude Code where the memory folder is another one."""


def places_of(scope: TranscriptScope) -> Iterator[TranscriptPlace]:
    """Iterate over the places of transcripts, opted in or not; folders are listed, no more."""
    openclaw, claude_code, codex = TranscriptKind
    for agent, folder in _folders_in(scope.homes.openclaw, AGENTS):
        sessions, events, name = folder / SESSIONS, folder / EVENTS_DATABASE, f"{openclaw}:{agent}"
        database = os.fspath(events) if events.is_file() else ""
        if database or sessions.is_dir():
            place = name, openclaw, os.fspath(sessions), scope.opts_in(name)
            yield TranscriptPlace(*place, agent, database)
    root = os.path.abspath(scope.root)
    own = claude_project(scope.root)
    projects = dict(_folders_in(scope.homes.claude_code, PROJECTS))
    for project, folder in sorted(projects.items(), key=lambda one: one[0] != own):
        name, is_elsewhere = f"{claude_code}:{project}", own in projects and project != own
        place = name, claude_code, os.fspath(folder), scope.opts_in(name)
        yield TranscriptPlace(*place, is_elsewhere=is_elsewhere)
    home = scope.homes.codex
    if home is not None and any(os.path.isdir(home / name) for name in (SESSIONS, ARCHIVED)):
        yield TranscriptPlace(codex.value, codex, os.fspath(home), scope.opts_in(codex))
    for path in (*scope.paths, *scope.off_paths):
        is_indexed = path in scope.paths
        yield TranscriptPlace(written(path), None, absolute_setting(path, root), is_indexed)


def _folders_in(home: Path | None, name: str) -> list[tuple[str, Path]]:
    if home is None:
        return []
    try:
        with os.scandir(home / name) as entries:
            names = sorted(e.name for e in entries if e.is_dir() and not e.name.startswith("."))
    except OSError:
        # Without such a folder there is nothing; one that may not be listed has none to show.
        return []
    return [(written(one), home / name / one) for one in names]


def discover_transcripts(scope: TranscriptScope, *, cancelled: IsCancelled = never) -> Discovery:
    """Find the transcripts that are opted in.

    Sorted by path; a file that two places hold is kept once. Links are never followed; whatever
    looks like a transcript and is left out is listed. A place that is not there, as when its disk
    is not mounted, counts as one that cannot be looked at. Raises `Cancelled` when `cancelled()`
    turns true.
    """
    places = locate(scope, cancelled=cancelled)
    absent = list(_absent_places(scope))
    left_out = [one for place in places for one in place.skipped] + [one for _, one in absent]
    skipped = {(one.path, one.reason): one for one in reversed(left_out)}
    return Discovery(
        tuple(sorted((file for one in places for file in one.files), key=lambda file: file.path)),
        tuple(skipped[key] for key in sorted(skipped)),
        (*(prefix for one in places for prefix in one.unread), *(prefix for prefix, _ in absent)),
    )


def with_transcripts(
    notes: Discovery, scope: TranscriptScope, *, cancelled: IsCancelled = never
) -> Discovery:
    """Add the transcripts that are opted in to the notes that were found; a note wins."""
    if scope.is_empty:
        return notes
    transcripts = discover_transcripts(scope, cancelled=cancelled)
    note_paths = {file.path for file in notes.files}
    return Discovery(
        (*notes.files, *(file for file in transcripts.files if file.path not in note_paths)),
        (*notes.skipped, *transcripts.skipped),
        (*notes.unread, *transcripts.unread),
    )


def locate(
    scope: TranscriptScope, *, everything: bool = False, cancelled: IsCancelled = never
) -> list[TranscriptPlace]:
    """Find the transcripts place by place; a file counts where it is opted in, or found first."""
    by_file: dict[tuple[str, str], str] = {}
    stored: set[str] = set()
    places = [place for place in places_of(scope) if place.is_indexed or everything]
    located = {place.name: place for place in places}
    for place in sorted(places, key=lambda one: not one.is_indexed):
        search = _Search(scope, place, cancelled)
        files, skipped = [], list(search.skipped.values())
        for _, file in sorted(search.files.items()):
            # An agent's file is one wherever it is; a database holds many sessions.
            key = file.place, file.session
            earlier = by_file.get(key)
            if earlier is None and file.path not in stored:
                by_file[key] = file.path
                stored.add(file.path)
                files.append(file)
            elif earlier is None:
                where, detail = redact_path(written(file.place)), f"{file.path} is another"
                skipped.append(SkippedFile(where, Reason.DUPLICATE_FILE, detail))
            elif earlier != file.path:
                detail = f"already found as {earlier}"
                skipped.append(SkippedFile(file.path, Reason.DUPLICATE_FILE, detail))
        unread = tuple(search.unread)
        located[place.name] = replace(
            place, files=tuple(files), skipped=tuple(skipped), unread=unread
        )
    return [*located.values()]


def file_at(scope: TranscriptScope, path: str) -> SourceFile | None:
    """Return the transcript of that stored path, opted in or not; `None` when there is none.

    Only the places are looked through whose paths begin as this one does.
    """
    for place in places_of(scope):
        if path.startswith(_prefix(scope, place)):
            files = _Search(scope, place, never).files
            if path in files:
                return files[path]
    return None


def _prefix(scope: TranscriptScope, place: TranscriptPlace) -> str:
    if place.kind is None:
        return ""
    if place.kind is TranscriptKind.OPENCLAW:
        return (
            f"{CONVERSATIONS}/{place.agent}/" if scope.rules.stores_agent else f"{CONVERSATIONS}/"
        )
    project = f"{written(os.path.basename(place.folder))}/"
    return f"{place.kind}/{project if place.kind is TranscriptKind.CLAUDE_CODE else ''}"


class _Search(FileSearch):
    """One look into one place, with the transcripts by their stored paths."""

    path_words = "path of transcripts"
    source = CONVERSATIONS

    def __init__(
        self, scope: TranscriptScope, place: TranscriptPlace, cancelled: IsCancelled
    ) -> None:
        super().__init__(scope.root, cancelled)
        self._scope = scope
        self._place = place
        folder, prefix = place.folder, _prefix(scope, place)
        match place.kind:
            case TranscriptKind.OPENCLAW:
                self._look_into_agent(prefix)
            case TranscriptKind.CLAUDE_CODE if os.path.islink(folder):
                self.skip(prefix.rstrip("/"), Reason.SYMLINK, link_target(folder))
            case TranscriptKind.CLAUDE_CODE:
                self.base = os.path.dirname(folder)
                self.walk(self._listed(folder, prefix), prefix)
            case TranscriptKind.CODEX:
                for name, below in ((SESSIONS, prefix), (ARCHIVED, f"{prefix}{ARCHIVED}/")):
                    self.base = os.path.join(folder, name)
                    self.walk(self._listed(self.base, below), below)
            case None:
                self.look_at_extra(unwritten(place.name))

    def _listed(self, folder: str, prefix: str) -> list[os.DirEntry[str]]:
        return self.list_folder(folder, prefix) if os.path.lexists(folder) else []

    def _look_into_agent(self, prefix: str) -> None:
        place, rules, in_rows = self._place, self._scope.rules, False
        self.base = os.path.dirname(os.path.dirname(place.folder))
        if (link := first_link(place.folder, self.base)) is not None:
            self.skip(f"{CONVERSATIONS}/{place.agent}", Reason.SYMLINK, link_target(link))
            return
        if place.database and rules.stores_agent:
            stored = prefix + EVENTS_DATABASE.name
            try:
                if (link := first_link(place.database, self.base)) is not None:
                    self.skip(stored, Reason.SYMLINK, link_target(link))
                else:
                    files = event_files(Path(place.database), prefix, self.base)
                    self.files.update({file.path: file for file in files})
                    in_rows = bool(files)
            except (OSError, DatabaseError, IndexUnusable, IndexMissing) as error:
                self.skip(stored, Reason.UNREADABLE, safe_line(str(error)))
                self.unread.append(prefix)
                in_rows = True
        for entry in self._listed(place.folder, prefix):
            form, stored = openclaw_files.file_kind(entry.name), prefix + written(entry.name)
            if (why := self.why_ignored(entry.name)) is not None:
                self.skip(stored, Reason.IGNORED, why)
            elif not openclaw_files.is_listed(entry.name, rules):
                continue
            elif in_rows and form not in openclaw_files.ARCHIVES:
                self.skip(stored, Reason.IGNORED, "the agent's database holds its conversations")
            else:
                self.look_at_file(entry.path, stored)

    def is_wanted(self, name: str) -> bool:
        return _MARK in name

    def why_ignored(self, name: str) -> str | None:
        return _PASSED_OVER.get(openclaw_files.file_kind(name))

    def take(self, path: str, stored: str, state: os.stat_result) -> None:
        kind, masked = self._place.kind or "", redact_path(stored)
        while masked in self.files:  # Two credentials may begin and end alike.
            masked = f"{masked}'"
        self.files[masked] = self.source_file(path, masked, state, kind)

    def skip(self, path: str, reason: Reason, detail: str) -> None:
        super().skip(redact_path(path), reason, detail)


def event_files(database: Path, prefix: str, base: str = "") -> tuple[SourceFile, ...]:
    """Return the sessions of a database as files; raises what `listed_sessions` raises."""
    sessions, inode = listed_sessions(database), database.stat().st_ino & INT64_MAX
    return tuple(
        SourceFile(
            path=redact_path(f"{prefix}{written(one.session)}{_MARK}"),
            place=str(database),
            source=CONVERSATIONS,
            size=one.size,
            mtime_ns=max(0, min(INT64_MAX, one.changed_ms * 10**6)),
            inode=inode,
            kind=TranscriptKind.OPENCLAW,
            session=one.session,
            base=base,
        )
        for one in sessions
    )


def listed_sessions(database: Path) -> tuple[EventSession, ...]:
    """List the sessions of a database, which is opened again only when it has changed.

    Raises what `sessions_in` raises, and `OSError`.
    """
    state = fingerprint_of(database)
    times = [stamp.mtime_ns for stamp in (state.database, state.log) if stamp is not None]
    # A second commit within a tick of the clock need not show in the state of the files.
    if not times or max(times) >= time.time_ns() - RACY_NS:
        return sessions_in(database)
    return _sessions_at(database, state)


@lru_cache(maxsize=64)
def _sessions_at(database: Path, state: Fingerprint) -> tuple[EventSession, ...]:
    return sessions_in(database)


def agent_of(file: SourceFile) -> str:
    """Return the agent or project that the place of a transcript names; empty for none."""
    parts = file.path.split("/")
    if file.kind == TranscriptKind.OPENCLAW:
        # agents/<agent>/sessions/<file>, agents/<agent>/agent/<database>
        return written(file.absolute.parent.parent.name)
    return parts[1] if file.kind == TranscriptKind.CLAUDE_CODE and len(parts) > 2 else ""


def _absent_places(scope: TranscriptScope) -> Iterator[tuple[str, SkippedFile]]:
    """Iterate over folders that are not there although something in them is opted in.

    A disk may not be mounted. Each comes with the beginning of the stored paths of what would be
    in it. Of programs that are opted out nothing stays, wherever their folder is.
    """
    folders = dict(zip(TranscriptKind, (AGENTS, PROJECTS, SESSIONS), strict=True))
    expected: list[tuple[str, Path, str]] = []
    for source in scope.sources:
        name, _, part = source.partition(":")
        program = TranscriptKind(name)
        home = scope.homes.of(program)
        if home is None:
            continue
        literal = re.split(r"[*?\[]", part, maxsplit=1)[0]
        prefix = f"{name}/{literal}"
        if program is TranscriptKind.OPENCLAW:
            tail = f"{part}/" if part and literal == part else literal
            prefix = f"{CONVERSATIONS}/{tail if scope.rules.stores_agent else ''}"
        expected.append((source, home / folders[program], prefix))
        for agent, folder in (
            _folders_in(home, AGENTS) if program is TranscriptKind.OPENCLAW else ()
        ):
            is_elsewhere = folder.is_symlink() or (folder / EVENTS_DATABASE).is_file()
            place = TranscriptPlace(f"{program}:{agent}", program, "", True, agent)
            if covers(source, place.name) and not is_elsewhere:
                expected.append((place.name, folder / SESSIONS, _prefix(scope, place)))
    for source, folder, prefix in expected:
        try:
            # Within an agent's folder, one that may not be listed is found so by who looks there.
            if folder.name in (AGENTS, PROJECTS) or not folder.is_dir():
                os.scandir(folder).close()
        except OSError as error:
            detail = f"{written(str(folder))}: {message_of(error)}; what was indexed of it stays"
            yield prefix, SkippedFile(source, reason_of(error), detail)
