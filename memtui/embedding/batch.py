"""Embedding many texts by batches: sent, waited for, fetched, and taken up again after a restart.

A batch is a file up, a batch of it, a file down; `data/services.toml` has how each service wants
it. What is under way is in the store before anybody waits for it, and results carry the hashes of
their texts: a run that ended anywhere is taken up by the next with nothing embedded twice. Stopping
leaves a batch running at the service; it is not cancelled there, as its results are paid for.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from memtui.data import read_table
from memtui.embedding.http import ServiceError
from memtui.embedding.provider import (
    BatchOutcome,
    ProviderIdentity,
    Role,
    Vector,
    byte_size,
    clean_vectors,
    estimated_tokens,
)
from memtui.embedding.services import JSON, Answered, BatchForm, Request, WrongAnswer, as_json
from memtui.errors import IsCancelled, never, stop_if
from memtui.model import Failure, Usage
from memtui.settings.files import StateFolder, sync_folder, value_in
from memtui.text.ecmascript import well_formed

if TYPE_CHECKING:
    from memtui.embedding.remote import RemoteProvider
    from memtui.index.embedding_cache import EmbeddingCache

T = TypeVar("T")

MOST_TEXTS: Final = 50_000
"""Of one batch: what OpenAI allows, and what OpenClaw sends to every service."""
ID_PATTERN: Final = r"(?!.*(?:\.\.|//))[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}"
"""The pattern of an id that may become part of a path."""
_JSONL: Final = "application/jsonl"

_STATES: Final = {
    word: name for name, words in read_table("batch_states.toml").items() for word in words
}


class Polled(NamedTuple):
    state: str
    """`waiting`, `done`, `failed`, `expired` or `cancelled`."""
    output: str = ""
    """The place of its results; empty where there are none (yet)."""
    completed: int = 0
    """Texts that are embedded so far."""


def _is_id(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(ID_PATTERN, value) is not None


def _id_in(answer: object, path: str) -> str:
    """Return an id of an answer; raises `ValueError` for one that could lead to another path."""
    value = value_in(answer, path)
    if not _is_id(value):
        raise ValueError(f"it names no {path.rpartition('.')[2]}")
    return str(value)


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with the value of each name in braces in its place."""
    if isinstance(template, Mapping):
        return {name: _filled(value, values) for name, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, values) for value in template]
    return values.get(template, template) if isinstance(template, str) else template


def _title(input_file: str) -> str:
    return f"memtui-{hashlib.sha256(input_file.encode()).hexdigest()[:16]}"


