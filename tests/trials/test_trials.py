"""A small seeded part of each long trial, and the frame that records and shows them."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from memtui.embedding.batch import BatchStore, Ticket
from memtui.embedding.http import duration
from memtui.settings.files import VIEW, StateFolder, history_name, sync_folder
from memtui.text.redact import credentials_in
from tests.bench.frame import load
from tests.e2e.terminal import terminal
from tests.support import known
from tests.support.interrupted import run_forked
from tests.support.openclaw import hash_tree
from tests.trials.crash import Kill, PowerLoss
from tests.trials.crash_scenes import SCENES
from tests.trials.file_changes import Change, Disk, Kind
from tests.trials.frame import PROGRAM, RECORDED, TRIALS, Options, markdown, trial_of
from tests.trials.fuzz import Target, targets, try_target
from tests.trials.growth import expressions
from tests.trials.planted import call_failing, keep_failing, memory, writes
from tests.trials.privacy import (
    QUERY,
    Stage,
    complaints,
    holding,
    open_to_others,
    read_trace,
    search_and_leave,
    under_umask,
    watched,
)
from tests.trials.soak import Samples
from tests.trials.terminal import commands, environment, prepare, scenes, wrong_in, wrong_in_output

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_holds_the_table_of_the_recorded_runs() -> None:
    assert markdown(load(RECORDED)) in README.read_text(encoding="utf-8")


def test_every_recorded_run_can_be_repeated_by_one_command() -> None:
    for name, entry in load(RECORDED).items():
        assert str(entry["repeat"]).startswith(PROGRAM), name
        assert trial_of(entry) in TRIALS, name


def test_every_call_of_re_is_found_with_its_pattern() -> None:
    found, unknown = expressions()
    assert unknown == []
    assert len(found) > 250
    assert any(one.methods == {"fullmatch"} for one in found)


# What follows took minutes, or longer than anybody waits, and ran with no other thread beside it.


def test_words_in_a_row_are_told_from_a_token_at_once() -> None:
    token = "sk-" + "a-" * 2000 + "9x7777"
    assert not list(credentials_in(f"the key is {token}"))
    bot = "8240917:Qz8vKp3LmWx5TnB2cYd7"
    assert list(credentials_in(f"words-in-a-row-and-Another_one99.x\n{bot}")) == [(1, bot)]


def test_digits_without_an_end_are_no_token_and_no_duration() -> None:
    digits = "0123456789" * 6000
    assert not list(credentials_in(digits))
    assert duration(digits + "x") is None
    assert duration("6m0.5s") == 360.5


def test_what_grows_by_event_is_named_and_what_is_noise_is_not() -> None:
    samples = Samples(list(range(0, 4000, 100)))
    steady = [20 + (number % 2) for number in range(40)]
    for name in ("resident bytes", "threads", "connections", "objects", "widgets"):
        samples.held[name] = list(map(float, steady))
    samples.held["open files"] = [20 + number for number in range(40)]
    assert [failure.split(":")[0] for failure in samples.failures()] == ["open files"]


@pytest.mark.parametrize("name", ["sync", "first sync", "rebuild", "first rebuild", "swap"])
def test_a_killed_process_loses_nothing(tmp_path: Path, name: str) -> None:
    stage, rng = Kill(SCENES[name], tmp_path / name, measured=1), random.Random(7)
    tried = [stage.once(rng, by_time=bool(run % 2)) for run in range(6)]
    assert [wrong for wrong, _ in tried] == [[]] * 6
    assert sum(bool(facts) for _, facts in tried) >= 3


@pytest.mark.parametrize("name", ["rebuild", "cache write"])
def test_a_loss_of_power_loses_nothing_that_was_acknowledged(tmp_path: Path, name: str) -> None:
    stage, rng = PowerLoss(SCENES[name], tmp_path / name), random.Random(7)
    assert [stage.once(rng)[0] for _ in range(5)] == [[]] * 5


def test_a_write_that_fails_and_too_little_memory_lose_nothing(tmp_path: Path) -> None:
    failing = list(writes(Options(tmp_path / "writes"), ("rebuild", "settings"), every=130))
    short = list(memory(Options(tmp_path / "memory", runs=1), ("search",)))
    assert [line for one in (*failing, *short) for line in one.wrong] == []
    assert len(failing) > 2
    assert [one.facts["with an error"] for one in short] == [1]


def test_a_demo_that_cannot_be_indexed_says_why(tmp_path: Path) -> None:
    stage, command = Stage(tmp_path / "stage"), "search router --demo"
    (ended, failed), _ = run_forked(call_failing, stage, command, 20, errno.ENOSPC)
    assert failed
    assert json.loads(ended.stdout)["error"]["code"] == "indexing_failed"


@pytest.mark.parametrize("name", [VIEW, history_name("notes-1")])
def test_a_view_or_history_that_cannot_be_written_is_as_before_or_as_it_was_to_be(
    tmp_path: Path, name: str
) -> None:
    folder = StateFolder(tmp_path / "state")
    for number in range(50):
        folder.write_json(name, ["before"])
        (failed, told), _ = run_forked(keep_failing, folder.path, name, number, errno.ENOSPC)
        assert told in ("", os.strerror(errno.ENOSPC))
        assert folder.read_json(name) in ((["before"], ["heron"]) if told else (["heron"],))
        if not failed:
            break
    assert 2 < number < 49


def test_what_was_not_synced_may_be_lost_and_what_was_is_not(tmp_path: Path) -> None:
    start, folder = tmp_path / "start", tmp_path / "data"
    start.mkdir()
    (start / "kept").write_bytes(b"old")
    name = str(folder / "new")
    outcomes: set[tuple[tuple[str, bytes], ...]] = set()
    for luck in range(200):
        disk = Disk(start)
        for change in (
            Change(Kind.CREATE, name),
            Change(Kind.WRITE, name, 0, b"first"),
            Change(Kind.SYNC, name),
            Change(Kind.WRITE, name, 5, b", second"),
            Change(Kind.REMOVE, str(folder / "kept")),
        ):
            disk.apply(change)
        left = tmp_path / f"left-{luck}"
        left.mkdir()
        disk.lose_power(left, random.Random(luck))
        outcomes.add(tuple(sorted((path.name, path.read_bytes()) for path in left.iterdir())))
    written = {b"first", b"first, second"}
    assert {content for found in outcomes for at, content in found if at == "new"} == written
    names = {tuple(at for at, _ in found) for found in outcomes}
    assert names == {(), ("kept",), ("new",), ("kept", "new")}


def test_a_ticket_outlives_a_loss_of_power_before_its_batch_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Path, bool]] = []
    path = tmp_path / "batches.json"
    sync = "memtui.embedding.batch.sync_folder"
    monkeypatch.setattr(sync, lambda folder: synced.append((folder, path.exists())))
    ticket = Ticket(("127.0.0.1:1", "openai", "m", "ab"), "file-1", "", 3, 1.0, 2.0)
    BatchStore(path).put(ticket)
    assert synced == [(tmp_path, True)]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
def test_a_file_system_that_cannot_sync_folders_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
    if number == errno.EIO:
        with pytest.raises(OSError, match=os.strerror(number)):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)


SEED = 7


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_promises_hold_for_inputs_that_nobody_wrote(target: Target, tmp_path: Path) -> None:
    case = try_target(target, target.share, SEED, tmp_path)
    assert not case.wrong, "\n".join(case.wrong)
    assert case.tried == target.share + len(target.kept())


def test_an_input_that_breaks_a_promise_is_kept_with_the_command_that_repeats_it(
    tmp_path: Path,
) -> None:
    target = Target("broken one", Mock(side_effect=ValueError("broken\n[/]")), lambda: [b"seed"])
    case = try_target(target, 3, SEED, tmp_path / "failures")
    (file,) = (tmp_path / "failures").iterdir()
    (line,) = case.wrong
    assert line.endswith(f"python -m tests.trials.fuzz broken-one {file}")
    assert "ValueError: broken\\n[/]" in line
    assert case.facts["failing inputs"] == 3


CONTROL = """
import os, socket, sys
open(sys.argv[1], "w").close()
os.chmod(sys.argv[1], 0o600)
os.rename(sys.argv[1], sys.argv[1] + " 2")
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect_ex(("127.0.0.1", 9))
"""


def test_a_private_session_writes_only_its_own_folders_and_connects_to_nobody(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "stage")
    before, log = hash_tree(stage.memory), tmp_path / "trace"
    with terminal(
        "--private",
        str(stage.memory),
        home=stage.home,
        size=(120, 40),
        more=stage.environment,
        before=under_umask("000", watched(log)),
    ) as window:
        search_and_leave(window)
        window.ends()
    trace = read_trace(log, Path.cwd())
    assert complaints(stage, trace) == []
    assert hash_tree(stage.memory) == before
    assert open_to_others(stage) == []
    assert holding(stage, QUERY.split()[0]) == []
    assert not list((stage.home / "state" / "memtui").glob("history*"))
    # The index was made and the trace tells so.
    assert any(path.endswith("/CURRENT") for _, path in trace.writes)


def test_the_trace_shows_what_is_forbidden(tmp_path: Path) -> None:
    outside, log = tmp_path / 'ünder <the> "quotes"', tmp_path / "trace"
    command = [sys.executable, "-I", "-S", "-c", CONTROL, str(outside)]
    subprocess.run([*watched(log), *command], cwd=tmp_path, check=True)
    trace = read_trace(log, tmp_path)
    assert trace.surprises == []
    assert trace.outside([tmp_path / "elsewhere"]) == [
        f"openat {outside}",
        f"chmod {outside}",
        f"rename {outside}",
        f"rename {outside} 2",
    ]
    assert trace.outside([tmp_path]) == []
    assert trace.connections() == ["socket INET", "connect INET"]


def test_hostile_notes_reach_a_screen_and_a_command_as_text(tmp_path: Path) -> None:
    root, env = prepare(tmp_path), environment(tmp_path)
    outcomes = [*scenes(root, env, ("explanation",))]
    outcomes += commands(root, env, ("search",), ends=("terminal",))
    assert [line for one in outcomes for line in one.wrong] == []
    assert sum(one.tried for one in outcomes) > 4_000


@pytest.mark.parametrize("written", known.load("hostile")["bytes that no screen may write"])
def test_what_no_screen_may_write_is_told(written: str) -> None:
    data = written.encode("latin-1")
    assert wrong_in(b"\x1b[?25l\x1b[1;1H\x1b[38;2;1;2;3mtext" + data)
    assert wrong_in_output(b"text\n" + data, colours=True)


def test_what_textual_writes_is_nothing_to_tell() -> None:
    stream = (
        b"\x1b[?1049h\x1b[?1000h\x1b[?2026$p\x1b[>1u\x1b]22;default\x07\x1b[2;3H\x1b[1;31mhi\x1b[0m"
    )
    assert wrong_in(stream) == []
    assert wrong_in_output(b"\x1b[1mhi\x1b[0m\n\tok\r\n", colours=True) == []
