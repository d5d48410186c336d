"""Embedding providers on screen: the words of the report with their styles and glyphs."""

from __future__ import annotations

from textual.content import Content

from memtui.model import Failure, Leg, LegStatus, ProviderState, Ranked
from memtui.model.status import ProbeResult, ProviderListing
from memtui.report import providers
from memtui.report.providers import (
    is_on_this_machine,
    listing_words,
    text_words,
)
from memtui.report.words import FAILURE_WORDS
from memtui.tui import format as fmt
from memtui.tui.glyphs import UNICODE, Glyphs

_MISSING = frozenset({Failure.NOT_INSTALLED, Failure.NO_FILE, Failure.NO_KEY})
"""Failures that are no fault: something is just not there."""


def place_style(address: str, *, remote: bool = False) -> str:
    """The style of a place: a warning for what leaves the machine."""
    if not address:
        return "$state-warn" if remote else fmt.MUTED
    return "" if is_on_this_machine(address) else "$state-warn"


def text_line(provider: ProviderState) -> Content:
    """Where note text goes; a host that is not this machine stands out."""
    words = text_words(provider.address, remote=provider.remote)
    if not place_style(provider.address, remote=provider.remote).startswith("$state"):
        return Content(words)
    head, _, place = words.partition(" to ")
    return Content.assemble(f"{head} to ", (place, "$state-warn bold"))


def vectors_note(ranked: Ranked, provider: ProviderState | None) -> str:
    """What a list should say of its vectors when another provider made them; else nothing."""
    state = ranked.pool.states.get(Leg.VECTOR)
    if state is None or state.status is not LegStatus.OK:
        return ""
    return providers.vectors_note(ranked.pool.states, provider)


def listing_state(
    listing: ProviderListing, glyphs: Glyphs = UNICODE, probe: ProbeResult | None = None
) -> tuple[str, str, str]:
    """Glyph, words and style of how a provider stands; `probe` is what came of trying it."""
    words = listing_words(listing)
    if probe is not None and not listing.is_actual:
        if probe.works:
            return glyphs.passed, "answers", "$state-ok"
        failed = FAILURE_WORDS[probe.failure] if probe.failure is not None else "failed"
        return glyphs.error, failed, "$state-error"
    if listing.is_actual and (listing.is_requested or not listing.is_fallback):
        return glyphs.ready, "in use", "$state-ok"
    if listing.is_actual:
        return glyphs.degraded, "fallback", "$state-warn"
    if listing.failure is not None and listing.failure not in _MISSING:
        return glyphs.error, words, "$state-error"
    if listing.works and listing.is_requested:
        return glyphs.degraded, "asked for", "$state-warn"
    if listing.works:
        return glyphs.passed, words, "" if words == "untried" else "$state-ok"
    return glyphs.no_index, words, fmt.MUTED
