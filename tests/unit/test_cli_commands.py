"""What a recorded command line cannot show: what is opened, a crash, the machine's refusals."""

from __future__ import annotations

import io
import shutil
import stat
import threading
import tomllib
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest

from memtui import __version__, errors
from memtui.cli.common_options import ranking_flags
from memtui.cli.main import program, run, wants_json
from memtui.engine import doctor
from memtui.index.database import create, open_database
from memtui.index.foreign.audit import examine
from memtui.index.generations import IndexFolder, WriterLock
from memtui.model import Stage
from memtui.ranking.counterfactual.change import (
    FEATURE_OF,
    Change,
    Parameter,
    Value,
    apply,
    value_of,
)
from memtui.ranking.profiles import PROFILES
from memtui.report.explanation import flags_of
from memtui.settings.files import VIEW, StateFolder
from memtui.settings.load import SettingsFiles
from tests.support.command_line import Opened, Run, command_line, own_home
from tests.support.known import load
from tests.support.openclaw import SIDECAR, State, make_state
from tests.support.small_memory import write_notes

KEY = "sk-SECRET-of-the-environment-0123456789"


@pytest.fixture
def opened() -> Opened:
    return Opened()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return own_home(tmp_path, monkeypatch)


@pytest.fixture
def memtui(home: Path, opened: Opened, capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys, opened)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("main", "config"):
        monkeypatch.setattr(f"memtui.cli.{module}.at_terminal", lambda: True)


@pytest.fixture
def main(home: Path) -> State:
    return make_state(home / ".openclaw", SIDECAR)


@pytest.fixture
def notes(home: Path) -> Path:
    folder = home / "notes"
    folder.mkdir()
    (folder / "MEMORY.md").write_text("# Memory\n")
    return folder


