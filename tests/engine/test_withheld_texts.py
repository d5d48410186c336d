"""Chunks that a provider is not given: those with a credential, and in a script it cannot read."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha512
from pathlib import Path

import pytest

from memtui.bus import Bus, TextsWithheld
from memtui.engine import Engine
from memtui.errors import Cancelled
from memtui.model import IndexState, LegStatus, Reason, SkippedFile
from memtui.settings.schema import EmbeddingSettings, Settings
from tests.support.command_line import command_line, own_home
from tests.support.conversations import Homes, said
from tests.support.provider_scenes import NOTES, Scene, opened_scene, vector_leg

SECRET = "ghp_" + "R4nd0mL00k1ngT0kenF0rTests" + "0123456789"
NOTE = f"# Deploy\n\nThe heron deploys by itself.\n\nGITHUB_TOKEN={SECRET}\n"
PLACE = SkippedFile("memory/deploy.md:5", Reason.HOLDS_CREDENTIAL)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with opened_scene(tmp_path) as made:
        (made.root / "memory" / "deploy.md").write_text(NOTE, encoding="utf-8")
        made.first.remote = True
        yield made


def test_a_service_is_not_sent_a_credential_and_words_find_the_chunk(scene: Scene) -> None:
    named: list[tuple[tuple[SkippedFile, ...], int]] = []
    bus = Bus()
    bus.subscribe(TextsWithheld, lambda event: named.append((event.chunks, len(scene.first.texts))))
    shown = []
    with scene.open(bus) as engine:
        scene.first.before = lambda: shown.append(engine.index.status().withheld)
        engine.index.sync(wait=True)
        assert set(shown) == {(PLACE,)}
        status = engine.index.status()
        assert (status.withheld, status.state) == ((PLACE,), IndexState.READY)
        assert (status.chunks, status.vectors) == (len(NOTES) + 1, len(NOTES))
        assert named == [((PLACE,), 0)], "after something was sent"
        hits = engine.search.ask("GITHUB_TOKEN").hits
        record = engine.browse.chunk_record(hits[0].chunk.id)
        assert record is not None
        assert record.vector_state is Reason.HOLDS_CREDENTIAL
        assert hits[0].chunk.path == "memory/deploy.md"
        assert vector_leg(engine).status is LegStatus.OK
        sent = len(scene.first.texts)
        engine.index.sync(wait=True)
        assert len(scene.first.texts) == sent
        cost = engine.providers.cost()
        assert (cost.withheld, cost.tokens_estimate) == ((PLACE,), 0)
    assert not any(SECRET in text for text in scene.first.texts)
    with scene.open() as reader:
        reader.index.refresh_status()
        assert reader.index.status().withheld == (PLACE,)


def test_what_was_withheld_is_sent_by_the_next_sync_once_allowed(scene: Scene) -> None:
    scene.synced().close()
    with scene.synced(send_credentials=True) as engine:
        assert (engine.index.status().withheld, engine.index.status().vectors) == ((), 7)
    assert [text for text in scene.first.texts if SECRET in text] == [NOTE]
    with scene.open() as engine:
        # The vector that was made stays, and a rebuild takes it from the cache.
        engine.index.sync(rebuild=True, wait=True)
        assert (engine.index.status().withheld, engine.index.status().vectors) == ((), 7)
    assert len([text for text in scene.first.texts if SECRET in text]) == 1


@pytest.mark.parametrize("is_cached", [False, True])
def test_what_a_model_does_not_read_has_no_vector_and_makes_nothing_stale(
    scene: Scene, is_cached: bool
) -> None:
    russian = "# Сеть\n\nМаршрутизатор стоит в подвале.\n"
    (scene.root / "memory" / "net.md").write_text(russian, encoding="utf-8")
    if is_cached:
        # By a memtui that embedded every script.
        with scene.synced(send_credentials=True) as engine:
            assert engine.index.status().unread == 0
    scene.first.scripts = ("LATIN ",)
    with scene.open(send_credentials=True) as engine:
        engine.index.sync(rebuild=is_cached, wait=True)
        for reader in (engine, scene.open()):
            reader.index.refresh_status()
            status = reader.index.status()
            held = (status.chunks, status.vectors, status.unread, status.state)
            assert held == (len(NOTES) + 2, len(NOTES) + 1, 1, IndexState.READY)
        (hit,) = engine.search.ask("маршрутизаторы").hits
        record = engine.browse.chunk_record(hit.chunk.id)
        assert record is not None
        assert record.vector_state is Reason.SCRIPT_NOT_SUPPORTED
        assert hit.chunk.id not in {one.chunk.id for one in engine.search.ask("heron").hits}
        cost, calls = engine.providers.cost(), len(scene.first.texts)
        assert (cost.chunks, cost.cached, cost.tokens_estimate) == (len(NOTES) + 1,) * 2 + (0,)
        engine.index.sync(wait=True)
        assert len(scene.first.texts) == calls
    assert (russian in scene.first.texts) is is_cached
    reader.close()


def test_closing_ends_the_look_for_what_a_switch_would_not_send(scene: Scene) -> None:
    with scene.synced(provider="spare", fallback="none") as engine:
        engine.index.stop()
        with pytest.raises(Cancelled):
            engine.providers.cost(EmbeddingSettings.parse({"provider": "first"}))


def test_a_provider_of_this_machine_is_given_everything(scene: Scene) -> None:
    with scene.synced(provider="spare", fallback="none") as engine:
        assert engine.index.status().vectors == len(NOTES) + 1
        assert engine.providers.cost().withheld == ()
        # What a switch would not send is named before it.
        choice = EmbeddingSettings.parse({"provider": "first"})
        assert engine.providers.cost(choice).withheld == (PLACE,)
    assert any(SECRET in text for text in scene.spare.texts)


def test_the_command_line_names_the_chunk_and_never_the_secret(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home := scene.root.parent / "home").mkdir()
    own_home(home, monkeypatch)
    monkeypatch.setenv("MEMTUI_EMBEDDING__PROVIDER", "first")
    memtui = command_line(capsys)
    told = "1 chunk with a credential: memory/deploy.md:5 (embedding.send_credentials sends them)"
    root = str(scene.root)
    for options in ((), ("--force",)):
        indexed = memtui("index", "--root", root, *options)
        assert indexed.err.count(f"memtui: not sent: {told}") == 1
    status = memtui("status", "--root", root)
    assert re.search(rf"not sent +{re.escape(told)}\n", status.out)
    for command in (("status",), ("index",), ("index", "--dry-run", "--force")):
        answer = memtui(*command, "--root", root, "--json")
        document = answer.document
        withheld = document.get("withheld", document.get("cost", {}).get("withheld"))
        place = {"path": PLACE.path, "reason": "holds_credential", "detail": ""}
        assert withheld == [place], command
        assert SECRET not in answer.out + answer.err
    assert not [text for text in scene.first.texts if SECRET in text]


def test_no_piece_of_a_private_key_is_sent(scene: Scene) -> None:
    lines = [sha512(bytes([number])).digest()[:48] for number in range(60)]
    key = [b64encode(line).decode() for line in lines]
    mark = "RSA PRIVATE KEY-----"
    note = "\n".join(["# Key", "", f"-----BEGIN {mark}", *key, f"-----END {mark}", ""])
    (scene.root / "memory" / "key.md").write_text(note, encoding="utf-8")
    with scene.synced() as engine:
        assert len(engine.index.status().withheld) > 3
    assert not [text for text in scene.first.texts if any(line in text for line in key)]


def test_what_a_release_leaves_in_a_conversation_is_not_sent(scene: Scene) -> None:
    homes = Homes(scene.root.parent / "homes")
    homes.openclaw("a.jsonl", said("user", "the harbor key is AKIAIOSFODNN7EXAMPLE"))
    homes.openclaw("b.jsonl", said("user", f"the harbor key is GITHUB_TOKEN={SECRET}"))
    settings = Settings.parse(
        {
            "embedding": {"provider": "first"},
            "transcripts": {"sources": ["openclaw"], "redaction": "openclaw"},
        }
    )
    with Engine.open(scene.root, settings, data_dir=scene.data, homes=homes.homes) as engine:
        engine.index.sync(wait=True)
        (chunk,) = engine.index.status().withheld[1:]
    assert chunk.path.endswith("a.jsonl:1"), "what is masked already holds none"
    assert len([text for text in scene.first.texts if "harbor" in text]) == 1
