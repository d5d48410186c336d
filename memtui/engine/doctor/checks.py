"""What a look at one part of memtui comes to."""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memtui import __version__
from memtui.embedding.cache import EmbeddingCache
from memtui.embedding.choice import AUTO, NONE
from memtui.embedding.registry import provider_names, registration_of
from memtui.engine.providers.service import listing_of, probe
from memtui.engine.providers.slot import choice_for, requested_name
from memtui.errors import MemtuiError
from memtui.index.database import (
    Connection,
    DatabaseError,
    damage,
    number,
    open_database,
    vector_extension,
)
from memtui.index.generations import IndexFolder
from memtui.index.watcher import FileEvents, inotify_limit, watched_folders
from memtui.memory.discover import Discovery, Scope, discover
from memtui.memory.workspace import Found
from memtui.model import (
    Failure,
    IndexState,
    IndexStatus,
    ProbeResult,
    ProviderListing,
    ProviderState,
    Reason,
)
from memtui.settings import Problem, ProblemCode, Settings
from memtui.settings.files import read_bytes
from memtui.settings.load import Gathered, merge
from memtui.settings.shown import shown_value
from memtui.text.sanitize import safe_line
from memtui.text.sizes import size_words
from memtui.text.tokens import FTS5_TOKENIZE

if TYPE_CHECKING:
    from memtui.engine.engine import Engine
    from memtui.settings import EmbeddingSettings


GRAVEST_FIRST: Final = (2, 3, 4, 5, 1)
"""Exit codes in the order in which what they stand for has to be put right."""

EXIT_OTHER: Final = 1
EXIT_SETTINGS: Final = 2
EXIT_INDEX: Final = 3
EXIT_PROVIDER: Final = 4


class Area(StrEnum):
    """Which part of memtui was looked at."""

    PROGRAM = "program"
    SETTINGS = "settings"
    FOLDERS = "folders"
    MEMORY = "memory"
    INDEX = "index"
    WATCHER = "watcher"
    AGENTS = "agents"
    PROVIDERS = "providers"


class Grade(StrEnum):
    """How it is: well, worth knowing, or wrong."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    area: Area
    name: str
    grade: Grade
    detail: str
    """One line: what was found."""
    hint: str = ""
    """The next step, where something is wrong."""
    exit_code: int = 0
    """What the problem stands for; 0 for what is no problem."""


def fine(area: Area, name: str, detail: str) -> Check:
    """Something that is well."""
    return Check(area, name, Grade.OK, detail)


def note(area: Area, name: str, detail: str, hint: str = "") -> Check:
    """Something worth knowing that stops nothing."""
    return Check(area, name, Grade.NOTE, detail, hint)


def problem(
    area: Area, name: str, detail: str, hint: str = "", exit_code: int = EXIT_OTHER
) -> Check:
    """Something that is wrong."""
    return Check(area, name, Grade.PROBLEM, detail, hint, exit_code)


def gravest(checks: Iterable[Check]) -> int:
    """The exit code of the problem that has to be put right first; 0 without any."""
    codes = {check.exit_code for check in checks if check.grade is Grade.PROBLEM}
    return next((code for code in GRAVEST_FIRST if code in codes), 0)


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2 files`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


_VEC_HINT = "pip install --force-reinstall sqlite-vec; search works without it, only slower"


def program_checks() -> Iterator[Check]:
    """Versions, and whether a database of memtui's kind can be made and asked here."""
    yield fine(Area.PROGRAM, "memtui", __version__)
    yield fine(Area.PROGRAM, "python", f"{platform.python_version()} on {platform.platform()}")
    try:
        with tempfile.TemporaryDirectory(prefix="memtui-doctor-") as folder:
            connection = open_database(Path(folder) / "look.db")
            try:
                yield asked(Area.PROGRAM, "sqlite", lambda: _version(connection))
                yield asked(Area.PROGRAM, "fts5", lambda: _full_text(connection))
                yield _vector_extension_check(connection)
            finally:
                connection.close()
    except (MemtuiError, DatabaseError, OSError) as error:
        detail = f"no database can be made in the temporary folder: {error}"
        yield problem(Area.PROGRAM, "database", detail, "check its room and permissions")
    has_keyring = importlib.util.find_spec("keyring") is not None
    yield fine(
        Area.PROGRAM, "keyring", "the package is installed" if has_keyring else "not installed"
    )


