"""Finding the model on this machine that made the vectors of an index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from memtui.embedding.choice import AUTO, NONE, EmbeddingChoice
from memtui.embedding.provider import Maker, maker_of
from memtui.embedding.registry import provider_names, registration_of
from memtui.errors import MemtuiError


def local_choice(
    maker: Maker, dimensions: int | None, configured: EmbeddingChoice
) -> EmbeddingChoice | None:
    """The choice that gives the local provider `maker`; `None` when none here does.

    Never a service: text is sent only where the user chose to. `configured` may know the file of
    a local model.
    """
    if maker.name not in provider_names() or maker.name in (AUTO, NONE):
        return None
    registration = registration_of(maker.name)
    if registration.remote:
        return None
    for choice in _candidates(maker, dimensions, configured):
        try:
            identity = registration.identity(choice)
        except MemtuiError:
            # These settings mean no model that there is.
            continue
        if maker_of(identity) == maker and registration.look(choice).works:
            return choice
    return None


def _candidates(
    maker: Maker, dimensions: int | None, configured: EmbeddingChoice
) -> Iterator[EmbeddingChoice]:
    plain = EmbeddingChoice(maker.name, threads=configured.threads)
    yield plain
    yield replace(plain, dimensions=dimensions)
    yield replace(plain, model=maker.model)
    yield replace(plain, model=maker.model, dimensions=dimensions)
    yield replace(configured, provider=maker.name)
