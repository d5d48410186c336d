"""The process that a GGUF model runs in: texts come in, vectors go out.

A damaged model file or a fault in llama.cpp ends a process without an exception; here it ends this
one, and memtui says so. What the library prints stays here, too.

Frames go both ways: kind (1 byte), length (4 bytes, little-endian), content. In: `T`, a text in
UTF-8. Out: `BEGINNING`, as a module that starts with Python may have printed before; then `R`, the
model is loaded, its dimensions; `V`, tokens (4 bytes) and float32 numbers; `E`, an error as JSON
with `message`, `hint` and `failure`.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path
from typing import IO, Final, NamedTuple

from memtui.errors import ProviderError

TEXT: Final = b"T"
READY: Final = b"R"
VECTOR: Final = b"V"
ERROR: Final = b"E"
BEGINNING: Final = b"\x00memtui-gguf\x01\n"
MOST_CONTENT: Final = 1 << 20
"""Bytes of a frame; the longest vector and the longest text are a quarter of it."""
COUNT: Final = struct.Struct("<I")
CHARACTERS_A_TOKEN: Final = 8
"""Of a text, no more than this for each token that fits is looked at: few words are longer."""
_HEAD: Final = struct.Struct("<cI")


class Frame(NamedTuple):
    """One message between the two processes."""

    kind: bytes
    content: bytes


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Send a frame; raises `OSError` when nobody reads any more."""
    stream.write(_HEAD.pack(frame.kind, len(frame.content)) + frame.content)
    stream.flush()


def read_beginning(stream: IO[bytes]) -> bool:
    """Pass over what comes before the frames; whether any frames come."""
    seen = b""
    while byte := stream.read(1):
        seen = (seen + byte)[-len(BEGINNING) :]
        if seen == BEGINNING:
            return True
    return False


def read_frame(stream: IO[bytes]) -> Frame | None:
    """Wait for a frame; `None` when the other side has ended, or sends what is none."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, length = _HEAD.unpack(head)
    if length > MOST_CONTENT:
        return None
    content = stream.read(length)
    return Frame(kind, content) if len(content) == length else None


def main(arguments: list[str]) -> int:
    """Load the model file, then answer until the input ends."""
    path, context_length, threads = arguments
    answers = _private_output()
    answers.write(BEGINNING)
    try:
        from memtui.embedding.gguf.model import LlamaModel

        model = LlamaModel(Path(path), context_length=int(context_length), threads=int(threads))
    except ProviderError as error:
        write_frame(answers, _error(error))
        return 1
    write_frame(answers, Frame(READY, COUNT.pack(model.dimensions)))
    while (asked := read_frame(sys.stdin.buffer)) is not None:
        try:
            vector, tokens = model.embed(asked.content.decode("utf-8"))
            numbers = vector.astype("<f4").tobytes()
            write_frame(answers, Frame(VECTOR, COUNT.pack(tokens) + numbers))
        except ProviderError as error:
            write_frame(answers, _error(error))
    return 0


def _private_output() -> IO[bytes]:
    """Keep the standard output for frames alone: what a library prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    return answers


def _error(error: ProviderError) -> Frame:
    content = {"message": error.message, "hint": error.hint, "failure": str(error.failure)}
    return Frame(ERROR, json.dumps(content).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
