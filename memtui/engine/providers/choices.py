"""What is chosen with a provider's name alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from memtui.embedding.choice import NONE, EmbeddingChoice, choice_of, other_of
from memtui.embedding.registry import resolve
from memtui.errors import SettingsError

if TYPE_CHECKING:
    from memtui.settings.schema import EmbeddingSettings


def choice_for(embedding: EmbeddingSettings, name: str) -> EmbeddingChoice:
    """The choice of a provider by name; another than the configured one gets `other_of`."""
    configured = choice_of(embedding)
    if name == requested_name(embedding):
        return replace(configured, provider=name)
    return other_of(configured, name)


def requested_name(embedding: EmbeddingSettings) -> str:
    """The provider that the settings mean, `auto` worked out; `none` for no provider.

    An unknown name stays as it is.
    """
    try:
        meant = resolve(choice_of(embedding))
    except SettingsError:
        return embedding.provider
    return meant.name if meant is not None else NONE
