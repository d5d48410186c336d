"""Every printer of the command line: what it says, and that nothing hostile gets out of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given

from memtui.bus import SyncProgressed
from memtui.cli.index import progress_line, status_lines
from memtui.cli.output import Output
from memtui.cli.search import (
    BAR_WIDTH,
    UNICODE,
    bar,
    full_length,
    print_arithmetic,
    print_rows,
    print_sentences,
    search_document,
    summary,
    why_nothing,
)
from memtui.model import (
    CandidatePool,
    Decay,
    ErrorRecord,
    Fusion,
    IndexState,
    IndexStatus,
    Leg,
    LegHit,
    LegState,
    LegStatus,
    Mmr,
    ProviderState,
    Ranked,
    Ranking,
    Reason,
    Rerank,
    SkippedFile,
    SourceCount,
    SyncStats,
    WatcherState,
)
from memtui.ranking.pipeline import rank
from memtui.ranking.profiles import PROFILES
from memtui.report import words
from memtui.report.documents import drop_entry, json_text, plain
from memtui.text.sanitize import HOSTILE
from tests.support.hostile import ALL, ATTACKS
from tests.support.pools import NOW, chunk, pool, pools, rankings

SYNC = SyncStats(False, NOW, 1.25, 12, 3, 2, 1, 1, 40, 30, 10)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _output(*, raw: bool = False) -> tuple[Output, io.StringIO]:
    stream = io.StringIO()
    return Output({}, stdout=stream, stderr=stream, raw=raw), stream


def _printed(printer: Callable[..., None], *values: Any, raw: bool = False) -> str:
    output, stream = _output(raw=raw)
    printer(output, *values)
    return stream.getvalue()


def _rows(output: Output, ranked: Ranked) -> None:
    print_rows(output, ranked, {})


def _ascii_rows(output: Output, ranked: Ranked) -> None:
    print_rows(output, ranked, {}, ascii_only=True)


def _sentences(output: Output, ranked: Ranked) -> None:
    print_sentences(output, ranked, {})


def _arithmetic(output: Output, ranked: Ranked) -> None:
    print_arithmetic(output, ranked, is_foreign=True)


def _status_page(output: Output, status: IndexStatus) -> None:
    for line in status_lines(status):
        output.line(output.clean(line))


def _status(text: str = "plain") -> IndexStatus:
    return IndexStatus(
        state=IndexState.STALE,
        root=text,
        index_dir=text,
        generation=3,
        files=2,
        chunks=4,
        vectors=4,
        sources=(SourceCount(text, 2, 4),),
        pending=(text,),
        pending_count=1,
        skipped=(SkippedFile(text, Reason.UNREADABLE, text),),
        provider=ProviderState("auto", text, text, 384, Reason.OK, text),
        vector_backend=text,
        tokenizer=text,
        watcher=WatcherState("off", text),
        writer=text,
        last_sync=SYNC,
        progress=None,
        cache_hits=1,
        cache_misses=2,
        errors=(ErrorRecord(NOW, text, text),),
        warnings=(text,),
    )


def _ranked(ranking: Ranking | None = None) -> Ranked:
    chunks = [
        chunk("a", "router vlan gateway", path="memory/2026-11-17.md", line=12,
              day=date(2026, 11, 17), day_from=Reason.FILE_NAME),
        chunk("b", "router vlan gateway again", path="memory/net.md", line=1),
        chunk("c", "standup notes", path="MEMORY.md", line=30),
    ]  # fmt: skip
    return rank(
        pool(chunks, [("a", 0.6), ("b", 0.5), ("c", 0.1)], [("b", -6.0), ("a", -2.0)]),
        ranking or Ranking(k=2),
        now=NOW,
    )


FULL = Ranking(
    k=2,
    decay=Decay(enabled=True, half_life_days=30.0),
    mmr=Mmr(enabled=True, lambda_=0.5),
    rerank=Rerank(enabled=True),
    dedup=True,
    min_score=0.01,
)


def _hostile_ranked(text: str, ranking: Ranking = FULL) -> Ranked:
    note = text.encode("utf-8", "replace").decode("utf-8")  # as notes are read
    chunks = [
        chunk(str(n), f"{note} {n % 2}", path=f"{text}/{n}.md", project_keys=(text,))
        for n in range(4)
    ]
    ids = [item.id for item in chunks]
    built = pool(chunks, [(i, 0.9) for i in ids], [(i, -3.0) for i in ids[:3]], query=text)
    failed = LegState(LegStatus.FAILED, Reason.PROVIDER_FAILED, text, 1.0, {"match": text})
    keyword = tuple(
        LegHit(hit.chunk_id, hit.position, hit.raw, (text, "done"))
        for hit in built.hits[Leg.KEYWORD]
    )
    hostile: CandidatePool = replace(
        built,
        hits={**built.hits, Leg.KEYWORD: keyword},
        states={Leg.VECTOR: failed, Leg.KEYWORD: failed},
    )
    return rank(hostile, ranking, now=NOW)


# --- nothing hostile gets out -----------------------------------------------------------------


@pytest.mark.parametrize("attack", [*ATTACKS, ALL])
def test_no_printer_lets_hostile_text_through(attack: str) -> None:
    for ranking in (FULL, *PROFILES.values()):
        ranked = _hostile_ranked(attack, replace(ranking, k=2))
        texts = [
            _printed(_rows, ranked),
            _printed(_sentences, ranked),
            _printed(Output.note, summary(ranked)),
            _printed(Output.note, why_nothing(ranked)),
            _printed(Output.record, drop_entry(ranked.drops[0])),
        ]
        texts += [_printed(_arithmetic, ranked)] if ranked.hits else []
        document = search_document(ranked, _status(attack), [attack])
        texts.append(_printed(Output.document, document))
        for text in texts:
            assert text
            assert HOSTILE.search(text) is None, text


@pytest.mark.parametrize("attack", [*ATTACKS, ALL])
def test_status_and_progress_are_safe_to_print(attack: str) -> None:
    progress = progress_line(SyncProgressed("files", 1, 3, 2.0, 1.0, attack))
    texts = [
        _printed(_status_page, _status(attack)),
        _printed(Output.note, progress),
        _printed(Output.document, plain(_status(attack))),
    ]
    assert all(HOSTILE.search(text) is None for text in texts)
    terminal = Terminal()
    Output({}, stdout=terminal, stderr=terminal).progress(progress)
    assert HOSTILE.search(terminal.getvalue().removeprefix("\r\x1b[K")) is None


def test_data_lines_are_cleaned_for_a_terminal_only() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        Output({}, stdout=stream, stderr=io.StringIO()).data("a\x1b[6nb")
    assert terminal.getvalue() == "a␛[6nb\n"
    assert pipe.getvalue() == "a\x1b[6nb\n"


def test_raw_leaves_text_alone() -> None:
    assert "\x1b[6n" in _printed(_sentences, _hostile_ranked("\x1b[6n"), raw=True)


def test_json_keeps_what_a_terminal_may_not_see() -> None:
    text = json_text({"text": ALL})
    assert HOSTILE.search(text) is None
    assert json.loads(text)["text"] == ALL


# --- what they say ----------------------------------------------------------------------------


def test_rows_show_rank_movement_score_bar_place_and_age() -> None:
    rows = _printed(_rows, _ranked()).splitlines()
    assert rows[0].startswith(" 1 =    0.940  ████▒▒▒▒▒▒▒▒▒▒▒   memory/net.md:1  ")
    assert rows[0].endswith("memory/net.md:1  ever")
    assert rows[1].strip() == "router vlan gateway again"
    assert rows[2].endswith("memory/2026-11-17.md:12  3d")
    assert len(rows) == 4


def test_rows_in_ascii_have_no_other_character() -> None:
    assert _printed(_ascii_rows, _ranked(FULL)).isascii()


def test_matches_are_underlined_on_a_terminal_and_no_color_turns_that_off() -> None:
    ranked = _hostile_ranked("- [x] done")
    stream = Terminal()
    print_rows(Output({}, stdout=stream, stderr=stream), ranked, {})
    assert "[\x1b[1;4mx] done\x1b[0m" in stream.getvalue()
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        stream = Terminal()
        print_rows(Output(env, stdout=stream, stderr=stream), ranked, {})
        assert "\x1b" not in stream.getvalue()


def test_the_arithmetic_repeats_the_trace_to_the_last_digit() -> None:
    ranked = _ranked(replace(FULL, k=3))
    text = _printed(_arithmetic, ranked)
    for hit in ranked.hits:
        for part in hit.legs.values():
            assert repr(part.raw) in text
            assert repr(part.mapped) in text
            assert repr(part.contribution) in text
        for stage in hit.stages:
            assert repr(stage.after) in text
    assert "SHOWN at rank" in text
    assert " / 30 d)" in text


@given(pools(), rankings())
def test_any_ranking_can_be_printed(some: CandidatePool, ranking: Ranking) -> None:
    ranked = rank(some, ranking, now=NOW)
    output, stream = _output()
    print_rows(output, ranked, {})
    print_sentences(output, ranked, {})
    print_arithmetic(output, ranked, is_foreign=False)
    output.document(search_document(ranked, _status(), []))
    full = full_length(ranked)
    assert all(len(bar(hit, full, UNICODE)) == BAR_WIDTH for hit in ranked.hits)
    assert HOSTILE.search(stream.getvalue()) is None


def test_json_has_no_nan() -> None:
    text = json_text({"a": float("nan"), "b": [float("inf"), 1.5]})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [None, 1.5]}


def test_a_value_that_json_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError):
        plain(object())


def test_progress_line() -> None:
    event = SyncProgressed("vectors", 420, 1284, 61.4, 14.2, "memory/x.md")
    assert progress_line(event) == "vectors 420/1284  32 %  61/s  14.2 s left  memory/x.md"
    assert progress_line(SyncProgressed("files", 0, 0, 0.0, None)) == "files"


def test_progress_is_silent_without_a_terminal() -> None:
    assert _printed(Output.progress, "files") == ""


@pytest.mark.parametrize(
    ("days", "short", "long"),
    [
        (None, "ever", "no date"),
        (-3.0, "ahead", "3 days ahead"),
        (-0.5, "today", "today"),
        (0.9, "today", "today"),
        (1.0, "1d", "1 day old"),
        (59.9, "59d", "59 days old"),
        (90.0, "2mo", "90 days old"),
        (800.0, "2y", "800 days old"),
    ],
)
def test_ages(days: float | None, short: str, long: str) -> None:
    assert (words.short_age(days), words.long_age(days)) == (short, long)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.30, "0.3"), (1e-9, "1e-09"), (30.0, "30"), (float("nan"), "–"), (0, "0"), ("x", "x")],
)
def test_numbers(value: object, expected: str) -> None:
    assert words.short_number(value, 6) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("abcdef", 4), ("備份路由", 2), ("e\u0301e\u0301", 4)]
)
def test_wide_characters_take_two_cells(text: str, expected: int) -> None:
    assert words.fitting(text, 4) == expected


def test_every_reason_has_words() -> None:
    assert all(words.reason_words(reason) for reason in Reason)


def test_a_search_without_results_tells_what_was_below_the_minimum() -> None:
    ranked = _ranked(Ranking(k=2, min_score=1.0, fusion=Fusion.RRF))
    assert not ranked.hits
    assert "3 below the minimum score 1.0" in why_nothing(ranked)


def test_dates_are_iso(tmp_path: Any) -> None:
    moment = datetime(2026, 2, 11, 9, tzinfo=UTC)
    assert plain({"at": moment, "path": tmp_path, "legs": (Leg.VECTOR,)}) == {
        "at": "2026-02-11T09:00:00+00:00",
        "path": str(tmp_path),
        "legs": ["vector"],
    }