@pytest.mark.usefixtures("terminal")
def test_a_folder_the_demo_or_neither_is_opened(
    memtui: Run, notes: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ([str(notes)], ["--root", str(notes)], ["../notes"]):
        assert memtui(*words).code == 0
    assert opened.calls == [(notes, False)] * 3
    assert memtui("demo").code == 0
    root, is_demo = opened.calls[3]
    assert (root is not None and root.name, is_demo) == ("demo", True)
    monkeypatch.setattr("click.confirm", lambda *args, **options: False)
    refused = memtui()
    assert (refused.code, len(opened.calls), "looked at" in refused.err) == (2, 4, True)
    monkeypatch.setattr("click.confirm", lambda *args, **options: True)
    assert memtui().code == 0
    assert opened.calls[4][1] is True
    assert opened.choose == [False] * 5
    monkeypatch.setenv("TERM", "dumb")
    dumb = memtui("demo")
    assert (dumb.code, "TERM=dumb" in dumb.err, len(opened.calls)) == (2, True, 5)


def test_where_no_index_can_be_kept_another_folder_can_be_named(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (nowhere := notes / "nowhere").symlink_to(notes / "missing")
    monkeypatch.setenv("XDG_DATA_HOME", str(nowhere))
    answer = memtui("search", "memory", "--root", str(notes))
    assert (answer.code, "set XDG_DATA_HOME or index.data_dir" in answer.err) == (3, True)


@pytest.mark.parametrize("case", load("reading")["queries of the command line"], ids=str)
def test_what_a_query_means_is_searched_and_what_it_does_not_is_told(
    memtui: Run, home: Path, monkeypatch: pytest.MonkeyPatch, case: Any
) -> None:
    words, paths, told = case
    monkeypatch.setenv("MEMTUI_EMBEDDING__PROVIDER", "none")
    monkeypatch.setenv("MEMTUI_ROOT", str(home / "notes"))
    write_notes(home / "notes", load("reading")["notes of the command line"])
    memtui("index")
    answer = memtui("search", "--paths", *words)
    assert (sorted(answer.out.split()), told in answer.err) == (paths, True)
    if told.startswith("filters alone") and len(paths) > 1:
        assert answer.out.split()[0] == "memory/2020-05-02.md", "what has no date is last"
        explained = memtui("explain", *words).out
        assert "SHOWN at rank 1, by date: filters alone do not rank" in explained
        assert not [one for one in ("arithmetic", "bm25", "fused", "0.2") if one in explained]
    assert ("memtui: " in answer.err) is bool(told)
    if told.startswith("no chunk"):
        assert memtui("search", *words).err.count(told) == 1
    assert "no result: the query has no words" in memtui("search", "path:").err
    assert "no result: the query has no words" in memtui("search", "--", "-").err


def test_the_columns_of_a_list_are_named_on_a_terminal_alone(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTUI_EMBEDDING__PROVIDER", "none")
    search = "search", "source:memory", "--root", str(notes)
    assert "strength, age" not in memtui(*search).err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "path:line, strength, age" in memtui(*search).err


def test_the_status_says_what_waits_and_the_command_that_makes_it(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def index_by(provider: str) -> None:
        with monkeypatch.context() as other:
            other.setenv("MEMTUI_EMBEDDING__PROVIDER", provider)
            memtui("index", "--force", "--root", str(notes))

    assert f"`memtui index --root {notes}`" in memtui("status", "--root", str(notes)).err
    index_by("wordllama")
    told = "index is for wordllama, minilm is chosen"
    assert "vectors are by wordllama/l2_supercat_256" in memtui("doctor", "--root", str(notes)).out
    assert memtui("index", "--dry-run", "--json", "--root", str(notes)).document["rebuild"]
    chunk = "1 chunk waits for a vector"
    for waits in (told, chunk, f"1 file waiting, {chunk}"):
        if waits is chunk:
            index_by("none")
        status = memtui("status", "--root", str(notes))
        assert f"stale ({waits})" in status.out
        assert f"`memtui index --root {notes}`" in status.err
        (notes / "MEMORY.md").write_text("# Changed\n")
    with monkeypatch.context() as other:
        other.setattr("memtui.engine.own_index.WriterLock.writer", lambda lock: "process 7")
        told = memtui("doctor", "--root", str(notes)).out
        assert "-> another memtui (process 7) keeps the index and takes in what it has on" in told
        assert "brings it up to date" not in told
    (notes / "MEMORY.md").unlink()
    status = memtui("status", "--root", str(notes))
    assert f"stale (1 file waiting, 1 of them to be taken out, {chunk})" in status.out
    assert "takes it out" in status.err
    assert "to be taken out: MEMORY.md (gone)" in status.out
    assert "and take 1 file out" in memtui("index", "--dry-run", "--root", str(notes)).out
    (empty := notes.parent / "empty").mkdir()
    memtui("index", "--root", str(empty))
    for command in (["status"], ["search", "gate"]):
        answer = memtui(*command, "--root", str(empty))
        assert "memtui looks for MEMORY.md" in answer.out + answer.err
        assert "`memtui index" not in answer.err
    for name in ("MEMORY", "a", "b", "c", "d"):
        (empty / f"{name}.md").write_text("loose")
    told = memtui("index", "--root", str(empty)).err
    assert "skipped 4 files: `memtui status --root" in told
    assert "a.md" not in told


COMMAND = "sh -c 'touch PWNED; echo sk-SECRET' \u202e\u200b\u00a0" + "long " * 200
SHOWN = COMMAND.replace("\u202e\u200b\u00a0", "\\u202e\\u200b\\xa0")


def _untrusted(notes: Path) -> Path:
    file = notes / ".memtui.toml"
    file.write_text(f'embedding.key_command = "{COMMAND}"\nranking.k = 3\n', encoding="utf-8")
    return file


def test_trust_shows_what_it_is_for_whole_and_needs_an_answer(memtui: Run, notes: Path) -> None:
    _untrusted(notes)
    place = ("--root", str(notes))
    refused = memtui("trust", *place)
    assert (refused.code, refused.out) == (2, "")
    assert (
        f"is not trusted: there is nobody to ask\n  `memtui trust --dry-run --root {notes}`"
        in refused.err
    )
    assert memtui("trust", *place, "--json").error["code"] == "settings"
    shown = memtui("trust", *place, "--dry-run")
    assert f'  would set embedding.key_command = "{SHOWN}"\n' in shown.out
    shown = memtui("trust", *place, "--dry-run", "--json")
    assert [one["value"] for one in shown.document["keys"]] == [COMMAND]
    assert "ignored" in memtui("config", "validate", *place).out
    assert SHOWN in memtui("trust", *place, "--yes").out
    assert memtui("config", "validate", *place).out == ""
    # One's own settings stay masked where they are shown.
    assert "touch" not in memtui("config", "show", "embedding", *place).out
    assert memtui("trust", *place, "--revoke").code == 0
    assert "ignored" in memtui("config", "validate", *place).out
    (notes / ".memtui.toml").write_text("embedding.provider = 'minilm'\nembedding.model = 'x'\n")
    unread = memtui("config", "validate", *place)
    assert "it would be wrong then: must be all-MiniLM" in unread.out
    assert "must be all-MiniLM" in memtui("trust", *place, "--yes").err
    (notes / ".memtui.toml").write_text("ranking.k = 3\n")
    nothing = memtui("trust", *place, "--json")
    assert (nothing.code, nothing.document["trusted"]) == (0, False)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 1)])
def test_what_is_trusted_is_what_was_shown(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, code: int
) -> None:
    file = _untrusted(notes)
    seen = file.read_bytes()

    def changed_meanwhile(question: str, default: bool, err: bool) -> bool:
        file.write_text("editor = 'evil'\n")
        return answer

    monkeypatch.setattr("click.confirm", changed_meanwhile)
    asked = memtui("trust", str(notes))
    assert (asked.code, SHOWN in asked.out) == (code, True)
    validate = ("config", "validate", "--root", str(notes))
    assert "editor: ignored" in memtui(*validate).out
    file.write_bytes(seen)
    assert ("ignored" in memtui(*validate).out) == (not answer)


@pytest.mark.parametrize("option", ["--agent", "--index"])
def test_what_reads_no_index_of_an_agent_says_so(memtui: Run, option: str) -> None:
    answer = memtui(option, "main", "demo")
    assert (answer.code, answer.err) == (2, f"memtui: --demo and {option} exclude each other\n")
    for words in (("doctor", option, "main"), (option, "main", "profiles")):
        assert "`memtui status --agent NAME`" in memtui(*words).err


@pytest.mark.parametrize("command", ["sessions enable", "profiles save"])
def test_what_keeps_something_says_that_the_demo_means_nothing_to_it(
    memtui: Run, command: str
) -> None:
    answer = memtui(*command.split(), "one", "--demo")
    assert answer.err.splitlines()[0] == f"memtui: --demo means nothing to `memtui {command}`"
    assert "`memtui demo` opens the demo" in memtui("--demo").err


@pytest.mark.parametrize("case", load("settings")["enable and disable"])
def test_what_is_said_to_be_disabled_is_off(memtui: Run, notes: Path, case: Any) -> None:
    opted, arguments, said, after = case
    config = notes.parent / "config/memtui/config.toml"
    for folder in (config.parent, notes.parent / ".claude/projects/-here"):
        folder.mkdir(parents=True)
    config.write_text(f"[transcripts]\nsources = {opted[0]}\npaths = {opted[1]}\n")
    answer = memtui("sessions", *arguments.split(), "--root", str(notes))
    assert said in answer.out + answer.err
    assert answer.code == 2 * any(no in answer.err for no in ("is opted in by", "no such source"))
    written = tomllib.loads(config.read_text())["transcripts"]
    assert [written["sources"], written["paths"]] == (after or opted)


@pytest.mark.parametrize(("arguments", "remembers"), load("settings")["private"])
@pytest.mark.usefixtures("terminal")
def test_private_keeps_no_history(
    arguments: str, remembers: bool, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if arguments == "--private":
        monkeypatch.setenv("MEMTUI_ROOT", str(notes))
    interface = Mock(return_value=0)
    assert run(arguments.split(), interface) == 0
    assert [call.args[1].settings.ui.history for call in interface.call_args_list] == [remembers]


def test_nothing_is_saved_in_the_memory(memtui: Run, notes: Path, home: Path, main: State) -> None:
    place = ("--root", str(notes))
    assert memtui("index", *place).code == 0
    (home / "link").symlink_to(notes)
    for file in (notes / "inside.md", notes / "x/../inside.md", home / "link/inside.md"):
        answer = memtui("explain", "memory", *place, "--output", str(file))
        assert (answer.code, "is inside the memory" in answer.err) == (2, True)
    for name, code in (("why.md", 0), ("why.pdf", 2)):
        assert memtui("explain", "memory", *place, "--output", str(home / name)).code == code
        assert (home / name).exists() == (not code)
    for line, code in (("", 0), (":1", 0), (":99", 1)):
        assert memtui("explain", "other", "--chunk", f"MEMORY.md{line}", *place).code == code
    shutil.rmtree(main.workspace)
    assert memtui("explain", "other", "--chunk", "no.md", "--agent", "main").code == 1
    assert sorted(path.name for path in notes.iterdir()) == ["MEMORY.md"]
    assert "no rank 1: the query has no words" in memtui("explain", "", *place).err


def test_a_crash_and_an_interruption_end_cleanly(
    memtui: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(error: BaseException) -> None:
        monkeypatch.setattr("memtui.cli.config.files.user_config_file", Mock(side_effect=error))

    ends(ZeroDivisionError(f"boom\x1b[6n \udcff Authorization: Bearer {KEY}"))
    answer = memtui("config", "path")
    (log,) = (home / "state" / "memtui").iterdir()
    assert (answer.code, f"  trace in {log}\n" in answer.err) == (1, True)
    assert "this should not have happened: ZeroDivisionError: boom" in answer.err
    assert " at memtui.cli.config:" in answer.err
    assert not [part for part in ("Traceback", "\x1b", KEY) if part in answer.err]
    assert "Authorization: Bearer ***" in log.read_text()
    assert KEY not in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    for _ in range(6):
        assert memtui("config", "path", "--json").error["code"] == "internal"
    assert len({*log.parent.iterdir()} - {log}) == 5
    ends(KeyboardInterrupt())
    assert memtui("config", "path").code == 130
    assert memtui("config", "path", "--json").error["code"] == "interrupted"


def test_a_chunk_and_those_like_it_are_shown_without_credentials(memtui: Run, notes: Path) -> None:
    key = "sk-ant-api03-Zq8Lw3Xv7Rt2Yp5Kd9Ns4Bm6"
    for name in ("MEMORY.md", "memory/other.md"):
        (notes / name).parent.mkdir(exist_ok=True)
        (notes / name).write_text(f"# Harbor\nThe crane of the harbor takes {key} at night.\n")
    place = ("--root", str(notes))
    long = "".join(f"buoy {number} {'sea ' * 30}\n" for number in range(20))
    (notes / "memory/buoys-at-sea.md").write_text(long)
    assert memtui("index", *place).code == 0
    for form in ([], ["--json"]):
        shown = memtui("chunk", "MEMORY.md:2", *place, *form)
        assert (shown.code, "crane" in shown.out, "memory/other.md" in shown.out) == (0, True, True)
        assert not [part for part in ("zq8lw3xv7rt2", key.lower()) if part in shown.out.lower()]
    assert "its indexed lines are 1 to 3" in memtui("chunk", "MEMORY.md:9", *place).err
    assert "the nearest paths: memory/other.md, " in memtui("chunk", "none.md", *place).err
    for line, lines, other in ((12, "#L1-L12", 11), (11, "#L11-L21", 1)):
        shown = memtui("chunk", f"buoys-at-sea.md:{line}", *place)
        assert lines in shown.out
        assert f"1 more chunk there: memory/buoys-at-sea.md:{other}\n" in shown.err


def test_a_search_says_what_is_stale_and_names_no_command_that_is_refused(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("--root", str(notes))
    (notes / "USER.md").write_text("# User\n")
    folder = IndexFolder(Path(memtui("index", *place, "--json").document["index_dir"]))
    with closing(open_database(folder.path(1))) as connection:
        connection.execute("UPDATE chunks SET embedded = 0 WHERE id = 1")
        connection.execute("DELETE FROM vectors WHERE id = 1")
    assert "1 chunk waits for a vector; `memtui index" in memtui("search", "memory", *place).err
    assert "read 0 files, and make 1 vector" in memtui("index", "--dry-run", *place).out
    (notes / "USER.md").write_text("# User, again\n")
    assert "`memtui index" in memtui("search", "memory", *place).err
    lock = WriterLock(folder)
    assert lock.try_acquire()
    assert "works once that one has ended" in memtui("search", "memory", *place).err
    away = notes.parent / "away"
    shutil.copytree(folder.folder, away)
    for path in folder.folder.glob("index-*"):
        path.unlink()
    assert "there is no index yet: another memtui" in memtui("status", *place).err
    # The other memtui makes its index while this one waits.
    made = partial(shutil.copytree, away, folder.folder, dirs_exist_ok=True)
    monkeypatch.setattr("memtui.cli.session.time.sleep", lambda seconds: made())
    assert "MEMORY.md" in memtui("search", "memory", *place).out
    lock.release()


@pytest.mark.parametrize(("arguments", "expected"), load("settings")["wrong_options"])
def test_json_is_wanted_however_wrong_the_others_are(arguments: str, expected: bool) -> None:
    assert wants_json(arguments.split()) is expected


def test_versions_exit_codes_and_completions_are_told(memtui: Run) -> None:
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    assert tomllib.loads(pyproject.read_text())["project"]["version"] == __version__
    text = memtui("help", "exit-codes").out
    codes = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.MemtuiError)
    }
    assert all(f"\n  {code} " in text for code in codes | {0, 130})
    for shell in ("bash", "zsh", "fish"):
        assert "_MEMTUI_COMPLETE" in memtui("completions", shell).out
    shown = {*program.list_commands(click.Context(program))} - {"open"}
    topics = memtui("help", "--json").document["topics"]
    assert all(memtui("help", name).code == 0 for name in (*shown, *topics))
    assert memtui("help", "doctor").out == memtui("doctor", "--help").out


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"#" * 2_000_000, "larger than"), (b"[profiles.a]\nx = '\xff'\n", "stdin:2: not UTF-8")],
    ids=["large", "bytes"],
)
def test_a_file_from_stdin_is_bounded(
    memtui: Run, monkeypatch: pytest.MonkeyPatch, data: bytes, expected: str
) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr("sys.stdin", stdin)
    assert expected in memtui("profiles", "add", "-", "--json").error["message"]


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_shown_of_a_built_in_profile_can_be_added(
    memtui: Run, tmp_path: Path, name: str
) -> None:
    shown = memtui("profiles", "show", name)
    (tmp_path / "copy.toml").write_text(shown.out)
    assert memtui("profiles", "add", str(tmp_path / "copy.toml")).code == 0
    assert f"{name}  # user" in memtui("profiles").out, "nothing differs"
    copy = memtui("profiles", "show", f"my-{name}", "--json").document["profile"]["ranking"]
    ranking = memtui("profiles", "show", name, "--json").document["profile"]["ranking"]
    assert copy == ranking | {"profile": f"my-{name}"}
    assert ("context." in shown.out) == (Stage.CONTEXT in PROFILES[name].stages)
    fewest = f"# fewest candidates: {PROFILES[name].min_candidates} (no key sets it)"
    assert (fewest in shown.out) == (name.startswith("openclaw"))


