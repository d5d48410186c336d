"""An explanation as it leaves the screen: as text, as Markdown, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memtui.tui.explaining.page import Page, page_text
from memtui.tui.glyphs import ASCII

if TYPE_CHECKING:
    from memtui.report.explained import Explained
    from memtui.report.export import Format


def explained_of(page: Page) -> Explained | None:
    """Everything that was found out by now; `None` before the engine said anything."""
    from memtui.report.explained import Explained

    findings = page.findings
    if findings.inquiry is None:
        return None
    return Explained(
        page.ranked,
        page.ranking or page.ranked.ranking,
        findings.inquiry,
        findings.least,
        findings.words,
        findings.passages,
    )


def page_as(page: Page, format_: Format) -> str | None:
    """A page as a whole document; `None` where only the ranking's own part is known."""
    from memtui.report.export import exported

    explained = explained_of(page)
    if explained is None:
        return None
    return exported(explained, format_, ascii_only=page.glyphs is ASCII)


def text_of_page(page: Page) -> str:
    """A page as plain text: everything that is known, if only what the ranking knows."""
    from memtui.report.export import Format

    return page_as(page, Format.TEXT) or page_text(page)