class BatchInterface:
    """The batch interface of a provider; a wrong answer is a `ValueError` without its words."""

    def __init__(self, provider: RemoteProvider, form: BatchForm) -> None:
        self.provider = provider
        self.form = form
        self.most_texts = MOST_TEXTS
        # Of one input file, which is held as a whole, and made between two looks at a stop; every
        # service takes more (OpenAI the least, 200 MB).
        self.most_bytes = 32_000_000

    def line(self, text_hash: str, text: str) -> bytes:
        """Return the line of the input file that asks for one text as an inline request does."""
        values = {"{hash}": text_hash, **self._body(text)}
        return as_json(_filled(self.form.line, values)) + b"\n"

    async def upload(self, data: bytes) -> str:
        """Send an input file; returns its id."""
        if self.form.is_google:
            kind, query, beside = "related", {"uploadType": "multipart"}, "upload"
            about = as_json({"file": {"displayName": "memtui.jsonl", "mimeType": _JSONL}})
            parts = {f"content-type: {JSON}": about, f"content-type: {_JSONL}": data}
        else:
            kind, query, beside = "form-data", {}, ""
            field = "content-disposition: form-data; name="
            file = f'{field}"file"; filename="memtui.jsonl"\r\ncontent-type: {_JSONL}'
            parts = {f'{field}"purpose"': b"batch", file: data}
        boundary = f"memtui-{secrets.token_hex(20)}"
        pieces = list[bytes]()
        for head, content in parts.items():
            pieces += [f"--{boundary}\r\n{head}\r\n\r\n".encode("ascii"), content, b"\r\n"]
        # Joined once: a content is as large as memory should hold it twice.
        body = b"".join([*pieces, f"--{boundary}--\r\n".encode("ascii")])
        kind = f'multipart/{kind}; boundary="{boundary}"'
        answer = await self._ask(
            self._request("/files", body=body, kind=kind, query=query, beside=beside)
        )
        return _id_in(answer, self.form.uploaded)

    async def create(self, input_file: str) -> str:
        """Start a batch of an input file; returns its id."""
        form, model = self.form, self.provider.identity.model
        values = {"{file}": input_file, "{title}": _title(input_file), "{model}": model}
        body = as_json(_filled(form.creation, values | self._body()))
        path = form.creation_path.replace("{model}", quote(model, safe="")) or form.path
        return _id_in(await self._ask(self._request(path, body=body)), form.created)

    async def find(self, input_file: str) -> str:
        """Return the id of the batch of an input file among the latest; empty where none is."""
        answer = await self._ask(self._request(self.form.path, query=self.form.listing))
        entries = value_in(answer, self.form.entries)
        for entry in entries if isinstance(entries, list) else ():
            for path in self.form.file_of_entry:
                named = value_in(entry, path)
                files = named if isinstance(named, list) else [named]
                if input_file in files or _title(input_file) in files:
                    return _id_in(entry, self.form.created)
        return ""

    async def poll(self, batch: str) -> Polled:
        """Ask for the state of a batch."""
        form = self.form
        path = f"/{quote(batch)}" if form.is_google else f"{form.path}/{quote(batch, safe='')}"
        answer = await self._ask(self._request(path))
        output = next(filter(_is_id, (value_in(answer, path) for path in form.output)), "")
        # Google writes counts as text.
        counts = (str(value_in(answer, path)) for path in form.completed)
        completed = next((int(count) for count in counts if re.fullmatch("[0-9]{1,11}", count)), 0)
        word = next(filter(None, (value_in(answer, path) for path in form.state)), None)
        state = None
        if form.is_google and value_in(answer, "error") is not None:
            state = "failed"
        elif isinstance(word, str):
            state = _STATES.get(re.sub("^(batch|job)_state_", "", word.lower()))
        elif form.is_google and value_in(answer, "done") is True:
            state = "done" if output else "failed"
        elif form.is_google and isinstance(value_in(answer, "name"), str):
            state = "waiting"
        if state is None:
            raise ValueError(f"it tells no {form.state[-1]} that is known")
        return Polled(state, output, completed)

    def result(self, output: str) -> Request:
        """Return the request that fetches a file of results."""
        if self.form.is_google:
            path = f"/{quote(output)}:download"
            return self._request(path, query={"alt": "media"}, beside="download")
        return self._request(f"/files/{quote(output, safe='')}/content")

    def deletion(self, file: str) -> Request:
        """Return the request that deletes a file; whatever its name says, it is nothing else."""
        request = self._request(f"/files/{quote(file.removeprefix('files/'), safe='')}")
        return Request("DELETE", request.url, request.headers)

    def read(self, record: object) -> tuple[str, object]:
        """Return the hash of a text, or none, and what is answered to it; `None` for a refusal."""
        name, answer = value_in(record, self.form.key), value_in(record, self.form.answer)
        is_refused = (
            value_in(record, "error") is not None
            or value_in(record, "response.status_code") not in (None, 200)
            or value_in(answer, "error") is not None
        )
        return name if isinstance(name, str) else "", None if is_refused else answer

    def _body(self, *texts: str) -> dict[str, Any]:
        """Return the body of an inline request for the texts, and its parts, by name in braces."""
        plan = self.provider.plan
        prefixed = [plan.templates.document + well_formed(text) for text in texts]
        body = plan.service.body(
            plan.identity.model, prefixed, Role.DOCUMENT, plan.asked_dimensions
        )
        values: dict[str, Any] = {"{body}": body, "{input}": body.get("input")}
        for left_out in ("model", "input"):
            rest = {name: value for name, value in body.items() if name != left_out}
            values[f"{{body without {left_out}}}"] = rest
        return values

    def _request(
        self,
        path: str,
        *,
        body: bytes = b"",
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
        beside: str = "",
    ) -> Request:
        """Return a request to a path below the base address, which sends what there is to send."""
        headers = {"accept": JSON, "content-type": kind} if body else {"accept": JSON}
        url = self.provider.plan.address.joined(path, query, beside)
        return Request("POST" if body else "GET", url, headers, body)

    async def _ask(self, request: Request) -> object:
        # A file takes as long as a line of 100,000 bytes a second needs for it.
        timeout = self.provider.plan.choice.batch_timeout + len(request.body) / 100_000
        return await self.provider.ask(request, timeout)