def test_a_search_of_an_agents_index_waits_for_a_slow_disk(
    memtui: Run, main: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer does not depend on how soon the files are compared."""

    def slow(*arguments: Any, **options: Any) -> Any:
        threading.Event().wait(0.7)
        return examine(*arguments, **options)

    monkeypatch.setattr("memtui.index.foreign.audit.examine", slow)
    (main.workspace / "MEMORY.md").write_text("# Router\n\nAnother one.\n")
    document = memtui("search", "router", "--agent", "main", "--json").document
    states = {hit["file_state"] for hit in document["hits"] if hit["path"] == "MEMORY.md"}
    assert states == {"stale"}
    assert document["index"]["pending"] > 0


@pytest.mark.usefixtures("terminal")
def test_the_interface_opens_on_an_agents_index(memtui: Run, opened: Opened, main: State) -> None:
    assert memtui("--agent", "main").code == 0
    assert memtui("--index", str(main.database)).code == 0
    assert opened.indexes == [str(main.database)] * 2
    assert opened.calls == [(main.workspace, False)] * 2
    assert opened.choose == [False] * 2
    assert memtui("--agent", "nobody").code == 3
    main.database.write_text("# Notes\n" * 400)
    assert memtui("--agent", "main").code == 3
    assert len(opened.indexes) == 2


@pytest.mark.usefixtures("terminal")
def test_agents_are_offered_where_nothing_was_named(
    memtui: Run, opened: Opened, home: Path, main: State
) -> None:
    here, others = home / "here", [main.workspace, None]
    assert memtui().code == 0
    shutil.rmtree(main.workspace)
    assert memtui().code == 0
    (here / "MEMORY.md").write_text("# Memory\n")
    assert memtui().code == 0
    assert memtui("--root", str(home)).code == 0
    assert [root for root, _ in opened.calls] == [*others, here, home]
    assert opened.choose == [True, True, False, False]


def test_the_doctor_looks_on_where_the_machine_refuses(
    memtui: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Mock(side_effect=RuntimeError)
    (notes / "USER.md").write_bytes(b"# bad\n\xff\0")
    told = memtui("doctor", "--root", str(notes)).out.splitlines()
    at = next(number for number, line in enumerate(told) if line.startswith("  note    skipped"))
    assert "USER.md: no text: 1 NUL byte" in told[at]
    assert told[at + 1].split("-> ")[1] == "save it as UTF-8, or name it in memory.ignore"
    (notes / "USER.md").unlink()

    def problems() -> dict[tuple[str, str], str]:
        answer = memtui("doctor", "--root", str(notes), "--json")
        checks = [check for check in answer.document["checks"] if check["grade"] == "problem"]
        return {(check["area"], check["name"]): check["detail"] for check in checks}

    monkeypatch.setattr(doctor, "FileEvents", Mock(side_effect=OSError("more than 8192 folders")))
    monkeypatch.setattr(doctor, "LEAST_FREE", 10**18)
    found = problems()
    assert {name for _, name in found} == {"state", "data", "index", "watcher"}
    assert " free" in found["folders", "data"]
    assert found["watcher", "watcher"] == "events cannot be had: more than 8192 folders"
    monkeypatch.setattr("platformdirs.user_state_path", missing)
    monkeypatch.setattr("platformdirs.user_config_path", missing)
    assert {area for area, _ in problems()} == {"settings", "folders", "index", "watcher"}


def test_the_doctor_tells_which_part_of_a_database_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grades(checks: Iterable[doctor.Check]) -> dict[str, tuple[str, int]]:
        return {check.name: (check.grade, check.exit_code) for check in checks}

    folder = IndexFolder(tmp_path / "index")
    building = folder.begin()
    with closing(open_database(building)) as connection:
        create(connection)
    database = folder.path(folder.commit(building))
    with closing(open_database(database)) as connection:
        connection.execute("DROP TABLE chunks_fts")
    wrong = ("problem", doctor.EXIT_INDEX)
    # A sound file without the table of words, and then one that is no database.
    assert grades(doctor.database_checks(folder)) == {"database": wrong, "sqlite-vec": ("ok", 0)}
    database.write_text("# Notes\n" * 400)
    checks = doctor.attempted("index", doctor.database_checks(folder), doctor.EXIT_INDEX)
    assert grades(checks) == {"index": wrong}
    monkeypatch.setattr(doctor, "FTS5_TOKENIZE", "nothing")
    found = grades(doctor.program_checks())
    assert (found["fts5"], found["sqlite-vec"]) == (wrong, ("ok", 0))


@pytest.mark.parametrize(("parameter", "values"), load("explain")["values of parameters"].items())
def test_every_change_has_options_that_make_it(parameter: str, values: list[Value]) -> None:
    parameter = Parameter(parameter)
    for name, ranking in PROFILES.items():
        if parameter in {Parameter.HALF_LIFE, Parameter.FLOOR}:
            ranking = apply(ranking, Parameter.DECAY, True)
        if parameter in FEATURE_OF:
            ranking = apply(ranking, Parameter.CONTEXT, True)
        if parameter is Parameter.LAMBDA:
            ranking = apply(ranking, Parameter.MMR, True)
        for value in values:
            change = Change(parameter, value_of(ranking, parameter), value, 1, 1)
            flags = ("--profile", name, *flags_of(ranking, change).split(" "))
            for command in ("search", "explain"):
                # A command keeps the help option of the program that it is first asked below.
                top = click.Context(program, **program.context_settings)
                found = program.get_command(top, command)
                assert found is not None
                given = ranking_flags(found.make_context(command, ["query", *flags], parent=top))
                settings = SettingsFiles(flags=given, env={}).load().settings
                assert settings.configured_ranking() == apply(ranking, parameter, value)


def test_the_view_is_forgotten_from_the_command_line(memtui: Run) -> None:
    state = Path(memtui("config", "path", "--json").document["paths"][-2]["path"])
    StateFolder(state).write_json(VIEW, {"version": 1, "theme": "nord"})
    for is_removed in (True, False):
        answer = memtui("config", "forget-view", "--json")
        assert (answer.code, answer.document["removed"]) == (0, is_removed)
    assert not (state / VIEW).exists()
