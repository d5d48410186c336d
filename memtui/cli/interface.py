"""`memtui [FOLDER]` and `memtui demo` open the terminal interface; help and completions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from memtui.cli.common_options import COMMANDS, VECTORS_NEED_AN_AGENT, Invocation, command
from memtui.errors import MemtuiError, SettingsError, WorkspaceNotFound
from memtui.settings.actions import ACTIONS

TOPICS = tuple(COMMANDS["help"]["arguments"][0]["type"].split("|"))
_FOLDER = Path(__file__).parents[1] / "data" / "help"


@command("open")
def open_command(invocation: Invocation, folder: str) -> int:
    """Open FOLDER in the terminal interface."""
    return open_folder(invocation, folder)


@command("demo")
def demo(invocation: Invocation) -> int:
    """Open a bundled sample memory in the terminal interface."""
    return open_folder(invocation.with_options(demo=True), None)


def open_folder(invocation: Invocation, folder: str | None) -> int:
    """Open the terminal interface on `folder`, the demo, or the memory that is found.

    Where no memory is found, a person at a terminal is offered the demo. With `--agent` or
    `--index` it is opened on that agent's index.
    """
    if folder is not None and invocation.root is not None:
        raise SettingsError("FOLDER and --root exclude each other")
    if folder is not None and invocation.foreign:
        raise SettingsError(
            "FOLDER excludes --agent and --index", hint="--root FOLDER gives the agent's workspace"
        )
    if invocation.json:
        raise SettingsError(
            "--json needs a command", hint="`memtui search QUERY --json`, `memtui --help`"
        )
    if not at_terminal():
        raise SettingsError(
            "the terminal interface needs a terminal",
            hint="`memtui search QUERY` and `memtui status` work without one",
        )
    if invocation.foreign:
        from memtui.cli.session import agent_session

        # What cannot be opened is one line and no screen.
        session = agent_session(invocation)
        return invocation.interface(session.workspace, session.loaded, foreign=session.engine)
    if invocation.query_vectors is not None:
        raise SettingsError(VECTORS_NEED_AN_AGENT)
    is_given = folder is not None or invocation.root is not None
    is_named = is_given or invocation.demo or bool(invocation.env.get("MEMTUI_ROOT"))
    try:
        workspace = invocation.workspace(folder)
    except WorkspaceNotFound as error:
        if is_given:
            raise
        if not is_named:
            from memtui.index.foreign.agents import agents_here

            agents = agents_here(invocation.env, invocation.home)
            if any(agent.database is not None for agent in agents):
                return invocation.interface(None, invocation.settings(None), choose=True)
        output = invocation.output()
        output.note(f"memtui: {error.message}")
        output.note(f"  {error.hint}")
        if not click.confirm("Look around in the bundled demo instead?", default=True, err=True):
            raise click.exceptions.Exit(error.exit_code) from error
        invocation = invocation.with_options(demo=True)
        workspace = invocation.workspace()
    loaded = invocation.settings(workspace.root)
    choose = not is_named and not invocation.demo and workspace.root != invocation.here
    return invocation.interface(workspace, loaded, demo=invocation.demo, choose=choose)


def at_terminal() -> bool:
    """Tell whether a person sits in front of it: stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@command("completions")
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


@command("help")
def help_(invocation: Invocation, topic: str | None) -> int:
    """Explain TOPIC.

    Topics: agents, browse, care, config, exit-codes, keys, providers, ranking, search, sessions.
    """
    if topic is None:
        overview = click.get_current_context().find_root().get_help()
        text = f"{overview}\n\nTopics (memtui help TOPIC): {', '.join(TOPICS)}"
    elif topic == "keys":
        width = max(len(action.id) for action in ACTIONS)
        text = (_FOLDER / "keys.md").read_text("utf-8")
        for action in ACTIONS:
            text += f"  {' '.join(action.keys):<16}{action.id:<{width}}  {action.help}\n"
    else:
        text = (_FOLDER / f"{topic}.md").read_text("utf-8")
    output = invocation.output()
    if not output.out_is_terminal or invocation.json:
        document = {"topic": topic, "topics": TOPICS, "text": text}
        return invocation.respond(document, text.rstrip("\n").split("\n"))
    # Help is shown even when the configuration is broken; then $PAGER decides alone.
    try:
        pager = invocation.settings(None).settings.pager
    except MemtuiError as error:
        output.note(f"memtui: {error.message}")
    else:
        if pager:
            os.environ["PAGER"] = pager
    click.echo_via_pager(text)
    return 0
