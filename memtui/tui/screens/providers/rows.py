"""The rows of the provider list, its header, and what there is to know of the chosen one."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from memtui.model.status import ProbeResult, ProviderListing
from memtui.report import providers as words
from memtui.report.words import ending
from memtui.tui import format as fmt
from memtui.tui import provider_words
from memtui.tui.glyphs import Glyphs
from memtui.tui.widgets.line_view import Fact
from memtui.tui.widgets.row_list import Row

_NAME = 16
_STATE = 13
_PLACE = 17
_LONG_PLACE = 34
_DIMENSIONS = 7
_ROOMY = 94
"""From so many cells of a row on there is room for dimensions and for any host."""


Probe = ProbeResult | str | None
"""What came of trying a provider, or what is said while it is tried."""


def provider_row(listing: ProviderListing, probe: Probe, glyphs: Glyphs) -> Row:
    """One line: state, name, model, where text goes."""
    return Row(listing.name, lambda width: _line(listing, probe, width, glyphs))


def header_line(width: int) -> Content:
    """The names of the columns, above the rows and the marker of the list."""
    width -= 2
    model, place = _columns(width)
    names = f"{'':2}{'provider':<{_NAME}} {'state':<{_STATE}} {'model':<{model}} "
    dimensions = f"{'dims':>{_DIMENSIONS - 1}} " if width >= _ROOMY else ""
    line = f"{names}{dimensions}{'text goes to':<{place}}"
    return fmt.fit(Content.styled(line, fmt.MUTED), width).pad_left(2)


def _columns(width: int) -> tuple[int, int]:
    """Cells for the model and for the place."""
    is_roomy = width >= _ROOMY
    place = _LONG_PLACE if is_roomy else _PLACE
    taken = 2 + _NAME + 1 + _STATE + 1 + 1 + place + (_DIMENSIONS if is_roomy else 0)
    return max(width - taken, 4), place


def _line(listing: ProviderListing, probe: Probe, width: int, glyphs: Glyphs) -> Content:
    tried = probe if isinstance(probe, ProbeResult) else None
    glyph, state, style = provider_words.listing_state(listing, glyphs, tried)
    model_cells, place_cells = _columns(width)
    is_there = listing.works or listing.is_actual or listing.is_requested
    place = ending(
        words.place_words(listing.address, remote=listing.remote), place_cells, glyphs.ellipsis
    )
    place_style = provider_words.place_style(listing.address, remote=listing.remote)
    parts: list[str | Content | tuple[str, str]] = [
        (f"{glyph} ", style),
        _cell(listing.name, _NAME, "bold" if is_there else fmt.MUTED),
        _cell(state, _STATE, style),
        _cell(listing.model or "", model_cells, "" if is_there else fmt.MUTED),
    ]
    if width >= _ROOMY:
        number = f"{listing.dimensions} d" if listing.dimensions else ""
        parts.append((f"{number:>{_DIMENSIONS - 1}} ", fmt.MUTED))
    parts.append((place, place_style if is_there else fmt.MUTED))
    return fmt.fit(Content.assemble(*parts), width)


def _cell(text: str, cells: int, style: str) -> Content:
    content = Content.styled(words.brief(text), style)
    return content.truncate(cells, ellipsis=True, pad=True).pad_right(1)


# --- the chosen one -------------------------------------------------------------------------------


def provider_facts(
    listing: ProviderListing, probe: Probe, glyphs: Glyphs, failed: str = ""
) -> list[Fact]:
    """What there is to know of a provider; `failed` is why another answers instead of it."""
    facts: list[Fact] = [
        ("about", _about(listing)),
        ("text", _where(listing, glyphs)),
        ("found" if listing.works else "missing", _found(listing, glyphs)),
    ]
    if failed:
        told = Content.styled(f"{glyphs.error} {failed}", "$state-error")
        facts.append(("failed", told))
    if listing.hint and not listing.works:
        facts.append(("next", Content.styled(words.brief(listing.hint), "bold")))
    facts.append(("try" if probe is None else "tried", _tried(listing, probe, glyphs)))
    return facts


def _about(listing: ProviderListing) -> Content:
    model = words.model_words(listing.model, listing.dimensions)
    return Content.assemble(
        (words.brief(listing.name), "bold"),
        f"  {words.brief(listing.summary)}" if listing.summary else "",
        (f"  {model}" if model else "", fmt.MUTED),
    )


def _found(listing: ProviderListing, glyphs: Glyphs) -> Content:
    glyph, style = glyphs.passed, "$state-ok"
    if not listing.works:
        glyph, _, style = provider_words.listing_state(listing, glyphs)
    told = words.brief(listing.detail) or ("everything it needs" if listing.works else "not known")
    return Content.assemble((f"{glyph} ", style), told)


def _where(listing: ProviderListing, glyphs: Glyphs) -> Content:
    if not listing.remote and not listing.address:
        return Content("stays in this program; nothing is sent anywhere")
    place = words.place_words(listing.address, remote=True)
    if words.is_on_this_machine(listing.address):
        return Content.assemble("is sent to ", (place, "bold"), ", a program on this machine")
    return Content.assemble(
        (f"{glyphs.degraded} the text of your notes and queries is sent to ", "$state-warn"),
        (place, "$state-warn bold"),
    )


def _tried(listing: ProviderListing, probe: Probe, glyphs: Glyphs) -> Content:
    if isinstance(probe, str):
        return Content.styled(words.brief(probe), fmt.MUTED)
    if probe is None:
        asks = words.place_words(listing.address, remote=listing.remote)
        told = "loads the model" if asks == words.HERE else f"asks {asks} for the vector of a word"
        return Content.assemble(("t", "$primary bold"), (f" {told}", fmt.MUTED))
    if probe.works:
        model = words.model_words(probe.model, probe.dimensions)
        took = ""
        if probe.milliseconds is not None:
            # A word is looked up in less than the shortest time that is written as a number.
            time = (
                fmt.duration(probe.milliseconds / 1e3) if probe.milliseconds >= 1 else "under 1 ms"
            )
            took = f"answers in {time}"
        said = "  ".join(part for part in (took, model) if part) or words.brief(probe.detail)
        return Content.assemble((f"{glyphs.passed} ", "$state-ok"), (said, "$state-ok"))
    failed = Content.assemble((f"{glyphs.error} {words.brief(probe.detail)}", "$state-error"))
    hint = words.brief(probe.hint)
    # The hint may end the detail already.
    return failed if not hint or hint in words.brief(probe.detail) else failed + f"  {hint}"


def found_line(found: Sequence[ProviderListing]) -> Content:
    """What the first run offers beside the embedded model."""
    names = [words.brief(each.name) for each in found]
    last = f" and {names[-1]}" if len(names) > 1 else ""
    listed = ", ".join(names[:-1] if last else names) + last
    return Content.assemble(
        "Found besides the model that comes with memtui: ", (listed, "bold"), "."
    )
