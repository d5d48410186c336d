"""The bundled demo memory, indexed once for a whole test run.

python -m tests.support.demo writes the vectors that come with it, after its notes changed.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from memtui.data import DATA_FOLDER, DEMO_ROOT
from memtui.embedding.packaged import MODELS
from memtui.engine import Engine
from memtui.index.database import open_database
from memtui.index.embedding_cache import EmbeddingCache
from memtui.settings.schema import EmbeddingSettings, Settings

_DONE = "complete"


def index_of_the_demo(temporary: pytest.TempPathFactory) -> Path:
    """The data folder with the index of the demo; made once, also for several test processes.

    Nothing may write there: `copy_to` makes a copy that belongs to a test.
    """
    base = temporary.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    folder = shared / "indexed-demo"
    with FileLock(f"{folder}.lock"):
        if not (shared / f"{folder.name}.{_DONE}").exists():
            _index(folder)
            (shared / f"{folder.name}.{_DONE}").touch()
    return folder


def _index(folder: Path) -> None:
    # The vectors are the bundled model's own, recorded: a tenth of the time.
    from tests.support.recorded_model import recorded_model

    with recorded_model(), Engine.open(DEMO_ROOT, Settings(), data_dir=folder) as engine:
        engine.index.sync(wait=True)
        status = engine.index.status()
        assert status.vectors + status.unread == status.chunks > 0, (
            "run `python -m tests.support.demo`"
        )


def copy_to(data_home: Path, indexed: Path) -> None:
    """Put the index where the command line looks for it when `data_home` is $XDG_DATA_HOME."""
    shutil.copytree(indexed, data_home / "memtui" / "demo")


def record_vectors(file: Path) -> None:
    """Write vectors and word pieces of all chunks of the demo, and the bundled model's identity."""
    maker = MODELS["minilm"].identity(EmbeddingSettings())
    with tempfile.TemporaryDirectory() as name:
        with Engine.open(DEMO_ROOT, Settings(), data_dir=Path(name)) as engine:
            engine.index.sync(wait=True)
            (database,) = Path(engine.index.status().index_dir).glob("index-*.db")
        with closing(open_database(database)) as connection:
            query = "SELECT DISTINCT hash, vector FROM chunks JOIN vectors USING (id) ORDER BY hash"
            hashes, blobs = zip(*connection.execute(query), strict=True)
        with closing(EmbeddingCache(database.with_name("cache.db"))) as cache:
            kept = cache.get_pieces(maker, hashes)
    np.savez_compressed(
        file,
        hashes=np.array(hashes),
        vectors=np.stack([np.frombuffer(blob, "<f4") for blob in blobs]),
        pieces=np.frombuffer(b"".join(kept[one] for one in hashes), np.int8),
        ends=np.cumsum([len(kept[one]) for one in hashes]),
        made_by=np.array([maker.name, maker.model, maker.fingerprint]),
    )


if __name__ == "__main__":
    record_vectors(DATA_FOLDER / "demo-vectors.npz")
