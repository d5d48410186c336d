"""Texts that a service refuses, told apart from those of the same call that it embeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from memtui.errors import ProviderError
from memtui.model import Failure

if TYPE_CHECKING:
    from memtui.embedding.provider import Vector, Vectors


_REFUSALS: Final = frozenset({Failure.TOO_LARGE, Failure.BAD_REQUEST})


class TextsRefused(ProviderError):
    """Some texts of a call were refused by a service that answers; the others are embedded.

    `made` and `refused` hold the vector, or the failure, of each text by its place in the call.
    """

    def __init__(
        self, made: Mapping[int, Vector], refused: Mapping[int, ProviderError], first: ProviderError
    ) -> None:
        super().__init__(first.message, hint=first.hint, failure=first.failure)
        self.made = made
        self.refused = refused


def is_refusal(error: ProviderError) -> bool:
    """Whether a text may be the cause of a failure, and the others of its call are not."""
    return error.failure in _REFUSALS


def bisect_rejected(
    embed: Callable[[Sequence[str]], Vectors],
    texts: Sequence[str],
    error: ProviderError,
    harmless: str,
) -> TextsRefused:
    """Embed the halves of a call that failed by `error`, and their halves where those fail, too.

    Raises `error` when the service refuses `harmless` as well, so that no text is to blame, and
    whatever else `embed` raises.
    """
    try:
        embed([harmless])
    except ProviderError:
        raise error from None
    made: dict[int, Vector] = {}
    refused: dict[int, ProviderError] = {}
    failed = [(range(len(texts)), error)]
    while failed:
        places, why = failed.pop()
        if len(places) == 1:
            refused[places[0]] = why
            continue
        middle = (len(places) + 1) // 2
        for half in (places[:middle], places[middle:]):
            try:
                made.update(zip(half, embed([texts[place] for place in half]), strict=True))
            except ProviderError as again:
                if not is_refusal(again):
                    raise
                failed.append((half, again))
    return TextsRefused(made, refused, refused[min(refused)])
