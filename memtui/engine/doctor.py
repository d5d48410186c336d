"""Checks of the settings, the folders, the index and the providers.

Whatever cannot be looked at is itself a problem, and the rest goes on.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import stat
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import DecodeError, Struct
from msgspec.structs import replace

from memtui import __version__
from memtui.data import read_table
from memtui.embedding.registry import AUTO, NONE, choice_for, requested_name
from memtui.engine.engine import Engine, data_dir_of
from memtui.engine.providers.catalog import probe, provider_listings
from memtui.errors import MemtuiError
from memtui.index import database
from memtui.index.database import Connection, DatabaseError
from memtui.index.embedding_cache import EmbeddingCache
from memtui.index.generations import IndexFolder
from memtui.index.index_rows import known_files
from memtui.index.transcripts.reading import transcript_rows
from memtui.index.watcher import FileEvents, count_watches, inotify_limit, watched_folders
from memtui.memory.discover import Scope, discover
from memtui.memory.documents import read_document, reason_of
from memtui.memory.workspace import Found, workspace_id
from memtui.model import IndexState, IndexStatus, ProbeResult, ProviderListing, Reason, SkippedFile
from memtui.retrieval.connection import damaged, snapshot, whole_vector
from memtui.retrieval.passages import fetch_passages, fetch_pieces, pack_passages, unpack_passages
from memtui.retrieval.pool import fetch_chunks
from memtui.settings.files import state_dir
from memtui.settings.load import Loaded, SettingsFiles, in_force
from memtui.settings.schema import EmbeddingSettings, Settings
from memtui.settings.shown import shown_value
from memtui.text.sanitize import counted, safe_line, size_words
from memtui.text.tokens import FTS5_TOKENIZE

GRAVEST_FIRST: Final = (2, 3, 4, 5, 1)
"""Exit codes in the order in which what they stand for has to be put right."""
EXIT_OTHER, EXIT_SETTINGS, EXIT_INDEX, EXIT_PROVIDER = 1, 2, 3, 4
LEAST_FREE: Final = 100 * 10**6
"""Bytes below which the room is a problem: a generation of a large index does not fit."""
MOST_NAMED: Final = 5
"""So many places that differ are named."""
_SQL: Final[Mapping[str, str]] = read_table("queries.toml")["check"]
_REMEDIES: Final[Mapping[str, str]] = read_table("words.toml")["remedies"]
_KEPT: Final[str] = read_table("words.toml")["writer"]["stale"]
_TOLD_EVERY: Final = 1000
_BUILD: Final = "`memtui index` makes one"
_REBUILD: Final = "`memtui index --force` rebuilds it"


class Check(Struct, frozen=True):
    """One thing that was looked at; `examine` adds its area."""

    name: str
    detail: str
    """One line: how it is."""
    hint: str = ""
    """The next step, where something is wrong."""
    grade: Literal["ok", "note", "problem"] = "ok"
    """Well, worth knowing without stopping anything, or wrong."""
    exit_code: int = 0
    """The exit code of the problem; 0 for what is no problem."""
    area: str = ""


def problem(name: str, detail: str, hint: str = "", exit_code: int = EXIT_OTHER) -> Check:
    return Check(name, detail, hint, "problem", exit_code)


def attempted(name: str, checks: Iterable[Check], code: int = 0) -> Iterator[Check]:
    """Yield checks; what cannot be looked at is a problem, of `code` or the error's exit code."""
    try:
        yield from checks
    except MemtuiError as error:
        yield problem(name, error.message, error.hint, code or error.exit_code)
    except DatabaseError as error:
        yield problem(name, str(error), "", EXIT_INDEX)
    except OSError as error:
        why = f"cannot be looked at: {error.strerror or type(error).__name__}"
        path = f"{error.filename} " if error.filename else ""
        yield problem(name, path + why, "check its permissions")


