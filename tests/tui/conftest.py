"""What the tests of the terminal interface have in common."""

from __future__ import annotations

from tests.support.stylesheets import parse_once

parse_once()
