"""What the first index of a memory would take, told from the sizes of its files."""

from __future__ import annotations

from pathlib import Path

from memtui.embedding.prices import cost, price_of
from memtui.embedding.provider import estimated_tokens
from memtui.engine.common import scope_of
from memtui.engine.providers.choices import choice_for
from memtui.engine.source import RebuildCost
from memtui.index.transcripts.discovery import with_transcripts
from memtui.index.transcripts.scope import transcript_scope_of
from memtui.memory.discover import discover
from memtui.model import ProviderState
from memtui.settings import Settings


def first_cost(root: Path, settings: Settings, provider: ProviderState) -> RebuildCost:
    """Estimate the tokens of all notes, four bytes a token, and their price.

    Of conversations that are opted in all bytes count, though only what is said is embedded.

    No chunk is known yet, and the overlap of chunks, which is embedded twice, is added as the
    share that the settings have. Opens no file.
    """
    notes = discover(scope_of(root, settings))
    files = with_transcripts(notes, transcript_scope_of(settings, root)).files
    chunking = settings.chunking
    overlap = 1 + chunking.overlap / chunking.tokens
    tokens = round(sum(estimated_tokens(file.size) for file in files) * overlap)
    name, model = provider.actual or "", provider.model or ""
    choice = choice_for(settings.embedding, name)
    price = price_of(choice, name, model)
    return RebuildCost(
        len(files),
        0,
        0,
        tokens,
        provider.remote,
        price=cost(tokens, price) if price is not None else None,
        currency=price.currency if price is not None else "",
        as_of=price.as_of if price is not None else "",
        provider=name,
        model=model,
        address=provider.address,
    )
