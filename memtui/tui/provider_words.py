"""Embedding providers in words: how one stands, where text goes, how one failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.content import Content

from memtui.model import (
    Failure,
    IndexState,
    IndexStatus,
    Leg,
    LegStatus,
    ProviderState,
    Ranked,
    Reason,
    Usage,
)
from memtui.model.status import ProbeResult, ProviderListing
from memtui.text.sanitize import safe_line
from memtui.tui import format as fmt
from memtui.tui.glyphs import UNICODE, Glyphs

if TYPE_CHECKING:
    from memtui.engine.source import RebuildCost

HERE = "this program"
"""Where text goes that is sent nowhere."""
NOT_KNOWN = "a host not known yet"
LONGEST = 400
"""So many characters of a text from outside are shown at most."""

FAILURE_WORDS: Mapping[Failure, str] = {
    Failure.NOT_INSTALLED: "not installed",
    Failure.NO_FILE: "no file",
    Failure.BROKEN_FILE: "broken file",
    Failure.NO_KEY: "no key",
    Failure.BAD_SETTING: "wrong setting",
    Failure.KEY_REFUSED: "key refused",
    Failure.FORBIDDEN: "forbidden",
    Failure.NO_MODEL: "no such model",
    Failure.TOO_LARGE: "text too large",
    Failure.BAD_REQUEST: "bad request",
    Failure.RATE_LIMITED: "rate limited",
    Failure.SERVICE_DOWN: "service down",
    Failure.REDIRECTED: "redirected",
    Failure.BAD_ANSWER: "bad answer",
    Failure.DIMENSIONS_DIFFER: "other dimensions",
    Failure.TIMEOUT: "timeout",
    Failure.UNREACHABLE: "unreachable",
    Failure.CUT: "connection cut",
    Failure.MODEL_FAILED: "model failed",
    Failure.CLOSED: "closed",
}
_MISSING = frozenset({Failure.NOT_INSTALLED, Failure.NO_FILE, Failure.NO_KEY})
"""Failures that are no fault: something is just not there."""


def brief(text: str) -> str:
    """A text from outside as one line of bearable length."""
    line = safe_line(text[: 2 * LONGEST])
    return line if len(line) <= LONGEST else line[:LONGEST] + "…"


# --- where text goes ------------------------------------------------------------------------------


def is_on_this_machine(address: str) -> bool:
    """Whether a host, with or without a port, is this machine by its name or number."""
    import ipaddress

    host = address.strip().lower()
    host = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def place_words(address: str, *, remote: bool = False) -> str:
    """Where text goes: `this program`, or a host."""
    return brief(address) or (NOT_KNOWN if remote else HERE)


def place_style(address: str, *, remote: bool = False) -> str:
    """The style of a place: a warning for what leaves the machine."""
    if not address:
        return "$state-warn" if remote else fmt.MUTED
    return "" if is_on_this_machine(address) else "$state-warn"


def text_line(provider: ProviderState) -> Content:
    """Where note text goes, as a sentence without its beginning: `goes to api.openai.com`."""
    if not provider.address and not provider.remote:
        return Content("stays in this program")
    place = place_words(provider.address, remote=provider.remote)
    if is_on_this_machine(provider.address):
        return Content(f"goes to {place}, on this machine")
    return Content.assemble("goes to ", (place, "$state-warn bold"))


# --- which one answers, and why -------------------------------------------------------------------


def detail_of(provider: ProviderState) -> str:
    """Why the provider is what it is, without the hint that ends it."""
    detail = provider.detail.removesuffix(f" ({provider.hint})") if provider.hint else ""
    return brief(detail or provider.detail)


def why(provider: ProviderState) -> str:
    """How the requested provider failed, in as few words as are known."""
    if provider.failure is not None:
        return FAILURE_WORDS[provider.failure]
    return detail_of(provider) or fmt.reason_words(provider.state)


def is_fallback(provider: ProviderState) -> bool:
    """Whether another provider than the requested one answers because that one failed."""
    return provider.state is Reason.FALLBACK and bool(provider.actual)


def fallback_note(provider: ProviderState) -> str:
    """Who makes the vectors instead of whom, and why: for one line."""
    return (
        f"vectors by {brief(provider.actual or '')}, not {brief(provider.requested)}:"
        f" {why(provider)}"
    )


def vectors_note(ranked: Ranked, provider: ProviderState | None) -> str:
    """What a list should say of its vectors when another provider made them; else nothing."""
    state = ranked.pool.states.get(Leg.VECTOR)
    if provider is None or state is None or state.status is not LegStatus.OK:
        return ""
    maker = state.facts.get("provider")
    if isinstance(maker, str) and provider.actual and maker != provider.actual:
        return f"vectors by {brief(maker)} until those by {brief(provider.actual)} are there"
    return fallback_note(provider) if is_fallback(provider) else ""


def provider_change(status: IndexStatus) -> str:
    """What differs between the live index and the provider it is just built anew for.

    `index is for minilm, settings say openai`; empty while nothing differs, or nothing is built.
    """
    provider = status.provider
    if status.state is not IndexState.INDEXING or provider.state is not Reason.OK:
        return ""
    wanted = f"{provider.actual}/{provider.model}" if provider.actual and provider.model else ""
    if not status.made_by or not wanted or status.made_by == wanted:
        return ""
    made_by, _, model = status.made_by.partition("/")
    if made_by != provider.actual:
        return f"index is for {brief(made_by)}, settings say {brief(provider.actual or '')}"
    return f"index is for {brief(model)}, settings say {brief(provider.model or '')}"


def sent_line(cost: RebuildCost) -> str:
    """What has to be embedded, and where: `~33 k tokens to api.openai.com`."""
    tokens = f"~{fmt.rounded(cost.tokens_estimate)} tokens"
    place = place_words(cost.address, remote=cost.remote)
    return f"{tokens} in {HERE}" if place == HERE else f"{tokens} to {place}"


def usage_line(usage: Usage) -> Content:
    """What a provider was asked for: `12 requests, 1 284 texts, ~33 k tokens`."""
    about = "~" if usage.estimated else ""
    return Content(
        f"{fmt.counted(usage.requests, 'request')}, {fmt.counted(usage.texts, 'text')},"
        f" {about}{fmt.rounded(usage.tokens)} tokens"
    )


# --- one of the list ------------------------------------------------------------------------------


def listing_state(
    listing: ProviderListing, glyphs: Glyphs = UNICODE, probe: ProbeResult | None = None
) -> tuple[str, str, str]:
    """Glyph, words and style of how a provider stands; `probe` is what came of trying it.

    Of a service nobody can tell whether it works before it was asked.
    """
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
        return glyphs.error, FAILURE_WORDS[listing.failure], "$state-error"
    if listing.works and listing.is_requested:
        return glyphs.degraded, "asked for", "$state-warn"
    if listing.works and (listing.remote or listing.address):
        return glyphs.passed, "untried", ""
    if listing.works:
        return glyphs.passed, "ready", "$state-ok"
    if listing.failure is None:
        return glyphs.no_index, "not ready", fmt.MUTED
    return glyphs.no_index, FAILURE_WORDS[listing.failure], fmt.MUTED


def model_words(model: str | None, dimensions: int | None) -> str:
    """A model with its dimensions: `text-embedding-3-small  1536 d`."""
    name = brief(model or "")
    if not name:
        return f"{dimensions} d" if dimensions else ""
    return f"{name}  {dimensions} d" if dimensions else name
