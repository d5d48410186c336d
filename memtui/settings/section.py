"""Tables of the configuration as frozen classes: annotated fields, checked when one is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, NoReturn, Self, dataclass_transform, get_type_hints

from memtui.settings.limits import Limits, WrongValue

_MISSING: Final = object()
_HINTS: Final[dict[type, dict[str, Any]]] = {}


@dataclass(frozen=True)
class FieldInfo:
    """One field of a table: its name in a file, its default, what it is for, its limits."""

    default: Any = _MISSING
    default_factory: Callable[[], Any] | None = None
    description: str = ""
    name: str = ""
    limits: Limits = field(default_factory=Limits)
    owner: type[Section] | None = None
    attribute: str = ""

    @cached_property
    def annotation(self) -> Any:
        """What the class says that the field holds; evaluated when it is asked for."""
        assert self.owner is not None
        if self.owner not in _HINTS:
            _HINTS[self.owner] = get_type_hints(self.owner, include_extras=True)
        return _HINTS[self.owner][self.attribute]

    def value(self) -> Any:
        """The default; raises `WrongValue` for a field that has none."""
        if self.default_factory is not None:
            return self.default_factory()
        if self.default is _MISSING:
            raise WrongValue("missing", "Field required")
        return self.default


def Field(
    *,
    default: Any = _MISSING,
    default_factory: Callable[[], Any] | None = None,
    description: str = "",
    name: str = "",
    **limits: Any,
) -> Any:
    """A field of a `Section`, or the limits of a part of one within `Annotated`.

    `name` is what it is called in a file where that is no name for an attribute; `limits` are
    those of `Limits`.
    """
    return FieldInfo(default, default_factory, description, name, Limits(**limits))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(Field,))
class Section:
    """A table of the configuration: unknown keys, wrong types, NaN and infinity are errors.

    Made with keywords, or with `model_validate` of a mapping as a file has it. Values are of
    exactly the annotated types, but for fields with `strict=False`. Raises `ValidationError`.
    """

    model_fields: ClassVar[dict[str, FieldInfo]] = {}
    """By the name of the attribute, in the order of the class, those of its base first."""

    def __init_subclass__(cls) -> None:
        """Take the fields off the class."""
        own = {
            attribute: _field(cls, attribute, cls.__dict__.get(attribute, _MISSING))
            for attribute in _annotated(cls)
        }
        cls.model_fields = {**cls.model_fields, **own}

    def __init__(self, **values: Any) -> None:
        self._fill(values, None)

    @classmethod
    def model_validate(cls, values: Mapping[str, Any], *, strict: bool | None = None) -> Self:
        """Check values by name; `strict=False` also reads numbers and switches out of text."""
        made = cls.__new__(cls)
        made._fill(values, strict)
        return made

    def _fill(self, values: Mapping[str, Any], strict: bool | None) -> None:
        from memtui.settings.checking import checked, refused

        left = dict(values)
        for attribute, info in type(self).model_fields.items():
            known = next((n for n in (info.name, attribute) if n in left), None)
            try:
                value = checked(info, left.pop(known), strict) if known else info.value()
            except WrongValue as error:
                raise refused(type(self), info.name, error) from None
            object.__setattr__(self, attribute, value)
        for name in left:
            raise refused(
                type(self), name, WrongValue("extra_forbidden", "Extra inputs are not permitted")
            )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be removed")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({held})"


def _field(owner: type[Section], attribute: str, given: Any) -> FieldInfo:
    info = given if isinstance(given, FieldInfo) else FieldInfo(given)
    return replace(info, owner=owner, attribute=attribute, name=info.name or attribute)


def _annotated(owner: type[Section]) -> tuple[str, ...]:
    """The names that the class itself annotates, not those of its base."""
    return tuple(vars(owner).get("__annotations__", ()))
