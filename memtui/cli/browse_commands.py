"""The commands that look without a query: `care` and `chunk`."""

from __future__ import annotations

from typing import Any

import click

from memtui.cli.invocation import Invocation
from memtui.cli.options import (
    demo_option,
    foreign_options,
    place_options,
    query_vectors_option,
)
from memtui.model.browsing import CareRule

RULES = tuple(rule.value for rule in CareRule)


@click.command(short_help="Look through the notes for what needs care.")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    type=click.Choice(RULES),
    help="Only what this rule finds; may be repeated.",
)
@click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
@query_vectors_option
@foreign_options
@demo_option
@place_options
@click.pass_obj
def care(
    obj: Invocation,
    /,
    root: str | None,
    as_json: bool,
    demo: bool,
    agent: str | None,
    index: str | None,
    query_vectors: str | None,
    **options: Any,
) -> int:
    """List what needs care: duplicates, broken links, credentials, unreachable files, and more.

    Each with its place, and the text it is compared with beside it. Nothing is written. Exits with
    0 when there is nothing to care for and with 1 when there is.
    """
    from memtui.cli.care import run_care

    called = obj.with_options(
        root=root, json=as_json, demo=demo, agent=agent, index=index, query_vectors=query_vectors
    )
    return run_care(called, options)


@click.command(short_help="Show everything that the index holds about one chunk.")
@click.argument("place")
@click.option("--queries", is_flag=True, help="Ask the queries of the history: which it answers.")
@click.option(
    "-n", "--limit", type=click.IntRange(0, 100), default=5, help="How many neighbours. [5]"
)
@click.option("--raw", is_flag=True, help="Leave control characters of notes as they are.")
@query_vectors_option
@foreign_options
@demo_option
@place_options
@click.pass_obj
def chunk(
    obj: Invocation,
    /,
    place: str,
    root: str | None,
    as_json: bool,
    demo: bool,
    agent: str | None,
    index: str | None,
    query_vectors: str | None,
    **options: Any,
) -> int:
    """Show the chunk at PLACE (PATH, PATH:12, PATH#L12, or a chunk id) from every side.

    Its terms with their document frequency, its vector, its date, the chunks most like it by
    vector and by words, and its near-duplicates. Exits with 1 when there is no such chunk.
    """
    from memtui.cli.chunk import run_chunk

    called = obj.with_options(
        root=root, json=as_json, demo=demo, agent=agent, index=index, query_vectors=query_vectors
    )
    return run_chunk(called, place, options)
