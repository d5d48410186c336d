"""Following the conversation that is read while somebody goes on talking in it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from textual import on, work

from memtui.model.conversations import ConversationListing
from memtui.tui.sessions.actions_turn import TurnActions
from memtui.tui.sessions.messages import ConversationStat, Stat

WATCH_SECONDS = 3.0
"""So often the file of the conversation in the reader is looked at."""
_WRITTEN_AHEAD = "-wal"
"""What the name of a database's newest pages ends with."""


class FollowingActions(TurnActions):
    """A conversation grows long before there is enough of it to be indexed."""

    _stat: tuple[str, Stat] | None = None
    """The path of the conversation that was looked at last, and what was seen."""
    _next_look = 0.0
    """When the conversations may be listed again, by the monotonic clock."""

    def follow_conversation(self) -> None:
        """Look whether the conversation in the reader changed, while this screen is in front."""
        if self.is_current and self.conversation is not None:
            self._watch(self.conversation.listing)

    @work(
        thread=True, exclusive=True, group="watch", exit_on_error=False,
        description="look at the conversation",
    )  # fmt: skip
    def _watch(self, listing: ConversationListing) -> None:
        self.post_message(ConversationStat(listing, stat_of(listing)))

    @on(ConversationStat)
    def conversation_looked_at(self, message: ConversationStat) -> None:
        """List and read anew what changed; at thousands of transcripts less often."""
        message.stop()
        listing, seen = message.listing, message.stat
        if listing.path != self.reading_path:
            return
        if self._stat is not None and self._stat[0] == listing.path:
            is_changed = self._stat[1] != seen
        else:
            # The rows of a database have no size of their own to compare.
            is_changed = bool(seen) and not listing.session and seen[0][0] != listing.size
        if not is_changed:
            self._stat = listing.path, seen
        elif time.monotonic() >= self._next_look:
            self._stat = listing.path, seen
            self._next_look = time.monotonic() + 5 * self._look_took
            self.load()


def stat_of(listing: ConversationListing) -> Stat:
    """Size in bytes and mtime in ns of what holds a conversation; empty when it is gone."""
    files = [Path(listing.place)]
    if listing.session:
        files.append(Path(listing.place + _WRITTEN_AHEAD))
    seen = []
    for file in files:
        try:
            found = os.stat(file)
        except OSError:
            # Gone or not to be looked at: what that means is told by who lists or reads it.
            continue
        seen.append((found.st_size, found.st_mtime_ns))
    return tuple(seen)