def asked(area: Area, name: str, ask: Callable[[], str]) -> Check:
    """What a part of a database answers, or the problem that it raises."""
    try:
        return fine(area, name, ask())
    except MemtuiError as error:
        return problem(area, name, error.message, error.hint, EXIT_INDEX)
    except DatabaseError as error:
        return problem(area, name, str(error), "", EXIT_INDEX)


def _version(connection: Connection) -> str:
    ((found,),) = connection.execute("SELECT sqlite_version()").fetchall()
    return f"{found}, apsw {version('apsw')}"


def _full_text(connection: Connection) -> str:
    connection.execute(f'CREATE VIRTUAL TABLE look USING fts5(text, tokenize="{FTS5_TOKENIZE}")')
    connection.execute("INSERT INTO look VALUES ('router vlan')")
    found = number(connection, "SELECT count(*) FROM look WHERE look MATCH 'vlan'")
    return f"a word is found ({found} of 1)"


def _vector_extension_check(connection: Connection) -> Check:
    loaded = vector_extension(connection)
    if loaded is None:
        return note(Area.PROGRAM, "sqlite-vec", "cannot be loaded", _VEC_HINT)
    return fine(Area.PROGRAM, "sqlite-vec", loaded)


LEAST_FREE: Final = 100 * 10**6
"""Bytes below which the room is a problem: a generation of a large index does not fit."""


def folder_checks(state: Path, data: Path, index: Path | None) -> Iterator[Check]:
    """Look at the state folder, at the folder of the indexes, and at that of one index."""
    yield folder_check("state", state)
    yield folder_check("data", data, private=False)
    if index is not None and index.is_dir():
        yield folder_check("index", index)


def folder_check(name: str, path: Path, *, private: bool = True) -> Check:
    """Look at one folder; one that is not there yet is judged by where it would be made.

    In a `private` one the text of notes, or what was searched for, can be read.
    """
    try:
        return _looked_at(name, path, private)
    except OSError as error:
        detail = f"{path} cannot be looked at: {error.strerror or type(error).__name__}"
        return problem(Area.FOLDERS, name, detail, "check its permissions")


def _looked_at(name: str, path: Path, private: bool) -> Check:
    is_there = os.path.lexists(path)
    if is_there and not path.is_dir():
        return problem(Area.FOLDERS, name, f"{path} is no folder", "move it away")
    nearest = path if is_there else _nearest(path)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        hint = "give yourself the right to write there, or set another place"
        return problem(Area.FOLDERS, name, f"{nearest} cannot be written", hint)
    free = shutil.disk_usage(nearest).free
    detail = f"{path}, {size_words(free)} free"
    if free < LEAST_FREE:
        return problem(Area.FOLDERS, name, detail, "make room on this disk, or set another place")
    if not is_there:
        return fine(Area.FOLDERS, name, f"{detail}; made when it is needed")
    if private and os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        hint = f"chmod 700 {shlex.quote(str(path))}"
        return note(Area.FOLDERS, name, f"{detail}; others can read it", hint)
    return fine(Area.FOLDERS, name, detail)


def _nearest(path: Path) -> Path:
    """The nearest folder above that is there."""
    return next((folder for folder in path.parents if os.path.lexists(folder)), path)


_UNSEEN = frozenset({Reason.UNREADABLE, Reason.VANISHED, Reason.OUTSIDE_ROOT})
"""Reasons that say that something named, or found, could not be looked at."""


def memory_checks(found: Found, scope: Scope) -> Iterator[Check]:
    """The folder, the notes in it, and what is left out."""
    yield fine(Area.MEMORY, "folder", f"{found.root} ({found.how})")
    discovery = discover(scope)
    if discovery.files:
        size = size_words(sum(file.size for file in discovery.files))
        yield fine(Area.MEMORY, "notes", f"{counted(len(discovery.files), 'file')}, {size}")
    else:
        hint = "notes are MEMORY.md and the .md files below memory/, and memory.extra_paths"
        yield note(Area.MEMORY, "notes", "no file is found", hint)
    yield from _left_out(discovery)


