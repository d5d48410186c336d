"""What the readers of configuration and of small JSON files promise for every content."""

from __future__ import annotations

import json
import tempfile
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from memtui.embedding.batch.store import BatchStore
from memtui.embedding.provider import ProviderIdentity
from memtui.engine.given_vectors import load_given
from memtui.engine.providers.noted import NotedProvider
from memtui.errors import SettingsError
from memtui.index.generations import IndexFolder, WriterLock
from memtui.settings import SettingsProblems, StateFolder, check_settings, load_settings
from memtui.settings.files import UnreadableJson, read_json
from memtui.settings.keys import leaves, tables
from memtui.settings.load import TRUST_FILE, revoke
from memtui.settings.openclaw import RELEASES, read_config, to_settings
from memtui.settings.openclaw.secrets import own_variables
from memtui.settings.sample import sample_config
from memtui.settings.storage import history_name, queries_in
from memtui.settings.toml import REMOVED, CannotEdit, edited, toml_value, with_table, without_table
from memtui.text.sanitize import HOSTILE
from tests.trust.fuzz_inputs import Given, Target, bytes_of
from tests.trust.fuzz_texts import NAMED_SECRET, hostile_seeds


@cache
def _folder() -> Path:
    """A folder of this process that lives as long as it does."""
    _KEPT.append(tempfile.TemporaryDirectory(prefix="memtui-fuzz-"))
    place = Path(_KEPT[-1].name).resolve()
    for name in ("root", "state", "openclaw", "index"):
        (place / name).mkdir()
    return place


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def one_line(text: str) -> None:
    """What is told is one line that no terminal acts on."""
    assert "\n" not in text, "a message has two lines"
    assert HOSTILE.search(text) is None, "a message holds a control character"


# --- memtui's own configuration -------------------------------------------------------------------


def check_settings_file(given: Given) -> None:
    """A file gives settings, warnings or problems of one line each."""
    place = _folder()
    user, project = place / "user.toml", place / "root" / ".memtui.toml"
    files = (user, project, place / "root" / "pyproject.toml")
    chosen = given.pick(files)
    for file in files:
        file.unlink(missing_ok=True)
    chosen.write_bytes(given.body)
    environment = {"MEMTUI_CONFIG": str(user)} if chosen is user else {}
    state = StateFolder(place / "state")
    root = place / "root"
    for problem in check_settings(env=environment, root=root, state=state):
        one_line(str(problem))
    try:
        loaded = load_settings(env=environment, root=root, state=state)
    except SettingsProblems as problems:
        for problem in problems.problems:
            one_line(str(problem))
        return
    for warning in loaded.warnings:
        one_line(warning)
    for key, origin in loaded.origins.items():
        assert isinstance(origin.place, str)
        assert key


_NEW_VALUES: Final[tuple[Any, ...]] = (7, 0.25, True, 'te"xt\n\x1b', [1, 2], "", REMOVED)
_PATHS: Final = (
    ("k",),
    ("ranking", "k"),
    ("ranking", "mmr", "lambda"),
    ("ui", "theme"),
    ("a", "b", "c"),
    ("new",),
    ("q.r", 'x"y'),
)


def check_edit(given: Given) -> None:
    """An edit changes its key and, but for one stretch of text, not a byte."""
    path, value, whole = given.pick(_PATHS), given.pick(_NEW_VALUES), bool(given.number(2))
    text = given.text()
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError):
        return
    if whole:
        _check_table(text)
        return
    try:
        after = edited(text, {path: value})
    except (CannotEdit, RecursionError):
        return
    found = tomllib.loads(after)
    wanted = None if value is REMOVED else tomllib.loads(f"x = {toml_value(value)}")["x"]
    assert _at(found, path) == wanted, "the key does not say what was asked for"
    if _at(document, path) == wanted:
        return
    start = _shared(text, after)
    end = _shared(text[start:][::-1], after[start:][::-1])
    assert start + end <= min(len(text), len(after))
    if value is not REMOVED and _at(document, path) is None:
        assert start + end == len(text), "an addition took something out"
    elif value is not REMOVED:
        assert "\n" not in text[start : len(text) - end] or isinstance(
            _at(document, path), list | str
        ), "another value changed more than its line"


