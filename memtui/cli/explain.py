"""`memtui explain`: why one place is in a list or not, and what would bring it in."""

from __future__ import annotations

import click

from memtui.cli.common_options import Invocation, command
from memtui.cli.output import BOLD, EXIT_NOTHING, EXIT_OK
from memtui.cli.search import answer, file_states
from memtui.cli.session import open_reading
from memtui.engine.places import parse_place
from memtui.errors import QueryError, SettingsError
from memtui.model import Reason
from memtui.report.explanation import Explained, Part, Subject, find_part, report_of
from memtui.report.export import Format, explanation_document, exported, format_of, save
from memtui.report.json_text import document_text
from memtui.report.layout import Layout
from memtui.report.words import WORDS, count, nothing_words
from memtui.settings.containment import is_inside

_NO_SUCH_FILE = (Reason.NO_FILE, Reason.NOT_A_NOTE, Reason.OUTSIDE_ROOT, Reason.NOT_INDEXED)
_NOTHING = (*_NO_SUCH_FILE, Reason.NO_CHUNK, Reason.NO_CHUNK_AT_LINE)


@command("explain")
def explain(
    invocation: Invocation,
    query: str,
    rank: int | None,
    chunk: str | None,
    words: bool,
    passages: bool,
    format_name: str | None,
    file: str | None,
    force: bool,
) -> int:
    """Show why a result, a line or a file is in the list of QUERY or not, with every number."""
    if rank is not None and chunk is not None:
        raise click.UsageError("--rank and --chunk exclude each other")
    if invocation.json and format_name not in {None, Format.JSON}:
        raise SettingsError(f"--json and --format {format_name} exclude each other")
    path = None if file is None or file == "-" else invocation.path(file)
    if force and path is None:
        raise SettingsError("--force needs --output FILE")
    format_ = Format.TEXT
    if format_name is not None or invocation.json:
        format_ = Format(format_name or Format.JSON)
    elif path is not None:
        format_ = format_of(path)
    with open_reading(invocation, warm=True) as session:
        root = session.engine.root
        if path is not None and is_inside(str(path), str(root)):
            raise SettingsError(
                f"--output {file} is inside the memory {root}: memtui never writes there",
                hint="name a file outside of it",
            )
        ranked, warnings = answer(session, query)
        output = invocation.output()
        subject: Subject = ""
        if chunk is not None:
            place = parse_place(chunk)
            if not place.path.strip() or place.line == 0:
                hint = "PATH, PATH:12 or PATH#L12; the first line is 1"
                raise QueryError(f"--chunk {chunk!r} is not a place", hint=hint)
            subject = place
        elif (rank or 1) <= len(ranked.hits):
            subject = ranked.hits[(rank or 1) - 1].chunk.id
        if format_ is not Format.JSON:
            output.warn(warnings)
        explained = Explained(ranked, session.ranking, subject=subject)
        if not subject:
            results = WORDS["no_rank"]["results"].format(count(len(ranked.hits), "result"))
            why = results if ranked.hits else nothing_words(ranked)
            missing = f"there is no rank {rank or 1}: {why}"
            if format_ is Format.JSON:
                document = explanation_document(explained, warnings=warnings)
                output.document({**document, "missing": missing})
            else:
                output.note(f"memtui: {missing}")
            return EXIT_NOTHING
        left_out = {Part.WORDS: not words, Part.PASSAGES: not passages}
        try:
            for part in (part for part in Part if not left_out.get(part)):
                explained = find_part(
                    session.engine, explained, part, lambda step: output.progress(f"memtui: {step}")
                )
        finally:
            output.progress("")
        inquiry = explained.inquiry
        assert inquiry is not None
        ui, text = session.loaded.settings.ui, ""
        ascii_only = ui.ascii_only(invocation.env)
        if format_ is Format.TEXT and path is None:
            layout = Layout(output.clean, output.wrap_width, ascii_only or not output.unicode)
            lines = layout.lines(report_of(explained))
            output.lines([(line.text, BOLD)] if line.strong else line.text for line in lines)
        elif format_ is Format.JSON:
            status = session.engine.index.status()
            warnings, states = [*map(invocation.completed, warnings)], file_states(status)
            document = explanation_document(explained, states=states, warnings=warnings)
            document["provider_state"] = status.provider
            if inquiry.chunk is None:
                document["missing"] = f"the index holds no chunk at {inquiry.place}"
            elif explained.explanation is None:
                place_words = f"{inquiry.citation} among its first {ranked.pool.limit}"
                document["missing"] = f"nothing finds {place_words}"
            text = document_text(document) + "\n"
        else:
            # Pictures are as dark as the screen is, or would be.
            dark = not ui.is_light(invocation.env)
            text = exported(explained, format_, dark=dark, ascii_only=ascii_only)
        if path is not None:
            save(path, text, force=force)
            output.note(f"memtui: wrote {output.clean(str(path))}")
        else:
            output.whole(text)
    failure = inquiry.first_failure
    is_nothing = failure is not None and failure.reason in _NOTHING
    return EXIT_NOTHING if inquiry.chunk is None and is_nothing else EXIT_OK
