"""What is known of the embedding providers that can be chosen."""

from __future__ import annotations

from dataclasses import dataclass

from memtui.model.reasons import Failure


@dataclass(frozen=True, slots=True)
class ProviderListing:
    """One provider that can be chosen, as far as a look tells that loads and asks nothing."""

    name: str
    summary: str
    """A few words for people."""
    remote: bool
    """Whether it is a service: text leaves this program, for `address`."""
    works: bool
    """Whether everything it needs is here: a package, a file, a key."""
    detail: str
    """One line: what was found, or what is missing."""
    hint: str = ""
    """The next step, where something is missing."""
    failure: Failure | None = None
    model: str | None = None
    """The model that it would use; `None` where its settings do not tell."""
    dimensions: int | None = None
    """`None` while only a first answer of the provider can tell."""
    address: str = ""
    """The host that text is sent to; empty when it stays in this program, or is not known yet."""
    is_requested: bool = False
    """Whether the settings ask for it, by its name or by `auto`."""
    is_actual: bool = False
    """Whether it answers now."""
    is_fallback: bool = False
    """Whether it takes over when the requested one fails."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What came of asking a provider for the vector of one word."""

    name: str
    works: bool
    detail: str
    """One line: that it answers, or how it failed."""
    hint: str = ""
    failure: Failure | None = None
    milliseconds: float | None = None
    """How long the answer took, without loading; `None` when there was none."""
    dimensions: int | None = None
    address: str = ""
    model: str | None = None
