"""How much memory a process takes that searches a large index, and the index on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from memtui.index.database import open_database
from tests.bench.corpus import DIMENSIONS, Corpus
from tests.bench.measure import Limit, Measurement, Plan, Series
from tests.bench.stores import Store, StoredProvider, registered, store

SMALL = 1000
MEASURED_FROM = 100_000
QUESTIONS = 20
_MOST = 1.5
_CODED_FROM = 40_000_000


def measure_memory(plan: Plan) -> Iterator[Measurement]:
    """Resident memory and bytes of the index at each size; the aim is one from 100,000 chunks on."""
    sizes = [size for size in plan.sizes if size > SMALL] or [MEASURED_FROM]
    corpus = Corpus()
    small = _measured(store(corpus, SMALL, plan.place))
    for size in sizes:
        made = store(corpus, size, plan.place)
        found = _measured(made)
        arrays = size * DIMENSIONS * 4
        coded = size * DIMENSIONS > _CODED_FROM
        arrays += size * DIMENSIONS // 8 if coded else 0
        bound = Series([arrays / 1e6])
        peer = "matrix and codes" if coded else "matrix"
        note = f"with {SMALL:,} chunks {small['VmRSS'] / 1e6:.0f} MB"
        grown = Series([(found["RssAnon"] - small["RssAnon"]) / 1e6])
        is_judged = size >= MEASURED_FROM
        yield Measurement(
            f"memory that the chunks take, {size:,}", grown, "MB", peer, bound,
            f"<= {_MOST}x" if is_judged else "", "not of files, beyond what 1,000 chunks take",
            limit=Limit(_MOST) if is_judged else None, size=size,
        )  # fmt: skip
        for name, key in (("resident memory", "VmRSS"), ("  resident, not of files", "RssAnon")):
            ours = Series([found[key] / 1e6])
            yield Measurement(f"{name}, {size:,}", ours, "MB", peer, bound, note=note, size=size)
        yield from _on_disk(made)


def _on_disk(made: Store) -> Iterator[Measurement]:
    connection = open_database(made.database, readonly=True)
    try:
        sql = "SELECT sum(octet_length(text)), count(*) FROM chunks"
        text, count = (int(str(value)) for value in connection.execute(sql).fetchall()[0])
    finally:
        connection.close()
    whole = made.database.stat().st_size
    vectors = count * DIMENSIONS * 4
    for name, size in (("index", whole), ("  index without vectors", whole - vectors)):
        yield Measurement(
            f"{name} on disk, {count:,}", Series([size / 1e6]), "MB", "text",
            Series([text / 1e6]), size=count,
        )  # fmt: skip


def _measured(made: Store) -> Mapping[str, int]:
    code = (
        "import sys; from pathlib import Path; from tests.bench import memory, stores; "
        "memory.resident(stores.Store(Path(sys.argv[1]), Path(sys.argv[2]), 0))"
    )
    command = [sys.executable, "-c", code, str(made.root), str(made.data)]
    run = subprocess.run(command, capture_output=True, check=True, text=True)
    found: Mapping[str, int] = json.loads(run.stdout)
    return found


def resident(place: Store) -> None:
    """Open an index, search it, and print the resident memory in bytes; in a process of its own."""
    questions = Corpus().questions(QUESTIONS)
    provider = StoredProvider({question.text: question.vector for question in questions})
    with registered(provider) as settings, place.open(settings) as engine:
        for question in questions:
            engine.search.ask(question.text)
        status = Path("/proc/self/status").read_text(encoding="ascii")
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    wanted = ("VmRSS", "RssAnon")
    print(json.dumps({name: int(sizes[name].split()[0]) * 1024 for name in wanted}))