class Examination(Struct, frozen=True):
    root: Path | None
    """The memory folder, `None` without one."""
    configured: Sequence[Mapping[str, Any]]
    """Key, value, source and place of what is set, without anything secret; the place is
    `file:line`, `$VARIABLE` or the flag."""
    checks: tuple[Check, ...]
    providers: tuple[ProviderListing, ...]
    probes: tuple[ProbeResult, ...]

    @property
    def problems(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.grade == "problem")

    @property
    def exit_code(self) -> int:
        """That of the problem to put right first; 0 without any."""
        codes = {check.exit_code for check in self.problems}
        return next((code for code in GRAVEST_FIRST if code in codes), 0)


def examine(
    find: Callable[[], Found],
    *,
    env: Mapping[str, str],
    home: Path,
    flags: Mapping[str, Any],
    data_dir: Path | None,
    probe: bool,
    deep: bool,
    tell: Callable[[str], None],
) -> Examination:
    """Look at everything, with `deep` at every text, word and vector of the index.

    With `probe` the providers that may be are asked for a vector. `find` finds the memory folder
    and raises `WorkspaceNotFound`; `flags` are settings given as options, by dotted key;
    `data_dir` is where the indexes are kept, `None` where the settings say. Writes nothing but a
    database in the temporary folder. `tell` hears what takes a while.
    """
    checks: list[Check] = []
    loaded = Loaded()
    listings: tuple[ProviderListing, ...] = ()

    def look(area: str, of_area: Iterable[Check]) -> None:
        checks.extend(replace(check, area=area) for check in attempted(area, of_area))

    def load_settings() -> Iterator[Check]:
        nonlocal loaded
        # What is wrong is left out; the defaults hold where nothing else is left. It raises where
        # there is no place for settings on this machine.
        loaded = SettingsFiles(env, root, flags).read()
        yield from settings_checks(loaded)

    def open_index(root: Path) -> Iterator[Check]:
        nonlocal listings
        with closing(Engine.open(root, settings, data_dir=data_dir, write=False)) as engine:
            listings, status = listed_by(engine), engine.index.status()
        yield from index_checks(status, settings.index.cache_mb)
        if deep:
            yield from deep_checks(IndexFolder(Path(status.index_dir)), tell)

    try:
        place = find()
        root, folder = place.root, Check("folder", f"{place.root} ({place.how})")
    except MemtuiError as error:
        root, folder = None, problem("folder", error.message, error.hint, EXIT_SETTINGS)
    look("program", program_checks())
    look("settings", load_settings())
    settings = loaded.settings
    look("folders", folder_checks(settings, data_dir, root))
    look("memory", [folder])
    if root is not None:
        scope = Scope(root, settings.memory)
        look("memory", memory_checks(scope))
        look("index", open_index(root))
        look("watcher", watcher_checks(scope, settings))
    look("agents", agent_checks(env, home))
    listings = listings or provider_listings(settings.embedding)
    probes = tuple(probes_of(listings, settings.embedding, tell)) if probe else ()
    look("providers", provider_checks(settings.embedding, listings, probes))
    configured = [
        {"key": key, "value": shown_value(key, value), "source": source, "place": place}
        for key, (source, place, value) in sorted(in_force(loaded.layers).items())
        if key.startswith(("embedding.", "index.", "memory."))
    ]
    return Examination(root, configured, tuple(checks), listings, probes)


def program_checks() -> Iterator[Check]:
    """Yield versions, and whether a database of memtui's kind can be made and asked here."""
    yield Check("memtui", __version__)
    yield Check("python", f"{platform.python_version()} on {platform.platform()}")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="memtui-doctor-") as folder,
            closing(database.open_database(Path(folder) / "look.db")) as connection,
        ):
            ((sqlite,),) = connection.execute("SELECT sqlite_version()").fetchall()
            yield Check("sqlite", f"{sqlite}, apsw {version('apsw')}")
            yield from attempted("fts5", word_checks(connection))
            yield extension_check(connection)
    except (MemtuiError, DatabaseError, OSError) as error:
        detail = f"no database can be made in the temporary folder: {error}"
        yield problem("database", detail, "check its room and permissions")
    has_keyring = importlib.util.find_spec("keyring") is not None
    yield Check("keyring", "the package is installed" if has_keyring else "not installed")


