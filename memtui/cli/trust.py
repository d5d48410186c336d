"""Trusting a workspace's own configuration file."""

from __future__ import annotations

from typing import Any

from memtui.cli.invocation import Invocation
from memtui.errors import SettingsError
from memtui.settings import SettingsProblems, Source, StateFolder
from memtui.settings.files import Problem
from memtui.settings.load import file_layer, is_trusted, project_file, protected_keys, revoke, trust
from memtui.settings.shown import shown_value


def run_trust(invocation: Invocation, *, dry_run: bool, revoke_it: bool) -> int:
    """Record (or forget) that the workspace's configuration may set protected keys."""
    root = invocation.workspace().root
    problems: list[Problem] = []
    file = project_file(root, problems)
    fatal = [problem for problem in problems if problem.fatal]
    if fatal:
        raise SettingsProblems(fatal)
    if file is None:
        raise SettingsError(f"no .memtui.toml and no [tool.memtui] in {root}")
    layer, _ = file_layer(Source.PROJECT, file)
    keys = protected_keys(layer.values)
    state = StateFolder()
    try:
        if revoke_it and not dry_run:
            revoke(file.path, state)
        elif not dry_run:
            trust(file, state)
    except OSError as error:
        raise SettingsError(f"cannot write in {state.path}: {error.strerror}") from error
    output = invocation.output()
    allowed: list[dict[str, Any]] = [
        {"key": key, "value": shown_value(key, layer.values[key]), "place": layer.place(key)}
        for key in keys
    ]
    trusted = is_trusted(file, state)
    if invocation.json:
        output.document(
            {
                "file": file.path,
                "sha256": file.sha256,
                "trusted": trusted,
                "dry_run": dry_run,
                "keys": allowed,
            }
        )
        return 0
    output.line(output.clean(f"{file.path} is {'trusted' if trusted else 'not trusted'}"))
    for entry in allowed:
        verb = "sets" if trusted else "would set"
        output.line(output.clean(f"  {verb} {entry['key']} = {entry['value']!r}"))
    if not allowed:
        output.line("  it sets nothing that needs trust")
    return 0
