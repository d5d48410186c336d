"""`--path`, `--source`, `--after`, `--before`: the filters of the query language as options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, TypeVar

import click

from memtui.errors import SettingsError

F = TypeVar("F", bound=Callable[..., Any])

_FILTERS = ("path", "source", "after", "before")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class DayType(click.ParamType[str]):
    """A day in ISO 8601."""

    name = "YYYY-MM-DD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check `2026-02-11`."""
        text = str(value)
        try:
            if _DAY.fullmatch(text):
                return date.fromisoformat(text).isoformat()
        except ValueError as error:
            self.fail(f"{text!r} is no day: {error}", param, ctx)
        self.fail(f"{text!r} is no day such as 2026-02-11", param, ctx)


def filter_options(function: F) -> F:
    """Which files take part; each is as if it were written in the query."""
    options = (
        click.option(
            "--path",
            multiple=True,
            metavar="TEXT",
            help="Only files with this in their path, or *.",
        ),
        click.option("--source", multiple=True, metavar="NAME", help="memory or sessions."),
        click.option("--after", type=DayType(), help="Only files of this day or later."),
        click.option("--before", type=DayType(), help="Only files of an earlier day."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def filtered(query: str, options: Mapping[str, Any]) -> str:
    """The query with the filters of the options written into it.

    Raises `SettingsError` for a value that cannot be written there.
    """
    written = [query]
    for name in _FILTERS:
        values = options[name]
        for value in values if isinstance(values, tuple) else filter(None, (values,)):
            if not value or '"' in value:
                raise SettingsError(f"--{name} {value!r} cannot be looked for")
            written.append(f'{name}:"{value}"')
    return " ".join(written)
