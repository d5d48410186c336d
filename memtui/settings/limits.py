"""What a value of the configuration is held to, and what is said of one that is not within."""

from __future__ import annotations

from typing import Any, NamedTuple


class WrongValue(ValueError):
    """A value that cannot be taken: a word for the kind of mistake, and a sentence."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class ValidationError(ValueError):
    """The first wrong value of a table: where, the kind of mistake, and a sentence."""

    def __init__(self, place: str, kind: str, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.place, self.kind, self.message = place, kind, message


class Limits(NamedTuple):
    """The range of a number, the length and form of a text, and how exactly types are taken."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    pattern: str | None = None
    """All of a text has to match."""
    min_length: int | None = None
    max_length: int | None = None
    strict: bool | None = None
    """Without it as the table: exactly the type. `False` also takes what stands for one."""


def within(value: Any, limits: Limits) -> None:
    """Raise `WrongValue` for a number or a text that is not within the limits."""
    if isinstance(value, str):
        _text_within(value, limits)
        return
    if limits.ge is not None and not value >= limits.ge:
        message = f"Input should be greater than or equal to {limits.ge}"
        raise WrongValue("greater_than_equal", message)
    if limits.gt is not None and not value > limits.gt:
        raise WrongValue("greater_than", f"Input should be greater than {limits.gt}")
    if limits.le is not None and not value <= limits.le:
        message = f"Input should be less than or equal to {limits.le}"
        raise WrongValue("less_than_equal", message)


def _text_within(text: str, limits: Limits) -> None:
    if limits.min_length is not None and len(text) < limits.min_length:
        message = f"String should have at least {_characters(limits.min_length)}"
        raise WrongValue("string_too_short", message)
    if limits.max_length is not None and len(text) > limits.max_length:
        message = f"String should have at most {_characters(limits.max_length)}"
        raise WrongValue("string_too_long", message)
    if limits.pattern is not None:
        import re

        if re.fullmatch(limits.pattern, text) is None:
            message = f"String should match pattern '{limits.pattern}'"
            raise WrongValue("string_pattern_mismatch", message)


def _characters(count: int) -> str:
    return f"{count} character{'' if count == 1 else 's'}"