def _left_out(discovery: Discovery) -> Iterator[Check]:
    for skipped in discovery.skipped:
        if skipped.reason in _UNSEEN:
            why = skipped.detail or skipped.reason.value.replace("_", " ")
            yield note(Area.MEMORY, "skipped", f"{skipped.path}: {why}", "check its permissions")
    others = Counter(s.reason for s in discovery.skipped if s.reason not in _UNSEEN)
    if others:
        told = ", ".join(
            f"{count} {reason.value.replace('_', ' ')}" for reason, count in others.items()
        )
        yield fine(Area.MEMORY, "left out", told)


def watcher_check(scope: Scope, settings: Settings) -> Check:
    """Whether the system can tell of changes of the files: it is asked to, for a moment."""
    if not settings.index.watch:
        return fine(Area.WATCHER, "watcher", "off (index.watch)")
    folders = watched_folders(scope)
    limit = inotify_limit()
    try:
        FileEvents(folders, lambda change: None).stop()
    except OSError as error:
        why = error.strerror or str(error)
        seconds = f"{settings.index.rescan_seconds:g}"
        hint = (
            f"raise fs.inotify.max_user_watches; until then files are looked at every {seconds} s"
        )
        return problem(Area.WATCHER, "watcher", f"events cannot be had: {why}", hint)
    told = (
        "" if limit is None else f", {_folders_below(folders_of(scope), limit)} of {limit} watches"
    )
    return fine(Area.WATCHER, "watcher", f"events{told}")


def folders_of(scope: Scope) -> list[str]:
    """The folders that are watched with everything below them."""
    return [folder.real for folder in watched_folders(scope) if folder.recursive]


def _folders_below(folders: list[str], most: int) -> int:
    walked = (None for folder in folders for _ in os.walk(folder))
    return sum(1 for _ in islice(walked, most))


def agent_checks(env: Mapping[str, str], home: Path) -> Iterator[Check]:
    """The OpenClaw agents of this machine; what is wrong with their indexes is no problem here."""
    from memtui.engine.foreign.agent import agents_here

    agents = agents_here(env, home)
    if not agents:
        yield fine(Area.AGENTS, "agents", "no OpenClaw agent on this machine")
    for agent in agents:
        made_by = "/".join(part for part in (agent.provider, agent.model) if part)
        detail = f"{counted(agent.chunks, 'chunk')}{f' by {made_by}' if made_by else ''}"
        if agent.problem:
            hint = f"`memtui status --agent {agent.name}` tells more"
            yield note(Area.AGENTS, agent.name, agent.problem, hint)
        else:
            yield fine(Area.AGENTS, agent.name, detail)


_BUILD: Final = "`memtui index` makes one"
_REBUILD: Final = "`memtui index --force` builds it anew"
_UPDATE: Final = "`memtui index` takes them in"


def index_checks(status: IndexStatus, folder: IndexFolder, cache_mb: int) -> Iterator[Check]:
    """The state of the index, whether each part of its database answers, and the cache."""
    yield _state(status)
    if status.state is not IndexState.NO_INDEX:
        yield from _vectors_of(status.provider)
        yield from database_checks(folder)
    yield _cache(folder, cache_mb)
    if status.writer not in ("none", "this process"):
        yield note(Area.INDEX, "writer", f"{status.writer} writes to it", "only one can at a time")
    for warning in status.warnings:
        yield note(Area.INDEX, "warning", warning)
    for error in status.errors:
        yield problem(Area.INDEX, error.where, error.message, _REBUILD)


