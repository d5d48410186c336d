"""Every printer of the command line: nothing hostile gets out, whatever was searched."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import msgspec
import pytest
from hypothesis import given
from msgspec.structs import replace

from memtui.bus import SyncProgressed
from memtui.cli.diagnosis import WIDTH, agent_lines
from memtui.cli.index import progress_line
from memtui.cli.output import Output
from memtui.cli.search import arithmetic_lines, bar_room, rows, search_document, sentences, summary
from memtui.data import DATA_FOLDER
from memtui.memory.transcripts.generated import Dropped
from memtui.model import (
    CandidatePool,
    Decay,
    IndexStatus,
    Leg,
    LegState,
    LegStatus,
    Mmr,
    Ranked,
    Ranking,
    Reason,
    Rerank,
    SkippedFile,
)
from memtui.model.conversations import (
    ConversationListing,
    MemoryCall,
    RecallChange,
    RecallRow,
    Replayed,
    TranscriptKind,
    TranscriptSource,
    Turn,
    TurnKind,
)
from memtui.model.status import ForeignAgent, IndexGeneration
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.report import words
from memtui.report.conversations import listing_lines, replay_lines, source_lines, turn_lines
from memtui.report.json_text import document_text, plain
from memtui.report.layout import Column, Layout, Row, Section, Tone
from memtui.report.status import status_sections
from memtui.text.sanitize import HOSTILE
from memtui.tui import fmt
from memtui.tui.screens.transcripts import source_facts, source_row
from tests.support.hostile import ALL, ATTACKS
from tests.support.known import load
from tests.support.pools import NOW, chunk, pool, pools, rankings

FULL = Ranking(
    k=2,
    decay=Decay(enabled=True, half_life_days=30.0),
    mmr=Mmr(enabled=True, lambda_=0.5),
    rerank=Rerank(enabled=True),
    dedup=True,
    min_score=0.01,
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _output(stream: TextIO, **env: str) -> Output:
    with redirect_stdout(stream), redirect_stderr(stream):
        return Output(env)


def _all_printed(ranked: Ranked, status: IndexStatus, stream: io.StringIO) -> str:
    """What every form of a search, and the status, writes."""
    output = _output(stream, NO_COLOR="1")
    output.lines(rows(ranked, {}, 80))
    output.lines(sentences(ranked, {}))
    output.lines(arithmetic_lines(ranked, Layout(width=80), is_foreign=True))
    output.note(summary(ranked))
    output.note(summary(replace(ranked, hits=())))
    output.lines(status_sections(status))
    output.note(progress_line(SyncProgressed("files", 1, 3, 2.0, 1.0, status.root)))
    output.document(search_document(ranked, status, [status.root]))
    output.document(plain(status), indent=None)
    return stream.getvalue()


def _status(text: str = "plain") -> IndexStatus:
    """An index that says one text everywhere."""
    sample = json.dumps(load("index_status")["of_one_text"])
    return msgspec.convert(json.loads(sample.replace("TEXT", json.dumps(text)[1:-1])), IndexStatus)


def _hostile_ranked(text: str, ranking: Ranking = FULL) -> Ranked:
    note = text.encode("utf-8", "replace").decode("utf-8")  # as notes are read
    chunks = [
        chunk(str(n), f"{note} {n % 2}", path=f"{text}/{n}.md", project_keys=(text,))
        for n in range(4)
    ]
    ids = [item.id for item in chunks]
    legs = [(i, 0.9) for i in ids], [(i, -3.0) for i in ids[:3]]
    built = pool(chunks, *legs, query=text, terms=(text, "done"))
    failed = LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, text, 1.0, {"match": text})
    return rank(replace(built, states=dict.fromkeys(Leg, failed)), ranking, now=NOW)


@pytest.mark.parametrize("attack", [*ATTACKS, ALL])
def test_no_printer_lets_hostile_text_through(attack: str) -> None:
    for ranking in (FULL, *PROFILES.values()):
        ranked = _hostile_ranked(attack, replace(ranking, k=2))
        for stream in (io.StringIO(), Terminal()):
            text = _all_printed(ranked, _status(attack), stream)
            assert len(text) > 1000
            assert HOSTILE.search(text) is None, text
    terminal = Terminal()
    _output(terminal).progress(attack)
    assert HOSTILE.search(terminal.getvalue().removeprefix("\r\x1b[K")) is None


@given(pools(), rankings())
def test_any_ranking_can_be_printed(some: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(some, ranking, now=NOW)
    assert HOSTILE.search(_all_printed(ranked, _status(), io.StringIO())) is None
    ascii_rows = "".join("".join(map(str, line)) for line in rows(ranked, {}, 80, ascii_only=True))
    assert not set("█▒▓◇╌▲▼…") & set(ascii_rows)


def test_text_is_left_alone_for_programs_and_where_it_is_asked_for() -> None:
    terminal, pipe, raw = Terminal(), io.StringIO(), io.StringIO()
    for stream in (terminal, pipe):
        _output(stream).data("a\x1b[6nb")
    assert (terminal.getvalue(), pipe.getvalue()) == ("a␛[6nb\n", "a\x1b[6nb\n")
    with redirect_stdout(raw), redirect_stderr(raw):
        output = Output({}, raw=True)
    output.lines(sentences(_hostile_ranked("\x1b[6n"), {}))
    assert "\x1b[6n" in raw.getvalue()
    output.progress("files")
    assert "files" not in raw.getvalue(), "progress is for terminals"


def test_matches_are_underlined_on_a_terminal_and_no_color_turns_that_off() -> None:
    ranked = _hostile_ranked("- [x] done")
    for env, expected in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        stream = Terminal()
        _output(stream, **env).lines(rows(ranked, {}, 80))
        assert ("[\x1b[1;4mx] done\x1b[0m" in stream.getvalue()) is expected
        assert ("\x1b" in stream.getvalue()) is expected


@pytest.mark.parametrize(("letters", "bar"), [(4, 16), (38, 10), (40, 8), (41, 0)])
def test_a_bar_leaves_room_for_the_longest_place(letters: int, bar: int) -> None:
    note = chunk("a", "router", path="p" * (letters - 2))
    ranked = rank(pool([note], [("a", 0.9)], []), Ranking(), now=NOW)
    head = "".join(one if isinstance(one, str) else one[0] for one in next(rows(ranked, {}, 80)))
    assert bar_room(ranked, 80) == bar
    assert len(head.rstrip()) <= 80
    assert summary(ranked).startswith("1 of 1 found in ")


def test_help_fits_into_80_columns() -> None:
    texts = [file.read_text("utf-8") for file in (DATA_FOLDER / "help").iterdir()]
    assert [line for text in texts for line in text.splitlines() if len(line) > 80] == []


def test_a_table_has_a_bold_title_and_the_colour_of_what_is_wrong() -> None:
    columns = (Column("CHECK", width=8), Column("SIZE", right=True, width=6), Column("ABOUT"))
    rows = (Row(("a long name", "12", "ok")), Row(("disk", "3", "full"), tone=Tone.ERROR))
    terminal = Terminal()
    _output(terminal).lines([Section("checks", "DISKS", columns, (*rows, Row(("", "free it"))))])
    assert terminal.getvalue().splitlines() == [
        "\x1b[1mDISKS\x1b[0m",
        "  CHECK    SIZE ABOUT",
        "  a long …   12 ok",
        "  \x1b[31mdisk    \x1b[0m    3 full",
        "          free it",
    ]


@pytest.mark.parametrize(
    ("encoding", "printed"), [("utf-8", b"\xff \\ud800 \xc3\xa9\n"), ("ascii", b"? ? ?\n")]
)
def test_every_character_can_be_printed(encoding: str, printed: bytes) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with redirect_stdout(stream):
        output = Output({})
    output.data("\udcff \ud800 é")
    output.flush()
    assert stream.buffer.getvalue() == printed


def test_a_plain_locale_gets_plain_signs(capsys: pytest.CaptureFixture[str]) -> None:
    for raw in (False, True):
        Output({"LC_ALL": "C"}, raw=raw).lines(["a… → b"])
    assert capsys.readouterr().out == "a~ -> b\na… → b\n"


def test_json_keeps_what_a_terminal_may_not_see_and_has_no_nan(tmp_path: Path) -> None:
    moment = datetime(2026, 2, 11, 9, tzinfo=UTC)
    values = {"text": ALL, "a": float("nan"), "b": [float("inf"), 1.5], "at": moment}
    text = document_text({**values, "path": tmp_path, "legs": (Leg.VECTOR,)})
    assert HOSTILE.search(text) is None
    assert json.loads(text, parse_constant=pytest.fail) == {
        "schema_version": 1,
        **{"text": ALL, "a": None, "b": [None, 1.5], "at": "2026-02-11T09:00:00+00:00"},
        **{"path": str(tmp_path), "legs": ["vector"]},
    }
    with pytest.raises(TypeError):
        plain(object())


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.30, "0.3"), (-1e-9, "−1e−09"), (30.0, "30"), (float("nan"), "–"), (0, "0"), ("x", "x")],
)
def test_numbers(value: object, expected: str) -> None:
    assert words.short_number(value, 6) == expected


def test_wide_characters_take_two_cells_and_every_reason_has_words() -> None:
    texts = ("abcdef", "備份路由", "e\u0301e\u0301", "क\u0902\u0947ख\u0902गघङ")
    assert [words.fitting(text, 4) for text in texts] == [4, 2, 4, 7]
    assert all(words.reason_words(reason) for reason in Reason)


def test_lines_fit_into_80_columns() -> None:
    call = MemoryCall(
        "sessions/main/3f9a.jsonl",
        3,
        TranscriptKind.OPENCLAW,
        "memory_search",
        "路由器 " * 40,
        None,
    )
    row = RecallRow("memory/" + "長" * 60 + ".md", 1, 9, RecallChange.LEFT, 1, None, 0.5)
    listing = ConversationListing(
        *(
            "sessions/main/3f9a.jsonl" * 5,
            "/x",
            TranscriptKind.CODEX,
            "長" * 60,
            10**9,
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
        title="t" * 120,
        state=Reason.DISABLED,
        detail="d" * 120,
    )
    source = TranscriptSource("codex", None, "/f" * 60, True, detail="word " * 60)
    long = Turn(4, TurnKind.MESSAGE, "user", "路由器" * 80, 240)
    lines = [
        *replay_lines(Replayed(call, (row,)), 80),
        *listing_lines(listing, 80),
        *source_lines(source, 80),
        *turn_lines(long, full=False, width=80),
    ]
    for kind in TurnKind:
        turn = Turn(10**5, kind, "tool", "x" * 900, 10**9, 1, "t" * 90)
        lines += [*turn_lines(turn, full=False, width=80), *turn_lines(turn, full=True, width=80)]
    assert max(words.cells_of(each) for each in lines) <= 80
    *_, heading, place = replay_lines(Replayed(call, (row,)), 200)
    assert place.index(row.path) == heading.index("place")
    assert "".join(words.wrapped("路由器" * 80, 80)) == "路由器" * 80
    assert list(words.wrapped("a b", 1)) == ["a", "b"]
    marks = "e" + "\u0301" * 500
    assert list(words.wrapped(f"{marks}{marks}b", 2)) == [marks * 2, "b"]


def test_what_is_left_out_is_said_as_on_the_screen() -> None:
    assert set(words.WORDS["left_out"]) == set(Dropped)
    left_out = {"cron_prompt": 8, "inter_session": 2000, "of_tomorrow": 1}
    source = TranscriptSource(
        "main", TranscriptKind.OPENCLAW, "/sessions", is_indexed=True, left_out=left_out
    )
    told = "2,009 messages: from another session 2,000, a scheduled prompt 8, of tomorrow 1"
    assert f"left out {told}" in [line.strip() for line in source_lines(source, 99)]
    shown = {label: content.plain for label, content in source_facts(source, is_chosen=False)}
    assert shown["left out"] == told
    turn = Turn(1, TurnKind.MESSAGE, "user", "x", 1, left_out="cron_prompt")
    assert "(not indexed: a scheduled prompt)" in next(turn_lines(turn, full=False, width=80))
    assert words.reason_words(Reason.CUT_AT_K) == fmt.reason_words(Reason.CUT_AT_K)


@pytest.mark.parametrize(
    ("is_on", "indexed", "waiting", "state"),
    [
        *((False, 0, 0, "off"), (False, 2, 0, "off, 2 in the index")),
        *((True, 5, 0, "on, 5 indexed"), (True, 2, 3, "on, 2 indexed, 3 waiting")),
    ],
)
def test_a_source_is_off_or_on_or_waits(
    is_on: bool, indexed: int, waiting: int, state: str
) -> None:
    files = tuple(SkippedFile(f"{at}.jsonl", Reason.NOT_YET_INDEXED) for at in range(waiting))
    source = TranscriptSource("codex", None, "/f", is_on, indexed=indexed, skipped=files)
    lines = list(source_lines(source, 200))
    assert lines[0] == f"codex  {state}"
    assert ("find none" in lines[2], "still find" in lines[2]) == (state == "off", "still" in state)
    assert sum("waiting " in line for line in lines[1:]) == waiting
    assert source_row(source, is_on).draw(100).plain.endswith(f" {state}")
    facts = dict(source_facts(source, is_chosen=is_on))
    assert "skipped" not in facts, "what waits is not left out"


def test_the_table_of_agents_fits_whatever_they_are_called() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    long = Path("/srv") / ("備份" * 60) / "state"
    agents = [
        ForeignAgent("路由" * 40, long, long / "x.sqlite", IndexGeneration.AGENT, long, "p" * 90,
                     "m" * 90, 3072, 999_999, 9_999_999, now - timedelta(days=400), "no " * 90),
        ForeignAgent("?", Path("/b"), problem="x" * 300),
    ]  # fmt: skip
    lines = list(agent_lines(agents, Path("/home/me"), now))
    assert all(words.cells_of(line) <= WIDTH for line in lines)
    assert any(line.startswith("    problem    xxx") for line in lines)
    assert sum(line.count("x") for line in lines if "sqlite" not in line) == 300
