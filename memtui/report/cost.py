"""What embedding costs, in words for people."""

from __future__ import annotations

from typing import Final

_SMALLEST: Final = 0.0001


def price_words(price: float | None, currency: str = "", as_of: str = "") -> str:
    """A sum in words: `about 0.03 USD (list price of 2026-11)`, `price not known`.

    `None` is unknown, which is not free. `currency` is empty for the user's own price, `as_of`
    (the day or month of the price list) for all but list prices.
    """
    if price is None:
        return "price not known"
    if not price:
        return "nothing is charged"
    if price < _SMALLEST:
        about = f"less than {_SMALLEST}"
    else:
        about = f"about {price:,.2f}" if price >= 0.01 else f"about {price:.4f}"
    listed = f" (list price of {as_of})" if as_of else ""
    return f"{about} {currency}".rstrip() + listed
