"""`memtui verify`: recorded answers of the agent's own program against what memtui finds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memtui.cli.invocation import Invocation
from memtui.cli.output import Output
from memtui.errors import SettingsError

if TYPE_CHECKING:
    from memtui.cli.foreign import ForeignOpening
    from memtui.engine.foreign.answers import Recording
    from memtui.engine.foreign.verify import Verdict, Verification

EXIT_AGREES, EXIT_DIFFERS = 0, 1
_SHOWN_QUERY = 44


def run_verify(invocation: Invocation, options: Mapping[str, Any]) -> int:
    """Compare every recording; 0 when all agree, 1 when one query differs.

    Raises `SettingsError` (2) for a recording that cannot be used, before any is compared.
    """
    from memtui.cli.foreign import foreign_opening
    from memtui.engine.foreign.answers import load_recording

    if not invocation.foreign:
        raise SettingsError("nothing to verify", hint="give --agent NAME or --index FILE")
    output = invocation.output()
    paths = [invocation.here() / os.path.expanduser(name) for name in options["against"]]
    recordings = [(path, load_recording(path)) for path in paths]
    opening = foreign_opening(invocation)

    def compared(path: Path, recording: Recording) -> Verification:
        return _verification(invocation, opening, path, recording, options["profile"], output)

    verifications = [(path, compared(path, recording)) for path, recording in recordings]
    if invocation.json:
        output.document(_document(verifications))
    else:
        for path, verification in verifications:
            _print(output, path, verification, everything=options["verbose"])
    agrees = all(verification.agrees for _, verification in verifications)
    return EXIT_AGREES if agrees else EXIT_DIFFERS


def _verification(
    invocation: Invocation,
    opening: ForeignOpening,
    path: Path,
    recording: Recording,
    profile: str | None,
    output: Output,
) -> Verification:
    from memtui.engine.foreign.verify import verify

    verification = verify(
        opening.target,
        recording,
        given=opening.given,
        profile=profile,
        env=invocation.env,
        progress=lambda done, total: output.progress(f"{path.name}: {done}/{total}"),
    )
    output.progress("")
    return verification


def _print(output: Output, path: Path, verification: Verification, *, everything: bool) -> None:
    agreed = sum(1 for verdict in verification.verdicts if verdict.agrees)
    total = len(verification.verdicts)
    word = output.styled("agrees", 32) if verification.agrees else output.styled("DIFFERS", 31)
    output.line(
        f"{output.clean(path.name)}: {word}, {agreed} of {total} queries, "
        f"largest difference {_difference(verification.score_difference)}"
    )
    output.line(output.clean(f"  profile {verification.profile}: {verification.chosen_because}"))
    for note in verification.notes:
        output.line(output.clean(f"  {note}"))
    for verdict in verification.verdicts:
        if everything or not verdict.agrees:
            output.line(output.clean(_verdict_line(verdict)))


def _verdict_line(verdict: Verdict) -> str:
    shown = verdict.query if len(verdict.query) <= _SHOWN_QUERY else verdict.query[:43] + "…"
    if verdict.agrees:
        legs = ""
        if verdict.from_legs is not None:
            legs = f", from recorded legs {_difference(verdict.from_legs)}"
        return f"  ok  {shown!r}: {_difference(verdict.score_difference)}{legs}"
    return f"  {verdict.stage}  {shown!r}: {verdict.detail}"


def _difference(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def _document(verifications: list[tuple[Path, Verification]]) -> dict[str, Any]:
    return {
        "agrees": all(verification.agrees for _, verification in verifications),
        "recordings": [
            {
                "path": path,
                "agrees": verification.agrees,
                "profile": verification.profile,
                "chosen_because": verification.chosen_because,
                "notes": verification.notes,
                "score_difference": verification.score_difference,
                "queries": [
                    {
                        "query": verdict.query,
                        "agrees": verdict.agrees,
                        "results": verdict.results,
                        "score_difference": verdict.score_difference,
                        "from_legs": verdict.from_legs,
                        "stage": verdict.stage,
                        "detail": verdict.detail,
                    }
                    for verdict in verification.verdicts
                ],
            }
            for path, verification in verifications
        ],
    }