def _state(status: IndexStatus) -> Check:
    parts = ((status.files, "file"), (status.chunks, "chunk"), (status.vectors, "vector"))
    holds = ", ".join(counted(number_of, noun) for number_of, noun in parts)
    match status.state:
        case IndexState.NO_INDEX:
            return problem(Area.INDEX, "index", "there is none yet", _BUILD, EXIT_INDEX)
        case IndexState.ERROR:
            return problem(Area.INDEX, "index", f"in error; {holds}", _REBUILD, EXIT_INDEX)
        case IndexState.STALE if status.pending_count:
            changed = counted(status.pending_count, "changed file")
            return note(Area.INDEX, "index", f"{holds}; {changed}", _UPDATE)
        case IndexState.STALE:
            return note(Area.INDEX, "index", f"{holds}; chunks wait for a vector", _UPDATE)
        case state:
            return fine(Area.INDEX, "index", f"{state.value}, {holds}, in {status.index_dir}")


def _vectors_of(provider: ProviderState) -> Iterator[Check]:
    """Whether the vectors are those of the requested provider."""
    if provider.state is Reason.FALLBACK:
        detail = f"of {provider.actual}, not of {provider.requested}: {why(provider)}"
        yield problem(Area.INDEX, "made by", detail, provider.hint)
    elif provider.state is Reason.PROVIDER_FAILED:
        yield problem(Area.INDEX, "made by", why(provider), provider.hint, EXIT_PROVIDER)


def why(provider: ProviderState) -> str:
    """Why the requested provider does not answer, without the next step."""
    return provider.detail.removesuffix(f" ({provider.hint})") if provider.hint else provider.detail


def database_checks(folder: IndexFolder) -> Iterator[Check]:
    """Check the database file, query the full-text index, load sqlite-vec."""
    try:
        generation = folder.current()
        if generation is None:
            yield problem(Area.INDEX, "index", "there is none yet", _BUILD, EXIT_INDEX)
            return
        connection = open_database(folder.path(generation), readonly=True)
    except MemtuiError as error:
        yield problem(Area.INDEX, "index", error.message, error.hint or _REBUILD, EXIT_INDEX)
        return
    try:
        yield _whole(connection)
        yield asked(Area.INDEX, "full-text", lambda: _terms(connection))
        yield _vectors(connection)
    finally:
        connection.close()


def _whole(connection: Connection) -> Check:
    check = asked(Area.INDEX, "database", lambda: damage(connection) or "")
    if check.grade is not Grade.OK:
        return check
    if check.detail:
        return problem(Area.INDEX, "database", check.detail, _REBUILD, EXIT_INDEX)
    return fine(Area.INDEX, "database", "quick_check found nothing wrong")


def _terms(connection: Connection) -> str:
    rows = number(connection, "SELECT count(*) FROM chunks_fts")
    number(connection, "SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", '"memory"')
    return f"{counted(rows, 'row')} can be asked"


def _vectors(connection: Connection) -> Check:
    version = vector_extension(connection)
    if version is None:
        detail = "cannot be loaded; search uses the vectors of the cache"
        return problem(Area.INDEX, "sqlite-vec", detail, "pip install --force-reinstall sqlite-vec")
    return fine(Area.INDEX, "sqlite-vec", version)


def _cache(folder: IndexFolder, cache_mb: int) -> Check:
    cache = EmbeddingCache(folder.cache_path, partial(open_database, readonly=True), writable=False)
    try:
        size, count = cache.size_bytes(), cache.count()
    except (MemtuiError, DatabaseError) as error:
        hint = "delete it: its vectors are made again"
        return problem(Area.INDEX, "cache", f"{folder.cache_path} cannot be read: {error}", hint)
    finally:
        cache.close()
    return fine(
        Area.INDEX,
        "cache",
        f"{counted(count, 'vector')}, {size_words(size)} of at most {cache_mb} MB",
    )


MAX_CERTIFICATES: Final = 16 * 2**20
"""Bytes of a file of certificates; those of all authorities are a fraction of a megabyte."""

_TABLES: Final = ("embedding.", "index.", "memory.")
_STOPS: Final = frozenset({ProblemCode.UNKNOWN_KEY})


@dataclass(frozen=True, slots=True)
class Configured:
    """A value that is set; without anything secret."""

    key: str
    value: Any
    source: str
    place: str
    """`file:line`, `$VARIABLE` or the flag."""


def usable_settings(gathered: Gathered) -> Settings:
    """The settings without what is wrong with them; the defaults where nothing else is left."""
    return merge(gathered.layers)[0] or Settings()


