"""Choosing an embedding provider: what is asked of the engine, and when a choice is offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memtui.embedding.choice import AUTO, EMBEDDED_DEFAULT, EmbeddingChoice, other_of
from memtui.model.status import ProviderListing

if TYPE_CHECKING:
    from memtui.settings.write import Plan


@dataclass(frozen=True, slots=True)
class Chosen:
    """A provider that was chosen, and for how long."""

    choice: EmbeddingChoice
    is_other: bool
    """Whether it is another one than the settings asked for."""
    plan: Plan | None = None
    """What was written to the settings; `None`: it is for this session."""
    configured: EmbeddingChoice | None = None
    """What the settings ask for, after they were written."""


def choice_named(configured: EmbeddingChoice, name: str) -> tuple[EmbeddingChoice, bool]:
    """The choice of a provider by its name, and whether it is another than the configured one.

    Another one gets nothing that was set for the configured one: no model, no address, no place
    of a key. Looks at files where `auto` has to be worked out.
    """
    if configured.provider == name:
        return configured, False
    if configured.provider == AUTO:
        from memtui.embedding.registry import resolve

        meant = resolve(configured)
        if meant is not None and meant.name == name:
            return replace(configured, provider=name), False
    return other_of(configured, name), True


def worth_asking(listings: Sequence[ProviderListing]) -> tuple[ProviderListing, ...]:
    """Services whose key, and the model file, that were found where the embedded model is taken.

    What is only installed is no reason to ask. Empty when the settings lead to another one, too.
    """
    from memtui.embedding.registry import AUTO_REMOTE

    default = next((each for each in listings if each.name == EMBEDDED_DEFAULT), None)
    if default is None or not default.is_requested:
        return ()
    return tuple(each for each in listings if each.works and each.name in ("gguf", *AUTO_REMOTE))