def word_checks(connection: Connection) -> Iterator[Check]:
    """Make a full-text index in a new database and find a word with it."""
    columns = f'text, tokenize="{FTS5_TOKENIZE}"'
    connection.execute(f"CREATE VIRTUAL TABLE look USING fts5({columns})")
    connection.execute("INSERT INTO look VALUES ('router vlan')")
    rows = database.number(connection, "SELECT count(*) FROM look WHERE look MATCH 'vlan'")
    yield Check("fts5", f"a word is found ({rows} of 1)")


def extension_check(connection: Connection) -> Check:
    """Load sqlite-vec into a connection."""
    if loaded := database.vector_extension(connection):
        return Check("sqlite-vec", loaded)
    detail = "cannot be loaded; an index of OpenClaw is searched without it, only slower"
    return Check("sqlite-vec", detail, "pip install --force-reinstall sqlite-vec", "note")


def folder_checks(settings: Settings, data_dir: Path | None, root: Path | None) -> Iterator[Check]:
    """Yield how the state folder is, the folder of the indexes, and that of the memory's index."""
    data = data_dir or data_dir_of(settings)
    yield from attempted("state", folder_check("state", state_dir()))
    yield from attempted("data", folder_check("data", data, private=False))
    if root is not None and (index := data / workspace_id(root)).is_dir():
        yield from attempted("index", folder_check("index", index))


def folder_check(name: str, path: Path, *, private: bool = True) -> Iterator[Check]:
    """Look at a folder, or at where it would be made; others must not read a `private` one."""
    is_there = os.path.lexists(path)
    nearest = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    free = shutil.disk_usage(nearest).free if nearest.is_dir() else 0
    detail = f"{path}, {size_words(free)} free"
    if is_there and not path.is_dir():
        yield problem(name, f"{path} is no folder", "move it away")
    elif not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        yield problem(name, f"{nearest} cannot be written", _REMEDIES["not_writable"])
    elif free < LEAST_FREE:
        yield problem(name, detail, "make room on this disk, or set another place")
    elif not is_there:
        yield Check(name, f"{detail}; made when it is needed")
    elif private and os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        remedy = f"chmod 700 {shlex.quote(str(path))}"
        yield Check(name, f"{detail}; others can read it", remedy, "note")
    else:
        yield Check(name, detail)


def memory_checks(scope: Scope) -> Iterator[Check]:
    """Yield the notes of a memory, and what is left out."""
    discovery = discover(scope)
    files, left_out = [], list(discovery.skipped)
    for file in discovery.files:
        try:
            read_document(file, max_bytes=scope.settings.max_file_bytes)
            files.append(file)
        except OSError as error:
            left_out.append(SkippedFile(file.path, reason_of(error), error.strerror or ""))
    if files:
        size = size_words(sum(file.size for file in files))
        yield Check("notes", f"{counted(len(files), 'file')}, {size}")
    else:
        yield Check("notes", "no file is found", _REMEDIES["no_notes"], "note")
    others: Counter[str] = Counter()
    for skipped in left_out:
        reason = skipped.reason.value.replace("_", " ")
        if remedy := _REMEDIES.get(skipped.reason):
            yield Check("skipped", f"{skipped.path}: {skipped.detail or reason}", remedy, "note")
        else:
            is_ignored = skipped.reason is Reason.IGNORED
            others[f"{reason} ({skipped.detail})" if is_ignored else reason] += 1
    if others:
        yield Check("left out", ", ".join(f"{n} {reason}" for reason, n in others.items()))


def watcher_checks(scope: Scope, settings: Settings) -> Iterator[Check]:
    """Yield whether the system can tell of changes: it is asked to, for a moment."""
    if not settings.index.watch:
        yield Check("watcher", "off (index.watch)")
        return
    folders, limit = watched_folders(scope), inotify_limit()
    try:
        FileEvents(folders, lambda *change: None).stop()
    except OSError as error:
        hint = _REMEDIES["no_events"].format(settings.index.rescan_seconds)
        yield problem("watcher", f"events cannot be had: {error.strerror or error}", hint)
        return
    most = f" (system limit {limit})" if limit is not None else ""
    yield Check("watcher", f"can follow {counted(count_watches(folders), 'folder')}{most}")


