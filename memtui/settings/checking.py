"""Checking one value against the annotation of its field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from memtui.settings.limits import Limits, ValidationError, WrongValue, within
from memtui.settings.section import FieldInfo, Section

_PLAIN: Final = Limits()
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]+(?:_[0-9]+)*(?:\.0+)?\s*", re.ASCII)
_ON: Final = frozenset({"1", "on", "t", "true", "y", "yes"})
_OFF: Final = frozenset({"0", "off", "f", "false", "n", "no"})
_BOOLEAN: Final = "Input should be a valid boolean"
_TOO_LONG: Final = "Unable to parse input string as an integer, exceeded maximum size"
_NOT_UNICODE: Final = "Input should be a valid string, unable to parse raw data as a unicode string"
_LONGEST_NUMBER: Final = 4300
"""Digits; Python refuses to read more."""


def checked(info: FieldInfo, value: Any, strict: bool | None) -> Any:
    """The value as the field holds it; raises `WrongValue`.

    `strict` goes before what the field says of itself; `None` leaves it to the field.
    """
    return _as(info.annotation, value, info.limits, strict)


def refused(owner: type[Section], name: str, error: WrongValue) -> ValidationError:
    """The error of a table with a wrong value."""
    return ValidationError(f"{owner.__name__}.{name}", error.kind, error.message)


def _as(annotation: Any, value: Any, limits: Limits, strict: bool | None) -> Any:
    if isinstance(value, str) and not (annotation is str and limits == _PLAIN):
        _require_unicode(value)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        own = next((part.limits for part in metadata if isinstance(part, FieldInfo)), _PLAIN)
        return _as(inner, value, _both(limits, own), strict)
    if origin in (Union, UnionType):
        return _one_of(get_args(annotation), value, limits, strict)
    if origin is Literal:
        return _literal(get_args(annotation), value)
    exact = limits.strict is not False if strict is None else strict
    if origin is tuple:
        return _strings(get_args(annotation)[0], value, exact, strict)
    if origin is dict:
        return _table(get_args(annotation)[1], value, strict)
    return _plain(annotation, value, limits, exact, strict)


def _require_unicode(text: str) -> None:
    """Refuse bytes that are no UTF-8, as an environment may have them."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise WrongValue("string_unicode", _NOT_UNICODE) from None


def _both(outer: Limits, inner: Limits) -> Limits:
    """Limits of a field together with those within its annotation."""
    given = {name: one for name, one in outer._asdict().items() if one is not None}
    return inner._replace(**given)


def _one_of(kinds: tuple[Any, ...], value: Any, limits: Limits, strict: bool | None) -> Any:
    """The value as the first kind that it fits; the mistake told of is that of the first kind."""
    if value is None and NoneType in kinds:
        return None
    first: WrongValue | None = None
    for kind in kinds:
        if kind is NoneType:
            continue
        try:
            return _as(kind, value, limits, strict)
        except WrongValue as error:
            first = first or error
    assert first is not None
    raise first


def _literal(choices: tuple[Any, ...], value: Any) -> Any:
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    raise WrongValue("literal_error", f"Input should be {_choices(choices)}")


def _choices(choices: tuple[Any, ...]) -> str:
    *before, last = (repr(str(choice)) for choice in choices)
    return f"{', '.join(before)} or {last}" if before else last


def _strings(kind: Any, value: Any, exact: bool, strict: bool | None) -> tuple[Any, ...]:
    if not isinstance(value, tuple if exact else (tuple, list)):
        raise WrongValue("tuple_type", "Input should be a valid tuple")
    return tuple(_as(kind, one, _PLAIN, strict) for one in value)


def _table(kind: Any, value: Any, strict: bool | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise WrongValue("dict_type", "Input should be a valid dictionary")
    return {_text(name, exact=True): _as(kind, one, _PLAIN, strict) for name, one in value.items()}


def _plain(annotation: Any, value: Any, limits: Limits, exact: bool, strict: bool | None) -> Any:
    if issubclass(annotation, Section):
        return _section(annotation, value, strict)
    if issubclass(annotation, Enum):
        return _member(annotation, value, exact)
    if annotation is bool:
        return _switch(value, exact)
    taken: int | float | str
    if annotation is str:
        taken = _text(value, exact)
    else:
        taken = _integer(value, exact) if annotation is int else _number(value, exact)
    within(taken, limits)
    return taken


def _section(kind: type[Section], value: Any, strict: bool | None) -> Section:
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        message = f"Input should be a valid dictionary or instance of {kind.__name__}"
        raise WrongValue("model_type", message)
    try:
        return kind.model_validate(value, strict=strict)
    except ValidationError as error:
        raise WrongValue(error.kind, error.message) from None


def _member(kind: type[Enum], value: Any, exact: bool) -> Enum:
    if isinstance(value, kind):
        return value
    if not exact and isinstance(value, str):
        for member in kind:
            if member.value == value:
                return member
    if exact:
        raise WrongValue("is_instance_of", f"Input should be an instance of {kind.__name__}")
    choices = _choices(tuple(member.value for member in kind))
    raise WrongValue("enum", f"Input should be {choices}")


def _text(value: Any, exact: bool) -> str:
    if isinstance(value, str):
        return str(value)
    if not exact and isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise WrongValue("string_unicode", _NOT_UNICODE) from None
    raise WrongValue("string_type", "Input should be a valid string")


def _switch(value: Any, exact: bool) -> bool:
    if isinstance(value, bool):
        return value
    if not exact and isinstance(value, str | int | float):
        word = str(int(value) if value in (0, 1) else value).lower()
        if word in _ON | _OFF:
            return word in _ON
        if not isinstance(value, float) or value.is_integer():
            raise WrongValue("bool_parsing", f"{_BOOLEAN}, unable to interpret input")
    raise WrongValue("bool_type", _BOOLEAN)


def _integer(value: Any, exact: bool) -> int:
    message = "Input should be a valid integer"
    if isinstance(value, int) and not (exact and isinstance(value, bool)):
        return int(value)
    if exact or not isinstance(value, str | float):
        raise WrongValue("int_type", message)
    if isinstance(value, float):
        return _whole(value)
    if _INTEGER.fullmatch(value) is None:
        raise WrongValue("int_parsing", f"{message}, unable to parse string as an integer")
    if len(value) > _LONGEST_NUMBER:
        raise WrongValue("int_parsing_size", _TOO_LONG)
    return int(value.partition(".")[0])


def _whole(value: float) -> int:
    if not math.isfinite(value):
        raise WrongValue("finite_number", "Input should be a finite number")
    if not value.is_integer():
        message = "Input should be a valid integer, got a number with a fractional part"
        raise WrongValue("int_from_float", message)
    return int(value)


def _number(value: Any, exact: bool) -> float:
    message = "Input should be a valid number"
    if isinstance(value, str) and not exact:
        try:
            # Digits of other scripts stand for nothing in a file.
            number = float(value if value.isascii() else "")
        except ValueError:
            message = f"{message}, unable to parse string as a number"
            raise WrongValue("float_parsing", message) from None
    elif isinstance(value, int | float) and not (exact and isinstance(value, bool)):
        try:
            number = float(value)
        except OverflowError:
            raise WrongValue("float_type", message) from None
    else:
        raise WrongValue("float_type", message)
    if not math.isfinite(number):
        raise WrongValue("finite_number", "Input should be a finite number")
    return number
