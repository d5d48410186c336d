"""`memtui providers`: every embedding provider that can be chosen, and how it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memtui.cli.invocation import Invocation
from memtui.errors import MemtuiError
from memtui.model import ProviderListing
from memtui.report import words
from memtui.report.providers import listing_words

if TYPE_CHECKING:
    from memtui.settings import Loaded

_NAME, _STATE, _MODEL, _DIMENSIONS = 16, 13, 26, 5
_HERE = "this program"


def run_providers(invocation: Invocation) -> int:
    """Print all providers, as the settings of the memory folder make them.

    2 when the settings name one that does not exist, and the list all the same.
    """
    found = invocation.workspace_if_any()
    loaded = invocation.settings(found.root if found else None)
    from memtui.engine.doctor import provider_listings

    embedding = loaded.settings.embedding
    warnings, exit_code = list(loaded.warnings), 0
    try:
        listings = _listed(found.root, loaded) if found is not None else None
    except MemtuiError as error:
        # Whoever named a provider that does not exist wants to see those that do.
        warnings.append(str(error))
        listings, exit_code = None, error.exit_code
    if listings is None:
        listings = provider_listings(embedding)
    output = invocation.output()
    if invocation.json:
        output.document(
            {
                "requested": embedding.provider,
                "fallback": embedding.fallback,
                "providers": listings,
                "warnings": warnings,
            }
        )
        return exit_code
    for warning in warnings:
        output.note(f"memtui: {warning}")
    for line in provider_lines(listings, embedding.provider):
        output.line(output.clean(line).rstrip())
    return exit_code


def _listed(root: Path, loaded: Loaded) -> Sequence[ProviderListing]:
    """Those of a memory, with the one that answers now."""
    from memtui.engine import Engine
    from memtui.engine.doctor.checks import listed_by

    with closing(Engine.open(root, loaded.settings, write=False)) as engine:
        return listed_by(engine)


def provider_lines(listings: Sequence[ProviderListing], requested: str) -> Iterator[str]:
    """A table; below each provider what it is for now, and what was found or is missing."""
    yield (
        f"{'PROVIDER':<{_NAME}} {'STATE':<{_STATE}} {'MODEL':<{_MODEL}} "
        f"{'DIMS':>{_DIMENSIONS}} TEXT GOES TO"
    )
    for listing in listings:
        dimensions = "-" if listing.dimensions is None else str(listing.dimensions)
        model = words.ending(listing.model, _MODEL) if listing.model else "-"
        yield (
            f"{words.padded(listing.name, _NAME)} "
            f"{listing_words(listing):<{_STATE}} "
            f"{words.padded(model, _MODEL)} {dimensions:>{_DIMENSIONS}} {where_words(listing)}"
        )
        roles = role_words(listing, requested)
        hint = f" ({listing.hint})" if listing.hint else ""
        yield f"{'':<{_NAME}} {f'{roles}: ' if roles else ''}{listing.detail}{hint}"


def where_words(listing: ProviderListing) -> str:
    """Where the text goes that is embedded."""
    if listing.address:
        return listing.address
    return "a service" if listing.remote else _HERE


def role_words(listing: ProviderListing, requested: str) -> str:
    """What the provider is for now."""
    asked = f"requested ({requested})" if requested != listing.name else "requested"
    roles = (
        (listing.is_requested, asked),
        (listing.is_actual, "in use"),
        (listing.is_fallback, "fallback"),
    )
    return ", ".join(word for is_it, word in roles if is_it)