def agent_checks(env: Mapping[str, str], home: Path) -> Iterator[Check]:
    """Yield the OpenClaw agents here; what is wrong with their indexes is no problem of memtui."""
    from memtui.index.foreign.agents import agents_here

    agents = agents_here(env, home)
    if not agents:
        yield Check("agents", "no OpenClaw agent on this machine")
    for agent in agents:
        made_by = f" by {agent.made_by}" if agent.made_by else ""
        if agent.problem:
            hint = f"`memtui status --agent {agent.name}` tells more"
            yield Check(agent.name, agent.problem, hint, "note")
        else:
            yield Check(agent.name, f"{counted(agent.chunks, 'chunk')}{made_by}")


def index_checks(status: IndexStatus, cache_mb: int) -> Iterator[Check]:
    """Yield the state of the index, whether each part of its database answers, and the cache."""
    folder, provider = IndexFolder(Path(status.index_dir)), status.provider
    parts = ((status.files, "file"), (status.chunks, "chunk"), (status.vectors, "vector"))
    holds = ", ".join(counted(count, noun) for count, noun in parts)
    match status.state:
        case IndexState.NO_INDEX:
            yield problem("index", "there is none yet", _BUILD, EXIT_INDEX)
        case IndexState.ERROR:
            yield problem("index", f"in error; {holds}", _REBUILD, EXIT_INDEX)
        case IndexState.STALE:
            changed = counted(status.pending_count, "changed file")
            waits = changed if status.pending_count else "chunks wait for vectors"
            if provider.differs_from(status.made_by):
                waits = f"its vectors are by {status.made_by}, not by {provider.actual}"
            hint = "`memtui index` brings it up to date"
            if status.has_other_writer:
                hint = _KEPT.format(status.writer)
            yield Check("index", f"{holds}; {waits}", hint, "note")
        case state:
            yield Check("index", f"{state.value}, {holds}, in {status.index_dir}")
    if status.state is not IndexState.NO_INDEX:
        maker = status.made_by.partition("/")[0] or provider.actual
        if provider.state is Reason.FALLBACK and maker != provider.requested:
            # The vectors are not those of the requested provider.
            detail = f"of {maker}, not of {provider.requested}: {provider.cause}"
            yield problem("made by", detail, provider.hint)
        elif provider.state is Reason.PROVIDER_FAILED:
            yield problem("made by", provider.cause, provider.hint, EXIT_PROVIDER)
        yield from attempted("index", database_checks(folder), EXIT_INDEX)
    with closing(EmbeddingCache(folder.cache_path, writable=False)) as cache:
        try:
            size, vectors = size_words(cache.size_bytes()), counted(cache.count(), "vector")
            yield Check("cache", f"{vectors}, {size} of at most {cache_mb} MB")
        except (MemtuiError, DatabaseError) as error:
            hint = "delete it: its vectors are made again"
            yield problem("cache", f"{folder.cache_path} cannot be read: {error}", hint)
    if status.has_other_writer:
        yield Check("writer", f"{status.writer} writes to it", "close it to index here", "note")
    yield from (Check("warning", warning, grade="note") for warning in status.warnings)
    yield from (problem(record.where, record.message, _REBUILD) for record in status.errors)


def deep_checks(folder: IndexFolder, tell: Callable[[str], None]) -> Iterator[Check]:
    """Yield whether texts, words and vectors are as written; `tell` hears how far it is."""
    if (generation := folder.current()) is None:
        return
    path = folder.path(generation)
    opened = closing(database.open_database(path, readonly=True))
    with database.mapped_errors(path), opened as connection:
        chunks = counted(database.number(connection, "SELECT count(*) FROM chunks"), "chunk")
        places = _differences(connection, lambda done: tell(f"reading back {done:,} of {chunks}"))
        where = list(map(safe_line, places))
    if not where:
        yield Check("contents", f"texts, words, vectors of {chunks} are whole")
        return
    rest = [f"{len(where):,} in all"] if len(where) > MOST_NAMED else []
    named = ", ".join([*where[:MOST_NAMED], *rest])
    yield problem("contents", f"changed: {named}", _REBUILD, EXIT_INDEX)


