"""Values and documents as JSON: every number and name as in the code."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

SCHEMA_VERSION: Final = 1
"""Version of every JSON document; rises when a field changes its meaning or goes away."""
_NOT_IN_JSON = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(value: Any) -> Any:
    """Return a value as JSON has it: enums by value, times as ISO 8601, NaN and infinity as null.

    Raises TypeError for a value that JSON has no form for.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name.rstrip("_"): plain(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"not a value for JSON: {type(value).__name__}")


def document_text(document: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """Return a document as JSON that no terminal acts on, with the version of its schema.

    Control and bidi characters are escaped.
    """
    whole = {"schema_version": SCHEMA_VERSION, **document}
    text = json.dumps(plain(whole), ensure_ascii=False, allow_nan=False, indent=indent)
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
