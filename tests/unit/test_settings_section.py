"""Tables of the configuration: exact types, what stands for one, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from memtui.model import Fusion
from memtui.settings import RankingSettings, Settings, UiSettings
from memtui.settings.limits import ValidationError


def checked(table: str, key: str, value: Any, strict: bool | None) -> Any:
    settings = Settings.model_validate({table: {key: value}}, strict=strict)
    return getattr(getattr(settings, table), key)


@pytest.mark.parametrize(
    ("table", "key", "given", "taken"),
    [
        ("ranking", "k", " 7\n", 7),
        ("ranking", "k", "+1_0", 10),
        ("ranking", "k", "8.00", 8),
        ("ranking", "k", 3.0, 3),
        ("ranking", "vector_weight", "1e-1", 0.1),
        ("ranking", "min_score", "0.5", 0.5),
        ("ranking", "min_score", "off", "off"),
        ("ranking", "fusion", "rrf", Fusion.RRF),
        ("ui", "mouse", "OFF", False),
        ("ui", "mouse", "1", True),
        ("memory", "ignore", ["a", "b"], ("a", "b")),
        ("embedding", "model", None, None),
    ],
)
def test_text_stands_for_a_value_where_types_are_not_exact(
    table: str, key: str, given: Any, taken: Any
) -> None:
    found = checked(table, key, given, strict=False)
    assert (type(found), found) == (type(taken), taken)


@pytest.mark.parametrize(
    ("table", "key", "given", "strict", "message"),
    [
        ("ranking", "k", "7", None, "valid integer"),
        ("ranking", "k", True, None, "valid integer"),
        ("ranking", "k", "1.5", False, "unable to parse string as an integer"),
        ("ranking", "k", "٣", False, "unable to parse string as an integer"),
        ("ranking", "k", "1__0", False, "unable to parse string as an integer"),
        ("ranking", "k", "9" * 5000, False, "exceeded maximum size"),
        ("ranking", "k", 1.5, False, "fractional part"),
        ("ranking", "k", 201, None, "less than or equal to 200"),
        ("ranking", "rrf_k", 0, None, "greater than 0"),
        ("ranking", "rrf_k", "inf", False, "finite number"),
        ("ranking", "rrf_k", 10**400, None, "valid number"),
        ("ranking", "min_score", "none", False, "unable to parse string as a number"),
        ("ranking", "fusion", "sum", False, "'weighted_sum', 'relative_score' or 'rrf'"),
        ("ui", "mouse", 2, False, "unable to interpret input"),
        ("ui", "preview", "left", None, "'auto', 'right', 'below' or 'off'"),
        ("ui", "theme", "", None, "at least 1 character"),
        ("ui", "theme", "x" * 65, None, "at most 64 characters"),
        ("ui", "theme", "\udc80", False, "unicode string"),
        ("embedding", "provider", "none\n", None, "match pattern"),
        ("memory", "ignore", "a", False, "valid tuple"),
        ("memory", "ignore", ("a", 1), None, "valid string"),
        ("keymap", "bindings", [], None, "valid dictionary"),
        ("ui", "colour", "red", None, "Extra inputs are not permitted"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    table: str, key: str, given: Any, strict: bool | None, message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        checked(table, key, given, strict)


def test_tables_are_values() -> None:
    one, same = UiSettings(theme="nord"), UiSettings.model_validate({"theme": "nord"})
    assert one == same
    assert hash(one) == hash(same)
    assert one != UiSettings()
    assert one != RankingSettings()
    assert "theme='nord'" in repr(one)
    with pytest.raises(AttributeError, match="theme cannot be changed"):
        setattr(one, "theme", "x")  # noqa: B010 - the type checker refuses the statement
    with pytest.raises(AttributeError, match="theme cannot be removed"):
        delattr(one, "theme")


def test_a_default_that_is_made_is_made_for_each() -> None:
    assert Settings().profiles is not Settings().profiles
    assert Settings() == Settings()