def _differences(connection: Connection, tell: Callable[[int], None]) -> Iterator[str]:
    """Yield the place, `path:line`, and the part of every chunk that is not as it was written.

    Its text is compared with its hash and passages, its vector and word pieces with their
    checksums, its words with its text. `tell` hears how many are done. Raises what SQLite raises,
    and `DecodeError` for what is wrong with files and conversations.
    """
    known_files(connection)
    transcript_rows(connection)
    maker = database.made_by(database.read_meta(connection))
    width = 4 * ((maker.dimensions if maker is not None else None) or 0)
    places, unread = dict[int, str](), set[int]()
    with snapshot(connection):
        connection.execute(_SQL["again"].format(tokenize=FTS5_TOKENIZE))
        for rowid, embedded, path, line, text, _, *vector in connection.execute(_SQL["stored"]):
            if len(places) % _TOLD_EVERY == 0:
                tell(len(places))
            places[rowid] = place = f"{path}:{line}" if path is not None else f"row {rowid}"
            try:
                fetch_chunks(connection, [rowid])[rowid]
                words, packed = pack_passages(str(text))
                connection.execute(_SQL["write_again"], (rowid, words))
                made = unpack_passages(packed, len(text))
                if fetch_passages(connection, {rowid: len(text)}).get(rowid, made) != made:
                    raise damaged("passages of another text")
            except (DatabaseError, DecodeError, KeyError):
                unread.add(rowid)
                yield f"{place} (text)"
            else:
                try:
                    fetch_pieces(connection, {rowid: len(made)})
                except DatabaseError:
                    yield f"{place} (word pieces)"
            try:
                if embedded == 1:
                    whole_vector(width, rowid, *vector)
            except DatabaseError:
                yield f"{place} (vector)"
        tell(len(places))
        places[0] = "all chunks"
        if unread or len(places) == 1:
            unread.add(0)
        sums = Counter[int]()
        # What the index holds and what the texts give comes in different orders.
        for sign, table in ((1, "chunks_fts"), (-1, "again")):
            for rowid, *posting in connection.execute(_SQL["held"].format(table=table)):
                sums[rowid] += sign * zlib.crc32(repr(posting).encode())
        for rowid in sorted({rowid for rowid, left in sums.items() if left} - unread):
            part = "words" if rowid else "mean length"
            yield f"{places.get(rowid, f'row {rowid}')} ({part})"


def database_checks(folder: IndexFolder) -> Iterator[Check]:
    """Yield how the database file is, the full-text index, and whether sqlite-vec can be loaded."""
    if (generation := folder.current()) is None:
        yield problem("index", "there is none yet", _BUILD, EXIT_INDEX)
        return
    path = folder.path(generation)
    with closing(database.open_database(path, readonly=True)) as connection:
        yield from attempted("database", stored_checks(connection, path), EXIT_INDEX)
        yield extension_check(connection)


def stored_checks(connection: Connection, path: Path) -> Iterator[Check]:
    """Yield how the pages of a database are, and whether its full-text index answers."""
    with database.mapped_errors(path):
        wrong = database.damage(connection)
        well = Check("database", "quick_check found nothing wrong")
        yield problem("database", wrong, _REBUILD, EXIT_INDEX) if wrong else well
        rows = database.number(connection, "SELECT count(*) FROM chunks_fts")
        matching = "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?"
        database.number(connection, matching, '"memory"')
    yield Check("full-text", f"search by words works, {counted(rows, 'chunk')}")