def configured(gathered: Gathered) -> tuple[Configured, ...]:
    """What is set of the provider, the index and the memory, the winning place of each."""
    found: dict[str, Configured] = {}
    for layer in gathered.layers:
        for key, value in layer.values.items():
            if key.startswith(_TABLES) and key not in found:
                shown = shown_value(key, value)
                found[key] = Configured(key, shown, layer.source.value, layer.place(key))
    return tuple(found[key] for key in sorted(found))


def settings_checks(gathered: Gathered, settings: Settings) -> Iterator[Check]:
    """Every problem of the settings, or that there is none."""
    problems = (*gathered.problems, *merge(gathered.layers)[1])
    for found in problems:
        yield _of_problem(found)
    if not problems:
        where = gathered.user_file if gathered.user is not None else "no file, defaults"
        yield fine(Area.SETTINGS, "settings", str(where))
    yield from _certificates(settings)


def _of_problem(found: Problem) -> Check:
    name = found.key or "settings"
    detail = f"{found.place}: {found.message}" if found.place else found.message
    if found.fatal or found.code in _STOPS:
        return problem(Area.SETTINGS, name, detail, found.hint, EXIT_SETTINGS)
    return note(Area.SETTINGS, name, detail, found.hint)


def _certificates(settings: Settings) -> Iterator[Check]:
    named = settings.embedding.ca_file
    if not named:
        return
    key, path = "embedding.ca_file", Path(named)
    try:
        text = read_bytes(path.expanduser(), MAX_CERTIFICATES)
    except (OSError, RuntimeError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        yield problem(
            Area.SETTINGS, key, f"{path} cannot be read: {why}", "name a file", EXIT_SETTINGS
        )
        return
    if b"-----BEGIN CERTIFICATE-----" not in text:
        yield problem(
            Area.SETTINGS, key, f"{path} holds no certificate", "it must be PEM", EXIT_SETTINGS
        )
    else:
        yield fine(Area.SETTINGS, key, str(path))


def provider_listings(embedding: EmbeddingSettings) -> tuple[ProviderListing, ...]:
    """Every provider that can be chosen, without an index; loads and asks nothing."""
    requested = requested_name(embedding)
    return tuple(
        replace(
            _listed(embedding, name),
            is_requested=name == requested,
            is_fallback=name == embedding.fallback and name != requested,
        )
        for name in provider_names()
        if name not in (AUTO, NONE)
    )


def _listed(embedding: EmbeddingSettings, name: str) -> ProviderListing:
    choice = choice_for(embedding, name)
    try:
        return listing_of(registration_of(name), choice)
    except ImportError as error:
        detail = f"its part of memtui cannot be loaded: {safe_line(str(error))}"
        hint = "install memtui again"
        return ProviderListing(name, "", False, False, detail, hint, Failure.NOT_INSTALLED)


def listed_by(engine: Engine) -> tuple[ProviderListing, ...]:
    """The providers of a memory, with the one that answers for the index that is live.

    The requested one with how it failed, where it did when it was last asked. Raises
    `IndexUnusable` when there is an index that cannot be read.
    """
    engine.index.refresh_status()
    state = engine.index.status().provider
    return tuple(
        _as_last_asked(replace(listing, is_actual=listing.name == state.actual), state)
        for listing in engine.providers.available()
    )


def _as_last_asked(listing: ProviderListing, state: ProviderState) -> ProviderListing:
    if state.failure is None or not (listing.is_requested and listing.works):
        return listing
    detail = why(state).removeprefix(f"{listing.name}: ")
    return replace(listing, detail=detail, hint=state.hint, failure=state.failure)


def may_be_asked(listing: ProviderListing) -> bool:
    """Whether a probe is what the user chose: a service only where it is configured."""
    chosen = listing.is_requested or listing.is_actual or listing.is_fallback
    return listing.works and (chosen or not is_service(listing))


def is_service(listing: ProviderListing) -> bool:
    """Whether another program computes the vectors, on this machine or elsewhere."""
    return listing.remote or bool(listing.address)


def probes_of(
    listings: Sequence[ProviderListing],
    embedding: EmbeddingSettings,
    tell: Callable[[str], None],
) -> Iterator[ProbeResult]:
    """Embed one word with each provider that may be asked; `tell` hears which one is next."""
    for listing in listings:
        if not may_be_asked(listing):
            continue
        where = f" at {listing.address}" if listing.address else ""
        tell(f"asking {listing.name}{where}")
        try:
            yield probe(choice_for(embedding, listing.name))
        except MemtuiError as error:
            yield ProbeResult(listing.name, False, safe_line(error.message), safe_line(error.hint))


def provider_checks(
    embedding: EmbeddingSettings,
    listings: Sequence[ProviderListing],
    probes: Sequence[ProbeResult],
) -> Iterator[Check]:
    """The requested provider, the fallback, and what the probes found."""
    asked = {result.name: result for result in probes}
    by_name = {listing.name: listing for listing in listings}
    requested = requested_name(embedding)
    chosen, second = by_name.get(requested), by_name.get(embedding.fallback)
    falls_back = second is not None and second is not chosen and _answers(second, asked)
    if embedding.provider == NONE:
        yield fine(Area.PROVIDERS, "requested", "none: keyword search alone, as configured")
    elif chosen is None:
        yield _unknown("embedding.provider", embedding.provider)
    else:
        code = EXIT_OTHER if falls_back else EXIT_PROVIDER
        asked_for = AUTO if embedding.provider == AUTO else ""
        yield _judged("requested", chosen, asked.get(chosen.name), code, asked_for)
    if embedding.provider != NONE:
        yield from _second(embedding, second, chosen, asked)
    named = {requested, embedding.fallback}
    for result in probes:
        if result.name not in named:
            yield _probed(result)


def _second(
    embedding: EmbeddingSettings,
    second: ProviderListing | None,
    chosen: ProviderListing | None,
    asked: dict[str, ProbeResult],
) -> Iterator[Check]:
    if embedding.fallback == NONE:
        yield fine(Area.PROVIDERS, "fallback", "none: without the provider, keyword search alone")
    elif second is None and embedding.fallback != AUTO:
        yield _unknown("embedding.fallback", embedding.fallback)
    elif second is not None and second is not chosen:
        yield _judged("fallback", second, asked.get(second.name), EXIT_OTHER)


def _answers(listing: ProviderListing, asked: dict[str, ProbeResult]) -> bool:
    result = asked.get(listing.name)
    if result is not None:
        return result.works
    return listing.works and listing.failure is None


def _unknown(key: str, name: str) -> Check:
    hint = "`memtui providers` lists them"
    return problem(
        Area.PROVIDERS, key, f"no embedding provider is named {name}", hint, EXIT_SETTINGS
    )


def _judged(
    role: str,
    listing: ProviderListing,
    result: ProbeResult | None,
    code: int,
    asked_for: str = "",
) -> Check:
    name = f"{listing.name} ({asked_for})" if asked_for else listing.name
    if not listing.works or (result is None and listing.failure is not None):
        return problem(Area.PROVIDERS, role, f"{name}: {listing.detail}", listing.hint, code)
    if result is None:
        # A look cannot tell whether a service answers, or takes the key.
        untried = "; not tried (--probe asks it)" if is_service(listing) else ""
        return fine(Area.PROVIDERS, role, f"{name}: {listing.detail}{untried}")
    if not result.works:
        return problem(Area.PROVIDERS, role, f"{name}: {result.detail}", result.hint, code)
    return fine(Area.PROVIDERS, role, f"{name}: {answer_words(result)}")


def _probed(result: ProbeResult) -> Check:
    if result.works:
        return fine(Area.PROVIDERS, result.name, answer_words(result))
    return note(Area.PROVIDERS, result.name, result.detail, result.hint)


def answer_words(result: ProbeResult) -> str:
    """What a provider answered, how fast, and from where."""
    took = "" if result.milliseconds is None else f" in {result.milliseconds:.1f} ms"
    where = f" from {result.address}" if result.address else ""
    return f"{result.detail}{took}{where}"