def _check_table(text: str) -> None:
    path = ("profiles", "fuzz")
    try:
        after = with_table(text, path, {"k": 3, "mmr.lambda": 0.5})
    except (CannotEdit, RecursionError):
        return
    assert tomllib.loads(after)["profiles"]["fuzz"] == {"k": 3, "mmr": {"lambda": 0.5}}
    again = without_table(after, path)
    # A blank line that was put before the table may stay.
    assert [*filter(str.strip, again.split("\n"))] == [*filter(str.strip, text.split("\n"))]


def _at(table: Any, path: Sequence[str]) -> Any:
    for part in path:
        table = table.get(part) if isinstance(table, dict) else None
    return table


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with together."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


# --- OpenClaw's configuration ---------------------------------------------------------------------


def check_openclaw_config(given: Given) -> None:
    """Any file gives a configuration; what is wrong with it is told in lines without secrets."""
    place = _folder() / "openclaw"
    (place / "openclaw.json").write_bytes(given.body)
    (place / "other.json").write_bytes(
        b'{agents: {list: [{id: "x"}]}, $include: "./openclaw.json"}'
    )
    env = {"HOME": str(place), "OPENCLAW_STATE_DIR": str(place), "KEY_X": NAMED_SECRET}
    config = read_config(env, place)
    for problem in config.problems:
        one_line(problem)
        assert NAMED_SECRET not in problem, "a secret is told"
    assert NAMED_SECRET not in repr(config.defaults), "a secret is kept"
    assert config.agents
    for agent in config.agents:
        assert agent.name
        assert "\0" not in str(agent.workspace)
        assert NAMED_SECRET not in repr(to_settings(agent, given.pick(RELEASES))), (
            "a secret is converted"
        )
    (place / ".env").write_bytes(given.body)
    variables = own_variables(env, place)
    assert all(name and value for name, value in variables.items())
    (place / ".env").unlink()


# --- small JSON files -----------------------------------------------------------------------------


def check_json_files(given: Given) -> None:
    """A damaged file of the program's own counts as empty, one that a person names is explained."""
    place, data = _folder(), given.body
    if given.number(8) == 0:
        import gzip

        packed = gzip.compress(data, 1)
        data = packed[: len(packed) - given.number(12)]
    file = place / "given.json"
    file.write_bytes(data)
    with suppress(UnreadableJson):
        read_json(file)
    try:
        vectors = load_given(file)
    except SettingsError as error:
        one_line(str(error))
    else:
        for vector in vectors.by_query.values():
            assert vector.ndim == 1
    state = StateFolder(place / "state")
    for name in (history_name("w"), TRUST_FILE):
        (state.path / name).write_bytes(data)
    assert all(isinstance(query, str) for query in queries_in(state, "w"))
    revoke(place / "none.toml", state)
    (place / "provider.json").write_bytes(data)
    noted = NotedProvider(place).read()
    assert noted is None or HOSTILE.search(noted.detail) is None
    (place / "batches.json").write_bytes(data)
    identity = ProviderIdentity("openai", "model", None, "0a")
    BatchStore(place / "batches.json").under_way("openai", "host", identity, 0.0)
    folder = IndexFolder(place / "index")
    folder.owner_path.write_bytes(data)
    folder.current_path.write_bytes(data)
    folder.current()
    WriterLock(folder).written_owner()


def _toml_seeds() -> list[bytes]:
    keys = sorted({*leaves()} - {""})
    lines = "".join(f"{key} = 1\n" for key in keys if not any(c in key for c in "<*"))
    texts = (
        sample_config(),
        lines,
        "[ranking]\nk = 6 # why\nmmr = { lambda = 0.5, enabled = true }\n\n[ui]\nmouse = false\n",
        "a.b.c = 1\n[x]\ny = [1, # one\n 2]\n[[z]]\nt = '''a'''\nu = \"\"\"b\n\"\"\"\n",
        '[profiles.mine]\nprofile = "openclaw-2026.9"\nk = 3\n[tool.memtui]\nk = 2\n',
    )
    return [*map(bytes_of, texts), *hostile_seeds()]