def settings_checks(loaded: Loaded) -> Iterator[Check]:
    """Yield every problem of the settings, or that there is none."""
    for one in loaded.problems:
        name = one.key or "settings"
        detail = f"{one.place}: {one.message}" if one.place else one.message
        if one.fatal or one.code == "unknown_key":
            yield problem(name, detail, one.hint, EXIT_SETTINGS)
        else:
            yield Check(name, detail, one.hint, "note")
    if not loaded.problems:
        file = "no file, defaults" if loaded.user.is_new else str(loaded.user.path)
        yield Check("settings", file)
    if certificates := loaded.settings.embedding.ca_file:
        from memtui.embedding.http import trust

        try:
            trust(certificates)
            yield Check("embedding.ca_file", certificates)
        except MemtuiError as error:
            yield problem("embedding.ca_file", error.message, error.hint, EXIT_SETTINGS)


def listed_by(engine: Engine) -> tuple[ProviderListing, ...]:
    """Return the providers of a memory, with the one that answers for the index that is live.

    The requested one with how it failed, where it did when it was last asked. Raises
    `IndexUnusable` when there is an index that cannot be read.
    """
    engine.index.refresh_status()
    state = engine.index.status().provider
    listings = []
    for listing in engine.providers.available():
        listing = replace(listing, is_actual=listing.name == state.actual)
        if state.failure is not None and listing.is_requested and listing.works:
            detail = state.cause.removeprefix(f"{listing.name}: ")
            listing = replace(listing, detail=detail, hint=state.hint, failure=state.failure)
        listings.append(listing)
    return tuple(listings)


def probes_of(
    listings: Sequence[ProviderListing], embedding: EmbeddingSettings, tell: Callable[[str], None]
) -> Iterator[ProbeResult]:
    """Embed one word with each local provider and the chosen ones; `tell` hears which is next."""
    for listing in listings:
        is_chosen = listing.is_requested or listing.is_actual or listing.is_fallback
        if not listing.works or ((listing.remote or listing.address) and not is_chosen):
            continue
        tell(f"asking {listing.name}" + (f" at {listing.address}" if listing.address else ""))
        yield probe(choice_for(embedding, listing.name))


def provider_checks(
    embedding: EmbeddingSettings, listings: Sequence[ProviderListing], probes: Sequence[ProbeResult]
) -> Iterator[Check]:
    """Yield the requested provider, the fallback, and how the probes ended."""
    results = {result.name: result for result in probes}
    by_name = {listing.name: listing for listing in listings}
    requested, fallback = requested_name(embedding), embedding.fallback

    def check(role: str, name: str, code: int, aside: str = "") -> Check:
        listing, result = by_name[name], results.get(name)
        name += aside
        if result is not None and result.works:
            return Check(role, f"{name}: {answer_words(result)}")
        if result is not None or not listing.works or listing.failure is not None:
            outcome = result or listing
            return problem(role, f"{name}: {outcome.detail}", outcome.hint, code)
        # A look cannot tell whether a service answers, or takes the key.
        untried = "; not tried (--probe asks it)" if listing.remote or listing.address else ""
        return Check(role, f"{name}: {listing.detail}{untried}")

    if embedding.provider == NONE:
        yield Check("requested", "none: keyword search alone, as configured")
    else:
        second, code = None, EXIT_PROVIDER
        if fallback == NONE:
            second = Check("fallback", "none: without the provider, keyword search alone")
        elif fallback not in (AUTO, requested):
            second = check("fallback", fallback, EXIT_OTHER)
            code = EXIT_OTHER if second.grade == "ok" else EXIT_PROVIDER
        aside = f" ({AUTO})" if embedding.provider == AUTO else ""
        yield check("requested", requested, code, aside)
        if second is not None:
            yield second
    for result in probes:
        if result.name not in (requested, fallback):
            answer = Check(result.name, answer_words(result))
            yield answer if result.works else Check(result.name, result.detail, result.hint, "note")


def answer_words(result: ProbeResult) -> str:
    """Return what a provider answered, how fast, and from where."""
    took = "" if result.milliseconds is None else f" in {result.milliseconds:.1f} ms"
    return f"{result.detail}{took}" + (f" from {result.address}" if result.address else "")
