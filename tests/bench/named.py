"""memtui with the embedded model under the name that the indexes of the bench were made with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memtui.embedding.registry import Availability, Registration, register

if TYPE_CHECKING:
    from memtui.embedding.choice import EmbeddingChoice
    from memtui.embedding.provider import Provider, ProviderIdentity

NAME = "bench-stored"


def main(arguments: Sequence[str]) -> None:
    """Run memtui; the model is loaded where memtui would load it, not before."""
    register(
        Registration(
            NAME, False, _create, lambda choice: Availability(True, "made for the bench"), _identity
        )
    )
    sys.argv = ["memtui", *arguments]
    from memtui.__main__ import main as run

    run()


def _create(choice: EmbeddingChoice) -> Provider:
    from memtui.embedding.choice import EmbeddingChoice
    from memtui.embedding.minilm import create
    from tests.bench.stores import SharedProvider

    identity = _identity(choice)
    provider = SharedProvider(create(EmbeddingChoice()))
    provider.name, provider.model = identity.name, identity.model
    provider.fingerprint = identity.fingerprint
    return provider


def _identity(choice: EmbeddingChoice) -> ProviderIdentity:
    from memtui.embedding.provider import identity_of
    from tests.bench.stores import StoredProvider

    return identity_of(StoredProvider({}))
