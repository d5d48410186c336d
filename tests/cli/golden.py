"""Recorded command lines: what each prints and its exit code.

`cases.json` lists the command lines by group; `answers/<group>.json.xz` holds what they answered. In an
argument `{4}`, `{7}` and `{9}` stand for the recorded indexes of OpenClaw 2026.4.26, 2026.7.1 and
2026.9.6, `{vectors}` for the query vectors that belong to them and `{ws}` for a small workspace with
hostile notes. Every group runs in a home of its own, `{home}`; with `agents` there are two agents of
OpenClaw in it, with `transcripts` conversations of three programs in every condition; with some
`{service}` is an embedding service on this machine. `{history}` is the file with the queries of
`{home}/notes`. A case that begins with `!` prepares what follows: `!write FILE TEXT [COUNT]` (COUNT
files, their number for `%d`), `!remove FILE`, `!folder FOLDER`, `!pipe FILE`, `!link FILE TARGET`,
`!mode FILE BITS`, `!date FILE SECONDS`, `!sql DATABASE STATEMENT`, `!set VARIABLE [VALUE]`, `!refuse
[STATUS]` (the service refuses every key so, or works again); the answer of `!read FILE` is what the
file holds, that of `!holds TEXT` names the files in the home that hold a text. A FILE may be a
pattern.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from glob import glob
from pathlib import Path
from typing import Any

from memtui.data import DEMO_ROOT
from memtui.memory.workspace import workspace_id
from memtui.settings.files import history_name
from tests.support import command_line, recorded
from tests.support.conversations import every_condition
from tests.support.embedding_services import EmbeddingServer, embedding_server, repeated_key
from tests.support.known import load
from tests.support.openclaw import edit, make_state
from tests.support.small_memory import write_notes

FOLDER = Path(__file__).parent
CASES: dict[str, list[list[str]]] = json.loads((FOLDER / "cases.json").read_text("utf-8"))
_VOLATILE_WORDS = """
elapsed_ms pool_ms rank_ms timings generation version python platform libraries mtime mtime_ns made_at
at seconds milliseconds rate eta pid index_dir index_bytes bytes_on_disk cache_bytes last_sync
recorded_at started_at finished_at
"""
VOLATILE = frozenset(_VOLATILE_WORDS.split())
"""Keys whose values are times, places or versions."""
VOLATILE_TEXT = (
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d+(\.\d+)? (ms|s)\b|(?<=generation )[0-9a-z]{6,}"
    r"|(?<=\d )\d+ (d|mo|y)(?=\n)"
    r"|(?m:(?<=^  ok      )(memtui|python|sqlite|sqlite-vec|keyring) .*)"
)
"""Times, durations, generations, the ages of agents and versions in the text of a page."""
RELEASES = {"4": "2026.4.26", "7": "2026.7.1", "9": "2026.9.6"}
WITH_SERVICE = {"providers", "doctor", "secrets"}
WITH_ERRORS = WITH_SERVICE | {"text", "agents", "settings", "transcripts", "index"}
NOTES_MTIME = 1_793_000_000
NOTES: dict[str, str] = load("notes")["command lines"]


def run_group(group: str) -> list[dict[str, Any]]:
    """Run the command lines of a group in a home of their own; their answers."""
    # Of the same length everywhere: places are wrapped.
    with (
        tempfile.TemporaryDirectory(prefix="memtui-cli-", dir="/tmp") as name,
        embedding_server() if group in WITH_SERVICE else nullcontext() as server,
    ):
        return _run_group(group, Path(name), server)


def _run_group(group: str, folder: Path, server: EmbeddingServer | None) -> list[dict[str, Any]]:
    places = _prepare(group, folder)
    home = folder / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }
    places |= {"home": str(home), "service": server.url if server is not None else ""}
    history = history_name(workspace_id(home / "notes"))
    places["history"] = str(home / ".local/state/memtui" / history)
    if group == "agents":
        make_state(home / ".openclaw", "2026.4.26")
        make_state(home / ".openclaw", "2026.9.6", "new")
    if group == "transcripts":
        every_condition(home)
    answers: list[dict[str, Any]] = []
    for case in CASES[group]:
        arguments = [re.sub(r"\{(\w+)\}", lambda name: places[name[1]], word) for word in case]
        if arguments[0] == "!refuse" and server is not None:
            server.faults, server.stays = [repeated_key(int(word)) for word in arguments[1:]], True
            answers.append({})
            continue
        if arguments[0].startswith("!"):
            text = _prepare_step(environment, home, *arguments)
            answers.append({} if text is None else {"text": _parse(text, folder)})
            continue
        done = command_line.call(arguments, environment=environment, folder=folder)
        answer = {"exit": done.returncode, "out": _parse(done.stdout, folder)}
        if group in WITH_ERRORS:
            answer["err"] = _parse(done.stderr, folder)
        if server is not None:
            answer["requests"] = len(server.seen)
        answers.append(answer)
    return answers


def _prepare_step(
    environment: dict[str, str], home: Path, verb: str, name: str, *words: str
) -> str | None:
    if "*" in name:
        (name,) = glob(name)
    match verb, words:
        case "!write", (text, *count):
            for number in range(int(count[0]) if count else 1):
                path = Path(name.replace("%d", str(number)))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")
        case "!remove", ():
            Path(name).unlink()
        case "!folder", ():
            Path(name).mkdir(parents=True)
        case "!pipe", ():
            os.mkfifo(name)
        case "!link", (target,):
            Path(name).symlink_to(target)
        case "!mode", (bits,):
            Path(name).chmod(int(bits, 8))
        case "!date", (seconds,):
            os.utime(name, (int(seconds), int(seconds)))
        case "!sql", (statement,):
            edit(Path(name), statement)
        case "!holds", ():
            return "\n".join(sorted(_holding(home, name.encode())))
        case "!set", (value,):
            environment[name] = value
        case "!set", ():
            del environment[name]
        case "!read", ():
            return Path(name).read_text("utf-8")
        case _:
            raise ValueError(f"not a step: {verb} {name}")
    return None


def _holding(home: Path, text: bytes) -> Iterator[str]:
    for path in home.rglob("*"):
        if path.is_file() and text in path.read_bytes():
            yield path.relative_to(home).as_posix()


def _prepare(group: str, folder: Path) -> dict[str, str]:
    workspace = folder / "ws"
    write_notes(workspace, NOTES, NOTES_MTIME)
    vectors = folder / "query_vectors.json"
    vectors.write_bytes(gzip.decompress(recorded.QUERY_VECTORS.read_bytes()))
    places = {"ws": str(workspace), "vectors": str(vectors)}
    for number, release in RELEASES.items():
        if any(f"{{{number}}}" in case for case in CASES[group]):
            database = folder / f"openclaw-{release}.sqlite"
            places[number] = str(recorded.build(release, database))
    return places


def _parse(text: str, folder: Path) -> Any:
    """Read an output without what differs from run to run."""
    text = text.replace(str(folder), "<dir>").replace(str(DEMO_ROOT), "<demo>")
    # Patterns that begin with a letter are looked for fast, and the others only where they may be.
    for name in ("ws", "demo", "notes"):
        text = re.sub(rf"{name}-[0-9a-f]{{12}}\b", "<id>", text)
    text = re.sub(r"127\.0\.0\.1:(?!11434|1234)\d+", "<service>", text)
    # Words first, and numbers from their first digit: a document is full of long numbers.
    text = re.sub(r"index-\d+", "index-<?>", text)
    text = re.sub(r"system limit \d+", "system limit <?>", text)
    if " ms" in text or "B free" in text:
        text = re.sub(r"(?<![\d.])\d[\d.]* (?:.?B(?= free)|ms\b)", "<?>", text)
    try:
        return json.loads(text, object_pairs_hook=_lasting)
    except ValueError:
        return re.sub(VOLATILE_TEXT, "<?>", text)


def _lasting(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if values.get("area") == "program":
        del values["detail"]
    if "state_dir" in values:
        values.pop("age_days", None)
    for name in ("changed", "on_disk"):
        if isinstance(values.get(name), str):
            del values[name]
    return {name: value for name, value in values.items() if name not in VOLATILE}


def answers_file(group: str) -> Path:
    return FOLDER / "answers" / f"{group}.json.xz"


def recorded_answers(group: str) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = json.loads(lzma.decompress(answers_file(group).read_bytes()))
    return answers


def record(group: str, answers: list[dict[str, Any]]) -> None:
    text = json.dumps(answers, ensure_ascii=False, indent=0)
    answers_file(group).write_bytes(lzma.compress(text.encode(), preset=9))


def compare(
    group: str, answers: list[dict[str, Any]], expected: list[dict[str, Any]]
) -> Iterator[tuple[str, list[str]]]:
    """Yield each command line that answered otherwise, and the first differences."""
    for case, answer, wanted in zip(CASES[group], answers, expected, strict=True):
        if repr(wanted) != repr(answer) and (lines := list(differences(wanted, answer))):
            yield " ".join(["memtui", *case]), lines


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield where two answers differ; numbers are equal within 1e-9."""
    if isinstance(old, float) or isinstance(new, float):
        numbers = isinstance(old, int | float) and isinstance(new, int | float)
        if not (numbers and math.isclose(old, new, rel_tol=1e-9, abs_tol=1e-9)):
            yield f"{where}: {old!r} -> {new!r}"
    elif type(old) is not type(new):
        yield f"{where}: {str(old)[:80]!r} -> {str(new)[:80]!r}"
    elif isinstance(old, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in new:
                yield f"{where}/{key}: gone"
            elif key in old:
                yield from differences(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} -> {len(new)} entries"
        for number, (one, two) in enumerate(zip(old, new, strict=False)):
            yield from differences(one, two, f"{where}/{number}")
    elif old != new:
        yield f"{where}: {str(old)[:80]!r} -> {str(new)[:80]!r}"
