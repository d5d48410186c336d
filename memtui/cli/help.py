"""`memtui help TOPIC` and `memtui completions`."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from memtui.cli.invocation import Invocation
from memtui.cli.options import on_memory
from memtui.errors import MemtuiError
from memtui.settings.actions import ACTIONS

TOPICS = (
    *("agents", "browse", "care", "config", "exit-codes", "keys"),
    *("providers", "ranking", "search", "sessions"),
)
_FOLDER = Path(__file__).parents[1] / "data" / "help"


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(("bash", "fish", "zsh")))
@on_memory()
def completions(invocation: Invocation, shell: str) -> int:
    """Print the completion script of SHELL: `eval "$(memtui completions bash)"`."""
    completion = get_completion_class(shell)
    assert completion is not None, "every shell of the choice has one"
    program = click.get_current_context().find_root().command
    script = completion(program, {}, "memtui", "_MEMTUI_COMPLETE").source()
    if not invocation.json:
        for line in script.splitlines():
            invocation.output().data(line)
        return 0
    return invocation.respond({"shell": shell, "script": script})


@click.command("help")
@click.argument("topic", required=False, type=click.Choice(TOPICS))
@on_memory()
def help_(invocation: Invocation, topic: str | None) -> int:
    """Explain TOPIC.

    Topics: agents, browse, care, config, exit-codes, keys, providers, ranking, search, sessions.
    """
    if topic is None:
        overview = click.get_current_context().find_root().get_help()
        text = f"{overview}\n\nTopics (memtui help TOPIC): {', '.join(TOPICS)}"
    else:
        text = topic_text(topic)
    if invocation.output().out_is_terminal and not invocation.json:
        _use_configured_pager(invocation)
        click.echo_via_pager(text)
        return 0
    document = {"topic": topic, "topics": TOPICS, "text": text}
    return invocation.respond(document, text.rstrip("\n").split("\n"))


def topic_text(topic: str) -> str:
    """Return the text of a topic; the keys are those of the table of actions."""
    if topic != "keys":
        return (_FOLDER / f"{topic}.md").read_text("utf-8")
    width = max(len(action.id) for action in ACTIONS)
    rows = (
        f"  {' '.join(action.keys):<16}{action.id:<{width}}  {action.help}\n" for action in ACTIONS
    )
    return (
        "KEYS\n\n"
        "Keys that are not characters (f2, ctrl+y, ...) work while a query is typed, too.\n"
        'Change them in [keymap]: "mmr.toggle" = "M,f2"; presets: default, vim, emacs.\n\n'
        + "".join(rows)
    )


def _use_configured_pager(invocation: Invocation) -> None:
    """Show help even when the configuration is broken; then $PAGER decides alone."""
    try:
        pager = invocation.settings(None).settings.pager
    except MemtuiError as error:
        invocation.output().note(f"memtui: {error.message}")
        return
    if pager:
        os.environ["PAGER"] = pager