class Ticket(msgspec.Struct, frozen=True):
    """A batch, or an input file whose batch may have been started; holds no text and no key."""

    owner: tuple[str, str, str, str]
    """Host and port of the service, and who makes the vectors: name, model, fingerprint."""
    input_file: Annotated[str, msgspec.Meta(pattern=rf"\A{ID_PATTERN}\Z")]
    batch: Annotated[str, msgspec.Meta(pattern=rf"\A(?:{ID_PATTERN})?\Z")]
    """Empty while it is not known whether the batch was started."""
    texts: Annotated[int, msgspec.Meta(ge=0, le=MOST_TEXTS)]
    submitted_at: float
    """Seconds since 1970."""
    expires_at: float
    """After that the service has forgotten it."""


class _Stored(msgspec.Struct):
    version: Literal[1]
    batches: list[Ticket]


class BatchStore:
    """Keeps the batches that are under way in a file, so that a restart finds them.

    A damaged file counts as empty; one that cannot be read does not, which would be to pay for
    its batches again. For one writer: the caller holds the lock of the index. The file is
    readable for its owner only, and gone when nothing is under way. Methods raise `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def under_way(self, owner: tuple[str, ...], now: float) -> list[Ticket]:
        """Return the batches of an owner, oldest first; forget the expired."""
        tickets = self._read()
        alive = [ticket for ticket in tickets if ticket.expires_at > now]
        if len(alive) < len(tickets):
            self._write(alive)
        mine = (ticket for ticket in alive if ticket.owner == owner)
        return sorted(mine, key=lambda ticket: ticket.submitted_at)

    def remove(self, ticket: Ticket, *others: Ticket) -> None:
        """Forget a ticket, by its owner and input file, and keep others instead."""
        same = ticket.owner, ticket.input_file
        tickets = [other for other in self._read() if (other.owner, other.input_file) != same]
        self._write([*tickets, *others])

    def put(self, ticket: Ticket) -> None:
        """Add a ticket, in place of an earlier one of its input file."""
        self.remove(ticket, ticket)

    def _read(self) -> list[Ticket]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Stored).batches
        except (FileNotFoundError, ValueError, RecursionError):
            return []

    def _write(self, tickets: list[Ticket]) -> None:
        if not tickets:
            self._path.unlink(missing_ok=True)
            return
        value = msgspec.to_builtins(_Stored(1, tickets))
        StateFolder(self._path.parent).write_json(self._path.name, value)
        # Only then may a batch be started: one that is forgotten is paid for twice.
        sync_folder(self._path.parent)


AT_ONCE: Final = 2
"""Batches of one run that are under way at the same time."""
FAILURES: Final = 2
"""Batches that may fail before a run sends no more of them."""
FIRST_POLL = 2.0
"""Seconds before a batch is asked for first; later it is asked for more rarely."""
LONGEST_POLL: Final = 60.0
"""Seconds between two polls at most."""
_POLL_GROWTH: Final = 1.5
"""Factor by which each pause between two polls is longer than the one before."""
_MOST_MISSES: Final = 8
"""Polls in a row without an answer before a run does without the batch; it stays in the store."""
_MOST_UNKNOWN: Final = 3
"""Polls in a row at which the service does not know a batch; a new one is not seen at once."""
_GRACE: Final = 900.0
"""Seconds after its window within which a service may still end a batch."""
_SLICE: Final = 0.05
"""Seconds: how long a wait goes on after it was to stop."""
_NOT_FOUND: Final = 404
_TOGETHER: Final = 128
"""Vectors that are stored at a time."""


@dataclass
class BatchRun:
    """Puts vectors of texts, by hash, into the cache by way of a service's batches.

    `hashes` name the texts that are missing, and `text_of` reads one. Every wait ends within 0.1 s
    once `cancelled`; `interrupted` ends the waiting and nothing else. What fails in passing is
    tried again, nothing is started twice. `progress` is told the phase in words, and how many
    texts of how many are embedded.
    """

    interface: BatchInterface
    identity: ProviderIdentity
    hashes: Collection[str]
    text_of: Callable[[str], str]
    store: BatchStore
    cache: EmbeddingCache
    cancelled: IsCancelled = never
    interrupted: IsCancelled = never
    progress: Callable[[str, int, int], None] = lambda phase, done, total: None
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._provider = provider = self.interface.provider
        self._plan = provider.plan
        maker = self.identity
        self._owner = provider.address, maker.name, maker.model, maker.fingerprint
        self._missing = set(self.hashes)
        self._failures: list[str] = []
        self._sends_more = True
        self._spent = Usage()
        # Learned from the first vectors where it is not known: what most of them have.
        self._dimensions = maker.dimensions

    def run(self) -> BatchOutcome:
        """Wait for earlier batches, send what is missing, store what comes.

        Batches that are under way for the same identity come first, though fewer texts than
        `batch_minimum` do not wait for them; then those that are still missing are sent, while
        at least so many are. Text that gets no vector here is left to the caller. Raises
        `Cancelled`, `OSError` when the store cannot be read or written, and what the cache raises.
        """
        is_waiting = not all(self._finish(ticket, is_own=False) for ticket in self._earlier())
        own = deque[Ticket]()
        queue = [name for name in self.hashes if name in self._missing][::-1]
        while not is_waiting:
            # After a failure the other one tells first whether it is worth it to go on.
            most = 0 if not self._sends_more else 1 if self._failures else AT_ONCE
            if len(own) < most and len(queue) >= max(1, self._plan.choice.batch_minimum):
                if (ticket := self._submit(queue)) is not None:
                    own.append(ticket)
            elif own:
                is_waiting = not self._finish(own.popleft(), is_own=True)
            else:
                break
        note = ""
        if count := len(self._failures):
            times = "" if count == 1 else f" ({count} failures)"
            off = "" if self._sends_more else "; no more batches in this run"
            rest = "what is left is embedded without batches"
            note = f"batch: {self._failures[-1]}{times}{off}; {rest}"
        return BatchOutcome(set(self.hashes) != self._missing, self._spent, note, is_waiting)

    def _tell(self, step: str, completed: int = 0) -> None:
        total = len(self.hashes)
        done = total - len(self._missing) + completed
        self.progress(f"batch: {step} {self._plan.service.name}", min(done, total), total)

    def _ask(self, step: Callable[[], Awaitable[T]], *, once: bool = False) -> T:
        """Take a step that asks the service, and again where it fails in passing, unless `once`."""
        provider = self._provider

        async def attempt(_: float) -> T:
            try:
                return await step()
            except ValueError as error:
                words = f"{provider.address} answers with no batch: {error}"
                raise ServiceError(words, Failure.BAD_ANSWER) from None

        seconds = self._plan.choice.batch_timeout
        work = attempt(seconds) if once else provider.pacer.send(attempt, seconds)
        return provider.client.run(work, self.cancelled)

    async def _find(self, input_file: str) -> str:
        """Return the batch of an input file; empty where none is, or the service lists none."""
        try:
            return await self.interface.find(input_file)
        except ServiceError as error:
            if error.is_passing:
                raise
            return ""

    def _earlier(self) -> Iterator[Ticket]:
        for ticket in self.store.under_way(self._owner, self.clock()):
            if not ticket.batch:
                try:
                    batch = self._ask(partial(self._find, ticket.input_file))
                except ServiceError as error:
                    self._not_started(ticket, error)
                    continue
                if not batch:
                    # Its texts may have been embedded since: what is missing is sent anew.
                    self._forget(ticket)
                    continue
                ticket = replace(ticket, batch=batch)
                self.store.put(ticket)
            yield ticket

    def _submit(self, queue: list[str]) -> Ticket | None:
        """Start a batch of as many texts as one holds; `None` where that fails, or none is left.

        Texts that the service does not take, blank or too long, are passed over. `queue` has the
        next one last. Where an answer does not come, it is looked for before it is started again.
        """
        self._tell("sending to")
        interface, now = self.interface, self.clock()
        entries = list[bytes]()
        size = 0
        while queue and len(entries) < interface.most_texts:
            stop_if(self.cancelled)
            text = self.text_of(queue[-1])
            if text.strip() and byte_size(text) <= self._plan.input_bytes:
                line = interface.line(queue[-1], text)
                if entries and size + len(line) > interface.most_bytes:
                    break
                entries.append(line)
                size += len(line)
            queue.pop()
        if not entries:
            return None
        ticket: Ticket | None = None
        tries = 0

        async def start() -> str:
            nonlocal tries
            tries += 1
            batch = await self._find(input_file) if tries > 1 else ""
            return batch or await interface.create(input_file)

        try:
            input_file = self._ask(partial(interface.upload, b"".join(entries)))
            forgotten_at = now + interface.form.retention_days * 86400
            ticket = Ticket(self._owner, input_file, "", len(entries), now, forgotten_at)
            self.store.put(ticket)
            ticket = replace(ticket, batch=self._ask(start))
            self.store.put(ticket)
        except ServiceError as error:
            self._not_started(ticket, error)
            return None
        return ticket

    def _not_started(self, ticket: Ticket | None, error: ServiceError) -> None:
        # Where the failure passes, the batch may have been started after all: the next run looks.
        if ticket is not None and not error.is_passing:
            self._forget(ticket)
        self._fail(str(error))
        # Of Google that says that the model or the key has no batches.
        if ticket is not None and self.interface.form.is_google and error.status == _NOT_FOUND:
            self._sends_more = False

    def _finish(self, ticket: Ticket, *, is_own: bool) -> bool:
        """Wait for a batch and take its results; `False` where the wait was interrupted.

        Few texts are embedded sooner without a batch of an earlier run, which the next run looks
        at again: so only one look is taken at it, unless `is_own`.
        """
        name = self._plan.service.name
        ends_at = ticket.submitted_at + self.interface.form.window_hours * 3600 + _GRACE
        delay = FIRST_POLL if is_own else 0.0
        missing = len(self._missing)
        misses = unknown = completed = 0
        output = problem = ""
        while True:
            self._tell("waiting for", completed)
            for _ in range(math.ceil(delay / _SLICE)):
                stop_if(self.cancelled)
                if self.interrupted():
                    return False
                self.sleep(min(_SLICE, delay))
            delay = min(LONGEST_POLL, max(FIRST_POLL, delay * _POLL_GROWTH))
            is_left = not is_own and len(self._missing) < self._plan.choice.batch_minimum
            try:
                state, output, done = self._ask(
                    partial(self.interface.poll, ticket.batch), once=True
                )
                if output and state != "waiting":
                    self._tell("fetching from")
                    self._fetch(output)
            except WrongAnswer as error:
                output, problem = "", f"{self._provider.address}: {error}"
                break
            except ServiceError as error:
                if error.status == _NOT_FOUND:
                    misses = 0
                    unknown += 1
                    if unknown < _MOST_UNKNOWN:
                        continue
                    problem = f"{name} knows the batch no more"
                    break
                misses += 1
                if not error.is_passing or misses > _MOST_MISSES:
                    # It stays in the store: the next run may take what it gives.
                    self._fail(str(error))
                    return True
                if is_left:
                    return True
                continue
            misses = unknown = 0
            if state == "waiting":
                output, completed = "", min(done, ticket.texts)
                if is_left:
                    return True
                if self.clock() <= ends_at:
                    continue
            if state in ("waiting", "expired"):
                problem = f"a batch of {name} took too long"
            elif state != "done":
                problem = f"a batch of {name} ended as {state}"
            elif is_own and len(self._missing) == missing:
                problem = f"a batch of {name} holds no vector that can be used"
            break
        if problem:
            self._fail(problem)
        self._forget(ticket, output)
        return True

    def _fail(self, problem: str) -> None:
        self._failures.append(problem)
        self._sends_more = self._sends_more and len(self._failures) < FAILURES

    def _forget(self, ticket: Ticket, output: str = "") -> None:
        """Forget a batch and delete its files; what cannot be deleted expires at the service."""
        self.store.remove(ticket)
        for file in filter(None, (ticket.input_file, output)):
            work = self._provider.ask(self.interface.deletion(file), 10.0)
            with contextlib.suppress(ServiceError):
                self._provider.client.run(work, self.cancelled)

    def _fetch(self, output: str) -> None:
        """Store what a file of results holds for the texts that are missing, each once.

        A file that is cut is fetched again at the next poll; what came before is stored already.
        """
        used = Usage(requests=1)
        answers: dict[str, Answered] = {}
        request = self.interface.result(output)
        pause = self._plan.choice.batch_timeout
        try:
            for line in lines(self._provider.download(request, pause, self.cancelled)):
                with contextlib.suppress(ValueError, RecursionError):
                    name, answer = self.interface.read(json.loads(line))
                    if name in self._missing and name not in answers:
                        answers[name] = self._plan.service.vectors_in(answer, 1, self._dimensions)
                if len(answers) >= _TOGETHER:
                    used, answers = used.plus(self._stored(answers)), {}
        finally:
            used = used.plus(self._stored(answers))
            self._provider.count(used)
            self._spent = self._spent.plus(used)

    def _stored(self, answers: Mapping[str, Answered]) -> Usage:
        """Store vectors, checked as those of an inline answer; return what they took."""
        if self._dimensions is None and answers:
            sizes = Counter(answered.vectors.shape[1] for answered in answers.values())
            self._dimensions = sizes.most_common(1)[0][0]
        usage, vectors = Usage(), dict[str, Vector]()
        for name, (rows, tokens) in answers.items():
            if rows.shape[1] == self._dimensions:
                vectors[name] = clean_vectors(rows[0])
                counted = estimated_tokens(len(self.text_of(name))) if tokens is None else tokens
                usage = usage.plus(Usage(0, 1, counted, tokens is None))
        self.cache.put_many(self.identity, vectors)
        self._missing -= vectors.keys()
        return usage


def lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut what comes in at line feeds; raises `WrongAnswer` for a line of more than 1 MiB."""
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        *complete, rest = rest.split(b"\n")
        yield from (bytes(line) for line in complete if line.strip())
        if len(rest) > 2**20:
            raise WrongAnswer("a line of the results is longer than a vector can be")
    if rest.strip():
        yield bytes(rest)
