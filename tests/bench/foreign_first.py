"""One process from its start to its first result of a foreign index; imports nothing it need not.

    python -m tests.bench.foreign_first engine|examining|bare CASE.json

prints one line of JSON: seconds since the moment that the case tells, CPU seconds, memory.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(how: str, case: dict[str, Any]) -> None:
    """Open, search once, tell when the result was there, search on, tell the memory."""
    steps = _bare(case) if how == "bare" else _engine(case, examine=how == "examining")
    found = next(steps)
    took = {"wall": time.time() - case["began"], "cpu": time.process_time(), "results": found}
    for _ in steps:
        pass
    status = Path("/proc/self/status").read_text(encoding="ascii")
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    for name in ("VmRSS", "RssAnon"):
        took[name] = int(sizes[name].split()[0]) * 1024
    print(json.dumps(took))


def _engine(case: dict[str, Any], *, examine: bool) -> Any:
    from memtui.engine import Engine
    from memtui.engine.foreign import ForeignTarget

    given = None
    if case["vector"] is not None:
        from memtui.engine.foreign.query_vectors import load_given

        given = load_given(Path(case["vector"]))
    workspace = Path(case["workspace"]) if examine else None
    target = ForeignTarget(Path(case["database"]), workspace=workspace)
    engine = Engine.open_agent(target, given=given, env={}, examine=examine)
    yield len(engine.search.ask(case["query"]).hits)
    yield len(engine.search.ask(case["query"]).hits)
    engine.close()


def _bare(case: dict[str, Any]) -> Any:
    import apsw

    uri = f"file:{case['database']}?mode=ro&immutable=1"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    blob = None
    if case["vector"] is not None:
        import array

        import sqlite_vec

        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        with open(case["vector"], encoding="utf-8") as file:
            blob = array.array("f", json.load(file)).tobytes()
    yield bare_search(connection, case["statements"], case["matches"], blob, case["limit"])
    yield bare_search(connection, case["statements"], case["matches"], blob, case["limit"])
    connection.close()


def bare_search(
    connection: Any, statements: dict[str, str], matches: list[str], blob: bytes | None, limit: int
) -> int:
    """The same rows by the least: each expression once, the nearest, and the texts of both."""
    found = bare_words(connection, statements, matches, limit)
    if blob is not None:
        found += bare_nearest(connection, statements, blob, limit)
    return len(connection.execute(statements["chunks"], (json.dumps(found),)).fetchall())


def bare_words(
    connection: Any, statements: dict[str, str], matches: list[str], limit: int
) -> list[str]:
    """The ids of the best of the full text, and of the paths where the release searches them."""
    found: list[str] = []
    for match in matches:
        ranked = connection.execute(statements["ranked"], (match, limit)).fetchall()
        held = connection.execute(statements["texts"], (json.dumps([row[0] for row in ranked]),))
        found += [row[0] for row in held.fetchall()]
        if "paths" in statements:
            named = connection.execute(statements["paths"], (match, limit)).fetchall()
            found += [row[0] for row in named]
    return found


def bare_nearest(connection: Any, statements: dict[str, str], blob: bytes, limit: int) -> list[str]:
    """The ids of the nearest, as the release asks for them."""
    values = (blob, blob, min(limit * 8, 4096), limit)
    return [row[0] for row in connection.execute(statements["nearest"], values).fetchall()]


if __name__ == "__main__":
    main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