def _toml_words() -> tuple[bytes, ...]:
    names = [*sorted(leaves()), *sorted(tables())]
    signs = ("[", "]", "[[", "]]", "=", ".", ",", "{", "}", "#", '"', "'", '"""', "'''", "\\", "\n")
    values = ("true", "1e999", "nan", "-1", "0x", "9" * 40, "2026-11-22", '""', "\r\n", "\ufeff")
    return tuple(map(bytes_of, (*names, *signs, *values)))


def _json5_seeds() -> list[bytes]:
    search = {"enabled": True, "provider": "openai", "remote": {"apiKey": NAMED_SECRET}}
    search |= {"query": {"maxResults": 6, "hybrid": {"vectorWeight": 0.7, "mmr": {"lambda": 2}}}}
    listed = [{"id": "main", "default": True, "workspace": "~/w", "memorySearch": search}, {}]
    old = {"agents": {"defaults": {"memorySearch": search}, "list": listed}}
    new = {"memory": {"search": search, "citations": "on"}, "agents": {"entries": {"a": {}}}}
    texts = (
        json.dumps(old),
        json.dumps(new, indent=2),
        "// a comment\n{agents: {defaults: {workspace: '${KEY_X}',},}, $include: './other.json',}",
        "{memory: {search: {store: {path: '/a/{agentId}.sqlite'}, extraPaths: ['x', 1, null]}}}",
        "{env: {vars: {A: 'b'}, B: 1}}\nexport A='b' # c\nC=\"d\"\n",
    )
    return [*map(bytes_of, texts), *hostile_seeds()]


def _json5_words() -> tuple[bytes, ...]:
    words = (
        *(
            "{",
            "}",
            "[",
            "]",
            ":",
            ",",
            '"',
            "'",
            "//",
            "/*",
            "*/",
            "$include",
            "${KEY_X}",
            "$${A}",
        ),
        *("Infinity", "NaN", "-0", "0x1f", ".5", "1e400", "null", "true", "\\u{110000}", "\\ud800"),
        *("agents", "list", "entries", "defaults", "memorySearch", "memory", "search", "query"),
        *(
            "apiKey",
            "workspace",
            "hybrid",
            "candidateMultiplier",
            "sources",
            "'./other.json'",
            "\0",
        ),
        *("chunking", "tokens", "overlap", "cache", "maxEntries", "fallback", "model", "store"),
        NAMED_SECRET,
    )
    return tuple(map(bytes_of, words))


def _json_seeds() -> list[bytes]:
    ticket: dict[str, Any] = dict.fromkeys(("service", "provider"), "openai")
    ticket |= {"address": "host", "model": "model", "fingerprint": "0a", "input_file": "file-1"}
    ticket |= {"batch": "b-1", "texts": 3, "submitted_at": 1.0, "expires_at": 9e9, "attempt": 1}
    noted: dict[str, Any] = dict.fromkeys(("requested", "actual", "model", "detail"), "x")
    noted |= {"dimensions": 3, "state": "provider_failed", "remote": False, "address": "h"}
    noted |= {"failure": None, "hint": ""}
    documents: tuple[Any, ...] = (
        {"vectors": {"a": [1.0, 2], "b": [3, 4]}},
        [{"query": "a", "vector": [1]}, {"query": "b", "vector": [2]}],
        ["one query", "another", 3],
        {"version": 1, "batches": [ticket]},
        noted,
        {"pid": 1, "started": 5},
    )
    return [*(json.dumps(document).encode() for document in documents), b"index-7.db\n"]


_JSON_WORDS: Final = tuple(
    map(
        bytes_of,
        (
            *("[", "]", "{", "}", ":", ",", '"', "null", "true", "1e999", "NaN", "-Infinity"),
            *('"\\ud800"', "9" * 400, "[[[[[[[[", '{"a":', "\ufeff", "\0", "index-", ".db", "\n"),
        ),
    )
)

TARGETS: Final = (
    Target("settings", check_settings_file, _toml_seeds, _toml_words(), runs=15_000, share=120),
    Target("toml edit", check_edit, _toml_seeds, _toml_words(), runs=150_000),
    Target("json5", check_openclaw_config, _json5_seeds, _json5_words(), runs=8_000, share=60),
    Target("json files", check_json_files, _json_seeds, _JSON_WORDS, runs=8_000, share=60),
)
