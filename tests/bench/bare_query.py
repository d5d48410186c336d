"""One question in a process of its own, as bare as it can be: the floor of `memtui search`.

Run as a file with the database, the MATCH expression, the number of rows, and the vectors'
dimensions (0: keywords alone). The query's vector is the first one of the index.
"""

from __future__ import annotations

import sys

import apsw

RANKED = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?"
BLOCKS = "SELECT vectors FROM chunks_vec_vector_chunks00"
ROWIDS = "SELECT rowids FROM chunks_vec_chunks"


def main(database: str, match: str, limit: int, dims: int) -> None:
    """Ask for the best rows of both legs, and print their texts."""
    connection = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    found = [row[0] for row in connection.execute(RANKED, (match, limit))]
    if dims:
        found += _nearest(connection, limit, dims)
    marks = ", ".join("?" * len(found))
    rows = connection.execute(f"SELECT text FROM chunks WHERE id IN ({marks})", found).fetchall()
    print(*(str(row[0])[:80] for row in rows), sep="\n")


def _nearest(connection: apsw.Connection, limit: int, dims: int) -> list[int]:
    import numpy as np

    blocks = [np.frombuffer(row[0], np.float32) for row in connection.execute(BLOCKS)]
    rowids = np.concatenate([np.frombuffer(row[0], np.int64) for row in connection.execute(ROWIDS)])
    matrix = np.concatenate(blocks).reshape(-1, dims)
    scores = matrix @ matrix[0]
    best = np.argpartition(-scores, limit)[:limit]
    return [int(rowids[place]) for place in best[np.argsort(-scores[best])]]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
