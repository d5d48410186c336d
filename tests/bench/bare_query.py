"""One question in a process of its own, as bare as it can be: the floor of `memtui search`.

Run as a file with the database, the MATCH expression, the number of rows and, unless keywords alone
are asked, the model. The query's vector is the first one of the index: what the model makes of the
text, here of any word pieces, is thrown away.
"""

from __future__ import annotations

import sys
from threading import Thread

import apsw

RANKED = "SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? ORDER BY rank LIMIT ?"
VECTORS = "SELECT id, vector FROM vectors"


def main(database: str, match: str, limit: int, model: str = "") -> None:
    """Ask for the best rows of both legs, and print their texts."""
    # As memtui does: the model is loaded beside everything else.
    embedding = Thread(target=_embed, args=(model,))
    if model:
        embedding.start()
    connection = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    found = [row[0] for row in connection.execute(RANKED, (match, limit))]
    if model:
        found += _nearest(connection, limit)
        embedding.join()
    marks = ", ".join("?" * len(found))
    rows = connection.execute(f"SELECT text FROM chunks WHERE id IN ({marks})", found).fetchall()
    print(*(str(row[0])[:80] for row in rows), sep="\n")


def _nearest(connection: apsw.Connection, limit: int) -> list[int]:
    import numpy as np

    rows: list[tuple[int, bytes]] = list(connection.execute(VECTORS))
    rowids = [row[0] for row in rows]
    matrix = np.frombuffer(b"".join([row[1] for row in rows]), np.float32).reshape(len(rows), -1)
    scores = matrix @ matrix[0]
    best = np.argpartition(-scores, limit)[:limit]
    return [int(rowids[place]) for place in best[np.argsort(-scores[best])]]


def _embed(model: str) -> None:
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 2, 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ids = np.arange(2000, 2012, dtype=np.int64).reshape(1, -1)
    rest = {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    session.run(None, {"input_ids": ids, **rest})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
