"""`memtui sessions`: the list of conversations, and one of them turn by turn."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.cli.session import open_reading
from memtui.errors import MemtuiError, SettingsError
from memtui.model.conversations import ConversationListing, Turn
from memtui.report import words
from memtui.report.conversations import listing_lines, turn_lines
from memtui.report.documents import plain

if TYPE_CHECKING:
    from memtui.engine import Engine
    from memtui.engine.conversations.reading import OpenConversation

EXIT_OK, EXIT_NOTHING = 0, 1
_MOST_NAMED = 5


class NoConversation(MemtuiError):
    """No conversation of that path or id."""

    code = "no_conversation"


def list_sessions(invocation: Invocation, source: str | None, limit: int) -> int:
    """Print the conversations, newest first; 1 when there is none.

    Those that are printed and nobody has counted are read for it.
    """
    output = invocation.output()
    with open_reading(invocation) as session:
        place = invocation.here() / os.path.expanduser(source or "")
        found = [
            one for one in session.engine.conversations.listings() if _is_of(one, source, place)
        ]
        shown = _counted(session.engine, found[: limit or len(found)], output)
        warnings = session.loaded.warnings
    if invocation.json:
        output.document({"conversations": shown, "found": len(found), "warnings": warnings})
        return EXIT_OK if shown else EXIT_NOTHING
    for warning in warnings:
        output.note(f"memtui: {warning}")
    for number, listing in enumerate(shown):
        if number:
            output.line()
        for line in listing_lines(listing, _width(output)):
            output.line(output.clean(line))
    if not found:
        of = f" of {source}" if source else ""
        output.note(
            f"memtui: no conversation{of}: `memtui sessions --coverage` says where it looks"
        )
    elif len(shown) < len(found):
        output.note(f"{len(shown)} of {words.count(len(found), 'conversation')}; --limit 0: all")
    return EXIT_OK if shown else EXIT_NOTHING


def show_session(invocation: Invocation, name: str, *, full: bool, jsonl: bool) -> int:
    """Print one conversation, with `full` whole; raises `NoConversation` when there is none."""
    if jsonl and invocation.json:
        raise SettingsError("--json and --jsonl exclude each other")
    output = invocation.output()
    with open_reading(invocation) as session:
        listing = named(session.engine, name, invocation)
        conversation = session.engine.conversations.read(listing.path)
        turns = conversation.wholes() if full else iter(conversation.turns)
        if jsonl:
            for turn in turns:
                output.record({"turn": turn})
        elif invocation.json:
            output.document(_document(conversation, turns))
        else:
            _print(output, conversation, turns, full=full)
    return EXIT_OK


def named(engine: Engine, name: str, invocation: Invocation) -> ConversationListing:
    """The conversation that a path or the beginning of an id means.

    Raises `NoConversation`, and `SettingsError` when several could be meant.
    """
    listings = engine.conversations.listings()
    place = str(invocation.here() / name)
    exact = [one for one in listings if name == one.path or place == one.place]
    if not exact:
        exact = [one for one in listings if name in _ids(one)]
    alike = exact or [
        one
        for one in listings
        if one.path.endswith(f"/{name}") or any(id_.startswith(name) for id_ in _ids(one))
    ]
    if len(alike) == 1:
        return alike[0]
    if not alike:
        raise NoConversation(
            f"no conversation {name}", hint="`memtui sessions --limit 0` lists them"
        )
    several = ", ".join(one.path for one in alike[:_MOST_NAMED])
    more = f" and {len(alike) - _MOST_NAMED} more" if len(alike) > _MOST_NAMED else ""
    raise SettingsError(f"{name} could be {several}{more}", hint="give the whole path")


def _ids(listing: ConversationListing) -> tuple[str, ...]:
    """What a conversation is called: its session, its file's name without the ending."""
    name = PurePath(listing.path).name
    return tuple(filter(None, (listing.session, name.partition(".jsonl")[0], name)))


def _is_of(listing: ConversationListing, source: str | None, place: Path) -> bool:
    """Whether a conversation belongs to a source, or lies at a place."""
    if source is None:
        return True
    program, _, part = source.partition(":")
    if program == listing.kind:
        return not part or any(
            fnmatchcase(one, part) for one in (listing.agent, *PurePath(listing.path).parts[1:2])
        )
    return Path(listing.place).is_relative_to(place)


def _counted(
    engine: Engine, shown: Sequence[ConversationListing], output: Output
) -> list[ConversationListing]:
    """The same with everything counted."""
    by_path = {one.path: one for one in shown}

    def take(listing: ConversationListing) -> None:
        by_path[listing.path] = listing
        output.progress(f"reading {listing.path}")

    engine.conversations.count(shown, take)
    output.progress("")
    return [by_path[one.path] for one in shown]


def _document(conversation: OpenConversation, turns: Iterable[Turn]) -> dict[str, object]:
    return {
        "conversation": conversation.listing,
        "turns": [plain(turn) for turn in turns],
        "malformed": [{"line": line, "why": why} for line, why in conversation.malformed],
    }


def _print(
    output: Output, conversation: OpenConversation, turns: Iterator[Turn], *, full: bool
) -> None:
    width = _width(output)
    for line in listing_lines(conversation.listing, width):
        output.line(output.clean(line))
    output.line()
    for turn in turns:
        for line in turn_lines(turn, full=full, width=width):
            output.line(output.clean(line))


def _width(output: Output) -> int:
    return output.width()
