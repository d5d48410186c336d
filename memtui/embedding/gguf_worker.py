"""The process that a GGUF model runs in: texts come in, vectors go out, one line of JSON each.

A damaged model file or a fault in llama.cpp ends a process without an exception; here it ends this
one, and memtui says so. What the library logs goes to the file that the parent reads.

In: a text as a JSON string. Out: lines that start with `MARK`, as a module that starts with Python
may print others; each holds `vector` (base64 of float32) with `tokens`, or `error`.

xllamacpp cannot be had without its HTTP server. It listens on a socket in the parent's private
folder, and only where the system takes no such socket on a loopback port, behind a random key. It
is asked for nothing but tokens: the library cuts no long text, and reads control tokens that are
spelled out in a text as commands to the model.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from memtui.data import read_table

MARK: Final = b"\x00memtui-gguf "
INSTALL: Final = "install it with: pip install 'xllamacpp>=2026.10,<2027'"
ERRORS: Final = "errors"
"""The file in the private folder that takes the log."""
NOT_LOADED: Final = 3
"""The exit code where the library is what cannot be loaded."""
LOOKED_AT_A_TOKEN: Final = 8
"""Characters of a text for each token that fits; what is beyond is not looked at."""
_LONGEST_SOCKET: Final = 100
"""Bytes of a path: macOS takes 103, Linux 107."""


class _Model:
    """A GGUF model in memory, run by llama.cpp on the processor."""

    def __init__(
        self, library: Any, folder: Path, path: str, length: int, threads: int, pooling: int
    ) -> None:
        # The server refuses a text that fills the context of a decoder to the last place.
        self._length = length - 1
        self._key = secrets.token_hex(16)
        params = library.CommonParams()
        params.model.path = path
        for name, value in read_table("gguf.toml")["params"].items():
            setattr(params, name, value)
        # A text is one batch: an encoder must see all of it at once.
        params.n_ctx = params.n_batch = params.n_ubatch = length
        params.pooling_type = library.llama_pooling_type(pooling)
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        # A file that is written to while it is mapped would change the vectors.
        params.load_mode = library.llama_load_mode.LLAMA_LOAD_MODE_NONE
        params.api_keys = [self._key]
        self._socket = str(folder / "server.sock")
        if hasattr(socket, "AF_UNIX") and len(self._socket.encode()) <= _LONGEST_SOCKET:
            params.hostnames = [self._socket]
        else:
            self._socket = ""
        try:
            self._server = library.Server(params)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            # The library logs on a thread, which an ordinary exit lets come to its end.
            sys.exit(1)
        # Where the model ends every text with one token, a text that is cut keeps it.
        ends = [self._tokens(text)[-1:] for text in ("", "a")]
        self._end = ends[0] if ends[0] == ends[1] else []

    def embed(self, text: str) -> dict[str, object]:
        """Return the answer to a text, which is cut to the tokens that fit."""
        tokens = self._tokens(text)
        if len(tokens) > self._length:
            tokens = tokens[: self._length - len(self._end)] + self._end
        if not tokens:
            return {"vector": "", "tokens": 0}
        answer = self._server.handle_embeddings({"input": [tokens], "encoding_format": "base64"})
        if "data" not in answer:
            return {"error": str(answer.get("error", {}).get("message", "no vector"))}
        return {"vector": answer["data"][0]["embedding"], "tokens": len(tokens)}

    def _tokens(self, text: str) -> list[int]:
        import http.client  # loads ssl, which memtui itself does not need for a local model

        address = urlsplit(self._server.listening_address)
        connection = http.client.HTTPConnection(address.hostname or "localhost", address.port)
        if self._socket:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self._socket)
        with contextlib.closing(connection):
            body = json.dumps({"content": text, "add_special": True, "parse_special": False})
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request("POST", "/tokenize", body, headers)
            tokens: list[int] = json.loads(connection.getresponse().read())["tokens"]
            return tokens


def main(arguments: list[str]) -> None:
    """Load the model file, then answer until the input ends."""
    folder, path, length, threads, pooling = arguments
    # The standard output is for answers alone: what a library prints goes nowhere.
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        import xllamacpp
    except Exception as error:  # a library that does not load raises what it likes
        print(" ".join(str(error).split()), file=sys.stderr, flush=True)
        os._exit(NOT_LOADED)
    model = _Model(xllamacpp, Path(folder), path, int(length), int(threads), int(pooling))
    for line in sys.stdin.buffer:
        answers.write(MARK + json.dumps(model.embed(json.loads(line))).encode() + b"\n")
        answers.flush()
    # The parent may have been killed before it could remove its folder.
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        # The library's threads would keep a process waiting that ends by an exception.
        os._exit(1)
